"""Likelihoods of transcripts, and laws of selections, tests and coupled draws by quadrature.

The laws are computed from definitions, independently of the engines that should follow them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import FloatArray
from dpoco.audit._family import Family, Learner, Stream, check_neighbours
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, MarginLoss
from dpoco.random import Source

IMPOSSIBLE = "a transcript is impossible under the declared law"

# Range of a threshold's noise beyond all queries, in scales of the noise; exponent at which its
# density underflows.
_REACH, _UNDERFLOW = 45.0, 800.0
_PANEL = 4.0

Transcript = tuple[Any, ...]  # what a run published; hashable
Function = Callable[[FloatArray], FloatArray]


# ---- likelihoods ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Scores of runs on one stream.

    Attributes
    ----------
    losses : ndarray, shape (trials,)
        Privacy losses: log-likelihood under their own stream minus that under the other.
    uniforms : ndarray, shape (trials, steps) or (trials, steps, entries)
        Uniform on [0, 1] and independent if the noise has its declared law; in the order of the
        releases.
    findings : tuple of str
        Violations that single runs show.
    draws : dict of str to ndarray, shape (trials, draws)
        Uniform and independent if decisions are drawn by their law given the releases; by name of
        the order of decisions used. Empty if decisions are scored themselves or are functions of
        the releases.
    """

    losses: FloatArray
    uniforms: FloatArray
    findings: tuple[str, ...] = ()
    draws: dict[str, FloatArray] = field(default_factory=dict)


class Scorer(ABC):
    """Exact likelihoods of the releases of a family's learners on two streams.

    The constructor of a subclass raises ``ValueError`` if the law is not known for these streams.

    Parameters
    ----------
    family : Family
        Family of a learner that is never played. It determines the form of the streams.
    stream, neighbour : array or tuple of arrays
        Neighbours by the learner's guarantee; they are "world" 0 and 1 in methods.

    Raises
    ------
    ValueError
        For streams that are not neighbours, have no rounds, or are longer than the horizon.
    """

    def __init__(self, family: Family, stream: Stream, neighbour: Stream) -> None:
        self.family, self.learner, self.mechanism = family, family.learner, family.mechanism
        self.streams = family.rounds(stream), family.rounds(neighbour)
        self.apart = check_neighbours(family, *self.streams)
        rounds = len(self.streams[0])
        if not 1 <= rounds <= getattr(self.learner, "horizon", rounds):
            raise ValueError("stream must have at least one round and at most the horizon's")

    @abstractmethod
    def run(self, learner: Learner, world: int, tape: Source) -> object:
        """Play a fresh learner on stream `world`; `tape` is a copy of its source.

        Returns
        -------
        object
            Data for `score`: the releases, or their differences from the exact sums.
        """

    @abstractmethod
    def score(self, runs: list[Any], world: int) -> Scores:
        """Return the likelihoods of all runs on one stream."""


def spread(chances: FloatArray, chosen: NDArray[np.int64], jitter: FloatArray) -> FloatArray:
    """Return uniforms for draws from finite laws: the drawn cell, plus a uniform within it.

    Parameters
    ----------
    chances : ndarray, shape (n, values)
        Laws, one per row.
    chosen, jitter : ndarray, shape (n,)
        The draws, and independent uniforms.
    """
    rows = np.arange(len(chosen))
    upper = np.cumsum(chances, axis=1)[rows, chosen]
    # Sums of probabilities differ from 1 by rounding errors.
    return np.clip(upper - jitter * chances[rows, chosen], 0.0, 1.0)


def score_draws(
    own: FloatArray, other: FloatArray, chosen: NDArray[np.int64], world: int
) -> Scores:
    """Return the scores of draws from finite laws; draws that are always certain are not tested.

    Parameters
    ----------
    own, other : ndarray, shape (trials, draws, values)
        Laws of the draws on the runs' own stream and on the other one.
    chosen : ndarray of int, shape (trials, draws)
    world : int
        World of the runs; selects the uniforms that spread the draws.
    """
    jitter = Source.seeded(world).uniform(chosen.size)
    places = spread(own.reshape(-1, own.shape[-1]), chosen.ravel(), jitter).reshape(chosen.shape)
    ours, theirs = (
        np.take_along_axis(each, chosen[:, :, None], axis=2)[:, :, 0] for each in (own, other)
    )
    # A draw that one of the laws excludes distinguishes the streams, so its loss is infinite.
    possible = (ours > 0.0) & (theirs > 0.0)
    ratios = np.where(possible, ours, 1.0) / np.where(possible, theirs, 1.0)
    losses = np.where(possible, np.log(ratios), np.inf).sum(axis=1)
    # The uniform of a certain draw is pure jitter and would dilute the others.
    open_ = np.any(own.max(axis=2) < 1.0, axis=0)
    return Scores(losses, places[:, open_], (IMPOSSIBLE,) * bool(np.any(ours <= 0.0)))


class FiniteScorer(Scorer):
    """Scores of transcripts of draws from finite laws; transcripts are hashable and repeat.

    `cells` computes the laws of a transcript once, however often it occurs. Short streams have few
    transcripts, so most runs only cost a look-up.
    """

    def __init__(self, family: Family, stream: Stream, neighbour: Stream) -> None:
        super().__init__(family, stream, neighbour)
        self._known: dict[Transcript, tuple[FloatArray, NDArray[np.int64]]] = {}

    def run(self, learner: Learner, world: int, tape: Source) -> Transcript:
        """Return the publications of the run."""
        return self.family.transcript(learner, self.streams[world])

    @abstractmethod
    def cells(self, transcript: Transcript, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the law of every draw given all earlier draws, one per row, and the drawn values.

        The number of rows is equal for all transcripts: draws that do not occur are certain.

        Returns
        -------
        (ndarray of shape (draws, values), ndarray of int of shape (draws,))
            Probabilities of all values of each draw on this stream, and the drawn values.
        """

    def score(self, runs: list[Any], world: int) -> Scores:
        """Return the scores of transcripts, from the product of the laws of their draws."""
        for each in [(run, w) for run in runs for w in (0, 1)]:
            if each not in self._known:
                self._known[each] = self.cells(*each)
        own, other = (
            np.array([self._known[run, w][0] for run in runs]) for w in (world, 1 - world)
        )
        chosen = np.array([self._known[run, world][1] for run in runs])
        return score_draws(own, other, chosen, world)


def place_draws(
    chances: FloatArray, chosen: NDArray[np.int64], exact: FloatArray, world: int
) -> dict[str, FloatArray]:
    """Return uniforms for decisions drawn by released weights, for two orders of decisions.

    The order by weights detects decisions that ignore the weights. The order by exact scores, which
    are not released, detects decisions that depend on these.

    Parameters
    ----------
    chances : ndarray, shape (trials, draws, N)
        Laws of the decisions.
    chosen : ndarray of int, shape (trials, draws)
    exact : ndarray, shape (trials, draws, N) or (draws, N)
        Scores without noise, the smallest best; they may depend on earlier releases.
    world : int
        World of the runs; selects the uniforms that spread the draws.
    """
    n = chances.shape[-1]
    laws, picked = chances.reshape(-1, n), chosen.ravel()
    scores = np.broadcast_to(exact, chances.shape).reshape(-1, n)
    out = {}
    for k, (name, keys) in enumerate((("their weights", -laws), ("the exact losses", scores))):
        order = np.argsort(keys, axis=1, kind="stable")
        place = np.argmax(order == picked[:, None], axis=1)
        # Seeds 0 and 1 spread other draws of these runs. Equal uniforms would make the tests
        # dependent.
        jitter = Source.seeded(2 + 2 * k + world).uniform(len(picked))
        ordered = np.take_along_axis(laws, order, axis=1)
        out[name] = spread(ordered, place, jitter).reshape(chosen.shape)
    return out


# ---- selections and tests ------------------------------------------------------------------------


def softmax(logs: FloatArray) -> FloatArray:
    """Return exp(logs) over its sum along the last axis; SciPy's version is five times slower."""
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def selection_law(noise: str, scores: FloatArray, scale: float) -> FloatArray:
    """Return the probability that each index has the largest noisy score; shapes (..., n).

    Exponential noise: the integral of a polynomial, exact by quadrature. Gumbel: softmax. Laplace:
    by quadrature, to about 1e-9.

    Parameters
    ----------
    noise : {"gumbel", "exponential", "laplace"}
        Law of the independent noise that is added to each score.
    scores : ndarray, shape (..., n)
        Scores without noise; the largest is the most likely.
    scale : float
        Scale of the noise, in the unit of the scores.
    """
    # Only differences matter. We subtract the largest score, so that exponentials do not overflow.
    rates = (scores - scores.max(axis=-1, keepdims=True)) / scale
    if noise == "gumbel":
        return softmax(rates)
    if noise == "exponential":
        # The highest noisy score h has w = exp(-(h - max)/scale) in (0, 1].
        chances = np.exp(rates)
        # k nodes are exact up to degree 2 k - 1, and the product over the other scores has degree n
        # - 1.
        nodes, weights = _gauss_points(scores.shape[-1] // 2 + 1)
        below = 1.0 - chances[..., None, :] * (0.5 * (nodes + 1.0))[:, None]
        logs = np.log(below)
        others = np.exp(logs.sum(axis=-1, keepdims=True) - logs)
        out = chances * np.einsum("k,...kn->...n", 0.5 * weights, others)
        return np.asarray(out / out.sum(axis=-1, keepdims=True))
    if scores.shape[-1] == 2:  # closed form: the probability that the lower score wins
        gap = rates[..., :1] - rates[..., 1:]
        behind = 0.5 * np.exp(-np.abs(gap)) * (1.0 + 0.5 * np.abs(gap))
        first = np.where(gap >= 0.0, 1.0 - behind, behind)
        second = np.where(gap >= 0.0, behind, 1.0 - behind)
        return np.concatenate([first, second], axis=-1)
    return _laplace_law(rates)


@cache  # all runs of an audit use the same nodes, and each set requires an eigenvalue problem
def _gauss_points(count: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights on [-1, 1], exact for polynomials of degree 2 * count - 1."""
    return np.polynomial.legendre.leggauss(count)


def _panels(edges: FloatArray, points: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights: Gauss points in every panel between the edges.

    Shapes (panels * points,); exact for polynomials of degree 2 * points - 1 in each panel.
    """
    nodes, weights = _gauss_points(points)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()


def _laplace_law(rates: FloatArray) -> FloatArray:
    """Return the law of the largest of scores with standard Laplace noise; shapes (..., n).

    It integrates the density of the winner's noisy score times the probability that all others are
    smaller. The integral is split at the kinks of the densities, which are smooth in between.
    """
    flat = rates.reshape(-1, rates.shape[-1])
    out = np.empty_like(flat)
    for row, u in zip(out, flat, strict=True):
        # Between the kinks, and up to where the rest is below 1e-17.
        edges = np.unique(np.concatenate([[u.min() - 40.0], u, u + 8.0, [40.0]]))
        if edges[-1] - edges[0] > 120.0:  # for distant scores, skip the space between them
            edges = np.unique(np.concatenate([edges, *(u + far for far in (-40, -8, 24, 40))]))
        x, w = _panels(edges, 24)
        away = x[:, None] - u[None, :]
        tail = 0.5 * np.exp(-np.abs(away))
        below = np.where(away > 0.0, 1.0 - tail, tail)
        # log(0) is undefined; with 1e-300 instead, the product also vanishes.
        logs = np.log(np.maximum(below, 1e-300))
        row[:] = (w[:, None] * tail * np.exp(logs.sum(axis=1, keepdims=True) - logs)).sum(axis=0)
    return np.asarray((out / out.sum(axis=1, keepdims=True)).reshape(rates.shape))


def answer_chances(
    excesses: FloatArray, answers: NDArray[np.bool_], scales: tuple[float, float], noise: str
) -> FloatArray:
    """Return the logarithms of the probabilities of the first 1, 2, ... answers, shape (T,).

    Query t raises an alarm iff ``excesses[t] + nu_t >= rho``, with one variate rho of scale
    ``scales[0]`` for all queries and one variate nu_t of scale ``scales[1]`` per query, exponential
    or Laplace. We use Gauss-Legendre quadrature over rho between the kinks, to about 1e-12.

    Parameters
    ----------
    excesses : ndarray, shape (T,)
        Queries minus the threshold, without noise.
    answers : ndarray of bool, shape (T,)
        Whether each query raised an alarm.
    scales : (float, float)
        Scales of the threshold's noise and of each query's noise.
    noise : {"exponential", "laplace"}
        Law of both noises.
    """
    from scipy.special import logsumexp

    # The threshold is drawn once for all queries. Given the threshold, answers are independent.
    nodes, weights = _panels(_edges(excesses, scales, noise), 16)
    with np.errstate(divide="ignore"):
        logs = np.log(weights) + _log_density(nodes / scales[0], noise) - np.log(scales[0])
        away = (nodes[None, :] - excesses[:, None]) / scales[1]
        tails = _log_tail(away, noise)
        silences = np.log(-np.expm1(np.minimum(tails, 0.0)))
    factors = np.where(answers[:, None], tails, silences)
    return np.asarray(logsumexp(logs + np.cumsum(factors, axis=0), axis=1))


def _edges(excesses: FloatArray, scales: tuple[float, float], noise: str) -> FloatArray:
    """Return edges of panels, from the lowest to the highest relevant threshold."""
    reach, end = _REACH * max(scales), _UNDERFLOW * scales[0]
    low = 0.0 if noise == "exponential" else max(min(0.0, float(excesses.min())) - reach, -end)
    high = min(max(0.0, float(excesses.max())) + reach, end)
    kinks = np.unique(np.concatenate([[low, 0.0, high], np.clip(excesses, low, high)]))
    step = _PANEL * min(scales)
    parts = [np.linspace(a, b, int(np.ceil((b - a) / step)) + 1) for a, b in pairwise(kinks)]
    return np.unique(np.concatenate(parts))


def _log_density(x: FloatArray, noise: str) -> FloatArray:
    """Return the logarithm of the standard density at each x; -inf outside of its support."""
    if noise == "exponential":
        return np.where(x >= 0.0, -x, -np.inf)
    density: FloatArray = -np.abs(x) - np.log(2.0)
    return density


def _log_tail(x: FloatArray, noise: str) -> FloatArray:
    """Return ln P(nu >= x)."""
    if noise == "exponential":
        return -np.maximum(x, 0.0)
    above = -np.maximum(x, 0.0) - np.log(2.0)
    return np.where(x >= 0.0, above, np.log1p(-0.5 * np.exp(np.minimum(x, 0.0))))


# ---- coupled draws, on an interval ---------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """A convex function of one number, with its first two derivatives.

    Attributes
    ----------
    value, slope, bend : callable
        The function and its derivatives, for arrays of any shape.
    """

    value: Function
    slope: Function
    bend: Function


def read_losses(loss: LinearLoss | MarginLoss, parts: tuple[FloatArray, ...]) -> list[Loss]:
    """Return the losses of a stream of one feature; ``ValueError`` if their law is unknown."""
    if parts[0].shape[1:] != (1,):
        raise ValueError("the law of this learner's draws is known in one dimension only")
    rows = parts[0][:, 0]
    bound = loss.gradient_bound if isinstance(loss, LinearLoss) else loss.feature_bound
    if not np.all(np.abs(rows) <= bound):
        raise ValueError("the records of a likelihood audit must be within their bounds")
    if isinstance(loss, LinearLoss):
        return [_linear(float(w)) for w in rows]
    if not isinstance(loss, (LogisticLoss, HuberLoss)):
        raise ValueError(f"the law of draws with {type(loss).__name__} is not known here")
    low, high = loss.label_range
    if not np.all((parts[1] >= low) & (parts[1] <= high)):
        raise ValueError("the labels of a likelihood audit must be within their bounds")
    pairs = [(float(v), float(y)) for v, y in zip(rows, parts[1], strict=True)]
    if isinstance(loss, LogisticLoss):
        return [_logistic(*pair) for pair in pairs]
    return [_huber(*pair, loss.threshold) for pair in pairs]


def _linear(weight: float) -> Loss:
    """Return x -> weight x."""
    return Loss(lambda x: weight * x, lambda x: np.full_like(x, weight), np.zeros_like)


def _logistic(feature: float, label: float) -> Loss:
    """Return the logistic loss of a record, with its label in [0, 1]."""

    def chance(x: FloatArray) -> FloatArray:
        """Return the predicted probability, by `tanh`, which does not overflow."""
        return 0.5 * (1.0 + np.tanh(0.5 * feature * x))

    return Loss(
        lambda x: np.logaddexp(0.0, feature * x) - label * feature * x,
        lambda x: feature * (chance(x) - label),
        lambda x: feature**2 * chance(x) * (1.0 - chance(x)),
    )


def _huber(feature: float, label: float, threshold: float) -> Loss:
    """Return the Huber loss of a record: quadratic up to `threshold`, linear beyond."""

    def value(x: FloatArray) -> FloatArray:
        """Return the loss at each x."""
        r = np.abs(feature * x - label)
        return np.where(r <= threshold, 0.5 * r * r, threshold * (r - 0.5 * threshold))

    return Loss(
        value,
        lambda x: feature * np.clip(feature * x - label, -threshold, threshold),
        lambda x: np.where(np.abs(feature * x - label) <= threshold, feature**2, 0.0),
    )


@cache
def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights on [-1, 1]: 25 Gauss points in each of 24 equal panels."""
    return _panels(np.linspace(-1.0, 1.0, 25), 25)


class Law(ABC):
    """Law of a fresh draw after a number of losses.

    `count` is the number of losses seen. x are points, shape (n,), or (n, d) without a boundary.
    """

    @abstractmethod
    def log_density(self, count: int, x: FloatArray) -> FloatArray:
        """Return the logarithm of the density at each x."""

    @abstractmethod
    def uniform(self, count: int, x: FloatArray) -> FloatArray:
        """Return a number that is uniform on [0, 1] if x has the law after `count` losses."""

    def log_ratio(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the density after `count` + 1 losses over that after `count` losses."""
        return self.log_density(count + 1, x) - self.log_density(count, x)


class Gibbs(Law):
    """Density proportional to exp(-beta (F(x) + lam x^2 / 2)) on [-half, half].

    Parameters
    ----------
    losses : sequence of Loss
        F is the sum of the first `count` losses.
    beta, lam : float
        Inverse temperature and regularisation.
    half : float
        Half the width of the interval.

    Raises
    ------
    TypeError
        If the density is too narrow for the quadrature. Then the audit is not available.
    """

    def __init__(self, losses: Sequence[Loss], beta: float, lam: float, half: float) -> None:
        from scipy.special import logsumexp

        self.losses, self.beta, self.lam, self.half = losses, beta, lam, half
        nodes, weights = _quadrature()
        # Up to this bound, the nodes are on average at most half a standard deviation of exp(-beta
        # lam x^2 / 2) apart.
        if beta * lam * half**2 > (len(nodes) / 4.0) ** 2:
            raise TypeError("draws are too concentrated for the quadrature that scores them")
        points = half * nodes
        sums = np.vstack([np.zeros_like(points), *(each.value(points) for each in losses)])
        exponents = -beta * (np.cumsum(sums, axis=0) + 0.5 * lam * points**2)
        self.log_mass = logsumexp(exponents, axis=1, b=half * weights)

    def log_density(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the density after `count` losses."""
        total = 0.5 * self.lam * x**2
        for each in self.losses[:count]:
            total = total + each.value(x)
        return np.asarray(-self.beta * total - self.log_mass[count])

    def log_ratio(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the density after one more loss over that after `count` losses."""
        change = self.log_mass[count + 1] - self.log_mass[count]
        return np.asarray(-self.beta * self.losses[count].value(x) - change)

    def uniform(self, count: int, x: FloatArray) -> FloatArray:
        """Return the distribution function, by quadrature up to x."""
        nodes, weights = _quadrature()
        half = 0.5 * (x + self.half)
        points = half[:, None] * (1.0 + nodes) - self.half
        mass = (np.exp(self.log_density(count, points)) * weights).sum(axis=1)
        return np.asarray(np.clip(half * mass, 0.0, 1.0))


class Leader(Law):
    """Law of argmin F(x) + x^2 / (2 eta) - weight ln(half^2 - x^2) + Z x, Z ~ N(0, sigma^2).

    Parameters
    ----------
    losses : sequence of Loss
        F is the sum of the first `count` losses.
    eta, sigma : float
        Step size, and standard deviation of the noise.
    weight, half : float
        Weight of the barrier that keeps the minimum inside, and half the width of the interval.
    """

    def __init__(
        self, losses: Sequence[Loss], eta: float, sigma: float, weight: float, half: float
    ) -> None:
        self.losses, self.eta, self.sigma, self.weight, self.half = losses, eta, sigma, weight, half

    def log_density(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the density after `count` losses, by a change of variables from Z."""
        slope, bend = self._derivatives(count, x)
        return _log_normal(slope / self.sigma) - math.log(self.sigma) + np.log(bend)

    def _derivatives(self, count: int, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return -Z as a function of the minimiser x, and its derivative, which is positive."""
        room = self.half**2 - x**2
        slope = x / self.eta + self.weight * 2.0 * x / room
        bend = 1.0 / self.eta + self.weight * 2.0 * (self.half**2 + x**2) / room**2
        for each in self.losses[:count]:
            slope = slope + each.slope(x)
            bend = bend + each.bend(x)
        return slope, bend

    def uniform(self, count: int, x: FloatArray) -> FloatArray:
        """Return the distribution function of Z."""
        from scipy.special import ndtr

        return np.asarray(ndtr(self._derivatives(count, x)[0] / self.sigma))


class ShiftedGaussian(Law):
    """Law of rate S + Z, with S the sum of gradients: linear losses without a boundary.

    Parameters
    ----------
    gradients : ndarray, shape (T, d)
        Gradients of the stream.
    sigma : float
        Standard deviation of a coordinate of the draw.
    rate : float
        Factor on the sum.
    """

    def __init__(self, gradients: FloatArray, sigma: float, rate: float) -> None:
        self.sums = rate * np.vstack([np.zeros_like(gradients[:1]), np.cumsum(gradients, axis=0)])
        self.sigma = sigma

    def log_density(self, count: int, x: FloatArray) -> FloatArray:
        """Return ln of the density after `count` losses."""
        z = (x.reshape(len(x), -1) - self.sums[count]) / self.sigma
        return np.asarray((_log_normal(z) - math.log(self.sigma)).sum(axis=1))

    def uniform(self, count: int, x: FloatArray) -> FloatArray:
        """Return the distribution function of the coordinates' normalised sum."""
        from scipy.special import ndtr

        z = (x.reshape(len(x), -1) - self.sums[count]) / self.sigma
        # One number per draw: the sum of d independent normal entries, over sqrt(d), is normal.
        return np.asarray(ndtr(z.sum(axis=1) / math.sqrt(z.shape[1])))


def _log_normal(z: FloatArray) -> FloatArray:
    """Return the logarithm of the standard normal density."""
    return -0.5 * z**2 - 0.5 * math.log(2.0 * math.pi)
