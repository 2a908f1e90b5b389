"""From the settings of ``dpoco run`` and ``dpoco compare`` to games.

The kind of rounds decides which game is played. Classes are the arms of bandits. For Lipschitz
losses, a decision is a number that should be near the column's next value, or a point near the next
values of two columns; the losses are those whose minimisers are quantiles and geometric medians.

Every default only depends on public quantities: the numbers of rounds and columns, and the loss.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import datasets
from dpoco._validation import (
    LARGEST_HORIZON,
    Fields,
    FloatArray,
    choice,
    choose_name,
    positive_float,
    positive_int,
)
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.ranges import split
from dpoco.cli._settings import (
    Settings,
    parse_range,
    read_list,
    read_options,
    read_participation,
    refuse_useless,
)
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
from dpoco.domains import Box, LpBall
from dpoco.evaluation import games
from dpoco.learners import Learner, learner_named
from dpoco.learning.choice import UNKNOWN, UPDATES, choose
from dpoco.losses import HuberLoss, LogisticLoss, MarginLoss, SquaredLoss
from dpoco.random import Source
from dpoco.ranges import RangeFinder

FAMILIES = ("records", "experts", "arms", "surface", "batch")
STREAMS_OF_LOSSES = ("pollsters", "stocks")
_AUTO = Learner("auto", "", "records", "the learner of the least expected regret", ball=2.0)
_LOSSES = {"huber": HuberLoss, "logistic": LogisticLoss, "squared": SquaredLoss}
# Euclidean length of the largest decision. Logistic: a confident answer needs margins of several
# units; chosen after runs on the shuttle stream with 2 to 16, where 6 to 12 are equally good.
# Regression: labels are scaled to [-1, 1].
_DECISION_LENGTH = {"logistic": 8.0, "squared": 1.0, "huber": 1.0}
_USUAL = Settings()
_OF_A_FILE = (
    "features", "range", "loss_range", "header", "person", "positive", "categories",
    "missing", "anonymous", "format", "encoding", "separator", "decimal", "skip_lines", "intercept",
)  # fmt: skip
_OFF = 2.0**80  # half-width of a column that is switched off
_MOST_CLASSES = 4096  # the rewards are a table of rounds x classes


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

    def describe(self, family: str, schema: Schema) -> Fields:
        """Return how records were read, for the state; `ValueError` if it differs."""
        if self.saved is not None:
            self.saved.check(schema)
        own = {"family": family, "schema": schema.to_dict(), "person": self.asked.person}
        return own if self.search is None else {**own, "search": self.search.to_dict()}


def find_learners(
    names: Sequence[str], families: Collection[str], asked: Settings
) -> list[Learner]:
    """Return learners by name; "auto" is for experts if the others or the settings are."""
    found = [_AUTO if name == _AUTO.name else learner_named(name, families) for name in names]
    of_experts = asked.loss_range is not None or asked.data in STREAMS_OF_LOSSES
    of_experts = of_experts or any(entry.plays == "experts" for entry in found)
    auto = replace(_AUTO, plays="experts") if of_experts else _AUTO
    return [auto if entry is _AUTO else entry for entry in found]


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
        Learners that all play records (or are one-time fits), experts, arms, or functions.
    asked : Settings
        The given settings.
    resumed : object
        The saved learner to continue.
    saved : Saved, optional
        How it read its records.
    searches : bool
        Whether undeclared ranges of records are searched privately in the first rows.
    """
    families = {"records" if entry.plays == "batch" else entry.plays for entry in entries}
    if len(families) > 1:
        raise ValueError("learners of records, of experts and of arms have no stream in common")
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
    family, people = families.pop(), None
    task = Task(asked, Declaration.of(asked), resumed=resumed, saved=saved, searches=searches)
    if of_file:
        declared = task.declared
        if saved is not None:
            declared = declared.with_saved(saved.schema)
            saved.check_names(family, declared)
        task = replace(task, declared=declared, table=open_table(asked))
        if asked.person is not None and task.table is not None:
            people = datasets.read_people(task.table, asked.person, alone=asked.anonymous)
        task = replace(task, people=people)
    found = _GAMES[family](entries, task)
    for game in found:
        if not game.counted.any():
            raise ValueError(_nothing_known(game))
    if people is None:
        return found
    # The search used the first rows, and also their people.
    return [replace(game, persons=people[len(people) - len(game.data[0]) :]) for game in found]


def _nothing_known(game: games.Game) -> str:
    """Return why there is nothing to learn from: columns that every row lacks."""
    lacking = []
    if game.records is not None:
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
        return datasets.load(asked.data)
    try:
        return datasets.load_shuttle()
    except ImportError:
        return datasets.load_phishing()


def _load_stream(family: str, task: Task) -> Stream:
    """Load the table as declared, or a bundled stream."""
    asked, table, declared = task.asked, task.table, task.declared
    loss = asked.loss
    # A bundled stream has its own public scaling.
    if table is None:
        return _load_bundled(asked, "squared" if family == "arms" else loss)
    kinds = table.kinds()
    columns = feature_columns(table, declared, kinds)
    ask(table, declared, columns, kinds, family, loss, _no_search(task, columns, kinds))
    task_name = "classification" if family == "arms" or loss == "logistic" else "regression"
    told = declared.label_range or declared.positive or declared.label in declared.categories
    if family == "arms":  # unchanged labels
        declared = replace(declared, label_range=None)
    stream = load_stream(table, declared, columns, kinds, task_name, loss, asked.intercept)
    if task_name == "classification" and not told:
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
        raise ValueError(f"private ranges take {finder.horizon:,} rows, and there are {rounds:,}")
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
        return f"; {error}"
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
    ask(table, replace(declared, general=(-1.0, 1.0)), columns, kinds, "records", asked.loss)
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


def _schema(stream: Stream, task: Task, label_range: tuple[float, float] | None = None) -> Schema:
    """Return the schema of labelled records; `label_range` is for classes."""
    names, label = stream.feature_names, task.asked.label or "label"
    if stream.transform is None:  # a simulated stream
        return Schema(names, ((-1.0, 1.0),) * len(names), False, stream.task, label)
    own = stream.schema(label)
    return own if label_range is None else replace(own, label_range=label_range)


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
    stream = _load_stream("records", task).drop(searched)
    kept = task.describe("records", _schema(stream, task))
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


# ---- experts, arms, functions --------------------------------------------------------------------


def _experts(entries: Sequence[Learner], task: Task) -> list[games.Game]:
    table, between = task.table, task.asked.loss_range
    span = (0.0, 1.0) if between is None else parse_range("--loss-range", between)
    if table is None:
        losses, facts = datasets.load_losses(task.asked.data or "pollsters")
        wanted = list(facts["feature_names"])
    else:
        wanted = feature_columns(table, task.declared, table.kinds())
        if len(wanted) < 2:
            raise ValueError("losses must be at least two columns, one for each expert")
        losses = table.select(wanted)
        facts = _table_facts(table, "Losses of experts in", between or "0:1", wanted)
    schema = Schema(tuple(wanted), (span,) * len(wanted), False, "regression", "")
    more = {} if between is None else {"loss_range": span}
    covered = task.covered_rounds(len(losses))
    switches = int(task.asked.option.get("switches", 0))
    shifts = {"switches": switches, "adversary": "shifting"} if switches else {}
    found = []
    for entry in entries:
        entry, options, why = _choice(entry, losses.shape[1], covered, task, **shifts)
        game = games.game_of_experts(
            entry.load(), losses, horizon=covered, stream=facts, **options, **more
        )
        kept = task.describe("experts", schema)
        found.append(replace(game, chosen=why, described=kept))
    return found


def _table_facts(table: Table, about: str, between: str, columns: list[str]) -> Fields:
    return {
        "name": table.title,
        "description": f"{about} {table.title}",
        "scaling": f"declared range {between}, clipped",
        "feature_names": columns,
    }


def _classes(declared: Declaration) -> tuple[int, int]:
    """Return the first class and the last one."""
    if declared.label in declared.categories:
        return 0, len(declared.categories[declared.label]) - 1
    low, high = declared.label_range or (0.0, 1.0)
    if not (low.is_integer() and high.is_integer()):
        raise ValueError(
            "--range of the classes must be whole numbers: the first class and the last"
        )
    if high - low >= _MOST_CLASSES:
        raise ValueError(f"--range names more than {_MOST_CLASSES} classes")
    return int(low), int(high)


def _arms(entries: Sequence[Learner], task: Task) -> list[games.Game]:
    asked, declared = task.asked, task.declared
    sparse = [entry.name == "high-dimensional-bandit" for entry in entries]
    if asked.radius is not None and not any(sparse):
        raise ValueError(f"{entries[0].name} has no radius: its coefficients are not in a ball")
    low, high = _classes(declared)
    stream = _load_stream("arms", task)
    classes = None if stream.coding.positive else (float(low), float(high))
    kept = task.describe("arms", _schema(stream, task, classes))
    rewards = games.class_rewards(stream.labels, high - low + 1, first=low)
    # Labels in another unit, or with another first number, would teach nothing at all.
    if not np.any(rewards == 1.0):
        raise ValueError(
            f"no label of {stream.name} is a class in {low:g}..{high:g}: name the first class and "
            "the last with --range"
        )
    unknown = np.isfinite(stream.labels) & ~np.any(rewards == 1.0, axis=1)
    flags = {**stream.nonprivate_flags, "unknown_label": unknown}
    facts = {
        **replace(stream, task="classification").summary(),
        "arms": rewards.shape[1],
        "rewards": "1 for the arm of the label's class, 0 for the others; 1/2 if it is missing",
    }
    found = []
    for entry, in_ball in zip(entries, sparse, strict=True):
        options = read_options(entry, asked)
        if not in_ball:
            bound = _typical_length(stream)
        else:
            bound = 1.0  # for every entry
            radius = 1.0 if asked.radius is None else asked.radius
            options["domain"] = LpBall(stream.dimension, 1.0, radius)
        given = asked.feature_bound
        options["context_bound"] = bound if given is None else given
        game = games.game_of_arms(
            entry.load(), stream.features, rewards, horizon=task.covered_rounds(len(stream)),
            stream=facts, nonprivate_flags=flags, **options,
        )  # fmt: skip
        found.append(replace(game, described=kept))
    return found


def _pinball(quantile: float, target: float, points: FloatArray) -> FloatArray:
    """Return q (y - x) if x is too small, (1 - q) (x - y) if it is too large."""
    short = target - points[:, 0]
    loss: FloatArray = np.where(short > 0.0, quantile, quantile - 1.0) * short + 0.0
    return loss


def _distance(target: FloatArray, points: FloatArray) -> FloatArray:
    """Return Euclidean distances."""
    distance: FloatArray = np.sqrt(np.sum((points - target) ** 2, axis=1))
    return distance


def _functions(entries: Sequence[Learner], task: Task) -> list[games.Game]:
    asked, table, declared = task.asked, task.table, task.declared
    label, between = asked.label, declared.label_range or declared.general
    wanted = None if label is None else read_list(label)
    low, high = 0.0, 1.0
    if table is None:
        losses_, facts = datasets.load_losses(asked.data or "pollsters")
        names = list(facts["feature_names"])
        wanted = wanted or names[:1]
        values = losses_[:, [names.index(choose_name("column", each, names)) for each in wanted]]
        facts["feature_names"] = wanted
    else:
        if wanted is None or between is None:
            raise ValueError("still needed: --label COLUMN and --range LOW:HIGH")
        low, high = between
        table.check(wanted)
        values = table.select(wanted)
        facts = _table_facts(table, "Values of", f"{low:g}:{high:g}", wanted)
    if len(wanted) > 2 or len(set(wanted)) < len(wanted):
        raise ValueError("--label must name one column, or two different ones")
    flags: dict[str, NDArray[np.bool_]] = {
        "missing": ~np.isfinite(values), "out_of_range": (values < low) | (values > high),
    }  # fmt: skip
    # Losses are Lipschitz for any target; decisions can reach targets in the box.
    targets = np.clip(values, low, high)
    if len(wanted) == 2:
        if asked.quantile is not None:
            raise ValueError(
                "quantile needs one label column; for two columns the geometric median is learned"
            )
        losses = [partial(_distance, row) for row in targets]
        slope, what = 1.0, "distance"
    else:
        q = 0.5 if asked.quantile is None else asked.quantile
        if not 0.0 < q < 1.0:
            raise ValueError("quantile must be between 0 and 1")
        losses = [partial(_pinball, q, float(value)) for value in targets[:, 0]]
        # The steeper of the two sides.
        slope, what = max(q, 1.0 - q), f"pinball loss of the quantile {q:g}"
    domain = Box([low] * len(wanted), [high] * len(wanted))
    schema = Schema(tuple(wanted), ((low, high),) * len(wanted), False, "regression", "")
    found = []
    for entry in entries:
        game = games.game_of_functions(
            losses, domain, lipschitz=slope, horizon=task.covered_rounds(len(losses)),
            stream={**facts, "loss": what}, nonprivate_flags=flags, **read_options(entry, asked),
        )  # fmt: skip
        found.append(replace(game, described=task.describe("surface", schema)))
    return found


_GAMES = {"records": _records, "experts": _experts, "arms": _arms, "surface": _functions}
