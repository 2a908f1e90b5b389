"""The subject of contract checks: a learner, the way to play it, and the requirements."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np

from dpoco.accounting import Budget
from dpoco.audit._family import (
    VERBS,
    Decision,
    Learner,
    Options,
    Playing,
    Record,
    Stream,
    count_interval,
    find_plays,
    length_name,
    quiet,
)
from dpoco.domains import Box, LpBall
from dpoco.errors import StateError
from dpoco.learners import learner_named
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss, MarginLoss, SquaredLoss
from dpoco.random import Source
from dpoco.statistics import Count, Mean

# Long enough for four checkpoints, five rounds apart, and an incomplete last part, and a multiple
# of four, so that four threads can play a quarter each.
ROUNDS = 24
BUDGET = Budget(4.0, 1e-5)
ONLINE = ("records", "surface", "experts", "arms")
RUNNING = (*ONLINE, "sums")  # many rounds in one call
STEPPED = (*ONLINE, *VERBS)
EVERY = (*STEPPED, "batch")
STARTED = (*STEPPED, "intervals")  # have states, and noise for many rounds

# Members of a learner that callers use, by the kind of its rounds.
_ONLINE_MEMBERS = ("decide", "observe", "round", "horizon", "guarantee")
_MEMBERS = {
    "records": (*_ONLINE_MEMBERS, "domain", "loss"),
    "batch": ("fit", "guarantee", "domain", "loss"),
    "intervals": ("add", "add_many", "release", "round", "horizon", "guarantee"),
    **{plays: (verb, "round", "horizon", "guarantee") for plays, verb in VERBS.items()},
}

Errors = type[Exception] | tuple[type[Exception], ...]

BAD = (ValueError, TypeError)

# Arguments of every constructor.
_MADE_WITH = ("budget", "horizon", "records", "releases", "source")

# A number for bad records, and its part that must not appear in any message. The mark has no
# fraction, so most formats of the number contain it. The number is far beyond the bounds of all
# small problems, so it must be clipped.
SECRET, MARK = 987654.25, "987654"


class InapplicableError(Exception):
    """A check does not apply to this learner."""


@dataclass(frozen=True)
class Check:
    """One rule: its scope, and a function that raises if the rule is broken.

    A failure quotes the docstring of the function as the rule.

    Attributes
    ----------
    run : callable
        Function of a `Subject`.
    plays : tuple of str
        Kinds of learners to which the rule applies, as in `dpoco.learners`.
    arrays : bool
        Whether records must be arrays, which excludes custom losses.
    needs : str
        Method that a learner must have; "" for none.
    """

    run: Callable[[Subject], None]
    plays: tuple[str, ...]
    arrays: bool
    needs: str

    def applies(self, subject: Subject) -> bool:
        """Whether the rule applies to this learner."""
        fits = subject.plays in self.plays and (subject.runs or not self.arrays)
        return fits and (not self.needs or hasattr(subject.first, self.needs))


def check(
    *plays: str, arrays: bool = False, needs: str = ""
) -> Callable[[Callable[[Subject], None]], Check]:
    """Return a decorator that makes a check of a function.

    With `arrays`, the check is for streams of arrays only, which `run` takes. With `needs`, it is
    for learners that have this method; all learners of the library have it.

    Returns
    -------
    callable
        Decorator. The function's name becomes that of the check, and its docstring the rule.
    """
    return lambda run: Check(run, plays, arrays, needs)


def require(holds: object, otherwise: str) -> None:
    """Raise with the message `otherwise` unless the condition holds."""
    if not holds:
        raise AssertionError(otherwise)


def expect_error(
    what: str, errors: Errors, call: Callable[..., object], *given: object, **more: object
) -> None:
    """Raise unless a call raises one of the errors and no message contains data.

    Parameters
    ----------
    what : str
        Name of the call, for the message.
    errors : type or tuple of types
        Allowed errors.
    call : callable
        Function to call with the arguments that follow.

    Raises
    ------
    AssertionError
        If the call returns, raises another error, or a message in the chain contains `MARK`.
    """
    try:
        call(*given, **more)
    except errors as error:
        shown: BaseException | None = error
        while shown is not None:  # all that a traceback would print
            require(MARK not in str(shown), f"{what}: the message quotes the data")
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{what} was accepted")


def equal(ours: Decision, theirs: Decision) -> bool:
    """Return whether two lists of releases are equal, bit for bit."""
    return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))


def fingerprint(learner: Learner) -> tuple[int, bytes | None]:
    """Return what a refused call must not change: the round and the engine's state.

    An engine's bytes contain its sums, key and position, so equal bytes mean equal futures.
    """
    engine = getattr(learner, "_engine", None)
    # Learners of custom losses have no stored state, so only the round is compared.
    with suppress(StateError):
        return learner.round, None if engine is None else getattr(engine, "state", lambda: None)()
    return learner.round, None


@contextmanager
def expect_no_change(learner: Learner, what: str) -> Iterator[None]:
    """Raise if the learner changes inside the context."""
    before = fingerprint(learner)
    yield
    require(fingerprint(learner) == before, f"{what} changed the learner")


@dataclass(frozen=True)
class Subject:
    """A learner's maker with a stream, and the way to play the learner.

    Attributes
    ----------
    make : callable
        Takes arguments of the constructor by name and returns an unstarted learner.
    plays : str
        As in `dpoco.learners`.
    stream : tuple of sequences
        Parts of the records, with one entry per round, and one round more than `ROUNDS`.
    first : object
        A learner that is never played.
    """

    make: Callable[..., Learner]
    plays: str
    stream: Record
    first: Learner

    @property
    def kind(self) -> Any:
        """The class."""
        return type(self.first)

    def fresh(self, seed: int | None = 1, **changes: object) -> Learner:
        """Return an unstarted learner; on entropy without a seed. Calibrated only if changed.

        Parameters
        ----------
        seed : int or None
            Seed of its source; None is the operating system's entropy.
        **changes
            Other arguments of the constructor.
        """
        source = Source() if seed is None else Source.seeded(seed)
        given = {self.size: ROUNDS, "source": source, **changes}
        # Neither argument affects a plan, and the search for one takes most of a check's time.
        if changes.keys() <= {"on_violation", "source"} and "plan" in constructor_parameters(
            self.kind
        ):
            given["plan"] = self.first.plan
        with quiet():
            return self.make(**given)

    def record(self, t: int) -> Record:
        """Return the record of a round in the form for single calls."""
        parts = (part[t] for part in self.stream)
        return tuple(float(part) if isinstance(part, np.generic) else part for part in parts)

    def part(self, start: int, stop: int) -> Record:
        """Return the records of some rounds in the form for `run`."""
        return tuple(part[start:stop] for part in self.stream)

    def ask(self, learner: Learner, t: int, **ticket: object) -> Decision:
        """Ask for the decision of a round."""
        # Only a bandit sees a part of the record, the context, before its decision.
        return learner.decide(*self.record(t)[: self.plays == "arms"], **ticket)

    def tell(self, learner: Learner, t: int, decision: Decision, **ticket: object) -> None:
        """End a round.

        For a bandit, `decision` selects the reward to report. All other learners see the whole
        record.
        """
        record = self.record(t)
        if self.plays == "arms":
            # A bandit only learns the reward of the arm that it played.
            record = (float(record[1][decision]),)
        learner.observe(*record, **ticket)

    def step(self, learner: Learner, t: int) -> Decision:
        """Play a round and return its release.

        Returns
        -------
        object
            The decision, the answer of a mechanism, or the released sum of a monitor.
        """
        if self.plays in VERBS:
            return getattr(learner, VERBS[self.plays])(*self.record(t))
        if self.plays == "intervals":
            return count_interval(learner, *self.record(t))
        decision = self.ask(learner, t)
        self.tell(learner, t, decision)
        return decision

    def play(self, learner: Learner, start: int = 0, stop: int = ROUNDS) -> list[Decision]:
        """Play rounds one by one and return their releases."""
        return [self.step(learner, t) for t in range(start, stop)]

    def run(
        self, learner: Learner, start: int = 0, stop: int = ROUNDS, **options: object
    ) -> Decision:
        """Play rounds and return their releases, in one call if the learner has such a method.

        Parameters
        ----------
        learner : Learner
        start, stop : int
            Rounds, counted from 0.
        **options
            Options of its ``run``, such as ``progress``.
        """
        if not hasattr(learner, "run"):
            return self.play(learner, start, stop)
        played = learner.run(*self.part(start, stop), **options)
        if self.plays == "sums":
            return played
        return played.actions if self.plays == "arms" else played.decisions

    def release_all(self, learner: Learner) -> list[Decision]:
        """Play to the end, or fit, and return all releases.

        Returns
        -------
        list
            One release per round; for a fit, its vector.
        """
        if self.plays != "batch":
            return self.play(learner)
        return [learner.fit(*self.part(0, ROUNDS)).theta]

    @property
    def size(self) -> str:
        """Name of the argument that sets the number of rounds."""
        return length_name(self.kind)

    def plan(self, learner: Learner) -> object:
        """Return the plan of a learner in a form that is equal for equal plans.

        A monitor has a method that returns a summary; all other learners have an attribute.
        """
        return learner.plan() if self.plays == "intervals" else learner.plan

    @property
    def runs(self) -> bool:
        """Whether records are arrays, which `run` takes."""
        return not isinstance(getattr(self.first, "loss", None), CustomLoss)

    def applies(self, holds: object) -> None:
        """Leave a check that does not apply.

        Raises
        ------
        InapplicableError
            If `holds` is false. The check then counts as not applicable.
        """
        if not holds:
            raise InapplicableError


# Called for every fresh learner. The cache is limited, so that classes of users can be freed.
@functools.lru_cache(maxsize=64)
def constructor_parameters(kind: type) -> Mapping[str, Parameter]:
    """Return the parameters of a constructor by name."""
    return signature(kind).parameters


# All checks and tests of a learner share one search for its parameters.
@functools.cache
def _standard_subject(name: str) -> Subject:
    """Return the subject of a library learner: calibrated once and never played."""
    return _subject(name, None)


def _subject(learner: str | type | Callable[..., Learner], stream: Stream) -> Subject:
    """Return the subject of any learner, with a random stream unless one is given.

    Raises
    ------
    ValueError, TypeError
        For a class without a known problem, for a missing member, and for a short stream.
    """
    if isinstance(learner, str):
        learner = learner_named(learner, (*EVERY, "intervals")).load()
    make = _made_up(learner) if isinstance(learner, type) else learner
    if not callable(make):
        raise TypeError(
            "learner must be a name, a class, or a function that makes one; got an object of "
            f"{type(make).__name__}"
        )
    first = _first(make)
    plays = find_plays(first)
    # If a foreign class lacks a member, we raise one sentence here instead of an `AttributeError`
    # in the middle of a check.
    missing = [name for name in _MEMBERS.get(plays, _ONLINE_MEMBERS) if not hasattr(first, name)]
    if missing:
        raise TypeError(f"a {type(first).__name__} that plays {plays} needs {', '.join(missing)}")
    if stream is None:
        parts = _random_stream(first, plays)
    else:
        parts = stream if isinstance(stream, tuple) else (stream,)
        if not isinstance(getattr(first, "loss", None), CustomLoss):
            parts = tuple(np.asarray(part, dtype=float) for part in parts)
    # Checks of the horizon need one round more than the horizon.
    if any(len(part) <= ROUNDS for part in parts):
        raise ValueError(f"stream must have at least {ROUNDS + 1} records")
    return Subject(make, plays, parts, first)


def _first(make: Callable[..., Learner]) -> Learner:
    """Return a learner of `ROUNDS` rounds, whatever the maker calls that argument."""
    with quiet():
        # The class is unknown until its maker is called, so we try the names. The last call is
        # outside of `suppress`, so the caller sees its error.
        for size in ("horizon", "records"):
            with suppress(TypeError):
                return make(**{size: ROUNDS}, source=Source.seeded(1))
        return make(releases=ROUNDS, source=Source.seeded(1))


def _made_up(kind: type) -> Callable[..., Learner]:
    """Return a maker with a small problem, chosen by the names of the constructor's arguments.

    Raises
    ------
    TypeError
        Names the arguments with unknown meaning, or those that a learner must take.
    """
    problem = {
        "domain": LpBall(3, 2.0), "loss": SquaredLoss(1.0, 1.0), "experts": 4, "arms": 3,
        "dimension": 3, "candidates": 4, "lipschitz": 1.0, "resolution": 9, "alarms": ROUNDS,
        "bound": 1.0, "context_bound": 1.0, "reward_bound": 1.0, "sensitivity": 1.0,
    }  # fmt: skip
    names = constructor_parameters(kind)
    if "every" in names:  # a monitor
        problem |= {"statistics": {"n": Count(), "x": Mean(-1.0, 1.0)}, "every": None}
    strange = [
        name
        for name, parameter in names.items()
        if parameter.default is Parameter.empty and name not in (*problem, *_MADE_WITH)
    ]
    if strange:
        raise TypeError(
            f"pass a function that makes a {kind.__name__}: its problem has no known "
            f"{', '.join(strange)}"
        )
    lacking = [name for name in ("budget", "source") if name not in names]
    if not {"horizon", "records", "releases"} & set(names):
        lacking.append("horizon")
    if lacking:
        raise TypeError(f"the constructor of a {kind.__name__} must take {', '.join(lacking)}")
    given = {name: problem[name] for name in names if name in problem}
    others: list[Options] = [{}, {"domain": LpBall(3, 1.0)}, {"loss": LogisticLoss(1.0)}]
    if "lipschitz" in given:
        others = [{"domain": Box([-1.0], [1.0])}]
    # Some learners only accept one shape of domain or one kind of loss, and raise `TypeError` for
    # others.
    for other in others:
        own = {name: other.get(name, value) for name, value in given.items()}
        make = functools.partial(kind, budget=BUDGET, **own)
        try:
            _first(make)
        except TypeError:
            continue
        return make
    raise TypeError(f"pass a function that makes a {kind.__name__}: its problem is not known")


# Range of random records, by the name of their part.
_RANGES = {
    "features": (-0.9, 0.9), "labels": (-0.9, 0.9), "gradients": (-0.9, 0.9), "losses": (0.0, 1.0),
    "contexts": (-0.5, 0.5), "rewards": (-1.0, 1.0), "records": (-0.5, 0.9), "vectors": (-0.5, 0.5),
    "scores": (-0.5, 0.5),
}  # fmt: skip


def _random_stream(learner: Learner, plays: str) -> Record:
    """Return random records within the bounds of small problems, one more than are played."""
    rng, n = np.random.default_rng(0), ROUNDS + 1
    if plays in ("records", "batch") and not isinstance(learner.loss, LinearLoss | MarginLoss):
        raise ValueError("the records of this loss cannot be made up: pass a stream")
    # Linear functions with slopes of at most 0.2 have the Lipschitz bound 1.
    if plays == "surface":
        return (rng.uniform(-0.2, 0.2, (n, 1)) * learner.points[:, 0],)
    if plays == "queries":  # near the threshold, where the noise decides
        plan = learner.plan
        return (plan.tuning.margin + plan.mechanism.query_scale * rng.normal(size=n),)
    shapes = Playing(learner).shapes()
    return tuple(rng.uniform(*_RANGES[name], (n, *shape)) for name, shape in shapes.items())
