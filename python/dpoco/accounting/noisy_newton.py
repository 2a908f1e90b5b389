"""Accounting of private Newton steps.

Claim: data reach the decisions only through one continual sum of vectors (s x, a w x x') with
|s| <= c, 0 <= w <= W, ||x||_2 <= B; with z = (a W B / c)^2 two of them are at most
c B sqrt(4 + z) apart if z <= 1 + 1/sqrt(2), else c B sqrt(2 + 2 z + 1/(2 z)), and an empty one
c B sqrt(1 + z) from any other. So all decisions together are mu-GDP with mu = D column_norm / sigma
for that distance D, also when the stream reacts to the decisions, and whatever public lengths
batches have. Of regret nothing is proved but that it is at most that of the worst decisions.

Proof: ``docs/privacy/noisy_newton.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, ClassVar

import numpy as np

from dpoco._validation import FloatArray, choice, real_float
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.leaf_bounds import clipped, record_length
from dpoco.accounting.noisy_ftrl_regret import LeaderParameters
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.release import (
    DEFAULT_NUMERICS,
    planned_noise,
    released_sum,
    sum_of,
)
from dpoco.accounting.statement import stated_delta
from dpoco.domains import Domain
from dpoco.losses import GlmLoss, HuberLoss, LogisticLoss, Loss
from dpoco.privacy.mechanisms.bounds import GradientAndCurvature
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["NoisyNewtonParameters", "calibrate", "guarantee", "learned_loss", "mechanism_of"]

GROWTH = "root"
# Share of the released curvature that enters the metric; (a W B / c)^2, the part of matrices in the
# sum; decisions whose noise an endless stream is planned for.
STEP_SHARE, MATRIX_SHARE, PLANNED = 0.3, 0.5, 321


@dataclass(frozen=True, kw_only=True)
class NoisyNewtonParameters(LeaderParameters):
    """Parameters of private Newton steps.

    Attributes
    ----------
    sum_method : {"toeplitz", "blt"}
        Continual sum.
    noise_scale : float
        Scale sigma of one Gaussian draw; 0 means no privacy.
    curvature_weight : float
        a, factor on the matrices of the sum.
    step_size : float
        eta (length^2 / loss): the metric begins as I / eta.
    shrinkage : float
        Of decisions towards the centre, in squared deviations of a step.
    batch : int
        Rounds of the first decision; batches grow as ``GaussianSum(growth="root")`` says.
    pushes : int
        Batches that end before the last round, at least 1.
    horizon : int
        Rounds.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    calibration : {"tight"}
        How the noise scale was found: exact Gaussian accounting.
    dimension : int
        d. Derived, as is everything below.
    lipschitz : float
        c B, l2 bound on a gradient in the sum.
    radius, diameter : float
        Largest l2 distance from the domain's centre, and within the domain.
    sensitivity : float
        Largest l2 difference of what a round adds to the sum, between neighbours.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise.
    regret_bound : float
        Regret of the worst decisions: nothing better is proved.
    numerics : {"float", "lattice"}
        Arithmetic of the sum: doubles, or exact integers.
    """

    kind: ClassVar[str] = "dpoco.noisy_newton_parameters"

    sum_method: str = one_of("toeplitz", "blt")
    curvature_weight: float
    step_size: float
    shrinkage: float = at_least(0.0, 2.0)
    dimension: int
    numerics: str = one_of(*NUMERICS)

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if self.pushes != _pushes(self.batch, self.horizon):
            raise ValueError("pushes must be the batches that end before the last round")

    @property
    def regret_scope(self) -> str:
        """What the bound holds for, "trivial": any decisions."""
        return "trivial"

    @property
    def noise_dominates(self) -> bool:
        """Whether a first batch in which gradients stand out of the noise is too long to wait for.

        It is longer than a fiftieth of the horizon.
        """
        share = self.sensitivity / (self.mu * self.lipschitz)
        return self.private and _first_batch(self.dimension, share) > self.horizon / 50.0

    @property
    def deviations(self) -> FloatArray:
        """Standard deviation of an entry of each released sum, shape (pushes,)."""
        rows = continual_sum.row_norm(self.correlation, np.arange(1, self.pushes + 1), self.pushes)
        return np.asarray(self.noise_scale * rows)


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int | None,
    budget: Budget | None,
    shrinkage: float = 1.0,
    relation: str = "replace",
    numerics: str = DEFAULT_NUMERICS,
) -> NoisyNewtonParameters:
    """Return the least noise that meets `budget`, and batches and steps that suit it.

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
        # Of the budget's own mu: that after the lattice's charges depends on the batches.
        mu = gaussian_mu(budget.epsilon, budget.delta)
        first = _first_batch(d, summand.movement(near) / (mu * lipschitz))
    most = max(1.0, n // 50) if horizon is not None else n
    batch = int(max(1.0, min(first, most)))
    pushes = _pushes(batch, n)
    method = "toeplitz" if pushes <= continual_sum.TOEPLITZ_LIMIT else "blt"
    plain = sum_of(summand, method, pushes, near, batch=batch, growth=GROWTH)
    found = NoisyNewtonParameters(
        sum_method=method,
        curvature_weight=summand.weight,
        step_size=1.0,
        shrinkage=real_float("shrinkage", shrinkage),
        batch=batch,
        pushes=pushes,
        horizon=n,
        relation=relation,
        dimension=d,
        lipschitz=lipschitz,
        radius=float(domain.radius_from_center()),
        diameter=float(domain.diameter(2.0)),
        regret_bound=n * _slope(domain, loss) * float(domain.diameter(2.0)),
        **planned_noise(plain, near, budget=budget, numerics=numerics),
    )
    # No longer than what keeps a step without curvature stable, or the noise inside the domain.
    steps = [1.0 / (summand.curvature * length**2 * batch)]
    if found.private and found.radius > 0.0:
        planned = found.deviations[: PLANNED if horizon is None else None]
        deviation = float(np.sqrt(np.mean(np.square(planned))))
        steps.append(STEP_SHARE * found.radius / (math.sqrt(d) * deviation))
    return replace(found, step_size=min(steps))


def guarantee(
    domain: Domain,
    loss: Loss,
    parameters: NoisyNewtonParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scale and enforced bounds.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    parameters : NoisyNewtonParameters
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
    p, total = parameters, mechanism_of(domain, loss, parameters)
    assert isinstance(total.summand, GradientAndCurvature)
    slope, clip = _slope(domain, loss), total.summand.slope * record_length(domain, loss)
    stated = stated_regret(
        p.horizon * slope * float(domain.diameter(2.0)),
        p.horizon * slope * float(domain.radius_from_center()),
    )
    stated["details"] |= {
        "step size": p.step_size,
        "shrinkage": p.shrinkage,
        "regret bound holds for": "any decisions: nothing better is proved of these",
    }
    return Guarantee.about(
        total,
        Neighbours(p.relation),
        released=(
            f"the decisions of private Newton steps (dimension {domain.dimension}, "
            f"p = {domain.p:g}; {p.sum_method!r} sum, Gaussian noise)"
        ),
        horizon=p.horizon,
        calibration=p.calibration,
        delta=stated_delta(budget, p.horizon),
        reference="adaptive Gaussian composition; docs/privacy/noisy_newton.md",
        conditions=(
            f"The program clips gradients to l_2 norm {clip:g}, second derivatives to "
            f"[0, {total.summand.curvature:g}], and features and labels to their declared bounds.",
        ),
        seeded=seeded,
        **stated,
    )


def mechanism_of(domain: Domain, loss: Loss, parameters: NoisyNewtonParameters) -> GaussianSum:
    """Return the one sum through which data reach the decisions.

    Nothing here is trusted: its bounds are what the engine clips to.
    """
    p = parameters
    summand = _summand(domain, loss, p.curvature_weight)
    return released_sum(p, summand, p.pushes, batch=p.batch, growth=GROWTH)


def learned_loss(loss: Loss) -> LogisticLoss | HuberLoss | GlmLoss:
    """Return the loss that is learned from: the logistic one with slopes of 1/2, if it says none.

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
    """Return what a round adds; without a `weight`, matrices have their usual share."""
    own = learned_loss(loss)
    slope, length = own.derivative_bound(own.margin_bound(domain)), record_length(domain, own)
    curvature, leaf = (0.25 if isinstance(own, LogisticLoss) else 1.0), clipped(own)
    if weight is None:
        weight = math.sqrt(MATRIX_SHARE) * slope / (curvature * length)
    bounds = domain.dimension, float(domain.dual_exponent), leaf.bound, leaf.bound_l2
    return GradientAndCurvature(*bounds, slope=slope, curvature=curvature, weight=weight)


def _slope(domain: Domain, loss: Any) -> float:
    """Return the largest l2 norm of a gradient of the loss that is reported."""
    steepest = loss.reported.derivative_bound(loss.margin_bound(domain))
    return float(steepest) * record_length(domain, loss)


def _first_batch(dimension: int, share: float) -> float:
    """Return in how many rounds gradients stand out of noise of `share` gradients, unrestricted."""
    return round(0.4 * math.sqrt(dimension) * share)


@lru_cache(maxsize=256)
def _pushes(batch: int, horizon: int) -> int:
    ends = islice(batch_starts(batch, GROWTH), 1, None)
    return max(1, sum(1 for _ in takewhile(lambda end: end < horizon, ends)))
