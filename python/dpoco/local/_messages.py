"""Messages of servers and devices: public specifications of rounds, and the reports on them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import IntArray, positive_int, real_in
from dpoco.local._queries import LossQuery, Query, read_query

Words = NDArray[np.uint64]

CHANNELS = ("bit", "subset", "coordinate")

_REPORT = struct.Struct("<3sBBBQ8s")  # magic, version, channel, simulated, round, digest
_ONE = struct.Struct("<8sI")  # nonce, width
_MANY = struct.Struct("<IQ")  # width, number of reports
# Bytes of one integer on the wire: fixed for a channel, so that length tells nothing.
_FORMATS = {"bit": "<u1", "subset": "<u4", "coordinate": "<u1"}
_RANGES = {"bit": (0, 1), "coordinate": (0, 1), "subset": (0, 2**31 - 1)}
_VERSION = 1
_MAGIC = b"dpocospc"
# Up to the number of queries; the bytes left out, and an index of -1, are of former channels.
_SPEC = struct.Struct("<8sHQBd8xQIIH3xq16s")
_CHECK = 8

LARGEST_BITS = 64
_LARGEST_COUNT = 2**31 - 1


def checked_epsilon(value: Any) -> float:
    """Return `value` as a float in (0, 30], or raise."""
    # Beyond it the rarer of two outcomes has probability below 1e-13: that is no privacy.
    return real_in("epsilon", value, "(0, 30]")


@dataclass(frozen=True)
class RoundSpec:
    """The public specification of one round: all that a device needs besides its own data.

    Attributes
    ----------
    round : int
        t, at least 1.
    channel : {"bit", "subset", "coordinate"}
        Kind of report.
    epsilon : float
        Privacy of the whole report, in (0, 30].
    hypotheses : int
        K.
    labels : int or None
        M; None where labels form no finite set.
    queries : tuple of Query
        One a bit ("bit"), one loss query ("coordinate"), none else.
    subset_size : int or None
        d in [1, M - 1] ("subset").
    fingerprint : bytes
        Of the hypotheses, 16 bytes: devices with other numbers refuse the round. Zeros where
        there is none: functions cannot be compared.

    Raises
    ------
    ValueError, TypeError
        For fields out of range, also when read from bytes.
    """

    round: int
    channel: str
    epsilon: float
    hypotheses: int
    labels: int | None
    queries: tuple[Query, ...] = ()
    subset_size: int | None = None
    fingerprint: bytes = bytes(16)

    def __post_init__(self) -> None:
        """Raise for what no device may answer, and keep plain numbers."""
        if self.channel not in CHANNELS:
            raise ValueError("a round needs a known channel")
        if not isinstance(self.fingerprint, bytes) or len(self.fingerprint) != 16:
            raise ValueError("fingerprint must have 16 bytes")
        plain: dict[str, Any] = {
            "queries": tuple(self.queries),
            "epsilon": checked_epsilon(self.epsilon),
            "round": positive_int("round", self.round, maximum=2**63 - 1),
            "hypotheses": positive_int("hypotheses", self.hypotheses, maximum=_LARGEST_COUNT),
        }
        if self.labels is not None:
            plain["labels"] = positive_int("labels", self.labels, maximum=_LARGEST_COUNT)
        if self.channel == "subset":
            most = (self.labels or 1) - 1
            size = 0 if self.subset_size is None else self.subset_size
            plain["subset_size"] = positive_int("subset_size", size, maximum=most)
        elif self.subset_size is not None:
            raise ValueError("only channel 'subset' has a subset_size")
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        most = {"bit": LARGEST_BITS, "coordinate": 1}.get(self.channel, 0)
        if not min(most, 1) <= len(self.queries) <= most:
            raise ValueError(f"channel {self.channel!r} takes another number of queries")
        for query in self.queries:
            if not isinstance(query, Query):
                raise TypeError("queries must be queries")
            if self.channel == "coordinate" and not isinstance(query, LossQuery):
                raise ValueError("channel 'coordinate' asks for a loss")
            query.check(self.hypotheses, self.labels)

    @property
    def width(self) -> int:
        """Number of integers in a report."""
        return self.subset_size or len(self.queries)

    @property
    def query(self) -> LossQuery:
        """The loss query of a "coordinate" round."""
        (query,) = self.queries
        assert isinstance(query, LossQuery)
        return query

    def check_reports(self, reports: Report | ReportBatch) -> None:
        """Raise ``ValueError`` unless devices can send these reports in this round.

        Bits are 0 or 1, subsets ascending and within the labels, and the digest is that of this
        specification. No message holds a value.
        """
        named = (reports.round, reports.digest, reports.channel)
        if named != (self.round, self.digest, self.channel):
            raise ValueError("foreign report: it answers another specification")
        values = np.asarray(reports.values)
        if values.shape[-1:] != (self.width,):
            raise ValueError(
                f"malformed report: channel {self.channel!r} sends {self.width} integers"
            )
        if self.channel == "subset" and values.size:
            assert self.labels is not None
            if int(values.max()) >= self.labels:
                raise ValueError("malformed report: a label of a subset is out of range")
            if (np.diff(values) <= 0).any():
                raise ValueError("malformed report: a subset must be ascending")

    @cached_property
    def digest(self) -> bytes:
        """Eight bytes that identify the whole specification."""
        return hashlib.sha256(self._body).digest()[:_CHECK]

    @cached_property
    def _body(self) -> bytes:
        head = _SPEC.pack(
            _MAGIC, _VERSION, self.round, CHANNELS.index(self.channel), self.epsilon,
            self.labels or 0, self.hypotheses, self.subset_size or 0, len(self.queries), -1,
            self.fingerprint,
        )  # fmt: skip
        return head + b"".join(query.to_bytes() for query in self.queries)

    def to_bytes(self) -> bytes:
        """Return the specification as bytes: platform-independent, ending with the digest."""
        return self._body + self.digest

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundSpec:
        """Return the specification written by `to_bytes`; ``ValueError`` for anything else."""
        data = _octets(data)
        body, digest = data[:-_CHECK], data[-_CHECK:]
        try:
            (magic, version, turn, channel, epsilon, labels, count, size, queries,
             _, fingerprint) = _SPEC.unpack_from(body)  # fmt: skip
        except struct.error:
            raise ValueError("malformed round specification") from None
        if magic != _MAGIC or version != _VERSION:
            raise ValueError("not a round specification of this version")
        if hashlib.sha256(body).digest()[:_CHECK] != digest:
            raise ValueError("corrupt round specification")
        if channel >= len(CHANNELS):
            raise ValueError("malformed round specification")
        offset, asked = _SPEC.size, []
        for _ in range(queries):
            query, offset = read_query(body, offset)
            asked.append(query)
        spec = cls(
            turn, CHANNELS[channel], epsilon, count, labels or None, tuple(asked), size or None,
            fingerprint,
        )  # fmt: skip
        if spec._body != body:
            raise ValueError("malformed round specification")
        return spec


@dataclass(frozen=True)
class Report:
    """One private report.

    Attributes
    ----------
    round : int
        Round of the specification it answers.
    digest : bytes
        Digest of that specification, 8 bytes.
    nonce : bytes
        8 random bytes, independent of all data, by which the server detects duplicates.
    channel : str
        Channel of that specification.
    values : tuple of int
        Bits, or a sorted subset.
    simulated : bool
        Whether the noise was reproducible; the guarantee is then void.
    """

    round: int
    digest: bytes
    nonce: bytes
    channel: str
    values: tuple[int, ...]
    simulated: bool = False

    def __post_init__(self) -> None:
        """Raise ``ValueError`` or ``TypeError`` for fields that cannot be sent."""
        object.__setattr__(self, "values", tuple(index(value) for value in self.values))
        _check_head(self.round, self.digest, self.channel)
        if not isinstance(self.nonce, bytes) or len(self.nonce) != 8:
            raise ValueError("nonce must have 8 bytes")
        if self.values:
            _check_range(self.channel, min(self.values), max(self.values))

    def to_bytes(self) -> bytes:
        """Return the report as bytes; their number depends only on the specification."""
        values = np.array(self.values, dtype=_FORMATS[self.channel])
        return _head(b"dpr", self) + _ONE.pack(self.nonce, len(self.values)) + values.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Report:
        """Return the report written by `to_bytes`; ``ValueError`` for anything else."""
        (number, digest, channel, simulated), (nonce, width), rest = _parts(b"dpr", _ONE, data)
        layout = np.dtype(_FORMATS[channel])
        if len(rest) != width * layout.itemsize:
            raise ValueError("malformed report")
        values = np.frombuffer(rest, dtype=layout).tolist()
        return cls(number, digest, nonce, channel, tuple(values), simulated)


@dataclass(frozen=True, eq=False)
class ReportBatch:
    """Many reports to one specification, in a fixed order.

    Attributes
    ----------
    round, digest, channel, simulated
        As of each `Report`.
    nonces : array of shape (n,)
        dtype uint64: the nonces, little-endian.
    values : array of shape (n, width)
        dtype int64, a report a row.
    """

    round: int
    digest: bytes
    channel: str
    nonces: Words
    values: IntArray
    simulated: bool = False

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for fields that cannot be sent."""
        _check_head(self.round, self.digest, self.channel)
        values, nonces = np.ascontiguousarray(self.values), np.ascontiguousarray(self.nonces)
        if values.dtype.kind not in "iub" or values.ndim != 2:
            raise ValueError("values must be a matrix of integers")
        if nonces.dtype.kind not in "iu" or nonces.shape != values.shape[:1]:
            raise ValueError("there must be one nonce a report")
        if values.size:
            _check_range(self.channel, int(values.min()), int(values.max()))
        object.__setattr__(self, "values", values.astype(np.int64, copy=False))
        object.__setattr__(self, "nonces", nonces.astype(np.uint64, copy=False))

    def __len__(self) -> int:
        """Return the number of reports."""
        return len(self.nonces)

    def split(self) -> list[Report]:
        """Return the reports one by one, in order."""
        nonces = (nonce.tobytes() for nonce in self.nonces.astype("<u8"))
        return [
            Report(self.round, self.digest, nonce, self.channel, tuple(row), self.simulated)
            for nonce, row in zip(nonces, self.values.tolist(), strict=True)
        ]

    @classmethod
    def from_reports(cls, reports: Iterable[Report]) -> ReportBatch:
        """Return a batch of reports to one specification; ``ValueError`` if they differ in it."""
        given = list(reports)
        if not given:
            raise ValueError("a batch needs a report")
        if not all(isinstance(report, Report) for report in given):
            raise TypeError("a batch needs reports")
        if len({_specification(report) for report in given}) != 1:
            raise ValueError("the reports answer different specifications")
        first, nonces = given[0], b"".join(report.nonce for report in given)
        values = np.array([report.values for report in given], dtype=np.int64)
        return cls(
            first.round, first.digest, first.channel, np.frombuffer(nonces, dtype="<u8"),
            values.reshape(len(given), -1), any(report.simulated for report in given),
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """Return the batch as bytes."""
        count, width = self.values.shape
        values = self.values.astype(_FORMATS[self.channel])
        nonces = self.nonces.astype("<u8")
        return _head(b"dpb", self) + _MANY.pack(width, count) + nonces.tobytes() + values.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> ReportBatch:
        """Return the batch written by `to_bytes`; ``ValueError`` for anything else."""
        (number, digest, channel, simulated), (width, count), rest = _parts(b"dpb", _MANY, data)
        layout = np.dtype(_FORMATS[channel])
        if len(rest) != count * (8 + width * layout.itemsize):
            raise ValueError("malformed report")
        nonces = np.frombuffer(rest, dtype="<u8", count=count)
        values = np.frombuffer(rest, dtype=layout, offset=8 * count).reshape(count, width)
        return cls(number, digest, channel, nonces, values, simulated)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportBatch) and other.to_bytes() == self.to_bytes()

    __hash__ = None  # type: ignore[assignment]


def batches(reports: Any) -> list[ReportBatch]:
    """Return reports of any form, in order, as batches that answer one specification each."""
    if isinstance(reports, (Report, ReportBatch)):
        reports = [reports]
    if isinstance(reports, (str, bytes)) or not isinstance(reports, Iterable):
        raise TypeError(f"reports must be reports; got {type(reports).__name__}")
    found = []
    for _, group in groupby(reports, _specification):
        first, *others = group
        batch = first
        if isinstance(first, Report):
            batch = ReportBatch.from_reports([first, *others])
        found.append(batch)
    return [batch for batch in found if len(batch)]


def _specification(report: Any) -> Any:
    """Return what neighbours in a batch agree in; a batch has no neighbours."""
    if isinstance(report, ReportBatch):
        return id(report)
    if not isinstance(report, Report):
        raise TypeError("a batch needs reports")
    return report.round, report.digest, report.channel, len(report.values)


def _head(magic: bytes, reports: Report | ReportBatch) -> bytes:
    channel = CHANNELS.index(reports.channel)
    simulated = int(reports.simulated)
    return _REPORT.pack(magic, _VERSION, channel, simulated, reports.round, reports.digest)


def _parts(
    magic: bytes, layout: struct.Struct, data: Any
) -> tuple[tuple[int, bytes, str, bool], tuple[Any, ...], bytes]:
    """Return the head, the numbers that follow it, and the rest; ``ValueError`` for no reports."""
    data = _octets(data)
    try:
        found, version, channel, simulated, number, digest = _REPORT.unpack_from(data)
        sizes = layout.unpack_from(data, _REPORT.size)
    except struct.error:
        raise ValueError("malformed report") from None
    if found != magic or version != _VERSION:
        raise ValueError("not reports of this version")
    if channel >= len(CHANNELS) or simulated > 1:
        raise ValueError("malformed report")
    head = (number, digest, CHANNELS[channel], bool(simulated))
    return head, sizes, data[_REPORT.size + layout.size :]


def _octets(data: Any) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes; got {type(data).__name__}")
    return bytes(data)


def _check_head(number: Any, digest: Any, channel: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < 2**63:
        raise ValueError("round must be an int in [1, 2**63)")
    if not isinstance(digest, bytes) or len(digest) != 8:
        raise ValueError("digest must have 8 bytes")
    if channel not in CHANNELS:
        raise ValueError("reports need a known channel")


def _check_range(channel: str, smallest: int, largest: int) -> None:
    """Raise unless the integers are ones that the channel can carry."""
    low, high = _RANGES[channel]
    if smallest < low or largest > high:
        raise ValueError("the values of a report are out of range")
