"""Keys of a pool: text, whole numbers or bytes; which records of a batch belong to which."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.errors import BudgetExceeded

__all__ = [
    "Key",
    "Rows",
    "check_fresh",
    "key_from_text",
    "key_list",
    "key_of",
    "key_text",
    "rows_of",
]

Key = str | int | bytes
IntArray = NDArray[np.int64]


def key_of(value: Any) -> Key:
    """Return a key as the pool keeps it, or raise `TypeError`."""
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"a key must be a str, an int or bytes; got {type(value).__name__}")
    return operator.index(value)


def key_list(keys: Any, rounds: int) -> list[Key]:
    """Return the keys of `rounds` records as a list, or raise."""
    if isinstance(keys, (str, bytes, Mapping)):
        raise TypeError(f"keys must be a sequence of keys; got {type(keys).__name__}")
    if isinstance(keys, np.ndarray):
        if keys.ndim != 1 or keys.dtype.kind not in "iuUSO":
            raise TypeError("keys must be a one-dimensional array of texts, whole numbers or bytes")
        values: list[Any] = keys.tolist()
    else:
        values = list(keys)
    if len(values) != rounds:
        raise ValueError(f"keys must name {rounds} records; got {len(values)}")
    if not set(map(type, values)) <= {str, int, bytes}:
        return [key_of(value) for value in values]
    return values


def key_text(key: Key) -> str:
    """Return a text that is the key's alone, and `key_from_text` reads."""
    if isinstance(key, str):
        return "s:" + key
    return "b:" + key.hex() if isinstance(key, bytes) else f"i:{key}"


def key_from_text(text: str) -> Key:
    """Return the key that `key_text` wrote."""
    kind, rest = text[:2], text[2:]
    if kind == "s:":
        return rest
    if kind == "b:":
        return bytes.fromhex(rest)
    if kind == "i:":
        return int(rest)
    raise ValueError("not a key")


@dataclass(frozen=True)
class Rows:
    """The records of a batch by key.

    Attributes
    ----------
    slots : ndarray of int64, shape (k,)
        Numbers of the keys in the batch, increasing.
    offsets : ndarray of int64, shape (k + 1,)
        Where each one's records begin and end in `rows`.
    rows : ndarray of int64, shape (n,)
        Rows of the batch, those of one key together and in their order.
    fresh : list
        Keys that the pool does not know yet, in the order of their first records; their numbers
        follow those of the pool.
    """

    slots: IntArray
    offsets: IntArray
    rows: IntArray
    fresh: list[Key]

    @property
    def counts(self) -> IntArray:
        """Records of each key."""
        return np.diff(self.offsets)


def rows_of(index: Mapping[Key, int], keys: list[Key], limit: int) -> Rows:
    """Return which records belong to which key; `BudgetExceeded` for more than `limit` keys.

    Parameters
    ----------
    index : mapping
        Numbers of the known keys, from 0 on.
    keys : list
        Keys of the records.
    limit : int
        Largest number of keys.

    Notes
    -----
    O(n + k log k).
    """
    fresh: list[Key] = []
    try:
        codes = [index[key] for key in keys]
    except KeyError:
        fresh = [key for key in dict.fromkeys(keys) if key not in index]
        check_fresh(len(index), fresh, limit)
        more = {key: len(index) + i for i, key in enumerate(fresh)}
        codes = [index[key] if key in index else more[key] for key in keys]
    kind = np.uint16 if len(index) + len(fresh) <= 2**16 else np.int64  # sorted in linear time
    numbers = np.array(codes, dtype=kind)
    rows = np.argsort(numbers, kind="stable")
    ordered = numbers[rows]
    begins = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    first = np.zeros(min(1, len(keys)), dtype=np.int64)
    begins = np.concatenate([first, begins])
    offsets = np.append(begins, len(keys)).astype(np.int64)
    return Rows(ordered[begins].astype(np.int64), offsets, rows.astype(np.int64), fresh)


def check_fresh(known: int, fresh: list[Key], limit: int) -> None:
    """Raise `BudgetExceeded` if the fresh keys are more than the guarantee covers."""
    if known + len(fresh) > limit:
        raise BudgetExceeded(
            f"{len(fresh)} new keys, {limit - known} left of the {limit} that the guarantee covers"
        )
    for key in fresh:
        if isinstance(key, str) and any("\ud800" <= letter <= "\udfff" for letter in key):
            raise ValueError("a key must be a text that UTF-8 can carry")
