"""Guarantees in words and in tables: ``dpoco explain`` and ``dpoco table``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from dpoco.accounting import Guarantee
from dpoco.accounting.explanation import explain, facts
from dpoco.accounting.ledger import Ledger
from dpoco.cli._support import (
    JsonFlag,
    documented_options,
    errors_in_one_line,
    numbers,
    print_json,
    whole_numbers,
)


def explain_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="JSON text of a guarantee (guarantee.to_json()), of a ledger (ledger.to_json()), "
            "or any JSON object that holds a guarantee under that name, such as the output of "
            "dpoco plan --json.",
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Say what a guarantee protects, against whom, what its numbers mean, and what it leaves out.

    All numbers are bounds for every attack, from the guarantee's own privacy curve.

    For example:

    dpoco plan ctrl --horizon 100000 --dimension 10 --json > plan.json

    dpoco explain plan.json
    """
    with errors_in_one_line():
        item = _read(file)
        ledger = item if isinstance(item, Ledger) else None
        guarantee = item.guarantee if isinstance(item, Ledger) else item
        if as_json:
            record = {"schema": "dpoco.explanation/1", **facts(guarantee)}
            if ledger is not None:
                record["ledger"] = _ledger_facts(ledger)
            print_json(record)
            return
        if ledger is not None:
            typer.echo(ledger.report() + "\n")
        typer.echo(explain(guarantee))


def _read(path: Path) -> Guarantee | Ledger:
    """Return what the file holds; `StateError` if it is neither."""
    text = path.read_text(encoding="utf-8")
    try:
        record: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not a JSON text") from None
    kind = record.get("kind") if isinstance(record, dict) else None
    if kind == "dpoco.ledger":
        return Ledger.from_dict(record)
    if kind is None and isinstance(record, dict) and isinstance(record.get("guarantee"), dict):
        record = record["guarantee"]
    return Guarantee.from_dict(record)


def _ledger_facts(ledger: Ledger) -> dict[str, Any]:
    left = ledger.remaining
    return {
        "spent": ledger.spent,
        "currency": ledger.currency,
        "adaptive": ledger.adaptive,
        "remaining": None if left is None else left.to_dict(),
        "charges": [entry.label for entry in ledger.entries],
    }


table_app = typer.Typer(
    help="Print tables of the accounting, as Markdown or JSON.\n\nExample: dpoco table regret",
    no_args_is_help=False,
    rich_markup_mode=None,
)

SCHEMA = "dpoco.table/1"


def _say(name: str, entries: list[Any], markdown: str, as_json: bool) -> None:
    if not as_json:
        typer.echo(markdown)
        return
    record = {"schema": SCHEMA, "table": name, "rows": [asdict(entry) for entry in entries]}
    print_json(record)


@table_app.command()
@documented_options
def noise(
    horizons: str = "1000,10000,100000,1000000,10000000",
    epsilons: str = "0.1,0.5,1,2,4,8",
    as_json: JsonFlag = False,
) -> None:
    """Noise of the published constants over exact accounting, as a Markdown table.

    Each cell: the ratio of the scales with a binary tree; the ratio on the noisiest released sum
    with the default sum; the epsilon that the published noise really spends. delta = 1/rounds.

    For example:

    dpoco table noise --horizons 1000,100000 --epsilons 1,4

    Parameters
    ----------
    horizons : N,N,...
        Numbers of rounds.
    epsilons : E,E,...
        Privacy budgets.
    """
    with errors_in_one_line():
        from dpoco.accounting import tables

        entries = tables.noise_table(
            whole_numbers("--horizons", horizons), numbers("--epsilons", epsilons, positive=True)
        )
        _say("noise", entries, tables.format_markdown(entries), as_json)


@table_app.command()
@documented_options
def regret(epsilon: float = 1.0, delta: float = 1e-06, as_json: JsonFlag = False) -> None:
    """Proven regret per round of the Euclidean learners, as a Markdown table.

    In units of G D: losses are G-Lipschitz on a ball of diameter D; standing still has 1/2.

    For example:

    dpoco table regret --epsilon 4

    Parameters
    ----------
    epsilon
        Privacy budget.
    delta
        Privacy budget.
    """
    with errors_in_one_line():
        from dpoco.accounting import regret_table

        entries = regret_table.regret_table(epsilon=epsilon, delta=delta)
        _say("regret", entries, regret_table.format_markdown(entries), as_json)


@table_app.command()
@documented_options
def experts(epsilon: float = 1.0, delta: float = 1e-06, as_json: JsonFlag = False) -> None:
    """Proven regret of the learners of experts against S switches, as a Markdown table.

    Losses in [0, 1]; a bound above the number of rounds says nothing.

    For example:

    dpoco table experts --epsilon 4 --json

    Parameters
    ----------
    epsilon
        Privacy budget.
    delta
        Privacy budget, positive.
    """
    with errors_in_one_line():
        from dpoco.accounting import expert_table

        entries = expert_table.expert_table(epsilon=epsilon, delta=delta)
        _say("experts", entries, expert_table.format_markdown(entries), as_json)
