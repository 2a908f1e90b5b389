"""Traces in files: reading and writing runs, with digests."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._state import write_atomically
from dpoco._validation import FloatArray, float_array, imported, reading
from dpoco.bandits import BanditTrace
from dpoco.evaluation.reports import RunReport
from dpoco.experts import ExpertTrace
from dpoco.trace import Trace

Column = NDArray[Any]
Table = dict[str, Column]

NOTICE = "NOT PRIVATE: computed from raw records, for evaluation only"
_KEY = b"dpoco"
_TYPES = {"float64": np.float64, "int64": np.int64, "bool": np.bool_}


def _digest(table: Table) -> str:
    hashed = hashlib.sha256()
    for name in sorted(table):
        column = table[name]
        hashed.update(f"{name}:{column.dtype.name}:{len(column)};".encode())
        hashed.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).tobytes())
    return hashed.hexdigest()


def _to_lines(header: dict[str, Any], table: Table) -> bytes:
    lines = [json.dumps(header, allow_nan=False)]
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    lines += [json.dumps(row) for row in rows]  # NaN stays NaN: Python's own spelling
    return ("\n".join(lines) + "\n").encode()


def _from_lines(path: Path) -> tuple[Any, Any]:
    with reading(path.name, "a file of JSON lines that this library wrote"):
        with path.open(encoding="utf-8") as file:
            header = json.loads(file.readline())
            rows = [json.loads(line) for line in file]
        names = list(header["columns"])
        if any(len(row) != len(names) for row in rows):
            return header, {}
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        return header, dict(zip(names, columns, strict=True))


def _to_parquet(header: dict[str, Any], table: Table) -> bytes:
    pa, pq = _pyarrow()
    content = pa.table(table).replace_schema_metadata(
        {_KEY: json.dumps(header, allow_nan=False).encode()}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(content, sink, compression="zstd")
    return bytes(sink.getvalue())


def _from_parquet(path: Path) -> tuple[Any, Any]:
    _, pq = _pyarrow()
    with reading(path.name, "a Parquet file that this library wrote"):
        content = pq.read_table(path)
        header = json.loads((content.schema.metadata or {})[_KEY])
        return header, {name: content.column(name).to_numpy() for name in content.column_names}


def _pyarrow() -> tuple[Any, Any]:
    use = "a Parquet file (.jsonl needs nothing)"
    return imported("pyarrow", use, "files"), imported("pyarrow.parquet", use, "files")


_FORMATS = {
    **dict.fromkeys((".jsonl", ".ndjson"), (_to_lines, _from_lines)),
    **dict.fromkeys((".parquet", ".pq"), (_to_parquet, _from_parquet)),
}


def _format_of(path: Path) -> Any:
    if path.suffix.lower() not in _FORMATS:
        raise ValueError(f"{path.name}: the format must be .jsonl or .parquet")
    return _FORMATS[path.suffix.lower()]


_TRACE, _BANDIT, _REPORT = "dpoco.trace/1", "dpoco.bandit-trace/1", "dpoco.run-report-table/1"
_COMPARATOR = "comparator:"


class SavedTrace(Trace):
    """A trace that was loaded from a file. **Not private**.

    The file does not hold the stream, only the losses of the comparators that were named on saving,
    so regret is known only against these.

    Attributes
    ----------
    losses, switches, first_round, decisions
        As in `Trace`; decisions of experts have shape (T,) and are integers.
    comparators : dict of str to ndarray of float64, shape (T,)
        Losses of the named comparators.
    settings : dict
        The `meta` that was passed to `save`.
    """

    comparators: dict[str, FloatArray]
    settings: dict[str, Any]

    def comparator_losses(self, decision: Any) -> FloatArray:
        """Return the losses, shape (T,), of a comparator, given its name.

        Raises
        ------
        ValueError
            For a name that was not saved.
        TypeError
            For a decision: the stream is not in the file.
        """
        if not isinstance(decision, str):
            raise TypeError("a loaded trace knows comparators by name: it has no stream")
        if decision not in self.comparators:
            raise ValueError(f"comparator must be one of {sorted(self.comparators)}")
        return self.comparators[decision]

    def regret(self, comparator: Any) -> FloatArray:
        """Return cumulative regret, shape (T,), against a comparator, given its name."""
        return np.cumsum(self.losses - self.comparator_losses(comparator))

    def __repr__(self) -> str:
        return f"<dpoco.SavedTrace of {len(self)} rounds: not private, for evaluation only>"


def save(
    item: Trace | BanditTrace | RunReport,
    path: str | os.PathLike[str],
    *,
    comparators: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Write a trace or a report to a file. The file is **not private** and states this.

    Parameters
    ----------
    item : Trace, ExpertTrace, BanditTrace or RunReport
        Object to save. Recorded decisions are saved; for a bandit's run, actions and rewards.
    path : path-like
        ``.jsonl`` (a header, then a line a round) or ``.parquet`` (needs pyarrow). Replaced at
        once: a crash leaves the old file.
    comparators : mapping of str to comparator, optional
        For traces: comparators as for `Trace.regret`, whose losses are saved under these names.
    settings : mapping, optional
        JSON-able facts to keep with it.

    Raises
    ------
    ValueError, TypeError
        For other suffixes or items.
    ImportError
        If Parquet is asked for without pyarrow.

    Notes
    -----
    Numbers are restored bit for bit. They take 8 bytes per round and column (Parquet, before
    compression), or about 20 as JSON.
    """
    header: dict[str, Any] = {"settings": dict(settings or {})}
    if comparators and not isinstance(item, Trace):
        raise TypeError("comparators are for traces of losses")
    if isinstance(item, RunReport):
        record = item.to_dict()
        curves = record.pop("curves")
        header.update(schema=_REPORT, report=record)
        rounds = np.array(curves.pop("rounds"), dtype=np.int64)
        table = {"rounds": rounds, **{k: np.array(v, dtype=float) for k, v in curves.items()}}
    elif isinstance(item, BanditTrace):
        header.update(schema=_BANDIT, first_round=item.first_round)
        table = {"action": item.actions, "reward": item.rewards}
    elif isinstance(item, Trace):
        header.update(schema=_TRACE, first_round=item.first_round)
        table = _columns(item, comparators or {})
    else:
        raise TypeError(f"nothing to save in a {type(item).__name__}")
    target = Path(path)
    write, _ = _format_of(target)
    head = {
        **header,
        "private": False,
        "notice": NOTICE,
        "columns": {name: column.dtype.name for name, column in table.items()},
        "rows": len(next(iter(table.values()), ())),
        "sha256": _digest(table),
    }
    write_atomically(target, write(head, table))


def load(path: str | os.PathLike[str]) -> SavedTrace | BanditTrace | RunReport:
    """Return the object written by `save`.

    Parameters
    ----------
    path : path-like
        ``.jsonl`` or ``.parquet``.

    Returns
    -------
    SavedTrace, BanditTrace or RunReport
        A bandit's trace without its world: it has actions and rewards but no regret.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not one of these, is of another version, or is damaged.
    """
    source = Path(path)
    _, read = _format_of(source)
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {source}")
    header, table = _checked(source, *read(source))
    try:
        if header["schema"] == _REPORT:
            curves = {name: column.tolist() for name, column in table.items()}
            return RunReport.from_dict({**header["report"], "curves": curves})
        if header["schema"] == _BANDIT:
            none = np.empty((len(table["action"]), 0))
            return BanditTrace(table["action"], table["reward"], header["first_round"], none, none)
        return _trace(header, table)
    except (KeyError, TypeError):
        raise ValueError("the file lacks columns or facts of what it says it holds") from None


def _checked(source: Path, header: Any, table: Any) -> tuple[Any, Table]:
    """Return header and columns as they were saved, or raise `ValueError`."""
    schemas = (_TRACE, _BANDIT, _REPORT)
    found = str(header.get("schema") if isinstance(header, dict) else None)
    if found not in schemas:
        if any(found.rpartition("/")[0] == known.rpartition("/")[0] for known in schemas):
            raise ValueError(f"{source.name} is of another version than this library reads")
        raise ValueError(f"{source.name} holds none of: {', '.join(schemas)}")
    try:
        columns = header["columns"]
        named: Table = {name: np.asarray(table[name], _TYPES[columns[name]]) for name in columns}
        whole = (
            set(table) == set(columns)
            and all(column.shape == (header["rows"],) for column in named.values())
            and _digest(named) == header["sha256"]
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise ValueError(f"{source.name} is damaged: its table is not the one that was saved")
    for column in named.values():
        column.flags.writeable = False
    return header, named


def _columns(trace: Trace, comparators: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    changed = np.zeros(len(trace), dtype=bool)
    changed[trace.switches] = True
    table: dict[str, NDArray[Any]] = {"loss": trace.losses, "changed": changed}
    if trace._decisions is not None:
        decisions = np.asarray(trace.decisions)
        if decisions.ndim == 1:
            table["decision"] = decisions
        else:
            table.update({f"x{j}": decisions[:, j] for j in range(decisions.shape[1])})
    for name, comparator in comparators.items():
        if isinstance(trace, ExpertTrace):
            comparator = getattr(comparator, "decisions", comparator)
        decision = getattr(comparator, "decision", comparator)
        table[_COMPARATOR + name] = trace.comparator_losses(decision)
    return table


def _trace(header: dict[str, Any], table: dict[str, NDArray[Any]]) -> SavedTrace:
    decisions: Any = table.get("decision")
    if "x0" in table:
        width = sum(name[:1] == "x" and name[1:].isdigit() for name in table)
        decisions = np.column_stack([table[f"x{j}"] for j in range(width)])
        decisions.flags.writeable = False

    def unknown(decision: FloatArray) -> FloatArray:
        raise TypeError("a loaded trace knows comparators by name: it has no stream")

    trace = SavedTrace(
        table["loss"], np.flatnonzero(table["changed"]), header["first_round"], decisions, unknown
    )
    named = {
        name[len(_COMPARATOR) :]: float_array(name, column, (len(trace),))
        for name, column in table.items()
        if name.startswith(_COMPARATOR)
    }
    object.__setattr__(trace, "comparators", named)
    object.__setattr__(trace, "settings", header["settings"])
    return trace
