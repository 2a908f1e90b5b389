"""Several learners at several budgets on one stream, repeated: the same privacy for all."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpoco._validation import positive_int
from dpoco.accounting import Budget, Guarantee
from dpoco.errors import CalibrationError
from dpoco.evaluation._measures import versions
from dpoco.evaluation._repeat import repeat
from dpoco.evaluation._seeds import SeedTree
from dpoco.random import Source
from dpoco.trace import Trace

__all__ = ["COMPARISON_SCHEMA", "Comparison", "ComparisonRow", "compare"]

COMPARISON_SCHEMA = "dpoco.comparison/1"

Builder = Callable[[Budget | None, Source | None], Any]


@dataclass(frozen=True)
class ComparisonRow:
    """One learner at one budget. **Not private**.

    Attributes
    ----------
    learner : str
        Its name in the comparison.
    budget : dict or None
        ``epsilon`` and ``delta`` that were asked for; None without privacy.
    average_losses, regrets, switches : tuple
        One entry a run: mean loss per round, total loss minus the comparator's, changes of
        decision. Empty if the learner was refused.
    guarantee : dict or None
        As of ``Guarantee.to_dict``; None if refused.
    refused : str or None
        Why the learner cannot be calibrated to this budget.
    """

    learner: str
    budget: dict[str, float] | None
    average_losses: tuple[float, ...]
    regrets: tuple[float, ...]
    switches: tuple[int, ...]
    guarantee: dict[str, Any] | None
    refused: str | None = None

    @property
    def average_loss(self) -> float | None:
        """Median of the average losses; None if refused."""
        return statistics.median(self.average_losses) if self.average_losses else None

    @property
    def regret(self) -> float | None:
        """Median of the regrets; None if refused."""
        return statistics.median(self.regrets) if self.regrets else None


@dataclass(frozen=True)
class Comparison:
    """What `compare` measured. **Not private**: computed from raw records.

    Attributes
    ----------
    stream : dict
        Public facts about the stream.
    settings : dict
        Budgets, repeats and seed, and whatever the caller adds.
    comparator : dict
        ``name``, ``average_loss`` and ``total_loss`` of what regret is measured against.
    rows : tuple of ComparisonRow
        In the order budgets x learners.
    versions : dict
        Of this library, NumPy and Python.
    traces : dict
        Traces by (learner, index of the budget), for figures; not in `to_dict`.
    """

    stream: dict[str, Any]
    settings: dict[str, Any]
    comparator: dict[str, Any]
    rows: tuple[ComparisonRow, ...]
    versions: dict[str, str]
    traces: dict[tuple[str, int], list[Trace]]

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry; a function of stream, settings and seed."""
        return {
            "schema": COMPARISON_SCHEMA,
            "private": False,
            "stream": self.stream,
            "settings": self.settings,
            "comparator": self.comparator,
            "rows": [
                {**asdict(row), "average_loss": row.average_loss, "regret": row.regret}
                for row in self.rows
            ],
            "versions": self.versions,
        }

    def to_json(self) -> str:
        """Return the comparison as indented JSON text, without NaN or infinity."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    def __repr__(self) -> str:
        return (
            f"<dpoco.evaluation.Comparison of {len(self.rows)} rows: not private, for evaluation "
            "only>"
        )


def compare(
    learners: Mapping[str, Builder],
    data: tuple[Any, ...],
    *,
    budgets: Sequence[Budget | None],
    comparator: Mapping[str, Any],
    repeats: int = 5,
    seed: int | None = None,
    stream: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Play several learners at several budgets over one stream, each with independent noise.

    Every learner is held to the same budget, for the same rounds and the same neighbouring
    relation; if its guarantee says otherwise, that is an error.

    Parameters
    ----------
    learners : mapping of str to callable
        ``build(budget, source)`` returns an unstarted learner.
    data : tuple
        The stream, as ``run`` takes it: ``(features, labels)`` or ``(losses,)``.
    budgets : sequence of Budget or None
        None is without noise: it is run once.
    comparator : mapping
        ``name`` and ``total_loss`` of what regret is measured against.
    repeats : int, default 5
        Runs of each learner at each budget.
    seed : int, optional
        Root of the seeds; a cell's noise depends on it, the learner's name, the budget and the
        number of the run, on nothing else. None is the operating system's entropy.
    stream, settings : mapping, optional
        JSON-able facts to keep.
    progress : callable, optional
        Called as ``progress(phase, done, total)``.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError, TypeError
        For bad arguments, or guarantees that are not of one relation.

    Notes
    -----
    A learner that no noise scale brings to a budget is refused there, and the row says why.
    """
    count = positive_int("repeats", repeats, maximum=10**6)
    if not learners or not budgets:
        raise ValueError("a comparison needs learners and budgets")
    rows: list[ComparisonRow] = []
    traces: dict[tuple[str, int], list[Trace]] = {}
    relations: set[str] = set()
    total = float(comparator["total_loss"])
    for index, budget in enumerate(budgets):
        for name, build in learners.items():
            asked = None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta}
            root = None
            if seed is not None:
                parts = ["none"] if budget is None else [repr(budget.epsilon), repr(budget.delta)]
                root = SeedTree(seed).child("compare", name, *parts)

            def tell(done: int, all_rounds: int, name: str = name) -> None:
                if progress is not None:
                    progress(name, done, all_rounds)

            try:
                guarantee: Guarantee = build(budget, None).guarantee
            except CalibrationError as error:
                rows.append(ComparisonRow(name, asked, (), (), (), None, str(error)))
                continue
            if budget is not None:
                guarantee.require(budget)
                relations.add(guarantee.relation)
                if len(relations) > 1:
                    raise ValueError("the learners' guarantees are of different relations")
            runs = repeat(
                lambda source, build=build, budget=budget: build(budget, source),  # type: ignore[misc]
                *data,
                repeats=1 if budget is None else count,
                seed=root,
                progress=tell,
            )
            played = list(runs.values())
            traces[name, index] = played
            sums = [float(np.sum(trace.losses)) for trace in played]
            rows.append(
                ComparisonRow(
                    name,
                    asked,
                    tuple(value / len(trace) for value, trace in zip(sums, played, strict=True)),
                    tuple(value - total for value in sums),
                    tuple(len(trace.switches) for trace in played),
                    guarantee.to_dict(),
                )
            )
    return Comparison(
        stream=dict(stream or {}),
        settings={
            "budgets": [
                None if budget is None else {"epsilon": budget.epsilon, "delta": budget.delta}
                for budget in budgets
            ],
            "learners": list(learners),
            "repeats": count,
            "seed": seed,
            **(settings or {}),
        },
        comparator=dict(comparator),
        rows=tuple(rows),
        versions=versions(),
        traces=traces,
    )
