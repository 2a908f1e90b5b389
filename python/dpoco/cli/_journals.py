"""Journals as files: ``dpoco journal`` looks at one, copies it and verifies it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from dpoco._encryption import refuse_readable
from dpoco._validation import LARGEST_HORIZON
from dpoco.cli import _shell as shell
from dpoco.cli._key import state_key
from dpoco.errors import JournalFenced, StateError
from dpoco.journal import Journal, SqliteStore

_SQLITE = b"SQLite format 3\0"

journal_app = typer.Typer(
    help="Look at a journal, copy it, verify it, while whoever writes it goes on.",
    add_completion=False,
    no_args_is_help=True,
)


def is_journal(file: Path) -> bool | None:
    """Return whether a file is a journal; None if it is no database at all."""
    with file.open("rb") as opened:
        if opened.read(len(_SQLITE)) != _SQLITE:
            return None
    # Not from the file's header: what was committed last may stand in the log beside it.
    try:
        with closing(_read_only(file)) as connection:
            (found,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error:
        return False
    return bool(found == SqliteStore.APPLICATION_ID)


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)


def copy_journal(file: Path, to: Path) -> None:
    """Copy a journal and its key, as of one moment, to files that only the owner reads."""
    key = Path(f"{file}.key")
    if key.exists():
        refuse_readable(key, key.stat())  # the copy's would be named by a place of the copy
    os.close(os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(_read_only(file)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
    with suppress(FileNotFoundError):
        shutil.copy(key, f"{to}.key")


@contextmanager
def opened_copy(file: Path) -> Iterator[Journal]:
    """Open a copy of a journal, so that nothing is written to it; `StateError` if it is damaged."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "journal"
        try:
            copy_journal(file, copy)
            with Journal(copy, mark=False, encryption=state_key()) as journal:
                yield journal
        except (sqlite3.Error, JournalFenced):
            raise StateError("the journal is damaged") from None


def _check(file: Path) -> None:
    if not file.is_file():
        raise ValueError(f"no such file: {file}")
    if not is_journal(file):
        raise ValueError(f"{file} is no journal")


@journal_app.command("status")
def status_command(
    path: Annotated[Path, shell.argument("The journal's file.", metavar="PATH")],
    as_json: shell.JsonFlag = False,
) -> None:
    """List the streams of a journal: learner, rounds, tickets that wait, guarantee, and the ledger.

    No decision and no record is shown.

    For example:

    dpoco journal status prices.journal
    """
    with shell.errors_in_one_line():
        _check(path)
        rows: list[dict[str, Any]] = []
        with opened_copy(path) as journal:
            for name in journal.streams():
                stream = journal.open(name)
                g = stream.guarantee
                epsilon = g.epsilon if g.private else None  # JSON has no infinity
                rows.append(
                    {
                        "stream": name, "round": stream.round, "horizon": stream.horizon,
                        "waiting": len(stream.outstanding), "epsilon": epsilon, "delta": g.delta,
                    }
                )  # fmt: skip
            spent, ledger = journal.spent, journal.ledger
            left = None if ledger is None else ledger.remaining
        budget = None if left is None else left.to_dict()
        if as_json:
            record = {"streams": rows, "spent": spent, "remaining": budget}
            shell.print_json({"schema": "dpoco.journal/1", **record})
            return
        table = shell.table(["stream"], ["round", "horizon", "waiting", "epsilon", "delta"])
        for row in rows:
            endless = row["horizon"] == LARGEST_HORIZON
            horizon = "unknown" if endless else f"{row['horizon']:,}"
            cells = f"{row['round']:,}", horizon, f"{row['waiting']:,}"
            shown = "none" if row["epsilon"] is None else f"{row['epsilon']:.6g}"
            table.add_row(row["stream"], *cells, shown, f"{row['delta']:.3g}")
        shell.console().print(table)
        if ledger is not None:
            rest = "nothing" if left is None else f"epsilon {left.epsilon:.6g}"
            shell.say(f"ledger: {rest} is left")


@journal_app.command("backup")
def backup_command(
    path: Annotated[Path, shell.argument("The journal's file.", metavar="PATH")],
    to: Annotated[Path, shell.argument("A file that does not exist yet.", metavar="COPY")],
) -> None:
    """Copy a journal and its key as of one moment. The copy is as secret as the journal.

    A journal that was restored from a copy must not answer rounds that the original answered after
    it: they would be answered again from the same noise. See docs/operations.md, "Restore".

    For example:

    dpoco journal backup prices.journal prices-monday.journal
    """
    with shell.errors_in_one_line():
        _check(path)
        if to.exists():
            raise ValueError(f"{to} exists: a copy never replaces a file")
        copy_journal(path, to)
        shell.say(f"Written: {to}")


@journal_app.command("verify")
def verify_journal_command(
    path: Annotated[Path, shell.argument("The journal's file.", metavar="PATH")],
    as_json: shell.JsonFlag = False,
) -> None:
    """Compute again the guarantees of all streams and the ledger; as dpoco verify PATH.

    For example:

    dpoco journal verify prices.journal
    """
    from dpoco.cli._checks import verify_command

    verify_command([path], as_json=as_json)
