"""What goes over the wire to the server: reports, one by one and in batches."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CHANNELS", "Report", "ReportBatch"]

CHANNELS = ("bit", "subset", "coordinate", "vector", "paper_exp3", "paper_wma")

_MAGIC = b"dpr"
_VERSION = 1
_HEAD = struct.Struct("<3sBBBQ8s8sI")
_BATCH_HEAD = struct.Struct("<3sBBBQ8sIQ")
_BATCH_MAGIC = b"dpb"
# Bytes of one integer on the wire: fixed for a channel, so that length tells nothing.
_FORMATS = {
    "bit": "<u1",
    "subset": "<u4",
    "coordinate": "<u1",
    "vector": "<i8",
    "paper_exp3": "<i8",
    "paper_wma": "<i8",
}
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
        head = _HEAD.pack(
            _MAGIC,
            _VERSION,
            CHANNELS.index(self.channel),
            int(self.simulated),
            self.round,
            self.digest,
            self.nonce,
            len(self.values),
        )
        return head + np.array(self.values, dtype=np.dtype(_FORMATS[self.channel])).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Report:
        """Return the report written by `to_bytes`; ``ValueError`` for anything else."""
        data = _plain_bytes(data)
        try:
            magic, version, channel, simulated, number, digest, nonce, width = _HEAD.unpack_from(
                data
            )
        except struct.error:
            raise ValueError("malformed report") from None
        name = _check_frame(magic == _MAGIC, version, channel, simulated)
        layout = np.dtype(_FORMATS[name])
        if len(data) != _HEAD.size + width * layout.itemsize:
            raise ValueError("malformed report")
        values = np.frombuffer(data, dtype=layout, offset=_HEAD.size)
        return cls(number, digest, nonce, name, tuple(values.tolist()), bool(simulated))


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
    nonces: NDArray[np.uint64]
    values: NDArray[np.int64]
    simulated: bool = False

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for fields that cannot be sent."""
        _check_head(self.round, self.digest, self.channel)
        values = np.ascontiguousarray(self.values)
        if values.dtype.kind not in "iub" or values.ndim != 2:
            raise ValueError("values must be a matrix of integers")
        nonces = np.ascontiguousarray(self.nonces)
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
        first = given[0]
        for report in given:
            if not isinstance(report, Report):
                raise TypeError(f"a batch needs reports; got {type(report).__name__}")
            if (report.round, report.digest, report.channel, len(report.values)) != (
                first.round, first.digest, first.channel, len(first.values),
            ):  # fmt: skip
                raise ValueError("the reports answer different specifications")
        nonces = np.frombuffer(b"".join(report.nonce for report in given), dtype="<u8")
        values = np.array([report.values for report in given], dtype=np.int64)
        return cls(
            first.round,
            first.digest,
            first.channel,
            nonces.astype(np.uint64),
            values.reshape(len(given), -1),
            any(report.simulated for report in given),
        )

    def to_bytes(self) -> bytes:
        """Return the batch as bytes."""
        count, width = self.values.shape
        head = _BATCH_HEAD.pack(
            _BATCH_MAGIC,
            _VERSION,
            CHANNELS.index(self.channel),
            int(self.simulated),
            self.round,
            self.digest,
            width,
            count,
        )
        layout = np.dtype(_FORMATS[self.channel])
        return head + self.nonces.astype("<u8").tobytes() + self.values.astype(layout).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> ReportBatch:
        """Return the batch written by `to_bytes`; ``ValueError`` for anything else."""
        data = _plain_bytes(data)
        try:
            magic, version, channel, simulated, number, digest, width, count = (
                _BATCH_HEAD.unpack_from(data)
            )
        except struct.error:
            raise ValueError("malformed reports") from None
        name = _check_frame(magic == _BATCH_MAGIC, version, channel, simulated)
        layout = np.dtype(_FORMATS[name])
        start = _BATCH_HEAD.size + 8 * count
        if len(data) != start + count * width * layout.itemsize:
            raise ValueError("malformed reports")
        nonces = np.frombuffer(data, dtype="<u8", count=count, offset=_BATCH_HEAD.size)
        values = np.frombuffer(data, dtype=layout, offset=start).reshape(count, width)
        return cls(
            number,
            digest,
            name,
            nonces.astype(np.uint64),
            values.astype(np.int64),
            bool(simulated),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportBatch) and other.to_bytes() == self.to_bytes()

    __hash__ = None  # type: ignore[assignment]


def _plain_bytes(data: Any) -> bytes:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes; got {type(data).__name__}")
    return bytes(data)


def _check_frame(magic_matches: bool, version: int, channel: int, simulated: int) -> str:
    if not magic_matches or version != _VERSION:
        raise ValueError("not reports of this version")
    if channel >= len(CHANNELS) or simulated > 1:
        raise ValueError("malformed reports")
    return CHANNELS[channel]


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
