"""Private Newton steps in NumPy, from their definition alone."""

from __future__ import annotations

import numpy as np
import scipy


def half_slope(z, y):
    """Slope and weight of the logistic loss whose slopes are at most 1/2, of one margin."""
    q = 1.0 / (1.0 + np.exp(-z)) if z >= 0.0 else np.exp(z) / (1.0 + np.exp(z))
    v = min(1.0, 0.5 / max(q, 1.0 - q))
    return np.clip(v * (q - y), -0.5, 0.5), np.clip(v * q * (1.0 - q), 0.0, 0.25)


def huber(threshold):
    return lambda z, y: (np.clip(z - y, -threshold, threshold), 1.0)


def packed(matrix):
    first, second = np.triu_indices(len(matrix))
    return matrix[first, second] * np.where(first == second, 1.0, np.sqrt(2.0))


def unpacked(row, d):
    first, second = np.triu_indices(d)
    matrix = np.zeros((d, d))
    matrix[first, second] = row / np.where(first == second, 1.0, np.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T


def on_ball(target, metric, radius):
    """The point of the ball that is nearest in the metric, by bisection."""
    if np.linalg.norm(target) <= radius:
        return target
    p, axes = np.linalg.eigh(metric)
    b = axes.T @ target
    low, high = 0.0, 10.0 * p.max() * np.linalg.norm(target) / radius
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.linalg.norm(b * p / (p + middle)) > radius:
            low = middle
        else:
            high = middle
    return axes @ (b * p / (p + high))


def on_box(low, high):
    """The same for a box, by SciPy."""

    def nearest(target, metric, _):
        def away(x):
            gap = x - target
            return 0.5 * gap @ metric @ gap, metric @ gap

        scale = np.linalg.eigvalsh(metric)[-1]
        found = scipy.optimize.minimize(
            lambda x: tuple(part / scale for part in away(x)), np.clip(target, low, high),
            jac=True, bounds=list(zip(low, high, strict=True)), method="L-BFGS-B",
            options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 10_000},
        )  # fmt: skip
        return found.x

    return nearest


def play(rows, labels, radius, scalars, weight, ends, deviations, release, eta, beta=1.0,
         nearest=on_ball, kept=None):  # fmt: skip
    """Return the decisions of all rounds, the last one before it is shrunk, and the metric.

    `rows` and `labels` are within their bounds; ``release(k, block)`` is the noisy sum of all
    blocks up to the one of number k, from 0, whose leaves add up to `block`. `kept`: what past
    curvatures count behind every block, if they are forgotten; then the metric may fall.
    """
    rounds, d = rows.shape
    point, shown, metric = np.zeros(d), np.zeros(d), np.eye(d) / eta
    block, before, k = np.zeros(d + d * (d + 1) // 2), np.zeros(d + d * (d + 1) // 2), 0
    damped = np.zeros(len(block) - d)
    decisions = np.empty((rounds, d))
    for t, (x, y) in enumerate(zip(rows, labels, strict=True)):
        decisions[t] = shown
        s, w = scalars(x @ shown, y)
        block = block + np.concatenate([s * x, weight * w * packed(np.outer(x, x))])
        if k == len(deviations) or t + 1 != ends[k]:
            continue
        released, deviation = release(k, block), deviations[k]
        block, k = 0.0 * block, k + 1
        increment, before = released - before, released
        gradient = increment[:d]
        damped = (1.0 if kept is None else kept[k - 1]) * damped + increment[d:]
        values, axes = np.linalg.eigh(unpacked(damped, d) / weight)
        seen = np.maximum(values - np.sqrt(2.0 * d) * deviation / weight, 0.0)
        wanted = np.eye(d) / eta + 0.3 * (axes * seen) @ axes.T
        gap, axes_of_gap = np.linalg.eigh(wanted - metric)
        metric = metric + (axes_of_gap * np.maximum(gap, 0.0)) @ axes_of_gap.T
        metric = metric if kept is None else wanted
        point = nearest(point - np.linalg.solve(metric, gradient), metric, radius)
        spread = deviation**2 * np.sum(np.linalg.inv(metric) ** 2)
        size = point @ point
        shown = point * max(0.0, 1.0 - beta * spread / size) if size > 0.0 else point
    return decisions, point, metric
