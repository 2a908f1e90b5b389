"""What counts of one event on two streams prove about epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Counts"]

_POWER = 0.9  # probability with which a detectable violation is found


@dataclass(frozen=True)
class Counts:
    """How often an event was seen in independent runs on a stream and on its neighbour."""

    hits: int
    trials: int
    neighbour_hits: int
    neighbour_trials: int

    @classmethod
    def checked(cls, hits: Any, trials: Any, neighbour_hits: Any, neighbour_trials: Any) -> Counts:
        """Return counts that are possible, or raise naming the argument."""
        given = {
            "hits": (hits, trials),
            "neighbour_hits": (neighbour_hits, neighbour_trials),
        }
        for name, (count, total) in given.items():
            for value in (count, total):
                if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
                    raise TypeError(f"{name} and its trials must be ints")
            if total < 1 or not 0 <= count <= total:
                raise ValueError(f"{name} must be in [0, trials], with trials at least 1")
        return cls(int(hits), int(trials), int(neighbour_hits), int(neighbour_trials))

    def epsilon(self, delta: float, error: float) -> float:
        """Return the largest epsilon that is refuted but for a probability `error`, at least 0."""
        low, high = _interval(self.hits, self.trials, error / 4.0)
        other_low, other_high = _interval(self.neighbour_hits, self.neighbour_trials, error / 4.0)
        return max(
            _excess(low, other_high, delta),
            _excess(other_low, high, delta),
            _excess(1.0 - high, 1.0 - other_low, delta),
            _excess(1.0 - other_high, 1.0 - low, delta),
        )

    def detectable(self, claimed: float, delta: float, error: float) -> float:
        """Return the smallest epsilon that a second look like this would have found, or inf.

        A look at the event (or its complement) whose probability on the stream where it is rarer
        is as measured now (one hit, if there was none), and on the other just so much larger that
        `claimed` is refuted with probability 0.9: both counts at their unfavourable 5 % quantiles.
        """
        from scipy.stats import binom

        best, tail = math.inf, 0.5 * (1.0 - _POWER)
        ours, theirs = (self.hits, self.trials), (self.neighbour_hits, self.neighbour_trials)
        for flip in (False, True):
            counts = [(n - k if flip else k, n) for k, n in (ours, theirs)]
            (rare, total), (_, trials) = sorted(counts, key=lambda pair: pair[0] / pair[1])
            rate = max(rare, 1) / total
            most = int(binom.ppf(1.0 - tail, total, rate))
            needed = _fewest_hits(trials, most, total, claimed, delta, error)
            if needed is None:
                continue
            # The probability with which so many hits are missed in 5 % of all looks.
            probable = _upper(needed - 1, trials, tail)
            if delta < probable < 1.0:
                best = min(best, math.log((probable - delta) / rate))
        return best


def _fewest_hits(
    trials: int, count: int, total: int, claimed: float, delta: float, error: float
) -> int | None:
    """Return the fewest hits that refute `claimed` beside `count` on the other stream, if any."""
    high = _interval(count, total, error / 4.0)[1]

    def refuted(hits: int) -> bool:
        return _excess(_interval(hits, trials, error / 4.0)[0], high, delta) > claimed

    if not refuted(trials):
        return None
    low, enough = 0, trials  # no hits refute nothing
    while enough - low > 1:
        middle = (low + enough) // 2
        low, enough = (low, middle) if refuted(middle) else (middle, enough)
    return enough


def _excess(probable: float, rare: float, delta: float) -> float:
    """Return the epsilon that ``probable <= exp(epsilon) rare + delta`` asks for, at least 0."""
    if probable <= delta or rare <= 0.0:
        # rare = 0 would need an upper limit of 0, which no finite number of trials gives.
        return 0.0
    return max(0.0, math.log((probable - delta) / rare))


def _interval(hits: int, trials: int, tail: float) -> tuple[float, float]:
    """Clopper-Pearson: a probability's limits, each missed with probability at most `tail`."""
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    return low, _upper(hits, trials, tail)


def _upper(hits: int, trials: int, tail: float) -> float:
    from scipy.special import betaincinv

    if hits >= trials:
        return 1.0
    # Through the other side: 1 - tail would be rounded.
    return float(1.0 - betaincinv(trials - hits, hits + 1, tail))
