"""Randomizers of single reports: exact laws on 53-bit integers.

Every probability is an integer over 2^53 (times binomial coefficients for subsets), so that "the
ratio of two probabilities is at most e^epsilon" is a statement about integers, proved in
``docs/privacy/local_randomizers.md`` and checked by ``tests/local/exact.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._validation import FloatArray, IntArray, label_index, positive_int
from dpoco.local._hypotheses import Hypotheses, Labels, label_indices
from dpoco.local._messages import LARGEST_BITS, RoundSpec, checked_epsilon
from dpoco.privacy.mechanisms.local_report import Bits, Subset
from dpoco.random import Source

Law = dict[tuple[int, ...], Fraction]

# Probabilities are multiples of 2^-53: a uniform 53-bit integer is compared with a numerator.
_UNITS = 2**53
# Largest number of outcomes that `pmf` lists.
_LARGEST_LAW = 10**6


def best_bits(epsilon: float) -> int:
    """Return the best number of bits among which to split `epsilon`: argmax k tanh(eps / 2k)^2.

    Parameters
    ----------
    epsilon : float
        Privacy parameter of the whole report, in (0, 30].
    """
    value = checked_epsilon(epsilon)
    if value <= 1.0:  # then k tanh(x / k)^2 falls in k, and rounding would decide
        return 1

    def signal(k: int) -> float:
        power = float(_core.local_exp(value / k))  # has the same bits on every machine
        return k * ((power - 1.0) / (power + 1.0)) ** 2

    return max(range(1, LARGEST_BITS + 1), key=signal)


def best_subset_size(labels: int, epsilon: float) -> int:
    """Return d*, the size of the most informative subsets: about M / (e^eps + 1).

    Parameters
    ----------
    labels : int
        M >= 2.
    epsilon : float
        In (0, 30].
    """
    value = checked_epsilon(epsilon)
    if labels < 2:
        raise ValueError("a subset needs at least 2 labels")
    # Client and server must agree, so e^eps must have the same bits on every machine.
    size = math.floor(labels / (float(_core.local_exp(value)) + 1.0) + 0.5)
    return max(1, size)


class BitRandomizer:
    """Bits with ``P(b = 1) = (1 + c0 phi) / 2``, c0 = tanh(epsilon / 2 bits).

    Parameters
    ----------
    epsilon : float
        Privacy parameter of all bits together, in (0, 30].
    bits : int or "auto", default 1
        Each bit answers a separate query with epsilon / bits; at most 64 bits.

    Attributes
    ----------
    low, high : int
        Smallest and largest probability of an outcome, over 2^53; ``high / low <= e^epsilon``.

    Notes
    -----
    Sampling: ``b = [U < k]``, with U a uniform 53-bit integer and ``k = round(2^52 + phi (high -
    2^52))``, half to even, clamped to [low, high].
    """

    # Query values, from hostile and honest servers, that audits try.
    PROBES: ClassVar[tuple[float, ...]] = (
        *(i / 64.0 for i in range(-64, 65)),
        *(math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, 2.0, -2.0),
    )

    def __init__(self, epsilon: float, bits: int | str = 1) -> None:
        self.epsilon = checked_epsilon(epsilon)
        if bits == "auto":
            self.bits = best_bits(self.epsilon)
        else:
            self.bits = positive_int("bits", bits, maximum=LARGEST_BITS)
        # The quotient is rounded to nearest and may exceed its share. The margin of `high` is
        # larger than this error (docs/privacy/local_randomizers.md, Claim 1).
        self._law = _core.BitLaw(self.epsilon / self.bits)
        self.low, self.high = self._law.low, self._law.high

    @property
    def law(self) -> Bits:
        """Description of the draw, from which the kernel certifies the guarantee of a report."""
        return Bits(self.low, self.high, self.bits)

    @property
    def contrast(self) -> float:
        """c0 as sampled: (2 high - 2^53) / 2^53."""
        return self._law.contrast

    @property
    def inverse_contrast(self) -> float:
        """C as sampled: 2^53 / (2 high - 2^53); infinite if the bits carry no information."""
        gap = 2 * self.high - _UNITS
        return _UNITS / gap if gap else math.inf

    def threshold(self, phi: float) -> int:
        """Return k, the numerator over 2^53 of ``P(b = 1)``."""
        return self._law.threshold(phi)

    def thresholds(self, phi: FloatArray) -> NDArray[np.uint64]:
        """Return k for many values of one query, shape (n,)."""
        return self._law.thresholds(phi)

    def respond(self, phis: float | Sequence[float], source: Source) -> tuple[int, ...]:
        """Return the bits for one value of each query; draws `bits` words."""
        thresholds = np.array([self.threshold(phi) for phi in self._phis(phis)], dtype=np.uint64)
        return tuple(self.respond_many(thresholds, np.arange(self.bits), source).tolist())

    def respond_many(
        self, thresholds: NDArray[np.uint64], places: NDArray[np.int64], source: Source
    ) -> NDArray[np.int64]:
        """Return one bit per report, shape (n,); report i uses ``thresholds[places[i]]``."""
        bits = np.empty(places.size, dtype=np.int64)
        # One thread at a time uses the key stream, and `_own` first checks for a fork, because the
        # same words must not be drawn twice.
        with source._lock:
            source._own()
            _core.local_draw_bits(source._engine, thresholds, places, bits)
        return bits

    def pmf(self, phis: float | Sequence[float]) -> Law:
        """Return the exact law of the bits, as sampled.

        Parameters
        ----------
        phis : float or sequence of float
            One value per bit. Any values are allowed, because they are clamped.

        Returns
        -------
        dict
            Maps each tuple of bits to its probability; 2^bits entries.

        Raises
        ------
        ValueError
            For another number of values, and for more than 10^6 entries.
        """
        ones = [Fraction(self.threshold(phi), _UNITS) for phi in self._phis(phis)]
        if 2**self.bits > _LARGEST_LAW:
            raise ValueError("the law has too many outcomes to list")
        law: Law = {}
        for bits in product((0, 1), repeat=self.bits):
            chances = (p if b else 1 - p for p, b in zip(ones, bits, strict=True))
            law[bits] = math.prod(chances, start=Fraction(1))
        return law

    def _phis(self, phis: float | Sequence[float]) -> list[float]:
        """Return one value per bit, or raise."""
        values = [float(phis)] if np.ndim(phis) == 0 else [float(v) for v in phis]  # type: ignore
        if len(values) != self.bits:
            raise ValueError(f"there must be {self.bits} values, one a bit")
        return values

    def __repr__(self) -> str:
        return f"BitRandomizer(epsilon={self.epsilon:g}, bits={self.bits})"


class SubsetRandomizer:
    """A random subset of labels that contains the true label with larger probability.

    Parameters
    ----------
    labels : int
        M >= 2.
    size : int or None
        d in [1, M - 1]; 1 is randomized response, and None is the most informative size.
    epsilon : float
        In (0, 30].

    Attributes
    ----------
    inside : int or None
        Numerator over 2^53 of the probability that the user's label is in the report. None if
        epsilon is too small for 53 bits; the report is then a uniform subset for every label.

    Notes
    -----
    A missing label, or one outside [0, M), gives a uniform subset. A report costs O(d) draws. Their
    number does not depend on the label (except for rejections of probability below M 2^-64).
    """

    def __init__(self, labels: int, size: int | None, epsilon: float) -> None:
        self.epsilon = checked_epsilon(epsilon)
        self.labels = positive_int("labels", labels, maximum=2**31 - 1)
        if self.labels < 2:
            raise ValueError("a subset needs at least 2 labels")
        if size is None:
            size = best_subset_size(self.labels, self.epsilon)
        self.size = positive_int("size", size, maximum=self.labels - 1)
        self._law = _core.SubsetLaw(self.labels, self.size, self.epsilon)
        self.inside: int | None = self._law.inside or None

    @property
    def law(self) -> Subset:
        """Description of the draw, which the kernel certifies."""
        return Subset(self.labels, self.size, self.inside or 0)

    @property
    def gain(self) -> float:
        """``P(Z | y in Z) / P(Z | y not in Z) - 1`` as sampled; at most e^epsilon - 1."""
        if self.inside is None:
            return 0.0
        off = (_UNITS - self.inside) * self.size
        return float(Fraction(self.inside * (self.labels - self.size) - off, off))

    def respond(self, label: object, source: Source) -> tuple[int, ...]:
        """Return the report on `label`, ascending."""
        own = label_index(label, self.labels)
        labels = np.array([-1 if own is None else own], dtype=np.int64)
        return tuple(self.respond_many(labels, source)[0].tolist())

    def respond_many(self, labels: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
        """Return the reports on many labels, shape (n, d), ascending; -1 is a missing label."""
        reports = np.empty((labels.size, self.size), dtype=np.int64)
        # See `BitRandomizer.respond_many`.
        with source._lock:
            source._own()
            self._law.draw(source._engine, labels, reports)
        return reports

    def probability(self, report: Sequence[int], label: object) -> Fraction:
        """Return the exact probability of a report, as sampled."""
        m, d = self.labels, self.size
        own = label_index(label, m)
        # A missing label, or any label if epsilon is too small for 53 bits: a uniform subset.
        if own is None or self.inside is None:
            return Fraction(1, math.comb(m, d))
        if own in report:
            return Fraction(self.inside, _UNITS * math.comb(m - 1, d - 1))
        return Fraction(_UNITS - self.inside, _UNITS * math.comb(m - 1, d))

    def pmf(self, label: object) -> Law:
        """Return the exact law of the report: C(M, d) entries."""
        if math.comb(self.labels, self.size) > _LARGEST_LAW:
            raise ValueError("the law has too many outcomes to list")
        reports = combinations(range(self.labels), self.size)
        return {report: self.probability(report, label) for report in reports}

    def __repr__(self) -> str:
        return f"SubsetRandomizer(labels={self.labels}, size={self.size}, epsilon={self.epsilon:g})"


# Cached for the few settings that a device encounters.
bit_randomizer = lru_cache(maxsize=64)(BitRandomizer)
subset_randomizer = lru_cache(maxsize=64)(SubsetRandomizer)


def draws(
    spec: RoundSpec, hypotheses: Hypotheses, x: object, labels: Labels, protect: str
) -> Callable[[Source], IntArray]:
    """Return a function that draws the reports on some labels, shape (n, width), once paid for.

    All errors occur here, for public reasons, before any randomness is drawn or budget spent.

    Parameters
    ----------
    spec : RoundSpec
        The specification, already checked for these devices.
    hypotheses : Hypotheses
        The devices' own copy.
    x : object
        The context that all share; with ``protect="label_and_context"`` one context per label, or
        None without contexts.
    labels : sequence or integer array of shape (n,)
        Invalid labels mean "no event".
    protect : {"label", "label_and_context"}
        Data that one report protects.
    """
    # A subset only depends on the labels; queries also need their likelihoods.
    if spec.channel == "subset":
        assert spec.labels is not None
        if hypotheses.kind != "array":
            hypotheses.matrix(x)  # unknown contexts are refused, as for other channels
        subsets = subset_randomizer(spec.labels, spec.subset_size, spec.epsilon)
        own = label_indices(labels, spec.labels)
        return lambda source: subsets.respond_many(own, source)
    randomizer = bit_randomizer(spec.epsilon, len(spec.queries))
    tables = _values(spec, hypotheses, x, labels, protect)

    def draw(source: Source) -> IntArray:
        bits = [
            randomizer.respond_many(randomizer.thresholds(phi), places, source)
            for phi, places in tables
        ]
        return np.stack(bits, axis=1)

    return draw


def _values(
    spec: RoundSpec, hypotheses: Hypotheses, x: Any, labels: Labels, protect: str
) -> list[tuple[FloatArray, IntArray]]:
    """Return, for each query, a list of values and the index of the value for each label."""
    count = len(labels)
    if spec.labels is None:
        indices = np.array([-1 if y is None else 0 for y in labels], dtype=np.int64)
    else:
        indices = label_indices(labels, spec.labels)
    each_own = protect == "label_and_context" and x is not None
    # A callable is user code and may fail on a private context; an array cannot.
    private = each_own or (protect == "label_and_context" and hypotheses.kind != "array")
    if private or spec.labels is None:
        rows = np.zeros((hypotheses.count, count))
        # Computed one by one, because the user's function may fail on any pair.
        for i, (own, y) in enumerate(zip(x if each_own else [x] * count, labels, strict=True)):
            rows[:, i] = _private_likelihoods(hypotheses, own, y)
    elif count < spec.labels:  # fewer labels than the table would have
        rows = np.ascontiguousarray(hypotheses.columns(x, labels).T)
    else:
        matrix = hypotheses.matrix(x)
        # The last entry is the value of a missing label.
        places = np.where(indices < 0, spec.labels, indices)
        return [(np.append(query.values(matrix), 0.0), places) for query in spec.queries]
    each = np.arange(count)
    if spec.labels == 1:
        return [(np.zeros(count), each) for _ in spec.queries]
    return [
        (np.where(indices < 0, 0.0, query.values_at(rows, indices)), each) for query in spec.queries
    ]


def _private_likelihoods(hypotheses: Hypotheses, x: object, y: object) -> FloatArray:
    """Return the K likelihoods of a label; zeros if the user's function fails on private data.

    If a device sent no report in such cases, its silence would reveal that its data are unusual.
    """
    try:
        return hypotheses.column(x, y)
    except Exception:
        return np.zeros(hypotheses.count)
