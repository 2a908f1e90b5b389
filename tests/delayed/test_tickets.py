"""A ticket is taken once, by the learner that issued it, as it was issued; threads."""

from __future__ import annotations

import dataclasses
import pickle
import threading

import numpy as np
import pytest

import dpoco

from .families import BANDITS, LEARNERS, D, N, T, records

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

ROW = np.full(N, 0.5)


def hedge(**options):
    return LEARNERS["hedge"][0](**options)


def refused(learner, ticket, error, match):
    """Whatever is tried with the ticket raises and changes nothing."""
    state, waiting = learner._engine.state(), learner.outstanding
    for attempt in (lambda: learner.observe(ROW, ticket=ticket), lambda: learner.expire(ticket)):
        with pytest.raises(error, match=match):
            attempt()
    assert learner._engine.state() == state
    assert learner.outstanding == waiting


def test_by_its_own_learner():
    learner, stranger = hedge(), hedge()
    _, ticket = learner.decide(ticket=True)
    refused(stranger, ticket, dpoco.RoundOrderError, "has issued no ticket")
    stranger.decide(ticket=True)
    refused(stranger, ticket, dpoco.StateError, "another learner")
    clone = learner.clone()
    assert clone.outstanding == ()
    clone.decide(ticket=True)
    refused(clone, ticket, dpoco.StateError, "another learner")


@pytest.mark.parametrize(
    "change",
    [
        {"number": 1},
        {"round": 1},
        {"decision": 99},
        {"decision": np.zeros(1)},
        {"due": True},
        {"context": np.zeros(2)},
        {"_tag": bytes(16)},
        {"_tag": b""},
    ],
)
def test_as_it_was_issued(change):
    learner = hedge()
    _, ticket = learner.decide(ticket=True)
    learner.decide(ticket=True)
    refused(learner, dataclasses.replace(ticket, **change), dpoco.StateError, "not as it was")
    learner.observe(ROW, ticket=ticket)


def test_every_flipped_byte_is_found():
    learner = BANDITS["linucb"]()
    _, ticket = learner.decide(np.ones(D), ticket=True)
    data = ticket.to_bytes()
    assert len(data) == 66 + 8 * (1 + D)
    for i in range(len(data)):
        bad = bytearray(data)
        bad[i] ^= 1
        with pytest.raises(dpoco.StateError):
            learner.observe(0.0, ticket=dpoco.Ticket.from_bytes(bytes(bad)))
    for cut in (b"", data[:30], data[:-1], data + b"\0"):
        with pytest.raises(dpoco.StateError, match="ticket"):
            dpoco.Ticket.from_bytes(cut)
    assert learner.round == 0
    learner.observe(0.0, ticket=dpoco.Ticket.from_bytes(data))


def test_a_ticket_is_a_value():
    for learner, given in ((BANDITS["linucb"](), (np.arange(D) / D,)), (LEARNERS["tree"][0](), ())):
        decision, ticket = learner.decide(*given, ticket=True)
        again = pickle.loads(pickle.dumps(ticket))
        assert again == ticket == dpoco.Ticket.from_bytes(ticket.to_bytes())
        assert hash(again) == hash(ticket)
        assert ticket != learner.decide(*given, ticket=True)[1]
        assert ticket != 0
        assert np.array_equal(again.decision, decision)
        assert (again.context is None) == (not given)
        with pytest.raises(dataclasses.FrozenInstanceError):
            ticket.number = 3
        assert repr(ticket) == "Ticket(number=0, round=0)"
        for array in (ticket.decision, ticket.context, again.decision, again.context):
            assert not isinstance(array, np.ndarray) or not array.flags.writeable


def test_a_bandits_ticket_keeps_the_context_it_was_given():
    learner, context = BANDITS["linucb"](), np.full(D, 0.25)
    _, ticket = learner.decide(context, ticket=True)
    context[:] = 9.0
    assert np.array_equal(ticket.context, np.full(D, 0.25))
    learner.observe(0.5, ticket=ticket)


@pytest.mark.parametrize("wrong", [None, "0", 0.0, True, b"", object()])
def test_not_a_ticket(wrong):
    learner = hedge()
    learner.decide(ticket=True)
    with pytest.raises(TypeError, match="ticket"):
        learner.expire(wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="ticket"):
            learner.observe(ROW, ticket=wrong)


def test_a_lost_ticket_expires_by_number():
    learner = hedge()
    learner.decide(ticket=True)
    learner.expire(0)
    for gone in (0, 1, -1):
        with pytest.raises(dpoco.RoundOrderError):
            learner.expire(gone)
    with pytest.raises(TypeError):  # a number is no ticket
        learner.observe(ROW, ticket=1)


def test_the_guarantee_names_the_condition_and_withdraws_regret():
    for make, given, seen in (
        (LEARNERS["hedge"][0], (), "released decisions"),
        (BANDITS["linucb"], (np.zeros(D),), "published estimates"),
    ):
        learner = make()
        before = learner.guarantee
        assert before.regret_bound is not None
        learner.decide(*given)
        assert learner.guarantee == before
        other = make()
        other.decide(*given, ticket=True)
        after = other.guarantee
        (condition,) = set(after.conditions) - set(before.conditions)
        assert "delayed" in condition
        assert seen in condition
        assert condition in str(after)
        assert after.regret_bound is None
        assert [name for name in after.details if name.startswith("regret")] == ["regret"]
        assert "feedback that comes at once" in str(after)
        assert (after.epsilon, after.delta, after.mu) == (before.epsilon, before.delta, before.mu)
        assert dpoco.Guarantee.from_json(after.to_json()) == after
    free = hedge(budget=None)
    free.decide(ticket=True)
    assert free.guarantee.conditions == hedge(budget=None).guarantee.conditions


def test_threads_with_one_ticket():
    learner = hedge()
    for turn in range(T):
        _, ticket = learner.decide(ticket=True)
        outcomes = []
        start = threading.Barrier(4)

        def redeem(ticket=ticket, outcomes=outcomes, start=start):
            start.wait()
            try:
                learner.observe(ROW, ticket=ticket)
                outcomes.append(True)
            except dpoco.RoundOrderError:
                outcomes.append(False)

        threads = [threading.Thread(target=redeem) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [False, False, False, True]
        assert learner.round == turn + 1


def test_an_interrupt_behind_the_round_strikes_the_ticket():
    """As Ctrl-C between the compiled round and the book-keeping."""
    learner = hedge()
    _, ticket = learner.decide(ticket=True)
    play = learner._play_arrival

    def interrupted(*arguments):
        play(*arguments)
        raise KeyboardInterrupt

    learner._play_arrival = interrupted
    with pytest.raises(KeyboardInterrupt):
        learner.observe(ROW, ticket=ticket)
    del learner._play_arrival
    assert learner.round == 1
    refused(learner, ticket, dpoco.RoundOrderError, "not outstanding")


def test_a_custom_loss_may_use_the_learner():
    make, kind = LEARNERS["tree, custom"]
    learner = make()
    first, second = (learner.decide(ticket=True)[1] for _ in range(2))
    (inner,) = records(kind, rounds=1)

    class Greedy:
        def gradient(self, theta):
            learner.observe(*inner, ticket=second)
            return theta

    with pytest.raises(dpoco.RoundOrderError):
        learner.observe(Greedy(), ticket=first)
    assert learner.round == 1
    assert learner.outstanding == ()  # a round was played meanwhile: not to be tried again
