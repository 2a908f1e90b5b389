"""The release journal: many learners, one budget, one writer, every release exactly once."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from dpoco import _literals as literals
from dpoco._encryption import KEY_BYTES, EncryptionKey, given_key
from dpoco._validation import Fields, choice
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.ledger import Ledger
from dpoco.errors import JournalFenced, RoundOrderError, StateError
from dpoco.journal._accounts import Accounts, check_forkable, checked_size, renew
from dpoco.journal._keys import KeyFile, KeyRing, Mark, default_key, mark_path
from dpoco.journal._monitored import MonitorStream
from dpoco.journal._releases import alike, read_payload, restore_learner, round_number
from dpoco.journal._rows import Rows
from dpoco.journal._store import SqliteStore, Store
from dpoco.journal._stream import Stream
from dpoco.journal._transaction import Pipeline, Transaction
from dpoco.learning.families import Arrays, Intervals, Releases, learner_family, stored_header
from dpoco.learning.state import Stateful
from dpoco.learning.tickets import TicketBook
from dpoco.statistics import Monitor


class Journal:
    """Learners whose every release is made exactly once, and is durable before it is seen.

    Parameters
    ----------
    store : path-like or Store
        SQLite file, which is made if there is none, or a `Store` such as `PostgresStore`.
    key : bytes, sequence of bytes, KeyFile or None
        Secret key for the digests of records, 32 bytes. In a sequence, the last key is used for new
        records and the others for what was written with them. None (default): a `KeyFile` next to
        the SQLite file, `<path>.key`, made with a fresh key and mode 0600. This and all following
        arguments are keyword-only.
    ledger : Ledger, optional
        Budget of all streams together. It is stored in a new journal, and from then on only the
        journal charges it. Later, pass None or a ledger with the same terms.
    releases : {"stored", "recompute"}, default "stored"
        What the journal keeps of the releases made while it is open in this way: the releases
        themselves ("stored"), or the state before each batch if this is shorter ("recompute"). If
        the batch is sent again with the same records, which the digests verify, the journal
        computes its releases again from that state. `Stream.release` cannot read such releases
        without records, and replays begin where a batch began.
    mark : path-like or False, optional
        File that detects a journal set back to an older copy; default `<path>.mark`, False for
        none.
    encryption : EncryptionKey, optional
        Encrypts all rows, in addition to `key`. The constructor refuses a plain journal: see
        `encrypt`.

    Raises
    ------
    StateError
        If the store is not a journal, is corrupt or locked, or was restored from an old copy; if
        it was made with another key or with a ledger of other terms; or if it is plain although
        `encryption` is given, or encrypted under a key that is not given.
    OSError
        If it cannot be written.

    Notes
    -----
    Opening a journal takes it over: another writer that had it open raises `JournalFenced` from
    then on, before it draws anything. Methods may be called from several threads; transactions run
    one by one. A journal inherited through fork raises `JournalFenced` as well. Guide:
    ``docs/journal.md``.

    Examples
    --------
    >>> import dpoco, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "releases.db")
    >>> budget = dpoco.Budget(1.0, 1e-6)
    >>> def make():
    ...     return dpoco.experts.EpochSelector(3, horizon=1000, budget=budget)
    >>> with dpoco.journal.Journal(path, ledger=dpoco.accounting.ledger.Ledger(budget)) as journal:
    ...     stream = journal.open("prices", make)
    ...     first = stream.process([[0.0, 1.0, 1.0]] * 5, first_round=0)
    >>> with dpoco.journal.Journal(path) as journal:  # after a crash, say
    ...     again = journal.open("prices").process([[0.0, 1.0, 1.0]] * 5, first_round=0)
    >>> bool((first == again).all())
    True
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store,
        *,
        key: bytes | Sequence[bytes] | KeyFile | None = None,
        ledger: Ledger | None = None,
        releases: literals.Releases = "stored",
        mark: str | os.PathLike[str] | bool | None = None,
        encryption: EncryptionKey | None = None,
    ) -> None:
        cipher = given_key("encryption", encryption)
        if not (ledger is None or isinstance(ledger, Ledger)):
            raise TypeError(f"ledger must be a Ledger; got {type(ledger).__name__}")
        self._recompute = choice("releases", releases, ("stored", "recompute")) == "recompute"
        self._streams: dict[str, Stream] = {}
        self._checked: set[str] = set()  # streams whose arguments were compared with a `make`
        self._siblings: Fields = {}  # a learner of each header
        # A forked child has copies of engines and connection: two processes would draw the same
        # noise for different records.
        self._owner = os.getpid()
        self._lock = threading.RLock()
        # The lock is re-entrant, so it does not stop a thread from beginning two transactions.
        self._busy = False
        self._line: object | None = None  # the pipeline that owns the journal until its end
        self._shared: tuple[int, Transaction] | None = None  # shared by calls of this thread
        self._mark: Mark | None = None
        own = isinstance(store, (str, os.PathLike))
        self._store: Store = SqliteStore(store) if own else store  # type: ignore[arg-type,assignment]
        try:
            ring = KeyRing(default_key(self._store.path) if key is None else key)
            place = mark_path(self._store.path, mark)
            self._mark = None if place is None else Mark(place)
            self._rows = Rows(self._store, ring, cipher)
            self._accounts = Accounts(self._rows)
            self._take_over(ledger)
        except BaseException:
            # The constructor fails, so nobody can call `close`: without this the store stays
            # locked.
            try:
                self._store.rollback()
            finally:
                self._shut()
            raise

    # -- the one writer ---------------------------------------------------------------------------

    def _take_over(self, ledger: Ledger | None) -> None:
        """Become the one writer: from this commit on, an earlier one is fenced off."""
        rows = self._rows
        self._grown = new = rows.take(self._store.begin())
        if self._mark is not None:
            # Raises also if the mark is from an earlier journal at this place.
            self._mark.check(rows.head)
        if new:
            rows.begin_keys()
        self._accounts.begin(ledger, new=new)
        self._commit()

    @contextmanager
    def _guard(self, *, committed: bool = False) -> Iterator[None]:
        """Keep other threads out, and refuse in a forked child and after `close`.

        `committed`: refuse also within a transaction or pipeline, where memory and store are ahead
        of the durable state.
        """
        self._check_process()
        with self._lock:
            # Streams' methods that share a transaction (`_shared`) read the rounds that this
            # transaction has played: their answers wait for its commit.
            open_ = self._busy or self._line is not None
            if committed and open_ and self._shared is None:
                raise RoundOrderError("a transaction is open and not committed: end it first")
            self._store.check()
            # The last commit reported an error but may be durable. The transaction keeps other
            # writers out between the reads of the head and of the list.
            if not self._busy and not self._rows.certain:
                try:
                    self._store.begin()
                    self._rows.refresh()
                finally:
                    self._store.rollback()
            yield

    def _check_process(self) -> None:
        """Raise `JournalFenced` in a forked child, before it takes the lock or draws."""
        if os.getpid() != self._owner:
            raise JournalFenced("this journal was inherited through fork: open it in this process")

    def _enter(self, line: object | None = None) -> None:
        """Begin a transaction as the one writer, or raise before anything is drawn."""
        # Check before the lock, which a thread of the parent may have held at the fork.
        self._check_process()
        self._lock.acquire()
        if self._busy or self._line is not line:
            self._lock.release()
            raise RoundOrderError("a transaction is open in this thread already, or a pipeline")
        self._busy = True
        try:
            self._store.check()
            self._store.begin()
            self._rows.refresh()
            # The store cannot tell this journal from a copy of it that another process continues.
            if self._mark is not None and self._mark.is_ahead(self._rows.head):
                raise JournalFenced("a copy of this journal was opened with the same mark")
        except BaseException:
            self._leave(failed=True)
            raise

    def _commit(self) -> None:
        """Make what was written durable, and then let the mark follow."""
        self._rows.commit()
        if self._grown:  # a lost stream would be made and charged again, with other noise
            sync = getattr(self._store, "sync", None)
            if sync is not None:
                sync()
            self._grown = False
        if self._mark is not None:
            # The commit is durable; a mark that could not be written only detects less.
            with suppress(OSError):
                self._mark.advance(self._rows.head)

    def _leave(self, *, failed: bool) -> None:
        """End the transaction and give the lock back; `failed`: forget what it had in memory."""
        try:
            try:
                self._store.rollback()  # a transaction that only read is still open
            finally:
                if failed:
                    self._rows.forget()
                    self._accounts.forget()
        except (OSError, StateError):
            # The caller already gets another error, which says more than the error of the
            # rollback.
            if not failed:
                raise
        finally:
            self._busy = False
            self._lock.release()

    def _shut(self) -> None:
        """Let go of the store and the mark, whatever fails."""
        try:
            self._store.close()
        finally:
            if self._mark is not None:
                self._mark.close()

    # -- streams ----------------------------------------------------------------------------------

    def open(
        self,
        name: str,
        make: Callable[[], Any] | Any = None,
        *,
        check: bool = True,
        group: str | None = None,
        group_size: int | None = None,
        same_unit: bool = False,
    ) -> Stream:
        """Return the stream of this name; the first call makes, charges and stores it.

        Parameters
        ----------
        name : str
            Name of the stream; any text.
        make : callable or learner, optional
            An unstarted learner or mechanism, or a callable that returns one. If it begins the
            stream, it belongs to the journal from then on and is suspended.
        check : bool, default True
            If the stream exists and you pass something to make it: raise an error unless the stream
            has the same arguments. For this, a callable is called once for each stream and each
            opening of the journal, and its result is dropped. False: it is not called.
        group : str, optional
            Promise that the streams of this group see disjoint data, with each person's data in one
            of them, and that names and times of records are public. The group is charged once, with
            its first stream, for all its future streams: the guarantee of one learner where this is
            proved, otherwise more; see "Groups" in ``docs/privacy/journal.md``. All streams must be
            alike.
        group_size : int, optional
            Largest number of streams that the group will ever have; public. Required for its first
            stream.
        same_unit : bool, default False
            Promise that the guarantee's unit is the ledger's unit in other words: see
            `Ledger.charge`.

        Raises
        ------
        BudgetExceeded
            If the ledger does not pay for it; nothing was drawn and nothing changed.
        CalibrationError
            If the learner's delta is too small for a group of that size.
        StateError
            If there is no such stream and no make to create it, if `check` fails, if the group is
            full, or if the learner has started (see `adopt`).
        TypeError
            If a journal cannot hold this learner, or a new group has no size.
        ValueError
            If the group has another size, or learners of another guarantee.
        """
        _check_name(name)
        size = checked_size(group, group_size)
        given = isinstance(make, Stateful)
        with self._guard():
            # Call `make` outside the lock: it calibrates, and other threads would have to wait.
            known = self._find_stream(name)
        if known is not None:
            if check and make is not None and (given or name not in self._checked):
                other = make if given else make()
                if not isinstance(other, Stateful) or not alike(other, known._row.header):
                    raise StateError(f"the stream {name!r} has other arguments than `make` gives")
                self._checked.add(name)
            return known
        if make is None:
            raise StateError(f"there is no stream {name!r}, and no make to create it")
        learner: Any = make if given else make()
        learner_family(learner)
        if learner._is_started():
            raise StateError("the learner has started: adopt() binds it to the journal")
        learner._check_active()
        try:
            return self._enroll(name, learner, "", group, size, same_unit)
        except ValueError:
            # Another thread may have opened the stream while this one made its learner.
            if name not in self.streams():
                raise
            return self.open(name, make, check=check)

    def open_monitor(
        self,
        name: str,
        make: Callable[[], Monitor] | Monitor | None = None,
        *,
        check: bool = True,
        group: str | None = None,
        group_size: int | None = None,
        same_unit: bool = False,
    ) -> MonitorStream:
        """Return the stream of a monitor; the first call makes, charges and stores it.

        Arguments and errors are those of `open`; raises `TypeError` also if the stream does not
        belong to a `dpoco.statistics.Monitor`. Each call of the stream stores its releases, the
        sums of the running interval, and the position in the input, in one commit.
        """
        made = make if make is None or isinstance(make, Monitor) else partial(_make_monitor, make)
        stream = self.open(
            name, made, check=check, group=group, group_size=group_size, same_unit=same_unit
        )
        if not isinstance(stream._family, Intervals):
            raise TypeError(f"the stream {name!r} is not of a monitor")
        return MonitorStream(self, stream)

    def adopt(
        self,
        name: str,
        learner: Any,
        *,
        group: str | None = None,
        group_size: int | None = None,
        same_unit: bool = False,
    ) -> Stream:
        """Bind a started learner, even one that waits after unpickling, and return its stream.

        The journal stores its state, including waiting tickets, and charges its whole guarantee.
        The learner continues only here: the given object is suspended. The journal does not know
        earlier releases and cannot replay them.

        Parameters
        ----------
        name : str
            Name of the new stream, not used by any stream.
        learner : learner or mechanism
            The only copy that is ever used again, as for `resume`; it belongs to no other stream.
        group, group_size, same_unit
            As for `open`.

        Raises
        ------
        BudgetExceeded, CalibrationError, StateError, TypeError, ValueError
            As `open`.
        """
        _check_name(name)
        size = checked_size(group, group_size)
        learner_family(learner)
        origin = f"adopted in round {learner.round}"
        return self._enroll(name, learner, origin, group, size, same_unit)

    def streams(self) -> list[str]:
        """Return the names of all streams, in the order in which they were opened."""
        with self._guard():
            return self._rows.names()

    def _find_stream(self, name: str) -> Stream | None:
        """Return the stream of a name, loaded once; return None if it certainly does not exist."""
        stream = self._streams.get(name)
        if stream is None:
            row = self._rows.stream(name)
            if row is None:
                return None
            stream = self._streams[name] = Stream(self, row)
        return stream

    def _enroll(
        self,
        name: str,
        learner: Any,
        origin: str,
        group: str | None,
        size: int | None,
        same_unit: bool,
    ) -> Stream:
        """Charge and store a learner in one transaction, and take it from the caller."""
        header = stored_header(learner)
        with self.transaction() as transaction:
            if self._rows.stream(name) is not None:
                raise ValueError(f"there is a stream {name!r} already")
            place = (self._rows.head.uid, name)
            # After a failure, the learner may already have this place: it may continue there.
            if learner._taken not in (None, place):
                raise StateError("a journal already holds this learner: continue it there")
            if group is None:
                self._accounts.charge(learner.guarantee, name, same_unit=same_unit)
            else:
                self._accounts.join(group, size, learner, same_unit=same_unit)
            # Lock the learner, so that no thread plays rounds beyond the state that is stored.
            with learner._alone():
                payload = read_payload(learner)
                # The caller and other threads may still hold the object, even one that a callable
                # returned: the stream plays a copy of it.
                mine = restore_learner(header, payload, learner._participants(), self._siblings)
                stream = self._add_stream(name, header, origin, mine)
                transaction._touch(stream)
                learner._taken = place  # before the commit: two copies must never continue
                learner._suspended, learner._asked = True, (-1, None)
        # Register after the commit: a name whose transaction failed must not be found in memory.
        self._streams[name] = stream
        return stream

    def _add_stream(self, name: str, header: str, origin: str, learner: Any) -> Stream:
        """Write the row of a new stream; a restart could not notice if this row were lost."""
        self._grown = True
        row = self._rows.add_stream(name, header, origin, int(learner.round))
        return Stream(self, row, learner)

    def _fork(self, parent: Stream, name: str) -> Stream:
        """Charge, store and return a second continuation with its own noise from here on."""
        _check_name(name)
        with self.transaction() as transaction:
            transaction._check_own(parent)
            parent._ready()
            check_forkable(parent._learner)
            if self._rows.stream(name) is not None:
                raise ValueError(f"there is a stream {name!r} already")
            # The journal knows the context of the pending decision by a digest under the parent's
            # identity, which the fork cannot compare.
            if parent._family.contextual and parent._pending:
                raise RoundOrderError("a decision waits for its reward: fork after the round")
            origin = f"fork of {parent.name!r} in round {parent._round}"
            self._accounts.charge_again(parent.guarantee, f"{name}: {origin}")
            payload, people = read_payload(parent._learner), parent._learner._participants()
            learner = restore_learner(parent._row.header, payload, people, self._siblings)
            renew(learner)
            if getattr(learner, "_book", None) is not None:
                learner._book = TicketBook()  # waiting tickets belong to the parent
            child = self._add_stream(name, stored_header(learner), origin, learner)
            if not parent._family.contextual and child._pending != parent._pending:
                raise StateError("a fork must continue from the same decision")
            transaction._touch(child)
        self._streams[name] = child
        return child

    # -- budget -----------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger | None:
        """A copy of the ledger, for reading; None if the journal has none."""
        with self._guard():
            return self._accounts.snapshot()

    @property
    def spent(self) -> float | None:
        """Share of the ledger's budget that is spent, in [0, 1]; None without a ledger."""
        ledger = self.ledger
        return None if ledger is None else ledger.spent

    @property
    def guarantee(self) -> Guarantee | None:
        """The guarantee of everything that all streams release; None without a ledger."""
        ledger = self.ledger
        return None if ledger is None else ledger.guarantee

    # -- upkeep -----------------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """Return a transaction for rounds of any number of streams, with a single commit.

        Examples
        --------
        >>> def play(journal, batches):  # stream to records
        ...     with journal.transaction() as together:
        ...         works = [together.process(stream, *batch) for stream, batch in batches.items()]
        ...     return [work.decisions for work in works]
        """
        return Transaction(self)

    def _part(self) -> AbstractContextManager[Transaction]:
        """Return the transaction of one call: its own, or the one that it shares with others."""
        shared = self._shared  # of this thread, or it is another's affair
        if shared is not None and shared[0] == threading.get_ident():
            return nullcontext(shared[1])
        return Transaction(self)

    def _run_pipeline(
        self, stream: Stream, batches: Iterable[Arrays], first_round: int | None, together: int
    ) -> Iterator[Releases]:
        """Return the releases of `Stream.process_many`, which commits while it plays."""
        return Pipeline(stream, self, first_round, together).run(batches)

    def forget(self, name: str, before_round: int) -> int:
        """Delete releases and digests of old rounds, and return the first round kept.

        Rounds are stored in the batches in which they were committed: the batch of `before_round`
        is kept as a whole. A forgotten round can be neither read nor replayed; a replay raises
        `StateError`, and the round is never played again. If a participation is enforced and these
        rounds say who came, the whole table of people is stored, some 24 bytes each.

        Raises
        ------
        RoundOrderError
            If `before_round` is beyond the current round.
        """
        before = round_number("before_round", before_round)
        with self.transaction() as transaction:
            stream = self._existing(name)
            rows, row = self._rows, stream._row
            if before > stream._round:
                raise RoundOrderError(f"the stream is in round {stream._round}")
            if before <= row.kept_from:
                return row.kept_from
            # If a chunk holds round `before`, the journal keeps it as a whole.
            stop = min(before + 1, stream._round)
            kept = next((chunk.first for chunk in rows.chunks(row.id, before, stop)), before)
            if stream._learner._limiter is not None and kept > stream._since:
                # The dropped chunks name people that no stored table counts yet. Size 0 makes
                # `_state` store the table in this commit.
                stream._size = 0
                transaction._touch(stream)
            rows.drop_chunks(row.id, 0, kept)
            row = replace(row, kept_from=kept)
            rows.put_stream(row)
        # Update after the commit: if it fails, the journal still keeps the rounds.
        stream._row = row
        return kept

    def compact(self, name: str) -> int:
        """Merge small batches of a stream, such as single rounds; return their number.

        Reads of many rounds are then faster, and the file smaller. Batches that are computed again
        (``releases="recompute"``), or whose digests are under different keys, stay as they are.

        Raises
        ------
        StateError
            If there is no such stream, or the journal is corrupt.
        """
        with self.transaction():
            stream = self._existing(name)
            return self._rows.merge(stream._row.id, stream._row.kept_from, stream._round)

    def _existing(self, name: str) -> Stream:
        """Return the stream of a name, with its learner in memory, or raise `StateError`."""
        stream = self._find_stream(name)
        if stream is None:
            raise StateError(f"there is no stream {name!r}")
        stream._ready()
        return stream

    def rotate_key(self, key: bytes | None = None) -> None:
        """Use another key for all future digests.

        Digests of past rounds stay under their keys, which replays need until `forget`. Keys that
        nothing needs any more are deleted, also from the key file.

        Parameters
        ----------
        key : bytes, optional
            32 bytes, never used before; default: a fresh key. Required unless keys are in a
            `KeyFile`: you must then keep it, next to the older ones.
        """
        if key is None:
            if not self._rows.keeps_keys:
                raise ValueError("the keys are not in a KeyFile: pass the new key")
            key = secrets.token_bytes(KEY_BYTES)
        with self.transaction():
            unneeded = self._rows.rotate(key)
        if unneeded:
            self._store.settle()  # otherwise a power cut might bring back rows that need them
            with self.transaction():
                self._rows.retire(unneeded)

    def encrypt(self, key: EncryptionKey) -> None:
        """Encrypt all rows under the newest of these keys, whether or not they are encrypted now.

        For a plain journal, and for a rotation: open it with the old key and the new one, and pass
        the new one, which is the only one that is needed from then on. One transaction: after a
        crash the rows are as they were, or encrypted. Then the store is asked to overwrite what
        they replaced; backups and archives keep it. Time proportional to the journal's size.

        Raises
        ------
        StateError
            If the journal is corrupt. If others were reading it ("locked"), it is encrypted, but
            what was replaced may be left in its files: call this again.
        OSError
            If it cannot be written.
        """
        if given_key("key", key) is None:
            raise TypeError(
                "key must be an EncryptionKey: an encrypted journal cannot be made plain"
            )
        with self.transaction():
            self._rows.encrypt(key)
        # Scrub after the commit: the old plain rows may be overwritten only once the new ones are
        # durable.
        self._store.scrub()

    def close(self) -> None:
        """Close the store; from then on, streams raise `StateError`.

        An unfinished pipeline is cut off: its uncommitted releases were not handed out.
        """
        if os.getpid() != self._owner:
            return  # a thread of the parent may have held the lock, and cannot release it here
        with self._lock:
            if self._busy:
                raise RoundOrderError("a transaction is open: end it first")
            self._line = None
            self._shut()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a journal cannot be copied or pickled: it has one writer")

    def __repr__(self) -> str:
        return f"<dpoco.journal.Journal at {self._store.path or type(self._store).__name__}>"


def _make_monitor(make: Callable[[], Any]) -> Monitor:
    """Return what a callable makes, or raise `TypeError` if it is no monitor."""
    made = make()
    if not isinstance(made, Monitor):
        raise TypeError(f"make must return a Monitor; got {type(made).__name__}")
    return made


def _check_name(name: object) -> None:
    """Raise `ValueError` if this cannot be the name of a stream."""
    if not isinstance(name, str) or not name:
        raise ValueError("name must be a text that is not empty")
