"""Likelihoods of the batched share: one release of every batch's sum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._likelihood_base import Scorer, Scores, draws_of, spread
from dpoco.audit._likelihood_sums import SILENT
from dpoco.random import Source

__all__ = ["ReleasedBatches"]

FloatArray = NDArray[np.float64]


@dataclass
class _Run:
    """What one run released, and what its decisions were drawn from."""

    released: list[FloatArray] = field(default_factory=list)
    chances: list[FloatArray] = field(default_factory=list)
    chosen: list[int] = field(default_factory=list)
    exact: list[FloatArray] = field(default_factory=list)
    stray: bool = False


def _floored(weights: FloatArray, floor: float) -> FloatArray:
    """Return the law nearest to one in relative entropy whose entries are at least `floor`."""
    low = np.zeros(len(weights), dtype=bool)
    while True:
        rest = weights[~low].sum()
        scaled = weights * ((1.0 - floor * low.sum()) / rest)
        below = ~low & (scaled < floor)
        if not below.any():
            return np.where(low, floor, scaled)
        low |= below


class ReleasedBatches(Scorer):
    """BatchShare."""

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        super().__init__(learner, stream, neighbour)
        p = learner.parameters
        releases = len(self.streams[0]) // p.batch
        if p.releases is not None:
            releases = min(releases, p.releases)
        if releases < 1 or learner.experts < 2:
            raise ValueError("stream must be long enough for a release, of at least two experts")
        self._releases = releases
        self._admitted = [self._unit(each.parts[0]) for each in self.streams]
        self._inputs = [self._sums(rows) for rows in self._admitted]

    def _unit(self, rows: FloatArray) -> FloatArray:
        """Return losses as they are used, in [0, 1]."""
        low, high = self.learner._loss_range
        clipped = np.clip((rows - low) / (high - low), 0.0, 1.0)
        return np.where(np.isfinite(rows), clipped, 0.0)

    def _sums(self, admitted: FloatArray) -> FloatArray:
        """Return what each release is of: shape (releases, N)."""
        p = self.learner.parameters
        used = admitted[: self._releases * p.batch]
        sums: FloatArray = used.reshape(self._releases, p.batch, -1).sum(axis=1)
        if p.noise == "gaussian":
            sums = sums - sums.mean(axis=1, keepdims=True)
        return sums

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        batch, rows = learner.parameters.batch, self.streams[world].parts[0]
        run, state, exact = _Run(), self._first_state(), np.zeros(learner.experts)
        for t in range(self._releases * batch + 1):
            if learner.round == learner.horizon:
                break
            run.chances.append(np.array(learner.weights))
            run.chosen.append(int(learner.decide()))
            run.exact.append(exact)
            follows = np.allclose(run.chances[-1], self._weights(state), rtol=1e-6, atol=1e-12)
            run.stray = run.stray or not follows
            if t == self._releases * batch:
                break
            learner.observe(rows[t])
            exact = exact + self._admitted[world][t]
            if (t + 1) % batch == 0:
                run.released.append(np.array(learner._engine.released()))
                state = self._updated(state, run.released[-1])
        return run

    # The rule: logarithms of weights, up to a constant.

    def _first_state(self) -> FloatArray:
        return np.zeros(self.learner.experts)

    def _updated(self, state: FloatArray, released: FloatArray) -> FloatArray:
        p, n = self.learner.parameters, self.learner.experts
        state = state - p.learning_rate * (released - released.min())
        if p.share_rate > 0.0:
            shared = (1.0 - p.share_rate - p.share_rate / (n - 1)) * self._weights(state)
            state = np.log(shared + p.share_rate / (n - 1))
        elif p.floor > 0.0:
            state = np.log(_floored(self._weights(state), p.floor))
        return state

    @staticmethod
    def _weights(state: FloatArray) -> FloatArray:
        powers = np.exp(state - state.max())
        weights: FloatArray = powers / powers.sum()
        return weights

    def score(self, runs: list[Any], world: int) -> Scores:
        released = np.array([run.released for run in runs])  # (trials, releases, N)
        chances, exact = (
            np.array([getattr(run, name) for run in runs]) for name in ("chances", "exact")
        )
        draws = draws_of(chances, np.array([run.chosen for run in runs]), exact, world)
        found = self._releases_scored(released, world)
        findings = found.findings
        if any(run.stray for run in runs):
            findings += ("weights do not follow from what is released",)
        return replace(found, findings=findings, draws=draws)

    def _releases_scored(self, released: FloatArray, world: int) -> Scores:
        p = self.learner.parameters
        own, other = (released - self._inputs[w] for w in (world, 1 - world))
        if p.noise == "coordinate_rr":
            return self._responses(released, world)
        silent = np.all(np.abs(own) <= 1e-9 * p.noise_scale, axis=2)
        if np.any(silent) or not p.noise_scale > 0.0:
            return Scores(np.zeros(len(released)), np.empty((len(released), 0)), (SILENT,))
        from scipy import special

        scale = p.noise_scale
        if p.noise == "gaussian":
            change = 0.5 * ((other / scale) ** 2 - (own / scale) ** 2).sum(axis=2)
            uniforms = special.ndtr(own / scale)
        elif p.noise == "laplace":
            change = (np.abs(other) - np.abs(own)).sum(axis=2) / scale
            tail = 0.5 * np.exp(-np.abs(own) / scale)
            uniforms = np.where(own > 0.0, 1.0 - tail, tail)
        else:
            radius = np.abs(own).max(axis=2)
            change = (np.abs(other).max(axis=2) - radius) / scale
            # The largest entry is Gamma(N), and the first of the others uniform below it.
            largest = np.abs(own).argmax(axis=2)
            place = (largest + 1) % own.shape[2]
            entry = np.take_along_axis(own, place[:, :, None], axis=2)[:, :, 0]
            uniforms = np.stack(
                [special.gammainc(own.shape[2], radius / scale), 0.5 * (entry / radius + 1.0)],
                axis=2,
            )
        return Scores(change.sum(axis=1), uniforms)

    def _responses(self, released: FloatArray, world: int) -> Scores:
        n, epsilon = released.shape[2], 1.0 / self.learner.parameters.noise_scale
        place = np.abs(released).argmax(axis=2)
        up = np.take_along_axis(released, place[:, :, None], axis=2)[:, :, 0] > 0.0
        chances = []
        for w in (world, 1 - world):
            high = 0.5 + (2.0 * self._inputs[w] - 1.0) * np.tanh(0.5 * epsilon) / 2.0
            chances.append(np.stack([1.0 - high, high], axis=2) / n)  # (releases, N, 2)
        steps = np.arange(released.shape[1])[None, :]
        bits = up.astype(np.int64)
        ours, theirs = (each[steps, place, bits] for each in chances)
        cells = chances[0].reshape(released.shape[1], 2 * n)
        jitter = Source.seeded(world).uniform(place.size).reshape(place.shape)
        columns = [
            spread(np.tile(cells[k], (len(place), 1)), 2 * place[:, k] + bits[:, k], jitter[:, k])
            for k in range(released.shape[1])
        ]
        possible = (ours > 0.0) & (theirs > 0.0)
        ratios = np.where(possible, ours, 1.0) / np.where(possible, theirs, 1.0)
        losses = np.where(possible, np.log(ratios), np.inf).sum(axis=1)
        findings = (
            ("a response is impossible under the declared law",) if np.any(ours <= 0.0) else ()
        )
        return Scores(losses, np.stack(columns, axis=1), findings)
