"""How a private run and its comparators are played, whatever the learner."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._learner import Progress
from dpoco._validation import positive_int
from dpoco.accounting import Budget
from dpoco.bandits import BanditTrace
from dpoco.evaluation._measures import cumulative_curves, losses_of, switches_of, versions
from dpoco.evaluation._progress import Snapshot, SnapshotTaker, doubling_parts
from dpoco.evaluation._report import PlayedRuns, RunReport
from dpoco.evaluation._runs import root_source
from dpoco.evaluation._seeds import SeedTree
from dpoco.random import Source
from dpoco.trace import Flags, RecordShares

__all__ = ["Comparators", "Game", "Step", "horizon_of", "play_game"]

FloatArray = NDArray[np.float64]
Step = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Comparators:
    """The best fixed decision and the best constant: facts and cumulative losses, shape (T,)."""

    fixed: dict[str, Any]
    fixed_losses: FloatArray
    constant: dict[str, Any]
    constant_losses: FloatArray


@dataclass(frozen=True)
class Game:
    """What is played: a stream, a way to build learners, what they are compared with.

    ``build(source, budget)`` returns an unstarted learner; ``comparators(rows)`` those of a slice
    of the stream, ``others(rows)`` facts of further ones; `problem` names the attributes that a
    resumed learner must share.
    """

    build: Callable[[Source | None, Budget | None], Any]
    data: tuple[Any, ...]
    comparators: Callable[[slice], Comparators]
    noise: Callable[[Any], dict[str, Any]]
    problem: tuple[str, ...]
    domain: dict[str, Any]
    loss: dict[str, Any]
    stream: dict[str, Any]
    run_options: dict[str, Any]
    options: dict[str, Any]
    others: Callable[[slice], tuple[dict[str, Any], ...]] = lambda rows: ()
    nonprivate_flags: Flags = field(default_factory=dict)  # what was done to the stream before


@dataclass(frozen=True)
class _Played:
    """What a report needs of a run."""

    losses: FloatArray
    switches: int


def play_game(
    game: Game,
    *,
    budget: Budget,
    horizon: int,
    repeats: int,
    seed: int | None,
    progress: Step | None,
    snapshot: Callable[[Snapshot], None] | None,
    checkpoint: str | os.PathLike[str] | None,
    resume: Any,
    skip_played: bool,
) -> RunReport:
    """Play the private runs, the run without noise and the comparators, and report."""
    started = time.perf_counter()
    count = positive_int("repeats", repeats, maximum=10**6)
    if count > 1 and (checkpoint is not None or resume is not None):
        raise ValueError("a checkpoint is of one private run: repeats must be 1")
    root = root_source(seed)
    learner = game.build(root, budget) if resume is None else resume
    if resume is not None:
        _check_same_problem(resume, game.build(None, budget), game)
    first, given = learner.round, len(game.data[0])
    rows = _played_rows(first, given, horizon, skip_played)
    data = tuple(column[rows] for column in game.data)
    length = len(data[0])

    if progress is not None:
        progress("comparators", 0, 1)
    compared = game.comparators(rows)
    if progress is not None:
        progress("comparators", 1, 1)

    runs: list[_Played] = []
    seconds: list[float] = []
    for index in range(count):
        learner = learner if index == 0 else game.build(root, budget)
        taker = None
        if snapshot is not None and index == 0:
            taker = SnapshotTaker(snapshot, compared.fixed_losses, first, learner.guarantee.epsilon)
        begun = time.perf_counter()
        part = _part(progress, index, count)
        runs.append(_play(learner, data, game.run_options, part, taker, checkpoint))
        seconds.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    # Without noise for privacy, but some learners draw their decisions.
    draws = None if seed is None else SeedTree(seed).child("without noise").source()
    free = game.build(draws, None).run(
        *(column[: rows.stop] for column in game.data),
        **game.run_options,
        progress=None if progress is None else lambda a, b: progress("without noise", a, b),
    )
    free_seconds = time.perf_counter() - begun

    private = np.stack([np.cumsum(run.losses) for run in runs])
    nonprivate = np.cumsum(losses_of(free)[rows.start :])
    total = float(compared.fixed_losses[-1])
    records = RecordShares.of(
        free._flags(rows),
        {key: flags[rows] for key, flags in game.nonprivate_flags.items()},
        names=game.stream.get("feature_names"),
    )
    free_switches = int(np.count_nonzero(switches_of(free) >= rows.start))
    return RunReport(
        stream={**game.stream, "rounds": rows.stop},
        settings={
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "horizon": horizon,
            "repeats": count,
            "seed": seed,
            **{name: _plain(value) for name, value in game.options.items()},
        },
        domain=game.domain,
        loss=game.loss,
        parameters={k: _plain(v) for k, v in learner.parameters.to_dict().items()},
        guarantee=learner.guarantee.to_dict(),
        guarantee_text=str(learner.guarantee),
        noise=game.noise(learner.parameters),
        private=PlayedRuns(
            tuple(float(run[-1]) / length for run in private),
            tuple(float(run[-1]) - total for run in private),
            tuple(run.switches for run in runs),
        ),
        nonprivate=PlayedRuns(
            (float(nonprivate[-1]) / length,), (float(nonprivate[-1]) - total,), (free_switches,)
        ),
        best_fixed=compared.fixed,
        best_constant=compared.constant,
        curves=cumulative_curves(
            private, nonprivate, compared.fixed_losses, compared.constant_losses
        ),
        versions=versions(),
        timing={
            "private_seconds": seconds,
            "nonprivate_seconds": free_seconds,
            "total_seconds": time.perf_counter() - started,
            "rounds_per_second": length * count / max(sum(seconds), 1e-9),
        },
        first_round=first,
        others=game.others(rows),
        rows={"skipped": rows.start, "played": length, "beyond_horizon": given - rows.stop},
        nonprivate_records=asdict(records),
    )


def horizon_of(horizon: int | None, rounds: int, resume: Any) -> int:
    """Return the rounds a guarantee covers; unless given, the saved learner's, or all there are."""
    if horizon is None:
        horizon = rounds if resume is None else resume.horizon
    return positive_int("horizon", horizon)


def _played_rows(first: int, given: int, horizon: int, skip_played: bool) -> slice:
    """Return the rows to play, for a learner after `first` rounds; they are at least one."""
    if first >= horizon:
        raise ValueError(f"the horizon of {horizon} rounds is used up: no row is played")
    skipped = first if skip_played else 0
    if skipped >= given:
        raise ValueError("the saved learner has already played every round of the stream")
    return slice(skipped, min(given, skipped + horizon - first))


def _part(progress: Step | None, index: int, count: int) -> Progress | None:
    if progress is None:
        return None

    def report(done: int, total: int) -> None:
        progress("private", index * total + done, count * total)

    return report


def _play(
    learner: Any,
    data: tuple[Any, ...],
    options: dict[str, Any],
    progress: Progress | None,
    taker: SnapshotTaker | None,
    checkpoint: str | os.PathLike[str] | None,
) -> _Played:
    first, rounds = learner.round, len(data[0])
    parts = [slice(0, rounds)] if taker is None else doubling_parts(first, rounds)
    losses: list[FloatArray] = []
    switches = 0
    last: Any = None  # the decision before this part, where they are recorded
    try:
        for part in parts:

            def report(done: int, total: int, part: slice = part) -> None:
                if progress is not None:
                    progress(part.start + done, rounds)

            trace = learner.run(
                *(column[part] for column in data),
                **options,
                progress=report,
                checkpoint=checkpoint,
            )
            own = losses_of(trace)
            losses.append(own)
            switches += len(switches_of(trace))
            if not options:  # their traces see no switch between two of them
                decisions = trace.actions if isinstance(trace, BanditTrace) else trace.decisions
                switches += int(last is not None and bool(np.any(decisions[0] != last)))
                last = decisions[-1]
            if taker is not None:
                taker.take(own, switches)
    except KeyboardInterrupt:
        if checkpoint is not None:
            learner.save(checkpoint)
        raise
    return _Played(np.concatenate(losses), switches)


def _check_same_problem(resumed: Any, fresh: Any, game: Game) -> None:
    if type(resumed) is not type(fresh):
        raise ValueError("the saved learner is of another class than asked for")
    for name in (*game.problem, "parameters"):
        if getattr(resumed, name) != getattr(fresh, name):
            raise ValueError(f"the saved learner has another {name} than asked for")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value.tolist() if isinstance(value, np.ndarray) else value
