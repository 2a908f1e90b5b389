"""Where a pool keeps its learners: in memory, in one file, or in a journal.

The file is framed and checksummed as the state of one learner is. A journal takes one commit for a
batch, also for the keys that are new in it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import warnings
from inspect import getattr_static
from typing import Any

import numpy as np

from dpoco.errors import ReplayMismatch, RoundOrderError, StateError
from dpoco.journal import Journal, Stream, Transaction
from dpoco.learning.families import Family, Parts, Releases, continue_learner, stored_header
from dpoco.learning.learner import OnlineLearner
from dpoco.learning.state import unpack
from dpoco.scale._keys import (
    Key,
    Rows,
    Terms,
    entering,
    key_from_text,
    key_text,
    play_keyed,
    restore_prototype,
    sibling,
)

KIND = "KeyedPool"
Names = Releases | None


def read_pool(data: bytes) -> tuple[Any, Terms, list[Key], list[Any]]:
    """Return prototype, terms, keys and learners of a file; `StateError` unless it is intact."""
    record, payload = unpack(data)
    if record.get("kind") != KIND:
        raise StateError("state is not of a pool")
    try:
        keys = [key_from_text(text) for text in record["keys"]]
        sizes = [int(size) for size in record["sizes"]]
        # Two learners of the same key would answer the same records with different noise.
        if len(keys) != len(sizes) or len(set(keys)) != len(keys) or min(sizes, default=0) < 0:
            raise ValueError("keys and sizes differ")
        if sum(sizes) != len(payload):
            raise ValueError("sizes and payload differ")
        # Learners are made from a header as text, as from a journal.
        header = json.dumps(record["learner"])
        terms = Terms(**record["terms"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"state is corrupt: not a pool ({type(error).__name__})") from None
    prototype = restore_prototype(header)
    # Each goes on with its own noise; arguments and parameters are the prototype's.
    learners, at = [], 0
    for size in sizes:
        learners.append(continue_learner(prototype, payload[at : at + size]))
        at += size
    return prototype, terms, keys, learners


class LearnersInMemory:
    """Learners by number; their rounds are lost with the process unless they are saved."""

    def __init__(self, prototype: OnlineLearner, family: Family) -> None:
        self._prototype, self._family = prototype, family
        self._learners: list[Any] = []
        self._engines: list[Any] = []  # theirs: a look into a learner waits for its memory
        self._shown = bytearray()  # whether others may have played a learner, too
        # The methods come from the class: looking them up in a learner waits for its memory.
        self.decide: Any = getattr_static(type(prototype), "decide", None)
        self.observe: Any = getattr_static(type(prototype), "observe", None)

    def add(self, keys: list[Key]) -> None:
        """Make a learner for each key."""
        self.put([sibling(self._prototype) for _ in keys], len(self._learners))

    def put(self, learners: list[Any], first: int = 0) -> None:
        """Make these the learners from number `first` on, also after a call that was cut off."""
        self._learners[first:] = learners
        self._engines[first:] = [learner._engine for learner in learners]
        self._shown[first:] = bytes(len(learners))

    def show(self, slot: int) -> Any:
        """Return a learner for others to use."""
        self._shown[slot] = 1
        return self._learners[slot]

    def play(
        self, rows: Rows, parts: Parts, names: Names, workers: int, batch: int | None, after: Any
    ) -> Releases:
        """Play a batch, all or nothing; `after` is called once the fresh keys are there."""
        if batch is not None:
            raise ValueError("batch numbers need a journal: without one nothing can be repeated")
        # Fresh keys are added after the rounds, so that a refused batch leaves no keys.
        fresh = [sibling(self._prototype) for _ in rows.fresh]
        slots = rows.slots.tolist()
        old = slots[: len(slots) - len(fresh)]  # numbers of fresh keys follow those of the others
        engines = [*map(self._engines.__getitem__, old), *(each._engine for each in fresh)]
        learners: list[Any] = []
        # Other learners cannot be in use elsewhere; their rounds are checked by compiled code.
        if names is not None or any(map(self._shown.__getitem__, old)):
            learners = [*map(self._learners.__getitem__, old), *fresh]
            for learner, count in zip(learners, rows.counts.tolist(), strict=True):
                self._check(learner, count)
        model = self._family, self._prototype, engines
        if names is not None:
            own = [names[rows.rows[piece]] for piece in rows.pieces]
            people = [x._digests(who, len(who)) for x, who in zip(learners, own, strict=True)]
            # This plays no rounds: an error that would refuse some is raised before anybody counts.
            none = tuple(part[:0] for part in parts)
            play_keyed(*model, np.zeros_like(rows.offsets), rows.rows[:0], none, workers)
            parts = entering(self._family, learners, people, rows.rows, parts)
        before = engines[0].round if engines else 0
        try:
            decisions = play_keyed(*model, rows.offsets, rows.rows, parts, workers)
            if fresh:
                self.put(fresh, slots[len(old)])
            after()
            decisions.setflags(write=False)
            return decisions
        except BaseException:
            # Compiled code plays all rounds or none. An interrupt waits until it is done, and then
            # takes the decisions with it.
            if engines and engines[0].round > before:
                if fresh:
                    self.put(fresh, slots[len(old)])
                after()
                warnings.warn(
                    "the call was interrupted when the batch had been played: do not send it "
                    "again, since a record that is played twice voids the guarantee",
                    UserWarning, stacklevel=3,
                )  # fmt: skip
            raise

    @staticmethod
    def _check(learner: OnlineLearner, rounds: int) -> None:
        """Raise if a learner that others may have played cannot play so many rounds now."""
        learner._check_alone()
        learner._check_rounds(rounds)
        if learner.outstanding:
            raise RoundOrderError("a learner of the pool has tickets that wait for feedback")

    def state_parts(self) -> list[bytes]:
        """Return the states of all compiled learners."""
        # The file holds only engines, so that waiting tickets would be lost.
        if any(learner._book is not None for learner in self._learners):
            raise RoundOrderError("a pool whose learners have issued tickets cannot be saved")
        for learner in self._learners:
            learner._check_active()
            learner._engine.check_process()
        return [learner._payload() for learner in self._learners]


# Batches whose first rounds are kept, so that they can be sent again.
# A ring of rows: each batch takes the place of the one that is 256 older.
KEPT_BATCHES = 256
# Learners that a pool in a journal loads before it lets go of all: the next use loads one again.
MOST_LOADED = 100_000


class LearnersInJournal:
    """Learners by number, each a stream ``<pool>/<key>`` of the journal."""

    decide, observe = staticmethod(Stream.decide), staticmethod(Stream.observe)

    def __init__(
        self, journal: Journal, name: str, prototype: OnlineLearner, family: Family
    ) -> None:
        self._journal, self._name = journal, name
        self._prototype, self._family = prototype, family
        self._header = stored_header(prototype)
        self.refresh()

    def refresh(self) -> None:
        """Read again which keys there are: after an error, a commit may have been durable."""
        # The streams are the list of keys: a second list could differ from it.
        prefix = self._name + "/"
        names = [text for text in self._journal.streams() if text.startswith(prefix)]
        try:
            self._keys = [key_from_text(text[len(prefix) :]) for text in names]
        except ValueError:
            raise StateError(
                f"the journal has streams {prefix!r}... that are not the pool's"
            ) from None
        self._streams: list[Stream | None] = [None] * len(names)
        self._loaded: set[Stream] = set()  # those whose learner may be in memory
        self._most = MOST_LOADED
        self.stale = False

    def keys(self) -> list[Key]:
        """Return the keys that the journal already has, in the order of their first records."""
        return list(self._keys)

    def _stream_name(self, key: Key) -> str:
        """Return the name of a key's stream; a pool's name has no "/", so that names are one's."""
        return f"{self._name}/{key_text(key)}"

    def show(self, slot: int) -> Stream:
        """Return the stream of a learner."""
        with self._journal._guard():
            self._make_room()
            return self._stream(slot)

    def _make_room(self) -> None:
        """Free the memory of learners, if they are many and nothing waits to be committed."""
        journal = self._journal
        if len(self._loaded) < self._most or journal._busy or journal._line is not None:
            return
        # The journal has a bandit's context only once its reward has come.
        waiting = {stream for stream in self._loaded if stream._context is not None}
        for stream in self._loaded - waiting:
            stream._drop()
        self._loaded, self._most = waiting, len(waiting) + MOST_LOADED

    def _stream(self, slot: int) -> Stream:
        """Return the stream of a number, looked up in the journal on first use."""
        stream = self._streams[slot]
        if stream is None:
            stream = self._journal._find_stream(self._stream_name(self._keys[slot]))
            if stream is None:
                raise StateError("the journal is corrupt: a stream of the pool is missing")
            self._streams[slot] = stream
        self._loaded.add(stream)
        return stream

    def add(self, keys: list[Key]) -> None:
        """Make and store a learner for each key, in one transaction."""
        with self._journal._guard():
            self._make_room()
        # If the transaction fails, its commit may have been durable: the next use asks for the
        # keys.
        self.stale = True
        with self._journal.transaction() as together:
            streams = self._enroll(together, keys)
        self._keep(keys, streams)
        self.stale = False

    def _enroll(self, together: Transaction, keys: list[Key]) -> list[Stream]:
        """Return new streams for keys, which the transaction commits."""
        streams = []
        for key in keys:
            learner = sibling(self._prototype)
            # The keys cost nothing more: the pool was charged for all its keys when it was made.
            stream = self._journal._add_stream(
                self._stream_name(key), self._header, "a pool", learner
            )
            together._touch(stream)
            streams.append(stream)
        return streams

    def _keep(self, keys: list[Key], streams: list[Stream]) -> None:
        """Take note of streams after their commit, so that a failed commit leaves no trace."""
        for key, stream in zip(keys, streams, strict=True):
            self._journal._streams[self._stream_name(key)] = stream
        self._streams += streams
        self._keys += keys
        self._loaded.update(streams)

    def play(
        self, rows: Rows, parts: Parts, names: Names, workers: int, batch: int | None, after: Any
    ) -> Releases:
        """Play a batch in one transaction; `after` is called once it is committed."""
        # A stream takes its records in one piece, in their order.
        ordered = tuple(part[rows.rows] for part in parts)
        named = None if names is None else names[rows.rows]
        pieces = rows.pieces
        played: Releases | None = None
        with self._journal._guard():
            self._make_room()
        self.stale = True
        with self._journal.transaction() as together:
            log = BatchLog(self._journal, self._name)
            first = None if batch is None else log.find(batch, rows)
            # The keys of a batch that was played already exist.
            if first is not None and rows.fresh:
                raise ReplayMismatch(f"batch {batch} came with other keys than before")
            fresh = self._enroll(together, rows.fresh)
            known = len(self._streams)
            works = []
            turns: list[int | None] = [None] * len(pieces) if first is None else [*first]
            for slot, piece, turn in zip(rows.slots.tolist(), pieces, turns, strict=True):
                stream = self._stream(slot) if slot < known else fresh[slot - known]
                part = (array[piece] for array in ordered)
                person = None if named is None else named[piece]
                works.append(together.take(stream, *part, first_round=turn, person=person))
            if first is not None and any(work.rounds for work in works):
                raise RoundOrderError(
                    "a batch that was played is ahead of its streams: was the journal restored "
                    "from an old copy?"
                )
            if first is None or not works:
                # Compiled code plays all learners at once; the transaction takes the rounds one by
                # one.
                learners, people = [x.learner for x in works], [x.people for x in works]
                engines = [learner._engine for learner in learners]
                own = np.arange(len(rows.rows), dtype=np.int64)
                entered = entering(self._family, learners, people, own, ordered)
                played = play_keyed(
                    self._family, self._prototype, engines, rows.offsets, own, entered, workers
                )
                for work, piece in zip(works, pieces, strict=True):
                    together.put(work, played[piece])
            if batch is not None and first is None:
                log.add(batch, rows, [work.first for work in works])
        self._keep(rows.fresh, fresh)
        after()
        self.stale = False
        if played is None:
            played = np.concatenate([work.decisions for work in works])
        out = np.empty_like(played)
        # Records are played key by key, and their decisions returned in the order of the records.
        out[rows.rows] = played
        out.flags.writeable = False
        return out


class BatchLog:
    """Which round of each key the numbered batches began with; used inside of transactions."""

    def __init__(self, journal: Journal, name: str) -> None:
        self._rows = journal._rows
        self._last, self._slot = f"pool {name} last batch", f"pool {name} batch "

    @property
    def last(self) -> int:
        """Number of the last batch that was committed; -1 if there is none."""
        text = self._rows.value(self._last)
        return -1 if text is None else int(text)

    def find(self, batch: int, rows: Rows) -> list[int] | None:
        """Return the first rounds of a batch that was played; None if it is new.

        Raises
        ------
        ReplayMismatch
            If it had other keys or numbers of records.
        StateError
            If it is too old: its first rounds are not kept any more.
        """
        if batch > self.last:
            return None
        text = self._rows.value(f"{self._slot}{batch % KEPT_BATCHES}")
        record = {} if text is None else json.loads(text)
        # A later batch has this place in the ring by now.
        if record.get("batch") != batch:
            raise StateError(
                f"batch {batch} was not played, or is not among the last {KEPT_BATCHES} kept"
            )
        # The streams compare records with their digests; this compares only their keys.
        if record["shape"] != _shape(rows):
            raise ReplayMismatch(f"batch {batch} came with other keys than before")
        first = np.frombuffer(base64.b64decode(record["first"]), dtype="<i8")
        return [int(turn) for turn in first]

    def add(self, batch: int, rows: Rows, first: list[int]) -> None:
        """Enter a batch; the caller commits."""
        record = {
            "batch": batch,
            "shape": _shape(rows),
            "first": base64.b64encode(np.array(first, dtype="<i8").tobytes()).decode(),
        }
        self._rows.put_value(f"{self._slot}{batch % KEPT_BATCHES}", json.dumps(record))
        self._rows.put_value(self._last, str(batch))


def _shape(rows: Rows) -> str:
    """Return a digest of which keys have how many records: public."""
    # The digest is of the numbers of keys, which never change, and not of the keys.
    hasher = hashlib.sha256(rows.slots.astype("<i8").tobytes())
    hasher.update(rows.counts.astype("<i8").tobytes())
    return hasher.hexdigest()
