"""Commands that only list: ``dpoco table`` and ``dpoco datasets``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

import typer

from dpoco import datasets
from dpoco._validation import named
from dpoco.cli import _shell as shell
from dpoco.datasets import BUNDLED, Bundled
from dpoco.published import tables

table_app = typer.Typer(
    help="Print tables of the accounting, as Markdown or JSON.\n\nExample: dpoco table regret",
    no_args_is_help=False,
)

SCHEMA = "dpoco.table/1"


def _print(name: str, as_json: bool, entries_of: Callable[[], list[Any]]) -> None:
    with shell.errors_in_one_line():
        entries = entries_of()
        if as_json:
            rows = [asdict(entry) for entry in entries]
            shell.print_json({"schema": SCHEMA, "table": name, "rows": rows})
        else:
            typer.echo(tables.format_markdown(entries))


@table_app.command()
def noise(
    horizons: Annotated[
        str, shell.option("Numbers of rounds.", metavar="N,N,...")
    ] = "1000,10000,100000,1000000,10000000",
    epsilons: Annotated[
        str, shell.option("Privacy budgets.", metavar="E,E,...")
    ] = "0.1,0.5,1,2,4,8",
    as_json: shell.JsonFlag = False,
) -> None:
    """Noise of the published constants over exact accounting, as a Markdown table.

    Each cell: the ratio of the scales with a binary tree; the ratio on the noisiest released sum
    with the default sum; the epsilon that the published noise really spends. delta = 1/rounds.

    For example:

    dpoco table noise --horizons 1000,100000 --epsilons 1,4
    """

    def entries() -> list[Any]:
        rounds = shell.whole_numbers("--horizons", horizons)
        return tables.noise_table(rounds, shell.numbers("--epsilons", epsilons, positive=True))

    _print("noise", as_json, entries)


@table_app.command()
def regret(
    epsilon: shell.Epsilon = 1.0,
    delta: Annotated[float, shell.option("Privacy budget.")] = 1e-06,
    as_json: shell.JsonFlag = False,
) -> None:
    """Proven regret per round of the Euclidean learners, as a Markdown table.

    In units of G D: losses are G-Lipschitz on a ball of diameter D; standing still has 1/2.

    For example:

    dpoco table regret --epsilon 4
    """
    _print("regret", as_json, lambda: tables.regret_table(epsilon=epsilon, delta=delta))


@table_app.command()
def experts(
    epsilon: shell.Epsilon = 1.0,
    delta: Annotated[float, shell.option("Privacy budget, positive.")] = 1e-06,
    as_json: shell.JsonFlag = False,
) -> None:
    """Proven regret of the learners of experts against S switches, as a Markdown table.

    Losses in [0, 1]; a bound above the number of rounds says nothing.

    For example:

    dpoco table experts --epsilon 4 --json
    """
    _print("experts", as_json, lambda: tables.expert_table(epsilon=epsilon, delta=delta))


_DATASETS = "dpoco.datasets/1"
_COLUMNS = {"records": "features", "experts": "losses"}


def datasets_command(
    name: Annotated[
        str | None, shell.argument("Describe this one. [default: list all]", metavar="[NAME]")
    ] = None,
    cite: Annotated[
        bool, shell.option("Print where the data are from, and nothing else.", "--cite")
    ] = False,
    as_json: shell.JsonFlag = False,
) -> None:
    """List the bundled streams, or describe one: rounds, columns, scaling, source, size.

    None needs a download: they come with the package river (extra data). Nothing that is printed is
    computed from their records.

    For example:

    dpoco datasets

    dpoco datasets shuttle

    dpoco datasets phishing --cite
    """
    with shell.errors_in_one_line():
        if name is None:
            records = [_facts(each) for each in BUNDLED.values()]
            if as_json:
                shell.print_json({"schema": _DATASETS, "datasets": records})
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
            shell.print_json({"schema": _DATASETS, **facts})
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
    shown = shell.table(["name", "kind"], ["rounds", "columns"])
    shown.add_column("")
    for record in records:
        missing = "" if record["installed"] else f" (needs {record['bundled_with']})"
        shown.add_row(
            record["name"], record["kind"], f"{record['rounds']:,}", str(record["columns"]),
            record["description"] + missing,
        )  # fmt: skip
    shell.console().print(shown)


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
