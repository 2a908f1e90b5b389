"""From the settings of ``dpoco run`` and ``dpoco compare`` to games of records and labels.

Every default only depends on public quantities: the numbers of rounds and columns, and the loss.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpoco import datasets
from dpoco._validation import (
    LARGEST_HORIZON,
    Fields,
    choice,
    choose_name,
    positive_float,
    positive_int,
)
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.ranges import split
from dpoco.cli._settings import Settings, read_options, read_participation, refuse_useless
from dpoco.cli._shell import Note
from dpoco.cli._tables import (
    Declaration,
    Saved,
    ask,
    check_binary,
    feature_columns,
    load_stream,
    open_table,
    unknown_columns,
)
from dpoco.datasets import Schema, Stream, Table
from dpoco.domains import LpBall
from dpoco.evaluation import games
from dpoco.learners import Learner, learner_named
from dpoco.learning.choice import UNKNOWN, UPDATES, choose
from dpoco.losses import HuberLoss, LogisticLoss, MarginLoss, SquaredLoss
from dpoco.random import Source
from dpoco.ranges import RangeFinder

_TABLES = ("records", "batch")
# Where learners of other data are played.
_ELSEWHERE = {
    "experts": "learner.run(losses) or dpoco.evaluation.play",
    "arms": "learner.run(contexts, rewards) or dpoco.evaluation.play (live: dpoco serve)",
    "surface": "learner.run(losses) or dpoco.evaluation.play (quantiles of a column: dpoco monitor "
    "--quantiles)",
}
_AUTO = Learner("auto", "", "records", "the learner of the least expected regret", ball=2.0)
_LOSSES = {"huber": HuberLoss, "logistic": LogisticLoss, "squared": SquaredLoss}
# Euclidean length of the largest decision. Logistic: a confident answer needs margins of several
# units; chosen after runs on the shuttle stream with 2 to 16, where 6 to 12 are equally good.
# Regression: labels are scaled to [-1, 1].
_DECISION_LENGTH = {"logistic": 8.0, "squared": 1.0, "huber": 1.0}
_USUAL = Settings()
_OF_A_FILE = (
    "features", "range", "header", "person", "positive", "categories",
    "missing", "anonymous", "format", "encoding", "separator", "decimal", "skip_lines", "intercept",
)  # fmt: skip
_OFF = 2.0**80  # half-width of a column that is switched off


@dataclass(frozen=True)
class Task:
    """The task of a run: settings, their table, and how a saved learner read its records.

    Attributes
    ----------
    asked : Settings
        The given settings.
    declared : Declaration
        Their declarations of columns.
    table : Table or None
        None for bundled and simulated streams.
    resumed : object
        The saved learner to continue, or None.
    saved : Saved or None
        How it read its records.
    people : sequence or None
        The persons behind the rows of the table.
    searches : bool
        Whether undeclared ranges are searched privately in the first rows.
    search : Guarantee or None
        Guarantee of the completed search.
    finder : RangeFinder or None
        The search, if this run made it.
    """

    asked: Settings
    declared: Declaration
    table: Table | None = None
    resumed: object = None
    saved: Saved | None = None
    people: Sequence[str] | None = None
    searches: bool = False
    search: Guarantee | None = None
    finder: RangeFinder | None = None

    def covered_rounds(self, rounds: int) -> int:
        """Return how many rounds the guarantee covers; `rounds` unless another number was given."""
        asked = self.asked.horizon
        return positive_int("horizon", rounds if asked is None else asked)

    def describe(self, schema: Schema) -> Fields:
        """Return how records were read, for the state; `ValueError` if it differs."""
        if self.saved is not None:
            self.saved.check(schema)
        own = {"schema": schema.to_dict(), "person": self.asked.person}
        return own if self.search is None else {**own, "search": self.search.to_dict()}


def find_learners(names: Sequence[str]) -> list[Learner]:
    """Return learners of records by name; `ValueError` says where others are played."""
    found = []
    for name in names:
        plays = (*_TABLES, *_ELSEWHERE)
        entry = _AUTO if name == _AUTO.name else learner_named(name, plays)
        if entry.plays in _ELSEWHERE:
            raise ValueError(
                f"{entry.name} does not learn from labelled records: in Python, use "
                f"{_ELSEWHERE[entry.plays]}"
            )
        found.append(entry)
    return found


def make_games(
    entries: Sequence[Learner],
    asked: Settings,
    resumed: object = None,
    saved: Saved | None = None,
    *,
    searches: bool = False,
) -> list[games.Game]:
    """Return the games of learners on the same stream, which is loaded once.

    Parameters
    ----------
    entries : sequence of Learner
        Learners of records, or one-time fits.
    asked : Settings
        The given settings.
    resumed : object
        The saved learner to continue.
    saved : Saved, optional
        How it read its records.
    searches : bool
        Whether undeclared ranges of records are searched privately in the first rows.
    """
    for entry in entries:
        refuse_useless(entry, asked)
    read_participation(asked)
    if asked.synthetic is not None and asked.data is not None:
        raise ValueError("synthetic simulates a stream: leave out the data file")
    of_file = asked.data is not None and asked.data not in datasets.BUNDLED
    # Without names, the rule could not be enforced.
    if of_file and asked.rounds_per_person is not None and asked.person is None:
        raise ValueError("--rounds-per-person needs --person COLUMN: whose record each row is")
    if (
        asked.data is not None
        # A word that is not a file may be a misspelt bundled stream.
        and re.fullmatch(r"\w+", asked.data)
        and not Path(asked.data).exists()
    ):
        choose_name("file, nor bundled stream,", asked.data, tuple(datasets.BUNDLED))
    if not of_file and any(getattr(asked, name) != getattr(_USUAL, name) for name in _OF_A_FILE):
        raise ValueError("settings that describe a file need a FILE")
    people = None
    task = Task(asked, Declaration.of(asked), resumed=resumed, saved=saved, searches=searches)
    if of_file:
        declared = task.declared
        if saved is not None:
            declared = declared.with_saved(saved.schema)
            saved.check_names(declared)
        task = replace(task, declared=declared, table=open_table(asked))
        if asked.person is not None and task.table is not None:
            people = datasets.read_people(task.table, asked.person, alone=asked.anonymous)
        task = replace(task, people=people)
    found = _records(entries, task)
    for game in found:
        if not game.counted.any():
            raise ValueError(_nothing_known(game))
    if people is None:
        return found
    # The search used the first rows, and also their people.
    return [replace(game, persons=people[len(people) - len(game.data[0]) :]) for game in found]


def _nothing_known(game: games.Game) -> str:
    """Return why there is nothing to learn from: columns that every row lacks."""
    names = (*game.records.feature_names, "the label")
    rows = np.column_stack([game.records.features, game.records.labels])
    lacking = [name for name, cells in zip(names, rows.T, strict=True)
               if not np.isfinite(cells).any()]  # fmt: skip
    why = f": there is no value in {', '.join(lacking)}" if lacking else ""
    return (
        f"nothing can be learned from {game.stream['name']}, for every row has a missing value"
        f"{why}; leave such a column out (--features), or say what stands for missing cells "
        "(--set missing=COLUMN=VALUE)"
    )


def _choice(
    entry: Learner, problem: Any, covered: int, task: Task, **more: Any
) -> tuple[Learner, Fields, str]:
    """Return a learner, its options, and the reason for it if the library chose it."""
    asked = task.asked
    if entry.name != _AUTO.name:
        return entry, read_options(entry, asked), ""
    budget = Budget._over(asked.epsilon, asked.delta, covered)
    # A learner without a horizon must learn soon.
    horizon = None if covered == LARGEST_HORIZON else covered
    more |= {"horizon": horizon, "participation": read_participation(asked)}
    ranked = choose(problem, budget=budget, **more)
    resumed = task.resumed  # is kept, although another learner may be better by now
    same = (each for each in ranked if resumed is not None and each.matches(resumed))
    chosen = next(same, ranked[0])
    entry = learner_named(chosen.learner.partition(".")[2])
    common = read_options(entry, replace(asked, option={}))
    return entry, common | chosen.options, str(chosen)


# ---- records -------------------------------------------------------------------------------------


def _load_bundled(asked: Settings, loss: str) -> Stream:
    """Load a bundled stream by name, or a simulated one.

    The default is the shuttle stream, or the shorter phishing stream if the installed river does
    not have it.
    """
    if asked.label is not None:
        raise ValueError("settings that describe a file need a FILE")
    if asked.synthetic is not None:
        if loss != "squared":
            raise ValueError("synthetic needs --loss squared: it is a regression")
        return datasets.linear_regression_stream(asked.synthetic, 10, seed=0)
    if asked.data is not None:
        if datasets.BUNDLED[asked.data].kind == "experts":
            raise ValueError(
                f"{asked.data} has losses of experts: in Python, dpoco.datasets.load_losses reads "
                f"them for {_ELSEWHERE['experts']}"
            )
        return datasets.load(asked.data)
    try:
        return datasets.load_shuttle()
    except ImportError:
        return datasets.load_phishing()


def _load_stream(task: Task) -> Stream:
    """Load the table as declared, or a bundled stream."""
    asked, table, declared = task.asked, task.table, task.declared
    loss = asked.loss
    # A bundled stream has its own public scaling.
    if table is None:
        return _load_bundled(asked, loss)
    kinds = table.kinds()
    columns = feature_columns(table, declared, kinds)
    ask(table, declared, columns, kinds, loss, _no_search(task, columns, kinds))
    task_name = "classification" if loss == "logistic" else "regression"
    stream = load_stream(table, declared, columns, kinds, task_name, loss, asked.intercept)
    if loss == "logistic" and not (declared.label_range or declared.positive):
        check_binary(stream.labels, table.title, str(declared.label))
    return stream


def _finder(task: Task, columns: int, rounds: int) -> RangeFinder:
    """Return the search for ranges in the first rows; `ValueError` if there are too few rows."""
    asked, covered = task.asked, task.covered_rounds(rounds)
    rule = read_participation(asked)
    budget, _ = split_budget(Budget._over(asked.epsilon, asked.delta, covered), rule is not None)
    source = None if asked.seed is None else Source.seeded(asked.seed)
    finder = RangeFinder(columns, budget=budget, horizon=covered, participation=rule, source=source)
    # The learner needs at least one row after the search.
    if finder.horizon >= rounds:
        raise ValueError(
            f"a private search for ranges takes {finder.horizon:,} rows, and there are {rounds:,}"
        )
    return finder


def split_budget(budget: Budget, several: bool) -> tuple[Budget, Budget]:
    """Return the budgets of a search and of the following learner, with a margin for rounding."""
    # Rounding errors of the composed curve must not lift the sum above the budget.
    room = 1.0 - 1e-6
    return split(Budget._derived(room * budget.epsilon, room * budget.delta), several)


def _no_search(task: Task, columns: Sequence[str], kinds: dict[str, str]) -> str:
    """Return why the ranges of columns cannot be searched, from public sizes."""
    unknown = unknown_columns(task.declared, columns, kinds)
    if not task.searches or not unknown or task.table is None:
        return ""
    try:
        _finder(task, len(unknown), len(task.table.entries(unknown[0])))
    except ValueError as error:
        why, _, _ = str(error).partition(": ")  # the rest names arguments of Python
        return f" (they cannot be searched here: {why})"
    return ""


def _search_ranges(task: Task) -> tuple[Task, int]:
    """Return the task with the ranges found, and the number of rows used for the search."""
    table, saved, asked = task.table, task.saved, task.asked
    if saved is not None and saved.search is not None:
        # The search of a saved learner is complete. Its rows are in front only if the table begins
        # with the first row.
        skipped = saved.search.horizon if asked.skip_played else 0
        return replace(task, search=saved.search), skipped
    if table is None or saved is not None or not task.searches:
        return task, 0
    kinds = table.kinds()
    columns = feature_columns(table, task.declared, kinds)
    declared = replace(task.declared, features=columns)
    unknown = unknown_columns(declared, columns, kinds)
    if not unknown or _no_search(task, columns, kinds):
        return replace(task, declared=declared), 0
    # We ask for everything else that is missing before the search spends its budget.
    ask(table, replace(declared, general=(-1.0, 1.0)), columns, kinds, asked.loss)
    rows = table.select(unknown)
    finder = _finder(task, len(unknown), len(rows))
    first = finder.horizon
    finder.run(rows[:first], persons=None if task.people is None else task.people[:first])
    warnings.warn(
        f"no --range of {', '.join(unknown)}: a private search for ranges takes the first "
        f"{first:,} rows, and the learner all others",
        Note, stacklevel=1,
    )  # fmt: skip
    pairs = zip(*finder.ranges.parts, strict=True)
    # A column that is switched off has a range in which all its values are near the middle.
    found = [(middle - (half or _OFF), middle + (half or _OFF)) for middle, half in pairs]
    declared = replace(
        declared,
        ranges={**declared.ranges, **dict(zip(unknown, found, strict=True))},
        missing={**dict.fromkeys(unknown, "middle"), **declared.missing},
    )
    return replace(task, declared=declared, search=finder.guarantee, finder=finder), first


def _schema(stream: Stream, task: Task) -> Schema:
    """Return the schema of labelled records."""
    names, label = stream.feature_names, task.asked.label or "label"
    if stream.transform is None:  # a simulated stream
        return Schema(names, ((-1.0, 1.0),) * len(names), False, stream.task, label)
    return stream.schema(label)


def _linear_problem(asked: Settings, stream: Stream, ball: float) -> tuple[LpBall, MarginLoss]:
    """Return domain and loss; the default domain is a ball with the exponent `ball`."""
    name, dimension = asked.loss, stream.dimension
    p = ball if asked.p is None else float(asked.p)
    radius = asked.radius
    if radius is None:
        # The longest decision of the ball has this length in l2, for any p.
        radius = _DECISION_LENGTH[name] / LpBall(dimension, p, 1.0).max_norm(2.0)
    domain = LpBall(dimension, p, radius)
    length = _typical_length(stream)
    if asked.feature_bound is not None:
        length = positive_float("feature_bound", asked.feature_bound)
    bounds: Fields = {"feature_bound": _dual_bound(length, domain)}
    if domain.dual_exponent != 2.0:
        bounds["feature_bound_l2"] = length
    if name != "logistic":
        bounds["label_bound"] = 1.0  # their declared range is scaled to this one
    if asked.slope_bound is not None:
        if name != "logistic":
            raise ValueError("slope-bound is for --loss logistic")
        bounds["slope_bound"] = asked.slope_bound
    return domain, _LOSSES[name](**bounds)


def _typical_length(stream: Stream) -> float:
    """Return the root mean square length of a record that is uniform in the cube [-1, 1]^d.

    For the categories of a column, one feature is 1 and the others are 0.
    """
    lists = [own for name, own in stream.coding.categories.items()
             if f"{name}={own[0]}" in stream.feature_names]  # fmt: skip
    return math.sqrt((stream.dimension - sum(map(len, lists))) / 3.0 + len(lists))


def _records(entries: Sequence[Learner], task: Task) -> list[games.Game]:
    choice("loss", task.asked.loss, _LOSSES)
    if any(entry.plays != "records" for entry in entries):  # a fit has no first rows
        task = replace(task, searches=False)
    task, searched = _search_ranges(task)
    stream = _load_stream(task).drop(searched)
    kept = task.describe(_schema(stream, task))
    covered = task.covered_rounds(len(stream) + searched)
    if task.saved is None and searched:
        # The guarantee covers all rows, but those of the search are not rounds of the learner.
        covered -= searched
    found = []
    for entry in entries:
        domain, loss = _linear_problem(task.asked, stream, entry.ball or 2.0)
        entry, options, why = _choice(entry, (domain, loss), covered, task, drift=task.asked.drift)
        if entry.name == "tree-frank-wolfe":
            rounds = UNKNOWN if covered == LARGEST_HORIZON else covered
            batch = max(1, rounds // UPDATES)
            options = {"batch": batch, **options}
        if entry.name == "noisy-ftrl" and options.get("statistics") != "quadratic":
            # This step size is for the expected case and not for the worst case.
            options = {"step_size": "predicted", **options}
        horizon = min(covered, len(stream)) if entry.plays == "batch" else covered
        game = games.game_of_records(entry.load(), stream, domain, loss, horizon=horizon, **options)
        found.append(
            replace(game, chosen=why, described=kept, search=task.search, finder=task.finder)
        )
    return found


def _dual_bound(length: float, domain: LpBall) -> float:
    """Return the largest ``||x||_q`` for x in the cube [-1, 1]^d with ``||x||_2 <= length``.

    For q >= 2, ``sum |x|^q <= sum x^2``; for q < 2, by Hoelder's inequality. Declaring it clips
    nothing more.
    """
    q, d = domain.dual_exponent, domain.dimension
    longest = min(length, math.sqrt(d))
    if math.isinf(q):
        return min(1.0, longest)
    if q >= 2.0:
        return min(longest, math.pow(longest, 2.0 / q))
    return longest * math.pow(d, 1.0 / q - 0.5)
