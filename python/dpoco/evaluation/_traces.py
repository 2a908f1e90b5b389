"""Traces in NumPy files, with the losses of comparators for regret."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._files import write_atomically
from dpoco._validation import Fields, FloatArray, Named, reading
from dpoco.bandits import BanditTrace
from dpoco.experts import ExpertTrace
from dpoco.trace import Trace

NOTICE = "NOT PRIVATE: computed from raw records, for evaluation only"
_TRACE, _BANDIT = "dpoco.trace/2", "dpoco.bandit-trace/2"
_COMPARATOR = "comparator:"


def _no_stream(decision: object) -> NoReturn:
    """Raise for a decision: its losses would need the records, which the file does not contain."""
    raise TypeError("a loaded trace has no stream: pass the name of one of its comparators")


@dataclass(frozen=True, eq=False, repr=False)
class SavedTrace(Trace):
    """A trace that was loaded from a file. **Not private**.

    The file does not contain the stream, only the losses of the comparators that were named on
    saving, so regret is only known against these.

    Attributes
    ----------
    losses, switches, first_round, decisions
        As in `Trace`; decisions of experts have shape (T,) and are integers.
    comparators : dict of str to ndarray of float64, shape (T,)
        Losses of the named comparators.
    settings : dict
        The settings that were passed to `save`.
    """

    comparators: dict[str, FloatArray] = field(default_factory=dict)
    settings: Fields = field(default_factory=dict)

    def comparator_losses(self, decision: ArrayLike) -> FloatArray:
        """Return the losses, shape (T,), of a comparator, given its name.

        Raises
        ------
        ValueError
            For a name that was not saved.
        TypeError
            For a decision, because the stream is not in the file.
        """
        if not isinstance(decision, str):
            _no_stream(decision)
        if decision not in self.comparators:
            raise ValueError(f"comparator must be one of {sorted(self.comparators)}")
        return self.comparators[decision]

    def regret(self, comparator: Any) -> FloatArray:
        """Return cumulative regret, shape (T,), against a comparator, given its name."""
        return np.cumsum(self.losses - self.comparator_losses(comparator))

    def __repr__(self) -> str:
        return f"<dpoco.SavedTrace of {len(self)} rounds: not private, for evaluation only>"


def save(
    item: Trace | BanditTrace,
    path: str | os.PathLike[str],
    *,
    comparators: Named | None = None,
    settings: Named | None = None,
) -> None:
    """Write a trace to a file. The file is **not private** and states this.

    Parameters
    ----------
    item : Trace, ExpertTrace or BanditTrace
        Object to save. Recorded decisions are saved; for a bandit's run, actions and rewards.
    path : path-like
        A compressed ``.npz``, which `numpy.load` also reads. It is replaced atomically: after a
        crash, the old file remains.
    comparators : mapping of str to comparator, optional
        For traces of losses: comparators as for `Trace.regret`, whose losses are saved under these
        names.
    settings : mapping, optional
        JSON-able facts to keep with it.

    Raises
    ------
    ValueError, TypeError
        For other suffixes or items.

    Notes
    -----
    A loaded trace keeps its comparators and settings, except those with the same name. Numbers are
    restored bit for bit. They take 8 bytes per round and column before compression. For tables for
    other programs, see `Trace.to_frame`; a `RunReport` has ``to_json``.
    """
    if Path(path).suffix != ".npz":
        raise ValueError(f"{Path(path).name}: the format must be .npz")
    table: dict[str, NDArray[Any]]
    if isinstance(item, BanditTrace):
        # The regret of a bandit needs the rewards of all arms, which only its environment has.
        if comparators:
            raise TypeError("comparators are for traces of losses")
        schema, table = _BANDIT, {"actions": item.actions, "rewards": item.rewards}
    elif isinstance(item, Trace):
        schema, table = _TRACE, {"losses": item.losses, "switches": item.switches}
        if item._decisions is not None:
            table["decisions"] = item.decisions
        if isinstance(item, SavedTrace):
            # The trace has no stream from which they could be recomputed.
            table |= {_COMPARATOR + name: own for name, own in item.comparators.items()}
            settings = {**item.settings, **(settings or {})}
        for name, comparator in (comparators or {}).items():
            if isinstance(item, ExpertTrace):
                # `Trace` takes the decisions of a sequence of experts, or of one expert.
                comparator = getattr(comparator, "decisions", comparator)
            decision: Any = getattr(comparator, "decision", comparator)
            table[_COMPARATOR + name] = item.comparator_losses(decision)
    else:
        raise TypeError(f"nothing to save in a {type(item).__name__}")
    about = {
        "schema": schema, "private": False, "notice": NOTICE, "first_round": item.first_round,
        "settings": dict(settings or {}),
    }  # fmt: skip
    # First in memory, because a file is replaced as a whole, so that a crash leaves the old one.
    content = io.BytesIO()
    # The text is stored as an array of characters, so that the file can be read without pickle.
    np.savez_compressed(content, about=np.array(json.dumps(about)), **table)  # type: ignore[arg-type]
    write_atomically(Path(path), content.getvalue())


def load(path: str | os.PathLike[str]) -> SavedTrace | BanditTrace:
    """Return the trace written by `save`.

    Parameters
    ----------
    path : path-like
        The ``.npz`` file. Nothing in it is executed.

    Returns
    -------
    SavedTrace or BanditTrace
        A bandit's trace without its environment: it has actions and rewards but no regret.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not a trace, has another version, or is damaged.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"no such file: {source}")
    with reading(source.name, "a trace of this version, as dpoco.evaluation.save writes it"):
        # Reading a column compares its checksum.
        with np.load(io.BytesIO(source.read_bytes()), allow_pickle=False) as file:
            table = {name: file[name] for name in file.files}
        about = json.loads(str(table.pop("about")))
        # Read-only, as in traces that were played.
        for column in table.values():
            column.flags.writeable = False
        first = int(about["first_round"])
        if about["schema"] == _BANDIT:
            # Contexts and the rewards of all arms belong to the environment and are not in the
            # file.
            none = np.empty((len(table["actions"]), 0))
            return BanditTrace(table["actions"], table["rewards"], first, none, none)
        if about["schema"] != _TRACE:
            raise ValueError("the file has another schema")
        named = {
            name[len(_COMPARATOR) :]: column
            for name, column in table.items()
            if name.startswith(_COMPARATOR)
        }
        return SavedTrace(
            table["losses"], table["switches"], first, table.get("decisions"), _no_stream,
            comparators=named, settings=about["settings"],
        )  # fmt: skip
