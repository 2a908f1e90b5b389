"""The default job learns: on a real stream, at epsilon = 1, every seed beats every constant."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dpoco import datasets
from dpoco.cli._problem import build_problem
from dpoco.evaluation import compare_private
from dpoco.learners import learner_named

SEEDS = 20


@pytest.fixture(scope="module")
def shuttle():
    if sys.version_info < (3, 11):
        pytest.skip("the river that bundles the stream needs Python 3.11")
    return datasets.load_shuttle()


def play(stream, **changes):
    settings = {
        "loss": "logistic", "epsilon": 1.0, "delta": None, "horizon": None, "p": None,
        "radius": None, "feature_bound": None, "given": {"calibration": "tight"},
    }  # fmt: skip
    entry = learner_named("tree-frank-wolfe")
    problem = build_problem(stream, entry, **{**settings, **changes})
    return compare_private(
        stream, problem.domain, problem.loss, budget=problem.budget, repeats=SEEDS, seed=2024,
        **problem.options,
    )  # fmt: skip


def test_private_beats_the_best_constant_for_every_seed(shuttle):
    report = play(shuttle)
    assert report.guarantee["epsilon"] <= 1.0
    assert report.guarantee["delta"] == pytest.approx(1.0 / (10 * 49_097))
    assert report.best_constant["average_loss"] == pytest.approx(0.257531, abs=1e-6)
    assert max(report.private.average_losses) < 0.14
    assert report.private.average_loss < 0.09
    assert report.best_fixed["average_loss"] < report.nonprivate.average_loss < 0.025
    assert report.nonprivate.average_loss < min(report.private.average_losses)


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0, np.inf])
def test_other_geometries_learn_too(shuttle, p):
    report = play(shuttle, p=p)
    assert max(report.private.average_losses) < 0.17
    assert report.nonprivate.average_loss < 0.04


def test_more_privacy_costs_more_and_too_much_teaches_nothing(shuttle):
    losses = [play(shuttle, epsilon=e).private.average_loss for e in (10.0, 1.0, 0.1, 0.01)]
    assert losses == sorted(losses)
    assert losses[-1] > 0.3
