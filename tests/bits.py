"""Hashes of results, and which machines give the same last bits."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Iterator

import numpy as np
import scipy

WORDS = [struct.pack("<d", x) for x in (math.nan, math.inf, -1.0, 1e300)] + [
    struct.pack("<Q", n) for n in (0, 1, 2**63)
]
MOST = 2000  # states that are tried of one


def spoiled_states(state: bytes, another: bytes = b"") -> list[bytes]:
    """Return states that end early or late, or in which one word is another."""
    tried = [state + bytes(8), state[:-1], *(state[:at] for at in range(0, len(state), 8))]
    for at in range(0, len(state) - 7, 8):
        words = _words(state, at, another)
        tried += [state[:at] + word + state[at + 8 :] for word in words]
    return tried[:: 1 + len(tried) // MOST]


def _words(state: bytes, at: int, another: bytes) -> Iterator[bytes]:
    """Yield words for a place of a state: what never is there, and neighbours of what is."""
    yield from WORDS
    (count,), (real,) = struct.unpack_from("<Q", state, at), struct.unpack_from("<d", state, at)
    for other in (count + 1, count - 1, count ^ 2**63, count << 1, count // 2, 3 * count // 4):
        yield struct.pack("<Q", other % 2**64)
    for change in (-1.5e-6, -0.7e-6, 0.7e-6, 1.5e-6):  # engines tolerate 1e-6
        yield struct.pack("<d", real + change)
        yield struct.pack("<d", real * (1.0 + change))
    if len(another) == len(state):
        yield another[at : at + 8]


def hashed(*parts: object) -> str:
    """Return a short hash of what the parts print as, arrays by their bytes."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def mean(numbers: Iterable[float]) -> float:
    """Return a mean that large and small numbers move, infinite ones by a lot."""
    sizes = [math.asinh(x * 1e6) if math.isfinite(x) else 1e3 for x in numbers]
    return math.fsum(sizes) / max(1, len(sizes))


def platform() -> str:
    """Return a hash of what the functions that parameters and guarantees go through give here.

    Their last digits differ between libraries and processors: what depends on them is the same to
    the last bit only where this is.
    """
    x, special = np.linspace(0.01, 9.0, 999), scipy.special
    values = [np.exp(x), np.log(x), np.expm1(x), np.log1p(x), np.sin(x), np.arctan2(x, 2.0),
              special.erfcx(x), special.ndtr(-x), special.log_ndtr(-x), special.gammaln(x),
              special.ndtri(x / 10.0), np.fft.irfft(x), x**0.3, np.cos(x), np.sinh(x)]  # fmt: skip
    plain = [f(float(v)) for v in x for f in (math.exp, math.log, math.expm1, math.log1p, math.erf)]
    plain += [math.asinh(7.0), math.hypot(*x[:9]), 0.3**0.7, float(x[:50] @ x[50:100])]
    return hashed([each.tobytes() for each in values], plain, sum([0.1] * 10))
