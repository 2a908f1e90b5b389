"""The regret bound of the oblivious tracker.

Claim: against losses fixed in advance and any sequence of experts with S switches, the expected
regret is at most L / eta + eta Q / 8, L = -log of the sequence's prior mass and Q the sum of the
squared lengths of the batches. On an endless stream, a round of a stream whose sequences switch
at the rate sigma costs at most h(sigma) / eta + eta B / 8 in the long run.

Proof: ``docs/privacy/tracker_accounting.md``, section "Regret".
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpoco.accounting._experts.share_prior import log_class_size, share_log_prior

__all__ = ["Comparison"]


class Comparison(NamedTuple):
    """With which sequences of experts the tracker is compared."""

    experts: int
    horizon: int | None
    switches: int
    prior: str

    def prior_cost(self, share_rate: float | None) -> float:
        """Return L; for an endless stream h(sigma), what a round adds to it."""
        n, rounds = self.experts, self.horizon
        if n == 1:
            return 0.0
        if rounds is None:
            assert share_rate is not None
            stay = (share_rate - 1.0) * math.log1p(-share_rate)
            return stay + (share_rate * math.log((n - 1.0) / share_rate) if share_rate else 0.0)
        switches = min(self.switches, rounds - 1)
        if self.prior == "at_most":
            return log_class_size(n, rounds, switches)
        assert share_rate is not None
        return share_log_prior(n, rounds, switches, share_rate)

    def squares(self, batch: int) -> float:
        """Return Q; for an endless stream what a round adds to it."""
        if self.horizon is None:
            return float(batch)
        full, rest = divmod(self.horizon, batch)
        return float(full) * batch * batch + float(rest) * rest

    def best_learning_rate(self, batch: int, share_rate: float | None) -> float:
        """Return the eta of the least bound; 1 if none is, for a cost of 0."""
        cost = self.prior_cost(share_rate)
        return math.sqrt(8.0 * cost / self.squares(batch)) if 0.0 < cost < math.inf else 1.0

    def terms(
        self, learning_rate: float, batch: int, share_rate: float | None
    ) -> dict[str, float] | None:
        """Return the two terms of the bound; None if there is no bound."""
        if self.experts == 1:
            return {"prior": 0.0, "learning": 0.0}
        cost = self.prior_cost(share_rate)
        if cost == math.inf:
            return None
        suffix = ", a round" if self.horizon is None else ""
        return {
            f"prior{suffix}": cost / learning_rate,
            f"learning{suffix}": 0.125 * learning_rate * self.squares(batch),
        }
