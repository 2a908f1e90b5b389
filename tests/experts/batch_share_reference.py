"""The batched share in NumPy, straight from its definition, on injected noise.

Every update is done in the log domain, the projection by bisection; the engine's noise and uniforms
are read from a source at the same key, so that decisions must agree exactly.
"""

from __future__ import annotations

import numpy as np
from tests.probes import probes
from tests.published import built

import dpoco
from dpoco import _core
from dpoco.accounting.batch_share import find_noise
from dpoco.experts import BatchShare
from dpoco.random import Source

N, T = 5, 41
PURE, MIXED = dpoco.Budget(2.0, 0.0), dpoco.Budget(2.0, 1e-4)
LOSSES = np.random.default_rng(0).uniform(size=(T, N))
CONFIGURATIONS = [
    {"budget": PURE, "batch": 4, "switches": 2},
    {"budget": PURE, "batch": 1},
    {"budget": PURE, "noise": "laplace", "batch": 3, "learning_rate": 2.0},
    {"budget": MIXED, "noise": "gaussian", "batch": 5, "share_rate": 0.3},
    {"budget": MIXED, "noise": "gaussian", "batch": 2, "learning_rate": 500.0},
    {"budget": PURE, "calibration": "paper", "switches": 2, "learning_rate": 3.0},
    {"budget": None, "batch": 7, "switches": 1},
    {"budget": None, "learning_rate": 50.0, "batch": 1},
    {"budget": MIXED, "horizon": None, "batch": 3, "learning_rate": 0.3, "share_rate": 0.1},
]


def make(index=0, seed=1, **changes):
    # In doubles, as this implementation is; test_batch_share_lattice has the lattice.
    options = {"horizon": T, "numerics": "float", **CONFIGURATIONS[index], **changes}
    return built(BatchShare, options.pop("experts", N), source=Source.seeded(seed), **options)


def logsumexp(x):
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top)))


def project(log_v, floor):
    """KL projection onto {sum w = 1, w >= floor} by bisection on the multiplier."""
    v = np.exp(log_v - np.max(log_v))
    low, high = 0.0, 1.0 / v.sum() + 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.maximum(floor, middle * v).sum() > 1.0:
            high = middle
        else:
            low = middle
    return np.maximum(floor, low * v)


def admit(losses, low, high):
    losses = np.asarray(losses, dtype=float)
    finite = np.isfinite(losses)
    clipped = np.clip(np.where(finite, losses, low), low, high)
    return (clipped - low) / (high - low)


class Reference:
    def __init__(self, learner, claim):
        p = learner.plan.tuning
        self.p, self.n, self.noise = p, p.experts, find_noise(learner.plan)
        self.horizon = learner.horizon
        self.source = _core.Source(claim["key"], claim["stream"])
        self.log_w = np.full(self.n, -np.log(self.n))
        self.sums = np.zeros(self.n)
        self.t = 0
        self.decision = 0
        self.inputs = []
        self.draw()

    def draw(self):
        if self.n == 1:
            return
        u = np.empty(1)
        self.source.fill(1, u)
        cumulative = np.cumsum(np.exp(self.log_w))
        self.decision = int(np.searchsorted(cumulative, u[0] * cumulative[-1]))

    @property
    def weights(self):
        return np.exp(self.log_w - logsumexp(self.log_w))

    def step(self, losses):
        p = self.p
        self.sums += losses
        self.t += 1
        if self.t % p.batch == 0:
            if self.t < self.horizon and self.n > 1:
                self.update(self.sums)
            self.sums = np.zeros(self.n)
        if self.t < self.horizon:
            self.draw()

    def update(self, x):
        p = self.p
        x = x - x.mean() if self.noise.law == "gaussian" else x.copy()
        self.inputs.append(x)
        released = x
        if self.noise.law != "none":
            released = probes.release_vector(self.source, self.noise.law, self.noise.scale, x)
        v = self.log_w - p.learning_rate * released
        v -= logsumexp(v)
        if p.floor > 0:
            self.log_w = np.log(project(v, p.floor))
        elif p.share_rate > 0:
            other = p.share_rate / (self.n - 1)
            self.log_w = np.log((1 - p.share_rate - other) * np.exp(v) + other)
        else:
            self.log_w = v
