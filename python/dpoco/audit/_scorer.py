"""What a likelihood audit asks of a family whose law is known, and tests of uniforms.

The differences, and the sums, modulo 1 of pairs of independent uniforms are independent uniforms
themselves as long as the pairs form no cycle: every pair has a member that the others before it do
not determine. All pairs of columns at one lag are such a set, and so is a single pair in all runs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._family import Family, FloatArray, check_neighbours, family_of, known
from dpoco.random import Source

Pair = tuple[FloatArray, FloatArray]

IMPOSSIBLE = "a transcript is impossible under the declared law"

# Pairs that are compared one by one, nearest first, of steps and of entries: all of 32.
_PAIRS = 496
# Lags whose pairs are compared together.
_LAGS = 256
# Trials whose uniform bound is wider than this show nothing.
_WIDEST = 0.25


@dataclass(frozen=True)
class Scores:
    """Runs on one stream, scored.

    Attributes
    ----------
    losses : ndarray, shape (trials,)
        Privacy losses: log-likelihood under their own stream less that under the other.
    uniforms : ndarray, shape (trials, steps) or (trials, steps, entries)
        What is uniform on [0, 1] and independent if the noise has its declared law; in the order of
        the releases.
    findings : tuple of str
        Violations that single runs show.
    draws : dict of str to ndarray, shape (trials, draws)
        What is uniform and independent if decisions are drawn by their law given what is released;
        under the name of the order of decisions that it was computed in. Empty where decisions are
        scored themselves, or are functions of the releases.
    """

    losses: FloatArray
    uniforms: FloatArray
    findings: tuple[str, ...] = ()
    draws: dict[str, FloatArray] = field(default_factory=dict)


class Scorer(ABC):
    """Exact likelihoods of what learners of a family release on two streams.

    A subclass raises ``ValueError`` from its constructor where the law is not known after all.
    """

    def __init__(self, family: Family, stream: Any, neighbour: Any) -> None:
        self.family, self.learner = family, family.learner
        self.streams = family.rounds(stream), family.rounds(neighbour)
        check_neighbours(family, *self.streams)
        rounds = len(self.streams[0])
        if not 1 <= rounds <= getattr(self.learner, "horizon", rounds):
            raise ValueError("stream must have at least one round and at most the horizon's")

    @abstractmethod
    def run(self, learner: Any, world: int, tape: Source) -> Any:
        """Play a fresh learner on stream `world`; `tape` is a copy of the source it was given."""

    @abstractmethod
    def score(self, runs: list[Any], world: int) -> Scores:
        """Return the likelihoods of all runs on one stream."""


def spread(chances: FloatArray, chosen: NDArray[np.int64], jitter: FloatArray) -> FloatArray:
    """Return uniforms for draws from finite laws: the drawn cell's place, by a uniform within it.

    Parameters
    ----------
    chances : ndarray, shape (n, values)
        Laws, one a row.
    chosen, jitter : ndarray, shape (n,)
        What was drawn, and uniforms of one's own.
    """
    rows = np.arange(len(chosen))
    upper = np.cumsum(chances, axis=1)[rows, chosen]
    return np.clip(upper - jitter * chances[rows, chosen], 0.0, 1.0)


def score_draws(
    own: FloatArray,
    other: FloatArray,
    chosen: NDArray[np.int64],
    world: int,
    stray: str = IMPOSSIBLE,
) -> Scores:
    """Return the scores of draws from finite laws; those that are certain always are not tested.

    Parameters
    ----------
    own, other : ndarray, shape (trials, draws, values)
        Laws of the draws on the runs' own stream and on the other one.
    chosen : ndarray of int, shape (trials, draws)
    world : int
        Of the runs; picks the uniforms that spread the draws.
    stray : str
        What to say of a draw that its own law excludes.
    """
    jitter = Source.seeded(world).uniform(chosen.size)
    places = spread(own.reshape(-1, own.shape[-1]), chosen.ravel(), jitter).reshape(chosen.shape)
    ours, theirs = (
        np.take_along_axis(each, chosen[:, :, None], axis=2)[:, :, 0] for each in (own, other)
    )
    possible = (ours > 0.0) & (theirs > 0.0)
    ratios = np.where(possible, ours, 1.0) / np.where(possible, theirs, 1.0)
    losses = np.where(possible, np.log(ratios), np.inf).sum(axis=1)
    open_ = np.any(own.max(axis=2) < 1.0, axis=0)
    return Scores(losses, places[:, open_], (stray,) if np.any(ours <= 0.0) else ())


class FiniteScorer(Scorer):
    """Scores of transcripts of draws from finite laws; transcripts repeat, and are hashable."""

    def __init__(self, family: Family, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        self._known: dict[Any, tuple[FloatArray, NDArray[np.int64]]] = {}

    @abstractmethod
    def cells(self, transcript: Any, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the law of every draw given all before, one a row, and what was drawn.

        As many for every transcript: what is not drawn is certain.
        """

    def score(self, runs: list[Any], world: int) -> Scores:
        for each in [(run, w) for run in runs for w in (0, 1)]:
            if each not in self._known:
                self._known[each] = self.cells(*each)
        own, other = (
            np.array([self._known[run, w][0] for run in runs]) for w in (world, 1 - world)
        )
        chosen = np.array([self._known[run, world][1] for run in runs])
        return score_draws(own, other, chosen, world)


def draws_of(
    chances: FloatArray, chosen: NDArray[np.int64], exact: FloatArray, world: int
) -> dict[str, FloatArray]:
    """Return uniforms for decisions drawn by released weights, in two orders of the decisions.

    By their weights, so that decisions that do not heed the weights are seen; and by what is not
    released, so that those that heed this are.

    Parameters
    ----------
    chances : ndarray, shape (trials, draws, N)
        Laws of the decisions.
    chosen : ndarray of int, shape (trials, draws)
    exact : ndarray, shape (trials, draws, N) or (draws, N)
        Scores without noise, the best least; they may depend on what was released before.
    world : int
        Of the runs; picks the uniforms that spread the draws.
    """
    n = chances.shape[-1]
    laws, picked = chances.reshape(-1, n), chosen.ravel()
    scores = np.broadcast_to(exact, chances.shape).reshape(-1, n)
    out = {}
    for k, (name, keys) in enumerate((("their weights", -laws), ("the exact losses", scores))):
        order = np.argsort(keys, axis=1, kind="stable")
        place = np.argmax(order == picked[:, None], axis=1)
        jitter = Source.seeded(2 + 2 * k + world).uniform(len(picked))
        ordered = np.take_along_axis(laws, order, axis=1)
        out[name] = spread(ordered, place, jitter).reshape(chosen.shape)
    return out


def scorer_of(learner: Any, stream: Any, neighbour: Any) -> Scorer:
    """Return the scorer of a learner; ``TypeError`` if its law is not known here."""
    scorer: type[Scorer] = known(learner).load_audit("likelihood")
    return scorer(family_of(learner), stream, neighbour)


# ---- bounds without assumptions ------------------------------------------------------------------


def dkw(count: int, error: float) -> float:
    """Return how far an empirical distribution may be off anywhere, both sides.

    Dvoretzky, Kiefer and Wolfowitz with Massart's constant: exceeded with probability at most
    `error`.
    """
    return math.sqrt(math.log(2.0 / error) / (2.0 * count))


def fewest_trials(error: float) -> int:
    """Return how many trials make that at most 1/4."""
    return math.ceil(math.log(2.0 / error) / (2.0 * _WIDEST**2))


def deviation(values: FloatArray, top: float, error: float) -> float:
    """Return how far the mean of values in [0, top] may be from its expectation, both sides.

    Empirical Bernstein (Maurer and Pontil, 2009) or Hoeffding, the smaller; exceeded with
    probability at most `error`.
    """
    n, log = len(values), math.log(8.0 / error)
    variance = float(values.var(ddof=1))
    bernstein = math.sqrt(2.0 * variance * log / n) + 7.0 * top * log / (3.0 * (n - 1))
    return min(bernstein, top * math.sqrt(math.log(4.0 / error) / (2.0 * n)))


def mean_at_least(values: FloatArray, top: float, error: float) -> float:
    """Return a lower bound on the expectation of values in [0, top], by the same."""
    return float(values.mean()) - deviation(values, top, 2.0 * error)


# ---- independent uniforms ------------------------------------------------------------------------


def uniform_findings(worlds: list[Scores], error: float, rounding: float) -> Iterator[str]:
    """Yield where something is no sample of independent uniforms.

    Parameters
    ----------
    worlds : list of Scores
        Runs on either stream.
    error : float
        Probability of yielding anything where all is right, at most.
    rounding : float
        Allowance for grids and quadratures.

    Notes
    -----
    Dvoretzky, Kiefer and Wolfowitz's inequality; a fifth of the error each for the law, for
    repetitions at every lag, in every pair of steps and of entries, and for draws. Sorts at most
    2 (256 + 992) samples a stream.
    """
    share = error / (5.0 * len(worlds))
    for world, scores in enumerate(worlds):
        u = scores.uniforms
        if u.size:
            yield from _far(world, "the noise has another law than declared", u, share, rounding)
            for pairs in (_lagged(u), _steps(u), _entries(u)):
                yield from _repeated(world, pairs, share, rounding)
        for name, values in scores.draws.items():
            own = share / len(scores.draws)
            text = f"decisions are not drawn from what is released, seen by {name}"
            yield from _far(world, text, values, own, rounding)


def _distance(values: FloatArray) -> float:
    """Return the largest distance of an empirical distribution from the uniform one on [0, 1]."""
    ordered = np.sort(values)
    grid = np.arange(len(ordered) + 1) / len(ordered)
    return float(max(np.max(grid[1:] - ordered), np.max(ordered - grid[:-1])))


def _far(world: int, text: str, values: FloatArray, error: float, rounding: float) -> Iterator[str]:
    far = _distance(values.ravel())
    if not far <= dkw(values.size, error) + rounding:
        yield f"world {world}: {text} (distance {far:.3g})"


def _repeated(
    world: int, pairs: list[tuple[str, Pair]], error: float, rounding: float
) -> Iterator[str]:
    for sign, how in ((-1.0, ""), (1.0, " with its sign changed")):
        worst, where = 0.0, ""
        for name, (first, second) in pairs:
            values = ((first + sign * second) % 1.0).ravel()
            far = _distance(values)
            allowed = dkw(values.size, error / (2.0 * len(pairs))) + rounding
            if not far <= allowed and not far <= worst:
                worst, where = far, name
        if where:
            yield f"world {world}: the noise repeats itself{how}, {where} (distance {worst:.3g})"


def _lagged(u: FloatArray) -> list[tuple[str, Pair]]:
    """Return all pairs at one lag together, for every lag."""
    lags = range(1, min(u.shape[1], _LAGS + 1))
    return [(f"at a lag of {lag}", (u[:, :-lag], u[:, lag:])) for lag in lags]


def _steps(u: FloatArray) -> list[tuple[str, Pair]]:
    return [
        (f"in steps {first + 1} and {second + 1}", (u[:, first], u[:, second]))
        for first, second in _nearest(u.shape[1])
    ]


def _entries(u: FloatArray) -> list[tuple[str, Pair]]:
    return [
        (f"in entries {first + 1} and {second + 1}", (u[:, :, first], u[:, :, second]))
        for first, second in _nearest(u.shape[2] if u.ndim == 3 else 1)
    ]


def _nearest(count: int) -> list[tuple[int, int]]:
    """Return pairs of indices, nearest first, no more than are compared one by one."""
    pairs = ((first, first + lag) for lag in range(1, count) for first in range(count - lag))
    return list(islice(pairs, _PAIRS))
