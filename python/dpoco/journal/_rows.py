"""The rows of a journal: each sealed in its place, and all but the releases listed by the head.

Claim: a read returns what was written last at that place of this journal, or raises `StateError`;
and if a row is not in the list, it was never written. The proof does not rely on where rows lie,
or on whether an index finds them: the writer knows places, seals and their sum since it opened the
journal.

On request every body is encrypted for its place in this journal; the seal covers the stored bytes.
The claim then also holds for damage that an adversary chooses.

Proof: ``docs/privacy/journal.md``, "Damage".
"""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import NoReturn

import numpy as np

from dpoco._encryption import EncryptionKey, decrypt
from dpoco.errors import JournalFenced, StateError
from dpoco.journal._keys import KeyRing, RowSeals, key_fingerprint
from dpoco.journal._releases import (
    CONTEXT,
    Chunk,
    Head,
    Recipe,
    StateRow,
    StreamRow,
    decode,
    encode,
)
from dpoco.journal._store import RELEASES, Row, Store
from dpoco.learners import find_learner
from dpoco.learning.state import find_class

_HEAD, _TEXT, _HEADER, _STREAM, _STATE = range(RELEASES)
_TOTAL_BYTES = 16
# Databases have signed integers of 64 bits: no row has a larger number.
_END = 2**63 - 1
# To read one round, its whole chunk is read and opened: this limits the work.
_LONGEST = 4096  # rounds of a merged chunk
_LISTED = struct.Struct("<QQQ")
_ROUND = struct.Struct("<Q")
_BOUND = struct.Struct("<QQQQ")
_HEAD_CONTEXT = b"journal"

Place = tuple[int, int, int]


class Rows:
    """The rows of a store under the keys of a ring, written by the writer that `take` made.

    Parameters
    ----------
    store : Store
        The caller begins and ends its transactions; all methods are called within one, or read.
    ring : KeyRing
        The keys of this process.
    cipher : EncryptionKey or None
        The key that encrypts bodies.
    """

    head: Head  # of the last commit
    _next: Head  # of the one to come

    def __init__(self, store: Store, ring: KeyRing, cipher: EncryptionKey | None) -> None:
        self._store, self._ring = store, ring
        self._cipher = self._next_cipher = cipher  # for reads, and for writes
        self._row: Row | None = None  # the row that holds the head
        self._listed: dict[Place, bytes] = {}  # seals of all rows but the releases
        self._changes: dict[Place, bytes] = {}  # changed seals since the last commit
        self._streams = self._stored = 0  # number of streams now, and at the last commit
        self.changed = False  # whether anything was written since the last commit
        self.certain = False  # whether the store certainly has the last commit
        self._headers: dict[bytes, str] = {}
        self._seals: dict[bytes, RowSeals] = {}

    # -- the list ---------------------------------------------------------------------------------

    def take(self, fresh: bool) -> bool:
        """Read all listed rows, as a new writer; return whether the journal is new.

        `fresh`: this transaction makes the store, which may therefore be empty.
        """
        self._ring.read()
        row = self._store.read(_HEAD, 0, 0)
        # The first head and the table are committed together: an older table without a head is
        # damaged.
        if row is None and fresh:
            self.head = Head(secrets.token_bytes(16), 0, b"", 0, bytes(_TOTAL_BYTES), {})
        else:
            self._load(row)
        self.forget()
        # If two writers both continue a copy of the store, the epoch alone would not tell them
        # apart.
        writer = secrets.token_bytes(16)
        self._next = replace(self.head, epoch=self.head.epoch + 1, writer=writer)
        return row is None

    def begin_keys(self) -> None:
        """Choose the first key of a new journal."""
        self._next = replace(self._next, keys={1: key_fingerprint(self._ring.first())})

    def refresh(self) -> None:
        """Raise unless the journal is as this writer has left it, within a transaction."""
        row = self._store.read(_HEAD, 0, 0)
        # If the head is the last one that this writer wrote, to the bit, there is nothing to
        # check.
        if self.certain and row == self._row:
            return
        head, mine = None if row is None else self._read_head(row), self.head
        if head is None or head.uid != mine.uid:
            raise StateError("the store holds another journal than the one that was opened")
        if (head.epoch, head.writer) != (mine.epoch, mine.writer):
            raise JournalFenced("another writer has opened the journal since")
        # The store may be one ahead: a commit reported an error but is durable.
        if head.sequence not in (mine.sequence, mine.sequence + 1):
            raise StateError("the journal was replaced by an older copy while it was open")
        self._load(row)
        self.forget()

    def _load(self, row: Row | None) -> None:
        """Read head and list, and check them against each other; `StateError` for damage."""
        if row is None:
            raise StateError("the journal is corrupt: it has no head")
        head = self._read_head(row)
        if self._open(row, (_HEAD, 0, 0), head) is None:
            raise StateError("the journal is corrupt: its head is not as it was written")
        found = self._store.list_rows()
        listed = {(a, b, c): seal for a, b, c, seal in found if a != _HEAD}
        try:  # a row that occurs twice is one too many, whatever the index says
            total = _total(_sum(listed.items(), _sum_key(head, self._cipher)))
            good = len(listed) == len(found) - 1 and total == head.total
        except (struct.error, TypeError):  # damaged types
            good = False
        if not good:
            raise StateError("the journal is corrupt: its rows are not those that were written")
        # Streams are never deleted, so their number is the place of the next one.
        self._stored = sum(place[0] == _STREAM for place in listed)
        self.head, self._row, self._listed, self.certain = head, row, listed, True

    def forget(self) -> None:
        """Drop what was written since the last commit."""
        self._changes, self.changed, self._next = {}, False, self.head
        self._streams, self._next_cipher = self._stored, self._cipher

    def commit(self) -> None:
        """Write the head, and make it durable together with what was written."""
        listed, changes = self._listed, self._changes
        before = _sum_key(self.head, self._cipher)
        now = _sum_key(self._next, self._next_cipher)
        # The sum is updated by differences, so that a commit costs time for its own rows and not
        # for the whole journal. Only a change of the key changes all terms.
        if now == before:
            gone = _sum([(place, listed[place]) for place in changes if place in listed], now)
            total = int.from_bytes(self.head.total, "little") - gone + _sum(changes.items(), now)
        else:
            total = _sum({**listed, **changes}.items(), now)
        head = replace(self._next, sequence=self._next.sequence + 1, total=_total(total))
        self._next = head
        row = self._seal((_HEAD, 0, 0), head.to_bytes())
        # Until `commit` returns, this process does not know what the store has.
        self.certain = False
        self._store.put([row])
        self._store.commit()
        self._listed.update(self._changes)
        self.head, self._row, self.certain = head, row, True
        self._stored, self._cipher = self._streams, self._next_cipher
        self.forget()

    # -- seals ------------------------------------------------------------------------------------

    @property
    def keeps_keys(self) -> bool:
        """Whether there is a file for the keys."""
        return self._ring.file is not None

    @property
    def current(self) -> int:
        """Number of the key for new rows."""
        return self._next.key

    def key(self, number: int) -> bytes:
        """Return a key, or raise `StateError` if this process does not have it."""
        if number not in self._next.keys:
            self._raise_damage()
        return self._ring.find(self._next.keys[number])

    def _under(self, number: int, head: Head) -> RowSeals:
        """Return the seals under one of the head's keys, derived once."""
        fingerprint = head.keys[number]
        seals = self._seals.get(fingerprint)
        if seals is None:
            seals = self._seals[fingerprint] = RowSeals(self._ring.find(fingerprint), head.uid)
        return seals

    def _seal(self, place: Place, body: bytes, key: int = 0) -> Row:
        """Return the row of a body, encrypted if there is a cipher, and sealed as it is stored."""
        number = key or self._next.key
        if self._next_cipher is not None:
            body = b"".join(self._next_cipher.seal(_context(place, number, self._next), body))
        seal = self._under(number, self._next).seal(*place, number, body)
        return Row(*place, number, seal, body)

    def _open(self, row: Row, place: Place, head: Head | None = None) -> bytes | None:
        """Return the body of a row that was written at its place; None for any other row."""
        head = head or self._next
        *numbers, seal, body = row
        # Damage can change types: SQLite stores any value in any column.
        if not all(type(number) is int and number >= 0 for number in numbers):
            return None
        if row[:3] != place or row.key not in head.keys or type(body) is not bytes:
            return None
        if self._under(row.key, head).seal(*place, row.key, body) != seal:
            return None
        if self._cipher is None:
            return body
        return self._cipher.open(_context(place, row.key, head), body)

    def _read_head(self, row: Row) -> Head:
        """Return the head of a row whose seal is not checked yet."""
        body = row.body if type(row.body) is bytes else b""
        how = "Journal.encrypt"
        return Head.from_bytes(decrypt(body, _HEAD_CONTEXT, self._cipher, "journal", how))

    def _raise_damage(self) -> NoReturn:
        """Raise `StateError`, or `JournalFenced` if another writer explains what was found."""
        row = self._store.read(_HEAD, 0, 0)
        # If another writer has replaced a row since, the row looks damaged by this writer's list.
        if row is not None and row != self._row:
            head = self._read_head(row)
            if head.uid == self.head.uid and head.writer != self.head.writer:
                raise JournalFenced("another writer has opened the journal since")
        raise StateError("the journal is corrupt: a row is not as it was written")

    def _body(self, place: Place) -> bytes | None:
        """Return the body of a listed row; None if nothing was written there."""
        seal = self._changes.get(place) or self._listed.get(place)
        if seal is None:
            return None
        row = self._store.read(*place)
        body = None if row is None or row.seal != seal else self._open(row, place)
        if body is None:
            self._raise_damage()
        return body

    def _put(self, entries: Iterable[tuple[Place, bytes]]) -> None:
        """Write or replace listed rows."""
        rows = [self._seal(place, body) for place, body in entries]
        self._store.put(rows)
        self._changes.update({row[:3]: row.seal for row in rows})
        self.changed = True

    def _id(self, name: str) -> int:
        """Return the number of a name's row: a keyed digest, so that rows do not show names."""
        digest = hashlib.blake2b(name.encode(), key=self.head.uid, digest_size=8).digest()
        # Keep 63 bits, since the databases' integers have a sign.
        return int.from_bytes(digest, "little") >> 1

    # -- texts ------------------------------------------------------------------------------------

    def value(self, name: str) -> str | None:
        """Return the text stored under a name."""
        body = self._body((_TEXT, 0, self._id(name)))
        title = f"{name}\0".encode()
        if body is None:
            return None
        # Two names may have the same 63 bits: the body contains the name of its row.
        if not body.startswith(title):
            self._raise_damage()
        return body[len(title) :].decode()

    def put_value(self, name: str, text: str) -> None:
        """Write or replace the text stored under a name."""
        self._put([((_TEXT, 0, self._id(name)), f"{name}\0{text}".encode())])

    # -- streams ----------------------------------------------------------------------------------

    def _places(self, kind: int) -> set[Place]:
        """Return the places of all listed rows of a kind."""
        return {place for place in (*self._listed, *self._changes) if place[0] == kind}

    def names(self) -> list[str]:
        """Return the names of all streams, in the order of their opening."""
        found = []
        # The index may miss rows, so each listed place must come exactly once.
        places = self._places(_STREAM)
        for row in self._store.span(_STREAM, 0, 0, _END):
            place = row[:3]
            body = self._open(row, place) if place in places else None
            if body is None:
                self._raise_damage()
            places.remove(place)
            found.append(StreamRow.from_bytes(body)[0])
        if places:
            self._raise_damage()
        return [row.name for row in sorted(found, key=lambda row: row.place)]

    def stream(self, name: str) -> StreamRow | None:
        """Return the stream of that name; None if it certainly does not exist."""
        body = self._body((_STREAM, 0, self._id(name)))
        if body is None:
            return None
        row, digest = StreamRow.from_bytes(body)
        if row.name != name:
            self._raise_damage()
        header = self._headers.get(digest)
        if header is None:
            text = self._body((_HEADER, 0, _number(digest)))
            # The place of a header has 63 bits of its digest; the stream's row has the whole
            # digest.
            if text is None or hashlib.sha256(text).digest() != digest:
                self._raise_damage()
            header = self._headers[digest] = text.decode()
        return replace(row, header=header)

    def add_stream(self, name: str, header: str, origin: str, kept_from: int) -> StreamRow:
        """Add a stream; equal headers are stored once."""
        uid = secrets.token_bytes(16)
        row = StreamRow(self._id(name), name, uid, header, origin, kept_from, self._streams)
        self.put_stream(row)
        self._streams += 1
        return row

    def put_stream(self, row: StreamRow) -> None:
        """Write or replace a stream."""
        text = row.header.encode()
        digest = hashlib.sha256(text).digest()
        entries = [((_STREAM, 0, row.id), row.to_bytes(digest))]
        place = (_HEADER, 0, _number(digest))
        if place not in self._listed and place not in self._changes:
            entries.append((place, text))
        self._put(entries)

    def state(self, stream: int) -> StateRow:
        """Return the state of a stream."""
        body = self._body((_STATE, 0, stream))
        if body is None:
            self._raise_damage()
        return StateRow.from_bytes(stream, body)

    def put_states(self, rows: Iterable[StateRow]) -> None:
        """Write or replace states, and the tables of people of those that have one."""
        entries = []
        for row in rows:
            entries.append(((_STATE, 0, row.stream), row.to_bytes()))
            if row.people:
                entries.append(((_STATE, 1, row.stream), _ROUND.pack(row.round) + row.people))
        self._put(entries)

    def people(self, stream: int) -> tuple[int, bytes]:
        """Return the table of people, and its number of rounds; empty if never stored."""
        body = self._body((_STATE, 1, stream))
        return (0, b"") if body is None else (_ROUND.unpack_from(body)[0], body[_ROUND.size :])

    # -- releases ---------------------------------------------------------------------------------

    def chunks(self, stream: int, start: int, stop: int) -> Iterator[Chunk]:
        """Yield the chunks that hold the rounds start, ..., stop - 1, in order."""
        if start >= stop:
            return
        at: int | None = None
        for row in self._store.span(RELEASES, stream, start, stop):
            body = self._open(row, (RELEASES, stream, row.number))
            if body is None:
                self._raise_damage()
            chunk = Chunk.from_bytes(stream, row.number, row.key, body)
            # The first chunk may begin before `start`; the others follow without a gap or an
            # overlap.
            if chunk.first > start if at is None else chunk.first != at:
                break
            at = chunk.stop
            yield chunk
        if at is None or at < stop:
            raise StateError("the journal is corrupt: releases are missing")

    def add_chunks(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks; a second one with the same first round fails."""
        self._store.add(
            # The same key seals a chunk and digests its records. So `rotate` leaves releases as
            # they are, and `keys_in_use` reads from one column which keys they need.
            [self._seal((RELEASES, c.stream, c.first), c.to_bytes(), c.key) for c in chunks]
        )
        self.changed = True

    def drop_chunks(self, stream: int, start: int, stop: int) -> None:
        """Remove the chunks whose first round is one of start, ..., stop - 1."""
        self._store.drop(RELEASES, stream, start, stop)
        self.changed = True

    def merge(self, stream: int, start: int, stop: int) -> int:
        """Merge neighbouring small chunks of these rounds; return by how many their number fell."""
        merged = 0
        for group in _mergeable(self.chunks(stream, start, stop)):
            if len(group) > 1:
                self._replace(group)
                merged += len(group)
        return merged

    def _replace(self, group: list[Chunk]) -> None:
        """Replace neighbouring chunks by one chunk."""
        stream, first, key = group[0].stream, group[0].first, group[0].key
        releases = np.concatenate([decode(chunk.releases, chunk.count) for chunk in group])
        digests = b"".join(chunk.digests for chunk in group)
        people = b"".join(chunk.people for chunk in group)
        self.drop_chunks(stream, first, group[-1].stop)
        self.add_chunks([Chunk(stream, first, key, digests, encode(releases), people)])

    # -- keys -------------------------------------------------------------------------------------

    def encrypt(self, cipher: EncryptionKey) -> None:
        """Write all rows again under a new cipher; each is first read under the old one."""
        # Rows are read under `_cipher` until the commit, and written under this one.
        self._next_cipher = cipher
        for name in self.names():
            row = self.stream(name)
            assert row is not None
            at, stop = row.kept_from, self.state(row.id).round
            while at < stop:
                for chunk in self.chunks(row.id, at, min(at + _LONGEST, stop)):
                    place = (RELEASES, row.id, chunk.first)
                    self._store.put([self._seal(place, chunk.to_bytes(), chunk.key)])
                    at = chunk.stop
        self._put_listed_again()

    def _put_listed_again(self) -> None:
        """Write all listed rows under the next key and the next cipher."""
        for place in self._listed:
            body = self._body(place)
            if body is not None:
                self._put([(place, body)])

    def rotate(self, key: bytes) -> set[int]:
        """Seal all listed rows under another key; return the numbers of keys that seal none."""
        if key_fingerprint(key) in self._next.keys.values():
            raise ValueError("the journal has used this key before: pass a new key")
        self._ring.add(key, self._next.keys.values())  # store the key before the journal needs it
        number = self._next.key + 1
        self._next = replace(self._next, keys={**self._next.keys, number: key_fingerprint(key)})
        self._put_listed_again()
        # Digests of records are one-way, so the replay of a kept round needs its own key.
        unused = set(self._next.keys) - self._store.keys_in_use() - {number}
        return unused - self._keys_of_pending()

    def _keys_of_pending(self) -> set[int]:
        """Return the numbers of the keys under which rounds of bandits were begun."""
        keys = set()
        for name in self.names():
            row = self.stream(name)
            assert row is not None
            pending = self.state(row.id).pending
            known = find_learner(find_class(json.loads(row.header).get("kind")))
            if pending and known is not None and known.plays == "arms":
                keys.add(CONTEXT.unpack_from(pending)[0])
        return keys

    def retire(self, numbers: Collection[int]) -> None:
        """Delete unneeded keys, in a transaction after the one that ceased to need them.

        The keys are deleted first, then the journal's entries for them. After a crash in between,
        the next call removes the entries.
        """
        keys = self._next.keys  # another thread may have rotated in between and removed some
        self._ring.drop({name for number, name in keys.items() if number in numbers})
        left = {number: name for number, name in keys.items() if number not in numbers}
        self._next = replace(self._next, keys=left)
        self.changed = True


def _mergeable(chunks: Iterable[Chunk]) -> Iterator[list[Chunk]]:
    """Yield neighbours that may be merged: stored releases, under one key, and not too many."""
    group, rounds = list[Chunk](), 0
    for chunk in chunks:
        # A recipe begins with the state before its first round, so two recipes do not make one. A
        # row names one key for all its digests.
        recipe = Recipe.of(chunk.releases) is not None
        if recipe or (group and chunk.key != group[0].key) or rounds + chunk.count > _LONGEST:
            yield group
            group, rounds = [], 0
        if not recipe:
            group.append(chunk)
            rounds += chunk.count
    yield group


def _context(place: Place, key: int, head: Head) -> bytes:
    """Return the context that binds an encrypted body: its place, its key's number, its journal."""
    # The head contains the journal's identity, so the head is opened before the identity is known.
    return _HEAD_CONTEXT if place[0] == _HEAD else _BOUND.pack(*place, key) + head.uid


def _number(digest: bytes) -> int:
    """Return 63 bits of a digest, which fit into the signed integers of databases."""
    return int.from_bytes(digest[:8], "little") >> 1


def _sum_key(head: Head, cipher: EncryptionKey | None) -> bytes:
    """Return the key of the total; if the head is encrypted, it is a secret of the head."""
    # The writer's token is in the encrypted head alone: without the encryption key no other rows
    # with the same total can be found (docs/privacy/journal.md, "Chosen damage").
    return head.uid if cipher is None else head.writer


def _sum(rows: Iterable[tuple[Place, bytes]], key: bytes) -> int:
    """Return the sum over the places and seals of rows, each hashed to a number under a key."""
    empty, total = hashlib.blake2b(key=key, digest_size=_TOTAL_BYTES), 0
    for place, seal in rows:
        hasher = empty.copy()
        hasher.update(_LISTED.pack(*place) + seal)
        total += int.from_bytes(hasher.digest(), "little")
    return total


def _total(total: int) -> bytes:
    """Return the bytes of a sum modulo 2^128, as the head contains them."""
    return (total % (1 << 8 * _TOTAL_BYTES)).to_bytes(_TOTAL_BYTES, "little")
