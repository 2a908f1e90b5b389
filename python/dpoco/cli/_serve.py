"""The command ``dpoco serve``: a private bandit behind HTTP, and the tokens of its callers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpoco._validation import imported
from dpoco.cli import _shell as shell
from dpoco.cli._settings import parse_file

_NEEDED = ("uvicorn", "starlette", "pydantic", "cryptography")


def serve_command(
    path: Annotated[Path, shell.argument("Learner, store and limits.", metavar="FILE")],
    host: Annotated[str, shell.option("Address to listen on.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[
        int, shell.option("Port to listen on; 0: any that is free.", metavar="N")
    ] = 8000,
    public: Annotated[
        bool,
        shell.option("Also answer callers without a token. They name the user without proof."),
    ] = False,
    new_token: Annotated[
        str | None,
        shell.option("Make a token for a user; older ones stay valid for a while.", metavar="NAME"),
    ] = None,
    revoke: Annotated[
        str | None, shell.option("End all tokens of a user at once.", metavar="NAME")
    ] = None,
    operator: Annotated[
        bool,
        shell.option("With --new-token or --revoke: NAME is an operator, who acts for all users."),
    ] = False,
) -> None:
    """Serve a private bandit over HTTP, as a TOML file says; or make and revoke tokens.

    A token is shown once. Put a proxy that encrypts in front. See docs/bandit_service.md.

    For example:

    dpoco serve bandit.toml --new-token ann

    dpoco serve bandit.toml --port 8000
    """
    with shell.errors_in_one_line():
        for package in _NEEDED:
            imported(package, "dpoco serve", "serve")
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
        with serve.open_tokens(settings) as tokens:
            if revoke is not None:
                ended = tokens.revoke(revoke, operator=operator)
                typer.echo(f"tokens ended: {ended}")
            if new_token is not None:
                overlap = settings.limits.token_overlap_seconds
                typer.echo(tokens.create(new_token, operator=operator, overlap=overlap))
