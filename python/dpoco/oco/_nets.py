"""Nets of decisions over a domain's bounding box, losses on them, and their compiled transforms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco import _core
from dpoco._validation import FloatArray, float_array
from dpoco.accounting.nets import NetShape, bounding_box, levels_of, spacings
from dpoco.domains import Box, Domain, Simplex
from dpoco.privacy.mechanisms.bounds import NetDifferences

__all__ = ["NetLosses", "net_of", "net_transform"]

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
    steps = spacings(NetShape(net.sides, 0.0), net.counts)
    limits = [net.lipschitz * h if enforced else _NO_LIMIT for h in steps]
    if net.transform == "parent":
        return _core.NetTransform.parent(levels_of(net.counts), limits)
    if net.transform == "increments":
        return _core.NetTransform.increments(net.counts[0], limits[0])
    return _core.NetTransform.grid_laplacian(*net.counts, *limits)


@dataclass(frozen=True, eq=False)
class NetLosses:
    """The losses of a run: one array of all values on the net, or a list of single losses."""

    points: FloatArray
    array: FloatArray | None
    each: list[Any]

    @classmethod
    def of(cls, losses: Any, points: FloatArray) -> NetLosses:
        """Return `losses` in one of the two forms; a sequence without a callable is an array."""
        if callable(losses):
            raise TypeError("losses must be one loss a round; got a single callable")
        if not isinstance(losses, np.ndarray) and isinstance(losses, Iterable):
            losses = list(losses)
            if any(callable(loss) for loss in losses):
                return cls(points, None, losses)
            if not losses:
                losses = np.empty((0, len(points)))
        return cls(points, float_array("losses", losses, (None, len(points))), [])

    def __len__(self) -> int:
        return len(self.each) if self.array is None else len(self.array)

    def values(self, part: slice) -> FloatArray:
        """Return the values of some rounds on the net, shape (rounds, N)."""
        if self.array is not None:
            return self.array[part]
        shape = (len(self.points),)
        out = np.empty((len(self.each[part]), *shape))
        for row, loss in zip(out, self.each[part], strict=True):
            # Copied before the next one is asked: a callable may return the same array each time.
            row[:] = float_array("losses", loss(self.points) if callable(loss) else loss, shape)
        return out

    def at(self, decision: FloatArray) -> FloatArray:
        """Return the losses of one decision, shape (T,): 0 where not finite."""
        if decision.shape != self.points.shape[1:]:
            raise ValueError(f"decision must have shape {self.points.shape[1:]}")
        nearest = int(np.argmin(np.sum((self.points - decision) ** 2, axis=1)))

        def value(loss: Any) -> float:
            if not callable(loss):
                return float(loss[nearest])
            return float(float_array("losses", loss(decision[None, :]), (1,))[0])

        if self.array is not None:
            values = self.array[:, nearest]
        else:
            values = np.array([value(loss) for loss in self.each])
        return np.where(np.isfinite(values), values, 0.0)
