"""Losses of one margin: their base, and the squared, logistic and Huber losses."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core
from dpoco._clipping import lp_norm, record_clipper, record_flags, record_multipliers
from dpoco._validation import Fields, FloatArray, float_array, positive_float, real_float
from dpoco.domains import Domain, Geometry
from dpoco.losses._base import Loss, products


@dataclass(frozen=True)
class MarginLoss(Loss):
    """A loss ``l(<theta, x>, y)``, convex in the margin.

    Records are clipped to ``||x||_q <= feature_bound`` (q dual to the domain's geometry) and, if
    declared, ``||x||_2 <= feature_bound_l2``; labels to :attr:`label_range`.
    """

    glm: ClassVar[bool] = True
    feature_bound: float

    @property
    @abstractmethod
    def feature_bound_l2(self) -> float | None:
        """The declared ``l_2`` bound of the features."""

    @property
    @abstractmethod
    def label_range(self) -> tuple[float, float]:
        """Interval to which labels are clipped."""

    @property
    def reported(self) -> MarginLoss:
        """The loss whose values are reported; by default this loss."""
        return self

    @abstractmethod
    def derivative_bound(self, margin: float) -> float:
        """Supremum of ``|dl/dz|`` over margins ``|z| <= margin`` and labels in range."""

    @abstractmethod
    def curvature_bound(self, margin: float) -> float:
        """Supremum of ``d^2 l/dz^2`` over margins ``|z| <= margin`` and labels in range."""

    @abstractmethod
    def _special_scalar_bound(self, reach: float) -> float:
        """Bound on ``|k l'(z_k) - (k-1) l'(z_{k-1})|`` if ``|k z_k - (k-1) z_{k-1}| <= reach``.

        The margins themselves are at most `reach` too. Proofs: docs/privacy/leaf_bounds.md.
        """

    def leaf_scalar_bound(self, margin: float, step_scale: float = 1.0) -> float:
        """Bound c on a round's leaf scalar ``k l'(z_k, y) - (k-1) l'(z_{k-1}, y)``.

        Only for weights w_k = k. It is the smaller of a bound special to this loss and the general
        ``sup|l'| + 2 step_scale margin sup l''``; ``docs/privacy/leaf_bounds.md`` proves both.

        Parameters
        ----------
        margin
            Bound a on every ``|<theta, x>|``, theta in the domain; see :meth:`margin_bound`.
        step_scale
            s > 0 of the Frank-Wolfe steps s/(k + s).
        """
        a, s = checked_margin(margin), positive_float("step_scale", step_scale)
        general = self.derivative_bound(a) + 2.0 * s * a * self.curvature_bound(a)
        # Leaves are clipped to this bound, so a mistake here would cost utility, not privacy
        # (docs/privacy/leaf_bounds.md).
        return min(self._special_scalar_bound(max(1.0, 2.0 * s - 1.0) * a), general)

    def margin_bound(self, domain: Geometry) -> float:
        """Bound on ``|<theta, x>|`` over `domain` and clipped x, by Hoelder's inequality.

        ``feature_bound max||theta||_p``, or ``feature_bound_l2 max||theta||_2`` if declared and
        smaller.
        """
        # Both bounds hold, so the smaller one is used.
        bound = self.feature_bound * domain.max_norm()
        return (
            bound
            if self.feature_bound_l2 is None
            else min(bound, self.feature_bound_l2 * domain.max_norm(2.0))
        )

    def center_regret(self, domain: Domain) -> float:
        """Bound on a round's regret of the decision ``domain.center``, for any record.

        By convexity, the bound is attained at the farthest margin and label. The margin moves as
        far as the domain allows, or to the label, where the loss of a regression is least.
        """
        # The lowest label is enough, since losses for the highest label are mirror images.
        center, low = np.asarray(domain.center), self.label_range[0]
        size, length = lp_norm(center, domain.p), lp_norm(center, 2.0)
        start = self.feature_bound * size
        reach = self.feature_bound * min(domain.diameter(), domain.max_norm() + size)
        if self.feature_bound_l2 is not None:
            start = min(start, self.feature_bound_l2 * length)
            reach = min(reach, self.feature_bound_l2 * domain.radius_from_center())
        ends = np.array([start, start - reach, max(start - reach, low)])
        values = self.value(np.ones(1), ends[:, None], np.full(3, low))
        return float(values[0] - min(values[1:]))

    def lipschitz(self, domain: Geometry) -> float:
        """``sup|l'| feature_bound``, in the dual norm ``l_q``."""
        return self.derivative_bound(self.margin_bound(domain)) * self.feature_bound

    def smoothness(self, domain: Geometry) -> float:
        """``sup l'' feature_bound^2``, from ``l_p`` to ``l_q``."""
        return self.curvature_bound(self.margin_bound(domain)) * self.feature_bound**2

    def value(self, theta: ArrayLike, features: ArrayLike, label: ArrayLike | None = None) -> Any:
        """Loss of a decision on raw records, without clipping; not private.

        Parameters
        ----------
        theta
            Decision, shape (d,).
        features
            One record, shape (d,), or many, shape (T, d).
        label
            A number for one record, shape (T,) for many.

        Returns
        -------
        float or ndarray
            A number for one record, shape (T,) for many.
        """
        single, _, margins, labels = _evaluate(theta, features, label)
        # Learners and traces use the same compiled loss.
        values = self._glm_engine.values(margins, labels)
        return float(values[0]) if single else values

    def gradient(
        self, theta: ArrayLike, features: ArrayLike, label: ArrayLike | None = None
    ) -> FloatArray:
        """Gradient ``l'(<theta, x>, y) x`` on raw records: shape (d,), or (T, d) for many."""
        single, rows, margins, labels = _evaluate(theta, features, label)
        # An overflow gives infinity, without a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            gradients: FloatArray = self._glm_engine.derivatives(margins, labels)[:, None] * rows
        return gradients[0] if single else gradients

    def batch_values(
        self, domain: Domain, theta: FloatArray, features: FloatArray, labels: FloatArray | None
    ) -> FloatArray:
        """Losses of one decision on many clipped records, shape (T,); see `Loss.batch_values`."""
        rows = float_array("features", features, (None, domain.dimension))
        targets = float_array("labels", labels, (rows.shape[0],))
        factors = record_multipliers(domain, rows, self.feature_bound, self.feature_bound_l2)
        # A record without a label counts as empty, like in the engine.
        factors[~np.isfinite(targets)] = 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            margins = factors * products(rows, theta)
        engine = self._glm_engine
        values = engine.values(margins, engine.clip_labels(targets))
        # 0 times an infinite margin is NaN: what is not finite loses 0.
        values[factors == 0.0] = 0.0
        return values

    def _flags(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> dict[str, NDArray[np.bool_]]:
        factors = record_multipliers(domain, records, self.feature_bound, self.feature_bound_l2)
        targets = float_array("labels", labels, (records.shape[0],))
        return record_flags(factors, targets, self.label_range)

    def _sum_settings(self, domain: Domain, unbounded: bool) -> Fields:
        clipper = record_clipper(domain, self.feature_bound, self.feature_bound_l2)
        own = {"kind": "glm", "clipper": clipper, "glm": self._glm_engine}
        return {**super()._sum_settings(domain, unbounded), **own}


_TAKEN = "dpoco.choose names the learners that take it"


def check_undamped(loss: object) -> None:
    """Raise `ValueError` for a table or a slope bound, which most learners do not support."""
    # The attribute identifies a `GlmLoss`, whose module imports this one.
    if hasattr(loss, "slopes"):
        raise ValueError(f"this learner has no bounds for a GlmLoss: {_TAKEN}")
    if getattr(loss, "slope_bound", None) not in (None, 1.0):
        raise ValueError(f"this learner has no bounds for a slope_bound: {_TAKEN}")


def checked_margin(value: float) -> float:
    """Return a margin bound as a float, or raise."""
    margin = real_float("margin", value)
    if margin < 0.0:
        raise ValueError(f"margin must be non-negative; got {margin!r}")
    return margin


def _evaluate(
    theta: ArrayLike, features: ArrayLike, label: ArrayLike | None
) -> tuple[bool, FloatArray, FloatArray, FloatArray]:
    """Whether there is one record, the records as rows, their margins and labels."""
    point = float_array("theta", theta, (None,))
    single = np.ndim(features) == 1
    shape = (point.shape[0],) if single else (None, point.shape[0])
    # One record becomes a matrix of one row, since compiled code takes only matrices.
    rows = np.atleast_2d(float_array("features", features, shape))
    if single:
        labels = float_array("label", label, ())[None]
    else:
        labels = float_array("label", label, (rows.shape[0],))
    return single, rows, np.ascontiguousarray(rows @ point), np.ascontiguousarray(labels)


@dataclass(frozen=True)
class _LabelledLoss(MarginLoss):
    """A loss of a margin and a label whose absolute value is bounded."""

    label_bound: float

    @property
    def label_range(self) -> tuple[float, float]:
        """``(-label_bound, label_bound)``."""
        return -self.label_bound, self.label_bound


@dataclass(frozen=True)
class SquaredLoss(_LabelledLoss):
    """``weight (<theta, x> - y)^2``.

    Parameters
    ----------
    feature_bound
        R: features are clipped to ``||x||_q <= R``.
    label_bound
        Y: labels are clipped to [-Y, Y].
    weight
        Factor; 1/2 gives the half squared loss.
    feature_bound_l2
        Optional R_2: features are also clipped to ``||x||_2 <= R_2``, which saves noise if the
        geometry's own bound is loose (p > 2 with dense features).

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100].
    """

    _: KW_ONLY
    weight: float = 1.0
    feature_bound_l2: float | None = None

    def derivative_bound(self, margin: float) -> float:
        """``2 weight (margin + label_bound)``."""
        return 2.0 * self.weight * (checked_margin(margin) + self.label_bound)

    def curvature_bound(self, margin: float) -> float:
        """``2 weight``."""
        return 2.0 * self.weight

    def _special_scalar_bound(self, reach: float) -> float:
        return 2.0 * self.weight * (reach + self.label_bound)

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        return _core.GlmLoss("squared", self.weight, 1.0, *self.label_range)


@dataclass(frozen=True, repr=False)
class LogisticLoss(MarginLoss):
    """``log(1 + exp(<theta, x>)) - y <theta, x>`` with labels in [0, 1].

    Parameters
    ----------
    feature_bound
        R: features are clipped to ``||x||_q <= R``. Labels are clipped to [0, 1].
    feature_bound_l2
        Optional R_2: features are also clipped to ``||x||_2 <= R_2``.
    slope_bound
        Optional c in [1/2, 1], for follow-the-leader and Newton steps on noisy sums (`dpoco.oco`).
        They then learn from another convex loss, whose slope is ``v (q - y)``, q = sigmoid(margin),
        v = min(1, c / max(q, 1 - q)), and hence at most c. This needs less noise but adds a bias
        where no decision fits the probabilities of labels. 1 changes nothing. None (default) is 1,
        and 1/2 for Newton steps.

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100], `slope_bound` in [1/2, 1].

    Notes
    -----
    With a `slope_bound`, `gradient`, `lipschitz` and `smoothness` belong to the loss that is
    learned from; `value`, and the losses of traces, belong to the logistic loss. If labels follow
    probabilities, the excess of the logistic loss is at most 1/c times that of the other loss, at
    every margin; see ``docs/privacy/noisy_newton.md``.
    """

    _: KW_ONLY
    feature_bound_l2: float | None = None
    slope_bound: float | None = None

    def __post_init__(self) -> None:
        """Check all bounds."""
        super().__post_init__()
        if not 0.5 <= self._largest_slope <= 1.0:
            raise ValueError(f"slope_bound must be in [1/2, 1]; got {self.slope_bound!r}")

    def __repr__(self) -> str:
        """Name the slope bound only if there is one."""
        own = {name: value for name, value in self.to_dict().items() if name != "type"}
        return f"LogisticLoss({', '.join(f'{name}={value!r}' for name, value in own.items())})"

    def to_dict(self) -> Fields:
        """Parameters as a JSON-able dict, without a slope bound if there is none."""
        # Without this key, states are equal to those of versions without slope bounds.
        said = super().to_dict().items()
        return {name: value for name, value in said if (name, value) != ("slope_bound", None)}

    @property
    def _largest_slope(self) -> float:
        return 1.0 if self.slope_bound is None else self.slope_bound

    @property
    def label_range(self) -> tuple[float, float]:
        """``(0, 1)``."""
        return 0.0, 1.0

    def derivative_bound(self, margin: float) -> float:
        """``sigmoid(margin)``, attained by a confident wrong answer, or `slope_bound`."""
        return min(self._largest_slope, 1.0 / (1.0 + math.exp(-checked_margin(margin))))

    def curvature_bound(self, margin: float) -> float:
        """1/4, attained at margin 0, or 1 - `slope_bound`, where slopes are bounded."""
        return max(0.25, 1.0 - self._largest_slope)

    def _special_scalar_bound(self, reach: float) -> float:
        check_undamped(self)
        return 0.5 + 0.25 * reach

    @property
    def reported(self) -> MarginLoss:
        """The logistic loss itself."""
        # A learner with a slope bound minimises another loss, but reports must be comparable.
        return replace(self, slope_bound=None)

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        return _core.GlmLoss("logistic", 1.0, 1.0, *self.label_range, self._largest_slope)


@dataclass(frozen=True)
class HuberLoss(_LabelledLoss):
    """With r = <theta, x> - y: ``r^2/2`` for |r| <= threshold, ``threshold (|r| - threshold/2)``.

    Parameters
    ----------
    feature_bound
        R: features are clipped to ``||x||_q <= R``.
    label_bound
        Y: labels are clipped to [-Y, Y].
    threshold
        Residual beyond which the loss grows linearly.
    feature_bound_l2
        Optional R_2: features are also clipped to ``||x||_2 <= R_2``.

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100].
    """

    _: KW_ONLY
    threshold: float = 1.0
    feature_bound_l2: float | None = None

    def derivative_bound(self, margin: float) -> float:
        """``min(threshold, margin + label_bound)``."""
        return min(self.threshold, checked_margin(margin) + self.label_bound)

    def curvature_bound(self, margin: float) -> float:
        """1 (almost everywhere: the derivative is 1-Lipschitz)."""
        return 1.0

    def _special_scalar_bound(self, reach: float) -> float:
        return reach + self.label_bound

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        return _core.GlmLoss("huber", 1.0, self.threshold, *self.label_range)
