"""Likelihoods of weights on a net, which follow from released sums of transformed losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._likelihood_sums import LedBySums

__all__ = ["LedByNetSums"]

FloatArray = NDArray[np.float64]


class LedByNetSums(LedBySums):
    """LipschitzLearner: weights on a net, from released sums of transformed losses."""

    def _index(self, learner: Any, decision: Any) -> int:
        return int(np.all(learner.points == decision, axis=1).argmax())

    def _exact(self, learner: Any) -> FloatArray:
        losses: FloatArray = np.array(learner._checker.invert(super()._exact(learner)))
        return losses

    def _leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        leaf: FloatArray = np.array(learner._engine.leaf(record[0]))
        return leaf

    def _follows(self, learner: Any, k: int, before: Any, released: FloatArray) -> bool:
        from dpoco.accounting.continual_sum import release_grid

        p = learner.parameters
        # The transform's inverse is linear: what a grid of the releases becomes, at most.
        values = learner._checker.invert(np.ascontiguousarray(released))
        unit = np.array([learner._checker.invert(row) for row in np.eye(len(released))])
        slack = release_grid(p.noise_scale) * float(np.abs(unit).sum(axis=0).max())
        expected = np.exp(-p.learning_rate * (values - values.min()))
        expected /= expected.sum()
        return bool(np.allclose(learner.weights, expected, rtol=4 * p.learning_rate * slack + 1e-9))
