"""Streams, domains and the pairing of the compiled engine with the NumPy one."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from tests.coupled_engines import leaders
from tests.oco import ctrl_reference as ref
from tests.probes import probes

from dpoco import _core

LOWER, UPPER = np.array([-0.5, 0.0, 1.0]), np.array([1.5, 1.0, 4.0])


def body(name, d):
    """An engine's domain, whether it is unbounded, and the reference's set."""
    if name == "space":
        return _core.LpBall(d, 2.0, 1.0), True, ref.space(d)
    if name == "ball":
        return _core.LpBall(d, 2.0, 1.5), False, ref.ball(d, 1.5)
    if name == "lp":
        return _core.LpBall(d, 4.0, 1.2), False, ref.ball(d, 1.2, 4.0)
    if name == "box":
        return _core.Box(LOWER, UPPER), False, ref.box(LOWER, UPPER)
    return _core.Simplex(d, 2.0), False, ref.simplex(d, 2.0)


GLM = {
    "logistic": (0.0, 1.0, ref.softplus_loss),
    "huber": (-1.0, 1.0, ref.huber_loss),
    "squared": (-1.0, 1.0, ref.squared_loss),
}


class Stream:
    """Rounds of one kind of loss: fed to the engine, and as losses of the reference."""

    def __init__(self, kind, d, rounds, seed=0):
        rng = np.random.default_rng(seed)
        self.kind = kind
        self.rows = rng.standard_normal((rounds, d))
        self.rows /= np.maximum(1.0, np.linalg.norm(self.rows, axis=1))[:, None]
        low, high, make = GLM.get(kind, (-1.0, 1.0, None))
        self.labels = rng.uniform(low, high, rounds)
        self.matrices = np.einsum("ti,tj->tij", self.rows, self.rows) + 0.5 * np.eye(d)
        self.matrices /= 2.0
        if make is not None:
            self.losses = [make(v, y) for v, y in zip(self.rows, self.labels, strict=True)]
        elif kind == "linear":
            self.losses = [ref.linear_loss(g) for g in self.rows]
        elif kind == "quadratic":
            pairs = zip(self.matrices, self.rows, strict=True)
            self.losses = [ref.quadratic_loss(a, b) for a, b in pairs]
        else:
            self.losses = [
                ref.softplus_loss(v, y) for v, y in zip(self.rows, self.labels, strict=True)
            ]

    def sum(self, d, unbounded):
        own = {"kind": self.kind, "unbounded": unbounded}
        if self.kind == "linear" or self.kind in GLM:
            own["clipper"] = _core.RecordClipper(d, 10.0, 2.0, np.inf)
        if self.kind in GLM:
            low, high, _ = GLM[self.kind]
            own |= {"kind": "glm", "glm": _core.GlmLoss(self.kind, 1.0, 1.0, low, high)}
        elif self.kind == "quadratic":
            own |= {"lipschitz": 100.0, "smoothness": 10.0, "radius": math.inf}
        return own

    def feed(self, engine, t):
        if self.kind == "linear":
            engine.observe_gradient(t, self.rows[t])
        elif self.kind == "quadratic":
            engine.observe_quadratic(t, self.matrices[t], self.rows[t])
        elif self.kind == "custom":
            engine.observe_custom(t, self.losses[t])
        else:
            engine.observe(t, self.rows[t], float(self.labels[t]))


def pair(kind, where, *, rounds=20, d=3, seed=1, **changes):
    domain, unbounded, region = body(where, d)
    needs_barrier = kind != "linear" and where != "space"
    settings = ref.Settings(
        **({"horizon": rounds, "barrier_weight": 0.3 if needs_barrier else 0.0} | changes)
    )
    stream = Stream(kind, d, rounds, seed)
    make = leaders(domain, stream.sum(d, unbounded), ref.engine_settings(settings))
    engine = make(ref.claim(seed))
    if settings.noise_growth:
        settings.clip_high = settings.clip_low = partial(probes.clip_width, engine)
    mirror = ref.Reference(region, settings, ref.claim(seed), linear=kind == "linear")
    return engine, mirror, stream


def play(engine, mirror, stream, *, tolerance=1e-8):
    """All rounds of both, compared in every round; returns the switching rounds."""
    switched = []
    for t, loss in enumerate(stream.losses):
        np.testing.assert_allclose(engine.nonprivate_point(), mirror.point, atol=tolerance)
        np.testing.assert_allclose(
            engine.decision(), mirror.decision(probes.grid(engine)), atol=10 * tolerance
        )
        stream.feed(engine, t)
        if mirror.observe(loss):
            switched.append(t)
        assert engine.nonprivate_log_ratio() == pytest.approx(
            mirror.log_ratio, abs=10 * tolerance, rel=1e-8
        )
        assert (engine.round, engine.switches) == (mirror.round, mirror.switches)
    return switched
