"""Code shared by the two papers on lazy learners: plans from the law of a draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpoco.accounting.budget import Budget
from dpoco.accounting.coupled_regret import forecast
from dpoco.accounting.coupled_runs import CoupledPlan, open_plan
from dpoco.accounting.gaussian import largest_fitting
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.losses import Loss
from dpoco.privacy.mechanisms.coupled_draws import Window


def couple(
    domain: Domain,
    loss: Loss,
    quiet: CoupledPlan,
    law: dict[str, float],
    budget: Budget,
    corrected: bool,
) -> CoupledPlan:
    """Return `quiet`, a plan without privacy, with a private law, coin and cap."""
    drawn = _with_law(quiet, law)
    claim = open_plan(domain, loss, drawn).claim(budget.delta, corrected)
    coin = Window(claim.forced_switch, claim.log_ratio, claim.log_ratio)
    calibration = "corrected" if corrected else "paper"
    return _with_coin(domain, loss, drawn, coin, claim.cap, calibration)


def lazy(
    domain: Domain, loss: Loss, quiet: CoupledPlan, law: dict[str, float], window: float
) -> CoupledPlan:
    """Return `quiet` with a law and a coin without forced switches."""
    # Both papers set p = 0, because without privacy no switch needs to be forced.
    coin = Window(0.0, window, window)
    return _with_coin(domain, loss, _with_law(quiet, law), coin, None, "paper")


def _with_law(plan: CoupledPlan, law: dict[str, float]) -> CoupledPlan:
    """Return a plan whose draws have other parameters."""
    drawn: Any = plan.mechanism.draw
    return replace(plan, mechanism=replace(plan.mechanism, draw=replace(drawn, **law)))


def _with_coin(
    domain: Domain, loss: Loss, plan: CoupledPlan, coin: Window, cap: int | None, calibration: str
) -> CoupledPlan:
    """Return a plan with a coin and its forecast; raise unless the coin fits the problem."""
    drawn = replace(plan.mechanism, keep=coin, cap=cap)
    found = replace(plan, mechanism=drawn, calibration=calibration)
    # The forecast is the library's own bound, proved again for these parameters, and not a printed
    # one.
    return replace(found, forecast=forecast(open_plan(domain, loss, found)))


def largest_ratio(spent: Callable[[float], float], epsilon: float) -> float:
    """Return the largest noise-to-signal ratio whose epsilon is at most the target."""
    # The search is on a log scale, because the ratios differ by orders of magnitude.
    low, high = math.log(1e-30), math.log(10.0)
    found = largest_fitting(lambda log_g: spent(math.exp(log_g)) <= epsilon, low, high, 100)
    if found is None:
        raise CalibrationError("the repaired theorem admits no noise for this budget")
    return math.exp(found)


def require_long(horizon: int, delta: float) -> None:
    """Raise `CalibrationError` below the horizon that the privacy theorems require."""
    # Theorems 8 and 11 (CTRL) and 4.1 (P-COMW) require it, for the delta of the cap on switches.
    least = 12.0 * math.log(1.0 / delta)
    if horizon < least:
        raise CalibrationError(
            f"the published theorems need a horizon of at least 12 ln(1/delta) = {least:.0f} rounds"
        )


def require_limit(horizon: int, limit: float) -> None:
    """Raise `CalibrationError` if the theorems on expected switches say nothing."""
    if horizon < 3 or not 0.0 < limit <= horizon:
        raise CalibrationError("the published lazy theorems need 3 <= max_switches <= horizon")
