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
from typing import Any

import numpy as np

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import clipped, record_length
from dpoco.accounting.noisy_ftrl_regret import (
    RIDGE_GROWTH,
    SCOPES_IN_WORDS,
    STATISTICS,
    NoisyFTRLParameters,
    Ridge,
    run_of,
    updates,
)
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.release import (
    DEFAULT_NUMERICS,
    Returning,
    candidate_methods,
    people_of,
    planned_noise,
    sum_fields,
    sum_of,
)
from dpoco.accounting.statement import state_sum, stated_delta
from dpoco.domains import Domain
from dpoco.losses import CustomLoss, GlmLoss, LinearLoss, Loss, SquaredLoss
from dpoco.privacy.mechanisms.bounds import ClippedVector, GlmGradient, SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = [
    "NoisyFTRLParameters",
    "best_vector_scale",
    "calibrate",
    "guarantee",
    "mechanism_of",
    "ridge_of",
]

STEPS = ("predicted",)


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
    batch: int | None = None,
    relation: str = "replace",
    numerics: str = DEFAULT_NUMERICS,
    participation: Returning | None = None,
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
    sum_method : {"auto", "blt", "blt_normalised", "tree", "honaker", "toeplitz"}, optional
        None and "auto" take the least regret bound, "blt_normalised" unless another is more
        than 1 % better; and "toeplitz" for quadratic statistics.
    step_size : float or "predicted", optional
        eta; None minimises the regret bound, "predicted" the predicted regret: see
        `dpoco.oco.NoisyFTRL`. Quadratic statistics have none.
    batch : int, optional
        Rounds per decision, by default 1; with quadratic statistics of the first one, see there.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.
    participation : Participation, optional
        How often one person may come: the budget is then for all her rounds.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    choice("relation", relation, CHANGES)
    n, near = continual_sum.resolve_horizon(horizon), Neighbours(relation)
    if batch is not None:
        positive_int("batch", batch, maximum=n)
    if _check_statistics(loss, statistics) == "quadratic":
        if step_size is not None:
            raise ValueError("quadratic statistics have no step size: step_size must be None")
        noise: dict[str, Any] = {"sum_method": sum_method, "budget": budget, "numerics": numerics}
        return _calibrate_ridge(domain, loss, near, horizon=horizon, batch=batch, **noise)
    batch = 1 if batch is None else batch
    if isinstance(step_size, str):
        choice("step_size", step_size, STEPS)
    fixed = step_size is not None and not isinstance(step_size, str)
    near, best = people_of(relation, participation, n, budget), None
    pushes, summand = n // batch, _summand(domain, loss, None)
    known = None if horizon is None else pushes
    for method in candidate_methods(sum_method, known, budget, near, batch):
        plain = sum_of(summand, method, pushes, near, batch=batch)
        noise = planned_noise(plain, near, budget=budget, numerics=numerics)
        schedule = {"horizon": n, "batch": batch, "noise_scale": noise["noise_scale"]}
        run = run_of(domain, loss, _slope(domain, loss), method=method, **schedule)
        eta = positive_float("step_size", step_size) if fixed else run.best_step()
        regret = run.regret(eta)
        # The first candidate is the default; another must be clearly better.
        if best is None or regret.total < 0.99 * best[-1].total:
            best = noise, run, eta, regret
    assert best is not None
    noise, run, eta, regret = best
    if isinstance(step_size, str):  # of the sum that the default has, too
        eta = run.predicted_step(domain, loss)
        regret = run.regret(eta)
    return NoisyFTRLParameters(
        statistics=statistics,
        **sum_fields(run.method),
        step_size=eta,
        vector_scale=None,
        batch=batch,
        pushes=pushes,
        horizon=n,
        relation=relation,
        calibration=calibration,
        **{name: getattr(run, name) for name in ("dimension", "lipschitz", "radius", "diameter")},
        regret_bound=regret.total,
        regret_terms=regret.terms,
        regret_scope=regret.scope,
        **noise,
    )


def _calibrate_ridge(
    domain: Domain,
    loss: Any,
    near: Neighbours,
    *,
    horizon: int | None,
    batch: int | None,
    sum_method: str | None,
    budget: Budget | None,
    numerics: str,
) -> NoisyFTRLParameters:
    """Return the parameters of quadratic statistics, in growing blocks."""
    n, scale = continual_sum.resolve_horizon(horizon), best_vector_scale(domain, loss, near.change)
    summand = _summand(domain, loss, scale)
    if batch is None:
        batch = 1
        if budget is not None:
            # In fewer rounds noise has the upper hand anyway.
            hidden = 0.4 * math.sqrt(domain.dimension) * summand.movement(near)
            hidden /= gaussian_mu(budget.epsilon, budget.delta) * record_length(domain, loss) ** 2
            batch = max(1, min(round(hidden), n if horizon is None else max(1, n // 50)))
    pushes = updates("quadratic", batch, n)
    method = "toeplitz" if sum_method in (None, "auto") else sum_method
    choice("sum_method", method, continual_sum.METHODS)
    plain = sum_of(summand, method, pushes, near, batch=batch, growth=RIDGE_GROWTH)
    noise = planned_noise(plain, near, budget=budget, numerics=numerics)
    rows = _rows(method, pushes)
    ridge = _ridge(domain, loss, scale, n, batch, noise["noise_scale"] * rows)
    regret = ridge.regret()
    return NoisyFTRLParameters(
        statistics="quadratic",
        sum_method=method,
        step_size=None,
        vector_scale=scale,
        batch=batch,
        pushes=pushes,
        horizon=n,
        relation=near.change,
        calibration="tight",
        dimension=domain.intrinsic_dimension,
        lipschitz=ridge.lipschitz,
        radius=float(domain.radius_from_center()),
        diameter=ridge.diameter,
        regret_bound=regret.total,
        regret_terms=regret.terms,
        regret_scope=regret.scope,
        **noise,
    )


def ridge_of(domain: Domain, loss: Any, parameters: NoisyFTRLParameters) -> Ridge | None:
    """Return what is added to quadratic statistics, and what is proved of them; None of others."""
    p = parameters
    if p.vector_scale is None:
        return None
    noise = p.noise_scale * _rows(p.sum_method, p.pushes)
    return _ridge(domain, loss, p.vector_scale, p.horizon, p.batch, noise)


def _rows(method: str, pushes: int) -> Any:
    return continual_sum.row_norm(method, np.arange(1, pushes + 1), pushes)


def _ridge(
    domain: Domain, loss: Any, scale: float, horizon: int, batch: int, deviations: Any
) -> Ridge:
    return Ridge(
        coordinates=domain.dimension,
        lipschitz=_slope(domain, loss),
        diameter=float(domain.diameter(2.0)),
        reach=max(float(domain.max_norm(2.0)), float(domain.radius_from_center())),
        length=record_length(domain, loss),
        label=float(loss.label_bound),
        weight=float(loss.weight),
        vector_scale=scale,
        horizon=horizon,
        batch=batch,
        deviations=deviations,
    )


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
    _check_statistics(loss, p.statistics)
    d = domain.dimension
    what = (
        f"the decisions of the leader on noisy sums (dimension {d}, p = {domain.p:g}; "
        f"{p.statistics} statistics, {p.sum_method!r} sum, Gaussian noise)"
    )
    ridge = ridge_of(domain, loss, p)
    if ridge is not None:
        regret, step = ridge.regret(), {}
    else:
        eta = positive_float("step_size", p.step_size)
        schedule = {"horizon": p.horizon, "batch": p.batch, "noise_scale": p.noise_scale}
        run = run_of(domain, loss, _slope(domain, loss), method=p.correlation, **schedule)
        regret, step = run.regret(eta), {"step size": eta}
    still, learned = p.lipschitz * p.radius, ""
    if isinstance(loss, GlmLoss) and loss.reported != loss:
        learned = ", of the loss with bounded slopes, not of the logistic loss"
    elif isinstance(loss, GlmLoss):
        still = min(still, loss.center_regret(domain))
    # The total is at most that of any decisions.
    stated = stated_regret(regret.total, p.horizon * still)
    stated["details"] |= {
        **step,
        "regret bound holds for": SCOPES_IN_WORDS[regret.scope] + learned,
        **{f"regret: {name}": value for name, value in regret.terms.items()},
    }
    return state_sum(
        mechanism_of(domain, loss, p),
        Neighbours(p.relation),
        released=what,
        horizon=p.horizon,
        calibration=p.calibration,
        delta=stated_delta(budget, p.horizon),
        reference="adaptive Gaussian composition; docs/privacy/noisy_ftrl.md",
        conditions=(_clipping_condition(domain, loss, p.statistics),),
        seeded=seeded,
        **stated,
    )


def mechanism_of(domain: Domain, loss: Loss, parameters: NoisyFTRLParameters) -> GaussianSum:
    """Return the one sum through which data reach the decisions.

    Nothing here is trusted: its bounds are what the engine clips to.
    """
    p = parameters
    return sum_of(
        _summand(domain, loss, p.vector_scale),
        p.correlation,
        p.pushes,
        Neighbours(p.relation),
        scale=p.noise_scale,
        numerics=p.numerics,
        batch=p.batch,
        growth=RIDGE_GROWTH if p.statistics == "quadratic" else None,
    )


def _summand(
    domain: Domain, loss: Any, vector_scale: float | None
) -> SecondMoments | GlmGradient | ClippedVector:
    """Return what a round adds: a gradient, or the statistics of a squared loss."""
    if vector_scale is not None:
        leaf, d = clipped(loss), domain.dimension
        bounds = leaf.bound, leaf.bound_l2, float(loss.label_bound)
        return SecondMoments(d, float(domain.dual_exponent), *bounds, weight=vector_scale)
    if isinstance(loss, GlmLoss):
        slope = float(loss.derivative_bound(loss.margin_bound(domain)))
        return clipped(loss, slope).summand(domain)
    if isinstance(loss, LinearLoss):
        return clipped(loss).summand(domain)
    if isinstance(loss, CustomLoss):
        dual = min(loss.lipschitz_bound, loss.leaf_bound or math.inf)
        return clipped(loss, None, dual, loss.leaf_bound_l2).summand(domain)
    raise TypeError(f"loss must be generalised linear, linear or custom; got {type(loss).__name__}")


def best_vector_scale(domain: Domain, loss: Any, relation: str) -> float:
    """Return the a of (x x', a y x) at which a gradient's noise is least, in mean square.

    At the point of the domain farthest from the origin, at distance h: the mean square is
    proportional to D(a)^2 (h^2 (d + 1)/2 + d/a^2); its minimiser in u = (a Y / B)^2 is
    sqrt(k) for "zero_out", k = 2 d Y^2 / ((d + 1) h^2 B^2), and (sqrt(k^2 + 16 k) - k)/4 otherwise.
    """
    length, label = record_length(domain, loss), float(loss.label_bound)
    reach = max(float(domain.max_norm(2.0)), 1e-6 * label / length)  # a domain {0} has h = 0
    d = domain.dimension
    k = 2.0 * d / (d + 1.0) * (label / (reach * length)) ** 2
    # 4k / (sqrt(k^2 + 16k) + k) is the same and does not cancel.
    u = math.sqrt(k) if relation == "zero_out" else 4.0 * k / (math.sqrt(k * k + 16.0 * k) + k)
    return math.sqrt(u) * length / label


def _check_statistics(loss: Any, statistics: str) -> str:
    """Return `statistics` if they describe the loss; `ValueError` if not."""
    choice("statistics", statistics, STATISTICS)
    if statistics == "quadratic" and not isinstance(loss, SquaredLoss):
        raise ValueError(f"statistics 'quadratic' need a SquaredLoss; got {type(loss).__name__}")
    return statistics


def _slope(domain: Domain, loss: Any) -> float:
    """Return the largest l2 norm of a gradient."""
    return _summand(domain, loss, None).movement(Neighbours("zero_out"))


def _clipping_condition(domain: Domain, loss: Any, statistics: str) -> str:
    if statistics == "quadratic":
        return (
            f"features are clipped to l_2 norm {record_length(domain, loss):g} and labels to "
            f"[-{loss.label_bound:g}, {loss.label_bound:g}], enforced"
        )
    text = f"the gradient a round adds to the sum is clipped to l_2 norm {_slope(domain, loss):g}"
    text += ", enforced"
    return text + ("; features and labels to their declared bounds" if loss.glm else "")
