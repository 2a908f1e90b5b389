"""Sweeps: cells and their randomness, the file, interrupts, results."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import dpoco
from dpoco.scale import Cell, read_sweep, sweep

GRID = {"epsilon": [0.5, 1.0, 2.0], "horizon": [4, 9]}


def play(cell):
    noise = dpoco.noise.gaussian(cell.source(), size=cell["horizon"])
    return {"mean": float(noise.mean()) / cell["epsilon"], "data": cell.generator().random()}


def lines(path):
    return sorted(path.read_bytes().splitlines())


# ---- cells --------------------------------------------------------------------------------------


def test_noise_depends_on_the_cell_alone(tmp_path):
    whole = sweep(play, GRID, seeds=4, output=tmp_path / "whole")
    rows = [{"horizon": 9, "epsilon": 2}, {"horizon": 4, "epsilon": 0.5}]
    part = sweep(play, rows, seeds=[3, 0], output=tmp_path / "part")
    assert len(whole) == 24
    assert len(part) == 4
    found = {(r["values"]["epsilon"], r["values"]["horizon"], r["seed"]): r for r in whole}
    for record in part:
        values = record["values"]
        assert record == found[values["epsilon"], values["horizon"], record["seed"]]


def test_cells_have_noise_of_their_own_and_share_data_by_seed(tmp_path):
    result = sweep(lambda cell: play(Cell({**cell.values, "horizon": 4}, cell.seed)), GRID,
                   seeds=4, output=tmp_path / "file")  # fmt: skip
    assert len({record["result"]["data"] for record in result}) == 4
    cells = [Cell({"a": a, "b": b}, seed, root) for a in (1, 2) for b in (True, "1", None)
             for seed in (0, 1) for root in (0, 1)]  # fmt: skip
    draws = [dpoco.noise.gaussian(cell.source(), size=1)[0] for cell in cells]
    assert len(set(draws)) == len(cells)


def test_the_seed_tree_is_pinned():
    cell = Cell({"epsilon": 1.0, "horizon": 1000}, 7)
    assert cell.key == '{"seed":7,"values":{"epsilon":1,"horizon":1000}}'
    assert cell.key == Cell({"horizon": 1000, "epsilon": 1}, 7).key
    assert cell.source().is_seeded
    words = cell.source().words(2)
    np.testing.assert_array_equal(words, cell.source().words(2))
    assert words.tolist() == [7860327258858518899, 10509006210560788334]
    assert cell.generator().integers(2**62) == 2642375935063756959


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"grid": {"a": [1, 1.0]}}, ValueError),
        ({"grid": {"a": []}}, ValueError),
        ({"grid": []}, ValueError),
        ({"grid": [{"a": 1}, {"b": 1}]}, ValueError),
        ({"grid": {"a": [math.nan]}}, ValueError),
        ({"grid": {"a": [[1]]}}, TypeError),
        ({"grid": {"a": "abc"}}, TypeError),
        ({"grid": {"a": 3}}, TypeError),
        ({"grid": {1: [3]}}, TypeError),
        ({"seeds": 0}, ValueError),
        ({"seeds": []}, ValueError),
        ({"seeds": [1, 1]}, ValueError),
        ({"seeds": [-1]}, ValueError),
        ({"seeds": [True]}, TypeError),
        ({"seeds": 1.5}, TypeError),
        ({"grid": {"a": range(10_000)}, "seeds": 10_000}, ValueError),
        ({"backend": "mpi"}, ValueError),
        ({"workers": 0}, ValueError),
        ({"workers": 2}, ValueError),  # the serial backend has one
        ({"workers": 5000, "backend": "threads"}, ValueError),
        ({"root": -1}, ValueError),
        ({"root": "a"}, TypeError),
        ({"constants": {"a": object()}}, TypeError),
        ({"run": 3}, TypeError),
        ({"run": (3, 4)}, TypeError),
        ({"run": (play,)}, TypeError),
    ],
)
def test_bad_arguments(tmp_path, options, error):
    good = {"run": play, "grid": GRID, "seeds": 1, "output": tmp_path / "file"}
    with pytest.raises(error):
        sweep(**{**good, **options})
    assert not (tmp_path / "file").exists()


# ---- errors, interrupts, damage -----------------------------------------------------------------


def test_an_exception_is_recorded_and_done_again(tmp_path):
    broken = [True]

    def run(cell):
        if broken[0] and cell["epsilon"] == 1.0:
            raise RuntimeError(f"no luck with seed {cell.seed}")
        return play(cell)

    path = tmp_path / "file"
    first = sweep(run, GRID, seeds=2, output=path)
    assert [r["values"]["epsilon"] for r in first.failed] == [1] * 4
    assert first.failed[0]["error"] == {
        "type": "builtins.RuntimeError",
        "message": "no luck with seed 0",
    }
    assert len(first.rows()) == 8
    broken[0] = False
    second = sweep(run, GRID, seeds=2, output=path)
    assert not second.failed
    assert len(path.read_text().splitlines()) == 12 + 4
    assert read_sweep(path).records == second.records
    results = [r["result"] for r in sweep(play, GRID, seeds=2, output=tmp_path / "other")]
    assert [r["result"] for r in second] == results


def test_what_is_no_result(tmp_path):
    def run(cell):
        return {"thing": object()} if cell.seed else {1: 2}

    found = sweep(run, {"a": [1]}, seeds=2, output=tmp_path / "file")
    assert [r["error"]["type"] for r in found.failed] == ["builtins.TypeError"] * 2


def test_an_interrupt_leaves_a_valid_file(tmp_path):
    calls = []

    def run(cell):
        calls.append(cell.key)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return play(cell)

    path = tmp_path / "file"
    with pytest.raises(KeyboardInterrupt):
        sweep(run, GRID, seeds=2, output=path)
    assert len(read_sweep(path)) == 5
    shown = []
    found = sweep(run, GRID, seeds=2, output=path, progress=lambda *step: shown.append(step))
    assert len(calls) == 13
    assert len(set(calls)) == 12
    assert shown == [(done, 12) for done in range(5, 13)]
    sweep(run, GRID, seeds=2, output=tmp_path / "other")
    assert lines(path) == lines(tmp_path / "other")
    assert found.records == read_sweep(tmp_path / "other").records


def test_a_finished_sweep_runs_nothing_and_a_larger_grid_the_rest(tmp_path):
    path = tmp_path / "file"
    calls = []

    def run(cell):
        calls.append(cell)
        return 1

    sweep(run, GRID, seeds=2, output=path)
    content = path.read_bytes()
    sweep(run, GRID, seeds=2, output=path)
    assert path.read_bytes() == content
    larger = sweep(run, {**GRID, "epsilon": [2, 4]}, seeds=3, output=path)
    assert len(calls) == 12 + 12 - 4
    assert len(larger) == 12
    assert len(read_sweep(path)) == 12 + 8


def test_a_torn_last_line_is_dropped_wherever_it_is_torn(tmp_path):
    path = tmp_path / "file"
    sweep(play, {"epsilon": [1.0], "horizon": [3]}, seeds=3, output=path)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for kept in range(0, len(last), 7):
        path.write_bytes(whole[: len(whole) - len(last) + kept])
        assert len(read_sweep(path)) == 2
        sweep(play, {"epsilon": [1.0], "horizon": [3]}, seeds=3, output=path)
        assert path.read_bytes() == whole


def test_foreign_and_damaged_files_are_left_alone(tmp_path):
    path = tmp_path / "file"
    sweep(play, GRID, seeds=1, output=path)
    whole = path.read_bytes()
    texts = [
        b"my notes",
        b"my notes\n",
        whole[:50] + b"\n" + whole,
        whole[20:],
        b"{}\n",
        b"3\n",
        whole.replace(b"sweep/1", b"sweep/2"),
        whole.replace(b'"result"', b'"results"'),
    ]
    for text in texts:  # fmt: skip
        path.write_bytes(text)
        with pytest.raises(dpoco.StateError, match="not the record of a sweep"):
            sweep(play, GRID, seeds=1, output=path)
        with pytest.raises(dpoco.StateError, match="not the record of a sweep"):
            read_sweep(path)
        assert path.read_bytes() == text


def other(cell):
    return 1


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"root": 1}, "root"),
        ({"constants": {"dimension": 3}}, "constants"),
        ({"run": other}, "run"),
        ({"grid": {"epsilon": [1.0]}}, "names"),
    ],
)
def test_a_changed_configuration_is_refused(tmp_path, changed, what):
    path = tmp_path / "file"
    asked = {"run": play, "grid": GRID, "root": 0, "constants": {"dimension": 2, "x": math.inf}}

    def start(run, grid, **options):
        return sweep(run, grid, seeds=1, output=path, **options)

    start(**asked)
    content = path.read_bytes()
    start(**asked)
    with pytest.raises(dpoco.StateError, match=f"another sweep: {what} changed"):
        start(**{**asked, **changed})
    assert path.read_bytes() == content


def test_another_version_of_the_library_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    sweep(play, GRID, seeds=1, output=path)
    monkeypatch.setattr(dpoco, "__version__", "99.0")
    with pytest.raises(dpoco.StateError, match="library changed"):
        sweep(play, GRID, seeds=1, output=path)


def test_two_sweeps_in_one_file_are_refused(tmp_path):
    path = tmp_path / "file"

    def run(cell):
        with pytest.raises(dpoco.StateError, match="in use"):
            sweep(play, GRID, seeds=1, output=path)
        return 1

    assert not sweep(run, {"a": [1]}, seeds=1, output=path).failed


PROGRAM = """
import os, sys, dpoco
def run(cell):
    if cell.key == sys.argv[2]:
        os._exit(9)
    return {"x": float(dpoco.noise.gaussian(cell.source(), size=1)[0])}
found = dpoco.scale.sweep(run, {"a": [1, 2, 3]}, seeds=3, output=sys.argv[1])
print(len(found))
"""


def test_a_killed_process_loses_the_cell_it_was_in(tmp_path):
    def started(path, key):
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, str(path), key], capture_output=True, check=False
        )

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    assert started(killed, Cell({"a": 2}, 1).key).returncode == 9
    assert len(read_sweep(killed)) == 4
    assert started(killed, "").stdout.split() == [b"9"]
    assert started(whole, "").returncode == 0
    assert killed.read_bytes() == whole.read_bytes()


# ---- results ------------------------------------------------------------------------------------


def test_records_say_what_they_are(tmp_path):
    path = tmp_path / "file"
    found = sweep(other, {"epsilon": [np.float64(1.0)]}, seeds=1, output=path,
                  constants={"d": np.int64(3)})  # fmt: skip
    assert json.loads(path.read_text()) == {
        "kind": "dpoco.sweep/1",
        "configuration": {
            "constants": {"d": 3},
            "library": dpoco.__version__,
            "names": ["epsilon"],
            "root": 0,
            "run": f"{__name__}.other",
        },
        "values": {"epsilon": 1},
        "seed": 0,
        "noise": "seeded: guarantee void",
        "result": {"value": 1},
    }
    assert list(found) == list(found.records)


def test_results_come_back_as_they_were(tmp_path):
    result = {
        "third": 1 / 3,
        "infinite": -math.inf,
        "many": np.array([0.1, np.inf]),
        "deep": {"a": [True, None, "text"]},
        "big": 2**80,
        "seed": 5,
    }
    found = sweep(lambda cell: result, {"a": [math.inf, None]}, seeds=1, output=tmp_path / "file")
    assert [r["values"]["a"] for r in found] == [None, math.inf]
    for record in (*found, *read_sweep(tmp_path / "file")):
        assert record["result"] == {**result, "many": [0.1, math.inf]}
    assert found.rows()[0]["seed"] == 0
    assert found.rows()[0]["result.seed"] == 5
    nothing = sweep(lambda cell: math.nan, {"b": [1]}, seeds=1, output=tmp_path / "other")
    assert math.isnan(nothing.records[0]["result"]["value"])


def test_tables(tmp_path):
    def run(cell):
        return {"x": cell["a"] * 0.5, "n": cell.seed, "good": cell.seed > 0, "s": "t" * cell.seed}

    found = sweep(run, {"a": [10, 9, 1.5]}, seeds=2, output=tmp_path / "file")
    table = found.to_numpy()
    assert table["a"].tolist() == [1.5, 1.5, 9.0, 9.0, 10.0, 10.0]
    assert {name: table.dtype[name].kind for name in table.dtype.names} == {
        "a": "f", "seed": "i", "good": "b", "n": "i", "s": "U", "x": "f",
    }  # fmt: skip
    pandas = pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.groupby("a")["x"].mean().tolist() == [0.75, 4.5, 5.0]


def test_a_learner_on_a_stream(tmp_path):
    stream = dpoco.datasets.linear_regression_stream(200, 3, seed=4)

    def make(cell):
        return dpoco.frank_wolfe.TreeFrankWolfe(
            dpoco.domains.LpBall(dimension=3, p=2.0, radius=1.0),
            dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0),
            horizon=cell["horizon"],
            budget=dpoco.Budget(cell["epsilon"], 1e-6),
            source=cell.source(),
        )

    grid = {"epsilon": [1.0, 1000.0], "horizon": [100, 300]}
    found = sweep((make, stream), grid, seeds=3, output=tmp_path / "file")
    assert not found.failed
    table = found.to_numpy()
    assert table["rounds"].tolist() == ([100] * 3 + [200] * 3) * 2
    assert table["average_regret"][6:].mean() < table["average_regret"][:6].mean()
    trace = make(Cell({"epsilon": 1.0, "horizon": 100}, 2)).run(
        stream.features[:100], stream.labels[:100]
    )
    assert found.rows()[2]["average_loss"] == trace.average_loss


def test_a_learner_with_noise_of_its_own_is_refused(tmp_path):
    def make(cell):
        return dpoco.experts.PrefixHedge(3, horizon=500, budget=dpoco.Budget(10.0, 1e-6))

    found = sweep((make, np.zeros((5, 3))), {"a": [1]}, seeds=1, output=tmp_path / "file")
    assert "cell.source()" in found.failed[0]["error"]["message"]
