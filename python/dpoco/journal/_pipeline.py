"""Playing ahead of the disk: batches are played while those before them are being committed.

Claim: nothing is handed out before the commit that makes it durable has returned, and a commit that
fails takes the learner in memory, and all that was played after it, with it.

Proof: ``docs/privacy/journal.md``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dpoco._validation import positive_int
from dpoco.journal._transaction import Transaction, round_number

if TYPE_CHECKING:
    from dpoco.journal._stream import Stream

__all__ = ["pipelined"]


def pipelined(
    stream: Stream, batches: Iterable[tuple[Any, ...]], first_round: int | None, together: int
) -> Iterator[NDArray[Any]]:
    """Yield the releases of each batch once they are committed; see `Stream.process_many`."""
    together = positive_int("together", together)
    first = None if first_round is None else round_number("first_round", first_round)
    return _Line(stream, first, together).run(batches)


class _Line:
    """A pipeline: one transaction that is being played, and one that is being written."""

    def __init__(self, stream: Stream, first: int | None, together: int) -> None:
        self._stream = stream
        self._journal = stream._journal
        self._first = first
        self._together = together
        self._played = Transaction(self._journal, self)
        self._written: Transaction | None = None
        self._result: Future[None] | None = None

    def run(self, batches: Iterable[tuple[Any, ...]]) -> Iterator[NDArray[Any]]:
        journal = self._journal
        pool = ThreadPoolExecutor(1, "dpoco-journal")
        whole = False
        try:
            with journal.transaction():
                self._stream._ready()  # as the one writer, or nothing is drawn
                journal._line = self
            for batch in batches:
                self._play(batch if isinstance(batch, tuple) else (batch,))
                if len(self._played._works) >= self._together:
                    yield from self._next(pool)
            while self._written is not None or self._played._works:
                yield from self._next(pool)
            whole = True
        finally:
            self._end(pool, whole)

    def _end(self, pool: ThreadPoolExecutor, whole: bool) -> None:
        """Leave the journal to others; `whole`: everything that was played is committed."""
        journal = self._journal
        try:
            if not whole and journal._line is self:
                self._stream._drop()  # it is ahead of what is committed, or may be
        finally:
            if journal._line is self:
                journal._line = None  # from here on nothing of this pipeline begins to be written
            mine = os.getpid() == journal._owner  # a forked child has no thread to wait for
            pool.shutdown(wait=mine, cancel_futures=True)

    def _play(self, batch: tuple[Any, ...]) -> None:
        stream, played = self._stream, self._played
        self._journal._check_process()
        if self._first is not None and self._first < stream._round:
            # Rounds that were over before the pipeline began, in part at least.
            with Transaction(self._journal, self) as replay:
                work = replay.process(stream, *batch, first_round=self._first)
            played._works.append(work)
        else:
            played._open = True
            work = played.process(stream, *batch, first_round=self._first)
        if self._first is not None:
            self._first += work.offered

    def _next(self, pool: ThreadPoolExecutor) -> Iterator[NDArray[Any]]:
        """Wait for what is being written, begin to write what was played, and yield the former."""
        if self._result is not None:
            self._result.result()
        over, self._written = self._written, None
        if self._played._works:
            self._written, self._played = self._played, Transaction(self._journal, self)
            self._written._seal()
            self._result = pool.submit(self._written._write_apart)
        for work in over._works if over is not None else ():
            yield work.decisions
