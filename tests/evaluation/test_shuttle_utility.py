"""The default job learns: on a real stream, at epsilon = 1, every seed beats every constant."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest

import dpoco
from dpoco.cli._problem import make_games
from dpoco.cli._settings import Settings
from dpoco.evaluation import compare_private
from dpoco.learners import learner_named

SEEDS = 20


pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="the river that bundles the stream needs Python 3.11"
)


@functools.cache
def play(epsilon=1.0, repeats=SEEDS, **changes):
    asked = Settings(data="shuttle", **changes)
    (game,) = make_games([learner_named("tree-frank-wolfe")], asked)
    budget = dpoco.Budget._over(epsilon, None, game.horizon)
    return compare_private(game, budget, repeats=repeats, seed=2024)


def test_private_beats_the_best_constant_for_every_seed():
    report = play()
    assert report.guarantee["epsilon"] <= 1.0
    assert report.guarantee["delta"] == pytest.approx(1.0 / (10 * 49_097))
    assert report.best_constant["average_loss"] == pytest.approx(0.257531, abs=1e-6)
    assert max(report.private.average_losses) < 0.14
    assert report.private.average_loss < 0.09
    assert report.best_fixed["average_loss"] < report.nonprivate.average_loss < 0.025
    assert report.nonprivate.average_loss < min(report.private.average_losses)


@pytest.mark.parametrize("p", [1.0, 3.0, np.inf])
def test_other_geometries_learn_too(p):
    report = play(p=p, repeats=5)
    assert max(report.private.average_losses) < 0.17
    assert report.nonprivate.average_loss < 0.04


def test_more_privacy_costs_more_and_too_much_teaches_nothing():
    losses = [play(epsilon=e, repeats=5).private.average_loss for e in (10.0, 0.1, 0.01)]
    assert losses == sorted(losses)
    assert losses[-1] > 0.3
