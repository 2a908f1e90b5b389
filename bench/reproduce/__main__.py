"""Rerun published tables and figures: ``python -m bench.reproduce``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from bench.reproduce.comparisons import comparisons
from bench.reproduce.figure import figure_5_1
from bench.reproduce.plots import plot_figure_5_1, plot_table_5_1, plot_training
from bench.reproduce.table import format_markdown, table_5_1
from bench.reproduce.training import Training, figure_5_2, figure_5_3

from dpoco.cli import _shell as shell

app = typer.Typer(
    help="Rerun published tables and figures at the budget they state.\n\n"
    "Example: python -m bench.reproduce table-5.1 --quick",
    no_args_is_help=True,
)

_DPI = 75  # a PNG below 100 kB


@app.command("table-5.1")
def table_command(
    horizon: str | None = shell.option(
        None, "Some of 1000,2000,5000,10000. [default: all]", metavar="T,T,..."
    ),
    dimension: str | None = shell.option(
        None, "Some of 5,10,20. [default: all]", metavar="D,D,..."
    ),
    p: str | None = shell.option(None, "1.5 or inf. [default: both]", metavar="P,P"),
    seeds: int = shell.option(10, "Runs per cell."),
    seed: int = shell.option(0, "Seed of the first run; the others follow."),
    target: str = shell.option(
        "dense", "True parameter: dense (as printed), sparse5, gaussian.", metavar="NAME"
    ),
    learning_runs: int = shell.option(
        40, "Runs a look in the search for horizons that learn; 0: none."
    ),
    baselines: bool = shell.option(False, "Also NoisySFW, NoisySGD and PhasedSGD.", "--baselines"),
    baseline_seconds: float = shell.option(
        20.0, "CPU time a baseline may take in a cell; it runs at least once."
    ),
    figure: Path | None = shell.option(
        None, "Also draw it: a PNG, PDF or SVG file.", metavar="FILE"
    ),
    quick: bool = shell.option(False, "A small part, in a few seconds.", "--quick"),
    as_json: shell.JsonFlag = False,
) -> None:
    """Han et al., Table 5.1: private regression in l_p geometry, at (1, 1/T).

    The tree Frank-Wolfe learner with published constants, corrected, tight and without noise, next
    to the printed numbers; the budget that each of these needs; what the printed noise spends.

    For example:

    python -m bench.reproduce table-5.1 --quick

    python -m bench.reproduce table-5.1 --horizon 1000,10000 --p inf --figure table.png

    python -m bench.reproduce table-5.1 --baselines --json
    """
    with shell.errors_in_one_line():
        shell.check_figure(figure)
        horizons = shell.whole_numbers("--horizon", horizon) if horizon else None
        with shell.progress(as_json) as (show, _):
            result = table_5_1(
                horizons=[1000] if quick and horizons is None else horizons,
                dimensions=shell.whole_numbers("--dimension", dimension) if dimension else None,
                p=shell.numbers("--p", p) if p else None,
                seeds=min(seeds, 3) if quick else seeds,
                first_seed=seed,
                target=target,
                learning_runs=0 if quick else learning_runs,
                baselines=baselines,
                baseline_seconds=baseline_seconds,
                progress=show,
            )
        typer.echo(result.to_json() if as_json else format_markdown(result))
        if figure is not None:
            plot_table_5_1(result).savefig(figure, dpi=_DPI)


@app.command("figure-5.1")
def figure_command(
    horizon: int = shell.option(10000, "Rounds."),
    dimension: int = shell.option(50, "Entries of a context."),
    arms: str = shell.option("2,5", "Numbers of arms.", metavar="K,K,..."),
    epsilon: float = shell.option(1.0, "Privacy budget; delta is 1/horizon."),
    runs: int = shell.option(10, "Worlds."),
    seed: int = shell.option(0, "Seed of the first run; the others follow."),
    figure: Path | None = shell.option(
        None, "Also draw it: a PNG, PDF or SVG file.", metavar="FILE"
    ),
    quick: bool = shell.option(False, "A small part, in a few seconds.", "--quick"),
    as_json: shell.JsonFlag = False,
) -> None:
    """Han et al., Figure 5.1: regret of private bandits, at (1, 1/T)-joint privacy.

    HighDimensionalBandit and LinUCB at the stated budget next to uniformly random play, and the
    published selection, whose noise can be multiplied by 1000 with no effect: it is not private.

    For example:

    python -m bench.reproduce figure-5.1 --quick

    python -m bench.reproduce figure-5.1 --epsilon 4 --arms 2 --figure regret.png
    """
    with shell.errors_in_one_line():
        shell.check_figure(figure)
        with shell.progress(as_json) as (show, _):
            result = figure_5_1(
                horizon=min(horizon, 2000) if quick else horizon, dimension=dimension,
                arms=shell.whole_numbers("--arms", arms), epsilon=epsilon,
                runs=min(runs, 2) if quick else runs, first_seed=seed, progress=show,
            )  # fmt: skip
        typer.echo(result.to_json() if as_json else result.format_markdown())
        if figure is not None:
            plot_figure_5_1(result).savefig(figure, dpi=_DPI)


@app.command("figure-5.2")
def scalings_command(
    seeds: int = shell.option(10, "Runs of a curve."),
    seed: int = shell.option(0, "Seed of the first run; the others follow."),
    figure: Path | None = shell.option(
        None, "Also draw it: a PNG, PDF or SVG file.", metavar="FILE"
    ),
    quick: bool = shell.option(False, "A small part, in a few seconds.", "--quick"),
    as_json: shell.JsonFlag = False,
) -> None:
    """Han et al., Figure 5.2: learning rates, and mirror descent next to them, at (1, 1/T).

    For example:

    python -m bench.reproduce figure-5.2 --quick
    """
    with shell.errors_in_one_line():
        shell.check_figure(figure)
        with shell.progress(as_json) as (show, _):
            size: dict[str, Any] = {"horizon": 300, "dimension": 3} if quick else {}
            result = figure_5_2(seeds=2 if quick else seeds, first_seed=seed, progress=show, **size)
        _show_training(result, as_json, figure, seconds=False)


@app.command("figure-5.3")
def times_command(
    seeds: int = shell.option(10, "Runs of a curve."),
    seed: int = shell.option(0, "Seed of the first run; the others follow."),
    figure: Path | None = shell.option(
        None, "Also draw it: a PNG, PDF or SVG file.", metavar="FILE"
    ),
    quick: bool = shell.option(False, "A small part, in a few seconds.", "--quick"),
    as_json: shell.JsonFlag = False,
) -> None:
    """Han et al., Figure 5.3: suboptimality over CPU time, at (1, 1/T).

    For example:

    python -m bench.reproduce figure-5.3 --figure times.png
    """
    with shell.errors_in_one_line():
        shell.check_figure(figure)
        with shell.progress(as_json) as (show, _):
            size: dict[str, Any] = {"sizes": [(300, 3)]} if quick else {}
            result = figure_5_3(seeds=2 if quick else seeds, first_seed=seed, progress=show, **size)
        _show_training(result, as_json, figure, seconds=True)


def _show_training(result: Training, as_json: bool, figure: Path | None, *, seconds: bool) -> None:
    typer.echo(result.to_json() if as_json else result.format_markdown())
    if figure is not None:
        plot_training(result, seconds=seconds).savefig(figure, dpi=_DPI)


@app.command("comparisons")
def comparisons_command() -> None:
    """Tables of rates in the papers, as numbers next to proved bounds.

    For example:

    python -m bench.reproduce comparisons
    """
    typer.echo(comparisons())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    code = app(args=arguments, prog_name="python -m bench.reproduce", standalone_mode=False)
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
