"""What every set of decisions offers."""

from __future__ import annotations

import base64
import binascii
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dpoco import _core
from dpoco._validation import LARGEST_SCALE, FloatArray, exponent, float_array, real_in

# Longer arrays are saved encoded.
_LONGEST_LIST = 64


class Domain(ABC):
    """A compact convex set of decisions in R^d; an immutable, unhashable value.

    Attributes
    ----------
    dimension : int
        Number of coordinates d.
    p : float
        Exponent in [1, inf] of the norm in which distances of decisions are measured; 2 if a set
        says nothing else.
    """

    dimension: int
    p: float = 2.0
    _fields: ClassVar[tuple[str, ...]]
    _engine: _core.Domain
    _center: FloatArray

    @abstractmethod
    def diameter(self, order: float | None = None) -> float:
        """Largest ``||a - b||_order`` over the set; ``order`` None is the geometry's ``p``."""

    @abstractmethod
    def max_norm(self, order: float | None = None) -> float:
        """Largest ``||a||_order`` over the set; ``order`` None is the geometry's ``p``."""

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

    @property
    def center(self) -> FloatArray:
        """Centre of the set, shape (d,), read-only: where learners start."""
        return self._center

    def contains(self, x: Any, tolerance: float = 1e-9) -> bool:
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

    def project(self, x: Any) -> FloatArray:
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

    def minimize_linear(self, g: Any) -> FloatArray:
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

    def to_dict(self) -> dict[str, Any]:
        """Parameters as a JSON-able dict; :func:`dpoco.domains.from_dict` restores them exactly."""
        return {"type": type(self).__name__, **self._arguments()}

    @abstractmethod
    def _arguments(self) -> dict[str, Any]:
        """Return the constructor arguments in JSON-able form."""

    @classmethod
    def _from_arguments(cls, arguments: Mapping[str, Any]) -> Domain:
        if set(arguments) != set(cls._fields):
            raise ValueError(f"{cls.__name__} needs exactly the keys {sorted(cls._fields)}")
        return cls(**arguments)

    def _finite(self, name: str, value: Any) -> FloatArray:
        array = float_array(name, value, (self.dimension,))
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite")
        return array

    def _order(self, order: float | None) -> float:
        return self.p if order is None else exponent("order", order)

    def _freeze(self, engine: _core.Domain, **fields: Any) -> None:
        """Set the fields once, at construction."""
        center = engine.center()
        center.flags.writeable = False
        for name, value in {**fields, "_engine": engine, "_center": center}.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
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

    def __deepcopy__(self, memo: dict[int, Any]) -> Domain:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from dpoco.domains import from_dict

        return from_dict, (self.to_dict(),)


def _evaluable(value: Any) -> str:
    """Text that evaluates to `value` without any import."""
    if isinstance(value, np.ndarray):
        items = value.tolist()
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
    array += 0.0  # -0.0 becomes 0.0, so that equal sets also print and save equally
    array.flags.writeable = False
    return array


def array_to_json(x: FloatArray) -> Any:
    """Return a list, or the encoding of a long array, that `array_from_json` restores exactly."""
    if x.size <= _LONGEST_LIST:
        return x.tolist()
    return {"float64": base64.b64encode(x.astype("<f8").tobytes()).decode("ascii")}


def array_from_json(name: str, value: Any, columns: int | None = None) -> Any:
    """Return the array, or list, that was saved; a matrix if it has a number of columns."""
    if isinstance(value, Mapping):
        try:
            raw = base64.b64decode(value["float64"], validate=True)
            value = np.frombuffer(raw, dtype="<f8").astype(np.float64)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise ValueError(f"{name} is not a list or an encoded array") from None
    if columns is not None and np.ndim(value) == 1 and np.size(value) % columns == 0:
        return np.reshape(value, (-1, columns))
    return value
