"""The same pool on Ray: shards as actors, each with its own journal.

A shard opens its journal at the first request, and again after each restart. Nothing else that it
keeps matters, and a repeated request has the effect of one. The pool repeats its requests to an
actor, and waits for restarts, until the actor has answered.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _literals as literals
from dpoco._files import write_atomically
from dpoco._validation import (
    LARGEST_HORIZON,
    Fields,
    Named,
    import_package,
    positive_float,
    positive_int,
    whole_number,
)
from dpoco.errors import DpocoError, HorizonExceeded, StateError
from dpoco.journal import Journal
from dpoco.learning.families import Arrays, Parts, Releases, stored_header
from dpoco.learning.participation import Persons
from dpoco.scale._keyed_learners import Names
from dpoco.scale._keys import (
    Key,
    Terms,
    check_key,
    group_rows,
    key_text,
    make_prototype,
    play_keyed,
    restore_prototype,
    sibling,
)
from dpoco.scale._pool import KeyedPool, Pool


class Routing:
    """The number of shards and the key of the hash, kept in the directory of the shards.

    The hash has a key so that users who choose keys cannot choose shards. It is public otherwise.

    Parameters
    ----------
    directory : path-like
        Made if there is none.
    shards : int
        Must be what it was before.
    """

    def __init__(self, directory: str | os.PathLike[str], shards: int) -> None:
        self._directory = Path(directory).absolute()
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.shards = shards
        path = self._directory / "shards.json"
        try:
            record = json.loads(path.read_text())
            salt = bytes.fromhex(record["salt"])
            known = record["shards"]
        except FileNotFoundError:
            # This is written before any shard is made: a key that came to another shard would get
            # a second learner there.
            salt, known = secrets.token_bytes(16), shards
            record = {"kind": "dpoco.shards", "salt": salt.hex(), "shards": shards}
            write_atomically(path, json.dumps(record).encode())
        except (KeyError, TypeError, ValueError):
            raise StateError("shards.json is corrupt") from None
        # Keys would go to other shards, and get second learners there.
        if known != shards:
            raise StateError(f"the directory holds {known} shards; they cannot become {shards}")
        self._salt = salt
        self._places: dict[Key, int] = {}

    def directory(self, shard: int) -> str:
        """Return the directory of a shard's journal."""
        return str(self._directory / f"shard-{shard:04d}")

    def shard(self, key: Key) -> int:
        """Return the shard of a key, from 0 on."""
        place = self._places.get(key)
        if place is None:
            text = key_text(key).encode()
            digest = hashlib.blake2b(text, key=self._salt, digest_size=8).digest()
            place = self._places[key] = int.from_bytes(digest, "little") % self.shards
        return place


class Actors:
    """Actors of one class, restarted by Ray whenever they die; their methods must be idempotent.

    Parameters
    ----------
    ray : module
    kind : type
        Class of the actors.
    arguments : list of tuple
        Arguments of the constructor, for each actor.
    options : mapping
        Ray's options of an actor.
    patience : float
        Seconds to wait for an actor that died.
    """

    def __init__(
        self,
        ray: Any,
        kind: type,
        arguments: list[tuple[Any, ...]],
        options: Named,
        patience: float,
    ) -> None:
        self._ray, self._patience = ray, patience
        # Ray itself must repeat no request: it knows nothing of rounds.
        actor = ray.remote(**{**options, "max_restarts": -1, "max_task_retries": 0})(kind)
        self.handles = [actor.remote(*each) for each in arguments]

    def ask_all(self, *task: Any) -> list[Any]:
        """Return the answers of all actors to one question, a method and its arguments."""
        numbers = range(len(self.handles))
        answers = self.ask(dict.fromkeys(numbers, task))
        return [answers[number] for number in numbers]

    def ask(self, tasks: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Return the answers of some actors, each to its question.

        Raises
        ------
        TimeoutError
            If an actor that died is not back in time.
        Exception
            The first of the actors' own errors, once the others have answered.
        """
        errors = self._ray.exceptions
        answers: dict[int, Any] = {}
        failure: BaseException | None = None
        waiting = dict(tasks)
        deadline, pause = time.monotonic() + self._patience, 0.01
        while waiting:
            asked = {
                number: getattr(self.handles[number], method).remote(*arguments)
                for number, (method, *arguments) in waiting.items()
            }
            waiting = {}
            for number, answer in asked.items():
                try:
                    # The pool waits for all answers, even after a failure: no shard plays on while
                    # the caller handles the failure.
                    answers[number] = self._ray.get(answer)
                except errors.RayActorError:
                    waiting[number] = tasks[number]  # whether it was done, its journal knows
                except errors.RayTaskError as error:
                    failure = failure or _cause(error)
            if failure is not None:
                raise failure from None
            if waiting:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(waiting)} shards are down: send the batch again")
                time.sleep(pause)
                # A restart takes seconds: longer pauses load the cluster less.
                pause = min(2.0 * pause, 1.0)
        return answers

    def stop(self) -> None:
        """End all actors for good."""
        for handle in self.handles:
            self._ray.kill(handle, no_restart=True)
        self.handles = []


def _cause(error: Any) -> BaseException:
    """Return an actor's own error: without the text of Ray, which quotes where it came from."""
    cause = getattr(error, "cause", None)
    own: BaseException = error
    return cause if isinstance(cause, (DpocoError, OSError, TypeError, ValueError)) else own


class Shard:
    """A `KeyedPool` with its own journal.

    Parameters
    ----------
    header : str
        The header from which learners are made: `stored_header`.
    directory : str
        Directory of the journal.
    terms : dict
        Terms of the whole pool.
    workers : int
        Threads.
    """

    def __init__(self, header: str, directory: str, terms: Fields, workers: int) -> None:
        self._header, self._directory = header, directory
        self._terms, self._workers = terms, workers
        self._pool: Any = None

    def _open_pool(self) -> Any:
        """Return the shard's pool, opened on first use and again after a restart of the actor."""
        if self._pool is None:
            Path(self._directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            # Opening it fences an actor that Ray has given up and that may still run.
            journal = Journal(Path(self._directory) / "releases.db")
            try:
                self._pool = KeyedPool(
                    restore_prototype(self._header),
                    journal=journal,
                    workers=self._workers,
                    **self._terms,
                )
            except BaseException:
                journal.close()
                raise
        return self._pool

    def state(self) -> tuple[int, list[Key]]:
        """Return the number of the last batch and the keys."""
        pool = self._open_pool()
        return pool.last_batch, pool.keys()

    def check(self, batch: int, keys: list[Key], names: Names) -> None:
        """Raise if rounds or people of a batch find no room; a batch that was played passes."""
        pool = self._open_pool()
        # The batch is sent again: it will be compared with its digests and not be played.
        if batch <= pool.last_batch:
            return
        rows = group_rows(pool._index, keys, pool.max_keys)
        for slot, piece in zip(rows.slots.tolist(), rows.pieces, strict=True):
            own, stream = rows.rows[piece], pool._learners.show(slot) if slot < len(pool) else None
            if len(own) + (0 if stream is None else stream.round) > pool._prototype.horizon:
                raise HorizonExceeded(
                    "fewer rounds are left to a learner than records have come for it"
                )
            if names is not None:
                # The learner of a new key has counted no one, so a learner made only for this check
                # gives the same answer.
                learner = sibling(pool._prototype) if stream is None else stream._learner
                learner._digests(names[own], len(own))

    def process(self, batch: int, keys: list[Key], arrays: Arrays, names: Names = None) -> Releases:
        """Play a batch of records with these keys and people, or repeat it."""
        decisions: Releases = self._open_pool().process(keys, *arrays, batch=batch, person=names)
        return decisions

    def decide(self, key: Key) -> Any:
        """Return the decision of a key."""
        return self._open_pool().decide(key)

    def round(self, key: Key) -> int:
        """Return the rounds of a key."""
        return int(self._open_pool().round(key))

    def process_id(self) -> int:
        """Return the number of this process."""
        return os.getpid()

    def close(self) -> None:
        """Let go of the journal."""
        if self._pool is not None:
            self._pool._journal.close()
            self._pool = None


class RayPool(Pool):
    """A `KeyedPool` in several processes or machines, with keys spread over Ray actors.

    Every shard is an actor with a `dpoco.journal.Journal` in its own directory. If a shard dies,
    Ray starts it again. It continues from its journal, and the pool sends it again what it has not
    acknowledged. Batches have numbers, so nothing is lost and nothing is played twice.

    Parameters
    ----------
    make : learner, or callable without arguments that returns one
        As for `KeyedPool`; the same each time the directory is opened.
    shards : int
        Number of actors, fixed when the directory is made. This and all following arguments are
        keyword-only.
    journal_directory : path-like
        Directory of the journals, on a disk that every machine of the cluster can write if actors
        move between machines.
    max_keys, adaptive, privacy_unit, rounds_per_user, keys_per_user, separation_per_key
        As for `KeyedPool`; `max_keys` is for all shards together.
    workers : int, default 1
        Threads of each shard.
    patience : float, default 60
        Seconds to wait for a shard that died.
    actor_options : mapping, optional
        More options of the actors, such as ``{"num_cpus": 2}``.

    Raises
    ------
    ImportError
        Without Ray: ``pip install 'dpoco[ray]'``.
    StateError
        If the directory has another number of shards, other learners or terms.

    Notes
    -----
    Only one program may use the directory: a second one takes the journals over, and the first
    raises `JournalFenced`. Shards keep no ledger: charge `guarantee` to yours. Ray itself stores
    batches in memory that other programs of the same user can read, and its cluster trusts its
    network: protect both as you protect the records.
    """

    def __init__(
        self,
        make: Callable[[], Any] | Any,
        *,
        shards: int,
        journal_directory: str | os.PathLike[str],
        max_keys: int = 10_000,
        adaptive: bool = True,
        privacy_unit: literals.Unit = "record",
        rounds_per_user: int = 1,
        keys_per_user: int = 1,
        separation_per_key: int = 1,
        workers: int = 1,
        patience: float = 60.0,
        actor_options: Named | None = None,
    ) -> None:
        ray = import_package("ray", "RayPool", "ray")
        number = positive_int("shards", shards, maximum=10_000)
        seconds, threads = positive_float("patience", patience), positive_int("workers", workers)
        rule = rounds_per_user, keys_per_user, separation_per_key
        terms = Terms(max_keys, adaptive, privacy_unit, *rule)
        self._begin(make_prototype(make), terms)
        self._routing = Routing(journal_directory, number)
        # No shard has been asked yet how far it is.
        self._fresh, self._stale = True, False
        header, places = stored_header(self._prototype), map(self._routing.directory, range(number))
        arguments = [(header, place, asdict(terms), threads) for place in places]
        self._shards = Actors(ray, Shard, arguments, actor_options or {}, seconds)
        try:
            self._refresh()
        except BaseException:
            self._shards.stop()
            raise

    def _refresh(self) -> None:
        """Ask the shards how far they are."""
        # Keys are in the order of the shards, which may differ from the order of first records.
        states = self._shards.ask_all("state")
        self._index = {}
        for _, keys in states:
            self._number(keys)
        # The shards set this number only at the beginning: a batch that failed is sent again under
        # its number, though some shards may have played it.
        if self._fresh:
            self._last: int = max(last for last, _ in states)
        self._fresh = self._stale = False

    # -- rounds -----------------------------------------------------------------------------------

    def process(
        self, keys: Any, *arrays: ArrayLike, batch: int | None = None, person: Persons = None
    ) -> Releases:
        """Play a batch of records, each with the learner of its key; see `KeyedPool.process`.

        Parameters
        ----------
        keys : sequence of n keys, or array
        *arrays : array_like, first axis n
        batch : int, optional
            Number of the batch, increasing; default: one more than the last. Pass it to send a
            batch again after this program itself has died. Shards that have played it return what
            they released, and the others play it.
        person : array_like of int, str or bytes with shape (n,)
            As for `KeyedPool.process`.

        Returns
        -------
        ndarray of int64, shape (n,), or of float64, shape (n, d)
            The decision before each record; read-only.

        Raises
        ------
        HorizonExceeded, BudgetExceeded, RoundOrderError, ValueError, TypeError
            As for `KeyedPool.process`; no shard has played anything.
        ReplayMismatch, OSError, StateError, JournalFenced
            As for `KeyedPool.process`, but other shards may have played their part. Send the batch
            again under its number (the default stays the same until one succeeds); those shards
            refuse another batch.
        TimeoutError
            If a shard is not back within `patience`; send the batch again.
        """
        with self._alone():
            parts, listed, rows, people = self._batch(keys, arrays, person)
            number = self._last + 1 if batch is None else batch
            whole_number("batch", number, 0, LARGEST_HORIZON)
            pieces = self._pieces(listed)
            own = {shard: [listed[i] for i in at.tolist()] for shard, at in pieces.items()}
            who = {shard: None if people is None else people[at] for shard, at in pieces.items()}
            # The pool asks all shards first: none may play a part of a batch that another refuses.
            if len(pieces) > 1:  # one shard alone checks for itself, before it plays
                self._shards.ask({n: ("check", number, own[n], who[n]) for n in pieces})
            self._stale = True  # until all shards have answered
            answers = self._shards.ask(
                {
                    n: ("process", number, own[n], tuple(part[at] for part in parts), who[n])
                    for n, at in pieces.items()
                }
            )
            self._stale = False
            self._last = max(self._last, number)
            self._number(rows.fresh)
            return self._join(pieces, answers, parts)

    def _pieces(self, names: list[Key]) -> dict[int, NDArray[np.int64]]:
        """Return the rows of every shard that is concerned."""
        shards = np.array([self._routing.shard(name) for name in names], dtype=np.int64)
        return {shard: np.flatnonzero(shards == shard) for shard in np.unique(shards).tolist()}

    def _join(self, pieces: Any, answers: dict[int, Releases], parts: Parts) -> Releases:
        """Return the shards' decisions in the order of the records, read-only."""
        none, first = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        out = play_keyed(self._family, self._prototype, [], first, none, parts, 1)  # undefined yet
        for shard, at in pieces.items():
            out[at] = answers[shard]
        out.flags.writeable = False
        return out

    def decide(self, key: Key, *context: ArrayLike) -> Any:
        """Return the current decision of a key's learner, making it if new.

        For learners whose decisions need no context: bandits play in batches.
        """
        # A shard that dies between decision and reward would forget the context.
        if self._family.contextual or context:
            raise TypeError("bandits on a cluster play in batches: see process()")
        name = check_key(key)
        with self._alone():
            rows = group_rows(self._index, [name], self._terms.max_keys)
            shard = self._routing.shard(name)
            self._stale = bool(rows.fresh)
            decision = self._shards.ask({shard: ("decide", name)})[shard]
            self._number(rows.fresh)
            self._stale = False
            return decision

    # -- shards -----------------------------------------------------------------------------------

    def _renew(self) -> None:
        if self._stale:  # shards may have keys of a batch that failed elsewhere
            self._refresh()

    def close(self) -> None:
        """Let the shards close their journals, and stop them."""
        with self._alone():
            self._stale = False
            try:
                self._shards.ask_all("close")
            finally:
                self._shards.stop()

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- facts ------------------------------------------------------------------------------------

    @property
    def last_batch(self) -> int:
        """The largest batch number that some shard has played; -1 if there is none."""
        return self._last

    def round(self, key: Key) -> int:
        """Return the number of completed rounds of a key; 0 for a key without a learner."""
        name = check_key(key)
        if name not in self._index:
            return 0
        shard = self._routing.shard(name)
        rounds: int = self._shards.ask({shard: ("round", name)})[shard]
        return rounds

    def __repr__(self) -> str:
        kind = type(self._prototype).__name__
        return (
            f"<RayPool of {kind}, {self._routing.shards} shards, at most {self._terms.max_keys} "
            f"keys: {self._guarantee!r}>"
        )
