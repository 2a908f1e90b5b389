"""The class of distributions on which every locally private learner must pay."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import choice, positive_float, positive_int

__all__ = ["HadamardClass", "hadamard_class"]

FloatArray = NDArray[np.float64]

_LARGEST_PAIRS = 4095


@dataclass(frozen=True, eq=False)
class HadamardClass:
    """A class on which every non-interactive, locally private learner must pay.

    Attributes
    ----------
    matrix : array of shape (2 pairs, N)
        Row 2 i is ``p_i1``, row 2 i + 1 is ``p_i2 = p_i1 + gap H_i / N``.
    pairs, horizon : int
        Pairs and T it is made for.
    epsilon : float
        Privacy of a report it is made for.
    gap : float
        a in (0, 1].
    """

    matrix: FloatArray
    pairs: int
    horizon: int
    epsilon: float
    gap: float

    def risk_lower_bound(self, epsilon: float | None = None, rounds: int | None = None) -> float:
        """Return what the KL-risk is at least, in nats, averaged over the class's members as truth.

        Parameters
        ----------
        epsilon : float, optional
            Of the learner's reports: pure, one a round; by default that of the class.
        rounds : int, optional
            T; by default that of the class.

        Returns
        -------
        float
            ``(log 2 / 4) (1 - v) a T`` with ``v = a sqrt(T G / (2 pairs))`` and
            ``G = min((e^eps - 1)^2 / 4, e^eps)``, at least 0: v bounds the mean total variation
            distance between all reports under the two members of a pair. With the corrected gap,
            v = 1/3.

        Notes
        -----
        For randomizers that are fixed before the first report, public coins included. Proof:
        `docs/privacy/local_learning.md`. It sharpens the constant of Sima, Wu, Milenkovic and
        Szpankowski (2024), Theorem 3.
        """
        level = self.epsilon if epsilon is None else positive_float("epsilon", epsilon)
        number = self.horizon if rounds is None else positive_int("rounds", rounds)
        distance = self.gap * math.sqrt(number * _information(level) / (2.0 * self.pairs))
        return max(0.0, 0.25 * math.log(2.0) * (1.0 - distance) * self.gap * number)

    def __repr__(self) -> str:
        return (
            f"HadamardClass(pairs={self.pairs}, labels={self.matrix.shape[1]}, "
            f"horizon={self.horizon}, epsilon={self.epsilon:g}, gap={self.gap:.4g})"
        )


def hadamard_class(
    pairs: int, horizon: int, epsilon: float, variant: str = "corrected"
) -> HadamardClass:
    """Return the class of the lower bound for learning from locally private reports.

    Parameters
    ----------
    pairs : int
        Pairs of hypotheses: K = 2 pairs, and M = N labels, N the power of two with
        ``N / 2 <= pairs <= N - 1``.
    horizon : int
        T.
    epsilon : float
        Privacy of a report.
    variant : {"corrected", "printed"}
        Gap between the members of a pair: ``sqrt(2 pairs / (9 T G))``, G as in
        `HadamardClass.risk_lower_bound`; or as published,
        ``sqrt(pairs / (9 T min((e^eps - 1)^2, 1) e^eps))``.

    Returns
    -------
    HadamardClass
        With H the Sylvester-Hadamard matrix, p_i1 is 0 where ``H_i = 1`` and 2 / N elsewhere.

    Raises
    ------
    ValueError
        If the gap would exceed 1: too few rounds.
    """
    count, rounds = (
        positive_int("pairs", pairs, maximum=_LARGEST_PAIRS),
        positive_int("horizon", horizon),
    )
    level = positive_float("epsilon", epsilon)
    if choice("variant", variant, ("corrected", "printed")) == "corrected":
        squared = 2.0 * count / (9.0 * rounds * _information(level))
    else:
        squared = count / (9.0 * rounds * min(math.expm1(level) ** 2, 1.0) * math.exp(level))
    if squared > 1.0:
        raise ValueError("the horizon is too short for this epsilon: the gap would exceed 1")
    labels, gap = 1 << count.bit_length(), math.sqrt(squared)
    signs = np.ones((1, 1))
    while signs.shape[0] < labels:
        signs = np.block([[signs, signs], [signs, -signs]])
    signs = signs[1 : count + 1]
    matrix = np.repeat((1.0 - signs) / labels, 2, axis=0)
    matrix[1::2] += gap * signs / labels
    matrix.flags.writeable = False
    return HadamardClass(matrix, count, rounds, level, gap)


def _information(epsilon: float) -> float:
    """Return G: at most ``a^2 G`` nats a round tell the members of all pairs apart, together."""
    return min(math.expm1(epsilon) ** 2 / 4.0, math.exp(epsilon))
