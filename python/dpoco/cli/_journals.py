"""Journals as files: ``dpoco journal`` looks at one, copies it and verifies it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpoco._validation import LARGEST_HORIZON
from dpoco.cli import _shell as shell
from dpoco.cli._checks import verify_command
from dpoco.cli._journal_files import copy_journal, is_journal, opened_copy

journal_app = typer.Typer(
    help="Look at a journal, copy it or verify it, while its service is running.",
    add_completion=False,
    no_args_is_help=True,
)


def _check(file: Path) -> None:
    if not file.is_file():
        raise ValueError(f"no such file: {file}")
    if not is_journal(file):
        raise ValueError(f"{file} is not a journal")


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
            raise ValueError(f"{to} exists: name a new file, because a copy never replaces one")
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
    verify_command([path], as_json=as_json)
