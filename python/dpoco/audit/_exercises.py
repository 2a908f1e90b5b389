"""Exercises: settings that reach code which the one hard pair of a standard case does not.

The pair of a case is short, with silent records and smooth losses, because this shows most about
the claim. But bugs are elsewhere: in long batches, at records that are not finite, after a cap, in
the second block of a vector. An exercise is a learner in such a setting on a stream of odd records.
It is replayed against neighbours and entered in every possible way (`observe`, `run`, a resumed
state). If its law is known, its noise is scored. A report lists the facts that no exercise of a
learner reached.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from dpoco import Participation, statistics
from dpoco._validation import FloatArray
from dpoco.accounting import Budget
from dpoco.accounting.plan import Plan
from dpoco.audit._family import (
    Family,
    Learner,
    Make,
    Options,
    Record,
    Rounds,
    calibrate_once,
    length_name,
    make_fresh,
)
from dpoco.audit._kinds import find_family
from dpoco.audit.likelihood import law_findings
from dpoco.audit.replay import replay_audit
from dpoco.audit.report import ExerciseReport
from dpoco.domains import Box, LpBall, Simplex
from dpoco.errors import DpocoError
from dpoco.learners import LEARNERS, MONITORS, find_learner, learner_named
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.privacy.mechanisms.coupled_draws import Always, Anchored, Dartboard, Window
from dpoco.random import Source

# Numbers of rounds of one call of `run`: none, one, the rest of a batch, several batches.
_CALLS = (0, 1, 4, 5)
_BLOCK = 16  # entries of two of the widest vector registers
_SCORED = "noise scored by its law"

# Rounds with an odd record, and the factor on the record.
_ODD = {2: np.nan, 5: 1e6, 7: np.inf}

LARGE = Budget(8.0, 1e-3)


@dataclass(frozen=True)
class Exercise:
    """A learner with a choice of options, to be attacked by replays.

    Attributes
    ----------
    cls : type
        The learner.
    arguments, options : tuple, dict
        Options of its constructor, other than horizon, budget and source.
    changes : dict
        Changes of the calibrated parameters for which there is no option.
    budget : Budget
        Large enough for a short stream to show the distribution.
    rounds : int
        Length of the stream, and horizon; the number of records for a one-time fit.
    scale : float
        Size of ordinary records.
    turns : bool
        Whether records point in the other direction in the second half.
    odd : bool
        Whether some records are not finite or exceed their bound.
    trials : int
        Number of scored runs. Few are enough if rounds and entries give many variates each.
    """

    cls: type
    arguments: Record = ()
    options: Options = field(default_factory=dict)
    changes: Options = field(default_factory=dict)
    budget: Budget = LARGE
    rounds: int = 11
    scale: float = 1.0
    turns: bool = False
    odd: bool = True
    trials: int = 24

    @property
    def settings(self) -> Options:
        """Differences from the other exercises of its class, in words and numbers."""
        named = {**self.options, **self.changes}
        kinds = {name: getattr(x, "kind", x) for name, x in named.items()}
        return {name: x for name, x in kinds.items() if isinstance(x, (str, int, float))} or {
            "defaults, of size": " ".join(str(x) for x in self.arguments if isinstance(x, int))
        }

    def maker(self) -> Make:
        """Return ``Source -> learner``, calibrated once.

        Raises
        ------
        CalibrationError
            If no noise meets the exercise's budget.
        """
        return calibrate_once(
            self.cls, *self.arguments, budget=self.budget, changes=self.changes,
            **{length_name(self.cls): self.rounds, **self.options},
        )  # fmt: skip

    def stream(self, family: Family) -> Rounds:
        """Return records that point in one direction; the first two are opposite extremes.

        Returns
        -------
        Rounds
            All parts are drawn from one seed, so that an exercise is the same in every audit. Some
            records are not finite or far too large, unless `odd` is False.
        """
        tape, parts = Source.seeded(1), []
        for k, shape in enumerate(family.shapes().values()):
            size = (self.rounds, *shape)
            spread = tape.uniform(int(np.prod(size))).reshape(size) - 0.5
            part = self.scale * (0.5 * _signs(shape) + spread)
            if self.turns:
                part[self.rounds // 2 :] *= -1.0
            if shape or k > 0:  # single queries must stay near their threshold
                part[0], part[1] = _signs(shape), -np.ones(shape)
            for t, factor in _ODD.items():
                if self.odd and k == 0 and t < self.rounds:
                    part[t].flat[0] = 1.0  # infinity times zero would be NaN
                    part[t] *= factor
            parts.append(part)
        return Rounds(tuple(parts))

    def neighbours(self, family: Family, stream: Rounds) -> list[Record]:
        """Return neighbouring streams in the form for `replay_audit`.

        Returns
        -------
        list of tuple
            Round and record of each: opposite extremes, empty records, records far beyond their
            bound, in the first round, within batches and in the last round that is followed by
            another one.
        """
        # No decision follows the record after it, which may affect nothing.
        last = self.rounds - 2
        if family.moves_all_rounds:
            # Queries are about the same data, so a record moves each of them by at most its
            # sensitivity.
            (rows,) = stream.parts
            pull = _signs(rows.shape[1:])
            moves: list[tuple[int, FloatArray | float]] = [
                (t, x) for t in (0, last) for x in (1.0, -1.0)
            ]
            if rows.ndim > 1 and not family.mechanism.scores.one_way:
                moves += [(3, pull), (4, -pull)]
            return [(t, rows[t] + family.sensitivity * move) for t, move in moves]
        ones = tuple(np.ones(part.shape[1:]) for part in stream.parts)
        signs = tuple(_signs(part.shape[1:]) for part in stream.parts)
        if family.relation == "zero_out":
            empty = [0.0 * one for one in ones]
            return [(0, *empty), (3, *empty), (last, *empty), (4, *(np.nan * one for one in ones))]
        wild = [
            (3, *(np.nan * one for one in ones)),
            (3, *(1e6 * sign for sign in signs)),
            (4, *(np.inf * one for one in ones)),
        ]
        return [
            (0, *(-sign for sign in signs)),
            *([(0, signs[0], *(-one for one in ones[1:]))] if len(signs) > 1 else ()),
            (1, *ones),
            (8, *signs),
            (last, *(-part[last] for part in stream.parts)),
            *(wild if self.odd else ()),
        ]


def _signs(shape: tuple[int, ...]) -> FloatArray:
    """Return 1, -1, 1, ... in an array of this shape; 1 for a number."""
    return np.where(np.arange(int(np.prod(shape))) % 2, -1.0, 1.0).reshape(shape)


# Options that select other code, with all their values, by names of `dpoco.learners`.
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "batch-share": {"noise": ("knorm", "gaussian", "laplace")},
    "prefix-hedge": {"numerics": ("float", "lattice")},
    "epoch-selector": {"selection": ("exponential", "gumbel", "laplace")},
    "window-selector": {"selection": ("exponential", "gumbel")},
    "oblivious-tracker": {"prior": ("share", "at_most")},
    "tree-frank-wolfe": {"numerics": ("float", "lattice")},
    "noisy-ftrl": {"numerics": ("float", "lattice"), "statistics": ("gradient", "quadratic")},
    "noisy-newton": {"numerics": ("float", "lattice")},
    "polyhedral-frank-wolfe": {"selector": ("gumbel", "laplace")},
    "ctrl": {"coupling": ("scheduled", "density_ratio")},
    "comw": {"coupling": ("scheduled", "density_ratio", "dartboard", "anchored")},
    "linucb": {"numerics": ("float", "lattice")},
    "residual-phases": {"numerics": ("float", "lattice"), "context_law": ("normal", "any")},
    "high-dimensional-bandit": {"arm_learner": ("polyhedral", "tree")},
    "continual-sum": {"noise": ("gaussian", "generalized_gaussian")},
    "noisy-max": {"noise": ("exponential", "gumbel")},
}


def exercise_attack(
    exercises: tuple[Exercise, ...], seed: int, confidence: float
) -> ExerciseReport:
    """Return what all exercises of a learner found, reached, and did not reach.

    Parameters
    ----------
    exercises : tuple of Exercise
        Exercises of one class.
    seed : int
        Seed of all tapes.
    confidence : float
        Probability, over all exercises together, of finding nothing if there is nothing.
    """
    # Union bound over the exercises.
    error = (1.0 - confidence) / max(1, len(exercises))
    findings, facts, pairs, scored = list[str](), dict[str, bool](), 0, 0
    for exercise in exercises:
        texts, reached, played = _play_exercise(exercise, seed, error)
        findings += texts
        pairs += played
        scored += reached.get(_SCORED, False)
        for name, seen in reached.items():
            facts[name] = facts.get(name, False) or seen
    return ExerciseReport(
        len(exercises),
        pairs,
        scored,
        tuple(dict.fromkeys(findings)),
        tuple(name for name, seen in facts.items() if seen),
        tuple(name for name, seen in facts.items() if not seen),
    )


def _play_exercise(
    exercise: Exercise, seed: int, error: float
) -> tuple[list[str], dict[str, bool], int]:
    """Return the findings of an exercise, the facts it could reach and did, and its neighbours.

    Parameters
    ----------
    exercise : Exercise
    seed : int
    error : float
        Largest probability of a false finding of its statistical part.
    """
    make = exercise.maker()
    learner = make_fresh(make, Source.seeded(seed))
    family = find_family(learner)
    rounds = exercise.stream(family)
    neighbours = exercise.neighbours(family, rounds)
    own = ", ".join(f"{name} {value}" for name, value in exercise.settings.items())
    findings, reached = list[str](), dict[str, bool]()

    def law() -> list[str]:
        """Return findings about the law of the noise, if it is known and nothing was found yet."""
        if findings:  # scorers assume what the two other parts check
            return []
        at, *record = neighbours[0]
        streams = rounds.stream, rounds.with_record(at, record).stream
        found = law_findings(make, *streams, exercise.trials, seed=seed, error=error)
        reached[_SCORED] = found is not None
        # None means that the law is unknown; an empty list means that nothing was found.
        return found or []

    attacks: tuple[Callable[[], Iterable[str]], ...] = (
        lambda: replay_audit(make, rounds.stream, neighbours, seed=seed).findings,
        lambda: _enter(make, family, rounds, seed, reached),
        law,
    )
    for attack in attacks:
        try:
            findings += (f"{own}: {text}" for text in attack())
        except DpocoError as reason:  # for a valid stream, or for a state that it wrote itself
            findings.append(f"{own}: {type(reason).__name__}: {reason}")
    return findings, reached, len(neighbours)


def _enter(
    make: Make, family: Family, rounds: Rounds, seed: int, reached: dict[str, bool]
) -> Iterator[str]:
    """Play a stream in all ways side by side, and note what it reached.

    Yields
    ------
    str
        Ways that end in another state, in bytes, than `observe` round by round.
    """
    learner, runs = family.learner, make_fresh(make, Source.seeded(seed))
    ends = [min(end, len(rounds)) for end in itertools.accumulate(_CALLS)] + [len(rounds)]
    for first, last in itertools.pairwise(ends) if not hasattr(learner, "fit") else ():
        before = learner._engine.state()
        for t in range(first, last):
            family.step(learner, rounds.record(t))
        if not hasattr(learner, "run"):
            continue
        # The seed of the new learner has no effect, because the restored state contains the key.
        resumed = make_fresh(make, Source.seeded(seed))
        resumed._engine.restore(before)
        for other, text in ((runs, "`run`"), (resumed, "`run` of a resumed state")):
            other.run(*(part[first:last] for part in rounds.parts))
            if other._engine.state() != learner._engine.state():
                yield f"{text} leaves another state than `observe`, round by round"
    reached |= _facts(family, rounds.parts[0])


def _facts(family: Family, rows: FloatArray) -> dict[str, bool]:
    """Return the facts that such a learner can reach, and whether each was reached.

    Facts that do not apply to the learner are left out: for example, a vector that is a number has
    no dimension.
    """
    learner, options = family.learner, _read_options(family.learner)
    facts = {
        "records that are not finite": not bool(np.all(np.isfinite(rows))),
        "records beyond their bound": bool(np.any(np.abs(rows) > 1e3)),
    }
    if rows.ndim > 1:
        size = rows.shape[1] if rows.ndim == 2 else family.mechanism.summand.size
        facts |= {"an odd dimension": size % 2 == 1, "an even dimension": size % 2 == 0}
        facts[f"a dimension above {_BLOCK}"] = size > _BLOCK
    batch = options.get("batch", options.get("block"))
    if isinstance(batch, int) and not hasattr(learner, "fit"):
        facts["batches of several rounds"] = batch > 1
        facts["a last batch that is incomplete"] = len(rows) % batch != 0
    if hasattr(learner, "run"):
        facts |= {"run and observe": True, "a resumed state": True}
    if family.joins_rounds and "participation" in signature(type(learner)).parameters:
        facts["all rounds of a person"] = family.person[0] > 1
    facts |= family.facts()
    listed = find_learner(type(learner))
    for name, values in CHOICES.get("" if listed is None else listed.name, {}).items():
        facts |= {f"{name} {value}": options[name] == value for value in values}
    return facts


def _read_options(learner: Learner) -> Options:
    """Return the options of a learner, where a plan decides some of them; a monitor has no plan."""
    plan = learner.plan
    return {**learner._arguments, **learner._plan_arguments(plan)} if isinstance(plan, Plan) else {}


# ---- the exercises of all learners ---------------------------------------------------------------


def _row(learner: str, *arguments: object, **options: Any) -> Exercise:
    """Return an exercise of a listed learner; options of learner and exercise differ by name."""
    own = {name: options.pop(name) for name in list(options) if name in _OWN}
    return Exercise(learner_named(learner, _PLAYED).load(), arguments, options, **own)


_PLAYED = {each.plays for each in (*LEARNERS, *MONITORS)}
_OWN = ("changes", "budget", "rounds", "scale", "turns", "odd", "trials")
_PURE, _CLEAR, _RICH = Budget(8.0, 0.0), Budget(50.0, 0.0), Budget(40.0, 1e-3)
_LINEAR, _SQUARED, _LOGISTIC = LinearLoss(1.0), SquaredLoss(1.0, 1.0), LogisticLoss(1.0)
_PERSON = Participation(3, 2, enforced=False)
_BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}
_STATISTICS = {
    "n": statistics.Count(), "x": statistics.Mean(-0.5, 0.5), "y": statistics.Sum(-0.5, 1.0),
    "w": statistics.Quantiles((0.5,), (-0.5, 0.0, 0.5)),
}  # fmt: skip
# The span of a dartboard is that of linear losses on a unit ball.
_COINS = {
    "scheduled": Always(), "density_ratio": Window(0.5, 0.3, 0.3), "dartboard": Dartboard(0.5, 2.0),
    "anchored": Anchored(0.5, 0.3),
}  # fmt: skip
_SMALL, _WIDE = 3, 18  # dimensions: odd, and even above a block of vector registers


def _couplings(learner: str) -> tuple[Exercise, ...]:
    """Return exercises for all couplings: on a line, to be scored, and in many dimensions."""
    # Their laws are known on a line, for records within their bounds.
    return tuple(
        _row(learner, domain, _LINEAR, odd=odd, changes=_coins(learner, coupling))
        for coupling in CHOICES[learner]["coupling"]
        for domain, odd in ((LpBall(1, 2.0), False), (LpBall(_WIDE, 2.0), True))
    )


def _coins(learner: str, coupling: str) -> Options:
    """Return coins, and a cap that a few rounds reach, which no calibration would choose."""
    changes: Options = {"keep": _COINS[coupling], "block": 2, "cap": 2}
    if learner == "comw":
        changes["draw"] = partial(replace, inverse_temperature=0.5, regularization=8.0)
        changes["anchors"] = 4 if coupling == "anchored" else 0
    return changes


def _sums(name: str) -> tuple[Exercise, ...]:
    """Return exercises for a learner on sums: grids, trees, batches, relations and people."""
    ball, wide = LpBall(_SMALL, 2.0), LpBall(_WIDE, 2.0)
    return (
        _row(name, ball, _SQUARED, batch=2, numerics="float"),
        _row(name, wide, _LINEAR, numerics="lattice"),
        _row(name, wide, _LOGISTIC, batch=4, numerics="lattice", sum_method="tree"),
        _row(name, ball, _LINEAR, relation="zero_out", sum_method="tree", batch=3),
        _row(name, ball, _SQUARED, batch=3, participation=_PERSON),
    )


_LISTED = (
    _row("prefix-hedge", 5, numerics="float", sum_method="toeplitz"),
    _row("prefix-hedge", _WIDE, numerics="lattice"),
    _row("prefix-hedge", 5, participation=_PERSON),
    _row("epoch-selector", 5, budget=_PURE),
    _row("epoch-selector", _WIDE, selection="gumbel"),
    _row("epoch-selector", 4, selection="laplace", budget=_PURE),
    _row("window-selector", 5, budget=_PURE, window=3),
    _row("window-selector", _WIDE, selection="gumbel", window=4),
    # Without an allowance for the selection's noise, alarms occur on either stream.
    *(_row("shift-detector", n, budget=_PURE, threshold_scale=1e-2, rounds=23, turns=True,
          windows=windows, changes={"log_selection": None})
      for n, windows in ((3, "tangent"), (_WIDE, "dyadic"))),
    *(_row("oblivious-tracker", n, forced_switch=0.5, **options)
      for n, options in (
          (5, {"switches": 2, "batch": 2, "max_resamples": 1}),
          (_WIDE, {"switches": 2, "batch": 1, "max_resamples": 2}),
          (4, {"switches": 1, "batch": 2, "prior": "at_most", "max_resamples": 1}),
      )),
    _row("batch-share", 5, batch=2, switches=1, noise="knorm", budget=_PURE),
    _row("batch-share", _WIDE, batch=2, switches=1, noise="gaussian"),
    _row("batch-share", 5, batch=3, noise="gaussian"),
    _row("batch-share", 4, batch=3, switches=1, noise="laplace", budget=_PURE),
    *(_row("lipschitz", Box([0.0], [1.0]), lipschitz=1.0, resolution=n, participation=rule)
      for n, rule in ((5, _PERSON), (_WIDE, None))),
    *_sums("tree-frank-wolfe"),
    *_sums("noisy-ftrl"),
    _row("noisy-ftrl", LpBall(_SMALL, 2.0), _SQUARED, statistics="quadratic"),
    _row("noisy-ftrl", LpBall(6, 2.0), _SQUARED, statistics="quadratic", batch=2),
    _row("noisy-newton", LpBall(_SMALL, 2.0), _LOGISTIC, numerics="float", relation="zero_out",
        changes={"batch": 2, "pushes": 5}),
    _row("noisy-newton", LpBall(_WIDE, 2.0), _LOGISTIC, numerics="lattice", rounds=30),
    _row("noisy-newton", LpBall(_SMALL, 1.0), _LOGISTIC, participation=_PERSON),
    _row("polyhedral-frank-wolfe", LpBall(_SMALL, 1.0), _SQUARED, batch=2, budget=_RICH),
    _row("polyhedral-frank-wolfe", LpBall(2, 1.0), _LINEAR, batch=1, participation=_PERSON),
    *(_row("polyhedral-frank-wolfe", domain, _LINEAR, batch=4, selector=selector, rounds=23,
          trials=150)
      for domain, selector in (
          (Box([-1.0] * 2, [1.0] * 2), "laplace"), (Simplex(_WIDE), "gumbel"))),
    _row("sufficient-statistics", LpBall(_SMALL, 2.0), _SQUARED, rounds=9),
    _row("sufficient-statistics", LpBall(_WIDE, 2.0), _SQUARED, rounds=10),
    *_couplings("ctrl"),
    *_couplings("comw"),
    _row("linucb", 2, _SMALL, batch=2, numerics="float", **_BOUNDED),
    _row("linucb", 3, _WIDE, batch=1, numerics="lattice", **_BOUNDED),
    _row("linucb", 2, _SMALL, batch=3, participation=_PERSON, **_BOUNDED),
    _row("residual-phases", 2, _SMALL, numerics="float", **_BOUNDED),
    _row("residual-phases", 3, _WIDE, numerics="lattice", reward_noise=0.5, **_BOUNDED),
    _row("residual-phases", 2, _SMALL, participation=_PERSON, **_BOUNDED),
    _row("residual-phases", 2, _SMALL, context_law="any", **_BOUNDED),
    *(_row("high-dimensional-bandit", 2, LpBall(d, 1.0), **_BOUNDED, **options)
      for d, options in (
          (_SMALL, {"batch": 2, "arm_learner": "tree", "forced_rounds": 2}),
          (_WIDE, {"batch": 3, "arm_learner": "polyhedral", "forced_rounds": 3}),
          (_SMALL, {"batch": 1, "arm_learner": "tree", "forced_rounds": 0,
                    "relation": "zero_out"}),
      )),
    _row("continual-sum", _WIDE, numerics="lattice", bound=1.0),
    _row("continual-sum", _SMALL, participation=_PERSON, bound=1.0),
    _row("continual-sum", _WIDE, numerics="float", method="tree", bound=1.0),
    _row("continual-sum", _SMALL, norm=4.0, noise="generalized_gaussian", method="tree",
        bound=1.0),
    _row("monitor", _STATISTICS, every=None, by={"g": ("u", "v")}),
    _row("monitor", {"n": statistics.Count(), "x": statistics.Mean(-0.5, 0.5)},
        every=None, views=("total",), relation="replace"),
    _row("monitor", _STATISTICS, every=None, by={"g": ("u",)}, participation=_PERSON,
        records_per_interval=3, rounds=15),
    _row("noisy-max", 5, budget=_PURE, sensitivity=1.0),
    _row("noisy-max", _WIDE, noise="gumbel", one_directional=True, largest=False,
        sensitivity=1.0),
    _row("above-threshold", budget=_CLEAR, alarms=3, scale=4.0, rounds=15,
        sensitivity=1.0),
    _row("above-threshold", budget=_PURE, scale=4.0, sensitivity=1.0),
)  # fmt: skip

EXERCISES: dict[type, tuple[Exercise, ...]] = {
    cls: tuple(each for each in _LISTED if each.cls is cls)
    for cls in dict.fromkeys(each.cls for each in _LISTED)
}
