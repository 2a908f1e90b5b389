"""A second implementation of DP-TOFW, by dense matrices and NumPy only: the oracle of the tests.

It shares with the library the stream of Gaussian draws and nothing else.
"""

from __future__ import annotations

import numpy as np
from tests.oco.noisy_ftrl_reference import derivative


def lmo(kind: str, p: float, size, g: np.ndarray) -> np.ndarray:
    """argmin <g, v> over the set."""
    if kind == "box":
        return np.where(g > 0, size[0], size[1])
    if kind == "simplex":
        v = np.zeros_like(g)
        v[np.argmin(g)] = size
        return v
    if p == 1:
        v = np.zeros_like(g)
        j = int(np.argmax(np.abs(g)))
        v[j] = -size * np.sign(g[j])
        return v
    if np.isinf(p):
        return -size * np.sign(g)
    q = p / (p - 1)
    t = np.abs(g) ** (q - 1)
    return -size * np.sign(g) * t / np.linalg.norm(t, ord=p)


def decisions(
    X, y, *, kind="ball", p=2.0, size=1.0, start, loss="squared", bound=1.0, labels=(-1.0, 1.0),
    leaf_bound, sigma, gaussians, decode, paper_weights=False, step=1.0, batch=1,
):  # fmt: skip
    """All T + 1 decisions of a run."""
    d = X.shape[1]
    q = 1.0 if np.isinf(p) else (np.inf if p == 1 else p / (p - 1))
    theta = previous = np.array(start, dtype=float)
    total, leaf = np.zeros(d), np.zeros(d)
    out = [theta]
    k = 1
    for t, (row, label) in enumerate(zip(X, y, strict=True), start=1):
        if np.all(np.isfinite(row)) and np.isfinite(label):
            x = row * min(1.0, bound / max(np.linalg.norm(row, ord=q), 1e-300))
            target = np.clip(label, *labels)
            w = k + 1 if paper_weights else k
            scalar = w * derivative(loss, theta @ x, target)
            scalar -= (w - 1) * derivative(loss, previous @ x, target)
            leaf = leaf + np.clip(scalar, -leaf_bound, leaf_bound) * x
        if t % batch == 0:
            total = total + leaf
            noise = sigma * (decode[k - 1] @ gaussians[: decode.shape[1]])
            released = total + noise
            if sigma > 0:  # the grid of released sums
                grid = 2.0 ** (np.floor(np.log2(sigma)) - 12)
                released = grid * np.rint(released / grid)
            v = lmo(kind, p, size, released)
            eta = step / (k + step)
            previous, theta = theta, theta + eta * (v - theta)
            leaf = np.zeros(d)
            k += 1
        out.append(theta)
    return np.array(out)
