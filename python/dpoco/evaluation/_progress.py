"""How a run is going: a line at rounds 1, 2, 4, 8, ..."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Snapshot", "SnapshotTaker", "doubling_parts"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Snapshot:
    """A learner's record so far. **Not private**: losses are computed from raw records.

    Attributes
    ----------
    round : int
        Rounds played so far, those before a resume included.
    average_loss : float
        Mean loss per round of this run so far.
    since_last : float
        Mean loss per round since the snapshot before.
    regret : float
        Total loss so far minus that of the decision that is best over the whole stream.
    switches : int
        Rounds of this run so far after which the decision changed.
    epsilon : float
        Of the guarantee: it covers all rounds from the first one on; infinite without privacy.
    """

    round: int
    average_loss: float
    since_last: float
    regret: float
    switches: int
    epsilon: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry: an infinite epsilon is None."""
        return {
            "round": self.round,
            "average_loss": self.average_loss,
            "since_last": self.since_last,
            "regret": self.regret,
            "switches": self.switches,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
        }


def doubling_parts(first: int, rounds: int) -> Iterator[slice]:
    """Yield slices of `rounds` rounds that end where the round's number is a power of two.

    Parameters
    ----------
    first : int
        Rounds played before.
    rounds : int
        Length of the run; the last slice ends there.
    """
    start = 0
    while start < rounds:
        mark = 1 << (first + start).bit_length()  # the next power of two
        stop = min(rounds, mark - first)
        yield slice(start, stop)
        start = stop


class SnapshotTaker:
    """Adds up losses and switches and hands a `Snapshot` on after every part of a run."""

    def __init__(
        self, tell: Callable[[Snapshot], None], compared: FloatArray, first: int, epsilon: float
    ) -> None:
        self._tell = tell
        self._compared = compared  # cumulative losses of the comparator
        self._first = first
        self._epsilon = epsilon
        self._rounds = 0
        self._total = 0.0

    def take(self, losses: FloatArray, switches: int) -> None:
        """Count the losses of another part; `switches` is the number so far."""
        part = float(losses.sum())
        self._rounds += len(losses)
        self._total += part
        self._tell(
            Snapshot(
                round=self._first + self._rounds,
                average_loss=self._total / self._rounds,
                since_last=part / len(losses),
                regret=self._total - float(self._compared[self._rounds - 1]),
                switches=switches,
                epsilon=self._epsilon,
            )
        )
