"""What the noise of Table 5.1 spends: bounds on epsilon from above and, proven, from below.

From above, exact Gaussian accounting (`repaired_epsilon`): a record lies in bit_length(T) nodes of
the tree, each a draw of the printed radius around a leaf that may change by 2 (beta D + L). For
p > 2 the draw is Gaussian and this is the exact epsilon of the noisy sums. For 1 < p < 2 it holds
after repairing the order of the noise norm; as printed nothing is proven from above.

From below (`least_epsilon`): the streams have linear losses with gradients g and -g in the first
round and zero in all others. The decisions published around round 2^j show the direction of
g + Z_j, for p = inf its signs, and the bit_length(T) draws Z_j are independent. The event
is that a sum of scores of these directions exceeds a threshold. Its probability is
computed from the survival function of one node's statistic, which is exact for p = inf and
otherwise bounded with confidence by Monte Carlo: replacing survival functions by smaller
(larger) ones makes the sum stochastically smaller (larger), so the bound on epsilon is rigorous.

The two streams give each other's events by the symmetry of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.budget import Budget
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.accounting.generalized_gaussian import paper_order
from dpoco.accounting.published import published_sigma
from dpoco.privacy.mechanisms.bounds import smoothness_constant
from dpoco.reproduce._published_law import LEAF_BOUND, draw_unit_noise, printed_scale

__all__ = ["DirectionLaw", "repaired_epsilon"]

FloatArray = NDArray[np.float64]

_THRESHOLDS = np.linspace(-0.984375, 0.984375, 64)  # symmetric; cosines are in [-1, 1]
_DRAWS = 200_000
_FAILURE = 1e-6  # probability that a bound from Monte Carlo is wrong


def repaired_epsilon(horizon: int, dimension: int, p: float) -> float:
    """Return the epsilon, at delta = 1/T, of the printed radius with the right order of the norm.

    Exact for p > 2 and the noisy sums, an upper bound for 1 < p < 2; at the declared sensitivity.
    """
    q = 1.0 if math.isinf(p) else p / (p - 1.0)
    kappa = smoothness_constant(paper_order(q, dimension), q, dimension)
    budget = Budget._derived(1.0, 1.0 / horizon)
    sigma = published_sigma(budget, pushes=horizon, kappa=kappa, leaf_bound=LEAF_BOUND)
    change = 2.0 * LEAF_BOUND * math.sqrt(kappa * horizon.bit_length())
    return gaussian_epsilon(change / math.sqrt(sigma), budget.delta)


@dataclass(frozen=True)
class _Survival:
    """Bounds on P(statistic >= threshold): `least` under g, `most` under -g."""

    least: FloatArray
    most: FloatArray


class DirectionLaw:
    """The law of published directions around a leaf, for one dimension and geometry.

    Parameters
    ----------
    dimension : int
        d.
    p : float
        Geometry, above 1.
    seed : int
        Of the Monte Carlo draws.
    """

    def __init__(self, dimension: int, p: float, seed: int = 0) -> None:
        self._dimension, self._p = dimension, p
        self._q = 1.0 if math.isinf(p) else p / (p - 1.0)
        self._noise: FloatArray | None = None
        if not math.isinf(p):
            generator = np.random.default_rng([seed, dimension])
            self._noise = draw_unit_noise(generator, (_DRAWS,), self._q, dimension)

    def least_epsilon(self, horizon: int, size: float) -> float:
        """Return what the decisions spend at least, at delta = 1/T; at least 0.

        Parameters
        ----------
        horizon : int
            T.
        size : float
            ||g||_q, what the one round that differs adds to the sum, or takes from it.
        """
        scale = math.sqrt(printed_scale(horizon, self._q, self._dimension))
        nodes = horizon.bit_length()
        return max(
            _epsilon(survival, nodes, 1.0 / horizon) for survival in self._survivals(size / scale)
        )

    def _survivals(self, size: float) -> list[_Survival]:
        """Return bounds for each direction of g that is tried, in units of the noise."""
        if self._noise is None:  # the sign of a coordinate, and g along it
            from scipy.special import ndtr

            up, down = np.array([float(ndtr(size))]), np.array([float(ndtr(-size))])
            return [_Survival(up, down)]
        d = self._dimension
        along = [np.full(d, d ** (-1.0 / self._q)), np.eye(d)[0]]  # both of norm 1 in l_q
        return [self._simulated(size * direction, 2 * len(along)) for direction in along]

    def _simulated(self, leaf: FloatArray, bounds: int) -> _Survival:
        from scipy.special import betaincinv

        assert self._noise is not None
        shifted = self._noise + leaf
        cosine = shifted @ leaf
        cosine /= np.linalg.norm(shifted, axis=1) * np.linalg.norm(leaf)
        cosine.sort()
        draws = len(cosine)
        above = draws - np.searchsorted(cosine, _THRESHOLDS, side="left")
        mirrored = np.searchsorted(cosine, -_THRESHOLDS, side="right")  # of -cosine under g
        share = _FAILURE / (bounds * len(_THRESHOLDS))
        # Clopper and Pearson's bounds; survival functions decrease.
        least = np.where(
            above > 0, betaincinv(np.maximum(above, 1), draws - above + 1.0, share), 0.0
        )
        most = np.where(
            mirrored < draws,
            betaincinv(mirrored + 1.0, np.maximum(draws - mirrored, 1), 1.0 - share),
            1.0,
        )
        return _Survival(np.minimum.accumulate(least), np.maximum.accumulate(most[::-1])[::-1])


def _epsilon(survival: _Survival, nodes: int, delta: float) -> float:
    """Return the largest log((P - delta) / Q) over thresholds of the sum of all nodes' scores."""
    tails = []
    for one in (survival.least, survival.most):
        law = -np.diff(np.concatenate([[1.0], one, [0.0]]))  # of the number of thresholds passed
        total = np.ones(1)
        for _ in range(nodes):
            total = np.convolve(total, law)
        tails.append(np.cumsum(total[::-1])[::-1])
    ours, theirs = tails
    # Sums of products of doubles: 1e-12 outweighs their rounding many times over.
    gain = ours * (1.0 - 1e-12) - delta
    usable = gain > 0.0
    with np.errstate(divide="ignore"):
        bound = np.log(gain[usable]) - np.log(theirs[usable] * (1.0 + 1e-12))
    return max(0.0, float(bound.max(initial=0.0)))
