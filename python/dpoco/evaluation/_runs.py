"""Play a learner over a stream, repeatedly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpoco._learner import Progress
from dpoco._validation import positive_int
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.random import Source
from dpoco.trace import Trace

__all__ = ["repeat_runs", "root_source"]


def repeat_runs(
    build: Callable[[Source], Any],
    features: Any,
    labels: Any = None,
    *,
    repeats: int,
    seed: int | None = None,
    progress: Progress | None = None,
) -> list[Trace]:
    """Play the same stream several times, each time with independent noise.

    Parameters
    ----------
    build : callable
        Returns an unstarted learner that takes its noise from the given source.
    features, labels : array_like
        The stream, as the learner's ``run`` takes it; for learners of experts the losses, shape
        (T, N), and nothing else.
    repeats : int
        Number of runs.
    seed : int, optional
        Makes all runs reproducible; run i does not depend on `repeats`. None is the operating
        system's entropy.
    progress : callable, optional
        Called as ``progress(done, total)`` with rounds over all runs.

    Returns
    -------
    list of Trace
        Without decisions; for learners of experts `ExpertTrace`, which has them.

    Notes
    -----
    For evaluation only: every run is a release of its own, and publishing several of them costs
    several budgets.
    """
    count = positive_int("repeats", repeats, maximum=10**6)
    root = root_source(seed)
    traces: list[Trace] = []
    for index in range(count):
        learner = build(root)

        def report(done: int, total: int, index: int = index) -> None:
            if progress is not None:
                progress(index * total + done, count * total)

        if isinstance(learner, ExpertLearner):
            if labels is not None:
                raise TypeError("learners of experts take no labels")
            traces.append(learner.run(features, progress=report))
        else:
            traces.append(learner.run(features, labels, record_decisions=False, progress=report))
    return traces


def root_source(seed: int | None) -> Source:
    """Return a source that seeds all runs, or one of the operating system's entropy."""
    return Source() if seed is None else Source.seeded(seed)
