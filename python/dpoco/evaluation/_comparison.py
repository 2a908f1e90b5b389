"""Several learners at several budgets on one stream, repeated: the same privacy for all.

The noise of a repeated run hangs on the number of the run and nothing else.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpoco._learner import Progress
from dpoco._validation import positive_int, whole_number
from dpoco.accounting import Budget, Guarantee
from dpoco.errors import CalibrationError
from dpoco.evaluation._runs import SeedTree, part_of, play_all
from dpoco.evaluation.playing import budget_record, losses_of, switches_of, versions
from dpoco.evaluation.reports import Report
from dpoco.learners import plays
from dpoco.random import Source
from dpoco.trace import Trace


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
        numbers = [whole_number("numbers of runs", number) for number in repeats]
        if len(set(numbers)) != len(numbers):
            raise ValueError("numbers of runs must differ")
    else:
        numbers = list(range(positive_int("repeats", repeats, maximum=10**6)))
    root = None if seed is None else seed if isinstance(seed, SeedTree) else SeedTree(seed)
    traces = play_all(build, _sources(root, numbers), data, progress)
    return dict(zip(numbers, traces, strict=True))


def _sources(root: SeedTree | None, numbers: Iterable[int]) -> list[Source]:
    return [Source() if root is None else root.child("run", n).source() for n in numbers]


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
        One entry a run: mean loss per round (of bandits, of the largest declared reward minus the
        reward), total loss minus the comparator's, changes of decision. Empty if the learner was
        refused. Batch baselines have losses only.
    guarantee : dict or None
        As of ``Guarantee.to_dict``; None if refused.
    refused : str or None
        Why the learner cannot be calibrated to this budget.
    access : {"online", "offline"}
        "offline": one fit to all records, whose decision is judged on these same records. It saw
        them beforehand: its losses are not those of an online learner, and it has no regret.
    """

    learner: str
    budget: dict[str, float] | None
    average_losses: tuple[float, ...]
    regrets: tuple[float, ...]
    switches: tuple[int, ...]
    guarantee: dict[str, Any] | None
    refused: str | None = None
    access: str = "online"

    @property
    def average_loss(self) -> float | None:
        """Median of the average losses; None if refused."""
        return statistics.median(self.average_losses) if self.average_losses else None

    @property
    def regret(self) -> float | None:
        """Median of the regrets; None if refused."""
        return statistics.median(self.regrets) if self.regrets else None


@dataclass(frozen=True)
class Comparison(Report):
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

    schema: ClassVar[str] = COMPARISON_SCHEMA
    stream: dict[str, Any]
    settings: dict[str, Any]
    comparator: dict[str, Any]
    rows: tuple[ComparisonRow, ...]
    versions: dict[str, str]
    traces: dict[tuple[str, int], list[Trace]]

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry; a function of stream, settings and seed."""
        rows = [
            {**asdict(row), "average_loss": row.average_loss, "regret": row.regret}
            for row in self.rows
        ]
        record = {each.name: getattr(self, each.name) for each in fields(self)}
        del record["traces"]
        return {"schema": self.schema, "private": False, **record, "rows": rows}

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

    Every learner is held to the same budget, for the same rounds and the same change of
    the data; if its guarantee says otherwise, that is an error.

    Parameters
    ----------
    learners : mapping of str to callable
        ``build(budget, source)`` returns an unstarted learner.
    data : tuple
        The stream, as ``run`` takes it: ``(features, labels)``, ``(losses,)`` or, for bandits,
        ``(contexts, rewards)``; batch baselines are fitted to ``(features, labels)``.
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
        For bad arguments, or guarantees that are not about one change and one view.

    Notes
    -----
    A batch baseline, of `dpoco.frank_wolfe`, is built for the number of records, so that its
    guarantee is known. A learner that no noise scale brings to a budget is refused there, and the
    row says why.
    """
    count = positive_int("repeats", repeats, maximum=10**6)
    if not learners or not budgets:
        raise ValueError("a comparison needs learners and budgets")
    rows: list[ComparisonRow] = []
    traces: dict[tuple[str, int], list[Trace]] = {}
    neighbours: set[tuple[str, str]] = set()
    total = float(comparator["total_loss"])
    for index, budget in enumerate(budgets):
        asked = None if budget is None else budget_record(budget)
        for name, build in learners.items():
            row = partial(ComparisonRow, name, asked)
            try:
                first = build(budget, None)
                guarantee: Guarantee = first.guarantee
            except CalibrationError as error:
                rows.append(row((), (), (), None, str(error), _access(build)))
                continue
            if budget is not None:
                guarantee.require(budget)
                neighbours.add((guarantee.change, guarantee.view))
                if len(neighbours) > 1:
                    raise ValueError(
                        "the learners' guarantees are about different changes or views"
                    )
            root = None
            if seed is not None:
                parts = ["none"] if budget is None else [repr(budget.epsilon), repr(budget.delta)]
                root = SeedTree(seed).child("compare", name, *parts)
            sources = _sources(root, range(1 if budget is None else count))
            tell = None if progress is None else partial(progress, name)
            seeded = partial(build, budget)
            if plays(first) == "batch":
                fits = _fit(seeded, data, sources, tell)
                rows.append(row(fits, (), (), guarantee.to_dict(), access="offline"))
                continue
            played = traces[name, index] = play_all(seeded, sources, data, tell)
            sums = [float(np.sum(losses_of(trace))) for trace in played]
            rows.append(
                row(
                    tuple(value / len(trace) for value, trace in zip(sums, played, strict=True)),
                    tuple(value - total for value in sums),
                    tuple(len(switches_of(trace)) for trace in played),
                    guarantee.to_dict(),
                )
            )
    return Comparison(
        stream=dict(stream or {}),
        settings={
            "budgets": [None if budget is None else budget_record(budget) for budget in budgets],
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


def _access(build: Builder) -> str:
    """Tell what kind of learner was refused, by one without a budget."""
    try:
        return "offline" if plays(build(None, None)) == "batch" else "online"
    except CalibrationError:
        return "online"


def _fit(
    build: Callable[[Source | None], Any],
    data: tuple[Any, ...],
    sources: Sequence[Source],
    progress: Progress | None,
) -> tuple[float, ...]:
    """Fit a batch baseline several times: the average loss of every decision on the records."""
    found = []
    for number, source in enumerate(sources):
        model = build(source)
        model.fit(*data, progress=part_of(progress, number, len(sources)))
        losses = model.loss.batch_values(model.domain, model.theta, *data)
        found.append(float(np.mean(losses)))
    return tuple(found)
