"""Nets of decisions over a domain's bounding box, and the compiled transforms of their values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.accounting._experts.net_shape import bounding_box, shape_of, spacings
from dpoco.accounting._experts.nets import levels_of
from dpoco.accounting.lipschitz import LipschitzParameters
from dpoco.domains import Box, Domain, Simplex

__all__ = ["net_of", "net_transform"]

FloatArray = NDArray[np.float64]

# Without enforcement differences are bounded only so far that no sum of them can overflow.
_NO_LIMIT = 1e140


def net_of(domain: Domain, resolution: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return net points of the box and the decisions they stand for, shape (N, d), read-only.

    In row-major order of the axes of positive length; decisions are the projections.
    """
    if isinstance(domain, Simplex) and domain.dimension == 2:
        first = np.linspace(0.0, domain.scale, resolution[0])
        net = np.stack([first, domain.scale - first], axis=1)
    else:
        lower, upper = bounding_box(domain)
        counts = iter(resolution)
        axes = [
            np.linspace(low, high, next(counts) if low < high else 1)
            for low, high in zip(lower, upper, strict=True)
        ]
        grids = np.meshgrid(*axes, indexing="ij")
        net = np.stack([grid.ravel() for grid in grids], axis=1)
    net = np.ascontiguousarray(net)
    inside = isinstance(domain, Box) or domain.dimension == 1
    points = net if inside else np.array([domain.project(point) for point in net])
    for array in (net, points):
        array.flags.writeable = False
    return net, points


def net_transform(
    domain: Domain, parameters: LipschitzParameters, *, enforce: bool
) -> _core.NetTransform | None:
    """Return the transform that `parameters` ask for; None for a single point."""
    counts = parameters.resolution
    if math.prod(counts) == 1:
        return None
    steps = spacings(shape_of(domain), counts)
    limits = [parameters.lipschitz * h if enforce else _NO_LIMIT for h in steps]
    if parameters.transform == "parent":
        return _core.NetTransform.parent(levels_of(counts), limits)
    if parameters.transform == "increments":
        return _core.NetTransform.increments(counts[0], limits[0])
    return _core.NetTransform.grid_laplacian(*counts, *limits)
