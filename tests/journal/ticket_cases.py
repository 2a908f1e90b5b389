"""A service with tickets, a client that keeps what it was given, and a script of their dealings."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
from tests.journal.journal_cases import BUDGET, Case, cases

import dpoco
from dpoco.journal import Journal
from dpoco.random import Source

TICKETS = 14
CASES = {case.name: case for case in cases() if case.name not in ("ContinualSum", "NoisyMax")}
del CASES["AboveThreshold"]


def _bandit(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dpoco.bandits.HighDimensionalBandit(
            4,
            dpoco.domains.LpBall(3, 1.0),
            horizon=24,
            budget=BUDGET,
            forced_rounds=2,
            source=Source.seeded(seed),
            context_bound=1.0,
            reward_bound=1.0,
        )


CASES["HighDimensionalBandit"] = Case("HighDimensionalBandit", _bandit, CASES["LinUCB"].batch)
BANDITS = ("LinUCB", "HighDimensionalBandit")


def script(seed, tickets=TICKETS):
    """Events ("issue" | "arrive" | "skip" | "expire", number of the user), several in flight."""
    rng = np.random.default_rng(seed)
    ends = rng.permuted(np.arange(tickets) + rng.exponential(5.0, tickets))
    ends = np.maximum(ends, np.arange(tickets) + 0.5)
    kinds = rng.choice(["arrive", "arrive", "arrive", "skip", "expire"], tickets)
    events = [(float(n), "issue", n) for n in range(tickets)]
    events += [(float(ends[n]), str(kinds[n]), n) for n in range(tickets)]
    return [(kind, n) for _, kind, n in sorted(events)]


def given(case, n):
    return (case.batch[0][n],) if case.name in BANDITS else ()


def record_of(case, n, decision):
    if case.name in BANDITS:
        return (case.batch[1][n, decision],)
    return tuple(array[n] for array in case.batch)


def play(served, case, events, known, keep):
    """Do all that the script says; tickets `known` already are not asked for again."""
    for kind, n in events:
        if kind == "issue":
            if n not in known:
                decision, ticket = served.decide(*given(case, n), ticket=True)
                keep(n, ticket)
                assert np.array_equal(ticket.decision, decision)
            continue
        ticket = known[n]
        if kind == "arrive":
            served.observe(*record_of(case, n, ticket.decision), ticket=ticket)
        elif kind == "skip" and case.name in BANDITS:
            served.skip(ticket=ticket)
        elif kind == "skip":
            empty = [np.full_like(part, np.nan) for part in record_of(case, n, None)]
            served.observe(*empty, ticket=ticket)
        else:
            with contextlib.suppress(dpoco.RoundOrderError):  # it has expired already
                served.expire(ticket)


def reference(case, events):
    """Decisions of each user, and the engine's last state, without a journal or a crash."""
    learner, known = case.make(1), {}
    play(learner, case, events, known, known.__setitem__)
    return {n: shown(ticket) for n, ticket in known.items()}, learner._engine.state()


def shown(ticket):
    return np.asarray(ticket.decision).tobytes()


def serve(store, case, events, known, keep):
    """Start the service, give up what nobody was given, do all again; return the last state."""
    with Journal(store) as journal:
        stream = journal.open("offers", lambda: case.make(1))
        kept = {ticket.number for ticket in known.values()}
        for number in stream.outstanding:
            if number not in kept:
                stream.expire(number)
        play(stream, case, events, known, keep)
        assert stream.round > 0  # reads the learner again after a refused call
        return stream._learner._engine.state()
