"""All losses of a label with additive noise on a lattice: for comparison with one bit.

Below about ``epsilon coth(epsilon / 2) = 2 sqrt(2 K)`` one bit about one loss drawn at random has
less noise than any of these channels, and it is pure. Proofs and figures:
``docs/privacy/local_vector_channels.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpoco import _core
from dpoco import noise as additive
from dpoco._validation import FloatArray, IntArray, choice, float_array, label_index, real_in
from dpoco.accounting import local_vector
from dpoco.random import Source

NOISES = ("laplace", "composed", "gaussian")
_DIGITS = 20
# Beyond these the diameters are bounded by sums of ranges instead of found over all pairs.
_MOST_PAIRED_LABELS = 4096
_MOST_WORK = 2**30


class VectorRandomizer:
    """The centred, mixed log-losses of a label plus independent integer noise.

    Parameters
    ----------
    matrix : array of shape (K, M)
        The public hypotheses of the round's context.
    epsilon : float
        In (0, 30].
    mixing : float
        lam of the losses, in (0, 1].
    delta : float, default 0
        In [0, 1); above 0 for "composed" and "gaussian".
    noise : {"auto", "laplace", "composed", "gaussian"}, default "auto"
        "laplace" is pure, of scale l1 / epsilon; "composed" is Laplace under composition over
        coordinates; "gaussian" the discrete Gaussian on losses less their mean over hypotheses;
        "auto" the smallest standard deviation of those that delta allows.

    Attributes
    ----------
    noise : str
        The noise in use.
    delta : float
        Of a report: 0 for "laplace".
    step : float
        Real value of one lattice step, a power of two.
    scale : Fraction
        Scale of the noise in lattice steps, exactly as sampled; 0 where all labels look alike.
    table : int array of shape (K, M)
        What is sent about each label before noise, in lattice steps; zeros for no label.
    l1, l2 : int, float
        Diameters of its columns with the zero column.
    reach : float
        Largest absolute value sent about any label before noise.

    Notes
    -----
    O(K M^2) to build for up to 4096 labels, else O(K M); O(K) a report.
    """

    def __init__(
        self,
        matrix: Any,
        epsilon: float,
        mixing: float,
        *,
        delta: float = 0.0,
        noise: str = "auto",
    ) -> None:
        values = float_array("matrix", matrix, (None, None))
        self.epsilon = real_in("epsilon", epsilon, "(0, 30]")
        lam, given = real_in("mixing", mixing, "(0, 1]"), real_in("delta", delta, "[0, 1)")
        choice("noise", noise, ("auto", *NOISES))
        if noise in NOISES[1:] and given == 0.0:
            raise ValueError(f"noise={noise!r} needs a positive delta")
        widest = _core.local_log(1.0 + (1.0 - lam) * values.shape[0] / lam)
        reach = max(float(widest), 1e-12)
        self.step = lattice_step(0.5 * reach)
        plain = _core.local_centred_losses(values, lam)
        names = (noise,) if noise != "auto" else NOISES[: 1 if given == 0.0 else None]
        built = [_design(name, plain, reach, self.step, self.epsilon, given) for name in names]
        deviation, self.noise, self.table, self.scale, self.l1, self.l2 = min(
            built, key=lambda design: design[0]
        )
        self.delta = given if self.noise != "laplace" else 0.0
        self.standard_deviation = deviation * self.step
        self.reach = float(np.abs(self.table).max()) * self.step

    @property
    def law(self) -> str:
        """``"laplace"`` or ``"gaussian"``: the law of the noise."""
        return "gaussian" if self.noise == "gaussian" else "laplace"

    def vector(self, label: Any) -> IntArray:
        """Return what is sent about a label before noise; zeros for what is no label."""
        index = label_index(label, self.table.shape[1])
        if index is None:
            return np.zeros(self.table.shape[0], dtype=np.int64)
        return self.table[:, index]

    def respond(self, label: Any, source: Source) -> tuple[int, ...]:
        """Return the report on `label`, in lattice steps."""
        sent = self.vector(label)
        if self.scale:
            gaussian = self.law == "gaussian"
            draw = additive.discrete_gaussian if gaussian else additive.discrete_laplace
            sent = sent + draw(source, sent.size, scale=self.scale)
        return tuple(sent.tolist())

    def largest_log_ratio(self) -> Fraction:
        """Return the largest log-ratio of two probabilities of one report, exactly.

        Infinite, hence a ``ValueError``, for Gaussian noise.
        """
        if self.law == "gaussian":
            raise ValueError("Gaussian noise has no largest ratio")
        return Fraction(0) if self.scale == 0 else self.l1 / self.scale

    def __repr__(self) -> str:
        return (
            f"VectorRandomizer(losses={self.table.shape[0]}, epsilon={self.epsilon:g}, "
            f"delta={self.delta:g}, noise={self.noise!r})"
        )


def _design(
    name: str, plain: FloatArray, reach: float, step: float, epsilon: float, delta: float
) -> tuple[float, str, IntArray, Fraction, int, float]:
    """Return deviation, name, table, scale and diameters of one noise, in lattice steps."""
    bound = 0.5 * reach
    if name == "gaussian":  # a common part of all losses says nothing about hypotheses
        total = np.zeros(plain.shape[1])
        for row in plain:
            total += row
        plain, bound = plain - total / plain.shape[0], reach
    # Half to even; the step is a power of two.
    table = np.rint(np.clip(plain, -bound, bound) / step).astype(np.int64)
    table.flags.writeable = False
    l1, l2, ranges = diameters(table)
    epsilon = within(epsilon)
    if l1 == 0:
        scale = Fraction(0)
    elif name == "laplace":
        scale = Fraction(l1) / Fraction(epsilon)
    elif name == "gaussian":
        scale = Fraction(local_vector.discrete_gaussian_scale(epsilon, delta, l2, float(l1)))
    else:
        widths = tuple(int(width) for width in ranges)
        scale = Fraction(local_vector.composed_laplace_scale(epsilon, delta, widths))
    if scale and not additive.SMALLEST_SCALE <= scale <= additive.LARGEST_SCALE:
        raise ValueError("epsilon is too small for this channel")
    factor = 1.0 if name == "gaussian" else math.sqrt(2.0)
    return factor * float(scale), name, table, scale, l1, l2


def within(epsilon: float) -> float:
    """Return the epsilon that noise is scaled to: less by 2^-50 of it.

    Laplace noise attains it, while a ledger takes ten reports of 0.1 to be 1.
    """
    return epsilon * (1.0 - 2.0**-50)


def lattice_step(reach: float) -> float:
    """Return g = 2^(ceil(log2 reach) - 20): a million steps or more to values of size `reach`."""
    mantissa, exponent = math.frexp(reach)
    return math.ldexp(1.0, (exponent if mantissa > 0.5 else exponent - 1) - _DIGITS)


def diameters(table: IntArray) -> tuple[int, float, IntArray]:
    """Return how far two columns of a table, or a column and zero, can be apart.

    One column a label, entries below 2^22. Returns the largest sum of absolute differences, the
    largest Euclidean distance, rounded up, and the largest difference of each row. Over all pairs,
    O(K M^2), for at most 4096 labels and K M^2 <= 2^30; else, from the ranges, upper bounds in
    O(K M). One row takes O(M).
    """
    high = np.maximum(table.max(axis=1), 0)
    low = np.minimum(table.min(axis=1), 0)
    ranges = high - low
    if table.shape[1] > _MOST_PAIRED_LABELS or table.shape[0] * table.shape[1] ** 2 > _MOST_WORK:
        squares = sum(int(width) ** 2 for width in ranges)
        return int(ranges.sum()), _root(squares), ranges
    if table.shape[0] == 1:
        return int(ranges[0]), float(ranges[0]), ranges
    columns = np.unique(np.vstack([table.T, np.zeros(table.shape[0], dtype=np.int64)]), axis=0)
    l1 = square = 0
    for i in range(len(columns) - 1):
        gaps = np.abs(columns[i + 1 :] - columns[i])
        l1 = max(l1, int(gaps.sum(axis=1).max()))
        square = max(square, int((gaps * gaps).sum(axis=1).max()))
    return l1, _root(square), ranges


def _root(square: int) -> float:
    """Return the square root of an integer, rounded up."""
    return math.nextafter(math.sqrt(square), math.inf) if square else 0.0
