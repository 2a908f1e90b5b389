"""The box that a net of decisions fills: its sides, and how wide the decision set is.

A set of decisions lies in its bounding box; losses are extended to the box by projecting, which
keeps their Lipschitz constant. Sides of length 0 are left out. The simplex in two dimensions is a
segment and gets a net of its own, along it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, positive_float, positive_int
from dpoco.domains import Box, Domain, LpBall, Polytope, Simplex

__all__ = [
    "NetShape",
    "bounding_box",
    "checked_counts",
    "checked_slope",
    "shape_of",
    "spacings",
]

LARGEST_NET = 2**24
LARGEST_SIDE = 2**12  # of a net in the plane, whose constants take matrices of its size


@dataclass(frozen=True, slots=True)
class NetShape:
    """Lengths of the axes that a net extends along (0, 1 or 2), and the set's l2 diameter."""

    sides: tuple[float, ...]
    diameter: float


def bounding_box(domain: Domain) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper corner of the smallest box around `domain`."""
    if isinstance(domain, Box):
        return domain.lower, domain.upper
    if isinstance(domain, Polytope):
        return domain.bounding_box
    if isinstance(domain, LpBall):
        reach = np.full(domain.dimension, domain.radius)
        return -reach, reach
    assert isinstance(domain, Simplex)
    low = domain.scale if domain.dimension == 1 else 0.0
    return np.full(domain.dimension, low), np.full(domain.dimension, domain.scale)


def shape_of(domain: Domain) -> NetShape:
    """Return the shape of the net of a domain, or raise if it has too many dimensions.

    Raises
    ------
    TypeError
        For something that is not a domain.
    NotImplementedError
        For sets of more than two dimensions: the noise of a net grows with a power of its size.
    """
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
    if isinstance(domain, Simplex) and domain.dimension == 2:
        length = domain.scale * math.sqrt(2.0)
        return NetShape((length,), length)
    if domain.dimension > 2 and not isinstance(domain, Box):
        raise NotImplementedError("nets are for domains of one or two dimensions")
    lower, upper = bounding_box(domain)
    sides = tuple(float(side) for side in upper - lower if side > 0.0)
    if len(sides) > 2:
        raise NotImplementedError("nets are for domains of one or two dimensions")
    return NetShape(sides, min(domain.diameter(2.0), math.hypot(*sides)))


def checked_counts(shape: NetShape, resolution: Any) -> tuple[int, ...]:
    """Return points an axis from an int for all axes or a sequence of ints, or raise."""
    axes = len(shape.sides)
    if isinstance(resolution, Sequence) and not isinstance(resolution, (str, bytes)):
        values = tuple(resolution)
        if len(values) != axes:
            raise ValueError(f"resolution must be one int for each of {axes} axes, or one for all")
    else:
        values = (resolution,) * axes
    counts = tuple(positive_int("resolution", value, maximum=LARGEST_NET) for value in values)
    if any(count < 2 for count in counts):
        raise ValueError("resolution must be at least 2 points an axis")
    if axes == 2 and max(counts) > LARGEST_SIDE:
        raise ValueError(f"resolution must be at most {LARGEST_SIDE} points an axis in the plane")
    if math.prod(counts) > LARGEST_NET:
        raise ValueError(f"resolution must give at most {LARGEST_NET} points")
    return counts


def checked_slope(shape: NetShape, lipschitz: Any) -> float:
    """Return G, or raise if no loss of that slope over the shape can be computed with."""
    slope = positive_float("lipschitz", lipschitz)
    if shape.sides:
        for side in (min(shape.sides), shape.diameter):
            if not 1e-90 <= slope * side <= 1e90:
                raise ValueError(
                    "lipschitz times every side of the domain must be in [1e-90, 1e90]"
                )
    return slope


def spacings(shape: NetShape, counts: tuple[int, ...]) -> tuple[float, ...]:
    """Return the distances of neighbouring points along each axis."""
    return tuple(side / (count - 1) for side, count in zip(shape.sides, counts, strict=True))
