"""Squared, logistic and Huber loss."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from dpoco import _core
from dpoco._validation import positive_float
from dpoco.losses._base import optional_bound
from dpoco.losses._glm import GlmLoss, checked_margin

__all__ = ["HuberLoss", "LogisticLoss", "SquaredLoss"]


@dataclass(frozen=True)
class SquaredLoss(GlmLoss):
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
        Optional R_2: features are also clipped to ``||x||_2 <= R_2``, which saves noise where
        the geometry's own bound is loose (p > 2 with dense features).

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100].
    """

    label_bound: float = 1.0
    _: KW_ONLY
    weight: float = 1.0
    feature_bound_l2: float | None = None

    def __post_init__(self) -> None:
        self._set(
            feature_bound=positive_float("feature_bound", self.feature_bound),
            label_bound=positive_float("label_bound", self.label_bound),
            weight=positive_float("weight", self.weight),
            feature_bound_l2=optional_bound("feature_bound_l2", self.feature_bound_l2),
        )

    @property
    def label_range(self) -> tuple[float, float]:
        """``(-label_bound, label_bound)``."""
        return -self.label_bound, self.label_bound

    @property
    def _l2(self) -> float | None:
        return self.feature_bound_l2

    def derivative_bound(self, margin: float) -> float:
        """``2 weight (margin + label_bound)``."""
        return 2.0 * self.weight * (checked_margin(margin) + self.label_bound)

    def curvature_bound(self, margin: float) -> float:
        """``2 weight``."""
        checked_margin(margin)
        return 2.0 * self.weight

    def _special_scalar_bound(self, reach: float) -> float:
        return 2.0 * self.weight * (reach + self.label_bound)

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        return _core.GlmLoss("squared", self.weight, 1.0, *self.label_range)


@dataclass(frozen=True)
class LogisticLoss(GlmLoss):
    """``log(1 + exp(<theta, x>)) - y <theta, x>`` with labels in [0, 1].

    Parameters
    ----------
    feature_bound
        R: features are clipped to ``||x||_q <= R``. Labels are clipped to [0, 1].
    feature_bound_l2
        Optional R_2: features are also clipped to ``||x||_2 <= R_2``.

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100].
    """

    _: KW_ONLY
    feature_bound_l2: float | None = None

    def __post_init__(self) -> None:
        self._set(
            feature_bound=positive_float("feature_bound", self.feature_bound),
            feature_bound_l2=optional_bound("feature_bound_l2", self.feature_bound_l2),
        )

    @property
    def label_range(self) -> tuple[float, float]:
        """``(0, 1)``."""
        return 0.0, 1.0

    @property
    def _l2(self) -> float | None:
        return self.feature_bound_l2

    def derivative_bound(self, margin: float) -> float:
        """``sigmoid(margin)``, attained by a confident wrong answer."""
        return 1.0 / (1.0 + math.exp(-checked_margin(margin)))

    def curvature_bound(self, margin: float) -> float:
        """1/4, attained at margin 0."""
        checked_margin(margin)
        return 0.25

    def _special_scalar_bound(self, reach: float) -> float:
        return 0.5 + 0.25 * reach

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        return _core.GlmLoss("logistic", 1.0, 1.0, *self.label_range)


@dataclass(frozen=True)
class HuberLoss(GlmLoss):
    """With r = <theta, x> - y: ``r^2/2`` for |r| <= threshold, ``threshold (|r| - threshold/2)``.

    Parameters
    ----------
    feature_bound
        R: features are clipped to ``||x||_q <= R``.
    label_bound
        Y: labels are clipped to [-Y, Y].
    threshold
        Residual from which the loss grows linearly.
    feature_bound_l2
        Optional R_2: features are also clipped to ``||x||_2 <= R_2``.

    Raises
    ------
    ValueError, TypeError
        Unless all bounds are numbers in [1e-100, 1e100].
    """

    label_bound: float = 1.0
    _: KW_ONLY
    threshold: float = 1.0
    feature_bound_l2: float | None = None

    def __post_init__(self) -> None:
        self._set(
            feature_bound=positive_float("feature_bound", self.feature_bound),
            label_bound=positive_float("label_bound", self.label_bound),
            threshold=positive_float("threshold", self.threshold),
            feature_bound_l2=optional_bound("feature_bound_l2", self.feature_bound_l2),
        )

    @property
    def label_range(self) -> tuple[float, float]:
        """``(-label_bound, label_bound)``."""
        return -self.label_bound, self.label_bound

    @property
    def _l2(self) -> float | None:
        return self.feature_bound_l2

    def derivative_bound(self, margin: float) -> float:
        """``min(threshold, margin + label_bound)``."""
        return min(self.threshold, checked_margin(margin) + self.label_bound)

    def curvature_bound(self, margin: float) -> float:
        """1 (almost everywhere: the derivative is 1-Lipschitz)."""
        checked_margin(margin)
        return 1.0

    def _special_scalar_bound(self, reach: float) -> float:
        return reach + self.label_bound

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        return _core.GlmLoss("huber", 1.0, self.threshold, *self.label_range)
