"""Retention, compaction and rotation of keys."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

import numpy as np

from dpoco._state import _class_of
from dpoco.bandits._bandit import BanditLearner
from dpoco.errors import RoundOrderError, StateError
from dpoco.journal._digests import StreamDigests
from dpoco.journal._keys import KEY_BYTES, fingerprint_of
from dpoco.journal._records import Chunk
from dpoco.journal._releases import CONTEXT, Recipe, decoded, encoded
from dpoco.journal._transaction import round_number

if TYPE_CHECKING:
    from dpoco.journal._journal import Journal
    from dpoco.journal._stream import Stream

__all__ = ["compact", "forget", "rotate_key"]

_LONGEST = 4096  # rounds of a merged chunk


def _existing(journal: Journal, name: str) -> Stream:
    stream = journal._known(name)
    if stream is None:
        raise StateError(f"there is no stream {name!r}")
    return stream


def forget(journal: Journal, name: str, before_round: int) -> int:
    """Delete chunks that end before a round; see `Journal.forget`."""
    before = round_number("before_round", before_round)
    with journal.transaction() as transaction:
        stream = _existing(journal, name)
        stream._ready()
        if before > stream._round:
            raise RoundOrderError(f"the stream is in round {stream._round}")
        if before <= stream._row.kept_from:
            return stream._row.kept_from
        # The chunk that holds round `before`, if there is one, begins what is kept.
        holding = journal._store.chunks(stream._id, before, before + 1)
        kept = holding[0].first if holding else before
        journal._store.drop_chunks(stream._id, 0, kept)
        journal._store.put_kept_from(stream._id, kept)
        transaction._changed = True
    stream._keep_from(kept)
    return kept


def compact(journal: Journal, name: str) -> int:
    """Merge neighbouring chunks under one key; see `Journal.compact`."""
    merged = 0
    with journal.transaction() as transaction:
        stream = _existing(journal, name)
        stream._ready()
        group: list[Chunk] = []
        for chunk in [*stream._chunks(stream._row.kept_from, stream._round), None]:
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
        transaction._changed = merged > 0
    return merged


def _merge(journal: Journal, stream: Stream, group: list[Chunk]) -> None:
    first, stop = group[0].first, group[-1].stop
    releases = np.concatenate([decoded(chunk.releases, chunk.count) for chunk in group])
    digests = b"".join(chunk.digests for chunk in group)
    under = stream._digests_under(group[0].key)
    journal._store.drop_chunks(stream._id, first, stop)
    whole = under.sealed_chunk(stream._id, first, digests, encoded(releases))
    journal._store.add_chunks([whole])


def _keys_of_pending(header: str, pending: bytes) -> set[int]:
    """Return the number of the key under which a bandit's round was begun, if one was."""
    contextual = issubclass(_class_of(json.loads(header).get("kind")), BanditLearner)
    return {CONTEXT.unpack_from(pending)[0]} if contextual and pending else set()


def rotate_key(journal: Journal, key: bytes | None) -> None:
    """Seal all states under a new key, and drop keys that nothing needs; see there."""
    ring = journal._ring
    if key is None:
        if ring.file is None:
            raise ValueError("keys that are not in a KeyFile are the caller's: name the new one")
        key = secrets.token_bytes(KEY_BYTES)
    with journal.transaction() as transaction:
        ring.add(key)  # before the journal needs it
        number = max(journal._keys) + 1
        if fingerprint_of(key) in journal._keys.values():
            raise ValueError("the journal has used this key before")
        store = journal._store
        store.add_key(number, fingerprint_of(key))
        states, needed = [], {number}
        for name in store.names():
            row = store.stream(name)
            state = None if row is None else store.state(row.id)
            if row is None or state is None:
                raise StateError("the journal is corrupt: a stream without a state")
            StreamDigests(journal._key(state.key), state.key, row.uid).check_state(state)
            fresh = StreamDigests(key, number, row.uid)
            needed |= _keys_of_pending(row.header, state.pending)
            states.append(
                fresh.sealed_state(state.stream, state.round, state.payload, state.pending)
            )
        store.put_states(states)
        needed |= store.keys_in_use()
        for old in set(store.keys()) - needed:
            store.drop_key(old)
        keys = store.keys()
        transaction._changed = True
    journal._keys = keys
    for stream in journal._streams.values():
        stream._renew_digests()
    ring.keep(set(keys.values()))
