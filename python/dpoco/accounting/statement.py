"""From a mechanism's loss to the guarantee that states it, for all learners in one place."""

from __future__ import annotations

import math

from dpoco._validation import LARGEST_HORIZON
from dpoco.accounting._profiles import profile_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.release import common_conditions
from dpoco.privacy.losses.combined import NOTHING, Tailed
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.neighbours import Neighbours

__all__ = ["state", "stated_delta"]


def stated_delta(budget: Budget | float | None, horizon: int | None) -> float:
    """Return the delta to state epsilon at: the budget's, or 1 / (10 horizon)."""
    if isinstance(budget, Budget):
        return budget.delta
    rounds = LARGEST_HORIZON if horizon is None else horizon
    return 1.0 / (10.0 * rounds) if budget is None else float(budget)


def state(
    mechanism: Mechanism,
    near: Neighbours,
    *,
    released: str,
    horizon: int | None,
    delta: float,
    reference: str,
    seeded: bool,
    calibration: str = "tight",
    conditions: tuple[str, ...] = (),
    unit: str = "one round",
    sums: bool = False,
    numerics: str | None = "float",
    noise_scale: float = 0.0,
    sensitivity: float | None = None,
    sensitivity_norm: str = "",
    column_norm: float | None = None,
    claimed: tuple[float, float] | None = None,
    paper_epsilon: float | None = None,
    regret_bound: float | None = None,
    details: dict[str, float | str | None] | None = None,
    trusted: bool = True,
) -> Guarantee:
    """Return the guarantee of everything that `mechanism` releases, stated at `delta`.

    Epsilon, mu, rho, profile and tails come from ``mechanism.loss(near)`` and nothing else. What is
    purely private, without tails, is stated at delta 0 whatever `delta` is.

    Parameters
    ----------
    mechanism, near
        What is enforced and drawn, and for which neighbours.
    released : str
        What is released, in words.
    horizon : int or None
        Rounds covered; None is an endless stream.
    sums : bool
        Whether noise is added to sums, whose arithmetic a condition then names.
    trusted : bool
        Whether all numbers of the description are enforced, and none is a promise.
    """
    rounds = LARGEST_HORIZON if horizon is None else horizon
    loss = mechanism.loss(near)
    if loss is None:
        return Guarantee.none(rounds, released, unit=unit)
    ideal = loss.ideal if isinstance(loss, Tailed) else loss
    if loss.mass == 0.0 and loss.pure < math.inf:
        delta = 0.0
    epsilon = loss.epsilon(delta)
    gaussian = isinstance(ideal, Gaussian)
    mu = None  # unless it says as much as the curve
    if 0.0 < ideal.mu < math.inf and math.isfinite(epsilon):
        bell = Gaussian(ideal.mu)
        if gaussian or bell.delta(epsilon) <= ideal.delta(epsilon) * (1.0 + 1e-9):
            mu = ideal.mu
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        change=near.change,
        view=near.view,
        unit=unit,
        horizon=rounds,
        mechanism=released,
        sensitivity=sensitivity,
        sensitivity_norm=sensitivity_norm,
        mu=mu,
        rho=None if mu is None else 0.5 * mu * mu,
        noise_scale=noise_scale,
        noise_multiplier=None if mu is None else 1.0 / mu,
        column_norm=column_norm,
        calibration=calibration,
        certified=trusted and not seeded and math.isfinite(epsilon),
        claimed=claimed,
        paper_epsilon=paper_epsilon,
        reference=reference,
        conditions=conditions + common_conditions(loss.mass, seeded, sums=sums, numerics=numerics),
        truncation_mass=loss.mass,
        profile=None if gaussian or ideal == NOTHING else profile_of(ideal),
        regret_bound=regret_bound,
        details=details or {},
        numerics=numerics,
        description=mechanism,
    )
