"""The guarantee of a learner of experts, put together in one place."""

from __future__ import annotations

import math
from typing import Any

from dpoco._validation import LARGEST_HORIZON
from dpoco.accounting import _profiles
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.pure import pure_profile
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.accounting.release import common_conditions
from dpoco.accounting.truncation import charged_gaussian_epsilon
from dpoco.privacy.losses.combined import with_tails

__all__ = ["SCOPES_IN_WORDS", "stated_delta", "statement_of"]

SCOPES_IN_WORDS = {
    "stationary": "losses drawn independently from one law",
    "shifting": "losses drawn independently, from a law that changes a few times",
    "oblivious": "losses fixed in advance",
    "adaptive": "all losses, also such as react to the decisions",
}


def stated_delta(budget: Budget | float | None, horizon: int | None) -> float:
    """Return the delta to state epsilon at: the budget's, or 1 / (10 horizon)."""
    if isinstance(budget, Budget):
        return budget.delta
    rounds = LARGEST_HORIZON if horizon is None else horizon
    return 1.0 / (10.0 * rounds) if budget is None else float(budget)


def statement_of(
    *,
    mechanism: str,
    horizon: int | None,
    delta: float,
    calibration: str,
    reference: str,
    seeded: bool,
    pure: float | None = None,
    mu: float | None = None,
    profile: dict[str, Any] | None = None,
    truncation_mass: float = 0.0,
    sensitivity: float | None = None,
    sensitivity_norm: str = "",
    noise_scale: float = 0.0,
    column_norm: float | None = None,
    conditions: tuple[str, ...] = (),
    claimed: tuple[float, float] | None = None,
    regret_bound: float | None = None,
    regret_scope: str | None = None,
    details: dict[str, float | str | None] | None = None,
    experts: int | None = None,
    sums: bool = False,
    numerics: str = "float",
) -> Guarantee:
    """Return the guarantee of one kind of privacy, stated at `delta`.

    Exactly one of `pure` (epsilon at delta = 0), `mu` (GDP) and `profile` says what holds for the
    ideal noise; `sums` says whether it is added to sums, and `numerics` in which arithmetic. With
    truncation mass, the tails are charged to delta. A pure guarantee without is stated at delta 0
    whatever `delta` is. Where `experts` is given, losses are in [0, 1]: uniform draws have regret
    at most T (1 - 1/N), and nothing has more than T.
    """
    if pure is not None:
        profile = pure_profile(pure)
    mass = truncation_mass
    if pure is not None and mass == 0.0:
        epsilon, delta = pure, 0.0
    elif mu is not None:
        epsilon = charged_gaussian_epsilon(mu, delta, mass)
    else:
        assert profile is not None
        epsilon = with_tails(_profiles.loss_of(profile), mass).epsilon(delta)
    rows: dict[str, float | str | None] = {}
    if regret_scope is not None:
        rows["regret bound holds for"] = SCOPES_IN_WORDS[regret_scope]
    if experts is not None and horizon is not None and regret_bound is not None:
        stated = stated_regret(regret_bound, horizon * (1.0 - 1.0 / experts), float(horizon))
        regret_bound = stated["regret_bound"]
        rows |= stated["details"]
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        change="replace",
        unit="one round",
        horizon=LARGEST_HORIZON if horizon is None else horizon,
        mechanism=mechanism,
        sensitivity=sensitivity,
        sensitivity_norm=sensitivity_norm,
        mu=mu,
        rho=None if mu is None else 0.5 * mu * mu,
        noise_scale=noise_scale,
        noise_multiplier=None if not mu else 1.0 / mu,
        column_norm=column_norm,
        calibration=calibration,
        certified=not seeded and math.isfinite(epsilon),
        claimed=claimed,
        paper_epsilon=None,
        reference=reference,
        conditions=conditions + common_conditions(mass, seeded, sums=sums, numerics=numerics),
        truncation_mass=mass,
        profile=profile,
        regret_bound=regret_bound,
        details={**rows, **(details or {})},
        numerics=numerics,
    )
