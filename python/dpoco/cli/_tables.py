"""``dpoco table``: tables of the accounting, as Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from dpoco.cli._support import errors_in_one_line

__all__ = ["table_app"]

table_app = typer.Typer(
    help="Print tables of the accounting, as Markdown or JSON.\n\nExample: dpoco table regret",
    no_args_is_help=False,
    rich_markup_mode=None,
)

SCHEMA = "dpoco.table/1"

_Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def _say(name: str, entries: list[Any], markdown: str, as_json: bool) -> None:
    if not as_json:
        typer.echo(markdown)
        return
    record = {"schema": SCHEMA, "table": name, "rows": [asdict(entry) for entry in entries]}
    typer.echo(json.dumps(record, allow_nan=False, indent=2))


@table_app.command()
def noise(
    horizons: Annotated[
        str, typer.Option(metavar="N,N,...", help="Numbers of rounds.")
    ] = "1000,10000,100000,1000000,10000000",
    epsilons: Annotated[
        str, typer.Option(metavar="E,E,...", help="Privacy budgets.")
    ] = "0.1,0.5,1,2,4,8",
    as_json: _Json = False,
) -> None:
    """Noise of the published constants over exact accounting, as a Markdown table.

    Each cell: the ratio of the scales with a binary tree; the ratio on the noisiest released sum
    with the default sum; the epsilon that the published noise really spends. delta = 1/rounds.

    For example:

    dpoco table noise --horizons 1000,100000 --epsilons 1,4
    """
    with errors_in_one_line():
        from dpoco.accounting import tables

        entries = tables.noise_table(
            [int(n) for n in _numbers("--horizons", horizons, 1)],
            _numbers("--epsilons", epsilons, 0),
        )
        _say("noise", entries, tables.format_markdown(entries), as_json)


@table_app.command()
def regret(
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Privacy budget.")] = 1e-6,
    as_json: _Json = False,
) -> None:
    """Proven regret per round of the Euclidean learners, as a Markdown table.

    In units of G D: losses are G-Lipschitz on a ball of diameter D; standing still has 1/2.

    For example:

    dpoco table regret --epsilon 4
    """
    with errors_in_one_line():
        from dpoco.accounting import regret_table

        entries = regret_table.regret_table(epsilon=epsilon, delta=delta)
        _say("regret", entries, regret_table.format_markdown(entries), as_json)


@table_app.command()
def experts(
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Privacy budget, positive.")] = 1e-6,
    as_json: _Json = False,
) -> None:
    """Proven regret of the learners of experts against S switches, as a Markdown table.

    Losses in [0, 1]; a bound above the number of rounds says nothing.

    For example:

    dpoco table experts --epsilon 4 --json
    """
    with errors_in_one_line():
        from dpoco.accounting import expert_table

        entries = expert_table.expert_table(epsilon=epsilon, delta=delta)
        _say("experts", entries, expert_table.format_markdown(entries), as_json)


def _numbers(name: str, text: str, at_least: int) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{name} must be numbers separated by commas; got {text!r}") from None
    whole = at_least == 0 or all(value.is_integer() for value in values)
    if not whole or not all(at_least <= value < 1e13 and value > 0 for value in values):
        kind = "whole numbers" if at_least else "positive numbers"
        raise ValueError(f"{name} must be {kind} separated by commas; got {text!r}")
    return values
