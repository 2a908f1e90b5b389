"""Comparators of games with experts: one expert, a sequence that switches, any interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import LARGEST_HORIZON, float_array, real_float
from dpoco.experts._trace import admitted_losses, checked_range

__all__ = [
    "BestSequence",
    "FixedExpert",
    "best_expert",
    "best_switching_sequence",
    "interval_regret",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class FixedExpert:
    """The best single expert in hindsight. Not private.

    Attributes
    ----------
    decision : int
        Its index; the lowest one of several.
    total_loss, average_loss : float
        Sum and mean of its losses, clipped as a learner clips them.
    """

    decision: int
    total_loss: float
    average_loss: float


@dataclass(frozen=True, eq=False)
class BestSequence:
    """The best sequence of experts in hindsight with a limited number of switches. Not private.

    Attributes
    ----------
    decisions : ndarray of int64, shape (T,), read-only
        The expert of each round.
    total_loss : float
        Sum of its losses, clipped as a learner clips them.
    costs : ndarray of float64, shape (min(S, T - 1) + 1,), read-only
        Entry c is the least total loss with at most c switches; never increasing.
    """

    decisions: IntArray
    total_loss: float
    costs: FloatArray

    @property
    def limit(self) -> int:
        """Number of switches that were allowed and possible: S, at most T - 1."""
        return len(self.costs) - 1

    @property
    def switches(self) -> IntArray:
        """Round indices (0-based, increasing) after which the sequence changes expert."""
        return np.flatnonzero(self.decisions[1:] != self.decisions[:-1])


def best_expert(losses: Any, *, loss_range: tuple[float, float] = (0.0, 1.0)) -> FixedExpert:
    """Return the expert with the least total loss.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        Losses of all experts, one row a round, T and N at least 1.
    loss_range : (low, high), default (0, 1)
        As the learner's: values outside are clipped, and entries that are not finite count as
        `low`.

    Returns
    -------
    FixedExpert

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes.
    """
    best = best_switching_sequence(losses, 0, loss_range=loss_range)
    return FixedExpert(
        int(best.decisions[0]), best.total_loss, best.total_loss / len(best.decisions)
    )


def best_switching_sequence(
    losses: Any, switches: int, *, loss_range: tuple[float, float] = (0.0, 1.0)
) -> BestSequence:
    """Return the sequence of experts with the least total loss among those with few switches.

    What dynamic regret is measured against: ``trace.regret(best_switching_sequence(losses, S))``.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        Losses of all experts, one row a round, T and N at least 1.
    switches : int
        Largest number S >= 0 of rounds after which the sequence may change expert.
    loss_range : (low, high), default (0, 1)
        As the learner's: values outside are clipped, and entries that are not finite count as
        `low`.

    Returns
    -------
    BestSequence
        Exact up to the rounding of sums. Of several best sequences it is one with the fewest
        switches; the choice among those is deterministic.

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes, or negative `switches`.

    Notes
    -----
    Dynamic programming over (switches so far, expert): O(N S T) time and O(S (N + T)) memory at
    the worst. The costs of all limits come together, since they are not convex in the limit and no
    penalty per switch finds them all.
    """
    if isinstance(switches, (bool, np.bool_)) or not isinstance(switches, (int, np.integer)):
        raise TypeError(f"switches must be an int; got {type(switches).__name__}")
    if not 0 <= switches <= LARGEST_HORIZON:
        raise ValueError(f"switches must be in [0, {LARGEST_HORIZON}]; got {switches}")
    rows = _admitted_table(losses, loss_range)
    useful = min(int(switches), len(rows) - 1)
    costs, decisions = _core.best_switching_sequence(rows, useful)
    for array in (costs, decisions):
        array.flags.writeable = False
    return BestSequence(decisions, float(costs[-1]), costs)


def interval_regret(
    own_losses: Any,
    losses: Any,
    *,
    allowance: float = 0.0,
    loss_range: tuple[float, float] = (0.0, 1.0),
) -> float:
    """Return the largest regret over all intervals of rounds, against any one expert.

    Parameters
    ----------
    own_losses : array_like of shape (T,)
        What the learner lost in each round; for example the ``losses`` of its trace.
    losses : array_like of shape (T, N)
        Losses of all experts, one row a round, T and N at least 1.
    allowance : float, default 0
        Non-negative c: only the part of an interval's regret above an allowance counts, which for
        w rounds is between ``c sqrt(w)`` and ``1.061 c sqrt(w)`` (the lowest of the tangents at
        1, 4, 16, ... rounds). An i.i.d. gambler's largest interval regret grows with the length
        of the game; what exceeds an allowance does not.
    loss_range : (low, high), default (0, 1)
        As the learner's, for both arrays: values outside are clipped, and entries that are not
        finite count as `low`.

    Returns
    -------
    float
        In the units of the losses, at least 0: the empty interval counts, too.

    Raises
    ------
    ValueError, TypeError
        For wrong shapes or dtypes, or a negative allowance.

    Notes
    -----
    One running sum per expert and tangent: O(N T) time without allowance, O(N T log T) with one.
    """
    extra = real_float("allowance", allowance)
    if not 0.0 <= extra <= 1e100:
        raise ValueError(f"allowance must be in [0, 1e100]; got {extra!r}")
    rows = _admitted_table(losses, loss_range)
    low, high = checked_range(loss_range)
    own = admitted_losses(float_array("own_losses", own_losses, (len(rows),)), low, high)
    return _core.interval_regret(own, rows, extra)


def _admitted_table(losses: Any, loss_range: tuple[float, float]) -> FloatArray:
    low, high = checked_range(loss_range)
    rows = float_array("losses", losses, (None, None))
    if rows.size == 0:
        raise ValueError(f"losses must have rounds and experts; got shape {rows.shape}")
    return admitted_losses(rows, low, high)
