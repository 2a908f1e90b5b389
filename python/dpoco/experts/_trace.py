"""What happened over many rounds with experts, for evaluation: not a private object."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._clipping import admitted_losses
from dpoco.trace import Flags, Trace

__all__ = ["ExpertTrace"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class ExpertTrace(Trace):
    """Losses and decisions of a run with experts. **Not private**: losses are raw data.

    Comparisons read the losses that were given to ``run``: leave that array as it is.

    Attributes
    ----------
    losses : ndarray of float64, shape (T,)
        Loss of each round's decision, clipped to the declared range.
    switches : ndarray of int64
        Round indices (0-based, increasing) after which the decision changed.
    first_round : int
        Rounds the learner had consumed before this run.
    """

    @property
    def decisions(self) -> IntArray:  # type: ignore[override]
        """Released decisions, shape (T,), int64: the expert played in each round."""
        assert self._decisions is not None
        return self._decisions  # type: ignore[return-value]

    def comparator_losses(self, decision: Any) -> FloatArray:
        """Return the losses, shape (T,), of another choice of experts.

        Parameters
        ----------
        decision : int or array_like of int, shape (T,)
            One expert for all rounds, or one for each.

        Raises
        ------
        ValueError, TypeError
            For other shapes, other types, or an expert that does not exist.
        """
        sequence = np.asarray(decision)
        if sequence.dtype.kind not in "iu":
            raise TypeError(f"decision must be integers; got {sequence.dtype}")
        if sequence.shape not in ((), (len(self),)):
            raise ValueError(f"decision must have shape () or ({len(self)},)")
        return self._loss_of(sequence)

    def regret(self, comparator: Any) -> FloatArray:
        """Return cumulative regret against a choice of experts.

        Parameters
        ----------
        comparator : int, array_like of int with shape (T,), or an object with ``decisions``
            For example the result of ``dpoco.evaluation.best_switching_sequence``: dynamic regret.

        Returns
        -------
        ndarray of float64, shape (T,)
        """
        for name in ("decisions", "decision"):
            comparator = getattr(comparator, name, comparator)
        return np.cumsum(self.losses - self.comparator_losses(comparator))

    @classmethod
    def of(
        cls,
        rows: FloatArray,
        own: FloatArray,
        decisions: IntArray,
        first_round: int,
        loss_range: tuple[float, float],
    ) -> ExpertTrace:
        """Return the trace of a run on `rows` (T, N) that lost `own` (T,), in units of [0, 1]."""
        low, high = loss_range
        losses = low + (high - low) * own
        for array in (losses, decisions):
            array.flags.writeable = False

        def loss_of(sequence: Any) -> FloatArray:
            experts = rows.shape[1]
            if np.any(sequence < 0) or np.any(sequence >= experts):
                raise ValueError(f"decision must be below the number of experts, {experts}")
            chosen = rows[np.arange(rows.shape[0]), sequence]
            return admitted_losses(chosen, low, high)

        switches = np.flatnonzero(decisions[1:] != decisions[:-1])

        def flags_of(part: slice) -> Flags:
            missing = ~np.isfinite(rows[part])
            outside = (rows[part] < low) | (rows[part] > high)
            return {"missing": missing, "out_of_range": outside & ~missing}

        return cls(losses, switches, first_round, decisions, loss_of, flags_of)  # type: ignore[arg-type]
