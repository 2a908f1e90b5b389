"""Private prediction with expert advice: static, shifting, oblivious and adaptive losses.

In each round every learner plays the index of one of N experts and then sees the losses of all of
them. The whole sequence of indices is differentially private.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpoco import _literals as literals
from dpoco._choice import ADVERSARIES as ADVERSARIES
from dpoco._choice import choose
from dpoco._validation import positive_int
from dpoco.accounting import Budget, Guarantee
from dpoco.experts._expert_learner import ExpertTrace
from dpoco.experts._selectors import (
    EpochSelector,
    EpochSelectorParameters,
    ShiftDetector,
    ShiftDetectorParameters,
    WindowSelector,
    WindowSelectorParameters,
)
from dpoco.experts._weights import (
    BatchShare,
    BatchShareParameters,
    ObliviousTracker,
    ObliviousTrackerParameters,
    PrefixHedge,
    PrefixHedgeParameters,
)

__all__ = ["BatchShare", "BatchShareParameters", "EpochSelector",
           "EpochSelectorParameters", "ExpertPlan", "ExpertTrace", "ObliviousTracker",
           "ObliviousTrackerParameters", "PrefixHedge", "PrefixHedgeParameters",
           "ShiftDetector", "ShiftDetectorParameters", "WindowSelector",
           "WindowSelectorParameters", "plan_experts"]  # fmt: skip


@dataclass(frozen=True)
class ExpertPlan:
    """One calibrated learner with its proved bound.

    Attributes
    ----------
    learner : str
        Class of the learner in `dpoco.experts`.
    plan : object
        Result of the calibration; pass it to the class as ``plan=``.
    guarantee : Guarantee
        Privacy of all decisions together.
    regret_bound : float
        Bound on the regret against the best sequence of experts with the planned number of
        switches, in units of the loss range. It is a worst case over all losses of `scope`, in
        expectation; for ``EpochSelector``, ``WindowSelector`` and ``ShiftDetector`` see their
        accountants.
    scope : str
        Losses for which the bound holds, one of ``ADVERSARIES``.
    """

    learner: str
    plan: Any
    guarantee: Guarantee
    regret_bound: float
    scope: str

    @property
    def useful(self) -> bool:
        """Whether the bound is useful: losses in [0, 1] never have more regret than T."""
        return self.regret_bound < self.guarantee.horizon

    def make(self, **options: Any) -> Any:
        """Return the learner; `options` takes ``loss_range``, ``on_violation`` and ``source``."""
        p = self.plan
        budget = None
        if self.guarantee.private and self.guarantee.epsilon > 0.0:
            budget = Budget._derived(self.guarantee.epsilon, self.guarantee.delta)
        learner = globals()[self.learner]
        return learner(p.experts, horizon=p.horizon, budget=budget, plan=p, **options)


def plan_experts(
    experts: int,
    *,
    horizon: int,
    budget: Budget,
    switches: int = 0,
    adversary: literals.Adversary = "oblivious",
    gap: float = 0.0,
) -> tuple[ExpertPlan, ...]:
    """Return every learner with a regret bound for these losses, smallest bound first.

    Parameters
    ----------
    experts : int
        N.
    horizon : int
        Rounds T.
    budget : Budget
        Budget of all decisions together; ``delta = 0`` asks for pure privacy.
    switches : int, default 0
        S: the learner is compared with the best sequence of experts that changes at most S times.
    adversary : {"stationary", "shifting", "oblivious", "adaptive"}
        How the losses arise: "stationary": drawn independently from one distribution; "shifting":
        from a distribution that changes S times; "oblivious": fixed in advance; "adaptive": in
        reaction to the decisions. It is never weakened silently: a bound for special losses is not
        offered for general ones.
    gap : float, default 0
        For "stationary" and "shifting" losses: how much larger the mean losses of all other experts
        are than that of the best expert, as a share of the range, in [0, 1]. ``WindowSelector``
        uses it.

    Returns
    -------
    tuple of ExpertPlan

    Raises
    ------
    CalibrationError
        If no learner can be calibrated to the budget.

    Notes
    -----
    Privacy holds for all losses, whatever `adversary` is: it concerns only the regret. The bounds
    are in units of the range of the losses and for the worst possible losses. Where the
    distribution of losses shifts, ``WindowSelector`` often has many times less regret than learners
    with smaller bounds; `dpoco.choose` ranks by expected regret. The function takes a second or two
    and needs no data.

    Examples
    --------
    >>> import dpoco
    >>> plans = dpoco.experts.plan_experts(
    ...     10, horizon=100_000, budget=dpoco.Budget(1.0, 1e-6), switches=5)
    >>> plans[0].learner
    'ObliviousTracker'
    """
    positive_int("horizon", horizon)
    choices = choose(
        experts, horizon=horizon, budget=budget, switches=switches, adversary=adversary, gap=gap
    )
    plans = [
        ExpertPlan(
            each.learner.removeprefix("experts."),
            each.plan,
            each.guarantee,
            each.plan.regret_bound,
            each.plan.regret_scope,
        )
        for each in choices
    ]
    return tuple(sorted(plans, key=lambda plan: plan.regret_bound))
