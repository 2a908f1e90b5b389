"""What is claimed, tried out: ``dpoco audit`` and ``dpoco reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dpoco
from dpoco.cli._support import (
    JsonFlag,
    check_figure,
    documented_options,
    errors_in_one_line,
    numbers,
    print_json,
    progress,
    whole_numbers,
)

SCHEMA, NAMES_SCHEMA = "dpoco.audit/2", "dpoco.audit-names/1"
# 2 is bad input, of all commands.
_EXIT_CODES = {"not refuted": 0, "refuted": 1, "no power": 3}


@documented_options
def audit_command(
    learner: Annotated[
        str | None,
        typer.Argument(
            metavar="LEARNER",
            help="Name of a learner or mechanism, such as tree-frank-wolfe; see --list.",
        ),
    ] = None,
    list_names: bool = False,
    epsilon: float = 1.0,
    delta: float | None = None,
    horizon: int | None = None,
    dimension: int | None = None,
    calibration: str = "tight",
    trials: int | None = None,
    seed: int = 0,
    figure: Path | None = None,
    as_json: JsonFlag = False,
) -> None:
    """Attack a learner's privacy claim: on one random tape, by exact likelihoods, by frequencies.

    Exit code 0 says that the claim is not refuted, by attacks with the power that the report names;
    1 that it is refuted; 2 stands for bad input; 3 that there was no power: nothing is said about
    the claim. No exit code says that a claim holds.

    For example:

    dpoco audit tree-frank-wolfe --trials 2000

    dpoco audit --list

    Parameters
    ----------
    list_names : --list
        Print all names, and nothing else.
    epsilon
        Privacy budget.
    delta
        Privacy budget. [default: 0 where the learner allows it, else 1e-3]
    horizon
        Rounds. [default: a few, the hardest]
    dimension
        Coordinates, experts, points or candidates. [default: a few]
    calibration : NAME
        tight, corrected or paper. With paper the published claim is attacked where it is stronger
        than what is stated here for the same noise.
    trials
        Runs on each of the two streams. [default: enough for power]
    seed
        Of all runs, at least 0.
    figure : FILE
        Draw claimed and measured curves (needs matplotlib).
    """
    from dpoco import audit

    with errors_in_one_line():
        if list_names:
            names = audit.standard_names()
            if as_json:
                print_json({"schema": NAMES_SCHEMA, "names": names})
            else:
                typer.echo("\n".join(names))
            return
        if learner is None:
            raise ValueError("name a learner, or ask for --list")
        check_figure(figure)
        if seed < 0:
            raise ValueError(f"--seed must be at least 0; got {seed}")
        report = audit.audit_learner(
            learner,
            epsilon=epsilon,
            delta=delta,
            horizon=horizon,
            dimension=dimension,
            calibration=calibration,
            trials=trials,
            seed=seed,
        )
        if as_json:
            record = {"schema": SCHEMA, **report.to_dict()}
            print_json(record)
        else:
            typer.echo(str(report))
        if figure is not None:
            canvas = dpoco.plotting.new_figure((6.5, 5.5))
            dpoco.plotting.plot_audit(report, ax=canvas.subplots())
            canvas.savefig(figure)
            if not as_json:
                typer.echo(f"\nWritten: {figure}")
    raise typer.Exit(_EXIT_CODES[report.outcome])


reproduce_app = typer.Typer(
    help="Rerun published tables and figures at the budget they state.\n\n"
    "Example: dpoco reproduce table-5.1 --quick",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_DPI = 75  # a PNG below 100 kB


@reproduce_app.command("table-5.1")
@documented_options
def table_5_1(
    horizon: str | None = None,
    dimension: str | None = None,
    p: str | None = None,
    seeds: int = 10,
    seed: int = 0,
    target: str = "dense",
    learning_runs: int = 40,
    baselines: bool = False,
    baseline_seconds: float = 20.0,
    figure: Path | None = None,
    quick: bool = False,
    as_json: JsonFlag = False,
) -> None:
    """Han et al., Table 5.1: private regression in l_p geometry, at (1, 1/T).

    The tree Frank-Wolfe learner with published constants, corrected, tight and without noise beside
    print; the budget that each printed number needs; what the printed noise law really spends.

    For example:

    dpoco reproduce table-5.1 --quick

    dpoco reproduce table-5.1 --horizon 1000,10000 --dimension 5 --p inf --figure table.png

    dpoco reproduce table-5.1 --baselines --json

    Parameters
    ----------
    horizon : T,T,...
        Some of 1000,2000,5000,10000. [default: all]
    dimension : D,D,...
        Some of 5,10,20. [default: all]
    p : P,P
        1.5 or inf. [default: both]
    seeds
        Runs per cell.
    seed
        Seed of the first run; the others follow.
    target : NAME
        True parameter: dense (as printed), sparse5, gaussian.
    learning_runs
        Runs a look in the search for horizons that learn; 0: none.
    baselines : --baselines
        Also NoisySFW, NoisySGD and PhasedSGD.
    baseline_seconds
        CPU time a baseline may take in a cell; it runs at least once.
    figure : FILE
        Also draw it: a PNG, PDF or SVG file.
    quick : --quick
        A small part, in a few seconds.
    """
    with errors_in_one_line():
        check_figure(figure)
        horizons = whole_numbers("--horizon", horizon) if horizon else None
        with progress(as_json) as (show, _):
            result = dpoco.reproduce.table_5_1(
                horizons=[1000] if quick and horizons is None else horizons,
                dimensions=whole_numbers("--dimension", dimension) if dimension else None,
                p=numbers("--p", p) if p else None,
                seeds=min(seeds, 3) if quick else seeds,
                first_seed=seed,
                target=target,
                learning_runs=0 if quick else learning_runs,
                baselines=baselines,
                baseline_seconds=baseline_seconds,
                progress=show,
            )
        typer.echo(result.to_json() if as_json else dpoco.reproduce.format_markdown(result))
        if figure is not None:
            dpoco.plotting.plot_table_5_1(result).savefig(figure, dpi=_DPI)


@reproduce_app.command("figure-5.1")
@documented_options
def figure_5_1(
    horizon: int = 10000,
    dimension: int = 50,
    arms: str = "2,5",
    epsilon: float = 1.0,
    runs: int = 10,
    seed: int = 0,
    figure: Path | None = None,
    quick: bool = False,
    as_json: JsonFlag = False,
) -> None:
    """Han et al., Figure 5.1: regret of private bandits, at (1, 1/T)-joint privacy.

    HighDimensionalBandit and LinUCB at the stated budget beside uniformly random play, and the
    published selection, whose noise can be multiplied by 1000 with no effect: it is not private.

    For example:

    dpoco reproduce figure-5.1 --quick

    dpoco reproduce figure-5.1 --epsilon 4 --arms 2 --figure regret.png

    Parameters
    ----------
    horizon
        Rounds.
    dimension
        Entries of a context.
    arms : K,K,...
        Numbers of arms.
    epsilon
        Privacy budget; delta is 1/horizon.
    runs
        Worlds.
    seed
        Seed of the first run; the others follow.
    figure : FILE
        Also draw it: a PNG, PDF or SVG file.
    quick : --quick
        A small part, in a few seconds.
    """
    with errors_in_one_line():
        check_figure(figure)
        with progress(as_json) as (show, _):
            result = dpoco.reproduce.figure_5_1(
                horizon=min(horizon, 2000) if quick else horizon,
                dimension=dimension,
                arms=whole_numbers("--arms", arms),
                epsilon=epsilon,
                runs=min(runs, 2) if quick else runs,
                first_seed=seed,
                progress=show,
            )
        typer.echo(result.to_json() if as_json else result.format_markdown())
        if figure is not None:
            dpoco.plotting.plot_figure_5_1(result).savefig(figure, dpi=_DPI)
