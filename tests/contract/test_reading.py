"""What is said of records as learners read them: which are empty, clipped or out of range."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpoco import Budget, Participation
from dpoco._clipping import (
    VIOLATION_SLACK,
    admitted_losses,
    checked_range,
    context_flags,
    record_flags,
    record_multipliers,
)
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.errors import HorizonExceeded
from dpoco.mechanisms import ContinualSum

AT, BEYOND = 1.0 + 0.9 * VIOLATION_SLACK, 1.0 + 1.1 * VIOLATION_SLACK


def test_what_is_at_a_bound_up_to_rounding_is_not_clipped():
    assert 1e-14 < VIOLATION_SLACK == 1e-9
    factors = np.array([1.0, 1.0 / AT, 1.0 / BEYOND, 0.5, 0.0, 1.0, 1.0, 1.0, 0.5])
    labels = np.array([0.0, -1.0, 2.0, 2.1, 0.0, math.nan, math.inf, -1.1, math.nan])
    flags = record_flags(factors, labels, (-1.0, 2.0))
    assert {name: np.flatnonzero(each).tolist() for name, each in flags.items()} == {
        "empty": [4, 5, 6, 8], "clipped": [2, 3], "label_missing": [5, 6, 8],
        "label_out_of_range": [3, 7],
    }  # fmt: skip
    assert record_flags(factors)["clipped"].tolist() == [False] * 2 + [True] * 2 + [False] * 4 + [
        True
    ]
    assert not record_flags(np.array([1.0 - VIOLATION_SLACK]))["clipped"].any()
    assert not record_flags(factors, labels)["label_out_of_range"].any()
    assert not context_flags(np.ones((1, 2)), np.array([1.0 + VIOLATION_SLACK]))["clipped"].any()
    contexts = np.array([[0.0, 1.0], [math.nan, 1.0], [0.0, math.inf], [0.0, 0.0], [0.0, 9.0]])
    norms = np.array([AT, BEYOND, BEYOND, 0.0, BEYOND])
    seen = context_flags(contexts, norms)
    assert seen["missing"].sum(axis=1).tolist() == [0, 1, 1, 0, 0]
    assert seen["empty"].tolist() == [False, True, True, False, False]
    assert seen["clipped"].tolist() == [False, False, False, False, True]
    assert context_flags(contexts, None).keys() == {"missing", "empty"}


def test_contexts_are_measured_in_the_norm_of_their_learner():
    contexts, rewards = np.array([[0.8, 0.8], [0.6, 0.6]]), np.zeros((2, 3))
    euclidean = LinUCB(3, 2, horizon=2, budget=None, context_bound=1.0, reward_bound=1.0)
    largest = HighDimensionalBandit(
        3, LpBall(2, 1.0), horizon=2, budget=None, context_bound=1.0, reward_bound=1.0
    )
    for learner, share in ((euclidean, 0.5), (largest, 0.0)):
        assert learner.run(contexts, rewards).nonprivate_records.shares["clipped"] == share


def test_losses_are_read_within_their_range():
    losses = np.array([-9.0, -2.0, 0.5, 4.0, 9.0, math.nan, math.inf, -math.inf])
    assert admitted_losses(losses, -2.0, 4.0).tolist() == [-2, -2, 0.5, 4, 4, -2, -2, -2]
    for pair in ((0.0, 1e-100), (-5e99, 5e99), (-1.0, 2.0)):
        assert checked_range(pair) == pair
    for pair in ((0.0, 0.9e-100), (0.0, 1.1e100), (-0.6e100, 0.6e100), (5.0, 5.0), (1.0, 0.0)):
        with pytest.raises(ValueError, match="loss_range"):
            checked_range(pair)
    for bad in (3.0, (1.0,), (1.0, 2.0, 3.0)):
        with pytest.raises(TypeError, match="pair"):
            checked_range(bad)


@pytest.mark.parametrize("bound_l2", [None, 0.6])
def test_records_are_multiplied_into_their_bounds(bound_l2):
    records = np.array([[0.5, 0.0], [3.0, 4.0], [math.nan, 0.0], [0.0, 0.0]])
    got = record_multipliers(LpBall(2, 2.0), records, 1.0, bound_l2)
    size = 1.0 if bound_l2 is None else bound_l2
    assert np.allclose(got, [1.0, size / 5.0, 0.0, 1.0], rtol=1e-12)
    for shape in ((4,), (4, 3), (2, 2, 2), (4, 1)):
        with pytest.raises(ValueError, match="records must have shape"):
            record_multipliers(LpBall(2, 2.0), np.zeros(shape), 1.0, bound_l2)


def test_a_sum_counts_what_is_left_of_its_horizon():
    total = ContinualSum(2, horizon=5, budget=Budget(1.0, 1e-6),
                         participation=Participation(2, enforced=False), bound=1.0)  # fmt: skip
    total.run(np.zeros((3, 2)))
    with pytest.raises(HorizonExceeded, match="asked for: 3, left: 2"):
        total.run(np.zeros((3, 2)))
    assert total.round == 3
    assert total.run(np.zeros((2, 2))).shape == (2, 2)
    with pytest.raises(ValueError, match="enforced=False"):
        ContinualSum(
            2, horizon=5, budget=Budget(1.0, 1e-6), participation=Participation(2), bound=1.0
        )
