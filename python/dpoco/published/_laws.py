"""What the two papers on lazy learners share: from the law of a draw to parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any, TypeVar

from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import largest_fitting
from dpoco.errors import CalibrationError

P = TypeVar("P")


def coupled(
    accountant: ModuleType,
    domain: Any,
    loss: Any,
    quiet: P,
    law: dict[str, float],
    budget: Budget,
    corrected: bool,
) -> P:
    """Return `quiet`, parameters without privacy, with a private law, its coin and its cap."""
    calibration = "corrected" if corrected else "paper"
    drawn: Any = replace(quiet, calibration=calibration, **law)  # type: ignore[type-var]
    claim = drawn.claim(budget.delta, corrected)
    return _checked(
        accountant, domain, loss, quiet,
        **law,
        calibration=calibration,
        coupling="density_ratio",
        forced_switch=claim.forced_switch,
        clip_high=claim.log_ratio,
        clip_low=claim.log_ratio,
        max_switches=claim.cap,
        private=True,
    )  # fmt: skip


def lazy(
    accountant: ModuleType, domain: Any, loss: Any, quiet: P, law: dict[str, Any], window: float
) -> P:
    """Return `quiet` with a law and a coin without forced switches."""
    return _checked(
        accountant, domain, loss, quiet,
        **law,
        calibration="paper",
        coupling="density_ratio",
        forced_switch=0.0,
        clip_high=window,
        clip_low=window,
    )  # fmt: skip


def _checked(accountant: ModuleType, domain: Any, loss: Any, quiet: P, **changes: Any) -> P:
    """Return parameters with changes, with their forecast; raise unless they fit the problem."""
    found: Any = replace(quiet, **changes)  # type: ignore[type-var]
    accountant.mechanism_of(domain, loss, found)
    forecast: P = accountant.with_forecast(found)
    return forecast


def largest_ratio(spent: Callable[[float], float], epsilon: float) -> float:
    """Return the largest noise-to-signal ratio whose epsilon is at most the target."""
    low, high = math.log(1e-30), math.log(10.0)
    found = largest_fitting(lambda log_g: spent(math.exp(log_g)) <= epsilon, low, high, 100)
    if found is None:
        raise CalibrationError("the repaired theorem admits no noise for this budget")
    return math.exp(found)


def require_long(horizon: int, delta: float) -> None:
    """Raise `CalibrationError` below the horizon that the privacy theorems ask for."""
    least = 12.0 * math.log(1.0 / delta)
    if horizon < least:
        raise CalibrationError(
            f"the published theorems need a horizon of at least 12 ln(1/delta) = {least:.0f} rounds"
        )


def require_limit(horizon: int, limit: float) -> None:
    """Raise `CalibrationError` where the theorems on expected switches say nothing."""
    if horizon < 3 or not 0.0 < limit <= horizon:
        raise CalibrationError("the published lazy theorems need 3 <= max_switches <= horizon")
