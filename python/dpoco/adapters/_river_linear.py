"""Linear models in river's dialect: a classifier and a regressor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from river import base

from dpoco._validation import FloatArray, number
from dpoco.accounting import Budget, Guarantee
from dpoco.adapters._features import FeatureMap, LabelMap
from dpoco.adapters._linear import LinearModel, own_arguments
from dpoco.trace import Flags, RecordShares


class LinearEstimator:
    """What both estimators share: features in, one round a record, published numbers out."""

    _features: FeatureMap
    _model: LinearModel

    def _begin(self, arguments: dict[str, Any]) -> None:
        """Keep a constructor's arguments, from which river clones, and make the learner."""
        vars(self).update(own_arguments(arguments))
        self._features = FeatureMap(arguments["features"])
        self._model = LinearModel.of(arguments, self._features.dimension)

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

    def learn_one(self, x: Mapping[Any, Any], y: Any) -> None:
        """Play one round with a record.

        Parameters
        ----------
        x : mapping of names to numbers
        y : label or float
            A label that is none of the `classes`, or a number that is not finite, makes the record
            an empty one; other numbers are clipped.

        Raises
        ------
        HorizonExceeded
            Past the horizon: nothing drawn, nothing changed.
        StateError
            For an unpickled copy.
        TypeError
            If a feature is no number, or a label neither a number nor of the classes' type.
        """
        self._model.learn_one(self._features.row(x), self._target(y))

    def learn_many(self, X: Any, y: Any) -> None:
        """Play one round a row of a DataFrame, in order: the same decisions as `learn_one`.

        Raises
        ------
        HorizonExceeded
            If not all rows are allowed: no round is played.
        """
        self._model.learn_many(self._features.rows(X), self._targets(y))

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

    def _target(self, y: Any) -> float:
        raise NotImplementedError

    def _targets(self, y: Iterable[Any]) -> FloatArray:
        return np.array([self._target(value) for value in y], dtype=np.float64)

    def _label_flags(self, y: list[Any]) -> Flags:
        return {}

    def _margin(self, x: Mapping[Any, Any]) -> float:
        return float(self._model.margins(self._features.row(x)[None, :])[0])


class PrivateClassifier(LinearEstimator, base.MiniBatchClassifier):
    """Logistic regression, every published coefficient under differential privacy.

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
    learner : {"tree_frank_wolfe", "polyhedral_frank_wolfe", "noisy_ftrl", \
"coupled_regularized_leader"}
        Which learner. "polyhedral_frank_wolfe" is for many bounded features.
    classes : (label, label), default (False, True)
        The two labels, public; a record with another label counts as an empty one, silently. One of
        another type is an error: texts for numbers, and bools for numbers other than 0 and 1.
    feature_bound : float, default 1.0
        Records are clipped to this l2 norm; for "polyhedral_frank_wolfe" maximum norm.
    radius : float, default 1.0
        Largest l2 norm of the coefficients, the intercept's in units of `feature_bound` included;
        for "polyhedral_frank_wolfe" l1 norm. Larger fits better and needs more noise.
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

    Notes
    -----
    O(d) a record and prediction with the default learner. Features and labels out of their bounds
    are clipped, and values that are not finite make an empty record, silently.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.adapters.river import PrivateClassifier
    >>> model = PrivateClassifier(
    ...     ("age", "income"), horizon=10_000, budget=dpoco.Budget(1.0, 1e-6), radius=4.0)
    >>> model.predict_proba_one({"age": 0.3})
    {False: 0.5, True: 0.5}
    >>> model.learn_one({"age": 0.3, "income": 0.8}, True)
    >>> model.round
    1
    """

    classes: tuple[Any, Any]

    def __init__(
        self,
        features: Sequence[str] | int,
        *,
        horizon: int | None,
        budget: Budget | None,
        learner: str = "tree_frank_wolfe",
        classes: tuple[Any, Any] = (False, True),
        feature_bound: float = 1.0,
        radius: float = 1.0,
        intercept: bool = True,
        options: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(locals())
        self._labels = LabelMap(classes)

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of both labels; no round is played."""
        p = _sigmoid(self._margin(x))
        return {self.classes[0]: 1.0 - p, self.classes[1]: p}

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Return the more probable label, the first one on a tie; no round is played."""
        return self.classes[self._margin(x) > 0.0]

    def predict_proba_many(self, X: Any) -> Any:
        """Return a DataFrame with the probability of both labels for each row."""
        import pandas as pd

        p = [_sigmoid(z) for z in self._model.margins(self._features.rows(X)).tolist()]
        columns = {self.classes[0]: [1.0 - q for q in p], self.classes[1]: p}
        return pd.DataFrame(columns, index=X.index)

    def predict_many(self, X: Any) -> Any:
        """Return a Series with the more probable label of each row."""
        import pandas as pd

        margins = self._model.margins(self._features.rows(X))
        return pd.Series([self.classes[z > 0.0] for z in margins.tolist()], index=X.index)

    def _target(self, y: Any) -> float:
        return self._labels.value(y)

    def _label_flags(self, y: list[Any]) -> Flags:
        return self._labels.nonprivate_flags(y)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        for learner in ("tree_frank_wolfe", "noisy_ftrl"):
            yield {
                "features": 16, "horizon": 5000, "budget": Budget(4.0, 1e-6), "learner": learner
            }  # fmt: skip


def _sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z)) if z > -700.0 else 0.0


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
        self._begin(locals())

    def _target(self, y: Any) -> float:
        return number("the label", y)

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
