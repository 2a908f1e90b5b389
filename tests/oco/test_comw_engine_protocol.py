"""The compiled engine of continuous multiplicative weights: edge cases, protocol, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oco import comw_reference as reference
from tests.oco.comw_reference import anchored, ball, engine, interval, linear

from dpoco import _core

RNG = np.random.default_rng(5)


# ---- constants, zero losses, short runs ----------------------------------------------------------


def box_at(centre, d=1):
    return _core.Box(np.full(d, centre - 1.0), np.full(d, centre + 1.0))


@pytest.mark.parametrize("coupling", ["density_ratio", "dartboard", "anchored", "scheduled"])
def test_constants_do_not_matter(coupling):
    """A domain moved away from 0 adds a constant to every linear loss: the same run, moved."""
    rounds = 300
    x = RNG.uniform(-1, 1, size=(rounds, 1))
    settings = anchored(
        rounds, coupling=coupling, factor_range=2.0, forced_switch=0.05, inverse_temperature=0.1,
        regularization=10.0, clip_high=0.5, clip_low=0.5,
    )  # fmt: skip
    if coupling == "scheduled":
        settings["forced_switch"] = 1.0
    here = reference.play(engine(box_at(0.0), linear(), **settings), x)
    there = reference.play(engine(box_at(1024.0), linear(), **settings), x)
    assert np.array_equal(here.changed, there.changed)
    assert here.changed.sum() > 5
    np.testing.assert_allclose(there.decisions - 1024.0, here.decisions, atol=1e-10)


def test_zero_losses_are_always_kept_by_the_dartboard():
    learner = engine(
        interval(), linear(), coupling="dartboard", rounds=100, forced_switch=0.0, factor_range=2.0
    )
    out = reference.play(learner, np.zeros((100, 1)))
    assert learner.switches == 0
    assert not out.changed.any()
    assert np.ptp(out.decisions) == 0.0
    assert learner.nonprivate_log_factor() == 0.0


def test_released_points_lie_on_a_grid_inside_the_domain():
    beta, lam = 0.3, 7.0
    learner = engine(
        interval(1.0, 2), linear(2), coupling="scheduled", rounds=200, forced_switch=1.0,
        inverse_temperature=beta, regularization=lam,
    )  # fmt: skip
    grid = 2.0 ** (np.floor(np.log2(1.0 / np.sqrt(beta * lam))) - 12)
    for t in range(200):
        x, u = learner.decision(), learner.nonprivate_point()
        assert np.array_equal(x / grid, np.round(x / grid))
        assert np.all(np.abs(x) <= 1.0)
        assert np.all(np.abs(x - u) <= 0.5 * grid)
        learner.observe_gradient(t, np.array([1.0, 0.3]))


@pytest.mark.parametrize("domain", [ball(3), _core.LpBall(3, 1.5, 1.0), _core.Simplex(3, 2.0)])
def test_released_points_lie_in_the_domain(domain):
    learner = engine(
        domain, linear(3), coupling="scheduled", rounds=60, forced_switch=1.0,
        inverse_temperature=3.0, regularization=0.01,
    )  # fmt: skip
    out = reference.play(learner, np.tile([1.0, 0.2, 0.0], (60, 1)))
    assert all(domain.contains(x, 1e-12) for x in out.decisions)
    assert out.decisions[-1][0] < out.decisions[0][0]


# ---- protocol ------------------------------------------------------------------------------------


# ---- custom losses -------------------------------------------------------------------------------


class Square:
    def __init__(self, at, weight=0.1):
        self.at, self.weight = at, weight

    def value(self, x):
        return self.weight * float((x[0] - self.at) ** 2)

    def gradient(self, x):
        return 2.0 * self.weight * (x - self.at)

    def hessian(self, x):
        return np.full((1, 1), 2.0 * self.weight)


def custom(rounds=20, **settings):
    return engine(
        interval(), {"kind": "custom", "unbounded": False}, rounds=rounds,
        **{"coupling": "dartboard", "factor_range": 5.0, **settings},
    )  # fmt: skip


def test_custom_losses_follow_the_same_rule():
    learner = custom(inverse_temperature=0.5)
    for t in range(12):
        u = learner.nonprivate_point()[0]
        learner.observe_custom(t, Square(0.3))
        # The lower bound is the tangent's at the centre: .1 (.09) - .06.
        want = -0.5 * (0.1 * (u - 0.3) ** 2 - (0.009 - 0.06))
        assert learner.nonprivate_log_factor() == pytest.approx(want, abs=1e-12)
