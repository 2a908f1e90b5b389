"""Play learners over a stream, repeatedly, and compare."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._learner import Progress
from dpoco._validation import positive_int
from dpoco.accounting import Budget
from dpoco.datasets import Stream
from dpoco.domains import Domain
from dpoco.evaluation._comparators import (
    FixedDecision,
    GlmLoss,
    best_constant_prediction,
    best_fixed_decision,
)
from dpoco.evaluation._measures import (
    constant_losses,
    cumulative_curves,
    noise_levels,
    versions,
)
from dpoco.evaluation._report import PlayedRuns, RunReport
from dpoco.experts._expert_learner import ExpertLearner
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.random import Source
from dpoco.trace import Trace

__all__ = ["compare_private", "repeat_runs"]

FloatArray = NDArray[np.float64]
Step = Callable[[str, int, int], None]


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
    root = _root(seed)
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


def compare_private(
    stream: Stream,
    domain: Domain,
    loss: GlmLoss,
    *,
    budget: Budget,
    horizon: int | None = None,
    repeats: int = 1,
    seed: int | None = None,
    progress: Step | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: TreeFrankWolfe | None = None,
    **options: Any,
) -> RunReport:
    """Play a private learner on a stream, and everything it should be compared with.

    The comparators: the same learner without noise, the best fixed decision in hindsight, and
    the best constant prediction. The report is for evaluation: it is **not private**.

    Parameters
    ----------
    stream : Stream
        Rounds past the horizon are left out.
    domain, loss
        The learner's problem; a generalised linear loss.
    budget : Budget
        Of one private run. Each repetition spends it anew.
    horizon : int, optional
        Rounds the guarantee covers; default the stream's length.
    repeats : int, default 1
        Private runs with independent noise.
    seed : int, optional
        Makes the report reproducible but for its timing, and voids the guarantee. None is the
        operating system's entropy.
    progress : callable, optional
        Called as ``progress(phase, done, total)``.
    checkpoint : path-like, optional
        State file of the private learner, written during the run, at its end, and on an
        interrupt. Only with ``repeats=1``.
    resume : TreeFrankWolfe, optional
        A learner from `dpoco.load`, continued where it stopped; the report then speaks of the
        remaining rounds. It must have been built for the same problem.
    **options
        Further arguments of `TreeFrankWolfe`: calibration, noise, sum_method, batch, ...

    Returns
    -------
    RunReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments, or a `resume` that is of another problem or has no rounds left.
    CalibrationError
        If no noise scale meets the budget.
    """
    started = time.perf_counter()
    count = positive_int("repeats", repeats, maximum=10**6)
    if count > 1 and (checkpoint is not None or resume is not None):
        raise ValueError("a checkpoint is of one private run: repeats must be 1")
    if not loss.glm:
        raise TypeError("compare_private needs a generalised linear loss")
    rounds_covered = positive_int("horizon", len(stream) if horizon is None else horizon)
    data = stream.take(rounds_covered)

    def build(source: Source | None, spent: Budget | None = budget) -> TreeFrankWolfe:
        return TreeFrankWolfe(
            domain, loss, horizon=rounds_covered, budget=spent, source=source, **options
        )

    root = _root(seed)
    learner = build(root) if resume is None else resume
    if resume is not None:
        _check_same_problem(resume, build(None), len(data))
    first = learner.round
    features, labels = data.features[first:], data.labels[first:]

    traces: list[Trace] = []
    seconds: list[float] = []
    for index in range(count):
        learner = learner if index == 0 else build(root)
        begun = time.perf_counter()
        traces.append(_play(learner, features, labels, _part(progress, index, count), checkpoint))
        seconds.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    free = build(None, None).run(
        data.features,
        data.labels,
        record_decisions=False,
        progress=None if progress is None else lambda a, b: progress("without noise", a, b),
    )
    free_seconds = time.perf_counter() - begun

    if progress is not None:
        progress("comparators", 0, 1)
    fixed = best_fixed_decision(domain, loss, features, labels)
    # A round with a missing record costs nobody anything.
    present = np.where(np.isfinite(features).all(axis=1), labels, np.nan)
    constant = best_constant_prediction(loss, present)
    if progress is not None:
        progress("comparators", 1, 1)

    fixed_losses = np.cumsum(loss.batch_values(domain, fixed.decision, features, labels))
    constant_total = np.cumsum(constant_losses(loss, constant.prediction, present))
    private = np.stack([np.cumsum(trace.losses) for trace in traces])
    nonprivate = np.cumsum(free.losses[first:])
    total = float(fixed_losses[-1])
    free_switches = int(np.count_nonzero(free.switches >= first))
    length = len(features)
    return RunReport(
        stream=data.summary(),
        settings={
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "horizon": rounds_covered,
            "repeats": count,
            "seed": seed,
            **{name: _plain(value) for name, value in options.items()},
        },
        domain=domain.to_dict(),
        loss=loss.to_dict(),
        parameters=learner.parameters.to_dict(),
        guarantee=learner.guarantee.to_dict(),
        guarantee_text=str(learner.guarantee),
        noise=noise_levels(domain, loss, learner.parameters, budget),
        private=PlayedRuns(
            tuple(float(run[-1]) / length for run in private),
            tuple(float(run[-1]) - total for run in private),
            tuple(len(trace.switches) for trace in traces),
        ),
        nonprivate=PlayedRuns(
            (float(nonprivate[-1]) / length,), (float(nonprivate[-1]) - total,), (free_switches,)
        ),
        best_fixed=_fixed(fixed),
        best_constant={
            "prediction": constant.prediction,
            "average_loss": constant.average_loss,
            "total_loss": constant.total_loss,
        },
        curves=cumulative_curves(private, nonprivate, fixed_losses, constant_total),
        versions=versions(),
        timing={
            "private_seconds": seconds,
            "nonprivate_seconds": free_seconds,
            "total_seconds": time.perf_counter() - started,
            "rounds_per_second": length * count / max(sum(seconds), 1e-9),
        },
        first_round=first,
    )


def _root(seed: int | None) -> Source:
    return Source() if seed is None else Source.seeded(seed)


def _part(progress: Step | None, index: int, count: int) -> Progress | None:
    if progress is None:
        return None

    def report(done: int, total: int) -> None:
        progress("private", index * total + done, count * total)

    return report


def _play(
    learner: TreeFrankWolfe,
    features: FloatArray,
    labels: FloatArray,
    progress: Progress | None,
    checkpoint: str | os.PathLike[str] | None,
) -> Trace:
    try:
        return learner.run(
            features, labels, record_decisions=False, progress=progress, checkpoint=checkpoint
        )
    except KeyboardInterrupt:
        if checkpoint is not None:
            learner.save(checkpoint)
        raise


def _check_same_problem(resumed: TreeFrankWolfe, fresh: TreeFrankWolfe, rounds: int) -> None:
    for name in ("domain", "loss", "parameters"):
        if getattr(resumed, name) != getattr(fresh, name):
            raise ValueError(f"the saved learner has another {name} than asked for")
    if resumed.round >= rounds:
        raise ValueError("the saved learner has already played every round of the stream")


def _fixed(fixed: FixedDecision) -> dict[str, Any]:
    return {
        "decision": fixed.decision.tolist(),
        "average_loss": fixed.average_loss,
        "total_loss": fixed.total_loss,
        "gap": fixed.gap,
        "iterations": fixed.iterations,
    }


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
