"""``dpoco datasets``: the streams that come without a download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dpoco import datasets
from dpoco._validation import named
from dpoco.cli._problem import bundled_losses
from dpoco.cli._support import JsonFlag, console, errors_in_one_line, print_json, table

SCHEMA = "dpoco.datasets/1"


@dataclass(frozen=True)
class _Known:
    """One stream: its public facts are known without loading it."""

    kind: str
    rounds: int
    columns: int
    about: str
    bundled: tuple[str, str]  # class in river.datasets, what must be installed
    cite: str
    licence: str


_STREAMS = {
    "shuttle": _Known(
        "records", 49_097, 10, "sensors of a shuttle; label 1 marks an anomaly (7 %)",
        ("Shuttle", "river 0.26 or later (Python 3.11 or later)"),
        "UCI Machine Learning Repository, Statlog (Shuttle), "
        "https://archive.ics.uci.edu/dataset/148/statlog+shuttle",
        "CC BY 4.0",
    ),
    "phishing": _Known(
        "records", 1250, 10, "checks of web pages; label 1 marks a fraudulent one",
        ("Phishing", "river"),
        "UCI Machine Learning Repository, Website Phishing, "
        "https://archive.ics.uci.edu/dataset/379/website+phishing",
        "CC BY 4.0",
    ),
    "pollsters": _Known(
        "experts", 1001, 5, "daily errors of five pollsters, in ten percentage points",
        ("TrumpApproval", "river"),
        "FiveThirtyEight, approval averages", "CC BY 4.0",
    ),
    "stocks": _Known(
        "experts", 1257, 10, "daily losses of holding one of ten large stocks",
        ("SP500Stocks", "river 0.26 or later (Python 3.11 or later)"),
        "Kaggle, S&P 500 stock data, February 2013 to February 2018", "",
    ),
}  # fmt: skip


def datasets_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Describe this one. [default: list all]")
    ] = None,
    cite: Annotated[
        bool, typer.Option("--cite", help="Print where the data are from, and nothing else.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List the bundled streams, or describe one: rounds, columns, scaling, source, size.

    None needs a download: they come with the package river (extra data). Nothing that is printed is
    computed from their records.

    For example:

    dpoco datasets

    dpoco datasets shuttle

    dpoco datasets phishing --cite
    """
    with errors_in_one_line():
        if name is None:
            records = [_facts(each) for each in _STREAMS]
            if as_json:
                print_json({"schema": SCHEMA, "datasets": records})
            elif cite:
                for record in records:
                    typer.echo(f"{record['name']}: {record['source']}")
            else:
                _print_list(records)
            return
        facts = _facts(named("stream", name, tuple(_STREAMS)))
        if not cite and facts["installed"]:
            facts.update(_loaded(name))
        if as_json:
            print_json({"schema": SCHEMA, **facts})
        elif cite:
            typer.echo(facts["source"])
        else:
            _print_one(facts)


def _facts(name: str) -> dict[str, Any]:
    known = _STREAMS[name]
    path = _file(known.bundled[0])
    return {
        "name": name,
        "kind": known.kind,
        "rounds": known.rounds,
        "columns": known.columns,
        "description": known.about,
        "source": known.cite,
        "licence": known.licence or None,
        "bundled_with": known.bundled[1],
        "installed": path is not None,
        "file": None
        if path is None
        else f"{path.parent.parent.name}/{path.parent.name}/{path.name}",
        "bytes": None if path is None else path.stat().st_size,
    }


def _file(dataset: str) -> Path | None:
    """Return the file within the installed package, or None."""
    try:
        return Path(datasets.bundled_file(dataset, ""))
    except ImportError:
        return None


def _loaded(name: str) -> dict[str, Any]:
    """Return what the loader declares: names and scaling, all public."""
    if _STREAMS[name].kind == "experts":
        facts = bundled_losses(name)[1]
        return {"names": facts["feature_names"], "scaling": facts["scaling"]}
    loader: Callable[[str], datasets.Stream] = datasets.load
    stream = loader(name)
    return {"names": list(stream.feature_names), "scaling": stream.scaling}


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
        ("rounds", f"{facts['rounds']:,} of {facts['columns']} {_columns_of(facts['kind'])}"),
        ("names", ", ".join(facts.get("names", [])) or "-"),
        ("scaling", facts.get("scaling", "-")),
        ("source", facts["source"]),
        ("licence", facts["licence"] or "not stated"),
        ("bundled", f"with {facts['bundled_with']}: {facts['file'] or '-'}, {size}"),
    ]
    for title, text in rows:
        typer.echo(f"{title:<8} {text}")


def _columns_of(kind: str) -> str:
    return "losses" if kind == "experts" else "features"
