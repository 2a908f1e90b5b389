"""Private learners beside what they should be compared with, and beside one another."""

from __future__ import annotations

import csv
import io
import math
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np

from dpoco._clipping import admitted_losses, checked_range
from dpoco._encryption import EncryptionKey
from dpoco._html import as_html
from dpoco._validation import FloatArray, choice, float_array, imported, positive_int
from dpoco.accounting import Budget, Guarantee
from dpoco.datasets import Stream
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.evaluation import _comparators as hindsight
from dpoco.evaluation import games, playing
from dpoco.evaluation._runs import Learner, SeedTree, Snapshot, check_people, play_all, sources_of
from dpoco.evaluation.reports import FitReport, Report, RunReport
from dpoco.experts import ExpertTrace
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.learners import plays
from dpoco.published.tables import text_table
from dpoco.random import Source
from dpoco.trace import Trace, average_over, counted_rounds

COMPARISON_SCHEMA = "dpoco.comparison/1"

Builder = Callable[[Budget | None, Source | None], Learner]


@dataclass(frozen=True)
class ComparisonRow:
    """Results of one learner at one budget. **Not private**.

    Attributes
    ----------
    learner : str
        Its name in the comparison.
    budget : dict or None
        The requested ``epsilon`` and ``delta``; None without privacy.
    average_losses, regrets, switches : tuple
        One entry per run: mean loss over the rounds whose data are not missing (for bandits: the
        largest declared reward minus the reward), total loss minus the comparator's, changes of
        decision. Empty if the learner was refused. One-time fits have only losses.
    guarantee : dict or None
        As from ``Guarantee.to_dict``; None if refused.
    refused : str or None
        Why the learner cannot be calibrated to this budget.
    access : {"online", "offline"}
        "offline": one fit to all records, whose decision is evaluated on these same records. It saw
        them beforehand, so its losses are not those of an online learner, and it has no regret.
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
        """Median of the average losses; None if the learner was refused."""
        return statistics.median(self.average_losses) if self.average_losses else None

    @property
    def regret(self) -> float | None:
        """Median of the regrets; None if the learner was refused."""
        return statistics.median(self.regrets) if self.regrets else None


@dataclass(frozen=True, repr=False)
class Comparison(Report):
    """Results of `compare`. **Not private**: they are computed from raw records.

    Attributes
    ----------
    stream : dict
        Public facts about the stream.
    settings : dict
        Budgets, repeats and seed; ``counted``, the number of rounds whose data are not missing:
        average losses are over these; and whatever the caller adds.
    comparator : dict
        ``name``, ``average_loss`` and ``total_loss`` of the comparator of regret.
    rows : tuple of ComparisonRow
        In the order budgets x learners.
    versions : dict
        Versions of this library, NumPy and Python.
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
        """Return a JSON-able dictionary, a function of stream, settings and seed."""
        rows = [
            {**asdict(row), "average_loss": row.average_loss, "regret": row.regret}
            for row in self.rows
        ]
        record = {each.name: getattr(self, each.name) for each in fields(self)}
        del record["traces"]
        return {"schema": self.schema, "private": False, **record, "rows": rows}

    @property
    def runs(self) -> dict[str, list[Trace]]:
        """Traces by learner and budget, with the budget in words as figures show it."""
        words, found = self._budgets(), {}
        for (learner, index), traces in self.traces.items():
            asked = words[_key(self.settings["budgets"][index])]
            found[learner if len(words) == 1 else f"{learner}, {asked}"] = traces
        return found

    def records(self) -> list[dict[str, Any]]:
        """Return one dictionary per run: learner, budget, run and measures.

        ``epsilon`` is infinite without privacy. Values that were not measured are None. A refused
        learner has one record with the reason.
        """
        found = []
        for row in self.rows:
            epsilon, delta = _key(row.budget)
            for run, measured in enumerate([*zip_longest(*_measures(row))] or [(None,) * 3]):
                own = (row.learner, epsilon, delta, run, row.access, *measured, row.refused)
                found.append(dict(zip(_COLUMNS, own, strict=True)))
        return found

    def to_frame(self) -> Any:
        """Return `records` as a pandas DataFrame (needs pandas)."""
        pd = imported("pandas", "to_frame", "files")

        return pd.DataFrame(self.records())

    def to_csv(self) -> str:
        """Return `records` as comma-separated text with a header line."""
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records())
        return text.getvalue()

    def to_table(self, measure: str = "average_loss", form: str = "markdown") -> str:
        """Return a table of learners by budgets, with medians and the range over the runs.

        Parameters
        ----------
        measure : {"average_loss", "regret", "switches"}
            Measure to show; "-" where it was not measured.
        form : {"markdown", "latex"}
            Markdown, or a ``tabular`` that needs no package.
        """
        which, budgets = _MEASURED.index(choice("measure", measure, _MEASURED)), self._budgets()
        found = {(row.learner, _key(row.budget)): row for row in self.rows}
        cells = [["learner", *budgets.values()]]
        for learner in dict.fromkeys(row.learner for row in self.rows):
            rows = [found[learner, key] for key in budgets]
            cells.append([learner, *(_in_words(row, _measures(row)[which]) for row in rows)])
        return text_table(cells, form)

    def _budgets(self) -> dict[tuple[float, float], str]:
        """Return what the budgets are called; with delta where there are several."""
        keys = [_key(budget) for budget in self.settings["budgets"]]
        several = len({delta for epsilon, delta in keys if epsilon < math.inf}) > 1
        words = "epsilon = {:g}, delta = {:g}" if several else "epsilon = {:g}"
        return {k: "no privacy" if k[0] == math.inf else words.format(*k) for k in keys}

    def _repr_html_(self) -> str:
        return as_html(f"{repr(self)[1:-1]}\n{self.to_table()}")

    def _about(self) -> str:
        return f"of {len(self.rows)} rows"


_MEASURED = ("average_loss", "regret", "switches")
_COLUMNS = ("learner", "epsilon", "delta", "run", "access", *_MEASURED, "refused")


def _measures(row: ComparisonRow) -> tuple[tuple[float, ...], ...]:
    return row.average_losses, row.regrets, row.switches


def _in_words(row: ComparisonRow, values: Sequence[float]) -> str:
    if row.refused is not None or not values:
        return "-" if row.refused is None else "refused"
    middle = f"{statistics.median(values):.4g}"
    spread = f" ({min(values):.4g} to {max(values):.4g})"
    return middle + spread if len(values) > 1 else middle


def _key(budget: Mapping[str, float] | None) -> tuple[float, float]:
    return (math.inf, 0.0) if budget is None else (budget["epsilon"], budget["delta"])


def _compared(comparator: Any) -> dict[str, Any]:
    """Return what is kept of a comparator; what was found in hindsight has a name of its own."""
    if isinstance(comparator, Mapping):
        return dict(comparator)
    expert = isinstance(comparator, hindsight.FixedExpert)
    numbers = {"total_loss": comparator.total_loss, "average_loss": comparator.average_loss}
    decision = np.asarray(comparator.decision).tolist()
    return {
        "name": "best expert" if expert else "best fixed decision",
        **numbers,
        "decision": decision,
    }


def compare(
    learners: Mapping[str, Builder],
    data: tuple[Any, ...],
    *,
    budgets: Sequence[Budget | None],
    comparator: Mapping[str, Any] | hindsight.FixedDecision | hindsight.FixedExpert,
    repeats: int = 5,
    seed: int | None = None,
    stream: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    persons: Sequence[Any] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Play several learners at several budgets over one stream, with independent noise.

    Every learner gets the same budget, for the same rounds and the same change of the data (of a
    round, or of all rounds of a person). If a guarantee differs in this, that is an error.

    Parameters
    ----------
    learners : mapping of str to callable
        ``build(budget, source)`` returns an unstarted learner.
    data : tuple
        The stream, as ``run`` takes it: ``(features, labels)``, ``(losses,)`` or, for bandits,
        ``(contexts, rewards)``; one-time fits are fitted to ``(features, labels)``.
    budgets : sequence of Budget or None
        None: without noise, which is run once.
    comparator : FixedDecision, FixedExpert, or mapping
        Comparator of regret: a result of `best_fixed_decision` or `best_expert`, or a dictionary
        with ``name`` and ``total_loss``. Figures of average losses also need ``average_loss``, and
        figures of regret over the rounds also need a ``decision``.
    repeats : int, default 5
        Runs of each learner at each budget.
    seed : int, optional
        Root of the seeds. The noise of a cell depends only on it, the learner's name, the budget
        and the number of the run. None: the operating system's entropy.
    stream, settings : mapping, optional
        JSON-able facts to keep.
    persons : array_like of int, str or bytes with shape (T,), optional
        The persons behind the rounds; required for learners that enforce a participation, and only
        for them.
    progress : callable, optional
        Called as ``progress(phase, done, total)``.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError, TypeError
        For bad arguments, for guarantees about different changes or views, and for learners that
        enforce a participation without `persons`; nothing has been played.

    Notes
    -----
    A one-time fit, of `dpoco.frank_wolfe`, is built for the number of records, so that its
    guarantee is known. If no noise scale meets a budget, the learner is refused there, and its row
    gives the reason.
    """
    count = positive_int("repeats", repeats, maximum=10**6)
    if not learners or not budgets:
        raise ValueError("a comparison needs learners and budgets")
    cells = list(_cells(learners, budgets, len(data[0]), persons))
    rows: list[ComparisonRow] = []
    traces: dict[tuple[str, int], list[Trace]] = {}
    compared = _compared(comparator)
    total, counted = float(compared["total_loss"]), counted_rounds(*data)
    for index, row in cells:
        if row.refused is not None:
            rows.append(row)
            continue
        name, budget = row.learner, budgets[index]
        root = None
        if seed is not None:
            parts = ["none"] if budget is None else [repr(budget.epsilon), repr(budget.delta)]
            root = SeedTree(seed).child("compare", name, *parts)
        sources = sources_of(root, range(1 if budget is None else count))
        tell = None if progress is None else partial(progress, name)
        seeded = partial(learners[name], budget)
        if row.access == "offline":
            _, fits, _ = playing.fits_of(seeded, sources, data, tell)
            rows.append(replace(row, average_losses=fits))
            continue
        played = traces[name, index] = play_all(seeded, sources, data, tell, persons=persons)
        losses = [playing.losses_of(trace) for trace in played]
        counted = counted_rounds(*data, experts=isinstance(played[0], ExpertTrace))
        rows.append(
            replace(
                row,
                average_losses=tuple(average_over(each, counted) for each in losses),
                regrets=tuple(float(np.sum(each)) - total for each in losses),
                switches=tuple(len(playing.switches_of(trace)) for trace in played),
            )
        )
    return Comparison(
        stream=dict(stream or {}),
        settings={
            "budgets": [None if budget is None else budget.to_dict() for budget in budgets],
            "learners": list(learners),
            "repeats": count,
            "seed": seed,
            "counted": int(np.count_nonzero(counted)),
            **(settings or {}),
        },
        comparator=compared,
        rows=tuple(rows),
        versions=playing.versions(),
        traces=traces,
    )


def _cells(
    learners: Mapping[str, Builder], budgets: Sequence[Budget | None], rounds: int, persons: Any
) -> Iterator[tuple[int, ComparisonRow]]:
    """Yield a row without measures for every budget, with its number, and learner."""
    neighbours: set[tuple[Any, ...]] = set()
    for index, budget in enumerate(budgets):
        asked = None if budget is None else budget.to_dict()
        for name, build in learners.items():
            row = ComparisonRow(name, asked, (), (), (), None)
            try:
                first = build(budget, None)
                guarantee: Guarantee = first.guarantee
            except CalibrationError as error:
                yield index, replace(row, refused=str(error), access=_access(build))
                continue
            if budget is not None:
                guarantee.require(budget)
                neighbours.add((guarantee.change, guarantee.view, guarantee.person))
                if len(neighbours) > 1:
                    raise ValueError(
                        "the learners' guarantees are about different changes, views or people"
                    )
            check_people(first, persons, rounds)
            access = "offline" if plays(first) == "batch" else "online"
            yield index, replace(row, guarantee=guarantee.to_dict(), access=access)


def _access(build: Builder) -> str:
    """Tell what kind of learner was refused, by one without a budget."""
    try:
        return "offline" if plays(build(None, None)) == "batch" else "online"
    except CalibrationError:
        return "online"


# How a game is played, which no learner takes.
_PLAYING = (
    "repeats", "seed", "progress", "snapshot", "checkpoint", "key", "resume", "skip_played",
    "persons",
)  # fmt: skip


def _apart(
    options: dict[str, Any], horizon: int | None, rounds: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how to play, and what the learner takes, its horizon included."""
    how = {name: options.pop(name) for name in _PLAYING if name in options}
    return how, {"horizon": playing.horizon_of(horizon, rounds, how.get("resume")), **options}


def _played(game: games.Game, budget: Budget, *, persons: Any = None, **how: Any) -> RunReport:
    return playing.play_game(replace(game, persons=persons), budget, **how)


def compare_private(
    stream: Stream,
    domain: Domain,
    loss: hindsight.GlmLoss,
    *,
    budget: Budget,
    learner: Callable[..., Any] = TreeFrankWolfe,
    horizon: int | None = None,
    repeats: int = 1,
    seed: int | None = None,
    progress: playing.Step | None = None,
    snapshot: Callable[[Snapshot], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    key: EncryptionKey | None = None,
    resume: Any = None,
    skip_played: bool = False,
    persons: Sequence[Any] | None = None,
    **options: Any,
) -> RunReport:
    """Play a private learner on a stream, together with its comparators.

    The comparators: the same learner without noise, the best fixed decision in hindsight, and
    the best constant prediction. The report is for evaluation: it is **not private**.

    Parameters
    ----------
    stream : Stream
        The stream; rounds past the horizon are left out.
    domain, loss
        The learner's problem; a generalised linear loss.
    budget : Budget
        Budget of one private run. Each repetition spends it again.
    learner : class, default `dpoco.frank_wolfe.TreeFrankWolfe`
        A learner of `dpoco.frank_wolfe` or `dpoco.oco` that takes ``(domain, loss)``.
    horizon : int, optional
        Rounds that the guarantee covers; default: the stream's length, or that of `resume`.
    repeats : int, default 1
        Number of private runs, with independent noise.
    seed : int, optional
        Makes the report reproducible except for its timing, and voids the guarantee. None: the
        operating system's entropy.
    progress : callable, optional
        Called as ``progress(phase, done, total)``.
    snapshot : callable, optional
        Called with a `Snapshot` of the first private run at rounds 1, 2, 4, 8, ... and at its end.
    checkpoint : path-like, optional
        State file of the private learner, written during the run, at its end, and on an
        interrupt. Only with ``repeats=1``.
    key : EncryptionKey, optional
        Encrypts the checkpoint; default: what `resume` was loaded with.
    resume : learner, optional
        A learner from `dpoco.load`, which continues where it stopped. The stream's rows are new
        rounds for it, and the report is about these; the learner without noise starts with them. It
        must have been built for the same problem.
    skip_played : bool, default False
        The stream also holds the rounds that `resume` has played: as many rows are skipped. The
        learner without noise plays these rows, too.
    persons : array_like of int, str or bytes with shape (T,), optional
        The persons behind the rounds, if a participation is enforced.
    **options
        Further arguments of the learner: participation, noise, sum_method, batch, ...
        With a participation the budget covers all rounds of a person.

    Returns
    -------
    RunReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments, for a `resume` of another problem or without rounds left, for a stream
        without rows for it, and for an enforced participation without `persons`; nothing has been
        played.
    CalibrationError
        If no noise scale meets the budget.
    """
    covered = playing.horizon_of(horizon, len(stream), resume)
    return _played(
        games.game_of_records(learner, stream, domain, loss, horizon=covered, **options),
        budget, repeats=repeats, seed=seed, progress=progress, snapshot=snapshot,
        checkpoint=checkpoint, key=key, resume=resume, skip_played=skip_played, persons=persons,
    )  # fmt: skip


def compare_private_experts(
    losses: Any,
    learner: Callable[..., Any],
    *,
    budget: Budget,
    horizon: int | None = None,
    **options: Any,
) -> RunReport:
    """Play a private learner of experts, together with its comparators.

    It works like `compare_private`. The comparators are the same learner without noise, the best
    expert in hindsight, and an expert drawn anew each round, uniformly, in expectation.

    Parameters
    ----------
    losses : array_like of shape (T, N)
        Losses of all experts; rounds past the horizon are left out.
    learner : class
        Of `dpoco.experts`.
    stream : dict, optional
        Public facts about the stream for the report: ``name``, ``description``, ``scaling``.
    budget, horizon, repeats, seed, progress, snapshot, checkpoint, key
        As in `compare_private`.
    resume, skip_played, persons
        As in `compare_private`.
    **options
        As in `compare_private`.

    Returns
    -------
    RunReport
        ``best_fixed`` is the best expert, ``best_constant`` the uniformly random one.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        As `compare_private`.
    """
    how, options = _apart(options, horizon, len(losses))
    return _played(games.game_of_experts(learner, losses, **options), budget, **how)


def compare_private_bandit(
    contexts: Any,
    rewards: Any,
    learner: Callable[..., Any],
    *,
    budget: Budget,
    horizon: int | None = None,
    **options: Any,
) -> RunReport:
    """Play a private contextual bandit, together with its comparators.

    It works like `compare_private`. A learner sees only the reward of its own arm. The comparators
    see all rewards: the linear policy that least squares fit in hindsight, the best single arm, and
    an arm drawn anew each round, uniformly, in expectation. The best of all linear policies is hard
    to find. Regret is against the fitted policy and may be negative.

    Parameters
    ----------
    contexts : array_like of shape (T, d)
        One context a round; rounds past the horizon are left out.
    rewards : array_like of shape (T, K)
        Rewards of all arms, for example from `class_rewards`.
    learner : class
        `dpoco.bandits.LinUCB` or `dpoco.bandits.HighDimensionalBandit`.
    reward_range : tuple of two floats, default (0, 1)
        Public range of the rewards, declared to the learner. Values outside are clipped, and a
        missing one counts as the middle of the range (0 with a logistic link).
    domain : Domain, optional
        Set of the coefficients of an arm; only for `HighDimensionalBandit`, which requires it.
    stream : dict, optional
        Public facts about the stream for the report: ``name``, ``description``, ``scaling``.
    nonprivate_flags : mapping of str to ndarray of bool, optional
        Earlier changes to the stream, of shape (T,) or (T, columns), for the report's
        ``nonprivate_records``, as in `dpoco.datasets.Stream`.
    budget, horizon, repeats, seed, progress, snapshot, checkpoint, key
        As in `compare_private`.
    resume, skip_played, persons
        As in `compare_private`.
    **options
        As in `compare_private`. ``context_bound`` is required; ``reward_bound`` is set.

    Returns
    -------
    RunReport
        Losses are the largest reward of the range minus the reward. For a classification problem
        without missing labels, the average loss is the share of wrong arms. ``best_fixed`` is the
        fitted policy, ``best_constant`` the best single arm, ``others`` the random one.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        As `compare_private`.
    """
    how, options = _apart(options, horizon, len(contexts))
    return _played(games.game_of_arms(learner, contexts, rewards, **options), budget, **how)


def compare_private_lipschitz(
    losses: Sequence[Callable[[FloatArray], Any]],
    domain: Domain,
    *,
    lipschitz: float,
    budget: Budget,
    horizon: int | None = None,
    **options: Any,
) -> RunReport:
    """Play `dpoco.oco.LipschitzLearner`, together with its comparators.

    It works like `compare_private`. The comparators are the same learner without noise, the best
    point of the learner's net in hindsight, and the middle of the domain in every round.

    Parameters
    ----------
    losses : sequence of callable
        One loss per round, a function from points, shape (N, d), to their losses, shape (N,).
        Rounds past the horizon are left out.
    domain, lipschitz
        The learner's problem, in one or two dimensions.
    stream : dict, optional
        Public facts about the stream for the report: ``name``, ``description``, ``scaling``.
    nonprivate_flags : mapping of str to ndarray of bool, optional
        Earlier changes to the stream, of shape (T,) or (T, columns), for the report's
        ``nonprivate_records``, as in `dpoco.datasets.Stream`.
    budget, horizon, repeats, seed, progress, snapshot, checkpoint, key
        As in `compare_private`.
    resume, skip_played, persons
        As in `compare_private`.
    **options
        As in `compare_private`.

    Returns
    -------
    RunReport
        ``best_fixed`` is the best net point. Its ``gap`` bounds how far its average loss is above
        that of the best decision, for losses that satisfy `lipschitz`. Regret is against it and may
        be negative. ``best_constant`` is the middle.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        As `compare_private`.
    """
    how, options = _apart(options, horizon, len(losses))
    return _played(
        games.game_of_functions(losses, domain, lipschitz=lipschitz, **options), budget, **how
    )


def compare_private_fit(
    stream: Stream,
    domain: Domain,
    loss: hindsight.GlmLoss,
    learner: Callable[..., Any],
    *,
    budget: Budget,
    records: int | None = None,
    repeats: int = 1,
    seed: int | None = None,
    progress: playing.Step | None = None,
    **options: Any,
) -> FitReport:
    """Fit a one-time fit to a whole stream, and evaluate the decision that it releases.

    The comparators are the same method without noise, the best possible decision, and predicting
    zero. There are no rounds: every decision is evaluated on the records of its fit, all of which
    it saw beforehand, so it has no regret. The report is for evaluation: it is **not private**.

    Parameters
    ----------
    stream : Stream
        Records past `records` are left out.
    domain, loss
        The problem; a generalised linear loss.
    learner : class
        `dpoco.frank_wolfe.SufficientStatistics`.
    budget : Budget
        Budget of one fit. Each repetition spends it again.
    records : int, optional
        Number of records to fit; default and maximum: the stream's length.
    repeats : int, default 1
        Number of private fits, with independent noise.
    seed : int, optional
        Makes the report reproducible except for its timing, and voids the guarantee. None: the
        operating system's entropy.
    progress : callable, optional
        Called as ``progress(phase, done, total)``, in gradients.
    **options
        Further arguments of the learner.

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
    count = len(stream) if records is None else min(positive_int("records", records), len(stream))
    game = games.game_of_records(learner, stream, domain, loss, horizon=count, **options)
    return playing.fit_game(game, budget, repeats=repeats, seed=seed, progress=progress)


COMPARATORS = ("fixed", "constant", "switching", "interval")


@dataclass(frozen=True, eq=False)
class Regret:
    """Regret of a run against a comparator in hindsight. **Not private**.

    Attributes
    ----------
    against : {"fixed", "constant", "switching", "interval"}
        The comparator.
    total : float
        Regret over the run; for intervals, the largest over all of them.
    curve : ndarray of float64, shape (T,), or None
        Regret so far, round by round; None for intervals.
    comparator : object
        The comparator that was used: `FixedDecision`, `ConstantPrediction`, `FixedExpert` or
        `BestSequence`; None for intervals.
    """

    against: str
    total: float
    curve: FloatArray | None
    comparator: Any

    def __repr__(self) -> str:
        return (
            f"<dpoco.evaluation.Regret against {self.against!r}: not private, for evaluation only>"
        )


def regret(
    trace: Trace,
    data: Any,
    labels: Any = None,
    *,
    against: str = "fixed",
    domain: Domain | None = None,
    loss: Any = None,
    switches: int | None = None,
    loss_range: tuple[float, float] = (0.0, 1.0),
    tolerance: float = 1e-7,
) -> Regret:
    """Return the regret of a run, against any comparator of this package.

    Parameters
    ----------
    trace : Trace
        The result of a learner's ``run``, or a loaded one; its losses, shape (T,), also work.
    data : array_like
        The stream of the run. Experts: losses of all of them, shape (T, N). Convex learners:
        features, shape (T, d) (gradients for a `LinearLoss`), with `domain` and `loss`.
    labels : array_like of shape (T,), optional
        For losses that take labels.
    against : {"fixed", "constant", "switching", "interval"}
        ``"fixed"``: the best decision (or expert) for the whole stream; ``"constant"``: the best
        prediction that ignores the features; ``"switching"``: the best sequence of experts with
        `switches` switches; ``"interval"``: the largest regret against one expert over any
        interval of rounds.
    domain, loss : optional
        The convex learner's problem; without them `data` are losses of experts.
    switches : int, optional
        For ``"switching"``.
    loss_range : (low, high), default (0, 1)
        For experts, as the learner's.
    tolerance : float, default 1e-7
        Certified gap of the best fixed decision, relative.

    Returns
    -------
    Regret

    Raises
    ------
    ValueError, TypeError
        If arguments do not fit the comparator, or trace and stream differ in length.

    Notes
    -----
    Costs: `best_fixed_decision`, `best_switching_sequence`, `interval_regret`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpoco import evaluation
    >>> losses = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> own = np.array([1.0, 1.0])
    >>> evaluation.regret(own, losses, against="fixed").total
    1.0
    >>> evaluation.regret(own, losses, against="switching", switches=1).total
    2.0
    """
    choice("against", against, COMPARATORS)
    own = float_array("losses of the run", getattr(trace, "losses", trace), (None,))
    rows = float_array("data", data, (len(own), None))
    if (domain is None) != (loss is None):
        raise TypeError("pass domain and loss together")
    if (switches is not None) != (against == "switching"):
        raise TypeError('switches is only for against="switching"')
    if domain is None and labels is not None:
        raise TypeError("losses of experts take no labels")
    if domain is None and against == "constant":
        raise ValueError('against="constant" needs domain, loss and labels')
    if domain is not None and against in ("switching", "interval"):
        raise ValueError(f"against={against!r} is for losses of experts")
    targets: Any = None
    if labels is not None or against == "constant":
        targets = float_array("labels", labels, (len(own),))
    best: Any
    if domain is None and against == "interval":
        return Regret(
            against, hindsight.interval_regret(own, rows, loss_range=loss_range), None, None
        )
    if domain is None:
        best = hindsight.best_switching_sequence(rows, switches or 0, loss_range=loss_range)
        met = rows[np.arange(len(rows)), best.decisions]
        compared = admitted_losses(met, *checked_range(loss_range))
    elif against == "fixed":
        best = hindsight.best_fixed_decision(domain, loss, rows, targets, tolerance=tolerance)
        compared = loss.batch_values(domain, best.decision, rows, targets)
    else:
        present = hindsight.present_labels(rows, targets)
        best = hindsight.best_constant_prediction(loss, present)
        compared = hindsight.constant_losses(loss, best.prediction, present)
    curve = np.cumsum(own - compared)
    return Regret(against, float(curve[-1]), curve, best)
