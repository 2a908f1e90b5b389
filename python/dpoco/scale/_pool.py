"""Thousands of private learners, one a key.

A pool enters a journal at once: it is charged and stored before any learner is made.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from numpy.typing import ArrayLike

from dpoco import _literals as literals
from dpoco._encryption import EncryptionKey, given_key, refuse_readable
from dpoco._files import read_state, write_atomically
from dpoco._validation import LARGEST_HORIZON, positive_int, whole_number
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import RoundOrderError, StateError
from dpoco.journal import Journal
from dpoco.learning.families import Arrays, Parts, Releases, stored_header
from dpoco.learning.learner import OnlineLearner
from dpoco.learning.participation import Person, Persons
from dpoco.learning.state import pack
from dpoco.scale._keyed_learners import (
    KIND,
    BatchLog,
    LearnersInJournal,
    LearnersInMemory,
    read_pool,
)
from dpoco.scale._keys import (
    Key,
    Rows,
    Terms,
    check_fresh,
    check_key,
    check_records,
    each_key,
    family_for,
    group_rows,
    key_list,
    key_text,
    make_prototype,
    person_names,
    restore_prototype,
)


def enroll(journal: Journal, name: str, prototype: Any, terms: Terms, same_unit: bool) -> Any:
    """Return the prototype of a pool in a journal; the first time, charged and stored.

    Parameters
    ----------
    journal : Journal
        Where the pool is, or will be.
    name : str
        Name of the pool.
    prototype : learner or None
        None: the one that is stored.
    terms : Terms
        The requested terms; a pool that already exists must have the same ones.
    same_unit : bool
        As for `Ledger.charge`.

    Raises
    ------
    BudgetExceeded
        If the ledger does not pay for a new pool.
    StateError
        If there is no such pool and no prototype, or the pool is of other terms or learners.
    """
    place = f"pool {name}"
    with journal.transaction():
        text = journal._rows.value(place)
        if text is None:
            if prototype is None:
                raise StateError(f"there is no pool {name!r}, and no make to create it")
            record = {"learner": stored_header(prototype), "terms": asdict(terms)}
            guarantee = terms.guarantee(prototype)
            # The charge and the pool's row are one transaction: a crash leaves both or neither.
            journal._accounts.charge(guarantee, f"pool {name}", same_unit=same_unit)
            journal._rows.put_value(place, json.dumps(record))
            return prototype
    try:
        record = json.loads(text)
        header, stored = str(record["learner"]), Terms(**record["terms"])
    except (KeyError, TypeError, ValueError):
        raise StateError("the journal is corrupt: not a pool") from None
    # The terms enter the guarantee, which was charged once: other terms make another pool.
    if stored != terms:
        raise StateError(f"the pool {name!r} was made with other arguments")
    if prototype is None:
        return restore_prototype(header)
    ours, theirs = json.loads(stored_header(prototype)), json.loads(header)
    # The version of the library, the third part, may differ.
    if any(ours[part] != theirs[part] for part in ("kind", "object")):
        raise StateError(f"the pool {name!r} has other learners")
    return prototype


class Pool:
    """Base of all pools: their terms, the numbers of their keys, and the lock for one thread."""

    def _begin(self, prototype: OnlineLearner, terms: Terms) -> None:
        """Keep what all keys share; the guarantee is computed here, before any learner is made."""
        self._prototype, self._terms = prototype, terms
        self._family = family_for(prototype)
        self._guarantee = terms.guarantee(prototype)
        self._sole = threading.Lock()
        self._index: dict[Key, int] = {}

    def _number(self, fresh: Iterable[Key]) -> None:
        """Give new keys the next numbers, in their order; those that have one keep it."""
        new = [key for key in fresh if key not in self._index]
        self._index.update({key: len(self._index) + i for i, key in enumerate(new)})

    def _batch(
        self, keys: Any, arrays: Arrays, persons: Persons
    ) -> tuple[Parts, list[Key], Rows, Any]:
        """Return a batch's records, their keys, which are whose, and their people; or raise."""
        parts = self._family.parts(self._prototype, arrays)
        check_records(self._family, self._prototype, parts)
        rounds = parts[0].shape[0]
        listed, people = key_list(keys, rounds), person_names(self._prototype, persons, rounds)
        return parts, listed, group_rows(self._index, listed, self._terms.max_keys), people

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out; refuse if one is in."""
        # A second thread does not wait: chance would decide the order of the two threads' batches.
        if not self._sole.acquire(blocking=False):
            raise RoundOrderError("the pool is in use by another thread")
        try:
            # This runs under the lock, before anything reads which keys there are.
            self._renew()
            yield
        finally:
            self._sole.release()

    def _renew(self) -> None:
        """Ask again which keys there are, if something failed half-way."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything that all learners release, on the pool's terms."""
        return self._guarantee

    def keys(self) -> list[Key]:
        """Return the keys in the order of their first records."""
        return list(self._index)

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self._index

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pool cannot be copied, because its learners would share their noise")


Self = TypeVar("Self", bound="KeyedPool")


class KeyedPool(Pool):
    """Learners of one kind, one per user or segment, that compiled code plays in batches.

    Parameters
    ----------
    make : learner, or callable without arguments that returns one
        An unstarted learner as a template. All keys get learners with its arguments and parameters,
        which are calibrated once, and with their own noise. The template itself is not played. None
        for a pool that is already in the journal.
    journal : dpoco.journal.Journal, optional
        Makes every batch durable before its decisions are returned. Without one, see `save`. This
        and all following arguments are keyword-only.
    name : str, default "pool"
        Name of the pool in the journal; its streams are ``<name>/<key>``.
    workers : int, default 1
        Number of threads that play learners in parallel. Decisions do not depend on it.
    max_keys : int, default 10000
        Largest number of keys that the pool will ever have. It is public and enters the guarantee
        of some learners.
    adaptive : bool, default True
        Whether earlier releases may influence under which key and in which round a person's record
        comes. False promises that they do not. This makes the guarantee stronger for learners
        without a better proof; see ``docs/privacy/pools.md``.
    privacy_unit : {"record", "user"}
        What the guarantee protects: one record, or all records of one person.
    rounds_per_user, keys_per_user : int, default 1
        For "user": the largest number of records of one person under one key, and of keys with
        records of that person. The pool does not count keys of a person: you promise their number,
        and the guarantee says so.
    separation_per_key : int, default 1
        For "user": the smallest distance between two records of a person under one key, in rounds
        of its learner; it makes the guarantee stronger. Learners with a `dpoco.Participation` bring
        both numbers of records with them. If it is enforced, each learner enforces it among its own
        records; otherwise you promise them.
    same_unit : bool, default False
        For the journal's ledger: see `dpoco.accounting.ledger.Ledger.charge`.

    Raises
    ------
    BudgetExceeded
        If the journal's ledger does not pay for the whole pool, which is charged when it is made.
    CalibrationError, ValueError
        If there is no guarantee with these terms.
    StateError
        If the pool in the journal has other terms or learners.
    TypeError
        If a pool cannot play this learner.

    Notes
    -----
    Keys are text, whole numbers or bytes. They are public, and so are their numbers of records: a
    first record reveals its key. Learners are made when their keys first come, or by `register`.

    One thread at a time may use the pool; a second one is refused. O(1) per record beyond the
    learner's own round. A small learner takes four to eight kilobytes. A pool in a journal loads
    learners when their keys come; from 100,000 on it lets go of them, and loads them again.

    Examples
    --------
    >>> import dpoco
    >>> best, *others = dpoco.choose(3, horizon=1000, budget=dpoco.Budget(1.0, 1e-6))
    >>> pool = dpoco.scale.KeyedPool(best.make())
    >>> decisions = pool.process(["ann", "bob", "ann"], [[0, 1, 1], [1, 0, 1], [0, 1, 1]])
    >>> pool.round("ann"), pool.round("bob"), len(pool)
    (2, 1, 2)
    """

    _key: EncryptionKey | None = None  # under which files are written

    def __init__(
        self,
        make: Callable[[], Any] | Any = None,
        *,
        journal: Journal | None = None,
        name: str = "pool",
        workers: int = 1,
        max_keys: int = 10_000,
        adaptive: bool = True,
        privacy_unit: literals.Unit = "record",
        rounds_per_user: int = 1,
        keys_per_user: int = 1,
        separation_per_key: int = 1,
        same_unit: bool = False,
    ) -> None:
        rule = rounds_per_user, keys_per_user, separation_per_key
        terms = Terms(max_keys, adaptive, privacy_unit, *rule)
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError("name must be a text that is not empty and has no '/'")
        if journal is not None and not isinstance(journal, Journal):
            raise TypeError(f"journal must be a Journal; got {type(journal).__name__}")
        if make is None and journal is None:
            raise TypeError("make must be a learner, or return one")
        prototype: Any = None if make is None else make_prototype(make)
        if journal is not None:
            prototype = enroll(journal, name, prototype, terms, same_unit)
        self._open(prototype, terms, workers, journal, name)

    def _open(
        self,
        prototype: OnlineLearner,
        terms: Terms,
        workers: int,
        journal: Journal | None,
        name: str,
    ) -> None:
        """Open a pool whose prototype is known, new or not, in memory or in a journal."""
        self._workers = positive_int("workers", workers, maximum=1024)
        self._begin(prototype, terms)
        self._journal, self._name = journal, name
        self._learners: LearnersInMemory | LearnersInJournal
        if journal is None:
            self._learners = LearnersInMemory(prototype, self._family)
        else:
            self._learners = LearnersInJournal(journal, name, prototype, self._family)
            self._number(self._learners.keys())

    # -- rounds -----------------------------------------------------------------------------------

    def process(
        self, keys: Any, *arrays: ArrayLike, batch: int | None = None, person: Persons = None
    ) -> Releases:
        """Play a batch of records, each with the learner of its key.

        Parameters
        ----------
        keys : sequence of n keys, or array
            Keys of these records; no set, which has no order. Records of one key are played in
            their order.
        *arrays : array_like, first axis n
            Arguments of the learner's own ``run``: features and labels, gradients, losses, or
            contexts and rewards of all arms.
        batch : int, optional
            Number of the batch, increasing; only with a journal. If a batch with this number was
            committed, the new one is compared with it, and its decisions are returned again. You
            may therefore send batches any number of times. The last 256 are kept.
        person : array_like of int, str or bytes with shape (n,)
            The persons behind the records, if the learners enforce a participation. For each key
            separately, a record beyond the limit silently counts as zero.

        Returns
        -------
        ndarray of int64, shape (n,), or of float64, shape (n, d)
            The decision before each record, in the order of the records; read-only.

        Raises
        ------
        HorizonExceeded
            If some learner has fewer rounds left than records; nothing is played.
        BudgetExceeded
            If there would be more than `max_keys` keys; nothing is played.
        ReplayMismatch
            If a batch with that number was played for other keys or records; nothing is played.
        RoundOrderError
            If another thread uses the pool, a bandit's decision waits for its reward, or some
            learner has no room for more people; nothing is played.
        ValueError, TypeError
            For a wrong shape or dtype; nothing is played.
        OSError, StateError, JournalFenced
            From the journal; nothing was released and nothing is lost.

        Notes
        -----
        The decisions equal those of separate learners, bit for bit. With a journal, the method
        makes one transaction.
        """
        with self._alone():
            parts, _, rows, names = self._batch(keys, arrays, person)
            if batch is not None:
                whole_number("batch", batch, 0, LARGEST_HORIZON)
            return self._learners.play(
                rows, parts, names, self._workers, batch, lambda: self._number(rows.fresh)
            )

    def decide(self, key: Key, *context: ArrayLike) -> Any:
        """Return the current decision of a key's learner, making it if new; see its `decide`.

        Parameters
        ----------
        key : str, int or bytes
        *context
            Only for a bandit.
        """
        learner, decide = self._show(key), self._learners.decide
        return decide(learner, *context) if context else decide(learner)

    def observe(self, key: Key, *record: ArrayLike, person: Person = None) -> None:
        """End a round of a key's learner; see its `observe`. A journal commits once."""
        if person is None:
            self._learners.observe(self._show(key), *record)
        else:
            self._learners.observe(self._show(key), *record, person=person)

    def register(self, keys: Iterable[Key]) -> None:
        """Make the learners of these keys now; with a journal, in one transaction.

        Raises
        ------
        BudgetExceeded
            If there would be more than `max_keys` keys; none is made.
        """
        with self._alone():
            # Each key counts once: two learners of one key would answer it with different noise.
            values = dict.fromkeys(each_key(keys))
            fresh = [key for key in values if key not in self._index]
            check_fresh(len(self._index), fresh, self._terms.max_keys)
            # Without new keys there is nothing to commit: a look at a key costs no disk.
            if fresh:
                self._learners.add(fresh)
                self._number(fresh)

    def _show(self, key: Any) -> Any:
        """Return the learner of a key for one call, making it if it is new."""
        name = check_key(key)
        slot = self._index.get(name)
        if slot is None:
            self.register([name])
            slot = self._index[name]
        return self._learners.show(slot)

    def _renew(self) -> None:
        if isinstance(self._learners, LearnersInJournal) and self._learners.stale:
            self._learners.refresh()
            self._index = {key: slot for slot, key in enumerate(self._learners.keys())}

    # -- facts ------------------------------------------------------------------------------------

    @property
    def max_keys(self) -> int:
        """Largest allowed number of keys."""
        return self._terms.max_keys

    @property
    def last_batch(self) -> int:
        """Number of the last batch in the journal; -1 if there is none."""
        if self._journal is None:
            raise ValueError("batch numbers need a journal")
        with self._journal._guard():
            return BatchLog(self._journal, self._name).last

    def round(self, key: Key) -> int:
        """Return the number of completed rounds of a key; 0 for a key without a learner."""
        slot = self._index.get(check_key(key))
        return 0 if slot is None else int(self._learners.show(slot).round)

    def __getitem__(self, key: Key) -> Any:
        """Return a key's learner, or with a journal its stream; `KeyError` if there is none."""
        return self._learners.show(self._index[check_key(key)])

    def __repr__(self) -> str:
        kind = type(self._prototype).__name__
        return f"<KeyedPool of {kind}, at most {self.max_keys} keys: {self._guarantee!r}>"

    # -- files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, key: EncryptionKey | None = None) -> None:
        """Write all learners to one file that `load` continues bit for bit.

        The file holds noise keys and raw sums of private data: guard it like the data, and never
        continue it twice on different data. `key` encrypts it (default: the key that the pool was
        loaded or saved with). A pool with a journal needs no file: `ValueError`.
        """
        self._key = given_key("key", key, self._key)
        if not isinstance(self._learners, LearnersInMemory):
            raise ValueError("this pool is in a journal: back up the journal instead")
        with self._alone():
            states = self._learners.state_parts()
            record = {
                "kind": KIND,
                "learner": json.loads(stored_header(self._prototype)),
                "terms": asdict(self._terms),
                "keys": [key_text(key) for key in self._index],
                "sizes": [len(state) for state in states],
            }
            write_atomically(path, pack(record, b"".join(states)), self._key)

    @classmethod
    def load(
        cls: type[Self],
        path: str | os.PathLike[str],
        *,
        workers: int = 1,
        key: EncryptionKey | None = None,
        readable_by_others: bool = False,
    ) -> Self:
        """Continue a saved pool, bit for bit; its terms are in the file.

        `key` and `readable_by_others` as in `dpoco.load`.

        Raises
        ------
        StateError
            If the file is corrupt, truncated, foreign or from a newer format, or encrypted under no
            key or another one than given; nothing is loaded.
        OSError
            If it cannot be read.
        """
        prototype, terms, keys, learners = read_pool(read_state(path, key))
        # A plain file is as secret as the data.
        if key is None and not readable_by_others:
            refuse_readable(Path(path), Path(path).stat())
        pool = cls.__new__(cls)
        pool._key = key
        pool._open(prototype, terms, workers, None, "")
        assert isinstance(pool._learners, LearnersInMemory)
        pool._learners.put(learners)
        pool._number(keys)
        return pool
