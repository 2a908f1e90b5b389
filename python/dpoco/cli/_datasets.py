"""``dpoco datasets``: the streams that come without a download."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

import typer

from dpoco import datasets
from dpoco._validation import named
from dpoco.cli._support import (
    JsonFlag,
    console,
    documented_options,
    errors_in_one_line,
    print_json,
    table,
)
from dpoco.datasets import BUNDLED, Bundled

_SCHEMA = "dpoco.datasets/1"
_COLUMNS = {"records": "features", "experts": "losses"}


@documented_options
def datasets_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Describe this one. [default: list all]")
    ] = None,
    cite: bool = False,
    as_json: JsonFlag = False,
) -> None:
    """List the bundled streams, or describe one: rounds, columns, scaling, source, size.

    None needs a download: they come with the package river (extra data). Nothing that is printed is
    computed from their records.

    For example:

    dpoco datasets

    dpoco datasets shuttle

    dpoco datasets phishing --cite

    Parameters
    ----------
    cite : --cite
        Print where the data are from, and nothing else.
    """
    with errors_in_one_line():
        if name is None:
            records = [_facts(each) for each in BUNDLED.values()]
            if as_json:
                print_json({"schema": _SCHEMA, "datasets": records})
            elif cite:
                for record in records:
                    typer.echo(f"{record['name']}: {record['source']}")
            else:
                _print_list(records)
            return
        facts = _facts(BUNDLED[named("stream", name, tuple(BUNDLED))])
        if not cite and facts["installed"]:
            if facts["kind"] == "experts":
                found = datasets.load_losses(name)[1]
            else:
                found = datasets.load(name).summary()
            facts.update(names=found["feature_names"], scaling=found["scaling"])
        if as_json:
            print_json({"schema": _SCHEMA, **facts})
        elif cite:
            typer.echo(facts["source"])
        else:
            _print_one(facts)


def _facts(known: Bundled) -> dict[str, Any]:
    path = None
    with suppress(ImportError):
        path = known.file
    return {
        "name": known.name,
        "kind": known.kind,
        "rounds": known.rounds,
        "columns": known.columns,
        "description": known.about,
        "source": known.cite,
        "licence": known.licence or None,
        "bundled_with": known.needs,
        "installed": path is not None,
        "file": None if path is None else "/".join(path.parts[-3:]),
        "bytes": None if path is None else path.stat().st_size,
    }


def _print_list(records: list[dict[str, Any]]) -> None:
    shown = table(["name", "kind"], ["rounds", "columns"])
    shown.add_column("")
    for record in records:
        missing = "" if record["installed"] else f" (needs {record['bundled_with']})"
        shown.add_row(
            record["name"], record["kind"], f"{record['rounds']:,}", str(record["columns"]),
            record["description"] + missing,
        )  # fmt: skip
    console().print(shown)


def _print_one(facts: dict[str, Any]) -> None:
    size = "not installed" if facts["bytes"] is None else f"{facts['bytes']:,} bytes"
    rows = [
        ("name", facts["name"]),
        ("what", facts["description"]),
        ("rounds", f"{facts['rounds']:,} of {facts['columns']} {_COLUMNS[facts['kind']]}"),
        ("names", ", ".join(facts.get("names", [])) or "-"),
        ("scaling", facts.get("scaling", "-")),
        ("source", facts["source"]),
        ("licence", facts["licence"] or "not stated"),
        ("bundled", f"with {facts['bundled_with']}: {facts['file'] or '-'}, {size}"),
    ]
    for title, text in rows:
        typer.echo(f"{title:<8} {text}")
