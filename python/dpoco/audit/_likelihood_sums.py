"""Likelihoods of continually released sums with Gaussian noise, and of what is led by them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco.audit._likelihood_base import Scorer, Scores, draws_of
from dpoco.audit._replay_mechanisms import clipped_vector
from dpoco.audit._replay_sums import leaf_of
from dpoco.experts import PrefixHedge
from dpoco.mechanisms import continual_sum_settings
from dpoco.random import Source

__all__ = [
    "SILENT",
    "LedByNetSums",
    "LedBySums",
    "PlainSums",
    "SumRun",
    "noise_map",
    "sum_noise",
    "whitening_of",
]

FloatArray = NDArray[np.float64]

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
    from dpoco.accounting.blt import blt_parameters

    found = blt_parameters(horizon)
    powers = (1.0 - found.decay)[None, :] ** np.arange(max(rounds - 1, 0))[:, None]
    encoder = _lower_toeplitz(np.concatenate([[1.0], powers @ found.weights]))
    ones = np.tril(np.ones((rounds, rounds)))
    decoder: Any = np.linalg.solve(encoder.T, ones.T).T
    result: FloatArray = decoder
    return result


def whitening_of(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a lower-triangular L with L L' = M M'."""
    upper: Any = np.linalg.qr(matrix.T, mode="r")
    inverse: FloatArray = np.linalg.inv(upper.T)
    return inverse


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
            own = 2.0 * variance / (1.0 + 2.0 * variance)
            variance = own
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


def sum_noise(learner: Any, dimension: int, count: int, claim: dict[str, Any]) -> FloatArray:
    """Return the noise of the first sums, drawn once more by a sum alone, shape (count, d).

    `claim` is a copy of what the learner's own sum was given of the tape.
    """
    settings = continual_sum_settings(learner._mechanism, claim)
    twin = _core.ContinualSum(settings, _core.RecordClipper(dimension, 1.0, 2.0, np.inf))
    out = np.empty((count, dimension))
    twin.run(np.zeros((count, dimension)), out)
    return out


@dataclass
class SumRun:
    """One run: what was released, and what either stream would have added given that."""

    released: FloatArray  # (pushes, d)
    leaves: list[FloatArray] = field(default_factory=list)  # two of (pushes, d)
    findings: list[str] = field(default_factory=list)
    chances: list[FloatArray] = field(default_factory=list)  # laws of decisions that are drawn
    chosen: list[int] = field(default_factory=list)  # and what was drawn
    exact: list[FloatArray] = field(default_factory=list)  # what would be known without noise


class PlainSums(Scorer):
    """ContinualSum."""

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        super().__init__(learner, stream, neighbour)
        p = learner.parameters
        if getattr(p, "noise", "gaussian") != "gaussian":
            raise ValueError("no density is known of sums with generalized Gaussian noise")
        self._method = getattr(p, "sum_method", getattr(p, "method", ""))
        self._pushes = self._count(len(self.streams[0]))
        if self._pushes < 1:
            raise ValueError("stream must be long enough for a release")
        horizon = getattr(p, "pushes", p.horizon)
        self._whitening = whitening_of(noise_map(self._method, self._pushes, horizon))
        self._leaves: list[FloatArray] | None = None

    def _count(self, rounds: int) -> int:
        return rounds

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        if self._leaves is None:
            p = learner.parameters
            self._leaves = [
                np.array([clipped_vector(row, p.bound, p.norm) for row in each.parts[0]])
                for each in self.streams
            ]
        released = np.array([learner.push(row) for row in self.streams[world].parts[0]])
        return SumRun(released, self._leaves)

    def score(self, runs: list[Any], world: int) -> Scores:
        from scipy.special import ndtr

        scale = self.learner.parameters.noise_scale
        released = np.array([run.released for run in runs])
        if not scale > 0.0:
            return Scores(np.zeros(len(runs)), np.empty((len(runs), 0)), (SILENT,))
        own, other = (
            np.einsum("st,ntd->nsd", self._whitening, released - self._sums(runs, w)) / scale
            for w in (world, 1 - world)
        )
        losses = 0.5 * ((other - own) * (other + own)).sum(axis=(1, 2))
        found = tuple(dict.fromkeys(text for run in runs for text in run.findings))
        if not runs[0].chosen:
            return Scores(losses, ndtr(own), found)
        chances, chosen, exact = (np.array([getattr(run, name) for run in runs]) for name in _DRAWN)
        return Scores(losses, ndtr(own), found, draws_of(chances, chosen, exact, world))

    @staticmethod
    def _sums(runs: list[Any], world: int) -> FloatArray:
        sums: FloatArray = np.cumsum([run.leaves[world] for run in runs], axis=1)
        return sums


class LedBySums(PlainSums):
    """TreeFrankWolfe, NoisyFTRL and PrefixHedge: decisions are functions of released sums.

    The noise is drawn again from a copy of the tape by a sum alone, and the learner's decisions
    must be those that follow from its own sum with that noise, or be drawn from weights that do.
    """

    def _count(self, rounds: int) -> int:
        p = self.learner.parameters
        batch = getattr(p, "batch", 1)
        return int(min(rounds // batch, p.pushes))

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        p, engine = learner.parameters, learner._engine
        d, batch = len(engine.nonprivate_sum()), getattr(p, "batch", 1)
        noise = sum_noise(learner, d, self._pushes, tape._claim())
        run = SumRun(np.empty((self._pushes, d)))
        pending = [np.zeros(d), np.zeros(d)]
        sums: tuple[list[FloatArray], list[FloatArray]] = ([], [])
        for t in range(self._pushes * batch):
            decision = self._decided(learner, run)
            for w in (0, 1):
                pending[w] = pending[w] + self._leaf(learner, decision, self.streams[w].record(t))
            record = self.streams[world].record(t)
            learner.observe(record[0], *(float(y) for y in record[1:]))
            if (t + 1) % batch:
                continue
            k = t // batch
            run.released[k] = np.array(engine.nonprivate_sum()) + noise[k]
            for w in (0, 1):
                sums[w].append(pending[w])
                pending[w] = np.zeros(d)
            if not self._follows(learner, k, decision, run.released[k]):
                run.findings.append("decisions do not follow from sums with the declared noise")
        if learner.round < learner.horizon:
            self._decided(learner, run)
        run.leaves = [np.array(each) for each in sums]
        return run

    def _decided(self, learner: Any, run: SumRun) -> Any:
        """Return the round's decision, and note what it was drawn from, if it was."""
        decision = learner.decide()
        if hasattr(learner, "weights"):
            run.chances.append(np.array(learner.weights))
            run.chosen.append(self._index(learner, decision))
            run.exact.append(self._exact(learner))
        elif not np.array_equal(decision, learner.last_decision):
            run.findings.append("a round decides otherwise than the last update did")
        return decision

    def _index(self, learner: Any, decision: Any) -> int:
        return int(decision)

    def _exact(self, learner: Any) -> FloatArray:
        """Return the losses of all choices so far, without noise."""
        losses: FloatArray = np.array(learner._engine.nonprivate_sum())
        return losses

    def _leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        """Return what a record adds in the learner's current round."""
        return leaf_of(learner, decision, *record)

    def _follows(self, learner: Any, k: int, before: Any, released: FloatArray) -> bool:
        """Whether the decision after update k is the rule's, up to the grid of the releases."""
        from dpoco.accounting.continual_sum import release_grid

        p = learner.parameters
        slack = release_grid(p.noise_scale)
        if isinstance(learner, PrefixHedge):
            rate = p.learning_rate
            scores = -rate * (released - released.min())
            expected = np.exp(scores)
            expected /= expected.sum()
            return bool(np.allclose(learner.weights, expected, rtol=4 * rate * slack + 1e-9))
        if learner.round >= learner.horizon:
            return True
        after = learner.last_decision
        if hasattr(p, "step_size"):
            if p.statistics == "quadratic":
                return True
            rate, domain = p.step_size, learner.domain
            expected = domain.project(domain.center - rate * released)
            return bool(np.abs(after - expected).max() <= 4 * rate * slack + 1e-9)
        eta = p.step_scale / (k + 1 + p.step_scale)
        vertex = before + (after - before) / eta
        best = learner.domain.minimize_linear(np.ascontiguousarray(released))
        size = float(np.abs(vertex - best).sum())
        return bool(
            released @ (vertex - best)
            <= (4 * slack + 1e-9 * np.abs(released).max()) * (size + 1e-9)
        )


class LedByNetSums(LedBySums):
    """LipschitzLearner: weights on a net, from released sums of transformed losses."""

    def _index(self, learner: Any, decision: Any) -> int:
        return int(np.all(learner.points == decision, axis=1).argmax())

    def _exact(self, learner: Any) -> FloatArray:
        losses: FloatArray = np.array(learner._checker.invert(super()._exact(learner)))
        return losses

    def _leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        leaf: FloatArray = np.array(learner._engine.leaf(record[0]))
        return leaf

    def _follows(self, learner: Any, k: int, before: Any, released: FloatArray) -> bool:
        from dpoco.accounting.continual_sum import release_grid

        p = learner.parameters
        # The transform's inverse is linear: what a grid of the releases becomes, at most.
        values = learner._checker.invert(np.ascontiguousarray(released))
        unit = np.array([learner._checker.invert(row) for row in np.eye(len(released))])
        slack = release_grid(p.noise_scale) * float(np.abs(unit).sum(axis=0).max())
        expected = np.exp(-p.learning_rate * (values - values.min()))
        expected /= expected.sum()
        return bool(np.allclose(learner.weights, expected, rtol=4 * p.learning_rate * slack + 1e-9))
