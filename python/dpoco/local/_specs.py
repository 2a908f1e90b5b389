"""What goes over the wire to a device: the public specification of one round."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpoco._validation import positive_int, real_float
from dpoco.local._queries import LossQuery, Query, read_query
from dpoco.local._reports import CHANNELS, Report, ReportBatch

__all__ = ["LARGEST_BITS", "RoundSpec", "checked_epsilon"]

_VERSION = 1
_MAGIC = b"dpocospc"
# Up to the number of queries; the bytes left out, and an index of -1, are of former channels.
_HEAD = struct.Struct("<8sHQBd8xQIIH3xq16s")
_CHECK = 8

# Beyond it the rarer of two outcomes has probability below 1e-13: that is no privacy.
LARGEST_EPSILON = 30.0
LARGEST_BITS = 64
_LARGEST_COUNT = 2**31 - 1


def checked_epsilon(value: Any) -> float:
    """Return `value` as a float in (0, 30], or raise."""
    epsilon = real_float("epsilon", value)
    if not 0.0 < epsilon <= LARGEST_EPSILON:
        raise ValueError(f"epsilon must be in (0, {LARGEST_EPSILON:g}]; got {epsilon!r}")
    return epsilon


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
        """How many integers a report has."""
        if self.channel == "bit":
            return len(self.queries)
        if self.channel == "subset":
            return self.subset_size or 0
        return 1

    @property
    def query(self) -> LossQuery:
        """The loss query of a "coordinate" round."""
        (query,) = self.queries
        assert isinstance(query, LossQuery)
        return query

    def check_reports(self, reports: Report | ReportBatch) -> None:
        """Raise ``ValueError`` unless these are reports that devices can send to this round.

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
        """Eight bytes that stand for the whole specification."""
        return hashlib.sha256(self._body).digest()[:_CHECK]

    @cached_property
    def _body(self) -> bytes:
        head = _HEAD.pack(
            _MAGIC,
            _VERSION,
            self.round,
            CHANNELS.index(self.channel),
            self.epsilon,
            self.labels or 0,
            self.hypotheses,
            self.subset_size or 0,
            len(self.queries),
            -1,
            self.fingerprint,
        )
        return head + b"".join(query.to_bytes() for query in self.queries)

    def to_bytes(self) -> bytes:
        """Return the specification as bytes: platform-independent, ending with the digest."""
        return self._body + self.digest

    @classmethod
    def from_bytes(cls, data: bytes) -> RoundSpec:
        """Return the specification written by `to_bytes`; ``ValueError`` for anything else."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes; got {type(data).__name__}")
        data = bytes(data)
        body, digest = data[:-_CHECK], data[-_CHECK:]
        try:
            (magic, version, turn, channel, epsilon, labels, count, size, queries,
             _, fingerprint) = _HEAD.unpack_from(body)  # fmt: skip
        except struct.error:
            raise ValueError("malformed round specification") from None
        if magic != _MAGIC or version != _VERSION:
            raise ValueError("not a round specification of this version")
        if hashlib.sha256(body).digest()[:_CHECK] != digest:
            raise ValueError("corrupt round specification")
        if channel >= len(CHANNELS):
            raise ValueError("malformed round specification")
        offset, asked = _HEAD.size, []
        for _ in range(queries):
            query, offset = read_query(body, offset)
            asked.append(query)
        spec = cls(
            round=turn,
            channel=CHANNELS[channel],
            epsilon=epsilon,
            hypotheses=count,
            labels=labels or None,
            queries=tuple(asked),
            subset_size=size or None,
            fingerprint=fingerprint,
        )
        if spec._body != body:
            raise ValueError("malformed round specification")
        return spec
