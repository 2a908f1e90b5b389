"""``dpoco run``: a private learner on a stream, beside everything it should be compared with."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpoco
from dpoco.cli._play import FAMILIES, play
from dpoco.cli._render import print_fit, print_report
from dpoco.cli._support import Config, asked_of, errors_in_one_line, notes, progress
from dpoco.learners import learner_named

if TYPE_CHECKING:
    from dpoco.evaluation import FitReport, RunReport


def started_learner(checkpoint: Path | None, resume: bool) -> Any:
    """Return the saved learner to continue, or None; refuse to overwrite a state by accident."""
    if checkpoint is None:
        if resume:
            raise ValueError("--resume needs --checkpoint FILE")
        return None
    if not resume:
        if checkpoint.exists():
            raise ValueError(f"{checkpoint} exists: add --resume to continue it, or remove it")
        if not checkpoint.parent.is_dir():
            raise ValueError(f"no such directory: {checkpoint.parent}")
        return None
    return dpoco.load(checkpoint)


def check_writable(directory: Path, output: Path | None) -> None:
    """Find out before a long run, not after it, that the report has no place to go."""
    nearest = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out must be a directory; {nearest} is not")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--out: no permission to write in {nearest}")
    if output is not None and not output.absolute().parent.is_dir():
        raise ValueError(f"--output: no such directory: {output.parent}")


def write_report(
    report: RunReport | FitReport, out: Path, output: Path | None, figure: bool
) -> list[str]:
    """Write report.json, report.png if asked for, and `output`; return the files' names."""
    out.mkdir(parents=True, exist_ok=True)
    text = out / "report.json"
    text.write_text(report.to_json() + "\n", encoding="utf-8")
    files = [str(text)]
    if figure:
        image = out / "report.png"
        try:
            if isinstance(report, dpoco.evaluation.FitReport):
                dpoco.plotting.plot_fit_report(report).figure.get_figure(root=True).savefig(image)
            else:
                dpoco.plotting.plot_run_report(report).savefig(image)
        except ImportError as error:
            typer.echo(f"note: no figure: {error}", err=True)
        else:
            files.append(str(image))
    if output is not None:
        output.write_text(report.to_json() + "\n", encoding="utf-8")
        files.append(str(output))
    return files


# Options that a report does not tell: where it goes, and what continues another run.
_NOT_TOLD = (
    "out", "output", "figure", "checkpoint", "resume", "skip_played", "progress", "config",
    "json", "quiet",
)  # fmt: skip
_ROWS_LEFT = 4  # exit code: a learner that is kept has not got all rows


def run_command(
    context: typer.Context,
    learner: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="tree-frank-wolfe, polyhedral-frank-wolfe, noisy-ftrl, ctrl, comw for records; "
            "prefix-hedge, epoch-selector, shift-detector, oblivious-tracker, batch-share for "
            "losses of experts; linucb, high-dimensional-bandit for records whose classes are "
            "arms; lipschitz for a running quantile; noisy-sgd, phased-sgd, "
            "localized-mirror-descent, noisy-frank-wolfe for one fit to all records.",
        ),
    ] = "tree-frank-wolfe",
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="CSV, Parquet or NPZ file, one round a row, in order.",
        ),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            help="Whether the first row of a CSV file names the columns; if not, they are named "
            "1, 2, ... [default: it does, but is refused if it holds a number: it may be a record]"
        ),
    ] = None,
    stream_name: Annotated[
        str | None,
        typer.Option(
            "--stream",
            metavar="NAME",
            help="Bundled stream, without --data: shuttle or phishing, of experts pollsters or "
            "stocks; see dpoco datasets. [default: shuttle, of experts pollsters; phishing on "
            "Python 3.10, where river has no shuttle]",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the labels. Logistic loss: the probability of the event, in [0, 1] "
            "(1 = it happened); other values are clipped. Regression: a number in --label-range. "
            "Bandits: the class. lipschitz: the column, or two, to be near to.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Feature columns, or the experts' losses. [default: all but the label]",
        ),
    ] = None,
    feature_range: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[COLUMN=]LOW,HIGH",
            help="Public range of all columns, or of one; repeatable. Mapped to [-1, 1], values "
            "outside saturate. Declare it from knowledge, never from the records. "
            "[default: -1,1]",
        ),
    ] = None,
    label_range: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="Public range of the labels, mapped to [-1, 1] (logistic loss: to [0, 1]). "
            "Bandits: the first class and the last, whole numbers. [default of bandits: 0,1]",
        ),
    ] = None,
    loss_range: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            help="Public range of experts' losses; values outside are clipped. [default: 0,1]",
        ),
    ] = None,
    intercept: Annotated[bool, typer.Option(help="Append a constant feature.")] = True,
    loss: Annotated[str, typer.Option(metavar="NAME", help="logistic, squared or huber.")] = (
        "logistic"
    ),
    epsilon: Annotated[float, typer.Option(help="Privacy budget of one run.")] = 1.0,
    delta: Annotated[
        float | None, typer.Option(help="Privacy budget of one run. [default: 1/(10 horizon)]")
    ] = None,
    p: Annotated[
        float | None,
        typer.Option(
            "--p",
            help="Decisions lie in an l_p ball; 1 to inf. [default: 2; 1 for "
            "polyhedral-frank-wolfe]",
        ),
    ] = None,
    radius: Annotated[
        float | None,
        typer.Option(
            help="Radius of the ball; of high-dimensional-bandit, of the l_1 ball of an arm. "
            "[default: reaches Euclidean length 8 for the logistic loss, 1 otherwise]"
        ),
    ] = None,
    feature_bound: Annotated[
        float | None,
        typer.Option(
            help="Longer records (Euclidean, after scaling) are shortened to this; for "
            "high-dimensional-bandit, by their largest entry. [default: sqrt(columns / 3); 1]"
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Rounds the guarantee covers; later rows are left out. [default: all rows; with "
            "--resume, what the learner has]"
        ),
    ] = None,
    switches: Annotated[
        int | None,
        typer.Option(
            help="Of the sequence of experts to compete with, for oblivious-tracker and "
            "batch-share. [default: 0]"
        ),
    ] = None,
    exploration: Annotated[
        float | None,
        typer.Option(
            help="Of linucb: factor on the proven widths of its intervals. A bound on regret needs "
            "1. [default: 0.1]"
        ),
    ] = None,
    quantile: Annotated[
        float | None,
        typer.Option(help="Of lipschitz: the quantile that is learned. [default: 0.5]"),
    ] = None,
    sum_method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto, blt, tree, honaker or toeplitz, where the learner sums with noise.",
        ),
    ] = "auto",
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="gaussian or generalized_gaussian. [default: what the calibration prescribes]",
        ),
    ] = None,
    calibration: Annotated[
        str, typer.Option(metavar="NAME", help="tight, corrected or paper.")
    ] = "tight",
    step_scale: Annotated[
        float, typer.Option(help="s in the steps s/(k + s) of tree-frank-wolfe.")
    ] = 1.0,
    batch: Annotated[
        int | None,
        typer.Option(
            help="Rounds per update. [default: of tree-frank-wolfe horizon/1000, 1 for "
            "--calibration paper; else the learner's own]"
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Private runs with independent noise, for evaluation. "
            "[default: 10; 1 with --checkpoint]"
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Reproducible noise, which voids the guarantee. "
            "[default: the operating system's entropy]"
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where report.json and report.png go.")
    ] = Path("results"),
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the report here, too: results.json."),
    ] = None,
    figure: Annotated[bool, typer.Option(help="Draw report.png (needs matplotlib).")] = True,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the learner's state here, also when interrupted. Secret, like the data.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the learner in --checkpoint: all rows are new rounds for it. Repeat the "
            "other options, but for --horizon.",
        ),
    ] = False,
    skip_played: Annotated[
        bool,
        typer.Option(
            "--skip-played",
            help="With --resume: the rows begin with the rounds played already; skip these.",
        ),
    ] = False,
    show_progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="Tell at rounds 1, 2, 4, 8, ... how the first private run is going, on standard "
            "error. [default: on a terminal]",
        ),
    ] = None,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Play a private learner on a stream and report how it compares.

    It is compared with the same learner without noise and the best fixed decision and the best
    constant prediction in hindsight (of experts: the best one and a random one; of bandits: a
    linear policy, the best arm and a random one). Batch baselines make one fit and have no regret.
    The report is for evaluation: it is computed from raw records.

    For example:

    dpoco run

    dpoco run --learner noisy-ftrl --stream phishing --epsilon 2 --output results.json

    dpoco run --data events.csv --label alarm --feature-range 0,10

    dpoco run --data visits.csv --label choice --label-range 1,4 --learner linucb

    dpoco run --data times.csv --label ms --label-range 0,2000 --learner lipschitz --quantile 0.99

    dpoco run --config results.json --epsilon 4
    """
    asked = asked_of(context, _NOT_TOLD)
    with errors_in_one_line(checkpoint), notes(quiet):
        entry = learner_named(learner, FAMILIES)
        check_writable(out, output)
        if entry.plays == "batch" and (checkpoint is not None or resume):
            raise ValueError(f"{entry.name} makes one fit: there is nothing to --resume")
        if skip_played and not resume:
            raise ValueError("--skip-played needs --resume")
        count = repeats if repeats is not None else (10 if checkpoint is None else 1)
        table = show_progress is not False and not (quiet or as_json) and entry.plays != "batch"
        with progress(quiet or as_json, lines=show_progress, table=table) as (show, snapshot):
            report = play(
                entry,
                asked,
                {
                    "repeats": count,
                    "seed": seed,
                    "progress": show,
                    "snapshot": snapshot,
                    "checkpoint": checkpoint,
                    "resume": started_learner(checkpoint, resume),
                    "skip_played": skip_played,
                },
            )
        default = data is None and stream_name is None and "task" in report.stream
        if default and report.stream["name"] != "shuttle" and not quiet:
            typer.echo(
                "note: no shuttle stream here (river 0.26, Python 3.11); playing "
                f"{report.stream['name']}",
                err=True,
            )
        report = replace(report, settings={**report.settings, "command": asked})
        files = write_report(report, out, output, figure)
        if as_json:
            typer.echo(report.to_json())
        elif not quiet:
            if isinstance(report, dpoco.evaluation.FitReport):
                print_fit(report, files)
            else:
                print_report(report, files)
        left = report.rows["beyond_horizon"]
        if checkpoint is not None and left:
            typer.echo(
                f"error: {left:,} rows were not played: the horizon of "
                f"{report.settings['horizon']:,} rounds is used up",
                err=True,
            )
            raise typer.Exit(_ROWS_LEFT)
