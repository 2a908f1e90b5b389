"""Regret of the Frank-Wolfe learners on independent records of one law.

Claim: let the records be drawn independently from one law, within their declared bounds, and let
the mean loss F be convex. Let theta_k be the decision of batch k of m rounds, h_k = E F(theta_k) -
min F, and R the range of a loss between two decisions. Then h_k <= R and, with step s / (k + s) and
weight w_k,

    h_{k+1} <= k / (k + s) h_k + s / (k + s) (S_k + N_k + B_k + s beta D^2 / (2 (k + s))),

with S_k = W sqrt(k/m) / w_k from sampling, N_k from noise, and B_k from weights k + 1 and rounding.
The regret, the sum over all rounds of F(theta) - min F, is at most the sum of min(R, h_k).

Nothing is proved for other streams: on three blocks of constant linear losses, the regret of these
decisions is linear in T.

Proof: ``docs/privacy/frank_wolfe_regret.md``. Source: Han et al., Theorems 3.2, 3.3, 3.5, 3.6 and
Corollaries 3.1, 3.2, with the errors listed there corrected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from dpoco._validation import Fields, FloatArray, IntArray
from dpoco.accounting import continual_sum
from dpoco.accounting.continual_sum import Method
from dpoco.accounting.gaussian import best_order, coordinate_variance
from dpoco.accounting.leaf_bounds import LeafBounds, View
from dpoco.accounting.regret_bounds import RegretBound, gaussian_width, stated_regret
from dpoco.domains import Box, Domain, LpBall, Simplex, VertexSet
from dpoco.losses import Loss, MarginLoss
from dpoco.privacy.mechanisms.banded import Banded
from dpoco.privacy.mechanisms.factorisations import Normalised
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.records import Description, limits
from dpoco.privacy.special import special_functions

__all__ = ["SCOPE", "Descent", "ErrorForecast", "regret_fields", "selection_error", "sum_error",
           "sum_rounding"]  # fmt: skip

SCOPE = "stochastic"
IN_WORDS = (
    "independent records of one law within their declared bounds, against the decision that is "
    "best for the law"
)
# Updates that are computed one by one; later ones form groups whose ends have this ratio.
_SINGLE, _RATIO = 4096, 1.0 + 2.0**-7
# Factor on the row norm times the root of the updates, which exceeds all rounding errors of draws
# and buffers.
_CARRIED = 64.0


@dataclass(frozen=True)
class ErrorForecast(Description):
    """Expected cost of noise for a Frank-Wolfe learner.

    Attributes
    ----------
    predicted_error : float
        Bound on the excess loss of the last decision because of noise.
    loss_range : float
        L D, an upper bound on the difference of a loss between two decisions.
    """

    kind = "error_forecast"
    predicted_error: float = limits(zero=True)
    loss_range: float = limits(zero=True)

    @property
    def regret_scope(self) -> str:
        """Records for which regret bounds hold."""
        return SCOPE

    @property
    def noise_dominates(self) -> bool:
        """Whether the predicted error exceeds the range of the loss."""
        return self.predicted_error > self.loss_range


@dataclass(frozen=True)
class Descent:
    """The parameters of a Frank-Wolfe learner that determine its regret.

    Attributes
    ----------
    domain : Domain
        The decision set.
    order : float
        Order p of the norm for decisions; gradients are measured in the norm of the dual exponent
        q.
    loss : Loss
        The losses, with their public bounds.
    leaf : LeafBounds
        Bounds C on the leaf of one round.
    step_scale : float
        s in the steps s / (k + s).
    offset : int
        0 for weights w_k = k, 1 for k + 1.
    batch, horizon : int
        m and T.
    """

    domain: Domain
    order: float
    loss: Loss
    leaf: LeafBounds
    step_scale: float
    offset: int
    batch: int
    horizon: int

    @property
    def updates(self) -> int:
        """Number K of updates."""
        return self.horizon // self.batch

    @property
    def diameter(self) -> float:
        """Diameter D in the norm of the decisions."""
        return float(self.domain.diameter(self.order))

    @property
    def reach(self) -> float:
        """Bound on the distance from some point of the domain to all others, in that norm."""
        # Balls and boxes are symmetric about their centre. For other domains we know no better
        # point.
        halved = isinstance(self.domain, LpBall | Box)
        return 0.5 * self.diameter if halved else self.diameter

    @property
    def range(self) -> float:
        """Bound on the difference of a loss between two decisions: L D, or less by margins."""
        largest = self._lipschitz * self.diameter
        if isinstance(self.loss, MarginLoss):
            largest = min(largest, _margin_range(self.loss, self.loss.margin_bound(self._geometry)))
        return largest

    @property
    def _geometry(self) -> View:
        """The domain, with sizes in the norm of the decisions."""
        return View(self.domain, self.order)

    @property
    def _lipschitz(self) -> float:
        """L, the largest slope of a loss in that norm."""
        return float(self.loss.lipschitz(self._geometry))

    @property
    def sampling(self) -> float:
        """W: expected reach in the domain of a martingale of leaves, mean square 1 per round."""
        q, d, ends = self._geometry.dual_exponent, self.domain.dimension, corners(self.domain)
        dual, reach = self.leaf.dual, self.reach
        # The least of the five bounds 1 to 5 in docs/privacy/frank_wolfe_regret.md, Theorem 1
        # ("Sampling").
        euclidean = min(self.leaf.l2, d ** max(0.0, 0.5 - 1.0 / q) * dual)
        found = [float(self.domain.radius_from_center()) * euclidean]
        if q >= 2.0:
            kappa = smoothness_constant(best_order(q, d), q, d)
            found.append(2.0 * reach * math.sqrt(kappa) * dual)
            found.append(reach * dual * d ** (1.0 / q) * math.sqrt(2.0 * math.log(2.0 * d)))
        if ends is not None and self.order == 1.0:
            found.append(reach * dual * math.sqrt(2.0 * math.log(ends)))
        if isinstance(self.domain, Box):
            found.append(0.5 * float(self.domain.diameter(1.0)) * min(dual, euclidean))
        return float(min(found))

    def regret(
        self,
        error: Callable[[FloatArray, FloatArray], FloatArray],
        rounding: Callable[[FloatArray, FloatArray], FloatArray] | float = 0.0,
    ) -> RegretBound:
        """Return the regret bound if noise causes this error of linear minimisation.

        Parameters
        ----------
        error : callable
            Takes the first and the last updates of groups, and returns the largest mean errors in
            them.
        rounding : callable or float
            The same for errors that depend on the decisions.

        Returns
        -------
        RegretBound
            For independent records of one law. The first 4096 updates are computed one by one,
            later ones in groups of 0.8 %, which takes O(log T).
        """
        s, m, largest = self.step_scale, float(self.batch), self.range
        starts = groups(self.updates)
        first = starts[:-1].astype(np.float64)
        last = (starts[1:] - 1).astype(np.float64)
        weight = first + self.offset
        curvature = 0.5 * float(self.loss.smoothness(self._geometry)) * self.diameter**2
        added = {
            "sampling": self.sampling * np.sqrt(first / m) / weight,
            "noise": np.asarray(error(first, last)),
            "curvature": s * curvature / (first + s),
            "bias": self.offset * self._lipschitz * self.diameter / weight,
            "rounding": np.broadcast_to(
                rounding(first, last) if callable(rounding) else rounding, first.shape
            ),
        }
        # The recursion over the groups: each term keeps a share of its previous value.
        kept, gained = self._shares(starts)
        paths = {"start": largest * np.cumprod(np.concatenate([[1.0], kept]))}
        for name, each in added.items():
            steps = zip(kept.tolist(), (gained * each).tolist(), strict=True)
            path = accumulate(steps, lambda held, step: held * step[0] + step[1], initial=0.0)
            paths[name] = np.array([*path])
        # Within a group, a term lies between its value at the start and the value towards which the
        # group moves it.
        several = first < last
        held = {
            name: np.where(several, np.maximum(path[:-1], added.get(name, 0.0)), path[:-1])
            for name, path in paths.items()
        }
        total = np.sum(list(held.values()), axis=0)
        # No decision loses more than the range, so all terms are scaled down if their sum exceeds
        # it.
        share = m * np.diff(starts) * np.minimum(1.0, largest / np.maximum(total, 1e-300))
        rest = float(self.horizon - self.batch * self.updates)
        end = math.fsum(float(path[-1]) for path in paths.values())
        # The rounds after the last update are played with its decision.
        rest *= min(1.0, largest / end) if end > 0.0 else 0.0
        terms = {
            name: float(held[name] @ share) + rest * float(path[-1]) for name, path in paths.items()
        }
        if largest == 0.0:
            terms = dict.fromkeys(terms, 0.0)
        return RegretBound.of({k: v for k, v in terms.items() if v > 0.0 or k == "noise"}, SCOPE)

    def _shares(self, starts: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the share of a term that each group of updates keeps, and the share it replaces.

        The kept share is W_k / W_l for groups that begin with updates k and l, with W_k =
        prod_{j<k} (j + s)/j.
        """
        x = starts.astype(np.float64)
        if self.step_scale == 1.0:  # W_k is exactly k
            return x[:-1] / x[1:], np.diff(x) / x[1:]
        # ln W_k = -ln(s B(k, s)), B the beta function. We use logarithms because W overflows for
        # long steps.
        fall = np.diff(special_functions().betaln(x, self.step_scale))
        return np.exp(fall), -np.expm1(fall)


def groups(updates: int) -> IntArray:
    """Return the first updates of groups, and K + 1, in increasing order."""
    end = updates + 1
    starts = np.arange(1, min(end, _SINGLE) + 1)
    if end > _SINGLE:
        many = math.ceil(math.log(end / _SINGLE) / math.log(_RATIO)) + 1
        later = np.geomspace(float(_SINGLE), float(end), many).astype(np.int64)
        starts = np.union1d(starts, later)
    return np.union1d(starts, [end]).astype(np.int64)


def _margin_range(loss: MarginLoss, margin: float) -> float:
    """Return the largest difference of a loss between margins up to this size, for any label.

    The loss is monotone in the label and convex in the margin, so the extremes are at the ends or
    at the least loss.
    """
    found = 0.0
    for label in loss.label_range:
        ends = np.array([-margin, margin, min(max(label, -margin), margin)])
        values = loss.value(np.ones(1), ends[:, None], np.full(3, label))
        found = max(found, float(values.max() - values.min()))
    return found


def corners(domain: Domain) -> int | None:
    """Return the number of vertices of a domain with listed or structured vertices, else None."""
    if isinstance(domain, LpBall) and domain.p == 1.0:
        return 2 * domain.dimension
    if isinstance(domain, Simplex):
        return domain.dimension
    return len(domain.vertices) if isinstance(domain, VertexSet) else None


def sum_error(
    run: Descent, method: Method, noise_scale: float, order: float
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the mean error of linear minimisation on a noisy sum, by groups of updates.

    It is sigma row(k) w / (m w_k), with w the Gaussian width of the domain. For draws of another
    law, w is the Euclidean radius times the root of their mean square.

    Parameters
    ----------
    run : Descent
        Only its domain, batch, weights and number of updates are used.
    method : str or factorisation
        Method of the continual sum.
    noise_scale, order : float
        Scale of a draw, and the order of its law: 2 for Gaussian noise.
    """
    d = run.domain.dimension
    if order == 2.0:
        width = gaussian_width(run.domain)
    else:
        width = run.domain.radius_from_center() * math.sqrt(d * coordinate_variance(order, d))

    def error(first: FloatArray, last: FloatArray) -> FloatArray:
        rows = largest_rows(method, run.updates)
        return noise_scale * width * rows / (run.batch * (first + run.offset))

    return error


def sum_rounding(
    run: Descent, method: Method, noise_scale: float, grid: float, mass: float
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the errors from rounding released sums to a grid, and from integers, by groups.

    Parameters
    ----------
    run, method, noise_scale
        As in `sum_error`.
    grid : float
        Grid of a lattice; 0 for doubles.
    mass : float
        Total variation of truncated tails; each may cost the range of the loss.
    """
    released = 0.5 * continual_sum.release_grid(noise_scale)
    width = float(run.domain.diameter(1.0))
    row = continual_sum.worst_row_norm(method, run.updates) if grid > 0.0 else 0.0

    def error(first: FloatArray, last: FloatArray) -> FloatArray:
        # Each leaf adds half a grid. Draws and buffers enter with coefficients whose absolute
        # values sum to at most sqrt(k) row(k) (docs/privacy/frank_wolfe_regret.md, "Rounding").
        units = 0.5 * last + _CARRIED * (1.0 + row * np.sqrt(last))
        entry = released + grid * units + (2.0**-40 * noise_scale * last if grid > 0.0 else 0.0)
        return width * entry / (run.batch * (first + run.offset)) + run.range * mass

    return error


def selection_error(
    scale: float, exponent: float, excess: float
) -> Callable[[FloatArray, FloatArray], FloatArray]:
    """Return the mean excess of private selections with noise of scale b_k = b_1 k^-alpha.

    The scale falls with k, so the scale of a group's first update bounds the whole group.
    """
    return lambda first, last: excess * scale * first**-exponent


def regret_fields(run: Descent, bound: RegretBound) -> Fields:
    """Return the two fields of a guarantee on the regret of a run."""
    # The decision at the centre, which uses no data, has at most this regret per round.
    still = run._lipschitz * run.reach
    if isinstance(run.loss, MarginLoss):
        still = min(still, float(run.loss.center_regret(run.domain)))
    said = stated_regret(bound.total, run.horizon * still, run.horizon * run.range)
    said["details"] |= {
        "regret bound holds for": IN_WORDS,
        **{f"regret: {name}": value for name, value in bound.terms.items()},
    }
    return said


@lru_cache(maxsize=64)  # learners are often made with the same parameters
def largest_rows(method: Method, pushes: int) -> FloatArray:
    """Return upper bounds on the row norms within `groups` of updates, read-only."""
    starts = groups(pushes)
    low, high = starts[:-1], starts[1:] - 1
    ends = np.asarray(continual_sum.row_norm(method, np.concatenate([low, high]), pushes))
    rows: FloatArray = np.maximum(ends[: len(low)], ends[len(low) :])
    own = continual_sum.factorisation(method, pushes)
    if continual_sum.method_name(method) == "tree":
        # A row has at most one node in each level, up to the level of the last update.
        longest = (1 << pushes.bit_length()) - 1
        every = np.asarray(continual_sum.row_norm(method, _all_ones(high), longest))
        rows = np.where(low == high, rows, every)
    elif isinstance(own, Banded):
        every = np.asarray(continual_sum.row_norm(own, np.arange(1, pushes + 1), pushes))
        rows = np.maximum.reduceat(every, low - 1)
    elif isinstance(own, Normalised):
        # Between the ends of blocks, the variance falls and then rises.
        stops = np.asarray(own.ends, dtype=np.int64)
        peaks = np.asarray(continual_sum.row_norm(method, stops, pushes))
        for stop, peak in zip(stops.tolist(), peaks.tolist(), strict=True):
            within = (low <= stop) & (stop <= high)
            rows[within] = np.maximum(rows[within], peak)
    rows.flags.writeable = False
    return rows


def _all_ones(k: IntArray) -> IntArray:
    """Return the smallest number 2^b - 1 that is at least k."""
    bits: IntArray = np.floor(np.log2(k.astype(np.float64) + 0.5)).astype(np.int64) + 1
    return np.asarray(2**bits - 1)
