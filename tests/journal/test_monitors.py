"""Monitors in journals: releases, sums and the place in the input are one commit."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

import dpoco
from dpoco import Budget, EncryptionKey, Participation, StateError
from dpoco.accounting.ledger import Ledger
from dpoco.errors import BudgetExceeded, HorizonExceeded, JournalFenced, RoundOrderError
from dpoco.journal import Journal, SqliteStore
from dpoco.random import Source
from dpoco.statistics import Count, HalfLife, Last, Mean, Monitor

BUDGET = Budget(1.0, 1e-6)
VIEWS = ["interval", "total", Last(3), HalfLife(2.0)]
START = pd.Timestamp("2026-03-28T20:00", tz="Europe/Berlin")  # the clock is put forward


def make(**options):
    given = {"every": "1h", "start": START, "releases": 60, "budget": BUDGET, "views": VIEWS,
             "participation": Participation(4, separation=2), "records_per_interval": 2,
             "by": {"country": ["DE"]}, "source": Source.seeded(7)}  # fmt: skip
    return Monitor({"n": Count(), "x": Mean(0.0, 1.0)}, **given | options)


def make_plain():
    return make(participation=None, records_per_interval=1, views=["interval"])


def make_plain_days():
    return make(
        participation=None, records_per_interval=1, views=["interval"], every="1D",
        start=START.normalize(),
    )  # fmt: skip


def table(rows=1200, hours=20.0):
    rng = np.random.default_rng(1)
    return pd.DataFrame({
        "at": START + pd.to_timedelta(np.sort(rng.uniform(0.0, hours, rows)), unit="h"),
        "x": rng.random(rows), "country": rng.choice(["DE", "FR"], rows),
        "user": rng.integers(0, 40, rows),
    })  # fmt: skip


CALL = {"time": "at", "person": "user"}


def texts(releases):
    return [release.to_json() for release in releases]


def feed(stream, data, step=170, seen=None):
    """Feed a stream from where it is to the end, in parts; releases that return go to `seen`."""
    found, at = [] if seen is None else seen, stream.position or 0
    while at < len(data):
        part = data[at : at + step]
        at += len(part)
        found += stream.add_many(part, position=at, **CALL)
    return found


@pytest.fixture
def expected():
    return texts(make().add_many(table(), **CALL))


@pytest.mark.parametrize("key", [None, EncryptionKey(hashlib.sha256(b"a test").digest())])
def test_releases_are_those_of_the_monitor_across_openings(tmp_path, expected, key):
    path, data = tmp_path / "j.db", table()
    found = []
    for rows in (300, 700, 1200):
        with Journal(path, encryption=key) as journal:
            stream = journal.open_monitor("site", make)
            found += feed(stream, data[:rows])
            assert stream.position == rows
            stream.unload()
            assert texts(stream.releases()) == texts(found)
            assert texts(stream.releases(2, 4)) == texts(found[2:4])
            assert stream.round == len(found) <= stream.horizon == 60
    assert texts(found) == expected
    if key is not None:
        assert b"Europe/Berlin" not in path.read_bytes()


class BrokenStore:
    """A store whose n-th commit fails, before or after it is durable."""

    def __init__(self, path, fails, after):
        self._store, self.left, self._after = SqliteStore(path), fails, after

    def __getattr__(self, name):
        return getattr(self._store, name)

    def commit(self, *given):
        self.left -= 1
        if self.left == 0 and not self._after:
            raise OSError("the disk is gone")
        done = self._store.commit(*given)
        if self.left == 0:
            raise OSError("the disk is gone")
        return done


@pytest.mark.parametrize("after", [False, True])
def test_nothing_is_seen_before_it_is_durable(tmp_path, expected, after):
    data = table()
    for fails in (3, 5, 8):
        path, seen = tmp_path / f"{fails}.db", []
        with Journal(BrokenStore(path, fails, after), key=bytes(32)) as journal:
            stream = journal.open_monitor("site", make)
            with pytest.raises(OSError, match="the disk is gone"):
                feed(stream, data, seen=seen)
        with Journal(path, key=bytes(32)) as journal:
            stream = journal.open_monitor("site", make)
            kept = texts(stream.releases())
            assert kept[: len(seen)] == texts(seen)
            assert (len(kept) > len(seen)) == after
            assert kept + texts(feed(stream, data)) == expected


CHILD = """
import sys
from dpoco.journal import Journal
from tests.journal.test_monitors import make_plain, table
with Journal(sys.argv[1]) as journal:
    stream = journal.open_monitor("site", make_plain, check=False)
    print("ready", flush=True)
    data, at = table(), stream.position or 0
    while at < len(data):
        ended = stream.add_many(data[at : at + 40], position=at + 40, time="at")
        at += 40
        for release in ended:
            print(release.to_json(), flush=True)
"""


def killed_runs(path, kills):
    """What children printed that were killed after so many lines, and a last one that was not."""
    printed = []
    for lines in [*kills, None]:
        run = [sys.executable, "-c", CHILD, str(path)]
        child = subprocess.Popen(run, stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        while lines is None or lines > 0:
            text = child.stdout.readline()
            if not text:
                break
            printed.append(text.strip())
            lines = None if lines is None else lines - 1
        if lines is not None:
            os.kill(child.pid, signal.SIGKILL)
        printed += child.stdout.read().splitlines()
        child.stdout.close()
        assert child.wait() == (0 if lines is None else -signal.SIGKILL)
    return printed


@pytest.mark.parametrize("kills", [(0, 1, 3)])
def test_killed_processes_lose_and_double_nothing(tmp_path, kills):
    """Over a second: four processes, three of which are killed."""
    expected, path = texts(make_plain().add_many(table(), time="at")), tmp_path / "j.db"
    printed = killed_runs(path, kills)
    # A release may be durable and not yet printed; none is printed with other noise.
    assert set(printed) <= set(expected)
    assert len(set(printed)) == len(printed)
    with Journal(path) as journal:
        assert texts(journal.open_monitor("site").releases()) == expected


def test_calls_of_all_kinds(tmp_path):
    def plain():
        return make(every=None, start=None, participation=None, records_per_interval=1)

    other = plain()
    with Journal(tmp_path / "j.db") as journal:
        stream = journal.open_monitor("site", plain)
        for monitor in (other, stream):
            monitor.add({"x": 0.5, "country": "DE"})
            part = stream.partition()
            part.add_many({"x": [0.1, 0.9], "country": ["FR", "DE"]})
            monitor.merge(part.tally(0))
        stream.release(position={"topic": [3, 4]})
        other.release()
        assert stream.position == {"topic": [3, 4]}
        assert texts(stream.releases()) == texts([stream.releases()[0]])
        assert stream.releases()[0].vectors["total"].tolist() == other._past[-1].tolist()
        with pytest.raises(TypeError, match="needs intervals by the clock"):
            stream.advance("2026-01-01")
        with pytest.raises(RoundOrderError):
            stream.releases(0, 2)
        assert stream.releases(3, 3) == []
        assert stream.kept_from == 0
        assert "MonitorStream 'site'" in repr(stream)
        assert stream.guarantee == plain().guarantee
        assert stream.name == "site"


def test_empty_intervals_are_released_by_the_clock(tmp_path):
    with Journal(tmp_path / "j.db") as journal:
        stream = journal.open_monitor("site", make)
        ended = stream.advance(START + pd.Timedelta(hours=5))
        assert [r.interval for r in ended] == list(range(5))
        assert texts(stream.releases()) == texts(ended)
        with pytest.raises(HorizonExceeded):
            stream.advance(START + pd.Timedelta(hours=500))
        assert stream.round == 5


def test_bad_records_change_nothing(tmp_path, expected):
    data = table()
    with Journal(tmp_path / "j.db") as journal:
        stream = journal.open_monitor("site", make)
        found = feed(stream, data[:500])
        for bad in (data[500:].drop(columns="x"), data[500:].assign(x="much")):
            with pytest.raises((ValueError, TypeError)):
                stream.add_many(bad, position=3, **CALL)
        assert stream.position == 500
        assert texts(found + feed(stream, data)) == expected


def test_streams_of_monitors_and_of_others(tmp_path):
    def hedge():
        return dpoco.experts.PrefixHedge(3, horizon=10, budget=None)

    with Journal(tmp_path / "j.db") as journal:
        journal.open_monitor("site", make())
        journal.open("prices", hedge)
        with pytest.raises(TypeError, match="not of a monitor"):
            journal.open_monitor("prices")
        with pytest.raises(TypeError, match="must return a Monitor"):
            journal.open_monitor("more", hedge)
        assert journal.streams() == ["site", "prices"]
        with pytest.raises(TypeError, match="open_monitor"):
            journal.open("site").process([[1.0]])
        with pytest.raises(TypeError):
            journal.open("site").decide()
        with pytest.raises(StateError, match="other arguments"):
            journal.open_monitor("site", lambda: make(weights={"n": 2.0}))
        with journal.transaction(), pytest.raises(RoundOrderError):
            journal.open_monitor("site").advance(START)


def test_one_writer_and_one_ledger(tmp_path):
    path = tmp_path / "j.db"
    terms = {"relation": "zero_out", "unit": "one person"}
    first = Journal(path, ledger=Ledger(Budget(1.2, 1e-5), **terms))
    stream = first.open_monitor("site", make)
    stream.add_many(table()[:400], position=400, **CALL)
    assert 0.5 < first.spent < 0.6
    with pytest.raises(BudgetExceeded):
        first.open_monitor("again", make)
    with pytest.raises(BudgetExceeded):
        stream.fork("other")
    with Journal(path) as second:
        with pytest.raises(JournalFenced):
            stream.add_many(table()[400:], position=1200, **CALL)
        assert second.open_monitor("site").position == 400
    first.close()


def test_a_fork_has_its_own_noise(tmp_path):
    terms = {"relation": "zero_out", "unit": "one person"}
    with Journal(tmp_path / "j.db", ledger=Ledger(Budget(5.0, 1e-5), **terms)) as journal:
        stream = journal.open_monitor("site", make)
        feed(stream, table()[:300])
        spent = journal.spent
        child = stream.fork("again")
        assert journal.spent == pytest.approx(2.0 * spent)
        ours, theirs = feed(stream, table()), feed(child, table())
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert not np.array_equal(one.vectors["interval"], other.vectors["interval"])


def test_old_releases_can_be_forgotten(tmp_path, expected):
    with Journal(tmp_path / "j.db") as journal:
        stream = journal.open_monitor("site", make)
        feed(stream, table())
        kept = journal.forget("site", 9)
        assert stream.kept_from == kept > 0
        journal.compact("site")
        assert texts(stream.releases(kept)) == expected[kept:]
        with pytest.raises(StateError, match="not kept"):
            stream.releases(0, 3)


def test_a_started_monitor_is_adopted(tmp_path, expected):
    monitor, data = make(), table()
    seen = monitor.add_many(data[:500], **CALL)
    monitor.position = 500
    with Journal(tmp_path / "j.db") as journal:
        journal.adopt("site", monitor)
        stream = journal.open_monitor("site")
        with pytest.raises(StateError, match="suspended"):
            monitor.advance(START)
        assert texts(seen + feed(stream, data)) == expected


def test_the_command_lists_them(tmp_path):
    from typer.testing import CliRunner

    from dpoco.cli._app import app

    path = tmp_path / "j.db"
    with Journal(path) as journal:
        feed(journal.open_monitor("site", make), table())
    done = CliRunner().invoke(app, ["journal", "status", str(path), "--json"])
    assert json.loads(done.output)["streams"][0]["horizon"] == 60
    done = CliRunner().invoke(app, ["journal", "verify", str(path)])
    assert done.exit_code == 6  # the source is seeded
    assert "statistics of 60 intervals: n, x" in done.output


def test_a_position_is_read_under_the_lock(tmp_path):
    """A commit of another thread moves it before it is durable, and takes it back if it fails."""
    with Journal(tmp_path / "a.db") as journal:
        stream = journal.open_monitor("visits", make_plain)

        class Watched:
            @property
            def position(self):
                taken = []
                other = threading.Thread(target=lambda: taken.append(journal._lock.acquire(False)))
                other.start()
                other.join()
                return taken

        stream._stream._learner = Watched()
        assert stream.position == [False]


def test_stored_releases_have_the_times_of_the_calendar(tmp_path):
    with Journal(tmp_path / "a.db") as journal:
        stream = journal.open_monitor("visits", make_plain_days)
        stream.advance(START.normalize() + pd.Timedelta(days=59))
        found = stream.releases()
        assert [each.begin for each in found] == [
            (START.normalize() + pd.DateOffset(days=day)).isoformat() for day in range(59)
        ]


def test_a_monitor_of_another_start_is_another_one(tmp_path):
    with Journal(tmp_path / "a.db") as journal:
        journal.open_monitor("visits", make_plain)
    later = START + pd.Timedelta(hours=1)
    with Journal(tmp_path / "a.db") as journal:
        for start in (later, None):
            with pytest.raises(StateError, match="other arguments"):
                journal.open_monitor(
                    "visits",
                    make(participation=None, records_per_interval=1, views=["interval"],
                         start=start),
                )  # fmt: skip
        assert journal.open_monitor("visits", make_plain).round == 0


def test_a_position_that_the_caller_goes_on_changing_is_stored_as_it_was(tmp_path):
    data, place = table()[:90], {"0": 0}
    with Journal(tmp_path / "j.db") as journal:
        site = journal.open_monitor("site", make_plain)
        place["0"] = 60
        site.add_many(data[:60], time="at", position=place)
        place["0"] = 90  # polled, and not counted yet
        site.advance(START)
        site.position["0"] = 95
        site.advance(START)
        assert site.position == {"0": 60}
    with Journal(tmp_path / "j.db") as journal:  # the machine stopped
        assert journal.open_monitor("site").position == {"0": 60}


def test_a_position_that_is_no_json_is_refused_before_anything_is_counted(tmp_path):
    with Journal(tmp_path / "j.db") as journal:
        site = journal.open_monitor("site", make_plain)
        with pytest.raises(TypeError):
            site.add_many(table()[:60], time="at", position={1, 2})
        site.add_many(table()[:60], time="at", position=(1, 2))
        assert site.position == [1, 2]
