"""The regressor in river's dialect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from river import base

from dpoco._validation import FloatArray, number
from dpoco.accounting import Budget
from dpoco.adapters._features import FeatureMap
from dpoco.adapters._linear import LinearModel, LinearProblem
from dpoco.adapters._river_base import LinearEstimator

__all__ = ["PrivateRegressor"]


class PrivateRegressor(LinearEstimator, base.MiniBatchRegressor):
    """Linear regression, every published coefficient under differential privacy.

    Parameters
    ----------
    features : sequence of str, or int
        Public names of the features, or the number of entries that names are hashed to. Never taken
        from the data: a model that grows with the features it meets reveals them. Names that are
        not listed are ignored, missing ones count as 0.
    horizon : int or None
        Number of records that may ever be learned. None: unknown, for "tree_frank_wolfe" and
        "noisy_ftrl". Keyword-only, as all that follow.
    budget : Budget or None
        Of all records together; None switches privacy off.
    loss : {"squared", "huber"}
        What is minimised.
    learner : {"tree_frank_wolfe", "polyhedral_frank_wolfe", "noisy_ftrl", \
"coupled_regularized_leader"}
        Which learner. "polyhedral_frank_wolfe" is for many bounded features.
    feature_bound : float, default 1.0
        Records are clipped to this l2 norm; for "polyhedral_frank_wolfe" maximum norm.
    label_bound : float, default 1.0
        Labels are clipped to [-label_bound, label_bound].
    threshold : float, default 1.0
        Residual from which the Huber loss grows linearly.
    radius : float, default 1.0
        Largest l2 norm of the coefficients, the intercept's in units of `feature_bound` included;
        for "polyhedral_frank_wolfe" l1 norm.
    intercept : bool, default True
        Whether there is one.
    options : dict, optional
        Further arguments of the learner, "batch" for example.
    seed : int, optional
        Reproducible noise: for tests and simulation, it voids the guarantee.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        For bad arguments, at once; past the horizon `learn_one` raises `HorizonExceeded`.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.adapters.river import PrivateRegressor
    >>> model = PrivateRegressor(
    ...     ("age", "income"), horizon=10_000, budget=dpoco.Budget(1.0, 1e-6), label_bound=2.0)
    >>> model.learn_one({"age": 0.3, "income": 0.8}, 1.2)
    >>> model.guarantee.delta
    1e-06
    """

    def __init__(
        self,
        features: Sequence[str] | int,
        *,
        horizon: int | None,
        budget: Budget | None,
        loss: str = "squared",
        learner: str = "tree_frank_wolfe",
        feature_bound: float = 1.0,
        label_bound: float = 1.0,
        threshold: float = 1.0,
        radius: float = 1.0,
        intercept: bool = True,
        options: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        self.__dict__.update({k: v for k, v in locals().items() if k not in ("self", "__class__")})
        self._features = FeatureMap(features)
        if loss not in ("squared", "huber"):
            raise ValueError("loss must be 'squared' or 'huber'")
        problem = LinearProblem(
            loss,
            learner,
            self._features.dimension,
            feature_bound=feature_bound,
            label_bound=label_bound,
            threshold=threshold,
            radius=radius,
            intercept=intercept,
        )
        self._model = LinearModel(
            problem, horizon=horizon, budget=budget, options=options, seed=seed
        )

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Play one round with a record.

        Parameters
        ----------
        x : mapping of names to numbers
        y : float
            Clipped; one that is not finite makes the record an empty one.

        Raises
        ------
        HorizonExceeded
            Past the horizon: nothing drawn, nothing changed.
        StateError
            For an unpickled copy.
        TypeError
            If a feature or the label is no number.
        """
        self._model.learn_one(self._features.row(x), number("the label", y))

    def learn_many(self, X: Any, y: Any) -> None:
        """Play one round a row of a DataFrame, in order: the same decisions as `learn_one`.

        Raises
        ------
        HorizonExceeded
            If not all rows are allowed: no round is played.
        """
        self._model.learn_many(self._features.rows(X), self._targets(y))

    def _targets(self, y: Iterable[Any]) -> FloatArray:
        return np.array([number("the label", value) for value in y], dtype=np.float64)

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> float:
        """Return the prediction for a record, clipped like those it learned from."""
        return self._margin(x)

    def predict_many(self, X: Any) -> Any:
        """Return a Series with the prediction for each row of a DataFrame."""
        import pandas as pd

        return pd.Series(self._model.margins(self._features.rows(X)), index=X.index)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        for loss in ("squared", "huber"):
            yield {"features": 16, "horizon": 5000, "budget": Budget(4.0, 1e-6), "loss": loss}
