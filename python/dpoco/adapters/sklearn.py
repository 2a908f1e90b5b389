"""Private learners as scikit-learn estimators with ``partial_fit`` (extra ``adapters``).

One row is one round, in the given order. ``predict`` and similar methods are functions of what was
published, and play no round. ``docs/adapters.md`` lists what leaks around them, most of all scalers
that learn, and scores.

Input is checked here, because ``sklearn.utils.check_array`` prints one-dimensional and complex
arrays, and texts that it cannot convert. These messages name only shapes and types.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError(
        'dpoco.adapters.sklearn needs scikit-learn 1.6 or later: pip install "dpoco[adapters]"',
        name="sklearn",
    ) from None

from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    OneToOneFeatureMixin,
    RegressorMixin,
    TransformerMixin,
    clone,
)
from sklearn.exceptions import DataConversionWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets

from dpoco import _literals as literals
from dpoco._clipping import Flags
from dpoco._validation import FloatArray, float_array, is_missing, require_memory, whole_if_float
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.ledger import Ledger
from dpoco.adapters._arguments import (
    ELSEWHERE,
    Arguments,
    callers,
    check_ledger,
    own_arguments,
    read_budget,
    refuse,
    refuse_changes,
    warn_of_learning,
)
from dpoco.adapters._features import LabelMap, public_scaling, scale_rows
from dpoco.adapters._linear import WEIGHTED, LinearModel, People, most_probable, probabilities
from dpoco.adapters._searches import warn_of_search
from dpoco.errors import HorizonExceeded
from dpoco.learning.participation import Participation
from dpoco.ranges import FoundRanges
from dpoco.trace import RecordShares

__all__ = ["PrivateOnlineClassifier", "PrivateOnlineRegressor", "PublicScaler",
           "expected_failed_checks"]  # fmt: skip

Classes = NDArray[np.generic] | None  # that are learned; None in a regression
Own = TypeVar("Own", bound="_LinearEstimator")

_DENSE_CELLS = 2**22  # of sparse records that are made dense at a time: 32 MiB


def _lists_categories(given: Arguments) -> bool:
    """Return whether an encoder's categories are constants: all are listed, and none is counted."""
    rare = (given["min_frequency"], given["max_categories"])  # which are counted
    return not isinstance(given["categories"], str) and rare == (None, None)


# Transformers that learn the number of columns and no more, if their parameters are such constants.
_CONSTANT: dict[str, Callable[[Arguments], bool]] = {
    "GaussianRandomProjection": lambda given: given["n_components"] != "auto",
    "MissingIndicator": lambda given: given["features"] == "all",
    "OneHotEncoder": _lists_categories,
    "OrdinalEncoder": _lists_categories,
    "PolynomialCountSketch": lambda given: True,
    "PolynomialFeatures": lambda given: True,
    "RBFSampler": lambda given: given["gamma"] != "scale",
    "SimpleImputer": lambda given: given["strategy"] == "constant" and not given["add_indicator"],
    "SkewedChi2Sampler": lambda given: True,
    "SparseRandomProjection": lambda given: given["n_components"] != "auto",
    "SplineTransformer": lambda given: not isinstance(given["knots"], str),
}


class _Rows:
    """Records as doubles, in blocks of dense ones if they are sparse: shape (n, d) in all."""

    def __init__(self, matrix: Any, block: int) -> None:
        self._matrix, self._block = matrix, block
        self.rounds: int = matrix.shape[0]

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield which rows come next, and the rows."""
        for begin in range(0, self.rounds, self._block):
            part = slice(begin, min(begin + self._block, self.rounds))
            dense = self._matrix[part]
            if hasattr(dense, "toarray"):
                dense = np.asarray(dense.toarray(), dtype=np.float64)
            yield part, dense


def _records(estimator: BaseEstimator, X: object, *, reset: bool) -> _Rows:
    """Return records, n and d at least 1; sparse ones stay so until they are learned from."""
    if not hasattr(X, "tocsr"):
        dense = _matrix(estimator, X, reset=reset)
        return _Rows(dense, len(dense))
    rows = _two_axes(X).tocsr()
    block = max(1, _DENSE_CELLS // max(1, rows.shape[1]))
    # One row has the type and the width of all, without a dense copy of the others.
    _matrix(estimator, rows[:1].toarray(), reset=reset)  # dtype and number of features
    return _Rows(rows, block)


def _matrix(estimator: BaseEstimator, X: object, *, reset: bool) -> FloatArray:
    """Return records as doubles, shape (n, d), n and d at least 1; non-finite ones pass.

    Sets ``n_features_in_`` and ``feature_names_in_`` if `reset`, else compares with them.
    """
    if hasattr(X, "tocsr"):
        rows = _two_axes(X).tocsr()
        entries = float(rows.shape[0]) * float(rows.shape[1])
        require_memory({"a dense copy of sparse records": entries})
        X = rows.toarray()
    array = _array("X", X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must be real")
    for count, what in zip(_two_axes(array).shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what} (shape={array.shape}) while a minimum of 1 is required."
            )
    # Only the names of columns are checked: scikit-learn's check of arrays prints what it refuses.
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    try:
        return float_array("X", array, (None, None))
    except TypeError:
        # `check_estimator` looks for "argument must be", "string" and "number", in this order.
        names = [name for name in getattr(X, "columns", ()) if isinstance(name, str)]
        others = [name for name in names if not _holds_numbers(X[name])]  # type: ignore[index]
        where = f"; see the columns {', '.join(others)}" if others else ""
        raise TypeError(
            f"each argument must be no string or object, but a real number{where}"
        ) from None


def _holds_numbers(column: object) -> bool:
    """Return whether the entries of a data frame's column are numbers, or missing."""
    try:
        float_array("column", _array("column", column), (None,))
    except (TypeError, ValueError):  # the latter for two columns of one name
        return False
    return True


def _two_axes(X: Any) -> Any:
    """Return records that are a matrix, dense or sparse; `ValueError` for any others."""
    # Sparse arrays of one axis: SciPy has them since 1.13.
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead. Reshape your data: (-1, 1) for "
            "one feature, (1, -1) for one record"
        )
    return X


def _column(y: object, rows: int, several: bool = False) -> NDArray[np.generic]:
    """Return targets as an array of shape (n,); with `several` also of shape (n, outputs)."""
    if y is None:
        # `check_estimator` looks for the words of this message, and of those for other bad shapes
        # and types.
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
    if flat.ndim != 1 and not (several and flat.ndim == 2 and flat.shape[1] > 1):
        raise ValueError(f"y should be a 1d array, got an array of shape {flat.shape} instead")
    if flat.shape[0] != rows:
        raise ValueError(f"X has {rows} records, y has {flat.shape[0]}: they must be as many")
    return flat


def _array(name: str, value: object) -> NDArray[np.generic]:
    """Return an array of any type; the message for what is none quotes nothing of it."""
    if isinstance(value, np.ma.MaskedArray):
        return value  # what is masked is missing
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        # The cause's text may quote the data.
        raise ValueError(f"{name} must be an array; got {type(value).__name__}") from None


def _steps_that_learn(steps: list[tuple[str, object]]) -> Iterator[object]:
    """Yield the transformers of a pipeline's steps that learn from data, by their tags."""

    def parts(step: object) -> list[object]:
        given = step.get_params() if hasattr(step, "get_params") else {}
        return [each for each in given.values() if hasattr(each, "transform")]

    for _, step in steps:
        for each in [step, *parts(step)]:
            tags = getattr(each, "__sklearn_tags__", None)
            stateless = tags is not None and not tags().requires_fit
            # If a transformer has parts, its parts are looked at.
            if hasattr(each, "fit") and not (stateless or _is_constant(each) or parts(each)):
                yield each


def _is_constant(step: BaseEstimator) -> bool:
    """Return whether a transformer of scikit-learn has nothing to learn but numbers of columns."""
    kind = type(step)
    public = _CONSTANT.get(kind.__name__) if kind.__module__.startswith("sklearn.") else None
    return public is not None and public(step.get_params(deep=False))


class PublicScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Map declared ranges to [-1, 1], and rows into the ball of radius 1: nothing is learned.

    Parameters
    ----------
    ranges : (float, float) or sequence of (float, float)
        Lowest and highest value of every feature, or of each; public: a sensor's data sheet, a
        form's limits. Never take them from the data. Values outside count as the nearest end.
    norm : {"l2", "max"}, default "l2"
        Norm of the ball: "l2" divides by sqrt(d); "max" does not, for "polyhedral_frank_wolfe".

    Raises
    ------
    ValueError, TypeError
        For bad arguments, by `fit` and `transform`; messages never contain data.

    Examples
    --------
    >>> from dpoco.adapters.sklearn import PublicScaler
    >>> PublicScaler(ranges=[(0, 100), (-5, 5)], norm="max").transform([[75.0, 9.0]])
    array([[0.5, 1. ]])
    """

    def __init__(self, ranges: ArrayLike, *, norm: literals.Norm = "l2") -> None:
        self.ranges, self.norm = ranges, norm

    def fit(self, X: object, y: object = None) -> PublicScaler:
        """Note how many features there are, and check the arguments."""
        scale_rows(public_scaling(self.ranges), self.norm, _matrix(self, X, reset=True)[:1])
        return self

    def transform(self, X: object) -> FloatArray:
        """Return scaled rows, shape (n, d); no `fit` is needed, and NaN stays NaN."""
        rows = _matrix(self, X, reset=not hasattr(self, "n_features_in_"))
        return scale_rows(public_scaling(self.ranges), self.norm, rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Private estimators read from this tag that a step in front of them learns nothing.
        tags.requires_fit, tags.input_tags.allow_nan, tags.input_tags.sparse = False, True, True
        return tags


class _LinearEstimator(BaseEstimator):
    """Base of both estimators: they run a learner, charge it and publish its results."""

    horizon: int | None
    fit_intercept: bool
    ledger: Ledger | None
    random_state: int | None
    coef_: FloatArray
    intercept_: Any
    _model: LinearModel
    _outputs: int = 1  # targets a row

    def _keep(self, arguments: Arguments) -> None:
        """Keep a constructor's arguments, unchecked, as scikit-learn wants it."""
        # scikit-learn clones by setting attributes, and its checks refuse constructors that do
        # more.
        self.__dict__.update(own_arguments(arguments))

    def fit(self: Own, X: object, y: object, persons: People = None, **refused: NoReturn) -> Own:
        """Start a new learner and give it all rows, in their order, once.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense or sparse, and real; n is at most the horizon.
        y : array_like of shape (n,), of targets also (n, outputs)
            Labels or targets.
        persons : array_like of int, str or bytes with shape (n,), optional
            The persons behind the rows, if a participation is enforced.
        """
        refuse(refused)
        self._check_unchanged()
        features = _records(self, X, reset=True)
        rounds, most = features.rounds, whole_if_float(self.horizon)
        classes = self._find_public_classes(y, rounds)
        targets = self._targets(y, rounds, classes)
        # Other types are refused by the learner, in its own words.
        if isinstance(most, (int, np.integer)) and rounds > most:
            raise HorizonExceeded(
                f"the data have {rounds} records, but the horizon is {most} rounds"
            )
        if self.__sklearn_is_fitted__() and self.ledger is None:
            warnings.warn(
                "fit() starts a new learner with its own budget: the earlier and the new results "
                "spend both budgets; pass ledger= to limit the sum",
                UserWarning,
                stacklevel=2,
            )
        self._outputs = targets.shape[1] if targets.ndim == 2 else 1
        self._start(rounds if self.horizon is None else self.horizon, persons, rounds, classes)
        return self._learn(features, targets, persons)

    def _go_on(self: Own, X: object, y: object, persons: People, classes: Classes) -> Own:
        """Train on more rows; the first call makes the learner."""
        self._check_unchanged()
        first = not self.__sklearn_is_fitted__()
        features = _records(self, X, reset=first)
        targets = self._targets(y, features.rounds, classes)
        self._check_outputs(targets)
        if first:
            self._outputs = targets.shape[1] if targets.ndim == 2 else 1
            self._start(self.horizon, persons, features.rounds, classes)
        return self._learn(features, targets, persons)

    def _terms(self, classes: Classes) -> Arguments:
        """Return what a model is made from, by the names that both libraries' adapters share."""
        given: Arguments = self.get_params(deep=False)
        own = {"intercept": self.fit_intercept, "seed": self.random_state, "classes": classes}
        return {**given, **own, "outputs": self._outputs}

    def _start(self, horizon: int | None, persons: People, rows: int, classes: Classes) -> None:
        """Make the learners and charge them, before they see a record."""
        check_ledger(self.ledger)
        model = LinearModel.of({**self._terms(classes), "horizon": horizon}, self.n_features_in_)
        model.learners[0]._digests(persons, rows)  # refused before anything is charged
        warn_of_learning(
            each
            for pipeline in callers(Pipeline)
            for each in _steps_that_learn(pipeline.steps[:-1])
        )
        model.require_left(rows)
        # This comes after everything that can fail, and before the first record.
        if self.ledger is not None:
            label = f"{type(self).__name__} of {horizon} rounds"
            self.ledger.charge(model.published.guarantee, label)
        # Copied, since a caller may change an array or a dictionary that was passed.
        self._model, self._started_with = model, copy.deepcopy(self._plain_parameters())
        if classes is not None:
            self.classes_ = classes

    def _plain_parameters(self) -> Arguments:
        """Return all parameters but the ledger, which is no value."""
        given: Arguments = self.get_params(deep=False)
        return {name: value for name, value in given.items() if name != "ledger"}

    def _check_unchanged(self) -> None:
        """Raise if a parameter was changed after the start: the learner has the old one."""
        before = vars(self).get("_started_with")
        if before is not None:
            instead = "sklearn.base.clone makes an estimator with the new one, and its own budget"
            refuse_changes(before, self._plain_parameters(), instead)

    def _learn(self: Own, X: _Rows, targets: FloatArray, persons: People) -> Own:
        """Give rows to the learner, all of them or none, and publish what it then decides."""
        self._model.require_left(X.rounds)
        if persons is not None:  # names that are none are refused before a round is played
            self._model.learners[0]._digests(persons, X.rounds)
            persons = list(persons)
        with self._model.watch_call(X.rounds):
            for part, rows in X.blocks():
                some = None if persons is None else persons[part]
                self._model.learn_many(rows, targets[part], some)
            self._publish()
        return self

    def _publish(self) -> None:
        """Set the attributes that are computed from released decisions alone."""
        self.coef_, self.intercept_ = self._model.coefficients

    def nonprivate_records(self, X: object, y: object) -> RecordShares:
        """Return how a fitted estimator reads rows, for evaluation only. It learns nothing.

        **Not private**: it counts raw rows, so do not publish it.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense or sparse, and real.
        y : array_like of shape (n,)
            Labels or targets.

        Returns
        -------
        RecordShares
        """
        check_is_fitted(self)
        features = _matrix(self, X, reset=False)
        targets = self._targets(y, features.shape[0], getattr(self, "classes_", None))
        flags = self._model.nonprivate_flags(features, targets)
        return RecordShares.of(
            {**flags, **self._label_flags(y)}, names=getattr(self, "feature_names_in_", ())
        )

    def _find_public_classes(self, y: object, rows: int) -> Any:
        """Return the classes to learn, which are public; None in a regression."""
        return None

    def _targets(self, y: object, rows: int, classes: Classes) -> FloatArray:
        """Return real targets as doubles, non-finite ones too."""
        flat = _column(y, rows, several=True)
        return float_array("y", flat, flat.shape)

    def _check_outputs(self, targets: FloatArray) -> None:
        """Raise if there are more or fewer targets a row than in the first call."""
        given = targets.shape[1] if targets.ndim == 2 else 1
        if self.__sklearn_is_fitted__() and given != self._outputs:
            raise ValueError(f"y has {given} targets a row; the first call had {self._outputs}")

    def _label_flags(self, y: object) -> Flags:
        return {}

    def _margins(self, X: object) -> FloatArray:
        """Return the margins of rows, shape (n, outputs), in blocks if they are sparse."""
        check_is_fitted(self)
        blocks = _records(self, X, reset=False).blocks()
        return np.concatenate([self._model.margins(rows) for _, rows in blocks])

    @property
    def learner_(self) -> Any:
        """The underlying learner; of more than two classes a tuple with one for each.

        Their `save` keeps the state, which is as secret as the data.

        Raises
        ------
        StateError
            For an unpickled copy, since a pickle of a fitted estimator holds only what it has
            published.
        """
        check_is_fitted(self)
        return self._model.learner

    @property
    def ranges_(self) -> FoundRanges | None:
        """The ranges that were found, free to publish; None before, or if they are declared.

        Coefficients are those of rows scaled by them, ``ranges_.scale(X)``. Where the range of
        targets was searched it is the last one.
        """
        check_is_fitted(self)
        return self._model.published.ranges

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of the last `fit`, or of all `partial_fit` since the first one."""
        check_is_fitted(self)
        return self._model.published.guarantee

    def bind(self, learner: Any) -> Any:
        """Continue with a learner that `dpoco.load` has restored, and return self.

        Parameters
        ----------
        learner : learner
            A learner of this estimator's kind and bounds; no one else may use it from now on. A
            classifier needs `classes`.

        Raises
        ------
        StateError
            If this object already has a learner.
        ValueError, TypeError
            If the learner does not fit.
        """
        if self.__sklearn_is_fitted__():
            self._model.bind(learner)
        else:
            first = learner[0] if isinstance(learner, (list, tuple)) and learner else learner
            domain = getattr(first, "domain", None)
            if domain is None:
                raise TypeError(f"a {type(first).__name__} is no learner for this estimator")
            dimension = domain.dimension - int(bool(self.fit_intercept))
            several = isinstance(self, RegressorMixin) and isinstance(learner, (list, tuple))
            self._outputs = len(learner) if several else 1
            terms = self._terms(getattr(self, "classes_", None))
            self._model = LinearModel.of(terms, dimension, learner)
            self.n_features_in_ = dimension
        self._started_with = copy.deepcopy(self._plain_parameters())
        self._publish()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)

    def __getstate__(self) -> Arguments:
        state: Arguments = super().__getstate__()
        # A published model needs no ledger. An unfitted estimator is not pickled without it.
        if self.__sklearn_is_fitted__() and self.ledger is not None:
            state = {**state, "ledger": ELSEWHERE}
        return state

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted estimator; a ledger is shared, so that clones spend one budget.

        Warns in a search or cross-validation, whose fits spend a budget each.
        """
        budget = None
        with contextlib.suppress(TypeError, ValueError):  # of a budget that `fit` refuses
            budget = read_budget(self.get_params(deep=False))
        if isinstance(budget, Budget):
            warn_of_search(type(self).__name__, budget, self.ledger)
        # A copied ledger would have the whole budget again, and refuses to be copied.
        arguments = {
            name: value if name == "ledger" else clone(value, safe=False)
            for name, value in self.get_params(deep=False).items()
        }
        return type(self)(**arguments)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such a record counts as an empty one
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags


class PrivateOnlineClassifier(ClassifierMixin, _LinearEstimator):
    """Logistic regression in one pass, with differentially private coefficients.

    More than two classes are learned one against the others:
    ``docs/privacy/one_versus_rest.md``.

    Parameters
    ----------
    epsilon, delta : float, optional
        The budget, unless `budget` is given. Keyword-only, as all parameters.
    budget : Budget or None, optional
        Of one `fit`, or of all `partial_fit` together; None switches privacy off. In place of
        `epsilon` and `delta`.
    classes : sequence of labels, "data" or None
        Two labels or more, which are public. Of more than two each has its own learner, which
        tells it from all others, and they share the budget. A row with another label silently
        counts as an empty one. A label of another type is an error: texts for numbers, and bools
        for numbers other than 0 and 1. None: pass them to the first `partial_fit`; `fit` refuses,
        since which labels occur depends on the data. "data": all labels that occur, which you
        thereby declare to be public.
    class_weight : mapping of labels to float, optional
        Weights of the losses of the classes, 1 where none is given: public constants, so not
        "balanced", which would count labels. Of more than two classes, each one's learner weighs
        its own class by its weight, and all others by the mean of theirs. The two weights of a
        learner are divided by the larger one, so that no record counts for more than without
        weights. Probabilities are then those of a stream in which the classes are as frequent as
        the weights make them. For "noisy_newton" and "noisy_ftrl".
    horizon : int or None
        Largest number of rows that may ever be learned. None: that of the data in `fit`, which
        counts as public. In `partial_fit` it is then unknown, which is not possible for
        "polyhedral" and "coupled" learners.
    learner : {"auto", "tree_frank_wolfe", "polyhedral_frank_wolfe", "noisy_ftrl", "noisy_newton", \
"coupled_regularized_leader"}
        The learner. "auto" takes the one with the least expected regret (`dpoco.choose`).
        "polyhedral_frank_wolfe" is for many bounded features.
    feature_bound : float, optional
        Rows are clipped to this l2 norm; for "polyhedral_frank_wolfe" maximum norm. Public: never
        take it from the data. After `PublicScaler` it is 1. None: ranges are searched privately.
    ranges : "private", optional
        In place of `feature_bound`: the first rounds, at least 500 and at most a tenth of the
        horizon, are for a private search for the features' ranges, and the learner gets all others,
        scaled by them (`dpoco.ranges`). One guarantee covers both. Missing values are then 0.
    drift : bool, default False
        Whether the stream drifts: "auto" then prefers a learner that forgets, if there is one for
        the loss.
    radius : float, optional
        Largest l2 norm of the coefficients, including the intercept in units of `feature_bound`;
        for "polyhedral_frank_wolfe" the l1 norm. A larger value fits better and needs more noise.
        Default: 4 sqrt(d) / `feature_bound` (l1: without the root).
    fit_intercept : bool, default True
        Whether there is an intercept.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rows together. `fit` and
        `partial_fit` take `persons` if it is enforced.
    options : dict, optional
        Further arguments of the learner, for example "batch".
    ledger : dpoco.accounting.ledger.Ledger, optional
        Ledger that is charged for every learner before it sees a row. Clones share it, so
        cross-validation is refused once its fits spend more than the ledger holds.
    random_state : int, optional
        Source of reproducible noise, for tests and simulation; it voids the guarantee.

    Attributes
    ----------
    coef_ : ndarray of shape (1, d)
        Published coefficients; of more than two classes a row for each.
    intercept_ : ndarray of shape (1,)
        Published intercepts, one for each row; 0 if there are none.
    classes_ : ndarray of shape (classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of features.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        For bad arguments, by `fit` and `partial_fit`; messages never contain data.
    HorizonExceeded
        For rows past the horizon; none of them is learned.

    Notes
    -----
    Rows and labels beyond their bounds are silently clipped, and non-finite values make a record an
    empty one. A pickle holds what was published but not the learner: it predicts, and `partial_fit`
    raises `StateError` until `bind` restores the learner. `copy.deepcopy` of a fitted estimator
    raises `StateError`; ``sklearn.base.clone`` makes a fresh one.

    Examples
    --------
    >>> import numpy as np
    >>> from dpoco.adapters.sklearn import PrivateOnlineClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 3))
    >>> y = X[:, 0] > 0.1
    >>> model = PrivateOnlineClassifier(
    ...     epsilon=1.0, delta=1e-6, classes=(False, True), feature_bound=1.0)
    >>> bool(model.fit(X, y).score(X, y) > 0.8)
    True
    >>> round(model.guarantee_.epsilon, 6)
    1.0
    """

    classes: ArrayLike | None

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | literals.Stated | None = "epsilon, delta",
        classes: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
        horizon: int | None = None,
        learner: literals.LinearLearner = "auto",
        feature_bound: float | None = None,
        ranges: literals.Ranges | None = None,
        drift: bool = False,
        radius: float | None = None,
        fit_intercept: bool = True,
        participation: Participation | None = None,
        options: Arguments | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self._keep(locals())

    def partial_fit(
        self,
        X: object,
        y: object,
        classes: ArrayLike | None = None,
        persons: People = None,
        **refused: NoReturn,
    ) -> PrivateOnlineClassifier:
        """Train on more rows, in their order; the first call makes the learner.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense or sparse, and real.
        y : array_like of shape (n,)
            Labels.
        classes : sequence of labels, optional
            Required in the first call unless they are a parameter; later the same, if given.
        persons : array_like of int, str or bytes with shape (n,), optional
            The persons behind the rows, if a participation is enforced.
        """
        refuse(refused)
        first = not self.__sklearn_is_fitted__()
        if classes is not None:
            known = _check_classes(classes)
        elif first:
            known = self._public_classes("pass them to the first call of partial_fit")
        else:
            known = self.classes_
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError("classes must be those of the first call to partial_fit")
        return self._go_on(X, y, persons, known)

    def bind(self, learner: Any) -> Any:
        """Continue with learners that `dpoco.load` has restored, and return self.

        Parameters
        ----------
        learner : learner, or sequence of learners
            A learner of this estimator's kind and bounds; no one else may use it from now on. Of
            more than two classes one for each, in the order of `classes_`.

        Raises
        ------
        StateError
            If this object already has a learner.
        ValueError, TypeError
            If a learner does not fit, or this object has none and no `classes`.
        """
        if not self.__sklearn_is_fitted__():
            self.classes_ = self._public_classes("bind() needs the parameter")
        return super().bind(learner)

    def _public_classes(self, hint: str) -> NDArray[np.generic]:
        """Return the classes of the parameter; `ValueError` with a hint if it names none."""
        if self.classes is None or isinstance(self.classes, str):
            raise ValueError(
                "classes must be given, such as (0, 1), since which labels occur depends on the "
                f"data: {hint}"
            )
        return _check_classes(self.classes)

    def _find_public_classes(self, y: object, rows: int) -> Any:
        if isinstance(self.classes, str) and self.classes == "data":
            return _find_classes(_column(y, rows))
        return self._public_classes('"data" declares those that occur to be public')

    def _targets(self, y: object, rows: int, classes: Classes) -> FloatArray:
        assert classes is not None
        # Labels become Python's own objects, whose types are compared with those of the classes.
        return LabelMap(classes.tolist()).values(_column(y, rows).tolist())

    def _label_flags(self, y: object) -> Flags:
        return LabelMap(self.classes_.tolist()).nonprivate_flags(_array("y", y).ravel().tolist())

    def decision_function(self, X: object) -> FloatArray:
        """Return log-odds for rows clipped as in training.

        Of two classes those of the second one, shape (n,); of more those of each against all
        others, shape (n, classes).
        """
        margins = self._margins(X)
        return margins if margins.shape[1] > 1 else margins[:, 0]

    def predict_proba(self, X: object) -> FloatArray:
        """Return the probabilities of all classes, shape (n, classes).

        With more than two classes, they are the probabilities of each against all others, divided
        by their sum.
        """
        return probabilities(self._margins(X))

    def predict(self, X: object) -> NDArray[np.generic]:
        """Return the most probable class of each row, the first one on a tie, shape (n,)."""
        margins = self._margins(X)
        return self.classes_[most_probable(margins)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # what noise leaves of it depends on the budget
        return tags


def _check_classes(classes: Any) -> NDArray[np.generic]:
    """Return public classes as `classes_` has them: an array, sorted."""
    if np.ndim(classes) != 1:
        raise ValueError("classes must be two different labels, or more")
    LabelMap(list(classes))  # before NumPy makes two types one
    # scikit-learn wants `classes_` sorted.
    found: NDArray[np.generic] = np.unique(np.asarray(classes))
    if len(found) < len(classes):
        raise ValueError(
            "classes must be different labels, and still different without trailing zero characters"
        )
    return found


def _find_classes(y: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the classes that occur, for callers who declare these to be public."""
    if any(map(is_missing, y.tolist())) or (y.dtype.kind == "f" and not np.isfinite(y).all()):
        raise ValueError(
            "classes='data' needs labels that are all finite, but some labels of y are not"
        )
    check_classification_targets(y)
    found: NDArray[np.generic] = np.unique(y)
    if found.shape[0] < 2:
        raise ValueError("the data contain only one class, but two are needed")
    return found


class PrivateOnlineRegressor(RegressorMixin, _LinearEstimator):
    """Linear regression in one pass, with differentially private coefficients.

    Several targets a row, y of shape (n, outputs), have a learner each, which share the budget:
    ``docs/privacy/one_versus_rest.md``.

    Parameters
    ----------
    epsilon, delta, budget, horizon, learner, feature_bound, ranges, drift, fit_intercept
        As for `PrivateOnlineClassifier`.
    loss : {"squared", "huber"}
        The loss to minimise.
    label_bound : float, optional
        Targets are clipped to [-label_bound, label_bound]. Public as well. Required with
        `feature_bound`; without both, the range of targets is searched with those of features.
        With `prior` it bounds what targets differ from its predictions by.
    prior : (coefficients, intercept), optional
        Where learning starts, and what `radius` is measured from: coefficients that are public, or
        that were released before, such as ``(model.coef_, model.intercept_)``. Never coefficients
        that were fitted to raw records. If the same records were used for them, both guarantees add
        up: share a `ledger`. Shapes (d,) or (outputs, d), and () or (outputs,). Needs
        `feature_bound`.
    threshold : float, default 1.0
        Residual beyond which the Huber loss grows linearly.
    radius : float, optional
        As for `PrivateOnlineClassifier`. Default: sqrt(d) `label_bound` / `feature_bound` (l1:
        without the root).
    participation, options, ledger, random_state
        As for `PrivateOnlineClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (d,) or (outputs, d)
        Published coefficients, with those of `prior`.
    intercept_ : float, or ndarray of shape (outputs,)
        Published intercept; 0 if there is none.
    n_features_in_ : int
        Number of features.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        For bad arguments, by `fit` and `partial_fit`; messages never contain data.
    HorizonExceeded
        For rows past the horizon; none of them is learned.

    Notes
    -----
    Clipping, pickles and copies: as for `PrivateOnlineClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpoco.adapters.sklearn import PrivateOnlineRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 3))
    >>> y = X @ [1.0, -0.5, 0.0] + 0.2
    >>> model = PrivateOnlineRegressor(
    ...     epsilon=1.0, delta=1e-6, feature_bound=1.0, label_bound=1.0)
    >>> bool(model.fit(X, y).score(X, y) > 0.7)
    True
    >>> model.coef_.shape
    (3,)
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | literals.Stated | None = "epsilon, delta",
        horizon: int | None = None,
        loss: literals.RegressionLoss = "squared",
        learner: literals.LinearLearner = "auto",
        feature_bound: float | None = None,
        ranges: literals.Ranges | None = None,
        drift: bool = False,
        label_bound: float | None = None,
        prior: Any = None,
        threshold: float = 1.0,
        radius: float | None = None,
        fit_intercept: bool = True,
        participation: Participation | None = None,
        options: Arguments | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self._keep(locals())

    def partial_fit(
        self, X: object, y: object, persons: People = None, **refused: NoReturn
    ) -> PrivateOnlineRegressor:
        """Go on with more rows, in their order; the first call makes the learner.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Dense or sparse, and real.
        y : array_like of shape (n,) or (n, outputs)
            Targets.
        persons : array_like of int, str or bytes with shape (n,), optional
            The persons behind the rows, if a participation is enforced.
        """
        refuse(refused)
        return self._go_on(X, y, persons, None)

    def _publish(self) -> None:
        coefficients, intercepts = self._model.coefficients
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
        if self._outputs > 1:
            self.coef_, self.intercept_ = coefficients, intercepts

    def predict(self, X: object) -> FloatArray:
        """Return predictions, shape (n,) or (n, outputs), for rows clipped as in training."""
        margins = self._margins(X)
        return margins if self._outputs > 1 else margins[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # what noise leaves of it depends on the budget
        return tags


def expected_failed_checks(estimator: object) -> dict[str, str]:
    """Return the checks of ``check_estimator`` that private estimators cannot pass, and why.

    Parameters
    ----------
    estimator : PrivateOnlineClassifier or PrivateOnlineRegressor
        A classifier is checked with ``classes="data"``, because the checks bring their own labels.

    Returns
    -------
    dict
        Name of the check to the reason, for the argument of the same name.
    """
    reasons = {}
    if not isinstance(estimator, PrivateOnlineClassifier):
        reasons["check_supervised_y_no_nan"] = (
            "whether a target is finite is private: such a row counts as an empty record, and no "
            "exception depends on it"
        )
    elif estimator.learner not in WEIGHTED:
        reasons["check_class_weight_classifiers"] = f"weights are for {', '.join(WEIGHTED)}"
    if getattr(estimator, "horizon", None) is None:
        reasons["check_fit_score_takes_y"] = (
            "goes on with partial_fit after a fit whose horizon, the number of its rows, is used up"
        )
    return reasons
