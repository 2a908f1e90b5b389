"""Median boosting: its guarantee, with bad groups that conspire."""

from __future__ import annotations

import math

import numpy as np
import pytest
from local_cases import FC

from dpoco.evaluation import total_variation
from dpoco.local import median_select


def test_the_middle_of_three():
    rows = np.array([[0.5, 0.5], [0.6, 0.4], [0.0, 1.0]])
    found = median_select(rows)
    assert found.index == 0  # the first of two at the same median
    assert found.radius == pytest.approx(0.1)
    assert found.failure == pytest.approx(math.exp(-3 / 18))
    np.testing.assert_array_equal(found.distribution, rows[0])


def test_the_lower_median_counts_the_row_itself():
    rows = np.array([[0.0, 1.0], [0.1, 0.9], [0.5, 0.5], [1.0, 0.0]])
    # The second smallest of four distances, the own 0 among them.
    assert median_select(rows).radius == pytest.approx(0.1)
    assert median_select(rows[:1]).radius == 0.0
    assert median_select(rows[:2]).radius == 0.0


@pytest.mark.parametrize("groups", [1, 2, 5, 8, 31])
def test_a_majority_of_good_rows_decides(groups):
    rng = np.random.default_rng(groups)
    alpha, truth = 0.05, FC[0]
    good = groups // 2 + 1
    for _ in range(50):
        rows = np.tile(FC[1], (groups, 1))  # the bad ones agree with each other
        for i in range(good):
            other = rng.dirichlet(np.ones(6))
            reach = alpha / max(total_variation(truth, other), alpha)
            rows[i] = (1 - reach) * truth + reach * other
        order = rng.permutation(groups)
        found = median_select(rows[order])
        assert total_variation(found.distribution, truth) <= 3 * alpha + 1e-12
        if good < groups:
            # Were the worst median taken for the best, the guarantee would fail.
            medians = [np.sort(total_variation(row, rows))[(groups + 1) // 2 - 1] for row in rows]
            worst = rows[int(np.argmax(medians))]
            assert total_variation(worst, truth) > 3 * alpha


def test_failures_become_rare():
    # Groups are good with probability 2/3; alone a third of them fail.
    rng = np.random.default_rng(3)
    groups, runs, failed = 72, 300, 0
    for _ in range(runs):
        bad = rng.random(groups) < 1 / 3
        rows = np.where(bad[:, None], FC[1], FC[0])
        failed += total_variation(median_select(rows).distribution, FC[0]) > 0
    assert failed / runs <= math.exp(-groups / 18) + math.sqrt(math.log(1e6) / (2 * runs))


@pytest.mark.parametrize(
    "bad", [[0.5, 0.5], np.empty((0, 3)), [[0.5, 0.6]], [[1.5, -0.5]], [[math.nan, 1.0]]]
)
def test_what_is_no_list_of_distributions_is_refused(bad):
    with pytest.raises((ValueError, TypeError)):
        median_select(bad)
