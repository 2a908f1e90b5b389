"""Before a run: ``dpoco init`` writes settings for a table, ``dpoco datasets`` lists streams."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from dpoco import datasets
from dpoco._validation import LARGEST_HORIZON, Fields, choose_name
from dpoco.cli import _shell as shell
from dpoco.cli._settings import (
    COLUMN_TABLES,
    FILES,
    OPTIONS,
    SHOWN,
    Asked,
    Settings,
    help_text,
    list_text,
    parse_range,
    settings_command,
)
from dpoco.cli._tables import Declaration, ask, feature_columns, open_table
from dpoco.datasets import BUNDLED, Bundled, Table

_FLAGS = (
    "label", "positive", "features", "range", "person", "epsilon", "delta", "horizon",
    "rounds_per_person", "learner", "loss", "checkpoint", "decision", "force", "quiet",
)  # fmt: skip
_TO = shell.option(..., "The file to write. [default: dpoco.toml]", metavar="FILE", panel=FILES)
_FIELDS = [("to", Annotated[str | None, _TO], None)]


def init(asked: Asked, values: Fields) -> None:
    """Write a file of settings for a table, with its columns and ranges.

    Names and kinds of columns are read from the first thousand rows; ranges never are: they must be
    public. On a terminal, the command asks for what is missing. The file has every other setting of
    dpoco run as a comment, with its default and its meaning.

    For example:

    dpoco init events.csv

    dpoco init events.csv --label alarm --range heat=0:90 --range open=0:1 --checkpoint alarm.state
    --horizon unknown

    dpoco run dpoco.toml

    dpoco run hour-2.csv --config dpoco.toml --resume
    """
    settings = asked.settings
    with shell.notes(settings.quiet):
        if settings.data is None:
            raise ValueError("name the table: dpoco init events.csv")
        place = Path(values.get("to", "dpoco.toml"))
        if place.suffix != ".toml":
            raise ValueError("--to must end in .toml")
        if not settings.force:
            shell.check_new(place)
        # The file of settings names the table, which a later run reads again.
        if settings.data == "-":
            raise ValueError("the table must be a file")
        table = open_table(settings)
        # If a program calls the command, nobody can answer questions.
        if sys.stdin.isatty():
            asked = complete(asked, table, typer.prompt)
        given = {**asked.given, **describe_columns(asked.settings, table)}
        # In a file, force would let every later run overwrite earlier results.
        given.pop("force", None)
        place.write_text(to_toml(given, str(place)), encoding="utf-8")
        if not settings.quiet:
            shell.say(f"Written: {place}. Next: dpoco run {place}")


def complete(asked: Asked, table: Table, prompt: Callable[..., str]) -> Asked:
    """Ask for the options that a table needs and that are missing; "-" leaves a column out."""
    kinds = table.kinds()
    shell.say("Columns: " + ", ".join(f"{name} ({kind})" for name, kind in kinds.items()))
    given = dict(asked.given)
    if "label" not in given:
        given["label"] = prompt("Column to predict")
        table.check([given["label"]])
    label, declared = given["label"], Declaration.of(Settings(**given))
    ranges, lists = list(given.get("range", ())), list(given.get("categories", ()))
    if kinds[label] == "text" and declared.positive is None:
        given["positive"] = prompt(f"Value of {label} that is the event")
    elif kinds[label] == "numbers" and declared.label_range is None:
        ranges.append(f"{label}={_asked_range(label, prompt)}")
        # Numbers in a range are quantities, so the loss is squared.
        given.setdefault("loss", "squared")
    if "person" not in given:
        person = prompt("Column that says whose record a row is (- if every row is one's own)")
        if person != "-":
            table.check([person])
            given["person"] = person
            given["rounds_per_person"] = int(prompt("Most rows of a person"))
    wanted = declared.features or [n for n in kinds if n not in (label, given.get("person"))]
    kept = []
    for name in wanted:
        kind, answer = kinds[name], ""
        if kind == "text" and name not in declared.categories:
            answer = prompt(f"Public list of the categories of {name}, A,B,... (- leaves it out)")
            lists += [] if answer == "-" else [f"{name}={answer}"]
        elif kind in ("numbers", "0 or 1") and name not in declared.ranges and not declared.general:
            answer = _asked_range(name, prompt)
            ranges += [] if answer == "-" else [f"{name}={answer}"]
        if answer != "-" and kind != "nothing":
            kept.append(name)
    given |= {"range": tuple(ranges), "categories": tuple(lists), "features": list_text(kept)}
    return Asked(given)


def _asked_range(name: str, prompt: Callable[..., str]) -> str:
    """Return the typed range, or "-"."""
    while True:
        text = prompt(f"Public range of {name}, LOW:HIGH, not from the records (- leaves it out)")
        if text == "-":
            return text
        try:
            parse_range("the range", text)
        except ValueError as error:
            shell.say(str(error))
        else:
            return text


def describe_columns(settings: Settings, table: Table) -> Fields:
    """Return the feature columns and all ranges by name; `ValueError` if a range is missing."""
    declared, kinds = Declaration.of(settings), table.kinds()
    columns = feature_columns(table, declared, kinds)
    ask(table, declared, columns, kinds, settings.loss)
    ranges = dict(declared.ranges)
    for name in columns:
        if declared.general is not None and kinds[name] != "text":
            ranges.setdefault(name, declared.general)
    if declared.label is not None and declared.label_range is not None:
        ranges[declared.label] = declared.label_range
    return {"features": list_text(columns), "range": ranges}


def to_toml(given: Fields, place: str) -> str:
    """Return the text of a file of settings: given ones as values, all others as comments."""
    lines = [
        f"# Settings of dpoco run: dpoco run {place}",
        f"# With a checkpoint, for each new table: dpoco run new.csv --config {place} --resume",
        "# A line with # in front has the default. dpoco run --set NAME=VALUE wins over this file.",
    ]
    for panel in dict.fromkeys(each.rich_help_panel for each in SHOWN.values()):
        own = [name for name, each in SHOWN.items() if each.rich_help_panel == panel]
        lines += ["", f"[{panel.lower()}]"]
        # In TOML, keys after the heading of a table belong to that table.
        for name in sorted(own, key=lambda each: each in TABLES):
            lines += _lines(panel.lower(), name, given.get(name))
    return "\n".join(lines) + "\n"


TABLES = (*COLUMN_TABLES, "option")
_EXAMPLES = {
    "range": "heat = [0, 90]", "categories": 'fan = ["low", "high"]', "missing": "heat = 20",
    "option": "batch = 10",
}  # fmt: skip


def _lines(panel: str, name: str, value: Any) -> Iterator[str]:
    """Yield the lines of a setting: its meaning and its value."""
    yield from textwrap.wrap(
        help_text(name), 98, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
    if name in TABLES:
        entries = _entries(value)
        if entries:
            yield f"[{panel}.{name}]"
            yield from entries
        else:
            yield f"# [{panel}.{name}]"
            yield f"# {_EXAMPLES[name]}"
    elif value is None:
        default = OPTIONS[name].default
        yield f"# {name} =" + ("" if default is None else f" {_toml(default)}")
    else:
        yield f"{name} = {_toml('unknown' if value == LARGEST_HORIZON else value)}"


def _entries(value: Iterable[str] | Fields | None) -> list[str]:
    """Return the lines of a table of columns or options."""
    if isinstance(value, Mapping):
        return [f"{_toml(str(name))} = {_toml(each)}" for name, each in value.items()]
    pairs = [text.partition("=") for text in value or ()]
    return [f"{_toml(name)} = {_toml(rest)}" for name, _, rest in pairs]


def _toml(value: object) -> str:
    """Return a value in TOML; texts and lists are written as in JSON."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


# ---- datasets ------------------------------------------------------------------------------------

_DATASETS = "dpoco.datasets/1"
_COLUMNS = {"records": "features", "experts": "losses"}


def datasets_command(
    name: str | None = shell.argument(
        None, "Describe this one. [default: list all]", metavar="[NAME]"
    ),
    as_json: shell.JsonFlag = False,
) -> None:
    """List the bundled streams, or describe one: rounds, columns, scaling, source, size.

    None needs a download: they come with the package river (extra data). Nothing that is printed is
    computed from their records.

    For example:

    dpoco datasets

    dpoco datasets shuttle
    """
    if name is None:
        records = [_facts(each) for each in BUNDLED.values()]
        if as_json:
            shell.print_json({"schema": _DATASETS, "datasets": records})
        else:
            _print_list(records)
        return
    facts = _facts(BUNDLED[choose_name("stream", name, tuple(BUNDLED))])
    # Names of columns and the scaling are known after loading, which needs the package.
    if facts["installed"]:
        if facts["kind"] == "experts":
            found = datasets.load_losses(name)[1]
        else:
            found = datasets.load(name).summary()
        facts.update(names=found["feature_names"], scaling=found["scaling"])
    if as_json:
        shell.print_json({"schema": _DATASETS, **facts})
    else:
        _print_one(facts)


def _facts(known: Bundled) -> Fields:
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


def _print_list(records: list[Fields]) -> None:
    shown = shell.table(["name", "kind"], ["rounds", "columns"])
    shown.add_column("")
    for record in records:
        missing = "" if record["installed"] else f" (needs {record['bundled_with']})"
        shown.add_row(
            record["name"], record["kind"], f"{record['rounds']:,}", str(record["columns"]),
            record["description"] + missing,
        )  # fmt: skip
    shell.console().print(shown)


def _print_one(facts: Fields) -> None:
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


COMMANDS = {
    "init": settings_command("init", _FLAGS, init, _FIELDS),
    "datasets": shell.command(datasets_command, "datasets"),
}
