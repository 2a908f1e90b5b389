"""What the river and the scikit-learn estimators share: one linear model, learned privately."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np

from dpoco import _core
from dpoco._choice import choose
from dpoco._clipping import record_flags
from dpoco._participation import Participation
from dpoco._record_learner import RecordLearner
from dpoco._validation import FloatArray, choice, positive_float, positive_int
from dpoco.accounting import Budget, Guarantee
from dpoco.domains import LpBall
from dpoco.errors import StateError
from dpoco.learners import LEARNERS, learner_of
from dpoco.losses import GlmLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source
from dpoco.trace import Flags

_AUTO = "auto"
_NAMED = {each.snake_name: each for each in LEARNERS if each.ball is not None}
_OWN = frozenset({"domain", "loss", "horizon", "budget", "participation", "on_violation", "source"})
# Rounding may lengthen a record that was clipped here by this much.
_SLACK = 1.0 + 1e-12


_TERMS = ("horizon", "options", "seed", "participation")
# Margins of plus and minus 4 are probabilities of 2 and 98 %.
_REACH = 4.0

Stated = Literal["epsilon, delta"]
STATED: Stated = "epsilon, delta"


def refuse(names: Collection[str]) -> None:
    """Raise `TypeError` for further arguments of a method that learns."""
    if not names:
        return
    name = min(names)
    if name in ("sample_weight", "w"):
        raise TypeError(
            f"{name} is refused: a weight would scale a record's influence past the bound that the "
            "noise is for"
        )
    raise TypeError(f"unexpected argument {name!r}")


def stated_budget(arguments: Mapping[str, Any]) -> Budget | None:
    """Return the budget of an estimator's arguments: `budget`, or `epsilon` and `delta`."""
    budget, numbers = arguments["budget"], {name: arguments[name] for name in ("epsilon", "delta")}
    missing = [name for name, value in numbers.items() if value is None]
    if budget != STATED:
        if len(missing) < 2:
            raise ValueError("budget contains epsilon and delta: give it, or both of these")
        return budget  # type: ignore[no-any-return]  # checked by the learner
    if missing:
        raise TypeError(
            f"{' and '.join(missing)} must be given, or a budget (None switches privacy off)"
        )
    return Budget(**numbers)


def callers(kind: type) -> Iterator[Any]:
    """Yield the objects of a type whose methods are running: pipelines tell nobody of their steps.

    They are not seen from other processes, nor if they have returned before.
    """
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, kind):
            yield owner
        frame = frame.f_back


def warn_of_learning(steps: Iterable[Any]) -> None:
    """Warn of steps that learn from the records which a private estimator gets from them."""
    names = sorted({type(each).__name__ for each in steps})
    if names:
        warnings.warn(
            f"{', '.join(names)} before a private estimator: what a step learns from the data is "
            "not covered by the guarantee; use PublicScaler, or other steps with public constants",
            UserWarning,
            stacklevel=3,
        )


def own_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a constructor's arguments from its ``locals()``."""
    return {name: value for name, value in given.items() if name not in ("self", "__class__")}


def seeded_source(seed: Any) -> Source | None:
    """Return a reproducible source, which voids the guarantee, or None for real noise."""
    return None if seed is None else Source.seeded(seed)


def further_options(options: Mapping[str, Any] | None, own: frozenset[str]) -> dict[str, Any]:
    """Return further arguments of a learner; `ValueError` for those the adapter sets itself."""
    if own & set(options or {}):
        raise ValueError(f"options must not contain any of {sorted(own)}")
    rule = (options or {}).get("participation")
    if rule is not None and rule.enforced:
        raise ValueError("no persons are given: participation needs enforced=False")
    return dict(options or {})


@dataclass(frozen=True)
class LinearProblem:
    """A linear model with public bounds, and the learner for it.

    Attributes
    ----------
    loss : {"logistic", "squared", "huber"}
        The loss of a margin <coefficients, features> + intercept.
    learner : str
        Name of its class with underscores, or "auto": that of the least expected regret.
    dimension : int
        Number of features, without the intercept.
    feature_bound, label_bound, threshold : float
        Public bounds, and the Huber loss's threshold. Features are measured in l2, for
        "polyhedral_frank_wolfe" in the maximum norm.
    radius : float, optional
        Of the ball of coefficients, intercept included: l2, for "polyhedral_frank_wolfe" l1. None:
        margins in one feature reach 4 or `label_bound` if all features are about as large.
    intercept : bool
        Whether records get one more feature, the constant `feature_bound`.
    """

    loss: str
    learner: str
    dimension: int
    feature_bound: float = 1.0
    label_bound: float = 1.0
    threshold: float = 1.0
    radius: float | None = None
    intercept: bool = True

    @classmethod
    def of(cls, arguments: Mapping[str, Any], dimension: int) -> LinearProblem:
        """Return what an estimator's arguments state: a regression if a loss is among them."""
        stated = {each.name: arguments[each.name] for each in fields(cls) if each.name in arguments}
        if "loss" in stated:
            choice("loss", stated["loss"], ("squared", "huber"))
            bounds = ("feature_bound", "label_bound")
            missing = [name for name in bounds if stated.get(name, 1.0) is None]
            if missing:
                raise TypeError(
                    f"{' and '.join(missing)} must be given: records and labels are clipped to "
                    "them, so they decide what is learned, and they must be public; after "
                    "PublicScaler, feature_bound is 1"
                )
        return cls(**{"loss": "logistic", **stated, "dimension": dimension})

    def __post_init__(self) -> None:
        """Check everything here, before there are data."""
        choice("learner", self.learner, (_AUTO, *_NAMED))
        positive_int("dimension", self.dimension)
        for name in ("feature_bound", "label_bound", "threshold", "radius"):
            if name != "radius" or self.radius is not None:
                positive_float(name, getattr(self, name))
        if not isinstance(self.intercept, (bool, np.bool_)):
            raise TypeError(f"intercept must be a bool; got {type(self.intercept).__name__}")

    @property
    def _p(self) -> float:
        ball = 2.0 if self.learner == _AUTO else _NAMED[self.learner].ball
        assert ball is not None
        return ball

    def domain(self) -> LpBall:
        """Return the ball of coefficients."""
        radius = self.radius
        if radius is None:
            reach = _REACH if self.loss == "logistic" else float(self.label_bound)
            spread = math.sqrt(self.dimension) if self._p == 2.0 else 1.0
            radius = reach * spread / float(self.feature_bound)
        return LpBall(self.dimension + int(self.intercept), self._p, float(radius))

    def family(self) -> GlmLoss:
        """Return the loss with the bounds that its learner enforces."""
        bound = float(self.feature_bound) * _SLACK
        if self.intercept and self._p == 2.0:
            bound *= math.sqrt(2.0)  # of (x, c) with |x| <= c
        if self.loss == "logistic":
            return LogisticLoss(feature_bound=bound)
        if self.loss == "squared":
            return SquaredLoss(feature_bound=bound, label_bound=float(self.label_bound))
        return HuberLoss(
            feature_bound=bound, label_bound=float(self.label_bound), threshold=self.threshold
        )

    def make(
        self,
        horizon: int | None,
        budget: Budget | None,
        options: Mapping[str, Any] | None,
        seed: Any,
        participation: Participation | None = None,
    ) -> RecordLearner:
        """Return an unstarted learner; records over the bounds are always clipped, silently."""
        problem, more = (self.domain(), self.family()), further_options(options, _OWN)
        covered: dict[str, Any] = {
            "horizon": horizon, "budget": budget, "participation": participation,
        }  # fmt: skip
        source = seeded_source(seed)
        learner: RecordLearner
        if self.learner == _AUTO:
            if more:
                raise ValueError("options belong to one learner: name it instead of 'auto'")
            learner = choose(problem, **covered)[0].make(source=source)
        else:
            learner = _NAMED[self.learner].load()(*problem, **covered, source=source, **more)
        return learner

    def _multipliers(self, features: FloatArray) -> FloatArray:
        """Return what records are clipped by, shape (n,); 0 for those that are not finite."""
        order = math.inf if self._p == 1.0 else 2.0
        clipper = _core.RecordClipper(self.dimension, float(self.feature_bound), order, math.inf)
        return clipper.multipliers(np.ascontiguousarray(features))

    def rows(self, features: FloatArray) -> FloatArray:
        """Return records as the learner gets them, shape (n, d): clipped, with the constant.

        Features that are not finite stay so; the learner takes their record for zero.
        """
        d = self.dimension
        rows = np.empty((features.shape[0], d + int(self.intercept)))
        rows[:, d:] = self.feature_bound
        with np.errstate(all="ignore"):
            np.multiply(features, self._multipliers(features)[:, None], out=rows[:, :d])
        return rows

    def nonprivate_flags(self, features: FloatArray, labels: FloatArray) -> Flags:
        """Return how records and labels are read, shapes (n,) and (n, d). **Not private**."""
        flags = record_flags(self._multipliers(features), labels, self.family().label_range)
        return {**flags, "missing": ~np.isfinite(features)}

    def margins(self, theta: FloatArray, features: FloatArray) -> FloatArray:
        """Return <theta, record> of clipped records, shape (n,); 0 for those that are not finite.

        One by one, so that a prediction does not depend on what it is asked together with.
        """
        rows = self.rows(features)
        rows[~np.isfinite(rows).all(axis=1), : self.dimension] = 0.0
        margins: FloatArray = np.einsum("ij,j->i", rows, theta)
        return margins


class Published(NamedTuple):
    """What a learner has published: decision, rounds learned, and the guarantee of all of it."""

    theta: FloatArray
    round: int
    guarantee: Guarantee


class LinearModel:
    """A learner and what it has published.

    A pickle of a started model carries what it has published and nothing else: it predicts, and
    does not learn. Copies of a started model are refused, like those of its learner.

    Parameters
    ----------
    problem : LinearProblem
    terms : dict
        Horizon, budget, options, seed and participation of the learner.
    published : Published, optional
        What a pickle carries in place of the learner.
    """

    def __init__(
        self, problem: LinearProblem, terms: dict[str, Any], published: Published | None = None
    ) -> None:
        self.problem, self._terms, self._published = problem, terms, published
        self._learner = problem.make(**terms) if published is None else None

    @classmethod
    def of(cls, arguments: Mapping[str, Any], dimension: int, learner: Any = None) -> LinearModel:
        """Return the model an estimator's arguments state; of a loaded learner as `bind` does."""
        problem = LinearProblem.of(arguments, dimension)
        terms = {name: arguments[name] for name in _TERMS} | {"budget": stated_budget(arguments)}
        if learner is None:
            return cls(problem, terms)
        model = cls.__new__(cls)
        model.problem, model._terms, model._learner = problem, terms, None
        model.bind(learner)
        return model

    @property
    def learner(self) -> RecordLearner:
        """The learner; `StateError` if this is a published model only."""
        if self._learner is None:
            raise StateError(
                "this copy holds what was published, not the learner: save the learner itself, "
                "load it with dpoco.load and bind() it to continue"
            )
        return self._learner

    @property
    def published(self) -> Published:
        """What was published so far: free to use."""
        if self._learner is None:
            assert self._published is not None
            return self._published
        learner = self._learner
        return Published(learner.last_decision, learner.round, learner.guarantee)

    @property
    def coefficients(self) -> tuple[FloatArray, float]:
        """Published coefficients of the features, shape (d,), and the intercept."""
        problem, theta = self.problem, self.published.theta
        last = float(theta[-1]) * float(problem.feature_bound) if problem.intercept else 0.0
        return theta[: problem.dimension].copy(), last

    def learn_one(self, features: FloatArray, label: float, person: Any = None) -> None:
        """Play one round."""
        learner = self.learner
        learner.decide()
        learner.observe(self.problem.rows(features[None, :])[0], label, person=person)

    def learn_many(self, features: FloatArray, labels: FloatArray, persons: Any = None) -> None:
        """Play one round a row, with the same decisions; none if the horizon does not allow all."""
        rows = self.problem.rows(features)
        self.learner.run(rows, labels, persons=persons, record_decisions=False)

    def margins(self, features: FloatArray) -> FloatArray:
        """Return the margins of records: post-processing, no round is played."""
        return self.problem.margins(self.published.theta, features)

    def bind(self, learner: Any) -> None:
        """Go on with a learner that was saved and loaded, or unpickled and resumed.

        Raises
        ------
        StateError
            If this model learns already.
        ValueError, TypeError
            If the learner is of another kind, or learns another problem.
        """
        if self._learner is not None and self._learner._is_started():
            raise StateError("this model has started to learn already")
        named = self.problem.learner
        known = [*_NAMED.values()] if named == _AUTO else [_NAMED[named]]
        if learner_of(type(learner)) not in known:
            wanted = " or ".join(each.class_name for each in known)
            raise TypeError(f"the learner must be a {wanted}; got {type(learner).__name__}")
        learner._check_active()
        if learner.domain != self.problem.domain() or learner.loss != self.problem.family():
            raise ValueError("the learner has another domain or loss than this model")
        if learner.get_params()["participation"] != self._terms["participation"]:
            raise ValueError("the learner has another participation than this model")
        self._learner = learner

    def __reduce__(self) -> tuple[Any, ...]:
        if self._learner is not None and not self._learner._is_started():
            return LinearModel, (self.problem, self._terms)
        published = self.published
        kept = published._replace(theta=published.theta.copy())
        return LinearModel, (self.problem, self._terms, kept)

    def __deepcopy__(self, memo: Any) -> LinearModel:
        return self.__copy__()

    def __copy__(self) -> LinearModel:
        if self._learner is None or self._learner._is_started():
            raise StateError(
                "a started model cannot be copied, because the copy would share its noise; "
                "clone() makes a fresh one, and a pickle holds what was published"
            )
        return LinearModel(self.problem, self._terms)
