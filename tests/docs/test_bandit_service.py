"""The bandit service: many users in flight, killed and started again, erased, shut down."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

import dpoco

EXAMPLE = Path(__file__).parents[2] / "examples" / "bandit_service.py"
CONTEXTS = np.random.default_rng(0).uniform(-0.3, 0.3, (60, 8)).round(3).tolist()


@contextmanager
def service(folder, end, delay=60.0):
    command = [sys.executable, str(EXAMPLE), str(folder), "--delay", str(delay)]
    command += ["--durability", "process"]  # a killed process loses nothing
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            said = process.stdout.readline().split()
            assert said, process.stderr.read()

            def call(method, path, record=None):
                with closing(HTTPConnection("127.0.0.1", int(said[1]), timeout=60)) as connection:
                    raw = isinstance(record, bytes)
                    connection.request(method, path, record if raw else json.dumps(record))
                    with connection.getresponse() as answer:
                        text = answer.read().decode()
                        return answer.status, text if path == "/metrics" else json.loads(text)

            async def many(method, path, records):
                calls = [asyncio.to_thread(call, method, path, record) for record in records]
                return await asyncio.gather(*calls)

            call.many = lambda *arguments: asyncio.run(many(*arguments))
            yield call
            process.send_signal(end)
            assert process.wait(60) == (0 if end == signal.SIGTERM else -end)
            assert process.stderr.read() == ""  # nothing is logged
        finally:
            process.kill()


def metrics(call):
    status, text = call("GET", "/metrics")
    assert status == 200
    return {name: float(value) for name, value in re.findall(r"^dpoco_(\w+) (\S+)$", text, re.M)}


def visits(call, users):
    asked = [{"user": f"user {u}", "context": CONTEXTS[u]} for u in users]
    answers = call.many("POST", "/decisions", asked)
    assert {status for status, _ in answers} == {200}
    return [answer["ticket"] for _, answer in answers]


def until(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError


def waiting(folder, statement):
    """Look at what waits, or change it, while nobody serves."""
    with closing(sqlite3.connect(folder / "waiting.db", isolation_level=None)) as base:
        return base.execute(statement).fetchall()


def rounds_of(folder):
    """Return what the journal has in the end."""
    with dpoco.journal.Journal(folder / "journal.db") as journal:
        stream = journal.open("offers")
        counts = stream.releases(0, stream.round).shape[0]
        return counts, stream.outstanding, len(stream._learner._participants())


def test_killed_in_the_middle_it_goes_on_and_counts_everybody_once(tmp_path):
    """Over a second: a service of three lives."""
    with service(tmp_path, signal.SIGKILL) as call:
        tickets = visits(call, range(40))
        assert len(set(tickets)) == 40
        paid = [{"ticket": ticket, "reward": 0.5} for ticket in tickets[:20]]
        assert {s for s, _ in call.many("POST", "/rewards", paid)} == {200}
    with service(tmp_path, signal.SIGKILL, delay=0.0) as call:
        assert metrics(call)["tickets_waiting"] == 40
        # Answered before the kill: it stays answered, and is not answered otherwise.
        assert call("POST", "/rewards", paid[3])[0] == 200
        assert call("POST", "/rewards", {**paid[3], "reward": 0.25})[0] == 409
        assert call("POST", "/rewards", {**paid[3], "ticket": tickets[30]})[0] == 200
        visits(call, range(40, 60))  # their turn has come at once: they end empty
        until(lambda: metrics(call)["rounds_total"] == 20)
    rows = waiting(tmp_path, "SELECT reward FROM waiting")
    assert len(rows) == 40
    assert sum(reward is not None for (reward,) in rows) == 21
    waiting(tmp_path, "UPDATE waiting SET turn = 0.0")
    with service(tmp_path, signal.SIGTERM) as call:
        until(lambda: metrics(call)["rounds_total"] == 60)
        assert metrics(call)["tickets_waiting"] == 0
        assert call("POST", "/rewards", paid[3])[0] == 410
    played, outstanding, people = rounds_of(tmp_path)
    assert (played, outstanding) == (60, ())
    assert people > 60 * 16


def test_who_is_forgotten_leaves_an_empty_round_and_no_trace(tmp_path):
    """Over a second: a service in a process of its own."""
    with service(tmp_path, signal.SIGTERM) as call:
        tickets = visits(call, range(6))
        secret = {"user": "Ada L\u00f6velace", "context": [0.123456] * 8}
        status, answer = call("POST", "/decisions", secret)
        assert status == 200
        assert call("POST", "/rewards", {"ticket": answer["ticket"], "reward": 0.75})[0] == 200
        path = "/users/Ada%20L%C3%B6velace"
        assert call("DELETE", path) == (200, {"forgotten": 1})
        assert call("DELETE", path) == (200, {"forgotten": 0})
        assert call("POST", "/rewards", {"ticket": answer["ticket"], "reward": 0.75})[0] == 410
        files = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        needle = np.full(8, 0.123456).tobytes()
        assert needle not in files
        assert secret["user"].encode() not in files
        assert b"user 3" in files  # who waits is there
        facts = metrics(call)
        assert (facts["rounds_total"], facts["tickets_waiting"]) == (1, 6)
        # How many rewards came must not be told, by any number.
        assert call("POST", "/rewards", {"ticket": tickets[0], "reward": 1.0})[0] == 200
        assert metrics(call) == facts


def test_bad_requests_are_refused_and_quoted_nowhere(tmp_path):
    """Over a second: a service in a process of its own."""
    bad = [
        {"user": "", "context": CONTEXTS[0]}, {"user": "secret", "context": [0.123456] * 7},
        {"user": 7, "context": CONTEXTS[0]}, {"context": CONTEXTS[0]}, ["secret"], b"\xff",
        b"[" * 9000, {"ticket": "secret", "reward": "secret"},
        {"ticket": "x", "reward": float("nan")},
    ]  # fmt: skip
    with service(tmp_path, signal.SIGTERM) as call:
        for path in ("/decisions", "/rewards"):
            for record in bad:
                status, answer = call("POST", path, record)
                assert status == 400
                assert "secret" not in str(answer)
                assert "0.123456" not in str(answer)
        assert call("POST", "/rewards", {"ticket": "none", "reward": 1.0})[0] == 410
        assert call("GET", "/nowhere")[0] == 404
        assert metrics(call)["tickets_waiting"] == 0
        assert call("GET", "/guarantee")[1]["certified"] is True


def test_a_service_that_is_told_to_stop_answers_what_it_was_asked(tmp_path):
    """Over a second: a service in a process of its own."""
    with service(tmp_path, signal.SIGTERM, delay=0.0) as call:
        visits(call, range(30))
    waiting(tmp_path, "UPDATE waiting SET turn = 0.0")
    with service(tmp_path, signal.SIGTERM) as call:
        until(lambda: metrics(call)["tickets_waiting"] == 0)
        assert metrics(call)["rounds_total"] == 30
