"""The protocol of a replay: what one family of learners has to tell the audit.

A family is a subclass of `Family`: it reads a stream, plays it round by round while it writes a
`Play`, and says how far two plays are apart. ``_families`` lists them; a new learner needs
one class and one line there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import float_array

__all__ = ["Family", "Play", "Rounds", "positions", "source_positions", "words_of"]

FloatArray = NDArray[np.float64]
Change = tuple[str, float, float]  # name of a quantity, measured, declared

# Counters of a compiled source, the last words of its state.
_VARIATES = 6

# Rounding of a leaf's own arithmetic, relative to the bound.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Rounds:
    """A stream: arrays (or lists of loss objects) with one entry a round."""

    parts: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def record(self, t: int) -> tuple[Any, ...]:
        """Return the record of round t, counted from 0."""
        return tuple(part[t] for part in self.parts)

    def replaced(self, t: int, record: tuple[Any, ...]) -> Rounds:
        """Return the neighbouring stream with another record in round t."""
        parts = []
        for part, entry in zip(self.parts, record, strict=True):
            other = part.copy()
            other[t] = entry
            parts.append(other)
        return Rounds(tuple(parts))


@dataclass
class Play:
    """One run on the tape.

    Attributes
    ----------
    published : list
        What each round published, comparable with ``==``; the decision of a round is made before
        its record is seen.
    variates : list of tuple of int
        Variates drawn of every kind: before the first round, then after each.
    fresh : list of bool
        Whether each round had to draw noise: a round that did not, but had to, used noise again.
    notes : dict
        What the family needs to compare two plays, round by round.
    findings : list of str
        Violations that this run shows by itself.
    """

    published: list[Any] = field(default_factory=list)
    variates: list[tuple[int, ...]] = field(default_factory=list)
    fresh: list[bool] = field(default_factory=list)
    notes: dict[str, list[Any]] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def note(self, **values: Any) -> None:
        """Add one entry to each of the named lists of `notes`."""
        for name, value in values.items():
            self.notes.setdefault(name, []).append(value)


class Family(ABC):
    """What the audit asks of a family of learners.

    Attributes
    ----------
    first_affected : int
        Rounds after the changed one whose publication may differ first: 1 if a round's decision is
        made before its record is seen, 0 if the record is an argument of the decision.
    schedule : {"fixed", "published"}
        Whether the number of variates is a function of the round alone, or of what was published.
    """

    first_affected: ClassVar[int] = 1
    schedule: ClassVar[str] = "fixed"

    def __init__(self, learner: Any) -> None:
        self.learner = learner

    @abstractmethod
    def rounds(self, stream: Any) -> Rounds:
        """Return the stream, checked; raise ``ValueError`` or ``TypeError`` naming what is bad."""

    @abstractmethod
    def play(self, learner: Any, rounds: Rounds) -> Play:
        """Play a fresh learner on the stream, round by round."""

    @abstractmethod
    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield what a record replaced in round `at` moved, and by how much it may at most."""

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield further violations that only the pair shows."""
        yield from ()

    def record(self, rounds: Rounds, replacement: Sequence[Any]) -> tuple[Any, ...]:
        """Return a replacement's record with the shapes of the stream's."""
        parts = len(rounds.parts)
        if len(replacement) < parts:
            raise ValueError(f"a replacement must be (round, {parts} parts of a record)")
        out = []
        for part, entry in zip(rounds.parts, replacement, strict=False):
            if isinstance(part, np.ndarray):
                out.append(float_array("replacement", entry, part.shape[1:]))
            else:
                out.append(entry)
        return tuple(out)

    @property
    def relation(self) -> str:
        """Which streams are neighbours: "replace" or "zero_out"."""
        return str(getattr(self.learner.parameters, "relation", "replace"))

    def check_neighbours(self, old: tuple[Any, ...], new: tuple[Any, ...]) -> None:
        """Raise ``ValueError`` unless the records differ and are neighbours."""
        same = all(
            np.array_equal(a, b, equal_nan=True) if isinstance(a, (np.ndarray, float)) else a is b
            for a, b in zip(old, new, strict=True)
        )
        if same:
            raise ValueError("a replacement leaves the stream as it is: that is no neighbour")
        if self.relation == "zero_out" and not (self.is_empty(old) or self.is_empty(new)):
            raise ValueError(
                "no neighbours under relation 'zero_out': one of the two records must be empty"
            )

    def is_empty(self, record: tuple[Any, ...]) -> bool:
        """Whether a record counts as no data: all zero, or not finite."""
        first = record[0]
        return isinstance(first, np.ndarray) and (
            not np.any(first) or not all(np.all(np.isfinite(part)) for part in record)
        )


def positions(learner: Any) -> tuple[int, ...]:
    """Return how many variates of each kind a learner's engine has drawn."""
    return tuple(int(n) for n in learner._engine.variates_drawn())


def words_of(state: bytes) -> NDArray[np.uint64]:
    """Return the 64-bit words of an engine's state."""
    return np.frombuffer(state, dtype="<u8")


def source_positions(state: bytes) -> tuple[int, ...]:
    """Return the same of a mechanism whose state ends with its source."""
    return tuple(int(n) for n in words_of(state)[-_VARIATES:])


def parts_of(stream: Any) -> tuple[Any, ...]:
    """Return the parts of a stream: a tuple's, without those that are None, or itself."""
    if isinstance(stream, Mapping):
        raise TypeError("stream must be an array or a tuple of arrays")
    if not isinstance(stream, tuple):
        return (stream,)
    parts = tuple(part for part in stream if part is not None)
    if not parts:
        raise ValueError("stream must have at least one part")
    return parts


def one_part(name: str, stream: Any) -> Any:
    """Return the only part of a stream, or raise naming what it must be."""
    parts = parts_of(stream)
    if len(parts) != 1:
        raise ValueError(f"stream must be one array of {name}; got {len(parts)} parts")
    return parts[0]


def two_parts(names: str, stream: Any) -> tuple[Any, Any]:
    """Return both parts of a stream, or raise naming what they must be."""
    parts = parts_of(stream)
    if len(parts) != 2:
        raise ValueError(f"stream must be a pair of {names}; got {len(parts)} part(s)")
    return parts[0], parts[1]
