"""Generalised linear losses given by a table of slopes of a function of one variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core
from dpoco import _literals as literals
from dpoco._validation import (
    FloatArray,
    choice,
    float_array,
    positive_float,
    positive_int,
    real_float,
)
from dpoco.domains import Domain
from dpoco.losses._margin import MarginLoss, checked_margin

# Relative error above which a derivative is refused as wrong.
_AGREE = 1e-2
Function = Callable[[FloatArray], ArrayLike]


@dataclass(frozen=True, repr=False)
class GlmLoss(MarginLoss):
    """A generalised linear loss ``f(<theta, x> - y)``, or ``f`` of a signed margin, f convex.

    `from_functions` makes one. The derivative of f is linear between equally spaced knots, so f is
    quadratic there, and convex exactly. Only follow-the-leader and Newton steps on noisy sums
    (`dpoco.oco`) take it. Their guarantees depend on bounds on slope and curvature, which the table
    cannot violate.

    Parameters
    ----------
    feature_bound
        R: features are clipped to ``||x||_q <= R``.
    slopes
        f' at equally spaced knots of [-reach, reach], at least two, finite, not decreasing. Beyond
        the knots f goes on linearly.
    reach
        Largest knot.
    at_zero
        f(0).
    variable : {"residual", "margin"}
        "residual": the loss is ``f(<theta, x> - y)``. "margin": ``y f(z) + (1 - y) f(-z)`` with
        ``z = <theta, x>`` and y in [0, 1]; f decreases for a classifier.
    label_bound
        Y: labels are clipped to [-Y, Y]; for "margin" to [0, 1] instead.
    feature_bound_l2
        Optional R_2: features are also clipped to ``||x||_2 <= R_2``.

    Raises
    ------
    ValueError, TypeError
        Unless slopes are as stated, and all bounds are numbers in [1e-100, 1e100].

    Examples
    --------
    The squared hinge loss with slopes of at most 1, learned with Newton steps:

    >>> import numpy as np, dpoco
    >>> hinge = dpoco.losses.GlmLoss.from_functions(
    ...     lambda t: np.where(t < 0.5, 0.75 - t, np.maximum(1 - t, 0) ** 2),
    ...     lambda t: -np.minimum(2 * np.maximum(1 - t, 0), 1.0),
    ...     variable="margin", feature_bound=1.0)
    >>> learner = dpoco.oco.NoisyNewton(dpoco.domains.LpBall(3, 2.0, 4.0), hinge,
    ...     horizon=100_000, budget=dpoco.Budget(epsilon=1.0, delta=1e-6))
    >>> learner.decide().shape
    (3,)
    >>> learner.observe([0.5, -0.2, 0.1], 1.0)
    """

    _: KW_ONLY
    slopes: Sequence[float]
    reach: float
    at_zero: float = 0.0
    variable: literals.Variable = "residual"
    label_bound: float = 1.0
    feature_bound_l2: float | None = None

    @classmethod
    def from_functions(
        cls,
        value: Function,
        derivative: Function,
        second_derivative: Function | None = None,
        *,
        feature_bound: float,
        variable: literals.Variable = "residual",
        label_bound: float = 1.0,
        reach: float = 32.0,
        pieces: int = 2048,
        feature_bound_l2: float | None = None,
    ) -> GlmLoss:
        """Return the loss of a convex function f of one variable.

        Parameters
        ----------
        value, derivative : callable
            f and f', functions of arrays of shape (n,). At a kink any subgradient will do.
        second_derivative : callable, optional
            f'', which is only compared with f'.
        feature_bound
            R: features are clipped to ``||x||_q <= R``.
        variable : {"residual", "margin"}
            "residual": the loss is ``f(<theta, x> - y)``. "margin": ``y f(z) + (1 - y) f(-z)`` with
            ``z = <theta, x>`` and y in [0, 1].
        label_bound
            Y: labels are clipped to [-Y, Y]; for "margin" to [0, 1] instead.
        reach, pieces
            f' is read at ``pieces + 1`` points of [-reach, reach] and is linear between them; f
            goes on linearly beyond. Take a reach of the largest margin and label or more.
        feature_bound_l2
            Optional R_2: features are also clipped to ``||x||_2 <= R_2``.

        Returns
        -------
        GlmLoss
            A value without functions: it is pickled, and stored in states, as any loss.

        Raises
        ------
        ValueError, TypeError
            If f is not finite or not convex, or a function is not the derivative of the one before.
        """
        far, count = positive_float("reach", reach), positive_int("pieces", pieces, maximum=10**6)
        knots, step = np.linspace(-far, far, count + 1), 2.0 * far / count
        values = _evaluate("value", value, knots)
        slopes = _evaluate("derivative", derivative, knots)
        # Rounding may lower a slope a little; `accumulate` corrects this, since a table must not
        # decrease.
        if np.any(np.diff(slopes) < -1e-9 * np.abs(slopes).max()):
            raise ValueError("derivative decreases somewhere: the loss must be convex")
        slopes = np.maximum.accumulate(slopes)
        _check_integral("derivative", "value", slopes, values, step)
        if second_derivative is not None:
            bends = _evaluate("second_derivative", second_derivative, knots)
            _check_integral("second_derivative", "derivative", bends, slopes, step)
        at_zero = float(_evaluate("value", value, np.zeros(1))[0])
        return cls(
            feature_bound, slopes=slopes.tolist(), reach=far, variable=variable, at_zero=at_zero,
            label_bound=label_bound, feature_bound_l2=feature_bound_l2,
        )  # fmt: skip

    def __post_init__(self) -> None:
        """Check slopes and bounds."""
        # The base's check does not apply, since slopes are not bounds, and f(0) may have any sign.
        slopes = float_array("slopes", self.slopes, (None,))
        choice("variable", self.variable, ("residual", "margin"))
        if len(slopes) < 2 or not np.isfinite(slopes).all() or np.any(np.diff(slopes) < 0.0):
            raise ValueError("slopes must be at least two finite numbers that do not decrease")
        if not np.any(slopes):
            raise ValueError("slopes must not all be 0: the loss would be constant")
        for name in ("feature_bound", "reach", "label_bound", "feature_bound_l2"):
            if getattr(self, name) is not None:
                self._set(**{name: positive_float(name, getattr(self, name))})
        self._set(slopes=tuple(slopes.tolist()), at_zero=real_float("at_zero", self.at_zero))

    def __repr__(self) -> str:
        """Show the number of knots, not their slopes."""
        return (
            f"GlmLoss({self.variable!r}, {len(self.slopes)} knots to {self.reach:g}, "
            f"feature_bound={self.feature_bound!r})"
        )

    @property
    def label_range(self) -> tuple[float, float]:
        """``(-label_bound, label_bound)``, or ``(0, 1)`` for margins."""
        bound = self.label_bound
        return (-bound, bound) if self.variable == "residual" else (0.0, 1.0)

    def derivative_bound(self, margin: float) -> float:
        """Largest ``|f'|`` for these margins and all labels."""
        # A convex function is steepest at an end. Beyond the knots the slope is that of the last
        # knot, both in `interp` and in the engine.
        return float(np.abs(np.interp(self._ends(margin), self._knots, self.slopes)).max())

    def curvature_bound(self, margin: float) -> float:
        """Largest ``f''`` for these margins and all labels."""
        knots, (low, high) = self._knots, self._ends(margin)
        # Slopes are linear between knots, so the curvature is constant on each piece.
        met = (knots[1:] >= low) & (knots[:-1] <= high)
        return float(np.max(np.diff(self.slopes)[met] / np.diff(knots)[met], initial=0.0))

    def _special_scalar_bound(self, reach: float) -> float:
        # No special bound is proved for tables, so the general bound is used.
        return math.inf

    def center_regret(self, domain: Domain) -> float:
        """Bound on a round's regret of the decision ``domain.center``, for any record."""
        ends = np.array(self._ends(self.margin_bound(domain)))
        # A convex function is largest at an end and least at an end or where its slope is 0.
        points = np.concatenate([ends, self._knots, [self._lowest()]])
        points = points[(points >= ends[0]) & (points <= ends[1])]
        return float(np.ptp(self._function(points)))

    @property
    def _knots(self) -> FloatArray:
        return np.linspace(-self.reach, self.reach, len(self.slopes))

    def _lowest(self) -> float:
        """Return a minimiser of f: a knot if no slope is 0."""
        slopes = np.asarray(self.slopes)
        above = int(np.searchsorted(slopes, 0.0))
        # f is monotone on the whole table.
        if above in (0, len(slopes)):
            return -self.reach if above == 0 else self.reach
        left, right = slopes[above - 1], slopes[above]
        step = 2.0 * self.reach / (len(slopes) - 1)
        return float(self._knots[above - 1] - step * left / (right - left))

    def _ends(self, margin: float) -> tuple[float, float]:
        far = checked_margin(margin)
        far += self.label_bound if self.variable == "residual" else 0.0
        return -far, far

    def _function(self, points: FloatArray) -> FloatArray:
        """Return f at points, shape (n,)."""
        # With label 0 the residual is the margin.
        engine = self._table(residual=True, labels=(0.0, 0.0))
        values: FloatArray = engine.values(np.ascontiguousarray(points), np.zeros(len(points)))
        return values

    def _table(self, *, residual: bool, labels: tuple[float, float]) -> _core.GlmLoss:
        slopes = np.array(self.slopes)
        return _core.GlmLoss.from_table(slopes, self.reach, self.at_zero, residual, *labels)

    @property
    def _glm_engine(self) -> _core.GlmLoss:
        return self._table(residual=self.variable == "residual", labels=self.label_range)


def _evaluate(name: str, function: Function, knots: FloatArray) -> FloatArray:
    if not callable(function):
        raise TypeError(f"{name} must be a function of an array; got {type(function).__name__}")
    # A copy: the function may write to its argument.
    values = float_array(f"the result of {name}", function(knots.copy()), knots.shape)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite on [-reach, reach]: take a smaller reach")
    return values


def _check_integral(
    inner: str, outer: str, slopes: FloatArray, values: FloatArray, step: float
) -> None:
    """Raise unless a function is the derivative of the other."""
    # The trapezoidal rule is exact for the table's piecewise linear slopes.
    differences = 0.5 * step * (slopes[1:] + slopes[:-1])
    gap = np.abs(np.cumsum(differences) - (values[1:] - values[0])).max()
    # The rule is off by up to half of a jump of the inner function within a piece.
    scale = float(np.ptp(values)) + step * float(np.abs(slopes).max())
    if gap > _AGREE * scale + step * float(np.ptp(slopes)):
        raise ValueError(f"{inner} is not the derivative of {outer}")
