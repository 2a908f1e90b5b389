"""LinUCB as the papers print it, in NumPy: one arm at a time, matrices inverted."""

from __future__ import annotations

import numpy as np
from tests.plans import linear_arms


def clip(x, r, p):
    """Return a record as learners read it; None for a zero record, and the context to act on."""
    if not np.all(np.isfinite(x)):
        return None, np.zeros_like(x)
    largest = max(np.abs(x).max(), 1e-300)
    norm = largest * np.linalg.norm(x / largest)
    x = x * min(1.0, p.context_bound / max(norm, 1e-300))
    if not np.isfinite(r):
        return None, x
    return (x, float(np.clip(r, -p.reward_bound, p.reward_bound))), x


class Reference:
    """Plain LinUCB with the widths of `plan`; `noise(n)` is added to the n-th released sums."""

    def __init__(self, plan, *, sign=1.0):
        p = self.p = linear_arms(plan)
        self.width = p.confidence
        self.rho = p.regularization + self.width.margin
        self.kept = 1.0 if p.half_life is None else 0.5 ** (p.batch / p.half_life)
        self.sign = sign  # -1: the arm that looks worst
        self.matrix = np.zeros((p.arms, p.dimension, p.dimension))
        self.vector = np.zeros((p.arms, p.dimension))
        self.pending = []
        self.round = self.released = 0
        self.shown = self.matrix.copy(), self.vector.copy()

    def scores(self, x):
        beta = self.p.exploration * self.width.width(self.released)
        out = []
        for matrix, vector in zip(*self.shown, strict=True):
            inverse = np.linalg.inv(matrix + self.rho * np.eye(len(x)))
            out.append(x @ inverse @ vector + self.sign * beta * np.sqrt(x @ inverse @ x))
        return self.sign * np.array(out)

    def play(self, x, rewards):
        _, seen = clip(x, np.nan, self.p)
        scores = self.scores(seen)
        arm = int(np.argmax(scores))
        record, _ = clip(x, rewards[arm], self.p)
        if record is not None:
            self.matrix[arm] += np.outer(record[0], record[0])
            self.vector[arm] += record[1] * record[0]
        self.round += 1
        if self.round % self.p.batch == 0 and self.round < self.p.horizon:
            self.shown = self.matrix.copy(), self.vector.copy()
            self.released = self.round
            if self.kept < 1.0:
                self.released = min(self.round, self.p.batch / (1.0 - self.kept))
                self.matrix *= self.kept
                self.vector *= self.kept
        return arm, scores


def packed(x, r, weight):
    """Return the statistics of a record: the upper triangle of x x' row by row, then a r x."""
    rows, columns = np.triu_indices(len(x))
    matrix = np.outer(x, x)[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))
    return np.concatenate([matrix, weight * r * x])
