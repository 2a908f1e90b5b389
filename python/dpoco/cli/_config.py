"""Options from a file: ``--config``, TOML or JSON, or an earlier report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpoco._validation import named
from dpoco.cli._support import errors_in_one_line

__all__ = ["Config"]

# Where a run writes, and what continues another one, is not taken over from a report.
_NOT_AGAIN = ("config", "checkpoint", "resume", "skip_played", "out", "output")


def _apply(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's entries the defaults of this command's options."""
    if path is None or context.resilient_parsing:
        return path
    with errors_in_one_line():
        given = _read(path)
        options: dict[str, str] = {}
        for parameter in context.command.params:
            for option in parameter.opts:
                if option.startswith("--") and parameter.name not in ("config", "help"):
                    options[option[2:].replace("-", "_")] = str(parameter.name)
        chosen: dict[str, Any] = {}
        for key, value in given.items():
            name = named("option", str(key).replace("-", "_"), tuple(options))
            if isinstance(value, dict):
                raise ValueError(f"{path.name}: {key} must be a value, not a table")
            chosen[options[name]] = value
        context.default_map = {**(context.default_map or {}), **chosen}
    return path


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    try:
        record: Any = _parse(path)
    except (ValueError, RecursionError):
        raise ValueError(f"{path.name} is not a {path.suffix[1:].upper()} file") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path.name} must hold options by name")
    settings = record.get("settings")
    if "schema" in record and isinstance(settings, dict):
        command = settings.get("command")
        if not isinstance(command, dict):
            raise ValueError(f"{path.name} is a report without the options it was made with")
        record = {k: v for k, v in command.items() if k not in _NOT_AGAIN}
    return {key: value for key, value in record.items() if value is not None}


def _parse(path: Path) -> Any:
    suffix = path.suffix.lower()
    text = path.read_text(encoding="utf-8")
    if suffix == ".json":
        return json.loads(text)
    if suffix != ".toml":
        raise ImportError(f"{path.name}: the format must be .toml or .json")
    if sys.version_info < (3, 11):
        raise ImportError("TOML files need Python 3.11 or later; JSON does on every version")
    import tomllib

    return tomllib.loads(text)


Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        is_eager=True,
        callback=_apply,
        help="Options from a TOML or JSON file, by their names without dashes in front; or from "
        "the report of an earlier run. What is given here as well wins.",
    ),
]
