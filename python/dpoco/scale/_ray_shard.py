"""One shard of a cluster's pool: what runs inside of a Ray actor.

It opens its journal when it is first asked, again after each restart, and keeps nothing else that
matters: whatever it is asked twice it answers once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import HorizonExceeded
from dpoco.scale._keys import Key

__all__ = ["Shard"]


class Shard:
    """A `KeyedPool` with a journal of its own.

    Parameters
    ----------
    header : str
        What the learners are made of: `_siblings.header_of`.
    directory : str
        Of the journal.
    terms : dict
        Terms of the whole pool.
    workers : int
        Threads.
    """

    def __init__(self, header: str, directory: str, terms: dict[str, Any], workers: int) -> None:
        self._header, self._directory = header, directory
        self._terms, self._workers = terms, workers
        self._pool: Any = None

    def _opened(self) -> Any:
        if self._pool is None:
            from dpoco.journal import Journal
            from dpoco.scale._pool import KeyedPool
            from dpoco.scale._siblings import described

            Path(self._directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            journal = Journal(Path(self._directory) / "releases.db")
            try:
                self._pool = KeyedPool(
                    described(self._header), journal=journal, workers=self._workers, **self._terms
                )
            except BaseException:
                journal.close()
                raise
        return self._pool

    def state(self) -> tuple[int, list[Key]]:
        """Return the number of the last batch and the keys."""
        pool = self._opened()
        return pool.last_batch, pool.keys()

    def check(self, batch: int, keys: list[Key], counts: list[int]) -> None:
        """Raise `HorizonExceeded` if a batch does not fit; one that was played does."""
        pool = self._opened()
        if batch <= pool.last_batch:
            return
        horizon = pool._prototype.horizon
        if any(pool.round(key) + n > horizon for key, n in zip(keys, counts, strict=True)):
            raise HorizonExceeded(
                "fewer rounds are left to a learner than records have come for it"
            )

    def process(
        self, batch: int, keys: list[Key], codes: NDArray[np.int32], arrays: tuple[Any, ...]
    ) -> NDArray[Any]:
        """Play a batch whose records have the keys ``keys[codes]``, or repeat it."""
        names = [keys[code] for code in codes.tolist()]
        decisions: NDArray[Any] = self._opened().process(names, *arrays, batch=batch)
        return decisions

    def decide(self, key: Key, context: tuple[Any, ...]) -> Any:
        """Return the decision of a key."""
        return self._opened().decide(key, *context)

    def round(self, key: Key) -> int:
        """Return the rounds of a key."""
        return int(self._opened().round(key))

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the pool."""
        guarantee: Guarantee = self._opened().guarantee
        return guarantee

    def process_id(self) -> int:
        """Return the number of this process."""
        return os.getpid()

    def close(self) -> None:
        """Let go of the journal."""
        if self._pool is not None:
            self._pool._journal.close()
            self._pool = None
