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

import numpy as np

from dpoco._validation import FloatArray, choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import Method
from dpoco.accounting.forgetting import (
    Forgetting,
    batch_lengths,
    check_damped,
    check_options,
    damped_sum,
    growth_of_batches,
    memory_rounds,
    plan_batch,
    plan_candidates,
    view_noise,
)
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import (
    clip_bounds,
    moments_and_loss,
    record_length,
    second_moments,
)
from dpoco.accounting.noisy_ftrl_regret import (
    STATISTICS,
    LeaderPlan,
    LeaderTuning,
    Ridge,
    bound_regret,
    forecast,
    make_run,
    read_run,
    state_regret,
    updates,
)
from dpoco.accounting.plan import Plan
from dpoco.accounting.release import (
    DEFAULT_NUMERICS,
    Returning,
    candidate_methods,
    plain_sum,
    planned_neighbours,
    with_noise,
)
from dpoco.accounting.statement import stated_delta
from dpoco.domains import Domain
from dpoco.losses import CustomLoss, LinearLoss, Loss, MarginLoss, SquaredLoss
from dpoco.privacy.mechanisms.bounds import (
    ClippedVector,
    GlmGradient,
    MomentsAndLoss,
    SecondMoments,
    Summand,
)
from dpoco.privacy.mechanisms.factorisations import Buffered
from dpoco.privacy.mechanisms.gaussian_sum import AnySummand
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["LeaderPlan", "best_vector_scale", "calibrate", "guarantee", "loss_deviations",
           "loss_memory", "read_ridge", "read_statistics"]  # fmt: skip

STEPS = ("predicted",)
LOSS_SHARE = 0.25  # the range of a published loss in the sum, in largest distances of statistics


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int | None,
    budget: Budget | None,
    statistics: str = "gradient",
    sum_method: str | None = None,
    step_size: float | str | None = None,
    batch: int | None = None,
    half_life: float | str | None = None,
    ridge: float | str | None = None,
    running_loss: bool = False,
    relation: str = "replace",
    numerics: str = DEFAULT_NUMERICS,
    participation: Returning | None = None,
) -> LeaderPlan:
    """Return the least noise that meets `budget`, and the step size of the least regret bound.

    Parameters
    ----------
    domain, loss
        A domain and a loss of this library.
    horizon : int or None
        Rounds; None means at most 10^9.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    statistics : {"gradient", "quadratic"}
        What is summed; "quadratic" is for `SquaredLoss`.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        None and "auto" take the least regret bound, "blt_normalised" unless another is more
        than 1 % better; and "toeplitz" for quadratic statistics.
    step_size : float or "predicted", optional
        eta; None minimises the regret bound, "predicted" the predicted regret: see
        `dpoco.oco.NoisyFTRL`. Quadratic statistics have none.
    batch : int, optional
        Rounds per decision, by default 1; with quadratic statistics of the first one, see there.
    half_life, ridge : float or "auto", optional
        Of quadratic statistics: see `dpoco.oco.NoisyFTRL`.
    running_loss : bool
        Whether the losses of the decisions played are summed.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rounds.

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
    n = continual_sum.resolve_horizon(horizon)
    scale: float | None = None
    if _check_statistics(loss, statistics) == "quadratic":
        assert isinstance(loss, SquaredLoss)
        scale = best_vector_scale(domain, loss, relation)
        if step_size is not None:
            raise ValueError("quadratic statistics have no step size: step_size must be None")
    if isinstance(step_size, str):
        choice("step_size", step_size, STEPS)
    near, best = planned_neighbours(relation, participation, n, budget), None
    summand = _summand(domain, loss, scale)
    if not isinstance(running_loss, bool):
        raise TypeError(f"running_loss must be True or False; got {type(running_loss).__name__}")
    if running_loss:
        summand = _with_loss(domain, loss, summand, near)
    forgets = half_life is not None or ridge is not None
    # Minimisers of sums over the whole past do not run away, however long a batch is: growing ones
    # need some 40 sums in 10^5 rounds (docs/privacy/noisy_ftrl.md, "Algorithm").
    growth = None if scale is None else "quarter"
    methods: tuple[Method, ...] | None = None
    if forgets:
        half_life, ridge = check_options(half_life, ridge, statistics)
        growth = growth_of_batches(half_life, n)
        memory = memory_rounds(half_life, horizon)
        if batch is None:
            hidden = _hidden_rounds(domain, loss, summand, near, budget)
            batch = plan_batch(hidden, memory, horizon, growth)
    elif batch is None:
        batch = 1 if scale is None else _first_batch(domain, loss, summand, near, horizon, budget)
    # A plain int: a bool of NumPy's in the forecast could not be stored.
    batch = positive_int("batch", batch, maximum=n)
    pushes = updates(growth, batch, n)
    if forgets:
        last = batch_lengths(batch, growth, pushes)[-1]
        check_damped(sum_method, half_life, last)
        methods = (damped_sum(pushes, near, batch, memory, last),)
    elif scale is not None and sum_method in (None, "auto"):
        sum_method = "toeplitz"  # there are few sums
    # Of an unknown horizon sums are planned for 10^9 rounds, of which levels gain nothing.
    known = None if horizon is None else pushes
    for method in methods or candidate_methods(sum_method, known, budget, near, batch):
        plain = plain_sum(summand, method, pushes, batch=batch, growth=growth)
        total = with_noise(plain, near, budget=budget, numerics=numerics)
        run = make_run(
            domain, loss, _slope(domain, loss), method=method, horizon=n, batch=batch,
            noise_scale=total.scale,
        )  # fmt: skip
        eta = None
        if scale is None:
            fixed = step_size is not None and not isinstance(step_size, str)
            eta = positive_float("step_size", step_size) if fixed else run.best_step()
        regret = bound_regret(domain, loss, run, scale, eta, forgets)
        # The first candidate is the default; another must be clearly better.
        if best is None or regret.total < 0.99 * best[-1].total:
            best = total, run, eta, regret
    assert best is not None
    total, run, eta, regret = best
    if isinstance(step_size, str):  # of the sum that the default has, too
        eta = run.predicted_step(domain, loss)
        regret = run.regret(eta)
    tuning = LeaderTuning(n, eta, half_life, ridge)
    return Plan(total, tuning, forecast(domain, loss, run, total, eta, regret))


def _hidden_rounds(
    domain: Domain, loss: Loss, summand: AnySummand, near: Neighbours, budget: Budget | None
) -> float:
    """Return about how many rounds weigh as much as the noise of one release of a damped sum."""
    if budget is None:
        return 0.0
    noise: float = 1.75 * summand.movement(near) / gaussian_mu(budget.epsilon, budget.delta)
    d, length = domain.dimension, record_length(domain, loss)
    return float(math.sqrt(2.0 * d) * noise * d / length**2)


def read_candidates(domain: Domain, loss: Loss, plan: LeaderPlan) -> Forgetting:
    """Return the candidates of a plan with a half-life, and the law of their noise."""
    total, tuning = plan.mechanism, plan.tuning
    assert isinstance(total.factorisation, Buffered)
    endless = tuning.horizon == continual_sum.UNBOUNDED_HORIZON
    return plan_candidates(
        total.factorisation,
        total.scale,
        half_life=tuning.half_life,
        ridge=tuning.ridge,
        lengths=batch_lengths(total.batch, total.growth, total.pushes),
        horizon=None if endless else tuning.horizon,
        dimension=domain.dimension,
        length=record_length(domain, loss),
    )


def _first_batch(
    domain: Domain,
    loss: Loss,
    summand: AnySummand,
    near: Neighbours,
    horizon: int | None,
    budget: Budget | None,
) -> int:
    """Return so many rounds that noise has the upper hand until their end."""
    if budget is None:
        return 1
    # Lengths of batches are public, so that only public numbers may decide them
    # (docs/privacy/noisy_ftrl.md).
    length = gaussian_mu(budget.epsilon, budget.delta) * record_length(domain, loss) ** 2
    rounds = round(0.4 * math.sqrt(domain.dimension) * summand.movement(near) / length)
    most = continual_sum.UNBOUNDED_HORIZON if horizon is None else horizon // 50
    return int(max(1, min(rounds, most)))


def read_ridge(domain: Domain, loss: Loss, plan: LeaderPlan) -> Ridge:
    """Return what is added to quadratic statistics."""
    summand, run = plan.mechanism.summand, read_run(domain, loss, plan, _slope(domain, loss))
    assert isinstance(summand, SecondMoments)
    assert isinstance(loss, SquaredLoss)
    return Ridge(run, domain, loss, summand.weight)


def guarantee(
    domain: Domain,
    loss: Loss,
    plan: LeaderPlan,
    *,
    relation: str = "replace",
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any plan guarantees, computed from its mechanism.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    plan : Plan
        Calibrated or the user's own.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError, TypeError
        If the plan contradicts the domain or the loss.
    """
    total, n, statistics = plan.mechanism, plan.tuning.horizon, read_statistics(plan)
    _check_statistics(loss, statistics)
    _check_plan(domain, loss, plan)
    method = continual_sum.method_name(total.factorisation)
    what = (
        f"the decisions of the leader on noisy sums (dimension {domain.dimension}, "
        f"p = {domain.p:g}; {statistics} statistics, {method!r} sum, Gaussian noise)"
    )
    if isinstance(total.summand, MomentsAndLoss):
        what += ", and their running loss"
    return Guarantee.about(
        total,
        Neighbours(relation),
        released=what,
        horizon=n,
        calibration=plan.calibration,
        delta=stated_delta(budget, n),
        reference="adaptive Gaussian composition; docs/privacy/noisy_ftrl.md",
        conditions=_clipping_conditions(domain, loss, total.summand),
        seeded=seeded,
        **state_regret(domain, loss, plan, _slope(domain, loss)),
    )


def _with_loss(domain: Domain, loss: Loss, summand: AnySummand, near: Neighbours) -> MomentsAndLoss:
    """Return statistics with a loss to be published: noise grows by 3 %."""
    if not isinstance(summand, SecondMoments):
        raise ValueError("running_loss is an option of statistics='quadratic'")
    assert isinstance(loss, SquaredLoss)
    plain = moments_and_loss(domain, loss, summand.weight, 1.0)
    # A quarter of the distance makes the noise sqrt(1 + 1/16) times as large
    # (docs/privacy/forgetting.md).
    share = LOSS_SHARE * summand.movement(near) / plain.largest_loss
    return replace(plain, loss_weight=share)


def loss_memory(domain: Domain, loss: Loss, plan: LeaderPlan) -> FloatArray:
    """Return what past losses count behind every push, as `ForgettingView.kept`."""
    if not plan.tuning.forgets:  # all past losses count alike
        return np.ones(1)
    return np.asarray(read_candidates(domain, loss, plan).memory)


def loss_deviations(domain: Domain, loss: Loss, plan: LeaderPlan) -> FloatArray:
    """Return standard deviations of the noise in the sum of losses, behind every push."""
    total, memory = plan.mechanism, loss_memory(domain, loss, plan)
    assert isinstance(total.summand, MomentsAndLoss)
    if total.scale == 0.0:
        return np.zeros(1)
    if plan.tuning.forgets:
        assert isinstance(total.factorisation, Buffered)
        noise = total.scale * view_noise(total.factorisation, memory)[0]
    else:  # ridges are spectral edges of that noise
        noise = read_ridge(domain, loss, plan).ridges / math.sqrt(2.0 * domain.dimension)
    return np.asarray(noise / total.summand.loss_weight)


def read_statistics(plan: LeaderPlan) -> str:
    """Return what is summed: "gradient", or "quadratic" statistics."""
    return "quadratic" if isinstance(plan.mechanism.summand, SecondMoments) else "gradient"


def _check_plan(domain: Domain, loss: Loss, plan: LeaderPlan) -> None:
    """Raise `ValueError` unless a plan's bounds, sums and steps are those of such a learner."""
    total, tuning = plan.mechanism, plan.tuning
    own = total.summand
    weight = own.weight if isinstance(own, SecondMoments) else None
    known: Summand = _summand(domain, loss, weight)
    if isinstance(own, MomentsAndLoss):
        assert isinstance(loss, SquaredLoss)
        known = moments_and_loss(domain, loss, own.weight, own.loss_weight)
    # Compared exactly: the plan's bounds are what the engine enforces, so that a plan for other
    # bounds would state the guarantee of another learner.
    if own != known:
        raise ValueError("the plan's bounds are not those of this domain and loss")
    # Lengths of batches are public and follow from the plan: a file could claim others.
    growth = None
    if weight is not None:
        forgets = tuning.forgets
        growth = growth_of_batches(tuning.half_life, tuning.horizon) if forgets else "quarter"
    elif tuning.forgets:
        raise ValueError("half_life and ridge belong to the quadratic statistics only")
    if (tuning.step_size is None) != (weight is not None):
        raise ValueError("step_size belongs to the gradient statistics, and to them only")
    if (total.growth, total.pushes) != (growth, updates(growth, total.batch, tuning.horizon)):
        raise ValueError("the plan's sums are not those of so many rounds")


def _summand(
    domain: Domain, loss: Loss, vector_scale: float | None
) -> SecondMoments | GlmGradient | ClippedVector:
    """Return what a round adds: a gradient, or the statistics of a squared loss."""
    if vector_scale is not None:
        assert isinstance(loss, SquaredLoss)
        return second_moments(domain, loss, vector_scale)
    if isinstance(loss, MarginLoss):
        slope = float(loss.derivative_bound(loss.margin_bound(domain)))
        return clip_bounds(loss, slope).summand(domain)
    if isinstance(loss, LinearLoss):
        return clip_bounds(loss).summand(domain)
    if isinstance(loss, CustomLoss):
        dual = min(loss.lipschitz_bound, loss.leaf_bound or math.inf)
        return clip_bounds(loss, None, dual, loss.leaf_bound_l2).summand(domain)
    raise TypeError(f"loss must be generalised linear, linear or custom; got {type(loss).__name__}")


def best_vector_scale(domain: Domain, loss: SquaredLoss, relation: str) -> float:
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


def _check_statistics(loss: Loss, statistics: str) -> str:
    """Return `statistics` if they describe the loss; `ValueError` if not."""
    choice("statistics", statistics, STATISTICS)
    if statistics == "quadratic" and not isinstance(loss, SquaredLoss):
        raise ValueError(f"statistics 'quadratic' need a SquaredLoss; got {type(loss).__name__}")
    return statistics


def _slope(domain: Domain, loss: Loss) -> float:
    """Return the largest l2 norm of a gradient."""
    return _summand(domain, loss, None).movement(Neighbours("zero_out"))


def _clipping_conditions(domain: Domain, loss: Loss, summand: AnySummand) -> tuple[str, ...]:
    if isinstance(loss, SquaredLoss) and isinstance(summand, SecondMoments):
        said = (
            f"The program clips features to l_2 norm {record_length(domain, loss):g} and labels to "
            f"[-{loss.label_bound:g}, {loss.label_bound:g}].",
        )
        if not isinstance(summand, MomentsAndLoss):
            return said
        return *said, f"The program clips published losses to [0, {summand.largest_loss:g}]."
    records = ", and features and labels to their declared bounds" if loss.glm else ""
    slope = _slope(domain, loss)
    return (f"The program clips each round's gradient to l_2 norm {slope:g}{records}.",)
