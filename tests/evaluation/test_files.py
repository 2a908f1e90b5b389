"""Traces come back bit for bit, and damaged or foreign files do not."""

from __future__ import annotations

import json

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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.npz"


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
    with pytest.raises(TypeError, match="has no stream"):
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


def test_a_bandit_comes_back(path):
    rng = np.random.default_rng(1)
    learner = dpoco.bandits.LinUCB(
        2, 3, horizon=40, budget=None, source=SOURCE, context_bound=1.0, reward_bound=1.0
    )
    played = learner.run(rng.uniform(size=(40, 3)) / 2.0, rng.uniform(size=(40, 2)))
    evaluation.save(played, path)
    loaded = evaluation.load(path)
    assert np.array_equal(loaded.actions, played.actions)
    assert loaded.average_reward == played.average_reward


def test_a_file_says_that_it_is_not_private(path, trace):
    evaluation.save(trace, path)
    about = json.loads(str(np.load(path)["about"]))
    assert about["private"] is False
    assert "NOT PRIVATE" in about["notice"]
    assert "not private" in repr(evaluation.load(path))


def changed(path, **columns):
    with np.load(path) as file:
        table = {name: file[name] for name in file.files}
    np.savez(path, **{k: v for k, v in {**table, **columns}.items() if v is not None})


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-40]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"losses", b"lossez")),
        lambda path: path.write_bytes(b"PK"),
        lambda path: path.write_bytes(b""),
        lambda path: changed(path, losses=None),
        lambda path: changed(path, about=None),
        lambda path: changed(path, about=np.array("{")),
        lambda path: changed(path, about=np.array("[" * 100_000)),
        lambda path: changed(path, about=np.array('{"schema": "dpoco.trace/9", "first_round": 0}')),
        lambda path: changed(path, losses=np.array([object()])),
    ],
)
def test_files_are_checked(path, trace, change):
    evaluation.save(trace, path)
    change(path)
    with pytest.raises(ValueError, match=r"run.npz is not a trace of this version"):
        evaluation.load(path)


def test_a_flipped_bit_of_a_column_is_found(path, trace):
    evaluation.save(trace, path)
    content = bytearray(path.read_bytes())
    middle = content.index(b"losses.npy") + 400
    content[middle] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"run.npz is not"):
        evaluation.load(path)


def test_other_files_and_items_are_refused(tmp_path, trace):
    with pytest.raises(ValueError, match="format"):
        evaluation.save(trace, tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError):
        evaluation.load(tmp_path / "a.npz")
    with pytest.raises(TypeError, match="list"):
        evaluation.save([], tmp_path / "a.npz")


def test_a_loaded_trace_is_saved_with_what_it_knows(path, trace, tmp_path):
    evaluation.save(trace, path, comparators={"zero": np.zeros(3)}, settings={"a": 1, "b": 1})
    again = tmp_path / "again.npz"
    evaluation.save(evaluation.load(path), again, comparators={"same": "zero"}, settings={"b": 2})
    loaded = evaluation.load(again)
    assert set(loaded.comparators) == {"zero", "same"}
    assert np.array_equal(loaded.regret("zero"), trace.regret(np.zeros(3)))
    assert np.array_equal(loaded.regret("zero"), loaded.regret("same"))
    assert loaded.settings == {"a": 1, "b": 2}
