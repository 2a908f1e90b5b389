from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
import time

import pytest

import dpoco
from dpoco.published import tables


def start(*arguments, **settings):
    return subprocess.Popen(
        [sys.executable, "-m", "dpoco", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out.decode(), err.decode()


def test_version(invoke):
    result = invoke("--version")
    assert result.stdout == f"dpoco {dpoco.__version__}\n"


def test_noise_table_is_the_accountings(invoke):
    result = invoke("table", "noise", "--horizons", "1000,10000", "--epsilons", "0.5,1")
    expected = tables.format_markdown(tables.noise_table([1000, 10_000], [0.5, 1.0]))
    assert result.stdout == expected + "\n"
    assert result.stdout.count("\n") == 4


def test_entry_point_is_main():
    entries = importlib.metadata.entry_points(group="console_scripts", name="dpoco")
    if not entries:
        pytest.skip("the package is not installed")
    from dpoco.cli import main

    assert next(iter(entries)).load() is main


def test_a_real_process(table, tmp_path):
    options = ("--label", "alarm", "--range", "0:10", "--out", "o", "--set", "seed=4")
    code, out, err = finish(start("run", "events.csv", *options, cwd=tmp_path))
    assert (code, err) == (0, "")
    assert "NOT PROTECTED: the noise is seeded" in out
    assert (tmp_path / "o" / "report.png").exists()


def test_progress_appears_on_a_terminal_only(table, tmp_path):
    options = ("run", "events.csv", "--label", "alarm", "--range", "0:10", "--set", "figure=false")
    terminal = {**os.environ, "FORCE_COLOR": "1"}
    code, _, err = finish(start(*options, cwd=tmp_path, env=terminal))
    assert code == 0
    assert "rounds/s" in err
    assert "without noise" in err
    for silent in (("--set", "quiet=true"), ("--json",)):
        words = (*options, *silent, "--force")
        assert finish(start(*words, cwd=tmp_path, env=terminal))[2] == ""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interrupt_exits_with_130(table, tmp_path):
    options = ("events.csv", "--label", "alarm", "--range", "0:10")
    options += ("--set", "repeats=1000000")
    process = start("run", *options, cwd=tmp_path, env={**os.environ, "FORCE_COLOR": "1"})
    shown = b""
    while b"rounds/s" not in shown:  # the runs have begun, all imports are over
        shown += os.read(process.stderr.fileno(), 4096) or pytest.fail("it ended")
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert out == ""
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [("typer", "cli", ["--version"]), ("rich", "cli", ["run"]), ("river", "data", ["run"])],
)
def test_missing_packages_name_the_extra(tmp_path, module, extra, arguments):
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from dpoco.cli import main; sys.exit(main({arguments!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert f'pip install "dpoco[{extra}]"' in done.stderr
    assert done.stderr.count("\n") == 1
