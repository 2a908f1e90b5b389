"""The command ``dpoco serve``: a private bandit behind HTTP, and the tokens of its callers."""

from __future__ import annotations

from pathlib import Path

import typer

from dpoco._validation import imported
from dpoco.cli import _support as shell

_NEEDED = ("uvicorn", "starlette", "pydantic", "cryptography")


@shell.documented_options
def serve_command(
    path: Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    public: bool = False,
    new_token: str | None = None,
    revoke: str | None = None,
    operator: bool = False,
) -> None:
    """Serve a private bandit over HTTP, as a TOML file says; or make and revoke tokens.

    A token is shown once. Put a proxy that encrypts in front. See docs/bandit_service.md.

    For example:

    dpoco serve bandit.toml --new-token ann

    dpoco serve bandit.toml --port 8000

    Parameters
    ----------
    path : argument FILE
        Learner, store and limits.
    host : ADDRESS
        Address to listen on.
    port : N
        Port to listen on; 0: any that is free.
    public
        Answer callers without a token, too. They name the user, and nobody proves it.
    new_token : NAME
        Make a token for a user; older ones stay valid for a while.
    revoke : NAME
        End all tokens of a user at once.
    operator
        With --new-token or --revoke: NAME is an operator, who acts for all users.
    """
    with shell.errors_in_one_line():
        for package in _NEEDED:
            imported(package, "dpoco serve", "serve")
        from dpoco import serve

        if not path.is_file():
            raise ValueError(f"no such file: {path}")
        settings = serve.Settings.read(shell.parse_file(path), path)
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
