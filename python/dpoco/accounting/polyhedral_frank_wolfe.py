"""Accounting of the polyhedral Frank-Wolfe learner (DP-POFW).

Claim: let every leaf have ||g||_inf <= C (and ||g||_2 <= C_2), enforced by clipping, and let D be
the l_1 diameter of the domain. Replacing one round moves the scores <d_k, v> of all vertices by
amounts within an interval of length 2 C D / (m w_k). Selection k with noise of scale b_k has range
eps_k = 2 C D / (m w_k b_k), and all decisions together are rho-zCDP with

    rho = sum eps_k^2 / 8  (exponential mechanism)   or   sum eps_k^2 / 2  (Laplace noise),

and (sum eps_k)-private; the Renyi divergences of `Decaying` are smaller. On a
box, whose coordinates are chosen independently, the l_2 diameter takes the place of D in rho. A
change in batch i is seen by the selections k >= i only: later users have smaller rho.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``. Source: Han et al., DP-POFW, Theorem 3.4,
corrected: range instead of monotone counts, exact sums, batches.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

from dpoco._validation import choice, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.frank_wolfe_parameters import CALIBRATIONS, WEIGHTS
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import (
    DomainLike,
    clipping_condition,
    enforced_leaf_bounds,
    lossless_leaf_bounds,
)
from dpoco.accounting.polyhedral_planner import (
    SELECTORS,
    L1Geometry,
    PolyhedralFrankWolfeParameters,
    Reach,
    best_batch,
    closed_scale,
    decaying,
    keeps,
    published_epsilon,
    published_scale,
    scores_of,
    smallest_scale,
)
from dpoco.accounting.statement import state, stated_delta
from dpoco.accounting.zcdp import zcdp_epsilon
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import NOTHING
from dpoco.privacy.losses.decaying import Decay, Decaying
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Open
from dpoco.privacy.mechanisms.selections import Selections
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = [
    "L1Geometry",
    "PolyhedralFrankWolfeParameters",
    "calibrate",
    "guarantee",
    "mechanism_of",
    "user_rho",
]


def calibrate(
    domain: DomainLike,
    loss: Any,
    *,
    horizon: int,
    budget: Budget | None,
    calibration: str = "tight",
    selector: str | None = None,
    exponent: float | None = None,
    weights: str | None = None,
    batch: int | str | None = "auto",
    relation: str = "replace",
) -> PolyhedralFrankWolfeParameters:
    """Return the parameters with the least noise that meets `budget`.

    Parameters
    ----------
    domain : LpBall with p = 1, Simplex, Box or VertexSet
        The decision set.
    loss
        A loss of this library.
    horizon : int
        Rounds.
    budget : Budget or None
        None adds no noise and promises nothing; delta = 0 is allowed.
    calibration : {"tight", "corrected", "paper"}
        "tight": the best of Renyi, zCDP and pure composition. "corrected": the published algorithm
        with its sums computed exactly. "paper": the published noise scale.
    selector, exponent, weights, batch
        None (for `batch` also "auto") leaves the choice to `calibration`. "tight": the exponential
        mechanism, exponent 2/3 (1/2 if delta = 0), weights k, and the batch with the least
        predicted error, at most a sixteenth of the horizon. Others: Laplace noise, exponent 1/2,
        weights k + 1, batch 1.
    relation : {"replace", "zero_out"}
        Neighbouring streams.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no noise scale meets the budget, or the published constants miss it.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget or None; got {type(budget).__name__}")
    view = L1Geometry(domain)
    published = choice("calibration", calibration, CALIBRATIONS) != "tight"
    choice("relation", relation, CHANGES)
    n = positive_int("horizon", horizon)
    selector = choice("selector", selector or ("laplace" if published else "gumbel"), SELECTORS)
    weights = choice("weights", weights or ("paper" if published else "unbiased"), WEIGHTS)
    if exponent is None:
        pure = budget is not None and budget.delta == 0.0
        exponent = 0.5 if published or pure else 2.0 / 3.0
    leaf = lossless_leaf_bounds(view, loss, weights, calibration, 1.0)
    offset = 1 if weights == "paper" else 0
    scores, sides = scores_of(view, loss, leaf, offset), Neighbours(change=relation).sides

    def reach_of(m: int) -> Reach:
        return Reach(0.0, 0.0) if scores is None else Reach(*replace(scores, batch=m).reach(sides))

    def coefficient(m: int, quick: bool = False) -> float:
        """Return b_1 for batches of m; a quick one is for comparisons only."""
        reach, decay = reach_of(m), Decay(exponent, offset, n // m)
        if budget is None or reach.range == 0.0:
            return 0.0
        if quick:
            return closed_scale(budget, reach, selector, decay)
        return smallest_scale(budget, reach, selector, decay, tight=not published)

    if batch not in (None, "auto"):
        batch = positive_int("batch", batch, maximum=n)
    elif published or budget is None:
        batch = 1
    else:
        batch = best_batch(view, loss, n, selector, exponent, lambda m: coefficient(m, quick=True))
    assert isinstance(batch, int)
    _check_agreement(calibration, selector, exponent, weights, batch, relation)
    if calibration == "paper" and budget is not None:
        budget.require_delta()
        scale = published_scale(view, loss, n, budget)
    else:
        scale = coefficient(batch)
    reach, decay = reach_of(batch), Decay(exponent, offset, n // batch)
    if budget is not None and reach.range > 0.0:
        _require(budget, reach, selector, decay, scale)
    rho = 0.0 if reach.range == 0.0 else math.inf
    if scale > 0.0 and reach.range > 0.0:
        rho = decaying(selector, reach, decay, scale).rho
    return PolyhedralFrankWolfeParameters(
        selector=selector,
        weights=weights,
        exponent=float(exponent),
        scale=scale,
        leaf_scalar_bound=leaf.scalar,
        leaf_bound=leaf.dual,
        leaf_bound_l2=None if leaf.l2 == math.inf else leaf.l2,
        batch=batch,
        updates=n // batch,
        horizon=n,
        calibration=calibration,
        relation=relation,
        score_range=reach.range,
        rho=rho,
        predicted_error=view.excess(selector) * scale * decay.mean_scale(),
        loss_range=float(loss.lipschitz(view)) * view.diameter(),
    )


def mechanism_of(
    domain: DomainLike, loss: Any, parameters: PolyhedralFrankWolfeParameters
) -> Mechanism:
    """Return what the parameters describe.

    Raises
    ------
    ValueError
        If the parameters contradict the domain, the loss or their own calibration.
    """
    p = parameters
    _check_agreement(p.calibration, p.selector, p.exponent, p.weights, p.batch, p.relation)
    leaf = enforced_leaf_bounds(loss, cast(Any, p))
    scores = scores_of(L1Geometry(domain), loss, leaf, p.decay.offset)
    if scores is None:
        return Nothing("the domain is a single point")
    if p.scale == 0.0:
        return Open("no noise is added")
    scores = replace(scores, batch=p.batch)
    return Selections(
        law=p.selector, scores=scores, scale=p.scale, rounds=p.updates, exponent=float(p.exponent)
    )


def guarantee(
    domain: DomainLike,
    loss: Any,
    parameters: PolyhedralFrankWolfeParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scale and enforced bounds.

    Parameters
    ----------
    domain, loss
        The domain and loss the learner runs with.
    parameters : PolyhedralFrankWolfeParameters
        Calibrated or the user's own; score range, rho and predictions in it are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta; 0 is pure privacy); None means
        1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters contradict the domain, the loss or their own calibration.
    CalibrationError
        If the parameters say "paper" and the published claim is false for them.
    """
    p, mechanism = parameters, mechanism_of(domain, loss, parameters)
    near, delta = Neighbours(change=p.relation), stated_delta(budget, p.horizon)
    view = L1Geometry(domain)
    noise = "exponential mechanism" if p.selector == "gumbel" else "Laplace noise"
    shared: dict[str, Any] = {
        "released": "the decisions of polyhedral Frank-Wolfe "
        f"(dimension {view.dimension}, {noise})",
        "horizon": p.horizon,
        "delta": delta,
        "calibration": p.calibration,
        "reference": "Han et al., DP-POFW, Theorem 3.4, corrected; "
        "docs/privacy/polyhedral_frank_wolfe.md",
        "seeded": seeded,
    }
    known = mechanism.loss(near)
    if not isinstance(known, Decaying):
        nothing = "no release depends on the data: the domain is a single point"
        return state(mechanism, Neighbours(), conditions=(nothing,), **shared)
    claimed = None
    if p.calibration == "paper":
        claimed = (published_epsilon(view, loss, p.horizon, p.scale, delta), delta)
    elif p.calibration == "corrected" and delta > 0.0:
        claimed = (min(zcdp_epsilon(known.rho, delta), known.pure), delta)
    result = state(
        mechanism,
        near,
        sensitivity=p.sensitivity,
        sensitivity_norm="linf",
        noise_scale=p.scale,
        conditions=(clipping_condition(view, loss, enforced_leaf_bounds(loss, cast(Any, p))),),
        claimed=claimed,
        details={
            "rounds per update": float(p.batch),
            "updates": float(p.updates),
            "noise scale of the last update": p.noise_scale_at(p.updates),
            "zCDP rho, a change in the first batch": known.rho,
            "zCDP rho, a change in the last batch": known.rho_from(p.updates),
        },
        **shared,
    )
    if claimed is not None and not result.delta_at(claimed[0]) <= delta * (1.0 + 1e-9):
        raise CalibrationError(
            f"the published claim (epsilon = {claimed[0]:.6g}, delta = {delta:.3g}) is false "
            f"for this noise: exact delta {result.delta_at(claimed[0]):.3g}"
        )
    return result


def user_rho(
    domain: DomainLike, loss: Any, parameters: PolyhedralFrankWolfeParameters, round: int
) -> float:
    """Return the zCDP parameter against a change of one round's data, given the round.

    The data of a round are seen by the updates of its own batch and later: the later the round,
    the smaller it is. 0 for the rounds of an incomplete last batch.

    Parameters
    ----------
    domain, loss, parameters
        As for `guarantee`.
    round : int
        Counted from 0.
    """
    p = parameters
    at = positive_int("round + 1", round + 1, maximum=p.horizon) - 1
    known = mechanism_of(domain, loss, p).loss(Neighbours(change=p.relation))
    batch = at // p.batch + 1
    if batch > p.updates or known == NOTHING:
        return 0.0
    return known.rho_from(batch) if isinstance(known, Decaying) else math.inf


def _require(budget: Budget, reach: Reach, selector: str, decay: Decay, scale: float) -> None:
    if not scale > 0.0 or not keeps(budget, reach, selector, decay, scale):
        raise CalibrationError(
            f"the published constants miss delta = {budget.delta:.3g} at epsilon = "
            f"{budget.epsilon:.6g}; use calibration='tight'"
        )


def _check_agreement(
    calibration: str, selector: str, exponent: float, weights: str, batch: int, relation: str
) -> None:
    """Raise if an option contradicts the calibration."""
    if calibration == "tight":
        return
    fixed: dict[str, tuple[Any, Any]] = {
        "selector": (selector, "laplace"),
        "exponent": (exponent, 0.5),
        "weights": (weights, "paper"),
    }
    if calibration == "paper":
        fixed.update(batch=(batch, 1), relation=(relation, "replace"))
    for name, (given, needed) in fixed.items():
        if given != needed:
            raise ValueError(f"calibration {calibration!r} has {name} {needed!r}; got {given!r}")
