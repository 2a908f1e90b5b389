"""From a mechanism's loss to the guarantee that states it, for all learners in one place."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpoco._validation import LARGEST_HORIZON
from dpoco.accounting._profiles import profile_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.release import common_conditions, norm_name, numerics_of
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.combined import Least, Tailed
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Pure, Zcdp
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours

__all__ = ["check_claim", "require_published", "state", "state_sum", "stated_delta"]


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
    arithmetic: str | None = None,
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

    Epsilon, mu, rho, profile and tails come from ``mechanism.loss(near)`` and nothing else. What
    is purely private is stated at delta 0 where `delta` buys no more than the curve of that.

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
    arithmetic : str or None
        What the last condition says, where the common words do not fit.
    trusted : bool
        Whether all numbers of the description are enforced, and none is a promise.
    """
    rounds = LARGEST_HORIZON if horizon is None else int(horizon)
    loss = mechanism.loss(near)
    if loss is None:
        none = Guarantee.none(rounds, released, unit=unit)
        return replace(none, regret_bound=regret_bound, details=details or {})
    ideal = loss.ideal if isinstance(loss, Tailed) else loss
    # One thing is known of a mechanism, or several: then rho is one, and a profile another.
    known = getattr(ideal, "known", (ideal,))
    pure = [one for one in known if isinstance(one, Pure)]
    others = [one for one in known if not isinstance(one, Pure)]
    if pure and loss.mass == 0.0 and all(one.epsilon(delta) >= loss.pure for one in others):
        delta = 0.0
    epsilon = loss.epsilon(delta)
    profiles = [one for one in known if not isinstance(one, (Gaussian, Zcdp))]
    common = common_conditions(loss.mass, seeded, sums=sums, numerics=numerics)
    if arithmetic is not None:
        common = (*common[:-1], arithmetic)
    mu = None  # unless it says as much as the curve
    if 0.0 < ideal.mu < math.inf and math.isfinite(epsilon):
        bell = Gaussian(ideal.mu)
        if not profiles or bell.delta(epsilon) <= ideal.delta(epsilon) * (1.0 + 1e-9):
            mu = ideal.mu
    rho = None if mu is None else 0.5 * mu * mu
    if isinstance(ideal, Least) and mu is None and delta > 0.0 and 0.0 < ideal.rho < math.inf:
        rho = ideal.rho
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
        rho=rho,
        noise_scale=noise_scale,
        noise_multiplier=None if mu is None else 1.0 / mu,
        column_norm=column_norm,
        calibration=calibration,
        certified=trusted and not seeded and math.isfinite(epsilon),
        claimed=claimed,
        paper_epsilon=paper_epsilon,
        reference=reference,
        conditions=conditions + common,
        truncation_mass=loss.mass,
        profile=profile_of(profiles[0]) if profiles else None,
        regret_bound=regret_bound,
        details=details or {},
        numerics=numerics,
        description=mechanism,
    )


def state_sum(mechanism: GaussianSum, near: Neighbours, **text: Any) -> Guarantee:
    """Return `state` of a sum, with the numbers behind its mu; `text` are the others it takes."""
    order = mechanism.order
    return state(
        mechanism,
        near,
        sums=True,
        numerics=numerics_of(mechanism),
        noise_scale=mechanism.scale,
        sensitivity=mechanism.summand.movement(near, order),
        sensitivity_norm="l2" if order == 2.0 else norm_name(mechanism.summand.norm),
        column_norm=mechanism.factorisation.column(max(mechanism.pushes, 1)),
        **text,
    )


def require_published(exact: float, budget: Budget) -> None:
    """Raise `CalibrationError` if published constants miss the budget: delta is `exact`."""
    if not exact <= budget.delta:
        raise CalibrationError(
            f"the published constants miss delta = {budget.delta:.3g} at epsilon = "
            f"{budget.epsilon:.6g}: exact delta {exact:.3g}; use calibration='tight'"
        )


def check_claim(result: Guarantee) -> Guarantee:
    """Return a guarantee whose published claim, if any, is true; else raise `CalibrationError`.

    The slack covers the rounding of a composition's own epsilon, at a single release.
    """
    if result.claimed is not None:
        epsilon, delta = result.claimed
        exact = result.delta_at(epsilon)
        if not exact <= delta * (1.0 + 1e-9):
            raise CalibrationError(
                f"the published claim (epsilon = {epsilon:.6g}, delta = {delta:.3g}) is false "
                f"for this noise: exact delta {exact:.3g}"
            )
    return result
