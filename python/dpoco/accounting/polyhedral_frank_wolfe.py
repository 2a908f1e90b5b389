"""Accounting of the polyhedral Frank-Wolfe learner (DP-POFW).

Claim: let every leaf have ||g||_inf <= C (and ||g||_2 <= C_2), enforced by clipping, and let D be
the l_1 diameter of the domain. Replacing one round moves the scores <d_k, v> of all vertices by
amounts within an interval of length 2 C D / (m w_k). Selection k with noise of scale b_k has range
eps_k = 2 C D / (m w_k b_k), and all decisions together are rho-zCDP with

    rho = sum eps_k^2 / 8  (exponential mechanism)   or   sum eps_k^2 / 2  (Laplace noise),

and (sum eps_k)-private; the Renyi divergences of `Decaying` are smaller. On a
box, whose coordinates are chosen independently, the l_2 diameter takes the place of D in rho. A
change in batch i is seen by the selections k >= i only: later users have smaller rho. For sums of
squares of ranges that are fixed by the budget, the sum of the noise scales b_k = b_1 k^-alpha is
least at alpha = 2/3; for fixed sums of ranges, pure privacy, at 1/2.

Proof: ``docs/privacy/polyhedral_frank_wolfe.md``. Source: Han et al., DP-POFW, Theorem 3.4,
corrected: range instead of monotone counts, exact sums, batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpoco._validation import choice, positive_int
from dpoco.accounting import frank_wolfe_regret
from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import rounded_up
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.leaf_bounds import (
    WEIGHTS,
    L1Geometry,
    LeafBounds,
    enforced_leaf_bounds,
    lossless_leaf_bounds,
    published_leaf_bound,
)
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.regret_bounds import RegretBound
from dpoco.accounting.statement import check_claim, stated_delta
from dpoco.accounting.zcdp import zcdp_epsilon, zcdp_rho
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import NOTHING
from dpoco.privacy.losses.decaying import LARGEST_EXPONENT, LAWS, Decay, Decaying
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.privacy.neighbours import CHANGES, Neighbours

__all__ = ["PolyhedralFrankWolfeParameters", "Ranges", "calibrate", "guarantee", "mechanism_of",
           "published_factor", "ranges_of", "user_rho", "with_scale"]  # fmt: skip

SELECTORS = ("gumbel", "laplace")
_LAW = {"gumbel": "bounded_range", "laplace": "pure"}
# Of the worst-case curvature in the choice of the batch: it is far too large for records that are
# not aligned with a pair of vertices.
_CURVATURE = 0.125
_FEWEST_UPDATES = 16
_SUMMED = 2**14


@dataclass(frozen=True, kw_only=True)
class PolyhedralFrankWolfeParameters(Parameters):
    """Parameters of the polyhedral Frank-Wolfe learner.

    Attributes
    ----------
    selector : {"gumbel", "laplace"}
        Private selection of a vertex: the exponential mechanism, or noisy max with Laplace noise.
    weights : {"unbiased", "paper"}
        Weights w_k of the gradient estimate: k or k + 1.
    exponent : float
        alpha in [0, 0.9]: update k has noise of scale ``scale * k**-alpha``.
    scale : float
        Noise scale b_1 of the first update, in units of the loss; 0 means no noise.
    leaf_scalar_bound : float or None
        Bound on the scalar of a generalised linear loss's leaf; None for other losses.
    leaf_bound : float
        Bound C on a leaf in the maximum norm, enforced by clipping.
    leaf_bound_l2 : float or None
        Bound on a leaf in l2, enforced too; None for none.
    batch : int
        Rounds per update.
    updates : int
        Updates K = horizon // batch.
    horizon : int
        Rounds.
    calibration : {"tight", "corrected", "paper"}
        How the noise scale was found.
    relation : {"replace", "zero_out"}
        Neighbouring streams.
    score_range : float
        Length of the interval in which one record moves the scores of the sum of leaves, divided
        by `batch`. Derived, as is all below.
    rho : float
        zCDP parameter; infinite without noise.
    predicted_error : float
        Bound on the excess loss that noise adds to the last decision.
    loss_range : float
        L D, more than which no loss can differ between two decisions.
    """

    kind = "dpoco.polyhedral_frank_wolfe_parameters"

    selector: str = one_of(*SELECTORS)
    weights: str = one_of(*WEIGHTS)
    exponent: float = at_least(0.0, LARGEST_EXPONENT)
    scale: float = at_least(0.0)
    leaf_scalar_bound: float | None
    leaf_bound: float
    leaf_bound_l2: float | None
    batch: int
    updates: int
    horizon: int
    calibration: str = one_of("tight", "corrected", "paper", default="tight")
    relation: str = one_of(*CHANGES)
    score_range: float = at_least(0.0)
    rho: float = at_least(0.0, infinite=True)
    predicted_error: float = at_least(0.0)
    loss_range: float = at_least(0.0)

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if self.updates != self.horizon // self.batch:
            raise ValueError("updates must be horizon // batch")
        if (self.rho == math.inf) != (self.scale == 0.0 < self.score_range):
            raise ValueError("rho must be infinite without noise, and then only")

    @property
    def private(self) -> bool:
        """Whether there is a guarantee: there is noise, or nothing depends on the data."""
        return self.scale > 0.0 or self.score_range == 0.0

    @property
    def sensitivity(self) -> float:
        """Largest difference of a leaf between neighbours, in the maximum norm."""
        return self.leaf_bound * (2.0 if self.relation == "replace" else 1.0)

    @property
    def regret_scope(self) -> str:
        """The records that bounds on regret hold for."""
        return frank_wolfe_regret.SCOPE

    @property
    def noise_dominates(self) -> bool:
        """Whether the predicted error exceeds the range of the loss."""
        return self.predicted_error > self.loss_range

    @property
    def decay(self) -> Decay:
        """How the ranges of the selections shrink."""
        return Decay(self.exponent, 1 if self.weights == "paper" else 0, self.updates)

    def noise_scale_at(self, update: int) -> float:
        """Return the noise scale b_k of an update k >= 1."""
        return self.scale * math.pow(positive_int("update", update), -self.exponent)


def calibrate(
    domain: Any,
    loss: Any,
    *,
    horizon: int,
    budget: Budget | None,
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
    view = L1Geometry(domain)
    n, pure = positive_int("horizon", horizon), budget is not None and budget.delta == 0.0
    if exponent is None:
        exponent = 0.5 if pure else 2.0 / 3.0
    chosen: dict[str, Any] = {
        "selector": "gumbel",
        "weights": "unbiased",
        "exponent": float(exponent),
        "relation": choice("relation", relation, CHANGES),
    }
    if selector is not None:
        chosen["selector"] = choice("selector", selector, SELECTORS)
    if weights is not None:
        chosen["weights"] = choice("weights", weights, WEIGHTS)
    leaf = lossless_leaf_bounds(view, loss, chosen["weights"], 1.0)
    offset = 1 if chosen["weights"] == "paper" else 0
    sides, point = Neighbours(change=relation).sides, view.diameter() == 0.0

    def ranges(m: int) -> Ranges:
        reach = scores_of(view, leaf, offset, m).reach(sides)
        return Ranges(chosen["selector"], *reach, Decay(exponent, offset, n // m))

    if batch not in (None, "auto"):
        batch = positive_int("batch", batch, maximum=n)
    elif budget is None:
        batch = 1
    else:
        target: Budget = budget
        batch = best_batch(view, loss, n, chosen, lambda m: ranges(m).closed_scale(target))
    assert isinstance(batch, int)
    chosen["batch"] = batch
    own = ranges(batch)
    silent = PolyhedralFrankWolfeParameters(
        **chosen,
        **leaf.fields,  # type: ignore[arg-type]
        scale=0.0,
        updates=n // batch,
        horizon=n,
        score_range=own.range,
        rho=0.0 if point else math.inf,
        predicted_error=0.0,
        loss_range=float(loss.lipschitz(view)) * view.diameter(),
    )
    if budget is None or point:
        return silent
    return with_scale(domain, silent, own, own.least_scale(budget, tight=True))


def ranges_of(domain: Any, loss: Any, parameters: PolyhedralFrankWolfeParameters) -> Ranges | None:
    """Return what one record can do to the selections; None on a single point."""
    p, own = parameters, mechanism_of(domain, loss, parameters)
    assert isinstance(own.scores, VertexScores)
    if own.scores.diameter_l1 == 0.0:
        return None
    return Ranges(p.selector, *own.scores.reach(Neighbours(p.relation).sides), p.decay)


def tuning(parameters: PolyhedralFrankWolfeParameters) -> dict[str, Any]:
    """Return what is made of the vertices that are released."""
    return {"horizon": parameters.horizon}


def with_scale(
    domain: Any, parameters: PolyhedralFrankWolfeParameters, ranges: Ranges, scale: float
) -> PolyhedralFrankWolfeParameters:
    """Return parameters with this noise scale, and what follows from it."""
    p = parameters
    excess = L1Geometry(domain).excess(p.selector)
    error = excess * scale * mean_scale(p.exponent, p.updates)
    return replace(p, scale=scale, rho=ranges.loss(scale).rho, predicted_error=error)


def scores_of(view: L1Geometry, leaf: LeafBounds, offset: int, batch: int) -> VertexScores:
    """Return the scores of selections."""
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


def mechanism_of(domain: Any, loss: Any, parameters: PolyhedralFrankWolfeParameters) -> Selections:
    """Return what the parameters describe.

    Raises
    ------
    ValueError
        If the parameters contradict the domain or the loss.
    """
    p = parameters
    leaf = enforced_leaf_bounds(loss, p)
    scores = scores_of(L1Geometry(domain), leaf, p.decay.offset, p.batch)
    return Selections(
        law=p.selector, scores=scores, scale=p.scale, rounds=p.updates, exponent=p.exponent
    )


def guarantee(
    domain: Any,
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
        If the parameters contradict the domain or the loss.
    CalibrationError
        If the parameters say "paper" and the published claim is false for them.
    """
    p, mechanism = parameters, mechanism_of(domain, loss, parameters)
    near, delta = Neighbours(change=p.relation), stated_delta(budget, p.horizon)
    view, leaf = L1Geometry(domain), enforced_leaf_bounds(loss, p)
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
        nothing = "No release depends on the data: the domain is a single point."
        return Guarantee.about(mechanism, Neighbours(), conditions=(nothing,), **shared)
    claimed = None
    if p.calibration == "paper":
        if not delta > 0.0:
            raise ValueError("calibration 'paper' claims nothing at delta = 0")
        claimed = (published_factor(view, loss, p.horizon, delta) / p.scale, delta)
    elif p.calibration == "corrected" and delta > 0.0:
        claimed = (min(zcdp_epsilon(known.rho, delta), known.pure), delta)
    run = frank_wolfe_regret.Descent(
        domain=domain,
        order=view.p,
        loss=loss,
        leaf=leaf,
        step_scale=1.0,
        offset=p.decay.offset,
        batch=p.batch,
        horizon=p.horizon,
    )
    forecast = frank_wolfe_regret.regret_fields(run, regret(run, p, view.excess(p.selector)))
    result = Guarantee.about(
        mechanism,
        near,
        conditions=(leaf.condition(math.inf),),
        claimed=claimed,
        details={
            "rounds per update": float(p.batch),
            "updates": float(p.updates),
            "noise scale of the last update": p.noise_scale_at(p.updates),
            "zCDP rho, a change in the first batch": known.rho,
            "zCDP rho, a change in the last batch": known.rho_from(p.updates),
            **forecast["details"],
        },
        regret_bound=forecast["regret_bound"],
        **shared,
    )
    return check_claim(result)


def regret(
    run: frank_wolfe_regret.Descent, parameters: PolyhedralFrankWolfeParameters, excess: float
) -> RegretBound:
    """Return the bound on regret of a run whose selections have a mean excess of `excess` b_k."""
    p = parameters
    return run.regret(frank_wolfe_regret.selection_error(p.scale, p.exponent, excess))


def user_rho(
    domain: Any, loss: Any, parameters: PolyhedralFrankWolfeParameters, round: int
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


@dataclass(frozen=True)
class Ranges:
    """What one record can do to a series of selections whose noise scale is to be found.

    Attributes
    ----------
    selector : {"gumbel", "laplace"}
        Law of the noise.
    range, spread : float
        How far one record moves the scores: within an interval, and in the sense of zCDP.
    decay : Decay
        How the noise scales, and with them the ranges, shrink.
    """

    selector: str
    range: float
    spread: float
    decay: Decay

    def loss(self, scale: float) -> Decaying:
        """Return the loss of selections whose first noise has this scale."""
        law = _LAW[self.selector]
        return Decaying(law, self.range / scale, self.spread / scale, *self.decay)

    def closed_scale(self, budget: Budget) -> float:
        """Return the scale that zCDP or pure composition ask for; nothing checks its rounding."""
        scale = self.range * self.decay.total() / budget.epsilon
        if budget.delta > 0.0:
            try:
                rho = zcdp_rho(budget.epsilon, budget.delta)
            except CalibrationError:
                return scale
            share = LAWS[_LAW[self.selector]] / rho
            scale = min(scale, self.spread * math.sqrt(share * self.decay.squares()))
        return scale

    def least_scale(self, budget: Budget, *, tight: bool) -> float:
        """Return the least scale that keeps to `budget`; the closed one's least unless `tight`."""
        scale = self.closed_scale(budget)
        if tight and budget.delta > 0.0:
            scale = least_at(scale, lambda b: self.loss(b).delta(budget.epsilon), budget.delta)
        # rounding, by a few units
        while not self.loss(scale).delta(budget.epsilon) <= budget.delta:
            scale *= 1.0 + 1e-12
        return scale


def least_at(high: float, delta: Callable[[float], float], target: float) -> float:
    """Return the smallest scale at which `delta` is at most `target`, to 1e-9; at most `high`."""
    from scipy.optimize import brentq  # where used: importing the package stays light

    def excess(log_scale: float) -> float:
        return math.log(max(delta(math.exp(log_scale)), 1e-300)) - math.log(target)

    low = 0.8 * high
    while delta(low) <= target:
        high, low = low, 0.8 * low
    if delta(high) > target:
        return high
    at, top = math.log(low), math.log(high)
    if excess(at) > 0.0:
        at = brentq(excess, at, top, xtol=2e-10) if excess(top) < 0.0 else top
    scale, margin = min(math.exp(at), high), 2e-10
    while delta(scale) > target:
        scale, margin = min(scale * (1.0 + margin), high), 2.0 * margin
    return min(rounded_up(scale), high)


def best_batch(
    view: L1Geometry, loss: Any, n: int, chosen: dict[str, Any], scale: Callable[[int], float]
) -> int:
    """Return the m that minimises optimisation error plus noise, K = n // m updates."""
    excess = view.excess(chosen["selector"])
    best, least, m = 1, math.inf, 1
    while m == 1 or m <= n // _FEWEST_UPDATES:
        updates = n // m
        slow = slowness(view, loss, updates)
        error = slow + excess * scale(m) * mean_scale(chosen["exponent"], updates)
        if error < least:
            best, least = m, error
        m = max(m + 1, int(1.15 * m))
    return best


def mean_scale(exponent: float, updates: int) -> float:
    """Return the mean of j^-exponent over updates j: a sum, and an integral of late ones."""
    head = np.arange(1.0, min(updates, _SUMMED) + 1.0) ** -exponent
    if updates <= _SUMMED:
        return float(head.sum()) / updates
    low, high, p = _SUMMED + 0.5, updates + 0.5, 1.0 - exponent
    tail = np.power(low, p) * np.expm1(p * (np.log(high) - np.log(low))) / p
    return (float(head.sum()) + float(tail)) / updates


def slowness(view: L1Geometry, loss: Any, updates: int) -> float:
    """Return the predicted excess loss of few updates, whatever the noise."""
    width = view.diameter()
    curvature = _CURVATURE * float(loss.smoothness(view)) * width * width
    return curvature * (1.0 + math.log(updates)) / (2.0 * updates)


def published_factor(view: L1Geometry, loss: Any, n: int, delta: float) -> float:
    """Return epsilon times the published noise scale at t = 1: 4 D (beta D + L) sqrt(...)."""
    bound = published_leaf_bound(view, loss, 1.0)
    return 4.0 * view.diameter() * bound * math.sqrt(math.log(n) * math.log(1.0 / delta))
