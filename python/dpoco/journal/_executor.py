"""Many callers, one commit: calls of streams that wait at the same time are durable together."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

from numpy.typing import ArrayLike

from dpoco._validation import positive_int, real_in
from dpoco.errors import HorizonExceeded, ReplayMismatch, RoundOrderError
from dpoco.journal._journal import Journal
from dpoco.journal._stream import Stream
from dpoco.journal._transaction import Transaction, Work
from dpoco.learning.participation import Persons
from dpoco.learning.tickets import ForeignTicket

P = ParamSpec("P")
T = TypeVar("T")

_CALLS = ("decide", "observe", "skip", "expire", "process", "release", "releases")
# Errors that a stream raises about its caller's arguments, while the store is in order.
_REFUSALS = (
    ForeignTicket, HorizonExceeded, ReplayMismatch, RoundOrderError, TypeError, ValueError,
)  # fmt: skip


class GroupCommitExecutor(Executor):
    """Calls of a journal's streams from any thread or event loop, many in one commit.

    A commit takes as long as the disk's flush, however many calls it holds. Calls that arrive
    during a commit wait, and share the next one; a call that arrives alone is committed at once.

    Parameters
    ----------
    journal : Journal
        Stays open until after `shutdown`. It may be used next to the executor: such a call waits
        for the commit that is under way.
    waiting : int, default 1024
        Calls that may wait; one more is refused. Keyword-only, as below.
    together : int, default 256
        Most calls in a commit. A call waits for at most ``waiting / together`` commits, the one
        under way and its own.
    linger : float, default 0.0
        Seconds that a call waits for others to share its commit, at most 1e6. Fewer commits take
        less of the processor, which matters where many tickets are outstanding: each commit
        rewrites them.

    Notes
    -----
    The guarantees of `Journal` hold for every call: nobody sees its result before the commit that
    holds it is durable. Calls are played in the order in which they were submitted.

    An error in a call reaches only its caller. If the call may have moved a learner, the executor
    gives up the commit and plays the earlier calls again from the stored state, which gives the
    same releases. An error of the commit as a whole, such as a full disk or another writer,
    reaches all calls of the commit: nothing of them was released.

    A caller that cancels a future before its call is played takes the call back. Later,
    ``cancel()`` returns False and the call counts, as if its caller had crashed. In a forked
    child, `submit` raises `JournalFenced`. A daemon thread plays the calls: if the interpreter
    exits without `shutdown`, waiting calls are lost as in a crash. Proof:
    ``docs/privacy/journal.md``, "Group commit". Time: that of the call, some 20 microseconds, and
    the commit.

    Examples
    --------
    >>> import asyncio, dpoco, os, tempfile
    >>> def make():
    ...     return dpoco.experts.EpochSelector(2, horizon=1000, budget=dpoco.Budget(4.0, 1e-6))
    >>> async def visit(commits, stream):
    ...     decided = commits.submit(stream.decide, ticket=True)
    ...     expert, ticket = await asyncio.wrap_future(decided)
    ...     observed = commits.submit(stream.observe, [0.0, 1.0], ticket=ticket)
    ...     await asyncio.wrap_future(observed)
    >>> async def visits(commits, stream):
    ...     await asyncio.gather(*[visit(commits, stream) for _ in range(50)])
    >>> with dpoco.journal.Journal(os.path.join(tempfile.mkdtemp(), "a.db")) as journal:
    ...     stream = journal.open("offers", make)
    ...     with dpoco.journal.GroupCommitExecutor(journal) as commits:
    ...         asyncio.run(visits(commits, stream))
    ...     stream.round
    50
    """

    def __init__(
        self, journal: Journal, *, waiting: int = 1024, together: int = 256, linger: float = 0.0
    ) -> None:
        if not isinstance(journal, Journal):
            raise TypeError(f"journal must be a Journal; got {type(journal).__name__}")
        self._journal = journal
        self._most = positive_int("waiting", waiting)
        self._together = positive_int("together", together)
        # The system cannot count a longer wait: it would end the thread and leave all calls
        # unanswered.
        self._linger = real_in("linger", linger, "[0, 1e6]")
        self._waiting: deque[_Call] = deque()
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="dpoco-commits", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Ask for a call of a stream; its future has the answer once that is durable.

        Parameters
        ----------
        fn : method of a stream of the journal
            `Stream.decide`, `observe`, `skip`, `expire`, `process`, `release` or `releases`.
        *args, **kwargs
            Its arguments; arrays must not change until the call is played.

        Returns
        -------
        concurrent.futures.Future
            For an event loop: ``await asyncio.wrap_future(future)``.

        Raises
        ------
        queue.Full
            If `waiting` calls wait already; nothing happened: try again later, or turn the
            user away.
        RuntimeError
            After `shutdown`.
        JournalFenced
            In a process that inherited the executor through fork.
        TypeError, ValueError
            If `fn` is no such method, or belongs to a stream of another journal.
        """
        stream = getattr(fn, "__self__", None)
        if not isinstance(stream, Stream) or fn.__name__ not in _CALLS:
            raise TypeError(f"an executor of commits calls a stream's {', '.join(_CALLS)} only")
        if stream._journal is not self._journal:
            raise ValueError("the stream belongs to another journal")
        self._journal._check_process()  # a thread of the parent may have held the lock
        future: Future[T] = Future()
        with self._changed:
            if self._over:
                raise RuntimeError("the executor was shut down")
            if len(self._waiting) >= self._most:
                raise queue.Full(f"{self._most} calls wait for a commit already")
            self._waiting.append(_Call(future, fn, args, kwargs))
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; play and commit the waiting calls, or cancel them.

        Parameters
        ----------
        wait : bool, default True
            Return only when all calls are answered.
        cancel_futures : bool, default False
            Cancel the calls that are not being played yet. Keyword-only.
        """
        if os.getpid() != self._journal._owner:
            return
        with self._changed:
            self._over = True
            for call in self._waiting if cancel_futures else ():
                call.future.cancel()
            self._changed.notify()
        if wait:
            self._thread.join()

    # -- in the executor's thread -----------------------------------------------------------------

    def _serve(self) -> None:
        """Commit waiting calls, until `shutdown`."""
        while calls := self._next():
            groups = [[call for call in calls if call.future.set_running_or_notify_cancel()]]
            while groups:
                group = groups.pop()
                failed = self._commit(group) if group else None
                if failed is not None:  # no caller has a result of this group
                    # Play the last group first, so that calls stay in order around the one that
                    # failed.
                    groups += [group[failed + 1 :], group[:failed]]

    def _next(self) -> list[_Call]:
        """Wait for calls, and return those of the next commit; return none after `shutdown`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._over)
            # The first call has arrived. It waits for others, but not longer than `linger`.
            if self._linger > 0.0:
                full = lambda: self._over or len(self._waiting) >= self._together  # noqa: E731
                self._changed.wait_for(full, self._linger)
            size = min(len(self._waiting), self._together)
            return [self._waiting.popleft() for _ in range(size)]

    def _commit(self, calls: list[_Call]) -> int | None:
        """Play calls in one transaction, and answer them.

        If one call fails, give the commit up, answer that call, and return its index.
        """
        at = -1
        try:
            with _Shared(self._journal) as shared:
                for at, call in enumerate(calls):  # noqa: B007
                    call.play(shared)
                at = -1  # no call fails from here on, only the commit
        except BaseException as error:
            if at >= 0:
                calls[at].answer()
                return at
            for call in calls:
                call.error = error
        for call in calls:
            call.answer()
        return None


class _Call:
    """A waiting call and its result."""

    def __init__(
        self, future: Future[Any], method: Callable[..., Any], args: Any, kwargs: Any
    ) -> None:
        self.future, self._method, self._args, self._kwargs = future, method, args, kwargs
        self.error: BaseException | None = None
        self._result: Any = None

    def play(self, shared: _Shared) -> None:
        """Call; raise an error that may leave the transaction in disorder, and keep others."""
        moves = shared.moves
        try:
            self._result = self._method(*self._args, **self._kwargs)
        except BaseException as error:
            self.error = error
            # A refusal before any stream was touched leaves engines, books and rows as they were
            # (docs/privacy/journal.md, "Group commit").
            if shared.moves != moves or not isinstance(error, _REFUSALS):
                raise

    def answer(self) -> None:
        """Give the result to the caller, once it is durable."""
        if self.error is None:
            self.future.set_result(self._result)
        else:
            self.future.set_exception(self.error)


class _Shared(Transaction):
    """A transaction that several stream methods share as if each had its own."""

    moves = 0

    def process(
        self,
        stream: Stream,
        *batch: ArrayLike,
        first_round: int | None = None,
        person: Persons = None,
    ) -> Work:
        """Play rounds; the executor reads their releases before the commit, and keeps them."""
        work = super().process(stream, *batch, first_round=first_round, person=person)
        work._committed = True  # tells the executor, which keeps the releases until the commit
        return work

    def _touch(self, stream: Stream) -> None:
        """Count the calls' accesses to streams: `_Call.play` asks whether its call had one."""
        # Count before the engine moves: `play` must see the access even if the call fails right
        # after.
        self.moves += 1
        super()._touch(stream)

    def __enter__(self) -> _Shared:
        super().__enter__()
        self._journal._shared = (threading.get_ident(), self)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._journal._shared = None
        super().__exit__(*exception)
