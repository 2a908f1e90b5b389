"""``dpoco explain``: a stored guarantee, or a stored ledger, in plain words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpoco.accounting import Guarantee
from dpoco.accounting.explanation import explain, facts
from dpoco.accounting.ledger import Ledger
from dpoco.cli._support import errors_in_one_line

__all__ = ["explain_command"]


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
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
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
            typer.echo(json.dumps(record, allow_nan=False, indent=2))
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
