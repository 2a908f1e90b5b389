"""Sweeps on a Ray cluster that is started for the test."""

from __future__ import annotations

import os

import pytest

import dpoco
from dpoco.scale import sweep

ray = pytest.importorskip("ray")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_the_same_bits_as_in_this_process(tmp_path, cluster):
    def play(cell):  # as in a script: not importable by the workers
        if cell.seed == 2:
            raise ValueError("a cell that fails")
        draws = dpoco.noise.gaussian(cell.source(), size=50)
        return {"mean": float(draws.mean()) / cell["epsilon"], "data": cell.generator().random(3)}

    files = {}
    for backend in ("serial", "ray"):
        path = tmp_path / backend
        found = sweep(play, {"epsilon": [0.5, 1.0]}, seeds=3, output=path, backend=backend)
        assert len(found.failed) == 2
        files[backend] = sorted(path.read_bytes().splitlines())
    assert files["ray"] == files["serial"]
    assert ray.is_initialized()  # it was not the sweep's to stop


def test_a_worker_that_dies_fails_its_cell(tmp_path, cluster):
    def die(cell):
        if cell.seed == 1:
            os._exit(3)
        return 1

    found = sweep(die, {"a": [1]}, seeds=3, output=tmp_path / "file", backend="ray", workers=1)
    (dead,) = found.failed
    assert dead["seed"] == 1
    assert "WorkerCrashed" in dead["error"]["type"]
