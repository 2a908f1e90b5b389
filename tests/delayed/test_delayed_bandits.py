"""Bandits with delayed rewards: what enters when, and the forced pulls promised to tickets."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco

from .families import BANDITS, D, K, T, schedule, world

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

X, R = world()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["linucb", "linucb, batches", "linucb, exact"])
def test_the_arm_is_that_of_the_issue_and_the_record_enters_on_arrival(name, seed):
    learner, tickets = BANDITS[name](), {}
    p, engine = learner.plan.mechanism, learner._engine
    batch, total = np.zeros(engine.released().shape), np.zeros(engine.released().shape)
    for event, n in schedule(seed, share_lost=0.1):
        if event == "issue":
            (advised,) = learner.recommend(X[n : n + 1])
            arm, tickets[n] = learner.decide(X[n], ticket=True)
            assert arm == advised
        elif event == "expire":
            learner.expire(tickets[n])
        else:
            arm = tickets[n].decision
            learner.observe(R[n, arm], ticket=tickets[n])
            own = X[n] / max(1.0, np.linalg.norm(X[n]))
            batch = batch + engine.leaf(arm, own, R[n, arm])
            if learner.round % p.batch == 0 and learner.round < T:
                total, batch = total + batch, np.zeros_like(batch)
        assert np.allclose(engine.nonprivate_sum(), total, rtol=0, atol=1e-9)
    assert learner.round > 20


def follow(name, seed):
    """Play the schedule again in Python, from the page of proofs; return drops and entries."""
    learner = BANDITS[name]()
    quota = learner.plan.mechanism.forced
    forced = min(K * quota, T)
    clocks, promised, tickets, marks = [0] * K, [0] * K, {}, {}
    dropped = entered = 0
    for event, n in schedule(seed, share_lost=0.2):
        turn = sum(clocks) if sum(clocks) < forced else learner.round
        assert turn == learner.round
        if event == "issue":
            free = [a for a in range(K) if clocks[a] + promised[a] < quota]
            lacking = [a for a in range(K) if clocks[a] < quota]
            arm, tickets[n] = learner.decide(X[n], ticket=True)
            marks[n] = turn < forced
            assert tickets[n].due == marks[n]
            if marks[n]:
                spare = min(lacking, key=lambda a: clocks[a] + promised[a])
                assert arm == (free[0] if free else spare)
                promised[arm] += 1
            else:
                assert arm == learner.recommend(X[n : n + 1])[0]
            continue
        arm = tickets[n].decision
        promised[arm] -= marks[n]
        if event == "expire":
            learner.expire(tickets[n])
            continue
        state = learner._engine.state()
        learner.observe(R[n, arm], ticket=tickets[n])
        if turn >= forced:
            clocks = [c + 1 for c in clocks]
            entered += 1
        elif marks[n] and clocks[arm] < quota:
            clocks[arm] += 1
        else:
            dropped += 1
            assert learner._engine.state() == state
        assert learner.outstanding.count(n) == 0
        assert learner._engine.clocks() == clocks
        if learner.round == K * quota:
            assert clocks == [quota] * K
    return dropped, entered


@pytest.mark.parametrize("name", ["polyhedral", "tree", "all forced", "free"])
def test_forced_pulls_follow_the_promises(name):
    outcomes = np.sum([follow(name, seed) for seed in range(6)], axis=0)
    assert outcomes[0] > 0 or name != "polyhedral"
    assert outcomes[1] > 0 or name == "all forced"


def test_a_burst_explores_all_arms():
    """Forced by rounds, all of them would pull the first arm."""
    learner = BANDITS["polyhedral"]()
    quota = learner.plan.mechanism.forced
    tickets = [learner.decide(X[n], ticket=True)[1] for n in range(K * quota + 5)]
    forced = tickets[: K * quota]
    assert [ticket.decision for ticket in forced] == [a for a in range(K) for _ in range(quota)]
    assert [ticket.decision for ticket in tickets[K * quota :]] == [0, 1, 2, 0, 1]  # spare ones
    assert all(ticket.due for ticket in tickets)
    for ticket in reversed(forced):
        learner.observe(0.5, ticket=ticket)
    assert learner._engine.clocks() == [quota] * K
    for ticket in tickets[K * quota :]:
        learner.observe(0.5, ticket=ticket)
    assert learner._engine.clocks() == [quota + 5] * K


def test_lost_pulls_are_made_up_for():
    learner = BANDITS["polyhedral"]()
    quota = learner.plan.mechanism.forced
    tickets = [learner.decide(X[0], ticket=True)[1] for _ in range(K * quota)]
    learner.expire(tickets[2 * quota])
    assert learner.decide(X[0], ticket=True)[0] == 2  # due again
    arm, spare = learner.decide(X[0], ticket=True)
    assert arm == 0  # should one of its pulls never come
    for ticket in tickets[1:quota]:
        learner.observe(0.5, ticket=ticket)
    assert learner._engine.clocks() == [quota - 1, 0, 0]
    learner.observe(0.5, ticket=spare)
    assert learner._engine.clocks() == [quota, 0, 0]
    before = learner._engine.nonprivate_sums()
    learner.skip(ticket=tickets[quota])
    assert learner._engine.clocks() == [quota, 1, 0]
    assert np.array_equal(learner._engine.nonprivate_sums(), before)


def test_a_late_pull_without_room_is_dropped():
    learner = BANDITS["polyhedral"]()
    quota = learner.plan.mechanism.forced
    _, late = learner.decide(X[0], ticket=True)
    for n in range(quota):  # immediate feedback fills the first arm's quota
        assert learner.decide(X[n]) == 0
        learner.observe(0.5)
    state = learner._engine.state()
    learner.observe(0.5, ticket=late)
    assert learner._engine.state() == state
    assert learner.outstanding == ()
    assert learner.decide(X[0]) == 1


def test_a_decision_that_waits_keeps_tickets_out():
    for name in ("linucb", "polyhedral"):
        learner = BANDITS[name]()
        arm, ticket = learner.decide(X[0], ticket=True)
        learner.decide(X[1])
        for attempt in (
            lambda learner=learner: learner.decide(X[2], ticket=True),
            lambda learner=learner, ticket=ticket: learner.observe(1.0, ticket=ticket),
        ):
            with pytest.raises(dpoco.RoundOrderError, match="waits"):
                attempt()
        assert learner.outstanding == (0,)
        learner.observe(0.0)
        learner.observe(1.0, ticket=ticket)
        assert learner.round == 2
        assert arm == ticket.decision


def test_skip_is_a_zero_record_and_bad_rewards_change_nothing():
    learner, plain = BANDITS["linucb"](), BANDITS["linucb"]()
    _, ticket = learner.decide(X[0], ticket=True)
    for bad in (b"1", "1", np.zeros(2)):
        with pytest.raises(TypeError, match="reward"):
            learner.observe(bad, ticket=ticket)
    learner.skip(ticket=ticket)
    plain.decide(X[0])
    plain.skip()
    assert learner._engine.state() == plain._engine.state()
    strict = BANDITS["linucb"](on_violation="raise")
    with pytest.raises(ValueError, match="context"):
        strict.decide(np.full(D, 9.0), ticket=True)
    assert strict.outstanding == ()
    _, ticket = strict.decide(np.zeros(D), ticket=True)
    with pytest.raises(ValueError, match="rewards"):
        strict.observe(9.0, ticket=ticket)
    strict.skip(ticket=ticket)
    assert strict.round == 1


def test_the_compiled_core_checks_for_itself():
    engine = BANDITS["polyhedral"]()._engine
    with pytest.raises(ValueError, match="arm"):
        engine.observe_arrival(0, K, True, X[0], 0.0)
    with pytest.raises(dpoco.RoundOrderError):
        engine.observe_arrival(1, 0, True, X[0], 0.0)
    with pytest.raises(ValueError, match="context"):
        engine.observe_arrival(0, 0, True, X[0][:-1].copy(), 0.0)
    with pytest.raises(ValueError, match="promised"):
        engine.due(np.zeros(K - 1))
    assert engine.observe_arrival(0, K - 1, False, X[0], 0.0) is False
    assert engine.round == 0
    assert engine.observe_arrival(0, K - 1, True, X[0], 0.0) is True
    assert engine.clocks() == [0, 0, 1]
    assert engine.due(np.array([99.0, 98.0, 99.0])) == 1
    assert BANDITS["free"]()._engine.due(np.zeros(K)) == -1
