"""Releases as bytes: rows of doubles or integers, repeated ones once.

Layout, little-endian: "f" (doubles) or "i" (64-bit integers); width w (u32), 0 for numbers; rounds
n (u32); stored rows k (u32); 3 bytes of padding; if k < n, the rounds at which the stored rows
begin, k numbers (i64); the rows.

Or a recipe, by which they are computed again from their records: "r"; 0; rounds n; 0; the sum of
the words of each release, modulo 2^16 (u16), by which another outcome is noticed; the state of the
engine before the first of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.errors import StateError

__all__ = ["CONTEXT", "Recipe", "decoded", "encoded", "kept_form"]

_HEAD = struct.Struct("<c3xIII")
# What precedes a bandit's pending decision: number of the key, digest of the context.
CONTEXT = struct.Struct("<I16s")
_TYPES = {b"f": np.dtype("<f8"), b"i": np.dtype("<i8")}


def encoded(releases: NDArray[Any]) -> bytes:
    """Return the bytes of releases: (n,) or (n, w), float64 or int64."""
    code = b"f" if releases.dtype.kind == "f" else b"i"
    rows = np.ascontiguousarray(releases, dtype=_TYPES[code])
    rounds = rows.shape[0]
    width = rows.shape[1] if rows.ndim == 2 else 0
    if rounds == 1:  # what is decided next: often
        return _HEAD.pack(code, width, 1, 1) + rows.tobytes()
    begins = _begins(rows.view(np.int64).reshape(rounds, max(width, 1)))
    if begins is None:
        head = _HEAD.pack(code, width, rounds, rounds)
        return b"".join((head, rows.tobytes()))
    head = _HEAD.pack(code, width, rounds, begins.size)
    return b"".join((head, begins.astype("<i8").tobytes(), rows[begins].tobytes()))


def _begins(bits: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return where rows differ from the one before; None if that is at most rounds."""
    rounds, width = bits.shape
    if rounds < 2:
        return None
    first = bits[1:, 0] != bits[:-1, 0]
    if 2 * np.count_nonzero(first) >= rounds:  # the places would take about as much as the rows
        return None
    changes = first if width == 1 else np.any(bits[1:] != bits[:-1], axis=1)
    begins = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(changes) + 1])
    return None if 2 * begins.size > rounds else begins


@dataclass(frozen=True)
class Recipe:
    """How releases are computed again from their records.

    Attributes
    ----------
    sums : ndarray of uint16, shape (n,)
        A check of each release.
    start : bytes
        State of the engine before the first of them.
    """

    sums: NDArray[np.uint16]
    start: bytes

    @classmethod
    def of(cls, data: bytes) -> Recipe | None:
        """Return the recipe that `kept_form` has written; None if these are releases."""
        if data[:1] != b"r":
            return None
        rounds = _HEAD.unpack_from(data)[2]
        place = _HEAD.size + 2 * rounds
        return cls(np.frombuffer(data[_HEAD.size : place], dtype="<u2"), data[place:])

    @staticmethod
    def sums_of(releases: NDArray[Any]) -> NDArray[np.uint16]:
        """Return the checks of releases, (n, w) float64."""
        return _core.row_sums(np.ascontiguousarray(releases)).astype("<u2", copy=False)


def kept_form(releases: NDArray[Any], start: bytes | None) -> bytes:
    """Return what is stored of releases: `encoded`, or a recipe if that is less than half as long.

    `start` is the state of the engine before them; None: no recipe.
    """
    if start is not None and releases.dtype.kind == "f" and releases.ndim == 2:
        rounds, width = releases.shape
        length = 2 * rounds + len(start)
        if 2 * length < 8 * rounds * width:
            whole = np.ascontiguousarray(releases)
            begins = _begins(whole.view(np.int64))
            if begins is None or 2 * length < 8 * begins.size * (width + 1):
                head = _HEAD.pack(b"r", 0, rounds, 0)
                return b"".join((head, Recipe.sums_of(whole).tobytes(), start))
    return encoded(releases)


def decoded(data: bytes, rounds: int) -> NDArray[Any]:
    """Return what `encoded` was given, read-only; `StateError` if it is not that.

    `rounds` is their number by another record: the head alone could ask for 2^32 long rows.
    """
    try:
        code, width, claimed, stored = _HEAD.unpack_from(data)
        if claimed != rounds:
            raise ValueError("lengths differ")
        body = data[_HEAD.size :]
        places = None
        if stored < rounds:
            places = np.frombuffer(body[: 8 * stored], dtype="<i8")
            body = body[8 * stored :]
        rows = np.frombuffer(body, dtype=_TYPES[code])
        rows = rows.reshape((stored, width) if width else (stored,))
        if places is not None:
            lengths = np.diff(places, append=rounds)
            rows = np.repeat(rows, lengths, axis=0)
        if rows.shape[0] != rounds:
            raise ValueError("lengths differ")
    except (struct.error, ValueError, KeyError):
        raise StateError("the journal is corrupt: releases cannot be read") from None
    rows.flags.writeable = False
    return rows
