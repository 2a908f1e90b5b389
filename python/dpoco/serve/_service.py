"""The service without HTTP: decisions with tickets, late rewards, turns, deletion.

Every ticket has its turn, a fixed time after its decision. Its round is then played in the order of
the decisions, with the reward that has come, or as an empty one. So neither the number of rounds
nor their order tells whether, or how soon, a user answered.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
import queue
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import GroupCommitExecutor, Journal, SqliteStore, Stream
from dpoco.serve._config import Settings, folder_and_key
from dpoco.serve._rows import Rows, open_rows

T = TypeVar("T")

_STREAM = "decisions"
_LINGER = 0.006  # seconds: each commit rewrites the outstanding tickets, so fewer take less time
_MOMENT = 0.001  # seconds: rows that are written together
_STEP, _PAUSE = 0.02, 1.0  # seconds between looks for tickets that are due; after a failure
_QUIET = 10.0  # seconds without a failure, until the service is ready again
_TOGETHER = 256  # turns at once


class Refused(Exception):  # noqa: N818
    """The service does not do what it was asked for, and nothing has changed.

    `kind` is one of "busy", "conflict", "ended", "late", "limit" and "rate".
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass
class Entry:
    """A ticket that waits for its turn."""

    number: int
    name: str  # random: a client that has it may bring the reward
    user: str
    turn: float  # seconds since 1970
    arm: int
    ticket: str  # the learner's, hexadecimal
    request: str | None
    context: str  # a digest
    reward: float | None = None


class Service:
    """A bandit's stream and the tickets that wait; all methods run in one event loop.

    Parameters
    ----------
    journal : Journal
        Stays open until after `close`.
    rows : Rows
        Where tickets wait.
    settings : Settings
        The limits, the learner, and the time to a ticket's turn.
    """

    def __init__(self, journal: Journal, rows: Rows, settings: Settings) -> None:
        self.settings = settings
        # Limits must not follow a clock that may be set. Turns are kept over restarts, and so they
        # need the time of day.
        self.clock = time.monotonic
        self.failures = 0
        self._failed = -math.inf
        self.fenced: dpoco.JournalFenced | None = None
        self.stop: Callable[[], None] = lambda: None  # called when another process took over
        self._rows, self._journal = rows, journal
        is_new = _STREAM not in journal.streams()
        self._stream: Stream = journal.open(_STREAM, settings.bandit.learner)
        if is_new:  # tickets add a condition to the guarantee: readers must see it
            context = [0.0] * settings.bandit.dimension
            self._stream.expire(self._stream.decide(context, ticket=True)[1])
        rows.take_over()
        self._entries: dict[int, Entry] = {}
        self._names: dict[str, Entry] = {}
        self._answered: dict[tuple[str, str], Entry] = {}
        self._asking: dict[tuple[str, str], tuple[str, asyncio.Task[Entry]]] = {}
        self._drawing: set[asyncio.Task[Entry]] = set()
        self._held: Counter[str] = Counter()  # tickets of a user, also those being drawn
        self._second, self._asked = 0, Counter[str]()  # requests of users in this second
        self._unwritten: dict[int, Entry] = {}
        self._written: asyncio.Future[None] | None = None
        for _, record in rows.all("ticket"):
            self._enter(Entry(**record))
            self._held[record["user"]] += 1
        # A crash kept these tickets from being handed out; this reason is public.
        self._lost = set(self._stream.outstanding) - self._entries.keys()
        self._ending = asyncio.Lock()  # a ticket ends once: at its turn, or by deletion
        self._commits = GroupCommitExecutor(journal, linger=_LINGER)

    # -- what users ask for -----------------------------------------------------------------------

    def count_request(self, user: str) -> None:
        """Raise `Refused` if a user has made too many requests in this second."""
        second = int(self.clock())
        if second != self._second:
            self._second, self._asked = second, Counter()
        self._asked[user] += 1
        if self._asked[user] > self.settings.limits.user_requests_per_second:
            raise Refused("rate", "too many requests of this user in this second")

    async def decide(
        self, user: str, context: Sequence[float], request: str | None = None
    ) -> Entry:
        """Return a decision and its ticket, once they are on disk.

        The same `request` of a user gets the same ticket until its turn, however often it comes:
        a client that was cut off asks again. Otherwise the round ends empty.

        Raises
        ------
        Refused
            If a limit is reached, or the request came with another context. Nothing was drawn.
        """
        digest = hashlib.sha256(np.array(context, "<f8").tobytes()).hexdigest()
        name = None if request is None else (user, request)
        if name is not None:
            known = self._answered.get(name)
            before, drawing = self._asking.get(name, (known and known.context, None))
            if before not in (None, digest):
                raise Refused("conflict", "request: it came with another context before")
            if known is not None:
                return known
            if drawing is not None:
                return await asyncio.shield(drawing)
        self._check_limits(user)
        # The ticket counts before the draw, so that simultaneous requests cannot pass the limit.
        self._held[user] += 1
        task = asyncio.ensure_future(self._draw(user, context, request, digest))
        self._drawing.add(task)
        if name is not None:
            self._asking[name] = digest, task

        def over(_: asyncio.Task[Entry]) -> None:
            self._drawing.discard(task)
            if name is not None:
                del self._asking[name]
            if task.cancelled() or task.exception() is not None:
                self._release(user)

        task.add_done_callback(over)
        return await asyncio.shield(task)  # a client that goes away does not stop it halfway

    async def reward(self, name: str, value: float, user: str | None = None) -> None:
        """Keep the reward of a ticket until its turn; the same reward may come again.

        `user`: whose ticket it must be; None: anybody's.

        Raises
        ------
        Refused
            If the ticket's turn is over, it is none or another user's, or has another reward.
        """
        entry = self._names.get(name)
        # One answer for all three: it does not tell whether another user's ticket exists.
        if entry is None or entry.turn <= time.time() or user not in (None, entry.user):
            raise Refused("late", "ticket: its turn is over, or there is none")
        if entry.reward not in (None, value):
            raise Refused("conflict", "reward: the ticket has another one")
        # The reward is set before the write, so that another one that comes meanwhile conflicts.
        known, entry.reward = entry.reward, value
        try:
            await self._store(entry)
        except BaseException:
            entry.reward = known
            raise

    async def delete(self, user: str) -> int:
        """Forget what waits for a user, and return how many rounds end empty for it."""
        # A ticket that is being drawn is in no list yet, and would stay behind.
        await asyncio.gather(*self._drawing, return_exceptions=True)
        async with self._ending:
            entries = [each for each in self._entries.values() if each.user == user]
            for each in entries:  # due at once: if the disk fails now, the turns end them
                each.turn, each.reward = 0.0, None
            await self._store(*entries)
            await self._end(entries, trace=False)
        return len(entries)

    async def numbers(self) -> dict[str, float | None]:
        """Return numbers that visits and turns alone fix; the number of rewards is private."""
        stream, journal = self._stream, self._journal
        rounds, spent = await asyncio.to_thread(lambda: (stream.round, journal.spent))
        return {
            "rounds": rounds, "waiting": len(self._entries), "spent": spent,
            "horizon": self.settings.bandit.horizon, "epsilon": stream.guarantee.epsilon,
            "delta": stream.guarantee.delta,
        }  # fmt: skip

    @property
    def guarantee(self) -> dpoco.Guarantee:
        """The guarantee of the service."""
        return self._stream.guarantee

    def report(self, error: BaseException) -> None:
        """Say on standard error what fails; only messages that cannot hold data are shown."""
        # A full disk fails many times a second.
        if not self.is_failing:
            shown = isinstance(error, (OSError, dpoco.DpocoError))
            text = f"{type(error).__name__}: {error}" if shown else type(error).__name__
            print(text, file=sys.stderr, flush=True)
        self._failed = self.clock()
        self.failures += 1

    @property
    def is_failing(self) -> bool:
        """Whether something other than a request has failed a moment ago."""
        return self.clock() < self._failed + _QUIET

    # -- turns ------------------------------------------------------------------------------------

    async def take_turns(self) -> None:
        """End rounds at their turn, until it is cancelled or another process takes over."""
        while True:
            pause = _STEP
            async with self._ending:
                try:
                    await self._expire_lost()
                    await self._end(self._due())
                except dpoco.JournalFenced as error:
                    self._end_service(error)
                    return
                except (OSError, dpoco.StateError, queue.Full) as error:
                    self.report(error)
                    pause = _PAUSE
            await asyncio.sleep(pause)

    async def close(self, turns: asyncio.Task[None]) -> None:
        """Finish what was begun, and end the turns."""
        await asyncio.gather(*self._drawing, return_exceptions=True)
        # The lock keeps this from stopping between a round and the deletion of its row.
        async with self._ending:
            turns.cancel()
        await asyncio.gather(turns, return_exceptions=True)

    def shut(self) -> None:
        """Wait for the commits; no event loop is needed."""
        self._commits.shutdown()

    # -- inside -----------------------------------------------------------------------------------

    def _check_limits(self, user: str) -> None:
        """Raise `Refused` if a user, or all users together, have too many tickets that wait."""
        limits = self.settings.limits
        if self._held[user] >= limits.user_tickets:
            raise Refused("limit", "too many tickets of this user wait for their turn")
        if len(self._entries) + len(self._drawing) >= limits.tickets:
            raise Refused("busy", "too many tickets wait for their turn")

    async def _call(self, method: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Return what a method of the stream returns, once it is on the disk."""
        try:
            return await asyncio.wrap_future(self._commits.submit(method, *arguments, **named))
        except dpoco.JournalFenced as error:
            self._end_service(error)
            raise

    def _end_service(self, error: dpoco.JournalFenced) -> None:
        """Stop, and keep why: another process has the journal, and answers from now on."""
        self.fenced = error
        self.stop()

    async def _draw(
        self, user: str, context: Sequence[float], request: str | None, digest: str
    ) -> Entry:
        """Draw a decision, keep its ticket, and return both; once begun, it is brought to an end.

        If the ticket cannot be kept, the round ends empty at the next turn: no client has it.
        """
        try:
            arm, ticket = await self._call(self._stream.decide, context, ticket=True)
        except queue.Full:
            raise Refused("busy", "too many requests wait for the disk") from None
        except dpoco.HorizonExceeded:
            raise Refused("ended", "the service has made all its decisions") from None
        entry = Entry(
            ticket.number, secrets.token_urlsafe(18), user,
            time.time() + self.settings.bandit.feedback_seconds, int(arm),
            ticket.to_bytes().hex(), request, digest,
        )  # fmt: skip
        try:
            await self._store(entry)
        except BaseException:  # no client will get this ticket
            self._lost.add(ticket.number)
            raise
        self._enter(entry)
        return entry

    async def _store(self, *entries: Entry) -> None:
        """Write entries as they are, in one transaction with others of this moment."""
        if self._written is None:
            self._written = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(_MOMENT, self._write, self._written)
        self._unwritten |= {each.number: each for each in entries}
        # Other requests wait for the same write, which must not end with one client's request.
        await asyncio.shield(self._written)

    def _write(self, written: asyncio.Future[None]) -> None:
        """Write all entries of this moment, and wake those that wait for them."""
        rows = [(number, vars(entry)) for number, entry in self._unwritten.items()]
        self._unwritten, self._written = {}, None
        try:
            self._rows.put("ticket", rows)
        except BaseException as error:
            written.set_exception(error)
            if isinstance(error, dpoco.JournalFenced):
                self._end_service(error)
        else:
            written.set_result(None)

    def _enter(self, entry: Entry) -> None:
        """Let a ticket wait for its turn; its row is on the disk."""
        self._entries[entry.number] = self._names[entry.name] = entry
        if entry.request is not None:
            self._answered[entry.user, entry.request] = entry

    def _leave(self, entry: Entry) -> None:
        """Forget a ticket whose round is over and whose row is gone."""
        del self._entries[entry.number], self._names[entry.name]
        self._unwritten.pop(entry.number, None)
        if entry.request is not None:
            del self._answered[entry.user, entry.request]
        self._release(entry.user)

    def _release(self, user: str) -> None:
        """Count one ticket less; drop a user without tickets, so that memory is bounded."""
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]

    def _due(self) -> list[Entry]:
        """Return the tickets whose turn has come, in the order of their decisions."""
        now = time.time()
        latest = now + self.settings.bandit.feedback_seconds
        # Tickets of a clock that was wrong, and has been set back, would keep all others waiting.
        first = next(iter(self._entries.values()), None)
        if first is not None and first.turn > latest:
            for each in self._entries.values():
                each.turn = min(each.turn, latest)
        return list(itertools.takewhile(lambda e: e.turn <= now, self._entries.values()))

    async def _end(self, entries: list[Entry], *, trace: bool = True) -> None:
        """Play the rounds of tickets in this order; sent again after a crash, they count once."""
        for start in range(0, len(entries), _TOGETHER):
            part = entries[start : start + _TOGETHER]
            calls = [self._play(each) for each in part]
            await asyncio.to_thread(wait, calls)  # one waker for all
            errors = [call.exception() for call in calls]
            # On a mismatch the round was played, and a power cut took the reward from the row.
            ended = (type(None), dpoco.ReplayMismatch)
            over = [each for each, e in zip(part, errors, strict=True) if isinstance(e, ended)]
            # Rows go after their rounds are on the disk: a crash in between plays them again, and
            # the journal counts them once.
            if over:
                self._rows.drop("ticket", [each.number for each in over], trace=trace)
            for each in over:
                self._leave(each)
            for error in errors:
                if error is not None and not isinstance(error, ended):
                    raise error  # the disk is full, say: these tickets stay

    def _play(self, entry: Entry) -> Future[None]:
        """Begin to end the round of a ticket, with its reward or empty."""
        ticket = dpoco.Ticket.from_bytes(bytes.fromhex(entry.ticket))
        if entry.reward is None:
            return self._commits.submit(self._stream.skip, ticket=ticket, person=entry.user)
        observe = self._stream.observe
        return self._commits.submit(observe, entry.reward, ticket=ticket, person=entry.user)

    async def _expire_lost(self) -> None:
        """End the rounds of tickets that no client has."""
        for number in sorted(self._lost):
            await self._call(self._stream.expire, number)
            self._lost.discard(number)


@contextmanager
def open_service(settings: Settings) -> Iterator[tuple[Service, Rows]]:
    """Open the files of a service, and make those that are missing.

    Raises
    ------
    StateError, OSError, ValueError
        If they cannot be used: another learner, another key, damage, a journal older than its mark.
    """
    store = settings.store
    key = folder_and_key(store)
    path = SqliteStore(store.folder / "journal.db", durability=store.durability)
    ledger = Ledger(settings.bandit.budget, view="others")
    with (
        open_rows(store.folder, key) as rows,
        Journal(path, ledger=ledger, mark=store.mark, encryption=key) as journal,
    ):
        service = Service(journal, rows, settings)
        try:
            yield service, rows
        finally:
            service.shut()
