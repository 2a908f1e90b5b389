"""The command ``dpoco``: play a private learner on a real stream, print tables.

Needs the extra ``cli`` (typer and rich); see ``dpoco --help``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_BAD_INPUT, _INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.

    Returns
    -------
    int
        Exit code: 0; 1 if an audit or verify refuted a claim; 2 for bad input or a missing package;
        3 if an audit had no power; 4 if a run with ``--checkpoint`` left out rows beyond the
        horizon; 5 and 6 from verify (only if a promise is kept; not protected); 130 after an
        interrupt.
    """
    try:
        # Imported here, so that the command can say which extra is missing if its packages are
        # absent.
        from dpoco.cli._app import app

        code = app(
            args=None if arguments is None else list(arguments),
            prog_name="dpoco",
            standalone_mode=False,
        )
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except ModuleNotFoundError as error:
        # Another missing module is an error of the installation, not a missing extra.
        if error.name is None or error.name.split(".")[0] not in ("typer", "rich", "click"):
            raise
        print(
            'error: the command line needs typer and rich: pip install "dpoco[cli]"',
            file=sys.stderr,
        )
        return _BAD_INPUT
    except Exception as error:
        # Usage errors, from whichever library typer takes them.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        print(f"error: {' '.join(format_message().split())}", file=sys.stderr)
        return _BAD_INPUT
    return int(code or 0)
