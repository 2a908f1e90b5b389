"""Repeated runs whose noise hangs on the run's number and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dpoco._validation import positive_int
from dpoco.evaluation._seeds import SeedTree
from dpoco.random import Source
from dpoco.trace import Trace

__all__ = ["play_through", "repeat"]


def repeat(
    build: Callable[[Source], Any],
    *data: Any,
    repeats: int | Iterable[int],
    seed: int | SeedTree | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, Trace]:
    """Play the same stream several times, the noise of every run hanging on its number alone.

    Parameters
    ----------
    build : callable
        Returns an unstarted learner that takes its noise from the given source.
    *data
        The stream, as the learner's ``run`` takes it: features and labels, losses, or
        contexts and rewards.
    repeats : int or iterable of int
        How many runs, numbered from 0; or the numbers of the runs to play.
    seed : int or SeedTree, optional
        Root of the runs' seeds: run i is ``SeedTree(seed).child("run", i)``. None is the operating
        system's entropy.
    progress : callable, optional
        Called as ``progress(done, total)`` with rounds over all runs.

    Returns
    -------
    dict of int to Trace
        In the order of the numbers given; without decisions where ``run`` takes
        ``record_decisions``.

    Raises
    ------
    ValueError, TypeError
        For bad arguments, or numbers that are negative or occur twice.

    Notes
    -----
    Run i has the same bits whichever other runs are played, in which order, in which process: a
    long experiment may be split over machines, or extended later. `repeat_runs` is the form that
    also takes fresh entropy by default and returns a list. Every run is a release of its own:
    publishing several costs several budgets.
    """
    if isinstance(repeats, Iterable):
        numbers = list(repeats)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int):
                raise TypeError(f"numbers of runs must be int; got {type(number).__name__}")
        if len(set(numbers)) != len(numbers) or any(number < 0 for number in numbers):
            raise ValueError("numbers of runs must differ and be at least 0")
    else:
        numbers = list(range(positive_int("repeats", repeats, maximum=10**6)))
    root = None if seed is None else seed if isinstance(seed, SeedTree) else SeedTree(seed)
    traces = {}
    for index, number in enumerate(numbers):
        source = Source() if root is None else root.child("run", number).source()

        def report(done: int, total: int, index: int = index) -> None:
            if progress is not None:
                progress(index * total + done, len(numbers) * total)

        traces[number] = play_through(build(source), data, progress=report)
    return traces


def play_through(learner: Any, data: tuple[Any, ...], **options: Any) -> Any:
    """Run a learner over the stream, without keeping decisions where they are vectors."""
    from dpoco.bandits import HighDimensionalBandit, LinUCB
    from dpoco.experts._expert_learner import ExpertLearner
    from dpoco.oco import LipschitzLearner

    if isinstance(learner, ExpertLearner) and len(data) != 1:
        raise TypeError("learners of experts take losses, and no labels")
    if not isinstance(learner, (ExpertLearner, LinUCB, HighDimensionalBandit, LipschitzLearner)):
        options["record_decisions"] = False
    return learner.run(*data, **options)
