"""One shard of a cluster's pool: which keys it holds, how it is asked, what runs inside its actor.

A shard opens its journal when it is first asked, again after each restart, and keeps nothing else
that matters: whatever it is asked twice it answers once. Actors are asked until they have answered:
restarts are waited for, questions repeated.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._state import write_atomically
from dpoco.errors import DpocoError, HorizonExceeded, StateError
from dpoco.scale._keys import Key, key_text


class Routing:
    """The number of shards and the key of the hash, kept in the directory of the shards.

    The hash has a key so that nobody who chooses keys can choose shards. It is public otherwise.

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
            salt, known = secrets.token_bytes(16), shards
            record = {"kind": "dpoco.shards", "salt": salt.hex(), "shards": shards}
            write_atomically(path, json.dumps(record).encode())
        except (KeyError, TypeError, ValueError):
            raise StateError("shards.json is corrupt") from None
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


def imported_ray() -> Any:
    """Return the module, or raise `ImportError` that names the extra."""
    try:
        import ray
    except ImportError:
        raise ImportError("RayPool needs Ray: pip install 'dpoco[ray]'") from None
    return ray


class Actors:
    """Actors of one class, restarted by Ray whenever they die; their methods must be idempotent.

    Parameters
    ----------
    ray : module
    kind : type
        Class of the actors.
    arguments : list of tuple
        Of the constructor, for each actor.
    options : mapping
        Of Ray.
    patience : float
        Seconds for which an actor that died is waited for.
    """

    def __init__(
        self,
        ray: Any,
        kind: type,
        arguments: list[tuple[Any, ...]],
        options: Mapping[str, Any],
        patience: float,
    ) -> None:
        self._ray, self._patience = ray, patience
        # Ray itself repeats nothing: it knows nothing of rounds.
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
                    answers[number] = self._ray.get(answer)
                except errors.RayActorError:
                    waiting[number] = tasks[number]  # whether it was done, its journal knows
                except errors.RayTaskError as error:
                    failure = failure or _cause(error)
            if failure is not None:
                raise failure from None
            if waiting:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(waiting)} shards are not back: send the batch again")
                time.sleep(pause)
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
    """A `KeyedPool` with a journal of its own.

    Parameters
    ----------
    header : str
        What the learners are made of: `header_of`.
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
            from dpoco.scale._keys import described
            from dpoco.scale._pool import KeyedPool

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

    def process_id(self) -> int:
        """Return the number of this process."""
        return os.getpid()

    def close(self) -> None:
        """Let go of the journal."""
        if self._pool is not None:
            self._pool._journal.close()
            self._pool = None
