"""Accounting of the polyhedral Frank-Wolfe learner (DP-POFW).

Claim: let every leaf have ||g||_inf <= C (and ||g||_2 <= C_2), enforced by clipping, and let D be
the l_1 diameter of the domain. Replacing one round moves the scores <d_k, v> of all vertices by
amounts within an interval of length 2 C D / (m w_k). Selection k with noise of scale b_k has range
eps_k = 2 C D / (m w_k b_k), and all decisions together are rho-zCDP with

    rho = sum eps_k^2 / 8  (exponential mechanism)   or   sum eps_k^2 / 2  (Laplace noise),

and (sum eps_k)-private; the Renyi divergences of `Decaying` are smaller. For a box, whose
coordinates are chosen independently, the l_2 diameter replaces D in rho. A change in batch i
affects only the selections k >= i, so later users have smaller rho. If the budget fixes the sum of
the squared ranges, the sum of the noise scales b_k = b_1 k^-alpha is least at alpha = 2/3; if it
fixes the sum of ranges (pure privacy), at 1/2.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``. Source: Han et al., DP-POFW, Theorem 3.4,
corrected: range instead of monotone counts, exact sums, batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dpoco._validation import Fields, choice, positive_int
from dpoco.accounting import frank_wolfe_regret
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import known_horizon
from dpoco.accounting.frank_wolfe_regret import ErrorForecast
from dpoco.accounting.gaussian import find_root, rounded_up
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import (
    WEIGHTS,
    L1Geometry,
    LeafBounds,
    enforced_leaf_bounds,
    lossless_leaf_bounds,
    published_leaf_bound,
)
from dpoco.accounting.plan import Plan
from dpoco.accounting.rdp import zcdp_epsilon, zcdp_rho
from dpoco.accounting.statement import check_claim, stated_delta
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.losses import Loss
from dpoco.privacy.losses.combined import NOTHING
from dpoco.privacy.losses.decaying import LAWS, Decay, Decaying
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.privacy.neighbours import CHANGES, Neighbours
from dpoco.privacy.records import Description

__all__ = ["PolyhedralPlan", "PolyhedralTuning", "calibrate", "guarantee", "make_plan",
           "published_factor", "user_rho", "with_least_scale"]  # fmt: skip

SELECTORS = ("gumbel", "laplace")
# Share of the worst-case curvature in the choice of the batch. The worst case is far too large for
# records that are not aligned with a pair of vertices.
_CURVATURE = 0.125
_FEWEST_UPDATES = 16
_SUMMED = 2**14


@dataclass(frozen=True)
class PolyhedralTuning(Description):
    """Post-processing of the selected vertices in polyhedral Frank-Wolfe: only steps 1/k.

    Attributes
    ----------
    horizon : int
        Number of rounds.
    """

    kind = "polyhedral_frank_wolfe_tuning"
    horizon: int


PolyhedralPlan = Plan[Selections, PolyhedralTuning, ErrorForecast]


def calibrate(
    domain: Domain,
    loss: Loss,
    *,
    horizon: int,
    budget: Budget | None,
    selector: str | None = None,
    exponent: float | None = None,
    weights: str | None = None,
    batch: int | str | None = "auto",
    relation: str = "replace",
) -> PolyhedralPlan:
    """Return the plan with the least noise that meets `budget`.

    Parameters
    ----------
    domain : LpBall with p = 1, Simplex, Box or VertexSet
        The decision set.
    loss
        A loss of this library.
    horizon : int
        Rounds.
    budget : Budget or None
        None adds no noise and gives no guarantee; delta = 0 is allowed.
    selector, exponent, weights, batch
        None (for `batch` also "auto"): the exponential mechanism, exponent 2/3 (1/2 if delta = 0),
        weights k, and the batch with the least predicted error, at most a sixteenth of the
        horizon.
    relation : {"replace", "zero_out"}
        Neighbouring streams.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"budget must be a Budget or None; got {type(budget).__name__}")
    # Leaves are bounded in the maximum norm for every domain; its dual norm is l_1.
    view = L1Geometry(domain)
    n, pure = known_horizon(horizon), budget is not None and budget.delta == 0.0
    if exponent is None:
        # The exponents with the least sum of scales for a fixed sum of ranges or of squared ranges
        # (docs/privacy/polyhedral_frank_wolfe.md, "Allocation").
        exponent = 0.5 if pure else 2.0 / 3.0
    near = Neighbours(choice("relation", relation, CHANGES))
    law = choice("selector", "gumbel" if selector is None else selector, SELECTORS)
    offset = WEIGHTS.index(choice("weights", "unbiased" if weights is None else weights, WEIGHTS))
    leaf = lossless_leaf_bounds(view, loss, WEIGHTS[offset], 1.0)

    def silent(m: int) -> Selections:
        scores = vertex_scores(view, leaf, offset, m)
        return Selections(law, scores, scale=0.0, rounds=n // m, exponent=float(exponent))

    if batch not in (None, "auto"):
        batch = positive_int("batch", batch, maximum=n)
    elif budget is None:
        batch = 1
    else:

        def error(m: int) -> float:
            """Return the predicted error of optimisation and noise for K = n // m updates."""
            own, updates = silent(m), n // m
            noise = view.excess(own.law) * closed_scale(own, near, budget)
            return slowness(view, loss, updates) + noise * mean_scale(own.exponent, updates)

        batch = min(batch_sizes(n), key=error)
    assert isinstance(batch, int)
    own = silent(batch)
    # A single point needs no selection and no noise.
    if budget is not None and view.diameter() > 0.0:
        own = with_least_scale(own, near, budget)
    return make_plan(domain, loss, own, n)


def make_plan(
    domain: Domain, loss: Loss, own: Selections, horizon: int, calibration: str = "tight"
) -> PolyhedralPlan:
    """Return the plan of selections, with the forecast that follows from them."""
    view = L1Geometry(domain)
    error = view.excess(own.law) * own.scale * mean_scale(own.exponent, own.rounds)
    forecast = ErrorForecast(error, float(loss.lipschitz(view)) * view.diameter())
    return Plan(own, PolyhedralTuning(horizon), forecast, calibration)


def vertex_scores(view: L1Geometry, leaf: LeafBounds, offset: int, batch: int) -> VertexScores:
    """Return the scores of the selections."""
    return VertexScores(
        slope=1.0 if leaf.slope is None else leaf.slope,
        leaf=leaf.bound,
        leaf_l2=leaf.bound_l2,
        diameter_l1=view.diameter(1.0),
        diameter_l2=view.diameter(2.0),
        diameter_max=view.diameter(math.inf),
        product=view.is_box,
        batch=batch,
        offset=offset,
    )


def guarantee(
    domain: Domain,
    loss: Loss,
    plan: PolyhedralPlan,
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
    own, near, n = plan.mechanism, Neighbours(relation), plan.tuning.horizon
    view, scores, delta = L1Geometry(domain), own.scores, stated_delta(budget, n)
    assert isinstance(scores, VertexScores)
    leaf = enforced_leaf_bounds(domain, loss, scores)
    # Compared exactly: the proof covers only the diameters and bounds that the engine enforces.
    if scores != vertex_scores(view, leaf, scores.offset, scores.batch):
        raise ValueError("the plan's scores are not those of this domain and loss")
    if own.rounds != n // scores.batch:
        raise ValueError("the plan's selections are not those of so many rounds")
    noise = "exponential mechanism" if own.law == "gumbel" else "Laplace noise"
    shared: Fields = {
        "released": "the decisions of polyhedral Frank-Wolfe "
        f"(dimension {view.dimension}, {noise})",
        "horizon": n,
        "delta": delta,
        "calibration": plan.calibration,
        "reference": "Han et al., DP-POFW, Theorem 3.4, corrected; "
        "docs/privacy/polyhedral_frank_wolfe.md",
        "seeded": seeded,
    }
    known = own.loss(near)
    if not isinstance(known, Decaying):
        nothing = "No release depends on the data: the domain is a single point."
        return Guarantee.about(own, near, conditions=(nothing,), **shared)
    claimed = None
    if plan.calibration == "paper":
        if not delta > 0.0:
            raise ValueError("calibration 'paper' claims nothing at delta = 0")
        claimed = (published_factor(view, loss, n, delta) / own.scale, delta)
    elif plan.calibration == "corrected" and delta > 0.0:
        claimed = (min(zcdp_epsilon(known.rho, delta), known.pure), delta)
    run = frank_wolfe_regret.Descent(
        domain=domain,
        order=view.p,
        loss=loss,
        leaf=leaf,
        step_scale=1.0,
        offset=scores.offset,
        batch=scores.batch,
        horizon=n,
    )
    error = frank_wolfe_regret.selection_error(own.scale, own.exponent, view.excess(own.law))
    forecast = frank_wolfe_regret.regret_fields(run, run.regret(error))
    result = Guarantee.about(
        own,
        near,
        conditions=(leaf.condition(math.inf),),
        claimed=claimed,
        details={
            "rounds per update": float(scores.batch),
            "updates": float(own.rounds),
            "noise scale of the last update": own.scale * math.pow(own.rounds, -own.exponent),
            "zCDP rho, a change in the first batch": known.rho,
            "zCDP rho, a change in the last batch": known.rho_from(own.rounds),
            **forecast["details"],
        },
        regret_bound=forecast["regret_bound"],
        **shared,
    )
    return check_claim(result)


def user_rho(plan: PolyhedralPlan, round: int, relation: str = "replace") -> float:
    """Return the zCDP parameter for a change of the data of one given round.

    The data of a round enter the updates of its batch and of later batches, so later rounds have
    smaller parameters. The parameter is 0 for the rounds of an incomplete last batch.

    Parameters
    ----------
    plan, relation
        As for `guarantee`.
    round : int
        Counted from 0.
    """
    own, scores = plan.mechanism, plan.mechanism.scores
    assert isinstance(scores, VertexScores)
    at = positive_int("round + 1", round + 1, maximum=plan.tuning.horizon) - 1
    known, batch = own.loss(Neighbours(relation)), at // scores.batch + 1
    if batch > own.rounds or known == NOTHING:
        return 0.0
    return known.rho_from(batch) if isinstance(known, Decaying) else math.inf


def closed_scale(own: Selections, near: Neighbours, budget: Budget) -> float:
    """Return the scale for zCDP or pure composition; its rounding is not checked."""
    assert isinstance(own.scores, VertexScores)
    reach, spread = own.scores.reach(near.sides)
    decay = Decay(own.exponent, own.scores.offset, own.rounds)
    # For any delta, pure epsilons add up. Concentration may need less noise.
    scale = reach * decay.total() / budget.epsilon
    if budget.delta > 0.0:
        try:
            rho = zcdp_rho(budget.epsilon, budget.delta)
        except CalibrationError:
            return scale
        share = (LAWS["bounded_range"] if own.law == "gumbel" else LAWS["pure"]) / rho
        scale = min(scale, spread * math.sqrt(share * decay.squares()))
    return scale


def with_least_scale(
    own: Selections, near: Neighbours, budget: Budget, *, tight: bool = True
) -> Selections:
    """Return selections that keep to `budget`; by closed-form composition unless `tight`."""

    def delta(b: float) -> float:
        found = replace(own, scale=b).loss(near)
        return 1.0 if found is None else found.delta(budget.epsilon)

    scale = closed_scale(own, near, budget)
    # The divergences of all selections prove a smaller scale than zCDP does.
    if tight and budget.delta > 0.0:
        scale = least_at(scale, delta, budget.delta)
    while not delta(scale) <= budget.delta:  # corrects rounding by a few units in the last place
        scale *= 1.0 + 1e-12
    return replace(own, scale=scale)


def least_at(high: float, delta: Callable[[float], float], target: float) -> float:
    """Return the smallest scale up to `high` with `delta(scale) <= target`, to 1e-9."""

    def excess(log_scale: float) -> float:
        return math.log(max(delta(math.exp(log_scale)), 1e-300)) - math.log(target)

    # Closed-form composition proves `high`; the search goes down from there.
    low = 0.8 * high
    while delta(low) <= target:
        high, low = low, 0.8 * low
    if delta(high) > target:
        return high
    at, top = math.log(low), math.log(high)
    if excess(at) > 0.0:
        at = find_root(excess, at, top, xtol=2e-10) if excess(top) < 0.0 else top
    scale, margin = min(math.exp(at), high), 2e-10
    # The root is approximate, so the scale is raised until the curve is within the target.
    while delta(scale) > target:
        scale, margin = min(scale * (1.0 + margin), high), 2.0 * margin
    return min(rounded_up(scale), high)


def batch_sizes(horizon: int) -> Iterator[int]:
    """Yield the batches to compare: 1, and those with enough updates."""
    m = 1
    while m == 1 or m <= horizon // _FEWEST_UPDATES:
        yield m
        m = max(m + 1, int(1.15 * m))  # 125 batches for 10^9 rounds


def mean_scale(exponent: float, updates: int) -> float:
    """Return the mean of j^-exponent over updates j: a sum, plus an integral for late updates."""
    head = np.arange(1.0, min(updates, _SUMMED) + 1.0) ** -exponent
    if updates <= _SUMMED:
        return float(head.sum()) / updates
    # Exponents are at most 0.9, so p is positive. The integral uses the midpoint rule: every term
    # stands for half a step on both sides.
    low, high, p = _SUMMED + 0.5, updates + 0.5, 1.0 - exponent
    tail = np.power(low, p) * np.expm1(p * (np.log(high) - np.log(low))) / p
    return (float(head.sum()) + float(tail)) / updates


def slowness(view: L1Geometry, loss: Loss, updates: int) -> float:
    """Return the predicted excess loss of having few updates, for any noise."""
    width = view.diameter()
    curvature = _CURVATURE * float(loss.smoothness(view)) * width * width
    return curvature * (1.0 + math.log(updates)) / (2.0 * updates)


def published_factor(view: L1Geometry, loss: Loss, n: int, delta: float) -> float:
    """Return epsilon times the published noise scale at t = 1: 4 D (beta D + L) sqrt(...)."""
    bound = published_leaf_bound(view, loss, 1.0)
    return 4.0 * view.diameter() * bound * math.sqrt(math.log(n) * math.log(1.0 / delta))
