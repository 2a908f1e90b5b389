"""General quadratic losses, given by a matrix and a vector a round."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._clipping import record_flags
from dpoco._validation import FloatArray, float_array, positive_float, real_float
from dpoco.domains import Domain
from dpoco.losses._base import DeclaredLoss

# The engine's own limits: what is not convex beyond rounding is no loss, and a scaled loss stays
# inside its bounds.
_CONVEX = -1e-12
_RESERVE = 1.0 - 1e-12


@dataclass(frozen=True, init=False, repr=False)
class QuadraticLoss(DeclaredLoss):
    """``f(x) = x'Ax/2 - b'x`` with A symmetric and positive semidefinite.

    A round's data are the matrix A, shape (d, d), and the vector b, shape (d,).

    Parameters
    ----------
    lipschitz
        Bound on the gradient's Euclidean norm over the domain: a round's loss is scaled down until
        ``|A| max|x - c| + |Ac - b|`` (c the domain's centre) is at most this.
    smoothness
        Bound on the largest eigenvalue of A; the loss is scaled down to it.
    strong_convexity
        Declared lower bound on the smallest eigenvalue of A, in [0, smoothness]; only the lazy
        strongly convex mode uses it.

    Raises
    ------
    ValueError, TypeError
        Unless the bounds are numbers in [1e-100, 1e100] (`strong_convexity` may be 0).

    Notes
    -----
    A matrix that is not positive semidefinite, or not finite, counts as the zero loss. For the rank
    one losses of a regression use `SquaredLoss`.
    """

    strong_convexity: float

    def __init__(
        self, lipschitz: float, smoothness: float, *, strong_convexity: float = 0.0
    ) -> None:
        modulus = real_float("strong_convexity", strong_convexity)
        beta = positive_float("smoothness", smoothness)
        if not 0.0 <= modulus <= beta:
            raise ValueError(f"strong_convexity must be in [0, smoothness]; got {modulus!r}")
        self._set(
            lipschitz_bound=positive_float("lipschitz", lipschitz),
            smoothness_bound=beta,
            strong_convexity=modulus,
        )

    def value(self, theta: Any, features: Any, label: Any = None) -> Any:
        """Loss of a decision on raw data: a number for A of shape (d, d), else shape (T,)."""
        point = float_array("theta", theta, (None,))
        single = np.ndim(features) == 2
        matrices, vectors = _rounds(features, label, point.shape[0], single)
        values = 0.5 * np.einsum("i,tij,j->t", point, matrices, point) - vectors @ point
        return float(values[0]) if single else values

    def gradient(self, theta: Any, features: Any, label: Any = None) -> FloatArray:
        """Gradient on raw data, shape (d,) for A of shape (d, d), else (T, d)."""
        point = float_array("theta", theta, (None,))
        single = np.ndim(features) == 2
        matrices, vectors = _rounds(features, label, point.shape[0], single)
        gradients: FloatArray = _symmetric(matrices) @ point - vectors
        return gradients[0] if single else gradients

    def batch_values(
        self, domain: Domain, theta: FloatArray, features: FloatArray, labels: FloatArray | None
    ) -> FloatArray:
        """Losses of one decision on many rounds, scaled as a learner scales them, shape (T,).

        Parameters
        ----------
        domain
            Set of decisions.
        theta
            Decision, shape (d,).
        features, labels
            The matrices, shape (T, d, d), and vectors, shape (T, d).
        """
        d = domain.dimension
        point = float_array("theta", theta, (d,))
        matrices, vectors = _rounds(features, labels, d, False)
        factors = self.scales(domain, matrices, vectors)
        values: FloatArray = np.zeros(len(factors))
        kept = factors > 0.0
        values[kept] = factors[kept] * self.value(point, matrices[kept], vectors[kept])
        return values

    def scales(self, domain: Domain, matrices: Any, vectors: Any) -> FloatArray:
        """Return the factors in [0, 1], shape (T,), that bring rounds within the bounds.

        0 for a round that is not finite or not convex.
        """
        pairs = _rounds(matrices, vectors, domain.dimension, False)
        factors = np.zeros(pairs[0].shape[0])
        radius = domain.radius_from_center()
        with np.errstate(all="ignore"):  # a round out of range counts as zero, silently
            for t, (given, vector) in enumerate(zip(*pairs, strict=True)):
                if np.isfinite(given).all() and np.isfinite(vector).all():
                    factors[t] = self._scale(domain.center, radius, given, vector)
        return factors

    def _scale(
        self, center: FloatArray, radius: float, given: FloatArray, vector: FloatArray
    ) -> float:
        matrix = 0.5 * given + 0.5 * given.T
        try:
            spectrum = np.linalg.eigvalsh(matrix)
        except np.linalg.LinAlgError:
            return 0.0
        most = float(spectrum[-1])
        if not float(spectrum[0]) >= _CONVEX * max(most, 0.0):
            return 0.0
        scale = 1.0
        if most > self.smoothness_bound:
            scale = _RESERVE * self.smoothness_bound / most
        reach = most * radius + float(np.linalg.norm(matrix @ center - vector))
        if not math.isfinite(reach):
            return 0.0
        if scale * reach > self.lipschitz_bound:
            scale = _RESERVE * self.lipschitz_bound / reach
        return scale if scale >= np.finfo(float).tiny else 0.0

    def _flags(
        self, domain: Domain, records: FloatArray, labels: FloatArray | None
    ) -> dict[str, NDArray[np.bool_]]:
        return record_flags(self.scales(domain, records, labels))


def _symmetric(matrices: FloatArray) -> FloatArray:
    return 0.5 * matrices + 0.5 * np.swapaxes(matrices, 1, 2)


def _rounds(matrices: Any, vectors: Any, d: int, single: bool) -> tuple[FloatArray, FloatArray]:
    """Return the matrices, shape (T, d, d), and the vectors, shape (T, d)."""
    if vectors is None:
        raise TypeError("a quadratic loss needs a matrix and a vector")
    if single:
        return (
            float_array("matrix", matrices, (d, d))[None],
            float_array("vector", vectors, (d,))[None],
        )
    given = float_array("matrices", matrices, (None, d, d))
    return given, float_array("vectors", vectors, (given.shape[0], d))
