"""Rounds of many learners in one compiled call, without the interpreter lock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.journal._families import Bandits, Experts, Family, Nets, Parts, Vectors

__all__ = ["check_records", "play_keyed"]

IntArray = NDArray[np.int64]


def check_records(family: Family, prototype: Any, parts: Parts) -> None:
    """With ``on_violation="raise"``, raise `ValueError` for records over the bounds."""
    if not prototype._raises or parts[0].shape[0] == 0:
        return
    if isinstance(family, Vectors):
        prototype._refuse_violations(parts[0], parts[1] if len(parts) > 1 else None)
    elif isinstance(family, Bandits):
        prototype._refuse_contexts(parts[0], 0)
        prototype._refuse_rewards(parts[1], 0)
    else:
        prototype._refuse_violations(parts[0], 0)


def play_keyed(
    family: Family,
    prototype: Any,
    engines: list[Any],
    offsets: IntArray,
    rows: IntArray,
    parts: Parts,
    workers: int,
) -> NDArray[Any]:
    """Play a batch and return the decision before each record, (n,) int64 or (n, d) float64.

    Parameters
    ----------
    family, prototype
        What the learners are.
    engines : list
        Compiled learners, each once.
    offsets, rows : ndarray of int64
        Engine i plays rows[offsets[i]], ..., rows[offsets[i + 1] - 1] of `parts`, in this order.
    parts : tuple of ndarray
        Records, first axis n. Rows that no engine plays stay undefined in what is returned.
    workers : int
        Threads.

    Raises
    ------
    HorizonExceeded, RoundOrderError, StateError
        Before anything is drawn: nothing was played.
    """
    n = parts[0].shape[0]
    own = np.empty(n)
    if isinstance(family, Vectors):
        decisions: NDArray[Any] = np.empty((n, prototype.domain.dimension))
        labels = parts[1] if len(parts) > 1 else None
        arrays: tuple[Any, ...] = (parts[0], labels, own, decisions)
    elif isinstance(family, (Experts, Nets)):
        decisions = np.empty(n, dtype=np.int64)
        arrays = (parts[0], own, decisions)
    else:
        decisions = np.empty(n, dtype=np.int64)
        arrays = (*parts, decisions, own)
    if engines:
        type(engines[0]).run_keyed(engines, offsets, rows, *arrays, workers)
    if isinstance(family, Nets):
        places = np.where((decisions >= 0) & (decisions < len(prototype.points)), decisions, 0)
        return np.asarray(prototype.points[places])
    return decisions
