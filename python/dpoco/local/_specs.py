"""What goes over the wire to a device: the public specification of one round."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import number, real_float
from dpoco.local._queries import LossQuery, Query, read_query
from dpoco.local._reports import CHANNELS, Report, ReportBatch

__all__ = ["LARGEST_BITS", "LARGEST_EPSILON", "ROUND_OFFSET", "RoundSpec"]

_VERSION = 1
_MAGIC = b"dpocospc"
_HEAD = struct.Struct("<8sHQBddQIIHHB")  # up to the number of queries, parameters, noise
ROUND_OFFSET = struct.calcsize("<8sH")  # of the round's number in the bytes
_CHECK = 8
_FINGERPRINT = 16

# Beyond it the rarer of two outcomes has probability below 1e-13: that is no privacy.
LARGEST_EPSILON = 30.0
LARGEST_BITS = 64
_NOISES = (None, "laplace", "gaussian")
_LARGEST_PARAMETERS = 2**16 - 1
_LARGEST_COUNT = 2**31 - 1


@dataclass(frozen=True)
class RoundSpec:
    """The public specification of one round: all that a device needs besides its own data.

    Attributes
    ----------
    round : int
        t, at least 1.
    channel : {"bit", "subset", "coordinate", "vector"}
        Kind of report.
    epsilon, delta : float
        Privacy of the whole report; epsilon in (0, 30], delta 0 for all but "vector".
    hypotheses : int
        K.
    labels : int or None
        M; None where labels form no finite set.
    queries : tuple of Query
        One a bit ("bit"), one loss query ("coordinate"), none else.
    subset_size : int or None
        d in [1, M - 1] ("subset").
    index : int or None
        J in [0, K): the one loss that "vector" asks for; None for all.
    noise : {None, "laplace", "gaussian"}
        Law of the noise of "vector".
    parameters : tuple of float
        Of "vector": mixing of the losses, and the number of the noise.
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
    delta: float = 0.0
    index: int | None = None
    noise: str | None = None
    parameters: tuple[float, ...] = ()
    fingerprint: bytes = bytes(16)

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        numbers = tuple(number("parameters", value) for value in self.parameters)
        object.__setattr__(self, "parameters", numbers)
        object.__setattr__(self, "epsilon", real_float("epsilon", self.epsilon))
        object.__setattr__(self, "delta", real_float("delta", self.delta))
        for name in ("round", "hypotheses", "labels", "subset_size", "index"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        self.validate()

    @property
    def version(self) -> int:
        """Version of the format."""
        return _VERSION

    @property
    def width(self) -> int:
        """How many integers a report has."""
        if self.channel == "bit":
            return len(self.queries)
        if self.channel == "subset":
            return self.subset_size or 0
        return self.hypotheses if self.channel == "vector" and self.index is None else 1

    @property
    def query(self) -> LossQuery:
        """The loss query of a "coordinate" round."""
        (query,) = self.queries
        assert isinstance(query, LossQuery)
        return query

    def validate(self) -> None:
        """Raise ``ValueError`` unless the specification is one that a device may answer."""
        if not isinstance(self.fingerprint, bytes) or len(self.fingerprint) != _FINGERPRINT:
            raise ValueError(f"fingerprint must have {_FINGERPRINT} bytes")
        if self.channel not in CHANNELS:
            raise ValueError("a round needs a known channel")
        if not 1 <= self.round < 2**63:
            raise ValueError("round must be in [1, 2**63)")
        if not 0.0 < self.epsilon <= LARGEST_EPSILON:  # refuses NaN
            raise ValueError(f"epsilon must be in (0, {LARGEST_EPSILON:g}]; got {self.epsilon!r}")
        if not 1 <= self.hypotheses <= _LARGEST_COUNT:
            raise ValueError("hypotheses must be in [1, 2**31)")
        if self.labels is not None and not 1 <= self.labels <= _LARGEST_COUNT:
            raise ValueError("labels must be in [1, 2**31)")
        vector = self.channel == "vector"
        if not 0.0 <= self.delta < 1.0 or (self.delta > 0.0 and not vector):
            raise ValueError("delta must be 0, or in [0, 1) for channel 'vector'")
        if self.noise not in _NOISES or (self.noise is not None and not vector):
            raise ValueError("noise must be None, or 'laplace' or 'gaussian' for channel 'vector'")
        if (self.parameters or self.index is not None) and not vector:
            raise ValueError("only channel 'vector' has an index and parameters")
        if self.index is not None and not 0 <= self.index < self.hypotheses:
            raise ValueError(f"index must be in [0, {self.hypotheses})")
        if len(self.parameters) > _LARGEST_PARAMETERS:
            raise ValueError("too many parameters")
        self._check_queries()
        self._check_subset()

    def _check_queries(self) -> None:
        most = {"bit": LARGEST_BITS, "coordinate": 1}.get(self.channel, 0)
        if not min(most, 1) <= len(self.queries) <= most:
            raise ValueError(f"channel {self.channel!r} takes another number of queries")
        for query in self.queries:
            if not isinstance(query, Query):
                raise TypeError("queries must be queries")
            if self.channel == "coordinate" and not isinstance(query, LossQuery):
                raise ValueError("channel 'coordinate' asks for a loss")
            query.check(self.hypotheses, self.labels)

    def _check_subset(self) -> None:
        if self.channel != "subset":
            if self.subset_size is not None:
                raise ValueError("only channel 'subset' has a subset_size")
            return
        if self.labels is None:
            raise ValueError("channel 'subset' needs a finite number of labels")
        if self.subset_size is None or not 1 <= self.subset_size <= self.labels - 1:
            raise ValueError("subset_size must be at least 1 and below the number of labels")

    def check_reports(self, reports: Report | ReportBatch) -> None:
        """Raise ``ValueError`` unless these are reports that a device can send to this round.

        Bits are 0 or 1, subsets ascending and within the labels, and the digest is that of this
        specification. No message holds a value.
        """
        named = (reports.round, reports.digest, reports.channel)
        if named != (self.round, self.digest, self.channel):
            raise ValueError("the report answers another specification")
        self.check_values(np.asarray(reports.values))

    def check_values(self, values: NDArray[Any]) -> None:
        """Raise ``ValueError`` unless rows of integers are reports to such a round."""
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
            self.delta,
            self.labels or 0,
            self.hypotheses,
            self.subset_size or 0,
            len(self.queries),
            len(self.parameters),
            _NOISES.index(self.noise),
        )
        index = struct.pack("<q", -1 if self.index is None else self.index)
        numbers = struct.pack(f"<{len(self.parameters)}d", *self.parameters)
        return (
            head
            + index
            + self.fingerprint
            + numbers
            + b"".join(query.to_bytes() for query in self.queries)
        )

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
            (magic, version, turn, channel, epsilon, delta, labels, count, size, queries,
             parameters, noise) = _HEAD.unpack_from(body)  # fmt: skip
            (index,) = struct.unpack_from("<q", body, _HEAD.size)
            start = _HEAD.size + 8
            fingerprint = body[start : start + _FINGERPRINT]
            numbers = struct.unpack_from(f"<{parameters}d", body, start + _FINGERPRINT)
        except struct.error:
            raise ValueError("malformed round specification") from None
        if magic != _MAGIC or version != _VERSION:
            raise ValueError("not a round specification of this version")
        if hashlib.sha256(body).digest()[:_CHECK] != digest:
            raise ValueError("corrupt round specification")
        if channel >= len(CHANNELS) or noise >= len(_NOISES):
            raise ValueError("malformed round specification")
        offset = start + _FINGERPRINT + 8 * parameters
        asked: list[Query] = []
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
            delta=delta,
            index=None if index == -1 else index,
            noise=_NOISES[noise],
            parameters=numbers,
            fingerprint=fingerprint,
        )
        if spec._body != body:
            raise ValueError("malformed round specification")
        return spec


def _whole(name: str, value: Any) -> int | None:
    if value is None and name not in ("round", "hypotheses"):
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    return int(value)
