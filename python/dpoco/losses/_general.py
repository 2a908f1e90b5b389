"""Losses given by their gradients: linear ones, and the user's own."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._clipping import record_flags, record_multipliers
from dpoco._validation import (
    LARGEST_SCALE,
    FloatArray,
    float_array,
    positive_float,
    real_float,
)
from dpoco.domains import Domain
from dpoco.losses._base import DeclaredLoss, Loss


@dataclass(frozen=True)
class LinearLoss(Loss):
    """``f(theta) = <g, theta>``; a round's data is the vector g.

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

    gradient_bound: float = 1.0
    _: KW_ONLY
    gradient_bound_l2: float | None = None

    def lipschitz(self, domain: Domain) -> float:
        """``gradient_bound``."""
        return self.gradient_bound

    def smoothness(self, domain: Domain) -> float:
        """0."""
        return 0.0

    def value(self, theta: Any, features: Any, label: Any = None) -> Any:
        """``<features, theta>``: a number for shape (d,), shape (T,) for shape (T, d)."""
        _no_label(label)
        point = float_array("theta", theta, (None,))
        values = _rows(features, point) @ point
        return float(values) if values.ndim == 0 else values

    def gradient(self, theta: Any, features: Any, label: Any = None) -> FloatArray:
        """Return a copy of `features`, shape (d,) or (T, d)."""
        _no_label(label)
        return _rows(features, float_array("theta", theta, (None,))).copy()

    def batch_values(
        self, domain: Domain, theta: FloatArray, features: FloatArray, labels: FloatArray | None
    ) -> FloatArray:
        """Losses of one decision on many clipped vectors, shape (T,); see `Loss.batch_values`."""
        _no_label(labels)
        rows = float_array("features", features, (None, domain.dimension))
        point = float_array("theta", theta, (domain.dimension,))
        factors = record_multipliers(domain, rows, self.gradient_bound, self.gradient_bound_l2)
        with np.errstate(invalid="ignore", over="ignore"):
            values: FloatArray = factors * (rows @ point)
        values[factors == 0.0] = 0.0
        return values

    def _flags(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> dict[str, NDArray[np.bool_]]:
        return record_flags(
            record_multipliers(domain, records, self.gradient_bound, self.gradient_bound_l2)
        )


@dataclass(frozen=True, init=False, repr=False)
class CustomLoss(DeclaredLoss):
    """Any convex loss; a round's data is an object with ``value(theta)`` and ``gradient(theta)``.

    Parameters
    ----------
    lipschitz
        L >= ``||grad f||_q`` over the domain, q dual to the domain's geometry.
    smoothness
        beta >= ``||grad f(a) - grad f(b)||_q / ||a - b||_p``; 0 for linear losses.
    leaf_bound
        Optional: clip what a round adds to the gradient sum to this ``l_q`` norm instead of
        ``step_scale beta D + L`` (D the domain's diameter). Smaller trades bias for noise.
    leaf_bound_l2
        Optional: clip it to this ``l_2`` norm too.

    Attributes
    ----------
    lipschitz_bound, smoothness_bound : float
        The constants given.

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100] (`smoothness` may be 0).

    Notes
    -----
    Learners that sum gradients (`TreeFrankWolfe`, `NoisyFTRL`) clip them: their guarantees never
    rest on the declared constants. `CoupledRegularizedLeader` and `ContinuousMultiplicativeWeights`
    use the whole function and have to take the constants on trust: their guarantees say so and are
    not certified.
    """

    leaf_bound: float | None
    leaf_bound_l2: float | None

    def __init__(
        self,
        lipschitz: float,
        smoothness: float,
        *,
        leaf_bound: float | None = None,
        leaf_bound_l2: float | None = None,
    ) -> None:
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
        )

    def value(self, theta: Any, features: Any, label: Any = None) -> Any:
        """``features.value(theta)``: the round's data is the loss itself."""
        _no_label(label)
        return float(features.value(float_array("theta", theta, (None,))))

    def gradient(self, theta: Any, features: Any, label: Any = None) -> FloatArray:
        """``features.gradient(theta)``, shape (d,)."""
        _no_label(label)
        point = float_array("theta", theta, (None,))
        return float_array("gradient", features.gradient(point), point.shape)

    def batch_values(
        self, domain: Domain, theta: FloatArray, features: FloatArray, labels: FloatArray | None
    ) -> FloatArray:
        """Not available: the losses are not arrays. Raises TypeError."""
        raise TypeError("a CustomLoss has no array form; evaluate the loss objects one by one")

    def _flags(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> dict[str, NDArray[np.bool_]]:
        return record_flags(record_multipliers(domain, records, self.lipschitz_bound, None))


def _rows(features: Any, point: FloatArray) -> FloatArray:
    """One vector, shape (d,), or many, shape (T, d)."""
    d = point.shape[0]
    return float_array("features", features, (d,) if np.ndim(features) == 1 else (None, d))


def _no_label(label: Any) -> None:
    if label is not None:
        raise TypeError("this loss takes no label")
