"""The batch methods that Table 5.1 compares with, in NumPy: one private fit to a whole data set.

Squared losses over l_p balls of radius r with features of dual norm at most 1 and labels in
[-b, b], so that a gradient is at most L = 2 (r + b) long, in the dual norm. Every method is
(epsilon, delta)-private for one replaced record:

* noisy Frank-Wolfe and phased descent use every record in one Gaussian release: exact accounting;
* localised mirror descent (Asi, Feldman, Koren, Talwar, 2021) releases the mean gradient of a phase
  once a step: exact accounting, and step sizes of our own, since the published do not converge;
* noisy descent draws K records with replacement, one a step, with noise z 2 L. The loss of many
  steps is that of a Gaussian mechanism with mu = sqrt(K (e^(1/z^2) - 1)) / n (central limit theorem
  of Dong, Roth and Su). This is a limit and no certificate.

These programs are for comparison: their noise comes from a seeded generator and protects no one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpoco._validation import FloatArray
from dpoco.accounting import Budget
from dpoco.accounting.gaussian import expected_norm_bound, gaussian_mu
from dpoco.domains import LpBall

_MIRROR_STEPS = 100  # of mirror descent, a phase
MOST_STEPS = 10**6  # of noisy descent: more hardly change the error
_BLOCK = 2**11  # rows of noise that are drawn at once

Fit = Callable[..., FloatArray]
Record = Callable[[FloatArray], None]  # takes what would be the answer, if the method ended here


def _ignore(_: FloatArray) -> None:
    """Take an answer that no one asked for."""


def lipschitz_l2(ball: LpBall, label_bound: float) -> tuple[float, float]:
    """Return the largest derivative in the margin, and the largest gradient in l_2."""
    slope = 2.0 * (ball.radius + label_bound)
    return slope, slope * feature_l2(ball)


def feature_l2(ball: LpBall) -> float:
    """Return the largest l_2 norm of a record whose dual norm is at most 1."""
    return float(ball.dimension ** max(0.0, 0.5 - 1.0 / ball.dual_exponent))


def noisy_sgd(
    features: FloatArray, labels: FloatArray, ball: LpBall, label_bound: float,
    budget: Budget, rng: np.random.Generator, *, scale: float = 1.0, record: Record = _ignore,
) -> FloatArray:  # fmt: skip
    """Return the average iterate of noisy descent on records drawn with replacement."""
    n, d = features.shape
    slope, length = lipschitz_l2(ball, label_bound)
    steps, mu = min(n * n, MOST_STEPS), gaussian_mu(budget.epsilon, budget.delta)
    sigma = 2.0 * length / math.sqrt(math.log1p((mu * n) ** 2 / steps))
    # Squared length of a step, and what passing over the same records again and again costs.
    cost = length**2 * (1.0 + steps / (16.0 * n)) + d * sigma**2
    step = scale * float(ball.radius_from_center()) / math.sqrt(steps * cost)
    theta, total = np.zeros(d), np.zeros(d)
    for first in range(0, steps, _BLOCK):
        count = min(_BLOCK, steps - first)
        noise, drawn = sigma * rng.standard_normal((count, d)), rng.integers(n, size=count)
        for row, z in zip(drawn.tolist(), noise, strict=True):
            x = features[row]
            derivative = min(max(2.0 * (float(x @ theta) - labels[row]), -slope), slope)
            theta = _project(ball, theta - step * (derivative * x + z))
            total += theta
        record(_project(ball, total / (first + count)))
    return _project(ball, total / steps)


def phased_sgd(
    features: FloatArray, labels: FloatArray, ball: LpBall, label_bound: float,
    budget: Budget, rng: np.random.Generator, *, scale: float = 1.0, record: Record = _ignore,
) -> FloatArray:  # fmt: skip
    """Return the end of descent in phases of n / 2^i records, each released with noise once."""
    n, d = features.shape
    slope, length = lipschitz_l2(ball, label_bound)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    expands = 2.0 / (2.0 * feature_l2(ball) ** 2)  # steps beyond this may part two walks
    first_step = scale * ball.diameter(2.0) / length * min(4.0 / math.sqrt(n), mu / math.sqrt(d))
    theta, used = np.zeros(d), 0
    for phase in range(1, max(1, int(math.log2(n))) + 1):
        size, step = n >> phase, min(first_step / 4.0**phase, expands)
        total = np.zeros(d)
        for x, y in zip(features[used : used + size], labels[used : used + size], strict=True):
            derivative = min(max(2.0 * (float(x @ theta) - y), -slope), slope)
            theta = _project(ball, theta - step * derivative * x)
            total += theta
        used += size
        noise = 2.0 * length * step / mu * rng.standard_normal(d)
        theta = _project(ball, total / size + noise)
        record(theta)
    return theta


def noisy_frank_wolfe(
    features: FloatArray, labels: FloatArray, ball: LpBall, label_bound: float,
    budget: Budget, rng: np.random.Generator, *, scale: float = 1.0, record: Record = _ignore,
) -> FloatArray:  # fmt: skip
    """Return the end of Frank-Wolfe on a recursive gradient estimate of disjoint batches."""
    n, d = features.shape
    slope, length = lipschitz_l2(ball, label_bound)
    mu, l2 = gaussian_mu(budget.epsilon, budget.delta), feature_l2(ball)
    first, batch, steps = n // 2, math.isqrt(n) // 2, math.isqrt(n)
    # A tenth of the published step size, which diverges with noise for epsilon = 1.
    step = min(1.0, scale * 0.1 * math.log(n) / math.sqrt(4.0 * n))
    moved = min(2.0 * step * ball.diameter(), 2.0 * slope)  # of a derivative, by one step

    def derivatives(x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
        found: FloatArray = np.clip(2.0 * (x @ at - y), -slope, slope)
        return found

    x, y = features[:first], labels[:first]
    theta = earlier = np.zeros(d)
    estimate = x.T @ derivatives(x, y, theta) / first
    estimate = estimate + 2.0 * length / first / mu * rng.standard_normal(d)
    for k in range(steps):
        if k > 0:
            part = slice(first + (k - 1) * batch, first + k * batch)
            x, y = features[part], labels[part]
            change = derivatives(x, y, theta) - derivatives(x, y, earlier)
            estimate = estimate + x.T @ np.clip(change, -moved, moved) / batch
            estimate = estimate + 2.0 * moved * l2 / batch / mu * rng.standard_normal(d)
        vertex = np.array(ball.minimize_linear(estimate))
        earlier, theta = theta, theta + step * (vertex - theta)
        record(theta)
    return theta


def mirror_descent(
    features: FloatArray, labels: FloatArray, ball: LpBall, label_bound: float,
    budget: Budget, rng: np.random.Generator, *, scale: float = 1.0, record: Record = _ignore,
) -> FloatArray:  # fmt: skip
    """Return the end of localised mirror descent in l_p, 1 < p <= 2.

    Phase i takes steps with the mean gradient of another n / 2^i records, on the loss plus a
    regulariser around the end of the phase before, in a ball that shrinks with the phase.
    """
    (n, d), p, q = features.shape, ball.p, ball.dual_exponent
    slope, length = lipschitz_l2(ball, label_bound)
    mu = gaussian_mu(budget.epsilon, budget.delta)
    multiplier = math.sqrt(_MIRROR_STEPS) / mu
    # Size in l_q of noise with deviation 1, in units of a record's largest length.
    size = feature_l2(ball) * expected_norm_bound(2.0, q, d)
    first_step = scale * ball.diameter() / slope * min(4.0 / math.sqrt(n), mu / size)
    theta, used = np.zeros(d), 0
    for phase in range(1, max(1, int(math.log2(n))) + 1):
        count = n >> phase
        reach = first_step / 4.0**phase * count  # the regulariser has the weight 1 / reach
        radius = min(ball.diameter(), 2.0 * slope * (p - 1.0) * reach)
        x, y = features[used : used + count], labels[used : used + count]
        anchor, dual, mean = theta, np.zeros(d), np.zeros(d)
        for t in range(1, _MIRROR_STEPS + 1):
            gradient = x.T @ np.clip(2.0 * (x @ theta - y), -slope, slope) / count
            gradient += 2.0 * length * multiplier / count * rng.standard_normal(d)
            dual = ((t + 1.0) * dual - 2.0 * reach * gradient) / (t + 3.0)
            norm = float(np.linalg.norm(dual, q))
            dual *= min(1.0, radius / max((p - 1.0) * norm, 1e-300))
            theta = anchor + _mirror_step(dual, p, q)
            mean += t * theta
        theta = mean / (0.5 * _MIRROR_STEPS * (_MIRROR_STEPS + 1.0))
        theta = theta / max(1.0, float(np.linalg.norm(theta, p)) / ball.radius)
        used += count
        record(theta)
    return theta


def _mirror_step(dual: FloatArray, p: float, q: float) -> FloatArray:
    """Return the gradient of (p - 1) ||dual||_q^2 / 2."""
    norm = float(np.linalg.norm(dual, q))
    if norm == 0.0:
        return np.zeros_like(dual)
    powers: FloatArray = np.sign(dual) * (np.abs(dual) / norm) ** (q - 1.0)
    return (p - 1.0) * norm * powers


def _project(ball: LpBall, point: FloatArray) -> FloatArray:
    """Return the nearest point of the ball in l_2; of the cube at the speed of NumPy."""
    if ball.p == math.inf:
        inside: FloatArray = np.minimum(np.maximum(point, -ball.radius), ball.radius)
        return inside
    return np.array(ball.project(point))


METHODS: dict[str, Fit] = {
    "NoisySFW": noisy_frank_wolfe,
    "NoisySGD": noisy_sgd,
    "PhasedSGD": phased_sgd,
    "LocalMD": mirror_descent,
}
