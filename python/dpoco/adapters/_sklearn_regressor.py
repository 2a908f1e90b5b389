"""The regressor in scikit-learn's dialect."""

from __future__ import annotations

from typing import Any

from sklearn.base import RegressorMixin

from dpoco._validation import FloatArray
from dpoco.accounting import Budget
from dpoco.accounting.ledger import Ledger
from dpoco.adapters._sklearn_base import LinearEstimator, matrix, targets_of
from dpoco.trace import Flags


class PrivateOnlineRegressor(RegressorMixin, LinearEstimator):
    """Linear regression in one pass, every published coefficient under differential privacy.

    Parameters
    ----------
    budget : Budget or None
        Of one `fit`, or of all `partial_fit` together; None switches privacy off. Keyword-only, as
        all parameters.
    horizon : int or None
        Number of rows that may ever be learned. None: that of the data in `fit`, which counts as
        public; unknown in `partial_fit`, for "tree_frank_wolfe" and "noisy_ftrl" only.
    loss : {"squared", "huber"}
        What is minimised.
    learner : {"tree_frank_wolfe", "polyhedral_frank_wolfe", "noisy_ftrl", \
"coupled_regularized_leader"}
        Which learner. "polyhedral_frank_wolfe" is for many bounded features.
    feature_bound : float, default 1.0
        Rows are clipped to this l2 norm; for "polyhedral_frank_wolfe" maximum norm. Public: never
        take it from the data.
    label_bound : float, default 1.0
        Targets are clipped to [-label_bound, label_bound]. Public, too.
    threshold : float, default 1.0
        Residual from which the Huber loss grows linearly.
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
    coef_ : ndarray of shape (d,)
        Published coefficients.
    intercept_ : float
        Published intercept; 0 without one.
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
    Rows and targets out of their bounds are clipped, and values that are not finite make an empty
    record, silently. A pickle carries what was published and not the learner: it predicts, and
    `partial_fit` raises `StateError` until `bind` brings the learner back. `copy.deepcopy` of a
    fitted estimator raises `StateError`; ``sklearn.base.clone`` makes a fresh one.

    Examples
    --------
    >>> import dpoco, numpy as np
    >>> from dpoco.adapters.sklearn import PrivateOnlineRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 3))
    >>> y = X @ [1.0, -0.5, 0.0] + 0.2
    >>> model = PrivateOnlineRegressor(budget=dpoco.Budget(1.0, 1e-6), radius=2.0)
    >>> bool(model.fit(X, y).score(X, y) > 0.5)
    True
    >>> model.coef_.shape
    (3,)
    """

    def __init__(
        self,
        *,
        budget: Budget | None,
        horizon: int | None = None,
        loss: str = "squared",
        learner: str = "tree_frank_wolfe",
        feature_bound: float = 1.0,
        label_bound: float = 1.0,
        threshold: float = 1.0,
        radius: float = 1.0,
        fit_intercept: bool = True,
        options: dict[str, Any] | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self._keep(locals())

    def fit(self, X: Any, y: Any) -> PrivateOnlineRegressor:
        """Start a new learner and give it all rows, in their order, once.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense and real; n is at most the horizon.
        y : array_like of shape (n,)
            Targets.
        """
        features = matrix(self, X, reset=True)
        self._fit(features, targets_of(y, features.shape[0]))
        return self

    def partial_fit(self, X: Any, y: Any) -> PrivateOnlineRegressor:
        """Go on with more rows, in their order; the first call makes the learner.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense and real.
        y : array_like of shape (n,)
            Targets.
        """
        first = not self.__sklearn_is_fitted__()
        features = matrix(self, X, reset=first)
        targets = targets_of(y, features.shape[0])
        if first:
            self._start(self.horizon)
        self._learn(features, targets)
        return self

    def _publish(self) -> None:
        self.coef_, self.intercept_ = self._model.problem.coefficients(self._model.theta)

    def _targets(self, y: Any, rows: int) -> tuple[FloatArray, Flags]:
        return targets_of(y, rows), {}

    def predict(self, X: Any) -> FloatArray:
        """Return predictions, shape (n,), for rows clipped like the data."""
        return self._margins(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # what noise leaves of it depends on the budget
        return tags
