"""Accounting of the tree Frank-Wolfe learner (DP-TOFW).

Claim: data reach the decisions only through one continual sum of leaves g_k with ||g_k||_q <= C,
enforced by clipping; hence all decisions together are mu-GDP with
mu = sqrt(kappa) D column_norm / sigma (`dpoco.accounting.release` has D and kappa), also when the
stream reacts to the decisions. `dpoco.accounting.leaf_bounds` has the C at which clipping loses
nothing; the calibrations "corrected" and "paper" keep the published C = s beta D + L.

Proof: ``docs/privacy/tree_frank_wolfe.md``. Source: Han et al., DP-TOFW, Theorem 3.1, corrected:
the order of the smooth norm, composition over bit_length(n) nodes, exact Gaussian accounting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import (
    continual_sum,
    frank_wolfe_regret,
    leaf_bounds,
    published,
    release,
    truncation,
)
from dpoco.accounting._words import noise_in_words
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.accounting.generalized_gaussian import expected_norm_bound, paper_order
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.parameters import at_least, one_of
from dpoco.accounting.regret_bounds import RegretBound
from dpoco.accounting.statement import check_claim, require_published, state_sum, stated_delta
from dpoco.domains import Domain
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.mechanisms.bounds import smoothness_constant
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["TreeFrankWolfeParameters", "calibrate", "guarantee", "mechanism_of"]


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
    sum_method : {"blt", "blt_normalised", "tree", "honaker", "toeplitz"}
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
    calibration: str = one_of(*leaf_bounds.CALIBRATIONS)
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
    calibration: str = "tight",
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
    calibration : {"tight", "corrected", "paper"}
        "tight": exact Gaussian differential privacy. "corrected": the published algorithm and
        composition argument, each step repaired. "paper": the published constants.
    noise, norm_order, sum_method, weights
        None leaves the choice to `calibration`: Gaussian noise, automatic sum and weights k for
        "tight"; what the paper prescribes for the others.
    step_scale : float
        s in the steps s / (k + s).
    batch : int
        Rounds per update.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of the sum; "lattice" with Gaussian noise and calibration "tight" only.
    participation : Participation, optional
        How often one person may come: the budget of calibration "tight" is for all her rounds.

    Raises
    ------
    ValueError
        For contradictory arguments.
    CalibrationError
        If no noise scale meets the budget, or the published constants miss it.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    printed = choice("calibration", calibration, leaf_bounds.CALIBRATIONS) != "tight"
    step_scale = positive_float("step_scale", step_scale)
    n = continual_sum.resolve_horizon(horizon)
    pushes = n // positive_int("batch", batch, maximum=n)
    d, q = domain.dimension, domain.dual_exponent
    if noise is None:
        noise = "generalized_gaussian" if printed and q >= 2.0 else "gaussian"
    if norm_order is None and printed and noise == "generalized_gaussian":
        norm_order = paper_order(q, d)
    order = release.noise_order(noise, norm_order, q, d)
    people = None if printed else participation
    near = release.people_of(choice("relation", relation, CHANGES), people, n, budget)
    if sum_method in (None, "auto"):
        known = None if horizon is None else pushes
        best = continual_sum.choose_method(known, noise, near, batch)
        method = "tree" if printed else best
    else:
        name = choice("sum_method", sum_method or "", continual_sum.METHODS)
        method = continual_sum.planned(name, pushes, near, batch)
    chosen: dict[str, Any] = {
        "noise": noise,
        "norm_order": order,
        **release.sum_fields(method),
        "weights": choice(
            "weights", weights or ("paper" if printed else "unbiased"), leaf_bounds.WEIGHTS
        ),
        "batch": batch,
        "calibration": calibration,
        "relation": relation,
    }
    leaf_bounds.check_fixed(chosen, _fixed(calibration, q, d))
    leaf = leaf_bounds.lossless_leaf_bounds(
        domain, loss, chosen["weights"], calibration, step_scale
    )
    summand = leaf.summand(domain)
    found = release.sum_of(summand, method, pushes, near, batch=batch, order=order)
    arithmetic, mu = release.plain_numerics(numerics, noise), math.inf
    release.check_numerics(arithmetic, noise, calibration)
    if budget is not None and not printed:
        wanted = numerics if noise == "gaussian" else arithmetic
        found, mu = release.calibrate_noise(found, near, budget=budget, numerics=wanted)
        arithmetic = release.numerics_of(found)
    elif budget is not None:
        if calibration == "corrected":
            unit = summand.inflation(order) * summand.movement(near, order)
            scale = unit / _node_mu(budget, pushes, found.mass)
        else:
            kappa = smoothness_constant(order, q, d)
            bound = leaf_bounds.published_leaf_bound(domain, loss, step_scale)
            scale = published.published_sigma(budget, pushes=pushes, kappa=kappa, leaf_bound=bound)
        found = replace(found, scale=scale)
        mu = found.reach(near) / scale
        require_published(truncation.charged_gaussian_delta(budget.epsilon, mu, found.mass), budget)
    # D E||noise of the last sum||_q / (batch pushes) is what noise costs the last minimisation. For
    # a sum of independent draws the norm is at most its Gaussian-like size, row * E||Z||_q.
    row = float(continual_sum.row_norm(method, pushes, pushes))
    width, size = float(domain.diameter()), expected_norm_bound(order, q, d)
    return TreeFrankWolfeParameters(
        **chosen,
        **leaf.fields,  # type: ignore[arg-type]
        noise_scale=found.scale,
        sensitivity=summand.movement(near, order),
        column_norm=continual_sum.column_norm(method, pushes),
        mu=mu,
        step_scale=step_scale,
        pushes=pushes,
        horizon=n,
        predicted_error=width * found.scale * row * size / (batch * pushes),
        loss_range=float(loss.lipschitz(domain)) * domain.diameter(),
        numerics=arithmetic,
    )


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
        If the parameters contradict the domain, the loss or their own calibration.
    CalibrationError
        If the parameters say "paper" and the published claim is false for them.
    """
    p = parameters
    d, q = domain.dimension, domain.dual_exponent
    release.noise_order(p.noise, p.norm_order, q, d)
    leaf_bounds.check_fixed(vars(p), _fixed(p.calibration, q, d))
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
    paper_epsilon = published.published_epsilon(
        published.tree_equivalent_scale(p.noise_scale, p.correlation, p.pushes),
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
    result = state_sum(
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


def _node_mu(budget: Budget, pushes: int, mass: float) -> float:
    """Return the mu of one node such that basic composition over bit_length(n) meets `budget`."""
    nodes = pushes.bit_length()
    rest = truncation.reserve(budget, mass / truncation.truncation_mass(1.0))
    return gaussian_mu(rest.epsilon / nodes, rest.delta / nodes)


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


def _fixed(calibration: str, q: float, dimension: int) -> dict[str, tuple[Any, ...]]:
    """Return the options that a calibration fixes."""
    if calibration == "corrected":  # Honaker's estimator is post-processing of the same nodes
        return {"sum_method": ("tree", "honaker")}
    if calibration == "tight":
        return {}
    return {
        "sum_method": ("tree",),
        "weights": ("paper",),
        "relation": ("replace",),
        "batch": (1,),
        "noise": ("generalized_gaussian" if q >= 2.0 else "gaussian",),
        "norm_order": (paper_order(q, dimension),),
    }
