"""Services: ``dpoco serve`` runs a private bandit, ``dpoco journal`` looks after journals."""

from __future__ import annotations

from pathlib import Path

import typer

from dpoco._validation import LARGEST_HORIZON, Fields, import_package
from dpoco.cli import _shell as shell
from dpoco.cli._settings import parse_file
from dpoco.cli._verify import copy_journal, is_journal, opened_copy, verify_command

_NEEDED = ("uvicorn", "starlette", "pydantic", "cryptography")


def serve_command(
    path: Path = shell.argument(..., "Learner, store and limits.", metavar="FILE"),
    host: str = shell.option("127.0.0.1", "Address to listen on.", metavar="ADDRESS"),
    port: int = shell.option(8000, "Port to listen on; 0: any that is free.", metavar="N"),
    public: bool = shell.option(
        False, "Also answer callers without a token. They name the user without proof."
    ),
    new_token: str | None = shell.option(
        None, "Make a token for a user; older ones stay valid for a while.", metavar="NAME"
    ),
    revoke: str | None = shell.option(None, "End all tokens of a user at once.", metavar="NAME"),
    operator: bool = shell.option(
        False, "With --new-token or --revoke: NAME is an operator, who acts for all users."
    ),
) -> None:
    """Serve a private bandit over HTTP, as a TOML file says; or make and revoke tokens.

    A token is shown once. Put a proxy that encrypts in front. See docs/bandit_service.md.

    For example:

    dpoco serve bandit.toml --new-token ann

    dpoco serve bandit.toml --port 8000
    """
    # Before the import of `serve`, whose error would name a module and no extra.
    for package in _NEEDED:
        import_package(package, "dpoco serve", "serve")
    from dpoco import serve

    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    settings = serve.Settings.read(parse_file(path), path)
    if operator and new_token is None and revoke is None:
        raise ValueError("--operator needs --new-token or --revoke")
    if new_token is None and revoke is None:
        serve.run(
            settings, host, port, public=public,
            listening=lambda port: typer.echo(f"serving on http://{host}:{port}"),
        )  # fmt: skip
        return
    # Whether the service runs or not: it sees changes with the next request.
    with serve.open_tokens(settings) as tokens:
        if revoke is not None:
            ended = tokens.revoke(revoke, operator=operator)
            typer.echo(f"tokens ended: {ended}")
        if new_token is not None:
            overlap = settings.limits.token_overlap_seconds
            typer.echo(tokens.create(new_token, operator=operator, overlap=overlap))


journal_app = shell.group("Look at a journal, copy it or verify it, while its service is running.")


def _check(file: Path) -> None:
    if not file.is_file():
        raise ValueError(f"no such file: {file}")
    if not is_journal(file):
        raise ValueError(f"{file} is not a journal")


@journal_app.command("status", cls=shell.Command)
def status_command(
    path: Path = shell.argument(..., "The journal's file.", metavar="PATH"),
    as_json: shell.JsonFlag = False,
) -> None:
    """List the streams of a journal: learner, rounds, tickets that wait, guarantee, and the ledger.

    No decision and no record is shown.

    For example:

    dpoco journal status prices.journal
    """
    _check(path)
    rows: list[Fields] = []
    # The streams are read from a copy, because opening the journal itself would stop its
    # service.
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


@journal_app.command("backup", cls=shell.Command)
def backup_command(
    path: Path = shell.argument(..., "The journal's file.", metavar="PATH"),
    to: Path = shell.argument(..., "A file that does not exist yet.", metavar="COPY"),
) -> None:
    """Copy a journal and its key as of one moment. The copy is as secret as the journal.

    A journal that was restored from a copy must not answer rounds that the original answered after
    it: they would be answered again from the same noise. See docs/operations.md, "Restore".

    For example:

    dpoco journal backup prices.journal prices-monday.journal
    """
    _check(path)
    # An existing copy may be the only one of an earlier moment, so it is not replaced.
    if to.exists():
        raise ValueError(f"{to} exists: name a new file, because a copy never replaces one")
    copy_journal(path, to)
    shell.say(f"Written: {to}")


@journal_app.command("verify", cls=shell.Command)
def verify_journal_command(
    path: Path = shell.argument(..., "The journal's file.", metavar="PATH"),
    as_json: shell.JsonFlag = False,
) -> None:
    """Compute again the guarantees of all streams and the ledger; as dpoco verify PATH.

    For example:

    dpoco journal verify prices.journal
    """
    verify_command([path], False, None, as_json)


COMMANDS = shell.commands(serve=serve_command, journal=journal_app)
