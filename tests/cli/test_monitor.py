"""``dpoco monitor``: files, output, pages, and that nothing is lost or published twice."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpoco.cli import _growing as growing
from dpoco.cli import _growing as sinks
from dpoco.cli import _monitor as monitoring
from dpoco.cli._app import app
from dpoco.statistics import Monitor

HOURS = 12
TIME = ["--time", "at"]


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(1)
    n = 4000
    table = pd.DataFrame({
        "at": pd.Timestamp("2026-01-01", tz="UTC")
        + pd.to_timedelta(np.sort(rng.uniform(0.0, HOURS, n)), unit="h"),
        "latency": rng.gamma(2.0, 60.0, n),
        "failed": rng.random(n) < 0.1,
        "user": rng.integers(0, 50, n),
        "country": rng.choice(["DE", "a, \"quoted\"\nline"], n),
    })  # fmt: skip
    path = tmp_path / "log.csv"
    table.to_csv(path, index=False)
    return path, table


def run(*words, code=0, **options):
    done = CliRunner().invoke(app, ["monitor", *map(str, words)], **options)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def counts(records):
    return [r["cells"][0]["value"] for r in records]


def truth(table):
    return table.groupby(table["at"].dt.floor("h")).size().to_list()


PLANNED = ["--count", "--mean", "latency=0:1000", "--view", "last 24", "--by", "a=b,c"]


def test_the_plan_is_shown_without_data():
    done = CliRunner().invoke(app, ["plan", "statistics", *PLANNED])
    assert done.exit_code == 0
    assert "useful from" in done.output
    assert "latency mean" in done.output
    assert "epsilon = 1" in done.output
    done = CliRunner().invoke(app, ["plan", "statistics", *PLANNED, "--json"])
    record = json.loads(done.output)
    assert record["schema"] == "dpoco.plan-statistics/1"
    assert [row["statistic"] for row in record["rows"]] == ["count", "latency mean"]
    assert record["guarantee"]["epsilon"] == pytest.approx(1.0)
    done = CliRunner().invoke(app, ["plan", "statistics"])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "name at least one statistic" in done.output


def test_a_terminal_shows_the_latest_release(log, monkeypatch):
    from rich.console import Console

    path, _ = log
    screen = io.StringIO()
    monkeypatch.setattr(
        sinks.shell, "console", lambda: Console(file=screen, force_terminal=True, width=90)
    )
    run(path, *TIME, "--count", "--quantiles", "latency=0.5@0:1000", "--epsilon", 100)
    text = screen.getvalue()
    assert "2026-01-01 10:00" in text or "2026-01-01T10:00" in text
    assert "latency quantiles 0.5" in text
    assert "\x1b[" in text  # the table is drawn over the one before


@pytest.mark.parametrize("kind", ["csv", "parquet", "stdin"])
def test_files_of_all_kinds(log, tmp_path, kind):
    path, table = log
    out, options = tmp_path / "out.jsonl", {}
    source = path
    if kind == "parquet":
        source = tmp_path / "log.parquet"
        table.to_parquet(source)
    if kind == "stdin":
        source, options = "-", {"input": path.read_bytes()}
    run(source, *TIME, "--count", "--mean", "latency=0:1000", "--share", "failed", "--quantiles",
        "latency=0.5", "--epsilon", 100, "--output", out, **options)  # fmt: skip
    found = read(out)
    assert [r["interval"] for r in found] == list(range(HOURS))
    assert np.abs(np.array(counts(found)) - truth(table)).max() < 2.0


def test_output_of_all_kinds(log, tmp_path):
    path, _ = log
    run(path, *TIME, "--count", "--output", tmp_path / "out.csv")
    frame = pd.read_csv(tmp_path / "out.csv")
    assert frame["interval"].to_list() == list(range(HOURS))
    run(path, *TIME, "--count", "--output", tmp_path / "out.prom")
    assert (tmp_path / "out.prom").read_text().endswith("# EOF\n")
    assert run(path, *TIME, "--count").count("interval: count") == HOURS
    run(path, *TIME, "--count", "--page", tmp_path / "out.html")
    assert "<svg" in (tmp_path / "out.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*TIME], "name at least one statistic"),
        ([*TIME, "--mean", "latency"], "--mean must be COLUMN="),
        ([*TIME, "--mean", "latency=5"], "--mean latency must be LOW:HIGH"),
        ([*TIME, "--mean", "latency=9:1"], "LOW < HIGH"),
        ([*TIME, "--mean", "latency=0:inf"], "finite"),
        ([*TIME, "--quantiles", "latency=0.5"], "needs a range"),
        ([*TIME, "--histogram", "latency=1,x"], "must be numbers"),
        ([*TIME, "--count", "--view", "hourly"], "a view is"),
        ([*TIME, "--count", "--person", "user=x"], "whole numbers"),
        ([*TIME, "--count", "--person", "user=1,2,3,4"], "at most three numbers"),
        ([*TIME, "--count", "--output", "out.txt"], "--output must end"),
        ([*TIME, "--count", "--state", "s.dpoco"], "--state needs --output"),
        ([*TIME, "--count", "--resume"], "--resume needs --state"),
        ([*TIME, "--count", "--clock"], "--clock needs --follow"),
        ([*TIME, "--count", "--every", "soon"], "length of time"),
        ([*TIME, "--count", "--every", "400YS"], "longer than"),
        ([*TIME, "--count", "--view", "last 24", "--releases", "12"], "longer than"),
        ([*TIME, "--count", "--by", "nosuch=a"], "no column 'nosuch'"),
        ([*TIME, "--count", "--person", "nosuch=1"], "no column 'nosuch'"),
        ([*TIME, "--histogram", "latency=2,1"], "increasing"),
        ([*TIME, "--share", "nosuch"], "no column 'nosuch'"),
        (["--time", "nosuch", "--count"], "no column 'nosuch'"),
        ([*TIME, "--count", "--releases", "3"], "all 3 intervals"),
    ],
)
def test_bad_input_is_one_line(log, tmp_path, monkeypatch, words, message):
    path, _ = log
    monkeypatch.chdir(tmp_path)
    text = run(path, *words, code=2)
    assert text.startswith("error: ")
    assert message in text
    assert text.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.csv"]


HEAD, ROW = b"at,latency,country\n", b"2026-01-01 00:00:00,1,DE\n"
ODD = {
    "a text among numbers": (HEAD + ROW + b"2026-01-01 00:01:00,secret,DE\n", "odd.csv: column"),
    "a long row": (HEAD + ROW + b"2026-01-01 00:01:00,secret,DE,5\n", "is not a CSV file in UTF-8"),
    "another encoding": (HEAD + ROW + "2026-01-01 00:01:00,1,sécret\n".encode("latin-1"),
                         "is not a CSV file in UTF-8"),
    "UTF-16": ((HEAD + ROW).decode().encode("utf-16"), "is not a CSV file in UTF-8"),
    "two of one name": (b"at,latency,country,latency\n", "several columns of the same name"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), ODD.values(), ids=ODD)
def test_odd_files_are_refused_without_a_word_of_them(tmp_path, data, message):
    path = tmp_path / "odd.csv"
    path.write_bytes(data)
    text = run(path, *TIME, "--mean", "latency=0:9", "--by", "country=DE", code=2)
    assert text.startswith("error: ")
    assert message in text
    assert text.count("\n") == 1
    assert not any(word in text for word in ("secret", "0xe9", "0xff"))


@pytest.mark.parametrize("data", [b"", HEAD, b"\xef\xbb\xbf" + HEAD])
def test_files_without_records_have_no_interval(tmp_path, data):
    path, out = tmp_path / "none.csv", tmp_path / "out.jsonl"
    path.write_bytes(data)
    assert "no interval has begun" in run(path, *TIME, "--count", "--output", out)
    assert not out.exists()


def test_files_that_exist_are_kept(log, tmp_path):
    path, _ = log
    for option, name in [("--output", "out.csv"), ("--page", "out.html")]:
        (tmp_path / name).write_text("mine")
        assert "exists" in run(path, *TIME, "--count", option, tmp_path / name, code=2)
        assert (tmp_path / name).read_text() == "mine"


class Killer:
    """Kills a copy of the process at its steps: around saving, and in the middle of writing.

    The copy is a fork, which keeps the files as they are at that moment, and ends by SIGKILL.
    """

    def __init__(self, patch, home, points):
        self.home, self.points, self.steps, self.killed = home, points, 0, []
        save, append = Monitor.save, sinks.Sink._append

        def saved(monitor, *args, **options):
            self.step()
            save(monitor, *args, **options)
            self.step()

        def appended(sink, lines):
            self.step("".join(lines).encode()[: len(lines[0]) // 2] if lines else b"")
            append(sink, lines)
            self.step()

        patch.setattr(Monitor, "save", saved)
        patch.setattr(sinks.Sink, "_append", appended)

    def step(self, half=b""):
        point, self.steps = self.steps, self.steps + 1
        if point not in self.points:
            return
        place = self.home.with_name(f"killed {point}")
        child = os.fork()
        if child == 0:  # pragma: no cover
            try:
                shutil.copytree(self.home, place)
                if half:
                    with (place / "out.jsonl").open("ab") as out:
                        out.write(half)
                os.kill(os.getpid(), signal.SIGKILL)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        self.killed.append(place)


def check_kills(log, tmp_path, monkeypatch, points, block=2**13):
    """Kill a run at each of these points, continue it, and compare it with the truth."""
    path, table = log
    words = [path, *TIME, "--count", "--epsilon", 100, "--resume"]

    def go_on(place):
        run(*words, "--output", place / "out.jsonl", "--state", place / "state.dpoco")
        found = read(place / "out.jsonl")
        assert [r["interval"] for r in found] == list(range(HOURS - 1))  # one is running
        assert np.abs(np.array(counts(found)) - truth(table)[:-1]).max() < 2.0

    home = tmp_path / "home"
    home.mkdir()
    with monkeypatch.context() as patch:  # small blocks have many points, large ones are fast
        patch.setattr(growing, "_BLOCK", block)
        killer = Killer(patch, home, points)
        go_on(home)
    for place in killer.killed:
        out = place / "out.jsonl"
        before = out.read_bytes().rpartition(b"\n")[0] if out.exists() else b""
        go_on(place)
        assert out.read_bytes().startswith(before)
    return len(killer.killed)


def test_a_run_that_is_killed_loses_and_doubles_nothing(log, tmp_path, monkeypatch):
    points = {0, 1, 2, 3, 4, 5, 7, 9, 11, 19, 28, 40}
    assert check_kills(log, tmp_path, monkeypatch, points) == len(points)


@pytest.mark.slow
def test_a_run_that_is_killed_at_a_hundred_points_loses_and_doubles_nothing(
    log, tmp_path, monkeypatch
):
    """Seconds: a hundred runs that go on after a kill."""
    assert check_kills(log, tmp_path, monkeypatch, range(100), block=6000) == 100


def test_another_file_goes_on(log, tmp_path):
    _, table = log
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    table[:1500].to_csv(first, index=False)
    table[1500:].to_csv(second, index=False)
    kept = ["--output", tmp_path / "out.jsonl", "--state", tmp_path / "s.dpoco"]
    words = [*TIME, "--count", "--epsilon", 100, "--page", tmp_path / "out.html", *kept]
    run(first, *words)
    for option in ("s.dpoco", "out.html", "out.jsonl"):
        text = run(first, *words, code=2)
        assert "exists" in text
        assert text.count("\n") == 1
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / option).rename(tmp_path / "other" / option)
    for option in ("s.dpoco", "out.html", "out.jsonl"):
        (tmp_path / "other" / option).rename(tmp_path / option)
    words, kept = [*words, "--resume"], [*kept, "--resume"]
    run(first, second, *words)
    run(second, *words)
    found = read(tmp_path / "out.jsonl")
    assert np.abs(np.array(counts(found)) - truth(table)[:-1]).max() < 2.0
    assert (tmp_path / "out.html").read_text().count("<tr>") == HOURS  # and a heading
    text = run(second, *TIME, "--share", "failed", *kept, code=2)
    assert "other options" in text


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_that_vanish_in_a_later_file_are_seen_before_anything_is_counted(
    log, tmp_path, kind
):
    path, table = log
    for column in ("at", "latency", "country", "user"):
        lacking = tmp_path / f"later.{kind}"
        short = table.drop(columns=column)
        short.to_csv(lacking, index=False) if kind == "csv" else short.to_parquet(lacking)
        text = run(
            path, lacking, *TIME, "--mean", "latency=0:1000", "--by", "country=DE", "--person",
            "user=3", "--output", tmp_path / "out.jsonl", "--state", tmp_path / "s.dpoco", code=2,
        )  # fmt: skip
        assert text == f"error: {lacking} has no column {column!r}\n"
        assert not (tmp_path / "out.jsonl").exists()
        assert not (tmp_path / "s.dpoco").exists()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_that_became_shorter_are_refused(log, tmp_path, kind):
    _, table = log
    path = tmp_path / f"short.{kind}"
    kept = ["--output", tmp_path / "out.jsonl", "--state", tmp_path / "s.dpoco", "--resume"]
    for rows, code in ((400, 0), (200, 2)):
        short = table[:rows]
        short.to_csv(path, index=False) if kind == "csv" else short.to_parquet(path)
        text = run(path, *TIME, "--count", *kept, code=code)
    assert "already read" in text


def test_an_output_that_became_shorter_is_refused(log, tmp_path, monkeypatch):
    path, _ = log
    monkeypatch.setattr(growing, "_BLOCK", 2**14)
    kept = ["--output", tmp_path / "out.jsonl", "--state", tmp_path / "s.dpoco", "--resume"]
    run(path, *TIME, "--count", *kept)
    with (tmp_path / "out.jsonl").open("r+b") as out:
        out.truncate(3)
    assert "shorter than what was written" in run(path, *TIME, "--count", *kept, code=2)


def test_names_are_texts_whatever_they_look_like(tmp_path, monkeypatch):
    # Whole numbers first, then words and holes: no type may change between parts.
    monkeypatch.setattr(growing, "_BLOCK", 2**10)
    users = [str(i) for i in range(100)] * 3 + ["anna"] * 20 + [""] * 20
    table = pd.DataFrame({
        "at": pd.date_range("2026-01-01", periods=340, freq="s"), "user": users,
        "code": ["7"] * 100 + ["8"] * 100 + ["7"] * 100 + ["x", ""] * 20,
    })  # fmt: skip
    table.to_csv(tmp_path / "log.csv", index=False)
    table["code"] = [int(code) if code.isdigit() else None for code in table["code"]]
    table.astype({"code": "Int64"}).to_parquet(tmp_path / "log.parquet")
    for kind in ("csv", "parquet"):
        out = tmp_path / f"{kind}.jsonl"
        run(tmp_path / f"log.{kind}", *TIME, "--count", "--categories", "code=7,8", "--person",
            "user=1,1,2", "--epsilon", 10**6, "--output", out)  # fmt: skip
        (release,) = read(out)
        found = {c["label"]: c["value"] for c in release["cells"]}
        # Two records each of a hundred people, anna, and of all that have no name.
        others = 2 if kind == "csv" else 0
        expected = {"": 204, "7": 100, "8": 100, "other": others}
        assert found == pytest.approx(expected, abs=4.0)


def test_a_growing_file_is_followed(log, tmp_path):
    """Waits for a process that looks at its file every second."""
    path, table = log
    growing, out = tmp_path / "growing.csv", tmp_path / "out.jsonl"
    whole = path.read_bytes()
    half = whole.index(b"2026-01-01 06:")
    growing.write_bytes(whole[: half + 5])  # in the middle of a line
    run_it = [sys.executable, "-m", "dpoco", "monitor", str(growing), *TIME, "--count",
              "--epsilon", "100", "--output", str(out), "--follow"]  # fmt: skip
    process = subprocess.Popen(run_it, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stop = threading.Timer(120.0, process.kill)
    stop.start()
    try:
        while not out.exists() and process.poll() is None:
            time.sleep(0.05)
        growing.write_bytes(whole)
        while len(out.read_bytes().splitlines()) < HOURS - 1 and process.poll() is None:
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
        stop.cancel()
    found = read(out)
    assert np.abs(np.array(counts(found)) - truth(table)[:-1]).max() < 2.0


class Clock:
    """Time that passes only while a followed file is looked at; then it is stopped."""

    def __init__(self, monkeypatch, begin, path, looks):
        self.now, self.looks, self.path = pd.Timestamp(begin, tz="UTC"), list(looks), path
        zone = pd.Timestamp  # whose `now` the command asks for
        monkeypatch.setattr(growing.clocks, "sleep", self.sleep)
        monkeypatch.setattr(monitoring, "import_package", lambda *_: self)
        self.Timestamp = type("Timestamp", (), {"now": lambda tz: zone(self.now).tz_convert(tz)})

    def sleep(self, seconds):
        if not self.looks:
            raise KeyboardInterrupt
        hours, lines = self.looks.pop(0)
        self.now += pd.Timedelta(hours=hours)
        with self.path.open("a") as out:
            out.write(lines)


def test_intervals_end_by_the_clock_while_no_record_comes(tmp_path, monkeypatch):
    path, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    first = "2026-01-01 00:10:00+00:00\n"
    quiet = [(0.5, ""), (1.0, ""), (5.0, ""), (0.25, "")]
    late = [(0.0, "2026-01-01 02:00:00+00:00\n" * 7), (1.0, "2026-01-01 07:30:00+00:00\n")]
    words = [*TIME, "--count", "--epsilon", 1000, "--follow", "--output", out]

    def follow(looks, *more, begin="2026-01-01T00:20"):
        path.write_text("at\n" + 5 * first)
        Clock(monkeypatch, begin, path, looks)
        run(path, *words, *more, code=130)
        return read(out) if out.exists() else []

    assert follow(quiet) == []  # without --clock the night is silent
    found = follow([*quiet, *late, (0.0, "")], "--clock")
    assert [r["interval"] for r in found] == list(range(8))
    assert [r["begin"][11:13] for r in found] == [f"{h:02d}" for h in range(8)]
    # Seven records come late, and count in the hour in which they arrive.
    assert counts(found) == pytest.approx([5, 0, 0, 0, 0, 0, 0, 7], abs=1.0)
    # No interval ends before the first record, whose time is public, has begun the first.
    path.write_text("at\n")
    Clock(monkeypatch, "2026-01-01T05:00", path, quiet)
    out.unlink()
    run(path, *words, "--clock", code=130)
    assert not out.exists() or out.read_text() == ""


def test_a_run_by_the_clock_that_is_resumed_releases_what_it_missed(tmp_path, monkeypatch):
    path, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    kept = ["--follow", "--clock", "--state", tmp_path / "s.dpoco", "--output", out, "--resume"]
    path.write_text("at\n" + "2026-01-01 00:10:00+00:00\n" * 5)
    for begin in ("2026-01-01T01:20", "2026-01-01T09:20"):  # it slept for eight hours
        Clock(monkeypatch, begin, path, [(0.0, ""), (0.0, "")])
        run(path, *TIME, "--count", "--epsilon", 1000, *kept, code=130)
    found = read(out)
    assert [r["interval"] for r in found] == list(range(9))
    assert counts(found) == pytest.approx([5] + [0] * 8, abs=1.0)


def test_lines_end_where_quotes_are_closed():
    text = b'a,"b\nc"\nd,"e\n'
    assert growing._complete(text) == len(b'a,"b\nc"\n')
    assert growing._complete(b'"a\nb') == 0
    assert pd.read_csv(io.BytesIO(b"x,y\n" + text[: growing._complete(text)])).shape == (1, 2)


def test_values_are_listed_as_in_other_commands():
    from dpoco.cli._monitor import Statistics

    asked = Statistics(
        categories=['code="a, b", c'], by=["country=DE, FR"], count=False, sum=None, mean=None,
        share=None, histogram=None, quantiles=None, every="1h", view=None, releases=24,
        epsilon=1.0, delta=1e-6, person="",
    )  # fmt: skip
    ((_, categories),) = asked.monitor().statistics
    assert categories.values == ("a, b", "c")
    assert asked.monitor().get_params()["by"] == {"country": ("DE", "FR")}


def minutes(begin, count, cells=""):
    """Return lines of a log, a record a minute."""
    times = pd.date_range(f"2026-01-01 {begin}", periods=count, freq="min")
    return "".join(f"{time.isoformat()}{cells}\n" for time in times)


def test_a_file_counts_once_whatever_it_is_called(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "log.csv").write_text("at\n" + minutes("00:00", 40))
    (home / "today.csv").symlink_to(home / "logs" / "log.csv")
    monkeypatch.chdir(home)
    names = ["logs/log.csv", "./logs/../logs/log.csv", home / "logs" / "log.csv", "today.csv"]
    kept = ["--output", "out.jsonl", "--state", "s.dpoco", "--resume"]
    words = [*TIME, "--count", "--epsilon", 100]
    run(*names, *words, *kept)
    for name in names:
        run(name, *words, *kept)
    monkeypatch.chdir(home / "logs")  # another folder, where the same file has another name
    run("log.csv", *words, "--output", "../out.jsonl", "--state", "../s.dpoco", "--resume")
    monkeypatch.chdir(tmp_path)
    home.rename(tmp_path / "moved")  # with its state
    monkeypatch.chdir(tmp_path / "moved")
    with (tmp_path / "moved" / "logs" / "log.csv").open("a") as out:
        out.write(minutes("01:00", 1))
    run("logs/log.csv", *words, *kept)
    assert counts(read(tmp_path / "moved" / "out.jsonl")) == pytest.approx([40], abs=2.0)


def test_an_output_without_its_state_is_not_continued(log, tmp_path):
    path, _ = log
    out, state = tmp_path / "out.jsonl", tmp_path / "s.dpoco"
    words = [path, *TIME, "--count", "--output", out, "--state", state, "--resume"]
    run(*words)
    before = out.read_bytes()
    state.unlink()  # the records would be released once more, with other noise
    assert "exists, but not its state" in run(*words, code=2)
    assert out.read_bytes() == before


def test_a_line_that_is_being_written_waits_for_the_next_run(tmp_path):
    path, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    whole = "at,x\n" + minutes("00:00", 8, ",55") + minutes("01:00", 2, ",55")
    words = [path, *TIME, "--histogram", "x=10,90", "--epsilon", 100, "--output", out]
    kept = ["--state", tmp_path / "s.dpoco", "--resume"]
    for end in range(10, len(whole) + 1, 5):
        path.write_text(whole[:end])
        text = run(*words, *kept)
        assert ("waits for the next run" in text) == (whole[end - 1] != "\n")
    path.write_text(whole)
    run(*words, *kept)
    (release,) = read(out)
    assert [c["value"] for c in release["cells"]] == pytest.approx([0, 8, 0], abs=2.0)
    # Without a state no later run gets the rest: the last line counts.
    path.write_text(whole[:-1])
    out.unlink()
    run(*words)
    found = [r["cells"][1]["value"] for r in read(out)]
    assert found == pytest.approx([8, 2], abs=1.9)


def test_a_file_that_was_replaced_is_refused(tmp_path):
    path = tmp_path / "log.csv"
    kept = ["--output", tmp_path / "out.jsonl", "--state", tmp_path / "s.dpoco", "--resume"]
    path.write_text("at,x\n" + minutes("00:00", 3, ",1"))
    run(path, *TIME, "--count", *kept)
    path.write_text("at,x\n" + minutes("00:00", 9, ",123"))
    assert "was replaced" in run(path, *TIME, "--count", *kept, code=2)


def test_names_that_stand_for_nothing_elsewhere_are_names(tmp_path):
    countries = ["NA"] * 30 + ["None"] * 20 + ["null"] * 10 + [""] * 5
    table = pd.DataFrame({
        "at": pd.date_range("2026-01-01", periods=65, freq="s"), "country": countries,
        "x": ["NA", "1"] * 32 + [""],
    })  # fmt: skip
    table.to_csv(tmp_path / "log.csv", index=False)
    table["x"] = pd.to_numeric(table["x"], errors="coerce")
    table["country"] = table["country"].replace("", None)
    table.to_parquet(tmp_path / "log.parquet")
    for kind in ("csv", "parquet"):
        out = tmp_path / f"{kind}.jsonl"
        run(tmp_path / f"log.{kind}", *TIME, "--categories", "country=NA,None,null", "--sum",
            "x=0:1", "--epsilon", 10**6, "--output", out)  # fmt: skip
        (release,) = read(out)
        found = {c["label"] or "x": c["value"] for c in release["cells"]}
        expected = {"NA": 30, "None": 20, "null": 10, "other": 0, "x": 32}
        assert found == pytest.approx(expected, abs=2.0)


def test_rows_with_more_cells_than_names_move_no_column(tmp_path):
    path, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    words = [path, *TIME, "--sum", "x=0:9", "--sum", "y=0:9", "--epsilon", 10**6]
    # Some programs end rows, but not the header, in a comma.
    path.write_text("x,y,at\n" + "1,2,2026-01-01 00:00,\n" * 100)
    run(*words, "--output", out)
    (release,) = read(out)
    assert [c["value"] for c in release["cells"]] == pytest.approx([100, 200], abs=15.0)
    for rows in ("1,2,2026-01-01,3\n" * 4, "1,2,2026-01-01,3\n1,2,2026-01-01\n"):
        path.write_text("x,y,at\n" + rows)
        assert "is not a CSV file" in run(*words, code=2)


@pytest.mark.parametrize("data", [b"\x1f\x8b\x08" + bytes(40), b"at,x\r2026-01-01,5\r"])
def test_a_file_of_one_line_does_not_pass_for_one_without_records(tmp_path, data):
    path = tmp_path / "log.csv"
    path.write_bytes(data)
    text = run(path, *TIME, "--count", code=2)
    assert text.startswith("error: ")
    assert "2026" not in text


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_two_ways_to_write_a_number_are_one_person(tmp_path, kind):
    out, path = tmp_path / "out.jsonl", tmp_path / f"log.{kind}"
    users = ["7", "7.0", " 7", "7."] * 50 + ["007"] * 50
    table = pd.DataFrame({"at": pd.date_range("2026-01-01", periods=250, freq="s"), "user": users})
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    run(path, *TIME, "--count", "--person", "user=1,1,50", "--epsilon", 10**6, "--releases", 9,
        "--output", out)  # fmt: skip
    assert counts(read(out)) == pytest.approx([100], abs=45.0)


@pytest.mark.parametrize("block", [600, 2**22])
def test_the_last_interval_is_released_although_records_come_behind_it(
    tmp_path, monkeypatch, block
):
    path, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    path.write_text("at\n" + minutes("00:00", 20))
    words = [path, *TIME, "--count", "--epsilon", 100, "--releases", 3, "--output", out]
    words += ["--state", tmp_path / "s.dpoco", "--resume"]
    run(*words)
    monkeypatch.setattr(growing, "_BLOCK", block)
    with path.open("a") as log:
        log.write(minutes("00:30", 30) + minutes("02:00", 40) + minutes("03:00", 10))
    for _ in range(2):  # nothing is released twice
        text = run(*words, code=2)
        assert text.startswith("error: all 3 intervals are used up")
        assert counts(read(out)) == pytest.approx([50, 0, 40], abs=2.0)
        with path.open("a") as log:
            log.write(minutes("05:00", 2))


def test_the_last_interval_ends_although_the_clock_has_passed_it(tmp_path, monkeypatch):
    path, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    path.write_text("at\n" + "2026-01-01 00:10:00+00:00\n" * 30)
    Clock(monkeypatch, "2026-01-01 00:20", path, [(1, ""), (1, ""), (9, "")])
    text = run(path, *TIME, "--count", "--epsilon", 100, "--releases", 3, "--output", out,
               "--follow", "--clock", code=2)  # fmt: skip
    assert text.startswith("error: all 3 intervals are used up")
    assert counts(read(out)) == pytest.approx([30, 0, 0], abs=2.0)


def test_a_time_far_ahead_does_not_end_all_intervals_that_are_left(tmp_path):
    path, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    words = [path, *TIME, "--count", "--epsilon", 100, "--releases", 9, "--output", out]
    words += ["--state", tmp_path / "s.dpoco", "--resume"]
    rows = "at\n" + minutes("00:00", 70)
    path.write_text(rows)
    run(*words)
    before = out.read_bytes()
    path.write_text(rows + "2099-01-01T00:00:00\n")
    assert "all 9 intervals are used up" in run(*words, code=2)
    assert out.read_bytes() == before
    path.write_text(rows + minutes("01:20", 50))  # the row was taken out
    run(*words)
    assert counts(read(out)) == pytest.approx([60, 50], abs=2.0)


def test_places_that_are_not_there_are_noticed_before_anything_is_released(log, tmp_path):
    path, _ = log
    for option in ("--output", "--page"):
        text = run(path, *TIME, "--count", option, tmp_path / "no" / "out.jsonl", code=2)
        assert text.startswith("error: no such directory")
        assert text.count("\n") == 1


def test_a_log_without_records_can_be_resumed(tmp_path):
    path, page = tmp_path / "log.csv", tmp_path / "out.html"
    words = [path, *TIME, "--count", "--page", page, "--output", tmp_path / "out.jsonl"]
    words += ["--state", tmp_path / "s.dpoco", "--resume"]
    path.write_text("at\n")
    for rows in (0, 20, 70):
        path.write_text("at\n" + minutes("00:00", rows))
        run(*words)
        assert page.exists()
    assert len(read(tmp_path / "out.jsonl")) == 1


def test_damaged_parquet_files_and_columns_of_lists_are_one_line(tmp_path):
    path = tmp_path / "log.parquet"
    table = pd.DataFrame({"at": pd.date_range("2026-01-01", periods=4), "v": [["secret"]] * 4})
    for option in ("--categories", "--by", "--person"):
        table.to_parquet(path)
        text = run(path, *TIME, "--count", option, "v=1", code=2)
        assert "log.parquet, column 'v', is not a column of names" in text
        assert text.count("\n") == 1
        assert "secret" not in text
    whole = path.read_bytes()
    for data in (b"PAR1 secret", whole[:-12] + b"secret" + whole[-12:]):
        path.write_bytes(data)
        text = run(path, *TIME, "--count", code=2)
        assert "log.parquet is not a Parquet file" in text
        assert text.count("\n") == 1
    assert "No such file" in run(tmp_path / "none.parquet", *TIME, "--count", code=2)


def test_two_runs_never_go_on_from_one_state(log, tmp_path, monkeypatch):
    """Both would draw the same noise, and with late lines for different records."""
    path, table = log
    out, state = tmp_path / "out.jsonl", tmp_path / "s.dpoco"
    words = [path, *TIME, "--count", "--epsilon", 100, "--output", out, "--state", state]
    keep, said = monitoring._keep, []

    def meanwhile(*arguments):
        said.append(run(*words, "--resume", code=2))
        keep(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(growing, "_BLOCK", 2**16)
        patch.setattr(monitoring, "_keep", meanwhile)
        run(*words)
    assert said
    assert all("s.dpoco is in use by another process" in text for text in said)
    run(*words, "--resume")
    assert np.abs(np.array(counts(read(out))) - truth(table)[:-1]).max() < 2.0
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.parametrize("rows", [20, 200])
def test_a_file_that_is_not_the_output_of_the_state_is_left_as_it_is(tmp_path, rows):
    # With 20 rows no interval is over, and the state knows of no output yet.
    path, out, state = tmp_path / "log.csv", tmp_path / "out.csv", tmp_path / "s.dpoco"
    path.write_text("at\n" + minutes("00:00", rows))
    words = [path, *TIME, "--count", "--state", state]
    run(*words, "--output", out)
    other = tmp_path / "other.csv"
    other.write_text("mine\n" * 1000)
    for name in (other, path):  # the log itself, say
        before = name.read_bytes()
        if len(before) > 1000 or rows == 20:
            assert "is not what the last run wrote" in run(
                *words, "--resume", "--output", name, code=2
            )
        assert name.read_bytes() == before
    run(*words, "--resume", "--output", out)


@pytest.mark.parametrize("stray", ['5" pipe', 'a "b" c', 'x""', '"5"" pipe"', '"a"b"'])
def test_a_quote_within_a_cell_holds_up_no_other_record(tmp_path, stray):
    path, out = tmp_path / "log.csv", tmp_path / "out.jsonl"
    first = f"2026-01-01T00:00:00,{stray}\n"
    path.write_text("at,text\n" + first + minutes("00:01", 50, ",a") + minutes("01:00", 1, ",a"))
    run(path, *TIME, "--count", "--epsilon", 100, "--output", out, "--state", tmp_path / "s.dpoco")
    assert counts(read(out)) == pytest.approx([51], abs=2.0)


def test_lines_end_where_the_parser_ends_them():
    rng = np.random.default_rng(5)
    for _ in range(3000):
        text = "".join(rng.choice(list('a",\n'), rng.integers(1, 30)))
        end = growing._complete(text.encode())
        assert text[:end] == "" or text[end - 1] == "\n"
        for at in [k + 1 for k, letter in enumerate(text) if letter == "\n"]:
            # A line is complete if what follows it does not change its rows.
            rows = list(csv.reader(io.StringIO(text[:at], newline=""), strict=False))
            more = list(csv.reader(io.StringIO(text[:at] + "z\n", newline=""), strict=False))
            complete = more == [*rows, ["z"]]
            assert not complete or at <= end
        if end:
            head = list(csv.reader(io.StringIO(text[:end], newline="")))
            more = list(csv.reader(io.StringIO(text[:end] + "z\n", newline="")))
            assert more == [*head, ["z"]]


def test_a_quote_that_is_never_closed_is_an_error_and_takes_no_hours(tmp_path, monkeypatch):
    monkeypatch.setattr(growing, "_BLOCK", 2**14)
    path = tmp_path / "log.csv"
    path.write_text("at,text\n" + minutes("00:00", 9, ",a") + minutes("00:09", 1, ',"secret')
                    + minutes("00:10", 3000, ",b"))  # fmt: skip
    text = run(path, *TIME, "--count", code=2)
    assert "is a quote not closed?" in text
    assert "secret" not in text
    lines = '"' + "a\n" * 2**20
    started = time.perf_counter()
    assert growing._complete(lines.encode()) == 0
    assert time.perf_counter() - started < 5.0  # line by line it would take an hour
