"""Classes of distributions for learning from private reports, and one on which it must fail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpoco._validation import (
    FloatArray,
    IntArray,
    choice,
    positive_float,
    positive_int,
    real_in,
    whole_number,
)

_LARGEST = 2**31 - 1


def _generator(seed: int | None) -> np.random.Generator:
    """Return the random numbers of a seed; None is the operating system's entropy."""
    return np.random.default_rng(None if seed is None else whole_number("seed", seed))


def dirichlet_class(
    hypotheses: int,
    labels: int,
    *,
    concentration: float = 1.0,
    contexts: int | None = None,
    seed: int | None = None,
) -> FloatArray:
    """Return random distributions, shape (K, M), or (C, K, M) with `contexts`.

    Parameters
    ----------
    hypotheses, labels : int
        K and M.
    concentration : float, default 1.0
        1 is uniform on the simplex; 0.1 puts nearly all mass on few labels, as surveys with many
        rare categories have it.
    contexts : int, optional
        C.
    seed : int, optional
        None takes one from the operating system.
    """
    shape: tuple[int, ...] = (positive_int("hypotheses", hypotheses, maximum=_LARGEST),)
    if contexts is not None:
        shape = (positive_int("contexts", contexts, maximum=_LARGEST), *shape)
    width = positive_int("labels", labels, maximum=_LARGEST)
    rng = _generator(seed)
    # Gamma variates of tiny shape may all underflow: these rows become a uniform label.
    draws = rng.gamma(positive_float("concentration", concentration), 1.0, size=(*shape, width))
    totals = draws.sum(axis=-1, keepdims=True)
    draws[..., 0] += (totals[..., 0] == 0.0).astype(np.float64)
    rows: FloatArray = draws / draws.sum(axis=-1, keepdims=True)
    return rows


def softmax_class(
    hypotheses: int,
    labels: int,
    *,
    contexts: int = 50,
    dimension: int = 5,
    scale: float = 1.0,
    seed: int | None = None,
) -> FloatArray:
    """Return softmax distributions of linear scores, shape (C, K, M).

    C contexts of dimension d and K weight matrices of shape (M, d) have standard normal entries;
    scores are ``scale <weights, context>``.
    """
    rng = _generator(seed)
    count = partial(positive_int, maximum=_LARGEST)
    points = rng.standard_normal((count("contexts", contexts), count("dimension", dimension)))
    shape = count("hypotheses", hypotheses), count("labels", labels), dimension
    scores = np.einsum("cd,kmd->ckm", points, rng.standard_normal(shape))
    scores *= positive_float("scale", scale)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    rows: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return rows


def near_duplicates(
    hypotheses: int, labels: int, *, spread: float = 0.15, seed: int | None = None
) -> FloatArray:
    """Return K variations of one distribution, shape (K, M), that are hard to tell apart.

    The base is uniform on the simplex; each row is the base times ``exp(spread N(0, 1))``, scaled.
    """
    rng = _generator(seed)
    count = positive_int("hypotheses", hypotheses, maximum=_LARGEST)
    base = rng.dirichlet(np.ones(positive_int("labels", labels, maximum=_LARGEST)))
    noise = positive_float("spread", spread) * rng.standard_normal((count, base.size))
    rows = base * np.exp(noise)
    scaled: FloatArray = rows / rows.sum(axis=1, keepdims=True)
    return scaled


def misspecified(
    truth: Any, *, share: float = 0.3, concentration: float = 1.0, seed: int | None = None
) -> FloatArray:
    """Return ``(1 - share) truth + share noise``; noise is a random distribution per row.

    A truth outside the class, near one of its members; `truth` has shape (..., M).
    """
    rows = np.asarray(truth, dtype=np.float64)
    part = real_in("share", share, "[0, 1]")
    count = rows.size // rows.shape[-1]
    noise = dirichlet_class(count, rows.shape[-1], concentration=concentration, seed=seed)
    return (1.0 - part) * rows + part * noise.reshape(rows.shape)


def draw_labels(
    truth: Any, rounds: int | None = None, contexts: Any = None, *, seed: int | None = None
) -> IntArray:
    """Return labels drawn from the truth, shape (T,).

    Parameters
    ----------
    truth : array of shape (M,) or (C, M)
        Distributions.
    rounds : int, optional
        T, for one distribution.
    contexts : integer array of shape (T,), optional
        The round's row of `truth`.
    seed : int, optional
        None takes one from the operating system.
    """
    rows = np.asarray(truth, dtype=np.float64)
    if (rows.ndim == 1) == (rounds is None) or (rows.ndim == 2) == (contexts is None):
        raise ValueError("one distribution needs rounds; several need contexts")
    rng = _generator(seed)
    if rows.ndim == 1:
        edges = np.cumsum(rows)
        draws = rng.random(positive_int("rounds", rounds)) * edges[-1]
        found: IntArray = np.searchsorted(edges[:-1], draws, side="right").astype(np.int64)
        return found
    places = np.asarray(contexts)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise TypeError("contexts must be a sequence of ints")
    labels = np.empty(places.size, dtype=np.int64)
    draws = rng.random(places.size)
    for context in np.unique(places):
        edges, here = np.cumsum(rows[context]), places == context
        labels[here] = np.searchsorted(edges[:-1], draws[here] * edges[-1], side="right")
    return labels


_LARGEST_PAIRS = 4095


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
