"""Sets of decisions: their base, and l_p ball, box, simplex and hulls of listed vertices."""

from __future__ import annotations

import base64
import binascii
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core
from dpoco._clipping import lp_norm
from dpoco._validation import (
    LARGEST_SCALE,
    Fields,
    FloatArray,
    Named,
    exponent,
    float_array,
    positive_float,
    positive_int,
    real_in,
    require_memory,
)
from dpoco.domains._polytope_shape import OUTWARD

# Longer arrays are saved in base64.
_LONGEST_LIST = 64


class Geometry(Protocol):
    """Sizes of a set on which bounds on losses depend."""

    @property
    def dimension(self) -> int:
        """Number of coordinates."""

    @property
    def dual_exponent(self) -> float:
        """Exponent of the norm that gradients are measured in."""

    def diameter(self, order: float | None = None) -> float:
        """Bound on the distance of two points in ``l_order``."""

    def max_norm(self, order: float | None = None) -> float:
        """Bound on the norm of a point in ``l_order``."""


class Domain(ABC):
    """A compact convex set of decisions in R^d; an immutable, unhashable value.

    Attributes
    ----------
    dimension : int
        Number of coordinates d.
    p : float
        Exponent in [1, inf] of the norm in which distances of decisions are measured; 2 unless a
        set says otherwise.
    center : array of shape (d,)
        Centre of the set, read-only; learners start there.
    """

    dimension: int
    p: float = 2.0
    _fields: ClassVar[tuple[str, ...]]
    _engine: _core.Domain
    center: FloatArray

    @abstractmethod
    def diameter(self, order: float | None = None) -> float:
        """Largest ``||a - b||_order`` over the set; ``order`` None is the geometry's ``p``.

        Parameters
        ----------
        order
            Exponent in [1, inf].

        Returns
        -------
        float
            In the units of the decisions. Never too small, up to rounding; see the class.
        """

    @abstractmethod
    def max_norm(self, order: float | None = None) -> float:
        """Largest ``||a||_order`` over the set; ``order`` None is the geometry's ``p``.

        Parameters
        ----------
        order
            Exponent in [1, inf].

        Raises
        ------
        ValueError, TypeError
            For another exponent.
        """

    @abstractmethod
    def radius_from_center(self) -> float:
        """Largest Euclidean distance of a point of the set from its `center`."""

    @property
    def intrinsic_dimension(self) -> int:
        """Dimension of the smallest affine space that holds the set."""
        return self.dimension

    @property
    def dual_exponent(self) -> float:
        """Exponent q = p/(p - 1) of the norm in which gradients are measured."""
        if self.p == 1.0:
            return math.inf
        return 1.0 if math.isinf(self.p) else self.p / (self.p - 1.0)

    def contains(self, x: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Whether `x` lies in the set, up to `tolerance` relative to the set's size.

        Parameters
        ----------
        x
            Point, shape (d,). A point with a non-finite entry is never contained.
        tolerance
            Non-negative relative slack.
        """
        slack = real_in("tolerance", tolerance, "[0, inf)")
        return self._engine.contains(float_array("x", x, (self.dimension,)), slack)

    def project(self, x: ArrayLike) -> FloatArray:
        """Euclidean projection: the point of the set nearest to `x` in ``l_2``.

        Parameters
        ----------
        x
            Finite point, shape (d,).

        Returns
        -------
        ndarray
            Shape (d,), float64. Exact up to rounding; O(d log d), and for balls with
            1 < p < inf, p != 2, about ten Newton sweeps of O(d).
        """
        return self._engine.project(self._finite("x", x))

    def minimize_linear(self, g: ArrayLike) -> FloatArray:
        """Minimiser of ``<g, v>`` over the set, in O(d).

        Ties go to the lowest index; the centre for ``g = 0``.

        Parameters
        ----------
        g
            Finite direction, shape (d,), of any magnitude.

        Returns
        -------
        ndarray
            Shape (d,), float64.
        """
        return self._engine.minimize_linear(self._finite("g", g))

    def to_dict(self) -> Fields:
        """Parameters as a JSON-able dict; :func:`dpoco.domains.from_dict` restores them exactly."""
        return {"type": type(self).__name__, **self._arguments()}

    @abstractmethod
    def _arguments(self) -> Fields:
        """Return the constructor arguments in JSON-able form."""

    @classmethod
    def _from_arguments(cls, arguments: Named) -> Domain:
        """Return the set that `_arguments` describes; `ValueError` or `TypeError` for others."""
        if set(arguments) != set(cls._fields):
            raise ValueError(f"{cls.__name__} needs exactly the keys {sorted(cls._fields)}")
        return cls(**arguments)

    def _finite(self, name: str, value: Any) -> FloatArray:
        """Return a finite point, or raise."""
        array = float_array(name, value, (self.dimension,))
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite")
        return array

    def _order(self, order: float | None) -> float:
        """Return the given exponent, or that of the geometry."""
        return self.p if order is None else exponent("order", order)

    def _freeze(self, engine: _core.Domain, **fields: object) -> None:
        """Set the fields once, at construction."""
        center = engine.center()
        # All learners on the set share this array.
        center.flags.writeable = False
        for name, value in {**fields, "_engine": engine, "center": center}.items():
            object.__setattr__(self, name, value)

    # Learners, plans and states share a set, and a change would invalidate certified bounds.
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(getattr(self, f), getattr(other, f)) for f in self._fields)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={_evaluable(getattr(self, name))}" for name in self._fields)
        return f"{type(self).__name__}({fields})"

    def __copy__(self) -> Domain:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Domain:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        arguments = self.to_dict()
        del arguments["type"]
        # Copies are restored like files, so that a polytope's box and extents are not computed
        # again.
        return type(self)._from_arguments, (arguments,)


def _evaluable(value: object) -> str:
    """Text that evaluates to `value` without any import."""
    if isinstance(value, np.ndarray):
        items = value.tolist()
        # Texts are compared, since 0.0 and -0.0 are equal but print differently.
        if len(items) > 3 and len(set(map(repr, items))) == 1:
            return f"[{items[0]!r}] * {len(items)}"
        return repr(items)
    return "float('inf')" if value == math.inf else repr(value)


def bounded_array(name: str, value: Any, shape: tuple[int | None, ...]) -> FloatArray:
    """Return a checked copy of an array of this shape, which may not be empty, or raise."""
    if np.asarray(value).dtype.kind == "b":
        raise TypeError(f"{name} must be an array of real numbers; got bool")
    array = float_array(name, value, shape).copy()
    if array.size == 0:
        raise ValueError(f"{name} must not be empty")
    # NaN fails the comparison.
    if not (np.abs(array) <= LARGEST_SCALE).all():
        raise ValueError(f"{name} must be finite, at most {LARGEST_SCALE} in magnitude")
    # This turns -0.0 into 0.0, so that equal sets also print and save equally.
    array += 0.0
    array.flags.writeable = False
    return array


def array_to_json(x: FloatArray) -> Any:
    """Return a list, or a long array in base64, which `array_from_json` restores exactly."""
    if x.size <= _LONGEST_LIST:
        return x.tolist()
    return {"float64": base64.b64encode(x.astype("<f8").tobytes()).decode("ascii")}


def array_from_json(name: str, value: Any, columns: int | None = None) -> Any:
    """Return the saved array or list; a matrix if `columns` is given."""
    if isinstance(value, Mapping):
        try:
            raw = base64.b64decode(value["float64"], validate=True)
            value = np.frombuffer(raw, dtype="<f8").astype(np.float64)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise ValueError(f"{name} is not a list or an encoded array") from None
    # A matrix is saved row by row. An array of another size stays flat, and its shape is refused
    # later.
    if columns is not None and np.ndim(value) == 1 and np.size(value) % columns == 0:
        return np.reshape(value, (-1, columns))
    return value


LARGEST_DIMENSION = 10**9


class LpBall(Domain):
    """The ball ``{x : ||x||_p <= radius}`` in R^dimension.

    Parameters
    ----------
    dimension
        Number of coordinates, at least 1.
    p
        Exponent in [1, inf]; values within 1e-12 of 1 count as 1, values from 1e12 on as inf.
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
        # A saved file may state any dimension, and the engine allocates before other checks, so
        # memory is checked first.
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

    def _arguments(self) -> Fields:
        p = "inf" if math.isinf(self.p) else self.p
        return {"dimension": self.dimension, "p": p, "radius": self.radius}

    @classmethod
    def _from_arguments(cls, arguments: Named) -> Domain:
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
        If a bound is empty, not finite or too large, or if the bounds differ in shape or cross.
    """

    _fields: ClassVar[tuple[str, ...]] = ("lower", "upper")
    p = math.inf
    lower: FloatArray
    upper: FloatArray

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
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

    def _arguments(self) -> Fields:
        return {"lower": array_to_json(self.lower), "upper": array_to_json(self.upper)}

    @classmethod
    def _from_arguments(cls, arguments: Named) -> Domain:
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

    def _arguments(self) -> Fields:
        return {"dimension": self.dimension, "scale": self.scale}


# Largest number of vertices whose pairs are compared for a diameter.
_MOST_PAIRED = 3000


class VertexSet(Domain):
    """The convex hull of a list of points, with the geometry of ``l_1`` (p = 1).

    It suits sets with few or structured vertices: paths of a graph, schedules, subsets of items.

    Parameters
    ----------
    vertices
        Shape (N, d): one point per row, finite, entries at most 1e100 in magnitude. Copied; the
        attribute is read-only. Repeated points and points that are not vertices do no harm, but
        each one is its own candidate in a private selection.

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

    `diameter` compares all pairs, O(N^2 d). Beyond 3000 points it is an upper bound from the
    distances to the centre and the bounding box.
    """

    _fields: ClassVar[tuple[str, ...]] = ("vertices",)
    p = 1.0
    vertices: FloatArray
    _known: dict[float, float]

    def __init__(self, vertices: ArrayLike) -> None:
        points = bounded_array("vertices", vertices, (None, None))
        engine = _core.VertexSet(points)
        # A diameter takes O(N^2) time, so it is computed on demand and cached. Learners need one or
        # two orders.
        self._freeze(engine, dimension=points.shape[1], vertices=points, _known={})

    def diameter(self, order: float | None = None) -> float:
        """Largest distance of two points in l_order; an upper bound beyond 3000 (see Notes)."""
        power = self._order(order)
        if power not in self._known:
            self._known[power] = _diameter(self.vertices, self.center, power)
        return self._known[power]

    def max_norm(self, order: float | None = None) -> float:
        """Largest norm of a point of the list, since norms are convex."""
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

    def _arguments(self) -> Fields:
        return {"dimension": self.dimension, "vertices": array_to_json(self.vertices)}

    @classmethod
    def _from_arguments(cls, arguments: Named) -> Domain:
        if set(arguments) != {"dimension", "vertices"}:
            raise ValueError(f"{cls.__name__} needs exactly the keys ['dimension', 'vertices']")
        d = positive_int("dimension", arguments["dimension"])
        self = cls(array_from_json("vertices", arguments["vertices"], d))
        if self.dimension != d:
            raise ValueError("dimension must be the number of columns of vertices")
        return self


def _diameter(points: FloatArray, center: FloatArray, order: float) -> float:
    """Return the largest distance of two points, or an upper bound if there are many."""
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
                # Gaps are scaled, since powers of large or small gaps would over- or underflow.
                scaled = gaps / np.where(top > 0.0, top, 1.0)[:, None]
                sizes = top * (scaled**order).sum(axis=1) ** (1.0 / order)
            largest = max(largest, float(sizes.max()))
        return largest * OUTWARD if largest > 0.0 else 0.0
    # Both are upper bounds, by the triangle inequality and by the bounding box.
    from_center = 2.0 * max(lp_norm(row, order) for row in points - center)
    across = lp_norm(np.ascontiguousarray(points.max(axis=0) - points.min(axis=0)), order)
    return min(from_center, across) * OUTWARD
