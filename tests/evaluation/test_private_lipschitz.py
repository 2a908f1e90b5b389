"""The learner of Lipschitz losses beside its comparators."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpoco
from dpoco.domains import Box
from dpoco.evaluation import RunReport, compare_private, game_of_functions
from dpoco.oco import LipschitzLearner

T = 1000
VALUES = np.random.default_rng(5).beta(2.0, 8.0, size=T)
LOSSES = [lambda x, v=v: np.abs(x[:, 0] - v) for v in VALUES]
BUDGET = dpoco.Budget(4.0, 1e-5)


def play(**options):
    game = game_of_functions(LOSSES, Box([0.0], [1.0]), lipschitz=1.0)
    return compare_private(game, BUDGET, seed=3, **options)


def test_a_running_median_is_learned_and_compared_with_the_median():
    report = play(repeats=2)
    median = np.median(VALUES)
    best = np.abs(VALUES - median).mean()
    assert 0.0 <= report.best_fixed["average_loss"] - best <= report.best_fixed["gap"]
    assert abs(report.best_fixed["decision"][0] - median) < 0.02
    assert report.best_constant["average_loss"] == pytest.approx(np.abs(VALUES - 0.5).mean())
    for runs in (report.private, report.nonprivate):
        assert runs.average_loss < 0.6 * report.best_constant["average_loss"]
        assert runs.regret == pytest.approx(T * runs.average_loss - report.best_fixed["total_loss"])
    assert RunReport.from_dict(json.loads(report.to_json())) == report


def test_runs_are_the_learners_own_and_snapshots_change_no_bit():
    snapshots = []
    told, plain = play(snapshot=snapshots.append), play()
    learner = LipschitzLearner(
        Box([0.0], [1.0]), lipschitz=1.0, horizon=T, budget=BUDGET,
        source=dpoco.random.Source.seeded(3),
    )  # fmt: skip
    trace = learner.run(LOSSES)
    assert told.private == plain.private
    assert plain.private.average_losses == (pytest.approx(trace.average_loss),)
    assert plain.private.switches == (len(trace.switches),)
    assert snapshots[-1].round == T


def test_a_point_in_the_plane():
    points = np.random.default_rng(6).normal([0.3, -0.2], 0.1, size=(300, 2))
    losses = [lambda x, p=p: np.linalg.norm(x - p, axis=1) for p in points]
    game = game_of_functions(losses, Box([-1.0, -1.0], [1.0, 1.0]), lipschitz=1.0, resolution=9)
    report = compare_private(game, dpoco.Budget(20.0, 1e-3), seed=1)
    np.testing.assert_allclose(report.best_fixed["decision"], [0.25, -0.25])
    assert report.best_fixed["gap"] == pytest.approx(0.5 * np.hypot(0.25, 0.25))
    assert report.best_constant["decision"] == [0.0, 0.0]


def test_no_rounds():
    with pytest.raises(ValueError, match="rounds"):
        game_of_functions([], Box([0.0], [1.0]), lipschitz=1.0, horizon=5)


def test_losses_that_are_missing_are_flagged_by_round_or_by_column():
    missing = np.arange(T) < 10
    counts = [
        game_of_functions(
            LOSSES, Box([0.0], [1.0]), lipschitz=1.0, nonprivate_flags={"missing": flags}
        ).counted.sum()
        for flags in (missing, missing[:, None])
    ]
    assert counts == [T - 10, T - 10]
