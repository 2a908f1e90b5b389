"""One-time fits beside their comparators, and in a comparison with online learners."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpoco
from dpoco.domains import LpBall
from dpoco.evaluation import (
    RunReport,
    best_fixed_decision,
    compare,
    compare_private,
    game_of_records,
    play,
)
from dpoco.frank_wolfe import SufficientStatistics
from dpoco.losses import SquaredLoss

STREAM = dpoco.datasets.linear_regression_stream(400, 3, seed=2)
PROBLEM = LpBall(3, 2.0, 1.0), SquaredLoss(1.0, 1.0)
BUDGET = dpoco.Budget(4.0, 1e-5)


def fit(**options):
    how = {"repeats": 1, "progress": None, "seed": 3}
    how.update({name: options.pop(name) for name in how if name in options})
    game = game_of_records(SufficientStatistics, STREAM, *PROBLEM, **options)
    return compare_private(game, BUDGET, **how)


def test_losses_are_of_the_released_decision_on_all_records():
    report = fit(repeats=3)
    source, found = dpoco.random.Source.seeded(3), report.private.average_losses
    for average in found:
        model = SufficientStatistics(*PROBLEM, budget=BUDGET, records=400, source=source)
        trace = play(model, STREAM.features, STREAM.labels)
        margins = STREAM.features @ model.theta
        clipped = np.clip(STREAM.labels, -1.0, 1.0)
        assert average == pytest.approx(np.mean((margins - clipped) ** 2), rel=1e-6)
        assert trace.average_loss == average
        assert np.array_equal(trace.decisions, np.tile(model.theta, (400, 1)))
        assert len(trace.switches) == 0
    assert len(set(found)) == 3
    best = best_fixed_decision(*PROBLEM, STREAM.features, STREAM.labels)
    assert report.best_fixed["average_loss"] == best.average_loss
    assert report.private.regrets[0] == pytest.approx(400 * (found[0] - best.average_loss))
    assert report.private.switches == (0, 0, 0)


def test_a_fit_is_between_the_best_and_nothing_without_noise():
    heard, seen = [], []
    report = fit(progress=lambda *step: heard.append(step))
    best, nothing = report.best_fixed["average_loss"], np.mean(np.clip(STREAM.labels, -1, 1) ** 2)
    assert best <= report.nonprivate.average_loss + 1e-12 < nothing
    assert best < report.private.average_loss
    assert report.guarantee["epsilon"] <= 4.0
    assert {step[0] for step in heard} == {"comparators", "private", "without noise"}
    assert all(done <= total for _, done, total in heard)
    assert 0.0 < report.accuracy["private"]["r2"] < report.accuracy["best fixed decision"]["r2"]
    assert report.settings["records"] == 400
    assert "horizon" not in report.settings
    game = game_of_records(SufficientStatistics, STREAM, *PROBLEM)
    assert compare_private(game, BUDGET, seed=3, snapshot=seen.append).private == report.private
    assert seen == []  # there are no rounds to tell of


def test_reports_are_read_back_and_hang_on_the_seed():
    report, again = fit(), fit()
    assert RunReport.from_dict(json.loads(report.to_json())) == report
    assert again.private == report.private
    assert fit(seed=4).private != report.private


def test_records_past_the_number_are_left_out():
    report = fit(horizon=100)
    assert report.stream["rounds"] == report.parameters["mechanism"]["batch"] == 100
    assert fit(horizon=10_000).parameters["mechanism"]["batch"] == 400


def test_fits_are_offline_rows_of_a_comparison():
    best = best_fixed_decision(*PROBLEM, STREAM.features, STREAM.labels)

    def online(budget, source):
        return dpoco.oco.NoisyFTRL(*PROBLEM, horizon=400, budget=budget, source=source)

    def offline(budget, source):
        return SufficientStatistics(*PROBLEM, records=400, budget=budget, source=source)

    def result(**learners):
        return compare(
            learners, (STREAM.features, STREAM.labels), budgets=[BUDGET, None],
            comparator={"name": "best", "total_loss": best.total_loss}, repeats=2, seed=1,
        )  # fmt: skip

    both = result(a=online, b=offline)
    assert [row.access for row in both.rows] == ["online", "offline"] * 2
    for row in both.rows[1::2]:
        assert (row.regrets, row.switches, row.regret) == ((), (), None)
        assert min(row.average_losses) >= best.average_loss - 1e-9
    assert [len(row.average_losses) for row in both.rows] == [2, 2, 1, 1]
    assert len(set(both.rows[1].average_losses)) == 2
    assert set(both.traces) == {("a", 0), ("a", 1)}
    alone = result(b=offline)
    assert alone.rows[0] == both.rows[1]
    assert json.loads(both.to_json())["rows"][1]["access"] == "offline"


def test_a_fit_is_not_continued(tmp_path):
    game = game_of_records(SufficientStatistics, STREAM, *PROBLEM)
    with pytest.raises(ValueError, match="takes no checkpoint"):
        compare_private(game, BUDGET, checkpoint=tmp_path / "state")
    assert not (tmp_path / "state").exists()
