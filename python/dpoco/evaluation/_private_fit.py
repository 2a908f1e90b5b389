"""A batch baseline: one private fit, and what its decision should be compared with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from dpoco._validation import positive_int
from dpoco.accounting import Budget
from dpoco.datasets import Stream
from dpoco.domains import Domain
from dpoco.evaluation._comparators import GlmLoss, best_fixed_decision
from dpoco.evaluation._fit_report import FitReport
from dpoco.evaluation._game import Step
from dpoco.evaluation._measures import constant_losses, totals, versions
from dpoco.evaluation._private import fixed_facts
from dpoco.evaluation._runs import root_source
from dpoco.evaluation._seeds import SeedTree
from dpoco.random import Source
from dpoco.trace import RecordShares

__all__ = ["compare_private_fit"]


def compare_private_fit(
    stream: Stream,
    domain: Domain,
    loss: GlmLoss,
    learner: Callable[..., Any],
    *,
    budget: Budget,
    records: int | None = None,
    repeats: int = 1,
    seed: int | None = None,
    progress: Step | None = None,
    **options: Any,
) -> FitReport:
    """Fit a batch baseline to a whole stream, and judge the decision it releases.

    The comparators: the same method without noise, the best decision there is, and predicting zero.
    There are no rounds: every decision is judged on the records it was fitted to, which it saw all
    beforehand, so that it has no regret. The report is for evaluation: it is **not private**.

    Parameters
    ----------
    stream : Stream
        Records past `records` are left out.
    domain, loss
        The problem; a generalised linear loss.
    learner : class
        `dpoco.frank_wolfe.NoisySGD`, `PhasedSGD`, `LocalizedMirrorDescent` or `NoisyFrankWolfe`.
    budget : Budget
        Of one fit. Each repetition spends it anew.
    records : int, optional
        How many records are fitted; default, and at most, the stream's length.
    repeats : int, default 1
        Private fits with independent noise.
    seed : int, optional
        Makes the report reproducible but for its timing, and voids the guarantee. None is the
        operating system's entropy.
    progress : callable, optional
        Called as ``progress(phase, done, total)``, in gradients.
    **options
        Further arguments of the learner: calibration, steps, step_scale, ...

    Returns
    -------
    FitReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.
    """
    started = time.perf_counter()
    count = positive_int("repeats", repeats, maximum=10**6)
    data = stream if records is None else stream.take(positive_int("records", records))
    root = root_source(seed)

    def average(theta: Any) -> float:
        return float(loss.batch_values(domain, theta, data.features, data.labels).mean())

    def fitted(phase: str, spent: Budget | None, source: Source | None, done: int, of: int) -> Any:
        def report(units: int, total: int) -> None:
            if progress is not None:
                progress(phase, done * total + units, of * total)

        model = learner(domain, loss, records=len(data), budget=spent, source=source, **options)
        return model.fit(data.features, data.labels, progress=report)

    models, seconds = [], []
    for index in range(count):
        begun = time.perf_counter()
        models.append(fitted("private", budget, root, index, count))
        seconds.append(time.perf_counter() - begun)
    draws = None if seed is None else SeedTree(seed).child("without noise").source()
    begun = time.perf_counter()
    free = fitted("without noise", None, draws, 0, 1)
    free_seconds = time.perf_counter() - begun
    best = best_fixed_decision(domain, loss, data.features, data.labels)
    # A missing record costs nobody anything.
    present = np.where(np.isfinite(data.features).all(axis=1), data.labels, np.nan)
    nothing = constant_losses(loss, 0.0, present)
    guarantee = models[0].guarantee
    records_read = RecordShares.of(
        loss._flags(domain, data.features, data.labels),
        {"missing": ~np.isfinite(data.features)},
        data.nonprivate_flags,
        names=data.feature_names,
    )
    return FitReport(
        stream=data.summary(),
        settings={
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "records": len(data),
            "repeats": count,
            "seed": seed,
            **options,
        },
        domain=domain.to_dict(),
        loss=loss.to_dict(),
        parameters=models[0].parameters.to_dict(),
        guarantee=guarantee.to_dict(),
        guarantee_text=str(guarantee),
        private=tuple(average(model.theta) for model in models),
        nonprivate=(average(free.theta),),
        best_fixed=fixed_facts(best),
        zero=totals(nothing),
        versions=versions(),
        timing={
            "private_seconds": seconds,
            "nonprivate_seconds": free_seconds,
            "total_seconds": time.perf_counter() - started,
        },
        rows={"skipped": 0, "played": len(data), "beyond_horizon": len(stream) - len(data)},
        nonprivate_records=asdict(records_read),
    )
