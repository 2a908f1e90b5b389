"""The classifier in scikit-learn's dialect."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from dpoco._validation import FloatArray
from dpoco.accounting import Budget
from dpoco.accounting.ledger import Ledger
from dpoco.adapters._features import LabelMap
from dpoco.adapters._sklearn_base import LinearEstimator, column, matrix
from dpoco.trace import Flags


class PrivateOnlineClassifier(ClassifierMixin, LinearEstimator):
    """Logistic regression in one pass, every published coefficient under differential privacy.

    Parameters
    ----------
    budget : Budget or None
        Of one `fit`, or of all `partial_fit` together; None switches privacy off. Keyword-only, as
        all parameters.
    classes : sequence of two labels, "data" or None
        The labels, public; a row with another label counts as an empty one, silently. One of
        another type is an error: texts for numbers, and bools for numbers other than 0 and 1. None:
        to be passed to the first `partial_fit`; `fit` refuses, since which labels occur depends on
        the data. "data": both are those that occur, which the caller declares to be public.
    horizon : int or None
        Number of rows that may ever be learned. None: that of the data in `fit`, which counts as
        public; unknown in `partial_fit`, for "tree_frank_wolfe" and "noisy_ftrl" only.
    learner : {"tree_frank_wolfe", "polyhedral_frank_wolfe", "noisy_ftrl", \
"coupled_regularized_leader"}
        Which learner. "polyhedral_frank_wolfe" is for many bounded features.
    feature_bound : float, default 1.0
        Rows are clipped to this l2 norm; for "polyhedral_frank_wolfe" maximum norm. Public: never
        take it from the data.
    radius : float, default 1.0
        Largest l2 norm of the coefficients, the intercept's in units of `feature_bound` included;
        for "polyhedral_frank_wolfe" l1 norm. Larger fits better and needs more noise.
    fit_intercept : bool, default True
        Whether there is an intercept.
    options : dict, optional
        Further arguments of the learner, "batch" for example.
    ledger : dpoco.accounting.ledger.Ledger, optional
        Charged for every learner before it sees a row; clones share it, so that cross-validation
        is refused once its fits spend more than the ledger holds.
    random_state : int, optional
        Reproducible noise: for tests and simulation, it voids the guarantee.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d)
        Published coefficients.
    intercept_ : ndarray of shape (1,)
        Published intercept; 0 without one.
    classes_ : ndarray of shape (2,)
        The labels, sorted.
    n_features_in_ : int
        Number of features.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        For bad arguments, by `fit` and `partial_fit`; messages never contain data.
    HorizonExceeded
        For rows past the horizon: none of them is learned.

    Notes
    -----
    Rows and labels out of their bounds are clipped, and values that are not finite make an empty
    record, silently. A pickle carries what was published and not the learner: it predicts, and
    `partial_fit` raises `StateError` until `bind` brings the learner back. `copy.deepcopy` of a
    fitted estimator raises `StateError`; ``sklearn.base.clone`` makes a fresh one.

    Examples
    --------
    >>> import dpoco, numpy as np
    >>> from dpoco.adapters.sklearn import PrivateOnlineClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 3))
    >>> y = X[:, 0] > 0.1
    >>> model = PrivateOnlineClassifier(
    ...     budget=dpoco.Budget(1.0, 1e-6), classes=(False, True), radius=8.0)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    >>> round(model.guarantee_.epsilon, 6)
    1.0
    """

    classes: Any

    def __init__(
        self,
        *,
        budget: Budget | None,
        classes: Any = None,
        horizon: int | None = None,
        learner: str = "tree_frank_wolfe",
        feature_bound: float = 1.0,
        radius: float = 1.0,
        fit_intercept: bool = True,
        options: dict[str, Any] | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any) -> PrivateOnlineClassifier:
        """Start a new learner and give it all rows, in their order, once.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense and real; n is at most the horizon.
        y : array_like of shape (n,)
            Labels.
        """
        features = matrix(self, X, reset=True)
        targets = column(y, features.shape[0])
        if isinstance(self.classes, str) and self.classes == "data":
            classes = _occurring(targets)
        else:
            classes = self._public_classes('"data" declares those that occur to be public')
        self._fit(features, LabelMap(classes.tolist()).values(targets.tolist()))
        self.classes_ = classes
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> PrivateOnlineClassifier:
        """Go on with more rows, in their order; the first call makes the learner.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense and real.
        y : array_like of shape (n,)
            Labels.
        classes : sequence of two labels, optional
            Needed in the first call unless they are a parameter; later the same, if given.
        """
        first = not self.__sklearn_is_fitted__()
        if classes is not None:
            known = _declared(classes)
        elif first:
            known = self._public_classes("pass them to the first call of partial_fit")
        else:
            known = self.classes_
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError("classes must be those of the first call to partial_fit")
        features = matrix(self, X, reset=first)
        labels = LabelMap(known.tolist()).values(column(y, features.shape[0]).tolist())
        if first:
            self._start(self.horizon)
            self.classes_ = known
        self._learn(features, labels)
        return self

    def bind(self, learner: Any) -> Any:
        if not self.__sklearn_is_fitted__():
            self.classes_ = self._public_classes("bind() needs the parameter")
        return super().bind(learner)

    def _public_classes(self, hint: str) -> NDArray[Any]:
        if self.classes is None or isinstance(self.classes, str):
            raise ValueError(
                f"classes must be given, since which labels occur depends on the data: {hint}"
            )
        return _declared(self.classes)

    def _publish(self) -> None:
        coefficients, intercept = self._model.problem.coefficients(self._model.theta)
        self.coef_, self.intercept_ = coefficients[None, :], np.array([intercept])

    def _targets(self, y: Any, rows: int) -> tuple[FloatArray, Flags]:
        labels = column(y, rows).tolist()
        known = LabelMap(self.classes_.tolist())
        return known.values(labels), known.nonprivate_flags(labels)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log-odds of the second class, shape (n,), for rows clipped like the data."""
        return self._margins(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of both classes, shape (n, 2)."""
        margins = np.clip(self._margins(X), -700.0, 700.0)
        positive = 1.0 / (1.0 + np.exp(-margins))
        return np.stack([1.0 - positive, positive], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the more probable class of each row, the first one on a tie, shape (n,)."""
        margins = self._margins(X)
        chosen: NDArray[Any] = self.classes_[(margins > 0.0).astype(np.intp)]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # what noise leaves of it depends on the budget
        return tags


def _declared(classes: Any) -> NDArray[Any]:
    found: NDArray[Any] = np.unique(np.asarray(classes))
    if found.shape != (2,) or np.ndim(classes) != 1:
        raise ValueError("classes must be two different labels")
    LabelMap(list(classes))  # before NumPy made two types one
    return found


def _occurring(y: NDArray[Any]) -> NDArray[Any]:
    """Return the classes that occur, for callers who declare these to be public."""
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError("y is not finite everywhere, and its labels were declared to be classes")
    check_classification_targets(y)
    found: NDArray[Any] = np.unique(y)
    if found.shape[0] > 2:
        raise ValueError(
            "Only binary classification is supported. "
            f"The type of the target is {type_of_target(y)}."
        )
    if found.shape[0] < 2:
        raise ValueError("the data hold one class, and two are needed")
    return found
