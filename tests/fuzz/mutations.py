"""Random changes of bytes, of JSON and of arguments."""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np

__all__ = ["MARK", "changed_bytes", "changed_json", "odd", "odd_array", "require"]

MARK = 73519.25  # in the data; its digits in a message are a leak
MARK_TEXT = "73519"
_WORDS = [
    0, 1, 2, 63, 64, 2**31, 2**32, 2**53, 2**60, 2**63 - 1, 2**63, 2**64 - 1,
    *(struct.unpack("<Q", struct.pack("<d", x))[0]
      for x in (-0.0, 1.0, -1.0, 0.5, 5e-324, 2.2e-308, 1e300, -1e300, math.inf, -math.inf,
                math.nan)),
]  # fmt: skip
_DTYPES = (
    "f2", "f4", "g", "i1", "i8", "u8", "?", "c16", "S8", "U8", "O", "M8[s]", "m8[s]", "V8", ">f8",
)  # fmt: skip
_LEAVES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**53 + 1, 2**63, 10**12, 10**30, 10**400, 0.0,
    -0.0, 0.5, -1.5, 1e-320, 1e-12, 1e12, 1e300, math.nan, math.inf, -math.inf, "", "auto", "inf",
    "nan", "1", "tight", "\ud800", "x" * 1000, [], {}, [[]], [0.5], {"float64": "AAAA"},
    {"kind": None},
]  # fmt: skip


def require(condition: bool, message: str) -> None:
    """Raise `AssertionError` unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def changed_bytes(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with one to four changes: flips, cuts, splices, foreign words."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(8)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[at % len(out)] = rng.randrange(256)
        elif kind in (2, 3) and len(out) >= 8:  # most states are words
            start = 8 * rng.randrange(len(out) // 8)
            out[start : start + 8] = struct.pack("<Q", rng.choice(_WORDS))
        elif kind == 4:
            del out[at:]
        elif kind == 5:
            out[at:at] = rng.randbytes(rng.choice((1, 8, 64)))
        elif kind == 6:
            del out[at : at + rng.choice((1, 8, 64))]
        elif other:
            start = rng.randrange(len(other))
            out[at : at + 8] = other[start : start + rng.choice((8, 64, len(other)))]
    return bytes(out)


def changed_json(rng: random.Random, value: Any) -> Any:
    """Return `value` with one change somewhere inside; the original is left alone."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        kind = rng.randrange(12)
        if kind == 0:
            return {k: v for k, v in value.items() if k != key}
        if kind == 1:
            return {**value, rng.choice(["", "kind", "x", key + "_"]): _leaf(rng, None)}
        return {**value, key: changed_json(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        kind = rng.randrange(8)
        if kind == 0:
            return value[:at] + value[at + 1 :]
        if kind == 1:
            return value[:at] + value[at : at + 1] * rng.choice((2, 1000)) + value[at + 1 :]
        return [*value[:at], changed_json(rng, value[at]), *value[at + 1 :]]
    return _leaf(rng, value)


def _leaf(rng: random.Random, value: Any) -> Any:
    kind = rng.randrange(6)
    if kind == 0 and type(value) in (int, float) and abs(value) < 1e300:  # no overflow
        return rng.choice([-value, value + 1, value * 2, value * 1e9, value / 3, str(value)])
    if kind == 1 and isinstance(value, str) and value:
        at = rng.randrange(len(value))
        return value[:at] + rng.choice(["", "A", "=", "\0", "é"]) + value[at + 1 :]
    if kind == 2:
        nested: Any = value
        for _ in range(rng.choice((1, 3, 50))):
            nested = [nested] if rng.random() < 0.5 else {"x": nested}
        return nested
    return rng.choice(_LEAVES)


class _Liar:
    """Claims to be an array, or a number, and is neither."""

    shape = (3,)
    dtype = np.dtype(np.float64)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(f"no array of {MARK}")

    def __float__(self) -> float:
        raise TypeError(f"no number like {MARK}")

    __index__ = __int__ = __float__  # type: ignore[assignment]

    def __len__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return f"_Liar({MARK})"


def odd(rng: random.Random, value: Any) -> Any:
    """Return something in place of an argument: of another type, or out of range."""
    if isinstance(value, np.ndarray) and rng.random() < 0.85:
        return odd_array(rng, value)
    if type(value) in (int, float) and rng.random() < 0.6:
        return rng.choice(
            [
                MARK, -MARK, math.nan, math.inf, -math.inf, 5e-324, 1e308, 10**400, -(10**400),
                2**63, -1, 0, np.float32(MARK), np.float64(MARK), np.longdouble(MARK),
                np.array(MARK), np.array([MARK]), complex(MARK, 1.0), MARK_TEXT, True,
                np.datetime64(73519, "s"),
            ]
        )  # fmt: skip
    return rng.choice(
        [
            None, MARK, MARK_TEXT, MARK_TEXT.encode(), [MARK], [[MARK], [1.0, 2.0]], {MARK: 1},
            [MARK_TEXT], [None, MARK], object, _Liar(), range(3), (), [], np.zeros(0), b"",
            memoryview(b"73519..."), {1: MARK}, [[[MARK]]], iter([MARK]), np.nan, ["a", MARK],
            [_Liar()] * 3, float, slice(3), -1, 2**70, [10**400, MARK, 0], np.ma.masked,
        ]
    )  # fmt: skip


def odd_array(rng: random.Random, value: np.ndarray) -> Any:
    """Return `value` with another dtype, shape, layout or content."""
    if value.size >= 2**20 or value.dtype.kind not in "biufc":  # changed before
        return value
    array = np.array(value)
    if rng.random() < 0.5:
        array = _filled(rng, array)
    kind = rng.randrange(16)
    with np.errstate(all="ignore"):
        if kind == 0:
            return array.astype(rng.choice(_DTYPES))
        if kind == 1:
            return array[None] if rng.random() < 0.5 else array[..., None]
        if kind == 2:
            return np.concatenate([array, array[-1:]]) if array.ndim else np.stack([array] * 2)
        if kind == 3:
            return array[:0] if array.ndim else array[None][:0]
        if kind == 4:
            return array[..., :0] if array.ndim else array
        if kind == 5:
            return array.ravel()[:-1]
        if kind == 6:
            return array.T
        if kind == 7:
            return np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array
        if kind == 8:
            return array[::-1] if array.ndim else array
        if kind == 9:
            return np.broadcast_to(array.ravel()[0] if array.size else MARK, array.shape)
        if kind == 10:  # as large as can be said: must be refused before anything is copied
            return np.broadcast_to(MARK, (*array.shape, 2**40))
        if kind == 11:
            return np.ma.masked_array(array, mask=array > 0)
        if kind == 12:
            raw = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:]  # misaligned
            if array.dtype.hasobject:
                return array
            return raw.view(array.dtype).reshape(array.shape) if array.size else array
        if kind == 13:
            return array.tolist()
        if kind == 14:
            return np.asfortranarray(array)
    array.flags.writeable = False
    return array


def _filled(rng: random.Random, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiu" or array.dtype == np.uint64:
        return array
    wild: list[float] = [0, 1, -1, 5, 127]
    if array.dtype.kind == "f":
        wild = [MARK, -MARK, math.nan, math.inf, -math.inf, 5e-324, 1e308, -1e308, 0.0, -0.0]
    elif array.dtype == np.int64:
        wild += [2**31, 73519]
    elif array.dtype.kind == "u":
        wild.remove(-1)
    if not array.size:
        return array
    if rng.random() < 0.5:
        array[...] = rng.choice(wild)
    else:
        array.flat[rng.randrange(array.size)] = rng.choice(wild)
    return array
