"""``dpoco reproduce``: published tables and figures rerun at the budget they state, in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import dpoco
from dpoco.cli._support import errors_in_one_line, progress

__all__ = ["reproduce_app"]

reproduce_app = typer.Typer(
    help="Rerun published tables and figures at the budget they state.\n\n"
    "Example: dpoco reproduce table-5.1 --quick",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
_Figure = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also draw it: a PNG, PDF or SVG file.")
]
_Quick = Annotated[bool, typer.Option("--quick", help="A small part, in a few seconds.")]
_DPI = 75  # a PNG below 100 kB
_Seed = Annotated[int, typer.Option(help="Seed of the first run; the others follow.")]


@reproduce_app.command("table-5.1")
def table_5_1(
    horizon: Annotated[
        str | None,
        typer.Option(metavar="T,T,...", help="Some of 1000,2000,5000,10000. [default: all]"),
    ] = None,
    dimension: Annotated[
        str | None, typer.Option(metavar="D,D,...", help="Some of 5,10,20. [default: all]")
    ] = None,
    p: Annotated[
        str | None, typer.Option(metavar="P,P", help="1.5 or inf. [default: both]")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs per cell.")] = 10,
    seed: _Seed = 0,
    target: Annotated[
        str,
        typer.Option(metavar="NAME", help="True parameter: dense (as printed), sparse5, gaussian."),
    ] = "dense",
    learning_runs: Annotated[
        int, typer.Option(help="Runs a look in the search for horizons that learn; 0: none.")
    ] = 40,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also NoisySFW, NoisySGD and PhasedSGD.")
    ] = False,
    baseline_seconds: Annotated[
        float, typer.Option(help="CPU time a baseline may take in a cell; it runs at least once.")
    ] = 20.0,
    figure: _Figure = None,
    quick: _Quick = False,
    as_json: _Json = False,
) -> None:
    """Han et al., Table 5.1: private regression in l_p geometry, at (1, 1/T).

    The tree Frank-Wolfe learner with published constants, corrected, tight and without noise beside
    print; the budget that each printed number needs; what the printed noise law really spends.

    For example:

    dpoco reproduce table-5.1 --quick

    dpoco reproduce table-5.1 --horizon 1000,10000 --dimension 5 --p inf --figure table.png

    dpoco reproduce table-5.1 --baselines --json
    """
    with errors_in_one_line():
        _check_figure(figure)
        horizons = _whole("--horizon", horizon)
        with progress(as_json) as (show, _):
            result = dpoco.reproduce.table_5_1(
                horizons=[1000] if quick and horizons is None else horizons,
                dimensions=_whole("--dimension", dimension),
                p=_numbers("--p", p) if p else None,
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
def figure_5_1(
    horizon: Annotated[int, typer.Option(help="Rounds.")] = 10_000,
    dimension: Annotated[int, typer.Option(help="Entries of a context.")] = 50,
    arms: Annotated[str, typer.Option(metavar="K,K,...", help="Numbers of arms.")] = "2,5",
    epsilon: Annotated[float, typer.Option(help="Privacy budget; delta is 1/horizon.")] = 1.0,
    runs: Annotated[int, typer.Option(help="Worlds.")] = 10,
    seed: _Seed = 0,
    figure: _Figure = None,
    quick: _Quick = False,
    as_json: _Json = False,
) -> None:
    """Han et al., Figure 5.1: regret of private bandits, at (1, 1/T)-joint privacy.

    HighDimensionalBandit and LinUCB at the stated budget beside uniformly random play, and the
    published selection, whose noise can be multiplied by 1000 with no effect: it is not private.

    For example:

    dpoco reproduce figure-5.1 --quick

    dpoco reproduce figure-5.1 --epsilon 4 --arms 2 --figure regret.png
    """
    with errors_in_one_line():
        _check_figure(figure)
        with progress(as_json) as (show, _):
            result = dpoco.reproduce.figure_5_1(
                horizon=min(horizon, 2000) if quick else horizon,
                dimension=dimension,
                arms=_whole("--arms", arms) or [],
                epsilon=epsilon,
                runs=min(runs, 2) if quick else runs,
                first_seed=seed,
                progress=show,
            )
        typer.echo(result.to_json() if as_json else result.format_markdown())
        if figure is not None:
            dpoco.plotting.plot_figure_5_1(result).savefig(figure, dpi=_DPI)


def _check_figure(figure: Path | None) -> None:
    """Find out before a long run, not after it, that the figure has no place to go."""
    if figure is None:
        return
    if figure.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise ValueError("--figure must end in .png, .pdf or .svg")
    if not figure.absolute().parent.is_dir():
        raise ValueError(f"--figure: no such directory: {figure.parent}")


def _whole(name: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    values = _numbers(name, text)
    if not all(value.is_integer() for value in values):
        raise ValueError(f"{name} must be whole numbers separated by commas; got {text!r}")
    return [int(value) for value in values]


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers separated by commas; got {text!r}") from None
