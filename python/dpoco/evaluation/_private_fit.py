"""A batch baseline: one private fit, what its decision should be compared with, and the report."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from dpoco._validation import positive_int
from dpoco.accounting import Budget
from dpoco.datasets import Stream
from dpoco.domains import Domain
from dpoco.evaluation._comparators import GlmLoss, best_fixed_decision
from dpoco.evaluation._game import Step, constant_losses, totals, versions
from dpoco.evaluation._private import fixed_facts
from dpoco.evaluation._runs import SeedTree, root_source
from dpoco.random import Source
from dpoco.trace import RecordShares

FIT_SCHEMA = "dpoco.fit-report/1"


@dataclass(frozen=True)
class FitReport:
    """Private fits to a whole data set against their comparators; not private itself.

    Every loss is the average over the records of the fit, clipped as a learner clips them: how a
    decision does on new records is not measured. Every field but `timing` is a function of the
    stream, the settings and the seed.

    Attributes
    ----------
    stream : dict
        Public facts: name, rounds (here records), dimension, names, source, scaling.
    settings : dict
        Every argument, echoed; ``seed`` is None for operating-system entropy.
    domain, loss, parameters, guarantee : dict
        As written by their ``to_dict``; ``from_dict`` of each restores them.
    guarantee_text : str
        The guarantee of one fit in words, with its conditions and proof.
    private, nonprivate : tuple of float
        Average loss of every fit, with and without noise.
    best_fixed : dict
        The best decision: ``average_loss``, ``total_loss``, the solution and its certificate.
    zero : dict
        ``average_loss`` and ``total_loss`` of predicting zero for every record.
    versions : dict
        Of this library, NumPy and Python.
    timing : dict
        Seconds.
    rows, nonprivate_records : dict
        As in `RunReport`.
    """

    stream: dict[str, Any]
    settings: dict[str, Any]
    domain: dict[str, Any]
    loss: dict[str, Any]
    parameters: dict[str, Any]
    guarantee: dict[str, Any]
    guarantee_text: str
    private: tuple[float, ...]
    nonprivate: tuple[float, ...]
    best_fixed: dict[str, Any]
    zero: dict[str, Any]
    versions: dict[str, str]
    timing: dict[str, Any]
    rows: dict[str, int] = field(default_factory=dict)
    nonprivate_records: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("private", "nonprivate"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            if not getattr(self, name):
                raise ValueError(f"{name} needs one entry a fit, at least one")

    @property
    def price_of_privacy(self) -> float:
        """Average loss of the private fits (median) minus that of the same without noise."""
        return statistics.median(self.private) - statistics.median(self.nonprivate)

    def summary(self) -> dict[str, Any]:
        """Return the main numbers: average losses of all players."""
        return {
            "records": self.stream["rounds"],
            "private": {
                "min": min(self.private),
                "median": statistics.median(self.private),
                "max": max(self.private),
            },
            "nonprivate_average_loss": statistics.median(self.nonprivate),
            "best_fixed_average_loss": self.best_fixed["average_loss"],
            "zero_average_loss": self.zero["average_loss"],
            "price_of_privacy": self.price_of_privacy,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        return {"schema": FIT_SCHEMA, "summary": self.summary(), **asdict(self)}

    def to_json(self) -> str:
        """Return the report as indented JSON text, without NaN or infinity."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FitReport:
        """Return the report written by `to_dict`.

        Raises
        ------
        ValueError
            If the record is not one, or of another version.
        """
        if not isinstance(record, Mapping) or record.get("schema") != FIT_SCHEMA:
            raise ValueError(f"not a report of schema {FIT_SCHEMA}")
        body = {k: v for k, v in record.items() if k not in ("schema", "summary")}
        for name in ("rows", "nonprivate_records"):  # earlier reports have none
            body.setdefault(name, {})
        if set(body) != {each.name for each in fields(cls)}:
            raise ValueError("the report misses fields, or has unknown ones")
        return cls(**body)

    def __repr__(self) -> str:
        return (
            f"<dpoco.evaluation.FitReport on {self.stream.get('name')!r}, "
            f"{self.stream.get('rounds')} records: not private, for evaluation only>"
        )


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
