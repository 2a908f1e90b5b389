"""A second implementation of the batch baselines, in plain NumPy: the oracle of the tests.

It shares with the library the random tape, sets' projections and minimisers (tested by themselves),
and nothing else.
"""

from __future__ import annotations

import numpy as np

from dpoco import _core
from dpoco.random import Source


class Tape:
    """The draws a learner with ``Source.seeded(seed)`` makes in its first fit."""

    def __init__(self, seed):
        claim = Source.seeded(seed)._claim()
        self._engine = _core.Source(claim["key"], claim["stream"])

    def gaussians(self, n):
        out = np.empty(n)
        self._engine.fill(2, out)
        return out

    def index(self, n):
        return int(self._engine.words(1)[0]) % n  # a word is rejected once in 2^64 / n

    def release(self, x, scale):
        if scale == 0.0:
            return x
        grid = 2.0 ** (np.frexp(scale)[1] - 13)
        return grid * np.rint((x + scale * self.gaussians(len(x))) / grid)

    def exact_release(self, vectors, scale):
        """The mean of rounded vectors with rounded noise, over exact sums; and its grid."""
        n = len(vectors)
        grid = 2.0 ** (np.frexp(scale * n)[1] - 29)
        units = np.rint(vectors / grid).sum(axis=0)
        noise = np.empty(vectors.shape[1])
        _core.fill_rounded_gaussian(self._engine, scale * n / grid, noise)
        return 2.0**16 * grid * np.rint((units + noise) * 2.0**-16) / n

    def mean(self, p, vectors, scale):
        if p.numerics == "lattice" and scale > 0.0:
            return self.exact_release(vectors, scale)
        return self.release(vectors.mean(axis=0), scale)


def clipped(domain, loss, X, y):
    """Records inside their bounds; those that are not finite are zero."""
    rows, labels = np.array(X, dtype=float), np.array(y, dtype=float)
    bad = ~(np.isfinite(rows).all(axis=1) & np.isfinite(labels))
    rows[bad], labels[bad] = 0.0, 0.0
    q = domain.dual_exponent
    for row in rows:
        row *= min(1.0, loss.feature_bound / max(np.linalg.norm(row, ord=q), 1e-300))
        if loss.feature_bound_l2 is not None:
            row *= min(1.0, loss.feature_bound_l2 / max(np.linalg.norm(row), 1e-300))
    return rows, np.clip(labels, *loss.label_range)


def derivative(loss, z, y):
    name = type(loss).__name__
    if name == "SquaredLoss":
        return 2 * loss.weight * (z - y)
    if name == "LogisticLoss":
        return 1 / (1 + np.exp(-z)) - y
    return np.clip(z - y, -loss.threshold, loss.threshold)


def slopes(loss, p, theta, rows, labels):
    c = p.derivative_bound
    return np.clip(derivative(loss, rows @ theta, labels), -c, c)


def noisy_sgd(domain, loss, p, rows, labels, start, tape):
    theta, total = np.array(start), np.zeros(len(start))
    for _ in range(p.steps):
        i = tape.index(len(rows))
        gradient = slopes(loss, p, theta, rows[i : i + 1], labels[i : i + 1])[0] * rows[i]
        released = tape.mean(p, gradient[None], p.noise_scale)
        theta = domain.project(theta - p.step_size * released)
        total += theta
    return total / p.steps


def noisy_frank_wolfe(domain, loss, p, rows, labels, start, tape):
    theta, previous = np.array(start), np.array(start)
    direction = np.zeros(len(start))
    first = 0
    for k in range(p.steps):
        size, scale = (p.batch, p.later_scale) if k else (p.first_batch, p.first_scale)
        x, y = rows[first : first + size], labels[first : first + size]
        first += size
        s = slopes(loss, p, theta, x, y)
        if k:
            s = np.clip(
                s - slopes(loss, p, previous, x, y), -p.difference_bound, p.difference_bound
            )
        direction = direction + tape.mean(p, s[:, None] * x, scale)
        v = domain.minimize_linear(direction)
        previous, theta = theta, theta + p.step_size * (v - theta)
    return theta


def phased_sgd(domain, loss, p, rows, labels, start, tape):
    theta, first, n = np.array(start), 0, len(rows)
    x2 = loss.feature_bound * len(start) ** max(0.0, 0.5 - 1 / domain.dual_exponent)
    x2 = min(x2, loss.feature_bound_l2 or np.inf)
    for i in range(1, p.phases + 1):
        size = max(1, n // 2**i)
        eta = min(p.step_size / 4**i, p.largest_step)
        total = np.zeros(len(start))
        for j in range(first, first + size):
            s = slopes(loss, p, theta, rows[j : j + 1], labels[j : j + 1])[0]
            theta = domain.project(theta - eta * s * rows[j])
            total += theta
        slope, norm = p.derivative_bound * x2, domain.max_norm(2.0)
        d = len(start)
        units = 4 * d + 64 if domain.p in (2.0, np.inf) else max(4 * d**1.5 + 64, 4096)
        rounding = 2 * size * units * 2.0**-52 * (norm + eta * slope)
        scale = max(p.noise_multiplier * (2 * slope * eta + rounding), 2.0**-38 * norm)
        scale *= p.noise_multiplier > 0
        theta = domain.project(tape.release(total / size, scale))
        first += size
    return theta


def localized_mirror_descent(domain, loss, p, rows, labels, start, tape):
    """By the generic update, argmin of <g, theta> + lambda h + D_h / gamma, solved in the dual."""
    anchor, first, n, d = np.array(start), 0, len(rows), len(start)
    norm, q = domain.p, domain.dual_exponent
    x2 = loss.feature_bound * d ** max(0.0, 0.5 - 1 / q)
    lipschitz = p.derivative_bound * loss.feature_bound
    for i in range(1, p.phases + 1):
        size = max(1, n // 2**i)
        reach = p.step_size / 4**i * size
        radius = min(domain.diameter(), 2 * lipschitz * (norm - 1) * reach)
        lam, scale = 1 / reach, p.noise_multiplier * 2 * p.derivative_bound * x2 / size
        if p.numerics == "lattice" and scale > 0.0:
            grid = 2.0 ** (np.frexp(scale * size)[1] - 29)
            scale += p.noise_multiplier * np.sqrt(d) * grid / size
        x, y = rows[first : first + size], labels[first : first + size]
        dual, theta, mean = np.zeros(d), anchor, np.zeros(d)
        for t in range(1, p.steps + 1):
            g = tape.mean(p, slopes(loss, p, theta, x, y)[:, None] * x, scale)
            gamma = 2 / (lam * (t + 1))
            dual = (dual - gamma * g) / (1 + gamma * lam)
            size_q = np.linalg.norm(dual, ord=q)
            if size_q > 0:
                dual = dual * min(1.0, radius / ((norm - 1) * size_q))
                size_q = np.linalg.norm(dual, ord=q)
                step = (norm - 1) * size_q ** (2 - q) * np.sign(dual) * np.abs(dual) ** (q - 1)
                theta = anchor + step
            else:
                theta = anchor
            mean += 2 * t / (p.steps * (p.steps + 1)) * theta
        anchor = mean * min(1.0, domain.radius / np.linalg.norm(mean, ord=norm))
        first += size
    return anchor


REFERENCES = {
    "NoisyFrankWolfe": noisy_frank_wolfe,
    "NoisySGD": noisy_sgd,
    "PhasedSGD": phased_sgd,
    "LocalizedMirrorDescent": localized_mirror_descent,
}


def fit(learner, X, y, seed):
    """The model of a fitted learner's parameters on the same data and tape."""
    rows, labels = clipped(learner.domain, learner.loss, X, y)
    return REFERENCES[type(learner).__name__](
        learner.domain, learner.loss, learner.parameters, rows, labels, learner._start, Tape(seed)
    )
