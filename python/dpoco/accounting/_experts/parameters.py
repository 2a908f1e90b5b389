"""What the parameters of all learners of experts share: plain records, checked and exact."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from dpoco._validation import positive_int, real_float
from dpoco.accounting._records import plain_float, read_record
from dpoco.errors import StateError

__all__ = [
    "StoredParameters",
    "at_least_zero",
    "check_terms",
    "count_of",
]

Self = TypeVar("Self", bound="StoredParameters")


class StoredParameters:
    """Base of frozen dataclasses of numbers, strings, None and dictionaries of floats."""

    _kind: ClassVar[str]
    _version: ClassVar[int] = 1
    # Fields that the version before did not have, with what it stood for.
    _added: ClassVar[dict[str, Any] | None] = None

    @property
    def noise_dominates(self) -> bool:
        """Whether hardly any learning is to be expected; False where bounds cannot tell."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        body = {
            name: plain_float(value) if isinstance(value, float) else value
            for name, value in asdict(self).items()  # type: ignore[call-overload]
        }
        return {"kind": self._kind, "version": self._version, **body}

    @classmethod
    def from_dict(cls: type[Self], record: Mapping[str, Any]) -> Self:
        """Return the parameters written by `to_dict`; `StateError` if they are not."""
        names = frozenset(field.name for field in fields(cls))  # type: ignore[arg-type]
        body = read_record(
            record, kind=cls._kind, version=cls._version, fields=names, added=cls._added
        )
        body = {name: math.inf if value == "inf" else value for name, value in body.items()}
        try:
            return cls(**body)
        except (TypeError, ValueError) as error:
            raise StateError(f"malformed record of {cls.__name__}") from error


def at_least_zero(name: str, value: Any) -> float:
    """Return `value` as a finite float >= 0, or raise naming the argument."""
    number = real_float(name, value)
    if number < 0.0:
        raise ValueError(f"{name} must be at least 0; got {number!r}")
    return number


def check_terms(name: str, value: Any) -> dict[str, float]:
    """Return a dictionary of names to floats >= 0, or raise naming the argument."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping of names to floats")
    return {str(key): at_least_zero(name, number) for key, number in value.items()}


def count_of(name: str, value: Any) -> int:
    """Return an int in [0, 10^12], or raise naming the argument."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value == 0:
        return 0
    return positive_int(name, value)
