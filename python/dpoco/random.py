"""Cryptographic randomness: ChaCha20 in counter mode, one key per source.

`Source()` takes its 256-bit key from the operating system. `Source.seeded(n)` is reproducible, for
tests and simulation. It voids every guarantee, and the guarantees say so.

The construction, its test vectors and the fork rule: ``docs/privacy/noise.md``.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import instance, positive_int
from dpoco.errors import StateError

__all__ = ["Source", "instruction_set", "select_instruction_set"]

_MAGIC = b"dpocosrc"
# The nonce of 64 bits is 16 stream + kind.
_LARGEST_STREAM = 2**60 - 1
# The numbers are a part of the nonce: other numbers would give other noise for the same seed.
_VARIATES = {"uniform": 1, "gaussian": 2, "exponential": 3, "laplace": 4, "gumbel": 5}


def instruction_set() -> str:
    """Return the instruction set the compiled loops use: "baseline", "avx2" or "avx512"."""
    return _core.instruction_set()


def select_instruction_set(name: str) -> str:
    """Choose the instruction set of the whole process; all give the same bits.

    Parameters
    ----------
    name : {"auto", "baseline", "avx2", "avx512"}
        "auto" is the best one of this machine.

    Returns
    -------
    str
        The instruction set in use.

    Raises
    ------
    ValueError
        If this machine or build does not have it.
    """
    return _core.select_instruction_set(name)


# Weak references: a source may be freed, and its key with it.
_living: weakref.WeakSet[Source] = weakref.WeakSet()


def _renew_locks() -> None:
    """Make new locks in a forked child: a thread that does not exist here may have held one."""
    for source in _living:
        source._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Source:
    """A stream of cryptographic random variates.

    Each kind of variate (uniform, Gaussian, ...) has its own sub-stream. The i-th Gaussian of a
    source therefore does not depend on other draws, and you may split draws as you like.

    A learner or mechanism that gets a source takes a separate stream of it, so one source may serve
    many of them.

    Notes
    -----
    ChaCha20 (original layout: 64-bit counter, 64-bit nonce); nonce = 16 * stream + kind. Further
    digits of a variate have a nonce and their own place and move no position. After a fork,
    the child's copy of an entropy source takes a new key at its next use, since parent and child
    must not share noise; a seeded source goes on.

    A source cannot be pickled or copied, since copies would share noise. Use `to_bytes` and
    `from_bytes` to move it explicitly.
    """

    def __init__(self) -> None:
        self._start(secrets.token_bytes(32), seeded=False)

    @classmethod
    def seeded(cls, seed: int) -> Source:
        """Return a reproducible source, for tests and simulation only, never for real data.

        Parameters
        ----------
        seed : int
            Any integer in [0, 2**256).

        Returns
        -------
        Source
            With `is_seeded` true; guarantees of learners that use it are marked void.
        """
        if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"seed must be an int; got {type(seed).__name__}")
        if not 0 <= int(seed) < 2**256:
            raise ValueError("seed must be in [0, 2**256)")
        # The seed is hashed: a small one would be a key of mostly zeros. The texts keep keys from
        # seeds and keys from `spawn` apart.
        message = b"dpoco seeded source" + int(seed).to_bytes(32, "little")
        return cls._from_key(hashlib.sha256(message).digest(), seeded=True)

    @classmethod
    def _from_key(cls, key: bytes, *, seeded: bool) -> Source:
        """Return a source with this key."""
        source = cls.__new__(cls)
        source._start(key, seeded=seeded)
        return source

    def _start(self, key: bytes, *, seeded: bool) -> None:
        """Begin with a key, in the process that calls."""
        self._key = key
        self._is_seeded = seeded
        self._next_stream = 1  # stream 0 is the source's own
        # Two threads must not read one position of the stream: both would get its noise.
        self._lock = threading.Lock()
        self._generation = _core.fork_generation()
        self._engine = _core.Source(key, 0)
        _living.add(self)

    def _own(self) -> None:
        """Make this process the owner after a fork; called under the lock by every method."""
        # This compares counts of forks: a later process may have the same process number again.
        generation = _core.fork_generation()
        if generation == self._generation:
            return
        if self._is_seeded:
            # A seeded source protects nothing: it stays reproducible, in children as well.
            self._engine.adopt()
        else:
            # Parent and child would draw the same noise for different data.
            self._key = secrets.token_bytes(32)
            self._engine = _core.Source(self._key, 0)
        self._generation = generation

    @contextmanager
    def _drawing(self) -> Iterator[_core.Source]:
        """Yield the compiled source, to one thread at a time and owned by this process."""
        with self._lock:
            self._own()
            yield self._engine

    @property
    def is_seeded(self) -> bool:
        """Whether the source is reproducible, which voids guarantees."""
        return self._is_seeded

    def spawn(self) -> Source:
        """Return an independent source, with a key derived from this one's.

        Spawning is reproducible for seeded sources: equal sources have equal i-th children.
        """
        claim = self._claim()
        message = b"dpoco spawned source" + claim["key"] + claim["stream"].to_bytes(8, "little")
        return Source._from_key(hashlib.sha256(message).digest(), seeded=self._is_seeded)

    def _claim(self) -> _core.Claim:
        """Key and stream for a compiled engine, on a stream nothing else will ever use."""
        with self._lock:
            self._own()
            if self._next_stream > _LARGEST_STREAM:
                raise ValueError("this source has given out all its streams")
            # The lock is held, since two engines on one stream would have the same noise.
            claim: _core.Claim = {"key": self._key, "stream": self._next_stream}
            self._next_stream += 1
        return claim

    def to_bytes(self) -> bytes:
        """Return key and positions: secret, like the noise. See `from_bytes`."""
        with self._lock:
            self._own()
            seeded = self._is_seeded.to_bytes(1, "little")
            return _MAGIC + seeded + self._next_stream.to_bytes(8, "little") + self._engine.state()

    @classmethod
    def from_bytes(cls, state: bytes) -> Source:
        """Continue a source exactly where `to_bytes` left it.

        Do not use the original any more: both would draw the same noise.

        Raises
        ------
        StateError
            If `state` is not the result of `to_bytes`.
        """
        if not isinstance(state, (bytes, bytearray, memoryview)):
            raise TypeError(f"state must be bytes; got {type(state).__name__}")
        state = bytes(state)
        head = len(_MAGIC)
        next_stream = int.from_bytes(state[head + 1 : head + 9], "little")
        if state[:head] != _MAGIC or state[head : head + 1] not in (b"\0", b"\1"):
            raise StateError("not the state of a source")
        if not 1 <= next_stream <= _LARGEST_STREAM + 1:
            raise StateError("not the state of a source")
        engine_state = state[head + 9 :]
        if engine_state[32:40] != bytes(8):  # a source's own stream is 0; others serve learners
            raise StateError("not the state of a source")
        # A state that is too short still makes a source; `restore` refuses it.
        source = cls._from_key(engine_state[:32].ljust(32, b"\0"), seeded=state[head] == 1)
        source._engine.restore(engine_state)
        source._next_stream = next_stream
        return source

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Return `size` uniforms in (0, 1] with 64 random bits each, shape (size,)."""
        return self._fill("uniform", size)

    def words(self, size: int) -> NDArray[np.uint64]:
        """Return `size` uniform 64-bit words, shape (size,), dtype uint64."""
        count = positive_int("size", size, maximum=2**40)
        with self._drawing() as engine:
            return engine.words(count)

    def _fill(self, kind: str, size: int) -> NDArray[np.float64]:
        """Return so many variates of a kind."""
        out = np.empty(positive_int("size", size, maximum=2**40))
        self._fill_into(kind, out)
        return out

    def _fill_into(self, kind: str, out: NDArray[np.float64]) -> None:
        """Fill an array with variates of a kind."""
        with self._drawing() as engine:
            engine.fill(_VARIATES[kind], out)

    def _draw(self, kind: str) -> float:
        """Return what `_fill_into` would write to one place."""
        with self._lock:
            self._own()
            return self._engine.draw(_VARIATES[kind])

    def __reduce__(self) -> NoReturn:
        raise TypeError("a source cannot be copied or pickled: copies would share noise")

    def __repr__(self) -> str:
        kind = "seeded, voids guarantees" if self._is_seeded else "operating-system entropy"
        return f"<dpoco.random.Source: {kind}>"


def checked_source(source: Any) -> Source:
    """Return the value if it is a source, or raise `TypeError`."""
    return instance("source", source, Source, "a dpoco.random.Source")
