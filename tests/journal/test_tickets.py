"""Tickets of a journal's streams: whose they are, what may come twice, and what ends with them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.journal.journal_cases import QuickStore, opened
from tests.journal.ticket_cases import BANDITS, CASES

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.journal import Journal

CASE = CASES["LinUCB"]
CONTEXTS, REWARDS = CASE.batch


def stream_of(journal, name="LinUCB", seed=1):
    return journal.open(name, lambda: CASES[name].make(seed))


def facts(stream):
    return stream.round, stream.outstanding, stream._learner._engine.state()


def test_rewards_of_two_users_out_of_order_and_again(tmp_path):
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        _, first = stream.decide(CONTEXTS[0], ticket=True)
        _, second = stream.decide(CONTEXTS[1], ticket=True)
        assert stream.outstanding == (0, 1)
        stream.observe(0.25, ticket=second)
        assert (stream.round, stream.outstanding) == (1, (0,))
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        before = facts(stream)
        stream.observe(0.25, ticket=second)  # the answer was lost, and all is sent again
        assert facts(stream) == before
        for attempt in (
            lambda: stream.observe(0.75, ticket=second),
            lambda: stream.observe(np.nextafter(0.25, 1.0), ticket=second),
            lambda: stream.skip(ticket=second),
        ):
            with pytest.raises(dpoco.ReplayMismatch):
                attempt()
        assert facts(stream) == before
        stream.skip(ticket=first)
        stream.skip(ticket=first)
        stream.observe(float("nan"), ticket=first)  # the same record
        with pytest.raises(dpoco.ReplayMismatch):
            stream.observe(0.0, ticket=first)
        assert (stream.round, stream.outstanding) == (2, ())
        assert stream.release(0) == second.decision
        assert stream.release(1) == first.decision


@pytest.mark.parametrize("name", CASES)
def test_one_number_of_the_record_changed(name, tmp_path):
    case = CASES[name]
    with opened(tmp_path) as journal:
        stream = stream_of(journal, name)
        given = (CONTEXTS[0],) if name in BANDITS else ()
        decision, ticket = stream.decide(*given, ticket=True)
        record = [REWARDS[0, decision]] if given else [array[0] for array in case.batch]
        stream.observe(*record, ticket=ticket)
        before = facts(stream)
        stream.observe(*record, ticket=ticket)
        record[0] = np.nextafter(record[0], np.inf)
        with pytest.raises(dpoco.ReplayMismatch):
            stream.observe(*record, ticket=ticket)
        assert facts(stream) == before


def test_forged_and_foreign_tickets(tmp_path):
    with opened(tmp_path) as journal:
        stream, other, fresh = (stream_of(journal), *(journal.open(n, CASE.make(1)) for n in "bc"))
        _, ticket = stream.decide(CONTEXTS[0], ticket=True)
        _, theirs = other.decide(CONTEXTS[0], ticket=True)
        _, learners = CASE.make(1).decide(CONTEXTS[0], ticket=True)
        changes = ({"number": 1}, {"decision": 3}, {"context": CONTEXTS[1]}, {"_tag": bytes(16)})
        forged = [dataclasses.replace(ticket, **change) for change in changes]
        before = facts(stream)
        for bad in (theirs, learners, *forged):
            for attempt in (
                lambda bad=bad: stream.observe(0.5, ticket=bad),
                lambda bad=bad: stream.skip(ticket=bad),
                lambda bad=bad: stream.expire(bad),
                lambda bad=bad: fresh.observe(0.5, ticket=bad),
                lambda bad=bad: fresh.expire(bad),
            ):
                with pytest.raises(dpoco.StateError):
                    attempt()
        for bad in (0, "0", True, b"", object()):
            with pytest.raises(TypeError):
                stream.observe(0.5, ticket=bad)
        assert facts(stream) == before
        stream.observe(0.5, ticket=ticket)
        for bad in forged:  # and once it is redeemed
            with pytest.raises(dpoco.StateError):
                stream.observe(0.5, ticket=bad)


def test_expiry(tmp_path):
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        tickets = [stream.decide(context, ticket=True)[1] for context in CONTEXTS[:3]]
        stream.expire(tickets[1])
        stream.expire(0)  # of one that was lost
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        assert (stream.round, stream.outstanding) == (0, (2,))
        for gone in (tickets[0], tickets[1], 0, 7, -1):
            with pytest.raises(dpoco.RoundOrderError):
                stream.expire(gone)
        with pytest.raises(dpoco.ReplayMismatch, match="expired"):
            stream.observe(0.5, ticket=tickets[0])
        with pytest.raises(TypeError):
            stream.expire("0")
        assert (stream.round, stream.outstanding) == (0, (2,))


def test_the_horizon_is_promised(tmp_path):
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        tickets = [stream.decide(context, ticket=True)[1] for context in CONTEXTS]
        with pytest.raises(dpoco.HorizonExceeded):
            stream.decide(CONTEXTS[0], ticket=True)
        assert len(stream.outstanding) == stream.horizon == len(tickets)
        stream.expire(tickets.pop())
        _, last = stream.decide(CONTEXTS[0], ticket=True)
        for ticket in (*tickets, last):
            stream.observe(0.5, ticket=ticket)
        assert stream.round == stream.horizon
        stream.observe(0.5, ticket=last)


def test_a_decision_that_waits_keeps_tickets_out_before_and_after_a_crash(tmp_path):
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        _, ticket = stream.decide(CONTEXTS[0], ticket=True)
        arm = stream.decide(CONTEXTS[1])
        journal.close()
    for _ in range(2):
        with opened(tmp_path) as journal:
            stream = stream_of(journal)
            for _ in range(2):  # as restored, and with the context there again
                for attempt in (
                    lambda stream=stream: stream.decide(CONTEXTS[2], ticket=True),
                    lambda stream=stream: stream.observe(0.5, ticket=ticket),
                ):
                    with pytest.raises(dpoco.RoundOrderError, match="waits for its reward"):
                        attempt()
                assert stream.decide(CONTEXTS[1]) == arm
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        stream.observe(CONTEXTS[1], 0.5)
        stream.observe(0.5, ticket=ticket)
        assert stream.round == 2


def test_a_record_without_a_round_comes_twice(tmp_path):
    """Spare forced pulls are dropped: no round tells of them, and they may be sent again."""
    with opened(tmp_path) as journal:
        stream = stream_of(journal, "HighDimensionalBandit")
        tickets = [stream.decide(context, ticket=True)[1] for context in CONTEXTS[:10]]
        assert [ticket.decision for ticket in tickets] == [0, 0, 1, 1, 2, 2, 3, 3, 0, 1]
        for ticket in (tickets[0], tickets[1], tickets[8]):
            stream.observe(0.5, ticket=ticket)
        assert stream.round == 2
        assert 8 not in stream.outstanding
    with opened(tmp_path) as journal:
        stream = stream_of(journal, "HighDimensionalBandit")
        before = facts(stream)
        stream.observe(0.5, ticket=tickets[8])
        stream.skip(ticket=tickets[8])
        with pytest.raises(dpoco.RoundOrderError):
            stream.expire(tickets[8])
        assert facts(stream) == before
        for ticket in tickets[2:8]:
            stream.observe(0.5, ticket=ticket)
        assert stream.round == 8
        assert stream.releases(0, 8).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_many_rewards_in_one_commit(tmp_path):
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        tickets = [stream.decide(context, ticket=True)[1] for context in CONTEXTS[:4]]
        sequence = journal._rows.head.sequence
        with journal.transaction() as together:
            for ticket in (*tickets[:3], tickets[1]):  # doubled within the commit, too
                together.redeem(stream, ticket, 0.5)
            together.redeem(stream, tickets[3])
        assert (stream.round, journal._rows.head.sequence) == (4, sequence + 1)
        _, fresh = stream.decide(CONTEXTS[4], ticket=True)
        before = facts(stream)

        def torn():
            with journal.transaction() as together:
                together.redeem(stream, fresh, 0.5)
                together.redeem(stream, tickets[3], 0.5)  # it was skipped

        with pytest.raises(dpoco.ReplayMismatch):
            torn()
        assert (stream.round, stream.outstanding) == (4, (4,))
        assert facts(stream) == before


def test_redeemed_tickets_outlive_upkeep(tmp_path):
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        tickets = [stream.decide(context, ticket=True)[1] for context in CONTEXTS[:8]]
        for ticket in reversed(tickets[:6]):
            stream.observe(0.5, ticket=ticket)
        journal.rotate_key()
        stream.observe(0.5, ticket=tickets[6])
        assert journal.compact("LinUCB") == 6
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        for ticket in tickets[:7]:
            stream.observe(0.5, ticket=ticket)
            with pytest.raises(dpoco.ReplayMismatch):
                stream.observe(0.75, ticket=ticket)
        assert (stream.round, stream.outstanding) == (7, (7,))
        journal.forget("LinUCB", 7)
        for ticket in tickets[:6]:
            with pytest.raises(dpoco.StateError, match="not kept"):
                stream.observe(0.5, ticket=ticket)
        stream.observe(0.5, ticket=tickets[7])
        stream.observe(0.5, ticket=tickets[7])
        assert stream.round == 8


def test_a_round_played_for_a_ticket_is_not_replayed_without_it(tmp_path):
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        _, ticket = stream.decide(CONTEXTS[0], ticket=True)
        stream.observe(0.5, ticket=ticket)
        for attempt in (
            lambda: stream.observe(CONTEXTS[0], 0.5, round=0),
            lambda: stream.process(CONTEXTS[:1], np.full((1, 4), 0.5), first_round=0),
            lambda: stream.skip(round=0),
        ):
            with pytest.raises(dpoco.ReplayMismatch):
                attempt()
        with pytest.raises(TypeError):
            stream.observe(0.5, round=0, ticket=ticket)
        with pytest.raises(TypeError):
            stream.skip(round=0, ticket=ticket)
        assert stream.round == 1


def test_tickets_are_adopted(tmp_path):
    learner = CASE.make(1)
    tickets = [learner.decide(context, ticket=True)[1] for context in CONTEXTS[:3]]
    learner.observe(0.5, ticket=tickets[0])
    with opened(tmp_path) as journal:
        with pytest.raises(dpoco.StateError, match="adopt"):
            journal.open("LinUCB", learner)
        journal.adopt("LinUCB", learner)
        with pytest.raises(dpoco.StateError, match="suspended"):
            learner.observe(0.5, ticket=tickets[1])
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        assert (stream.round, stream.outstanding) == (1, (1, 2))
        assert any("delayed" in text for text in stream.guarantee.conditions)
        stream.observe(0.5, ticket=tickets[2])
        with pytest.raises(dpoco.StateError, match="not kept"):  # redeemed before the journal
            stream.observe(0.5, ticket=tickets[0])
        stream.observe(0.5, ticket=tickets[1])


def test_forks_have_tickets_of_their_own(tmp_path):
    losses = CASES["PrefixHedge"].batch[0]
    with opened(tmp_path, ledger=Ledger(dpoco.Budget(3.0, 1e-5))) as journal:
        stream = stream_of(journal, "PrefixHedge")
        (_, first), (_, second) = (stream.decide(ticket=True) for _ in range(2))
        stream.observe(losses[0], ticket=first)
        child = stream.fork("child")
        assert child.guarantee == stream.guarantee
        assert any("delayed" in text for text in child.guarantee.conditions)
        assert (child.outstanding, stream.outstanding) == ((), (1,))
        with pytest.raises(dpoco.StateError):
            child.observe(losses[1], ticket=second)
        _, own = child.decide(ticket=True)
        with pytest.raises(dpoco.StateError):
            stream.observe(losses[1], ticket=own)
        stream.observe(losses[1], ticket=second)
        child.observe(losses[1], ticket=own)
    with opened(tmp_path) as journal:
        for name, ticket in (("PrefixHedge", second), ("child", own)):
            stream = journal.open(name)
            assert any("delayed" in text for text in stream.guarantee.conditions)
            stream.observe(losses[1], ticket=ticket)
            assert stream.round == 2


def test_the_guarantee_says_so_and_a_stream_without_tickets_is_stored_as_ever(tmp_path):
    with opened(tmp_path) as journal:
        stream = stream_of(journal)
        stream.decide(CONTEXTS[0])
        stream.observe(0.5)
        assert journal._rows.state(stream._row.id).payload == stream._learner._engine.state()
        before = stream.guarantee
        _, ticket = stream.decide(CONTEXTS[1], ticket=True)
        after = stream.guarantee
        assert set(after.conditions) - set(before.conditions)
        assert (after.epsilon, after.delta) == (before.epsilon, before.delta)
        stream.observe(0.5, ticket=ticket)
    with opened(tmp_path) as journal:
        assert stream_of(journal).guarantee == after


def test_mechanisms_have_none(tmp_path):
    with opened(tmp_path) as journal:
        terms = {"horizon": 9, "budget": dpoco.Budget(1.0, 1e-6), "bound": 1.0}
        make = lambda: dpoco.mechanisms.ContinualSum(3, **terms)  # noqa: E731
        stream = journal.open("sums", make)
        _, ticket = stream_of(journal).decide(CONTEXTS[0], ticket=True)
        assert stream.outstanding == ()
        for attempt in (
            lambda: stream.decide(ticket=True),
            lambda: stream.observe([0.0] * 3, ticket=ticket),
            lambda: stream.expire(ticket),
            lambda: stream.expire(0),
            lambda: stream.skip(),
        ):
            with pytest.raises(TypeError):
                attempt()


@pytest.mark.parametrize("name", ["LinUCB", "PrefixHedge"])
def test_past_the_horizon_a_ticket_waits(name, tmp_path):
    """Rounds without tickets may use up what these had reserved."""
    case = CASES[name]
    learner = dpoco.bandits.LinUCB(
        4, 3, horizon=2, budget=None, context_bound=1.0, reward_bound=1.0
    )
    if name == "PrefixHedge":
        learner = dpoco.experts.PrefixHedge(4, horizon=2, budget=None)
    given = tuple(array[0] for array in case.batch[:-1])
    with Journal(QuickStore(tmp_path / "journal.db")) as journal:
        stream = journal.open("a", learner)
        _, ticket = stream.decide(*given, ticket=True)
        stream.process(*(array[:2] for array in case.batch))
        for _ in range(2):
            with pytest.raises(dpoco.HorizonExceeded):
                stream.observe(0.5 if given else case.batch[0][0], ticket=ticket)
        assert stream.outstanding == (0,)
        assert stream.round == 2
