"""Standard cases: for every learner and mechanism, a small problem that is as hard as we know.

A case has a learner, a stream, and a neighbour that differs in one record by as much as the
guarantee allows. The record is in the first round, so it affects every later release. Both versions
of it are at the bound and opposite, and all other records are silent, so that nothing hides them.
If an audit finds nothing on these streams, the learner need not be private: see ``docs/audit.md``.

For learners of experts and Lipschitz losses, only the first record prefers any decision, so that
every later decision depends only on this record and noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from dpoco._validation import FloatArray, choice, instance, positive_int, real_float
from dpoco.accounting import Budget
from dpoco.audit._exercises import EXERCISES, Exercise
from dpoco.audit._family import (
    LearnerPlan,
    Make,
    Options,
    Record,
    Rounds,
    Stream,
    calibrate_once,
    length_name,
    same,
    split_parts,
)
from dpoco.audit.report import Claim
from dpoco.domains import Box, LpBall
from dpoco.learners import LEARNERS, MONITORS, learner_named, own_class
from dpoco.learning.participation import Participation
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.published import agarwal_ctrl, agarwal_lazy, asi_tracking, han_frank_wolfe
from dpoco.random import Source
from dpoco.statistics import Count, Mean

_PREFERS = "the first losses prefer the first expert, or all others; all later losses are 0"
_HALVES = "the first losses prefer every second expert, or the others; all later losses are 0"
_STOPPED = f"{_PREFERS}; the learner is made for 10000 rounds and stopped early"
_PULLS = "the first gradient is as long as allowed, along the first axis, or its negative; others 0"


Replacements = tuple[Record, ...]  # rounds, and the parts of the new records


@dataclass(frozen=True)
class StandardCase:
    """A learner and two neighbouring streams.

    Attributes
    ----------
    name : str
        The name passed to `standard_case`, in its own spelling.
    learner : str
        Name of the class.
    make_learner : callable
        ``Source -> learner``, unstarted. Its parameters are calibrated once, when the case is made;
        every call costs one construction.
    stream, neighbour : array or tuple of arrays
        In the form for `replay_audit` and `likelihood_audit`.
    replacements : tuple of tuples
        Neighbours for `replay_audit`, in its form; the first one is `neighbour`.
    claim : Claim
        The tested claim.
    settings : dict
        Epsilon and delta of the budget, horizon, dimension, any published parameters, and rounds of
        a person.
    about : str
        What makes the pair hard.
    trials : int
        Number of runs on each stream with which a likelihood audit has power.
    exercises : tuple of Exercise
        Settings of the same class that reach what the pair does not. They do not depend on the
        requested sizes.
    """

    name: str
    learner: str
    make_learner: Make = field(repr=False)
    stream: Stream = field(repr=False)
    neighbour: Stream = field(repr=False)
    replacements: Replacements = field(repr=False)
    claim: Claim
    settings: Options = field(hash=False)
    about: str
    trials: int
    exercises: tuple[Exercise, ...] = field(default=(), repr=False, hash=False)


def standard_names() -> tuple[str, ...]:
    """Return the names of all standard cases."""
    return tuple(each.name for each in (*LEARNERS, *MONITORS) if each.name in CASES)


def standard_case(
    learner: str | type,
    *,
    epsilon: float = 1.0,
    delta: float | None = None,
    horizon: int | None = None,
    dimension: int | None = None,
    published: str | None = None,
    participation: Participation | None = None,
) -> StandardCase:
    """Return a small but hard case for one learner or mechanism.

    Parameters
    ----------
    learner : str or type
        One of `standard_names`, such as "tree-frank-wolfe", or the name of a class; or your own
        class, if its constructor takes ``domain`` and ``loss``, ``experts`` or ``dimension``, and
        ``horizon``, ``budget`` and ``source``.
    epsilon : float, default 1
        Budget, positive.
    delta : float, optional
        Budget, in [0, 1). Default: 0 for pure learners, otherwise 1e-3, which shows in some
        thousand runs.
    horizon : int, optional
        Rounds, or records of a one-time fit, at least 3 for most learners. Default: a few, which is
        hardest, in addition to those of a person.
    dimension : int, optional
        Number of coordinates, experts, points or candidates. Default: the smallest that shows
        everything.
    published : {"printed", "corrected"}, optional
        Parameters of `dpoco.published` instead of calibrated ones, if there are any. The published
        claim is tested if it is stronger than the library's statement for the same noise.
    participation : Participation, optional
        For an online learner: its budget is for all rounds of one person, and the streams differ in
        all of them, as early as the rule allows. Enforcing the rule makes no difference here.

    Returns
    -------
    StandardCase

    Raises
    ------
    ValueError
        For an unknown name or option, or if there are no such published parameters.
    CalibrationError
        If the learner cannot be calibrated for this budget and size.

    Notes
    -----
    One calibration, which takes up to a second.
    """
    if isinstance(learner, type):
        listed, cls = own_class(learner), learner
        name = cls.__name__ if listed is None else listed.name
    else:
        entry = learner_named(instance("learner", learner, str, "a name or a class"), _PLAYED)
        name, cls = entry.name, entry.load()
    kind, chosen, rule = _kind(name, cls), dict[str, int](), participation
    if rule is not None and "participation" not in signature(cls).parameters:
        raise ValueError(f"{name} takes no participation")
    rounds, least = kind.horizon
    if rule is not None:
        rounds += ((rule.rounds or 2) - 1) * rule.separation
    limits = (
        ("horizon", horizon, (rounds, least), 10_000),
        ("dimension", dimension, kind.size, 1000),
    )
    for what, asked, (default, least), most in limits:
        size = default if asked is None else positive_int(what, asked, maximum=most)
        if asked is not None and not default:
            raise ValueError(f"{name} has no {what} to choose")
        if size < least:
            raise ValueError(f"{what} must be at least {least} for {name}; got {size}")
        chosen[what] = size
    function = None
    if published is not None:
        choice("published", published, ("printed", "corrected"))
        function = _find_published(name, published == "corrected")
    stated = kind.delta if delta is None else real_float("delta", delta)
    # The budget of an audit protects nobody, so large deltas need no warning.
    budget = Budget._derived(real_float("epsilon", epsilon), stated)
    setting = Asked(cls, budget, chosen["horizon"], chosen["dimension"], function, rule)
    problem = kind.build(setting, **kind.options)
    at, *record = problem.replacements[0]
    stream = Rounds(split_parts(problem.stream))
    other, about, often = stream.with_record(at, record), problem.about, dict[str, int]()
    if rule is not None:
        places = range(at, len(stream), rule.separation)[: rule.rounds]
        often = {"rounds_per_person": len(places), "separation": rule.separation}
        about += f"; and so on in {len(places)} rounds of one person, {rule.separation} apart"
        for t in places[1:]:
            stream, other = stream.with_record(t, stream.record(at)), other.with_record(t, record)
    # For queries about one data set, a record moves all of them, which no single replacement can.
    neighbour = other.stream if problem.neighbour is None else problem.neighbour
    replacements = tuple(
        each for each in problem.replacements if not same(stream.record(each[0]), each[1:])
    )
    return StandardCase(
        name=name,
        learner=cls.__name__,
        make_learner=problem.make,
        stream=stream.stream,
        neighbour=neighbour,
        replacements=replacements,
        claim=Claim.of(problem.make(Source()).guarantee),
        settings={
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            **{what: size for what, size in chosen.items() if size},
            **({} if published is None else {"published": published}),
            **often,
        },
        about=about,
        trials=problem.trials,
        exercises=EXERCISES.get(cls, ()),
    )


def _kind(name: str, cls: type) -> Kind:
    """Return how a case is built; for a class without its own case, by its arguments."""
    taken = signature(cls).parameters
    found = CASES.get(name) or next((kind for of, kind in _OTHERS.items() if of in taken), None)
    if found is None or not {"budget", "source"} <= taken.keys():
        raise ValueError(
            f"{name} has no standard case: its constructor takes no budget and source, or none of "
            f"{', '.join(_OTHERS)}; cases by name are {', '.join(standard_names())}"
        )
    return found


# ---- problems ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """The problem of a case; size 0 means that there is none to choose.

    Attributes
    ----------
    cls : type
        The learner.
    budget : Budget
    horizon, size : int
        Rounds, and number of coordinates, experts, points or candidates.
    published : callable or None
        Function of `dpoco.published` whose plan is audited.
    rule : Participation or None
        How often the person of the changed records may come.
    """

    cls: type
    budget: Budget
    horizon: int
    size: int
    published: Callable[..., LearnerPlan] | None
    rule: Participation | None

    def maker(self, *arguments: object, **options: Any) -> Make:
        """Return ``Source -> learner`` for this horizon and budget."""
        options = {length_name(self.cls): self.horizon, **options}
        if self.rule is not None:
            # Streams of audits name no people, but obey the rule.
            options["participation"] = replace(self.rule, enforced=False)
        if self.published is not None:
            taken = signature(self.published).parameters
            known = {name: value for name, value in options.items() if name in taken}
            options["plan"] = self.published(*arguments, budget=self.budget, **known)
        return calibrate_once(self.cls, *arguments, budget=self.budget, **options)

    def problem(
        self, make: Make, first: Record, replacements: Replacements, about: str, **more: Any
    ) -> Problem:
        """Return a problem in whose stream only the first record is informative."""
        parts = tuple(np.zeros((self.horizon, *np.shape(each))) for each in first)
        return Problem(
            make, Rounds(parts).with_record(0, first).stream, replacements, about, **more
        )


@dataclass(frozen=True)
class Problem:
    """A learner and neighbouring streams; `neighbour` replaces that of the first replacement.

    Attributes
    ----------
    make : callable
        ``Source -> learner``.
    stream : array or tuple of arrays
    replacements : tuple of tuple
        Rounds and records of neighbours. The first is the pair of the statistical audits.
    about : str
        What makes the pair hard.
    trials : int
        Number of runs on each stream with which a likelihood audit has power.
    neighbour : array or None
        For mechanisms in which one record moves all queries at once.
    """

    make: Make
    stream: Stream
    replacements: Replacements
    about: str
    trials: int = 2000
    neighbour: Stream = None


@dataclass(frozen=True)
class Kind:
    """How a learner's case is built, with defaults and least values of horizon and dimension.

    Attributes
    ----------
    build : callable
        Function of `Asked` that returns the `Problem`.
    horizon, size : (int, int)
        Default and least value; a default of 0 means that there is nothing to choose.
    delta : float
        Default delta of the budget.
    options : dict
        More arguments of `build`.
    """

    build: Callable[..., Problem]
    horizon: tuple[int, int]
    size: tuple[int, int]
    delta: float = 1e-3
    options: Options = field(default_factory=dict, hash=False)


# One of four rounds has a choice.
_BANDIT = partial(han_frank_wolfe.high_dimensional_bandit, forced=1)
_PUBLISHED: dict[str, Callable[..., LearnerPlan]] = {
    "epoch-selector": asi_tracking.epoch_selector,
    "shift-detector": asi_tracking.shift_detector,
    "batch-share": asi_tracking.batch_share,
    "lipschitz": agarwal_ctrl.lipschitz,
    "tree-frank-wolfe": han_frank_wolfe.tree_frank_wolfe,
    "polyhedral-frank-wolfe": han_frank_wolfe.polyhedral_frank_wolfe,
    "ctrl": agarwal_ctrl.coupled_regularized_leader,
    "comw": agarwal_lazy.continuous_multiplicative_weights,
    "high-dimensional-bandit": _BANDIT,
}


def _find_published(name: str, corrected: bool) -> Callable[..., LearnerPlan]:
    """Return the function of `dpoco.published` for a learner; raise if there is none.

    Raises
    ------
    ValueError
        For a learner without published parameters, or without corrected ones.
    """
    choice("a learner with published parameters", name, tuple(_PUBLISHED))
    function = _PUBLISHED[name]
    if "corrected" in signature(function).parameters:
        return partial(function, corrected=corrected)
    if corrected:
        raise ValueError(f"nothing of {name} had to be corrected: ask for 'printed'")
    return function


def _axis(size: int) -> FloatArray:
    """Return the first unit vector."""
    return np.asarray(np.eye(1, size)[0])


def _experts(asked: Asked, halves: bool = False, about: str = "", **options: Any) -> Problem:
    """Return a problem of experts, among which only the first losses show a preference."""
    first = np.arange(asked.size) % 2.0 if halves else 1.0 - _axis(asked.size)
    # Losses far beyond the bound test the clipping. The last round's record affects nothing, so the
    # last but one is the last that is used.
    unlimited, last = np.where(first > 0.0, -1e6, 1e6), asked.horizon - 2
    replacements = (0, 1.0 - first), (0, unlimited), (last, first if last else 0.0 * first)
    make = asked.maker(asked.size, **options)
    return asked.problem(make, (first,), replacements, about or (_HALVES if halves else _PREFERS))


def _lipschitz(asked: Asked) -> Problem:
    """Return a problem of a net on [0, 1], whose first loss has the largest slope."""
    points = asked.size
    make = asked.maker(Box([0.0], [1.0]), lipschitz=1.0, resolution=points, learning_rate=1e3)
    slope = np.linspace(0.0, 1.0, points)
    zigzag = np.arange(points) % 2.0 / max(points - 1, 1)
    return asked.problem(
        make, (slope,), ((0, -slope), (0, zigzag), (asked.horizon - 2, zigzag)),
        "the first loss rises as fast as it may, or falls; all later losses are 0",
    )  # fmt: skip


def _pull(asked: Asked, make: Make, about: str = _PULLS, last: int = 2, **more: Any) -> Problem:
    """Return a problem of gradients or vectors; the last one that is used is replaced as well."""
    axis = _axis(asked.size)
    replacements = (0, -axis), (0, 1e6 * np.roll(axis, -1)), (asked.horizon - last, axis)
    return asked.problem(make, (axis,), replacements, about, **more)


def _leader(asked: Asked) -> Problem:
    """Return a problem of gradients on a Euclidean ball."""
    return _pull(asked, asked.maker(LpBall(asked.size, 2.0), LinearLoss(1.0)))


def _newton(asked: Asked) -> Problem:
    """Return a problem of logistic losses: features at their bound, labels 1."""
    axis = _axis(asked.size)
    rows = np.zeros((asked.horizon, asked.size))
    rows[0] = axis
    return Problem(
        asked.maker(LpBall(asked.size, 2.0), LogisticLoss(1.0)), (rows, np.ones(asked.horizon)),
        ((0, -axis, 1.0), (0, 1e6 * axis, np.nan), (asked.horizon - 2, axis, 0.0)),
        "the first features are as long as allowed, or their negative; others are 0",
    )  # fmt: skip


def _polyhedral(asked: Asked) -> Problem:
    """Return a problem of gradients on an l1 ball, where vertices are selected."""
    # Gradients of l-infinity norm 1, so all coordinates move.
    signs = 1.0 - 2.0 * (np.arange(asked.size) % 2)
    far = 1e6 * np.array([-1, *[1] * (asked.size - 1)])
    return asked.problem(
        asked.maker(LpBall(asked.size, 1.0), LinearLoss(1.0), batch=1), (signs,),
        ((0, -signs), (0, far)),
        "all entries of the first gradient are at the bound, or their negatives; others 0",
    )  # fmt: skip


def _coupled_leader(asked: Asked, **tight: Any) -> Problem:
    """Return a problem of coupled draws, by default on an interval, where their law is known."""
    domain = Box([-1.0], [1.0]) if asked.size == 1 else LpBall(asked.size, 2.0)
    own = tight if asked.published is None else {}
    return _pull(asked, asked.maker(domain, LinearLoss(1.0), **own), trials=1000)


def _fit(asked: Asked) -> Problem:
    """Return a problem of records with labels, of which one is not silent."""
    axis = _axis(asked.size)
    return asked.problem(
        asked.maker(LpBall(asked.size, 2.0), SquaredLoss(1.0, 1.0)), (axis, 1.0),
        ((0, axis, -1.0), (0, 1e6 * axis, 1e6), (1, -axis, 1.0)),
        "the first record pulls along the first axis as hard as it may, or pushes; others are "
        "silent",
    )  # fmt: skip


def _continual_sum(asked: Asked) -> Problem:
    """Return a problem of vectors that are summed unchanged."""
    about = "the first vector is as long as allowed, or its negative; others are 0"
    return _pull(asked, asked.maker(asked.size, bound=1.0), about, last=1)


def _monitor(asked: Asked) -> Problem:
    """Return a problem of a count and a mean, with records in the first interval only."""
    # Rows of an interval: 1 if there is a record, and its value.
    most = {} if asked.rule is None else {"records_per_interval": 2}
    statistics = {"n": Count(), "x": Mean(-1.0, 1.0)}
    full, last = np.ones((most.get("records_per_interval", 1), 2)), asked.horizon - 1
    return asked.problem(
        asked.maker(statistics, every=None, views=["total"], **most), (full,),
        ((0, 0.0 * full), (last, full), (last - 1, full * [1.0, -1e6])),
        "the first interval has all records of one person, with the largest number, or none; "
        "others are empty",
    )  # fmt: skip


def _noisy_max(asked: Asked) -> Problem:
    """Return a problem of scores; one record moves them in every query as far as it may."""
    # One record moves the scores of all queries: the first candidate's up, and the others' down.
    moved = 2.0 * _axis(asked.size) - 1.0
    return asked.problem(
        asked.maker(asked.size, sensitivity=1.0), (0.0 * moved,),
        ((0, moved), (asked.horizon - 1, -moved)),
        "all scores are 0, or the first is at its upper and all others at their lower limit, in "
        "every query",
        neighbour=np.tile(moved, (asked.horizon, 1)),
    )  # fmt: skip


def _above_threshold(asked: Asked) -> Problem:
    """Return a problem of queries near the threshold, where noise decides."""
    make = asked.maker(sensitivity=1.0)
    # One record may move all queries, and the last one in the opposite direction. Silence then
    # shows that the threshold is high, and an alarm after it shows that the noise of the last query
    # is high.
    plan = make(Source.seeded(0)).plan
    margin, scale = plan.tuning.margin, plan.mechanism.query_scale
    stream = np.full(asked.horizon, margin + scale)
    stream[-1] = margin - 2.0 * scale
    moved = np.full(asked.horizon, -1.0)
    moved[-1] = 1.0
    return Problem(
        make, stream,
        ((0, stream[0] + 1.0), (0, stream[0] - 1.0), (asked.horizon - 1, stream[-1] + 1.0)),
        "an alarm at the last query, where it is unlikely, after silence where that is; or all "
        "queries but the last are lower by the sensitivity, and the last is higher",
        neighbour=stream + moved,
    )  # fmt: skip


def _bandit(asked: Asked, make: Make, first: FloatArray, trials: int = 2000) -> Problem:
    """Return a problem of a bandit with two arms, where only the first user returns a reward."""
    contexts, rewards = np.tile(_axis(asked.size), (asked.horizon, 1)), np.zeros((asked.horizon, 2))
    contexts[0], rewards[0] = first, 1.0
    return Problem(
        make, (contexts, rewards),
        ((0, first, -np.ones(2)), (asked.horizon - 2, first, np.ones(2))),
        "the first user rewards every arm, or punishes it; all others see the same context and "
        "return nothing",
        trials,
    )  # fmt: skip


def _linear_bandit(asked: Asked, **options: Any) -> Problem:
    """Return a problem of a bandit with linear rewards; the first context is an axis."""
    make = asked.maker(2, asked.size, context_bound=1.0, reward_bound=1.0, **options)
    return _bandit(asked, make, _axis(asked.size), 800)


def _high_dimensional(asked: Asked) -> Problem:
    """Return a problem of a bandit whose contexts are bounded by their largest entry."""
    ball = LpBall(asked.size, 1.0)
    make = asked.maker(2, ball, batch=1, context_bound=1.0, reward_bound=1.0)
    return _bandit(asked, make, np.ones(asked.size))


CASES = {
    # With a large learning rate, it plays the leader of the noisy sums, which shows most. In l2,
    # two halves are farthest apart.
    "prefix-hedge": Kind(_experts, (4, 3), (4, 2), 1e-3, {"halves": True, "learning_rate": 1e3}),
    "epoch-selector": Kind(_experts, (6, 3), (10, 2), 0.0, {"first": 0}),
    "window-selector": Kind(_experts, (6, 3), (10, 2), 0.0, {"first": 0, "window": 3}),
    # Low thresholds, because with useful ones a short stream never raises an alarm.
    "shift-detector": Kind(_experts, (6, 3), (2, 2), 0.0, {"first": 0, "threshold_scale": 1e-3}),
    # Otherwise a short stream would be played without coins, with a fresh draw in every round.
    "oblivious-tracker": Kind(_experts, (6, 3), (2, 2), 0.0,
                              {"switches": 1, "forced_switch": 0.2}),
    # The published floor under the weights hides much of a short stream.
    "batch-share": Kind(_experts, (2, 2), (10, 2), 0.0, {
        "horizon": 10_000, "batch": 1, "learning_rate": 100.0, "about": _STOPPED}),
    "lipschitz": Kind(_lipschitz, (4, 3), (3, 2)),
    "tree-frank-wolfe": Kind(_leader, (6, 3), (2, 1)),
    "polyhedral-frank-wolfe": Kind(_polyhedral, (6, 3), (2, 1)),
    "noisy-ftrl": Kind(_leader, (6, 3), (2, 1)),
    "noisy-newton": Kind(_newton, (6, 3), (2, 1)),
    "ctrl": Kind(_coupled_leader, (12, 3), (1, 1), 1e-3, {"coupling": "scheduled", "block": 3}),
    "comw": Kind(_coupled_leader, (64, 3), (1, 1), 1e-3, {"coupling": "scheduled"}),
    "sufficient-statistics": Kind(_fit, (8, 3), (2, 1)),
    "linucb": Kind(_linear_bandit, (4, 3), (2, 1), 1e-3, {"batch": 1, "exploration": 0.0}),
    "residual-phases": Kind(_linear_bandit, (4, 3), (2, 1)),
    "high-dimensional-bandit": Kind(_high_dimensional, (4, 3), (2, 1)),
    "continual-sum": Kind(_continual_sum, (6, 3), (2, 1)),
    "monitor": Kind(_monitor, (6, 3), (0, 0)),
    "noisy-max": Kind(_noisy_max, (2, 1), (10, 2), 0.0),
    "above-threshold": Kind(_above_threshold, (4, 3), (0, 0), 0.0),
}  # fmt: skip
_PLAYED = {each.plays for each in (*LEARNERS, *MONITORS) if each.plays != "ranges"}
# For foreign classes, by an argument of the constructor.
_OTHERS = {
    "domain": Kind(_fit, (6, 3), (2, 1)),
    "experts": Kind(_experts, (6, 3), (2, 2)),
    "dimension": Kind(_continual_sum, (6, 3), (2, 1)),
}
