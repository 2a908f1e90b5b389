"""Arguments of the oblivious tracker's calibration, checked in one place."""

from __future__ import annotations

from typing import Any, NamedTuple

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting._experts.parameters import count_of, in_unit_interval
from dpoco.accounting._experts.share_prior import best_share_rate
from dpoco.accounting._experts.tracker_moments import Tracker
from dpoco.accounting._experts.tracker_parameters import (
    PRIORS,
    SMALLEST_FORCED_SWITCH,
    check_share_rate,
)
from dpoco.accounting._experts.tracker_regret import Comparison

__all__ = ["Request", "checked_request"]


class Request(NamedTuple):
    """What is asked for; None where the search is free."""

    comparison: Comparison
    learning_rate: float | None
    forced_switch: float | None
    batch: int | None
    share_rate: float | None
    max_resamples: int | None

    def without_search(self, forced_switch: float) -> Tracker:
        """Return the mechanism of the best eta, for a stream that privacy does not limit."""
        c, rate, batch = self.comparison, self.share_rate, self.batch or 1
        if rate is None and c.prior == "share" and c.horizon is not None:
            rate = best_share_rate(c.experts, c.horizon, c.switches)
        forced = forced_switch if self.forced_switch is None else self.forced_switch
        eta = self.learning_rate or c.best_learning_rate(batch, rate)
        cap = self.max_resamples
        return Tracker(eta, forced, batch, c.horizon, rate, c.experts, c.prior, cap)


def checked_request(
    *,
    experts: Any,
    horizon: Any,
    private: bool,
    switches: Any,
    prior: Any,
    learning_rate: Any,
    forced_switch: Any,
    batch: Any,
    share_rate: Any,
    max_resamples: Any,
) -> Request:
    """Return the arguments of calibration, checked; `ValueError` or `TypeError` if they are bad."""
    n = positive_int("experts", experts)
    rounds = None if horizon is None else positive_int("horizon", horizon)
    choice("prior", prior, PRIORS)
    eta = None if learning_rate is None else positive_float("learning_rate", learning_rate)
    forced = None if forced_switch is None else in_unit_interval("forced_switch", forced_switch)
    if private and forced is not None and forced < SMALLEST_FORCED_SWITCH:
        raise ValueError(f"forced_switch must be at least {SMALLEST_FORCED_SWITCH:g} with a budget")
    rate = None if share_rate is None else check_share_rate(share_rate, prior, n)
    moves = count_of("switches", switches)
    if rounds is None:
        if prior != "share":
            raise ValueError("an endless stream needs the prior 'share'")
        if n == 1:
            rate = 0.0
        elif rate is None:
            raise ValueError("an endless stream needs share_rate")
        elif private and rate == 0.0:
            raise ValueError("an endless private stream needs share_rate > 0")
    elif rate == 0.0 and moves and n > 1 and rounds > 1:
        raise ValueError("share_rate 0 never switches, but switches is positive")
    return Request(
        comparison=Comparison(n, rounds, moves, prior),
        learning_rate=eta,
        forced_switch=forced,
        batch=None if batch is None else positive_int("batch", batch),
        share_rate=rate,
        max_resamples=None if max_resamples is None else count_of("max_resamples", max_resamples),
    )
