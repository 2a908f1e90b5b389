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

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting._bandits.linucb_noise import (
    ROUNDING,
    sensitivity,
    tuned,
    unit_bound,
)
from dpoco.accounting._bandits.linucb_parameters import (
    CALIBRATIONS,
    LARGEST_ARMS,
    LARGEST_DIMENSION,
    LinUCBParameters,
    failure_probability,
    sum_dimension,
)
from dpoco.accounting._bandits.linucb_regret import regret_of
from dpoco.accounting._experts.parameters import at_least_zero
from dpoco.accounting._experts.statement import stated_delta, statement_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.release import (
    DEFAULT_NUMERICS,
    Sensitivity,
    plain_numerics,
    spent_on_noise,
)
from dpoco.errors import CalibrationError
from dpoco.privacy.neighbours import CHANGES

__all__ = ["CALIBRATIONS", "LinUCBParameters", "calibrate", "guarantee", "sensitivity"]

# What a batch may cost: of statistics that are a batch old, (b - 1) X^2 / rho in the square of the
# bound on regret; at the start, before each arm has been released once, b K / T.
_STALE, _START = 0.1, 0.01
_LARGEST_BATCH_BITS = 20


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
    sum_method : {"auto", "blt", "tree", "honaker", "toeplitz"}, optional
        None and "auto" take the least error, "blt" unless another is more than 1 % better.
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
    k = positive_int("arms", arms, maximum=LARGEST_ARMS)
    d = positive_int("dimension", dimension, maximum=LARGEST_DIMENSION)
    if horizon is None:
        raise ValueError("horizon must be an int: the noise depends on the number of rounds")
    rounds = positive_int("horizon", horizon)
    choice("calibration", calibration, CALIBRATIONS)
    choice("relation", relation, CHANGES)
    if batch is not None:
        batch = positive_int("batch", batch)
    reach, top = (
        unit_bound("context_bound", context_bound),
        unit_bound("reward_bound", reward_bound),
    )
    if regularization is not None:
        regularization = positive_float("regularization", regularization)
    if reward_weight is not None:
        reward_weight = positive_float("reward_weight", reward_weight)
    plain = LinUCBParameters(
        arms=k,
        dimension=d,
        horizon=rounds,
        batch=1,
        sum_method="blt",
        noise_scale=0.0,
        reward_weight=1.0 if reward_weight is None else reward_weight,
        regularization=reach**2 if regularization is None else regularization,
        context_bound=reach,
        reward_bound=top,
        parameter_bound=unit_bound("parameter_bound", parameter_bound),
        reward_noise=top if reward_noise is None else unit_bound("reward_noise", reward_noise),
        failure=min(0.5, 1.0 / rounds) if failure is None else failure_probability(failure),
        exploration=at_least_zero("exploration", exploration),
        relation=relation,
        calibration=calibration,
        sensitivity=0.0,
        column_norm=1.0,
        mu=math.inf,
        regret_bound=0.0,
        regret_terms={},
        numerics=plain_numerics(numerics, "gaussian"),
    )
    if batch is not None:
        best = tuned(plain, batch, budget, sum_method, regularization, reward_weight, numerics)
    else:
        # Doubled while statistics that are a batch old cost little, in the bound and at the start.
        best = _doubled(plain, budget, sum_method, regularization, reward_weight, numerics)
    total, terms = regret_of(best.setting)
    return replace(best, regret_bound=total, regret_terms=terms)


def _doubled(
    plain: LinUCBParameters,
    budget: Budget | None,
    sum_method: str | None,
    regularization: float | None,
    reward_weight: float | None,
    numerics: str,
) -> LinUCBParameters:
    """Return the parameters of the largest batch by which little is lost; of the first that fits.

    The tails of many releases may cost more than delta: then no small batch meets the budget.
    """
    best: LinUCBParameters | None = None
    for b in (1 << bit for bit in range(_LARGEST_BATCH_BITS + 1)):
        try:
            following = tuned(plain, b, budget, sum_method, regularization, reward_weight, numerics)
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
    if (p.arms, p.dimension) != (arms, dimension):
        raise ValueError(
            f"parameters are for {p.arms} arms and dimension {p.dimension}; "
            f"got {arms} and {dimension}"
        )
    what = (
        f"to every user the action of LinUCB ({p.arms} arms, dimension {p.dimension}, "
        f"{p.sum_method!r} sum), to everybody the estimates of all arms"
    )
    regret, terms = regret_of(p.setting)
    most = 2.0 * p.reward_bound * p.horizon
    stated = stated_regret(regret, most, most)
    details: dict[str, float | str | None] = stated["details"] | {
        "regret bound holds for": (
            "rewards in their range that arrive in every round, with means <x, theta_a>, "
            f"||theta_a|| <= {p.parameter_bound:g}, deviations from them that are "
            f"{p.reward_noise:g}-subgaussian, contexts that do not see the round's rewards"
        ),
        "neighbours": (
            "a user's record is replaced" if p.relation == "replace" else "a record is emptied"
        ),
        "rounds per release": float(p.batch),
        "noise margin": p.noise_margin,
        **{f"regret: {name}": value for name, value in terms.items()},
    }
    if not p.private:
        none = Guarantee.none(p.horizon, what)
        return replace(none, regret_bound=stated["regret_bound"], details=details)
    pure, mu, mass = None, None, 0.0
    column = continual_sum.column_norm(p.sum_method, p.pushes)
    moved = sensitivity(p.context_bound, p.reward_bound, p.reward_weight, p.relation)
    if p.releases == 0:
        pure = 0.0  # statistics are never released
    else:
        mu, mass = spent_on_noise(
            Sensitivity(moved * ROUNDING, "l2", 1.0),
            method=p.sum_method,
            pushes=p.pushes,
            dimension=sum_dimension(p.arms, p.dimension),
            noise="gaussian",
            noise_scale=p.noise_scale,
            numerics=p.numerics,
            batch=p.batch,
        )
    result = statement_of(
        sums=True,
        mechanism=what,
        horizon=p.horizon,
        delta=stated_delta(budget, p.horizon),
        calibration=p.calibration,
        reference="adaptive Gaussian composition and post-processing; docs/privacy/linucb.md",
        seeded=seeded,
        pure=pure,
        mu=mu,
        truncation_mass=mass,
        sensitivity=moved,
        sensitivity_norm="l2",
        noise_scale=p.noise_scale,
        column_norm=column,
        conditions=(
            f"contexts are clipped to l2 norm {p.context_bound:g}, rewards to "
            f"[{-p.reward_bound:g}, {p.reward_bound:g}]; a missing one counts as no data, enforced",
            "a user's record is the context and the rewards of all arms; it is hidden from all "
            "OTHER users and from everybody who sees the estimates, not from those who see the "
            "user's own action or reward: a log of all actions is not covered",
            "other users' records do not depend on a user's own action and reward",
        ),
        regret_bound=stated["regret_bound"],
        details=details,
        numerics=p.numerics,
    )
    return replace(result, change=p.relation, view="others", unit="one user's record")
