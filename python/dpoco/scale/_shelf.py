"""Where a pool keeps its learners: in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.errors import RoundOrderError
from dpoco.journal._families import Family, Parts
from dpoco.scale._keyed_runs import play_keyed
from dpoco.scale._keys import Key, Rows
from dpoco.scale._siblings import sibling

__all__ = ["MemoryShelf"]


class MemoryShelf:
    """Learners by number; what is played is gone with the process unless it is saved."""

    def __init__(self, prototype: Any, family: Family) -> None:
        self._prototype, self._family = prototype, family
        self._learners: list[Any] = []
        self._engines: list[Any] = []
        self._shown: set[int] = set()  # learners that others may have played, too

    def add(self, keys: list[Key]) -> None:
        """Make a learner for each key."""
        self.put([sibling(self._prototype) for _ in keys])

    def put(self, learners: list[Any]) -> None:
        """Add learners; all or none."""
        self._engines += [learner._engine for learner in learners]
        self._learners += learners

    def show(self, slot: int) -> Any:
        """Return a learner for others to use."""
        self._shown.add(slot)
        return self._learners[slot]

    def learners(self) -> list[Any]:
        """Return all learners."""
        return self._learners

    def play(
        self, rows: Rows, parts: Parts, workers: int, batch: int | None, after: Any
    ) -> NDArray[Any]:
        """Play a batch, all or nothing; `after` is called once the fresh keys are there."""
        if batch is not None:
            raise ValueError("batch numbers need a journal: without one nothing can be repeated")
        fresh = [sibling(self._prototype) for _ in rows.fresh]
        if self._shown:
            for slot, count in zip(rows.slots.tolist(), rows.counts.tolist(), strict=True):
                if slot in self._shown:
                    self._check(self._learners[slot], count)
        # Numbers of fresh keys follow those of the others.
        engines = self._engines if not fresh else [*self._engines, *(x._engine for x in fresh)]
        chosen = [engines[slot] for slot in rows.slots.tolist()]
        decisions = play_keyed(
            self._family, self._prototype, chosen, rows.offsets, rows.rows, parts, workers
        )
        self.put(fresh)
        after()
        decisions.flags.writeable = False
        return decisions

    @staticmethod
    def _check(learner: Any, rounds: int) -> None:
        learner._check_alone()
        learner._check_rounds(rounds)
        if learner.outstanding:
            raise RoundOrderError("a learner of the pool has tickets that wait for feedback")

    def state_parts(self) -> list[bytes]:
        """Return the states of all compiled learners."""
        if any(learner._book is not None for learner in self._learners):
            raise RoundOrderError("a pool whose learners have issued tickets cannot be saved")
        for learner in self._learners:
            learner._check_active()
            learner._engine.check_process()
        return [learner._engine.state() for learner in self._learners]

    def rounds(self) -> NDArray[np.int64]:
        """Return the rounds of all learners."""
        return np.array([engine.round for engine in self._engines], dtype=np.int64)
