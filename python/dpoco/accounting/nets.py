"""Nets of decisions: their bounding boxes, and the effect of noise on transforms on the values.

A set of decisions lies in its bounding box. Losses are extended to the box by projection, which
preserves their Lipschitz constant. Sides of length 0 are left out. The simplex in two dimensions is
a segment, and its net lies along it.

White noise z of scale 1 on M l, with M the transform, becomes noise M^+ z on the values. The regret
depends on two numbers of this Gaussian field: an upper bound on the radius of the smallest ball
around its points (in mean square distance), and E max of the field.
`dpoco.privacy.mechanisms.nets.NetDifferences` computes how far one loss moves M l.

Proofs: ``docs/privacy/lipschitz.md``. Source: Agarwal, Kale, Singh and Thakurta,
"Differentially Private and Lazy Online Convex Optimization", Lipschitz losses, for the parent
transform, with its constants corrected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpoco._validation import FloatArray, positive_float, positive_int
from dpoco.domains import Box, Domain, LpBall, Polytope, Simplex

__all__ = ["NetShape", "NoiseField", "bounding_box", "candidate_nets", "checked_counts",
           "checked_slope", "count_levels", "discretisation", "grid_variances", "net_shape",
           "noise_field", "published_sensitivity", "spacings"]  # fmt: skip

LARGEST_NET = 2**24
LARGEST_SIDE = 2**12  # of a net in the plane, whose constants require matrices of this size

# Default limit on the cost of a round: noise, transform and a draw are linear in the number of
# points, up to a logarithm.
_LARGEST_LINE = 2**16
_LARGEST_SIDE = 2**8


@dataclass(frozen=True, slots=True)
class NetShape:
    """Lengths of the axes of a net (0, 1 or 2 axes), and the l2 diameter of the set."""

    sides: tuple[float, ...]
    diameter: float


def bounding_box(domain: Domain) -> tuple[FloatArray, FloatArray]:
    """Return the lower and the upper corner of the smallest box around `domain`."""
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


def net_shape(domain: Domain) -> NetShape:
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
    # In the plane, the segment would be a diagonal of a box, with many net points outside of it.
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


def checked_counts(shape: NetShape, resolution: int | Sequence[int]) -> tuple[int, ...]:
    """Return points per axis from an int for all axes or a sequence of ints, or raise."""
    axes = len(shape.sides)
    if isinstance(resolution, Sequence) and not isinstance(resolution, (str, bytes)):
        if len(resolution) != axes:
            raise ValueError(f"resolution must be one int for each of {axes} axes, or one for all")
        counts = tuple(positive_int("resolution", each, maximum=LARGEST_NET) for each in resolution)
    else:
        counts = (positive_int("resolution", resolution, maximum=LARGEST_NET),) * axes
    if any(count < 2 for count in counts):
        raise ValueError("resolution must be at least 2 points an axis")
    if axes == 2 and max(counts) > LARGEST_SIDE:
        raise ValueError(f"resolution must be at most {LARGEST_SIDE} points an axis in the plane")
    if math.prod(counts) > LARGEST_NET:
        raise ValueError(f"resolution must give at most {LARGEST_NET} points")
    return counts


def checked_slope(shape: NetShape, lipschitz: float) -> float:
    """Return G, or raise if losses of this slope would overflow on the shape."""
    slope = positive_float("lipschitz", lipschitz)
    lengths = (min(shape.sides), shape.diameter) if shape.sides else ()
    if not all(1e-90 <= slope * length <= 1e90 for length in lengths):
        raise ValueError("lipschitz times every side of the domain must be in [1e-90, 1e90]")
    return slope


def candidate_nets(shape: NetShape, transform: str) -> list[tuple[int, ...]]:
    """Return the numbers of points per axis to compare, with small prime factors.

    Two axes get nearly equal spacings, because the largest spacing decides how far the nearest
    point is.
    """
    if not shape.sides:
        return [()]
    if transform == "parent":
        levels = 16 if len(shape.sides) == 1 else 8
        return [(2**k + 1,) * len(shape.sides) for k in range(levels + 1)]
    if len(shape.sides) == 1:
        return [(n,) for n in _smooth(_LARGEST_LINE)]
    long = 0 if shape.sides[0] >= shape.sides[1] else 1
    sizes = _smooth(_LARGEST_SIDE)
    nets: list[tuple[int, ...]] = []
    for count in sizes:
        needed = shape.sides[1 - long] / shape.sides[long] * (count - 1) + 1.0
        other = next((n for n in sizes if n >= needed - 1e-9), _LARGEST_SIDE)
        nets.append((count, other) if long == 0 else (other, count))
    return nets


def _smooth(largest: int) -> list[int]:
    """Return 2^a, 3 2^a and 5 2^a up to `largest`, at least 2, increasing."""
    powers = [2**a for a in range(largest.bit_length())]
    # The transforms are fast for sizes with small prime factors.
    return sorted({m * p for m in (1, 3, 5) for p in powers if 2 <= m * p <= largest})


def spacings(shape: NetShape, counts: tuple[int, ...]) -> tuple[float, ...]:
    """Return the distances of neighbouring points along each axis."""
    return tuple(side / (count - 1) for side, count in zip(shape.sides, counts, strict=True))


@dataclass(frozen=True, slots=True)
class NoiseField:
    """Effect on the values of a net of noise of scale 1 on the transform.

    Attributes
    ----------
    radius : float
        Upper bound on the root of max_w (sum_j w_j v_jj - w' v w) over the simplex, with v the
        covariance of the values. It is the radius of the smallest ball that contains all points.
    maximum : float
        Upper bound on E max over the points.
    """

    radius: float
    maximum: float


def count_levels(counts: tuple[int, ...]) -> int:
    """Return k for 2^k + 1 points per axis."""
    return (counts[0] - 1).bit_length() - 1


def discretisation(shape: NetShape, counts: tuple[int, ...], lipschitz: float) -> float:
    """Return the loss per round from playing on the net: G times half a cell's diagonal.

    Every point of the box has a net point at this distance, and projection does not increase it.
    """
    return 0.5 * lipschitz * math.hypot(*spacings(shape, counts))


def published_sensitivity(shape: NetShape, counts: tuple[int, ...], lipschitz: float) -> float:
    """Return the parent transform's sensitivity as published: sqrt(C_d) G D.

    C_1 = 1 and C_2 = 2 (k + 1); D is the diameter of the decision set.
    """
    constant = 1.0 if len(counts) == 1 else 2.0 * (count_levels(counts) + 1.0)
    return math.sqrt(constant) * lipschitz * shape.diameter


def noise_field(transform: str, counts: tuple[int, ...]) -> NoiseField:
    """Return the constants of the noise; O(n_1 n_2 (n_1 + n_2)) for a grid, cached."""
    if transform == "increments":
        return _walk(counts[0])
    if transform == "grid_laplacian":
        return _grid(*counts)
    return _parent(count_levels(counts), len(counts))


@lru_cache(maxsize=256)
def _walk(points: int) -> NoiseField:
    """Return the constants of a random walk of points - 1 standard normal steps.

    The middle of its two ends has mean square distance (points - 1)/4 from all points. By Spitzer's
    identity, E max(0, S_1, ..., S_m) = sum_k E max(S_k, 0)/k.
    """
    steps = points - 1
    maximum = float(np.sum(np.arange(1, steps + 1) ** -0.5)) / math.sqrt(2.0 * math.pi)
    return NoiseField(0.5 * math.sqrt(steps), maximum)


@lru_cache(maxsize=256)
def _grid(down: int, across: int) -> NoiseField:
    """Return the constants of a grid's field; a common random shift of its noise is allowed.

    The mean square distances are least from the mean of the four corners. The bound on E max is
    best if the field is measured from a point on the way there.
    """
    variances, from_corners, offset = grid_variances(down, across)
    # Any share gives a valid bound, because a common shift does not change E max
    # (docs/privacy/lipschitz.md, "Noise of the values").
    corner_share = 0.3
    between = (1.0 - corner_share) * variances + corner_share * from_corners
    between -= corner_share * (1.0 - corner_share) * offset
    counts = np.outer(_twice(down), _twice(across)).ravel()
    quarter = (slice((down + 1) // 2), slice((across + 1) // 2))  # enough by symmetry
    maximum = min(_soft_maximum(v[quarter].ravel(), counts) for v in (variances, between))
    radius = math.sqrt(min(float(variances.max()), float(from_corners.max())))
    return NoiseField(radius, maximum)


def _twice(n: int) -> FloatArray:
    """Return, for the first half of n points in a row, the number of symmetric points of each."""
    counts = np.full((n + 1) // 2, 2.0)
    if n % 2 == 1:
        counts[-1] = 1.0
    return counts


def grid_variances(down: int, across: int) -> tuple[FloatArray, FloatArray, float]:
    """Return variances of the values of a grid, shape (down, across), from white coefficients.

    The first result is the variances of the field itself, whose values sum to 0: the diagonal of
    the pseudo-inverse of the grid's Laplacian. The others are the variances of its differences to
    the mean of its four corners, and the variance of this mean.
    """
    waves_down, values_down = _path(down)
    waves_across, values_across = _path(across)
    eigenvalues = values_down[:, None] + values_across[None, :]
    # The constant vector has no transform, because values are only known up to a common shift.
    eigenvalues[0, 0] = np.inf
    inverse = 1.0 / eigenvalues
    variances: FloatArray = (waves_down**2) @ inverse @ (waves_across**2).T
    ends_down = 0.5 * (waves_down[0] + waves_down[-1])
    ends_across = 0.5 * (waves_across[0] + waves_across[-1])
    mixed = inverse * ends_down[:, None] * ends_across[None, :]
    covariances = waves_down @ mixed @ waves_across.T
    own = float(ends_down @ mixed @ ends_across)
    return variances, variances - 2.0 * covariances + own, own


def _path(n: int) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvectors (columns) and eigenvalues of the Laplacian of a path of n points."""
    frequencies = np.arange(n) / n
    waves = np.sqrt(2.0 / n) * np.cos(np.pi * frequencies * (np.arange(n)[:, None] + 0.5))
    waves[:, 0] = math.sqrt(1.0 / n)
    return waves, 4.0 * np.sin(0.5 * np.pi * frequencies) ** 2


@lru_cache(maxsize=64)
def _parent(levels: int, axes: int) -> NoiseField:
    """Return the constants of the parent transform, where a point's variance is its depth.

    The depth is the number of bits set in the point's index, or in either of its two indices.
    """
    depths = np.arange(levels + 2.0)
    counts = np.zeros(levels + 2)
    choose = [float(math.comb(levels, m)) for m in range(levels + 1)]
    if axes == 1:
        counts[: levels + 1] = choose
        counts[1] += 1.0  # the far end, 2^k
    else:
        # A pair of bits below 2^k can be set in three ways, or not at all. On the two far edges,
        # bit 2^k is set besides the bits of the other index.
        counts[: levels + 1] = [c * 3.0**m for m, c in enumerate(choose)]
        counts[1:] += 2.0 * np.array(choose)
        counts[1] += 1.0  # the far corner
    depth = int(np.max(np.flatnonzero(counts)))
    return NoiseField(math.sqrt(depth), _soft_maximum(depths, counts))


def _soft_maximum(variances: FloatArray, counts: FloatArray) -> float:
    """Return an upper bound on E max of centred normal variables with any correlations.

    By Jensen's inequality, E max <= log(sum_j exp(b^2 v_j/2))/b for every b > 0. We take the best b
    of a fine grid.
    """
    top = float(variances[counts > 0.0].max())
    # The best b for equal variances; every other b is also valid.
    usual = math.sqrt(2.0 * math.log(float(counts.sum())) / top)
    best = math.inf
    for b in usual * np.geomspace(0.5, 3.0, 48):
        half = 0.5 * b * b
        total = float(np.sum(counts * np.exp(half * (variances - top))))
        best = min(best, (half * top + math.log(total)) / b)
    return best
