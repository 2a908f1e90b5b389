"""Likelihoods of continually released sums with Gaussian noise, and of what is led by them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpoco import _core
from dpoco.accounting.continual_sum import blt_parameters, release_grid
from dpoco.audit._family import FloatArray
from dpoco.audit._scorer import Scorer, Scores, draws_of
from dpoco.audit._sums import Sums
from dpoco.mechanisms import continual_sum_settings
from dpoco.random import Source

__all__ = [
    "SILENT",
    "LedByVectors",
    "LedByWeights",
    "ReleasedStatistics",
    "ReleasedSums",
    "actions_of",
    "moves_to_best",
    "noise_map",
    "sum_noise",
    "whitened",
    "whitening_of",
]

SILENT = "a release has no noise at all"
_DRAWN = ("chances", "chosen", "exact")


def noise_map(method: str, rounds: int, horizon: int) -> FloatArray:
    """Return the matrix from independent draws of scale 1 to the noise of the first sums.

    Shape (rounds, draws). Computed from the definition of each factorisation, not by the engine.
    """
    if method in ("tree", "honaker"):
        return _tree_map(rounds, weighted=method == "honaker")
    if method == "toeplitz":
        first: Any = np.cumprod([1.0, *((2.0 * k - 1.0) / (2.0 * k) for k in range(1, rounds))])
        return _lower_toeplitz(first)
    found = blt_parameters(horizon)
    powers = (1.0 - found.decay)[None, :] ** np.arange(max(rounds - 1, 0))[:, None]
    encoder = _lower_toeplitz(np.concatenate([[1.0], powers @ found.weights]))
    decoder: Any = np.linalg.solve(encoder.T, np.triu(np.ones((rounds, rounds)))).T
    result: FloatArray = decoder
    return result


def whitening_of(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a lower-triangular L with L L' = M M'."""
    upper: Any = np.linalg.qr(matrix.T, mode="r")
    inverse: FloatArray = np.linalg.inv(upper.T)
    return inverse


def whitened(
    matrix: FloatArray, own: FloatArray, other: FloatArray, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return privacy losses, shape (trials,), of what releases have above the sums of two streams.

    And that of the own stream as independent standard normal variates; shapes (trials, pushes, d).
    """
    ours, theirs = (np.einsum("st,ntd->nsd", matrix, each) / scale for each in (own, other))
    losses: FloatArray = 0.5 * ((theirs - ours) * (theirs + ours)).sum(axis=(1, 2))
    return losses, ours


def _lower_toeplitz(first: Any) -> FloatArray:
    n = len(first)
    lags = np.arange(n)[:, None] - np.arange(n)[None, :]
    matrix: FloatArray = np.where(lags >= 0, first[np.abs(lags)], 0.0)
    return matrix


def _tree_map(rounds: int, *, weighted: bool) -> FloatArray:
    """Return the map of the binary tree; with weights, of Honaker's estimate from below."""
    top = rounds.bit_length()
    nodes = [(h, i) for h in range(top) for i in range(rounds >> h)]
    place = {node: k for k, node in enumerate(nodes)}
    rows: dict[tuple[int, int], FloatArray] = {}
    variance = 1.0
    for h in range(top):
        own = 1.0
        if weighted and h > 0:  # the children's sum has variance 2 v
            own = variance = 2.0 * variance / (1.0 + 2.0 * variance)
        for i in range(rounds >> h):
            row = np.zeros(len(nodes))
            row[place[h, i]] = own
            if weighted and h > 0:
                row += (1.0 - own) * (rows[h - 1, 2 * i] + rows[h - 1, 2 * i + 1])
            rows[h, i] = row
    out: FloatArray = np.zeros((rounds, len(nodes)))
    for t in range(1, rounds + 1):
        for h in range(top):
            if t >> h & 1:
                out[t - 1] += rows[h, (t >> h) - 1]
    return out


def sum_noise(family: Sums, dimension: int, count: int, claim: dict[str, Any]) -> FloatArray:
    """Return the noise of the first sums, drawn once more by a sum alone, shape (count, d).

    `claim` is a copy of what the learner's own sum was given of the tape.
    """
    settings = continual_sum_settings(family.view._mechanism, claim)
    twin = _core.ContinualSum(settings, _core.RecordClipper(dimension, 1.0, 2.0, np.inf))
    out = np.empty((count, dimension))
    twin.run(np.zeros((count, dimension)), out)
    return out


def moves_to_best(
    domain: Any, step: tuple[FloatArray, FloatArray], eta: float, released: FloatArray, grid: float
) -> bool:
    """Whether a decision moved by eta to a vertex that the released sum prefers, up to its grid."""
    before, after = step
    vertex = before + (after - before) / eta
    best = domain.minimize_linear(np.ascontiguousarray(released))
    slack = 4 * grid + 1e-9 * float(np.abs(released).max())
    return bool(released @ (vertex - best) <= slack * (np.abs(vertex - best).sum() + 1e-9))


def actions_of(learner: Any, contexts: list[FloatArray], forced: bool) -> tuple[list[int], bool]:
    """Return the actions for contexts, given all that was released; begins the round of the first.

    And whether the round's action is the one that the estimates recommend. `forced` says that the
    schedule decides, whatever the context.
    """
    advised = [int(arm) for arm in learner.recommend(np.array(contexts))]
    arm = int(learner.decide(contexts[0]))
    heeded = forced or arm == advised[0]
    return [arm, *(arm if forced else other for other in advised[1:])], heeded


@dataclass
class _Run:
    """One run: what was released, and what the own and the other stream add given that."""

    released: list[FloatArray] = field(default_factory=list)
    leaves: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    chances: list[FloatArray] = field(default_factory=list)  # laws of decisions that are drawn
    chosen: list[int] = field(default_factory=list)  # and what was drawn
    exact: list[FloatArray] = field(default_factory=list)  # what would be known without noise


class ReleasedSums(Scorer):
    """ContinualSum."""

    family: Sums
    astray = ""

    def __init__(self, family: Sums, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        p = self.learner.parameters
        if getattr(p, "noise", "gaussian") != "gaussian":
            raise ValueError("no density is known of sums with generalized Gaussian noise")
        self._pushes = min(len(self.streams[0]) // family.batch, self._most())
        if self._pushes < 1:
            raise ValueError("stream must be long enough for a release")
        method = getattr(p, "sum_method", getattr(p, "method", ""))
        self._whitening = whitening_of(noise_map(method, self._pushes, family.pushes))

    def _most(self) -> int:
        """Return how many releases the horizon has."""
        return self.family.pushes

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        run, family = _Run(), self.family
        d = family.exact(learner).size
        noise = self._noise(d, tape)
        pending = [np.zeros(d), np.zeros(d)]
        for t in range(self._pushes * family.batch):
            records = [self.streams[w].record(t) for w in (world, 1 - world)]
            decisions = self._decisions(learner, records, run)
            for k in (0, 1):
                pending[k] = pending[k] + family.leaf(learner, decisions[k], records[k])
            answer = family.observe(learner, decisions[0], records[0])
            if (t + 1) % family.batch:
                continue
            push = len(run.released)
            run.released.append(self._released(learner, answer, noise[push : push + 1]))
            run.leaves.append((pending[0], pending[1]))
            pending = [np.zeros(d), np.zeros(d)]
            if not self._follows(learner, push, decisions[0], run.released[-1]):
                run.findings.append(self.astray)
        self._finish(learner, run)
        return run

    def _noise(self, dimension: int, tape: Source) -> FloatArray:
        """Return the noise of all releases, drawn again, where they do not show it themselves."""
        return np.empty((0, dimension))

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: _Run) -> list[Any]:
        """Return the round's decision, and that for the other stream's record."""
        return [self.family.decide(learner, records[0])] * 2

    def _released(self, learner: Any, answer: Any, noise: FloatArray) -> FloatArray:
        """Return what was released after a push."""
        released: FloatArray = answer
        return released

    def _follows(self, learner: Any, k: int, before: Any, released: FloatArray) -> bool:
        """Whether what the learner shows after update k follows from what was released."""
        return True

    def _finish(self, learner: Any, run: _Run) -> None:
        """Look at the decision after the last release."""

    def score(self, runs: list[Any], world: int) -> Scores:
        from scipy.special import ndtr

        scale = self.learner.parameters.noise_scale
        if not scale > 0.0:
            return Scores(np.zeros(len(runs)), np.empty((len(runs), 0)), (SILENT,))
        released = np.array([run.released for run in runs])
        sums = np.cumsum([run.leaves for run in runs], axis=1)  # (trials, pushes, 2, d)
        gaps = released - sums[:, :, 0], released - sums[:, :, 1]
        losses, own = whitened(self._whitening, *gaps, scale)
        found = tuple(dict.fromkeys(text for run in runs for text in run.findings))
        if not runs[0].chosen:
            return Scores(losses, ndtr(own), found)
        chances, chosen, exact = (np.array([getattr(run, name) for run in runs]) for name in _DRAWN)
        return Scores(losses, ndtr(own), found, draws_of(chances, chosen, exact, world))


class LedByVectors(ReleasedSums):
    """TreeFrankWolfe and NoisyFTRL: decisions are functions of released sums.

    The noise is drawn again from a copy of the tape by a sum alone, and the learner's decisions
    must be those that follow from its own sum with that noise.
    """

    astray = "decisions do not follow from sums with the declared noise"

    def _noise(self, dimension: int, tape: Source) -> FloatArray:
        return sum_noise(self.family, dimension, self._pushes, tape._claim())

    def _released(self, learner: Any, answer: Any, noise: FloatArray) -> FloatArray:
        released: FloatArray = self.family.exact(learner) + noise[0]
        return released

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: _Run) -> list[Any]:
        decisions = super()._decisions(learner, records, run)
        if not np.array_equal(decisions[0], learner.last_decision):
            run.findings.append("a round decides otherwise than the last update did")
        return decisions

    def _finish(self, learner: Any, run: _Run) -> None:
        if learner.round < learner.horizon:
            self._decisions(learner, [()], run)

    def _follows(self, learner: Any, k: int, before: Any, released: FloatArray) -> bool:
        p, grid = learner.parameters, release_grid(learner.parameters.noise_scale)
        if learner.round >= learner.horizon or getattr(p, "statistics", "") == "quadratic":
            return True
        after = learner.last_decision
        if not hasattr(p, "step_size"):
            eta = p.step_scale / (k + 1 + p.step_scale)
            return moves_to_best(learner.domain, (before, after), eta, released, grid)
        expected = learner.domain.project(learner.domain.center - p.step_size * released)
        return bool(np.abs(after - expected).max() <= 4 * p.step_size * grid + 1e-9)


class LedByWeights(LedByVectors):
    """PrefixHedge, and LipschitzLearner on a net: decisions are drawn by weights that follow."""

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: _Run) -> list[Any]:
        decision = self.family.decide(learner, records[0])
        run.chances.append(np.array(learner.weights))
        run.chosen.append(decision)
        run.exact.append(self._losses(learner, self.family.exact(learner)))
        return [decision] * 2

    @staticmethod
    def _losses(learner: Any, sums: FloatArray) -> FloatArray:
        """Return losses from sums: of a net's points, those of transformed losses."""
        checker = getattr(learner, "_checker", None)
        if checker is None:
            return sums
        losses: FloatArray = np.array(checker.invert(np.ascontiguousarray(sums)))
        return losses

    def _follows(self, learner: Any, k: int, before: Any, released: FloatArray) -> bool:
        rate = learner.parameters.learning_rate
        values = self._losses(learner, released)
        # The transform's inverse is linear: what a grid of the releases becomes, at most.
        unit = np.array([self._losses(learner, row) for row in np.eye(len(released))])
        slack = release_grid(learner.parameters.noise_scale) * np.abs(unit).sum(axis=0).max()
        expected = np.exp(-rate * (values - values.min()))
        expected /= expected.sum()
        return bool(np.allclose(learner.weights, expected, rtol=4 * rate * slack + 1e-9))


class ReleasedStatistics(ReleasedSums):
    """LinUCB: the noisy statistics of all arms, and the estimates that follow from them.

    Privacy is joint: all actions but the own one follow from what is released, so that is what is
    scored. The changed record may get another action on the other stream; given equal releases,
    both actions are known.
    """

    astray = "estimates do not follow from the released statistics"

    def _most(self) -> int:
        return min(self.family.pushes, int(self.learner.horizon - 1) // self.family.batch)

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: _Run) -> list[Any]:
        arms, heeded = actions_of(learner, [context for context, _ in records], forced=False)
        if not heeded:
            run.findings.append("an action is not the one that is recommended")
        return arms

    def _released(self, learner: Any, answer: Any, noise: FloatArray) -> FloatArray:
        return np.array(learner._engine.released())

    def _follows(self, learner: Any, k: int, before: Any, released: FloatArray) -> bool:
        """Whether every arm's estimate solves its released equations."""
        p, d, arms = learner.parameters, learner.dimension, learner.arms
        own = released.reshape(arms, -1)
        upper, count = np.triu_indices(d), d * (d + 1) // 2
        matrices = np.zeros((arms, d, d))
        matrices[:, upper[0], upper[1]] = own[:, :count]
        matrices[:, ~np.eye(d, dtype=bool)] *= np.sqrt(0.5)  # of the packed norm
        matrices = matrices + np.triu(matrices, 1).transpose(0, 2, 1)
        shifts = np.full(arms, p.regularization + p.noise_margin)
        least = np.linalg.eigvalsh(matrices)[:, 0]
        while np.any(least + shifts <= 1e-12 * shifts):  # doubled until it can be solved
            shifts = np.where(least + shifts <= 1e-12 * shifts, 2.0 * shifts, shifts)
        solved = np.linalg.solve(
            matrices + shifts[:, None, None] * np.eye(d), own[:, count:, None] / p.reward_weight
        )[:, :, 0]
        size = 1.0 + np.abs(solved).max()
        return bool(np.abs(learner.coefficients - solved).max() <= 1e-6 * size)
