"""Likelihoods of private selections: noisy max, and Frank-Wolfe on polytopes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting.noisy_max import law_of
from dpoco.audit._likelihood_base import Scorer, Scores, log_odds, spread
from dpoco.audit._replay_sums import leaf_of
from dpoco.domains import Box, LpBall, Simplex
from dpoco.random import Source

__all__ = ["Selections", "Vertices", "choices_of", "selection_law"]

FloatArray = NDArray[np.float64]


def selection_law(noise: str, scores: FloatArray, scale: float) -> FloatArray:
    """Return the probability of every index to have the largest noisy score; shapes (..., n).

    Exponential noise: an integral of a polynomial, exact by quadrature. Gumbel: softmax. Laplace:
    by quadrature, to about 1e-9.
    """
    rates = (scores - scores.max(axis=-1, keepdims=True)) / scale
    if noise == "gumbel":
        weights = np.exp(rates)
        law: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
        return law
    if noise == "exponential":
        # The highest noisy score h has w = exp(-(h - max)/scale) in (0, 1].
        chances = np.exp(rates)
        nodes, weights = np.polynomial.legendre.leggauss(scores.shape[-1] // 2 + 1)
        below = 1.0 - chances[..., None, :] * (0.5 * (nodes + 1.0))[:, None]
        logs = np.log(below)
        others = np.exp(logs.sum(axis=-1, keepdims=True) - logs)
        out = chances * np.einsum("k,...kn->...n", 0.5 * weights, others)
        exact: FloatArray = out / out.sum(axis=-1, keepdims=True)
        return exact
    if scores.shape[-1] == 2:  # how far the second is behind, and one minus the other
        gap = rates[..., :1] - rates[..., 1:]
        behind = 0.5 * np.exp(-np.abs(gap)) * (1.0 + 0.5 * np.abs(gap))
        first = np.where(gap >= 0.0, 1.0 - behind, behind)
        second = np.where(gap >= 0.0, behind, 1.0 - behind)
        both: FloatArray = np.concatenate([first, second], axis=-1)
        return both
    return _laplace_law(rates)


def _laplace_law(rates: FloatArray) -> FloatArray:
    flat = rates.reshape(-1, rates.shape[-1])
    out = np.empty_like(flat)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    for row, u in zip(out, flat, strict=True):
        # Between the kinks, and to where the rest is below 1e-17.
        edges = np.unique(np.concatenate([[u.min() - 40.0], u, u + 8.0, [40.0]]))
        if edges[-1] - edges[0] > 120.0:  # scores far apart: nothing between them
            edges = np.unique(np.concatenate([edges, *(u + far for far in (-40, -8, 24, 40))]))
        middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
        x = (middle[:, None] + half[:, None] * nodes).ravel()
        w = (half[:, None] * weights).ravel()
        away = x[:, None] - u[None, :]
        tail = 0.5 * np.exp(-np.abs(away))
        below = np.where(away > 0.0, 1.0 - tail, tail)
        logs = np.log(np.maximum(below, 1e-300))
        row[:] = (w[:, None] * tail * np.exp(logs.sum(axis=1, keepdims=True) - logs)).sum(axis=0)
    law: FloatArray = (out / out.sum(axis=1, keepdims=True)).reshape(rates.shape)
    return law


class Selections(Scorer):
    """NoisyMax: independent draws, one a row of scores."""

    everywhere = True

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        return [learner.select(row) for row in self.streams[world].parts[0]]

    def score(self, runs: list[Any], world: int) -> Scores:
        p = self.learner.parameters
        sign = 1.0 if p.largest else -1.0
        laws = [
            selection_law(law_of(p.noise), sign * np.where(np.isfinite(rows), rows, 0.0), p.scale)
            for rows in (each.parts[0] for each in self.streams)
        ]
        chosen = np.array(runs)
        steps = np.arange(chosen.shape[1])
        ours, theirs = (each[steps[None, :], chosen] for each in (laws[world], laws[1 - world]))
        possible = (ours > 0.0) & (theirs > 0.0)
        ratios = np.where(possible, ours, 1.0) / np.where(possible, theirs, 1.0)
        losses = np.where(possible, np.log(ratios), np.inf).sum(axis=1)
        stray = bool(np.any(ours <= 0.0))
        jitter = Source.seeded(world).uniform(chosen.size).reshape(chosen.shape)
        columns = [
            spread(np.tile(laws[world][t], (len(chosen), 1)), chosen[:, t], jitter[:, t])
            for t in steps
        ]
        findings = ("a selection is impossible under the declared law",) if stray else ()
        return Scores(losses, np.stack(columns, axis=1), findings)


class Vertices(Scorer):
    """PolyhedralFrankWolfe: the vertex of every update, read off the decisions."""

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        super().__init__(learner, stream, neighbour)
        self._updates = len(self.streams[0]) // learner.parameters.batch
        if self._updates < 1:
            raise ValueError("stream must be long enough for a release")
        self._choices = choices_of(learner.domain)
        self._draws = 0

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        p, d = learner.parameters, learner.domain.dimension
        sums = [np.zeros(d), np.zeros(d)]
        loss, uniforms, stray = 0.0, [], False
        for k in range(1, self._updates + 1):
            before = learner.decide()
            for t in range((k - 1) * p.batch, k * p.batch):
                decision = learner.decide()
                for w in (0, 1):
                    leaf = leaf_of(learner, decision, *self.streams[w].record(t))
                    sums[w] = sums[w] + leaf
                record = self.streams[world].record(t)
                learner.observe(record[0], *(float(y) for y in record[1:]))
            vertex = before + (learner.last_decision - before) * (k + 1)
            weight = k + (p.weights == "paper")
            rate = 1.0 / (p.batch * weight * p.noise_scale_at(k))
            for entries, table in self._choices:
                gap = np.abs(table - vertex[entries]).sum(axis=1)
                chosen = int(np.argmin(gap))
                stray = stray or gap[chosen] > 1e-6 * (1.0 + np.abs(table).max())
                laws = [
                    selection_law(p.selector if p.selector == "gumbel" else "laplace",
                                  -(table @ own[entries]) * rate, 1.0)
                    for own in sums
                ]  # fmt: skip
                stray = stray or not laws[world][chosen] > 0.0
                loss += log_odds(laws[world][chosen], laws[1 - world][chosen])
                uniforms.append((laws[world], chosen))
        return loss, uniforms, stray

    def score(self, runs: list[Any], world: int) -> Scores:
        losses = np.array([loss for loss, _, _ in runs])
        count, steps = len(runs), len(runs[0][1])
        jitter = Source.seeded(world).uniform(count * steps).reshape(count, steps)
        u = np.empty((count, steps))
        for k in range(steps):
            laws = np.array([each[1][k][0] for each in runs])
            chosen = np.array([each[1][k][1] for each in runs])
            u[:, k] = spread(laws, chosen, jitter[:, k])
        stray = any(each[2] for each in runs)
        findings = ("decisions do not move towards vertices of the declared law",) if stray else ()
        # Updates in order; a box has several draws in each.
        each_update = len(self._choices)
        shape = (count, steps // each_update, each_update)
        return Scores(losses, u.reshape(shape), findings)


def choices_of(domain: Any) -> list[tuple[Any, FloatArray]]:
    """Return the independent choices of a vertex: entries, and their values, one choice a row."""
    d = domain.dimension
    if isinstance(domain, Box):
        ends = np.stack([domain.lower, domain.upper], axis=1)
        return [([j], ends[j][:, None]) for j in range(d)]
    if isinstance(domain, LpBall):
        table = domain.radius * np.vstack([np.eye(d), -np.eye(d)])
    elif isinstance(domain, Simplex):
        table = domain.scale * np.eye(d)
    else:
        table = np.array(domain.vertices)
    return [(slice(None), table)]
