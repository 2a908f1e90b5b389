"""Batch baselines and vertex selections where double precision ends."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.accounting import polyhedral_frank_wolfe as polyhedral
from dpoco.domains import Box, LpBall, VertexSet
from dpoco.frank_wolfe import NoisySGD, PhasedSGD, PolyhedralFrankWolfe
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

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


def test_points_of_different_scales_have_a_centre_to_start_from():
    generator = np.random.default_rng(0)
    for _ in range(20):
        rows = generator.normal(size=(20, 5)) * [1e3, 1.0, 1e-2, 1e-4, 1e-5]
        PolyhedralFrankWolfe(VertexSet(rows), LinearLoss(1.0), horizon=20, budget=BUDGET)


@pytest.mark.parametrize(("records", "delta"), [(1000, 1.5e-9), (3163, 1e-9)])
def test_steps_are_no_more_than_delta_can_account_for(records, delta):
    budget = dpoco.Budget(1.0, delta)
    learner = NoisySGD(LpBall(2), SquaredLoss(1.0, 1.0), records=records, budget=budget)
    p = learner.parameters
    assert p.steps < min(records**2, 10**7)
    lipschitz = p.derivative_bound
    # Sampling still helps: far less noise than for steps that all see the same record.
    assert p.noise_scale / (2.0 * lipschitz) < 0.2 * np.sqrt(p.steps)
    with pytest.raises(dpoco.CalibrationError, match="steps"):
        NoisySGD(LpBall(2), SquaredLoss(1.0, 1.0), records=records, budget=budget, steps=records**2)


def test_steps_below_the_rounding_of_iterates_are_refused():
    for domain, scale in ((LpBall(16), 1e-12), (Box([1e12] * 16, [1e12 + 1.0] * 16), 1.0)):
        with pytest.raises(dpoco.CalibrationError, match="rounding"):
            PhasedSGD(domain, LogisticLoss(1.0), records=4096, budget=BUDGET, step_scale=scale)
