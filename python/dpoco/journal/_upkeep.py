"""Retention, compaction and rotation of keys."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpoco._state import _class_of
from dpoco.bandits._bandit import BanditLearner
from dpoco.errors import RoundOrderError, StateError
from dpoco.journal._keys import KEY_BYTES
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
        kind = _class_of(json.loads(row.header).get("kind"))
        if pending and issubclass(kind, BanditLearner):
            keys.add(CONTEXT.unpack_from(pending)[0])
    return keys
