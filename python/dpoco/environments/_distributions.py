"""Classes of distributions for local learners: random ones, and similar ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import positive_float, positive_int, real_float

__all__ = [
    "dirichlet_class",
    "draw_labels",
    "misspecified",
    "near_duplicates",
    "softmax_class",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_LARGEST = 2**31 - 1


def dirichlet_class(
    hypotheses: int,
    labels: int,
    *,
    concentration: float = 1.0,
    contexts: int | None = None,
    seed: int | None = None,
) -> FloatArray:
    """Return random distributions, shape (K, M), or (C, K, M) with `contexts`.

    Parameters
    ----------
    hypotheses, labels : int
        K and M.
    concentration : float, default 1.0
        1 is uniform on the simplex; 0.1 puts nearly all mass on few labels, as surveys with many
        rare categories have it.
    contexts : int, optional
        C.
    seed : int, optional
        None takes one from the operating system.
    """
    shape: tuple[int, ...] = (positive_int("hypotheses", hypotheses, maximum=_LARGEST),)
    if contexts is not None:
        shape = (positive_int("contexts", contexts, maximum=_LARGEST), *shape)
    width = positive_int("labels", labels, maximum=_LARGEST)
    # Gamma variates of tiny shape may all underflow: these rows become a uniform label.
    draws = _generator(seed).gamma(positive_float("concentration", concentration), 1.0,
                                   size=(*shape, width))  # fmt: skip
    totals = draws.sum(axis=-1, keepdims=True)
    draws[..., 0] += (totals[..., 0] == 0.0).astype(np.float64)
    rows: FloatArray = draws / draws.sum(axis=-1, keepdims=True)
    return rows


def softmax_class(
    hypotheses: int,
    labels: int,
    *,
    contexts: int = 50,
    dimension: int = 5,
    scale: float = 1.0,
    seed: int | None = None,
) -> FloatArray:
    """Return softmax distributions of linear scores, shape (C, K, M).

    C contexts of dimension d and K weight matrices of shape (M, d) have standard normal entries;
    scores are ``scale <weights, context>``.
    """
    rng = _generator(seed)
    sizes = [
        positive_int(name, value, maximum=_LARGEST)
        for name, value in (
            ("contexts", contexts), ("hypotheses", hypotheses),
            ("labels", labels), ("dimension", dimension),
        )
    ]  # fmt: skip
    points = rng.standard_normal((sizes[0], sizes[3]))
    weights = rng.standard_normal((sizes[1], sizes[2], sizes[3]))
    scores = positive_float("scale", scale) * np.einsum("cd,kmd->ckm", points, weights)
    return _softmax(scores)


def near_duplicates(
    hypotheses: int, labels: int, *, spread: float = 0.15, seed: int | None = None
) -> FloatArray:
    """Return K variations of one distribution, shape (K, M): hard to tell apart.

    The base is uniform on the simplex; each row is the base times ``exp(spread N(0, 1))``, scaled.
    """
    rng = _generator(seed)
    count = positive_int("hypotheses", hypotheses, maximum=_LARGEST)
    base = rng.dirichlet(np.ones(positive_int("labels", labels, maximum=_LARGEST)))
    noise = positive_float("spread", spread) * rng.standard_normal((count, base.size))
    rows = base * np.exp(noise)
    scaled: FloatArray = rows / rows.sum(axis=1, keepdims=True)
    return scaled


def misspecified(
    truth: Any, *, share: float = 0.3, concentration: float = 1.0, seed: int | None = None
) -> FloatArray:
    """Return ``(1 - share) truth + share noise``, noise a random distribution a row.

    A truth outside the class, near one of its members; `truth` has shape (..., M).
    """
    rows = np.asarray(truth, dtype=np.float64)
    part = real_float("share", share)
    if not 0.0 <= part <= 1.0:
        raise ValueError(f"share must be in [0, 1]; got {part!r}")
    count = rows.size // rows.shape[-1]
    noise = dirichlet_class(count, rows.shape[-1], concentration=concentration, seed=seed)
    mixed: FloatArray = (1.0 - part) * rows + part * noise.reshape(rows.shape)
    return mixed


def draw_labels(
    truth: Any, rounds: int | None = None, contexts: Any = None, *, seed: int | None = None
) -> IntArray:
    """Return labels drawn from the truth, shape (T,).

    Parameters
    ----------
    truth : array of shape (M,) or (C, M)
        Distributions.
    rounds : int, optional
        T, for one distribution.
    contexts : integer array of shape (T,), optional
        The round's row of `truth`.
    seed : int, optional
        None takes one from the operating system.
    """
    rows = np.asarray(truth, dtype=np.float64)
    if (rows.ndim == 1) == (rounds is None) or (rows.ndim == 2) == (contexts is None):
        raise ValueError("one distribution needs rounds; several need contexts")
    rng = _generator(seed)
    if rows.ndim == 1:
        edges = np.cumsum(rows)
        draws = rng.random(positive_int("rounds", rounds)) * edges[-1]
        found: IntArray = np.searchsorted(edges[:-1], draws, side="right").astype(np.int64)
        return found
    places = np.asarray(contexts)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise TypeError("contexts must be a sequence of ints")
    labels = np.empty(places.size, dtype=np.int64)
    draws = rng.random(places.size)
    for context in np.unique(places):
        edges, here = np.cumsum(rows[context]), places == context
        labels[here] = np.searchsorted(edges[:-1], draws[here] * edges[-1], side="right")
    return labels


def _softmax(scores: FloatArray) -> FloatArray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    rows: FloatArray = powers / powers.sum(axis=-1, keepdims=True)
    return rows


def _generator(seed: int | None) -> np.random.Generator:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
        raise TypeError(f"seed must be an int; got {type(seed).__name__}")
    if seed is not None and seed < 0:
        raise ValueError(f"seed must not be negative; got {seed}")
    return np.random.default_rng(None if seed is None else int(seed))
