"""Cryptographic randomness: ChaCha20 in counter mode, one key per source.

`Source()` takes its 256-bit key from the operating system. `Source.seeded(n)` is reproducible, for
tests and simulation. It voids every guarantee, as the guarantees then state.

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
# The 64-bit nonce is 16 stream + kind.
_LARGEST_STREAM = 2**60 - 1
# The numbers are part of the nonce, so changing them would change the noise of a seed.
_VARIATES = {"uniform": 1, "gaussian": 2, "exponential": 3, "laplace": 4, "gumbel": 5}


def instruction_set() -> str:
    """Return the instruction set of the compiled loops: "baseline", "avx2" or "avx512"."""
    return _core.instruction_set()


def select_instruction_set(name: str) -> str:
    """Choose the instruction set of the whole process; all give the same bits.

    Parameters
    ----------
    name : {"auto", "baseline", "avx2", "avx512"}
        "auto" is the best one on this machine.

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


# Weak references, so that a source and its key can be freed.
_living: weakref.WeakSet[Source] = weakref.WeakSet()


def _renew_locks() -> None:
    """Make new locks in a forked child, because a thread that does not exist there may hold one."""
    for source in _living:
        source._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Source:
    """A stream of cryptographic random variates.

    Each kind of variate (uniform, Gaussian, ...) has a separate sub-stream. So the i-th Gaussian of
    a source does not depend on other draws, and you may split draws as you like.

    A learner or mechanism takes a separate stream of its source, so one source may serve many of
    them.

    Notes
    -----
    ChaCha20 (original layout: 64-bit counter, 64-bit nonce); nonce = 16 * stream + kind. Additional
    digits of a variate have a separate nonce and position, and do not advance the stream. After a
    fork, the child's copy of an entropy source takes a new key at its next use, because parent and
    child must not share noise; a seeded source continues.

    A source cannot be pickled or copied, because copies would share noise. Use `to_bytes` and
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
            With `is_seeded` True. Guarantees of learners that use it are marked void.
        """
        if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"seed must be an int; got {type(seed).__name__}")
        if not 0 <= int(seed) < 2**256:
            raise ValueError("seed must be in [0, 2**256)")
        # The seed is hashed, because a small one would be a key of mostly zeros. The texts separate
        # keys from seeds and keys from `spawn`.
        message = b"dpoco seeded source" + int(seed).to_bytes(32, "little")
        return cls._from_key(hashlib.sha256(message).digest(), seeded=True)

    @classmethod
    def _from_key(cls, key: bytes, *, seeded: bool) -> Source:
        """Return a source with this key."""
        source = cls.__new__(cls)
        source._start(key, seeded=seeded)
        return source

    def _start(self, key: bytes, *, seeded: bool) -> None:
        """Begin with a key, in the calling process."""
        self._key = key
        self._is_seeded = seeded
        self._next_stream = 1  # stream 0 belongs to the source itself
        # Two threads must not read one position of the stream, because both would get its noise.
        self._lock = threading.Lock()
        self._generation = _core.fork_generation()
        self._engine = _core.Source(key, 0)
        _living.add(self)

    def _own(self) -> None:
        """Make this process the owner after a fork; every method calls this under the lock."""
        # Compares counts of forks, because a later process may have the same process number.
        generation = _core.fork_generation()
        if generation == self._generation:
            return
        if self._is_seeded:
            # A seeded source protects nothing, and remains reproducible even in children.
            self._engine.adopt()
        else:
            # Otherwise parent and child would draw the same noise for different data.
            self._key = secrets.token_bytes(32)
            self._engine = _core.Source(self._key, 0)
        self._generation = generation

    @contextmanager
    def _drawing(self) -> Iterator[_core.Source]:
        """Yield the compiled source, for one thread at a time and owned by this process."""
        with self._lock:
            self._own()
            yield self._engine

    @property
    def is_seeded(self) -> bool:
        """Whether the source is reproducible, which voids guarantees."""
        return self._is_seeded

    def spawn(self) -> Source:
        """Return an independent source, with a key derived from this source's key.

        Spawning is reproducible for seeded sources: equal sources have equal i-th children.
        """
        claim = self._claim()
        message = b"dpoco spawned source" + claim["key"] + claim["stream"].to_bytes(8, "little")
        return Source._from_key(hashlib.sha256(message).digest(), seeded=self._is_seeded)

    def _claim(self) -> _core.Claim:
        """Key and stream for a compiled engine, on a stream that nothing else will ever use."""
        with self._lock:
            self._own()
            if self._next_stream > _LARGEST_STREAM:
                raise ValueError("this source has given out all its streams")
            # Under the lock, because two engines on one stream would have the same noise.
            claim: _core.Claim = {"key": self._key, "stream": self._next_stream}
            self._next_stream += 1
        return claim

    def to_bytes(self) -> bytes:
        """Return key and positions, which are as secret as the noise. See `from_bytes`."""
        with self._lock:
            self._own()
            seeded = self._is_seeded.to_bytes(1, "little")
            return _MAGIC + seeded + self._next_stream.to_bytes(8, "little") + self._engine.state()

    @classmethod
    def from_bytes(cls, state: bytes) -> Source:
        """Continue a source exactly where `to_bytes` left it.

        Do not use the original any more, because both would draw the same noise.

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
        if engine_state[32:40] != bytes(8):  # a source's own stream is 0; others are for learners
            raise StateError("not the state of a source")
        # A state that is too short still makes a source, but `restore` refuses it.
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
        """Return `size` variates of a kind."""
        out = np.empty(positive_int("size", size, maximum=2**40))
        self._fill_into(kind, out)
        return out

    def _fill_into(self, kind: str, out: NDArray[np.float64]) -> None:
        """Fill an array with variates of a kind."""
        with self._drawing() as engine:
            engine.fill(_VARIATES[kind], out)

    def _draw(self, kind: str) -> float:
        """Return the value that `_fill_into` would write to an array of one entry."""
        with self._lock:
            self._own()
            return self._engine.draw(_VARIATES[kind])

    def __reduce__(self) -> NoReturn:
        raise TypeError("a source cannot be copied or pickled: copies would share noise")

    def __repr__(self) -> str:
        kind = "seeded, voids guarantees" if self._is_seeded else "operating-system entropy"
        return f"<dpoco.random.Source: {kind}>"


def checked_source(source: Any) -> Source:
    """Return the value if it is a source; otherwise raise `TypeError`."""
    return instance("source", source, Source, "a dpoco.random.Source")
