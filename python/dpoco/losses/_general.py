"""Losses that are given by gradients or matrices: linear, quadratic and custom losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, asdict, dataclass
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._clipping import record_clipper, record_flags, record_multipliers
from dpoco._validation import (
    LARGEST_SCALE,
    Fields,
    FloatArray,
    float_array,
    positive_float,
    real_float,
)
from dpoco.domains import Domain, Geometry
from dpoco.errors import StateError
from dpoco.losses._base import Loss, products

Function = Callable[[FloatArray, FloatArray], Any]


@dataclass(frozen=True)
class LinearLoss(Loss):
    """``f(theta) = <g, theta>``; a round's data are the vector g.

    Parameters
    ----------
    gradient_bound
        Vectors are clipped to ``||g||_q <= gradient_bound``, q dual to the domain's geometry.
    gradient_bound_l2
        Optional: vectors are also clipped to ``||g||_2 <= gradient_bound_l2``.

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100].
    """

    gradient_bound: float
    _: KW_ONLY
    gradient_bound_l2: float | None = None

    def lipschitz(self, domain: Geometry) -> float:
        """``gradient_bound``."""
        return self.gradient_bound

    def smoothness(self, domain: Geometry) -> float:
        """0."""
        return 0.0

    def value(self, theta: ArrayLike, features: ArrayLike, label: ArrayLike | None = None) -> Any:
        """``<features, theta>``: a number for shape (d,), shape (T,) for shape (T, d)."""
        _no_label(label)
        point = float_array("theta", theta, (None,))
        values = _rows(features, point) @ point
        return float(values) if values.ndim == 0 else values

    def gradient(
        self, theta: ArrayLike, features: ArrayLike, label: ArrayLike | None = None
    ) -> FloatArray:
        """Return a copy of `features`, shape (d,) or (T, d)."""
        _no_label(label)
        # The copy protects `features`, since the caller may change the result.
        return _rows(features, float_array("theta", theta, (None,))).copy()

    def batch_values(
        self, domain: Domain, theta: FloatArray, features: FloatArray, labels: FloatArray | None
    ) -> FloatArray:
        """Losses of one decision on many clipped vectors, shape (T,); see `Loss.batch_values`."""
        _no_label(labels)
        rows = float_array("features", features, (None, domain.dimension))
        factors = record_multipliers(domain, rows, self.gradient_bound, self.gradient_bound_l2)
        with np.errstate(invalid="ignore", over="ignore"):
            values: FloatArray = factors * products(rows, theta)
        # A margin that is not finite has a factor of 0, and 0 times infinity is NaN; such a record
        # has loss 0.
        values[factors == 0.0] = 0.0
        return values

    def _flags(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> dict[str, NDArray[np.bool_]]:
        return record_flags(
            record_multipliers(domain, records, self.gradient_bound, self.gradient_bound_l2)
        )

    def _sum_settings(self, domain: Domain, unbounded: bool) -> Fields:
        clipper = record_clipper(domain, self.gradient_bound, self.gradient_bound_l2)
        own = {"kind": "linear", "clipper": clipper}
        return {**super()._sum_settings(domain, unbounded), **own}


@dataclass(frozen=True, init=False, repr=False)
class DeclaredLoss(Loss):
    """A loss whose Lipschitz constant and smoothness are given, not computed."""

    # Arguments that are left out if they are None.
    unsaid: ClassVar[tuple[str, ...]] = ()
    lipschitz_bound: float
    smoothness_bound: float

    def lipschitz(self, domain: Geometry) -> float:
        """Return the constant given."""
        return self.lipschitz_bound

    def smoothness(self, domain: Geometry) -> float:
        """Return the constant given."""
        return self.smoothness_bound

    def to_dict(self) -> Fields:
        """Parameters as a JSON-able dict; :func:`dpoco.losses.from_dict` restores them exactly."""
        return {"type": type(self).__name__, **self._arguments()}

    def _arguments(self) -> Fields:
        own = asdict(self)
        constants = {name: own.pop(f"{name}_bound") for name in ("lipschitz", "smoothness")}
        # The constructor's names do not end in "_bound".
        said = {**constants, **own}
        return {n: v for n, v in said.items() if v is not None or n not in self.unsaid}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._arguments().items())
        return f"{type(self).__name__}({arguments})"


@dataclass(frozen=True, init=False, repr=False)
class CustomLoss(DeclaredLoss):
    """Any convex loss, from objects with ``value`` and ``gradient`` or from array functions.

    Without functions, the data of a round are such an object. With `values` and `gradients` they
    are a row of an array, and ``run``, comparisons and `dpoco.evaluation.best_fixed_decision`
    accept the loss as well.

    Parameters
    ----------
    lipschitz
        L >= ``||grad f||_q`` over the domain, q dual to the domain's geometry.
    smoothness
        beta >= ``||grad f(a) - grad f(b)||_q / ||a - b||_p``; 0 for linear losses.
    leaf_bound
        Optional: clip what a round adds to the gradient sum to this ``l_q`` norm instead of
        ``step_scale beta D + L`` (D is the domain's diameter). A smaller value means more bias and
        less noise.
    leaf_bound_l2
        Optional: also clip it to this ``l_2`` norm.
    values, gradients, hessians : callable, optional
        ``values(theta, records) -> (n,)`` and ``gradients(theta, records) -> (n, d)``, for a
        decision of shape (d,) and records of shape (n, k); pass both or none. At a kink any
        subgradient will do. The coupled leader (`dpoco.oco`) also needs
        ``hessians(theta, records) -> (n, d, d)``.
        The functions see only finite records; others count as the zero loss.

    Attributes
    ----------
    lipschitz_bound, smoothness_bound : float
        Your constants.

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100] (`smoothness` may be 0).

    Notes
    -----
    Learners that sum gradients clip them: their guarantees never depend on the declared constants.
    Learners with coupled decisions (`dpoco.oco`) use the whole function and must trust the
    constants: their guarantees say so and are not certified.
    """

    unsaid = ("values", "gradients", "hessians")
    leaf_bound: float | None
    leaf_bound_l2: float | None
    values: Function | None
    gradients: Function | None
    hessians: Function | None

    def __init__(
        self,
        lipschitz: float,
        smoothness: float,
        *,
        leaf_bound: float | None = None,
        leaf_bound_l2: float | None = None,
        values: Function | None = None,
        gradients: Function | None = None,
        hessians: Function | None = None,
    ) -> None:
        if (values is None) != (gradients is None) or (hessians is not None and values is None):
            raise TypeError("values and gradients come together, and hessians with them")
        functions = {"values": values, "gradients": gradients, "hessians": hessians}
        for name, given in functions.items():
            if given is not None and not callable(given):
                raise TypeError(f"{name} must be callable; got {type(given).__name__}")
        # A smoothness of 0 is a linear loss. The other constants must be positive, because they are
        # divisors.
        beta = real_float("smoothness", smoothness)
        if not 0.0 <= beta <= LARGEST_SCALE:
            raise ValueError(f"smoothness must be in [0, {LARGEST_SCALE}]; got {beta!r}")
        self._set(
            lipschitz_bound=positive_float("lipschitz", lipschitz),
            smoothness_bound=beta,
            leaf_bound=None if leaf_bound is None else positive_float("leaf_bound", leaf_bound),
            leaf_bound_l2=None
            if leaf_bound_l2 is None
            else positive_float("leaf_bound_l2", leaf_bound_l2),
            **functions,
        )

    def value(self, theta: ArrayLike, features: Any, label: ArrayLike | None = None) -> Any:
        """Loss of a loss object, or of a row, shape (k,), as a float; of rows, shape (T,)."""
        _no_label(label)
        if self.values is None:
            # A loss object computes its value itself, and the result is only converted.
            return float(features.value(float_array("theta", theta, (None,))))
        return self._evaluate("values", self.values, theta, features)

    def gradient(
        self, theta: ArrayLike, features: Any, label: ArrayLike | None = None
    ) -> FloatArray:
        """Gradient of a loss object, or of a row, shape (d,); of rows, shape (T, d)."""
        _no_label(label)
        if self.gradients is None:
            point = float_array("theta", theta, (None,))
            return float_array("gradient", features.gradient(point), point.shape)
        return np.asarray(self._evaluate("gradients", self.gradients, theta, features))

    def rows(self, records: ArrayLike) -> FloatArray:
        """Return records as an array of shape (T, k).

        Raises
        ------
        ValueError, TypeError
            For anything else, or without `values` and `gradients`.
        """
        if self.values is None:
            raise TypeError("run() takes arrays: this CustomLoss needs values= and gradients=")
        return float_array("records", records, (None, None))

    def of_record(self, record: Any) -> Any:
        """Return a record as an object with ``value``, ``gradient`` and maybe ``hessian``."""
        if self.values is None:
            return record
        # Functions are evaluated only on demand, since learners of gradients need no values. The
        # name loses its "s": "values" of all rows becomes "value" of one loss object.
        given = [(n, f) for n in self.unsaid if (f := getattr(self, n)) is not None]
        asked = {
            n.removesuffix("s"): partial(self._evaluate, n, f, records=record) for n, f in given
        }
        return SimpleNamespace(**asked)

    def _evaluate(self, name: str, function: Function, theta: ArrayLike, records: ArrayLike) -> Any:
        """Return a function's results for one row or all rows; 0 for a row that is not finite."""
        point = float_array("theta", theta, (None,))
        single = np.ndim(records) == 1
        rows = float_array("record", records, (None,) * (1 if single else 2))
        rows = rows[None] if single else rows
        finite = np.isfinite(rows).all(axis=1)
        # Values are numbers, gradients have shape (d,), hessians (d, d).
        shape = point.shape * self.unsaid.index(name)
        found = np.zeros((len(rows), *shape))
        # The user's functions see only finite rows, and are not called without any.
        if finite.any():
            kept = (int(finite.sum()), *shape)
            found[finite] = float_array(name, function(point, rows[finite]), kept)
        return found[0] if single else found

    def batch_values(
        self, domain: Domain, theta: FloatArray, features: FloatArray, labels: FloatArray | None
    ) -> FloatArray:
        """Losses of one decision, or of one for each row, shape (T,); nothing is clipped.

        Raises
        ------
        TypeError
            Without `values` and `gradients`; evaluate the loss objects one by one.
        """
        rows = self.rows(features)
        _no_label(labels)
        if np.ndim(theta) == 1:
            return np.asarray(self.value(theta, rows))
        # Decisions may change rarely, so the functions are called once for each run of equal
        # decisions.
        changes = np.flatnonzero(np.any(theta[1:] != theta[:-1], axis=1)) + 1
        bounds = [0, *changes.tolist(), len(rows)] if len(rows) else [0]
        parts = [self.value(theta[a], rows[a:b]) for a, b in pairwise(bounds)]
        return np.concatenate([np.empty(0), *parts])

    def to_dict(self) -> Fields:
        """As for every loss; `StateError` with functions, which no file can hold."""
        if self.values is not None:
            raise StateError(
                "a CustomLoss with functions cannot be stored: no file can hold a function"
            )
        return super().to_dict()

    def _flags(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> dict[str, NDArray[np.bool_]]:
        # The flags are those of gradients, since a learner clips gradients, not records.
        return record_flags(record_multipliers(domain, records, self.lipschitz_bound, None))


def _rows(features: ArrayLike, point: FloatArray) -> FloatArray:
    """One vector, shape (d,), or many, shape (T, d)."""
    d = point.shape[0]
    return float_array("features", features, (d,) if np.ndim(features) == 1 else (None, d))


def _no_label(label: object) -> None:
    if label is not None:
        raise TypeError("this loss takes no label")


# These are the engine's limits. A matrix with a smaller eigenvalue is not convex, beyond rounding.
# The reserve keeps a scaled loss within its bounds.
_CONVEX = -1e-12
_RESERVE = 1.0 - 1e-12


@dataclass(frozen=True, init=False, repr=False)
class QuadraticLoss(DeclaredLoss):
    """``f(x) = x'Ax/2 - b'x`` with A symmetric and positive semidefinite.

    The data of a round are the matrix A, shape (d, d), and the vector b, shape (d,).

    Parameters
    ----------
    lipschitz
        Bound on the gradient's Euclidean norm over the domain. A round's loss is scaled down until
        ``|A| max|x - c| + |Ac - b|`` (c is the domain's centre) is at most this bound.
    smoothness
        Bound on the largest eigenvalue of A; the loss is scaled down to it.
    strong_convexity
        Declared lower bound on the smallest eigenvalue of A, in [0, smoothness]; only the lazy
        strongly convex mode uses it.

    Raises
    ------
    ValueError, TypeError
        Unless the bounds are numbers in [1e-100, 1e100] (`strong_convexity` may be 0).

    Notes
    -----
    A matrix that is not positive semidefinite, or not finite, counts as the zero loss. Use
    `SquaredLoss` for the rank-one losses of a regression.
    """

    strong_convexity: float

    def __init__(
        self, lipschitz: float, smoothness: float, *, strong_convexity: float = 0.0
    ) -> None:
        modulus = real_float("strong_convexity", strong_convexity)
        beta = positive_float("smoothness", smoothness)
        if not 0.0 <= modulus <= beta:
            raise ValueError(f"strong_convexity must be in [0, smoothness]; got {modulus!r}")
        self._set(
            lipschitz_bound=positive_float("lipschitz", lipschitz),
            smoothness_bound=beta,
            strong_convexity=modulus,
        )

    def value(self, theta: ArrayLike, features: ArrayLike, label: ArrayLike | None = None) -> Any:
        """Loss of a decision on raw data: a number for A of shape (d, d), else shape (T,)."""
        point = float_array("theta", theta, (None,))
        single = np.ndim(features) == 2
        matrices, vectors = _rounds(features, label, point.shape[0], single)
        values = 0.5 * np.einsum("i,tij,j->t", point, matrices, point) - vectors @ point
        return float(values[0]) if single else values

    def gradient(
        self, theta: ArrayLike, features: ArrayLike, label: ArrayLike | None = None
    ) -> FloatArray:
        """Gradient on raw data, shape (d,) for A of shape (d, d), else (T, d)."""
        point = float_array("theta", theta, (None,))
        single = np.ndim(features) == 2
        matrices, vectors = _rounds(features, label, point.shape[0], single)
        gradients: FloatArray = _symmetric(matrices) @ point - vectors
        return gradients[0] if single else gradients

    def batch_values(
        self, domain: Domain, theta: FloatArray, features: FloatArray, labels: FloatArray | None
    ) -> FloatArray:
        """Losses of one decision on many rounds, scaled as a learner scales them, shape (T,).

        Parameters
        ----------
        domain
            Set of decisions.
        theta
            Decision, shape (d,).
        features, labels
            The matrices, shape (T, d, d), and vectors, shape (T, d).
        """
        d = domain.dimension
        matrices, vectors = _rounds(features, labels, d, False)
        # Each decision is evaluated on its round only, not on all T^2 pairs.
        if np.ndim(theta) == 2:
            each = zip(theta, matrices[:, None], vectors[:, None], strict=True)
            return np.array([self.batch_values(domain, *own)[0] for own in each])
        point = float_array("theta", theta, (d,))
        factors = self.scales(domain, matrices, vectors)
        values: FloatArray = np.zeros(len(factors))
        kept = factors > 0.0
        values[kept] = factors[kept] * self.value(point, matrices[kept], vectors[kept])
        return values

    def scales(self, domain: Domain, matrices: ArrayLike, vectors: ArrayLike | None) -> FloatArray:
        """Return factors in [0, 1], shape (T,), that scale rounds into the bounds.

        The factor is 0 for a round that is not finite or not convex.
        """
        pairs = _rounds(matrices, vectors, domain.dimension, False)
        factors = np.zeros(pairs[0].shape[0])
        radius = domain.radius_from_center()
        # A round that overflows counts as zero, without a warning.
        with np.errstate(all="ignore"):
            for t, (given, vector) in enumerate(zip(*pairs, strict=True)):
                if np.isfinite(given).all() and np.isfinite(vector).all():
                    factors[t] = self._scale(domain.center, radius, given, vector)
        return factors

    def _scale(
        self, center: FloatArray, radius: float, given: FloatArray, vector: FloatArray
    ) -> float:
        # Halves first: a sum of two large entries may overflow.
        matrix = 0.5 * given + 0.5 * given.T
        try:
            spectrum = np.linalg.eigvalsh(matrix)
        except np.linalg.LinAlgError:
            return 0.0
        most = float(spectrum[-1])
        if not float(spectrum[0]) >= _CONVEX * max(most, 0.0):
            return 0.0
        scale = 1.0
        if most > self.smoothness_bound:
            scale = _RESERVE * self.smoothness_bound / most
        # The gradient is A (x - c) + (A c - b), c the centre.
        reach = most * radius + float(np.linalg.norm(matrix @ center - vector))
        if not math.isfinite(reach):
            return 0.0
        # The smaller of the two factors satisfies both bounds.
        if scale * reach > self.lipschitz_bound:
            scale = _RESERVE * self.lipschitz_bound / reach
        # Smaller factors are denormal and lose digits.
        return scale if scale >= np.finfo(float).tiny else 0.0

    def _flags(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> dict[str, NDArray[np.bool_]]:
        return record_flags(self.scales(domain, records, labels))

    def _sum_settings(self, domain: Domain, unbounded: bool) -> Fields:
        return {
            **super()._sum_settings(domain, unbounded),
            "kind": "quadratic",
            "lipschitz": self.lipschitz_bound,
            "smoothness": self.smoothness_bound,
            "radius": math.inf if unbounded else domain.radius_from_center(),
        }


def _symmetric(matrices: FloatArray) -> FloatArray:
    """Return the symmetric parts of matrices, which alone enter x'Ax."""
    # Halves first: a sum of two large entries may overflow.
    return 0.5 * matrices + 0.5 * np.swapaxes(matrices, 1, 2)


def _rounds(
    matrices: ArrayLike, vectors: ArrayLike | None, d: int, single: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the matrices, shape (T, d, d), and the vectors, shape (T, d)."""
    if vectors is None:
        raise TypeError("a quadratic loss needs a matrix and a vector")
    if single:
        return (
            float_array("matrix", matrices, (d, d))[None],
            float_array("vector", vectors, (d,))[None],
        )
    given = float_array("matrices", matrices, (None, d, d))
    return given, float_array("vectors", vectors, (given.shape[0], d))
