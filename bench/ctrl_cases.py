"""The coupled regularised leader against NumPy and Numba implementations of the same algorithm.

The competitors get what makes ours fast and does not depend on the language: the gradient at the
kept point and its factorised Hessian from one round to the next, the barrier solved apart from the
losses along a path of weights, quasi-Newton steps that look at the losses once, and one Hessian of
the losses per switch. Their noise is NumPy's, which is not cryptographic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from measurement import Row, compare
from numpy.typing import NDArray

import dpoco
from dpoco import _core
from dpoco.privacy.mechanisms.coupled_draws import (
    CoupledDraws,
    SmoothLosses,
    TiltedMinimum,
    Window,
)

try:
    from numba import njit
except ImportError:  # the extra `bench` is not installed
    njit = None

FloatArray = NDArray[np.float64]

DIMENSION = 10
BLOCK, FORCED, CAP = 4, 0.02, 2000
SIGMA, ETA, CLIP = 600.0, 1e-3, 0.008


def weight(rounds: int) -> float:
    """Barrier weight G D / ln(T^2 / (2 T - 1)) on the unit ball."""
    return 2.0 / math.log(rounds**2 / (2 * rounds - 1))


def stream(rounds: int) -> tuple[FloatArray, FloatArray]:
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((rounds, DIMENSION))
    rows /= np.linalg.norm(rows, axis=1)[:, None] * (1.0 + 1e-12)
    truth = generator.standard_normal(DIMENSION)
    labels = generator.random(rounds) < 1.0 / (1.0 + np.exp(-4.0 * rows @ truth))
    return rows, labels.astype(float)


def ours(rows: FloatArray, labels: FloatArray) -> int:
    rounds = len(labels)
    losses = {
        "kind": "glm",
        "unbounded": False,
        "glm": _core.GlmLoss("logistic", 1.0, 1.0, 0.0, 1.0),
        "clipper": _core.RecordClipper(DIMENSION, 1.0, 2.0, np.inf),
    }
    drawn = CoupledDraws(
        SmoothLosses(DIMENSION, 1.0, 0.25, 1), TiltedMinimum(SIGMA, ETA),
        Window(FORCED, CLIP, CLIP), rounds, BLOCK, CAP,
    )  # fmt: skip
    tuning = {"barrier_weight": weight(rounds), "strong_convexity": 0.0}
    claim = dpoco.random.Source.seeded(1)._claim()
    domain = _core.LpBall(DIMENSION, 2.0, 1.0)
    learner = _core.CoupledRegularizedLeader(domain, losses, drawn, tuning, claim)
    values, changed = np.empty(rounds), np.empty(rounds, dtype=np.uint8)
    for start in range(0, rounds, 10_000):
        part = slice(start, start + 10_000)
        learner.run(rows[part], labels[part], values[part], None, changed[part])
    return int(learner.switches)


# ---- the algorithm, written so that both NumPy and Numba take it ---------------------------------


def numpy_gradient(rows: FloatArray, labels: FloatArray, u: FloatArray) -> FloatArray:
    return (1.0 / (1.0 + np.exp(-(rows @ u))) - labels) @ rows


def numpy_hessian(rows: FloatArray, u: FloatArray) -> FloatArray:
    s = 1.0 / (1.0 + np.exp(-(rows @ u)))
    return (rows * (s * (1.0 - s))[:, None]).T @ rows


def loop_gradient(rows, labels, u):
    n = u.size
    out = np.zeros(n)
    for i in range(rows.shape[0]):
        z = 0.0
        for j in range(n):
            z += rows[i, j] * u[j]
        factor = 1.0 / (1.0 + np.exp(-z)) - labels[i]
        for j in range(n):
            out[j] += factor * rows[i, j]
    return out


def loop_hessian(rows, u):
    n = u.size
    out = np.zeros((n, n))
    for i in range(rows.shape[0]):
        z = 0.0
        for j in range(n):
            z += rows[i, j] * u[j]
        s = 1.0 / (1.0 + np.exp(-z))
        for j in range(n):
            factor = s * (1.0 - s) * rows[i, j]
            for k in range(j, n):
                out[j, k] += factor * rows[i, k]
    for j in range(n):
        for k in range(j):
            out[j, k] = out[k, j]
    return out


def build(compiled):
    """Return play(rows, labels, normals, uniforms, weight) -> switches."""

    def plain(function):
        return function

    jit = njit(fastmath=True, error_model="numpy") if compiled else plain
    gradient = jit(loop_gradient) if compiled else numpy_gradient
    hessian = jit(loop_hessian) if compiled else numpy_hessian

    @jit
    def newton(a, q, u, w, enough):
        n = u.size
        eye = np.eye(n)
        last = np.inf
        for _ in range(200):
            room = 1.0 - u @ u
            slope = a @ u + q + u / ETA + 2.0 * w / room * u
            bend = a + (1.0 / ETA + 2.0 * w / room) * eye
            bend += 4.0 * w / room**2 * u.reshape(n, 1) * u.reshape(1, n)
            step = -np.linalg.solve(bend, slope)
            decrement = -(step @ slope)
            if decrement <= enough:
                return u
            size = np.sqrt(slope @ slope)
            damped = decrement > 1e-2 * min(w, 1.0)
            if not damped and size >= 0.5 * last:
                return u
            last = np.inf if damped else size
            t = 1.0
            if damped:
                c, b, d = 1.0 - u @ u, u @ step, step @ step
                t = min(1.0, 0.99 * (np.sqrt(b * b + d * c) - b) / d)
                before = 0.5 * u @ (a @ u) + q @ u + 0.5 / ETA * u @ u - w * np.log(room)
                while True:
                    v = u + t * step
                    after = 0.5 * v @ (a @ v) + q @ v + 0.5 / ETA * v @ v
                    after -= w * np.log(1.0 - v @ v)
                    if after <= before - 1e-4 * t * decrement or t < 1e-15:
                        break
                    t *= 0.5
            u = u + t * step
        return u

    @jit
    def solve(rows, labels, z, u, g, a, w):
        """Return the minimiser for noise z, from u with gradient g and Hessian a there."""
        last = np.inf
        for k in range(100):
            q = g + z - a @ u
            if k == 0:
                v = np.zeros(u.size)
                high = w
                while q @ q > 2.0 * high * high:
                    high *= 10.0
                while high > w:
                    v = newton(a, q, v, high, 0.1 * high)
                    high = max(high / 10.0, w)
                v = newton(a, q, v, w, 0.0)
            else:
                v = newton(a, q, u, w, 0.0)
            after = gradient(rows, labels, v)
            total = after + z + v / ETA + 2.0 * w / (1.0 - v @ v) * v
            left = np.sqrt(total @ total)
            s, y = v - u, after - g
            good = left <= 0.5 * last
            u, g, last = v, after, left
            scale = np.sqrt(z @ z) + np.sqrt(g @ g) + np.sqrt(u @ u) / ETA
            if left <= 1e-12 * scale or (not good and left <= 1e-9 * SIGMA):
                break
            if good:
                b = a @ s
                a = a + y.reshape(-1, 1) * y.reshape(1, -1) / (y @ s)
                a = a - b.reshape(-1, 1) * b.reshape(1, -1) / (b @ s)
            else:
                a = hessian(rows, u)
        return u, g

    @jit
    def play(rows, labels, normals, uniforms, w):
        rounds, n = rows.shape
        eye = np.eye(n)
        zero = np.zeros((n, n))
        u, g = solve(rows[:0], labels[:0], SIGMA * normals[0], np.zeros(n), np.zeros(n), zero, w)
        a = zero.copy()
        room = 1.0 - u @ u
        whole = (1.0 / ETA + 2.0 * w / room) * eye
        whole += 4.0 * w / room**2 * u.reshape(n, 1) * u.reshape(1, n)
        inverse = np.ascontiguousarray(np.linalg.inv(whole))
        pull = u / ETA + 2.0 * w / room * u
        switches, in_block, log_stay = 0, 0, 0.0
        for t in range(rounds - 1):
            x = rows[t]
            s = 1.0 / (1.0 + np.exp(-(x @ u)))
            slope, bend = s - labels[t], s * (1.0 - s)
            towards = inverse @ x
            gain = bend * (x @ towards)
            ratio = np.log1p(gain)
            ratio -= (2.0 * slope * ((g + pull) @ x) + slope**2 * (x @ x)) / (2.0 * SIGMA**2)
            log_stay += min(0.0, max(ratio - CLIP, -2.0 * CLIP))
            g = g + slope * x
            a = a + bend * x.reshape(n, 1) * x.reshape(1, n)
            scaled = towards * (bend / (1.0 + gain))
            inverse = inverse - scaled.reshape(n, 1) * towards.reshape(1, n)
            in_block += 1
            if in_block < BLOCK:
                continue
            keep = np.log(uniforms[t]) < np.log1p(-FORCED) + log_stay
            in_block, log_stay = 0, 0.0
            if keep or switches == CAP:
                continue
            switches += 1
            seen, targets = rows[: t + 1], labels[: t + 1]
            u, g = solve(seen, targets, SIGMA * normals[switches], u, g, a, w)
            a = hessian(seen, u)
            room = 1.0 - u @ u
            pull = u / ETA + 2.0 * w / room * u
            whole = a + (1.0 / ETA + 2.0 * w / room) * eye
            whole += 4.0 * w / room**2 * u.reshape(n, 1) * u.reshape(1, n)
            inverse = np.ascontiguousarray(np.linalg.inv(whole))
        return switches

    return play


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    rounds = 100_000 if shrink == 1 else 1000  # the loops of NumPy take most of a smoke run
    features, labels = stream(rounds)
    generator = np.random.default_rng(2)
    normals = generator.standard_normal((CAP + 1, DIMENSION))
    uniforms = generator.random(rounds)
    own = weight(rounds)
    for name, compiled, target in (("NumPy", False, 4.0), ("Numba", True, 2.0)):
        if compiled and njit is None:
            continue
        theirs = partial(build(compiled), normals=normals, uniforms=uniforms, w=own)
        if compiled:
            theirs(features[:500], labels[:500])  # compile
        yield compare(
            "CoupledRegularizedLeader.run, logistic loss (ns per round)",
            f"d = {DIMENSION}, T = {rounds:,}, against {name}",
            partial(ours, features, labels),
            partial(theirs, features, labels),
            against=name,
            units=rounds,
            pairs=min(pairs, 3),  # a pair takes seconds
            instruction_set=dpoco.random.instruction_set(),
            target=target,
        )
