"""What goes over the wire to the server: reports, one by one and in batches."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CHANNELS", "Report", "ReportBatch", "batches"]

IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]

CHANNELS = ("bit", "subset", "coordinate")

_VERSION = 1
_HEAD = struct.Struct("<3sBBBQ8s")  # magic, version, channel, simulated, round, digest
_ONE = struct.Struct("<8sI")  # nonce, width
_MANY = struct.Struct("<IQ")  # width, number of reports
# Bytes of one integer on the wire: fixed for a channel, so that length tells nothing.
_FORMATS = {"bit": "<u1", "subset": "<u4", "coordinate": "<u1"}
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
        Bits, or a sorted subset.
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
        if not given:
            raise ValueError("a batch needs a report")
        if not all(isinstance(report, Report) for report in given):
            raise TypeError("a batch needs reports")
        if len({_specification(report) for report in given}) != 1:
            raise ValueError("the reports answer different specifications")
        first, nonces = given[0], b"".join(report.nonce for report in given)
        values = np.array([report.values for report in given], dtype=np.int64)
        return cls(
            first.round,
            first.digest,
            first.channel,
            np.frombuffer(nonces, dtype="<u8"),
            values.reshape(len(given), -1),
            any(report.simulated for report in given),
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
