"""Accounting of private Newton steps.

Claim: data reach the decisions only through one continual sum of vectors (s x, a w x x') with |s|
<= c, 0 <= w <= W, ||x||_2 <= B. Let z = (a W B / c)^2. Two such vectors are at most c B sqrt(4 + z)
apart if z <= 1 + 1/sqrt(2), else c B sqrt(2 + 2 z + 1/(2 z)). The distance of an empty one from any
other is at most c B sqrt(1 + z). So all decisions together are mu-GDP with mu = D column_norm /
sigma for this distance D, even if the stream reacts to the decisions, and for any public lengths of
batches. On the regret, only the trivial bound is proved: that of the worst decisions.

Proof: ``docs/privacy/noisy_newton.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpoco._validation import FloatArray, choice, positive_float, real_float
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import Method
from dpoco.accounting.forgetting import batch_lengths, damped_sum, kept_share, view_noise
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import clip_bounds, record_length
from dpoco.accounting.noisy_ftrl_regret import RegretForecast, updates
from dpoco.accounting.plan import Plan
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.release import DEFAULT_NUMERICS, plain_sum, with_noise
from dpoco.accounting.statement import stated_delta
from dpoco.domains import Domain
from dpoco.losses import GlmLoss, HuberLoss, LogisticLoss, Loss, MarginLoss
from dpoco.privacy.mechanisms.bounds import GradientAndCurvature
from dpoco.privacy.mechanisms.factorisations import Buffered
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, ONE, Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["NewtonPlan", "NewtonTuning", "calibrate", "guarantee", "learned_loss"]

GROWTH = "root"
# Share of the released curvature that enters the metric; (a W B / c)^2, the share of matrices in
# the sum; number of decisions for which the noise of an endless stream is planned.
STEP_SHARE, MATRIX_SHARE, PLANNED = 0.3, 0.5, 321
# Half-lives of at least so many roots of the horizon have growing batches, up to this horizon.
LONG_MEMORY, LONGEST_GROWING = 2.0, 10_000_000


@dataclass(frozen=True)
class NewtonTuning(Description):
    """Parameters of the post-processing of the sums that private Newton steps release.

    Attributes
    ----------
    horizon : int
        Number of rounds.
    step_size : float
        eta (length^2 / loss): the metric begins as I / eta.
    shrinkage : float
        Shrinkage of decisions towards the centre, in squared deviations of a step; at most 2.
    half_life : float or None
        Rounds after which a record counts half; None means that the metric never falls.
    """

    kind = "noisy_newton_tuning"
    unsaid = ("half_life",)
    horizon: int
    step_size: float
    shrinkage: float = limits(zero=True)
    half_life: float | None = None

    def __post_init__(self) -> None:
        """Raise for larger shrinkage."""
        super().__post_init__()
        if self.shrinkage > 2.0:
            raise ValueError(f"shrinkage must be in [0, 2]; got {self.shrinkage!r}")


NewtonPlan = Plan[GaussianSum, NewtonTuning, RegretForecast]


def kept_curvatures(total: GaussianSum, half_life: float) -> FloatArray:
    """Return the factors on past curvatures at every push; later ones equal the last.

    A step forgets gradients 1 / STEP_SHARE times as fast as its metric forgets curvatures.
    """
    lengths = batch_lengths(total.batch, total.growth, total.pushes)
    return kept_share(half_life / STEP_SHARE, lengths)


def deviations(total: GaussianSum, half_life: float | None = None) -> FloatArray:
    """Return the standard deviations of an entry of each sum that steps use.

    The sums are all released ones, or damped ones. Later sums have the last deviation.
    """
    if half_life is not None:
        assert isinstance(total.factorisation, Buffered)
        kept = kept_curvatures(total, half_life)
        return np.asarray(total.scale * view_noise(total.factorisation, kept)[0])
    pushes = np.arange(1, total.pushes + 1)
    return np.asarray(
        total.scale * continual_sum.row_norm(total.factorisation, pushes, total.pushes)
    )


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int | None,
    budget: Budget | None,
    shrinkage: float = 1.0,
    half_life: float | None = None,
    relation: str = "replace",
    numerics: str = DEFAULT_NUMERICS,
) -> NewtonPlan:
    """Return the least noise that meets `budget`, with suitable batches and steps.

    Parameters
    ----------
    domain, loss
        A domain, and a logistic, Huber or tabulated loss.
    horizon : int or None
        Rounds; None means at most 10^9.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    shrinkage : float
        In [0, 2].
    half_life : float, optional
        Rounds after which a record counts half; by default no record is forgotten.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    choice("relation", relation, CHANGES)
    near, n, d = Neighbours(relation), continual_sum.resolve_horizon(horizon), domain.dimension
    summand, length = _summand(domain, loss, None), record_length(domain, loss)
    first, lipschitz = 1.0, summand.slope * length
    if budget is not None:
        # This mu is the budget's own: the one after the lattice's charges depends on the batches.
        mu = gaussian_mu(budget.epsilon, budget.delta)
        first = _first_batch(d, summand.movement(near) / (mu * lipschitz))
    most = max(1.0, n // 50) if horizon is not None else n
    batch = int(max(1.0, min(first, most)))
    method: Method | None = None
    if half_life is not None:
        half_life = positive_float("half_life", half_life)
        batch, method = _plan_forgetting(batch, half_life, n)
    growth = _growth(half_life, n)
    pushes = updates(growth, batch, n)
    if method is None:
        # There are few sums, so all past draws can be stored.
        method = "toeplitz" if pushes <= continual_sum.TOEPLITZ_LIMIT else "blt"
    plain = plain_sum(summand, method, pushes, batch=batch, growth=growth)
    total = with_noise(plain, near, budget=budget, numerics=numerics)
    radius, width = float(domain.radius_from_center()), float(domain.diameter(2.0))
    # The step keeps steps without curvature stable, and the noise inside the domain.
    steps, hidden = [1.0 / (summand.curvature * length**2 * batch)], 0.0
    if total.scale > 0.0:
        # In the first batch, gradients must exceed the noise.
        spent = total.reach(near) / total.scale
        hidden = _first_batch(d, summand.movement(near) / (spent * lipschitz))
    if total.scale > 0.0 and radius > 0.0:
        planned = deviations(total, half_life)[: PLANNED if horizon is None else None]
        deviation = float(np.sqrt(np.mean(np.square(planned))))
        steps.append(STEP_SHARE * radius / (math.sqrt(d) * deviation))
    dominates = hidden > min(n, half_life or math.inf) / 50.0
    bound = n * _slope(domain, loss) * width
    forecast = RegretForecast("trivial", dominates, bound, lipschitz * width, None)
    tuning = NewtonTuning(n, min(steps), real_float("shrinkage", shrinkage), half_life)
    return Plan(total, tuning, forecast)


def guarantee(
    domain: Domain,
    loss: Loss,
    plan: NewtonPlan,
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
    total, tuning, n = plan.mechanism, plan.tuning, plan.tuning.horizon
    own = total.summand if isinstance(total, GaussianSum) else None
    if not isinstance(own, GradientAndCurvature) or own != _summand(domain, loss, own.weight):
        raise ValueError("the plan's bounds are not those of this domain and loss")
    growth = _growth(tuning.half_life, n)
    if (total.growth, total.pushes) != (growth, updates(growth, total.batch, n)):
        raise ValueError("the plan's sums are not those of so many rounds")
    slope, clip = _slope(domain, loss), own.slope * record_length(domain, loss)
    stated = stated_regret(
        n * slope * float(domain.diameter(2.0)), n * slope * float(domain.radius_from_center())
    )
    stated["details"] |= {
        "step size": tuning.step_size,
        "shrinkage": tuning.shrinkage,
        "regret bound holds for": "any decisions: nothing better is proved of these",
    }
    return Guarantee.about(
        total,
        Neighbours(relation),
        released=(
            f"the decisions of private Newton steps (dimension {domain.dimension}, p = "
            f"{domain.p:g}; {continual_sum.method_name(total.factorisation)!r} sum, Gaussian noise)"
        ),
        horizon=n,
        calibration=plan.calibration,
        delta=stated_delta(budget, n),
        reference="adaptive Gaussian composition; docs/privacy/noisy_newton.md",
        conditions=(
            f"The program clips gradients to l_2 norm {clip:g}, second derivatives to "
            f"[0, {own.curvature:g}], and features and labels to their declared bounds.",
        ),
        seeded=seeded,
        **stated,
    )


def learned_loss(loss: Loss) -> LogisticLoss | HuberLoss | GlmLoss:
    """Return the loss to learn from: the logistic one with slopes of 1/2, unless it sets slopes.

    Raises
    ------
    TypeError
        For a loss without bounds on slope and curvature.
    """
    if isinstance(loss, LogisticLoss):
        return replace(loss, slope_bound=0.5) if loss.slope_bound is None else loss
    if not isinstance(loss, HuberLoss | GlmLoss):
        raise TypeError(
            "loss must be a LogisticLoss, a HuberLoss, or one of GlmLoss.from_functions; got "
            f"{type(loss).__name__}"
        )
    return loss


def _summand(domain: Domain, loss: Loss, weight: float | None) -> GradientAndCurvature:
    """Return the summand of a round; without a `weight`, matrices have their usual share."""
    own = learned_loss(loss)
    slope, length = own.derivative_bound(own.margin_bound(domain)), record_length(domain, own)
    curvature, leaf = (0.25 if isinstance(own, LogisticLoss) else 1.0), clip_bounds(own)
    if weight is None:
        # Then zeta of the lemma is 1/2, and curvatures increase the noise by 6 %
        # (docs/privacy/noisy_newton.md).
        weight = math.sqrt(MATRIX_SHARE) * slope / (curvature * length)
    bounds = domain.dimension, float(domain.dual_exponent), leaf.bound, leaf.bound_l2
    return GradientAndCurvature(*bounds, slope=slope, curvature=curvature, weight=weight)


def _slope(domain: Domain, loss: Loss) -> float:
    """Return the largest l2 norm of a gradient of the reported loss."""
    assert isinstance(loss, MarginLoss)
    steepest = loss.reported.derivative_bound(loss.margin_bound(domain))
    return float(steepest) * record_length(domain, loss)


def _first_batch(dimension: int, share: float) -> float:
    """Return the rounds until gradients exceed noise of `share` gradients, without limits."""
    return round(0.4 * math.sqrt(dimension) * share)


def _growth(half_life: float | None, horizon: int) -> str | None:
    """Return the growth of batches; None if they would become longer than the memory."""
    if half_life is None:
        return GROWTH
    # The longest growing batch has about 2 sqrt(T) rounds.
    short = LONG_MEMORY * math.sqrt(horizon) > half_life
    return None if short or horizon > LONGEST_GROWING else GROWTH


def _plan_forgetting(first: int, half_life: float, horizon: int) -> tuple[int, Method]:
    """Return the rounds of the first batch, and the factorisation."""
    growth = _growth(half_life, horizon)
    batch = first
    if growth is None:
        # Not so short that the noise becomes stationary only after thousands of batches.
        batch = int(max(1.0, min(8.0 * first, half_life / 3.0), half_life / 300.0))
        batch = min(batch, horizon)
        if batch > half_life:
            raise ValueError(f"half_life must be at least one round; got {half_life!r}")
    pushes = updates(growth, batch, horizon)
    longest = batch_lengths(batch, growth, pushes)[-1]
    return batch, damped_sum(pushes, ONE, batch, half_life / STEP_SHARE, longest)
