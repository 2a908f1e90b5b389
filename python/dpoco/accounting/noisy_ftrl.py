"""Accounting of the leader on noisy sums (DP-FTRL).

Claim: data reach the decisions only through one continual sum of vectors with sensitivity D in l2,
which is enforced by clipping. Hence all decisions together are mu-GDP with mu = D column_norm /
sigma, even if the stream reacts to the decisions. For gradients of l2 norm at most G, D = 2 G. For
the statistics (x x', a y x) of squared losses with ||x||_2 <= B, |y| <= Y and u = (a Y / B)^2, D =
sqrt(2) B^2 (1 + u/2) if u <= 2, else 2 B^2 sqrt(u). For emptying a round, D is G and B^2 sqrt(1 +
u), respectively.

Proof: ``docs/privacy/noisy_ftrl.md``. Source: Kairouz, McMahan, Song, Thakkar, Thakurta and Xu,
"Practical and private (deep) learning without sampling or shuffling" (2021), with exact Gaussian
accounting and better sums.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import UNBOUNDED_HORIZON, Method, method_name, resolve_horizon
from dpoco.accounting.forgetting import (
    batch_lengths,
    check_damped,
    check_options,
    damped_sum,
    growth_of_batches,
    memory_rounds,
    plan_batch,
)
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import (
    leader_summand,
    moments_and_loss,
    record_length,
    steepest_slope,
)
from dpoco.accounting.noisy_ftrl_regret import (
    STATISTICS,
    LeaderPlan,
    LeaderTuning,
    bound_regret,
    forecast,
    loss_deviations,
    loss_memory,
    make_run,
    read_candidates,
    read_ridge,
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
from dpoco.losses import Loss, SquaredLoss
from dpoco.privacy.mechanisms.bounds import MomentsAndLoss, SecondMoments, Summand
from dpoco.privacy.mechanisms.gaussian_sum import AnySummand
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["LeaderPlan", "best_vector_scale", "calibrate", "guarantee", "loss_deviations",
           "loss_memory", "read_candidates", "read_ridge", "read_statistics"]  # fmt: skip

STEPS = ("predicted",)
LOSS_SHARE = 0.25  # range of a published loss, as a share of the statistics' largest distance


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
    """Return the least noise that meets `budget`, with the step size of the least regret bound.

    Parameters
    ----------
    domain, loss
        A domain and a loss of this library.
    horizon : int or None
        Rounds; None means at most 10^9.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    statistics : {"gradient", "quadratic"}
        Statistics to sum; "quadratic" is for `SquaredLoss`.
    sum_method : {"auto", "blt", "blt_normalised", "banded", "tree", "toeplitz"}, optional
        None and "auto" take the sum with the least regret bound: "blt_normalised" unless another is
        more than 1 % better. For quadratic statistics they take "toeplitz".
    step_size : float or "predicted", optional
        eta. None minimises the regret bound, and "predicted" the predicted regret: see
        `dpoco.oco.NoisyFTRL`. Quadratic statistics have no step size.
    batch : int, optional
        Rounds per decision, by default 1; for quadratic statistics, rounds of the first decision.
    half_life, ridge : float or "auto", optional
        For quadratic statistics: see `dpoco.oco.NoisyFTRL`.
    running_loss : bool
        Whether the losses of the played decisions are also summed.
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
    n = resolve_horizon(horizon)
    scale: float | None = None
    if _check_statistics(loss, statistics) == "quadratic":
        assert isinstance(loss, SquaredLoss)
        scale = best_vector_scale(domain, loss, relation)
        if step_size is not None:
            raise ValueError("quadratic statistics have no step size: step_size must be None")
    if isinstance(step_size, str):
        choice("step_size", step_size, STEPS)
    near, best = planned_neighbours(relation, participation, n, budget), None
    summand = leader_summand(domain, loss, scale)
    if not isinstance(running_loss, bool):
        raise TypeError(f"running_loss must be True or False; got {type(running_loss).__name__}")
    if running_loss:
        summand = _with_loss(domain, loss, summand, near)
    forgets = half_life is not None or ridge is not None
    # Minimisers of sums over the whole past stay bounded, however long a batch is. Growing batches
    # need about 40 sums for 10^5 rounds (docs/privacy/noisy_ftrl.md, "Algorithm").
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
    # A plain int, because a NumPy bool in the forecast could not be stored.
    batch = positive_int("batch", batch, maximum=n)
    pushes = updates(growth, batch, n)
    if forgets:
        last = batch_lengths(batch, growth, pushes)[-1]
        check_damped(sum_method, half_life, last)
        methods = (damped_sum(pushes, near, batch, memory, last),)
    elif scale is not None and sum_method in (None, "auto"):
        sum_method = "toeplitz"  # there are few sums
    # For an unknown horizon, sums are planned for 10^9 rounds, where levels do not help.
    known = None if horizon is None else pushes
    for method in methods or candidate_methods(sum_method, known, budget, near, batch):
        plain = plain_sum(summand, method, pushes, batch=batch, growth=growth)
        total = with_noise(plain, near, budget=budget, numerics=numerics)
        run = make_run(
            domain, loss, method=method, horizon=n, batch=batch,
            noise_scale=total.scale,
        )  # fmt: skip
        eta = None
        if scale is None:
            fixed = step_size is not None and not isinstance(step_size, str)
            eta = positive_float("step_size", step_size) if fixed else run.best_step()
        regret = bound_regret(domain, loss, run, scale, eta, forgets)
        # The first candidate is the default; another candidate must be clearly better.
        if best is None or regret.total < 0.99 * best[-1].total:
            best = total, run, eta, regret
    assert best is not None
    total, run, eta, regret = best
    if isinstance(step_size, str):  # the same step size as for the default sum
        eta = run.predicted_step(domain, loss)
        regret = run.regret(eta)
    tuning = LeaderTuning(n, eta, half_life, ridge)
    return Plan(total, tuning, forecast(domain, loss, run, total, eta, regret))


def _hidden_rounds(
    domain: Domain, loss: Loss, summand: AnySummand, near: Neighbours, budget: Budget | None
) -> float:
    """Return about how many rounds weigh as much as the noise of one damped release."""
    if budget is None:
        return 0.0
    noise: float = 1.75 * summand.movement(near) / gaussian_mu(budget.epsilon, budget.delta)
    d, length = domain.dimension, record_length(domain, loss)
    return float(math.sqrt(2.0 * d) * noise * d / length**2)


def _first_batch(
    domain: Domain,
    loss: Loss,
    summand: AnySummand,
    near: Neighbours,
    horizon: int | None,
    budget: Budget | None,
) -> int:
    """Return a first batch so long that noise dominates until its end."""
    if budget is None:
        return 1
    # The lengths of batches are public, so they may only depend on public numbers
    # (docs/privacy/noisy_ftrl.md).
    length = gaussian_mu(budget.epsilon, budget.delta) * record_length(domain, loss) ** 2
    rounds = round(0.4 * math.sqrt(domain.dimension) * summand.movement(near) / length)
    most = UNBOUNDED_HORIZON if horizon is None else horizon // 50
    return int(max(1, min(rounds, most)))


def guarantee(
    domain: Domain,
    loss: Loss,
    plan: LeaderPlan,
    *,
    relation: str = "replace",
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return the guarantee of any plan, computed from its mechanism.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    plan, relation, budget, seeded
        See `dpoco.accounting.statement`.

    Raises
    ------
    ValueError, TypeError
        If the plan contradicts the domain or the loss.
    """
    total, n, statistics = plan.mechanism, plan.tuning.horizon, read_statistics(plan)
    _check_statistics(loss, statistics)
    _check_plan(domain, loss, plan)
    method = method_name(total.factorisation)
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
        **state_regret(domain, loss, plan),
    )


def _with_loss(domain: Domain, loss: Loss, summand: AnySummand, near: Neighbours) -> MomentsAndLoss:
    """Return the statistics with a loss to be published, which increases the noise by 3 %."""
    if not isinstance(summand, SecondMoments):
        raise ValueError("running_loss is an option of statistics='quadratic'")
    assert isinstance(loss, SquaredLoss)
    plain = moments_and_loss(domain, loss, summand.weight, 1.0)
    # A quarter of the distance makes the noise sqrt(1 + 1/16) times larger
    # (docs/privacy/forgetting.md).
    share = LOSS_SHARE * summand.movement(near) / plain.largest_loss
    return replace(plain, loss_weight=share)


def read_statistics(plan: LeaderPlan) -> str:
    """Return the kind of the summed statistics: "gradient" or "quadratic"."""
    return "quadratic" if isinstance(plan.mechanism.summand, SecondMoments) else "gradient"


def _check_plan(domain: Domain, loss: Loss, plan: LeaderPlan) -> None:
    """Raise `ValueError` unless a plan's bounds, sums and steps belong to such a learner."""
    total, tuning = plan.mechanism, plan.tuning
    own = total.summand
    weight = own.weight if isinstance(own, SecondMoments) else None
    known: Summand = leader_summand(domain, loss, weight)
    if isinstance(own, MomentsAndLoss):
        assert isinstance(loss, SquaredLoss)
        known = moments_and_loss(domain, loss, own.weight, own.loss_weight)
    # Compared exactly: the engine enforces the plan's bounds, so a plan with other bounds would
    # state the guarantee of another learner.
    if own != known:
        raise ValueError("the plan's bounds are not those of this domain and loss")
    # The lengths of batches are public and follow from the plan, but a file could claim others.
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


def best_vector_scale(domain: Domain, loss: SquaredLoss, relation: str) -> float:
    """Return the a of (x x', a y x) with the least mean square noise in a gradient.

    The gradient is taken at the point of the domain farthest from the origin, at distance h. Its
    mean square noise is proportional to D(a)^2 (h^2 (d + 1)/2 + d/a^2). The minimiser in u = (a Y /
    B)^2 is sqrt(k) for "zero_out", with k = 2 d Y^2 / ((d + 1) h^2 B^2), and (sqrt(k^2 + 16 k) -
    k)/4 otherwise.
    """
    length, label = record_length(domain, loss), float(loss.label_bound)
    reach = max(float(domain.max_norm(2.0)), 1e-6 * label / length)  # a domain {0} has h = 0
    d = domain.dimension
    k = 2.0 * d / (d + 1.0) * (label / (reach * length)) ** 2
    # 4k / (sqrt(k^2 + 16k) + k) is equal and avoids cancellation.
    u = math.sqrt(k) if relation == "zero_out" else 4.0 * k / (math.sqrt(k * k + 16.0 * k) + k)
    return math.sqrt(u) * length / label


def _check_statistics(loss: Loss, statistics: str) -> str:
    """Return `statistics` if they suit the loss; raise `ValueError` otherwise."""
    choice("statistics", statistics, STATISTICS)
    if statistics == "quadratic" and not isinstance(loss, SquaredLoss):
        raise ValueError(f"statistics 'quadratic' need a SquaredLoss; got {type(loss).__name__}")
    return statistics


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
    slope = steepest_slope(domain, loss)
    return (f"The program clips each round's gradient to l_2 norm {slope:g}{records}.",)
