"""Turns, limits, deletion, failures of the disk: what the service does behind its pages."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import time

import numpy as np
import pytest
from tests.serve.conftest import CONTEXT, configuration

import dpoco
from dpoco import serve


async def visit(ask, user, **more):
    answer = await ask("POST", "/decisions", {"user": user, "context": CONTEXT, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["ticket"]


def test_rounds_are_played_at_their_turn_whether_or_not_a_reward_came(play):
    async def script(ask):
        tickets = [await visit(ask, f"user {n}") for n in range(6)]
        paid = {"ticket": tickets[0], "reward": 1.0}
        assert (await ask("POST", "/rewards", paid)).status_code == 200
        assert (await ask("POST", "/rewards", paid)).status_code == 200
        other = await ask("POST", "/rewards", {**paid, "reward": 0.5})
        assert other.status_code == 409
        for entry in ask.service._entries.values():
            entry.turn = 0.0
        await ask.until_rounds(6)
        late = await ask("POST", "/rewards", paid)
        assert late.status_code == 404
        # What is kept of answered tickets does not grow.
        service = ask.service
        kept = (service._entries, service._names, service._answered, service._held, service._asking)
        for _ in range(2000):  # rounds are counted before entries leave
            if not any(kept):
                break
            await asyncio.sleep(0.005)
        assert not any(kept)
        assert service._stream.outstanding == ()
        assert list(service._rows.all("ticket")) == []

    play(script, public=True)


def test_a_clock_that_was_wrong_does_not_keep_others_waiting(play, monkeypatch):
    async def script(ask):
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 1e9)  # a clock before it was set
        await visit(ask, "early")
        monkeypatch.setattr(time, "time", lambda: now)
        tickets = [await visit(ask, f"user {n}") for n in range(3)]
        assert ask.service._due() == []
        monkeypatch.setattr(time, "time", lambda: now + 59.0)
        paid = {"ticket": tickets[0], "reward": 1.0}
        assert (await ask("POST", "/rewards", paid)).status_code == 200
        monkeypatch.setattr(time, "time", lambda: now + 61.0)
        await ask.until_rounds(4)

    play(script, public=True, feedback_seconds=60.0)


def test_a_restart_keeps_tickets_and_their_rewards(play):
    async def before(ask):
        play.tickets = [await visit(ask, f"user {n}") for n in range(3)]
        await ask("POST", "/rewards", {"ticket": play.tickets[0], "reward": 1.0})

    async def after(ask):
        assert await ask.waiting() == 3
        for ticket, reward, status in ((0, 1.0, 200), (0, 0.0, 409), (1, 0.0, 200)):
            record = {"ticket": play.tickets[ticket], "reward": reward}
            assert (await ask("POST", "/rewards", record)).status_code == status

    play(before, public=True)
    play(after, public=True)


def test_limits_are_a_users_own(play):
    async def script(ask):
        ask.service.clock = lambda: 7.5
        for _ in range(2):
            await visit(ask, "ann")
        body = {"user": "ann", "context": CONTEXT}
        many = await ask("POST", "/decisions", body)
        assert (many.status_code, many.headers["retry-after"]) == (429, "1")
        assert "tickets" in many.json()["error"]
        fast = await ask("POST", "/decisions", body)
        assert "second" in fast.json()["error"]
        await visit(ask, "bob")
        full = await ask("POST", "/decisions", {**body, "user": "cem"})
        assert full.status_code == 503
        ask.service.clock = lambda: 8.5
        assert "tickets" in (await ask("POST", "/decisions", body)).json()["error"]
        assert len(ask.service._stream.outstanding) == 3

    limits = {"user_tickets": 2, "user_requests_per_second": 3, "tickets": 3}
    play(script, public=True, limits=limits)


def test_the_horizon_ends_the_service_politely(play):
    async def script(ask):
        for n in range(40):
            await visit(ask, f"user {n}")
        answer = await ask("POST", "/decisions", {"user": "x", "context": CONTEXT})
        assert answer.status_code == 410
        assert ask.service._held["x"] == 0

    with pytest.warns(dpoco.NoiseDominatesWarning):
        play(script, public=True, horizon=40)


def test_a_decision_whose_row_cannot_be_written_expires(play, monkeypatch):
    async def script(ask):
        def full(*_):
            raise OSError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(ask.service._rows, "put", full)
            answer = await ask("POST", "/decisions", {"user": "ann", "context": CONTEXT})
            assert answer.status_code == 503
            assert (await ask("GET", "/healthz")).status_code == 503
            assert (await ask("GET", "/healthz/live")).status_code == 200
        for _ in range(500):
            if not ask.service._stream.outstanding:
                break
            await asyncio.sleep(0.01)
        assert ask.service._stream.outstanding == ()
        assert not ask.service._held
        await visit(ask, "ann")

    play(script, public=True)


def test_a_ticket_that_a_crash_lost_expires_at_the_next_start(play):
    async def before(ask):
        await visit(ask, "ann")
        await visit(ask, "bob")

    async def after(ask):
        for _ in range(500):
            if len(ask.service._stream.outstanding) == 1:
                break
            await asyncio.sleep(0.01)
        assert await ask.waiting() == len(ask.service._stream.outstanding) == 1

    play(before, public=True)
    with sqlite3.connect(play.folder / "data" / "service.db") as base:
        base.execute("DELETE FROM sealed WHERE kind = 'ticket' AND number = 1")
    base.close()
    play(after, public=True)


def test_too_many_at_once_are_turned_away_before_anything_is_drawn(play, monkeypatch):
    async def script(ask):
        def full(*_, **__):
            raise queue.Full

        with monkeypatch.context() as busy:
            busy.setattr(ask.service._commits, "submit", full)
            answer = await ask("POST", "/decisions", {"user": "ann", "context": CONTEXT})
            assert answer.status_code == 503
        assert ask.service._stream.outstanding == ()

    play(script, public=True)


def test_who_is_deleted_leaves_empty_rounds_and_no_trace(play):
    name, context = "Ada L\u00f6velace", [0.123456, 0.25]

    async def script(ask):
        token = ask.tokens.create("root", operator=True)
        answer = await ask("POST", "/decisions", {"user": name, "context": context})
        paid = {"ticket": answer.json()["ticket"], "reward": 0.75}
        await visit(ask, "bob")
        assert (await ask("POST", "/rewards", paid)).status_code == 200
        assert (await ask("POST", "/deletions", {"user": name})).status_code == 401
        for rounds in (1, 0):
            gone = await ask("POST", "/deletions", {"user": name}, token)
            assert gone.json() == {"rounds": rounds}
        assert (await ask("POST", "/rewards", paid)).status_code == 404
        assert await ask.waiting() == 1
        assert (await ask.service.numbers())["rounds"] == 1

    play(script, public=True)
    files = b"".join(file.read_bytes() for file in (play.folder / "data").iterdir())
    for needle in (name.encode(), b"bob", np.array(context).tobytes(), b"root"):
        assert needle not in files


def test_a_deletion_that_the_disk_refuses_is_made_up_for(play, monkeypatch):
    async def script(ask):
        token = ask.tokens.create("root", operator=True)
        ticket = await visit(ask, "ann")
        await ask("POST", "/rewards", {"ticket": ticket, "reward": 0.75})

        def full(*_, **__):
            raise queue.Full

        with monkeypatch.context() as busy:
            busy.setattr(ask.service._commits, "submit", full)
            gone = await ask("POST", "/deletions", {"user": "ann"}, token)
            assert gone.status_code == 503
        ((_, row),) = ask.service._rows.all("ticket")
        assert row["reward"] is None  # already
        await ask.until_rounds(1)

    play(script, public=True)


def test_metrics_say_nothing_about_rewards(play):
    async def script(ask):
        ticket = await visit(ask, "ann")
        before = await ask("GET", "/metrics")
        assert before.headers["content-type"].startswith("application/openmetrics-text; version=1")
        lines = before.text.splitlines()
        assert lines[-1] == "# EOF"
        assert before.text.endswith("\n")
        numbers = dict(line.split() for line in lines if not line.startswith("#"))
        assert numbers["dpoco_tickets_waiting"] == "1"
        assert numbers["dpoco_rounds_total"] == "0"
        assert all(line.startswith("# TYPE dpoco_") for line in lines[:-1:3])
        assert all(line.startswith("# HELP dpoco_") for line in lines[1::3])
        await ask("POST", "/rewards", {"ticket": ticket, "reward": 1.0})
        assert (await ask("GET", "/metrics")).text == before.text
        assert (await ask("GET", "/guarantee")).json()["certified"] is True

    play(script, public=True)


@pytest.mark.parametrize(
    ("page", "record"),
    [("/decisions", {"user": "ann", "context": CONTEXT}), ("/rewards", {"reward": 1.0})],
)
def test_another_process_that_takes_over_stops_this_one(play, page, record):
    """A reward that the old process took would be unknown to the new one."""

    async def script(ask):
        stopped = []
        ticket = await visit(ask, "bob")
        ask.service.stop = lambda: stopped.append(True)
        settings = serve.Settings.read(configuration(), play.folder / "bandit.toml")
        with serve.open_service(settings):
            pass
        named = {"ticket": ticket} if page == "/rewards" else {}
        answer = await ask("POST", page, record | named)
        assert answer.status_code == 503
        assert stopped
        assert isinstance(ask.service.fenced, dpoco.JournalFenced)

    play(script, public=True)


def test_another_learner_than_the_stored_one_is_refused(play):
    async def script(_):
        pass

    play(script)
    with pytest.raises(dpoco.StateError, match="other arguments"):
        play(script, rounds_per_person=6)


def test_the_guarantee_has_all_conditions_before_the_first_visit(play):
    async def script(ask):
        guarantee = (await ask("GET", "/guarantee")).json()
        assert any("feedback is delayed" in condition for condition in guarantee["conditions"])
        assert ask.service._stream.outstanding == ()
        await visit(ask, "ann")
        assert (await ask("GET", "/guarantee")).json() == guarantee

    play(script, public=True)
