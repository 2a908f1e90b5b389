"""On a stream: ``dpoco run`` plays a learner, ``dpoco compare`` several at equal privacy."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

import dpoco
from dpoco.accounting import Budget
from dpoco.cli import _support as shell
from dpoco.cli._options import UNASKED, participation_of
from dpoco.cli._problem import FAMILIES, STREAMS_OF_LOSSES, games_of, learners_of
from dpoco.cli._render import print_comparison, print_fit, print_report, shares_in_words
from dpoco.cli._tables import ColumnOptions, Saved, TableOptions, read_saved, with_ranges
from dpoco.evaluation import FitReport, compare_private, compare_private_fit


def started_learner(checkpoint: Path | None, resume: bool) -> Any:
    """Return the saved learner to continue, or None; refuse to overwrite a state by accident."""
    if checkpoint is None:
        if resume:
            raise ValueError("--resume needs --checkpoint FILE")
        return None
    if not resume:
        if checkpoint.exists():
            raise ValueError(f"{checkpoint} exists: add --resume to continue it, or remove it")
        return None
    return dpoco.load(checkpoint, key=shell.state_key())


def check_writable(directory: Path, *files: Path | None) -> None:
    """Find out before a long run, not after it, that the report has no place to go."""
    nearest = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out must be a directory; {nearest} is not")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--out: no permission to write in {nearest}")
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f"no such directory: {file.parent}")


_ROWS_LEFT = 4  # exit code: a learner that is kept has not got all rows
_MOST = 0.5  # share of rows that teach nothing from which on a note says so
# Options that a learner goes on without: what is read, and how much of it.
_NOT_KEPT = (
    "data", "header", "format", "encoding", "separator", "decimal", "skip_lines", "horizon",
    "repeats", "seed",
)  # fmt: skip


@dataclass(frozen=True)
class PrivacyOptions:
    """What is promised, and to whom.

    Parameters
    ----------
    delta
        Privacy budget of one run. [default: 1/(10 horizon)]
    rounds_per_person
        The budget is for all rounds of a person, who has at most so many. [default: for one round]
    separation
        With --rounds-per-person: two of them are at least so many rounds apart. [default: 1]
    seed
        Reproducible noise, which voids the guarantee. [default: the operating system's entropy]
    """

    delta: float | None = None
    rounds_per_person: int | None = None
    separation: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class ProblemOptions:
    """What is to be learned, and within which bounds.

    Parameters
    ----------
    loss_range : LOW,HIGH
        Public range of experts' losses; values outside are clipped. [default: 0,1]
    loss : NAME
        logistic, squared or huber.
    radius
        Radius of the ball; of high-dimensional-bandit, of the l_1 ball of an arm. [default: reaches
        Euclidean length 8 for the logistic loss, 1 otherwise]
    """

    loss_range: str | None = None
    loss: str = "logistic"
    radius: float | None = None


@dataclass(frozen=True)
class LearnerOptions:
    """How the learner is calibrated.

    Parameters
    ----------
    p
        Decisions lie in an l_p ball; 1 to inf. [default: 2; 1 for polyhedral-frank-wolfe]
    feature_bound
        Longer records (Euclidean, after scaling) are shortened to this; for
        high-dimensional-bandit, by their largest entry. [default: sqrt(columns / 3), where a column
        of categories counts as three; 1]
    slope_bound
        With --loss logistic: learn from a loss of slopes at most this, 0.5 to 1, for noisy-ftrl and
        noisy-newton. [default: 1; of noisy-newton 0.5]
    switches
        Of the sequence of experts to compete with, for oblivious-tracker and batch-share. [default:
        0]
    exploration
        Of linucb: factor on the proven widths of its intervals. A bound on regret needs 1.
        [default: 0.1]
    quantile
        Of lipschitz: the quantile that is learned. [default: 0.5]
    sum_method : NAME
        auto, blt, tree or toeplitz, where the learner sums with noise.
    noise : NAME
        gaussian or generalized_gaussian. [default: gaussian]
    step_scale
        s in the steps s/(k + s) of tree-frank-wolfe.
    batch
        Rounds per update. [default: of tree-frank-wolfe horizon/1000, else the
        learner's own]
    option : NAME=VALUE
        Any other option of the learner, as its constructor takes it; repeatable. See dpoco plan
        LEARNER --help.
    """

    p: float | None = None
    feature_bound: float | None = None
    slope_bound: float | None = None
    switches: int | None = None
    exploration: float | None = None
    quantile: float | None = None
    sum_method: str = "auto"
    noise: str | None = None
    step_scale: float = 1.0
    batch: int | None = None
    option: list[str] | None = None


@dataclass(frozen=True)
class KeepOptions:
    """What a run leaves behind.

    Parameters
    ----------
    output : FILE
        Write the report here, too.
    decision : FILE
        Write the model that the private run released: decision, columns, ranges, guarantee. It may
        be published, unlike the report. dpoco predict applies it.
    checkpoint : FILE
        Keep the learner's state here, also when interrupted. Secret, like the data, or encrypted:
        dpoco --key-file FILE run ... It keeps the options, too.
    resume : --resume
        Continue the learner in --checkpoint: all rows are new rounds for it. Options that are not
        given are those that it began with; columns are found by their names.
    skip_played : --skip-played
        With --resume: the rows begin with the rounds played already; skip these.
    trust_columns : --trust-columns
        With --resume: accept a state that does not say which columns it learned from, as one that
        Python saved; the file must have the same ones in the same order.
    """

    output: Path | None = None
    decision: Path | None = None
    checkpoint: Path | None = None
    resume: bool = False
    skip_played: bool = False
    trust_columns: bool = False


@dataclass(frozen=True)
class ReportOptions:
    """Where the report goes, and what is printed.

    Parameters
    ----------
    out : DIR
        Where the report and its figure go.
    force : --force
        Replace files of an earlier run. [default: refuse; --resume replaces them]
    figure
        Draw the figure (needs matplotlib).
    """

    out: Path = Path("results")
    force: bool = False
    figure: bool = True
    config: shell.Config = None
    as_json: shell.JsonFlag = False
    quiet: shell.Quiet = False


@shell.documented_options
def run_command(
    context: typer.Context,
    file: str | None = None,
    learner: str = "auto",
    *,
    table: TableOptions,
    stream_name: str | None = None,
    synthetic: int | None = None,
    columns: ColumnOptions,
    intercept: bool = True,
    epsilon: float = 1.0,
    privacy: PrivacyOptions,
    horizon: shell.Horizon = None,
    problem: ProblemOptions,
    tuning: LearnerOptions,
    repeats: int | None = None,
    keep: KeepOptions,
    show_progress: bool | None = None,
    to: ReportOptions,
) -> None:
    """Play a private learner on a stream and report how it compares.

    It is compared with the same learner without noise and the best fixed decision and the best
    constant prediction in hindsight (of experts: the best one and a random one; of bandits: a
    linear policy, the best arm and a random one). One-time fits have no regret.
    The report is for evaluation: it is computed from raw records.

    For example:

    dpoco run

    dpoco run --learner noisy-ftrl --stream phishing --epsilon 2 --output results.json

    dpoco run --learner noisy-ftrl --option step_size=0.1 --option numerics=lattice

    dpoco run events.csv --label alarm --range heat=0:90 --range open=0:1 --decision model.json

    dpoco run 'day-*.csv' --label alarm --feature-range 0,10 --checkpoint state --resume

    dpoco run --data visits.csv --label choice --label-range 1,4 --learner linucb

    dpoco run --data times.csv --label ms --label-range 0,2000 --learner lipschitz --quantile 0.99

    dpoco run --data visits.csv --label paid --rounds-per-person 10 --person user

    dpoco run --config results.json --epsilon 4

    Parameters
    ----------
    file : argument [FILE]
        The same as --data FILE.
    learner : NAME
        auto takes the one of the least expected regret (dpoco plan auto); tree-frank-wolfe,
        polyhedral-frank-wolfe, noisy-ftrl, noisy-newton, ctrl, comw for records; prefix-hedge,
        epoch-selector, window-selector, shift-detector, oblivious-tracker, batch-share for losses
        of experts; linucb, high-dimensional-bandit for records whose classes are arms; lipschitz
        for a running quantile; sufficient-statistics (squared loss) for one fit to all records.
    stream_name : --stream NAME
        Bundled stream, without --data: shuttle or phishing, of experts pollsters or stocks; see
        dpoco datasets. [default: shuttle, of experts pollsters; phishing on Python 3.10, where
        river has no shuttle]
    synthetic : --synthetic ROUNDS
        Simulated regression of so many rounds with ten features, whose best decision is known; the
        records are the same in every run. Implies --loss squared.
    intercept
        Append a constant feature.
    epsilon
        Privacy budget of one run.
    repeats
        Private runs with independent noise, for evaluation. [default: 10; 1 with --checkpoint or
        --decision]
    show_progress : --progress/--no-progress
        Tell at rounds 1, 2, 4, 8, ... how the first private run is going, on standard error.
        [default: on a terminal]
    """
    asked, checkpoint, decision = shell.asked_of(context), keep.checkpoint, keep.decision
    with shell.errors_in_one_line(checkpoint), shell.notes(to.quiet):
        if file is not None and shell.was_given(context, "data"):
            raise ValueError("FILE and --data name the same thing: give one of them")
        asked["data"] = table.data if file is None else file
        check_writable(to.out, keep.output, decision, checkpoint)
        if keep.skip_played and not keep.resume:
            raise ValueError("--skip-played needs --resume")
        if decision is not None and privacy.seed is not None:
            raise ValueError("--decision needs fresh noise: leave out --seed")
        resumed = started_learner(checkpoint, keep.resume)
        saved = None if resumed is None else read_saved(resumed, keep.trust_columns)
        if saved is not None:
            asked |= kept_options(saved, resumed, asked, shell.typed_options(context))
        asked = with_ranges(asked)
        if synthetic is not None and not shell.was_given(context, "loss"):
            asked["loss"] = "squared"
        (entry,) = learners_of([asked["learner"]], FAMILIES, asked)
        fits = entry.plays == "batch"
        if fits and checkpoint is not None:
            raise ValueError(f"{entry.name} makes one fit: there is nothing to --resume")
        alone = checkpoint is not None or decision is not None
        count = repeats if repeats is not None else (1 if alone else 10)
        if horizon is None and resumed is not None:
            horizon = resumed.horizon
        (game,) = games_of(
            [entry], {**asked, "horizon": horizon, "resumed": resumed, "saved": saved}
        )
        if game.described is not None:
            game = replace(game, described={**game.described, "command": asked})
        if decision is not None and game.records is None:
            raise ValueError("--decision is for learners of records, whose decision predicts")
        models: list[dpoco.Model] = []

        def released(player: Any) -> None:
            if decision is not None and game.records is not None:
                models.append(dpoco.Model.of(player, game.records, asked["label"] or "label"))

        covered = game.horizon if horizon is None else horizon
        budget = Budget._over(asked["epsilon"], asked["delta"], covered)
        if not (to.force or keep.resume):
            shell.check_new(to.out / "report.json", keep.output, decision)
        silent = to.quiet or to.as_json
        lines = show_progress is not False and not (silent or fits)
        with shell.progress(silent, lines=show_progress, table=lines) as (show, snapshot):
            common: dict[str, Any] = {
                "repeats": count, "seed": privacy.seed, "progress": show, "released": released,
            }  # fmt: skip
            report: Any = (
                compare_private_fit(game, budget, **common)
                if fits
                else compare_private(
                    game, budget, snapshot=snapshot, checkpoint=checkpoint, resume=resumed,
                    key=None if checkpoint is None else shell.state_key(),
                    skip_played=keep.skip_played, **common,
                )
            )  # fmt: skip
        check_learned(report)
        named = not (asked["data"] is None and stream_name is None and synthetic is None)
        if not named and "task" in report.stream and report.stream["name"] != "shuttle":
            warnings.warn(
                "no shuttle stream here (river 0.26, Python 3.11); playing "
                f"{report.stream['name']}",
                shell.Note, stacklevel=1,
            )  # fmt: skip
        report = replace(report, settings={**report.settings, "command": asked})
        files = shell.write_report(report, to.out / "report.json", _draw if to.figure else None)
        if keep.output is not None:
            keep.output.write_text(report.to_json() + "\n", encoding="utf-8")
            files.append(str(keep.output))
        if decision is not None:
            models[0].save(decision)
            files.append(f"{decision}, which may be published")
        if to.as_json:
            typer.echo(report.to_json())
        elif not to.quiet:
            (print_fit if fits else print_report)(report, files)
        left = report.rows["beyond_horizon"]
        if checkpoint is not None and left:
            typer.echo(
                f"error: {left:,} rows were not played: the horizon of "
                f"{report.settings['horizon']:,} rounds is used up",
                err=True,
            )
            raise typer.Exit(_ROWS_LEFT)


def kept_options(
    saved: Saved, learner: Any, asked: Mapping[str, Any], typed: Collection[str]
) -> dict[str, Any]:
    """Return the options that a saved learner began with, of those that were not given again.

    Its own name is not among them if auto, which stays with what was saved, can choose it.
    """
    kept = {
        name: value for name, value in saved.command.items()
        if name in asked and name not in {*typed, *_NOT_KEPT}
    }  # fmt: skip
    own = ("noise", "sum_method", "step_scale", "batch", "exploration", "option")
    chosen = (dpoco.oco.NoisyFTRL, dpoco.oco.NoisyNewton, dpoco.frank_wolfe.TreeFrankWolfe)
    if isinstance(learner, chosen) and all(
        kept.get(name, UNASKED[name]) in (UNASKED[name], []) for name in own
    ):
        kept.pop("learner", None)
    return kept


def check_learned(report: Any) -> None:
    """Raise if a run learned from no record, and note it if it learned from less than half.

    A learner that goes on has learned before: that its people come too often is only noted.
    """
    read = report.nonprivate_records
    taught = read["learned"] / max(1, read["records"])
    reasons = shares_in_words({
        name: share for name, share in read["shares"].items() if name not in ("empty", "clipped")
    })  # fmt: skip
    if taught == 0.0 and not getattr(report, "first_round", 0):
        raise ValueError(f"nothing was learned, for all records were empty: {reasons}")
    if taught < _MOST:
        hint = ""
        if read["shares"].get("beyond_participation", 0.0) >= _MOST:
            hint = "; most people come more often than --rounds-per-person allows"
        warnings.warn(
            f"{100.0 * (1.0 - taught):.3g} % of the records were empty, so that little was "
            f"learned: {reasons}{hint}",
            shell.Note, stacklevel=1,
        )  # fmt: skip


def _draw(report: Any) -> Any:
    if isinstance(report, FitReport):
        return dpoco.plotting.plot_fit_report(report).figure.get_figure(root=True)
    return dpoco.plotting.plot_run_report(report)


_COMPARED = ("records", "batch", "experts", "arms")
_RECORDS, _EXPERTS = "auto,tree-frank-wolfe,noisy-ftrl", "auto,prefix-hedge,batch-share"


@shell.documented_options
def compare_command(
    context: typer.Context,
    learners: str | None = None,
    epsilons: str = "0.5,1,2,4",
    *,
    table: TableOptions,
    stream_name: str | None = None,
    columns: ColumnOptions,
    privacy: PrivacyOptions,
    problem: ProblemOptions,
    p: float = 2.0,
    horizon: int | None = None,
    repeats: int = 5,
    baseline: bool = True,
    to: ReportOptions,
) -> None:
    """Compare learners on one stream, each at the same privacy: table, figure and JSON.

    Every learner is held to the same epsilon, delta, rounds and neighbouring relation. Medians over
    repeated runs, with their ranges. One-time fits, which see all records beforehand, have rows
    of their own. For evaluation: computed from raw records.

    For example:

    dpoco compare --learners tree-frank-wolfe,noisy-ftrl --epsilons 1,4 --seed 1

    dpoco compare --stream pollsters --learners prefix-hedge,batch-share,oblivious-tracker

    dpoco compare --stream shuttle --learners linucb,high-dimensional-bandit

    dpoco compare --learners noisy-ftrl,noisy-newton

    Parameters
    ----------
    learners : NAME,NAME,...
        All of records (one-time fits too), all of experts or all bandits, as for dpoco run.
        auto is chosen for the middle one of the budgets.
        [default: auto,tree-frank-wolfe,noisy-ftrl; with pollsters or stocks
        auto,prefix-hedge,batch-share]
    epsilons : E,E,...
        Privacy budgets of one run.
    stream_name : --stream NAME
        Bundled stream; see dpoco datasets. [default: phishing]
    p
        Decisions lie in an l_p ball, the same for all learners.
    horizon
        Rounds the guarantees cover. [default: all]
    repeats
        Runs of each learner at each budget, with independent noise.
    baseline
        Also without noise.
    """
    asked = shell.asked_of(context)
    with shell.errors_in_one_line(), shell.notes(to.quiet):
        if learners is None:
            learners = _EXPERTS if stream_name in STREAMS_OF_LOSSES else _RECORDS
        entries = learners_of([name.strip() for name in learners.split(",")], _COMPARED, asked)
        if len({entry.name for entry in entries}) < len(entries):
            raise ValueError("--learners names one of them twice")
        sizes = shell.numbers("--epsilons", epsilons, positive=True)
        if len(set(sizes)) < len(sizes):
            raise ValueError("--epsilons names one of them twice")
        if to.out.exists() and not to.out.is_dir():
            raise ValueError("--out must be a directory")
        of_records = entries[0].plays in ("records", "batch")
        described = {**UNASKED, **with_ranges(asked), "p": p if of_records or p != 2.0 else None}
        described["epsilon"] = sorted(sizes)[len(sizes) // 2]  # what auto is chosen for
        if table.data is None and stream_name is None and entries[0].plays != "experts":
            described["stream"] = "phishing"
        games = games_of(entries, described)
        first = games[0]
        why = next((game.chosen for game in games if game.chosen), None)
        covered, given = first.horizon if horizon is None else horizon, len(first.data[0])
        rows = slice(min(covered, given))
        best = first.comparators(rows, None).fixed
        comparator = {name: best[name] for name in ("total_loss", "average_loss")}
        if "reward_range" in first.loss:
            comparator["largest_reward"] = first.loss["reward_range"][1]
        rule = participation_of(described)
        people = {} if rule is None else {"participation": rule.to_dict()}
        budgets = [Budget._over(size, privacy.delta, covered) for size in sorted(sizes)]
        if not to.force:
            shell.check_new(to.out / "comparison.json")
        with shell.progress(to.quiet or to.as_json) as (show, _):
            result = dpoco.evaluation.compare(
                {entry.name: game.build for entry, game in zip(entries, games, strict=True)},
                tuple(column[rows] for column in first.data),
                budgets=[*budgets, *([None] if baseline else [])],
                comparator={"name": best.get("name", "best fixed decision"), **comparator},
                repeats=repeats, seed=privacy.seed, progress=show,
                stream={**first.stream, "rounds": rows.stop, "beyond_horizon": given - rows.stop},
                settings={"horizon": covered, **people, "chosen": why, "command": asked},
                persons=None if first.persons is None else first.persons[rows],
            )  # fmt: skip
        beyond = [_share_beyond(traces[0]) for traces in result.traces.values()]
        if any(beyond):
            result = replace(result, stream={**result.stream, "beyond_participation": max(beyond)})
        files = shell.write_report(
            result, to.out / "comparison.json", _draw_comparison if to.figure else None
        )
        if to.as_json:
            typer.echo(result.to_json())
        elif not to.quiet:
            print_comparison(result, files)


def _share_beyond(trace: Any) -> float:
    """Return the share of records that were more than their person may have."""
    return 0.0 if trace._beyond is None else float(np.mean(trace._beyond))


def _draw_comparison(result: Any) -> Any:
    axes = dpoco.plotting.plot_comparison(result, measure="average_loss")
    axes.set_title(
        f"{result.stream['name']}: {result.settings['horizon']:,} rounds, median and range "
        f"of {result.settings['repeats']} runs", loc="left", fontsize="medium",
    )  # fmt: skip
    return axes.figure.get_figure(root=True)
