"""Messages of servers and devices: public queries, specifications of rounds, reports on them.

A query is a function phi from labels to [-1, 1]. The device evaluates it from the K numbers F[:, y]
of its label; the server evaluates it for all labels. Both get the same bits. A wrong or hostile
query costs accuracy and never privacy, because its values are clamped.

Public coins are SplitMix64 in counter mode. They use integers only and are equal in every language.
They choose questions and are never noise, and nothing in this module can be used for noise, which
comes from `dpoco.random.Source` with a secret key.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby, permutations
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import (
    FloatArray,
    IntArray,
    float_array,
    label_index,
    number,
    positive_int,
    real_in,
)

Words = NDArray[np.uint64]

CHANNELS = ("bit", "subset", "coordinate")

# "<" is little-endian without padding: messages have the same bytes on every machine.
_REPORT = struct.Struct("<3sBBBQ8s")  # magic, version, channel, simulated, round, digest
_ONE = struct.Struct("<8sI")  # nonce, width
_MANY = struct.Struct("<IQ")  # width, number of reports
# Bytes of one integer on the wire. They are fixed for a channel, so the length shows nothing about
# the label.
_FORMATS = {"bit": "<u1", "subset": "<u4", "coordinate": "<u1"}
_RANGES = {"bit": (0, 1), "coordinate": (0, 1), "subset": (0, 2**31 - 1)}
_VERSION = 1
_MAGIC = b"dpocospc"
# Up to the number of queries. The padding bytes, and an index of -1, belong to former channels.
_SPEC = struct.Struct("<8sHQBd8xQIIH3xq16s")
_CHECK = 8

LARGEST_BITS = 64
# On the wire, labels and hypotheses are 32-bit integers without use of the sign.
_LARGEST_COUNT = 2**31 - 1
# Families of threshold queries that only depend on public coins and K.
COIN_FAMILIES = ("bisection", "scheffe", "mean_test")
# Largest number of questions to list one by one; beyond that, public draws represent them.
_LARGEST_ENUMERATION = 5000
# Slot of the coins that decide whether an adaptive query is replaced by a random pair.
_ADAPTIVE_SLOT = 1000
_HADAMARD, _LOSS = struct.Struct("<I"), struct.Struct("<Iddd")


class Query:
    """The public question behind one bit. Immutable; queries are equal if their bytes are equal."""

    def phi(self, column: FloatArray, label: object, labels: int | None) -> float:
        """Return the query's value at one label, in [-1, 1]; O(K).

        Parameters
        ----------
        column : array of shape (K,)
            Likelihoods of the label under the hypotheses.
        label : object
            A missing or invalid label has the value 0.
        labels : int or None
            M; None if the labels do not form a finite set.
        """
        if labels == 1:  # one label: there is nothing to ask
            return 0.0
        own = label_index(label, labels) if labels is not None else None if label is None else 0
        # Also evaluated for a missing label, and selected afterwards, so that both take the same
        # time.
        rows = np.ascontiguousarray(column)[:, None]
        value = float(self.values_at(rows, np.array([own or 0], dtype=np.int64))[0])
        return 0.0 if own is None else value

    def values(self, matrix: FloatArray) -> FloatArray:
        """Return the values at all labels of a context, shape (M,), equal to those of `phi`.

        `matrix` holds the distributions, shape (K, M). O(K M).
        """
        if matrix.shape[1] == 1:
            return np.zeros(1)
        return self.values_at(matrix, np.arange(matrix.shape[1]))

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels, shape (n,), equal to those of `phi`.

        Column i of `columns`, shape (K, n), holds the likelihoods of ``labels[i]``. O(K n).
        """
        raise NotImplementedError

    def means(self, matrix: FloatArray) -> FloatArray:
        """Return the mean of the query under every hypothesis, shape (K,); O(K M)."""
        if matrix.shape[1] == 1:
            return np.zeros(matrix.shape[0])
        return _core.local_query_means(matrix, np.ascontiguousarray(self.values(matrix)))

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise ``ValueError`` unless the query fits K hypotheses and M labels."""
        raise NotImplementedError

    def to_bytes(self) -> bytes:
        """Return the query as bytes, read by `read_query`."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.to_bytes() == self.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __reduce__(self) -> tuple[object, ...]:
        # Pickles are read like bytes, with the same checks.
        return (_whole_query, (self.to_bytes(),))


@dataclass(frozen=True, eq=False)
class ThresholdQuery(Query):
    """+1 where ``sum_j c_j F[j, y] > 0``, else -1.

    Parameters
    ----------
    coefficients : array of shape (K,)
        c. The sum runs over j in ascending order. If it is not finite, the value is 0. If all
        coefficients are 0, the value is 0 everywhere.
    """

    coefficients: FloatArray

    def __post_init__(self) -> None:
        """Store a copy that cannot be changed."""
        values = float_array("coefficients", self.coefficients, (None,)).copy()
        values.flags.writeable = False
        object.__setattr__(self, "coefficients", values)

    def to_bytes(self) -> bytes:
        """Return the query as bytes."""
        return (
            struct.pack("<BI", 1, len(self.coefficients))
            + self.coefficients.astype("<f8").tobytes()
        )

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless there is one coefficient per hypothesis."""
        if self.coefficients.size != hypotheses:
            raise ValueError(f"a threshold query needs {hypotheses} coefficients")

    def means(self, matrix: FloatArray) -> FloatArray:
        """Return the mean of the query under every hypothesis, shape (K,). O(K M)."""
        if matrix.shape[1] == 1:
            return np.zeros(matrix.shape[0])
        return _core.local_threshold_means(matrix, self.coefficients)[1]

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels, shape (n,)."""
        return _core.local_threshold_values(self.coefficients, columns)


@dataclass(frozen=True, eq=False)
class HadamardQuery(Query):
    """(-1) to the number of common binary digits of `row` and the label.

    Parameters
    ----------
    row : int
        In [1, M'), with M' the smallest power of two that is at least M.
    """

    row: int

    def __post_init__(self) -> None:
        """Raise for the constant row."""
        object.__setattr__(self, "row", positive_int("row", self.row, maximum=_LARGEST_COUNT))

    def to_bytes(self) -> bytes:
        """Return the query as bytes."""
        return b"\2" + _HADAMARD.pack(self.row)

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless the row is a non-constant row of the labels' Hadamard matrix."""
        if labels is None:
            raise ValueError("a Hadamard query needs a finite number of labels")
        if self.row >= hadamard_size(labels):
            raise ValueError(f"the row of a Hadamard query must be below {hadamard_size(labels)}")

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels; `columns` is ignored."""
        common = labels.astype(np.uint64) & np.uint64(self.row)
        # After folding in halves, the last bit is the parity of all bits.
        for shift in (32, 16, 8, 4, 2, 1):
            common ^= common >> np.uint64(shift)
        return 1.0 - 2.0 * (common & np.uint64(1)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LossQuery(Query):
    """The centred, mixed log-loss of one hypothesis, scaled to [-1, 1].

    Parameters
    ----------
    index : int
        J in [0, K).
    midpoint, half_range : float
        ``phi = (u_J - midpoint) / half_range``, clamped.
    mixing : float
        Share of the mean of the hypotheses in the losses, see ``dpoco.local._bounds``.

    Notes
    -----
    A label that is impossible under every hypothesis has the value 0.
    """

    index: int
    midpoint: float
    half_range: float
    mixing: float

    def __post_init__(self) -> None:
        """Convert to plain numbers, which may have any value, because query values are clamped."""
        place = positive_int("index", self.index, minimum=0, maximum=_LARGEST_COUNT)
        object.__setattr__(self, "index", place)
        for name in ("midpoint", "half_range", "mixing"):
            object.__setattr__(self, name, number(name, getattr(self, name)))

    def to_bytes(self) -> bytes:
        """Return the query as bytes."""
        return b"\3" + _LOSS.pack(self.index, self.midpoint, self.half_range, self.mixing)

    def check(self, hypotheses: int, labels: int | None) -> None:
        """Raise unless the index belongs to a hypothesis."""
        if self.index >= hypotheses:
            raise ValueError(f"the index of a loss query must be below {hypotheses}")

    def values_at(self, columns: FloatArray, labels: NDArray[np.int64]) -> FloatArray:
        """Return the values at n labels, shape (n,)."""
        return _core.local_loss_values(
            self.index, self.midpoint, self.half_range, self.mixing, columns
        )


def hadamard_size(labels: int) -> int:
    """Return M', the smallest power of two of at least `labels`, and at least 2."""
    return 1 << max(1, (labels - 1).bit_length())


def read_query(data: bytes, offset: int) -> tuple[Query, int]:
    """Return the query that starts at `offset`, and its end; ``ValueError`` if it is malformed."""
    try:
        code, offset = data[offset], offset + 1
        if code == 1:
            (count,) = struct.unpack_from("<I", data, offset)
            end = offset + 4 + 8 * count
            # A count that exceeds the data is malformed, however large it is.
            if end <= len(data):
                return ThresholdQuery(np.frombuffer(data[offset + 4 : end], dtype="<f8")), end
        if code == 2:
            return HadamardQuery(*_HADAMARD.unpack_from(data, offset)), offset + _HADAMARD.size
        if code == 3:
            return LossQuery(*_LOSS.unpack_from(data, offset)), offset + _LOSS.size
    except (IndexError, struct.error):
        pass
    raise ValueError("malformed query")


def _whole_query(data: bytes) -> Query:
    """Return the query from a pickle."""
    return read_query(data, 0)[0]


class PublicCoins:
    """The public random words of one question.

    Parameters
    ----------
    seed : int
        Public, in [0, 2**64).
    round : int
        At least 1, below 2**63.
    slot : int, default 0
        Bit of the report, in [0, 2**32).

    Notes
    -----
    Word i = 1, 2, ... is ``mix(h + i G)`` with ``h = mix(seed ^ mix(round G + slot + 1))``, ``mix``
    the finaliser of SplitMix64 and G its increment, all modulo 2**64.
    """

    def __init__(self, seed: int, round: int, slot: int = 0) -> None:
        self._engine = _core.PublicCoins(
            positive_int("public_seed", seed, minimum=0, maximum=2**64 - 1),
            positive_int("round", round, maximum=2**63 - 1),
            positive_int("slot", slot, minimum=0, maximum=2**32 - 1),
        )

    def word(self) -> int:
        """Return the next word, uniform in [0, 2**64)."""
        return self._engine.word()

    def below(self, n: int) -> int:
        """Return the next integer, exactly uniform in [0, n), 1 <= n < 2**64, by rejection."""
        return self._engine.below(positive_int("n", n, maximum=2**64 - 1))

    def pair(self, n: int) -> tuple[int, int]:
        """Return two different integers below n >= 2 in random order; all pairs equally likely."""
        first = self.below(positive_int("n", n, minimum=2))
        second = self.below(n - 1)
        # Numbers from `first` on are shifted by one, so that all other numbers are equally likely.
        return first, second + (second >= first)


def threshold(family: str, seed: int, round: int, slot: int, hypotheses: int) -> ThresholdQuery:
    """Return a question drawn by public coins from one of `COIN_FAMILIES`.

    "bisection" compares the mean of A, a uniformly random half of the hypotheses (floor(K/2) of
    them), with the mean of the others: coefficients 1/|A| on A, -1/(K - |A|) off A. "scheffe" asks
    where one random hypothesis exceeds another, "mean_test" where one exceeds the mean of all. A
    single hypothesis has the coefficient 0, which asks nothing.

    Parameters
    ----------
    family : str
        One of `COIN_FAMILIES`.
    seed, round, slot : int
        Numbers that select the public coins; see `PublicCoins`.
    hypotheses : int
        K.
    """
    return ThresholdQuery(_core.local_threshold_question(family, seed, round, slot, hypotheses))


def hadamard(seed: int, round: int, slot: int, labels: int) -> HadamardQuery:
    """Return the query for a random row of the labels' Hadamard matrix, never the constant row."""
    size = hadamard_size(labels)
    return HadamardQuery(1 + PublicCoins(seed, round, slot).below(size - 1))


def loss(
    seed: int, round: int, slot: int, mixing: float, ranges: tuple[FloatArray, FloatArray]
) -> LossQuery:
    """Return the query for the loss of one random hypothesis.

    Parameters
    ----------
    seed, round, slot : int
        Numbers that select the public coins.
    mixing : float
        Share of the mean in the losses, in (0, 1].
    ranges : (array, array)
        Mid-points and half ranges of all losses, shape (K,) each.
    """
    return loss_query(PublicCoins(seed, round, slot).below(ranges[0].size), mixing, ranges)


def loss_query(index: int, mixing: float, ranges: tuple[FloatArray, FloatArray]) -> LossQuery:
    """Return the query for the loss of one hypothesis."""
    middle, half_range = ranges
    return LossQuery(index, float(middle[index]), float(half_range[index]), mixing)


def pair_query(hypotheses: int, first: int, second: int) -> ThresholdQuery:
    """Return the query that asks where hypothesis `first` exceeds hypothesis `second`."""
    coefficients = np.zeros(hypotheses)
    coefficients[first], coefficients[second] = 1.0, -1.0
    return ThresholdQuery(coefficients)


def adaptive(
    seed: int, round: int, slot: int, matrix: FloatArray, weights: FloatArray
) -> ThresholdQuery:
    """Return the query that splits the weights best; one time in ten, that of a random pair.

    It uses the coins of slot 1000 + slot: the first draw decides, the next draws choose the pair.

    Parameters
    ----------
    seed, round, slot : int
        Numbers that select the public coins.
    matrix : array of shape (K, M)
        The hypotheses in the round's context.
    weights : array of shape (K,)
        The server's posterior. It is a function of reports, and so public.
    """
    count = matrix.shape[0]
    if count == 1:
        return threshold("bisection", seed, round, slot, count)
    coins = PublicCoins(seed, round, _ADAPTIVE_SLOT + slot)
    if coins.below(10) == 0:
        return pair_query(count, *coins.pair(count))
    return ThresholdQuery(_core.local_adaptive_query(weights, matrix)[0])


def all_questions(family: str, count: int, labels: int) -> Iterator[Query] | None:
    """Return all equally likely questions of a family; None if there are too many.

    Parameters
    ----------
    family : str
        A family of bits.
    count, labels : int
        K and M.
    """
    if family == "bisection" and math.comb(count, count // 2) <= _LARGEST_ENUMERATION:
        return _bisections(count)
    if family == "scheffe" and count * (count - 1) <= _LARGEST_ENUMERATION:
        return (pair_query(count, *pair) for pair in permutations(range(count), 2))
    if family == "mean_test":
        return (ThresholdQuery(row) for row in np.eye(count) - 1.0 / count)
    if family == "hadamard" and hadamard_size(labels) <= _LARGEST_ENUMERATION:
        return (HadamardQuery(row) for row in range(1, hadamard_size(labels)))
    return None


def _bisections(count: int) -> Iterator[Query]:
    """Yield a question for each half of the hypotheses, rounded down."""
    half = count // 2
    for members in combinations(range(count), half):
        coefficients = np.full(count, -1.0 / (count - half))
        coefficients[list(members)] = 1.0 / half
        yield ThresholdQuery(coefficients)


def checked_epsilon(value: object) -> float:
    """Return `value` as a float in (0, 30], or raise."""
    # For larger epsilon, the rarer of two outcomes has probability below 1e-13, which is no
    # privacy.
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
        M; None if the labels do not form a finite set.
    queries : tuple of Query
        One query per bit ("bit"), one loss query ("coordinate"), otherwise none.
    subset_size : int or None
        d in [1, M - 1] ("subset").
    fingerprint : bytes
        Fingerprint of the hypotheses, 16 bytes: devices with other hypotheses refuse the round. It
        is zeros for functions, which cannot be compared.

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
        """Raise for specifications that no device may answer, and convert to plain numbers."""
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
        # A subset answers no query.
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

        Bits are 0 or 1, subsets are ascending and within the labels, and the digest is that of this
        specification. No message contains a value.
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
        """The specification as bytes, without the digest."""
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
        """Return the specification written by `to_bytes`; ``ValueError`` for anything else.

        Parameters
        ----------
        data : bytes-like
            Bytes of any origin. The fields are checked like those of the constructor.
        """
        data = _octets(data)
        body, digest = data[:-_CHECK], data[-_CHECK:]
        try:
            (magic, version, turn, channel, epsilon, labels, count, size, queries,
             _, fingerprint) = _SPEC.unpack_from(body)  # fmt: skip
        except struct.error:
            raise ValueError("malformed round specification") from None
        if magic != _MAGIC or version != _VERSION:
            raise ValueError("not a round specification of this version")
        # Checked before the fields, so that damaged data are called corrupt and not malformed.
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
        # A specification has one form in bytes. With extra bytes it would have several digests.
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
        Digest of this specification, 8 bytes.
    nonce : bytes
        8 random bytes, independent of all data, with which the server detects duplicates.
    channel : str
        Channel of this specification.
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
        # `index` refuses floats and fractions, which `int` would truncate.
        object.__setattr__(self, "values", tuple(index(value) for value in self.values))
        _check_head(self.round, self.digest, self.channel)
        if not isinstance(self.nonce, bytes) or len(self.nonce) != 8:
            raise ValueError("nonce must have 8 bytes")
        if self.values:
            _check_range(self.channel, min(self.values), max(self.values))

    def to_bytes(self) -> bytes:
        """Return the report as bytes; their number only depends on the specification."""
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
        See `Report`; equal for all reports.
    nonces : array of shape (n,)
        Nonces, little-endian, with dtype uint64.
    values : array of shape (n, width)
        One report per row, with dtype int64.
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
        if values.dtype.kind not in "iub" or values.ndim != 2:  # bools are bits
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
        """Return the reports one by one, in order, as devices would have sent them."""
        nonces = (nonce.tobytes() for nonce in self.nonces.astype("<u8"))
        return [
            Report(self.round, self.digest, nonce, self.channel, tuple(row), self.simulated)
            for nonce, row in zip(nonces, self.values.tolist(), strict=True)
        ]

    @classmethod
    def from_reports(cls, reports: Iterable[Report]) -> ReportBatch:
        """Return a batch of reports to one specification; ``ValueError`` if they answer several."""
        given = list(reports)
        if not given:  # the specification is unknown without reports
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
        """Return the batch as bytes: platform-independent, nonces first."""
        count, width = self.values.shape
        # Lengths depend on the channel only. `_check_range` has checked that the values fit.
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

    __hash__ = None  # type: ignore[assignment]  # arrays have none


def batches(reports: object) -> list[ReportBatch]:
    """Return reports of any form, in order, as batches that answer one specification each.

    Parameters
    ----------
    reports : Report, ReportBatch, or iterable of either
        Adjacent reports that answer the same specification are put into one batch.

    Raises
    ------
    TypeError
        For anything else.
    """
    if isinstance(reports, (Report, ReportBatch)):
        reports = [reports]
    # Text and bytes are also iterable, but do not contain reports.
    if isinstance(reports, (str, bytes)) or not isinstance(reports, Iterable):
        raise TypeError(f"reports must be reports; got {type(reports).__name__}")
    found = []
    # Only adjacent reports are combined, because hedge learns from reports in their order.
    for _, group in groupby(reports, _specification):
        first, *others = group
        batch = first
        if isinstance(first, Report):
            batch = ReportBatch.from_reports([first, *others])
        found.append(batch)
    # Empty batches teach nothing, and their specification need not be open.
    return [batch for batch in found if len(batch)]


def _specification(report: object) -> object:
    """Return a key that is equal for reports of one batch; a given batch is not combined."""
    # The key differs from the key of every report and of every other batch.
    if isinstance(report, ReportBatch):
        return id(report)
    if not isinstance(report, Report):
        raise TypeError("a batch needs reports")
    return report.round, report.digest, report.channel, len(report.values)


def _head(magic: bytes, reports: Report | ReportBatch) -> bytes:
    """Return the head of reports and batches."""
    channel = CHANNELS.index(reports.channel)
    simulated = int(reports.simulated)
    return _REPORT.pack(magic, _VERSION, channel, simulated, reports.round, reports.digest)


def _parts(
    magic: bytes, layout: struct.Struct, data: object
) -> tuple[tuple[int, bytes, str, bool], tuple[Any, ...], bytes]:
    """Return the head, the numbers that follow it, and the rest; ``ValueError`` if malformed."""
    # The data may have any origin, so callers compare these sizes with the rest before they read
    # it.
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


def _octets(data: object) -> bytes:
    """Return a copy of bytes, or raise `TypeError` without quoting the argument."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes; got {type(data).__name__}")
    return bytes(data)


def _check_head(number: object, digest: object, channel: object) -> None:
    """Raise unless these are the round, digest and channel of a specification."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < 2**63:
        raise ValueError("round must be an int in [1, 2**63)")
    if not isinstance(digest, bytes) or len(digest) != 8:
        raise ValueError("digest must have 8 bytes")
    if channel not in CHANNELS:
        raise ValueError("reports need a known channel")


def _check_range(channel: str, smallest: int, largest: int) -> None:
    """Raise unless the channel can carry these integers."""
    low, high = _RANGES[channel]
    if smallest < low or largest > high:
        raise ValueError("the values of a report are out of range")
