"""The contract of learners and mechanisms: what callers rely on, as checks that anybody may run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from dpoco._validation import named
from dpoco.accounting import Budget
from dpoco.audit._family import quiet
from dpoco.domains import Box, LpBall
from dpoco.errors import StateError
from dpoco.learners import learner_named, learner_of
from dpoco.losses import CustomLoss, GlmLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

ROUNDS = 24
BUDGET = Budget(4.0, 1e-5)
VERBS = {"sums": "push", "scores": "select", "queries": "test"}
ONLINE = ("records", "surface", "experts", "arms")
RUNNING = (*ONLINE, "sums")  # play many rounds in one call
STEPPED = (*ONLINE, *VERBS)
EVERY = (*STEPPED, "batch")

BAD = (ValueError, TypeError)

# A number that bad records are made of, and what of it must not be in any message.
SECRET, MARK = 987654.25, "987654"


class InapplicableError(Exception):
    """A check has nothing to look at in this learner."""


@dataclass(frozen=True)
class Check:
    """One rule: what it is for, and a function that raises where it is broken."""

    plays: tuple[str, ...]
    arrays: bool
    needs: str
    run: Callable[[Subject], None]


_CHECKS: dict[str, Check] = {}


def check(
    *plays: str, arrays: bool = False, needs: str = ""
) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Enter a function into the contract; its docstring is the rule that a failure quotes.

    With `arrays`, it is for streams of arrays only, which `run` takes; with `needs`, for learners
    that have this method, which those of the library do.
    """

    def enter(run: Callable[[Subject], None]) -> Callable[[Subject], None]:
        _CHECKS[run.__name__] = Check(plays, arrays, needs, run)
        return run

    return enter


def require(holds: Any, otherwise: str) -> None:
    """Raise, saying what was found, unless it holds."""
    if not holds:
        raise AssertionError(otherwise)


def refused(what: str, errors: Any, call: Callable[..., Any], *given: Any, **more: Any) -> None:
    """Raise unless a call raises one of the errors, with no data in any message."""
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


def equal(ours: Any, theirs: Any) -> bool:
    """Return whether two lists of releases are the same, bit for bit."""
    return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))


def fingerprint(learner: Any) -> Any:
    """Return what must not change when a call is refused: round, and the engine's state."""
    engine: Any = getattr(learner, "_engine", None)
    with suppress(StateError):  # learners of custom losses have no state
        return learner.round, engine.state() if hasattr(engine, "state") else None
    return learner.round, None


@contextmanager
def unchanged(learner: Any, what: str) -> Iterator[None]:
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

    make: Callable[..., Any]
    plays: str
    stream: tuple[Any, ...]
    first: Any

    @property
    def kind(self) -> Any:
        """The class."""
        return type(self.first)

    def fresh(self, seed: int | None = 1, **changes: Any) -> Any:
        """Return an unstarted learner; without a seed, on entropy. Calibrated only if changed."""
        size = "records" if self.plays == "batch" else "horizon"
        source = Source() if seed is None else Source.seeded(seed)
        given = {size: ROUNDS, "source": source, **changes}
        if changes.keys() <= {"on_violation", "source"} and "plan" in arguments_of(self.kind):
            given["plan"] = self.first.plan
        with quiet():
            return self.make(**given)

    def record(self, t: int) -> tuple[Any, ...]:
        """Return the record of a round, as single calls take it."""
        parts: Iterator[Any] = (part[t] for part in self.stream)
        return tuple(float(part) if isinstance(part, np.generic) else part for part in parts)

    def part(self, start: int, stop: int) -> tuple[Any, ...]:
        """Return the records of some rounds, as `run` takes them."""
        return tuple(part[start:stop] for part in self.stream)

    def ask(self, learner: Any, t: int, **ticket: Any) -> Any:
        """Ask for the decision of a round."""
        return learner.decide(*self.record(t)[: self.plays == "arms"], **ticket)

    def tell(self, learner: Any, t: int, decision: Any, **ticket: Any) -> None:
        """End a round."""
        record = self.record(t)
        if self.plays == "arms":
            record = (float(record[1][decision]),)
        learner.observe(*record, **ticket)

    def step(self, learner: Any, t: int) -> Any:
        """Play a round and return its release."""
        if self.plays in VERBS:
            return getattr(learner, VERBS[self.plays])(*self.record(t))
        decision = self.ask(learner, t)
        self.tell(learner, t, decision)
        return decision

    def play(self, learner: Any, start: int = 0, stop: int = ROUNDS) -> list[Any]:
        """Play rounds one by one and return their releases."""
        return [self.step(learner, t) for t in range(start, stop)]

    def run(self, learner: Any, start: int = 0, stop: int = ROUNDS, **options: Any) -> Any:
        """Play rounds in one call, if there is one for it, and return their releases."""
        if not hasattr(learner, "run"):
            return self.play(learner, start, stop)
        played = learner.run(*self.part(start, stop), **options)
        if self.plays == "sums":
            return played
        return played.actions if self.plays == "arms" else played.decisions

    def released(self, learner: Any) -> list[Any]:
        """Play to the end, or fit, and return what was released."""
        if self.plays != "batch":
            return self.play(learner)
        return [learner.fit(*self.part(0, ROUNDS)).theta]

    @property
    def runs(self) -> bool:
        """Whether records are arrays, which `run` takes."""
        return not isinstance(getattr(self.first, "loss", None), CustomLoss)

    def applies(self, holds: Any) -> None:
        """Leave a check that has nothing to look at."""
        if not holds:
            raise InapplicableError


def arguments_of(kind: type) -> dict[str, Any]:
    """Return the parameters of a constructor by name."""
    return dict(signature(kind).parameters)


def contract_checks(plays: str | None = None) -> tuple[str, ...]:
    """Return the names of all checks, or of the checks for learners that play `plays`.

    Parameters
    ----------
    plays : str, optional
        As in `dpoco.learners`.
    """
    from dpoco.audit import _contract_rounds, _contract_copies, _contract_arguments  # noqa

    return tuple(name for name, each in _CHECKS.items() if plays is None or plays in each.plays)


def check_learner(
    learner: str | type | Callable[..., Any],
    stream: Any = None,
    *,
    checks: Iterable[str] | None = None,
) -> tuple[str, ...]:
    """Check that a learner keeps the contract that journals, pools, adapters and users need.

    Your own class need only be a `dpoco.evaluation.Learner`. Checks of methods that it does not
    have, such as ``run``, ``save`` and tickets, are skipped.

    Parameters
    ----------
    learner : str, type or callable
        A name of `dpoco.learners`; a class, whose problem is made up from the names of its
        arguments; or a function that returns an unstarted learner. The function takes keyword
        arguments of the constructor (``horizon``, or ``records`` for a one-time fit, ``source``,
        and in some checks others). An example is ``functools.partial(MyLearner, domain, loss,
        budget=budget)``.
    stream : array_like, or tuple of array_like, optional
        At least 25 records, as ``run`` or ``fit`` takes them; lists of loss objects for custom
        losses. Default: random records with the shapes that the learner states.
    checks : iterable of str, optional
        Names of `contract_checks`. Default: all.

    Returns
    -------
    tuple of str
        Names of the checks that applied, all of which passed.

    Raises
    ------
    AssertionError
        At the first check that fails, with its name, what was found, and the rule.
    ValueError, TypeError
        For an unknown name, or a learner whose problem or stream must be given.

    Notes
    -----
    It takes seconds. The checks call the learner in every order, with bad and hostile records, from
    threads and forked processes, and save files in a temporary folder. They cannot show that a
    guarantee holds: proofs and `audit_learner` serve this purpose.

    Examples
    --------
    >>> import dpoco
    >>> len(dpoco.audit.check_learner("prefix-hedge")) > 30
    True
    """
    known = contract_checks()
    chosen = known if checks is None else tuple(checks)
    for name in chosen:
        named("check", name, known)
    if isinstance(learner, str) and stream is None:
        subject = _listed(learner_named(learner, EVERY).name)
    else:
        subject = _subject(learner, stream)
    passed = []
    for name in chosen:
        each = _CHECKS[name]
        applies = subject.plays in each.plays and (subject.runs or not each.arrays)
        if not applies or (each.needs and not hasattr(subject.first, each.needs)):
            continue
        try:
            with quiet():
                each.run(subject)
        except InapplicableError:
            continue
        except Exception as error:
            found = str(error) if isinstance(error, AssertionError) else repr(error)
            raise AssertionError(
                f"{subject.kind.__name__} fails the check {name}: {found}\n{each.run.__doc__}"
            ) from error
        passed.append(name)
    return tuple(passed)


@functools.cache
def _listed(name: str) -> Subject:
    """Return the subject of a learner of the library: calibrated once, never played."""
    return _subject(name, None)


def _subject(learner: Any, stream: Any) -> Subject:
    if isinstance(learner, str):
        learner = learner_named(learner, EVERY).load()
    make = _made_up(learner) if isinstance(learner, type) else learner
    first = _first(make)
    listed = learner_of(type(first))
    plays = listed.plays if listed is not None else _guessed(first)
    if stream is None:
        parts = _random_stream(first, plays)
    else:
        parts = stream if isinstance(stream, tuple) else (stream,)
        if not isinstance(getattr(first, "loss", None), CustomLoss):
            parts = tuple(np.asarray(part, dtype=float) for part in parts)
    if any(len(part) <= ROUNDS for part in parts):
        raise ValueError(f"stream must have at least {ROUNDS + 1} records")
    return Subject(make, plays, parts, first)


def _first(make: Callable[..., Any]) -> Any:
    with quiet():
        try:
            return make(horizon=ROUNDS, source=Source.seeded(1))
        except TypeError:
            return make(records=ROUNDS, source=Source.seeded(1))


def _guessed(learner: Any) -> str:
    """Return what a learner plays that is derived from none of the library's."""
    for plays, verb in VERBS.items():
        if hasattr(learner, verb):
            return plays
    known = {"fit": "batch", "arms": "arms", "experts": "experts", "points": "surface"}
    return next((plays for name, plays in known.items() if hasattr(learner, name)), "records")


def _made_up(kind: type) -> Callable[..., Any]:
    """Return a maker whose problem is small, and named as the arguments of the constructor."""
    problem = {
        "domain": LpBall(3, 2.0), "loss": SquaredLoss(1.0, 1.0), "experts": 4, "arms": 3,
        "dimension": 3, "candidates": 4, "lipschitz": 1.0, "resolution": 9, "alarms": ROUNDS,
        "bound": 1.0, "context_bound": 1.0, "reward_bound": 1.0, "sensitivity": 1.0,
    }  # fmt: skip
    given = {name: problem[name] for name in arguments_of(kind) if name in problem}
    others: list[dict[str, Any]] = [{}, {"domain": LpBall(3, 1.0)}, {"loss": LogisticLoss(1.0)}]
    if "lipschitz" in given:
        others = [{"domain": Box([-1.0], [1.0])}]
    for other in others:
        own = {name: other.get(name, value) for name, value in given.items()}
        make = functools.partial(kind, budget=BUDGET, **own)
        try:
            _first(make)
        except TypeError:
            continue
        return make
    raise TypeError(f"pass a function that makes a {kind.__name__}: its problem is not known")


def _random_stream(learner: Any, plays: str) -> tuple[Any, ...]:
    rng, n = np.random.default_rng(0), ROUNDS + 1
    if plays in ("records", "batch"):
        rows = rng.uniform(-0.9, 0.9, (n, learner.domain.dimension))
        if isinstance(learner.loss, LinearLoss):
            return (rows,)
        if isinstance(learner.loss, GlmLoss):
            return rows, rng.uniform(-0.9, 0.9, n)
        raise ValueError("the records of this loss cannot be made up: pass a stream")
    if plays == "surface":
        return (rng.uniform(-0.2, 0.2, (n, 1)) * learner.points[:, 0],)
    if plays == "experts":
        return (rng.random((n, learner.experts)),)
    if plays == "arms":
        return rng.uniform(-0.5, 0.5, (n, learner.dimension)), rng.uniform(-1, 1, (n, learner.arms))
    p = learner.plan
    if plays == "queries":  # near the threshold, so that noise decides
        return (p.margin + p.query_noise_scale * rng.normal(size=n),)
    return (
        rng.uniform(-0.5, 0.5, (n, p.mechanism.summand.size if plays == "sums" else p.candidates)),
    )
