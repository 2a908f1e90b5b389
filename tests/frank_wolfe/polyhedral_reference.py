"""A second implementation of DP-POFW, in NumPy, and its law by enumeration: the tests' oracle.

It shares nothing with the library but parameters.
"""

from __future__ import annotations

import itertools

import numpy as np

from dpoco.domains import Box, LpBall, Simplex


def vertices_of(domain) -> np.ndarray:
    """All vertices, one a row."""
    d = domain.dimension
    if isinstance(domain, LpBall):
        return domain.radius * np.vstack([np.eye(d), -np.eye(d)])
    if isinstance(domain, Simplex):
        return domain.scale * np.eye(d)
    if isinstance(domain, Box):
        ends = zip(domain.lower, domain.upper, strict=True)
        return np.array(list(itertools.product(*ends)))
    return np.array(domain.vertices)


def derivative(loss: str, z: float, y: float) -> float:
    return 1.0 / (1.0 + np.exp(-z)) - y if loss == "logistic" else 2.0 * (z - y)


def decisions(X, y, choose, *, start, batch=1, loss="squared", factor=1.0, bound=1.0, clip=np.inf,
              paper_weights=False):  # fmt: skip
    """All T + 1 decisions; `choose(k, d_k)` returns the vertex of update k."""
    theta = previous = np.array(start, dtype=float)
    total, leaf, k = np.zeros_like(theta), np.zeros_like(theta), 1
    out = [theta]
    for t, (row, label) in enumerate(zip(X, y, strict=True), start=1):
        if np.all(np.isfinite(row)) and np.isfinite(label):
            x = row * min(1.0, bound / max(np.abs(row).max(), 1e-300))
            w = k + 1 if paper_weights else k
            scalar = w * derivative(loss, theta @ x, label)
            scalar = factor * (scalar - (w - 1) * derivative(loss, previous @ x, label))
            leaf = leaf + np.clip(scalar, -clip, clip) * x
        if t % batch == 0:
            total = total + leaf / batch
            vertex = choose(k, total / (k + 1 if paper_weights else k))
            previous, theta = theta, theta + (vertex - theta) / (k + 1)
            leaf, k = np.zeros_like(theta), k + 1
        out.append(theta)
    return np.array(out)


def softmin(scores: np.ndarray, scale: float) -> np.ndarray:
    """The exponential mechanism: probabilities proportional to exp(-scores / scale)."""
    weights = np.exp(-(scores - scores.min()) / scale)
    return weights / weights.sum()


def noisy_min(scores: np.ndarray, scale: float, points: int = 8001) -> np.ndarray:
    """Probabilities of the least score after Laplace noise on each, by quadrature."""
    u = (scores - scores.min()) / scale
    x = np.linspace(-40.0, u.max() + 40.0, points)
    centered = x[None, :] - u[:, None]
    density = 0.5 * np.exp(-np.abs(centered))
    above = np.where(centered > 0, 0.5 * np.exp(-np.abs(centered)),
                     1.0 - 0.5 * np.exp(-np.abs(centered)))  # fmt: skip
    logs = np.log(above)
    mass = (density * np.exp(logs.sum(axis=0) - logs)).sum(axis=1)
    return mass / mass.sum()


def law(domain, selector: str, direction: np.ndarray, scale: float) -> np.ndarray:
    """Probabilities of the vertices of `vertices_of`, in that order."""
    one = softmin if selector == "gumbel" else noisy_min
    if isinstance(domain, Box):
        sides = [
            one(np.array([g * low, g * high]), scale)
            for g, low, high in zip(direction, domain.lower, domain.upper, strict=True)
        ]
        return np.array([np.prod(pick) for pick in itertools.product(*sides)])
    return one(vertices_of(domain) @ direction, scale)


def transcripts(learner, stream) -> dict[tuple[int, ...], float]:
    """Probability of every sequence of selected vertices, one record a batch of size 1.

    `stream(t, path)` is the record of round t after the vertices of `path`.
    """
    own, domain = learner.plan.mechanism, learner.domain
    points = vertices_of(domain)
    result: dict[tuple[int, ...], float] = {}
    leaf = leaf_rule(learner)

    def walk(path, probability, theta, previous, total):
        k = len(path) + 1
        if k > own.rounds:
            result[path] = probability
            return
        x, y = stream(k - 1, path)
        w = k + own.scores.offset
        total = total + leaf(w, theta, previous, x, y)
        chances = law(domain, own.law, total / w, own.scale * k**-own.exponent)
        for j, chance in enumerate(chances):
            after = theta + (points[j] - theta) / (k + 1)
            walk((*path, j), probability * chance, after, theta, total)

    start = np.array(domain.center)
    walk((), 1.0, start, start, np.zeros(domain.dimension))
    return result


def leaf_rule(learner):
    """Return (w, theta, previous, x, y) -> clipped leaf of the half squared or squared loss."""
    bound, clip = learner.loss.feature_bound, learner.plan.mechanism.scores.slope

    def leaf(w, theta, previous, x, y):
        x = np.asarray(x, dtype=float)
        x = x * min(1.0, bound / max(np.abs(x).max(), 1e-300))
        factor = 2.0 * learner.loss.weight
        scalar = factor * (w * (theta @ x - y) - (w - 1) * (previous @ x - y))
        return np.clip(scalar, -clip, clip) * x

    return leaf
