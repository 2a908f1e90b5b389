"""Accounting of LinUCB on noisy statistics: joint differential privacy.

Claim: data reach the arms' estimates only through one continual sum of the statistics
(x x', a r x) of the arm chosen, zeros for all others, ||x||_2 <= X, |r| <= Y. With
u = (a Y / X)^2, replacing one user's record (the context and the rewards of all arms, whatever arm
it then leads to) moves a summand by at most D = sqrt(2) X^2 (1 + u/2) in Frobenius norm for u <= 2,
else 2 X^2 sqrt(u); emptying it by at most X^2 sqrt(1 + u). So all released statistics are together
mu-GDP with mu = D column_norm / sigma, and so are all actions shown to users other than the one
whose record changed: each is a function of what is released and of its own user's context.

Proof: ``docs/privacy/linucb.md``. Source: Shariff and Sheffet, "Differentially private contextual
linear bandits" (2018), with exact Gaussian accounting, better sums and disjoint arms.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dpoco._validation import choice, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.linucb_parameters import (
    LinUCBParameters,
    bias_of,
    confidence_of,
    noise_bounds,
    regret_of,
)
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.release import DEFAULT_NUMERICS, plain_numerics, planned_noise, sum_of
from dpoco.accounting.statement import state_sum, stated_delta
from dpoco.accounting.truncation import charged_gaussian_mu
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours

__all__ = ["LinUCBParameters", "calibrate", "guarantee", "mechanism_of"]

# Products are rounded in double precision; contexts are shrunk by more than that beforehand.
ROUNDING = 1.0 + 1e-12
# Candidates for u = (a Y / X)^2; beyond 2 the noise in the rewards falls no further.
_SHARES = tuple(2.0 ** (1.0 - 0.25 * i) for i in range(40))
# What a batch may cost: of statistics that are a batch old, (b - 1) X^2 / rho in the square of the
# bound on regret; at the start, before each arm has been released once, b K / T.
_STALE, _START = 0.1, 0.01
_LARGEST_BATCH_BITS = 20
# What every bandit's guarantee is about.
JOINT = (
    "a user's record is the context and the rewards of all arms; it is hidden from all "
    "OTHER users and from everybody who sees the estimates, not from those who see the "
    "user's own action or reward: a log of all actions is not covered",
    "other users' records do not depend on a user's own action and reward",
)
NEIGHBOURS = {"replace": "a user's record is replaced", "zero_out": "a record is emptied"}


def calibrate(
    arms: int,
    dimension: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    calibration: str = "tight",
    context_bound: float = 1.0,
    reward_bound: float = 1.0,
    parameter_bound: float = 1.0,
    reward_noise: float | None = None,
    failure: float | None = None,
    exploration: float = 1.0,
    batch: int | None = None,
    regularization: float | None = None,
    reward_weight: float | None = None,
    sum_method: str | None = None,
    relation: str = "replace",
    numerics: str = DEFAULT_NUMERICS,
) -> LinUCBParameters:
    """Return the least noise that meets `budget`, and options that suit it.

    Parameters
    ----------
    arms, dimension : int
        K and d.
    horizon : int
        Rounds T. None is refused: noise and confidence depend on their number.
    budget : Budget or None
        None adds no noise and promises nothing.
    calibration : {"tight"}
        Exact Gaussian differential privacy.
    context_bound, reward_bound, parameter_bound : float
        X, Y and S.
    reward_noise : float, optional
        R; default Y, which holds for all rewards in [-Y, Y].
    failure : float, optional
        alpha; default 1/T.
    exploration : float
        Factor on the confidence width; below 1 nothing is proved about regret.
    batch : int, optional
        Rounds per release; default: a power of two, as large as costs next to no regret. 1 without
        noise.
    regularization : float, optional
        rho; default: the noise margin, X^2 without noise.
    reward_weight : float, optional
        a; default: the narrowest confidence intervals.
    sum_method : {"auto", "blt", "blt_normalised", "tree", "honaker", "toeplitz"}, optional
        None and "auto" take the least error: "blt_normalised".
    relation : {"replace", "zero_out"}
        What happens to one user's record between neighbours.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget, as for delta = 0.
    """
    if horizon is None:
        raise ValueError("horizon must be an int: the noise depends on the number of rounds")
    rounds = positive_int("horizon", horizon)
    plain = LinUCBParameters(
        arms=arms,
        dimension=dimension,
        horizon=rounds,
        batch=1 if batch is None else batch,
        sum_method="blt",
        noise_scale=0.0,
        reward_weight=1.0 if reward_weight is None else reward_weight,
        regularization=1.0 if regularization is None else regularization,
        context_bound=context_bound,
        reward_bound=reward_bound,
        parameter_bound=parameter_bound,
        reward_noise=reward_bound if reward_noise is None else reward_noise,
        failure=min(0.5, 1.0 / rounds) if failure is None else failure,
        exploration=exploration,
        relation=relation,
        calibration=calibration,
        sensitivity=0.0,
        column_norm=1.0,
        mu=math.inf,
        regret_bound=0.0,
        regret_terms={},
        numerics=plain_numerics(numerics, "gaussian"),
    )
    rho = None if regularization is None else plain.regularization
    weight = None if reward_weight is None else plain.reward_weight
    if rho is None:
        plain = replace(plain, regularization=plain.context_bound**2)
    options = (budget, sum_method, rho, weight, numerics)
    best = _doubled(plain, *options) if batch is None else _tuned(plain, *options)
    total, terms = regret_of(best)
    return replace(best, regret_bound=total, regret_terms=terms)


def _doubled(plain: LinUCBParameters, *options: Any) -> LinUCBParameters:
    """Return the parameters of the largest batch by which little is lost; of the first that fits.

    Little in the bound, of statistics that are a batch old, and at the start. The tails of many
    releases may cost more than delta: then no small batch meets the budget.
    """
    best: LinUCBParameters | None = None
    for b in (1 << bit for bit in range(_LARGEST_BATCH_BITS + 1)):
        try:
            following = _tuned(replace(plain, batch=b), *options)
        except CalibrationError:
            if b == 1 << _LARGEST_BATCH_BITS or 2 * b >= plain.horizon:
                raise  # a batch as long as the horizon would learn nothing
            continue
        stale = (b - 1) * following.context_bound**2 / following.regularization
        costly = stale > _STALE or b * plain.arms > _START * plain.horizon
        if best is not None and costly:
            break
        best = following
        if costly and b > 1:
            break
    assert best is not None
    return best


def _tuned(
    plain: LinUCBParameters,
    budget: Budget | None,
    sum_method: str | None,
    rho: float | None,
    weight: float | None,
    numerics: str,
) -> LinUCBParameters:
    """Return the parameters with the least noise for this batch; rho: the noise margin if None."""
    near, method = Neighbours(plain.relation), sum_method
    if method in (None, "auto"):
        method = "blt" if budget is None else continual_sum.choose_method(plain.pushes)
    choice("sum_method", method, continual_sum.METHODS)
    column = continual_sum.column_norm(method, plain.pushes)
    base = replace(plain, sum_method=method, column_norm=column)
    if budget is None or base.releases == 0:
        # Without noise the weight has no effect, nor has anything without a release.
        moved = _moments(base, rounding=1.0).movement(near)
        return replace(base, sensitivity=moved, mu=math.inf if budget is None else 0.0)
    budget.require_delta()
    total = mechanism_of(base.arms, base.dimension, base)

    def noisy(weight: float) -> LinUCBParameters:
        """Return the parameters with the noise that this weight needs."""
        p = replace(base, reward_weight=weight)
        plain = replace(total, summand=_moments(p))
        noise = planned_noise(plain, near, budget=budget, numerics=numerics)
        noise["sensitivity"] = _moments(p, rounding=1.0).movement(near)
        margin = noise_bounds(p, noise["noise_scale"])[0]
        return replace(p, **noise, regularization=margin if rho is None else rho)

    if weight is not None:
        return noisy(weight)
    # In plain numbers first: arithmetic makes the noise hardly larger than it is here.
    mu = charged_gaussian_mu(budget, total.tails(exact=numerics != "float"))
    units, ratio = base.context_bound**2, base.context_bound / base.reward_bound
    weights = [math.sqrt(u) * ratio for u in _SHARES]
    biases = [
        bias_of(base, units * moved * column / mu, weight, rho)
        for weight, moved in zip(weights, _unit_movements(base.relation), strict=True)
    ]
    close = [w for w, bias in zip(weights, biases, strict=True) if bias <= 1.02 * min(biases)]
    return min(map(noisy, close), key=lambda p: confidence_of(p).bias)


@lru_cache
def _unit_movements(relation: str) -> tuple[float, ...]:
    """Return how far the statistics move for every share, in units of the context's bound."""
    near = Neighbours(relation)
    return tuple(
        SecondMoments(1, 2.0, 1.0, math.inf, 1.0, math.sqrt(u)).movement(near) for u in _SHARES
    )


def guarantee(
    arms: int,
    dimension: int,
    parameters: LinUCBParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scale, sizes and bounds.

    Parameters
    ----------
    arms, dimension : int
        K and d.
    parameters : LinUCBParameters
        Calibrated or the user's own; sensitivity, column norm, mu and regret are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters are for other sizes.
    """
    p = parameters
    check_sizes(p, arms, dimension)
    what = (
        f"to every user the action of LinUCB ({p.arms} arms, dimension {p.dimension}, "
        f"{p.sum_method!r} sum), to everybody the estimates of all arms"
    )
    regret, terms = regret_of(p)
    most = 2.0 * p.reward_bound * p.horizon
    stated = stated_regret(regret, most, most)
    details: dict[str, float | str | None] = stated["details"] | {
        "regret bound holds for": (
            "rewards in their range that arrive in every round, with means <x, theta_a>, "
            f"||theta_a|| <= {p.parameter_bound:g}, deviations from them that are "
            f"{p.reward_noise:g}-subgaussian, contexts that do not see the round's rewards"
        ),
        "neighbours": NEIGHBOURS[p.relation],
        "rounds per release": float(p.batch),
        "noise margin": p.noise_margin,
        **{f"regret: {name}": value for name, value in terms.items()},
    }
    return state_sum(
        mechanism_of(arms, dimension, p),
        Neighbours(p.relation, "others"),
        released=what,
        horizon=p.horizon,
        delta=stated_delta(budget, p.horizon),
        calibration=p.calibration,
        reference="adaptive Gaussian composition and post-processing; docs/privacy/linucb.md",
        seeded=seeded,
        unit="one user's record",
        conditions=(
            f"contexts are clipped to l2 norm {p.context_bound:g}, rewards to "
            f"[{-p.reward_bound:g}, {p.reward_bound:g}]; a missing one counts as no data, enforced",
            *JOINT,
        ),
        regret_bound=stated["regret_bound"],
        details=details,
    )


def mechanism_of(arms: int, dimension: int, parameters: LinUCBParameters) -> GaussianSum:
    """Return the one sum through which records reach the estimates: all released batches."""
    p = parameters
    return sum_of(
        _moments(p),
        p.sum_method,
        p.releases,
        Neighbours(p.relation),
        scale=p.noise_scale,
        numerics=p.numerics,
        batch=p.batch,
    )


def _moments(p: LinUCBParameters, rounding: float = ROUNDING) -> SecondMoments:
    """Return what a record adds: the statistics of the arm chosen."""
    bounds = p.context_bound, math.inf, p.reward_bound
    return SecondMoments(p.dimension, 2.0, *bounds, p.reward_weight, p.arms, rounding)


def check_sizes(p: Any, arms: int, dimension: int) -> None:
    """Raise `ValueError` unless parameters are for so many arms and this dimension."""
    if (p.arms, p.dimension) != (arms, dimension):
        raise ValueError(
            f"parameters are for {p.arms} arms and dimension {p.dimension}; "
            f"got {arms} and {dimension}"
        )
