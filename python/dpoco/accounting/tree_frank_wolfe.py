"""Accounting of the tree Frank-Wolfe learner (DP-TOFW).

Claim: data reach the decisions only through one continual sum of leaves g_k with ||g_k||_q <= C,
which is enforced by clipping. Hence all decisions together are mu-GDP with mu = sqrt(kappa) D
column_norm / sigma (`dpoco.accounting.release` has D and kappa), even if the stream reacts to the
decisions. `dpoco.accounting.leaf_bounds` has the C at which clipping loses nothing.

Proof: ``docs/privacy/tree_frank_wolfe.md``. Source: Han et al., DP-TOFW, Theorem 3.1, corrected:
the order of the smooth norm, composition over bit_length(n) nodes, exact Gaussian accounting.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import claims, continual_sum, frank_wolfe_regret, leaf_bounds, release
from dpoco.accounting.budget import Budget
from dpoco.accounting.frank_wolfe_regret import ErrorForecast
from dpoco.accounting.gaussian import (
    charged_delta,
    charged_epsilon,
    expected_norm_bound,
    gaussian_epsilon,
    noise_in_words,
)
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import WEIGHTS, published_leaf_bound
from dpoco.accounting.plan import Plan
from dpoco.accounting.regret_bounds import RegretBound
from dpoco.accounting.statement import check_claim, stated_delta
from dpoco.domains import Domain
from dpoco.losses import Loss
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.neighbours import CHANGES, Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["TreePlan", "TreeTuning", "calibrate", "guarantee", "make_plan"]


@dataclass(frozen=True)
class TreeTuning(Description):
    """Parameters of the post-processing of the sums that tree Frank-Wolfe releases.

    Attributes
    ----------
    horizon : int
        Number of rounds.
    step_scale : float
        s in the steps s / (k + s).
    offset : int
        0 or 1: the weights of the gradient estimate are k + offset.
    """

    kind = "tree_frank_wolfe_tuning"
    horizon: int
    step_scale: float
    offset: int = limits(zero=True)


TreePlan = Plan[GaussianSum, TreeTuning, ErrorForecast]


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int | None,
    budget: Budget | None,
    noise: str | None = None,
    norm_order: float | None = None,
    sum_method: str | None = None,
    weights: str | None = None,
    step_scale: float = 1.0,
    batch: int = 1,
    relation: str = "replace",
    numerics: str = release.DEFAULT_NUMERICS,
    participation: release.Returning | None = None,
) -> TreePlan:
    """Return the plan with the least noise that meets `budget`.

    Parameters
    ----------
    domain, loss
        A domain and a loss of this library.
    horizon : int or None
        Rounds; None means at most 10^9.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    noise, norm_order, sum_method, weights
        None means Gaussian noise, the best order, the sum with the least error, and weights k.
    step_scale : float
        s in the steps s / (k + s).
    batch : int
        Rounds per update.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum; "lattice" with Gaussian noise only.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rounds.

    Raises
    ------
    ValueError
        For contradictory arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    if isinstance(budget, Budget):
        # Gaussian noise, generalised or not, has no pure epsilon.
        budget.require_delta()
    step_scale = positive_float("step_scale", step_scale)
    n = continual_sum.resolve_horizon(horizon)
    pushes = n // positive_int("batch", batch, maximum=n)
    d, q = domain.dimension, domain.dual_exponent
    noise = "gaussian" if noise is None else noise
    order = release.noise_order(noise, norm_order, q, d)
    near = release.planned_neighbours(
        choice("relation", relation, CHANGES), participation, n, budget
    )
    if sum_method in (None, "auto"):
        known = None if horizon is None else pushes
        method = continual_sum.choose_method(known, near, batch)
    else:
        name = choice("sum_method", sum_method, continual_sum.METHODS)
        method = continual_sum.plan_method(name, pushes, near, batch)
    # The paper uses weights k + 1. Weights k are unbiased and have smaller leaves.
    offset = WEIGHTS.index(choice("weights", "unbiased" if weights is None else weights, WEIGHTS))
    summand = leaf_bounds.lossless_leaf_bounds(domain, loss, WEIGHTS[offset], step_scale)
    # A record changes one clipped leaf of its batch, for any length of the batch
    # (docs/privacy/tree_frank_wolfe.md, "Batches").
    plain = release.plain_sum(summand.summand(domain), method, pushes, batch=batch, order=order)
    total = release.with_noise(plain, near, budget=budget, numerics=numerics, noise=noise)
    return make_plan(domain, loss, total, TreeTuning(n, step_scale, offset))


def make_plan(
    domain: Domain, loss: Loss, total: GaussianSum, tuning: TreeTuning, calibration: str = "tight"
) -> TreePlan:
    """Return the plan of a sum and steps, with its forecast.

    Parameters
    ----------
    domain, loss
        The problem.
    total, tuning
        The sum with its noise, and the steps.
    calibration : {"tight", "corrected", "paper"}
        How the noise was found.
    """
    largest = float(loss.lipschitz(domain)) * domain.diameter()
    return Plan(total, tuning, ErrorForecast(noise_error(domain, total), largest), calibration)


def noise_error(domain: Domain, total: GaussianSum) -> float:
    """Return a bound on the noise cost of the last minimisation: D E||noise of its sum||_q / n.

    The norm of a sum of independent draws is at most that of one draw times row: row * E||Z||_q.
    """
    q, pushes = domain.dual_exponent, total.pushes
    # The last sum: weights grow faster than the noise, so earlier minimisations have larger errors.
    row = float(continual_sum.row_norm(total.factorisation, pushes, pushes))
    width, size = float(domain.diameter()), expected_norm_bound(total.order, q, domain.dimension)
    return width * total.scale * row * size / (total.batch * pushes)


def guarantee(
    domain: Domain,
    loss: Loss,
    plan: TreePlan,
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
    TypeError, ValueError
        If the plan contradicts the domain or the loss.
    CalibrationError
        If the plan says "paper" and the published claim is false for it.
    """
    # The guarantee only depends on what the engine enforces: bounds, lengths and noise.
    total, tuning, near = plan.mechanism, plan.tuning, Neighbours(relation)
    d, q, n = domain.dimension, domain.dual_exponent, tuning.horizon
    leaf = leaf_bounds.enforced_leaf_bounds(domain, loss, total.summand)
    if total.pushes != n // total.batch or total.growth is not None:
        raise ValueError("the plan's sums are not those of so many rounds")
    method = continual_sum.method_name(total.factorisation)
    what = (
        f"the decisions of tree Frank-Wolfe (dimension {d}, p = {domain.p:g}; "
        f"{method!r} sum, {noise_in_words(total.order)})"
    )
    if total.loss(near) is None:
        return Guarantee.none(n, what)
    delta = stated_delta(budget, n)
    run = frank_wolfe_regret.Descent(
        domain=domain,
        order=domain.p,
        loss=loss,
        leaf=leaf,
        step_scale=tuning.step_scale,
        offset=tuning.offset,
        batch=total.batch,
        horizon=n,
    )
    paper_epsilon = claims.published_epsilon(
        claims.tree_equivalent_scale(total.scale, total.factorisation, total.pushes),
        delta,
        pushes=total.pushes,
        kappa=smoothness_constant(total.order, q, d),
        # The paper's theorem is about replaced records. Emptying a record moves a leaf half as far.
        leaf_bound=0.5 * near.sides * published_leaf_bound(domain, loss, tuning.step_scale),
    )
    claimed = (paper_epsilon, delta) if plan.calibration == "paper" else None
    # The claim of the corrected theorem: exact nodes, with basic composition.
    if plan.calibration == "corrected":
        summand, order = total.summand, total.order
        node_mu = summand.inflation(order) * summand.movement(near, order) / total.scale
        claimed = (_basic_composition_epsilon(node_mu, total.pushes, delta, total.mass), delta)
    result = Guarantee.about(
        total,
        near,
        released=what,
        horizon=n,
        calibration=plan.calibration,
        delta=delta,
        reference="Han et al., DP-TOFW, Theorem 3.1, corrected; docs/privacy/tree_frank_wolfe.md",
        conditions=(leaf.condition(q),),
        seeded=seeded,
        claimed=claimed,
        paper_epsilon=paper_epsilon,
        **frank_wolfe_regret.regret_fields(run, regret(run, total)),
    )
    return check_claim(result)


def regret(run: frank_wolfe_regret.Descent, total: GaussianSum) -> RegretBound:
    """Return the regret bound of a run whose gradients are summed by `total`."""
    factor, scale = total.factorisation, total.scale
    noise = frank_wolfe_regret.sum_error(run, factor, scale, total.order)
    return run.regret(
        noise, frank_wolfe_regret.sum_rounding(run, factor, scale, total.grid, total.mass)
    )


def _basic_composition_epsilon(node_mu: float, pushes: int, delta: float, mass: float) -> float:
    """Return the epsilon that basic composition of exact nodes proves at `delta`."""
    # A leaf is in at most this many completed nodes. The paper counts one more unless n is a power
    # of two (docs/privacy/continual_sum.md, "Binary tree").
    nodes = pushes.bit_length()

    def ideal(epsilon: float) -> float:
        return min(1.0, nodes * gaussian_delta(epsilon / nodes, node_mu))

    return charged_epsilon(
        lambda target: nodes * gaussian_epsilon(node_mu, target / nodes),
        lambda epsilon: charged_delta(ideal, epsilon, mass),
        delta,
        mass,
    )
