"""Models for publication: ``dpoco publish`` and ``dpoco predict``."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path

import typer

import dpoco
from dpoco._validation import choose_name
from dpoco.cli import _shell as shell
from dpoco.cli._key import state_key
from dpoco.cli._settings import OPTIONS, Asked, read_file, read_list
from dpoco.cli._tables import open_table, read_saved


def publish_command(
    state: Path = shell.argument(..., "What --checkpoint or learner.save wrote.", metavar="STATE"),
    to: Path = shell.option(..., "Where the model goes.", metavar="FILE"),
    like: Path | None = shell.option(
        None,
        "Model of an earlier decision of this learner, of the same columns. Needed for a state "
        "that does not name its columns.",
        metavar="FILE",
    ),
    trust_columns: bool = shell.option(
        False,
        "Accept such a state, as one that Python saved, with the columns of --like.",
        "--trust-columns",
    ),
    force: bool = shell.option(False, "Replace a file.", "--force"),
    as_json: shell.JsonFlag = False,
) -> None:
    """Write the model that a saved learner released last.

    A state is secret. It knows the names and ranges of the columns that it learned from, if dpoco
    run wrote it.

    For example:

    dpoco run day-1.csv --label alarm --range 0:10 --checkpoint state --horizon 100000

    dpoco publish state --to model.json
    """
    if not force:
        shell.check_new(to)
    # Comes first, so that a wrong model is refused before a state, which is secret, is opened.
    earlier = None if like is None else dpoco.Model.load(like)
    # The state names its class, and only the library's own classes are imported.
    learner = dpoco.load(state, key=state_key())
    saved = read_saved(learner, trust_columns)
    if earlier is not None:
        model = earlier.after(learner)
    elif saved is not None:
        model = dpoco.Model.of_schema(learner, saved.schema)
    else:
        raise ValueError("--trust-columns needs --like MODEL, for the names of the columns")
    model.save(to)
    written = f"Written: {to}: {_describe(model)}; it may be published"
    shell.show(as_json, model.to_dict(), written)


def predict_command(
    model: Path = shell.argument(
        ...,
        "What --decision or dpoco publish wrote. The table needs its columns, in any order, "
        "and may have others.",
        metavar="MODEL",
    ),
    data: str = shell.argument(..., "The records: as for dpoco run.", metavar="DATA"),
    keep: str | None = shell.option(
        None, "Columns of the table to print in front of the prediction.", metavar="A,B,..."
    ),
    to: Path | None = shell.option(
        None, "CSV file for the predictions. [default: standard output]", metavar="FILE"
    ),
    pairs: list[str] | None = shell.option(
        None,
        "How the table is read: format, header, encoding, separator, decimal, skip-lines.",
        "--set",
        metavar="NAME=VALUE",
    ),
    config: str | None = shell.option(None, "A file of settings, as of dpoco run.", metavar="FILE"),
    force: bool = shell.option(False, "Replace a file.", "--force"),
    as_json: shell.JsonFlag = False,
) -> None:
    """Apply a model to new records: one prediction a row.

    For classification the probability of the event, for regression a number of the label's range;
    empty where a value is missing. Costs no privacy.

    For example:

    dpoco predict model.json new.csv --keep id,time --to predictions.csv
    """
    own = {} if config is None else read_file(Path(config))
    asked = Asked.of(own, pairs or (), {"data": data}).settings
    # Options of learners have no meaning here, so a name that is not a setting is a typing
    # error.
    for name in asked.option:
        choose_name("setting", name, tuple(OPTIONS))
    if to is not None and not force:
        shell.check_new(to)
    found = dpoco.Model.load(model)
    rows = open_table(asked, fewest=1)
    kept = [] if keep is None else read_list(keep)
    # All columns are checked at once, before a file of many rows is read.
    rows.check([*found.columns, *kept])
    answers = found.predict(found.coding.records(rows, found.columns)[0]).tolist()
    texts = {name: list(map(_text, rows.entries(name))) for name in kept}
    likely = found.task == "classification"
    event = found.label
    if found.coding.positive is not None:
        event += f"={found.coding.positive}"
    title = f"probability of {event}" if likely else found.label
    # `repr` is the shortest text that is read as the same double.
    cells = ["" if math.isnan(each) else repr(each) for each in answers]
    if as_json:
        # JSON has no NaN.
        known = [None if math.isnan(each) else each for each in answers]
        shell.print_json(
            {"schema": "dpoco.predictions/1", "of": title, "predictions": known, "kept": texts}
        )
    name = f"probability_of_{event}" if likely else f"predicted_{found.label}"
    lines = [[*kept, name], *zip(*texts.values(), cells, strict=True)]
    if to is not None:
        with to.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
        if not as_json:
            typer.echo(f"Written: {to}: {len(cells):,} predictions of {_describe(found)}")
    elif not as_json:
        csv.writer(sys.stdout, lineterminator="\n").writerows(lines)


def _text(entry: object) -> str:
    return "" if entry is None else str(entry)


def _describe(model: dpoco.Model) -> str:
    g = model.guarantee
    return f"{model.learner} after {model.round:,} rounds, epsilon {g.epsilon:.6g}"


COMMANDS = shell.commands(publish=publish_command, predict=predict_command)
