"""Nets of decisions over a domain's bounding box, and the compiled transforms of their values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.accounting.nets import bounding_box, levels_of
from dpoco.domains import Box, Domain, Simplex
from dpoco.privacy.mechanisms.bounds import NetDifferences

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


def net_transform(net: NetDifferences, *, enforced: bool) -> _core.NetTransform | None:
    """Return the transform of a net, with bounded differences or not; None for a single point."""
    if net.size == 0:
        return None
    steps = [side / (count - 1) for side, count in zip(net.sides, net.counts, strict=True)]
    limits = [net.lipschitz * h if enforced else _NO_LIMIT for h in steps]
    if net.transform == "parent":
        return _core.NetTransform.parent(levels_of(net.counts), limits)
    if net.transform == "increments":
        return _core.NetTransform.increments(net.counts[0], limits[0])
    return _core.NetTransform.grid_laplacian(*net.counts, *limits)
