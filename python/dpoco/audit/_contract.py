"""The subject of contract checks: a learner, how it is played, and what is required."""

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

# Long enough for four checkpoints, five rounds apart, and an incomplete last part. Four threads
# with a quarter of the rounds each end no more than all of them.
ROUNDS = 24
BUDGET = Budget(4.0, 1e-5)
ONLINE = ("records", "surface", "experts", "arms")
RUNNING = (*ONLINE, "sums")  # play many rounds in one call
STEPPED = (*ONLINE, *VERBS)
EVERY = (*STEPPED, "batch")
STARTED = (*STEPPED, "intervals")  # that have states and noise for many rounds

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

# A number that bad records are made of, and what of it must not be in any message.
# The mark has no fraction, so that most formats of the number contain it. The number is far beyond
# the bounds of all small problems, so that it must be clipped.
SECRET, MARK = 987654.25, "987654"


class InapplicableError(Exception):
    """A check has nothing to look at in this learner."""


@dataclass(frozen=True)
class Check:
    """One rule: what it is for, and a function that raises where it is broken.

    The docstring of the function is the rule that a failure quotes.

    Attributes
    ----------
    run : callable
        The function, of a `Subject`.
    plays : tuple of str
        Kinds of learners that it is for, as in `dpoco.learners`.
    arrays : bool
        Whether records must be arrays, so that a custom loss is left out.
    needs : str
        A method that a learner may lack; "" for none.
    """

    run: Callable[[Subject], None]
    plays: tuple[str, ...]
    arrays: bool
    needs: str

    def applies(self, subject: Subject) -> bool:
        """Whether the rule is about such a learner."""
        fits = subject.plays in self.plays and (subject.runs or not self.arrays)
        return fits and (not self.needs or hasattr(subject.first, self.needs))


def check(
    *plays: str, arrays: bool = False, needs: str = ""
) -> Callable[[Callable[[Subject], None]], Check]:
    """Make a check of a function.

    With `arrays`, it is for streams of arrays only, which `run` takes; with `needs`, for learners
    that have this method, which those of the library do.

    Returns
    -------
    callable
        Decorator: the function's name is that of the check, its docstring the rule.
    """
    return lambda run: Check(run, plays, arrays, needs)


def require(holds: object, otherwise: str) -> None:
    """Raise, saying what was found, unless it holds."""
    if not holds:
        raise AssertionError(otherwise)


def expect_error(
    what: str, errors: Errors, call: Callable[..., object], *given: object, **more: object
) -> None:
    """Raise unless a call raises one of the errors, with no data in any message.

    Parameters
    ----------
    what : str
        What was called, for the message.
    errors : type or tuple of types
        Any of which is right.
    call : callable
        With the arguments that follow.

    Raises
    ------
    AssertionError
        If the call returns, raises something else, or a message in the chain quotes `MARK`.
    """
    try:
        call(*given, **more)
    except errors as error:
        shown: BaseException | None = error
        while shown is not None:  # what a traceback would print
            require(MARK not in str(shown), f"{what}: the message quotes the data")
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
    except Exception as error:
        raise AssertionError(f"{what} raised {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{what} was accepted")


def equal(ours: Decision, theirs: Decision) -> bool:
    """Return whether two lists of releases are the same, bit for bit."""
    return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))


def fingerprint(learner: Learner) -> tuple[int, bytes | None]:
    """Return what must not change when a call is refused: round, and the engine's state.

    The bytes of an engine hold its sums, key and position: equal bytes are equal futures.
    """
    engine = getattr(learner, "_engine", None)
    # Learners of custom losses have no state: of them only the round is compared.
    with suppress(StateError):
        return learner.round, None if engine is None else getattr(engine, "state", lambda: None)()
    return learner.round, None


@contextmanager
def expect_no_change(learner: Learner, what: str) -> Iterator[None]:
    """Raise if the learner changes within."""
    before = fingerprint(learner)
    yield
    require(fingerprint(learner) == before, f"{what} changed the learner")


@dataclass(frozen=True)
class Subject:
    """A learner's maker with a stream, and how it is played.

    Attributes
    ----------
    make : callable
        Takes arguments of the constructor by name, returns an unstarted learner.
    plays : str
        As in `dpoco.learners`.
    stream : tuple of sequences
        Parts of the records, one entry a round each; one round more than `ROUNDS`.
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
        """Return an unstarted learner; without a seed, on entropy. Calibrated only if changed.

        Parameters
        ----------
        seed : int or None
            Of its source; None: the operating system's entropy.
        **changes
            Other arguments of the constructor.
        """
        source = Source() if seed is None else Source.seeded(seed)
        given = {self.size: ROUNDS, "source": source, **changes}
        # Neither argument enters a plan, and the search for one takes most of a check's time.
        if changes.keys() <= {"on_violation", "source"} and "plan" in constructor_parameters(
            self.kind
        ):
            given["plan"] = self.first.plan
        with quiet():
            return self.make(**given)

    def record(self, t: int) -> Record:
        """Return the record of a round, as single calls take it."""
        parts = (part[t] for part in self.stream)
        return tuple(float(part) if isinstance(part, np.generic) else part for part in parts)

    def part(self, start: int, stop: int) -> Record:
        """Return the records of some rounds, as `run` takes them."""
        return tuple(part[start:stop] for part in self.stream)

    def ask(self, learner: Learner, t: int, **ticket: object) -> Decision:
        """Ask for the decision of a round."""
        # Only a bandit sees a part of the record, the context, before it decides.
        return learner.decide(*self.record(t)[: self.plays == "arms"], **ticket)

    def tell(self, learner: Learner, t: int, decision: Decision, **ticket: object) -> None:
        """End a round.

        Of a bandit, `decision` picks the reward that it is told; all others see the whole record.
        """
        record = self.record(t)
        if self.plays == "arms":
            # A bandit is told the reward of the arm that it played, and of no other.
            record = (float(record[1][decision]),)
        learner.observe(*record, **ticket)

    def step(self, learner: Learner, t: int) -> Decision:
        """Play a round and return its release.

        Returns
        -------
        object
            The decision, or the answer of a mechanism, or the sum that a monitor releases.
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
        """Play rounds in one call, if there is one for it, and return their releases.

        Parameters
        ----------
        learner : Learner
        start, stop : int
            Rounds, counted from 0.
        **options
            Of its ``run``, such as ``progress``.
        """
        if not hasattr(learner, "run"):
            return self.play(learner, start, stop)
        played = learner.run(*self.part(start, stop), **options)
        if self.plays == "sums":
            return played
        return played.actions if self.plays == "arms" else played.decisions

    def release_all(self, learner: Learner) -> list[Decision]:
        """Play to the end, or fit, and return what was released.

        Returns
        -------
        list
            One release for each round; of a fit its one vector.
        """
        if self.plays != "batch":
            return self.play(learner)
        return [learner.fit(*self.part(0, ROUNDS)).theta]

    @property
    def size(self) -> str:
        """The argument that says how many rounds there are."""
        return length_name(self.kind)

    def plan(self, learner: Learner) -> object:
        """Return the plan of a learner, in what is equal for equal plans.

        A monitor has a method that returns a summary; all others an attribute.
        """
        return learner.plan() if self.plays == "intervals" else learner.plan

    @property
    def runs(self) -> bool:
        """Whether records are arrays, which `run` takes."""
        return not isinstance(getattr(self.first, "loss", None), CustomLoss)

    def applies(self, holds: object) -> None:
        """Leave a check that has nothing to look at.

        Raises
        ------
        InapplicableError
            Unless it holds; the check then counts as one that does not apply.
        """
        if not holds:
            raise InapplicableError


# Asked for every fresh learner; with a limit, so that classes of users can be freed.
@functools.lru_cache(maxsize=64)
def constructor_parameters(kind: type) -> Mapping[str, Parameter]:
    """Return the parameters of a constructor by name."""
    return signature(kind).parameters


# All checks of a learner, and all tests of it, share the one search for its parameters.
@functools.cache
def _standard_subject(name: str) -> Subject:
    """Return the subject of a learner of the library: calibrated once, never played."""
    return _subject(name, None)


def _subject(learner: str | type | Callable[..., Learner], stream: Stream) -> Subject:
    """Return the subject of any learner, with a stream that is made up unless it is given.

    Raises
    ------
    ValueError, TypeError
        For a class whose problem cannot be made up, a member that is missing, and a short stream.
    """
    if isinstance(learner, str):
        learner = learner_named(learner, (*EVERY, "intervals")).load()
    make = _made_up(learner) if isinstance(learner, type) else learner
    assert not isinstance(make, str)
    first = _first(make)
    plays = find_plays(first)
    # A foreign class that lacks a member gets one sentence here instead of an `AttributeError` in
    # the middle of a check.
    missing = [name for name in _MEMBERS.get(plays, _ONLINE_MEMBERS) if not hasattr(first, name)]
    if missing:
        raise TypeError(f"a {type(first).__name__} that plays {plays} needs {', '.join(missing)}")
    if stream is None:
        parts = _random_stream(first, plays)
    else:
        parts = stream if isinstance(stream, tuple) else (stream,)
        if not isinstance(getattr(first, "loss", None), CustomLoss):
            parts = tuple(np.asarray(part, dtype=float) for part in parts)
    # Checks of the horizon ask for one round more than there are.
    if any(len(part) <= ROUNDS for part in parts):
        raise ValueError(f"stream must have at least {ROUNDS + 1} records")
    return Subject(make, plays, parts, first)


def _first(make: Callable[..., Learner]) -> Learner:
    """Return a learner of `ROUNDS` rounds, whatever the maker calls their number."""
    with quiet():
        # The class is not known before its maker is called, so the name of the length is tried. The
        # last call is outside of `suppress`: its error is the one that the caller sees.
        for size in ("horizon", "records"):
            with suppress(TypeError):
                return make(**{size: ROUNDS}, source=Source.seeded(1))
        return make(releases=ROUNDS, source=Source.seeded(1))


def _made_up(kind: type) -> Callable[..., Learner]:
    """Return a maker whose problem is small, and named as the arguments of the constructor.

    Raises
    ------
    TypeError
        Naming the arguments whose meaning is not known, or those that a learner must take.
    """
    problem = {
        "domain": LpBall(3, 2.0), "loss": SquaredLoss(1.0, 1.0), "experts": 4, "arms": 3,
        "dimension": 3, "candidates": 4, "lipschitz": 1.0, "resolution": 9, "alarms": ROUNDS,
        "bound": 1.0, "context_bound": 1.0, "reward_bound": 1.0, "sensitivity": 1.0,
    }  # fmt: skip
    names = constructor_parameters(kind)
    if "every" in names:  # of a monitor
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
    # Some learners take one shape of domain or one kind of loss alone, and raise `TypeError` for
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


# Of which numbers random records are, by the name of their part.
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
    # Linear functions with a slope of at most 0.2 keep the Lipschitz bound of 1.
    if plays == "surface":
        return (rng.uniform(-0.2, 0.2, (n, 1)) * learner.points[:, 0],)
    if plays == "queries":  # near the threshold, so that noise decides
        plan = learner.plan
        return (plan.tuning.margin + plan.mechanism.query_scale * rng.normal(size=n),)
    shapes = Playing(learner).shapes()
    return tuple(rng.uniform(*_RANGES[name], (n, *shape)) for name, shape in shapes.items())
