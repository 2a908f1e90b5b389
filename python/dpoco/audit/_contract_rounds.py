"""Checks of the contract: order of calls, records, late feedback."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from inspect import signature

import numpy as np
from numpy.typing import ArrayLike

from dpoco.accounting import Guarantee
from dpoco.audit._contract import (
    BAD,
    EVERY,
    ONLINE,
    ROUNDS,
    RUNNING,
    SECRET,
    STARTED,
    STEPPED,
    Subject,
    check,
    constructor_parameters,
    equal,
    expect_error,
    expect_no_change,
    fingerprint,
    require,
)
from dpoco.audit._events import Outcomes
from dpoco.audit._family import VERBS, Decision, Options, Record
from dpoco.errors import HorizonExceeded, RoundOrderError, StateError
from dpoco.learners import own_class

# ---- order of calls ------------------------------------------------------------------------------


@check(*STARTED)
def new_learners_have_not_played(s: Subject) -> None:
    """A new learner is in round 0, covers its horizon, and states a guarantee for it."""
    learner = s.fresh()
    require(learner.round == 0, f"a new learner is in round {learner.round}")
    require(learner.horizon == ROUNDS, f"horizon {ROUNDS} became {learner.horizon}")
    require(isinstance(learner.guarantee, Guarantee), "guarantee is not a dpoco.Guarantee")


@check(*ONLINE)
def decisions_stay_until_observe(s: Subject) -> None:
    """`decide` draws once a round: the same decision until `observe`, and no round passes."""
    learner = s.fresh()
    for t in range(3):
        first = s.ask(learner, t)
        with expect_no_change(learner, "a second decide()"):
            again = s.ask(learner, t)
        require(np.array_equal(first, again), f"round {t}: decide() gave another decision")
        require(learner.round == t, "decide() ended the round")
        if s.plays in ("experts", "arms"):
            # `json` cannot write NumPy integers.
            require(type(first) is int, f"a decision is a {type(first).__name__}, not an int")
        else:
            require(first.dtype == np.float64, "a decision is not of float64")
            expect_error("writing into a decision", ValueError, first.fill, 1.0)
        s.tell(learner, t, first)
        require(learner.round == t + 1, "observe() did not end the round")
    for name in ("last_decision", "weights", "coefficients"):
        if hasattr(learner, name):
            expect_error(f"writing into {name}", ValueError, getattr(learner, name).fill, 0.0)


@check(*ONLINE)
def decide_and_observe_alternate(s: Subject) -> None:
    """`observe` without `decide` raises `RoundOrderError` and changes nothing."""
    learner = s.fresh()
    for t in range(2):
        with expect_no_change(learner, "observe() without decide()"):
            expect_error("observe() without decide()", RoundOrderError, s.tell, learner, t, 0)
            if s.plays == "arms":
                expect_error("skip() without decide()", RoundOrderError, learner.skip)
        s.tell(learner, t, s.ask(learner, t))
    if s.plays == "arms":
        s.ask(learner, 2)
        with expect_no_change(learner, "a call while a decision waits"):
            expect_error("another context", RoundOrderError, s.ask, learner, 3)
            expect_error("run() while a decision waits", RoundOrderError, s.run, learner, 2, 3)
            expect_error("recommend() while a decision waits", RoundOrderError,
                         learner.recommend, s.stream[0])  # fmt: skip


@check(*RUNNING, arrays=True, needs="run")
def runs_are_the_loop(s: Subject) -> None:
    """`run` gives the releases of single calls, bit for bit, in any pieces, after a `decide`."""
    whole, loop, pieces = (s.fresh() for _ in range(3))
    want = s.run(whole)
    require(equal(s.play(loop), want), "run() differs from the loop")
    require(fingerprint(loop) == fingerprint(whole), "run() leaves another state than the loop")
    # Pieces of one and of zero rounds use other branches than long ones.
    got = [*s.run(pieces, 0, 1), *s.run(pieces, 1, 1), *s.run(pieces, 1, 7)]
    if s.plays in ONLINE and s.plays != "arms":  # a bandit's pending decision needs its own reward
        s.ask(pieces, 7)
    require(equal([*got, *s.run(pieces, 7)], want), "run() in pieces differs from one run()")
    require(len(s.run(whole, 0, 0)) == 0, "a run of no rounds is not empty")
    if hasattr(whole, "last_decision"):
        require(equal([whole.last_decision], [loop.last_decision]), "last_decision differs")


@check(*STARTED)
def horizons_are_walls(s: Subject) -> None:
    """After the horizon every call raises `HorizonExceeded`, draws nothing and changes nothing."""
    for horizon in (1, 2, 5, ROUNDS):
        try:
            learner = s.fresh() if horizon == ROUNDS else s.fresh(**{s.size: horizon}, **_short(s))
        except ValueError:  # other options need more rounds
            continue
        runs = s.plays in RUNNING and s.runs and hasattr(learner, "run")
        with expect_no_change(learner, "a run() past the horizon"):
            if runs:
                expect_error(
                    "a run() past the horizon", HorizonExceeded, s.run, learner, 0, horizon + 1
                )
        # After a refused run, all rounds must still be available.
        released = s.play(learner, 0, horizon)
        require(all(np.all(np.isfinite(each)) for each in released), "a release is not finite")
        with expect_no_change(learner, "a call past the horizon"):
            expect_error("a round past the horizon", HorizonExceeded, s.step, learner, 0)
            if s.plays in ONLINE:
                expect_error("observe() past the horizon", HorizonExceeded, s.tell, learner, 0, 0)
            if hasattr(learner, "expire"):
                expect_error("a ticket behind it", HorizonExceeded, s.ask, learner, 0, ticket=True)
            if runs:
                expect_error("run() past the horizon", HorizonExceeded, s.run, learner, 0, 1)
        require(learner.round == horizon, f"round {learner.round} after {horizon} rounds")


def _short(s: Subject) -> Options:
    """Return options that fit any horizon, because options planned for a longer one may not."""
    planned = getattr(s.first, "plan", None)
    planned = getattr(planned, "mechanism", planned)
    longer = getattr(planned, "batch", None) not in (None, 1)
    return {"batch": 1} if longer and "batch" in signature(type(s.first)).parameters else {}


@check(*EVERY, "intervals")
def seeds_repeat_releases(s: Subject) -> None:
    """A seeded source repeats all releases, and voids the guarantee; entropy gives other noise."""
    first, second, entropy = s.fresh(7), s.fresh(7), s.fresh(None)
    require(equal(s.release_all(first), s.release_all(second)), "one seed gave two sequences")
    s.release_all(entropy)
    require(not first.guarantee.certified, "a seeded learner claims to be certified")
    stated = entropy.guarantee
    held = stated.certified or stated.doubts or not (stated.private and s.runs)
    require(held, "a learner on entropy is not certified")


# ---- records -------------------------------------------------------------------------------------


@check(*STEPPED, arrays=True)
def malformed_records_are_refused(s: Subject) -> None:
    """A record of a wrong shape or dtype raises, quotes no data and leaves the round open."""
    learner, good = s.fresh(), s.record(0)
    if s.plays == "arms":  # the context is an argument of decide, and one reward of observe
        expect_error("one context for many", BAD, learner.recommend, good[0])
        for context in _spoil(good[0]):
            with expect_no_change(learner, "a malformed context"):
                expect_error("a malformed context", BAD, learner.decide, context)
        good = (0.5,)
    if s.plays in ONLINE:
        s.ask(learner, 0)
    bad: list[Record] = [(), (*good, *good, *good)]
    for at, part in enumerate(good):
        bad += [(*good[:at], spoiled, *good[at + 1 :]) for spoiled in _spoil(part)]
    take = getattr(learner, VERBS.get(s.plays, "observe"))
    for record in bad:
        with expect_no_change(learner, "a malformed record"):
            expect_error("a malformed record", BAD, take, *record)
    require(np.all(np.isfinite(s.step(learner, 0))), "the round cannot go on")


def _spoil(part: ArrayLike) -> list[object]:
    """Return values that are not a vector, matrix or number like `part`.

    Most contain `SECRET`, so that a message that quotes them is noticed.
    """
    if np.ndim(part) == 0:
        return [str(SECRET), SECRET * 1j, [SECRET], object()]
    shape = np.shape(part)
    longer = np.full((*shape[:-1], shape[-1] + 1), SECRET)
    ragged = [[SECRET], [SECRET, SECRET]]
    return [longer, np.full((*shape, 2), SECRET), SECRET, np.full(shape, SECRET * 1j),
            np.full(shape, str(SECRET)).tolist(), ragged, None]  # fmt: skip


@check(*RUNNING, arrays=True, needs="run")
def malformed_runs_are_refused(s: Subject) -> None:
    """A stream of a wrong shape or dtype raises, quotes no data, and no round is played."""
    learner, good = s.fresh(), s.part(0, 5)
    bad: list[Record] = [(), (*good, *good, *good)]
    for at, part in enumerate(good):
        several = (*_spoil(part), part[0])
        bad += [(*good[:at], spoiled, *good[at + 1 :]) for spoiled in several]
    if len(good) > 1:
        bad.append((good[0], good[1][:-1]))
    for parts in bad:
        with expect_no_change(learner, "a malformed stream"):
            expect_error("a malformed stream", BAD, learner.run, *parts)


@check(*STARTED, arrays=True)
def missing_values_are_silent(s: Subject) -> None:
    """A record with a gap, or not finite, counts as a neutral one: no error tells of it."""
    if s.plays == "arms":
        return _missing_rewards_are_silent(s)
    for bad in (np.nan, np.inf, -np.inf, None):
        spoiled = [p.astype(object if bad is None else float) for p in s.stream]
        neutral = [p.copy() for p in s.stream]
        for t in (3, 4, 9):
            at = 0 if bad is None else t % len(s.stream)
            entry = (t, *[0] * (spoiled[at].ndim - 1))
            spoiled[at][entry] = bad
            if s.plays in ("experts", "scores"):
                neutral[at][entry] = _lowest(s)
            else:
                for part in neutral:
                    part[(t, 0) if s.plays == "intervals" else t] = 0.0  # the first record
        got, drawn = _play_parts(s, spoiled)
        want, meant = _play_parts(s, neutral)
        close = all(np.allclose(a, b, rtol=0.0, atol=1e-8) for a, b in zip(got, want, strict=True))
        require(close, f"{bad} is not read as a neutral record")
        # If the number of draws depended on a record, it would show in the time of the call and in
        # all later noise.
        require(drawn == meant, f"{bad} draws other noise than a neutral record")


def _missing_rewards_are_silent(s: Subject) -> None:
    """Compare a reward that never came, one that is not finite, and a skipped round."""
    skipping, telling, hiding = (s.fresh() for _ in range(3))
    for t in range(ROUNDS):
        arms = [s.ask(each, t) for each in (skipping, telling)]
        context = np.full_like(s.stream[0][t], np.nan) if t % 3 == 1 else s.stream[0][t]
        arms.append(hiding.decide(context))
        require(arms[0] == arms[1], "a missing reward can be told from one that was skipped")
        if t % 3 == 1:
            skipping.skip()
            telling.observe(None)
            hiding.observe(np.inf)
        else:
            for each, arm in zip((skipping, telling, hiding), arms, strict=True):
                s.tell(each, t, arm)
    require(hiding.round == ROUNDS, "a context that is not finite ended no round")
    if hasattr(skipping, "coefficients"):
        require(np.array_equal(skipping.coefficients, telling.coefficients), "estimates differ")


def _lowest(s: Subject) -> float:
    """Return the least loss of a learner of experts, which replaces a missing loss."""
    return float(getattr(s.first, "_loss_range", (0.0, 1.0))[0])


def _play_parts(s: Subject, parts: list[Outcomes]) -> tuple[list[Decision], object]:
    """Return the releases, and the number of variates drawn, if the learner counts them."""
    learner = s.fresh()
    released = dataclasses.replace(s, stream=tuple(parts)).play(learner)
    drawn = getattr(getattr(learner, "_engine", None), "variates_drawn", None)
    return released, None if drawn is None else drawn()


@check(*EVERY, "intervals", arrays=True)
def huge_values_are_silent(s: Subject) -> None:
    """Records of any size are clipped without a word, and releases stay finite."""
    # Squares of 1e300 overflow and squares of 1e-300 vanish, so vectors must be scaled before norms
    # are computed.
    huge = [p * 10.0 ** (300 * (np.arange(len(p)) % 3 - 1)).reshape(-1, *[1] * (p.ndim - 1))
            for p in s.stream]  # fmt: skip
    twin = dataclasses.replace(s, stream=tuple(huge))
    for release in twin.release_all(s.fresh()):
        require(np.all(np.isfinite(release)), "a release is not finite")
        unbounded = (
            constructor_parameters(s.kind).get("unbounded") and s.first.get_params()["unbounded"]
        )
        if s.plays == "records" and not unbounded:
            require(s.first.domain.contains(release), "a decision is outside the domain")


@check(*RUNNING, "batch", arrays=True)
def dtypes_and_layouts_do_not_matter(s: Subject) -> None:
    """Real numbers of any dtype, byte order and layout give the same releases."""
    # Small integers are equal in all of the types below.
    rounded = dataclasses.replace(s, stream=tuple(np.round(4.0 * p) for p in s.stream))
    want = _play_batch(rounded)
    changes: Options = {
        "float32": lambda p: p.astype(np.float32),
        "integers": lambda p: p.astype(np.int8),
        "lists": lambda p: p.tolist(),
        "Fortran's order": np.asfortranarray,
        "another byte order": lambda p: p.astype(">f8"),
        "every second row": lambda p: np.repeat(p, 2, axis=0)[::2],
    }
    for name, changed in changes.items():
        got = _play_batch(dataclasses.replace(rounded, stream=tuple(map(changed, rounded.stream))))
        require(equal(got, want), f"{name} changed the releases")


def _play_batch(s: Subject) -> Decision:
    """Return all releases of a fresh learner, in one call if possible."""
    return s.release_all(s.fresh()) if s.plays == "batch" else s.run(s.fresh())


@check(*ONLINE, "batch", arrays=True)
def violations_are_refused_on_request(s: Subject) -> None:
    """With ``on_violation="raise"`` records over the bounds raise; nothing is drawn or changed."""
    s.applies("on_violation" in constructor_parameters(s.kind))
    learner = s.fresh(on_violation="raise")
    if s.plays == "batch":
        rows, labels = s.part(0, ROUNDS)
        for bad in (SECRET, np.nan):
            expect_error("a record over its bounds", ValueError, learner.fit, rows + bad, labels)
        return
    quiet = [np.full(np.shape(part[0]), _lowest(s) if s.plays == "experts" else 0.0)
             for part in s.stream]  # fmt: skip
    for bad in (SECRET, np.nan, np.inf):
        loud = [part.copy() for part in quiet]
        # A check that only tests the first entries would miss the last one.
        edge = (-1,) * loud[-1].ndim
        loud[-1][edge] = bad
        parts = tuple(np.stack(pair) for pair in zip(quiet, loud, strict=True))
        twin = dataclasses.replace(s, stream=parts)
        if s.plays == "arms":
            twin.ask(learner, 0)
        else:
            twin.ask(learner, 1)
            with expect_no_change(learner, "a stream over its bounds"):
                # Its first record is valid: a run that checks record by record would play it.
                expect_error("a stream over its bounds", ValueError, twin.run, learner, 0, 2)
        with expect_no_change(learner, "a record over its bounds"):
            expect_error("a record over its bounds", ValueError, twin.tell, learner, 1, -1)
    twin.tell(learner, 0, 0)
    require(learner.round == 1, "the round cannot go on")


# ---- late feedback -------------------------------------------------------------------------------


@check(*ONLINE, needs="expire")
def tickets_in_turn_change_nothing(s: Subject) -> None:
    """Feedback that comes at once is the same with a ticket as without."""
    learner, got = s.fresh(), []
    for t in range(ROUNDS):
        decision, ticket = s.ask(learner, t, ticket=True)
        require(np.array_equal(ticket.decision, decision), "a ticket has another decision")
        s.tell(learner, t, decision, ticket=ticket)
        got.append(decision)
    require(equal(got, s.play(s.fresh())), "tickets changed the releases")


@check(*ONLINE, needs="expire")
def tickets_are_taken_once(s: Subject) -> None:
    """Feedback comes in any order or never; a ticket is taken once, and only by its learner."""
    learner, stranger = s.fresh(), s.fresh()
    issued = [s.ask(learner, t, ticket=True) for t in range(5)]
    require(learner.outstanding == tuple(range(5)), "tickets are not outstanding")
    for t in (3, 1, 4):
        decision, ticket = issued[t]
        s.tell(learner, t, decision, ticket=ticket)
    decision, used = issued[3]
    learner.expire(issued[0][1])
    require(learner.outstanding == (2,), "other tickets are outstanding")
    s.ask(stranger, 0, ticket=True)
    waiting = issued[2][1]
    # A ticket is data that a client returns, so its number alone must not be trusted.
    forged = dataclasses.replace(waiting, number=waiting.number + 1)
    for what, error, target, ticket in (
        ("a used ticket", RoundOrderError, learner, used),
        ("an expired ticket", RoundOrderError, learner, issued[0][1]),
        ("another learner's ticket", StateError, stranger, waiting),
        ("a forged ticket", StateError, learner, forged),
        ("no ticket at all", TypeError, learner, "ticket"),
    ):
        with expect_no_change(target, what):
            expect_error(what, error, s.tell, target, 3, decision, ticket=ticket)
            expect_error(what, error, target.expire, ticket)
    require(learner.outstanding == (2,), "a refused ticket struck another")


@check(*ONLINE, needs="expire")
def tickets_reserve_rounds(s: Subject) -> None:
    """A ticket reserves a round of the horizon, and is saved with the learner."""
    learner = s.fresh()
    issued = [s.ask(learner, t, ticket=True) for t in range(ROUNDS)]
    expect_error("a ticket past the horizon", HorizonExceeded,
                 s.ask, learner, 0, ticket=True)  # fmt: skip
    expect_error("a copy of a learner with tickets", StateError, copy.copy, learner)
    decision, ticket = issued[-1]
    if own_class(s.kind) is not None and s.runs:
        loaded = pickle.loads(pickle.dumps(learner))
        # Unpickled learners refuse rounds until `resume`, because the original may still continue.
        loaded.resume()
        require(loaded.outstanding == learner.outstanding, "tickets were not saved")
        s.tell(loaded, ROUNDS - 1, decision, ticket=pickle.loads(pickle.dumps(ticket)))
    learner.expire(issued[0][1])
    s.ask(learner, 0, ticket=True)
