"""Likelihoods of the batched share: one release of every batch's sum."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._likelihood_base import Scorer, Scores, spread
from dpoco.random import Source

__all__ = ["ReleasedBatches"]

FloatArray = NDArray[np.float64]


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
        self._inputs = [self._sums(each.parts[0]) for each in self.streams]

    def _sums(self, rows: FloatArray) -> FloatArray:
        """Return what each release is of, from the losses: shape (releases, N)."""
        p = self.learner.parameters
        low, high = self.learner._loss_range
        admitted = np.where(np.isfinite(rows), np.clip((rows - low) / (high - low), 0, 1), 0.0)
        used = admitted[: self._releases * p.batch]
        sums: FloatArray = used.reshape(self._releases, p.batch, -1).sum(axis=1)
        if p.noise == "gaussian":
            sums = sums - sums.mean(axis=1, keepdims=True)
        return sums

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        batch, out = learner.parameters.batch, []
        for t in range(self._releases * batch):
            learner.decide()
            learner.observe(self.streams[world].parts[0][t])
            if (t + 1) % batch == 0:
                out.append(np.array(learner._engine.released()))
        return np.array(out)

    def score(self, runs: list[Any], world: int) -> Scores:
        released = np.array(runs)  # (trials, releases, N)
        p = self.learner.parameters
        own, other = (released - self._inputs[w] for w in (world, 1 - world))
        if p.noise == "coordinate_rr":
            return self._responses(released, world)
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
        return Scores(np.log(ours / theirs).sum(axis=1), np.stack(columns, axis=1))
