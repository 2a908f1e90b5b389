"""Accounting of report noisy max: the index of the best score after adding noise to each.

Let one record move every score by an amount in [c, c + r], with the same c for all scores. For
scores that move by at most D in any direction, r = 2 D; if they all move in the same direction, r =
D. Claim: one selection with noise of scale b is (r / b)-private, tightly. With Gumbel noise, its
log-likelihood ratios also lie in an interval of length r / b (`BoundedRange`), which composes much
better: each selection is (r / b)^2 / 8-zCDP. Otherwise it is (r / b)^2 / 2-zCDP.

Proof: ``docs/privacy/noisy_max.md``. Sources: Dwork and Roth, "The algorithmic foundations of
differential privacy" (2014), section 3.3; McKenna and Sheldon, "Permute-and-flip" (2020); Ding,
Kifer, Saghaian, Steinke, Wang, Xiao and Zhang, "The permute-and-flip mechanism is identical to
report-noisy-max with exponential noise" (2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import known_horizon
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.plan import Plan
from dpoco.accounting.rdp import zcdp_rho
from dpoco.accounting.statement import stated_delta
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.loss import sum_up
from dpoco.privacy.mechanisms.base import Nothing
from dpoco.privacy.mechanisms.selections import PromisedScores, Selections
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description

__all__ = ["LARGEST_CANDIDATES", "NOISES", "NoisyMaxPlan", "NoisyMaxTuning", "calibrate",
           "guarantee", "mean_excess", "selection_budget"]  # fmt: skip

NOISES = ("exponential", "gumbel", "laplace")
LARGEST_CANDIDATES = 2**32
# Larger scales would overflow in sums and products.
LARGEST_NOISE = 1e200


@dataclass(frozen=True)
class NoisyMaxTuning(Description):
    """Number of scores, number of selections, and which score is selected.

    Attributes
    ----------
    candidates : int
        Number of scores, at most 2^32.
    horizon : int
        Number of selections.
    largest : bool
        Whether the largest or the smallest score is selected.
    """

    kind = "noisy_max_tuning"
    candidates: int
    horizon: int
    largest: bool

    def __post_init__(self) -> None:
        """Raise for too many candidates."""
        super().__post_init__()
        positive_int("candidates", self.candidates, maximum=LARGEST_CANDIDATES)


NoisyMaxPlan = Plan[Selections | Nothing, NoisyMaxTuning, None]


def mean_excess(candidates: int, noise: str) -> float:
    """Return a bound on the mean difference of the selected score from the best one.

    In units of the scale. It is the expected noise of the selected candidate minus that of any
    fixed one. Exponential: H_N - 1. Gumbel: log N. Laplace: H_N, from the magnitudes alone.
    """
    n = positive_int("candidates", candidates, maximum=LARGEST_CANDIDATES)
    law = choice("noise", noise, NOISES)
    if n == 1:
        return 0.0
    excess = math.log(n)
    if law != "gumbel":
        # H_n. We cut off the asymptotic series after a positive and before a negative term.
        excess += 0.5772156649015329 + 0.5 / n
        if n <= 1000:
            excess = math.fsum(1.0 / k for k in range(1, n + 1))
        excess -= 1.0 if law == "exponential" else 0.0
    # The factor exceeds all rounding errors, so that the result remains an upper bound.
    return excess * (1.0 + 1e-15)


def scale_for(reach: float, epsilon: float) -> float:
    """Return the smallest scale b, a double of at least 1e-200, with ``reach / b <= epsilon``.

    Raises
    ------
    CalibrationError
        If the scale exceeds 1e200.
    """
    if not epsilon * LARGEST_NOISE >= reach:
        raise CalibrationError(
            f"this budget needs a noise scale above {LARGEST_NOISE:g}; the smallest epsilon (of "
            f"this part of it) that does not is {reach / LARGEST_NOISE:.6g}"
        )
    return raise_scale(
        max(reach / epsilon, 1.0 / LARGEST_NOISE), lambda b: sum_up((1, reach, b)) <= epsilon
    )


def raise_scale(scale: float, holds: Callable[[float], bool]) -> float:
    """Return the smallest double >= `scale` that holds; if it is far, a double not far above."""
    step = 2.0**-58
    while not holds(scale):
        # A step below half a unit in the last place has no effect, so the first candidates are
        # neighbouring doubles.
        scale, step = math.nextafter(scale, math.inf) * (1.0 + step), 2.0 * step
    return scale


def selection_budget(budget: Budget, noise: str, count: int = 1) -> float:
    """Return the largest pure epsilon of one of `count` selections that keep to `budget`."""
    each = budget.epsilon / count
    if budget.delta == 0.0:
        return each
    if choice("noise", noise, NOISES) != "gumbel":
        if count == 1:  # no composition
            return each
        try:
            # Each selection is (r / b)^2 / 2-zCDP. If that allows less than adding epsilons, the
            # sum of epsilons counts.
            return max(each, math.sqrt(2.0 * zcdp_rho(budget.epsilon, budget.delta) / count))
        except CalibrationError:
            return each

    # `Guarantee` computes epsilon to 2^-49 above the root, so this search aims lower by more than
    # that.
    below = budget.epsilon * (1.0 - 2.0**-48)

    def holds(r: float) -> bool:
        return BoundedRange(r, count).delta(below) <= budget.delta

    low, high = each, 2.0 * each
    while holds(high):
        low, high = high, 2.0 * high
    while high > low * (1.0 + 1e-12):
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def calibrate(
    candidates: int,
    *,
    horizon: int = 1,
    budget: Budget | None,
    sensitivity: float = 1.0,
    noise: str = "exponential",
    one_directional: bool = False,
    largest: bool = True,
) -> NoisyMaxPlan:
    """Return the least noise for which `horizon` selections together keep to `budget`.

    Parameters
    ----------
    candidates : int
        Number of scores.
    horizon : int
        Number of selections, on the same data.
    budget : Budget or None
        None adds no noise. With ``delta > 0``, several selections are composed by concentration
        instead of by adding epsilons, if that is better.
    sensitivity : float
        Largest change of one score.
    noise : {"exponential", "gumbel", "laplace"}
        "exponential" has the smallest error for one selection; "gumbel" composes best under ``delta
        > 0``.
    one_directional : bool
        Whether a record moves all scores in the same direction, which halves the noise.
    largest : bool
        Whether the largest or the smallest score is selected.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    scores = PromisedScores(positive_float("sensitivity", sensitivity), one_directional)
    n = positive_int("candidates", candidates, maximum=LARGEST_CANDIDATES)
    tuning = NoisyMaxTuning(n, known_horizon(horizon), largest)
    reach, selections, law, scale = (
        scores.range,
        tuning.horizon,
        choice("noise", noise, NOISES),
        0.0,
    )
    if budget is not None:
        each = selection_budget(budget, noise, selections)
        scale = scale_for(reach, each)
        # Compared exactly: `selection_budget` returns this quotient if epsilons add up.
        if each == budget.epsilon / selections:  # epsilons add up: the sum must keep to the budget

            def epsilon_at(scale: float) -> float:
                if law == "gumbel":
                    return BoundedRange(sum_up((1, reach, scale)), selections).pure
                return sum_up((selections, reach, scale))

            scale = raise_scale(scale, lambda b: epsilon_at(b) <= budget.epsilon)
    if n == 1:
        return Plan(Nothing("there is one candidate"), tuning, None)
    drawn = Selections(law=law, scores=scores, scale=scale, rounds=selections, exponent=0.0)
    return Plan(drawn, tuning, None)


def guarantee(
    plan: NoisyMaxPlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism.

    Parameters
    ----------
    plan, budget, seeded
        See `dpoco.accounting.statement`.
    """
    own, drawn = plan.tuning, plan.mechanism
    law = f" ({drawn.law} noise)" if isinstance(drawn, Selections) else ""
    return Guarantee.about(
        drawn,
        Neighbours(),
        released=f"the {'largest' if own.largest else 'smallest'} of {own.candidates} scores by "
        f"noisy max{law}, {own.horizon} selections",
        horizon=own.horizon,
        delta=stated_delta(budget, own.horizon),
        reference="report noisy max; docs/privacy/noisy_max.md",
        seeded=seeded,
    )
