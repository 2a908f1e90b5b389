"""A second implementation of the leader on noisy sums, by dense matrices and NumPy only.

It shares with the library the stream of Gaussian draws, the problems and nothing else.
"""

from __future__ import annotations

import numpy as np
import scipy

from dpoco.accounting.continual_sum import factorisation
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss

CASES = {
    "ball 2": (LpBall(4, 2.0, 1.5), "ball", 2.0, 1.5),
    "ball 1.5": (LpBall(4, 1.5, 2.0), "ball", 1.5, 2.0),
    "ball 3": (LpBall(4, 3.0, 1.0), "ball", 3.0, 1.0),
    "ball 1": (LpBall(4, 1.0, 1.0), "ball", 1.0, 1.0),
    "ball inf": (LpBall(4, np.inf, 1.0), "ball", np.inf, 1.0),
    "box": (Box([-1, 0, -2, 1], [1, 1, 0.5, 3]), "box", np.inf,
            (np.array([-1, 0, -2, 1]), np.array([1, 1, 0.5, 3]))),
    "simplex": (Simplex(4, 2.0), "simplex", 1.0, 2.0),
    "one dimension": (LpBall(1, 2.0, 1.0), "ball", 2.0, 1.0),
}  # fmt: skip
LOSSES = {
    "squared": (SquaredLoss(1.0, 1.0), (-1.0, 1.0)),
    "logistic": (LogisticLoss(1.0), (0.0, 1.0)),
    "huber": (HuberLoss(1.0, 1.0, threshold=0.5), (-1.0, 1.0)),
    "linear": (LinearLoss(1.0), None),
}


def decoder(method: str, n: int, blt=None) -> np.ndarray:
    """B with prefix-sum matrix = B C; columns are draws in the order the mechanism makes them."""
    if method == "tree":
        rows = np.zeros((n, n))
        for t in range(1, n + 1):
            end = t
            while end:
                rows[t - 1, end - 1] = 1
                end &= end - 1
        return rows
    lags = np.subtract.outer(np.arange(n), np.arange(n))
    if method == "toeplitz":
        return np.where(lags >= 0, square_roots(n)[np.maximum(lags, 0)], 0.0)
    if method == "banded":
        factor = factorisation(method, n)
        c, levels = banded(n, factor.band, factor.windows, factor.tilt)
        return np.tril(np.ones((n, n))) * levels @ np.linalg.inv(c)
    assert method in ("blt", "blt_normalised")
    powers = np.power.outer(1 - blt.decay, np.maximum(lags - 1, 0))
    c = np.eye(n) + np.where(lags > 0, np.tensordot(blt.weights, powers, 1), 0.0)
    return np.tril(np.ones((n, n))) * scales(method, n, c) @ np.linalg.inv(c)


def banded(n: int, band: int, windows: int, tilt: float) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of coefficients of (1 - x)^-0.57, cut off, and their levels."""
    i = np.arange(1, band)
    known = np.concatenate([[1.0], np.cumprod((i - 1 + 0.57) / i)])
    lags = np.subtract.outer(np.arange(n), np.arange(n))
    inside = (lags >= 0) & (lags < band)
    c = np.where(inside, known[np.clip(lags, 0, band - 1)], 0.0)
    weights = np.maximum(windows - np.arange(n) // band, 1.0) ** tilt
    levels = np.linalg.norm(c, axis=0) / weights
    return c, levels / levels.max()


def square_roots(n: int) -> np.ndarray:
    """The first n coefficients of (1 - x)^(-1/2)."""
    return np.cumprod(np.concatenate([[1.0], 1 - 0.5 / np.arange(1, n)]))


def scales(method: str, n: int, c: np.ndarray) -> np.ndarray:
    """Scales of the draws: the longest column of a block, over the first one.

    Blocks, from the end: of one round up to 32 rounds, then 32 in every octave.
    """
    norms, behind, draws = np.linalg.norm(c, axis=0), 0, np.ones(n)
    while method == "blt_normalised" and behind < n:
        width = 1 if behind < 32 else 2 ** (int(np.log2(behind)) - 5)
        after = min(n, behind + width)
        draws[n - after : n - behind] = norms[n - after] / norms[0]
        behind = after
    return draws


def project(kind: str, p: float, size, x: np.ndarray) -> np.ndarray:
    """The nearest point of the set, by root finding on the multiplier of its constraint."""
    if kind == "box":
        return np.clip(x, *size)
    if kind == "simplex":
        low, high = x.min() - size, x.max()
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if np.maximum(x - middle, 0).sum() > size else (low, middle)
        return np.maximum(x - low, 0)
    if np.isinf(p):
        return np.clip(x, -size, size)
    if np.linalg.norm(x, ord=p) <= size:
        return x
    if p == 2:
        return x * (size / np.linalg.norm(x))
    magnitude = np.abs(x)

    def shrunk(multiplier):
        if p == 1:
            return np.maximum(magnitude - multiplier, 0)
        low, high = np.zeros_like(magnitude), magnitude.copy()
        for _ in range(56):  # y + multiplier y^(p - 1) = |x|
            middle = 0.5 * (low + high)
            large = middle + multiplier * middle ** (p - 1) > magnitude
            low, high = np.where(large, low, middle), np.where(large, middle, high)
        return low

    high = 1.0
    while np.linalg.norm(shrunk(high), ord=p) > size:
        high *= 2
    multiplier = scipy.optimize.brentq(
        lambda m: np.linalg.norm(shrunk(m), ord=p) - size, 0.0, high, xtol=1e-300, rtol=1e-15
    )
    return np.sign(x) * shrunk(multiplier)


def derivative(loss: str, z: float, y: float) -> float:
    if loss == "squared":
        return 2 * (z - y)
    if loss == "logistic":
        return 1 / (1 + np.exp(-z)) - y
    return float(np.clip(z - y, -0.5, 0.5))


def clipped(row: np.ndarray, q: float, bound: float) -> np.ndarray:
    if not np.all(np.isfinite(row)):
        return np.zeros_like(row)
    return row * min(1.0, bound / max(np.linalg.norm(row, ord=q), 1e-300))


def released(total, noise, sigma):
    if sigma == 0:
        return total + noise
    grid = 2.0 ** (np.floor(np.log2(sigma)) - 12)
    return grid * np.rint((total + noise) / grid)


def decisions(
    X, y, *, kind="ball", p=2.0, size=1.0, center, loss="squared", bound=1.0, labels=(-1.0, 1.0),
    scalar_bound=np.inf, eta, sigma, gaussians, decode, batch=1,
):  # fmt: skip
    """All T + 1 decisions of a run on gradients; linear losses have y None."""
    q = 1.0 if np.isinf(p) else (np.inf if p == 1 else p / (p - 1))
    theta = np.array(center, dtype=float)
    total = np.zeros(X.shape[1])
    out = [theta]
    for t, row in enumerate(X, start=1):
        x = clipped(row, q, bound)
        if y is None:
            total = total + x
        elif np.isfinite(y[t - 1]):
            slope = derivative(loss, theta @ x, np.clip(y[t - 1], *labels))
            total = total + np.clip(slope, -scalar_bound, scalar_bound) * x
        if t % batch == 0:
            k = t // batch - 1
            noise = sigma * (decode[k] @ gaussians[: decode.shape[1]])
            theta = project(kind, p, size, center - eta * released(total, noise, sigma))
        out.append(theta)
    return np.array(out)


def ridge_ends(rounds, first):
    """Rounds that are over when a growing block's sum is released."""
    ends = [first]
    while ends[-1] < rounds:
        ends.append(ends[-1] + max(first, ends[-1] // 4))
    return ends[:-1]


def noisy_statistics(X, y, *, q, bound, labels, scale, ends, noise, sigma):
    """The released sums of (x x', scale y x), as matrices (K, d, d) and vectors (K, d)."""
    d = X.shape[1]
    upper = np.triu_indices(d)
    factor = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))
    total = np.zeros(len(factor) + d)
    matrices, vectors, rows = [], [], dict(zip(ends, noise, strict=True))
    for t, (row, label) in enumerate(zip(X, y, strict=True), start=1):
        x = clipped(row, q, bound)
        if np.isfinite(label):
            outer = np.outer(x, x)[upper] * factor
            total = total + np.concatenate([outer, scale * np.clip(label, *labels) * x])
        if t in rows:
            out = released(total, rows[t], sigma)
            matrix = np.zeros((d, d))
            matrix[upper] = out[: len(factor)] / factor
            matrices.append(np.triu(matrix) + np.triu(matrix, 1).T)
            vectors.append(out[len(factor) :] / scale)
    return np.array(matrices), np.array(vectors)


def ridge_decision(matrix, vector, ridge, radius):
    """The minimiser of x'M+ x - 2 b'x + ridge |x|^2 over a Euclidean ball, by bisection."""
    values, basis = np.linalg.eigh(matrix)
    spectrum, inner = np.maximum(values, 0.0) + ridge, basis.T @ vector
    low, high = 0.0, 0.0
    length = np.linalg.norm(inner / spectrum)
    if length > radius:
        high = 10.0 * spectrum.max() * length / radius
        for _ in range(200):
            middle = 0.5 * (low + high)
            outside = np.linalg.norm(inner / (spectrum + middle)) > radius
            low, high = (middle, high) if outside else (low, middle)
    return basis @ (inner / (spectrum + high))
