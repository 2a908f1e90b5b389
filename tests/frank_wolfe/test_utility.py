"""The learner learns: fixed seeds, bands far from chance (an argmax for an argmin must fail)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.samples import mean_suboptimality

import dpoco
from dpoco.frank_wolfe import TreeFrankWolfe

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


mean = partial(mean_suboptimality, TreeFrankWolfe)


def test_regression_reaches_the_stated_error():
    assert mean(1000, 5, 1.5) <= 0.35
    assert mean(10_000, 5, 1.5) <= 0.02


@pytest.mark.parametrize(
    ("T", "d", "p", "limit"),
    [(5000, 5, 1.5, 0.05), (10_000, 10, 1.5, 0.12), (10_000, 5, np.inf, 0.03)],
)
def test_bands(T, d, p, limit):
    assert mean(T, d, p) < limit


def test_the_default_sum_beats_the_tree_and_both_beat_the_published_calibration():
    blt = mean(10_000, 5, 1.5)
    tree = mean(10_000, 5, 1.5, sum_method="tree")
    paper = mean(10_000, 5, 1.5, calibration="paper")
    assert tree > 1.5 * blt
    assert paper > 2 * tree


def test_without_noise_the_optimum_is_reached():
    for p in (1.0, 1.5, 2.0, np.inf):
        assert mean(2000, 5, p, seeds=2, budget=None) < 0.05


def test_more_budget_is_less_error():
    strict = mean(3000, 5, 2.0, budget=dpoco.Budget(0.3, 1e-4))
    loose = mean(3000, 5, 2.0, budget=dpoco.Budget(3.0, 1e-4))
    assert loose < 0.5 * strict
