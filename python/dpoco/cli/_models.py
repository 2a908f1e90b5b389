"""What a run released, for others: ``dpoco publish`` and ``dpoco predict``."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import typer

import dpoco
from dpoco import datasets
from dpoco.cli import _support as shell
from dpoco.cli._options import sources_of


@shell.documented_options
def publish_command(
    state: Path, like: Path, to: Path, force: bool = False, as_json: shell.JsonFlag = False
) -> None:
    """Write the model that a saved learner released last.

    A state is secret and holds no names of columns: these come from an earlier model of the same
    run.

    For example:

    dpoco run day-1.csv --label alarm --feature-range 0,10 --checkpoint state --horizon 100000
    --decision model.json

    dpoco publish state --like model.json --to newer.json

    Parameters
    ----------
    state : argument STATE
        What --checkpoint or learner.save wrote.
    like : FILE
        Model of an earlier decision of this learner.
    to : FILE
        Where the model goes.
    force : --force
        Replace a file.
    """
    with shell.errors_in_one_line():
        if not force:
            shell.check_new(to)
        earlier = dpoco.Model.load(like)
        model = earlier.after(dpoco.load(state, key=shell.state_key()))
        model.save(to)
        if as_json:
            shell.print_json(model.to_dict())
        else:
            typer.echo(f"Written: {to}: {_said(model)}; it may be published")


@shell.documented_options
def predict_command(
    model: Path,
    data: str,
    header: bool | None = None,
    to: Path | None = None,
    force: bool = False,
    as_json: shell.JsonFlag = False,
) -> None:
    """Apply a model to new records: one prediction a row.

    For classification the probability of the event, for regression a number of the label's range;
    empty where a value is missing. Costs no privacy.

    For example:

    dpoco predict model.json --data new.csv --to predictions.csv

    Parameters
    ----------
    model : argument MODEL
        What --decision or dpoco publish wrote.
    data : FILE
        As for dpoco run; it needs the model's columns, and may have others.
    header
        As for dpoco run.
    to : FILE
        CSV file for the predictions. [default: standard output]
    force : --force
        Replace a file.
    """
    with shell.errors_in_one_line():
        if to is not None and not force:
            shell.check_new(to)
        found = dpoco.Model.load(model)
        rows = datasets.read_columns(sources_of(data), list(found.features), header=header)
        answers = found.predict(rows).tolist()
        title = f"probability of {found.label}" if found.task == "classification" else found.label
        cells = ["" if math.isnan(each) else repr(each) for each in answers]
        if as_json:
            known = [None if math.isnan(each) else each for each in answers]
            shell.print_json({"schema": "dpoco.predictions/1", "of": title, "predictions": known})
        elif to is None:
            _write(sys.stdout, title, cells)
        if to is not None:
            with to.open("w", encoding="utf-8", newline="") as file:
                _write(file, title, cells)
            if not as_json:
                typer.echo(f"Written: {to}: {len(cells):,} predictions of {_said(found)}")


def _write(file: Any, title: str, cells: list[str]) -> None:
    csv.writer(file, lineterminator="\n").writerows([[title], *([cell] for cell in cells)])


def _said(model: dpoco.Model) -> str:
    g = model.guarantee
    return f"{model.learner} after {model.round:,} rounds, epsilon {g.epsilon:.6g}"
