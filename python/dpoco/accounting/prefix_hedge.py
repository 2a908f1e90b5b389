"""Accounting of Hedge on noisy sums of losses.

Claim: data reach the decisions only through one continual sum of loss vectors in [0, 1]^N without
their mean, whose l2 sensitivity is D = sqrt(N - (N mod 2)/N), the diameter of the cube after the
common shift is removed; hence all decisions together are mu-GDP with mu = D column_norm / sigma,
also when the losses react to the decisions. With one expert or one round they do not depend on the
data at all.

Proof: ``docs/privacy/prefix_hedge.md``. Source: Agarwal and Singh, "The price of differential
privacy for online learning" (2017), with exact Gaussian accounting, better sums and a sensitivity
that leaves out the common shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting._hedge_regret import HedgeParameters, HedgeRun
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.regret_bounds import uniform_is_as_good
from dpoco.accounting.release import (
    DEFAULT_NUMERICS,
    calibrate_noise,
    check_numerics,
    numerics_of,
    plain_numerics,
    sum_of,
)
from dpoco.accounting.statement import check_experts, state_experts
from dpoco.privacy.mechanisms.bounds import CentredLosses
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours

__all__ = ["PrefixHedgeParameters", "calibrate", "guarantee", "mechanism_of"]

NEAR = Neighbours()
CALIBRATIONS = ("tight",)


@dataclass(frozen=True, kw_only=True)
class PrefixHedgeParameters(HedgeParameters):
    """Parameters of Hedge on noisy sums.

    The value carries no claim of its own: `guarantee` recomputes every privacy and regret quantity
    from the noise scale, the sum, the learning rate and the sizes.

    Attributes
    ----------
    experts : int
        N.
    horizon : int
        Rounds T.
    sum_method : {"blt", "blt_normalised", "tree", "honaker", "toeplitz"}
        Continual sum; it takes T - 1 pushes.
    noise_scale : float
        Scale sigma of one Gaussian draw; 0 means no noise.
    learning_rate : float
        eta, per unit of losses in [0, 1].
    calibration : {"tight"}
        Exact Gaussian accounting.
    sensitivity : float
        Largest l2 difference of what a round adds to the sum, between neighbours. Derived, as is
        everything below.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise, 0 if nothing depends on the data.
    regret_bound : float
        Bound on the expected regret to the best expert, for losses in [0, 1].
    regret_terms : dict of str to float
        The terms it is the sum of.
    regret_scope : {"oblivious", "adaptive"}
        Losses it holds for: fixed in advance, or any.
    numerics : {"float", "lattice"}
        Arithmetic of the sum: doubles, or exact integers.
    """

    kind: ClassVar[str] = "dpoco.prefix_hedge_parameters"
    version: ClassVar[int] = 2
    added: ClassVar[dict[str, str]] = {"numerics": "float"}

    experts: int = at_least(1, 2**32)
    horizon: int
    sum_method: str = one_of(*continual_sum.METHODS)
    noise_scale: float = at_least(0.0)
    learning_rate: float
    calibration: str = one_of(*CALIBRATIONS)
    sensitivity: float = at_least(0.0)
    column_norm: float = at_least(0.0)
    mu: float = at_least(0.0, infinite=True)
    regret_bound: float = at_least(0.0)
    regret_terms: dict[str, float]
    regret_scope: str = one_of("oblivious", "adaptive")
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        check_numerics(self.numerics, "gaussian")

    @property
    def noise_dominates(self) -> bool:
        """Whether noise makes the regret bound no better than that of uniform draws."""
        return self.private and uniform_is_as_good(self.experts, self.horizon, self.regret_bound)


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    calibration: str = "tight",
    sum_method: str | None = None,
    learning_rate: float | None = None,
    numerics: str = DEFAULT_NUMERICS,
) -> PrefixHedgeParameters:
    """Return the least noise that meets `budget`, and the learning rate of the least regret bound.

    Parameters
    ----------
    experts : int
        N.
    horizon : int
        Rounds. None is refused: the noise of every round depends on their number.
    budget : Budget or None
        None adds no noise and promises nothing.
    calibration : {"tight"}
        Exact Gaussian differential privacy.
    sum_method : {"auto", "blt", "blt_normalised", "tree", "honaker", "toeplitz"}, optional
        None and "auto" take the least regret bound, "blt_normalised" unless another is more
        than 1 % better.
    learning_rate : float, optional
        eta; None minimises the regret bound.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget, as for delta = 0.
    """
    n = positive_int("experts", experts, maximum=2**32)
    if horizon is None:
        raise ValueError("horizon must be an int: the noise depends on the number of rounds")
    rounds = positive_int("horizon", horizon)
    choice("calibration", calibration, CALIBRATIONS)
    trivial = n == 1 or rounds == 1
    if budget is not None and not trivial:
        budget.require_delta()
    pushes = max(rounds - 1, 1)
    if sum_method not in (None, "auto"):
        methods: tuple[str, ...] = (choice("sum_method", sum_method, continual_sum.METHODS),)
    elif budget is None:
        methods = ("blt",)
    else:
        long = pushes > continual_sum.TOEPLITZ_LIMIT
        methods = ("blt_normalised", "honaker", "tree", *(() if long else ("toeplitz",)))
    best: PrefixHedgeParameters | None = None
    for method in methods:
        found = sum_of(CentredLosses(n), method, pushes, NEAR)
        arithmetic, mu = plain_numerics(numerics, "gaussian"), 0.0 if trivial else math.inf
        if budget is not None and not trivial:
            found, mu = calibrate_noise(found, NEAR, budget=budget, numerics=numerics)
            arithmetic = numerics_of(found)
        run = HedgeRun(n, rounds, method, found.scale)
        eta = run.best_learning_rate() if learning_rate is None else learning_rate
        regret = run.regret(positive_float("learning_rate", eta))
        candidate = PrefixHedgeParameters(
            experts=n,
            horizon=rounds,
            sum_method=method,
            noise_scale=found.scale,
            learning_rate=eta,
            calibration=calibration,
            sensitivity=math.sqrt(n - (n % 2) / n),
            column_norm=found.factorisation.column(pushes),
            mu=mu,
            regret_bound=regret.total,
            regret_terms=regret.terms,
            regret_scope=regret.scope,
            numerics=arithmetic,
        )
        # The first candidate is the default; another must be clearly better.
        if best is None or candidate.regret_bound < 0.99 * best.regret_bound:
            best = candidate
    assert best is not None
    return best


def guarantee(
    experts: int,
    parameters: PrefixHedgeParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scale and sizes.

    Parameters
    ----------
    experts : int
        N.
    parameters : PrefixHedgeParameters
        Calibrated or the user's own; sensitivity, column norm, mu and regret are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters are for another number of experts.
    """
    p, mechanism = parameters, mechanism_of(experts, parameters)
    regret = HedgeRun(experts, p.horizon, p.sum_method, p.noise_scale).regret(p.learning_rate)
    return state_experts(
        mechanism,
        p,
        released=f"the decisions of Hedge on noisy sums ({experts} experts, {p.sum_method!r} sum)",
        reference="adaptive Gaussian composition; docs/privacy/prefix_hedge.md",
        budget=budget,
        seeded=seeded,
        conditions=("losses are clipped to their declared range, enforced",),
        regret_bound=regret.total,
        regret_scope=regret.scope,
        details={
            "learning rate": p.learning_rate,
            **{f"regret: {name}": value for name, value in regret.terms.items()},
        },
    )


def mechanism_of(experts: int, parameters: PrefixHedgeParameters) -> GaussianSum:
    """Return the one sum through which losses reach the decisions: all rounds but the last.

    Raises
    ------
    ValueError
        If the parameters are for another number of experts.
    """
    p = parameters
    check_experts(experts, p)
    return sum_of(
        CentredLosses(experts),
        p.sum_method,
        p.horizon - 1,
        NEAR,
        scale=p.noise_scale,
        numerics=p.numerics,
    )
