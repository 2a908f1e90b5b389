"""Exponential weights on all sequences of experts: a path that is redrawn at ends of batches.

Claim: replacing the losses of one round moves one coin, and the law of every later fresh draw by
log-likelihood ratios of bounded range, which shrinks as the prior forgets. The Renyi divergences
of these add up to those of the played path with flags that tell the fresh draws, also when the
losses react to the path.

Proof: ``docs/privacy/tracker_accounting.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately" (2025), Section 4; coin and accounting are ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpoco.privacy.losses.combined import group
from dpoco.privacy.losses.flagged_draws import PRIORS, FlaggedDraws
from dpoco.privacy.losses.loss import Loss
from dpoco.privacy.mechanisms.base import Mechanism, central
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import limits

__all__ = ["SMALLEST_FORCED", "TrackerDraws"]

# Below this probability the proof does not cover coins computed in double precision.
SMALLEST_FORCED = 1e-9
# Below this rate weights would leave the range of doubles.
SMALLEST_SHARE_RATE = 1e-100


@dataclass(frozen=True)
class TrackerDraws(Mechanism):
    """The played experts and which of them are fresh draws; losses are clipped to [0, 1].

    The fields are those of `dpoco.privacy.losses.flagged_draws.FlaggedDraws`. `forced` is p, for
    which nothing is proved below 1e-9; `cap` is the largest number of fresh draws. An emptied round
    counts as replaced.
    """

    kind = "tracker_draws"
    proofs = ("tracker_accounting",)
    experts: int
    prior: str
    learning_rate: float
    forced: float = limits(zero=True)
    batch: int = limits()
    horizon: int | None = limits()
    share_rate: float | None = limits(zero=True)
    cap: int | None = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse what no proof is about; `FlaggedDraws` refuses the rest."""
        super().__post_init__()
        self.check_choice("prior", PRIORS)
        if self.share_rate and self.share_rate < SMALLEST_SHARE_RATE:
            raise ValueError(f"share_rate of {self.kind} must be 0 or at least 1e-100")
        _ = self.draws

    @property
    def longest(self) -> int | None:
        """The horizon, if there is one."""
        return self.horizon

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of the whole path; None where nothing is proved."""
        central(near)
        return group(self.draws, near.rounds) if self.forced >= SMALLEST_FORCED else None

    @property
    def draws(self) -> FlaggedDraws:
        """The parts of the path, private or not."""
        return FlaggedDraws(self.learning_rate, self.forced, self.batch, self.horizon,
                            self.share_rate, self.experts, self.prior, self.cap)  # fmt: skip
