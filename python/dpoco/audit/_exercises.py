"""Exercises: settings that reach what the one hard pair of a standard case does not.

The pair of a case is short, silent and smooth, because that tells most about the claim; code is
wrong elsewhere: in long batches, at records that are not finite, past a cap, in the second block of
a vector. An exercise is a learner in such a setting on a stream of odd records. It is replayed
against neighbours, entered by every way in (`observe`, `run`, a resumed state), and where its law
is known its noise is scored. What no exercise of a learner reached is listed, not passed over.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpoco import bandits, experts, frank_wolfe, mechanisms, oco
from dpoco.accounting import Budget
from dpoco.audit._family import Family, FloatArray, Make, Rounds, family_of, known, made
from dpoco.audit.likelihood import law_findings
from dpoco.audit.replay import replay_audit
from dpoco.audit.report import ExerciseReport
from dpoco.errors import DpocoError, NoiseDominatesWarning
from dpoco.random import Source

Record = tuple[Any, ...]

# Rounds of one call of `run`: none, one, the rest of a batch, several batches.
_CALLS = (0, 1, 4, 5)
_BLOCK = 16  # entries of two of the widest vector registers
_SCORED = "noise scored by its law"

# Rounds in which a record is odd, and what it is multiplied by.
_ODD = {2: np.nan, 5: 1e6, 7: np.inf}

LARGE = Budget(8.0, 1e-3)


@dataclass(frozen=True)
class Exercise:
    """A learner in one setting.

    Attributes
    ----------
    cls : type
        The learner.
    arguments, options : tuple, dict
        Of its constructor, without horizon, budget and source.
    changes : dict
        Of the calibrated parameters: what no option chooses.
    budget : Budget
        Large, so that a short stream shows the law.
    rounds : int
        Of the stream, and the horizon; records of a batch method.
    scale : float
        Size of ordinary records.
    turns : bool
        Whether records pull the other way in the second half.
    odd : bool
        Whether some records are not finite or beyond their bound.
    trials : int
        Runs that are scored. Few do where rounds and entries give many variates each.
    """

    cls: type
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    budget: Budget = LARGE
    rounds: int = 11
    scale: float = 1.0
    turns: bool = False
    odd: bool = True
    trials: int = 24

    @property
    def settings(self) -> dict[str, Any]:
        """What tells it from the other exercises of its class, in words and numbers."""
        named = {**self.options, **self.changes}
        return {name: x for name, x in named.items() if isinstance(x, (str, int, float))} or {
            "defaults, of size": " ".join(str(x) for x in self.arguments if isinstance(x, int))
        }

    def maker(self) -> Make:
        """Return ``Source -> learner``, calibrated once."""
        length = "records" if hasattr(self.cls, "fit") else "horizon"
        return calibrated_once(
            self.cls, *self.arguments, budget=self.budget, changes=self.changes,
            **{length: self.rounds, **self.options},
        )  # fmt: skip

    def stream(self, family: Family) -> Rounds:
        """Return records that pull one way, the first two at opposite ends of what is allowed."""
        tape, parts = Source.seeded(1), []
        for k, shape in enumerate(family.shapes().values()):
            size = (self.rounds, *shape)
            spread = tape.uniform(int(np.prod(size))).reshape(size) - 0.5
            part = self.scale * (0.5 * _signs(shape) + spread)
            if self.turns:
                part[self.rounds // 2 :] *= -1.0
            if shape or k > 0:  # single queries stay near their threshold
                part[0], part[1] = _signs(shape), -np.ones(shape)
            for t, factor in _ODD.items():
                if self.odd and k == 0 and t < self.rounds:
                    part[t].flat[0] = 1.0  # infinity times zero would be no infinity
                    part[t] *= factor
            parts.append(part)
        return Rounds(tuple(parts))

    def neighbours(self, family: Family, stream: Rounds) -> list[Record]:
        """Return neighbours, as `replay_audit` takes them."""
        last = self.rounds - 2
        if family.everywhere:
            # Queries about the same data: a record moves each of them by its sensitivity at most.
            p, (rows,) = family.learner.parameters, stream.parts
            pull = _signs(rows.shape[1:])
            moves: list[tuple[int, Any]] = [(t, x) for t in (0, last) for x in (1.0, -1.0)]
            if not getattr(p, "one_directional", rows.ndim == 1):
                moves += [(3, pull), (4, -pull)]
            return [(t, rows[t] + p.sensitivity * move) for t, move in moves]
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
    signs: FloatArray = np.where(np.arange(int(np.prod(shape))) % 2, -1.0, 1.0).reshape(shape)
    return signs


# Options that choose other code: parameters of a class, and all that they can be.
CHOICES: dict[type, dict[str, tuple[str, ...]]] = {
    experts.BatchShare: {"noise": ("knorm", "gaussian", "laplace", "coordinate_rr")},
    experts.PrefixHedge: {"numerics": ("float", "lattice")},
    experts.EpochSelector: {"selection": ("exponential", "gumbel", "laplace")},
    experts.ObliviousTracker: {"prior": ("share", "at_most")},
    frank_wolfe.TreeFrankWolfe: {"numerics": ("float", "lattice")},
    oco.NoisyFTRL: {"numerics": ("float", "lattice"), "statistics": ("gradient", "quadratic")},
    frank_wolfe.PolyhedralFrankWolfe: {"selector": ("gumbel", "laplace")},
    oco.CoupledRegularizedLeader: {"coupling": ("scheduled", "density_ratio")},
    oco.ContinuousMultiplicativeWeights: {
        "coupling": ("scheduled", "density_ratio", "dartboard", "anchored")
    },
    bandits.LinUCB: {"numerics": ("float", "lattice")},
    bandits.HighDimensionalBandit: {"arm_learner": ("polyhedral", "tree")},
    mechanisms.ContinualSum: {"noise": ("gaussian", "generalized_gaussian")},
    mechanisms.NoisyMax: {"noise": ("exponential", "gumbel")},
}


def calibrated_once(
    cls: type,
    *arguments: Any,
    budget: Budget,
    changes: dict[str, Any] | None = None,
    **options: Any,
) -> Make:
    """Return ``Source -> learner`` of one class, calibrated and accounted for once.

    All learners share parameters and guarantee, so a new one costs its engine only: an audit makes
    thousands. `changes` are made to the calibrated parameters, and accounted for.
    """
    with _quiet():
        first = cls(*arguments, budget=budget, **options)
        if changes:
            parameters = replace(first.parameters, **changes)
            first = cls(*arguments, budget=None, parameters=parameters, **options)
    own = vars(first._accountant)
    promised = SimpleNamespace(**{**own, "guarantee": lambda *_, **__: first.guarantee})
    shared = type(cls.__name__, (cls,), {"_accountant": promised, "__doc__": cls.__doc__})

    def make(source: Source) -> Any:
        with _quiet():
            return shared(
                *arguments, budget=None, parameters=first.parameters, source=source, **options
            )

    return make


@contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing about utility: a case is to tell as much as it may, not to learn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseDominatesWarning)
        yield


def exercise_attack(
    exercises: tuple[Exercise, ...], seed: int, confidence: float
) -> ExerciseReport:
    """Return what all exercises of one learner found, reached, and did not reach."""
    error = (1.0 - confidence) / max(1, len(exercises))
    findings: list[str] = []
    facts: dict[str, bool] = {}
    pairs = scored = 0
    for exercise in exercises:
        texts, reached, played = _exercised(exercise, seed, error)
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


def _exercised(
    exercise: Exercise, seed: int, error: float
) -> tuple[list[str], dict[str, bool], int]:
    """Return the findings of one exercise, what it could reach and did, and its neighbours."""
    make = exercise.maker()
    learner = made(make, Source.seeded(seed))
    family = family_of(learner)
    rounds = exercise.stream(family)
    neighbours = exercise.neighbours(family, rounds)
    own = ", ".join(f"{name} {value}" for name, value in exercise.settings.items())
    findings: list[str] = []
    reached: dict[str, bool] = {}
    attacks: tuple[Callable[[], Iterable[str]], ...] = (
        lambda: replay_audit(make, rounds.stream, neighbours, seed=seed).findings,
        lambda: _enter(make, family, rounds, seed, reached),
        # Scorers take for granted what the two others look at.
        lambda: (
            ()
            if findings
            else _law(make, rounds, neighbours[0], exercise.trials, seed, error, reached)
        ),
    )
    for attack in attacks:
        try:
            findings += (f"{own}: {text}" for text in attack())
        except DpocoError as reason:  # of a stream that it must play, a state that it wrote
            findings.append(f"{own}: {type(reason).__name__}: {reason}")
    return findings, reached, len(neighbours)


def _law(
    make: Make,
    rounds: Rounds,
    neighbour: Record,
    trials: int,
    seed: int,
    error: float,
    reached: dict[str, bool],
) -> list[str]:
    """Score the noise of some runs, where its law is known."""
    at, *record = neighbour
    streams = rounds.stream, rounds.replaced(at, record).stream
    found = law_findings(make, *streams, trials, seed=seed, error=error)
    reached[_SCORED] = found is not None
    return found or []


def _enter(
    make: Make, family: Family, rounds: Rounds, seed: int, reached: dict[str, bool]
) -> Iterator[str]:
    """Play a stream by all ways in, side by side, and note what it reached."""
    learner, runs = family.learner, made(make, Source.seeded(seed))
    ends = [min(end, len(rounds)) for end in itertools.accumulate(_CALLS)] + [len(rounds)]
    for first, last in itertools.pairwise(ends) if not hasattr(learner, "fit") else ():
        before = learner._engine.state()
        for t in range(first, last):
            family.step(learner, rounds.record(t))
        if not hasattr(learner, "run"):
            continue
        resumed = made(make, Source.seeded(seed))
        resumed._engine.restore(before)
        for other, text in ((runs, "`run`"), (resumed, "`run` of a resumed state")):
            other.run(*(part[first:last] for part in rounds.parts))
            if other._engine.state() != learner._engine.state():
                yield f"{text} leaves another state than `observe`, round by round"
    reached |= _facts(family, rounds.parts[0])


def _facts(family: Family, rows: FloatArray) -> dict[str, bool]:
    """Return what can be reached with such a learner, and whether it was."""
    learner = family.learner
    p = learner.parameters
    facts = {
        "records that are not finite": not bool(np.all(np.isfinite(rows))),
        "records beyond their bound": bool(np.any(np.abs(rows) > 1e3)),
    }
    if rows.ndim > 1:
        size = rows.shape[1]
        facts |= {
            "an odd dimension": size % 2 == 1,
            "an even dimension": size % 2 == 0,
            f"a dimension above {_BLOCK}": size > _BLOCK,
        }
    batch = getattr(p, "batch", getattr(p, "block", None))
    if isinstance(batch, int) and not hasattr(learner, "fit"):
        facts["batches of several rounds"] = batch > 1
        facts["a last batch that is incomplete"] = len(rows) % batch != 0
    if hasattr(learner, "run"):
        facts |= {"run beside observe": True, "a resumed state": True}
    facts |= family.facts()
    for name, values in CHOICES.get(known(learner).load(), {}).items():
        facts |= {f"{name} {value}": getattr(p, name) == value for value in values}
    return facts
