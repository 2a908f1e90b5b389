"""Rounds are played in the order of arrival, and are those of immediate feedback bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.environments import play_delayed

from .families import LEARNERS, K, N, T, records, schedule, world

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore:.*is taken as:UserWarning"),
]


def same(one, other):
    return np.array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_is_the_ordinary_run_in_that_order(name, seed):
    make, kind = LEARNERS[name]
    rows = records(kind)
    events = schedule(seed, share_lost=0.2)
    learner, tickets, shown = make(), {}, []
    arrived = []
    for event, n in events:
        if event == "issue":
            decision, tickets[n] = learner.decide(ticket=True)
            assert same(decision, tickets[n].decision)
            assert tickets[n].round == learner.round == len(arrived)
            shown.append((len(arrived), decision))
        elif event == "arrive":
            learner.observe(*rows[n], ticket=tickets[n])
            arrived.append(n)
        else:
            learner.expire(tickets[n])
    assert learner.outstanding == ()
    assert arrived != sorted(arrived)
    assert len(arrived) < T

    plain, decisions = make(), []
    for n in arrived:
        decisions.append(plain.decide())
        plain.observe(*rows[n])
    decisions.append(plain.decide())
    for turn, decision in shown:
        assert same(decision, decisions[turn])
    assert learner._engine.state() == plain._engine.state()


def test_a_late_record_is_differentiated_at_the_decisions_of_its_arrival():
    make, kind = LEARNERS["tree, custom"]
    learner, rows, asked = make(), records(kind), []

    class Spy:
        def gradient(self, theta):
            asked.append(theta.copy())
            return rows[0][0].gradient(theta)

    _, first = learner.decide(ticket=True)
    for row in rows[1:6]:
        learner.decide()
        learner.observe(*row)
    now, before = learner.last_decision, learner._engine.previous_decision()
    learner.observe(Spy(), ticket=first)
    assert same(asked, [now, before])
    assert not same(first.decision, now)


def test_tickets_and_immediate_feedback_mix():
    make, kind = LEARNERS["hedge"]
    rows = records(kind)
    learner, plain = make(), make()
    _, ticket = learner.decide(ticket=True)
    learner.decide()
    learner.observe(*rows[0])
    learner.run(np.array([row[0] for row in rows[1:5]]))
    assert learner.decide() == learner.decide(ticket=True)[0]
    learner.observe(*rows[5], ticket=ticket)
    with pytest.raises(dpoco.RoundOrderError):  # a round has passed since `decide`
        learner.observe(*rows[6])
    plain.run(np.array([row[0] for row in rows[:6]]))
    assert learner._engine.state() == plain._engine.state()


def test_a_record_that_is_refused_changes_nothing():
    learner = LEARNERS["hedge"][0](on_violation="raise")
    _, ticket = learner.decide(ticket=True)
    state = learner._engine.state()
    for bad, error in ((np.full(N, 2.0), ValueError), (np.ones(N + 1), ValueError)):
        with pytest.raises(error):
            learner.observe(bad, ticket=ticket)
    assert learner._engine.state() == state
    assert learner.outstanding == (0,)
    with pytest.raises(dpoco.RoundOrderError):  # the late record has not begun a round
        learner.observe(np.zeros(N))
    learner.observe(np.zeros(N), ticket=ticket)
    assert learner.round == 1


def test_a_late_record_behind_the_horizon_is_refused():
    make, kind = LEARNERS["hedge"]
    full, (row,) = make(horizon=2), records(kind, rounds=1)
    _, late = full.decide(ticket=True)
    full.run(np.zeros((2, N)))
    with pytest.raises(dpoco.HorizonExceeded):
        full.observe(*row, ticket=late)
    assert full.outstanding == (0,)


def test_play_delayed_checks_and_orders():
    make, _ = LEARNERS["hedge"]
    losses = np.random.default_rng(0).random((6, N))
    run, trace = play_delayed(make(), (losses,), 0), make().run(losses)
    assert same(run.decisions, trace.decisions)
    assert same(run.values, trace.losses)
    assert same(run.arrivals, np.arange(6))
    assert run.outstanding == 1
    run = play_delayed(make(), (losses,), [5, 0, -1, 1, 1, 0])
    assert run.arrivals.tolist() == [1, 3, 0, 4, 5]
    assert run.outstanding == 4
    assert np.array_equal(run.values, losses[np.arange(6), run.decisions])
    for delays, error in (([1, 2], TypeError), (0.5, TypeError), (-2, ValueError),
                          (np.full(6, 2**64 - 1, dtype=np.uint64), ValueError)):  # fmt: skip
        with pytest.raises(error):
            play_delayed(make(), (losses,), delays)
    with pytest.raises(ValueError, match="one row"):
        play_delayed(make(), (losses, losses[:2]), 0)
    contexts, rewards = world()
    bandit = dpoco.bandits.LinUCB(
        K, contexts.shape[1], horizon=T, budget=None, context_bound=1.0, reward_bound=1.0
    )
    assert play_delayed(bandit, (contexts, rewards), 3).arrivals.tolist() == list(range(T))
