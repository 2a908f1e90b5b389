"""``dpoco monitor``: files, output, pages, and that nothing is lost or published twice."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpoco.cli import _monitor as command
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


def test_without_files_it_prints_the_plan():
    text = run("--count", "--mean", "latency=0:1000", "--view", "last 24", "--by", "a=b,c")
    assert "useful from" in text
    assert "latency mean" in text


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
        (["--count"], "--time COLUMN is needed"),
        ([*TIME], "no statistic is asked for"),
        ([*TIME, "--mean", "latency"], "expected COLUMN="),
        ([*TIME, "--mean", "latency=5"], "expected LOW:HIGH"),
        ([*TIME, "--mean", "latency=9:1"], "low must be below high"),
        ([*TIME, "--mean", "latency=0:inf"], "finite"),
        ([*TIME, "--quantiles", "latency=0.5"], "needs a range"),
        ([*TIME, "--histogram", "latency=1,x"], "expected numbers"),
        ([*TIME, "--count", "--view", "hourly"], "a view is"),
        ([*TIME, "--count", "--person", "user=x"], "whole numbers"),
        ([*TIME, "--count", "--output", "out.txt"], "--output must end"),
        ([*TIME, "--count", "--state", "s.dpoco"], "--state needs --output"),
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


def test_files_that_exist_are_kept(log, tmp_path):
    path, _ = log
    for option, name in [("--output", "out.csv"), ("--page", "out.html")]:
        (tmp_path / name).write_text("mine")
        assert "exists" in run(path, *TIME, "--count", option, tmp_path / name, code=2)
        assert (tmp_path / name).read_text() == "mine"


class CrashError(Exception):
    """As if the process had been killed."""


class Killer:
    """Ends a run at its n-th step: around saving, and in the middle of writing."""

    def __init__(self, monkeypatch, steps):
        self.left = steps
        save, append = Monitor.save, command._Sink._append

        def saved(monitor, *args, **options):
            self.step()
            save(monitor, *args, **options)
            self.step()

        def appended(sink, lines):
            if self.left == 0 and lines:
                with sink._output.open("ab") as out:
                    out.write("".join(lines).encode()[: len(lines[0]) // 2])
            self.step()
            append(sink, lines)

        monkeypatch.setattr(Monitor, "save", saved)
        monkeypatch.setattr(command._Sink, "_append", appended)

    def step(self):
        if self.left == 0:
            raise CrashError
        self.left -= 1


def test_a_run_that_is_killed_anywhere_loses_and_doubles_nothing(log, tmp_path, monkeypatch):
    """Over a second of CPU: a run from every one of 100 places where it can end."""
    path, table = log
    monkeypatch.setattr(command, "_BLOCK", 2**14)
    words = [path, *TIME, "--count", "--epsilon", 100]
    places = 0
    for steps in range(100):
        out, state = tmp_path / f"{steps}.jsonl", tmp_path / f"{steps}.dpoco"
        kept = ["--output", out, "--state", state]
        with pytest.MonkeyPatch.context() as patch:
            Killer(patch, steps)
            done = CliRunner().invoke(app, ["monitor", *map(str, [*words, *kept])])
        if not isinstance(done.exception, CrashError):
            break
        places += 1
        before = out.read_bytes().rpartition(b"\n")[0] if out.exists() else b""
        run(*words, *kept)
        assert out.read_bytes().startswith(before)
        found = read(out)
        assert [r["interval"] for r in found] == list(range(HOURS - 1))  # one is running
        assert np.abs(np.array(counts(found)) - truth(table)[:-1]).max() < 2.0
        if state.exists():
            state.unlink()
    assert places > 20


def test_another_file_goes_on(log, tmp_path):
    _, table = log
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    table[:1500].to_csv(first, index=False)
    table[1500:].to_csv(second, index=False)
    kept = ["--output", tmp_path / "out.jsonl", "--state", tmp_path / "s.dpoco"]
    words = [*TIME, "--count", "--epsilon", 100, "--page", tmp_path / "out.html", *kept]
    run(first, *words)
    run(first, second, *words)
    run(second, *words)
    found = read(tmp_path / "out.jsonl")
    assert np.abs(np.array(counts(found)) - truth(table)[:-1]).max() < 2.0
    assert (tmp_path / "out.html").read_text().count("<tr>") == HOURS  # and a heading
    text = run(second, *TIME, "--share", "failed", *kept, code=2)
    assert "other options" in text
    lacking = tmp_path / "3.csv"
    table.drop(columns="at").to_csv(lacking, index=False)
    assert "no column 'at'" in run(lacking, *words, code=2)


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


def test_lines_end_where_quotes_are_closed():
    text = b'a,"b\nc"\nd,"e\n'
    assert command._complete(text) == len(b'a,"b\nc"\n')
    assert command._complete(b'"a\nb') == 0
    assert pd.read_csv(io.BytesIO(b"x,y\n" + text[: command._complete(text)])).shape == (1, 2)
