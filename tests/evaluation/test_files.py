"""Traces and reports come back bit for bit, and damaged or foreign files do not."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import dpoco
from dpoco import evaluation
from dpoco.evaluation import SavedTrace

T, BUDGET, SOURCE = 300, dpoco.Budget(5.0, 1e-5), dpoco.random.Source.seeded(3)
STREAM = dpoco.datasets.linear_regression_stream(T, 3, seed=1)
PROBLEM = dpoco.domains.LpBall(3, 2.0, 1.0), dpoco.losses.SquaredLoss(1.0, 1.0)


@pytest.fixture(scope="module")
def trace():
    learner = dpoco.oco.NoisyFTRL(*PROBLEM, horizon=T, budget=BUDGET, source=SOURCE)
    return learner.run(STREAM.features, STREAM.labels)


@pytest.fixture(params=["jsonl", "parquet"])
def path(request, tmp_path):
    if request.param == "parquet":
        pytest.importorskip("pyarrow")
    return tmp_path / f"run.{request.param}"


def test_a_trace_comes_back(path, trace):
    best = evaluation.best_fixed_decision(*PROBLEM, STREAM.features, STREAM.labels)
    evaluation.save(trace, path, comparators={"best": best}, settings={"seed": 3})
    loaded = evaluation.load(path)
    assert isinstance(loaded, SavedTrace)
    assert np.array_equal(loaded.losses, trace.losses)
    assert np.array_equal(loaded.switches, trace.switches)
    assert np.array_equal(loaded.decisions, trace.decisions)
    assert loaded.first_round == trace.first_round
    assert np.array_equal(loaded.regret("best"), trace.regret(best))
    assert loaded.settings == {"seed": 3}
    with pytest.raises(ValueError, match="best"):
        loaded.regret("worst")
    with pytest.raises(TypeError, match="by name"):
        loaded.regret(best)


def test_a_trace_of_experts_comes_back(path):
    losses = np.random.default_rng(2).uniform(size=(T, 4))
    played = dpoco.experts.PrefixHedge(4, horizon=T, budget=BUDGET, source=SOURCE).run(losses)
    best = evaluation.best_switching_sequence(losses, 3)
    evaluation.save(played, path, comparators={"three switches": best})
    loaded = evaluation.load(path)
    assert loaded.decisions.dtype == np.int64
    assert np.array_equal(loaded.decisions, played.decisions)
    assert np.array_equal(loaded.regret("three switches"), played.regret(best))


def test_a_bandit_and_a_report_come_back(path):
    rng = np.random.default_rng(1)
    learner = dpoco.bandits.LinUCB(
        2, 3, horizon=40, budget=None, source=SOURCE, context_bound=1.0, reward_bound=1.0
    )
    played = learner.run(rng.uniform(size=(40, 3)) / 2.0, rng.uniform(size=(40, 2)))
    evaluation.save(played, path)
    loaded = evaluation.load(path)
    assert np.array_equal(loaded.actions, played.actions)
    assert loaded.average_reward == played.average_reward
    original = evaluation.compare_private(STREAM, *PROBLEM, budget=BUDGET, repeats=2, seed=4)
    evaluation.save(original, path)
    assert evaluation.load(path) == original


def test_a_file_says_that_it_is_not_private(tmp_path, trace):
    evaluation.save(trace, tmp_path / "a.jsonl")
    first = (tmp_path / "a.jsonl").read_text().splitlines()[0]
    assert json.loads(first)["private"] is False
    assert "NOT PRIVATE" in first
    assert "not private" in repr(evaluation.load(tmp_path / "a.jsonl"))
    if pq := pytest.importorskip("pyarrow.parquet"):
        evaluation.save(trace, tmp_path / "a.parquet")
        assert b"NOT PRIVATE" in pq.read_schema(tmp_path / "a.parquet").metadata[b"dpoco"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "damaged"),
        (lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]], "damaged"),
        (lambda lines: [lines[0].replace("dpoco.trace/1", "dpoco.trace/9"), *lines[1:]], "version"),
        (lambda lines: [lines[0].replace("dpoco.trace/1", "other/1"), *lines[1:]], "holds none"),
        (lambda lines: [lines[0], "[1.0]", *lines[2:]], "damaged"),
        (lambda lines: ["{", *lines[1:]], "JSON lines"),
        (lambda lines: ["[" * 100_000, *lines[1:]], "JSON lines"),
        (lambda lines: [], "JSON lines"),
    ],
)
def test_files_are_checked(tmp_path, trace, change, message):
    path = tmp_path / "a.jsonl"
    evaluation.save(trace, path)
    path.write_text("\n".join(change(path.read_text().splitlines())))
    with pytest.raises(ValueError, match=message):
        evaluation.load(path)


def test_other_files_and_items_are_refused(tmp_path, trace, monkeypatch):
    with pytest.raises(ValueError, match="format"):
        evaluation.save(trace, tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError):
        evaluation.load(tmp_path / "a.jsonl")
    with pytest.raises(TypeError, match="list"):
        evaluation.save([], tmp_path / "a.jsonl")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="Parquet"):
        evaluation.load(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="jsonl needs nothing"):
        evaluation.save(trace, tmp_path / "b.parquet")
