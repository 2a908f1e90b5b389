"""Private learners as river estimators and bandit policies (extra ``adapters``).

Estimators learn from one record at a time: ``learn_one(x, y)`` is one round. ``predict_one(x)``
plays no round, draws nothing, and works before the first record and after the horizon.
``docs/adapters.md`` lists what leaks outside of them, most of all scalers that learn.

river's own policies store and print the mean reward of every arm. These policies do not: their
representation shows arguments and the guarantee, and their ranking shows published numbers only.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

try:
    from river import bandit, base, compose, preprocessing
except ImportError:
    raise ImportError(
        'dpoco.adapters.river needs river: pip install "dpoco[adapters]"', name="river"
    ) from None

from dpoco import _literals as literals
from dpoco._clipping import Flags, context_flags
from dpoco._validation import FloatArray, choice, float_array, number
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.ledger import Ledger
from dpoco.adapters._arguments import (
    ELSEWHERE,
    Arguments,
    callers,
    check_ledger,
    check_options,
    make_source,
    own_arguments,
    refuse,
    refuse_changes,
    warn_of_learning,
)
from dpoco.adapters._features import FeatureMap, LabelMap, Record, public_scaling, scale_rows
from dpoco.adapters._linear import LinearModel, most_probable, probabilities
from dpoco.domains import LpBall
from dpoco.errors import RoundOrderError, StateError
from dpoco.learners import learner_named
from dpoco.learning.participation import Participation
from dpoco.learning.tickets import Ticket
from dpoco.ranges import FoundRanges
from dpoco.trace import RecordShares

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["PrivateBandit", "PrivateClassifier", "PrivateContextualBandit",
           "PrivateExperts", "PrivateRegressor", "PublicScaler"]  # fmt: skip


# The methods of river's base classes, which do not learn.
_SILENT = (base.Transformer.learn_one, base.SupervisedTransformer.learn_one)


def _steps_that_learn(steps: Iterable[object]) -> Iterator[object]:
    """Yield the transformers of a pipeline that learn from data."""
    for step in steps:
        if isinstance(step, (compose.TransformerUnion, compose.TransformerProduct)):
            yield from _steps_that_learn(step.transformers.values())
        elif isinstance(step, compose.Pipeline):
            yield from _steps_that_learn(step.steps.values())
        elif isinstance(step, (preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder)):
            # An encoder with given categories does not learn from records.
            if getattr(step, "categories", None) is None:
                yield step
        elif getattr(type(step), "learn_one", _SILENT[0]) not in _SILENT:
            yield step


class PublicScaler(base.MiniBatchTransformer):
    """Map declared ranges to [-1, 1], and records into the l2 ball of radius 1, without learning.

    Parameters
    ----------
    ranges : mapping of names to (float, float)
        Lowest and highest value of each feature. They are public, and never taken from the data.
        Values outside count as the nearest end. Other features pass unchanged, and missing ones
        stay missing.
    norm : {"l2", "max"}, default "l2"
        Norm of the ball: "l2" divides by the root of the number of names; "max", for
        "polyhedral_frank_wolfe", does not.

    Raises
    ------
    ValueError, TypeError
        For bad ranges; raised immediately.

    Examples
    --------
    >>> from dpoco.adapters.river import PublicScaler
    >>> PublicScaler({"age": (0, 100)}).transform_one({"age": 75.0, "user": "u7"})
    {'age': 0.5, 'user': 'u7'}
    """

    def __init__(
        self, ranges: Mapping[str, tuple[float, float]], norm: literals.Norm = "l2"
    ) -> None:
        self.ranges, self.norm = ranges, norm
        if not isinstance(ranges, Mapping):
            raise TypeError(f"ranges must be a mapping of names; got {type(ranges).__name__}")
        self._features = FeatureMap(list(ranges))
        self._scaling = public_scaling(list(ranges.values()))
        # A bad norm raises here and not with the first record.
        self._scale([{}])

    def _scale(self, records: Iterable[Record]) -> FloatArray:
        return scale_rows(self._scaling, self.norm, self._features.rows(records))

    def transform_one(self, x: Record) -> dict[Any, object]:
        """Return the record with its named features scaled."""
        row = dict(zip(self.ranges, self._scale([x])[0].tolist(), strict=True))
        return {**x, **{name: row[name] for name in row if x.get(name) is not None}}

    def transform_many(self, X: DataFrame) -> DataFrame:
        """Return the DataFrame with its named features scaled, in their columns."""
        import pandas as pd

        # Two columns of one name would both get the values of one of them.
        if not X.columns.is_unique:
            raise ValueError("the table has two columns of one name")
        rows = [self.transform_one(record) for record in X.to_dict("records")]
        return pd.DataFrame(rows, index=X.index, columns=X.columns)

    @classmethod
    def _unit_test_params(cls) -> Iterator[Arguments]:
        # In river's checks, the names of features are numbers.
        yield {"ranges": {"0": (-1.0, 1.0)}}


class _LinearEstimator:
    """Base of both estimators: features in, one round per record, published numbers out."""

    _features: FeatureMap
    _model: LinearModel
    ledger: Ledger | None
    _has_looked: bool = False  # whether it has checked for steps that learn
    _is_charged: bool = False

    def _begin(self, arguments: Arguments) -> None:
        """Store a constructor's arguments, from which river clones, and make the learner."""
        # River reads arguments from attributes with their names: to clone, compare and show them.
        vars(self).update(own_arguments(arguments))
        person, rule = arguments["person"], arguments["participation"]
        if (person is not None) != (rule is not None and rule.enforced):
            raise ValueError(
                "person and an enforced participation need each other: pass both or neither"
            )
        check_ledger(arguments["ledger"])
        # A search for ranges must not count a missing value, and 0 would be a value.
        absent = math.nan if arguments["feature_bound"] is None else 0.0
        self._features = FeatureMap(arguments["features"], person, absent)
        self._made_with = own_arguments(arguments)
        self._model = LinearModel.of(arguments, self._features.dimension)

    @property
    def learner_(self) -> Any:
        """The underlying learner; with more than two classes, a tuple with one for each.

        Their `save` stores their state, which is as secret as the data.

        Raises
        ------
        StateError
            For an unpickled copy, because a pickle of a started estimator contains only what it has
            published.
        """
        return self._model.learner

    @property
    def ranges_(self) -> FoundRanges | None:
        """The ranges that were found, which may be published; None before, or if they are declared.

        Coefficients belong to records scaled by them. If the range of labels was searched, it is
        the last one.
        """
        return self._model.published.ranges

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything from which predictions are computed."""
        return self._model.published.guarantee

    @property
    def round(self) -> int:
        """Number of records learned so far."""
        return self._model.published.round

    @property
    def weights(self) -> Any:
        """Published coefficients: by name, or of the hashed entries, shape (d,).

        With more than two classes, a dictionary of these by label.
        """
        order, rows = self._features.names, self._model.coefficients[0]
        if order is None:
            return self._by_class(rows)
        return self._by_class([dict(zip(order, row, strict=True)) for row in rows.tolist()])

    @property
    def intercept_value(self) -> Any:
        """Published intercept; 0 if there is none. With more than two classes, by label."""
        return self._by_class(self._model.coefficients[1].tolist())

    def _by_class(self, values: Sequence[object] | FloatArray) -> Any:
        """Return the value of a single output, or of several classes by label."""
        return values[0]

    def learn_one(self, x: Record, y: object, **refused: NoReturn) -> None:
        """Play one round with a record.

        Parameters
        ----------
        x : mapping of names to numbers
        y : label or float
            The label. If it is not among the `classes`, or is a non-finite number, the record
            counts as empty; other numbers are clipped.

        Raises
        ------
        HorizonExceeded
            After the horizon; nothing is drawn and nothing changes.
        StateError
            For an unpickled copy.
        TypeError
            If a feature is not a number, if a label is neither a number nor of the classes' type,
            or if a weight is given.
        ValueError
            If a record lacks its `person`.
        """
        refuse(refused)
        self._look()
        features = self._features
        self._model.learn_one(features.row(x), self._target(y), features.find_person(x))

    def learn_many(self, X: DataFrame, y: Iterable[object]) -> None:
        """Play one round per row of a DataFrame, in order; same decisions as `learn_one`.

        Raises
        ------
        HorizonExceeded
            If there are not enough rounds for all rows; no round is played.
        """
        self._look()
        features = self._features
        rows, labels, persons = features.rows(X), self._targets(y), features.persons(X)
        with self._model.watch_call(len(rows)):
            self._model.learn_many(rows, labels, persons)

    def _look(self) -> None:
        """Raise if a parameter was changed; warn once about other learning steps of a pipeline."""
        own = {name: vars(self)[name] for name in self._made_with}
        refuse_changes(self._made_with, own, "make another estimator, with its own budget")
        if not self._has_looked:
            self._has_looked = True
            # The last step of the pipeline is this estimator.
            steps = (list(each.steps.values())[:-1] for each in callers(compose.Pipeline))
            warn_of_learning(each for own in steps for each in _steps_that_learn(own))
        # The first record charges the ledger, so an estimator that never learns spends nothing.
        if self.ledger is not None and not self._is_charged:
            label = f"{type(self).__name__} of {self._made_with['horizon']} rounds"
            self.ledger.charge(self.guarantee, label)
            self._is_charged = True

    def __getstate__(self) -> Arguments:
        state = dict(vars(self))
        # A published model needs no ledger. An estimator that has not learned cannot be pickled
        # without its ledger.
        if self.round and self.ledger is not None:
            state |= {"ledger": ELSEWHERE, "_made_with": {**self._made_with, "ledger": ELSEWHERE}}
        return state

    def clone(self, new_params: Arguments | None = None, include_attributes: bool = False) -> Any:
        """Return an estimator that has not learned; a ledger is shared and charged for each."""
        # river's own clone copies arguments, and a copied ledger would have the whole budget again.
        if self.ledger is None or include_attributes:
            return super().clone(new_params, include_attributes)  # type: ignore[misc]  # river's
        own = {name: value for name, value in self._made_with.items() if name != "ledger"}
        return type(self)(**{**copy.deepcopy(own), "ledger": self.ledger, **(new_params or {})})

    def bind(self, learner: Any) -> None:
        """Continue with learners that `dpoco.load` has restored and that were charged before.

        Parameters
        ----------
        learner : learner, or sequence of learners
            A learner of this estimator's kind and bounds, which nobody else may use from now on.
            With more than two classes, one for each, in the order of `classes`.

        Raises
        ------
        StateError
            If this estimator has already learned.
        ValueError, TypeError
            If the learner does not fit.
        """
        self._model.bind(learner)
        self._is_charged = True

    def nonprivate_records(
        self, X: DataFrame | Iterable[Record], y: Iterable[object]
    ) -> RecordShares:
        """Return how this estimator reads records, for evaluation only. It learns nothing.

        **Not private**: it counts raw records, so do not publish it.

        Parameters
        ----------
        X : sequence of mappings, or pandas.DataFrame
            Records, as for `learn_one` or `learn_many`.
        y : iterable
            Their labels.

        Returns
        -------
        RecordShares
            It also lists by name which of the listed features are missing.
        """
        labels, rows = list(y), self._features.rows(X)
        return RecordShares.of(
            {
                **self._model.nonprivate_flags(rows, self._targets(labels)),
                **self._label_flags(labels),
            },
            self._features.nonprivate_flags(X),
            names=self._features.names,
        )

    def _target(self, y: object) -> float:
        """Return a label as used by learners: NaN if it is missing or not one of the classes."""
        raise NotImplementedError

    def _targets(self, y: Iterable[object]) -> FloatArray:
        """Return many labels as used by learners, shape (n,)."""
        return np.array([self._target(value) for value in y], dtype=np.float64)

    def _label_flags(self, y: list[object]) -> Flags:
        return {}

    def _margins(self, x: Record) -> FloatArray:
        """Return the margins of a record, shape (1, outputs)."""
        return self._model.margins(self._features.row(x)[None, :])

    def predict_many(self, X: DataFrame) -> Series:
        """Return a Series with the result of `predict_one` for each row of a DataFrame."""
        import pandas as pd

        margins = self._model.margins(self._features.rows(X))
        return pd.Series(self._predictions(margins), index=X.index)

    def predict_one(self, x: Record, **kwargs: object) -> Any:
        """Return the prediction for a record, which is clipped like those in training.

        No round is played. For labels: the most probable one, or the first one in case of a tie.
        """
        return self._predictions(self._margins(x))[0]

    def _predictions(self, margins: FloatArray) -> list[Hashable]:
        """Return a prediction for each row of margins, shape (n, outputs)."""
        return margins[:, 0].tolist()  # type: ignore[no-any-return]


class PrivateClassifier(_LinearEstimator, base.MiniBatchClassifier):
    """Logistic regression whose published coefficients are differentially private.

    With more than two classes, each is learned against the others:
    ``docs/privacy/one_versus_rest.md``.

    Parameters
    ----------
    features : sequence of str, or int
        Public names of the features, or the number of entries to which names are hashed. Never take
        them from the data: a model that grows with the features in the data reveals them. Names
        that are not listed are ignored, and missing ones count as 0.
    horizon : int or None
        Largest number of records that may ever be learned. None: unknown, which is not possible for
        "polyhedral" and "coupled" learners. This and all following arguments are keyword-only.
    epsilon, delta : float, optional
        The budget of all records together, if `budget` is not given.
    budget : Budget or None, optional
        Replaces `epsilon` and `delta`; None switches privacy off.
    learner : {"auto", "tree_frank_wolfe", "polyhedral_frank_wolfe", "noisy_ftrl", "noisy_newton", \
"coupled_regularized_leader"}
        The learner. "auto" takes the one with the least expected regret (`dpoco.choose`).
        "polyhedral_frank_wolfe" is for many bounded features.
    classes : sequence of labels, default (False, True)
        Two or more labels, which are public. With more than two, each has its own learner, which
        distinguishes it from all others, and they share the budget. A record with another label
        silently counts as empty. A label of another type is an error: texts for numbers, and bools
        for numbers other than 0 and 1.
    class_weight : mapping of labels to float, optional
        Weights of the losses of the classes, by default 1. They are public constants, so not
        "balanced", which would count labels. With more than two classes, each class's learner
        weights its own class by its weight, and all others by the mean of theirs. The two weights
        of a learner are divided by the larger one, so no record counts more than without weights.
        Probabilities are then those of a stream in which the frequencies of the classes are changed
        by the weights. For "noisy_newton" and "noisy_ftrl".
    feature_bound : float, optional
        Records are clipped to this l2 norm; for "polyhedral_frank_wolfe", to this maximum norm.
        After `PublicScaler` it is 1. None: ranges are searched privately.
    ranges : "private", optional
        Replaces `feature_bound`: the first rounds, at least 500 and at most a tenth of the horizon,
        are used for a private search for the features' ranges. The learner gets all other rounds,
        scaled by these ranges (`dpoco.ranges`). One guarantee covers both. Missing values are then
        0.
    drift : bool, default False
        Whether the stream drifts. Then "auto" prefers a learner that forgets, if there is one for
        the loss.
    radius : float, optional
        Largest l2 norm of the coefficients, including the intercept in units of `feature_bound`;
        for "polyhedral_frank_wolfe" the l1 norm. A larger value fits better and needs more noise.
        Default: 4 sqrt(d) / `feature_bound` (l1: without the root).
    intercept : bool, default True
        Whether there is an intercept.
    participation : Participation, optional
        How often one person may come; the budget then covers all these rounds together.
    person : str, optional
        Name of the entry of `x` that identifies the person and is not a feature; required if the
        participation is enforced.
    options : dict, optional
        More arguments of the learner, for example "batch".
    ledger : dpoco.accounting.ledger.Ledger, optional
        Ledger that is charged, or refuses, before the first record is learned. Clones share it.
    seed : int, optional
        Source of reproducible noise, for tests and simulation; it voids the guarantee.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        For bad arguments; raised immediately. After the horizon `learn_one` raises
        `HorizonExceeded`.

    Notes
    -----
    O(d) per record and prediction with the default learner, for each learner. Features and labels
    beyond their bounds are silently clipped, and non-finite values make a record empty.

    Examples
    --------
    >>> from dpoco.adapters.river import PrivateClassifier
    >>> model = PrivateClassifier(
    ...     ("age", "income"), horizon=10_000, epsilon=1.0, delta=1e-6, feature_bound=1.0)
    >>> model.predict_proba_one({"age": 0.3})
    {False: 0.5, True: 0.5}
    >>> model.learn_one({"age": 0.3, "income": 0.8}, True)
    >>> model.round
    1
    """

    classes: Sequence[Hashable]

    def __init__(
        self,
        features: Sequence[str] | int,
        *,
        horizon: int | None,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | literals.Stated | None = "epsilon, delta",
        learner: literals.LinearLearner = "auto",
        classes: Sequence[Hashable] = (False, True),
        class_weight: Mapping[Any, float] | None = None,
        feature_bound: float | None = None,
        ranges: literals.Ranges | None = None,
        drift: bool = False,
        radius: float | None = None,
        intercept: bool = True,
        participation: Participation | None = None,
        person: str | None = None,
        options: Arguments | None = None,
        ledger: Ledger | None = None,
        seed: int | None = None,
    ) -> None:
        self._labels = LabelMap(classes)
        self._begin(locals())

    def predict_proba_one(self, x: Record, **kwargs: object) -> dict[Hashable, float]:
        """Return the probabilities of all labels; no round is played."""
        return dict(zip(self.classes, probabilities(self._margins(x))[0].tolist(), strict=True))

    def _predictions(self, margins: FloatArray) -> list[Hashable]:
        return [self.classes[place] for place in most_probable(margins)]

    def predict_proba_many(self, X: DataFrame) -> DataFrame:
        """Return a DataFrame with the probabilities of all labels for each row."""
        import pandas as pd

        margins = self._model.margins(self._features.rows(X))
        return pd.DataFrame(probabilities(margins), index=X.index, columns=list(self.classes))

    def _by_class(self, values: Sequence[object] | FloatArray) -> Any:
        return dict(zip(self.classes, values, strict=True)) if self._multiclass else values[0]

    @property
    def _multiclass(self) -> bool:
        return len(self.classes) > 2

    def _target(self, y: object) -> float:
        return self._labels.value(y)

    def _label_flags(self, y: list[object]) -> Flags:
        return self._labels.nonprivate_flags(y)

    @classmethod
    def _unit_test_params(cls) -> Iterator[Arguments]:
        for learner in ("tree_frank_wolfe", "noisy_ftrl"):
            yield {
                "features": 16, "horizon": 5000, "budget": Budget(4.0, 1e-6), "learner": learner,
                "feature_bound": 1.0,
            }  # fmt: skip


class PrivateRegressor(_LinearEstimator, base.MiniBatchRegressor):
    """Linear regression whose published coefficients are differentially private.

    Parameters
    ----------
    features, horizon, epsilon, delta, budget, learner, feature_bound, ranges, drift, intercept
        See `PrivateClassifier`.
    loss : {"squared", "huber"}
        The loss to minimise.
    label_bound : float, optional
        Labels are clipped to [-label_bound, label_bound]. Required with `feature_bound`. Without
        both, the range of labels is searched together with those of features.
    threshold : float, default 1.0
        Residual beyond which the Huber loss grows linearly.
    radius : float, optional
        See `PrivateClassifier`. Default: sqrt(d) `label_bound` / `feature_bound` (l1: without the
        root).
    participation, person, options, ledger, seed
        See `PrivateClassifier`.

    Raises
    ------
    ValueError, TypeError, CalibrationError
        For bad arguments; raised immediately. After the horizon `learn_one` raises
        `HorizonExceeded`.

    Examples
    --------
    >>> from dpoco.adapters.river import PrivateRegressor
    >>> model = PrivateRegressor(
    ...     ("age", "income"), horizon=10_000, epsilon=1.0, delta=1e-6, feature_bound=1.0,
    ...     label_bound=2.0)
    >>> model.learn_one({"age": 0.3, "income": 0.8}, 1.2)
    >>> model.guarantee.delta
    1e-06
    """

    def __init__(
        self,
        features: Sequence[str] | int,
        *,
        horizon: int | None,
        epsilon: float | None = None,
        delta: float | None = None,
        budget: Budget | literals.Stated | None = "epsilon, delta",
        loss: literals.RegressionLoss = "squared",
        learner: literals.LinearLearner = "auto",
        feature_bound: float | None = None,
        ranges: literals.Ranges | None = None,
        drift: bool = False,
        label_bound: float | None = None,
        threshold: float = 1.0,
        radius: float | None = None,
        intercept: bool = True,
        participation: Participation | None = None,
        person: str | None = None,
        options: Arguments | None = None,
        ledger: Ledger | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(locals())

    def _target(self, y: object) -> float:
        return number("the label", y)

    @classmethod
    def _unit_test_params(cls) -> Iterator[Arguments]:
        for loss in ("squared", "huber"):
            yield {
                "features": 16, "horizon": 5000, "budget": Budget(4.0, 1e-6), "loss": loss,
                "feature_bound": 1.0, "label_bound": 1.0,
            }  # fmt: skip


_BANDIT_OWN = frozenset({
    "arms", "dimension", "domain", "horizon", "budget", "context_bound", "reward_bound",
    "on_violation", "source",
})  # fmt: skip
_BANDIT = "linucb"
_POLICIES = {_BANDIT: _BANDIT, "high_dimensional": "high-dimensional-bandit"}
_EXPERTS = ("prefix_hedge", "batch_share", "oblivious_tracker")
_EXPERTS_OWN = frozenset({"experts", "horizon", "budget", "loss_range", "on_violation", "source"})


class _Policy:
    """Base of the policies: a public list of arms, and a learner that decides and learns in turn.

    river lets callers update any arm with any reward at any time. A private learner cannot allow
    this: its noise is accounted for one record per round, of the chosen arm.
    """

    arms: Sequence[Hashable]
    _learner: Any
    _n: int
    _tested_with: ClassVar[Arguments]  # additional arguments for river's checks

    def _begin(self, arguments: Arguments) -> None:
        """Store a constructor's arguments, from which river clones, and check the arms."""
        super().__init__()  # river's constructor, which counts pulls
        self._made_with = own_arguments(arguments)
        vars(self).update(self._made_with)
        self._index = {arm: index for index, arm in enumerate(self.arms)}
        if len(self._index) != len(self.arms) or len(self._index) < 2:
            raise ValueError("arms must be at least two, all different")

    @property
    def learner_(self) -> Any:
        """The underlying learner. Its `save` stores the state, which is as secret as the data."""
        return self._learner

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee; for contextual policies it is joint: only the user may see an arm."""
        guarantee: Guarantee = self._learner.guarantee
        return guarantee

    def _is_started(self) -> bool:
        return bool(self._learner._is_started())

    def _check_fresh(self) -> None:
        """Raise if a copy of this policy would share noise that was already drawn."""
        if self._is_started():
            raise StateError(
                "a started policy can neither be copied nor pickled, because the copy would "
                "share its noise; clone() makes a fresh one, learner_.save() keeps its state, "
                "dpoco.load and bind() continue it"
            )

    def bind(self, learner: Any) -> None:
        """Continue with a learner that `dpoco.load` has restored; nobody else may continue it.

        Raises
        ------
        StateError
            If this policy has started.
        ValueError, TypeError
            If the learner is of another kind, or was made with other arguments.
        """
        self._check_fresh()
        own = self._learner
        if type(learner) is not type(own):
            raise TypeError(
                f"the learner must be a {type(own).__name__}; got {type(learner).__name__}"
            )
        # A suspended copy is refused, because it shares its noise with the original.
        learner._check_active()
        mine, given = own.get_params(), learner.get_params()
        # The plan follows from the other arguments, and a loaded learner has its own noise.
        if any(mine[name] != given[name] for name in set(mine) - {"source", "plan"}):
            raise ValueError("the learner was made with other arguments than this policy")
        self._learner = learner

    def __reduce__(self) -> tuple[object, ...]:
        self._check_fresh()
        # The pickle contains only the arguments; unpickling makes a new learner.
        return partial(type(self), **self._made_with), ()

    def _pull(self, arm_ids: Iterable[Hashable], *context: object) -> Any:
        policy: Any = self  # river wraps this `pull`, and counts pulls
        return policy.pull(arm_ids, *context)

    def _check_arms(self, arm_ids: Iterable[Hashable]) -> None:
        """Raise unless a round has all arms: learners of experts compare them in every round."""
        if set(arm_ids) != set(self._index):
            raise ValueError("the learner chooses among all its arms: arm_ids must name them all")

    def _mask(self, arm_ids: Iterable[Hashable]) -> NDArray[np.bool_]:
        """Return which arms a round has, shape (K,)."""
        mask = np.zeros(len(self.arms), dtype=bool)
        mask[[self._arm(arm_id) for arm_id in arm_ids]] = True
        return mask

    def _arm(self, arm_id: Hashable) -> int:
        """Return the index of an arm; the error message does not contain the requested arm."""
        if arm_id not in self._index:
            raise ValueError("arm_id is none of this policy's arms")
        return self._index[arm_id]

    def _rank(self, scores: FloatArray) -> list[Hashable]:
        """Return the arms by their scores, the largest first, ties in their order."""
        return [self.arms[index] for index in np.argsort(-scores, kind="stable")]

    @classmethod
    def _unit_test_params(cls) -> Iterator[Arguments]:
        yield {"arms": (0, 1), "horizon": 10_000, "budget": Budget(4.0, 1e-6), **cls._tested_with}

    def __repr__(self) -> str:
        # Unlike river's table of mean rewards, this never shows what was learned.
        arguments: str = base.Base.__repr__(self)
        return f"{arguments}\n  {self.guarantee!r}"


class _BanditPolicy(_Policy):
    """Base of the bandit policies, which remember the decision whose reward has not arrived."""

    _skips: bool = False
    # Context and arms of the round, the chosen arm, and its ticket if not all arms were allowed.
    _waiting: tuple[tuple[bytes, bytes], int, Ticket | None] | None = None

    def _terms(self, context_bound: float) -> Arguments:
        """Return the learner's arguments that all bandits have."""
        given = self._made_with
        return {
            **check_options(given["options"], _BANDIT_OWN), "horizon": given["horizon"],
            "budget": given["budget"], "source": make_source(given["seed"]),
            "context_bound": context_bound, "reward_bound": given["reward_bound"],
        }  # fmt: skip

    def _is_started(self) -> bool:
        return self._waiting is not None or super()._is_started()

    def _choose(self, context: object, arm_ids: Iterable[Hashable]) -> Any:
        """Return the round's arm among the available ones; the same one until it is answered."""
        mask = self._mask(arm_ids)
        row = float_array("context", context, (self._learner.dimension,))
        if self._waiting is not None and self._skips:
            # Also for equal contexts, because the number of rounds must not depend on the data.
            self.skip()
        # Bytes compare exactly, even NaN.
        asked = row.tobytes(), mask.tobytes()
        if self._waiting is not None and self._waiting[0] != asked:
            raise RoundOrderError(
                "the last decision waits for its reward: update, or skip() the round; "
                'unanswered="skip" does this automatically'
            )
        if self._waiting is None:
            # Tickets add a condition to the guarantee, so they are not used if all arms are
            # available.
            if mask.all():
                self._waiting = asked, self._learner.decide(row), None
            else:
                arm, ticket = self._learner.decide(row, ticket=True, allowed=mask)
                self._waiting = asked, arm, ticket
        return self.arms[self._waiting[1]]

    def _answer(self, arm_id: Hashable, reward: object, context: object) -> None:
        """End the round with a reward, if it is for the arm and the context of the decision."""
        arm, row = self._arm(arm_id), float_array("context", context, (self._learner.dimension,))
        # River lets callers update at any time, but here each record belongs to one round.
        if self._waiting is None:
            raise RoundOrderError("update() without pull(): call pull() first, then update()")
        (waiting, _), chosen, ticket = self._waiting
        # The noise is accounted for one record of the chosen arm; another arm has another sum.
        if arm != chosen:
            raise RoundOrderError(
                "an update for another arm than the one chosen in this round: only rewards of "
                "the policy's own decisions can be learned from"
            )
        if row.tobytes() != waiting:
            raise RoundOrderError("an update for another context than that of the decision")
        self._learner.observe(reward, ticket=ticket)
        self._waiting = None
        self._n += 1

    def skip(self) -> None:
        """End a round whose reward never came; the noise advances as in any other round."""
        if self._waiting is None:
            raise RoundOrderError("no decision waits for a reward")
        self._learner.skip(ticket=self._waiting[2])
        self._waiting = None


class PrivateExperts(_Policy, bandit.base.Policy):
    """A choice among arms whose rewards are all seen later: prediction with expert advice.

    Parameters
    ----------
    arms : sequence
        Public names of the arms, at least two.
    horizon : int
        Number of rounds. This and all following arguments are keyword-only.
    budget : Budget or None
        Budget of all rounds together; None: no privacy.
    reward_range : (float, float)
        Required. Rewards are silently clipped to this range. It is public: never take it from the
        data.
    learner : {"prefix_hedge", "batch_share", "oblivious_tracker"}
        A learner of ``dpoco.experts``.
    options : dict, optional
        More arguments of the learner, for example "switches".
    seed : int, optional
        Source of reproducible noise, for tests and simulation; it voids the guarantee.

    Notes
    -----
    `update` takes the rewards of *all* arms. ``river.bandit.evaluate`` only passes the reward of
    one arm, so it is for the other policies.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.adapters.river import PrivateExperts
    >>> policy = PrivateExperts(
    ...     ("a", "b"), horizon=10_000, budget=dpoco.Budget(1.0, 1e-6), reward_range=(0.0, 1.0))
    >>> arm = policy.pull(["a", "b"])
    >>> policy.update(arm, {"a": 0.2, "b": 0.9})
    """

    reward_range: tuple[float, float]
    _tested_with: ClassVar[Arguments] = {"reward_range": (0.0, 1.0)}

    def __init__(
        self,
        arms: Sequence[Hashable],
        *,
        horizon: int,
        budget: Budget | None,
        reward_range: tuple[float, float],
        learner: literals.ExpertPolicy = "prefix_hedge",
        options: Arguments | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(locals())
        choice("learner", learner, _EXPERTS)
        self._learner = learner_named(learner).load()(
            len(arms), horizon=horizon, budget=budget, loss_range=reward_range,
            source=make_source(seed), **check_options(options, _EXPERTS_OWN),
        )  # fmt: skip

    def pull(self, arm_ids: Iterable[Hashable]) -> Any:
        """Return the round's arm, which stays the same until `update`."""
        self._check_arms(arm_ids)
        return self.arms[self._learner.decide()]

    def update(self, arm_id: Hashable, rewards: Record | Sequence[object]) -> None:
        """End the round with the rewards of all arms.

        Parameters
        ----------
        arm_id
            The pulled arm.
        rewards : mapping of arms to numbers, pandas.Series or sequence
            Rewards of all arms; a sequence is in the order of `arms`.

        Raises
        ------
        RoundOrderError
            Without a `pull`, or for another arm.
        ValueError, TypeError
            If there is not one number per arm; nothing changes.
        """
        values: Any = rewards
        # We do not check the type, because a pandas Series also has names but is not a Mapping.
        if hasattr(values, "keys"):
            if set(values.keys()) != set(self._index):
                raise ValueError("rewards must be those of all arms")
            values = [values[arm] for arm in self.arms]
        arm, (_, chosen) = self._arm(arm_id), self._learner._check_turn()
        if arm != chosen:
            raise RoundOrderError("an update for another arm than the one chosen in this round")
        row = float_array("rewards of all arms", values, (len(self.arms),))
        # The reflection maps the range onto itself, so losses have the range of the rewards. A
        # reward that is not finite becomes the lowest loss, as in the learner itself.
        self._learner.observe(float(self.reward_range[0]) + float(self.reward_range[1]) - row)
        self._n += 1

    @property
    def ranking(self) -> list[Hashable]:
        """Arms by published weight, the largest first; for "prefix_hedge"."""
        weights = getattr(self._learner, "weights", None)
        if weights is None:
            raise NotImplementedError("this learner publishes no weights")
        return self._rank(weights)


class PrivateBandit(_BanditPolicy, bandit.base.Policy):
    """A jointly private bandit without contexts: a linear one on a constant context.

    Parameters
    ----------
    arms : sequence
        Public names of the arms, at least two, including arms that become available later: `pull`
        names the arms of a round. Which arms these are must be public.
    horizon : int
        Number of rounds. This and all following arguments are keyword-only.
    budget : Budget or None
        Budget of all rounds together; None: no privacy.
    reward_bound : float
        Required. Rewards are silently clipped to [-reward_bound, reward_bound]. It is public: never
        take it from the data.
    options : dict, optional
        More arguments of the learner "linucb", for example "exploration".
    seed : int, optional
        Source of reproducible noise, for tests and simulation; it voids the guarantee.

    Notes
    -----
    The policy learns only rewards of the pulled arm, one per round; other updates raise
    `RoundOrderError`. After the horizon `pull` raises `HorizonExceeded`.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.adapters.river import PrivateBandit
    >>> policy = PrivateBandit(
    ...     ("a", "b"), horizon=10_000, budget=dpoco.Budget(1.0, 1e-6), reward_bound=1.0)
    >>> arm = policy.pull(["a", "b"])
    >>> policy.update(arm, 1.0)
    """

    _tested_with: ClassVar[Arguments] = {"reward_bound": 1.0}

    def __init__(
        self,
        arms: Sequence[Hashable],
        *,
        horizon: int,
        budget: Budget | None,
        reward_bound: float,
        options: Arguments | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(locals())
        # With the context 1, an arm's coefficient is its mean reward.
        terms = {"parameter_bound": reward_bound, **self._terms(1.0)}
        self._learner = learner_named(_BANDIT).load()(len(arms), 1, **terms)

    def pull(self, arm_ids: Iterable[Hashable]) -> Any:
        """Return the round's arm among `arm_ids`, which stays the same until `update` or `skip`."""
        return self._choose([1.0], arm_ids)

    def update(self, arm_id: Hashable, reward: object) -> None:
        """End the round with the reward of the pulled arm."""
        self._answer(arm_id, reward, [1.0])

    @property
    def ranking(self) -> list[Hashable]:
        """Arms by published mean reward, the largest first."""
        return self._rank(self._learner.coefficients[:, 0])


class PrivateContextualBandit(_BanditPolicy, bandit.base.ContextualPolicy):
    """A jointly private contextual bandit.

    Parameters
    ----------
    arms : sequence
        Public names of the arms, at least two, including arms that become available later: `pull`
        names the arms of a round. Which arms these are must be public.
    features : sequence of str, or int
        Public names of the contexts' features, or the number of entries to which names are hashed.
    horizon : int
        Number of rounds. This and all following arguments are keyword-only.
    budget : Budget or None
        Budget of all rounds together; None: no privacy.
    context_bound : float
        Required. Contexts are silently clipped to this norm: l2 for "linucb", the maximum norm for
        "high_dimensional". It is public: never take it from the data.
    reward_bound : float
        Required. Rewards are clipped to [-reward_bound, reward_bound]; 1 for a logistic link, which
        clips them to [0, 1]. It is also public.
    learner : {"linucb", "high_dimensional"}
        The bandit with this name in `dpoco.bandits`; "high_dimensional" plays on an l1 ball.
    radius : float, default 1.0
        Radius of the ball of an arm's coefficients, in l2 for "linucb", in l1 for
        "high_dimensional".
    unanswered : {"raise", "skip"}
        Behaviour of `pull` while a decision waits for its reward. "raise": for the same context it
        returns the same arm, and for another context it raises an error. "skip": for any context,
        it ends the waiting round without a reward, which counts towards the horizon, and begins the
        next round.
    options : dict, optional
        More arguments of the learner, for example "exploration".
    seed : int, optional
        Source of reproducible noise, for tests and simulation; it voids the guarantee.

    Notes
    -----
    An arm depends on its user's own context, so show it only to this user. The policy learns only
    rewards of the arm that it pulled, for the context for which it was pulled; other updates raise
    `RoundOrderError`. ``river.bandit.evaluate_offline`` needs ``unanswered="skip"``.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.adapters.river import PrivateContextualBandit
    >>> policy = PrivateContextualBandit(
    ...     ("a", "b"), ("age", "income"), horizon=100_000, budget=dpoco.Budget(1.0, 1e-6),
    ...     context_bound=1.0, reward_bound=1.0)
    >>> x = {"age": 0.3, "income": 0.8}
    >>> arm = policy.pull(["a", "b"], x)
    >>> policy.update(arm, x, 1.0)
    """

    _tested_with: ClassVar[Arguments] = {
        "features": 4, "context_bound": 1.0, "reward_bound": 1.0,
    }  # fmt: skip

    def __init__(
        self,
        arms: Sequence[Hashable],
        features: Sequence[str] | int,
        *,
        horizon: int,
        budget: Budget | None,
        context_bound: float,
        reward_bound: float,
        learner: literals.ArmPolicy = "linucb",
        radius: float = 1.0,
        unanswered: literals.Unanswered = "raise",
        options: Arguments | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(locals())
        self._features = FeatureMap(features)
        choice("learner", learner, _POLICIES)
        self._skips = choice("unanswered", unanswered, ("raise", "skip")) == "skip"
        dimension, terms = self._features.dimension, self._terms(context_bound)
        problem: object = dimension
        if learner == _BANDIT:
            terms = {"parameter_bound": radius, **terms}
        else:
            problem = LpBall(dimension, 1.0, radius)
        self._learner = learner_named(_POLICIES[learner]).load()(len(arms), problem, **terms)

    def pull(self, arm_ids: Iterable[Hashable], context: Record | None = None) -> Any:
        """Return the arm for this round's user among `arm_ids`; the same for the same context."""
        return self._choose(self._features.row(context or {}), arm_ids)

    def update(self, arm_id: Hashable, context: Record | None, reward: object) -> None:
        """End the round with the reward of the arm that was pulled for this context."""
        self._answer(arm_id, reward, self._features.row(context or {}))

    def nonprivate_records(self, contexts: DataFrame | Iterable[Record]) -> RecordShares:
        """Return how this policy reads contexts, for evaluation only. No round is played.

        **Not private**: it counts raw records, so do not publish it.

        Parameters
        ----------
        contexts : sequence of mappings, or pandas.DataFrame
        """
        rows = self._features.rows(contexts)
        return RecordShares.of(
            context_flags(rows, self._learner._context_norms(rows)),
            self._features.nonprivate_flags(contexts),
            names=self._features.names,
        )

    @property
    def ranking(self) -> list[Hashable]:
        """Not defined, because the best arm depends on the context."""
        raise NotImplementedError("which arm is best depends on the context")

    @classmethod
    def _unit_test_params(cls) -> Iterator[Arguments]:
        for given in super()._unit_test_params():
            yield from ({**given, "learner": name} for name in _POLICIES)
