"""Parameters of learners and mechanisms: frozen values, checked by what each field may be.

Parameters carry no claim of their own: an accountant's ``guarantee`` recomputes privacy and regret
from the fields that describe the mechanism. What is derived is only checked for form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

import numpy as np

from dpoco._validation import (
    LARGEST_HORIZON,
    LARGEST_SCALE,
    SMALLEST_SCALE,
    choice,
    positive_float,
    positive_int,
    real_float,
)
from dpoco.accounting._records import plain_float, read_record
from dpoco.errors import StateError

__all__ = ["Parameters", "at_least", "one_of"]

Self = TypeVar("Self", bound="Parameters")


def at_least(
    low: float, high: float = math.inf, *, infinite: bool = False, default: Any = MISSING
) -> Any:
    """Return a field whose numbers are in [low, high], and infinite only if that is said."""
    return field(default=default, metadata={"low": low, "high": high, "infinite": infinite})


def one_of(*choices: str, default: Any = MISSING) -> Any:
    """Return a field whose text is one of `choices`."""
    return field(default=default, metadata={"choices": choices})


@dataclass(frozen=True)
class Parameters:
    """Base of all parameters: a dataclass of numbers, texts, bools, None and terms of a bound.

    Counts are at least 1 and other numbers positive, if a field says nothing else; terms (a
    dictionary of floats) are at least 0. An int is a float where a float belongs, and numbers of
    NumPy are numbers.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    unsaid: ClassVar[tuple[str, ...]] = ()  # fields that records leave out where they are None

    def __post_init__(self) -> None:
        """Check every field by its type and range, and store plain numbers."""
        for name, (types, may) in _fields_of(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, name)
            if not _is_plain(value, types, may):
                object.__setattr__(self, name, _checked(name, value, types, may))

    @property
    def noise_dominates(self) -> bool:
        """Whether hardly any learning is to be expected; False where bounds cannot tell."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dictionary that `from_dict` restores exactly."""
        body = {k: plain_float(v) if isinstance(v, float) else v for k, v in asdict(self).items()}
        said = {k: v for k, v in body.items() if v is not None or k not in self.unsaid}
        return {"kind": self.kind, "version": self.version, **said}

    @classmethod
    def from_dict(cls: type[Self], record: Mapping[str, Any]) -> Self:
        """Return the parameters written by `to_dict`; `StateError` if they are not."""
        known = _fields_of(cls)  # type: ignore[arg-type]
        if isinstance(record, Mapping):
            record = {**dict.fromkeys(cls.unsaid), **record}
            if record.get("version") == 1 < cls.version:
                record = {"numerics": "float", **record, "version": 2}  # all there was
        body = read_record(record, kind=cls.kind, version=cls.version, fields=frozenset(known))
        for name, (types, _) in known.items():
            if body[name] == "inf" and float in types:
                body[name] = math.inf
        try:
            return cls(**body)
        except (TypeError, ValueError) as error:
            raise StateError(f"malformed record of {cls.__name__}") from error


@cache
def _fields_of(cls: type[Parameters]) -> dict[str, tuple[tuple[Any, ...], Mapping[str, Any]]]:
    hints = get_type_hints(cls)
    return {
        each.name: (_members(hints[each.name]), each.metadata) for each in fields(cls) if each.init
    }


def _members(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one type; of a tuple or dictionary, its own."""
    if getattr(hint, "__origin__", None) in (dict, tuple):
        return (hint,)
    return tuple(m for each in get_args(hint) for m in _members(each)) or (hint,)


def _is_plain(value: Any, types: tuple[Any, ...], may: Mapping[str, Any]) -> bool:
    """Whether a value is what it is to be stored as: quick for nearly all there are."""
    kind = type(value)
    if kind not in types:
        return False
    if kind is float:
        low, high = may.get("low"), may.get("high", math.inf)
        return bool(
            SMALLEST_SCALE <= value <= LARGEST_SCALE
            if low is None
            else low <= value <= high and value < math.inf
        )
    if kind is int:
        low = may.get("low", 1)
        return bool(low <= value <= min(may.get("high", LARGEST_HORIZON), LARGEST_HORIZON))
    return kind in (bool, type(None)) or (kind is str and value in may.get("choices", (value,)))


def _checked(name: str, value: Any, types: tuple[Any, ...], may: Mapping[str, Any]) -> Any:
    """Return the value as one of `types`, or raise naming the field."""
    if (value is None or is_dataclass(value)) and type(value) in types:
        return value
    for kind in types:
        origin, inner = getattr(kind, "__origin__", None), get_args(kind)
        if origin is tuple and isinstance(value, (tuple, list)):
            return tuple(_checked(name, each, (inner[0],), may) for each in value)
        if origin is dict:
            if not isinstance(value, Mapping):
                raise TypeError(f"{name} must be a mapping of names to floats")
            terms = {"low": 0.0, "infinite": True}
            return {str(k): _number(name, v, float, terms) for k, v in value.items()}
    if bool in types:
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be a bool; got {type(value).__name__}")
        return bool(value)
    if str in types and (isinstance(value, str) or not {int, float} & set(types)):
        if "choices" in may:
            return choice(name, value, may["choices"])
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str; got {type(value).__name__}")
        return value
    return _number(name, value, int if int in types else float, may)


def _number(name: str, value: Any, kind: type, may: Mapping[str, Any]) -> float:
    low, high = may.get("low"), may.get("high", math.inf)
    if kind is int:
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
        if low is None or not whole:
            return positive_int(name, value, maximum=int(min(high, LARGEST_HORIZON)))
        number: float = int(value)
    elif may.get("infinite") and isinstance(value, float) and value == math.inf:
        return math.inf
    else:
        number = positive_float(name, value) if low is None else real_float(name, value)
    if not (-math.inf if low is None else low) <= number <= high:
        reach = f"[{low:g}, {high:g}]" if kind is float else f"[{low}, {high}]"
        raise ValueError(f"{name} must be in {reach}; got {number!r}")
    return number
