"""The privacy profile of the oblivious tracker, as a record of plain numbers.

Claim: the curve is at most the minimum of what the Renyi divergences prove at the orders of
``tracker_moments.ORDERS`` and of the curve of pure privacy with the tracker's largest
log-likelihood ratio.

Proof: ``docs/privacy/tracker_accounting.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import choice, positive_float, positive_int, real_float
from dpoco.accounting._experts.parameters import count_of
from dpoco.accounting._experts.tracker_moments import (
    ORDERS,
    Tracker,
    pure_bound,
    tracker_moments,
)
from dpoco.accounting._experts.tracker_parameters import PRIORS, check_share_rate
from dpoco.accounting.pure import pure_delta, pure_epsilon_at
from dpoco.accounting.rdp import rdp_delta, rdp_epsilon

__all__ = [
    "checked",
    "describe",
    "event",
    "profile_delta",
    "profile_epsilon",
    "pure_epsilon",
    "tracker_profile",
]

FloatArray = NDArray[np.float64]


def tracker_profile(tracker: Tracker) -> dict[str, Any]:
    """Return the record of a tracker, for ``Guarantee.profile``."""
    return checked({"kind": "tracker", **tracker._asdict()})


def checked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of a record."""
    if set(record) != {"kind", *Tracker._fields}:
        raise ValueError(
            f"a profile of kind 'tracker' must have the fields {list(Tracker._fields)}"
        )
    forced = real_float("forced_switch", record["forced_switch"])
    if not 0.0 < forced <= 1.0:
        raise ValueError(f"forced_switch must be in (0, 1]; got {forced!r}")
    experts = positive_int("experts", record["experts"])
    prior = choice("prior", record["prior"], PRIORS)
    horizon, cap = record["horizon"], record["max_resamples"]
    return {
        "kind": "tracker",
        "learning_rate": positive_float("learning_rate", record["learning_rate"]),
        "forced_switch": forced,
        "batch": positive_int("batch", record["batch"]),
        "horizon": None if horizon is None else positive_int("horizon", horizon),
        "share_rate": check_share_rate(record["share_rate"], prior, experts),
        "experts": experts,
        "prior": prior,
        "max_resamples": None if cap is None else count_of("max_resamples", cap),
    }


def profile_delta(record: Mapping[str, Any], epsilon: float) -> float:
    """Return delta at `epsilon` >= 0."""
    tracker = _tracker(record)
    pure = pure_bound(tracker)
    if epsilon >= pure:
        return 0.0
    best = rdp_delta(ORDERS, _divergences(tracker), epsilon)
    return best if pure == math.inf else min(best, pure_delta(epsilon, pure))


def profile_epsilon(record: Mapping[str, Any], delta: float) -> float:
    """Return the smallest epsilon >= 0 known at `delta` in (0, 1)."""
    tracker = _tracker(record)
    pure = pure_bound(tracker)
    best = rdp_epsilon(ORDERS, _divergences(tracker), delta)
    return best if pure == math.inf else min(best, pure_epsilon_at(delta, pure))


def pure_epsilon(record: Mapping[str, Any]) -> float:
    """Return the epsilon at delta = 0."""
    return pure_bound(_tracker(record))


def describe(record: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    tracker = _tracker(record)
    series = tracker.series
    text = f"draws of bounded range {series.first:.6g}"
    if tracker.log_forgetting != 0.0:
        text += f", shrinking by {-math.expm1(series.log_ratio):.3g} a batch"
    text += f", made with probability at most {tracker.resample_probability:.4g}"
    later = tracker.boundaries - 1.0
    count = "without end" if later == math.inf else f"at most {max(later, 0.0):.0f} later ones"
    if tracker.max_resamples is not None:
        count += f", {tracker.max_resamples} at most"
    coin = "" if tracker.forced_switch == 1.0 else "; the coin of the changed batch"
    return f"{text}: {count}{coin}"


def event(record: Mapping[str, Any]) -> Any:
    """Raise: ``dp_accounting`` has no event of coins composed with draws of bounded range."""
    raise ValueError("no dp_accounting event describes this release; use delta_at and epsilon_at")


def _tracker(record: Mapping[str, Any]) -> Tracker:
    return Tracker(**{name: record[name] for name in Tracker._fields})


@lru_cache(maxsize=64)
def _divergences(tracker: Tracker) -> FloatArray:
    orders = np.array(ORDERS)
    result = tracker_moments(tracker, orders) / (orders - 1.0)
    result.flags.writeable = False
    return result
