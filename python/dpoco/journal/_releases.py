"""The contents of the rows of a journal: learners, and releases, repeated ones stored once.

Layout of releases, rows of doubles or integers, little-endian: "f" (doubles) or "i" (64-bit
integers); width w (u32), 0 for numbers; rounds n (u32); stored rows k (u32); 3 bytes of padding; if
k < n, the rounds at which the stored rows begin, k numbers (i64); the rows.

Instead of releases, a row may hold a recipe, by which releases are computed again from their
records: "r"; 0; rounds n; 0; for each release the sum of its words modulo 2^16 (u16), by which a
different result is noticed; the state of the engine before the first release.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import LARGEST_HORIZON, Fields, whole_number
from dpoco.errors import StateError
from dpoco.learning.families import Releases, continue_learner, learner_family, stored_header
from dpoco.learning.state import FRAME_SIGNATURE, REPLACED_CLAIM, Stateful, find_class, pack, unpack

DIGEST_BYTES = 16
_FORMAT = 2
_HEAD = struct.Struct("<I16sQ16sQ16s")
_KEY = struct.Struct("<I16s")
_STATE = struct.Struct("<QI")
_COUNT = struct.Struct("<I")
_NAMED = 2**31  # added to the number of rounds of a chunk that has people


@dataclass(frozen=True)
class Head:
    """The journal itself.

    Attributes
    ----------
    uid : bytes
        Identity, 16 random bytes.
    epoch : int
        Number of openings for writing.
    writer : bytes
        The token of the last writer.
    sequence : int
        Transactions committed so far.
    total : bytes
        Sum over all listed rows of a digest of place and seal, modulo 2^128. It shows that no row
        is missing, outdated, in another place or extra.
    keys : mapping of int to bytes
        Fingerprints of the keys by number; the largest number is the current key.
    """

    uid: bytes
    epoch: int
    writer: bytes
    sequence: int
    total: bytes
    keys: Mapping[int, bytes]

    @property
    def key(self) -> int:
        """Number of the current key."""
        return max(self.keys)

    def to_bytes(self) -> bytes:
        """Return the row's body."""
        fixed = (_FORMAT, self.uid, self.epoch, self.writer, self.sequence, self.total)
        return _HEAD.pack(*fixed) + b"".join(_KEY.pack(*item) for item in self.keys.items())

    @classmethod
    def from_bytes(cls, body: bytes) -> Head:
        """Return the head with this body; raise `StateError` if `to_bytes` has not written it."""
        try:
            version, uid, epoch, writer, sequence, total = _HEAD.unpack_from(body)
            keys = dict(_KEY.iter_unpack(body[_HEAD.size :]))
        except (struct.error, TypeError):
            keys = {}
        if not keys:
            raise StateError("the journal is corrupt: its head is not as it was written")
        if version != _FORMAT:
            raise StateError(f"the journal has format {version}, this library reads {_FORMAT}")
        return cls(uid, epoch, writer, sequence, total, keys)


@dataclass(frozen=True)
class StreamRow:
    """The facts of a stream that are fixed when it is opened.

    Attributes
    ----------
    id : int
        Number of the stream, from its name.
    name : str
        Name it was opened under.
    uid : bytes
        Identity, 16 random bytes: digests of different streams have different keys.
    header : str
        The learner's description, as JSON; the state's payload is stored separately.
    origin : str
        "" for a stream that was opened, otherwise the place that it was adopted or forked from.
    kept_from : int
        First round whose release is kept.
    place : int
        How many streams were opened before.
    """

    id: int
    name: str
    uid: bytes
    header: str
    origin: str
    kept_from: int
    place: int

    def to_bytes(self, digest: bytes) -> bytes:
        """Return the row's body, which contains the digest of the header instead of the header."""
        fields = {**vars(self), "uid": self.uid.hex(), "header": digest.hex()}
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> tuple[StreamRow, bytes]:
        """Return a row without its header, and the digest of the header."""
        fields = json.loads(body)
        digest = bytes.fromhex(fields["header"])
        return cls(**{**fields, "uid": bytes.fromhex(fields["uid"]), "header": ""}), digest


@dataclass(frozen=True)
class StateRow:
    """The point from which a stream continues: one row, replaced in every transaction.

    Attributes
    ----------
    stream : int
        Number of the stream.
    round : int
        Rounds that are over.
    payload : bytes
        State of the compiled engine after them: secret.
    pending : bytes
        The release of the current round, if it precedes the round's record: already decided.
    people : bytes
        The people of these rounds, stored in another row; if empty, the later chunks name them.
    """

    stream: int
    round: int
    payload: bytes
    pending: bytes
    people: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the row's body."""
        return b"".join((_STATE.pack(self.round, len(self.pending)), self.pending, self.payload))

    @classmethod
    def from_bytes(cls, stream: int, body: bytes) -> StateRow:
        """Return the row of a body."""
        turn, length = _STATE.unpack_from(body)
        middle = _STATE.size + length
        return cls(stream, turn, body[middle:], body[_STATE.size : middle])


def read_payload(learner: Stateful) -> bytes:
    """Return the state of the engine; framed with the tickets, once some were issued."""
    state = learner_family(learner).state(learner)
    book = getattr(learner, "_book", None)
    return state if book is None else pack({"tickets": book.to_record()}, state)


def restore_learner(header: str, payload: bytes, people: bytes, siblings: Fields) -> Any:
    """Return the learner of a stored header and state, and of the people who have come.

    Everything that follows from the header, above all the guarantee, is computed once, for the
    first learner; `siblings` keeps one learner of each header.
    """
    # No engine's state begins like this: these states begin with small numbers.
    framed = payload.startswith(FRAME_SIGNATURE)
    known = None if framed else siblings.get(header)
    if known is not None:
        return continue_learner(known, payload + people)
    record = json.loads(header)
    if framed:
        front, payload = unpack(payload)
        record["object"]["tickets"] = front["tickets"]
    learner = find_class(record.get("kind"))._from_bytes(pack(record, payload + people))
    if "tickets" not in record["object"]:  # each learner has its own tickets
        siblings[header] = learner._sibling(REPLACED_CLAIM)
    return learner


def alike(learner: Stateful, header: str) -> bool:
    """Return whether a learner has the arguments of a stored header.

    The comparison ignores what calibration computes from the arguments, since this may differ
    between versions of the library; the stream keeps its own values.
    """
    ours, theirs = json.loads(stored_header(learner)), json.loads(header)
    if ours["kind"] != theirs["kind"] or ours["object"]["seeded"] != theirs["object"]["seeded"]:
        return False
    own, stored = (learner._complete(each["object"]["arguments"]) for each in (ours, theirs))
    # The begin of a monitor's first interval; headers of older streams do not contain it.
    start = ours["object"].get("start")
    return bool(own == stored and theirs["object"].get("start", start) == start)


@dataclass(frozen=True)
class Chunk:
    """The releases of consecutive rounds that were committed together.

    Attributes
    ----------
    stream : int
        Number of the stream.
    first : int
        The first of the rounds.
    key : int
        Number of the key of `digests`.
    digests : bytes
        16 bytes a round: keyed digest of its record.
    releases : bytes
        The releases, see ``_releases``.
    people : bytes
        16 bytes a round where a participation is enforced: the limiter's digest of its person.
    """

    stream: int
    first: int
    key: int
    digests: bytes
    releases: bytes
    people: bytes = b""

    @property
    def count(self) -> int:
        """Number of rounds."""
        return len(self.digests) // DIGEST_BYTES

    @property
    def stop(self) -> int:
        """The first round after these."""
        return self.first + self.count

    def to_bytes(self) -> bytes:
        """Return the row's body."""
        count = self.count | (_NAMED if self.people else 0)
        return b"".join((_COUNT.pack(count), self.digests, self.people, self.releases))

    @classmethod
    def from_bytes(cls, stream: int, first: int, key: int, body: bytes) -> Chunk:
        """Return the chunk of a body."""
        (count,) = _COUNT.unpack_from(body)
        size = DIGEST_BYTES * (count & ~_NAMED)
        middle = _COUNT.size + size
        end = middle + (size if count & _NAMED else 0)
        digests, people = body[_COUNT.size : middle], body[middle:end]
        return cls(stream, first, key, digests, body[end:], people)


_LAYOUT = struct.Struct("<c3xIII")
# Header of a bandit's pending decision: number of the key, digest of the context.
CONTEXT = struct.Struct("<I16s")
_TYPES = {b"f": np.dtype("<f8"), b"i": np.dtype("<i8")}


def encode(releases: Releases) -> bytes:
    """Return the bytes of releases: (n,) or (n, w), float64 or int64."""
    code = b"f" if releases.dtype.kind == "f" else b"i"
    rows = np.ascontiguousarray(releases, dtype=_TYPES[code])
    rounds = rows.shape[0]
    width = rows.shape[1] if rows.ndim == 2 else 0
    begins = None
    # Every commit writes a state with the next decision, a single row: the usual case stays short.
    if rounds > 1:
        # Compare bits: 0.0 and -0.0 are equal as numbers, but are different releases.
        begins = _begins(rows.view(np.int64).reshape(rounds, max(width, 1)))
    if begins is None:
        head = _LAYOUT.pack(code, width, rounds, rounds)
        return b"".join((head, rows.tobytes()))
    head = _LAYOUT.pack(code, width, rounds, begins.size)
    return b"".join((head, begins.astype("<i8").tobytes(), rows[begins].tobytes()))


def _begins(bits: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return where rows differ from the row before; None if the places would save nothing."""
    rounds, width = bits.shape
    first = bits[1:, 0] != bits[:-1, 0]
    # The places would take about as much space as the rows.
    if 2 * np.count_nonzero(first) >= rounds:
        return None
    changes = first if width == 1 else np.any(bits[1:] != bits[:-1], axis=1)
    begins = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(changes) + 1])
    return None if 2 * begins.size > rounds else begins


@dataclass(frozen=True)
class Recipe:
    """How releases are computed again from their records.

    Attributes
    ----------
    sums : ndarray of uint16, shape (n,)
        A check of each release.
    start : bytes
        State of the engine before the first of them.
    """

    sums: NDArray[np.uint16]
    start: bytes

    @classmethod
    def of(cls, data: bytes) -> Recipe | None:
        """Return the recipe that `kept_form` has written; None if `data` holds releases."""
        if data[:1] != b"r":
            return None
        rounds = _LAYOUT.unpack_from(data)[2]
        place = _LAYOUT.size + 2 * rounds
        return cls(np.frombuffer(data[_LAYOUT.size : place], dtype="<u2"), data[place:])

    @staticmethod
    def compute_sums(releases: Releases) -> NDArray[np.uint16]:
        """Return the checks of releases, (n, w) float64."""
        return _core.row_sums(np.ascontiguousarray(releases)).astype("<u2", copy=False)


def kept_form(releases: Releases, start: bytes | None) -> bytes:
    """Return the bytes to store for releases: a recipe, if it takes less than half, or `encode`.

    `start` is the state of the engine before the releases; with None there is no recipe.
    """
    if start is not None and releases.dtype.kind == "f" and releases.ndim == 2:
        rounds, width = releases.shape
        length = 2 * rounds + len(start)
        # To play again costs time, so a recipe must save at least half of the bytes.
        if 2 * length < 8 * rounds * width:
            whole = np.ascontiguousarray(releases)
            begins = _begins(whole.view(np.int64))
            if begins is None or 2 * length < 8 * begins.size * (width + 1):
                head = _LAYOUT.pack(b"r", 0, rounds, 0)
                return b"".join((head, Recipe.compute_sums(whole).tobytes(), start))
    return encode(releases)


def decode(data: bytes, rounds: int) -> Releases:
    """Return the releases that `encode` has written, read-only; raise `StateError` for other data.

    `rounds` is the number of releases by another record. The head of `data` alone could ask for
    2^32 long rows.
    """
    try:
        code, width, claimed, stored = _LAYOUT.unpack_from(data)
        if claimed != rounds:
            raise ValueError("lengths differ")
        body = data[_LAYOUT.size :]
        places = None
        if stored < rounds:
            places = np.frombuffer(body[: 8 * stored], dtype="<i8")
            body = body[8 * stored :]
        rows = np.frombuffer(body, dtype=_TYPES[code])
        rows = rows.reshape((stored, width) if width else (stored,))
        if places is not None:
            lengths = np.diff(places, append=rounds)
            rows = np.repeat(rows, lengths, axis=0)
        if rows.shape[0] != rounds:
            raise ValueError("lengths differ")
    except (struct.error, ValueError, KeyError):
        raise StateError("the journal is corrupt: releases cannot be read") from None
    rows.flags.writeable = False
    return rows


def round_number(name: str, value: object) -> int:
    """Return `value` as the number of a round, from 0 on, or raise naming the argument."""
    return whole_number(name, value, 0, LARGEST_HORIZON)
