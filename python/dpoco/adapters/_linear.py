"""Shared parts of the river and scikit-learn estimators: one linear model, learned privately."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpoco import _core
from dpoco._clipping import Flags, record_flags
from dpoco._validation import FloatArray, choice, positive_float, positive_int
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.accounting.ranges import behind_ranges, split
from dpoco.adapters._arguments import Arguments, check_options, make_source, read_budget
from dpoco.adapters._features import LabelMap
from dpoco.domains import LpBall
from dpoco.errors import CalibrationError, HorizonExceeded, StateError
from dpoco.learners import LEARNERS, find_learner
from dpoco.learning.choice import choose
from dpoco.learning.participation import Participation, Person
from dpoco.learning.record_learner import RecordLearner
from dpoco.losses import GlmLoss, HuberLoss, LogisticLoss, MarginLoss, SquaredLoss
from dpoco.random import Source
from dpoco.ranges import FoundRanges, RangeFinder

_AUTO = "auto"
_NAMED = {each.snake_name: each for each in LEARNERS if each.ball is not None}
_OWN = frozenset({"domain", "loss", "horizon", "budget", "participation", "on_violation", "source"})
# Rounding may lengthen a record that was clipped here by this much.
_SLACK = 1.0 + 1e-12


Bound = RecordLearner | Sequence[RecordLearner]  # what a model goes on with
People = Sequence[Person] | None

_TERMS = ("horizon", "options", "seed", "participation")
_PAGE = "docs/privacy/one_versus_rest.md"
_FOUND_ELSEWHERE = (
    "the ranges are with the estimator that found them: unpickle it, and bind() there"
)
# Margins of plus and minus 4 are probabilities of 2 and 98 %.
_REACH = 4.0
# Labels are clipped to so many half-widths of the quantiles .1 and .9: means depend on tails.
_LABEL_WIDTHS = 2.0
# The table of a weighted loss; its slopes are then off by 5e-5 of the weight at most.
_STEP, _PIECES = 1.0 / 16.0, 2**16
_APART = 12.0  # between the margins of two classes: both slopes are below 1e-5 there
WEIGHTED = (_AUTO, "noisy_ftrl", "noisy_newton")
_ATTEMPTS = 20  # to share a budget: one or two are enough, a few where losses are no Gaussians'


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
        Radius of the ball of coefficients, intercept included: l2, for "polyhedral_frank_wolfe"
        l1. None: margins in one feature reach 4 or `label_bound` if all features are about as
        large.
    intercept : bool
        Whether records get one more feature, the constant `feature_bound`.
    outputs : int
        Number of margins, and of learners: of more than two classes, one for each.
    drift : bool
        Whether "auto" takes a learner that forgets.
    ranges : "private" or None
        Whether ranges of features are searched in the first rounds; then bounds are about scaled
        records.
    labels : bool
        Whether the range of labels is searched with them.
    prior : tuple of tuples of float, optional
        Known coefficients, shape (outputs, d), with an intercept (outputs, d + 1). The learners get
        the differences between labels and the predictions of these coefficients.
    weights : tuple of (float, float), optional
        For each output, of the logistic losses of labels 0 and 1, the larger one 1.
    """

    loss: str
    learner: str
    dimension: int
    feature_bound: float = 1.0
    label_bound: float = 1.0
    threshold: float = 1.0
    radius: float | None = None
    intercept: bool = True
    outputs: int = 1
    drift: bool = False
    ranges: str | None = None
    labels: bool = False
    prior: tuple[tuple[float, ...], ...] | None = None
    weights: tuple[tuple[float, float], ...] | None = None

    @classmethod
    def of(cls, arguments: Arguments, dimension: int) -> LinearProblem:
        """Return what an estimator's arguments state: a regression if a loss is among them."""
        stated = {each.name: arguments[each.name] for each in fields(cls) if each.name in arguments}
        if "loss" in stated:
            choice("loss", stated["loss"], ("squared", "huber"))
        bounds = ("feature_bound", "label_bound")
        if stated.get("ranges") is not None:
            choice("ranges", stated["ranges"], ("private",))
        if stated.get("ranges") is not None and stated.get("feature_bound", 1.0) is not None:
            raise ValueError(
                "ranges='private' is for unknown ranges: leave feature_bound out, or declare ranges"
            )
        if stated.get("feature_bound", 1.0) is None:
            labels = stated.get("label_bound", 1.0) is None
            found = {name: 1.0 for name in bounds if stated.get(name, 1.0) is None}
            # Ranges that are found scale records and labels into bounds of 1.
            stated |= {"ranges": "private", "labels": labels, **found}
        missing = [name for name in bounds if stated.get(name, 1.0) is None]
        if missing:
            raise TypeError(
                f"{' and '.join(missing)} must be given: records and labels are clipped to "
                "them, so they decide what is learned, and they must be public; after "
                "PublicScaler, feature_bound is 1"
            )
        classes = arguments.get("classes")
        if classes is not None:
            stated["outputs"] = len(classes) if len(classes) > 2 else 1
        if arguments.get("class_weight") is not None:
            stated["weights"] = _read_weights(arguments["class_weight"], list(arguments["classes"]))
        if stated.get("prior") is not None:
            if stated.get("ranges") is not None:
                raise ValueError("prior needs declared ranges: pass feature_bound")
            shape = (stated.get("outputs", 1), dimension)
            stated["prior"] = _read_prior(stated["prior"], shape, stated)
        return cls(**{"loss": "logistic", **stated, "dimension": dimension})

    def __post_init__(self) -> None:
        """Check everything here, before there are data."""
        choice("learner", self.learner, (_AUTO, *_NAMED))
        if self.drift and self.learner != _AUTO:
            raise ValueError(
                "drift=True needs learner='auto'; of a named learner pass an option such as "
                "half_life"
            )
        positive_int("dimension", self.dimension)
        for name in ("feature_bound", "label_bound", "threshold", "radius"):
            if name != "radius" or self.radius is not None:
                positive_float(name, getattr(self, name))
        if not isinstance(self.intercept, (bool, np.bool_)):
            raise TypeError(f"intercept must be a bool; got {type(self.intercept).__name__}")
        if self.weights is not None and self.learner not in WEIGHTED:
            raise ValueError(f"class_weight is for the learners {', '.join(WEIGHTED)}")

    @property
    def output(self) -> str:
        """The word for the unit that has its own learner: a class, or an output."""
        return "class" if self.loss == "logistic" else "output"

    @property
    def _p(self) -> float:
        """Exponent of the ball of coefficients; "auto" chooses among learners in l2."""
        ball = 2.0 if self.learner == _AUTO else _NAMED[self.learner].ball
        assert ball is not None
        return ball

    def domain(self) -> LpBall:
        """Return the ball of coefficients."""
        radius = self.radius
        if radius is None:
            reach = _REACH if self.loss == "logistic" else float(self.label_bound)
            spread = math.sqrt(self.dimension) if self._p == 2.0 else 1.0
            if self.ranges is not None and self._p == 2.0:
                spread *= 0.5  # records are divided by half of the root only
            radius = reach * spread / float(self.feature_bound)
        return LpBall(self.dimension + int(self.intercept), self._p, float(radius))

    def family(self, place: int = 0) -> MarginLoss:
        """Return an output's loss with the bounds that its learner enforces."""
        bound = self._row_bound
        if self.weights is not None:
            return _weighted_loss(self.weights[place], bound, self._code)
        if self.loss == "logistic":
            return LogisticLoss(feature_bound=bound)
        if self.loss == "squared":
            return SquaredLoss(feature_bound=bound, label_bound=float(self.label_bound))
        return HuberLoss(
            feature_bound=bound, label_bound=float(self.label_bound), threshold=self.threshold
        )

    @property
    def _row_bound(self) -> float:
        """Largest norm of a record as the learner gets it."""
        # With the slack, the learner's own clipping does not change records that were clipped here.
        bound = float(self.feature_bound) * _SLACK
        # The norm of (x, c) with |x| <= c.
        return bound * math.sqrt(2.0) if self.intercept and self._p == 2.0 else bound

    @property
    def _code(self) -> float:
        """The number Y, above all margins, in the labels -Y and Y of a weighted loss."""
        return self._row_bound * self.domain().radius + _APART

    def make(
        self,
        horizon: int | None,
        budget: Budget | None,
        options: Mapping[str, object] | None,
        source: Source | None,
        participation: Participation | None = None,
        place: int = 0,
    ) -> RecordLearner:
        """Return an output's unstarted learner, which clips records to the bounds, silently."""
        problem, more = (self.domain(), self.family(place)), check_options(options, _OWN)
        covered: Arguments = {
            "horizon": horizon, "budget": budget, "participation": participation,
        }  # fmt: skip
        learner: RecordLearner
        if self.learner == _AUTO:
            if more:
                raise ValueError(
                    "options are for a named learner: pass learner='...' instead of 'auto'"
                )
            learner = choose(problem, drift=self.drift, **covered)[0].make(source=source)
        else:
            learner = _NAMED[self.learner].load()(*problem, **covered, source=source, **more)
        return learner

    def make_all(self, budget: Budget | None, **terms: Any) -> tuple[RecordLearner, ...]:
        """Return a learner for each output, with separate noise; together they keep to `budget`.

        Proof: ``docs/privacy/one_versus_rest.md``.
        """
        if self.outputs > 1 and isinstance(budget, Budget):
            return self._sharing(budget, terms)
        return self._with_budget(budget, terms)

    def _with_budget(self, budget: Budget | None, terms: Arguments) -> tuple[RecordLearner, ...]:
        """Return a learner for each output, each with the budget; equal losses are planned once."""
        # One source for all, whose streams differ: the theorem needs independent noise.
        own = {**terms, "source": make_source(terms["seed"])}
        del own["seed"]
        weights = self.weights or ((1.0, 1.0),) * self.outputs
        found: list[RecordLearner] = []
        for place, pair in enumerate(weights):
            same = weights.index(pair)
            found.append(
                found[same].clone()
                if same < place
                else self.make(budget=budget, place=place, **own)
            )
        return tuple(found)

    def _sharing(self, budget: Budget, terms: Arguments) -> tuple[RecordLearner, ...]:
        """Return learners that keep to the budget together."""
        count, share = self.outputs, 1.0
        for _ in range(_ATTEMPTS):
            # The first guess of a share: epsilons add up, and so do squares of mu.
            if budget.delta == 0.0:
                epsilon = share * budget.epsilon / count
            else:
                mu = gaussian_mu(budget.epsilon, budget.delta) / math.sqrt(count)
                epsilon = gaussian_epsilon(share * mu, budget.delta)
            learners = self._with_budget(Budget._derived(epsilon, budget.delta), terms)
            parts = [each.guarantee for each in learners]
            # The statement is composed from the certificates: the guess above only finds a plan.
            together = compose_outputs(parts, budget, self.output)
            if together.epsilon <= budget.epsilon:
                return learners
            # The share is a little smaller than the ratio asks for, since rounding could otherwise
            # leave the sum above the budget again.
            share *= (1.0 - 1e-10) * budget.epsilon / together.epsilon
        raise CalibrationError(
            f"{count} learners, one for each {self.output}, exceed the budget: raise epsilon"
        )

    def make_finder(self, budget: Budget | None, terms: Arguments) -> RangeFinder:
        """Return an unstarted search for ranges of features, and of labels as the last columns."""
        columns = self.dimension + (self.outputs if self.labels else 0)
        return RangeFinder(
            columns, budget=budget, horizon=terms["horizon"],
            participation=terms["participation"], source=make_source(terms["seed"]),
        )  # fmt: skip

    def scale(self, features: FloatArray, found: FoundRanges | None) -> FloatArray:
        """Return records scaled by ranges, shape (n, d); without any before they are found."""
        if self.ranges is None:
            return features
        if found is None:
            return np.zeros_like(features)
        own = FoundRanges(*(part[: self.dimension] for part in found.parts))
        return own.clip(features) if self._p == 1.0 else own.scale(features)

    def label_scale(self, found: FoundRanges | None) -> tuple[FloatArray, FloatArray]:
        """Return middles and half-widths of labels: 0 and 1 where they are not searched."""
        if not self.labels or found is None:
            return np.zeros(1), np.ones(1)
        middle, half = (np.array(part[self.dimension :]) for part in found.parts)
        # A column that the search has switched off has the width 0, and labels are divided by it.
        width = _LABEL_WIDTHS * half
        return middle, np.where(width == 0.0, 1.0, width)

    def _multipliers(self, features: FloatArray) -> FloatArray:
        """Return the factors that clip records, shape (n,); 0 for records that are not finite."""
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

    def targets(self, labels: FloatArray, rows: FloatArray) -> FloatArray:
        """Return the labels that each output's learner gets, shape (outputs, n).

        Labels have shape (n,); in a regression with several outputs (n, outputs).
        """
        told = labels[None, :] if labels.ndim == 1 else labels.T
        # A label that is none of the classes stays NaN: the record is then empty for all learners.
        if self.loss == "logistic" and self.outputs > 1:
            told = np.where(np.isnan(told), np.nan, told == np.arange(self.outputs)[:, None])
        if self.weights is not None:
            told = (2.0 * told - 1.0) * self._code
        return told if self.prior is None else told - self._predict_prior(rows).T

    def _predict_prior(self, rows: FloatArray) -> FloatArray:
        """Return what the prior predicts for rows as the learner gets them, shape (n, outputs)."""
        theta = np.array(self.prior)
        return np.stack([np.einsum("ij,j->i", rows, each) for each in theta], axis=1)

    def nonprivate_flags(self, features: FloatArray, labels: FloatArray) -> Flags:
        """Return how records and labels are read, shapes (n,) and (n, d). **Not private**."""
        told, limits = self.targets(labels, self.rows(features)), self.family().label_range
        if self.loss == "logistic":
            # A label that is none of the classes is NaN for every output.
            told = told[:1]
        flags = [record_flags(self._multipliers(features), each, limits) for each in told]
        of_any = {name: np.any([each[name] for each in flags], axis=0) for name in flags[0]}
        return {**of_any, "missing": ~np.isfinite(features)}

    def margins(self, thetas: FloatArray, features: FloatArray) -> FloatArray:
        """Return <theta, record> of clipped records, shape (n, outputs); 0 if not finite.

        They are computed one by one, so that a prediction does not depend on the other records.
        """
        rows = self.rows(features)
        # A record with a gap gets the prediction of the intercept alone.
        rows[~np.isfinite(rows).all(axis=1), : self.dimension] = 0.0
        found = np.stack([np.einsum("ij,j->i", rows, theta) for theta in thetas], axis=1)
        return found if self.prior is None else found + self._predict_prior(rows)


def _read_weights(given: object, classes: list[object]) -> tuple[tuple[float, float], ...]:
    """Return the weights of all others and of the class for each output, the larger one 1.

    All others have the mean of their weights: a mean by frequency would depend on the data.
    """
    if given == "balanced":
        raise ValueError(
            "class_weight='balanced' counts the labels, which are private: give constants, {label: "
            "weight}, from what is publicly known of the classes"
        )
    if not isinstance(given, Mapping):
        raise TypeError(f"class_weight must be {{label: weight}}; got {type(given).__name__}")
    places, weights = LabelMap(classes), [1.0] * len(classes)
    for label, weight in given.items():
        place = places.value(label)
        if math.isnan(place):
            raise ValueError("class_weight names a label that is none of the classes")
        weights[int(place)] = positive_float("a class weight", weight)
    found = []
    for place in range(len(classes)) if len(classes) > 2 else (1,):
        own, others = weights[place], weights[:place] + weights[place + 1 :]
        rest = math.fsum(others) / len(others)
        largest = max(own, rest)
        found.append((rest / largest, own / largest))
    return tuple(found)


def _weighted_loss(weights: tuple[float, float], bound: float, label_bound: float) -> GlmLoss:
    """Return the weighted logistic loss as a convex function of ``margin - label``.

    With labels -Y and Y the differences of the two classes do not overlap. On the right of 0 the
    function is the loss of one class, moved by Y, and on the left the loss of the other class.
    """

    def shift(gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.where(gaps < 0.0, weights[1], weights[0]), np.abs(gaps) - label_bound

    def value(gaps: FloatArray) -> FloatArray:
        weight, margins = shift(gaps)
        return np.asarray(weight * np.logaddexp(0.0, margins))

    def slope(gaps: FloatArray) -> FloatArray:
        weight, margins = shift(gaps)
        return np.asarray(np.sign(gaps) * weight * np.exp(-np.logaddexp(0.0, -margins)))

    reach = 2.0 * label_bound
    return GlmLoss.from_functions(
        value, slope, feature_bound=bound, label_bound=label_bound, reach=reach,
        pieces=min(math.ceil(2.0 * reach / _STEP), _PIECES),
    )  # fmt: skip


def _read_prior(
    given: Any, shape: tuple[int, int], stated: Arguments
) -> tuple[tuple[float, ...], ...]:
    """Return the rows of known coefficients with the intercepts in units of the constant."""
    try:
        coefficients, intercepts = given
    except (TypeError, ValueError):
        raise TypeError("prior must be a pair: coefficients and intercept") from None
    known = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
    last = np.atleast_1d(np.asarray(intercepts, dtype=np.float64))
    if known.shape != shape or last.shape != shape[:1]:
        raise ValueError(f"prior must have coefficients of shape {shape} and {shape[0]} intercepts")
    if not (np.isfinite(known).all() and np.isfinite(last).all()):
        raise ValueError("prior must be finite")
    if stated.get("intercept", True):
        known = np.column_stack([known, last / float(stated["feature_bound"])])
    elif last.any():
        raise ValueError(
            "prior has an intercept, but this model has none: pass intercept=True or a prior "
            "intercept of 0"
        )
    return tuple(tuple(row) for row in known.tolist())


def probabilities(margins: FloatArray) -> FloatArray:
    """Return the probabilities of the classes, shape (n, classes), of margins (n, outputs).

    With several classes, each is in proportion to the probability of the class against the others.
    """
    # exp overflows at 709.8.
    own = 1.0 / (1.0 + np.exp(-np.clip(margins, -700.0, 700.0)))
    if margins.shape[1] == 1:
        return np.hstack([1.0 - own, own])
    return np.asarray(own / own.sum(axis=1, keepdims=True))


def most_probable(margins: FloatArray) -> NDArray[np.intp]:
    """Return the place of the most probable class, the first one on a tie, shape (n,)."""
    # `+ 0` turns truth values into places.
    return np.argmax(margins, axis=1) if margins.shape[1] > 1 else (margins[:, 0] > 0.0) + 0


def compose_outputs(parts: Sequence[Guarantee], budget: Budget | None, each: str) -> Guarantee:
    """Return the guarantee of learners that see the same records, one for each class or output."""
    if len(parts) == 1 or not parts[0].private:
        return parts[0]
    stated = [part.delta for part in (*parts, budget) if part is not None]
    found = Guarantee.composed(*parts, delta=max(stated))
    said = f"{found.mechanism}, by each of {len(parts)} learners, one for each {each}"
    return replace(found, mechanism=said, reference=f"{_PAGE}; {found.reference}")


class Published(NamedTuple):
    """The published part of learners: decisions, rounds learned, and the guarantee of all of it.

    Decisions have shape (outputs, d), with an intercept (outputs, d + 1). Ranges are None where
    they are declared, or not yet found; `search` is the guarantee of the search alone.
    """

    thetas: FloatArray
    round: int
    guarantee: Guarantee
    ranges: FoundRanges | None = None
    search: Guarantee | None = None


class LinearModel:
    """Learners, one for each output, and what they have published.

    A pickle of a started model carries what it has published and nothing else: it predicts, and
    does not learn. Copies of a started model are refused, like those of its learners.

    Parameters
    ----------
    problem : LinearProblem
    terms : dict
        Horizon, budget, options, seed and participation of the learners.
    published : Published, optional
        What a pickle carries in place of the learners.
    """

    _learners: tuple[RecordLearner, ...] = ()
    _guarantee: Guarantee
    _published: Published | None = None
    _finder: RangeFinder | None = None  # until the ranges are found, and afterwards
    _search: Guarantee | None = None
    _ranges: FoundRanges | None = None

    def __init__(
        self, problem: LinearProblem, terms: Arguments, published: Published | None = None
    ) -> None:
        self.problem, self._terms, self._published = problem, terms, published
        if published is not None:
            self._ranges, self._search = published.ranges, published.search
        elif problem.ranges is None:
            self._hold(problem.make_all(**terms))
        else:
            self._begin_search()

    def _begin_search(self) -> None:
        """Make a search for ranges, and the learners behind, which keep to the budget together."""
        terms, budget = self._terms, self._terms["budget"]
        several, share = terms["participation"] is not None, 1.0 - 1e-6
        for _ in range(_ATTEMPTS):
            parts: tuple[Budget | None, Budget | None] = (None, None)
            if isinstance(budget, Budget):
                budget.require_delta()
                allowed = Budget._derived(share * budget.epsilon, share * budget.delta)
                parts = split(allowed, several)
            self._finder = self.problem.make_finder(parts[0], terms)
            self._search = self._finder.guarantee
            whole = terms["horizon"]
            # The learners never see the rounds of the search.
            left = None if whole is None else whole - self._finder.horizon
            self._hold(self.problem.make_all(**{**terms, "budget": parts[1], "horizon": left}))
            if not isinstance(budget, Budget) or self._guarantee.epsilon <= budget.epsilon:
                return
            # As in `LinearProblem._sharing`.
            share *= (1.0 - 1e-10) * budget.epsilon / self._guarantee.epsilon
        raise CalibrationError(
            "the search for ranges and the learners together exceed the budget: declare ranges or "
            "raise epsilon"
        )

    def _hold(self, learners: tuple[RecordLearner, ...]) -> None:
        """Take learners, and state what they and the search promise together."""
        budget, people = self._terms["budget"], self._terms["participation"]
        guarantees = [each.guarantee for each in learners]
        self._learners = learners
        self._guarantee = compose_outputs(guarantees, budget, self.problem.output)
        if self._search is not None:
            found = behind_ranges(self._search, self._guarantee, budget=budget)
            self._guarantee = found if people is None else people.of(found)

    @classmethod
    def of(cls, arguments: Arguments, dimension: int, learner: Bound | None = None) -> LinearModel:
        """Return the model of an estimator's arguments; loaded learners are taken as by `bind`."""
        problem = LinearProblem.of(arguments, dimension)
        if problem.ranges is not None and learner is not None:
            raise ValueError(_FOUND_ELSEWHERE)
        terms = {name: arguments[name] for name in _TERMS} | {"budget": read_budget(arguments)}
        if learner is None:
            model = cls(problem, terms)
            if model._finder is not None and arguments.get("ranges") is None:
                warnings.warn(
                    f"no feature_bound: the first {model._finder.horizon:,} rounds are for a "
                    "private search for ranges, and nothing is predicted in them "
                    "(ranges='private' asks for this)",
                    UserWarning, stacklevel=4,
                )  # fmt: skip
            return model
        # No learner is calibrated, which may take seconds: `bind` brings them.
        model = cls.__new__(cls)
        model.problem, model._terms = problem, terms
        model.bind(learner)
        return model

    @property
    def learners(self) -> tuple[RecordLearner, ...]:
        """The learners; `StateError` if this is a published model only."""
        if not self._learners:
            raise StateError(
                "this copy holds what was published, not the learner: save the learner itself, "
                "load it with dpoco.load and bind() it to continue"
            )
        return self._learners

    @property
    def learner(self) -> Any:
        """The learner of a single output, or all learners, in the order of the classes."""
        return self.learners[0] if self.problem.outputs == 1 else self.learners

    @property
    def published(self) -> Published:
        """The published part so far: free to use."""
        if not self._learners:
            assert self._published is not None
            return self._published
        thetas = np.stack([each.last_decision for each in self._learners])
        rounds = self._learners[0].round
        if self._search is not None:
            rounds += self._search.horizon if self._finder is None else self._finder.round
        return Published(thetas, rounds, self._guarantee, self._ranges, self._search)

    @property
    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Published coefficients, shape (outputs, d), and intercepts, shape (outputs,)."""
        problem, thetas = self.problem, self.published.thetas
        if problem.prior is not None:
            thetas = thetas + np.array(problem.prior)
        last = thetas[:, -1] * float(problem.feature_bound)
        return thetas[:, : problem.dimension].copy(), last if problem.intercept else 0.0 * last

    def _turns(
        self, labels: FloatArray, rows: FloatArray
    ) -> Iterator[tuple[RecordLearner, FloatArray]]:
        """Return learners with their targets, if all of them have learned from the same records."""
        # An interrupt between two learners leaves one a round ahead: their coefficients would be
        # about different records, and a repeated record would enter one of them twice.
        if len({each.round for each in self.learners}) > 1:
            raise StateError(
                "a call was interrupted when some of this model's learners had its records and "
                "others had not: it predicts, and can no longer learn"
            )
        middle, half = self.problem.label_scale(self._ranges)
        told = self.problem.targets((labels - middle) / half, rows)
        return zip(self.learners, told, strict=True)

    @property
    def left(self) -> int:
        """Rounds up to the horizon."""
        first = self.learners[0]
        return first.horizon - first.round + (0 if self._finder is None else self._finder.left)

    def require_left(self, rounds: int) -> None:
        """Raise `HorizonExceeded` if fewer rounds than that are left."""
        if rounds > self.left:
            raise HorizonExceeded(f"rounds asked for: {rounds}, left: {self.left}")

    def _search_in(self, features: FloatArray, labels: FloatArray, persons: People) -> int:
        """Give the first rows to a search that has not ended; return how many these are."""
        finder = self._finder
        if finder is None or self._ranges is not None or not self._learners:
            return 0
        if finder.left == 0:  # an interrupt came before `_end_search`
            self._end_search(finder)
            return 0
        # All rows must fit before the search takes the first of them, and have labels: learners
        # check that behind the search.
        self.require_left(len(features))
        if len(labels) != len(features):
            raise ValueError(f"labels must be those of {len(features)} records; got {len(labels)}")
        part = slice(0, min(finder.left, len(features)))
        rows = np.column_stack([features, labels]) if self.problem.labels else features
        finder.run(rows[part], persons=None if persons is None else persons[part])
        if finder.left == 0:
            self._end_search(finder)
        return part.stop

    def _end_search(self, finder: RangeFinder) -> None:
        """Take the ranges that were found, and let the learners know who has come."""
        for learner in self._learners:
            finder.hand_over(learner)
        # Last: without ranges this is done again before the first round of a learner.
        self._ranges = finder.ranges

    @contextmanager
    def watch_call(self, rows: int) -> Iterator[None]:
        """Say how many rows of a call were learned if it is interrupted."""
        before = self.published.round
        try:
            yield
        except BaseException:
            learned = self.published.round - before
            # If the call is repeated, these records get a second round, which is not accounted for.
            if learned:
                warnings.warn(
                    f"the call was interrupted when {learned:,} of its {rows:,} rows had been "
                    "learned: pass the others only, since a row that is learned twice voids the "
                    "guarantee",
                    UserWarning, stacklevel=4,
                )  # fmt: skip
            raise

    def learn_one(self, features: FloatArray, label: float, person: Person = None) -> None:
        """Play one round."""
        one, persons = np.array([label]), None if person is None else [person]
        if self._search_in(features[None, :], one, persons):
            return
        rows = self.problem.rows(self.problem.scale(features[None, :], self._ranges))
        for learner, target in self._turns(one, rows):
            learner.decide()
            learner.observe(rows[0], float(target[0]), person=person)

    def learn_many(self, features: FloatArray, labels: FloatArray, persons: People = None) -> None:
        """Play one round a row, with the same decisions; none if the horizon does not allow all."""
        first = self._search_in(features, labels, persons)
        if first:
            features, labels = features[first:], labels[first:]
            persons = None if persons is None else persons[first:]
            if not len(features):
                return
        rows = self.problem.rows(self.problem.scale(features, self._ranges))
        for learner, targets in self._turns(labels, rows):
            learner.run(rows, targets, persons=persons, record_decisions=False)

    def margins(self, features: FloatArray) -> FloatArray:
        """Return margins of records, shape (n, outputs): post-processing, no round is played."""
        published = self.published
        middle, half = self.problem.label_scale(published.ranges)
        scaled = self.problem.scale(features, published.ranges)
        return middle + half * self.problem.margins(published.thetas, scaled)

    def nonprivate_flags(self, features: FloatArray, labels: FloatArray) -> Flags:
        """Return how records and labels are read, shapes (n,) and (n, d). **Not private**."""
        middle, half = self.problem.label_scale(self._ranges)
        scaled = self.problem.scale(features, self._ranges)
        flags = self.problem.nonprivate_flags(scaled, (labels - middle) / half)
        return {**flags, "missing": ~np.isfinite(features)}

    def bind(self, learner: Bound) -> None:
        """Go on with learners that were saved and loaded, or unpickled and resumed.

        Raises
        ------
        StateError
            If this model learns already.
        ValueError, TypeError
            If a learner is of another kind, or learns another problem.
        """
        if self._learners and not self._is_fresh:
            raise StateError("this model has started to learn already")
        if self.problem.ranges is not None and self._ranges is None:
            raise StateError(_FOUND_ELSEWHERE)
        given = tuple(learner) if isinstance(learner, (list, tuple)) else (learner,)
        if len(given) != self.problem.outputs:
            raise ValueError(
                f"the model has {self.problem.outputs} learners, in the order of its classes; "
                f"got {len(given)}"
            )
        for place, each in enumerate(given):
            self._check_bound(each, place)
        # The payload holds key and position of the noise: equal payloads come from one learner.
        if len({each._payload() for each in given}) < len(given):
            raise ValueError("two of the learners are the same one, and would share their noise")
        if len({each.round for each in given}) > 1:
            raise ValueError("the learners were not saved together: they are in different rounds")
        self._hold(given)

    def _check_bound(self, learner: RecordLearner, place: int) -> None:
        """Raise unless a learner is of this model's kind, problem and participation."""
        named = self.problem.learner
        known = [*_NAMED.values()] if named == _AUTO else [_NAMED[named]]
        if find_learner(type(learner)) not in known:
            wanted = " or ".join(each.class_name for each in known)
            raise TypeError(f"the learner must be a {wanted}; got {type(learner).__name__}")
        learner._check_active()
        if learner.domain != self.problem.domain() or learner.loss != self.problem.family(place):
            raise ValueError("the learner has another domain or loss than this model")
        if learner.get_params()["participation"] != self._terms["participation"]:
            raise ValueError("the learner has another participation than this model")
        people: Participation | None = self._terms["participation"]
        if self.problem.ranges is not None and people is not None and people.rounds == 1:
            limiter = learner._limiter
            # `RangeFinder.hand_over` has told every learner that was saved later.
            if limiter is not None and limiter.is_new:
                raise StateError("the learner was saved before the search for ranges ended")

    @property
    def _is_fresh(self) -> bool:
        """Whether nothing has been drawn, so that a copy shares no noise."""
        # A search draws noise as well: two copies of one would share it.
        begun = self._finder is not None and self._finder.round > 0
        started = begun or any(each._is_started() for each in self._learners)
        return bool(self._learners) and not started

    def __reduce__(self) -> tuple[object, ...]:
        # A fresh model is made again from its arguments, with its own noise.
        kept = () if self._is_fresh else (self.published,)
        return LinearModel, (self.problem, self._terms, *kept)

    def __deepcopy__(self, memo: object) -> LinearModel:
        return self.__copy__()

    def __copy__(self) -> LinearModel:
        if not self._is_fresh:
            raise StateError(
                "a started model cannot be copied, because the copy would share its noise; "
                "clone() makes a fresh one, and a pickle holds what was published"
            )
        return LinearModel(self.problem, self._terms)
