"""Server and devices in one process: for experiments, at millions of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._learner import Progress
from dpoco.errors import HorizonExceeded
from dpoco.local._learner import DistributionLearner
from dpoco.local._stage import Stage
from dpoco.local._trace import LocalTrace
from dpoco.random import Source

__all__ = ["LocalTrace", "simulate"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_CHUNK = 8192
_CHUNK_ENTRIES = 2**26  # a chunk takes a fraction of a second


def simulate(
    learner: DistributionLearner,
    labels: Any,
    contexts: Any = None,
    *,
    truth: Any = None,
    source: Source | None = None,
    checkpoints: Sequence[int] = (),
    beta: float = 0.1,
    progress: Progress | None = None,
) -> LocalTrace:
    """Play a learner against devices with the given labels, one report a round.

    Parameters
    ----------
    learner : DistributionLearner
        Goes on from its present state, and is left in the state after the last round. Its
        guarantee is void from then on: one process has seen all labels.
    labels : integer array of shape (T,)
        One label a round; -1 or anything else out of range is no event.
    contexts : sequence of length T, optional
        One context a round, where the hypotheses have any; also for private contexts.
    truth : int or array, optional
        What predictions are measured against: a hypothesis, or distributions of shape (M,) or, for
        a table, (C, M). The confidence set is watched if it is a hypothesis.
    source : dpoco.random.Source, optional
        Noise of all devices; by default from the operating system. A seeded one makes a run
        reproducible.
    checkpoints : sequence of int
        Rounds (numbers, from 1 on) after which weights are kept.
    beta : float, default 0.1
        Of the confidence set.
    progress : callable, optional
        Called as ``progress(done, total)`` between chunks.

    Returns
    -------
    LocalTrace
        Not private.

    Raises
    ------
    HorizonExceeded
        If fewer rounds are left: nothing is played.
    ValueError, TypeError
        For arguments of wrong shape: nothing is played.

    Notes
    -----
    Runs in compiled code, with the interpreter lock released, for arrays and tables of hypotheses
    where the posterior asks threshold or Hadamard questions or for subsets, and where hedge asks
    for uniformly drawn coordinates; otherwise round by round in Python. Both give the same reports
    and weights, bit for bit. An interrupt stops between chunks of rounds.
    """
    own = _labels(labels)
    stage = Stage(learner, own, contexts, truth, checkpoints, beta)
    origin = Source() if source is None else source
    if not isinstance(origin, Source):
        raise TypeError(f"source must be a dpoco.random.Source; got {type(origin).__name__}")
    noise = origin.spawn()
    with learner._lock:
        left = learner._settings.horizon
        if left is not None and own.size > left - learner.round:
            raise HorizonExceeded(
                f"{own.size} rounds asked for, {left - learner.round} left of the horizon"
            )
        # One process has seen all labels, whatever the noise.
        learner._simulated = learner._simulated or own.size > 0
        play = stage.compiled(noise)
        entries = learner.hypotheses.count * (learner.hypotheses.labels or 1)
        chunk = max(1, min(_CHUNK, _CHUNK_ENTRIES // entries))
        for start in range(0, own.size, chunk):
            part = slice(start, min(start + chunk, own.size))
            if play is None:
                stage.step_by_step(part, noise)
            else:
                play(part)
            if progress is not None:
                progress(part.stop, own.size)
    return stage.trace()


def _labels(labels: Any) -> IntArray:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError("labels must be a sequence of ints, one a round")
    return np.ascontiguousarray(array, dtype=np.int64)
