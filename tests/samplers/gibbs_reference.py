"""Gibbs laws by quadrature and by importance sampling, in NumPy, and set-up for their tests.

The law of all tests: density proportional to exp(-beta (F(x) + lam |x - c|^2 / 2)) on a body with
centre c, F a sum of losses l(<v, x>, y) over rows (v, y).
"""

from __future__ import annotations

import numpy as np
import scipy

from dpoco import _core

THRESHOLD = 0.3  # of the Huber loss


def loss_sum(kind: str, rows: np.ndarray, labels: np.ndarray, x: np.ndarray) -> np.ndarray:
    """F at every row of x."""
    z = x @ rows.T
    r = z - labels
    if kind == "logistic":
        each = np.logaddexp(0.0, z) - labels * z
    elif kind == "squared":
        each = r * r
    else:
        size = np.abs(r)
        each = np.where(size <= THRESHOLD, r * r / 2, THRESHOLD * (size - THRESHOLD / 2))
    return each.sum(axis=1)


def gradient(kind: str, rows: np.ndarray, labels: np.ndarray, x: np.ndarray) -> np.ndarray:
    z = rows @ x
    r = z - labels
    if kind == "logistic":
        slope = 1 / (1 + np.exp(-z)) - labels
    elif kind == "squared":
        slope = 2 * r
    else:
        slope = np.clip(r, -THRESHOLD, THRESHOLD)
    return slope @ rows


def energy(kind, rows, labels, lam, centre, x) -> np.ndarray:
    return loss_sum(kind, rows, labels, x) + lam / 2 * np.sum((x - centre) ** 2, axis=1)


def cell_masses(log_density, low, high, cells: int, fine: int, temper: float = 1.0) -> tuple:
    """Probabilities of the cells x cells squares of a rectangle, midpoint rule inside.

    `log_density` is -inf outside the body. The second are those of that law at another temperature.
    """
    n = cells * fine
    axes = [a + (np.arange(n) + 0.5) * (b - a) / n for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log = np.concatenate([log_density(part) for part in np.array_split(grid, 64)])
    log -= log.max()
    weights = (
        np.exp(each).reshape(cells, fine, cells, fine).sum(axis=(1, 3))
        for each in (log, temper * log)
    )
    return tuple(each / each.sum() for each in weights)


def fit(draws: np.ndarray, low, high, masses: np.ndarray) -> float:
    """p-value of draws in cells of given masses (Pearson); cells of few draws are merged."""
    cells = masses.shape[0]
    place = [
        np.clip(((draws[:, k] - low[k]) / (high[k] - low[k]) * cells).astype(int), 0, cells - 1)
        for k in range(2)
    ]
    seen = np.zeros_like(masses)
    np.add.at(seen, tuple(place), 1)
    expected = masses.ravel() * len(draws)
    order = np.argsort(expected)
    small = np.cumsum(expected[order]) < 50
    split = order[~small]
    few = order[small]
    observed = np.append(seen.ravel()[split], seen.ravel()[few].sum())
    planned = np.append(expected[split], expected[few].sum())
    keep = planned > 5
    observed = np.append(observed[keep], observed[~keep].sum())
    planned = np.append(planned[keep], planned[~keep].sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = np.where(planned > 0, (observed - planned) ** 2 / planned, 0.0)
    if planned[-1] < 1e-6 * len(draws) and observed[-1] > 10:
        return 0.0
    return float(scipy.stats.chi2.sf(terms[:-1].sum(), max(int(keep.sum()) - 1, 1)))


def weighted_means(log_target, log_proposal, points: np.ndarray, functions) -> tuple:
    """Self-normalised importance sampling: means of functions(points) and their standard errors."""
    log = log_target - log_proposal
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    values = functions(points)
    mean = weight @ values
    return mean, np.sqrt((weight**2) @ (values - mean) ** 2)


def moments(x: np.ndarray) -> np.ndarray:
    """All first and second powers and the products of neighbours."""
    return np.hstack([x, x**2, x[:, 1:] * x[:, :-1]])


CHAIN = {"exact_only": False, "chain_below": 2.0, "tolerance": 1e-3}


def source(seed: int) -> _core.Source:
    return _core.Source(bytes([seed] * 32), 1)


def glm(kind: str, dimension: int, unbounded: bool = False) -> dict:
    low, high = (0.0, 1.0) if kind == "logistic" else (-2.0, 2.0)
    return {
        "kind": "glm",
        "unbounded": unbounded,
        "glm": _core.GlmLoss(kind, 1.0, THRESHOLD, low, high),
        "clipper": _core.RecordClipper(dimension, 1000.0, 2.0, np.inf),
    }


def sampler(domain, kind, rows, labels, beta, lam, **options) -> _core.GibbsSampler:
    made = _core.GibbsSampler(domain._engine, glm(kind, rows.shape[1]), beta, lam, **options)
    made.observe_records(np.ascontiguousarray(rows), np.ascontiguousarray(labels))
    return made


def draw(gibbs: _core.GibbsSampler, seed: int, n: int, dimension: int) -> np.ndarray:
    out = np.empty((n, dimension))
    gibbs.fill(source(seed), out)
    return out


def problem(kind: str, dimension: int, count: int, push: float, seed: int = 3):
    """Rows and labels whose sum pulls towards a wall."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, dimension)) + push
    labels = (rng.random(count) < 0.15).astype(float)
    return rows, labels if kind == "logistic" else labels - push
