"""Pure differential privacy: likelihood ratios of at most e^epsilon, everywhere.

Claim: every epsilon0-private mechanism is dominated by one randomised response with that ratio, so
delta(epsilon) = (e^epsilon0 - e^epsilon) / (1 + e^epsilon0) for epsilon <= epsilon0, and 0 beyond.

Proof: ``docs/privacy/pure.md``. Source: Kairouz, Oh and Viswanath, "The composition theorem for
differential privacy" (2015).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpoco._validation import real_float
from dpoco.accounting.gaussian import raised

__all__ = [
    "checked",
    "describe",
    "event",
    "profile_delta",
    "profile_epsilon",
    "pure_delta",
    "pure_epsilon",
    "pure_epsilon_at",
    "pure_profile",
]

_MARGIN = 2.0**-50  # relative, of delta: more than its error


def pure_delta(epsilon: float, pure: float) -> float:
    """Return delta at `epsilon` >= 0 of any mechanism that is `pure`-private (delta = 0)."""
    if not epsilon >= 0.0 or not pure >= 0.0:
        raise ValueError("epsilon must be at least 0")
    if epsilon >= pure:
        return 0.0
    # (1 - e^(epsilon - pure)) / (1 + e^-pure), without overflow.
    return min(1.0, -math.expm1(epsilon - pure) / (1.0 + math.exp(-pure)) * (1.0 + _MARGIN))


def pure_epsilon_at(delta: float, pure: float) -> float:
    """Return the smallest epsilon >= 0 with ``pure_delta(epsilon, pure) <= delta``, delta >= 0."""
    if not delta >= 0.0 or not pure >= 0.0:
        raise ValueError("delta and epsilon must be at least 0")
    gap = delta * (1.0 + math.exp(-pure))
    epsilon = max(0.0, pure + math.log1p(-gap)) if gap < 1.0 else 0.0
    return raised(epsilon, lambda e: pure_delta(e, pure) <= delta, pure)


def pure_profile(epsilon: float) -> dict[str, Any]:
    """Return the record of a pure guarantee, for ``Guarantee.profile``."""
    return {"kind": "pure", "epsilon": epsilon}


def checked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of a record."""
    if set(record) != {"kind", "epsilon"}:
        raise ValueError("a profile of kind 'pure' has the field epsilon, and no other")
    epsilon = real_float("epsilon", record["epsilon"])
    if epsilon < 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    return {"kind": "pure", "epsilon": epsilon}


def profile_delta(record: Mapping[str, Any], epsilon: float) -> float:
    """Return delta at `epsilon` >= 0."""
    return pure_delta(epsilon, float(record["epsilon"]))


def profile_epsilon(record: Mapping[str, Any], delta: float) -> float:
    """Return the smallest epsilon at `delta`."""
    return pure_epsilon_at(delta, float(record["epsilon"]))


def pure_epsilon(record: Mapping[str, Any]) -> float:
    """Return the epsilon at delta = 0."""
    return float(record["epsilon"])


def describe(record: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    return f"likelihood ratios of at most e^{record['epsilon']:.6g}, without exception"


def event(record: Mapping[str, Any]) -> Any:
    """Raise: ``dp_accounting`` has no event of pure privacy.

    Its randomised response would do, but accountants of that package drop the repetitions of it.
    """
    raise ValueError("no dp_accounting event describes pure privacy; use delta_at and epsilon_at")
