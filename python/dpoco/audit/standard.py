"""Standard cases: for every learner and mechanism a small problem that is as hard as is known.

A case is a learner, a stream and a neighbour of it that differ in one record by as much as the
guarantee allows, where it hurts most: in the first round, whose record enters every later release,
with both records at the bound and opposite, and all other records silent, so that nothing hides
them. What is not seen on these streams is not thereby shown to be safe: see ``docs/audit.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpoco._validation import positive_int, real_float
from dpoco.accounting import Budget
from dpoco.audit._cases import CASES, Asked, Kind
from dpoco.audit._exercise_table import EXERCISES
from dpoco.audit._exercises import Exercise
from dpoco.audit._family import Make
from dpoco.audit.report import Claim
from dpoco.learners import LEARNERS, learner_named
from dpoco.random import Source

_EPSILON = 1.0

_CASES = {kind.name: kind for kind in CASES}


@dataclass(frozen=True)
class StandardCase:
    """A learner and two neighbouring streams.

    Attributes
    ----------
    name : str
        What `standard_case` was asked for, in its own spelling.
    learner : str
        The class.
    make_learner : callable
        ``Source -> learner``, unstarted. Its parameters are calibrated once, when the case is made;
        every call costs what construction costs.
    stream, neighbour : array or tuple of arrays
        As `replay_audit` and `likelihood_audit` take them.
    replacements : tuple of tuples
        Neighbours for `replay_audit`, in its form; the first one is `neighbour`.
    claim : Claim
        What is put to the test.
    settings : dict
        Epsilon and delta of the budget, horizon, dimension and calibration.
    about : str
        What makes the pair hard.
    trials : int
        Runs on each stream that a likelihood audit has power with.
    exercises : tuple of Exercise
        Settings of the same class that reach what the pair does not; whatever was asked for, they
        are the same.
    """

    name: str
    learner: str
    make_learner: Make = field(repr=False)
    stream: Any = field(repr=False)
    neighbour: Any = field(repr=False)
    replacements: tuple[tuple[Any, ...], ...] = field(repr=False)
    claim: Claim
    settings: dict[str, Any] = field(hash=False)
    about: str
    trials: int
    exercises: tuple[Exercise, ...] = field(default=(), repr=False, hash=False)


def standard_names() -> tuple[str, ...]:
    """Return the names of all standard cases."""
    return tuple(each.name for each in LEARNERS if each.name in _CASES)


def standard_case(
    name: str,
    *,
    epsilon: float = _EPSILON,
    delta: float | None = None,
    horizon: int | None = None,
    dimension: int | None = None,
    calibration: str = "tight",
) -> StandardCase:
    """Return a small, hard case for one learner or mechanism.

    Parameters
    ----------
    name : str
        One of `standard_names`, such as "tree-frank-wolfe"; the class's name does, too.
    epsilon : float, default 1
        Budget, positive.
    delta : float, optional
        Budget, in [0, 1). Default: 0 where the learner is purely private, otherwise 1e-3, which is
        large enough to be seen in a few thousand runs.
    horizon : int, optional
        Rounds, or records of a batch method, at least 3 for most. Default: a few, which is hardest.
    dimension : int, optional
        Coordinates, experts, points or candidates. Default: the smallest that shows everything.
    calibration : {"tight", "corrected", "paper"}, default "tight"
        As for the learner, where it has this argument. With "paper" the published claim is put to
        the test where it is stronger than what the library states for the same noise.

    Returns
    -------
    StandardCase

    Raises
    ------
    ValueError
        For a name, option or calibration that does not exist.
    CalibrationError
        Where the learner cannot be calibrated for this budget and size.

    Notes
    -----
    One calibration, up to a second.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str; got {type(name).__name__}")
    entry = learner_named(name, {each.plays for each in LEARNERS if each.name in _CASES})
    kind = _CASES[entry.name]
    asked = _asked(entry.load(), kind, epsilon, delta, horizon, dimension, calibration)
    problem = kind.build(asked)
    template = problem.make(Source.seeded(0))
    found = template.guarantee
    size = {} if asked.dimension is None else {"dimension": asked.dimension}
    return StandardCase(
        name=kind.name,
        learner=entry.class_name,
        make_learner=problem.make,
        stream=problem.stream,
        neighbour=problem.neighbour,
        replacements=problem.replacements,
        claim=Claim.of(found),
        settings={
            "epsilon": asked.budget.epsilon,
            "delta": asked.budget.delta,
            "horizon": asked.horizon,
            **size,
            "calibration": asked.calibration,
        },
        about=problem.about,
        trials=problem.trials,
        exercises=EXERCISES[entry.load()],
    )


def _asked(
    cls: type,
    kind: Kind,
    epsilon: float,
    delta: float | None,
    horizon: int | None,
    dimension: int | None,
    calibration: str,
) -> Asked:
    budget_epsilon = real_float("epsilon", epsilon)
    stated = kind.delta if delta is None else real_float("delta", delta)
    budget = Budget._derived(budget_epsilon, stated)  # an audit's budget protects nobody
    rounds = kind.horizon if horizon is None else positive_int("horizon", horizon, maximum=10_000)
    if rounds < kind.shortest:
        raise ValueError(f"horizon must be at least {kind.shortest} for {kind.name}; got {rounds}")
    size = kind.dimension
    if dimension is not None:
        if size is None:
            raise ValueError(f"{kind.name} has no dimension to choose")
        size = positive_int("dimension", dimension, maximum=1000)
        if size < kind.smallest:
            raise ValueError(
                f"dimension must be at least {kind.smallest} for {kind.name}; got {size}"
            )
    if calibration not in kind.calibrations:
        raise ValueError(
            f"calibration must be one of {list(kind.calibrations)} for {kind.name}; "
            f"got {calibration!r}"
        )
    return Asked(cls, budget, rounds, size, calibration)
