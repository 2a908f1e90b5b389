"""How a private run and its comparators are played and measured, whatever the learner."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import accounting
from dpoco._learner import Progress
from dpoco._validation import FloatArray, positive_int
from dpoco.accounting import Budget, continual_sum
from dpoco.accounting.generalized_gaussian import coordinate_variance
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.bandits import BanditTrace
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.evaluation._comparators import GlmLoss
from dpoco.evaluation._report import Curves, PlayedRuns, RunReport
from dpoco.evaluation._runs import SeedTree, Snapshot, SnapshotTaker, doubling_parts, root_source
from dpoco.random import Source
from dpoco.trace import Flags, RecordShares


def losses_of(trace: Any) -> FloatArray:
    """Return the losses of a run, shape (T,); of a bandit, the largest reward minus its own."""
    if isinstance(trace, BanditTrace):
        return np.asarray(trace._reward_range[1] - trace.rewards, np.float64)
    return np.asarray(trace.losses, np.float64)


def switches_of(trace: Any) -> NDArray[np.int64]:
    """Return rounds of a run, from 0, after which the decision, of a bandit the arm, changed."""
    if isinstance(trace, BanditTrace):
        return np.flatnonzero(np.diff(trace.actions))
    return np.asarray(trace.switches, np.int64)


def constant_losses(loss: GlmLoss, margin: float, labels: FloatArray) -> FloatArray:
    """Losses of a constant margin, shape (T,); 0 where the label is not finite."""
    present = np.isfinite(labels)
    low, high = loss.label_range
    targets = np.clip(np.where(present, labels, low), low, high)
    values = loss.value(np.array([margin]), np.ones((len(labels), 1)), targets)
    return np.where(present, values, 0.0)


def totals(losses: FloatArray) -> dict[str, float]:
    """Return what a report holds of the losses of a comparator, shape (T,)."""
    return {"average_loss": float(losses.mean()), "total_loss": float(losses.sum())}


def noise_levels(
    domain: Domain, loss: GlmLoss, parameters: TreeFrankWolfeParameters, budget: Budget
) -> dict[str, Any]:
    """Noise of this run and of the published constants for the same problem and budget."""
    record: dict[str, Any] = {
        "scale": parameters.noise_scale,
        "released": _released(parameters, domain.dimension),
        "paper_scale": None,
        "paper_released": None,
        "scale_ratio": None,
        "released_ratio": None,
    }
    try:  # the published algorithm updates every round
        paper = accounting.tree_frank_wolfe.calibrate(
            domain,
            loss,
            horizon=parameters.horizon,
            budget=budget,
            calibration="paper",
            step_scale=parameters.step_scale,
        )
    except CalibrationError:  # the published constants miss this budget: nothing to compare
        return record
    released = _released(paper, domain.dimension)
    record.update(
        paper_scale=paper.noise_scale,
        paper_released=released,
        scale_ratio=paper.noise_scale / parameters.noise_scale,
        released_ratio=released / record["released"],
    )
    return record


def _released(parameters: TreeFrankWolfeParameters, dimension: int) -> float:
    """Return the standard deviation of one coordinate of the noisiest released sum."""
    row = continual_sum.worst_row_norm(parameters.sum_method, parameters.pushes)
    variance = coordinate_variance(parameters.norm_order, dimension)
    return float(parameters.noise_scale * row * np.sqrt(variance))


def cumulative_curves(
    private: FloatArray, nonprivate: FloatArray, fixed: FloatArray, constant: FloatArray
) -> Curves:
    """Sample cumulative losses: shape (repeats, T) for the private runs, (T,) for the others."""
    rounds = _shown_rounds(len(fixed))
    at = rounds - 1
    chosen = private[:, at]
    return Curves(
        rounds=tuple(rounds.tolist()),
        private=tuple(np.median(chosen, axis=0).tolist()),
        private_low=tuple(chosen.min(axis=0).tolist()),
        private_high=tuple(chosen.max(axis=0).tolist()),
        nonprivate=tuple(nonprivate[at].tolist()),
        best_fixed=tuple(fixed[at].tolist()),
        best_constant=tuple(constant[at].tolist()),
    )


def _shown_rounds(length: int) -> NDArray[np.int64]:
    """At most 400 rounds, dense at the start and even over the whole."""
    even = np.linspace(1, length, 200)
    early = np.geomspace(1, length, 200)
    return np.unique(np.concatenate([even, early]).round().astype(np.int64))


def versions() -> dict[str, str]:
    """Versions that determine the numbers of a report."""
    import dpoco

    return {
        "dpoco": dpoco.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


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
