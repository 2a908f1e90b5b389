"""Which Frank-Wolfe learner the arms of a bandit get, and how many forced rounds.

Nothing here is a claim about privacy: these are choices from public numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_int
from dpoco.accounting import continual_sum, polyhedral_frank_wolfe, tree_frank_wolfe
from dpoco.accounting._bandits.high_dimensional_parameters import ArmParameters
from dpoco.accounting._experts.parameters import count_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.generalized_gaussian import expected_norm_bound
from dpoco.accounting.leaf_bounds import L1Geometry
from dpoco.accounting.polyhedral_frank_wolfe import PolyhedralFrankWolfeParameters
from dpoco.accounting.truncation import charged_gaussian_mu

__all__ = [
    "arm_of",
    "attainable_gain",
    "automatic_batch",
    "forced_of",
    "noise_error",
    "total_error",
]

IntArray = NDArray[np.int64]

_FEWEST_FORCED = 50
_POINTS = 200  # of a mean over rounds
# Of the worst-case curvature in the comparison of batches: see `polyhedral_planner`.
_CURVATURE = 0.125
# Noise in sums is charged for the worst pair of vertices, and stays the same from one update to
# the next; measured regret of both kinds of arms is equal where that bound is 2.5 times larger.
_SUM_SHARE = 0.4


def automatic_batch(
    arms: int, horizon: int, learner: str, domain: Any, loss: Any, options: dict[str, Any]
) -> int:
    """Return the rounds per update: what suits one stream, and each arm is forced half as often."""
    if learner == "tree":
        return 1
    own = polyhedral_frank_wolfe.calibrate(domain, loss, horizon=horizon, **options)
    return min(own.batch, max(1, horizon // (2 * arms)))


def forced_of(
    value: Any, arms: int, dimension: int, horizon: int, batch: int, budget: Budget | None
) -> int:
    """Return the forced rounds of an arm.

    None: the first multiple of the batch that is at least 50, so that the estimates are fresh when
    choices begin, but at most half of all rounds are forced. "paper": log(d T) log(T) / epsilon^2.
    """
    if value == "paper":
        if budget is None:
            raise ValueError("forced_rounds='paper' depends on the budget; there is none")
        rounds = math.log(dimension * horizon) * math.log(horizon) / budget.epsilon**2
        return int(min(rounds, horizon))
    if value is not None:
        forced = count_of("forced_rounds", value)
        return forced if forced == 0 else positive_int("forced_rounds", forced, maximum=horizon)
    updates = max(1, -(-_FEWEST_FORCED // batch))
    most = horizon // (2 * arms)
    return batch * min(updates, most // batch) if most >= batch else most


def arm_of(
    learner: str,
    arms: int,
    rounds: int,
    domain: Any,
    loss: Any,
    batch: int,
    options: dict[str, Any],
) -> ArmParameters:
    """Return the parameters of each arm's learner, for `rounds` rounds of its clock."""
    batch = min(batch, rounds)
    if learner == "polyhedral":
        return polyhedral_frank_wolfe.calibrate(
            domain, loss, horizon=rounds, batch=batch, **options
        )
    own = tree_frank_wolfe.calibrate(
        domain, loss, horizon=rounds, batch=batch, numerics="float", **options
    )
    budget = options["budget"]
    if budget is None or own.calibration != "tight":
        return own
    # The truncated tails of all arms' noise are charged, not those of one only.
    tails = arms * tree_frank_wolfe.mechanism_of(domain, loss, own).mass
    mu = charged_gaussian_mu(budget, min(1.0, tails))
    factor = own.mu / mu
    return replace(
        own,
        mu=mu,
        noise_scale=own.noise_scale * factor,
        predicted_error=own.predicted_error * factor,
    )


def noise_error(own: ArmParameters, domain: Any) -> float:
    """Return the predicted excess loss that noise causes, as a mean over an arm's clock.

    An update costs no more than the range of the loss, however much noise there is.
    """
    view = L1Geometry(domain)
    if isinstance(own, PolyhedralFrankWolfeParameters):
        updates, power = own.updates, own.exponent
        at = _points(updates)
        errors = view.excess(own.selector) * own.scale * at.astype(np.float64) ** -power
    else:
        updates = own.pushes
        at = _points(updates)
        size = expected_norm_bound(own.norm_order, math.inf, view.dimension)
        rows = np.asarray(continual_sum.row_norm(own.sum_method, at, updates))
        worst = view.diameter() * own.noise_scale * size * rows / (own.batch * at)
        errors = _SUM_SHARE * worst
    widths = np.diff(np.append(at, updates + 1))
    return float(np.minimum(errors, own.loss_range) @ widths) / updates


def total_error(own: ArmParameters, domain: Any, loss: Any) -> float:
    """Return the predicted excess loss of noise and of few updates: what learners compete in."""
    view = L1Geometry(domain)
    updates = own.updates if isinstance(own, PolyhedralFrankWolfeParameters) else own.pushes
    curvature = _CURVATURE * float(loss.smoothness(cast(Any, view))) * view.diameter() ** 2
    return noise_error(own, domain) + curvature * (1.0 + math.log(updates)) / (2.0 * updates)


def attainable_gain(link: str, margin: float, reward_bound: float, arms: int) -> float:
    """Return what good coefficients gain over none, in an arm's mean loss.

    For margins spread evenly up to a, or up to the largest reward if that is less: a^2/6 with half
    the squared loss, about a^2/24 with the logistic one. K arms share the records.
    """
    if link == "logistic":
        return min(math.log(2.0), margin * margin / 24.0) / arms
    return min(margin, reward_bound) ** 2 / (6.0 * arms)


def _points(updates: int) -> IntArray:
    return np.unique(np.geomspace(1.0, updates, _POINTS).astype(np.int64))
