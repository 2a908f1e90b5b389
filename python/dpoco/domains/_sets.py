"""The sets: l_p ball, box, simplex, and hulls of listed vertices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dpoco import _core
from dpoco._clipping import lp_norm
from dpoco._validation import (
    FloatArray,
    exponent,
    positive_float,
    positive_int,
    require_memory,
)
from dpoco.domains._base import Domain, array_from_json, array_to_json, bounded_array
from dpoco.domains._polytope_shape import OUTWARD

LARGEST_DIMENSION = 10**9


class LpBall(Domain):
    """The ball ``{x : ||x||_p <= radius}`` in R^dimension.

    Parameters
    ----------
    dimension
        Number of coordinates, at least 1.
    p
        Exponent in [1, inf]; within 1e-12 of 1 it is 1, from 1e12 on it is inf.
    radius
        In [1e-100, 1e100].

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or of the wrong type.
    """

    _fields: ClassVar[tuple[str, ...]] = ("dimension", "p", "radius")
    radius: float

    def __init__(self, dimension: int, p: float = 2.0, radius: float = 1.0) -> None:
        size = positive_int("dimension", dimension, maximum=LARGEST_DIMENSION)
        power = exponent("p", p)
        length = positive_float("radius", radius)
        require_memory({"the centre of the domain": float(size)})
        self._freeze(_core.LpBall(size, power, length), dimension=size, p=power, radius=length)

    def diameter(self, order: float | None = None) -> float:
        """``2 radius d^max(0, 1/order - 1/p)``: the set is symmetric."""
        return 2.0 * self.max_norm(order)

    def max_norm(self, order: float | None = None) -> float:
        """``radius d^max(0, 1/order - 1/p)``, by Hoelder's inequality.

        Attained by a unit vector for ``order >= p`` and by the diagonal otherwise.
        """
        gap = 1.0 / self._order(order) - 1.0 / self.p
        return self.radius * math.pow(self.dimension, max(0.0, gap))

    def radius_from_center(self) -> float:
        """``radius d^max(0, 1/2 - 1/p)``: the centre is 0."""
        return self.max_norm(2.0)

    def _arguments(self) -> dict[str, Any]:
        p = "inf" if math.isinf(self.p) else self.p
        return {"dimension": self.dimension, "p": p, "radius": self.radius}

    @classmethod
    def _from_arguments(cls, arguments: Mapping[str, Any]) -> Domain:
        if arguments.get("p") == "inf":
            arguments = {**arguments, "p": math.inf}
        return super()._from_arguments(arguments)


class Box(Domain):
    """The box ``{x : lower <= x <= upper}``, with the geometry of the largest coordinate (p = inf).

    Parameters
    ----------
    lower, upper
        Bounds, shape (d,) each, finite, at most 1e100 in magnitude, ``lower <= upper`` everywhere.
        Copied; the attributes are read-only.

    Raises
    ------
    ValueError, TypeError
        If a bound is empty, not finite, too large, or the bounds differ in shape or cross.
    """

    _fields: ClassVar[tuple[str, ...]] = ("lower", "upper")
    p = math.inf
    lower: FloatArray
    upper: FloatArray

    def __init__(self, lower: Any, upper: Any) -> None:
        low = bounded_array("lower", lower, (None,))
        high = bounded_array("upper", upper, low.shape)
        if not (low <= high).all():
            raise ValueError("lower must not exceed upper in any coordinate")
        self._freeze(_core.Box(low, high), dimension=low.shape[0], lower=low, upper=high)

    def diameter(self, order: float | None = None) -> float:
        """``||upper - lower||_order``, attained by opposite corners."""
        return lp_norm(self.upper - self.lower, self._order(order))

    def max_norm(self, order: float | None = None) -> float:
        """``||max(|lower|, |upper|)||_order``, attained by the corner farthest from 0."""
        return lp_norm(np.maximum(np.abs(self.lower), np.abs(self.upper)), self._order(order))

    def radius_from_center(self) -> float:
        """Half the diagonal."""
        return 0.5 * self.diameter(2.0)

    @property
    def intrinsic_dimension(self) -> int:
        """Number of coordinates whose bounds differ."""
        return int((self.lower < self.upper).sum())

    def _arguments(self) -> dict[str, Any]:
        return {"lower": array_to_json(self.lower), "upper": array_to_json(self.upper)}

    @classmethod
    def _from_arguments(cls, arguments: Mapping[str, Any]) -> Domain:
        return super()._from_arguments({k: array_from_json(k, v) for k, v in arguments.items()})


class Simplex(Domain):
    """The simplex ``{x >= 0 : sum x = scale}`` in R^dimension, with the geometry of ``l_1``.

    Parameters
    ----------
    dimension
        Number of coordinates, at least 1 (a single point for 1).
    scale
        Sum of the coordinates, in [1e-100, 1e100].

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or of the wrong type.
    """

    _fields: ClassVar[tuple[str, ...]] = ("dimension", "scale")
    p = 1.0
    scale: float

    def __init__(self, dimension: int, scale: float = 1.0) -> None:
        size = positive_int("dimension", dimension, maximum=LARGEST_DIMENSION)
        total = positive_float("scale", scale)
        require_memory({"the centre of the domain": float(size)})
        self._freeze(_core.Simplex(size, total), dimension=size, scale=total)

    def diameter(self, order: float | None = None) -> float:
        """``scale 2^(1/order)``, the distance of two vertices; 0 in dimension 1.

        A distance is convex in both points, so its maximum is at vertices.
        """
        power = self._order(order)
        return 0.0 if self.dimension == 1 else self.scale * math.pow(2.0, 1.0 / power)

    def max_norm(self, order: float | None = None) -> float:
        """``scale``, attained by the vertices, in every norm."""
        self._order(order)
        return self.scale

    def radius_from_center(self) -> float:
        """``scale sqrt(1 - 1/d)``, the distance of a vertex from the barycentre."""
        return self.scale * math.sqrt(1.0 - 1.0 / self.dimension)

    @property
    def intrinsic_dimension(self) -> int:
        """``d - 1``."""
        return self.dimension - 1

    def _arguments(self) -> dict[str, Any]:
        return {"dimension": self.dimension, "scale": self.scale}


# Beyond, the pairs of vertices are not gone through for a diameter.
_MOST_PAIRED = 3000


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
    p = 1.0
    vertices: FloatArray
    _known: dict[float, float]

    def __init__(self, vertices: Any) -> None:
        points = bounded_array("vertices", vertices, (None, None))
        engine = _core.VertexSet(points)
        self._freeze(engine, dimension=points.shape[1], vertices=points, _known={})

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
        return {"dimension": self.dimension, "vertices": array_to_json(self.vertices)}

    @classmethod
    def _from_arguments(cls, arguments: Mapping[str, Any]) -> Domain:
        if set(arguments) != {"dimension", "vertices"}:
            raise ValueError(f"{cls.__name__} needs exactly the keys ['dimension', 'vertices']")
        d = positive_int("dimension", arguments["dimension"])
        self = cls(array_from_json("vertices", arguments["vertices"], d))
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
        return largest * OUTWARD if largest > 0.0 else 0.0
    from_center = 2.0 * max(lp_norm(row, order) for row in points - center)
    across = lp_norm(np.ascontiguousarray(points.max(axis=0) - points.min(axis=0)), order)
    return min(from_center, across) * OUTWARD
