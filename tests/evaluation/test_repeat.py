"""Repeated runs hang on their number alone; regret has one way in; windows add up."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpoco
from dpoco import evaluation
from dpoco.evaluation import SeedTree

T, N = 400, 3
STREAM = dpoco.datasets.linear_regression_stream(T, 3, seed=1)
PROBLEM = dpoco.domains.LpBall(3, 2.0, 1.0), dpoco.losses.SquaredLoss(1.0, 1.0)


def leader(*problem):
    source, budget = dpoco.random.Source.seeded(1), dpoco.Budget(5.0, 1e-5)
    return dpoco.oco.NoisyFTRL(*problem or PROBLEM, horizon=T, budget=budget, source=source)


def build(source):
    return dpoco.experts.PrefixHedge(N, horizon=T, budget=dpoco.Budget(5.0, 1e-5), source=source)


@pytest.fixture(scope="module")
def losses():
    return np.random.default_rng(5).uniform(size=(T, N))


def test_runs_are_the_same_bits_in_any_order_and_number(losses):
    many = evaluation.repeat(build, losses, repeats=4, seed=7)
    some = evaluation.repeat(build, losses, repeats=[3, 1], seed=7)
    assert list(some) == [3, 1]
    for number, trace in some.items():
        assert np.array_equal(trace.decisions, many[number].decisions)
    assert not np.array_equal(many[0].decisions, many[1].decisions)
    other = evaluation.repeat(build, losses, repeats=1, seed=8)
    assert not np.array_equal(other[0].decisions, many[0].decisions)
    below = evaluation.repeat(build, losses, repeats=[1], seed=SeedTree(7))
    assert np.array_equal(below[1].decisions, many[1].decisions)


def test_entropy_is_fresh_without_a_seed(losses):
    a, b = (evaluation.repeat(build, losses, repeats=1)[0] for _ in "ab")
    assert not np.array_equal(a.decisions, b.decisions)


def test_learners_of_experts_take_no_labels(losses):
    with pytest.raises(TypeError, match="no labels"):
        evaluation.repeat(build, losses, np.zeros(T), repeats=1)


@pytest.mark.parametrize("repeats", [0, [1, 1], [-1], [True]])
def test_numbers_of_runs_are_checked(losses, repeats):
    with pytest.raises((ValueError, TypeError)):
        evaluation.repeat(build, losses, repeats=repeats, seed=1)


def test_seed_trees_tell_every_path_apart():
    root = SeedTree(1)
    nodes = [root, root.child("a"), root.child("a", "b"), root.child("ab"), root.child(1),
             root.child("1"), SeedTree(2), root.child("a", 1)]  # fmt: skip
    draws = {tuple(node.source().words(2).tolist()) for node in nodes}
    worlds = {node.generator().integers(2**60) for node in nodes}
    assert len(draws) == len(worlds) == len(nodes)
    assert root.child("a").child("b") == nodes[2]
    assert np.array_equal(root.source().words(4), SeedTree(1).source().words(4))
    assert SeedTree().seed != SeedTree().seed
    for bad in ((-1,), (1.0,), (1, 2.0)):
        with pytest.raises((ValueError, TypeError)):
            SeedTree(*bad)


def test_windows_add_up_and_judge_before_learning():
    trace = leader().run(STREAM.features, STREAM.labels)
    margins = np.einsum("td,td->t", trace.decisions, STREAM.features)
    bias = {"bias": lambda z, y: z - y}
    result = evaluation.prequential(leader(), STREAM, window=150, measures=bias)
    assert result.ends == (150, 300, 400)
    assert result.measures["loss"][1] == trace.losses[150:300].mean()
    errors = np.abs(margins - STREAM.labels)
    assert result.measures["absolute_error"][2] == pytest.approx(errors[300:].mean())
    assert result.overall["squared_error"] == pytest.approx((errors**2).mean())
    assert result.overall["bias"] == pytest.approx((margins - STREAM.labels).mean())
    assert sum(result.switches) == len(trace.switches)
    assert len(evaluation.prequential(leader(), STREAM).ends) == 20


def test_parts_of_long_runs_do_not_show(monkeypatch):
    learners = [leader(PROBLEM[0], dpoco.losses.HuberLoss(1.0, 1.0)) for _ in range(2)]
    whole = evaluation.prequential(learners[0], STREAM, window=100)
    monkeypatch.setattr("dpoco.evaluation._runs._LARGEST_PART", 100)
    assert evaluation.prequential(learners[1], STREAM, window=100) == whole


def test_windows_of_experts_and_of_missing_records(losses):
    result = evaluation.prequential(build(dpoco.random.Source.seeded(1)), losses, window=100)
    assert set(result.measures) == {"loss"}
    domain, loss = dpoco.domains.LpBall(2, 2.0, 1.0), dpoco.losses.LogisticLoss(1.0)
    learner = dpoco.oco.NoisyFTRL(domain, loss, horizon=4, budget=None)
    rows = np.array([[0.5, 0.5], [np.nan, 0.0], [0.5, -0.5], [np.nan, 1.0]])
    found = evaluation.prequential(learner, rows, np.array([1.0, 0.0, 0.0, 1.0]), window=2)
    assert found.overall["brier"] <= 0.5
    learner = dpoco.oco.NoisyFTRL(domain, loss, horizon=2, budget=None)
    nothing = evaluation.prequential(learner, rows[[1, 3]], np.ones(2))
    assert nothing.to_dict()["overall"]["error"] is None


def test_windows_refuse_what_does_not_fit(losses):
    learner = build(dpoco.random.Source.seeded(1))
    with pytest.raises(TypeError, match="labels"):
        evaluation.prequential(learner, losses, np.zeros(T))
    with pytest.raises(dpoco.HorizonExceeded):
        evaluation.prequential(learner, np.vstack([losses, losses]))
    assert learner.round == 0
    with pytest.raises(TypeError, match="generalised"):
        evaluation.prequential(object(), losses)


def test_a_measure_with_a_known_name_is_refused_before_the_first_round():
    learner = leader()
    with pytest.raises(ValueError, match="already measures"):
        evaluation.prequential(learner, STREAM, measures={"loss": lambda z, y: z - y})
    assert learner.round == 0


def test_windows_without_labels_come_back_from_a_file():
    labels = np.where(np.arange(len(STREAM.labels)) < 200, np.nan, STREAM.labels)
    result = evaluation.prequential(leader(), STREAM.features, labels, window=200)
    restored = evaluation.PrequentialResult.from_dict(json.loads(result.to_json()))
    assert np.isnan(restored.measures["squared_error"][0])
    assert restored.measures["squared_error"][1] == result.measures["squared_error"][1]
    assert (restored.ends, restored.switches) == (result.ends, result.switches)
