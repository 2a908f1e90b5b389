"""Groups of streams that see disjoint data, forks of one stream, and the upkeep of a journal.

Claim: streams of which a person's record is in one, which may be chosen in reaction to everything
released, have together the guarantee of `dpoco.accounting.pools.pool_guarantee`: that of one
learner for draws with fresh noise, that with the tails of all streams for couplings, the purely
private epsilon for others that have one, and otherwise the deltas of all streams added up.

Proof: ``docs/privacy/pools.md`` and ``docs/privacy/journal.md``, section "Groups".

A fork has two continuations, accounted as two charges.

Claim: everything that learners with fresh noise release consists of draws, each of which costs,
given all that was drawn before, no more than its share of the guarantee. A record that
both continuations see is in the draws before the fork and in both sets of draws after it: together
no more than in two runs. Others keep noise across rounds (a noisy threshold, the state of a
coupling), for which that is not proved here.

Proof: ``docs/privacy/journal.md``, section "Forks".

Upkeep is retention, compaction and rotation of keys.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpoco._state import _class_of
from dpoco._validation import positive_int
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.pools import noise_of, pool_guarantee
from dpoco.errors import RoundOrderError, StateError
from dpoco.journal._keys import KEY_BYTES
from dpoco.journal._releases import CONTEXT, Chunk, Recipe, decoded, encoded
from dpoco.journal._rows import Rows
from dpoco.journal._transaction import round_number
from dpoco.learners import learner_of
from dpoco.random import Source

if TYPE_CHECKING:
    from dpoco.journal._journal import Journal
    from dpoco.journal._stream import Stream


_LARGEST = 2**31


@dataclass(frozen=True)
class Group:
    """What a caller says of the group of a stream.

    Attributes
    ----------
    name : str
        Any text.
    size : int or None
        Largest number of its streams, ever; None: as the first one said.
    """

    name: str
    size: int | None

    @classmethod
    def of(cls, name: str | None, size: int | None) -> Group | None:
        """Return the group of the arguments of `Journal.open`; None if there is none."""
        if name is None:
            if size is not None:
                raise TypeError("group_size is for streams of a group")
            return None
        if not isinstance(name, str):
            raise TypeError(f"group must be a text; got {type(name).__name__}")
        if size is not None:
            size = positive_int("group_size", size, maximum=_LARGEST)
        return cls(name, size)


def join(rows: Rows, group: Group, learner: Any) -> Guarantee | None:
    """Enter a learner, within a transaction: what is to be charged; None if that is done already.

    Raises
    ------
    CalibrationError
        If the learner's delta does not pay for a group of that size at any epsilon.
    StateError
        If the group is full.
    TypeError, ValueError
        If the group is new and has no size, if it has another one, or other learners.
    """
    place = f"group {group.name}"
    alike = {"kind": learner._kind, "guarantee": _written(learner.guarantee)}
    text = rows.value(place)
    if text is None:
        if group.size is None:
            raise TypeError(
                "a new group needs group_size, the largest number of streams it will ever have"
            )
        charge = pool_guarantee(learner.guarantee, keys=group.size, noise=noise_of(learner))
        rows.put_value(place, json.dumps({**alike, "size": group.size, "streams": 1}))
        return charge
    try:
        record = json.loads(text)
        size, streams = int(record["size"]), int(record["streams"])
        known = {name: record[name] for name in alike}
    except (KeyError, TypeError, ValueError):
        raise StateError("the journal is corrupt: not a group") from None
    if group.size not in (None, size):
        raise ValueError(f"the group {group.name!r} was made for {size} streams")
    if known != alike:
        raise ValueError(
            f"the group {group.name!r} is charged for another guarantee: its streams must be alike"
        )
    if streams >= size:
        raise StateError(
            f"the group {group.name!r} is full: it is charged for {size} streams, whatever becomes "
            "of them"
        )
    rows.put_value(place, json.dumps({**record, "streams": streams + 1}))
    return None


def _written(guarantee: Guarantee) -> str:
    return json.dumps(guarantee.to_dict(), sort_keys=True)


_LONGEST = 4096  # rounds of a merged chunk


def _existing(journal: Journal, name: str) -> Stream:
    stream = journal._known(name)
    if stream is None:
        raise StateError(f"there is no stream {name!r}")
    return stream


def forget(journal: Journal, name: str, before_round: int) -> int:
    """Delete chunks that end before a round; see `Journal.forget`."""
    before = round_number("before_round", before_round)
    with journal.transaction():
        stream = _existing(journal, name)
        stream._ready()
        if before > stream._round:
            raise RoundOrderError(f"the stream is in round {stream._round}")
        if before <= stream._row.kept_from:
            return stream._row.kept_from
        # The chunk that holds round `before`, if there is one, begins what is kept.
        rows, row = journal._rows, stream._row
        stop = min(before + 1, stream._round)
        kept = next((chunk.first for chunk in rows.chunks(row.id, before, stop)), before)
        rows.drop_chunks(row.id, 0, kept)
        row = replace(row, kept_from=kept)
        rows.put_stream(row)
    stream._row = row
    return kept


def compact(journal: Journal, name: str) -> int:
    """Merge neighbouring chunks under one key; see `Journal.compact`."""
    merged = 0
    with journal.transaction():
        stream = _existing(journal, name)
        stream._ready()
        group: list[Chunk] = []
        kept = journal._rows.chunks(stream._row.id, stream._row.kept_from, stream._round)
        for chunk in [*kept, None]:
            rounds = sum(part.count for part in group)
            recipe = chunk is not None and Recipe.of(chunk.releases) is not None
            if group and (
                chunk is None
                or recipe
                or chunk.key != group[0].key
                or rounds + chunk.count > _LONGEST
            ):
                if len(group) > 1:
                    _merge(journal, stream, group)
                    merged += len(group)
                group = []
            if chunk is not None and not recipe:
                group.append(chunk)
    return merged


def _merge(journal: Journal, stream: Stream, group: list[Chunk]) -> None:
    first, stop = group[0].first, group[-1].stop
    releases = np.concatenate([decoded(chunk.releases, chunk.count) for chunk in group])
    digests = b"".join(chunk.digests for chunk in group)
    journal._rows.drop_chunks(stream._row.id, first, stop)
    whole = Chunk(stream._row.id, first, group[0].key, digests, encoded(releases))
    journal._rows.add_chunks([whole])


def rotate_key(journal: Journal, key: bytes | None) -> None:
    """Seal all listed rows under a new key, and delete keys that nothing needs; see there."""
    if key is None:
        if not journal._rows.keeps_keys:
            raise ValueError("keys that are not in a KeyFile are the caller's: name the new one")
        key = secrets.token_bytes(KEY_BYTES)
    with journal.transaction():
        unneeded = journal._rows.rotate(key) - _keys_of_pending(journal)
    if unneeded:
        journal._store.settle()  # or a power cut might bring back what needs them
        with journal.transaction():
            journal._rows.retire(unneeded)


def _keys_of_pending(journal: Journal) -> set[int]:
    """Return the numbers of the keys under which rounds of bandits were begun."""
    rows, keys = journal._rows, set()
    for name in rows.names():
        row = rows.stream(name)
        assert row is not None
        pending = rows.state(row.id).pending
        known = learner_of(_class_of(json.loads(row.header).get("kind")))
        if pending and known is not None and known.plays == "arms":
            keys.add(CONTEXT.unpack_from(pending)[0])
    return keys


def check_forkable(learner: Any) -> None:
    """Raise `TypeError` for a learner whose two continuations no proof covers."""
    if learner._noise != "fresh":
        raise TypeError(
            f"a {learner._kind} cannot be forked: it keeps noise across rounds, and no proof here "
            "covers two continuations of it"
        )


def renew(learner: Any) -> None:
    """Give a learner a new key: all noise from here on is fresh, what was drawn stays."""
    claim = Source()._claim()
    learner._engine.rekey(claim["key"], claim["stream"])
