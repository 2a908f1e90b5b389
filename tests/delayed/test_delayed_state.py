"""Tickets outstanding belong to the state: save, load, pickle, copies, and bad files."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import dpoco
from dpoco.learning import state as _state

from .families import BANDITS, LEARNERS, D, N, records, schedule, world

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore:.*is taken as:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

ROW = np.full(N, 0.5)


def play(make, given, rows, events, every, path):
    """Play a schedule; with `every`, saved and loaded before each such event."""
    learner, tickets, shown = make(), {}, []
    for i, (event, n) in enumerate(events):
        if every and i % every == every - 1:
            learner.save(path)
            learner = dpoco.load(path)
            tickets = {k: dpoco.Ticket.from_bytes(v.to_bytes()) for k, v in tickets.items()}
        if event == "issue":
            decision, tickets[n] = learner.decide(*given(n), ticket=True)
            shown.append(np.copy(decision))
        elif event == "arrive":
            learner.observe(*rows(n, tickets[n]), ticket=tickets.pop(n))
        else:
            learner.expire(tickets.pop(n))
    return np.array(shown), learner._engine.state(), learner.guarantee


@pytest.mark.parametrize("name", ["tree", "ctrl", "lipschitz", "hedge", "tracker", "share"])
def test_resume_with_tickets_outstanding(name, tmp_path):
    make, kind = LEARNERS[name]
    rows = records(kind)
    whole, parts = (
        play(make, lambda n: (), lambda n, _: rows[n], schedule(3, 40, 0.1), every, tmp_path / "s")
        for every in (0, 4)
    )
    assert np.array_equal(whole[0], parts[0])
    assert whole[1:] == parts[1:]


@pytest.mark.parametrize("name", BANDITS)
def test_bandits_resume_with_tickets_outstanding(name, tmp_path):
    contexts, rewards = world()
    whole, parts = (
        play(
            BANDITS[name],
            lambda n: (contexts[n],),
            lambda n, ticket: (rewards[n, ticket.decision],),
            schedule(3, 40, 0.1),
            every,
            tmp_path / "s",
        )
        for every in (0, 3)
    )
    assert np.array_equal(whole[0], parts[0])
    assert whole[1:] == parts[1:]


def test_a_ticket_issued_behind_the_state_is_unknown(tmp_path):
    learner = BANDITS["linucb"]()
    learner.decide(np.zeros(D), ticket=True)
    learner.save(tmp_path / "s")
    _, lost = learner.decide(np.ones(D), ticket=True)
    loaded = dpoco.load(tmp_path / "s")
    with pytest.raises(dpoco.RoundOrderError):
        loaded.observe(1.0, ticket=lost)
    _, again = loaded.decide(-np.ones(D), ticket=True)
    assert again.number == lost.number
    with pytest.raises(dpoco.RoundOrderError):  # the same number, another user
        loaded.observe(1.0, ticket=lost)
    loaded.observe(1.0, ticket=again)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_issues_and_redeems_nothing():
    learner = LEARNERS["hedge"][0]()
    _, ticket = learner.decide(ticket=True)
    learner._book.lock.acquire()  # as by another thread of the parent
    child = os.fork()
    if child == 0:
        caught = 0
        for attempt in (
            lambda: learner.decide(ticket=True),
            lambda: learner.observe(ROW, ticket=ticket),
            lambda: learner.expire(ticket),
        ):
            try:
                attempt()
            except dpoco.StateError:
                caught += 1
        os._exit(caught)
    learner._book.lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def damaged(learner, change):
    header, payload = _state.unpack(learner._to_bytes())
    change(header["object"]["tickets"])
    assert json.dumps(header)
    return _state.pack(header, payload)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update(key="00"),
        lambda t: t.update(learner="zz"),
        lambda t: t.update(next=1),
        lambda t: t.update(next=-1),
        lambda t: t.update(next=2**70),
        lambda t: t.pop("outstanding"),
        lambda t: t["outstanding"].reverse(),
        lambda t: t["outstanding"].append(t["outstanding"][0]),
        lambda t: t["outstanding"][0].__setitem__(0, -1),
        lambda t: t["outstanding"][0].__setitem__(1, "00"),
        lambda t: t["outstanding"][0].__setitem__(2, 3),
        lambda t: t["outstanding"][0].__setitem__(2, -2),
        lambda t: t["outstanding"][0].pop(),
        lambda t: t.update(outstanding=5),
    ],
)
def test_impossible_tickets_are_refused(change):
    learner = BANDITS["polyhedral"]()
    for _ in range(2):
        learner.decide(np.zeros(D), ticket=True)
    assert type(learner)._from_bytes(damaged(learner, lambda t: None)).outstanding == (0, 1)
    with pytest.raises(dpoco.StateError):
        type(learner)._from_bytes(damaged(learner, change))
