"""The facts about a kind of mechanism that audits need: what to watch, and what may move.

A subclass of `Family` plays a learner round by round while it writes a `Play`, and says how far two
plays are apart. A `Scorer` knows the law of what is released. `dpoco.audit._kinds` finds both by
the description of the learner's guarantee: a new learner on a known kind of mechanism needs
neither.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import learners
from dpoco._validation import FloatArray, float_array
from dpoco.accounting import Budget, Guarantee
from dpoco.audit._interval_records import renew
from dpoco.audit._playing import Playing, Rounds, same
from dpoco.errors import BudgetExceeded
from dpoco.random import Source

Change = tuple[str, float, float]  # name of a quantity, measured, declared
Make = Callable[[Source], Any]  # a new, unstarted learner on a source

IMPOSSIBLE = "a transcript is impossible under the declared law"


@dataclass
class Play:
    """One run on the tape.

    Attributes
    ----------
    published : list
        What each round published, comparable with ``==``; the decision of a round is made before
        its record is seen.
    variates : list of tuple of int
        Variates drawn of every kind: before the first round, then after each.
    fresh : list of int
        How many variates each round had to draw at least: a round that drew fewer used noise again.
    notes : dict
        What the family needs to compare two plays, round by round.
    memory : dict
        What the family keeps from round to round while it plays.
    findings : list of str
        Violations that this run shows by itself.
    """

    published: list[Any] = field(default_factory=list)
    variates: list[tuple[int, ...]] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    notes: dict[str, list[Any]] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    def note(self, **values: Any) -> None:
        """Add one entry to each of the named lists of `notes`."""
        for name, value in values.items():
            self.notes.setdefault(name, []).append(value)


class Family(Playing, ABC):
    """What the audits ask of those who watch a kind of mechanism in a learner.

    Attributes
    ----------
    needs : tuple of str
        Methods of the learner's engine that the audit calls.
    schedule : {"fixed", "published"}
        Whether the number of variates is a function of the round alone, or of what was published.
    everywhere : bool
        Whether neighbours may differ in all rounds: one record, many queries.
    joint : bool
        Whether privacy is joint: only the own user sees what a round publishes.
    several : bool
        Whether a replay compares all rounds of a person at once: see `spent_by`. Elsewhere these
        rounds are a group, and what each of them moves is compared.
    person_rounds : tuple of int
        Rounds that a replay changes.
    before : Rounds or None
        The stream that a replay changed, while it plays the changed one for a person.
    """

    needs: ClassVar[tuple[str, ...]] = ("variates_drawn",)
    schedule: ClassVar[str] = "fixed"
    everywhere: ClassVar[bool] = False
    joint: ClassVar[bool] = False
    several: ClassVar[bool] = False

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self.person_rounds: tuple[int, ...] = ()
        self.before: Rounds | None = None

    @property
    def mechanism(self) -> Any:
        """The description that the engine was built from; the guarantee's where none is held."""
        own = getattr(self.learner, "_mechanism", None)
        return self.learner.guarantee.description if own is None else own

    @property
    def sensitivity(self) -> float:
        """How far one record may move what the noise hides, in the norm of the noise."""
        raise NotImplementedError

    # ---- streams ---------------------------------------------------------------------------------

    def record(self, rounds: Rounds, replacement: Sequence[Any]) -> tuple[Any, ...]:
        """Return a replacement's record with the shapes of the stream's."""
        count = len(rounds.parts)
        if len(replacement) < count:
            raise ValueError(f"a replacement must be (round, {count} parts of a record)")
        pairs = zip(rounds.parts, replacement, strict=False)
        return tuple(
            float_array("replacement", entry, part.shape[1:])
            if isinstance(part, np.ndarray)
            else entry
            for part, entry in pairs
        )

    @property
    def relation(self) -> str:
        """Which streams are neighbours: "replace" or "zero_out"."""
        return str(self.learner.guarantee.change)

    @property
    def person(self) -> tuple[int, int]:
        """How many rounds the claim protects at once, and how far apart at least."""
        return getattr(self.learner.guarantee, "person", None) or (1, 1)

    def replaces(self, old: Any, new: Any) -> bool:
        """Whether a record changes a round, as neighbours may."""
        free = self.relation != "zero_out" or self.is_empty(old) or self.is_empty(new)
        return free and not same(old, new)

    def check_records(self, old: Any, new: Any) -> None:
        """Raise ``ValueError`` unless one record may stand for the other."""
        if self.relation == "zero_out" and not (self.is_empty(old) or self.is_empty(new)):
            raise ValueError(
                "no neighbours under relation 'zero_out': one of the two records must be empty"
            )

    def check_streams(self, ours: Rounds, theirs: Rounds) -> None:
        """Raise ``ValueError`` unless all that differs comes from one record."""
        return

    def is_empty(self, record: tuple[Any, ...]) -> bool:
        """Whether a record counts as no data: all zero, or not finite."""
        return not np.any(record[0]) or not all(np.all(np.isfinite(part)) for part in record)

    # ---- one learner at a time -------------------------------------------------------------------

    def publication(self, learner: Any, decision: Any) -> Any:
        """Return what a round publishes, comparable with ``==``."""
        return decision.tobytes() if isinstance(decision, np.ndarray) else decision

    def count_variates(self, learner: Any) -> tuple[int, ...]:
        """Return how many variates of each kind a learner has drawn."""
        return tuple(int(n) for n in learner._engine.variates_drawn())

    def facts(self) -> dict[str, bool]:
        """Return what only this family can reach, and whether the learner has reached it."""
        return {}

    def play(self, learner: Any, rounds: Rounds) -> Play:
        """Play a fresh learner on the stream, round by round."""
        play = Play(variates=[self.count_variates(learner)])
        self.start(learner, play)
        for t in range(len(rounds)):
            record = rounds.record(t)
            decision = self.decide(learner, record)
            play.published.append(self.publication(learner, decision))
            self.ask(learner, decision, record, play)
            answer = self.observe(learner, decision, record)
            play.variates.append(self.count_variates(learner))
            play.fresh.append(self.look(learner, t, answer, play))
        self.finish(learner, play)
        return play

    def start(self, learner: Any, play: Play) -> None:
        """Note what is known before the first round."""
        return

    def ask(self, learner: Any, decision: Any, record: tuple[Any, ...], play: Play) -> None:
        """Note what a learner would do with a record that it is about to observe."""
        return

    def look(self, learner: Any, t: int, answer: Any, play: Play) -> int:
        """Note what a learner holds after round t; return how many variates it had to draw."""
        return 0

    def finish(self, learner: Any, play: Play) -> None:
        """Note the decision after the last round, if there is one more."""
        if self.plays in ("records", "experts", "surface") and learner.round < learner.horizon:
            play.published.append(self.publication(learner, self.decide(learner, ())))

    # ---- two plays -------------------------------------------------------------------------------

    @abstractmethod
    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        """Yield what a record replaced in round `at` moved, and by how much it may at most."""

    def spent_by(self, other: Play) -> Iterator[Change]:
        """Yield what all rounds of a person moved, and by how much they may at most."""
        raise NotImplementedError

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        """Yield further violations that only the pair shows."""
        yield from ()


def ratio(moved: float, scale: float) -> float:
    """Return a movement in units of the noise; infinite where there is none."""
    if moved == 0.0:
        return 0.0
    return moved / scale if scale > 0.0 else np.inf * np.sign(moved)


def admit(learner: Any, rows: FloatArray) -> FloatArray:
    """Return losses of experts as a learner uses them, in [0, 1]."""
    low, high = learner._loss_range
    inside: FloatArray = np.clip((rows - low) / (high - low), 0.0, 1.0)
    return np.where(np.isfinite(rows), inside, 0.0)


def make_fresh(make: Make, source: Source, before: Any = None) -> Any:
    """Return a new learner on a source, or raise naming what it is not."""
    learner = make(source)
    if before is not None and (learner is before or type(learner) is not type(before)):
        raise TypeError("make_learner must return a new learner of one class at every call")
    if getattr(learner, "round", 0) != 0 or getattr(learner, "_fitted", False):
        raise ValueError("make_learner must return learners that have not played yet")
    if getattr(learner, "_is_seeded", None) is False and source.is_seeded:
        raise ValueError("make_learner must give the learner the source it is called with")
    if getattr(learner, "_limiter", None) is not None:
        learner._limiter = None  # our streams keep to its rule: all records pass
    if getattr(learner, "_part", None) is not None:
        learner._part.limiter = None
    return learner


def length_name(cls: type) -> str:
    """Return how a class calls the number of its rounds."""
    known = ("records", "releases") if hasattr(cls, "fit") else ("releases",)
    return next((name for name in known if name in signature(cls).parameters), "horizon")


def calibrate_once(
    cls: type,
    *arguments: Any,
    budget: Budget,
    changes: dict[str, Any] | None = None,
    plan: Any = None,
    **options: Any,
) -> Make:
    """Return ``Source -> learner`` of one class, calibrated and accounted for once.

    All learners share parameters and guarantee, so a new one costs its engine only: an audit makes
    thousands. `changes` are made to the calibrated parameters, and accounted for. `plan` takes
    the place of calibration; a published one may spend more than the budget. A class that takes
    no plan is made whole every time, but for monitors, whose plan is found again.
    """
    if "plan" not in signature(cls).parameters:
        whole = partial(cls, *arguments, budget=budget, **options)
        known = learners.learner_of(cls)
        if known is None or known.plays != "intervals":
            return lambda source: whole(source=source)
        once = whole(source=None)
        return lambda source: renew(once, source)
    with quiet():
        planned = {} if plan is None else {"plan": plan}
        try:
            first = cls(*arguments, budget=budget, **planned, **options)
        except BudgetExceeded:
            if plan is None:
                raise
            first = cls(*arguments, budget=None, **planned, **options)
        if changes:
            plan = _change(first.plan, changes)
            first = cls(*arguments, budget=None, plan=plan, **options)

    def promise(*_: Any, **__: Any) -> Guarantee:
        guarantee: Guarantee = first.guarantee
        return guarantee

    body: dict[str, Any] = {"_certify": promise, "__doc__": cls.__doc__}
    shared = type(cls.__name__, (cls,), body)

    def make(source: Source) -> Any:
        with quiet():
            return shared(*arguments, budget=None, plan=first.plan, source=source, **options)

    return make


def _change(plan: Any, changes: dict[str, Any]) -> Any:
    """Return a plan with other fields in its tuning or mechanism, or functions of those."""
    parts = {}
    for name in ("tuning", "mechanism"):
        part = getattr(plan, name)
        own = {key: value for key, value in changes.items() if hasattr(part, key)}
        new = {k: v(getattr(part, k)) if callable(v) else v for k, v in own.items()}
        parts[name] = replace(part, **new)
    return replace(plan, **parts)


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing about utility: learners are played to tell as much as they may, not to learn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def check_neighbours(family: Family | None, ours: Rounds, theirs: Rounds) -> tuple[int, ...]:
    """Return the rounds in which two streams differ, or raise ``ValueError`` saying what is wrong.

    Of a learner that no family knows only the number of these rounds is checked.
    """
    if len(ours.parts) != len(theirs.parts) or len(ours) != len(theirs):
        raise ValueError("no neighbours: the streams have different numbers of rounds or parts")
    differ = tuple(t for t in range(len(ours)) if not same(ours.record(t), theirs.record(t)))
    if not differ:
        raise ValueError("no neighbours: the streams are equal, so nothing could be found")
    if len(differ) > 1 and not (family is not None and family.everywhere):
        most, apart = (1, 1) if family is None else family.person
        if most == 1:
            raise ValueError(
                f"no neighbours: the streams differ in {len(differ)} rounds, and at most one round "
                "may"
            )
        if len(differ) > most or min(np.diff(differ)) < apart:
            raise ValueError(
                f"no neighbours: the streams differ in rounds {list(differ)}, and one person has "
                f"at most {most}, at least {apart} apart"
            )
    if family is not None:
        for t in differ:
            family.check_records(ours.record(t), theirs.record(t))
        family.check_streams(ours, theirs)
    return differ


# ---- likelihoods ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Runs on one stream, scored.

    Attributes
    ----------
    losses : ndarray, shape (trials,)
        Privacy losses: log-likelihood under their own stream less that under the other.
    uniforms : ndarray, shape (trials, steps) or (trials, steps, entries)
        What is uniform on [0, 1] and independent if the noise has its declared law; in the order of
        the releases.
    findings : tuple of str
        Violations that single runs show.
    draws : dict of str to ndarray, shape (trials, draws)
        What is uniform and independent if decisions are drawn by their law given what is released;
        under the name of the order of decisions that it was computed in. Empty where decisions are
        scored themselves, or are functions of the releases.
    """

    losses: FloatArray
    uniforms: FloatArray
    findings: tuple[str, ...] = ()
    draws: dict[str, FloatArray] = field(default_factory=dict)


class Scorer(ABC):
    """Exact likelihoods of what learners of a family release on two streams.

    A subclass raises ``ValueError`` from its constructor where the law is not known after all.
    """

    def __init__(self, family: Family, stream: Any, neighbour: Any) -> None:
        self.family, self.learner = family, family.learner
        self.mechanism = family.mechanism
        self.streams = family.rounds(stream), family.rounds(neighbour)
        check_neighbours(family, *self.streams)
        rounds = len(self.streams[0])
        if not 1 <= rounds <= getattr(self.learner, "horizon", rounds):
            raise ValueError("stream must have at least one round and at most the horizon's")

    @abstractmethod
    def run(self, learner: Any, world: int, tape: Source) -> Any:
        """Play a fresh learner on stream `world`; `tape` is a copy of the source it was given."""

    @abstractmethod
    def score(self, runs: list[Any], world: int) -> Scores:
        """Return the likelihoods of all runs on one stream."""


def spread(chances: FloatArray, chosen: NDArray[np.int64], jitter: FloatArray) -> FloatArray:
    """Return uniforms for draws from finite laws: the drawn cell's place, by a uniform within it.

    Parameters
    ----------
    chances : ndarray, shape (n, values)
        Laws, one a row.
    chosen, jitter : ndarray, shape (n,)
        The draws, and independent uniforms.
    """
    rows = np.arange(len(chosen))
    upper = np.cumsum(chances, axis=1)[rows, chosen]
    return np.clip(upper - jitter * chances[rows, chosen], 0.0, 1.0)


def score_draws(
    own: FloatArray,
    other: FloatArray,
    chosen: NDArray[np.int64],
    world: int,
    stray: str = IMPOSSIBLE,
) -> Scores:
    """Return the scores of draws from finite laws; those that are certain always are not tested.

    Parameters
    ----------
    own, other : ndarray, shape (trials, draws, values)
        Laws of the draws on the runs' own stream and on the other one.
    chosen : ndarray of int, shape (trials, draws)
    world : int
        Of the runs; picks the uniforms that spread the draws.
    stray : str
        What to say of a draw that its own law excludes.
    """
    jitter = Source.seeded(world).uniform(chosen.size)
    places = spread(own.reshape(-1, own.shape[-1]), chosen.ravel(), jitter).reshape(chosen.shape)
    ours, theirs = (
        np.take_along_axis(each, chosen[:, :, None], axis=2)[:, :, 0] for each in (own, other)
    )
    possible = (ours > 0.0) & (theirs > 0.0)
    ratios = np.where(possible, ours, 1.0) / np.where(possible, theirs, 1.0)
    losses = np.where(possible, np.log(ratios), np.inf).sum(axis=1)
    open_ = np.any(own.max(axis=2) < 1.0, axis=0)
    return Scores(losses, places[:, open_], (stray,) if np.any(ours <= 0.0) else ())


class FiniteScorer(Scorer):
    """Scores of transcripts of draws from finite laws; transcripts repeat, and are hashable."""

    def __init__(self, family: Family, stream: Any, neighbour: Any) -> None:
        super().__init__(family, stream, neighbour)
        self._known: dict[Any, tuple[FloatArray, NDArray[np.int64]]] = {}

    @abstractmethod
    def cells(self, transcript: Any, world: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the law of every draw given all before, one a row, and what was drawn.

        As many for every transcript: what is not drawn is certain.
        """

    def score(self, runs: list[Any], world: int) -> Scores:
        for each in [(run, w) for run in runs for w in (0, 1)]:
            if each not in self._known:
                self._known[each] = self.cells(*each)
        own, other = (
            np.array([self._known[run, w][0] for run in runs]) for w in (world, 1 - world)
        )
        chosen = np.array([self._known[run, world][1] for run in runs])
        return score_draws(own, other, chosen, world)


def place_draws(
    chances: FloatArray, chosen: NDArray[np.int64], exact: FloatArray, world: int
) -> dict[str, FloatArray]:
    """Return uniforms for decisions drawn by released weights, in two orders of the decisions.

    By their weights, so that decisions that do not heed the weights are seen; and by what is not
    released, so that those that heed this are.

    Parameters
    ----------
    chances : ndarray, shape (trials, draws, N)
        Laws of the decisions.
    chosen : ndarray of int, shape (trials, draws)
    exact : ndarray, shape (trials, draws, N) or (draws, N)
        Scores without noise, the best least; they may depend on what was released before.
    world : int
        Of the runs; picks the uniforms that spread the draws.
    """
    n = chances.shape[-1]
    laws, picked = chances.reshape(-1, n), chosen.ravel()
    scores = np.broadcast_to(exact, chances.shape).reshape(-1, n)
    out = {}
    for k, (name, keys) in enumerate((("their weights", -laws), ("the exact losses", scores))):
        order = np.argsort(keys, axis=1, kind="stable")
        place = np.argmax(order == picked[:, None], axis=1)
        jitter = Source.seeded(2 + 2 * k + world).uniform(len(picked))
        ordered = np.take_along_axis(laws, order, axis=1)
        out[name] = spread(ordered, place, jitter).reshape(chosen.shape)
    return out
