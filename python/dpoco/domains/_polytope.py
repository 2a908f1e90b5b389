"""Bounded sets of linear inequalities."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core
from dpoco._validation import (
    LARGEST_SCALE,
    SMALLEST_SCALE,
    Fields,
    FloatArray,
    Named,
    float_array,
    positive_int,
)
from dpoco.domains import _polytope_shape as shape
from dpoco.domains._sets import Domain, array_from_json, array_to_json, bounded_array


class Polytope(Domain):
    """The polytope ``{x : matrix x <= bounds}``, with Euclidean geometry (p = 2).

    It must be bounded with a non-empty interior. Rows may be redundant. Every distinct row adds to
    the barrier that keeps the decisions of second-order learners inside, and to their regret.

    Parameters
    ----------
    matrix
        Shape (m, d): one row per inequality, finite, none zero, entries at most 1e100 in magnitude.
        Copied, as are the bounds; the attributes are read-only.
    bounds
        Shape (m,), finite, at most 1e100 in magnitude.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or of the wrong shape or type, or the set is unbounded,
        empty, without interior, or too flat for the rounding errors (from about 1e-8 of its size or
        its distance from 0 on).

    Notes
    -----
    The centre is the analytic centre, which maximises the product of the slacks of the distinct
    rows (scaled to length 1). It is found from a largest inscribed ball (a linear program) by
    Newton's method, O(m d^2) per step. The bounding box takes 2 d linear programs: seconds for d =
    100, m = 1000, a minute or more for d = 300, m = 2000. A saved set holds the results and loads
    at once.

    Projection and linear minimisation walk along the walls (a primal active-set method) in a few
    times d steps of O(m d + d^2), to about 1e-14 of the size of the set.

    `diameter`, `max_norm` and `radius_from_center` are maxima of convex functions. They are exact
    to 1e-9 if there are few vertices (d <= 12 and at most 20000 of them, by the bound for m
    inequalities). Otherwise they are upper bounds from the bounding box, never too small.
    """

    _fields: ClassVar[tuple[str, ...]] = ("matrix", "bounds")
    matrix: FloatArray
    bounds: FloatArray
    bounding_box: tuple[FloatArray, FloatArray]
    _extents: tuple[float, float, float]
    _known: dict[float, tuple[float, float, float]]
    _walls: tuple[FloatArray, FloatArray]  # distinct rows of length 1, and their bounds

    def __init__(self, matrix: ArrayLike, bounds: ArrayLike) -> None:
        a, b = _inequalities(matrix, bounds)
        rows, limits = shape.distinct_rows(a, b)
        # The sum with 0.0 turns -0.0 into 0.0.
        middle = shape.analytic_center(rows, limits, shape.interior_point(rows, limits)) + 0.0
        slack = limits - rows @ middle
        reach = shape.dikin_radius(rows, slack)
        box = np.vstack(_core.polytope_box(rows, limits, middle, reach))
        points = shape.corners(rows, slack, box)
        extents = shape.extents(middle, box, points, 2.0, reach)
        if not SMALLEST_SCALE <= extents[0] <= LARGEST_SCALE:
            raise ValueError(f"the polytope's radius must be in [1e-100, 1e100]; got {extents[0]}")
        # The bounds are rounded outward, since the box must contain the set.
        lower = np.nextafter(middle - box[0], -math.inf)
        upper = np.nextafter(middle + box[1], math.inf)
        self._build(a, b, middle, lower, upper, extents)

    def _build(
        self,
        matrix: FloatArray,
        bounds: FloatArray,
        center: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        extents: tuple[float, float, float],
    ) -> None:
        rows, limits = shape.distinct_rows(matrix, bounds)
        engine = _core.Polytope(rows, limits, center, lower, upper, extents[0])
        for array in (matrix, bounds, lower, upper):
            array.flags.writeable = False
        self._freeze(
            engine,
            dimension=matrix.shape[1],
            matrix=matrix,
            bounds=bounds,
            bounding_box=(lower, upper),
            _extents=extents,
            # Extents in other orders are computed on demand and cached, because vertices take long.
            _known={2.0: extents},
            _walls=(rows, limits),
        )

    @property
    def constraints(self) -> int:
        """Number of distinct inequalities, redundant ones included."""
        return len(self._walls[1])

    def diameter(self, order: float | None = None) -> float:
        """Upper bound of the largest distance in l_order; exact for few vertices (see Notes)."""
        return self._sizes(order)[1]

    def max_norm(self, order: float | None = None) -> float:
        """Upper bound of the largest ``||a||_order``; exact for few vertices (see Notes)."""
        return self._sizes(order)[2]

    def radius_from_center(self) -> float:
        """Upper bound of the largest distance from the centre; exact for few vertices."""
        return self._extents[0]

    def _sizes(self, order: float | None) -> tuple[float, float, float]:
        power = self._order(order)
        if power not in self._known:
            rows, limits = self._walls
            center, (lower, upper) = self.center, self.bounding_box
            box = np.vstack([center - lower, upper - center])
            points = shape.corners(rows, limits - rows @ center, box)
            # ||u||_order <= d^max(0, 1/order - 1/2) ||u||_2
            stretch = math.pow(self.dimension, max(0.0, 1.0 / power - 0.5))
            # Bounds on losses follow from these sizes, so they are rounded up.
            crude = stretch * self._extents[0] * (1.0 + 1e-12)
            radius, diameter, largest = shape.extents(center, box, points, power, crude)
            _, across, norm = (stretch * size * (1.0 + 1e-12) for size in self._extents)
            self._known[power] = radius, min(diameter, across), min(largest, norm)
        return self._known[power]

    def _arguments(self) -> Fields:
        lower, upper = self.bounding_box
        return {
            "dimension": self.dimension,
            "matrix": array_to_json(self.matrix),
            "bounds": array_to_json(self.bounds),
            "center": array_to_json(self.center),
            "lower": array_to_json(lower),
            "upper": array_to_json(upper),
            "extents": list(self._extents),
        }

    @classmethod
    def _from_arguments(cls, arguments: Named) -> Domain:
        names = ("dimension", "matrix", "bounds", "center", "lower", "upper", "extents")
        if set(arguments) != set(names):
            raise ValueError(f"{cls.__name__} needs exactly the keys {sorted(names)}")
        d = positive_int("dimension", arguments["dimension"])
        arrays = {name: array_from_json(name, arguments[name]) for name in names[1:]}
        rows = array_from_json("matrix", arguments["matrix"], d)
        matrix, bounds = _inequalities(rows, arrays["bounds"])
        if matrix.shape[1] != d:
            raise ValueError("dimension must be the number of columns of matrix")
        vectors = [float_array(name, arrays[name], (d,)).copy() for name in names[3:6]]
        center, lower, upper = vectors
        sizes = float_array("extents", arrays["extents"], (3,))
        extents = (float(sizes[0]), float(sizes[1]), float(sizes[2]))
        # Inconsistent values are refused; otherwise box and extents are used as saved.
        rows, limits = shape.distinct_rows(matrix, bounds)
        slack = limits - rows @ center
        # NaN fails the comparisons.
        if not (slack > 0.0).all() or not shape.stationarity(rows, slack) <= 1e-6:
            raise ValueError("center is not the analytic centre of the inequalities")
        below, above = center - lower, upper - center
        if not (below > 0.0).all() or not (above > 0.0).all():
            raise ValueError("lower and upper do not contain the centre")
        radius, diameter, largest = extents
        inner = max(float(below.max()), float(above.max()))
        across = float((below + above).max())
        # The saved numbers were rounded separately, possibly on another machine.
        slip = 1.0 + 1e-6
        if not inner <= radius * slip or not across <= diameter * slip <= 2.0 * radius * slip**2:
            raise ValueError("extents do not fit the bounding box")
        if not max(float(np.abs(lower).max()), float(np.abs(upper).max())) <= largest * slip:
            raise ValueError("extents do not fit the bounding box")
        self = cls.__new__(cls)
        self._build(matrix, bounds, center, lower, upper, extents)
        return self


def _inequalities(matrix: ArrayLike, bounds: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return checked copies of the rows and bounds."""
    a = bounded_array("matrix", matrix, (None, None))
    b = bounded_array("bounds", bounds, (a.shape[0],))
    if not (np.abs(a).max(axis=1) >= SMALLEST_SCALE).all():
        raise ValueError("every row of matrix must have an entry of at least 1e-100 in magnitude")
    return a, b
