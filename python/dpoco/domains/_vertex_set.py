"""The convex hull of a list of points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dpoco import _core
from dpoco._validation import LARGEST_SCALE, FloatArray, float_array, positive_int
from dpoco.domains._base import Domain, lp_norm
from dpoco.domains._sets import _array_from_json, _array_to_json

__all__ = ["VertexSet"]

# Beyond, the pairs of vertices are not gone through for a diameter.
_MOST_PAIRED = 3000
_OUTWARD = 1.0 + 1e-12


class VertexSet(Domain):
    """The convex hull of a list of points, with the geometry of ``l_1`` (p = 1).

    Suits sets with few or structured vertices: paths of a graph, schedules, subsets of items.

    Parameters
    ----------
    vertices
        Shape (N, d): one point a row, finite, entries at most 1e100 in magnitude. Copied; the
        attribute is read-only. Points that are no vertices, or repeated, are harmless, but each is
        a candidate of a private selection of its own.

    Raises
    ------
    ValueError, TypeError
        If the array is empty, not finite, too large, or of the wrong shape or type.

    Notes
    -----
    Linear minimisation takes O(N d). Projection and membership use Wolfe's method ("Finding the
    nearest point in a polytope", 1976): about d steps of O(N d + d^3), the last of them in
    double-double arithmetic, to about 1e-12 of the size of each column, whose scales may be a
    factor of 1e12 apart. The centre is the mean of the points.

    `diameter` goes through all pairs, O(N^2 d); beyond 3000 points it is an upper bound, by the
    distances from the centre and the bounding box.
    """

    _fields: ClassVar[tuple[str, ...]] = ("vertices",)
    vertices: FloatArray
    _known: dict[float, float]

    def __init__(self, vertices: Any) -> None:
        if np.asarray(vertices).dtype.kind == "b":
            raise TypeError("vertices must be an array of real numbers; got bool")
        points = float_array("vertices", vertices, (None, None)).copy()
        if points.size == 0:
            raise ValueError("vertices must have at least one row and one column")
        # NaN fails the comparison.
        if not (np.abs(points) <= LARGEST_SCALE).all():
            raise ValueError(f"vertices must be finite, at most {LARGEST_SCALE} in magnitude")
        points += 0.0  # -0.0 becomes 0.0, so that equal sets also print and save equally
        points.flags.writeable = False
        engine = _core.VertexSet(points)
        self._freeze(engine, dimension=points.shape[1], vertices=points, _known={})

    @property
    def p(self) -> float:
        """Geometry exponent: 1."""
        return 1.0

    def diameter(self, order: float | None = None) -> float:
        """Largest distance of two points in l_order; an upper bound beyond 3000 (see Notes)."""
        power = self._order(order)
        if power not in self._known:
            self._known[power] = _diameter(self.vertices, self.center, power)
        return self._known[power]

    def max_norm(self, order: float | None = None) -> float:
        """Largest norm of a point of the list: norms are convex."""
        power = self._order(order)
        return max(lp_norm(row, power) for row in self.vertices)

    def radius_from_center(self) -> float:
        """Largest Euclidean distance of a point of the list from their mean."""
        return max(lp_norm(row, 2.0) for row in self.vertices - self.center)

    @property
    def intrinsic_dimension(self) -> int:
        """Rank of the differences of the points."""
        spread = self.vertices - self.center
        size = float(np.abs(spread).max())
        return int(np.linalg.matrix_rank(spread / size)) if size > 0.0 else 0

    def _arguments(self) -> dict[str, Any]:
        return {"dimension": self.dimension, "vertices": _array_to_json(self.vertices)}

    @classmethod
    def _from_arguments(cls, arguments: Mapping[str, Any]) -> Domain:
        if set(arguments) != {"dimension", "vertices"}:
            raise ValueError(f"{cls.__name__} needs exactly the keys ['dimension', 'vertices']")
        d = positive_int("dimension", arguments["dimension"])
        points = _array_from_json("vertices", arguments["vertices"])
        if np.ndim(points) == 1 and np.size(points) % d == 0:
            points = np.reshape(points, (-1, d))
        self = cls(points)
        if self.dimension != d:
            raise ValueError("dimension must be the number of columns of vertices")
        return self


def _diameter(points: FloatArray, center: FloatArray, order: float) -> float:
    count = len(points)
    if count <= _MOST_PAIRED:
        largest = 0.0
        for i in range(count - 1):
            gaps = np.abs(points[i + 1 :] - points[i])
            if order == math.inf:
                sizes = gaps.max(axis=1)
            elif order == 1.0:
                sizes = gaps.sum(axis=1)
            else:
                top = gaps.max(axis=1)
                scaled = gaps / np.where(top > 0.0, top, 1.0)[:, None]
                sizes = top * (scaled**order).sum(axis=1) ** (1.0 / order)
            largest = max(largest, float(sizes.max()))
        return largest * _OUTWARD if largest > 0.0 else 0.0
    from_center = 2.0 * max(lp_norm(row, order) for row in points - center)
    across = lp_norm(np.ascontiguousarray(points.max(axis=0) - points.min(axis=0)), order)
    return min(from_center, across) * _OUTWARD
