"""What happened over many rounds, for evaluation: not a private object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import float_array

__all__ = ["Trace"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trace:
    """Losses and decisions of a run. **Not private**: losses are computed from raw records.

    Attributes
    ----------
    losses : ndarray of float64, shape (T,)
        Loss of each round's decision on that round's (clipped) record.
    switches : ndarray of int64
        Round indices (0-based, increasing) after which the decision changed.
    first_round : int
        Rounds the learner had consumed before this run.
    """

    losses: FloatArray
    switches: NDArray[np.int64]
    first_round: int
    _decisions: FloatArray | None = field(repr=False)
    _loss_of: Callable[[FloatArray], FloatArray] = field(repr=False)

    def __len__(self) -> int:
        return int(self.losses.shape[0])

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return len(self)

    @property
    def average_loss(self) -> float:
        """Mean loss per round; NaN for an empty run."""
        return float(self.losses.mean()) if len(self) else float("nan")

    @property
    def decisions(self) -> FloatArray:
        """Released decisions, shape (T, d), row t being the decision of round t.

        Raises
        ------
        ValueError
            If the run was made with ``record_decisions=False``.
        """
        if self._decisions is None:
            raise ValueError("decisions were not recorded: run with record_decisions=True")
        return self._decisions

    def comparator_losses(self, decision: Any) -> FloatArray:
        """Return the losses, shape (T,), a fixed decision of shape (d,) would have had."""
        return self._loss_of(float_array("decision", decision, (None,)))

    def regret(self, comparator: Any) -> FloatArray:
        """Return cumulative regret against a comparator.

        Parameters
        ----------
        comparator : array_like of shape (d,) or object with a ``decision`` attribute
            A fixed decision, for example the result of ``dpoco.evaluation.best_fixed_decision``.

        Returns
        -------
        ndarray of float64, shape (T,)
            Sum over rounds up to t of own loss minus comparator's loss.
        """
        decision = getattr(comparator, "decision", comparator)
        return np.cumsum(self.losses - self.comparator_losses(decision))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per round (needs pandas)."""
        import pandas as pd

        changed = np.zeros(len(self), dtype=bool)
        changed[self.switches] = True
        return pd.DataFrame(
            {
                "round": np.arange(self.first_round + 1, self.first_round + 1 + len(self)),
                "loss": self.losses,
                "changed": changed,
            }
        )

    def __repr__(self) -> str:
        return f"<dpoco.Trace of {len(self)} rounds: not private, for evaluation only>"
