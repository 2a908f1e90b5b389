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
from dataclasses import replace
from typing import Any

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.frank_wolfe_parameters import (
    CALIBRATIONS,
    WEIGHTS,
    TreeFrankWolfeParameters,
)
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.accounting.generalized_gaussian import expected_norm_bound, paper_order
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import (
    DomainLike,
    LeafBounds,
    clipping_condition,
    enforced_leaf_bounds,
    lossless_leaf_bounds,
    published_leaf_bound,
)
from dpoco.accounting.published import (
    published_epsilon,
    published_sigma,
    tree_equivalent_scale,
)
from dpoco.accounting.release import (
    DEFAULT_NUMERICS,
    calibrate_noise,
    check_numerics,
    noise_in_words,
    noise_order,
    numerics_of,
    plain_numerics,
    sum_of,
)
from dpoco.accounting.statement import state_sum, stated_delta
from dpoco.accounting.truncation import (
    charged_delta,
    charged_epsilon,
    charged_gaussian_delta,
    reserve,
    truncation_mass,
)
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.mechanisms.bounds import ClippedVector, GlmGradient, smoothness_constant
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["TreeFrankWolfeParameters", "calibrate", "guarantee", "mechanism_of"]


def calibrate(
    domain: DomainLike,
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
    numerics: str = DEFAULT_NUMERICS,
) -> TreeFrankWolfeParameters:
    """Return the parameters with the least noise that meets `budget`.

    Parameters
    ----------
    domain, loss
        A domain and a loss of this library.
    horizon : int or None
        Rounds; None means at most 10^9.
    budget : Budget or None
        None adds no noise and promises nothing.
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

    Raises
    ------
    ValueError
        For contradictory arguments.
    CalibrationError
        If no noise scale meets the budget, or the published constants miss it.
    """
    if isinstance(budget, Budget):
        budget.require_delta()
    choice("calibration", calibration, CALIBRATIONS)
    choice("relation", relation, CHANGES)
    step_scale = positive_float("step_scale", step_scale)
    n = continual_sum.resolve_horizon(horizon)
    pushes = n // positive_int("batch", batch, maximum=n)
    d, q = domain.dimension, domain.dual_exponent
    published = calibration != "tight"
    if noise is None:
        noise = "generalized_gaussian" if published and q >= 2.0 else "gaussian"
    if norm_order is None and published and noise == "generalized_gaussian":
        norm_order = paper_order(q, d)
    order = noise_order(noise, norm_order, q, d)
    weights = choice("weights", weights or ("paper" if published else "unbiased"), WEIGHTS)
    if sum_method in (None, "auto"):
        sum_method = "tree" if published else continual_sum.choose_method(pushes, noise)
    assert sum_method is not None
    _check_agreement(
        calibration, noise, order, sum_method, weights, batch, relation, paper_order(q, d), q
    )
    leaf = lossless_leaf_bounds(domain, loss, weights, calibration, step_scale)
    near, summand = Neighbours(relation), _summand(domain, loss, leaf)
    found, mu = sum_of(summand, sum_method, pushes, near, batch=batch, order=order), math.inf
    arithmetic = plain_numerics(numerics, noise)
    check_numerics(arithmetic, noise, calibration)
    if budget is not None and calibration == "tight":
        wanted = numerics if noise == "gaussian" else arithmetic
        found, mu = calibrate_noise(found, near, budget=budget, numerics=wanted)
        arithmetic = numerics_of(found)
    elif budget is not None:
        if calibration == "corrected":
            unit = summand.inflation(order) * summand.movement(near, order)
            scale = unit / _node_mu(budget, pushes, found.mass)
        else:
            kappa = smoothness_constant(order, q, d)
            bound = published_leaf_bound(domain, loss, step_scale)
            scale = published_sigma(budget, pushes=pushes, kappa=kappa, leaf_bound=bound)
        found = replace(found, scale=scale)
        mu = found.reach(near) / scale
        _require(budget, mu, found.mass)
    lipschitz = float(loss.lipschitz(domain))
    return TreeFrankWolfeParameters(
        noise=noise,
        norm_order=order,
        noise_scale=found.scale,
        sum_method=sum_method,
        weights=weights,
        leaf_scalar_bound=leaf.scalar,
        leaf_bound=leaf.dual,
        leaf_bound_l2=None if leaf.l2 == math.inf else leaf.l2,
        sensitivity=summand.movement(near, order),
        column_norm=continual_sum.column_norm(sum_method, pushes),
        mu=mu,
        step_scale=step_scale,
        batch=batch,
        pushes=pushes,
        horizon=n,
        calibration=calibration,
        relation=relation,
        predicted_error=_predicted_error(domain, found.scale, order, sum_method, pushes, batch),
        loss_range=lipschitz * domain.diameter(),
        numerics=arithmetic,
    )


def guarantee(
    domain: DomainLike,
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
    noise_order(p.noise, p.norm_order, q, d)
    _check_agreement(
        p.calibration, p.noise, p.norm_order, p.sum_method, p.weights, p.batch, p.relation,
        paper_order(q, d), q,
    )  # fmt: skip
    leaf = enforced_leaf_bounds(loss, p)
    what = (
        f"the decisions of tree Frank-Wolfe (dimension {d}, p = {domain.p:g}; "
        f"{p.sum_method!r} sum, {noise_in_words(p.noise, p.norm_order)})"
    )
    if not p.private:
        return Guarantee.none(p.horizon, what)
    delta, near = stated_delta(budget, p.horizon), Neighbours(p.relation)
    total = mechanism_of(domain, loss, p)
    sides = 1.0 if p.relation == "replace" else 0.5
    paper_epsilon = published_epsilon(
        tree_equivalent_scale(p.noise_scale, p.sum_method, p.pushes),
        delta,
        pushes=p.pushes,
        kappa=smoothness_constant(p.norm_order, q, d),
        leaf_bound=sides * published_leaf_bound(domain, loss, p.step_scale),
    )
    claimed = None
    if p.calibration == "paper":
        claimed = (paper_epsilon, delta)
    elif p.calibration == "corrected":
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
        conditions=(clipping_condition(domain, loss, leaf),),
        seeded=seeded,
        claimed=claimed,
        paper_epsilon=paper_epsilon,
    )
    # The slack covers the rounding of the composition's own epsilon, at a single push.
    if claimed is not None and not result.delta_at(claimed[0]) <= claimed[1] * (1.0 + 1e-9):
        raise CalibrationError(
            f"the published claim (epsilon = {claimed[0]:.6g}, delta = {claimed[1]:.3g}) is false "
            f"for this noise: exact delta {result.delta_at(claimed[0]):.3g}"
        )
    return result


def mechanism_of(
    domain: DomainLike, loss: Any, parameters: TreeFrankWolfeParameters
) -> GaussianSum:
    """Return the one sum through which data reach the decisions.

    Nothing here is trusted: its bounds are what the engine clips to.
    """
    p = parameters
    return sum_of(
        _summand(domain, loss, enforced_leaf_bounds(loss, p)),
        p.sum_method,
        p.pushes,
        Neighbours(p.relation),
        scale=p.noise_scale,
        numerics=p.numerics,
        batch=p.batch,
        order=p.norm_order,
    )


def _summand(domain: DomainLike, loss: Any, leaf: LeafBounds) -> ClippedVector | GlmGradient:
    """Return what a round adds: a leaf, bounded as a product or as it is."""
    d, q = domain.dimension, float(domain.dual_exponent)
    if leaf.scalar is None:
        return ClippedVector(d, q, float(leaf.dual), float(leaf.l2))
    l2 = loss.feature_bound_l2
    features_l2 = math.inf if l2 is None else float(l2)
    return GlmGradient(d, q, float(loss.feature_bound), features_l2, float(leaf.scalar))


def _node_mu(budget: Budget, pushes: int, mass: float) -> float:
    """Return the mu of one node such that basic composition over bit_length(n) meets `budget`."""
    nodes = pushes.bit_length()
    rest = reserve(budget, mass / truncation_mass(1.0))
    return gaussian_mu(rest.epsilon / nodes, rest.delta / nodes)


def _basic_composition_epsilon(node_mu: float, pushes: int, delta: float, mass: float) -> float:
    """Return the epsilon that basic composition of exact nodes proves at `delta`."""
    nodes = pushes.bit_length()

    def ideal(epsilon: float) -> float:
        return min(1.0, nodes * gaussian_delta(epsilon / nodes, node_mu))

    return charged_epsilon(
        lambda target: nodes * gaussian_epsilon(node_mu, target / nodes),
        lambda epsilon: charged_delta(ideal, epsilon, mass),
        delta,
        mass,
    )


def _require(budget: Budget, mu: float, mass: float) -> None:
    exact = charged_gaussian_delta(budget.epsilon, mu, mass)
    if not exact <= budget.delta:
        raise CalibrationError(
            f"the published constants miss delta = {budget.delta:.3g} at epsilon = "
            f"{budget.epsilon:.6g}: exact delta {exact:.3g}; use calibration='tight'"
        )


def _check_agreement(
    calibration: str,
    noise: str,
    order: float,
    sum_method: str,
    weights: str,
    batch: int,
    relation: str,
    published_order: float,
    q: float,
) -> None:
    """Raise if an option contradicts the calibration."""
    choice("sum_method", sum_method, continual_sum.METHODS)
    if calibration == "corrected":
        # Honaker's estimator is post-processing of the same nodes.
        if sum_method not in ("tree", "honaker"):
            raise ValueError("calibration 'corrected' counts tree nodes; sum_method must be a tree")
    elif calibration == "paper":
        fixed = {
            "sum_method": (sum_method, "tree"),
            "weights": (weights, "paper"),
            "relation": (relation, "replace"),
            "batch": (batch, 1),
            "noise": (noise, "generalized_gaussian" if q >= 2.0 else "gaussian"),
            "norm_order": (order, published_order),
        }
        for name, (given, needed) in fixed.items():
            if given != needed:
                raise ValueError(f"calibration 'paper' has {name} {needed!r}; got {given!r}")


def _predicted_error(
    domain: DomainLike, scale: float, order: float, method: str, pushes: int, batch: int
) -> float:
    """Return D E||noise of the last sum||_q / (batch pushes), the cost of one noisy minimisation.

    For the sum of independent draws the norm is at most its Gaussian-like size row * E||Z||_q.
    """
    row = float(continual_sum.row_norm(method, pushes, pushes))
    size = expected_norm_bound(order, domain.dual_exponent, domain.dimension)
    return float(domain.diameter()) * scale * row * size / (batch * pushes)
