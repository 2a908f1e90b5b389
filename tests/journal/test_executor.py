"""Calls that share a commit: each as if it were alone, whoever fails, cancels or is killed."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import threading
from concurrent.futures import CancelledError, wait
from pathlib import Path

import numpy as np
import pytest
from tests.journal.crash_cases import counters, kills
from tests.journal.executor_cases import CONTEXTS, RULE, USERS, make, name, reward, serve
from tests.journal.journal_cases import VALUES, QuickStore, opened, sums
from tests.journal.ticket_cases import CASES

import dpoco
from dpoco.journal import GroupCommitExecutor, Journal
from dpoco.journal._keys import with_people
from dpoco.learning.participation import Limiter

POISON = {0.125: ValueError, 0.25: MemoryError}


@pytest.fixture
def journal(tmp_path):
    with opened(tmp_path) as journal:
        yield journal


def commits_of(journal):
    return journal._rows.head.sequence


def hold(commits, *calls):
    """Submit calls that are all there before the first is played; return their futures."""
    with commits._changed:
        return [commits.submit(*call[:-1], **call[-1]) for call in calls]


def committed_order(stream, tickets):
    """Return the users in the order of their rounds, found by the digests of their records."""
    learner, found = stream._learner, []
    for chunk in stream._journal._rows.chunks(stream._row.id, 0, stream.round):
        known = {}
        for user, ticket in tickets.items():
            parts = stream._family.arrival(learner, (reward(user, ticket.decision),))
            rows = tuple(part.reshape(1, -1) for part in parts)
            rows = with_people(rows, learner._digests(name(user), None))
            known[stream._digests_under(chunk.key).arrival(ticket.number, rows)] = user
        found += [known[chunk.digests[at : at + 16]] for at in range(0, 16 * chunk.count, 16)]
    return found


def check_visits(path, client):
    """Every user had one round, and all is as one learner plays it that was never interrupted."""
    kept = [line.split() for line in Path(client).read_text().splitlines()]
    issued = {int(u): text for word, u, text in kept if word == "ticket"}
    assert len(issued) == sum(word == "ticket" for word, _, _ in kept) == USERS
    tickets = {u: dpoco.Ticket.from_bytes(bytes.fromhex(text)) for u, text in issued.items()}
    assert len({ticket.number for ticket in tickets.values()}) == USERS
    with Journal(QuickStore(path)) as journal:
        stream = journal.open("offers", make)
        assert (stream.round, stream.outstanding) == (USERS, ())
        order, alone, limiter = committed_order(stream, tickets), make(), stream._learner._limiter
        assert sorted(order) == list(range(USERS))
        asked, own = sorted(tickets, key=lambda user: tickets[user].number), {}
        for turn, user in enumerate(order):
            for other in asked:
                if tickets[other].round == turn:
                    arm, own[other] = alone.decide(CONTEXTS[other], ticket=True)
                    assert arm == tickets[other].decision
            chosen = tickets[user].decision
            assert stream.release(turn) == chosen
            alone.observe(reward(user, chosen), ticket=own[user], person=name(user))
        assert stream._learner._engine.state() == alone._engine.state()
        exact = Limiter(RULE, stream.horizon)
        exact._key = limiter._key
        for turn, user in enumerate(order):
            exact.admit(turn, exact.digests(name(user)))
        assert counters(limiter) == counters(exact)
        return commits_of(journal)


def test_threads_and_loops_share_commits(tmp_path):
    path, client = tmp_path / "journal.db", tmp_path / "client"
    serve(str(path), str(client))
    # A commit for each call would be 2 USERS; a loop's visits come together.
    assert check_visits(path, client) < 2 * USERS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_while_threads_and_loops_wait(tmp_path):
    """Over a second: twelve processes, all but the last killed."""
    client, ends = tmp_path / "client", []
    for status, _ in kills((str(tmp_path / "journal.db"), f"many {client}"), turns=12, seed=5):
        ends.append(status)
    assert ends[-1] == 0
    assert ends.count(signal.SIGKILL) >= 3
    check_visits(tmp_path / "journal.db", client)


def test_an_error_reaches_its_caller_alone_and_moves_nobody(journal, monkeypatch):
    """One refused call of each kind, and one that fails behind the engine's round."""
    stream = journal.open("sums", lambda: sums(seed=1))
    offers = journal.open("offers", lambda: CASES["LinUCB"].make(1))
    other = journal.open("more offers", lambda: CASES["LinUCB"].make(2))
    context = CASES["LinUCB"].batch[0][0]
    _, foreign = other.decide(context, ticket=True)
    _, ticket = offers.decide(context, ticket=True)
    play = type(stream._family).play

    def fail(family, learner, parts, people):
        out = play(family, learner, parts, people)
        for value, error in POISON.items():  # a ValueError, too, when the engine has moved
            if np.any(parts[0] == value):
                raise error
        return out

    monkeypatch.setattr(type(stream._family), "play", fail)
    first, second = (np.full(2, value) for value in POISON)
    calls = [(stream.observe, value, {}) for value in VALUES[:8]]
    calls[7:7] = [(stream.observe, second, {}), (offers.observe, 0.5, {"ticket": foreign})]
    calls[5:5] = [(stream.observe, first, {}), (offers.observe, 0.75, {"ticket": ticket})]
    calls[5:5] = [(offers.observe, 0.5, {"ticket": ticket}), (stream.observe, [0.0], {})]
    calls[2:2] = [(stream.observe, VALUES[0], {"round": 23}), (stream.decide, {})]
    before = commits_of(journal)
    with GroupCommitExecutor(journal) as commits:
        futures = hold(commits, *calls)
        errors = [type(future.exception(60)) for future in futures]
    assert [error.__name__ for error in errors if error is not type(None)] == [
        "RoundOrderError", "TypeError", "ValueError", "ValueError", "ReplayMismatch",
        "MemoryError", "ForeignTicket",
    ]  # fmt: skip
    good = [f.result() for f in futures if not f.exception() and f.result() is not None]
    assert np.array_equal(good, sums(seed=1).run(VALUES[:8]))
    assert np.array_equal(stream.releases(0, 8), good)
    assert (offers.round, offers.outstanding, other.outstanding) == (1, (), (0,))
    # The two that moved a learner: three commits; refusals cost none.
    assert commits_of(journal) == before + 3


def test_a_store_that_fails_in_one_call_is_asked_again_for_the_others(journal, monkeypatch):
    """SQLite ends the transaction by itself when the disk fails."""
    stream = journal.open("sums", lambda: sums(seed=1))
    first = stream.observe(VALUES[0])

    def fail(*_):
        journal._store.rollback()
        raise OSError("the journal cannot be written: disk I/O error")

    calls = [(stream.observe, value, {}) for value in VALUES[1:7]]
    calls[3:3] = [(stream.release, 0, {})]
    monkeypatch.setattr(journal._store, "span", fail)
    with GroupCommitExecutor(journal) as commits:
        answers = [future.exception(60) or future.result() for future in hold(commits, *calls)]
    assert isinstance(answers.pop(3), OSError)
    assert np.array_equal([first, *answers], sums(seed=1).run(VALUES[:7]))


def test_a_commit_that_fails_reaches_all_of_it_and_releases_nothing(journal, monkeypatch):
    stream = journal.open("sums", lambda: sums(seed=1))
    commit = journal._store.commit
    full = [True]

    def fail():
        if full.pop():
            raise OSError("the journal cannot be written: full")
        commit()

    calls = [(stream.observe, value, {}) for value in VALUES[:6]]
    with GroupCommitExecutor(journal) as commits:
        monkeypatch.setattr(journal._store, "commit", fail)
        futures = hold(commits, *calls)
        assert {type(future.exception(60)) for future in futures} == {OSError}
        monkeypatch.undo()
        assert stream.round == 0
        changed = hold(commits, *[(f, 0.5 * v, kw) for f, v, kw in calls])
        answers = [future.result(60) for future in changed]
    assert np.array_equal(answers, sums(seed=1).run(0.5 * VALUES[:6]))


def test_answers_wait_for_the_disk_and_leave_in_order(journal, monkeypatch):
    """Nothing is known while the commit is under way; other callers of the journal wait."""
    stream = journal.open("sums", lambda: sums(seed=1))
    commit, reached, go = journal._store.commit, threading.Event(), threading.Event()

    def slow():
        reached.set()
        assert go.wait(60)
        commit()

    monkeypatch.setattr(journal._store, "commit", slow)
    with GroupCommitExecutor(journal) as commits:
        futures = [
            commits.submit(stream.process, VALUES[at : at + 1], first_round=at) for at in range(9)
        ]
        assert reached.wait(60)
        looking = threading.Thread(target=lambda: seen.append(stream.round))
        seen = []
        looking.start()
        assert not wait(futures, timeout=0.05).done
        assert not seen
        go.set()
        assert np.array_equal([f.result(60)[0] for f in futures], sums(seed=1).run(VALUES[:9]))
        looking.join()
        assert seen[0] > 0


def test_what_waits_is_bounded_cancelled_or_played_at_the_end(journal):
    stream = journal.open("offers", make)
    commits = GroupCommitExecutor(journal, waiting=3)
    ask = (stream.decide, CONTEXTS[0])

    async def leave():
        task = asyncio.ensure_future(asyncio.wrap_future(commits.submit(*ask, ticket=True)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with journal.transaction():
        at_work = [commits.submit(*ask, ticket=True)]
        while commits._waiting:  # until it is taken: the transaction is what it waits for
            os.sched_yield()
        asyncio.run(leave())
        kept, _ = [commits.submit(*ask, ticket=True) for _ in range(2)]
        with pytest.raises(queue.Full, match="3 calls wait"):
            commits.submit(*ask, ticket=True)
        assert not at_work[0].cancel()
        assert _.cancel()
        commits.shutdown(wait=False)
        with pytest.raises(RuntimeError, match="shut down"):
            commits.submit(*ask)
    commits.shutdown()
    assert (at_work[0].result()[1].number, kept.result()[1].number) == (0, 1)
    assert stream.outstanding == (0, 1)
    with journal.transaction():
        dropping = GroupCommitExecutor(journal)
        busy = dropping.submit(*ask, ticket=True)
        while dropping._waiting:
            os.sched_yield()
        late = dropping.submit(*ask, ticket=True)
        dropping.shutdown(wait=False, cancel_futures=True)
    dropping.shutdown()
    assert busy.result()[1].number == 2
    with pytest.raises(CancelledError):
        late.result()
    assert stream.outstanding == (0, 1, 2)


def test_horizons_end_without_giving_up_commits(journal):
    stream = journal.open("few", lambda: CASES["LinUCB"].make(1))
    context = CASES["LinUCB"].batch[0][0]
    before = commits_of(journal)
    with GroupCommitExecutor(journal) as commits:
        calls = [(stream.decide, context, {"ticket": True})] * (stream.horizon + 20)
        errors = [f.exception(60) for f in hold(commits, *calls)]
    assert [type(e) for e in errors if e] == [dpoco.HorizonExceeded] * 20
    assert commits_of(journal) == before + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused_and_lets_go(journal):
    stream = journal.open("sums", sums)
    with GroupCommitExecutor(journal) as commits:
        with commits._changed:  # as a thread of the parent may hold it
            child = os.fork()
            if child == 0:
                try:
                    commits.submit(stream.observe, VALUES[0])
                except dpoco.JournalFenced:
                    commits.shutdown()
                    os._exit(7)
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        commits.submit(stream.observe, VALUES[0]).result(60)
    assert stream.round == 1


def test_only_calls_of_the_journals_streams(journal, tmp_path):
    stream = journal.open("sums", sums)
    (tmp_path / "other").mkdir()
    with GroupCommitExecutor(journal) as commits, opened(tmp_path / "other") as other:
        for wrong in (print, stream.fork, stream.process_many, Journal.transaction):
            with pytest.raises(TypeError, match="decide, observe"):
                commits.submit(wrong)
        with pytest.raises(ValueError, match="another journal"):
            commits.submit(other.open("sums", sums).observe, VALUES[0])
        other.close()
        with pytest.raises(TypeError, match="must be a Journal"):
            GroupCommitExecutor(tmp_path)
        future = commits.submit(stream.observe, VALUES[0])
        future.result(60)
        journal.close()
        with pytest.raises(dpoco.StateError, match="closed"):
            commits.submit(stream.observe, VALUES[0]).result(60)


@pytest.mark.parametrize("wrong", [float("inf"), 1e12, -1.0, float("nan")])
def test_a_wait_that_the_system_cannot_count_is_refused(journal, wrong):
    with pytest.raises(ValueError, match="linger"):
        GroupCommitExecutor(journal, linger=wrong)
    with pytest.raises(ValueError, match="timeout"):
        dpoco.journal.SqliteStore("unused", timeout=wrong)
