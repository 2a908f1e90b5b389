"""Batch baselines and vertex selections where double precision ends."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.accounting import polyhedral_frank_wolfe as polyhedral
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.frank_wolfe import NoisySGD, PhasedSGD, PolyhedralFrankWolfe
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
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


@pytest.mark.parametrize(("records", "delta"), [(1000, 1.5e-9), (3163, 1e-9), (10**5, 1e-8)])
def test_small_deltas_pay_for_all_steps(records, delta):
    # Two roundings a step, K 2^-49, would be more than these deltas.
    budget = dpoco.Budget(1.0, delta)
    learner = NoisySGD(
        LpBall(2), SquaredLoss(1.0, 1.0), records=records, budget=budget, steps=records**2
    )
    p = learner.parameters
    assert p.steps * 2.0**-49 > delta
    assert 0.999 < learner.guarantee.epsilon_at(delta) <= 1.0 + 1e-8
    # The secrecy of the draws helps: noise for steps that all see the same record is n times it.
    assert p.noise_scale / (2.0 * p.derivative_bound) < 10.0


def test_a_million_records_in_phases():
    learner = PhasedSGD(LpBall(3), LogisticLoss(1.0), records=10**6, budget=BUDGET,
                        source=Source.seeded(2))  # fmt: skip
    p = learner.parameters
    assert p.phases == 19
    phases = learner._settings()["phases"]
    for size, step, scale in phases:
        # Noise for what a record moves, and for what rounding parts two walks.
        rounding = 2.0 * size * 76 * 2.0**-52
        assert scale >= p.noise_multiplier * (2.0 * p.derivative_bound * step + rounding)
        assert scale >= 2.0**-38
    assert phases[0][2] < 1.01 * p.noise_multiplier * 2.0 * p.derivative_bound * phases[0][1]
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10**6, 3)) / 3.0
    labels = (rng.random(10**6) < 1.0 / (1.0 + np.exp(-rows @ [2.0, -1.0, 0.0]))) * 1.0
    theta = learner.fit(rows, labels).theta
    assert theta[0] > 0.3
    assert theta[1] < -0.1


def test_rounding_does_not_part_two_walks_by_more_than_is_accounted_for():
    # On a sphere every step is scaled back, and two walks differ by rounding alone, once they
    # differ. In late phases, whose steps are small, that is more than all that steps can do.
    ball, records = LpBall(2, 2.0, 1000.0), 2**16
    learner = PhasedSGD(ball, LogisticLoss(1.0), records=records, budget=BUDGET, step_scale=7e-8)
    learner._settle(learner._plan(records, BUDGET))
    phases = learner._settings()["phases"]
    walks = learner._mechanism.phases
    firsts = np.cumsum([0] + [size for size, _, _ in phases])
    lipschitz, beyond_steps = learner.parameters.derivative_bound, 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        outward = rng.normal(size=2)
        outward /= np.linalg.norm(outward)
        start = 1000.0 * outward
        rows = 0.3 * rng.normal(size=(records, 2)) - outward
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        changed = rows.copy()
        changed[firsts[:-1]] *= -1.0  # each phase is a release by itself: one record of each
        engines = [learner._engine(data, -np.ones(records)) for data in (rows, changed)]
        for phase in (8, 9, 10, 11):
            _, step, _ = phases[phase]
            ends = [engine.nonprivate_release(phase, start, start) for engine in engines]
            gap, moved = float(np.linalg.norm(ends[0] - ends[1])), 2.0 * lipschitz * step
            assert gap > 0.0 or phase > 8
            assert gap <= walks[phase].movement(2)
            beyond_steps += gap > 1.1 * moved
    assert beyond_steps >= 3


def test_steps_below_the_rounding_of_iterates_are_refused():
    for domain, scale in ((LpBall(16), 1e-12), (Box([1e12] * 16, [1e12 + 1.0] * 16), 1.0)):
        with pytest.raises(dpoco.CalibrationError, match="rounding"):
            PhasedSGD(domain, LogisticLoss(1.0), records=4096, budget=BUDGET, step_scale=scale)
