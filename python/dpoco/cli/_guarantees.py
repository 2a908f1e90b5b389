"""Guarantees: ``dpoco verify`` computes them again, ``dpoco explain`` says what they mean."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import dpoco
from dpoco._state import FRAME_SIGNATURE
from dpoco.accounting import Guarantee
from dpoco.accounting.explanation import explain, facts
from dpoco.accounting.ledger import Ledger
from dpoco.cli._support import JsonFlag, errors_in_one_line, print_json
from dpoco.errors import BudgetExceeded, JournalFenced, StateError
from dpoco.journal import SqliteStore


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
        try:
            record: Any = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            raise ValueError(f"{file} is not a JSON text") from None
        if _kind(record) is None and isinstance(record, dict):
            record = record.get("guarantee", record)
        ledger = Ledger.from_dict(record) if _kind(record) == "dpoco.ledger" else None
        guarantee = Guarantee.from_dict(record) if ledger is None else ledger.guarantee
        if as_json:
            shown = {"schema": "dpoco.explanation/1", **facts(guarantee)}
            if ledger is not None:
                left = ledger.remaining
                shown["ledger"] = {
                    "spent": ledger.spent,
                    "currency": ledger.currency,
                    "adaptive": ledger.adaptive,
                    "remaining": None if left is None else left.to_dict(),
                    "charges": [entry.label for entry in ledger.entries],
                }
            print_json(shown)
            return
        if ledger is not None:
            typer.echo(ledger.report() + "\n")
        typer.echo(explain(guarantee))


_VERIFICATION = "dpoco.verification/1"
_EXIT = {"verified": 0, "refuted": 1, "not one": 2}
_SQLITE = b"SQLite format 3\0"


class _NotOneError(Exception):
    """The file is no guarantee, state, ledger or journal."""


def verify_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Guarantees and ledgers as JSON, one or a list of them in a file, or any JSON "
            "object that holds a guarantee under that name; states of learners and mechanisms "
            "(learner.save); journals (SQLite files).",
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Compute again what files state, and refuse numbers that do not follow.

    A guarantee follows from the description of what was enforced and drawn, if it has one, or else
    from its own curve; a state and a journal from the learners in them; a ledger from its charges.
    Nothing is drawn, and a journal is read from a copy: whoever writes it goes on.

    Exit codes: 0 all verified, 1 something refuted, 2 something that is none of these.

    For example:

    dpoco plan ctrl --horizon 100000 --dimension 10 --json > plan.json

    dpoco verify plan.json
    """
    rows = [_row(file) for file in files]
    if as_json:
        print_json({"schema": _VERIFICATION, "files": rows})
    else:
        for row in rows:
            found = "" if row["statements"] is None else f" ({', '.join(row['statements'])})"
            typer.echo(f"{row['file']}: {row['verdict']}{found}: {row['reason']}".rstrip(": "))
    codes = {_EXIT[row["verdict"]] for row in rows}
    raise typer.Exit(1 if 1 in codes else max(codes))


def _row(file: Path) -> dict[str, Any]:
    """Return what is known of a file, as the command prints it."""
    row: dict[str, Any] = {"file": str(file), "statements": None, "reason": ""}
    try:
        row["statements"] = list(_statements(file))
        row["verdict"] = "verified"
    except (_NotOneError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        row |= {"verdict": "not one", "reason": reason}
    except (StateError, BudgetExceeded) as error:
        row |= {"verdict": "refuted", "reason": str(error)}
    return row


def _checked(guarantee: Guarantee) -> str:
    """Return a statement in a few words; `StateError` if it does not follow."""
    if not guarantee.private:
        return "no privacy"
    guarantee.verify()
    origin = "" if guarantee.description is not None else ", by its own curve"
    return f"epsilon {guarantee.epsilon:.6g} at delta {guarantee.delta:.3g}{origin}"


def _statements(file: Path) -> Iterator[str]:
    """Yield every statement of a file that follows; `StateError` for one that does not."""
    data = file.read_bytes()
    if data.startswith(FRAME_SIGNATURE):
        yield _of_learner(dpoco.load(file))
    elif data.startswith(_SQLITE):
        if int.from_bytes(data[68:72], "big") != SqliteStore.APPLICATION_ID:
            raise _NotOneError("a database, but no journal")
        yield from _of_journal(file)
    else:
        try:
            record = json.loads(data)
        except (ValueError, RecursionError):
            raise _NotOneError("no guarantee, state, ledger or journal") from None
        yield from _of_record(record)


def _kind(record: Any) -> Any:
    return record.get("kind") if isinstance(record, dict) else None


def _of_record(record: Any) -> Iterator[str]:
    if isinstance(record, list) and record:
        for each in record:
            yield from _of_record(each)
    elif _kind(record) == "dpoco.guarantee":
        yield _checked(Guarantee.from_dict(record))
    elif _kind(record) == "dpoco.ledger":
        yield _of_ledger(Ledger.from_dict(record))
    elif isinstance(record, dict) and isinstance(record.get("guarantee"), dict):
        yield from _of_record(record["guarantee"])
    else:
        raise _NotOneError("no guarantee, state, ledger or journal")


def _of_ledger(ledger: Ledger) -> str:
    """Return what a ledger states: its charges were added up when it was read."""
    return f"epsilon {ledger.guarantee.epsilon:.6g} at delta {ledger.budget.delta:.3g}, all charges"


def _of_learner(learner: Any) -> str:
    guarantee: Guarantee = learner.guarantee
    arguments = learner.get_params()
    if arguments.get("budget") is not None and arguments.get("calibration") != "paper":
        guarantee.require(arguments["budget"])
    return _checked(guarantee)


def _of_journal(file: Path) -> Iterator[str]:
    """Yield the guarantees of all streams and of the ledger, read from a copy."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "journal"
        copy.touch(mode=0o600)
        address = f"{file.resolve().as_uri()}?mode=ro"
        try:
            with (
                closing(sqlite3.connect(address, uri=True)) as source,
                closing(sqlite3.connect(copy)) as target,
            ):
                source.backup(target)
            with suppress(FileNotFoundError):
                shutil.copy(f"{file}.key", f"{copy}.key")
            with dpoco.journal.Journal(copy, mark=False) as journal:
                for name in journal.streams():
                    stream = journal.open(name)
                    _ = stream.round  # its learner is loaded, and every seal checked
                    yield _checked(stream.guarantee)
                if journal.ledger is not None:
                    yield _of_ledger(journal.ledger)
        except (sqlite3.Error, JournalFenced):
            raise StateError("the journal is damaged") from None
