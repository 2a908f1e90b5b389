"""Bets against a claim: e-processes of pairs of runs, and what they are sure to find.

Proofs: ``docs/privacy/black_box.md``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["FORMS", "detectable", "log_e_values"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Columns of pair counts: in both runs, in ours only, in the neighbour's only, in neither. The four
# claims about an event: as it is, with the streams exchanged, and both for the complement.
FORMS = np.array([[0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 1, 0], [3, 1, 2, 0]])

# Fractions of the largest admissible bet. Fine where few hits decide, coarse below, down to what is
# best for 1e9 pairs.
_FRACTIONS = np.sort(np.concatenate([2.0 ** (-0.5 * np.arange(1, 32)), [0.8, 0.9, 0.97]]))
_POWER = 0.9  # probability with which a detectable violation is found


def log_e_values(counts: IntArray, epsilons: FloatArray, delta: float) -> FloatArray:
    """Return log e-values of all four claims about each event, averaged over the bets.

    Parameters
    ----------
    counts : ndarray of int64, shape (K, 4)
        Pairs in which each event occurred in both runs, in ours only, in the neighbour's only, in
        neither.
    epsilons : ndarray of float64, shape (E,)
    delta : float

    Returns
    -------
    ndarray of float64, shape (E, K, 4)
        O(E K) time and memory, whatever the number of pairs.
    """
    ratio = np.exp(epsilons)[:, None]
    bound = ratio + delta  # a bet of 1 / bound could lose everything, at the worst
    gains = np.stack(
        [
            np.log1p(_FRACTIONS * (1.0 - bound) / bound),
            np.log1p(_FRACTIONS * (1.0 - delta) / bound),
            np.broadcast_to(np.log1p(-_FRACTIONS), (len(epsilons), len(_FRACTIONS))),
            np.log1p(-_FRACTIONS * delta / bound),
        ]
    )  # (4, E, bets)
    forms = counts[:, FORMS].reshape(-1, 4).astype(np.float64)
    wealth = np.tensordot(forms, gains, axes=1)  # (4 K, E, bets)
    most = wealth.max(axis=2)
    total = most + np.log(np.mean(np.exp(wealth - most[:, :, None]), axis=2))
    return np.ascontiguousarray(total.T.reshape(len(epsilons), len(counts), 4))


def detectable(counts: IntArray, claimed: float, delta: float, needed: float, pairs: int) -> float:
    """Return the smallest true epsilon that as many pairs would have found, or inf.

    On the event (or its complement) whose probability on the stream where it is rarer is as
    measured (one hit, if there was none): if it were so much more probable on the other, the bets
    would reach `needed`, a log e-value, with probability 0.9.
    """
    from scipy.stats import binom

    if pairs == 0:
        return math.inf
    both, ours, theirs, neither = (int(n) for n in counts)
    tail = 0.5 * (1.0 - _POWER)
    at = np.array([claimed])
    best = math.inf
    for hits in ((both + ours, both + theirs), (neither + theirs, neither + ours)):
        rare = max(min(hits), 1) / pairs  # none seen is not never
        most = int(binom.ppf(1.0 - tail, pairs, rare))

        def found(probable: float, most: int = most) -> bool:
            fewest = int(binom.ppf(tail, pairs, probable))
            together = round(fewest * most / pairs)
            seen = np.array(
                [[together, fewest - together, most - together, pairs - fewest - most + together]]
            )
            return fewest > most and float(log_e_values(seen, at, delta)[0, 0, 0]) >= needed

        low, high = rare, 1.0 - 1e-9
        if not found(high):
            continue
        while high - low > 1e-6 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if found(middle) else (middle, high)
        if high > delta:
            best = min(best, math.log((high - delta) / rare))
    return best
