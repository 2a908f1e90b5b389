"""Costs of ``dp_accounting`` events, read part by part, never by that package's accountants.

Repetitions are counted here: an accountant of that package drops those of randomised response. Of
randomised response the ratio between any two values counts, which is the largest; under
``REPLACE_SPECIAL`` that package compares a value with a response to nothing, half of it.

Proof: ``docs/privacy/ledger.md``, section "Events".
"""

from __future__ import annotations

import math
from typing import Any

from dpoco._validation import positive_int, real_float
from dpoco.accounting._ledger.costs import Cost, Part

__all__ = ["cost_of_event"]


def cost_of_event(event: Any, count: int = 1) -> Cost:
    """Return the cost of `count` repetitions of an event, its sensitivity being 1.

    Raises
    ------
    TypeError
        If it is no event.
    ValueError
        For events of kinds that have no closed form here, and for parameters that no such mechanism
        has: a negative cost would enlarge the budget.
    """
    import dp_accounting as dpa

    if not isinstance(event, dpa.DpEvent):
        raise TypeError(
            f"a Guarantee or a dp_accounting event can be charged; got {type(event).__name__}"
        )
    if isinstance(event, dpa.SelfComposedDpEvent):
        inner = positive_int("count", event.count)
        return cost_of_event(event.event, positive_int("count", count * inner))
    if isinstance(event, dpa.ComposedDpEvent):
        parts = [cost_of_event(inner, count).parts for inner in event.events]
        return Cost(tuple(part for some in parts for part in some))
    if isinstance(event, dpa.NoOpDpEvent):
        return Cost(())
    if isinstance(event, dpa.GaussianDpEvent):
        return Cost((Part(count, mu=_reciprocal(event.noise_multiplier)),))
    if isinstance(event, dpa.LaplaceDpEvent):
        return Cost((Part(count, pure=_reciprocal(event.noise_multiplier)),))
    if isinstance(event, dpa.ZCDpEvent) and event.xi == 0.0:
        rho = real_float("rho", event.rho)
        if rho < 0.0:
            raise ValueError(f"rho must not be negative; got {rho!r}")
        return Cost((Part(count, rho=rho),))
    if isinstance(event, dpa.RandomizedResponseDpEvent):
        p = real_float("noise_parameter", event.noise_parameter)
        buckets = positive_int("num_buckets", event.num_buckets)
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"noise_parameter must be in [0, 1]; got {p!r}")
        odds = (1.0 - p) * buckets / p if p > 0.0 else math.inf
        pure = math.log1p(odds)
        return Cost((Part(count, pure=pure),))
    raise ValueError(f"a ledger has no closed form for {type(event).__name__}")


def _reciprocal(multiplier: float) -> float:
    return 1.0 / multiplier if multiplier > 0.0 else math.inf
