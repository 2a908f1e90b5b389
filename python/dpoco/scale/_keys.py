"""The keys of a pool, its terms, and the learners behind the keys.

Keys are text, whole numbers or bytes. A learner of a pool is a sibling of the first one, calibrated
once, with its own noise: it shares what is public and never changes (arguments, parameters,
guarantee, domain) and has a compiled learner with its own key. That is thousands of times as
fast as calibration. Rounds of many learners are one compiled call, without the interpreter lock.
"""

from __future__ import annotations

import itertools
import json
import operator
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from dpoco import _core
from dpoco._validation import IntArray, positive_int
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.pools import pool_guarantee, read_noise
from dpoco.errors import BudgetExceeded, StateError
from dpoco.learning.families import (
    Answers,
    Bandits,
    Experts,
    Family,
    Nets,
    Parts,
    Releases,
    Sums,
    Vectors,
    learner_family,
)
from dpoco.learning.learner import OnlineLearner, empty_rows
from dpoco.learning.participation import Persons
from dpoco.learning.state import Stateful, find_class
from dpoco.random import Source


@dataclass(frozen=True)
class Terms:
    """The terms of a pool, which are public and stored with it.

    Attributes
    ----------
    max_keys : int
        Largest number of keys, in [1, 2^31].
    adaptive, privacy_unit, rounds_per_user, keys_per_user, separation_per_key
        As for `KeyedPool`.
    """

    max_keys: int = 10_000
    adaptive: bool = True
    privacy_unit: str = "record"
    rounds_per_user: int = 1
    keys_per_user: int = 1
    separation_per_key: int = 1

    def __post_init__(self) -> None:
        """Check the number of keys; the guarantee checks the rest."""
        positive_int("max_keys", self.max_keys, maximum=2**31)

    def guarantee(self, prototype: OnlineLearner) -> Guarantee:
        """Return what holds for a pool of learners like the prototype."""
        terms = asdict(self)
        keys = terms.pop("max_keys")
        return pool_guarantee(prototype.guarantee, keys=keys, noise=read_noise(prototype), **terms)


Key = str | int | bytes


def check_key(value: object) -> Key:
    """Return a key as the pool keeps it, or raise `TypeError`."""
    if type(value) is int or isinstance(value, (str, bytes)):
        return value
    # True is 1 to a dictionary, and would get the learner of the key 1.
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"a key must be a str, an int or bytes; got {type(value).__name__}")
    return operator.index(value)


def each_key(keys: Any) -> list[Key]:
    """Return keys as a list; `TypeError` for a single key, or for entries that are not keys."""
    # A text is a sequence of texts: its letters would become keys.
    if isinstance(keys, (str, bytes, Mapping)):
        raise TypeError(f"keys must be a sequence of keys; got {type(keys).__name__}")
    if isinstance(keys, np.ndarray):
        if keys.ndim != 1 or keys.dtype.kind not in "iuUO":
            raise TypeError(
                "keys must be a one-dimensional array of texts or whole numbers; bytes must be a "
                "list, since an array drops trailing zeros"
            )
        values: list[Any] = keys.tolist()
    else:
        # Scalars of pyarrow are not Python's texts.
        values = keys.to_pylist() if hasattr(keys, "to_pylist") else list(keys)
    # Looking at the types is many times as fast as a call for every key.
    if not set(map(type, values)) <= {str, int, bytes}:
        return [check_key(value) for value in values]
    return values


def key_list(keys: Any, rounds: int) -> list[Key]:
    """Return the keys of `rounds` records as a list, or raise."""
    # The order of a set differs from run to run: records would go to the learners of other keys.
    if isinstance(keys, Set):
        raise TypeError("keys must be a sequence of keys: a set has no order")
    values = each_key(keys)
    if len(values) != rounds:
        raise ValueError(f"keys must name {rounds} records; got {len(values)}")
    return values


def key_text(key: Key) -> str:
    """Return a text that only this key has, and that `key_from_text` reads."""
    # The text begins with the key's type, since 7, "7" and b"7" are three keys.
    if isinstance(key, str):
        return "s:" + key
    return "b:" + key.hex() if isinstance(key, bytes) else f"i:{key}"


def key_from_text(text: str) -> Key:
    """Return the key that `key_text` wrote."""
    kind, rest = text[:2], text[2:]
    if kind == "s:":
        return rest
    if kind == "b:":
        return bytes.fromhex(rest)
    if kind == "i:":
        return int(rest)
    raise ValueError("not a key")


class Rows(NamedTuple):
    """The records of a batch by key.

    Attributes
    ----------
    slots : ndarray of int64, shape (k,)
        Numbers of the keys in the batch, increasing.
    offsets : ndarray of int64, shape (k + 1,)
        Where each one's records begin and end in `rows`.
    rows : ndarray of int64, shape (n,)
        Rows of the batch, those of one key together and in their order.
    fresh : list
        Keys that the pool does not know yet, in the order of their first records; their numbers
        follow those of the pool.
    """

    slots: IntArray
    offsets: IntArray
    rows: IntArray
    fresh: list[Key]

    @property
    def pieces(self) -> list[slice]:
        """Where each key's records are in `rows`."""
        return [slice(*pair) for pair in itertools.pairwise(self.offsets.tolist())]

    @property
    def counts(self) -> IntArray:
        """Records of each key."""
        return np.diff(self.offsets)


def person_names(prototype: OnlineLearner, persons: Persons, rounds: int) -> Releases | None:
    """Return the people of a batch's records, an array; None if they need no names."""
    # The learner says what is wrong: people that it does not count, or needs and does not get.
    if prototype._limiter is None or persons is None:
        prototype._digests(persons, rounds)
        return None
    names = prototype._limiter.names(persons, rounds)
    return names if isinstance(names, np.ndarray) else np.array(names, dtype=object)


def entering(
    family: Family, learners: list[Any], people: list[bytes], rows: IntArray, parts: Parts
) -> Parts:
    """Return the records, made empty where a participation keeps them out. This counts people."""
    if not learners or learners[0]._limiter is None:
        return parts
    # This follows the order of a key's records: the first records of a person enter.
    passed = np.empty(parts[0].shape[0], dtype=np.bool_)
    pairs = zip(learners, people, strict=True)
    passed[rows] = np.concatenate([x._limiter.admit(x.round, own) for x, own in pairs])
    at = int(family.contextual)
    return (*parts[:at], empty_rows(parts[at], passed), *parts[at + 1 :])


def group_rows(index: dict[Key, int], keys: list[Key], limit: int) -> Rows:
    """Return which records belong to which key; `BudgetExceeded` for more than `limit` keys.

    Parameters
    ----------
    index : dict
        Numbers of the known keys, from 0 on.
    keys : list
        Keys of the records.
    limit : int
        Largest number of keys.

    Notes
    -----
    O(n log n).
    """
    rows = Rows(*_core.group_rows(index, keys))
    check_fresh(len(index), rows.fresh, limit)
    return rows


def check_fresh(known: int, fresh: list[Key], limit: int) -> None:
    """Raise `BudgetExceeded` if the fresh keys are more than the guarantee covers."""
    # Some guarantees grow with the number of keys (docs/privacy/pools.md): no key beyond it.
    if known + len(fresh) > limit:
        raise BudgetExceeded(
            f"{len(fresh)} new keys, {limit - known} left of the {limit} that the guarantee covers"
        )
    for key in fresh:
        # Names of a journal's streams and keys in files are UTF-8.
        if isinstance(key, str) and any("\ud800" <= letter <= "\udfff" for letter in key):
            raise ValueError("a key must be a text that UTF-8 can carry")


def family_for(learner: object) -> Family:
    """Return the family of a pool's learners, or raise `TypeError` for what it cannot play."""
    from dpoco.losses import QuadraticLoss

    family = learner_family(learner)
    if isinstance(family, (Sums, Answers)):
        raise TypeError(f"a pool needs a learner; a {type(learner).__name__} makes no decisions")
    if isinstance(getattr(learner, "loss", None), QuadraticLoss):
        raise TypeError("a pool cannot play quadratic losses: they come one by one")
    return family


def make_prototype(make: Any) -> Any:
    """Return the unstarted learner that `make` is or makes."""
    learner = make if isinstance(make, Stateful) else make()
    # This check comes before any look at private attributes, which other objects do not have.
    family_for(learner)
    learner._check_active()
    if learner._is_started():
        raise StateError("the learners of a pool are made from one that has not started")
    return learner


def restore_prototype(header: str) -> Any:
    """Return an unstarted learner of a stored header; it has no noise key: make siblings of it."""
    try:
        record = json.loads(header)
        return find_class(record.get("kind"))._assemble(record["object"])
    except StateError:
        raise
    except Exception as error:  # the text may quote the file; its kind is enough
        raise StateError(f"the pool's description is refused ({type(error).__name__})") from None


def sibling(prototype: OnlineLearner) -> Any:
    """Return an unstarted learner like the prototype, with a fresh key."""
    # A seeded source gives the i-th key of a pool the same noise in every run.
    source = prototype._arguments["source"]
    return prototype._sibling((Source() if source is None else source.spawn())._claim())


def check_records(family: Family, prototype: Any, parts: Parts) -> None:
    """With ``on_violation="raise"``, raise `ValueError` for records over the bounds."""
    if not prototype._raises or parts[0].shape[0] == 0:
        return
    if isinstance(family, Vectors):
        prototype._refuse_violations(parts[0], parts[1] if len(parts) > 1 else None)
    elif isinstance(family, Bandits):
        prototype._refuse_contexts(parts[0], 0)
        prototype._refuse_rewards(parts[1], 0)
    else:
        prototype._refuse_violations(parts[0], 0)


def play_keyed(
    family: Family,
    prototype: Any,
    engines: list[Any],
    offsets: IntArray,
    rows: IntArray,
    parts: Parts,
    workers: int,
) -> Releases:
    """Play a batch and return the decision before each record, (n,) int64 or (n, d) float64.

    Parameters
    ----------
    family, prototype
        What the learners are.
    engines : list
        Compiled learners, each once.
    offsets, rows : ndarray of int64
        Engine i plays rows[offsets[i]], ..., rows[offsets[i + 1] - 1] of `parts`, in this order.
    parts : tuple of ndarray
        Records, first axis n. Rows that no engine plays stay undefined in what is returned.
    workers : int
        Threads.

    Raises
    ------
    HorizonExceeded, RoundOrderError, StateError
        Before anything is drawn: nothing was played.
    """
    n = parts[0].shape[0]
    # Losses of all decisions, which compiled code writes and a pool does not return.
    own = np.empty(n)
    if isinstance(family, Vectors):
        decisions: Releases = np.empty((n, prototype.domain.dimension))
        labels = parts[1] if len(parts) > 1 else None
        arrays: tuple[Any, ...] = (parts[0], labels, own, decisions)
    elif isinstance(family, (Experts, Nets)):
        decisions = np.empty(n, dtype=np.int64)
        arrays = (parts[0], own, decisions)
    else:
        decisions = np.empty(n, dtype=np.int64)
        arrays = (*parts, decisions, own)
    if engines:
        type(engines[0]).run_keyed(engines, offsets, rows, *arrays, workers)
    if isinstance(family, Nets):
        # Without engines nothing was written to `decisions`: any number may be there.
        places = np.where((decisions >= 0) & (decisions < len(prototype.points)), decisions, 0)
        return np.asarray(prototype.points[places])
    return decisions
