"""On a stream: ``dpoco run`` plays a learner, ``dpoco compare`` several at equal privacy."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

import dpoco
from dpoco.accounting import Budget
from dpoco.cli import _support as shell
from dpoco.cli._options import UNASKED, participation_of, with_ranges
from dpoco.cli._problem import FAMILIES, STREAMS_OF_LOSSES, games_of, learners_of
from dpoco.cli._render import print_comparison, print_fit, print_report
from dpoco.evaluation import FitReport
from dpoco.evaluation.playing import fit_game, play_game


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


@shell.documented_options
def run_command(
    context: typer.Context,
    file: str | None = None,
    learner: str = "auto",
    data: str | None = None,
    header: bool | None = None,
    stream_name: str | None = None,
    synthetic: int | None = None,
    label: str | None = None,
    features: str | None = None,
    column_range: list[str] | None = None,
    feature_range: list[str] | None = None,
    label_range: str | None = None,
    loss_range: str | None = None,
    intercept: bool = True,
    loss: str = "logistic",
    epsilon: float = 1.0,
    delta: float | None = None,
    rounds_per_person: int | None = None,
    separation: int | None = None,
    person: str | None = None,
    p: float | None = None,
    radius: float | None = None,
    feature_bound: float | None = None,
    slope_bound: float | None = None,
    horizon: shell.Horizon = None,
    switches: int | None = None,
    exploration: float | None = None,
    quantile: float | None = None,
    sum_method: str = "auto",
    noise: str | None = None,
    calibration: str = "tight",
    step_scale: float = 1.0,
    batch: int | None = None,
    option: list[str] | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    out: Path = Path("results"),
    output: Path | None = None,
    decision: Path | None = None,
    force: bool = False,
    figure: bool = True,
    checkpoint: Path | None = None,
    resume: bool = False,
    skip_played: bool = False,
    show_progress: bool | None = None,
    config: shell.Config = None,
    as_json: shell.JsonFlag = False,
    quiet: shell.Quiet = False,
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
    data : FILE
        CSV, Parquet or NPZ file, one round a row, in order; several as a pattern in quotes
        ('2026-11-*.csv', sorted by name), or - for CSV on standard input.
    header
        Whether the first row of a CSV file names the columns; if not, they are named 1, 2, ...
        [default: it does, but is refused if it holds a number: it may be a record]
    stream_name : --stream NAME
        Bundled stream, without --data: shuttle or phishing, of experts pollsters or stocks; see
        dpoco datasets. [default: shuttle, of experts pollsters; phishing on Python 3.10, where
        river has no shuttle]
    synthetic : --synthetic ROUNDS
        Simulated regression of so many rounds with ten features, whose best decision is known; the
        records are the same in every run. Implies --loss squared.
    label : COLUMN
        Column of the labels. Logistic loss: the probability of the event, in [0, 1] (1 = it
        happened); other values are clipped. Regression: a number in --label-range. Bandits: the
        class. lipschitz: the column, or two, to be near to.
    features : A,B,...
        Feature columns, or the experts' losses. [default: all but the label]
    column_range : --range COLUMN=LOW:HIGH
        Public range of a column, also of the label; repeatable. Mapped to [-1, 1], values outside
        saturate. Declare it from knowledge, never from the records.
    feature_range : [COLUMN=]LOW,HIGH
        Public range of all columns, or of one; repeatable.
    label_range : LOW,HIGH
        Public range of the labels, mapped to [-1, 1] (logistic loss: to [0, 1]). Bandits: the first
        class and the last, whole numbers. [default of bandits: 0,1]
    loss_range : LOW,HIGH
        Public range of experts' losses; values outside are clipped. [default: 0,1]
    intercept
        Append a constant feature.
    loss : NAME
        logistic, squared or huber.
    epsilon
        Privacy budget of one run.
    delta
        Privacy budget of one run. [default: 1/(10 horizon)]
    rounds_per_person
        The budget is for all rounds of a person, who has at most so many. [default: for one round]
    separation
        With --rounds-per-person: two of them are at least so many rounds apart. [default: 1]
    person : COLUMN
        Column that says whose record a row is. What a person has beyond --rounds-per-person is
        played as an empty record. Bundled streams have no such column: nobody sees to it there.
    p
        Decisions lie in an l_p ball; 1 to inf. [default: 2; 1 for polyhedral-frank-wolfe]
    radius
        Radius of the ball; of high-dimensional-bandit, of the l_1 ball of an arm. [default: reaches
        Euclidean length 8 for the logistic loss, 1 otherwise]
    feature_bound
        Longer records (Euclidean, after scaling) are shortened to this; for
        high-dimensional-bandit, by their largest entry. [default: sqrt(columns / 3); 1]
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
        auto, blt, tree, honaker or toeplitz, where the learner sums with noise.
    noise : NAME
        gaussian or generalized_gaussian. [default: what the calibration prescribes]
    calibration : NAME
        tight, corrected or paper.
    step_scale
        s in the steps s/(k + s) of tree-frank-wolfe.
    batch
        Rounds per update. [default: of tree-frank-wolfe horizon/1000, 1 for --calibration paper;
        else the learner's own]
    option : NAME=VALUE
        Any other option of the learner, as its constructor takes it; repeatable. See dpoco plan
        LEARNER --help.
    repeats
        Private runs with independent noise, for evaluation. [default: 10; 1 with --checkpoint or
        --decision]
    seed
        Reproducible noise, which voids the guarantee. [default: the operating system's entropy]
    out : DIR
        Where report.json and report.png go.
    output : FILE
        Write the report here, too.
    decision : FILE
        Write the model that the private run released: decision, columns, ranges, guarantee. It may
        be published, unlike the report. dpoco predict applies it.
    force : --force
        Replace files of an earlier run. [default: refuse; --resume replaces them]
    figure
        Draw report.png (needs matplotlib).
    checkpoint : FILE
        Keep the learner's state here, also when interrupted. Secret, like the data, or encrypted:
        dpoco --key-file FILE run ...
    resume : --resume
        Continue the learner in --checkpoint: all rows are new rounds for it. Repeat the other
        options, but for --horizon.
    skip_played : --skip-played
        With --resume: the rows begin with the rounds played already; skip these.
    show_progress : --progress/--no-progress
        Tell at rounds 1, 2, 4, 8, ... how the first private run is going, on standard error.
        [default: on a terminal]
    """
    asked = shell.asked_of(context)
    with shell.errors_in_one_line(checkpoint), shell.notes(quiet):
        if file is not None and shell.was_given(context, "data"):
            raise ValueError("FILE and --data name the same thing: give one of them")
        data = asked["data"] = data if file is None else file
        asked = with_ranges(asked)
        if synthetic is not None and not shell.was_given(context, "loss"):
            asked["loss"] = "squared"
        (entry,) = learners_of([learner], FAMILIES, asked)
        check_writable(out, output, decision, checkpoint)
        fits = entry.plays == "batch"
        if fits and (checkpoint is not None or resume):
            raise ValueError(f"{entry.name} makes one fit: there is nothing to --resume")
        if skip_played and not resume:
            raise ValueError("--skip-played needs --resume")
        if decision is not None and seed is not None:
            raise ValueError("--decision needs fresh noise: leave out --seed")
        alone = checkpoint is not None or decision is not None
        count = repeats if repeats is not None else (1 if alone else 10)
        table = show_progress is not False and not (quiet or as_json or fits)
        key = None if checkpoint is None else shell.state_key()
        saved = started_learner(checkpoint, resume)
        if horizon is None and saved is not None:
            horizon = saved.horizon
        (game,) = games_of([entry], {**asked, "horizon": horizon, "resumed": saved})
        if decision is not None and game.records is None:
            raise ValueError("--decision is for learners of records, whose decision predicts")
        models: list[dpoco.Model] = []

        def released(learner: Any) -> None:
            if decision is not None and game.records is not None:
                models.append(dpoco.Model.of(learner, game.records, label or "label"))

        budget = Budget._over(epsilon, delta, game.horizon if horizon is None else horizon)
        if not (force or resume):
            shell.check_new(out / "report.json", output, decision)
        with shell.progress(quiet or as_json, lines=show_progress, table=table) as (show, snapshot):
            common: dict[str, Any] = {
                "repeats": count, "seed": seed, "progress": show, "released": released,
            }  # fmt: skip
            report: Any = (
                fit_game(game, budget, **common)
                if fits
                else play_game(
                    game, budget, snapshot=snapshot, checkpoint=checkpoint, key=key, resume=saved,
                    skip_played=skip_played, **common,
                )
            )  # fmt: skip
        named = not (data is None and stream_name is None and synthetic is None)
        default = not named and "task" in report.stream
        if default and report.stream["name"] != "shuttle" and not quiet:
            typer.echo(
                "note: no shuttle stream here (river 0.26, Python 3.11); playing "
                f"{report.stream['name']}",
                err=True,
            )
        report = replace(report, settings={**report.settings, "command": asked})
        files = shell.write_report(report, out / "report.json", _draw if figure else None)
        if output is not None:
            output.write_text(report.to_json() + "\n", encoding="utf-8")
            files.append(str(output))
        if decision is not None:
            models[0].save(decision)
            files.append(f"{decision}, which may be published")
        if as_json:
            typer.echo(report.to_json())
        elif not quiet:
            (print_fit if fits else print_report)(report, files)
        left = report.rows["beyond_horizon"]
        if checkpoint is not None and left:
            typer.echo(
                f"error: {left:,} rows were not played: the horizon of "
                f"{report.settings['horizon']:,} rounds is used up",
                err=True,
            )
            raise typer.Exit(_ROWS_LEFT)


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
    delta: float | None = None,
    data: str | None = None,
    header: bool | None = None,
    stream_name: str | None = None,
    label: str | None = None,
    features: str | None = None,
    feature_range: list[str] | None = None,
    label_range: str | None = None,
    loss_range: str | None = None,
    loss: str = "logistic",
    rounds_per_person: int | None = None,
    separation: int | None = None,
    person: str | None = None,
    p: float = 2.0,
    radius: float | None = None,
    horizon: int | None = None,
    repeats: int = 5,
    seed: int | None = None,
    baseline: bool = True,
    out: Path = Path("results"),
    force: bool = False,
    figure: bool = True,
    config: shell.Config = None,
    as_json: shell.JsonFlag = False,
    quiet: shell.Quiet = False,
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
    delta
        Privacy budget of one run. [default: 1/(10 horizon)]
    data : FILE
        CSV, Parquet or NPZ file, one round a row, in order.
    header
        As for dpoco run.
    stream_name : --stream NAME
        Bundled stream; see dpoco datasets. [default: phishing]
    label : COLUMN
        As for dpoco run.
    features : A,B,...
        As for dpoco run.
    feature_range : [COLUMN=]LOW,HIGH
        As for dpoco run.
    label_range : LOW,HIGH
        As for dpoco run.
    loss_range : LOW,HIGH
        As for dpoco run.
    loss : NAME
        logistic, squared or huber.
    rounds_per_person
        As for dpoco run.
    separation
        As for dpoco run.
    person : COLUMN
        As for dpoco run.
    p
        Decisions lie in an l_p ball, the same for all learners.
    radius
        As for dpoco run.
    horizon
        Rounds the guarantees cover. [default: all]
    repeats
        Runs of each learner at each budget, with independent noise.
    seed
        Reproducible noise, which voids the guarantees. [default: the operating system's entropy]
    baseline
        Also without noise.
    out : DIR
        Where comparison.json and comparison.png go.
    force : --force
        Replace those of an earlier comparison.
    figure
        Draw comparison.png (needs matplotlib).
    """
    asked = shell.asked_of(context)
    with shell.errors_in_one_line(), shell.notes(quiet):
        if learners is None:
            learners = _EXPERTS if stream_name in STREAMS_OF_LOSSES else _RECORDS
        entries = learners_of([name.strip() for name in learners.split(",")], _COMPARED, asked)
        if len({entry.name for entry in entries}) < len(entries):
            raise ValueError("--learners names one of them twice")
        sizes = shell.numbers("--epsilons", epsilons, positive=True)
        if len(set(sizes)) < len(sizes):
            raise ValueError("--epsilons names one of them twice")
        if out.exists() and not out.is_dir():
            raise ValueError("--out must be a directory")
        of_records = entries[0].plays in ("records", "batch")
        problem = {**UNASKED, **asked, "p": p if of_records or p != 2.0 else None}
        problem["epsilon"] = sorted(sizes)[len(sizes) // 2]  # what auto is chosen for
        if data is None and stream_name is None and entries[0].plays != "experts":
            problem["stream"] = "phishing"
        games = games_of(entries, problem)
        first = games[0]
        why = next((game.chosen for game in games if game.chosen), None)
        covered, given = first.horizon if horizon is None else horizon, len(first.data[0])
        rows = slice(min(covered, given))
        best = first.comparators(rows, None).fixed
        comparator = {name: best[name] for name in ("total_loss", "average_loss")}
        if "reward_range" in first.loss:
            comparator["largest_reward"] = first.loss["reward_range"][1]
        rule = participation_of(problem)
        people = {} if rule is None else {"participation": rule.to_dict()}
        budgets = [Budget._over(size, delta, covered) for size in sorted(sizes)]
        if not force:
            shell.check_new(out / "comparison.json")
        with shell.progress(quiet or as_json) as (show, _):
            result = dpoco.evaluation.compare(
                {entry.name: game.build for entry, game in zip(entries, games, strict=True)},
                tuple(column[rows] for column in first.data),
                budgets=[*budgets, *([None] if baseline else [])],
                comparator={"name": best.get("name", "best fixed decision"), **comparator},
                repeats=repeats, seed=seed, progress=show,
                stream={**first.stream, "rounds": rows.stop, "beyond_horizon": given - rows.stop},
                settings={"horizon": covered, **people, "chosen": why, "command": asked},
                persons=None if first.persons is None else first.persons[rows],
            )  # fmt: skip
        files = shell.write_report(
            result, out / "comparison.json", _draw_comparison if figure else None
        )
        if as_json:
            typer.echo(result.to_json())
        elif not quiet:
            print_comparison(result, files)


def _draw_comparison(result: Any) -> Any:
    axes = dpoco.plotting.plot_comparison(result, measure="average_loss")
    axes.set_title(
        f"{result.stream['name']}: {result.settings['horizon']:,} rounds, median and range "
        f"of {result.settings['repeats']} runs", loc="left", fontsize="medium",
    )  # fmt: skip
    return axes.figure.get_figure(root=True)
