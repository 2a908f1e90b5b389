"""Commands and their options."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import dpoco
from dpoco.cli._audit import audit_command
from dpoco.cli._explain import explain_command
from dpoco.cli._plan import plan_app
from dpoco.cli._problem import build_problem, load_stream
from dpoco.cli._render import print_report
from dpoco.cli._reproduce import reproduce_app
from dpoco.cli._support import errors_in_one_line, notes, progress
from dpoco.cli._sweep import sweep_command
from dpoco.cli._tables import table_app

__all__ = ["app"]

app = typer.Typer(
    help="Private online learning: every decision of a stream under differential privacy.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(table_app, name="table")
app.add_typer(plan_app, name="plan")
app.add_typer(reproduce_app, name="reproduce")
app.command("explain")(explain_command)
app.command("audit")(audit_command)
app.command("sweep")(sweep_command)


@app.callback(invoke_without_command=True)
def _entry(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"dpoco {dpoco.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


@app.command()
def run(
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="CSV, Parquet or NPZ file, one round a row, in order.",
        ),
    ] = None,
    stream_name: Annotated[
        str | None,
        typer.Option(
            "--stream",
            metavar="NAME",
            help="Bundled stream, without --data: shuttle or phishing. [default: shuttle; "
            "phishing on Python 3.10, where river has no shuttle]",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column of the labels. Logistic loss: the probability of the event, in [0, 1] "
            "(1 = it happened); other values are clipped. Regression: a number in --label-range.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Feature columns. Default: all but the label."),
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
            help="Public range of the labels, mapped to [-1, 1] (logistic loss: to [0, 1]).",
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
    p: Annotated[float, typer.Option("--p", help="Decisions lie in an l_p ball; 1 to inf.")] = 2.0,
    radius: Annotated[
        float | None,
        typer.Option(
            help="Radius of the ball. [default: reaches Euclidean length 8 for the logistic "
            "loss, 1 otherwise]"
        ),
    ] = None,
    feature_bound: Annotated[
        float | None,
        typer.Option(
            help="Longer records (Euclidean, after scaling) are shortened to this. "
            "[default: sqrt(columns / 3)]"
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(help="Rounds the guarantee covers; later rows are left out. [default: all]"),
    ] = None,
    sum_method: Annotated[
        str, typer.Option(metavar="NAME", help="auto, blt, tree, honaker or toeplitz.")
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
    step_scale: Annotated[float, typer.Option(help="s in the steps s/(k + s).")] = 1.0,
    batch: Annotated[
        int | None,
        typer.Option(help="Rounds per update. [default: horizon/1000; 1 for --calibration paper]"),
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
    figure: Annotated[bool, typer.Option(help="Draw report.png (needs matplotlib).")] = True,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the learner's state here, also when interrupted. Secret, like the data.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the learner in --checkpoint.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Play a private learner on a stream and report how it compares.

    The private tree Frank-Wolfe learner is compared with the same learner without noise, the best
    fixed decision and the best constant prediction in hindsight. The report is for evaluation: it
    is computed from raw records.
    """
    asked = {
        "data": data,
        "stream": stream_name,
        "label": label,
        "features": features,
        "feature_range": feature_range,
        "label_range": label_range,
        "intercept": intercept,
        "loss": loss,
        "epsilon": epsilon,
        "delta": delta,
        "p": "inf" if p == float("inf") else p,
        "radius": radius,
        "feature_bound": feature_bound,
        "horizon": horizon,
        "sum_method": sum_method,
        "noise": noise,
        "calibration": calibration,
        "step_scale": step_scale,
        "batch": batch,
        "repeats": repeats,
        "seed": seed,
    }
    with errors_in_one_line(checkpoint), notes(quiet):
        _check_writable(out)
        started = _started_learner(checkpoint, resume)
        count = repeats if repeats is not None else (10 if checkpoint is None else 1)
        stream = load_stream(
            data,
            stream_name,
            label,
            None if features is None else [name.strip() for name in features.split(",")],
            feature_range or [],
            label_range,
            intercept,
            loss,
        )
        problem = build_problem(
            stream,
            loss=loss,
            epsilon=epsilon,
            delta=delta,
            horizon=horizon,
            p=p,
            radius=radius,
            feature_bound=feature_bound,
            calibration=calibration,
            noise=noise,
            sum_method=sum_method,
            step_scale=step_scale,
            batch=batch,
        )
        with progress(quiet or as_json) as show:
            report = dpoco.evaluation.compare_private(
                stream,
                problem.domain,
                problem.loss,
                budget=problem.budget,
                horizon=problem.horizon,
                repeats=count,
                seed=seed,
                progress=show,
                checkpoint=checkpoint,
                resume=started,
                **problem.options,
            )
        if data is None and stream_name is None and stream.name != "shuttle" and not quiet:
            typer.echo(
                f"note: no shuttle stream here (river 0.26, Python 3.11); playing {stream.name}",
                err=True,
            )
        report = replace(report, settings={**report.settings, "command": asked})
        files = _write(report, out, figure)
        if as_json:
            typer.echo(report.to_json())
        elif not quiet:
            print_report(report, files)


def _started_learner(checkpoint: Path | None, resume: bool) -> Any:
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
    learner = dpoco.load(checkpoint)
    if not isinstance(learner, dpoco.frank_wolfe.TreeFrankWolfe):
        raise ValueError(f"{checkpoint} is not the state of a tree Frank-Wolfe learner")
    return learner


def _check_writable(directory: Path) -> None:
    """Find out before a long run, not after it, that the report has no place to go."""
    nearest = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise ValueError(f"--out must be a directory; {nearest} is not")
    if not os.access(nearest, os.W_OK):
        raise ValueError(f"--out: no permission to write in {nearest}")


def _write(report: dpoco.evaluation.RunReport, out: Path, figure: bool) -> list[str]:
    out.mkdir(parents=True, exist_ok=True)
    text = out / "report.json"
    text.write_text(report.to_json() + "\n", encoding="utf-8")
    files = [str(text)]
    if figure:
        image = out / "report.png"
        try:
            dpoco.plotting.plot_run_report(report).savefig(image)
        except ImportError as error:
            typer.echo(f"note: no figure: {error}", err=True)
        else:
            files.append(str(image))
    return files
