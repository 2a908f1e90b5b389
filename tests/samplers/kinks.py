"""Sums of losses with kinks, whose evaluations are counted, and their laws."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpoco import _core

CUT = 0.1
VALUES = {
    "absolute": np.abs,
    "hinge": lambda z: np.maximum(0.0, z),
    "quantile": lambda z: np.maximum(0.9 * z, -0.1 * z),
}
SLOPES = {
    "absolute": np.sign,
    "hinge": lambda z: (z > 0.0).astype(float),
    "quantile": lambda z: np.where(z > 0.0, 0.9, -0.1),
}


def records(dimension: int, count: int, shift: float, seed: int = 0) -> np.ndarray:
    """Rows of unit length from normals shifted along the first axis."""
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    rows[:, 0] += shift
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


class Kinks:
    """Values and subgradients of the sum over rows v of f(<v, x> - .1)."""

    def __init__(self, kind: str, rows: np.ndarray) -> None:
        self.kind, self.rows, self.looks = kind, rows, 0

    def value(self, x: np.ndarray) -> float:
        self.looks += 1
        return float(VALUES[self.kind](self.rows @ x - CUT).sum())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        self.looks += 1
        return SLOPES[self.kind](self.rows @ x - CUT) @ self.rows


class FlatKinks(Kinks):
    """The same with the second derivatives that they have almost everywhere."""

    def hessian(self, x: np.ndarray) -> np.ndarray:
        self.looks += 1
        return np.zeros((x.size, x.size))


def sampler(domain: Any, loss: Any, beta: float, lam: float, **options: Any) -> Any:
    losses = {"kind": "custom", "unbounded": False}
    made = _core.GibbsSampler(domain._engine, losses, beta, lam, **options)
    made.observe_loss(loss)
    return made


def energy(kind: str, rows: np.ndarray, lam: float, centre: np.ndarray, x: np.ndarray) -> Any:
    z = x @ rows.T - CUT
    return VALUES[kind](z).sum(axis=1) + 0.5 * lam * np.sum((x - centre) ** 2, axis=1)
