"""Accounting of the leader on noisy sums (DP-FTRL).

Claim: data reach the decisions only through one continual sum of vectors with a sensitivity D in
l2, enforced by clipping; hence all decisions together are mu-GDP with mu = D column_norm / sigma,
also when the stream reacts to the decisions. For gradients of l2 norm at most G, D = 2 G. For the
statistics (x x', a y x) of squared losses with ||x||_2 <= B, |y| <= Y and u = (a Y / B)^2,
D = sqrt(2) B^2 (1 + u/2) if u <= 2, else 2 B^2 sqrt(u). Emptying a round gives G and
B^2 sqrt(1 + u).

Proof: ``docs/privacy/noisy_ftrl.md``. Source: Kairouz, McMahan, Song, Thakkar, Thakurta and Xu,
"Practical and private (deep) learning without sampling or shuffling" (2021), with exact Gaussian
accounting and better sums.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting._oco.ftrl_parameters import CALIBRATIONS, NoisyFTRLParameters
from dpoco.accounting._oco.ftrl_prediction import predicted_step_size
from dpoco.accounting._oco.ftrl_regret import (
    Problem,
    Schedule,
    best_step_size,
    problem_of,
    regret_of,
)
from dpoco.accounting._oco.ftrl_statistics import (
    best_vector_scale,
    check_statistics,
    enforced_bounds,
    feature_length,
    quadratic_sensitivity,
    sum_dimension,
)
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.release import (
    DEFAULT_NUMERICS,
    Sensitivity,
    calibrate_noise,
    gdp_guarantee,
    plain_numerics,
    sensitivity_of,
)
from dpoco.domains import Domain
from dpoco.losses import GlmLoss, Loss
from dpoco.privacy.neighbours import CHANGES

__all__ = [
    "NoisyFTRLParameters",
    "best_vector_scale",
    "calibrate",
    "enforced_bounds",
    "guarantee",
    "quadratic_sensitivity",
    "sum_dimension",
]

STEPS = ("predicted",)
SCOPES_IN_WORDS = {
    "oblivious": "streams fixed in advance",
    "adaptive": "all streams, also such as react to the decisions",
}


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int | None,
    budget: Budget | None,
    calibration: str = "tight",
    statistics: str = "gradient",
    sum_method: str | None = None,
    step_size: float | str | None = None,
    batch: int = 1,
    relation: str = "replace",
    numerics: str = DEFAULT_NUMERICS,
) -> NoisyFTRLParameters:
    """Return the least noise that meets `budget`, and the step size of the least regret bound.

    Parameters
    ----------
    domain, loss
        A domain and a loss of this library.
    horizon : int or None
        Rounds; None means at most 10^9.
    budget : Budget or None
        None adds no noise and promises nothing.
    calibration : {"tight"}
        Exact Gaussian differential privacy.
    statistics : {"gradient", "quadratic"}
        What is summed; "quadratic" is for `SquaredLoss`.
    sum_method : {"auto", "blt", "tree", "honaker", "toeplitz"}, optional
        None and "auto" take the least regret bound, "blt" unless another is more than 1 % better.
    step_size : float or "predicted", optional
        eta; None minimises the regret bound, "predicted" the predicted regret, for gradient
        statistics: see `dpoco.oco.NoisyFTRL`.
    batch : int
        Rounds per decision.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    choice("calibration", calibration, CALIBRATIONS)
    choice("relation", relation, CHANGES)
    n = continual_sum.resolve_horizon(horizon)
    pushes = n // positive_int("batch", batch, maximum=n)
    scale = None
    if check_statistics(loss, statistics) == "quadratic":
        scale = best_vector_scale(domain, loss, relation)
    predicted = isinstance(step_size, str) and choice("step_size", step_size, STEPS) == "predicted"
    if predicted and scale is not None:
        raise ValueError("step_size='predicted' is for gradient statistics")
    reach, problem = _reach(domain, loss, relation, scale), _problem(domain, loss)
    size = sum_dimension(domain.dimension, statistics)
    best: NoisyFTRLParameters | None = None
    for method in _candidates(sum_method, pushes, budget):
        column = continual_sum.column_norm(method, pushes)
        arithmetic, noise_scale, mu = plain_numerics(numerics, "gaussian"), 0.0, math.inf
        if budget is not None:
            arithmetic, noise_scale, mu = calibrate_noise(
                reach, budget=budget, method=method, pushes=pushes, dimension=size,
                noise="gaussian", numerics=numerics, batch=batch,
            )  # fmt: skip
        run = _schedule(domain, loss, n, batch, method, noise_scale, scale)
        automatic = predicted or step_size is None
        eta = best_step_size(problem, run) if automatic else positive_float("step_size", step_size)
        regret = regret_of(problem, run, eta)
        candidate = NoisyFTRLParameters(
            statistics=statistics,
            sum_method=method,
            noise_scale=noise_scale,
            step_size=eta,
            vector_scale=scale,
            batch=int(batch),
            pushes=pushes,
            horizon=n,
            relation=relation,
            calibration=calibration,
            dimension=problem.dimension,
            lipschitz=problem.lipschitz,
            radius=problem.radius,
            diameter=problem.diameter,
            sensitivity=reach.value,
            column_norm=column,
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
    if predicted:  # of the sum that the default has, too
        run = _schedule(domain, loss, n, batch, best.sum_method, best.noise_scale, None)
        eta = predicted_step_size(domain, loss, problem, run)
        regret = regret_of(problem, run, eta)
        best = replace(
            best, step_size=eta, regret_bound=regret.total, regret_terms=regret.terms,
            regret_scope=regret.scope,
        )  # fmt: skip
    return best


def guarantee(
    domain: Domain,
    loss: Loss,
    parameters: NoisyFTRLParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scale and enforced bounds.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    parameters : NoisyFTRLParameters
        Calibrated or the user's own; sensitivity, column norm, mu and regret are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError, TypeError
        If the parameters contradict the domain or the loss.
    """
    p = parameters
    check_statistics(loss, p.statistics)
    d = domain.dimension
    what = (
        f"the decisions of the leader on noisy sums (dimension {d}, p = {domain.p:g}; "
        f"{p.statistics} statistics, {p.sum_method!r} sum, Gaussian noise)"
    )
    run = _schedule(domain, loss, p.horizon, p.batch, p.sum_method, p.noise_scale, p.vector_scale)
    regret = regret_of(_problem(domain, loss), run, p.step_size)
    still = p.lipschitz * p.radius
    if isinstance(loss, GlmLoss):
        still = min(still, loss.center_regret(domain))
    # The total is at most that of any decisions.
    stated = stated_regret(regret.total, p.horizon * still)
    stated["details"] |= {
        "step size": p.step_size,
        "regret bound holds for": SCOPES_IN_WORDS[regret.scope],
        **{f"regret: {name}": value for name, value in regret.terms.items()},
    }
    if not p.private:
        return replace(Guarantee.none(p.horizon, what), **stated)
    delta = budget.delta if isinstance(budget, Budget) else budget
    result = gdp_guarantee(
        _reach(domain, loss, p.relation, p.vector_scale),
        mechanism=what,
        method=p.sum_method,
        noise="gaussian",
        noise_scale=p.noise_scale,
        dimension=sum_dimension(d, p.statistics),
        pushes=p.pushes,
        horizon=p.horizon,
        relation=p.relation,
        calibration=p.calibration,
        delta=1.0 / (10.0 * p.horizon) if delta is None else delta,
        reference="adaptive Gaussian composition; docs/privacy/noisy_ftrl.md",
        conditions=(_clipping_condition(domain, loss, p.statistics),),
        seeded=seeded,
        numerics=p.numerics,
        batch=p.batch,
    )
    return replace(result, **stated)


def _reach(domain: Domain, loss: Any, relation: str, vector_scale: float | None) -> Sensitivity:
    if vector_scale is not None:
        length = feature_length(domain, loss)
        value = quadratic_sensitivity(length, loss.label_bound, vector_scale, relation)
        return Sensitivity(value, "l2", 1.0)
    _, bound, bound_l2 = enforced_bounds(domain, loss)
    return sensitivity_of(
        noise="gaussian",
        order=2.0,
        q=domain.dual_exponent,
        dimension=domain.dimension,
        bound=bound,
        bound_l2=bound_l2,
        relation=relation,
    )


def _problem(domain: Domain, loss: Any) -> Problem:
    return problem_of(domain, loss, _reach(domain, loss, "zero_out", None).value)


def _schedule(
    domain: Domain,
    loss: Any,
    horizon: int,
    batch: int,
    method: str,
    noise_scale: float,
    vector_scale: float | None,
) -> Schedule:
    amplification = None
    if vector_scale is not None:
        d, reach = domain.dimension, float(domain.max_norm(2.0))
        matrix = reach * math.sqrt(0.5 * d * (d + 1.0))
        amplification = 2.0 * loss.weight * (matrix + math.sqrt(d) / vector_scale)
    return Schedule(horizon, int(batch), method, noise_scale, amplification)


def _candidates(sum_method: str | None, pushes: int, budget: Budget | None) -> tuple[str, ...]:
    if sum_method not in (None, "auto"):
        return (choice("sum_method", sum_method, continual_sum.METHODS),)
    if budget is None:
        return ("blt",)
    rest = ("honaker", "tree", "toeplitz")
    return ("blt", *(m for m in rest if m != "toeplitz" or pushes <= continual_sum.TOEPLITZ_LIMIT))


def _clipping_condition(domain: Domain, loss: Any, statistics: str) -> str:
    if statistics == "quadratic":
        return (
            f"features are clipped to l_2 norm {feature_length(domain, loss):g} and labels to "
            f"[-{loss.label_bound:g}, {loss.label_bound:g}], enforced"
        )
    bound = _reach(domain, loss, "zero_out", None).value
    text = f"the gradient a round adds to the sum is clipped to l_2 norm {bound:g}, enforced"
    return text + ("; features and labels to their declared bounds" if loss.glm else "")
