"""The world of Figure 5.1: sparse arms, contexts with bounded entries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpoco.environments import LinearWorld

__all__ = ["SPARSITY", "SparseWorld"]

FloatArray = NDArray[np.float64]

SPARSITY = 5
_NOISE = 0.05


class SparseWorld(LinearWorld):
    """Contexts ``z / ||z||_inf`` with z standard normal; arms with a few equal coefficients.

    Each arm has five coefficients 1/5, at random places. The paper does not describe its world;
    in this one uniformly random play has the regret per round that the published code's has.

    Parameters
    ----------
    arms, dimension, horizon, seed
        As for `LinearWorld`; `dimension` is at least five.
    """

    def __init__(self, arms: int, dimension: int, horizon: int, *, seed: int) -> None:
        super().__init__(
            arms,
            dimension,
            horizon,
            norm=np.inf,
            sparsity=SPARSITY,
            reward_noise=_NOISE,
            seed=seed,
        )

    def _draw_coefficients(self, generator: np.random.Generator) -> FloatArray:
        drawn = super()._draw_coefficients(generator)
        coefficients: FloatArray = (drawn != 0.0) / float(SPARSITY)
        return coefficients

    def _draw_contexts(self, generator: np.random.Generator) -> FloatArray:
        drawn = generator.standard_normal((self.horizon, self.dimension))
        drawn /= np.abs(drawn).max(axis=1, keepdims=True)
        return drawn
