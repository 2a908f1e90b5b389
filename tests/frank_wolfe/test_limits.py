"""Vertex selections where double precision ends."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.accounting import polyhedral_frank_wolfe as polyhedral
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.frank_wolfe import PolyhedralFrankWolfe
from dpoco.losses import LinearLoss, LogisticLoss
from dpoco.random import Source

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning"),
]

BUDGET = dpoco.Budget(1.0, 1e-5)


@pytest.mark.parametrize(
    ("domain", "loss"),
    [
        (Box([0.0], [1e-300]), LinearLoss(1e-30)),
        (Box([0.0], [1e-250]), LinearLoss(1e-80)),
        (LpBall(3, 1.0, 1e-100), LogisticLoss(1e-100)),
        (VertexSet([[0.0], [1e-300]]), LinearLoss(1e-30)),
    ],
)
def test_ranges_that_underflow_are_no_single_point(domain, loss):
    # Were they, decisions would follow the data without noise, as if there were none to protect.
    with pytest.raises(ValueError, match="1e-140"):
        polyhedral.calibrate(domain, loss, horizon=4, budget=BUDGET, batch=1)


def test_equal_points_say_nothing_about_the_data():
    def last(gradient):
        learner = PolyhedralFrankWolfe(
            VertexSet([[0.1], [0.1], [0.1]]), LinearLoss(1.0), horizon=4, budget=BUDGET, batch=1,
            source=Source.seeded(1),
        )  # fmt: skip
        assert learner.guarantee.epsilon == 0.0
        return learner.run(np.full((4, 1), gradient)).decisions[-1, 0]

    assert last(0.0) == last(1.0) == last(-1.0) == 0.1


def test_a_simplex_that_says_it_is_a_single_point_is_none():
    class Point(Simplex):
        def diameter(self, order=None):
            return 0.0

    with pytest.raises(ValueError, match="stated smaller than it is"):
        PolyhedralFrankWolfe(Point(3), LinearLoss(1.0), horizon=4, budget=BUDGET)


def test_points_of_different_scales_have_a_centre_to_start_from():
    generator = np.random.default_rng(0)
    for _ in range(20):
        rows = generator.normal(size=(20, 5)) * [1e3, 1.0, 1e-2, 1e-4, 1e-5]
        PolyhedralFrankWolfe(VertexSet(rows), LinearLoss(1.0), horizon=20, budget=BUDGET)
