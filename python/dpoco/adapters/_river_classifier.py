"""The classifier in river's dialect."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from river import base

from dpoco._validation import FloatArray
from dpoco.accounting import Budget
from dpoco.adapters._features import FeatureMap, LabelMap
from dpoco.adapters._linear import LinearModel, LinearProblem
from dpoco.adapters._river_base import LinearEstimator
from dpoco.trace import Flags

__all__ = ["PrivateClassifier"]


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
        self.__dict__.update({k: v for k, v in locals().items() if k not in ("self", "__class__")})
        self._features = FeatureMap(features)
        self._labels = LabelMap(classes)
        problem = LinearProblem(
            "logistic",
            learner,
            self._features.dimension,
            feature_bound=feature_bound,
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
        y : label
            One of `classes`; another one makes the record an empty one.

        Raises
        ------
        HorizonExceeded
            Past the horizon: nothing drawn, nothing changed.
        StateError
            For an unpickled copy.
        TypeError
            If a feature is no number, or a label not of the classes' type.
        """
        self._model.learn_one(self._features.row(x), self._labels.value(y))

    def learn_many(self, X: Any, y: Any) -> None:
        """Play one round a row of a DataFrame, in order: the same decisions as `learn_one`.

        Raises
        ------
        HorizonExceeded
            If not all rows are allowed: no round is played.
        """
        self._model.learn_many(self._features.rows(X), self._targets(y))

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

    def _targets(self, y: Iterable[Any]) -> FloatArray:
        return self._labels.values(y)

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
