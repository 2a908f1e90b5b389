"""The noisy leader's order of calls, bad input and bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.forged import Forged

import dpoco
from dpoco.domains import Box, LpBall, Simplex
from dpoco.errors import CalibrationError
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss
from dpoco.oco import NoisyFTRL
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

EMPTIED = Neighbours("zero_out")

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-5)
X1 = np.array([0.1, 0.2, 0.3])


def make(d=3, horizon=20, *, seed=1, loss=None, domain=None, budget=BUDGET, **options):
    return NoisyFTRL(
        domain or LpBall(d, 2.0, 1.0),
        loss or SquaredLoss(1.0, 1.0),
        horizon=horizon,
        budget=budget,
        source=Source.seeded(seed),
        **options,
    )


def stream(T, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(T, d)), rng.normal(size=T)


@pytest.mark.parametrize(
    ("loss", "statistics"),
    [
        (SquaredLoss(1.0, 1.0), "gradient"),
        (SquaredLoss(1.0, 1.0), "quadratic"),
        (LogisticLoss(1.0), "gradient"),
        (HuberLoss(1.0, 1.0), "gradient"),
        (LinearLoss(1.0), "gradient"),
    ],
)
def test_traces_have_the_losses_of_their_decisions(loss, statistics):
    for batch, p in itertools.product([1, 3], [1.0, 1.5, 2.0, np.inf]):
        X, y = stream(20)
        X[3, 1] = np.nan
        y = y if loss.glm else None
        options = {"domain": LpBall(3, p), "loss": loss, "batch": batch, "statistics": statistics}
        trace = make(**options).run(X, y)
        for t in range(20):
            target = None if y is None else y[t : t + 1]
            own = loss.batch_values(options["domain"], trace.decisions[t], X[t : t + 1], target)
            assert trace.losses[t] == pytest.approx(own[0], rel=1e-12, abs=1e-15)


def test_long_linear_runs_are_blocked_without_a_trace():
    X, _ = stream(5000)
    whole = make(loss=LinearLoss(1.0), horizon=5000)
    decisions = whole.run(X).decisions
    split = make(loss=LinearLoss(1.0), horizon=5000)
    got = [split.run(part).decisions for part in np.split(X, [1, 700, 1382, 4999])]
    assert np.array_equal(np.concatenate(got), decisions)
    assert split._engine.state() == whole._engine.state()


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistics", ["gradient", "quadratic", "linear"])
def test_huge_records_are_clipped_in_every_geometry(statistics):
    for p in [1.0, 1.5, 2.0, 3.0, np.inf]:
        linear = statistics == "linear"
        loss = LinearLoss(1.0) if linear else SquaredLoss(1.0, 1.0, feature_bound_l2=0.9)
        learner = make(
            domain=LpBall(3, p), loss=loss, budget=None, horizon=40,
            statistics="gradient" if linear else statistics,
        )  # fmt: skip
        X, y = stream(40)
        X[::3] *= 1e300
        X[1::3] *= 1e-300
        y[::5] = 1e308
        before = 0.0
        for t in range(40):
            at = learner.decide()
            if statistics == "quadratic":
                leaf = learner._engine.leaf(at, at, X[t], y[t])
                scale = learner._mechanism.summand.weight
                bound = 0.9**2 * np.sqrt(1 + (scale / 0.9) ** 2)
                assert np.linalg.norm(leaf) <= bound * (1 + 1e-9)
            learner.observe(X[t], None if linear else y[t])
            total = np.array(learner._engine.nonprivate_sum())
            change = np.linalg.norm(total - before)
            if statistics == "quadratic":  # a batch may have ended
                assert change <= (1 + t // 4) * bound * (1 + 1e-9)
            else:
                assert change <= learner._mechanism.summand.movement(EMPTIED) * (1 + 1e-9)
            before = total
            assert learner.domain.contains(learner.last_decision)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": QuadraticLoss(1.0, 1.0)},
        {"statistics": "quadratic", "loss": LogisticLoss(1.0)},
        {"statistics": "quadratic", "loss": SquaredLoss(1e60, 1.0)},
        {"statistics": "quadratic", "step_size": 0.1},
        {"statistics": "quadratic", "step_size": "predicted"},
        {"statistics": "quadratic", "batch": 21},
        {"step_size": 0.0},
        {"step_size": np.nan},
        {"batch": 21},
        {"sum_method": "toeplitz", "horizon": 5000},
    ],
)
def test_arguments_that_do_not_fit_each_other_are_refused(options):
    with pytest.raises((ValueError, TypeError, CalibrationError)):
        make(**options)


def test_quadratic_statistics_are_of_records_only():
    learner = make(statistics="quadratic")
    state = learner._engine.state()
    with pytest.raises(ValueError, match="features and labels"):
        learner._engine.observe_gradient(0, X1)
    with pytest.raises(ValueError, match="features and labels"):
        learner._engine.run(np.zeros((1, 3)), None, np.empty(1), None, np.empty(1, np.uint8))
    with pytest.raises(ValueError, match="features and labels"):
        learner._engine.run_briefly(np.zeros((1, 3)), None, False, False, 3)
    assert learner._engine.state() == state


@pytest.mark.parametrize(
    "domain",
    [
        Box([-1, 0, 0], [1, 2, 0.5]), Simplex(3), LpBall(3, 1.0), LpBall(3, 1.3),
        Simplex(1), Box([0.5, 0.5], [0.5, 0.5]), Box([0.0, 0.0], [0.0, 0.0]),
        Box([0.0, 0.3], [1.0, 0.3]),
    ],
)  # fmt: skip
def test_decisions_stay_in_the_domain(domain):
    for statistics in ["gradient", "quadratic"]:
        learner = make(domain=domain, horizon=100, statistics=statistics)
        X, y = stream(100, domain.dimension)
        for theta in learner.run(X, y).decisions:
            assert domain.contains(theta)
        assert domain.contains(learner.last_decision)
        if domain.diameter() == 0.0:
            assert learner.plan.forecast.regret_bound == 0.0


def test_noise_that_dominates_is_announced():
    with pytest.warns(dpoco.NoiseDominatesWarning, match="predicted error"):
        make(budget=dpoco.Budget(0.01, 1e-9))


@pytest.mark.parametrize("dimension", [3, 2000])  # bounds are a list, or encoded
def test_the_size_of_statistics_over_a_box_is_known_before_they_are_built(dimension):
    box = Box([-1.0] * dimension, [1.0] * dimension)
    learner = make(domain=box)
    described = Forged(learner).header["object"]
    assert NoisyFTRL._header_dimension(described) == dimension
    described["plan"]["mechanism"]["summand"]["kind"] = "second_moments"  # a lie: d (d + 3)/2 sums
    assert NoisyFTRL._header_dimension(described) == dimension * (dimension + 3) // 2
