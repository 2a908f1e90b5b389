"""What the river estimators share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting import Guarantee
from dpoco.adapters._features import FeatureMap
from dpoco.adapters._linear import LinearModel
from dpoco.trace import Flags, RecordShares

__all__ = ["LinearEstimator"]

FloatArray = NDArray[np.float64]


class LinearEstimator:
    """What both estimators share: features in, one round a record, published numbers out."""

    _features: FeatureMap
    _model: LinearModel

    @property
    def learner_(self) -> Any:
        """The learner underneath: its `save` keeps its state, which is as secret as the data.

        Raises
        ------
        StateError
            For an unpickled copy: a pickle of a started estimator carries what it has published.
        """
        return self._model.learner

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about everything that predictions are computed from."""
        return self._model.guarantee

    @property
    def round(self) -> int:
        """Records learned so far."""
        return self._model.round

    @property
    def weights(self) -> dict[str, float] | FloatArray:
        """Published coefficients: by name, or of the hashed entries, shape (d,)."""
        coefficients, _ = self._model.problem.coefficients(self._model.theta)
        order = self._features.names
        if order is None:
            return coefficients
        return {name: float(value) for name, value in zip(order, coefficients, strict=True)}

    @property
    def intercept_value(self) -> float:
        """Published intercept; 0 without one."""
        return self._model.problem.coefficients(self._model.theta)[1]

    def bind(self, learner: Any) -> None:
        """Go on with a learner that `dpoco.load` has brought back.

        Parameters
        ----------
        learner : learner
            Of this estimator's kind and bounds; used by nobody else from now on.

        Raises
        ------
        StateError
            If this estimator has learned already.
        ValueError, TypeError
            If the learner does not fit.
        """
        self._model.bind(learner)

    def nonprivate_records(self, X: Any, y: Iterable[Any]) -> RecordShares:
        """Return how this estimator reads records, for evaluation only; it learns nothing.

        **Not private**: it counts in raw records, and publishing it is a leak.

        Parameters
        ----------
        X : sequence of mappings, or pandas.DataFrame
            Records, as for `learn_one` or `learn_many`.
        y : iterable
            Their labels.

        Returns
        -------
        RecordShares
            Also which of the listed features are missing, by name.
        """
        labels, rows = list(y), self._features.rows(X)
        return RecordShares.of(
            {
                **self._model.problem.nonprivate_flags(rows, self._targets(labels)),
                **self._label_flags(labels),
            },
            self._features.nonprivate_flags(X),
            names=self._features.names,
        )

    def _targets(self, y: Iterable[Any]) -> FloatArray:
        raise NotImplementedError

    def _label_flags(self, y: list[Any]) -> Flags:
        return {}

    def _margin(self, x: Mapping[Any, Any]) -> float:
        return float(self._model.margins(self._features.row(x)[None, :])[0])
