"""Accounting of the tree Frank-Wolfe learner (DP-TOFW).

Claim: data reach the decisions only through one continual sum of leaves g_k with ||g_k||_q <= C,
enforced by clipping; hence all decisions together are mu-GDP with
mu = sqrt(kappa) D column_norm / sigma (`dpoco.accounting.release` has D and kappa), also when the
stream reacts to the decisions. `dpoco.accounting.leaf_bounds` has the C at which clipping loses
nothing.

Proof: ``docs/privacy/tree_frank_wolfe.md``. Source: Han et al., DP-TOFW, Theorem 3.1, corrected:
the order of the smooth norm, composition over bit_length(n) nodes, exact Gaussian accounting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import (
    claims,
    continual_sum,
    frank_wolfe_regret,
    leaf_bounds,
    release,
    truncation,
)
from dpoco.accounting._words import noise_in_words
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.accounting.generalized_gaussian import expected_norm_bound
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.regret_bounds import RegretBound
from dpoco.accounting.statement import check_claim, stated_delta
from dpoco.domains import Domain
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["TreeFrankWolfeParameters", "calibrate", "guarantee", "mechanism_of", "noise_error"]


@dataclass(frozen=True, kw_only=True)
class TreeFrankWolfeParameters(release.SumParameters):
    """Parameters of the tree Frank-Wolfe learner.

    Attributes
    ----------
    noise : {"gaussian", "generalized_gaussian"}
        Law of the draws.
    norm_order : float
        Order r of the noise norm; 2 for Gaussian noise.
    noise_scale : float
        Scale sigma of one draw; 0 means no privacy.
    sum_method : {"blt", "blt_normalised", "tree", "toeplitz"}
        Continual sum.
    weights : {"unbiased", "paper"}
        Weights w_k of the gradient estimate: k or k + 1.
    leaf_scalar_bound : float or None
        Bound on the scalar of a generalised linear loss's leaf; None for other losses.
    leaf_bound : float
        Bound C on a leaf in the dual norm, enforced by clipping.
    leaf_bound_l2 : float or None
        Bound on a leaf in l2, enforced too; None for none.
    sensitivity : float
        Largest difference of a leaf between neighbours, in l2 for Gaussian noise, else in the dual
        norm. Derived, as are `column_norm` and `mu`: a guarantee recomputes all three.
    column_norm : float
        Factor of the continual sum on the sensitivity.
    mu : float
        GDP parameter; infinite without noise.
    step_scale : float
        s in the steps s / (k + s).
    batch : int
        Rounds per update.
    pushes : int
        Updates: horizon // batch.
    horizon : int
        Rounds.
    calibration : {"tight", "corrected", "paper"}
        How the noise scale was found.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    predicted_error : float
        Bound on the excess loss that noise causes in the last update's linear minimisation.
    loss_range : float
        L D, more than which no loss can differ between two decisions.
    numerics : {"float", "lattice"}
        Arithmetic of the sum: doubles, or exact integers.
    """

    kind = "dpoco.tree_frank_wolfe_parameters"
    version = 2

    noise: str = one_of(*continual_sum.NOISES)
    norm_order: float = at_least(2.0)
    sum_method: str = one_of(*continual_sum.METHODS)
    weights: str = one_of(*leaf_bounds.WEIGHTS)
    leaf_scalar_bound: float | None
    leaf_bound: float
    leaf_bound_l2: float | None
    step_scale: float
    batch: int
    pushes: int
    calibration: str = one_of("tight", "corrected", "paper", default="tight")
    relation: str = one_of(*CHANGES)
    predicted_error: float = at_least(0.0)
    loss_range: float = at_least(0.0)
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if self.noise == "gaussian" and self.norm_order != 2.0:
            raise ValueError(f"norm_order {self.norm_order!r} does not fit noise {self.noise!r}")
        if self.pushes != self.horizon // self.batch:
            raise ValueError("pushes must be horizon // batch")
        release.check_numerics(self.numerics, self.noise, self.calibration)

    @property
    def regret_scope(self) -> str:
        """The records that bounds on regret hold for."""
        return frank_wolfe_regret.SCOPE

    @property
    def noise_dominates(self) -> bool:
        """Whether even the last update's predicted error exceeds the range of the loss."""
        return self.predicted_error > self.loss_range


def calibrate(
    domain: Domain,
    loss: Any,
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
) -> TreeFrankWolfeParameters:
    """Return the parameters with the least noise that meets `budget`.

    Parameters
    ----------
    domain, loss
        A domain and a loss of this library.
    horizon : int or None
        Rounds; None means at most 10^9.
    budget : Budget or None
        None adds no noise and gives no guarantee.
    noise, norm_order, sum_method, weights
        None: Gaussian noise, the best order, the sum of least error, and weights k.
    step_scale : float
        s in the steps s / (k + s).
    batch : int
        Rounds per update.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum; "lattice" with Gaussian noise only.
    participation : Participation, optional
        How often one person may come: the budget is for all her rounds.

    Raises
    ------
    ValueError
        For contradictory arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    step_scale = positive_float("step_scale", step_scale)
    n = continual_sum.resolve_horizon(horizon)
    pushes = n // positive_int("batch", batch, maximum=n)
    d, q = domain.dimension, domain.dual_exponent
    noise = "gaussian" if noise is None else noise
    order = release.noise_order(noise, norm_order, q, d)
    near = release.people_of(choice("relation", relation, CHANGES), participation, n, budget)
    if sum_method in (None, "auto"):
        known = None if horizon is None else pushes
        method = continual_sum.choose_method(known, noise, near, batch)
    else:
        name = choice("sum_method", sum_method or "", continual_sum.METHODS)
        method = continual_sum.planned(name, pushes, near, batch)
    chosen: dict[str, Any] = {
        "noise": noise,
        "norm_order": order,
        **release.sum_fields(method),
        "weights": choice("weights", weights or "unbiased", leaf_bounds.WEIGHTS),
        "batch": batch,
        "relation": relation,
    }
    leaf = leaf_bounds.lossless_leaf_bounds(domain, loss, chosen["weights"], step_scale)
    summand = leaf.summand(domain)
    plain = release.sum_of(summand, method, pushes, near, batch=batch, order=order)
    found = release.planned_noise(plain, near, budget=budget, numerics=numerics, noise=noise)
    parameters = TreeFrankWolfeParameters(
        **chosen,
        **leaf.fields,  # type: ignore[arg-type]
        **found,
        step_scale=step_scale,
        pushes=pushes,
        horizon=n,
        predicted_error=0.0,
        loss_range=float(loss.lipschitz(domain)) * domain.diameter(),
    )
    return replace(parameters, predicted_error=noise_error(domain, parameters))


def noise_error(domain: Domain, parameters: TreeFrankWolfeParameters) -> float:
    """Return a bound on what noise costs the last minimisation: D E||noise of its sum||_q / n.

    The norm of a sum of independent draws is at most its Gaussian-like size, row * E||Z||_q.
    """
    p, q = parameters, domain.dual_exponent
    row = float(continual_sum.row_norm(p.correlation, p.pushes, p.pushes))
    width, size = float(domain.diameter()), expected_norm_bound(p.norm_order, q, domain.dimension)
    return width * p.noise_scale * row * size / (p.batch * p.pushes)


def guarantee(
    domain: Domain,
    loss: Any,
    parameters: TreeFrankWolfeParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scale and enforced bounds.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    parameters : TreeFrankWolfeParameters
        Calibrated or the user's own; sensitivity, column norm and mu in it are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters contradict the domain or the loss.
    CalibrationError
        If the parameters say "paper" and the published claim is false for them.
    """
    p = parameters
    d, q = domain.dimension, domain.dual_exponent
    release.noise_order(p.noise, p.norm_order, q, d)
    leaf = leaf_bounds.enforced_leaf_bounds(loss, p)
    what = (
        f"the decisions of tree Frank-Wolfe (dimension {d}, p = {domain.p:g}; "
        f"{p.sum_method!r} sum, {noise_in_words(p.noise, p.norm_order)})"
    )
    if not p.private:
        return Guarantee.none(p.horizon, what)
    delta, near = stated_delta(budget, p.horizon), Neighbours(p.relation)
    total = mechanism_of(domain, loss, p)
    run = frank_wolfe_regret.Descent(
        domain=domain,
        order=domain.p,
        loss=loss,
        leaf=leaf,
        step_scale=p.step_scale,
        offset=1 if p.weights == "paper" else 0,
        batch=p.batch,
        horizon=p.horizon,
    )
    sides = 1.0 if p.relation == "replace" else 0.5
    paper_epsilon = claims.published_epsilon(
        claims.tree_equivalent_scale(p.noise_scale, p.correlation, p.pushes),
        delta,
        pushes=p.pushes,
        kappa=smoothness_constant(p.norm_order, q, d),
        leaf_bound=sides * leaf_bounds.published_leaf_bound(domain, loss, p.step_scale),
    )
    claimed = (paper_epsilon, delta) if p.calibration == "paper" else None
    if p.calibration == "corrected":
        summand, order = total.summand, total.order
        node_mu = summand.inflation(order) * summand.movement(near, order) / p.noise_scale
        claimed = (_basic_composition_epsilon(node_mu, p.pushes, delta, total.mass), delta)
    result = Guarantee.about(
        total,
        near,
        released=what,
        horizon=p.horizon,
        calibration=p.calibration,
        delta=delta,
        reference="Han et al., DP-TOFW, Theorem 3.1, corrected; docs/privacy/tree_frank_wolfe.md",
        conditions=(leaf.condition(q),),
        seeded=seeded,
        claimed=claimed,
        paper_epsilon=paper_epsilon,
        **frank_wolfe_regret.regret_fields(run, regret(run, p, total)),
    )
    return check_claim(result)


def regret(
    run: frank_wolfe_regret.Descent, parameters: TreeFrankWolfeParameters, total: GaussianSum
) -> RegretBound:
    """Return the bound on regret of a run whose gradients are summed by `total`."""
    p = parameters
    noise = frank_wolfe_regret.sum_error(run, p.correlation, p.noise_scale, p.norm_order)
    rounding = frank_wolfe_regret.sum_rounding(
        run, p.correlation, p.noise_scale, total.grid, total.mass
    )
    return run.regret(noise, rounding)


def mechanism_of(domain: Domain, loss: Any, parameters: TreeFrankWolfeParameters) -> GaussianSum:
    """Return the one sum through which data reach the decisions.

    Nothing here is trusted: its bounds are what the engine clips to.
    """
    p = parameters
    summand = leaf_bounds.enforced_leaf_bounds(loss, p).summand(domain)
    return release.released_sum(p, summand, p.pushes, batch=p.batch, order=p.norm_order)


def tuning(parameters: TreeFrankWolfeParameters) -> dict[str, Any]:
    """Return what is made of the sums that are released."""
    p = parameters
    offset = 1 if p.weights == "paper" else 0
    return {"horizon": p.horizon, "step_scale": p.step_scale, "offset": offset}


def _basic_composition_epsilon(node_mu: float, pushes: int, delta: float, mass: float) -> float:
    """Return the epsilon that basic composition of exact nodes proves at `delta`."""
    nodes = pushes.bit_length()

    def ideal(epsilon: float) -> float:
        return min(1.0, nodes * gaussian_delta(epsilon / nodes, node_mu))

    return truncation.charged_epsilon(
        lambda target: nodes * gaussian_epsilon(node_mu, target / nodes),
        lambda epsilon: truncation.charged_delta(ideal, epsilon, mass),
        delta,
        mass,
    )
