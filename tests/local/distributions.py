"""Classes of distributions for learning from private reports, and one on which it must fail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, IntArray


def dirichlet_class(
    hypotheses: int, labels: int, *, concentration: float = 1.0, seed: int = 0
) -> FloatArray:
    """Return random distributions, shape (K, M): at concentration 1 uniform on the simplex.

    0.1 puts nearly all mass on few labels, as surveys with many rare categories have it.
    """
    rng = np.random.default_rng(seed)
    rows: FloatArray = rng.dirichlet(np.full(labels, concentration), size=hypotheses)
    return rows


def softmax_class(hypotheses: int, labels: int, *, seed: int = 0) -> FloatArray:
    """Return softmax distributions of linear scores, shape (C, K, M).

    C = 50 contexts of dimension 5 and K weight matrices of shape (M, 5) have standard normal
    entries; scores are ``<weights, context>``.
    """
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(50, 5)), rng.normal(size=(hypotheses, labels, 5))
    powers = np.exp(np.einsum("cd,kmd->ckm", points, weights))
    rows: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return rows


def near_duplicates(hypotheses: int, labels: int, *, seed: int = 0) -> FloatArray:
    """Return K variations of one distribution, shape (K, M), that are hard to tell apart.

    The base is uniform on the simplex; each row is the base times ``exp(0.15 N(0, 1))``, scaled.
    """
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(labels)) * np.exp(0.15 * rng.normal(size=(hypotheses, labels)))
    scaled: FloatArray = rows / rows.sum(axis=1, keepdims=True)
    return scaled


def misspecified(truth: FloatArray, *, share: float = 0.3, seed: int = 0) -> FloatArray:
    """Return ``(1 - share) truth + share noise``: a truth outside the class, near a member."""
    noise: FloatArray = dirichlet_class(1, len(truth), seed=seed)[0]
    return np.asarray((1.0 - share) * truth + share * noise)


def draw_labels(truth: Any, rounds: int, contexts: Any = None, *, seed: int = 0) -> IntArray:
    """Return labels drawn from the truth, shape (T,).

    The truth is one distribution, or one for each context: then `contexts` has the round's row.
    """
    rng = np.random.default_rng(seed)
    rows = truth[None] if contexts is None else truth
    edges = np.cumsum(rows, axis=1)[np.zeros(rounds, dtype=int) if contexts is None else contexts]
    draws = rng.random(rounds)[:, None] * edges[:, -1:]
    found: IntArray = (draws >= edges[:, :-1]).sum(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class HadamardClass:
    """A class of hypotheses on which every non-interactive, locally private learner must lose.

    Attributes
    ----------
    matrix : array of shape (2 pairs, N)
        Row 2 i is ``p_i1``, row 2 i + 1 is ``p_i2 = p_i1 + gap H_i / N``.
    pairs, horizon : int
        Number of pairs, and T, for which it is made.
    epsilon : float
        Privacy of a report for which it is made.
    gap : float
        a in (0, 1].
    """

    matrix: FloatArray
    pairs: int
    horizon: int
    epsilon: float
    gap: float

    def risk_lower_bound(self, epsilon: float | None = None, rounds: int | None = None) -> float:
        """Return a lower bound on the KL-risk in nats, averaged over the members as truth.

        Parameters
        ----------
        epsilon : float, optional
            Epsilon of the learner's reports: pure, one report per round; default: that of the
            class.
        rounds : int, optional
            T; default: that of the class.

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
        level, number = epsilon or self.epsilon, rounds or self.horizon
        distance = self.gap * math.sqrt(number * _information(level) / (2.0 * self.pairs))
        return max(0.0, 0.25 * math.log(2.0) * (1.0 - distance) * self.gap * number)


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
    """
    if variant == "corrected":
        squared = 2.0 * pairs / (9.0 * horizon * _information(epsilon))
    else:
        squared = pairs / (9.0 * horizon * min(math.expm1(epsilon) ** 2, 1.0) * math.exp(epsilon))
    assert squared <= 1.0, "too few rounds: the gap would exceed 1"
    labels, gap = 1 << pairs.bit_length(), math.sqrt(squared)
    signs = np.ones((1, 1))
    while signs.shape[0] < labels:
        signs = np.block([[signs, signs], [signs, -signs]])
    signs = signs[1 : pairs + 1]
    matrix = np.repeat((1.0 - signs) / labels, 2, axis=0)
    matrix[1::2] += gap * signs / labels
    return HadamardClass(matrix, pairs, horizon, epsilon, gap)


def _information(epsilon: float) -> float:
    """Return G: at most ``a^2 G`` nats a round tell the members of all pairs apart, together."""
    return min(math.expm1(epsilon) ** 2 / 4.0, math.exp(epsilon))
