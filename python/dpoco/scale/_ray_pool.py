"""The same pool on Ray: shards as actors, each with a journal of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._families import Parts, header_of
from dpoco._validation import positive_float, positive_int
from dpoco.scale._keys import Key, Terms, key_of, play_keyed, prototype_of, rows_of
from dpoco.scale._pool import Pool
from dpoco.scale._ray_shard import Actors, Routing, Shard, imported_ray


class RayPool(Pool):
    """A `KeyedPool` in several processes or machines: keys are spread over Ray actors.

    Every shard is an actor with a `dpoco.journal.Journal` in a directory of its own. A shard that
    dies is started again by Ray, continues from its journal, and is sent again what it has not
    acknowledged: batches have numbers, so nothing is lost and nothing is played twice.

    Parameters
    ----------
    make : learner, or callable without arguments that returns one
        As for `KeyedPool`; the same one each time the directory is opened.
    shards : int
        Number of actors; fixed when the directory is made. Keyword-only, as all below.
    journal_directory : path-like
        Where the journals are, on a disk that every machine of the cluster may write if actors
        move between machines.
    max_keys, adaptive, privacy_unit, rounds_per_user, keys_per_user
        As for `KeyedPool`; `max_keys` is for all shards together.
    workers : int, default 1
        Threads of each shard.
    patience : float, default 60
        Seconds for which a shard that died is waited for.
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
    The caller's program is the only one that uses the directory: a second one takes the journals
    over, and the first raises `JournalFenced`. No ledger is kept in the shards: charge `guarantee`
    to the one that you keep. Ray itself stores batches in memory that other programs of the same
    user can read, and its cluster trusts its network: protect it as you protect the records.
    """

    def __init__(
        self,
        make: Callable[[], Any] | Any,
        *,
        shards: int,
        journal_directory: str | os.PathLike[str],
        max_keys: int = 10_000,
        adaptive: bool = True,
        privacy_unit: str = "record",
        rounds_per_user: int = 1,
        keys_per_user: int = 1,
        workers: int = 1,
        patience: float = 60.0,
        actor_options: Mapping[str, Any] | None = None,
    ) -> None:
        ray = imported_ray()
        number = positive_int("shards", shards, maximum=10_000)
        seconds, threads = positive_float("patience", patience), positive_int("workers", workers)
        terms = Terms(max_keys, adaptive, privacy_unit, rounds_per_user, keys_per_user)
        self._begin(prototype_of(make), terms)
        self._routing = Routing(journal_directory, number)
        self._fresh, self._stale = True, False
        header, places = header_of(self._prototype), map(self._routing.directory, range(number))
        arguments = [(header, place, terms.to_dict(), threads) for place in places]
        self._shards = Actors(ray, Shard, arguments, actor_options or {}, seconds)
        try:
            self._refresh()
        except BaseException:
            self._shards.stop()
            raise

    def _refresh(self) -> None:
        """Ask the shards how far they are."""
        states = self._shards.ask_all("state")
        self._index = {}
        for _, keys in states:
            self._number(keys)
        if self._fresh:
            self._last: int = max(last for last, _ in states)
        self._fresh = self._stale = False

    # -- rounds -----------------------------------------------------------------------------------

    def process(self, keys: Any, *arrays: Any, batch: int | None = None) -> NDArray[Any]:
        """Play a batch of records, each with the learner of its key; see `KeyedPool.process`.

        Parameters
        ----------
        keys : sequence of n keys, or array
        *arrays : array_like, first axis n
        batch : int, optional
            Number of the batch, growing; default: one more than the last. Name it to send a batch
            again after this program itself has died: shards that have played it return what they
            released, the others play it.

        Returns
        -------
        ndarray of int64, shape (n,), or of float64, shape (n, d)
            The decision before each record; read-only.

        Raises
        ------
        HorizonExceeded, BudgetExceeded, RoundOrderError, ValueError, TypeError
            As there; no shard has played anything.
        ReplayMismatch, OSError, StateError, JournalFenced
            As there; but other shards may have played their part. Send the batch again under its
            number, by default the same until one succeeds: another batch is refused by them.
        TimeoutError
            If a shard is not back within `patience`. Send the batch again.
        """
        with self._alone():
            parts, names, rows = self._batch(keys, arrays)
            number = self._last + 1 if batch is None else batch
            if number != 0:
                positive_int("batch", number)
            pieces = self._pieces(names)
            if len(pieces) > 1:  # one shard alone checks for itself, before it plays
                self._shards.ask(
                    {
                        shard: ("check", number, unique, np.bincount(codes).tolist())
                        for shard, (_, unique, codes) in pieces.items()
                    }
                )
            self._stale = True  # until all shards have answered
            answers = self._shards.ask(
                {
                    shard: ("process", number, unique, codes, tuple(part[at] for part in parts))
                    for shard, (at, unique, codes) in pieces.items()
                }
            )
            self._stale = False
            self._last = max(self._last, number)
            self._number(rows.fresh)
            return self._joined(pieces, answers, parts)

    def _pieces(
        self, names: list[Key]
    ) -> dict[int, tuple[NDArray[np.int64], list[Key], NDArray[np.int32]]]:
        """Return rows, keys and each record's key of every shard that is concerned."""
        unique = list(dict.fromkeys(names))
        place = {key: i for i, key in enumerate(unique)}
        codes = np.array([place[name] for name in names], dtype=np.int32)
        shards = np.array([self._routing.shard(key) for key in unique], dtype=np.int64)
        pieces = {}
        for shard in np.unique(shards).tolist():
            mine = np.flatnonzero(shards == shard)
            local = np.full(len(unique), -1, dtype=np.int32)
            local[mine] = np.arange(len(mine), dtype=np.int32)
            numbers = local[codes]
            at = np.flatnonzero(numbers >= 0)
            pieces[shard] = (at, [unique[i] for i in mine.tolist()], numbers[at])
        return pieces

    def _joined(self, pieces: Any, answers: dict[int, NDArray[Any]], parts: Parts) -> NDArray[Any]:
        if answers:
            some = next(iter(answers.values()))
            out = np.empty((parts[0].shape[0], *some.shape[1:]), dtype=some.dtype)
        else:  # no records
            none = np.zeros(0, dtype=np.int64)
            first = np.zeros(1, dtype=np.int64)
            out = play_keyed(self._family, self._prototype, [], first, none, parts, 1)
        for shard, (at, _, _) in pieces.items():
            out[at] = answers[shard]
        out.flags.writeable = False
        return out

    def decide(self, key: Key, *context: Any) -> Any:
        """Return the current decision of a key's learner, made if it is new.

        For learners whose decisions need no context: bandits play in batches.
        """
        if self._family.contextual or context:
            raise TypeError("bandits on a cluster play in batches: see process()")
        name = key_of(key)
        with self._alone():
            rows = rows_of(self._index, [name], self._terms.max_keys)
            shard = self._routing.shard(name)
            self._stale = bool(rows.fresh)
            decision = self._shards.ask({shard: ("decide", name, ())})[shard]
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
        """The largest number of a batch that some shard has played; -1 if there is none."""
        return self._last

    def round(self, key: Key) -> int:
        """Return how many rounds of a key are over; 0 for a key without a learner."""
        name = key_of(key)
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
