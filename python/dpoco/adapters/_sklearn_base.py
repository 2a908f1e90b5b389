"""What the scikit-learn estimators share, and checks of input whose messages contain no data.

``sklearn.utils.check_array`` prints one-dimensional and complex arrays, and texts that it cannot
convert. Here, messages name shapes and types.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from dpoco._validation import FloatArray, float_array
from dpoco.accounting import Guarantee
from dpoco.accounting.ledger import Ledger
from dpoco.adapters._linear import LinearModel, own_arguments
from dpoco.errors import HorizonExceeded
from dpoco.trace import Flags, RecordShares


def matrix(estimator: Any, X: Any, *, reset: bool) -> FloatArray:
    """Return records as doubles, shape (n, d), n and d at least 1; non-finite ones pass.

    Sets ``n_features_in_`` and ``feature_names_in_`` if `reset`, else compares with them.
    """
    if hasattr(X, "tocsr"):
        raise TypeError("sparse data are not supported: the learners take dense records")
    array = _array("X", X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real")
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: (-1, 1) for "
            "one feature, (1, -1) for one record"
        )
    for count, what in zip(array.shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape={array.shape}) while a minimum of 1 is required."
            )
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    try:
        return float_array("X", array, (None, None))
    except TypeError:
        raise TypeError("each argument must be no string or object, but a real number") from None


def column(y: Any, rows: int) -> NDArray[Any]:
    """Return targets as an array of shape (n,)."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    flat = _array("y", y)
    if flat.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must be real")
    if flat.ndim == 2 and flat.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: its shape should be (n,)",
            DataConversionWarning,
            stacklevel=3,
        )
        flat = flat[:, 0]
    if flat.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {flat.shape} instead")
    if flat.shape[0] != rows:
        raise ValueError(f"X has {rows} records, y has {flat.shape[0]}: they must be as many")
    return flat


def targets_of(y: Any, rows: int) -> FloatArray:
    """Return real targets as doubles; non-finite ones pass."""
    return float_array("y", column(y, rows), (rows,))


def _array(name: str, value: Any) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be an array without a mask")
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        # The cause's text may quote the data.
        raise ValueError(f"{name} must be an array; got {type(value).__name__}") from None


class LinearEstimator(BaseEstimator):
    """What both estimators share: runs of a learner, charged and published."""

    horizon: int | None
    fit_intercept: bool
    ledger: Ledger | None
    random_state: int | None
    _model: LinearModel

    def _keep(self, arguments: dict[str, Any]) -> None:
        """Keep a constructor's arguments, unchecked, as scikit-learn wants it."""
        self.__dict__.update(own_arguments(arguments))

    def _terms(self) -> dict[str, Any]:
        arguments: dict[str, Any] = self.get_params(deep=False)
        return {**arguments, "intercept": self.fit_intercept, "seed": self.random_state}

    def _start(self, horizon: int | None) -> None:
        """Make a learner and charge it, before it sees a record."""
        if not (self.ledger is None or isinstance(self.ledger, Ledger)):
            raise TypeError(f"ledger must be a Ledger; got {type(self.ledger).__name__}")
        model = LinearModel.of({**self._terms(), "horizon": horizon}, self.n_features_in_)
        if self.ledger is not None:
            self.ledger.charge(model.guarantee, f"{type(self).__name__} of {horizon} rounds")
        self._model = model

    def _fit(self, X: FloatArray, labels: FloatArray) -> None:
        again = self.__sklearn_is_fitted__()
        rounds = X.shape[0]
        if isinstance(self.horizon, (int, np.integer)) and rounds > self.horizon:
            raise HorizonExceeded(f"{rounds} records, and a horizon of {self.horizon} rounds")
        if again and self.ledger is None:
            warnings.warn(
                "fit() starts a new learner with a budget of its own: what this object has "
                "published before and will publish now spends both; a ledger= keeps the sum",
                UserWarning,
                stacklevel=3,
            )
        self._start(rounds if self.horizon is None else self.horizon)
        self._learn(X, labels)

    def _learn(self, X: FloatArray, labels: FloatArray) -> None:
        self._model.learn_many(X, labels)
        self._publish()

    def _publish(self) -> None:
        raise NotImplementedError

    def nonprivate_records(self, X: Any, y: Any) -> RecordShares:
        """Return how a fitted estimator reads rows, for evaluation only; it learns nothing.

        **Not private**: it counts in raw rows, and publishing it is a leak.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense and real.
        y : array_like of shape (n,)
            Labels or targets.

        Returns
        -------
        RecordShares
        """
        check_is_fitted(self)
        features = matrix(self, X, reset=False)
        targets, flags = self._targets(y, features.shape[0])
        return RecordShares.of(
            {**self._model.problem.nonprivate_flags(features, targets), **flags},
            names=getattr(self, "feature_names_in_", ()),
        )

    def _targets(self, y: Any, rows: int) -> tuple[FloatArray, Flags]:
        raise NotImplementedError

    def _margins(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        return self._model.margins(matrix(self, X, reset=False))

    @property
    def learner_(self) -> Any:
        """The learner underneath: its `save` keeps the state, which is as secret as the data.

        Raises
        ------
        StateError
            For an unpickled copy: a pickle of a fitted estimator carries what it has published.
        """
        check_is_fitted(self)
        return self._model.learner

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of the last `fit`, or of all `partial_fit` since the first one."""
        check_is_fitted(self)
        return self._model.guarantee

    def bind(self, learner: Any) -> Any:
        """Go on with a learner that `dpoco.load` has brought back, and return self.

        Parameters
        ----------
        learner : learner
            Of this estimator's kind and bounds; used by nobody else from now on. A classifier needs
            `classes`.

        Raises
        ------
        StateError
            If this object has a learner already.
        ValueError, TypeError
            If the learner does not fit.
        """
        if self.__sklearn_is_fitted__():
            self._model.bind(learner)
        else:
            domain = getattr(learner, "domain", None)
            if domain is None:
                raise TypeError(f"a {type(learner).__name__} is no learner for this estimator")
            dimension = domain.dimension - int(bool(self.fit_intercept))
            self._model = LinearModel.of(self._terms(), dimension, learner)
            self.n_features_in_ = dimension
        self._publish()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted estimator; a ledger is shared, so that clones spend one budget."""
        arguments = {
            name: value if name == "ledger" else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**arguments)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such a record counts as an empty one
        tags.non_deterministic = self.random_state is None
        return tags
