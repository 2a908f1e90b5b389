"""What goes over the wire to the server: reports, one by one and in batches."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CHANNELS", "Report", "ReportBatch", "RoundReports", "as_columns"]

IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]

CHANNELS = ("bit", "subset", "coordinate", "vector")

_VERSION = 1
_HEAD = struct.Struct("<3sBBBQ8s")  # magic, version, channel, simulated, round, digest
_ONE = struct.Struct("<8sI")  # nonce, width
_MANY = struct.Struct("<IQ")  # width, number of reports
# Bytes of one integer on the wire: fixed for a channel, so that length tells nothing.
_FORMATS = {"bit": "<u1", "subset": "<u4", "coordinate": "<u1", "vector": "<i8"}
_RANGES = {"bit": (0, 1), "coordinate": (0, 1), "subset": (0, 2**31 - 1)}


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
        8 random bytes, independent of all data: let the server see duplicates.
    channel : str
        Channel of that specification.
    values : tuple of int
        Bits; a sorted subset; or lattice integers.
    simulated : bool
        Whether the noise was reproducible: then nothing is promised.
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
        """Return the report as bytes; their number depends on the specification only."""
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
    """Many reports to one specification, in an order that stands.

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
        _own_columns(self)

    def __len__(self) -> int:
        """Return the number of reports."""
        return len(self.nonces)

    def split(self) -> list[Report]:
        """Return the reports one by one, in order."""
        return [
            Report(
                self.round,
                self.digest,
                int(nonce).to_bytes(8, "little"),
                self.channel,
                tuple(row),
                self.simulated,
            )
            for nonce, row in zip(self.nonces, self.values.tolist(), strict=True)
        ]

    @classmethod
    def from_reports(cls, reports: Iterable[Report]) -> ReportBatch:
        """Return a batch of reports to one specification; ``ValueError`` if they differ in it."""
        given = list(reports)
        columns = RoundReports.from_reports(given)
        if len({(report.round, report.digest) for report in given}) != 1:
            raise ValueError("the reports answer different specifications")
        first = given[0]
        return cls(
            first.round,
            first.digest,
            first.channel,
            columns.nonces,
            columns.values,
            columns.simulated,
        )

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


@dataclass(frozen=True, eq=False)
class RoundReports:
    """Reports to different rounds, in an order that stands.

    Attributes
    ----------
    rounds : int array of shape (n,)
        Number of each report's round.
    digests : uint64 array of shape (n,)
        Digest of its specification, as a little-endian word.
    channel : str
        Channel of all of them.
    nonces : uint64 array of shape (n,)
        As of `ReportBatch`.
    values : int array of shape (n, width)
        A report a row.
    simulated : bool
        Whether any noise was reproducible.
    """

    rounds: IntArray
    digests: Words
    channel: str
    nonces: Words
    values: IntArray
    simulated: bool = False

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for arrays that do not fit."""
        if self.channel not in CHANNELS:
            raise ValueError("reports need a known channel")
        _own_columns(self)
        for name, dtype in (("rounds", np.int64), ("digests", np.uint64)):
            array = np.asarray(getattr(self, name))
            if array.shape != (len(self),) or (array.dtype.kind not in "iu" and array.size):
                raise ValueError("there must be one round and one digest a report")
            object.__setattr__(self, name, array.astype(dtype, copy=False))

    def __len__(self) -> int:
        """Return the number of reports."""
        return len(self.nonces)

    @classmethod
    def from_reports(cls, reports: Iterable[Report]) -> RoundReports:
        """Return single reports as columns; ``ValueError`` if their channels or widths differ."""
        given = list(reports)
        if not given:
            raise ValueError("a batch needs a report")
        if not all(isinstance(report, Report) for report in given):
            raise TypeError("a batch needs reports")
        channel, width = given[0].channel, len(given[0].values)
        if any((report.channel, len(report.values)) != (channel, width) for report in given):
            raise ValueError("the reports answer different specifications")
        values = np.array([report.values for report in given], dtype=np.int64)
        return cls._of(
            np.array([report.round for report in given], dtype=np.int64),
            _words(report.digest for report in given),
            channel,
            _words(report.nonce for report in given),
            values.reshape(len(given), width),
            any(report.simulated for report in given),
        )

    @classmethod
    def _of(cls, *fields: Any) -> RoundReports:
        """Return columns of reports that were checked one by one."""
        columns = object.__new__(cls)
        columns.__dict__.update(zip(cls.__dataclass_fields__, fields, strict=True))
        return columns


def _words(parts: Iterable[bytes]) -> Words:
    return np.frombuffer(b"".join(parts), dtype="<u8").astype(np.uint64, copy=False)


def as_columns(reports: Any) -> RoundReports | None:
    """Return reports of any form as columns; None for none."""
    if isinstance(reports, Report):
        reports = [reports]
    elif isinstance(reports, RoundReports):
        return reports if len(reports) else None
    elif isinstance(reports, ReportBatch):
        count = len(reports)
        digest = int.from_bytes(reports.digest, "little")
        return (
            None
            if count == 0
            else RoundReports._of(
                np.full(count, reports.round, dtype=np.int64),
                np.full(count, digest, dtype=np.uint64),
                reports.channel,
                reports.nonces,
                reports.values,
                reports.simulated,
            )
        )
    if isinstance(reports, (str, bytes)) or not isinstance(reports, Iterable):
        raise TypeError(f"reports must be reports; got {type(reports).__name__}")
    given = list(reports)
    return RoundReports.from_reports(given) if given else None


def _head(magic: bytes, reports: Report | ReportBatch) -> bytes:
    channel = CHANNELS.index(reports.channel)
    simulated = int(reports.simulated)
    return _HEAD.pack(magic, _VERSION, channel, simulated, reports.round, reports.digest)


def _parts(
    magic: bytes, layout: struct.Struct, data: Any
) -> tuple[tuple[int, bytes, str, bool], tuple[Any, ...], bytes]:
    """Return the head, the numbers that follow it, and the rest; ``ValueError`` for no reports."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes; got {type(data).__name__}")
    data = bytes(data)
    try:
        found, version, channel, simulated, number, digest = _HEAD.unpack_from(data)
        sizes = layout.unpack_from(data, _HEAD.size)
    except struct.error:
        raise ValueError("malformed report") from None
    if found != magic or version != _VERSION:
        raise ValueError("not reports of this version")
    if channel >= len(CHANNELS) or simulated > 1:
        raise ValueError("malformed report")
    head = (number, digest, CHANNELS[channel], bool(simulated))
    return head, sizes, data[_HEAD.size + layout.size :]


def _own_columns(reports: ReportBatch | RoundReports) -> None:
    """Check nonces and values, and keep them as contiguous arrays of 64-bit integers."""
    values = np.ascontiguousarray(reports.values)
    if values.dtype.kind not in "iub" or values.ndim != 2:
        raise ValueError("values must be a matrix of integers")
    nonces = np.ascontiguousarray(reports.nonces)
    if nonces.dtype.kind not in "iu" or nonces.shape != values.shape[:1]:
        raise ValueError("there must be one nonce a report")
    if values.size:
        _check_range(reports.channel, int(values.min()), int(values.max()))
    object.__setattr__(reports, "values", values.astype(np.int64, copy=False))
    object.__setattr__(reports, "nonces", nonces.astype(np.uint64, copy=False))


def _check_head(number: Any, digest: Any, channel: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < 2**63:
        raise ValueError("round must be an int in [1, 2**63)")
    if not isinstance(digest, bytes) or len(digest) != 8:
        raise ValueError("digest must have 8 bytes")
    if channel not in CHANNELS:
        raise ValueError("reports need a known channel")


def _check_range(channel: str, smallest: int, largest: int) -> None:
    """Raise unless the integers are ones that the channel can carry."""
    low, high = _RANGES.get(channel, (-(2**63), 2**63 - 1))
    if smallest < low or largest > high:
        raise ValueError("the values of a report are out of range")
