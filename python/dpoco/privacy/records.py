"""Descriptions: frozen values of plain numbers and words, strict in JSON.

A description consists of its fields alone: every field is there and no other, and each has the
type and the range that its class states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from typing import Any, ClassVar, TypeVar, get_type_hints

import numpy as np

__all__ = ["Description", "limits", "read", "to_record"]

D = TypeVar("D", bound="Description")


def limits(*, zero: bool = False, infinite: bool = False, default: Any = MISSING) -> Any:
    """Return a dataclass field whose numbers may also be 0 or infinite.

    By default counts are at least 1, and other numbers positive and finite.
    """
    return field(default=default, metadata={"zero": zero, "infinite": infinite})


@dataclass(frozen=True)
class Description:
    """Base of all descriptions; subclasses are frozen dataclasses and name their `kind`."""

    kind: ClassVar[str]
    unsaid: ClassVar[tuple[str, ...]] = ()  # fields that records leave out where they are None

    def __post_init__(self) -> None:
        """Raise `TypeError` or `ValueError` for values that no formula covers."""
        for name, (hint, may) in _declared_fields(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, name)
            # The check below requires exact types, and JSON cannot write NumPy's numbers.
            if isinstance(value, (np.integer, np.floating)):  # NumPy's numbers are numbers
                object.__setattr__(self, name, value.item())
            _check(f"{name} of {self.kind}", getattr(self, name), hint, may)

    def check_choice(self, name: str, allowed: tuple[str | None, ...]) -> None:
        """Raise `ValueError` unless the field `name` is one of `allowed`."""
        if getattr(self, name) not in allowed:
            raise ValueError(
                f"{name} of {self.kind} must be one of {list(allowed)}; got {getattr(self, name)!r}"
            )


def to_record(value: Any) -> Any:
    """Return a description as values of JSON, from which `read` restores it exactly."""
    if isinstance(value, Description):
        own = {n: to_record(getattr(value, n)) for n in _declared_fields(type(value))}  # type: ignore[arg-type]
        # Records that were written before an optional field existed do not have its name. An
        # optional field that is None is left out, so that the same description still has the same
        # record and the same signature.
        said = {n: v for n, v in own.items() if v is not None or n not in value.unsaid}
        return {"kind": value.kind, **said}
    if isinstance(value, tuple):
        return [to_record(each) for each in value]
    # JSON has no infinity. Strict readers refuse Python's "Infinity"; `_restore` reads this text.
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def read(record: Any, kinds: tuple[type[D], ...]) -> D:
    """Return the description that `to_record` wrote, which must be of one of `kinds`.

    Raises
    ------
    TypeError, ValueError
        If it is anything else.
    """
    if not isinstance(record, Mapping):
        raise TypeError(f"a description is a mapping; got {type(record).__name__}")
    found = [cls for cls in kinds if cls.kind == record.get("kind")]
    if not found:
        raise ValueError(f"not a description of kind {sorted(cls.kind for cls in kinds)}")
    cls, known = found[0], _declared_fields(found[0])  # type: ignore[arg-type]
    # A field that no formula reads could still mislead a person who reads it, so it is refused.
    if {*record, *cls.unsaid} != {"kind", *known}:
        raise ValueError(f"a {cls.kind} has the fields {list(known)}, and no others")
    return cls(**{n: _restore(v, known[n][0]) for n, v in record.items() if n != "kind"})


@lru_cache(maxsize=256)
def _declared_fields(cls: type[Description]) -> dict[str, tuple[Any, Mapping[str, bool]]]:
    hints = get_type_hints(cls)
    return {f.name: (_members(hints[f.name]), f.metadata) for f in fields(cls) if f.init}


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types a value may have: each member of a union; a tuple as (tuple, members)."""
    if getattr(hint, "__origin__", None) is tuple:
        return ((tuple, _members(hint.__args__[0])),)
    if isinstance(hint, type):
        return (hint,)
    return tuple(member for each in hint.__args__ for member in _members(each))


def _check(what: str, value: Any, members: tuple[Any, ...], may: Mapping[str, bool]) -> None:
    for member in members:
        if isinstance(member, tuple) and type(value) is tuple:
            for each in value:
                _check(what, each, member[1], may)
            return
    # The type must be exact: a bool is not a count, and a subclass is not the description itself.
    if type(value) not in members:
        raise TypeError(f"{what} cannot be of type {type(value).__name__}")
    if type(value) not in (int, float):
        return
    # Both comparisons are false for NaN, so NaN is refused like a number out of range.
    enough = value >= 0 if may.get("zero") else value > 0
    endless = value == math.inf and not may.get("infinite")
    # Engines count in 64 bits; a limit of 2^62 leaves room for sums of such counts.
    huge = type(value) is int and value > 2**62
    if not enough or endless or huge:
        raise ValueError(f"{what} cannot be {value!r}")


def _restore(value: Any, members: tuple[Any, ...]) -> Any:
    """Return a value of JSON as one of the types of a field."""
    if isinstance(value, Mapping):
        kinds = tuple(m for m in members if isinstance(m, type) and issubclass(m, Description))
        return read(value, kinds)
    if isinstance(value, list):
        inner = next((m[1] for m in members if isinstance(m, tuple)), None)
        if inner is None:
            raise TypeError("a list where no list belongs")
        return tuple(_restore(each, inner) for each in value)
    if value in ("inf", "-inf") and float in members:
        return float(value)
    return value
