"""Every backend gives the same bits; a missing package is named."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

import dpoco
from dpoco.scale import read_sweep, sweep

GRID = {"epsilon": [0.5, 1.0], "horizon": [300, 700]}


def play(cell):
    if cell["epsilon"] == 1.0 and cell.seed == 1:
        raise ValueError("a cell that fails")
    learner = dpoco.experts.PrefixHedge(
        4,
        horizon=cell["horizon"],
        budget=dpoco.Budget(30.0 * cell["epsilon"], 1e-3),
        source=cell.source(),
    )
    losses = cell.generator().random((cell["horizon"], 4))
    return {"loss": learner.run(losses).average_loss, "weights": learner.weights}


def swept(directory, backend, **options):
    path = directory / backend
    found = sweep(play, GRID, seeds=3, output=path, backend=backend, **options)
    assert len(found) == 12
    assert len(found.failed) == 2
    assert found.records == read_sweep(path).records
    return sorted(path.read_bytes().splitlines())


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    return swept(tmp_path_factory.mktemp("serial"), "serial")


@pytest.mark.parametrize("workers", [1, 2, 5, None])
def test_threads(tmp_path, serial, workers):
    assert swept(tmp_path, "threads", workers=workers) == serial


@pytest.fixture
def importable(monkeypatch):
    """Let processes that are started import this module, however pytest itself was started."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))


@pytest.mark.usefixtures("importable")
def test_processes(tmp_path, serial):
    pytest.importorskip("joblib")
    assert swept(tmp_path, "loky", workers=2) == serial


def test_threads_run_side_by_side(tmp_path):
    met = threading.Barrier(3, timeout=60)

    def run(cell):
        return met.wait() >= 0

    found = sweep(run, {"a": [1, 2]}, seeds=3, output=tmp_path / "f", backend="threads", workers=3)
    assert not found.failed


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("backend", ["threads", "loky"])
def test_an_interrupt_stops_the_others(tmp_path, backend):
    if backend == "loky":
        pytest.importorskip("joblib")
    path = tmp_path / "file"

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(play, GRID, seeds=30, output=path, backend=backend, workers=2, progress=stop)
    kept = len(read_sweep(path))
    assert kept == 3
    before = threading.active_count()
    assert len(sweep(play, GRID, seeds=30, output=path, backend=backend, workers=2)) == 120
    assert len(path.read_text().splitlines()) <= 120 + kept
    assert backend == "loky" or threading.active_count() == before


@pytest.mark.parametrize(("backend", "package"), [("loky", "joblib"), ("ray", "ray")])
def test_a_missing_package_is_named(tmp_path, monkeypatch, backend, package):
    monkeypatch.setitem(sys.modules, package, None)
    extra = {"loky": "sweep", "ray": "ray"}[backend]
    with pytest.raises(ImportError, match=rf"dpoco\[{extra}\]"):
        sweep(play, GRID, seeds=1, output=tmp_path / "file", backend=backend)
    assert len(read_sweep(tmp_path / "file")) == 0


def test_importing_costs_nothing():
    import subprocess

    program = (
        "import sys, dpoco; dpoco.scale.sweep; dpoco.scale.StreamRun; "
        "print({'joblib', 'ray', 'pandas', 'typer', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"set()"
