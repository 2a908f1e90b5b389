"""Accounting of selection on dyadic epochs.

Claim: every round's losses reach the decisions through one noisy argmin of sums over one epoch,
so all decisions together, over any number of rounds, are 2/b-private for noise of scale b: a
round moves each of the sums by at most 1, in either direction. Losses drawn independently from one
law give an expected regret, against the best expert in hindsight, of at most

    1 + sum over epochs of n min(1, sqrt(log N / (2 m)) + b c_N / m) + sqrt(T log N / 2)

with n the rounds played, m those selected from, and c_N the mean excess of the noise, H_N - 1 if
exponential.

Proof: ``docs/privacy/epoch_selector.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately", algorithm 1 (an argmin where it prints an argmax) and theorem 3.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from dpoco._validation import choice, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.noisy_max import mean_excess, scale_for, selection_budget
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.regret_bounds import endless_regret
from dpoco.accounting.statement import check_experts, expert_guarantee, expert_mechanism
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Parts
from dpoco.privacy.mechanisms.selections import LossSums, Selections

__all__ = ["EpochSelectorParameters", "calibrate", "guarantee", "mechanism_of",
           "regret_bound", "regret_terms"]  # fmt: skip

guarantee, mechanism_of = expert_guarantee, expert_mechanism
SELECTIONS = ("exponential", "gumbel", "laplace")
# Of losses in [0, 1], to which learners scale what they clip.
LOSS_SUMS = LossSums(1.0)
LARGEST_EXPERTS = 2**32
# What rounding of losses and sums adds to the difference of two mean losses.
ROUNDING = 2.0**-45


@dataclass(frozen=True, kw_only=True)
class EpochSelectorParameters(Parameters):
    """Parameters of the selector on epochs.

    Attributes
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds T; None is 10^12.
    calibration : {"tight", "corrected", "paper"}
        The last two are the published Laplace noise.
    selection : {"exponential", "gumbel", "laplace"}
        Law of the noise.
    scale : float
        Scale b of one noise variate, in units of losses in [0, 1]; 0 means no noise.
    first : int or None
        Expert of the first round; None draws it uniformly.
    regret_bound : float or None
        Bound on the expected regret to the best expert over the horizon, for independent losses of
        one law in [0, 1]; None without a horizon. Derived, as is what follows.
    regret_terms : dict of str to float
        Terms that add up to it, unless the number of rounds is smaller.
    regret_scope : {"stationary"}
        Losses it holds for.
    """

    kind: ClassVar[str] = "dpoco.epoch_selector_parameters"
    pieces: ClassVar[str] = "epochs"

    experts: int = at_least(1, LARGEST_EXPERTS)
    horizon: int | None
    calibration: str = one_of("tight", "corrected", "paper", default="tight")
    selection: str = one_of(*SELECTIONS)
    scale: float = at_least(0.0)
    first: int | None = at_least(0)
    regret_bound: float | None = at_least(0.0, default=None)
    regret_terms: dict[str, float]
    regret_scope: str = one_of("stationary", default="stationary")

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        check_first(self.first, self.experts)

    @property
    def private(self) -> bool:
        """Whether there is a guarantee: there is noise, or nothing depends on the data."""
        return self.scale > 0.0 or self.experts == 1 or self.horizon == 1

    @property
    def assumed(self) -> dict[str, float]:
        """What the bound on regret is for, besides its scope."""
        return {}

    def regret(self, rounds: int | None = None) -> tuple[float, dict[str, float]]:
        """Return the bound on regret over `rounds` (default: the horizon), and its terms."""
        length = positive_int("rounds", self.horizon if rounds is None else rounds)
        terms = self._regret_terms(length)
        return min(float(length), math.fsum(terms.values())), terms

    def _regret_terms(self, rounds: int) -> dict[str, float]:
        return regret_terms(self.experts, rounds, self.scale, self.selection)

    def mechanism(self) -> Mechanism:
        """Return what is drawn: a round's losses enter the selection of one epoch."""
        if self.experts == 1 or self.horizon == 1:
            return Nothing("there is nothing to select from, or nothing to select by")
        each = Selections(
            law=self.selection, scores=LOSS_SUMS, scale=self.scale, rounds=1, exponent=0.0
        )
        return Parts("instances", (each,), "epoch_selector")

    def stated(self, mechanism: Mechanism) -> dict[str, Any]:
        """Return further fields of the guarantee."""
        bound, terms = (None, {}) if self.horizon is None else self.regret()
        among = f"among {self.experts} experts ({self.selection} noise)"
        return {
            "released": f"the decisions of selection on {self.pieces} {among}",
            "reference": f"noisy argmin on disjoint {self.pieces}; docs/privacy/epoch_selector.md",
            "regret_bound": bound,
            "regret_scope": self.regret_scope,
            "details": {
                **self.assumed,
                **{f"regret: {name}": value for name, value in terms.items()},
                **(endless_regret(lambda t: self.regret(t)[0]) if self.horizon is None else {}),
            },
        }


Selector = TypeVar("Selector", bound=EpochSelectorParameters)


def check_first(first: int | None, experts: int) -> None:
    """Raise `ValueError` unless the expert of the first round, if there is one, exists."""
    if first is not None and first >= experts:
        raise ValueError(f"first must be below the number of experts, {experts}; got {first}")


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    selection: str | None = None,
    first: int | None = None,
) -> EpochSelectorParameters:
    """Return the least noise that meets `budget`.

    Parameters
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds; None: any number, up to 10^12. The noise is the same.
    budget : Budget or None
        None adds no noise and gives no guarantee. A positive delta helps only "gumbel".
    selection : {"exponential", "gumbel", "laplace"}, optional
        Law of the noise; "exponential" (default) errs least.
    first : int, optional
        Expert of the first round; None draws it uniformly.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    """
    n = positive_int("experts", experts, maximum=LARGEST_EXPERTS)
    law = "exponential" if selection is None else choice("selection", selection, SELECTIONS)
    scale = 0.0
    if budget is not None:
        scale = scale_for(LOSS_SUMS.range, selection_budget(budget, law))
    bare = EpochSelectorParameters(
        experts=n,
        horizon=horizon,
        selection=law,
        scale=scale,
        first=first,
        regret_terms={},
    )
    return with_regret(bare)


def with_regret(bare: Selector) -> Selector:
    """Return parameters with the bound over their horizon, if they have one."""
    if bare.horizon is None:
        return bare
    bound, terms = bare.regret()
    return replace(bare, regret_bound=bound, regret_terms=terms)


def regret_bound(
    experts: int, parameters: EpochSelectorParameters, *, rounds: int | None = None
) -> float:
    """Return a bound on the expected regret after `rounds` (default: the horizon, if any).

    In expectation over losses that are drawn independently from one law on [0, 1]^N and over the
    learner's noise; against the expert that turns out best. Of `WindowSelectorParameters`: from a
    law that changes, against sequences, as they say.
    """
    check_experts(experts, parameters)
    return parameters.regret(rounds)[0]


def regret_terms(experts: int, rounds: int, scale: float, selection: str) -> dict[str, float]:
    """Return the terms of the bound on the expected regret; see `regret_bound`.

    Parameters
    ----------
    experts, rounds : int
        N and T.
    scale : float
        Scale of the noise.
    selection : {"exponential", "gumbel", "laplace"}
        Its law.

    Returns
    -------
    dict
        "first round"; "sampling" of the losses selected from; "privacy", what the noise adds to
        it; "comparator": how much luckier than its mean the best expert is.
    """
    if experts == 1:
        return dict.fromkeys(("first round", "sampling", "privacy", "comparator"), 0.0)
    log_n = math.log(experts)
    excess = scale * mean_excess(experts, selection)
    sampling = total = 0.0
    m = 1
    while 2 * m <= rounds:
        played = min(2 * m, rounds - 2 * m + 1)
        per_round = math.sqrt(0.5 * log_n / m) + ROUNDING
        sampling += played * min(1.0, per_round)
        total += played * min(1.0, per_round + excess / m)
        m *= 2
    return {
        "first round": 1.0,
        "sampling": sampling,
        "privacy": max(0.0, total - sampling),
        "comparator": math.sqrt(0.5 * rounds * log_n),
    }
