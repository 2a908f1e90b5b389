"""The noisy leader's order of calls, bad input and bounds."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.forged import Forged
from tests.frank_wolfe import test_protocol
from tests.frank_wolfe.test_protocol import stream

import dpoco
from dpoco.domains import Box, LpBall, Simplex
from dpoco.oco import NoisyFTRL

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

X1 = np.array([0.1, 0.2, 0.3])
make = functools.partial(test_protocol.make, kind=NoisyFTRL)


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
