"""Guarantees of given parameters: epsilon at delta = 1e-6 computed independently."""

from __future__ import annotations

import dataclasses

import pytest

from dpoco.accounting import Budget
from dpoco.accounting import continuous_multiplicative_weights as comw
from dpoco.accounting import coupled_regularized_leader as ctrl
from dpoco.domains import LpBall
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss

DELTA = 1e-6


def gibbs(**changes):
    """T = 1e5, G = 1, D = 2, beta = .002, lam = 500: mu of a draw .004."""
    domain, loss = LpBall(3, 2.0, 1.0), LinearLoss(1.0)
    base = comw.calibrate(
        domain, loss, horizon=10**5, budget=Budget(1.0, DELTA), coupling="density_ratio"
    )
    p = dataclasses.replace(base, inverse_temperature=0.002, regularization=500.0, **changes)
    return comw.guarantee(domain, loss, p, budget=DELTA)


@pytest.mark.parametrize(
    ("epsilon", "changes"),
    [
        (1.3492635, {"coupling": "density_ratio", "block": 1, "forced_switch": 0.03,
                     "clip_high": 0.009, "clip_low": 0.009, "max_switches": 4000}),
        (0.94063231, {"coupling": "density_ratio", "block": 10, "forced_switch": 0.2,
                      "clip_high": 0.009, "clip_low": 0.009, "max_switches": 3000}),
        (1.5752726, {"coupling": "anchored", "block": 1, "forced_switch": 0.03, "anchors": 16,
                     "clip_high": 0.015, "clip_low": 0.015, "max_switches": 4000}),
        (1.0831479, {"coupling": "dartboard", "block": 1, "forced_switch": 0.03,
                     "factor_range": 2.0, "clip_high": 0.0, "clip_low": 0.0,
                     "max_switches": 4000}),
        (0.51001899, {"coupling": "scheduled", "block": 100, "forced_switch": 1.0,
                      "clip_high": 0.0, "clip_low": 0.0, "max_switches": 999}),
    ],
)  # fmt: skip
def test_gibbs_oracles(epsilon, changes):
    guarantee = gibbs(**changes)
    assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert guarantee.details["draw_mu"] == pytest.approx(0.004)
    assert (guarantee.mu is None) == (changes["forced_switch"] < 1.0)


def leader(loss, **changes):
    """T = 1e5, sigma = 600, p = .05, lowest factor e^-.03, cap 6000, d = 5."""
    domain = LpBall(5, 2.0, 1.0)
    horizon = changes.pop("horizon", 10**5)
    base = ctrl.calibrate(
        domain, loss, horizon=horizon, budget=Budget(1.0, DELTA), coupling="density_ratio"
    )
    settings = {
        "step_size": 1e-3, "noise_scale": 600.0, "block": 1, "forced_switch": 0.05,
        "clip_high": 0.015, "clip_low": 0.015, "max_switches": 6000, **changes,
    }  # fmt: skip
    p = dataclasses.replace(base, **settings)
    return ctrl.guarantee(domain, loss, p, budget=DELTA)


def test_leader_oracles():
    assert leader(LinearLoss(1.0)).epsilon == pytest.approx(1.3904589, rel=1e-6)
    general = leader(CustomLoss(1.0, 1.0))
    assert 1.7161680 * (1 - 1e-6) <= general.epsilon <= 1.7161680 * 1.001
    rank_one = leader(HuberLoss(1.0, 10.0))
    assert 1.5776994 * (1 - 1e-6) <= rank_one.epsilon <= 1.5776994 * 1.001
    scheduled = leader(
        CustomLoss(1.0, 1.0), horizon=10**4, coupling="scheduled", block=16, noise_scale=250.0,
        forced_switch=1.0, clip_high=0.0, clip_low=0.0, max_switches=624,
    )  # fmt: skip
    assert 0.93660016 * (1 - 1e-6) <= scheduled.epsilon <= 0.93660016 * 1.001


def test_halving_the_sensitivity_is_halving_the_draws():
    ratio = {"coupling": "scheduled", "block": 100, "forced_switch": 1.0, "clip_high": 0.0,
             "clip_low": 0.0, "max_switches": 999}  # fmt: skip
    replaced, zeroed = gibbs(**ratio), gibbs(**ratio, relation="zero_out")
    assert replaced.mu == pytest.approx(2.0 * zeroed.mu)
    assert zeroed.sensitivity == 1.0
    assert zeroed.paper_epsilon is None
    assert replaced.paper_epsilon > replaced.epsilon


def test_inexact_draws_are_charged():
    ratio = {"coupling": "scheduled", "block": 100, "forced_switch": 1.0, "clip_high": 0.0,
             "clip_low": 0.0, "max_switches": 999}  # fmt: skip
    exact = gibbs(**ratio)
    rough = gibbs(**ratio, sampler="mcmc", sampler_tolerance=1e-10)
    assert rough.truncation_mass == pytest.approx(999e-10, rel=0.01)
    extra = rough.delta_at(0.5) - exact.delta_at(0.5)
    assert extra == pytest.approx((1.0 + 2.718281828459045**0.5) * 999e-10, rel=0.01)
    assert not rough.certified


def test_constants_that_nobody_checks_are_not_certified():
    ball = LpBall(2, 2.0, 1.0)
    budget = Budget(1.0, DELTA)
    for module in (ctrl, comw):
        for loss, certified in ((CustomLoss(1.0, 1.0), False), (LinearLoss(1.0), True)):
            p = module.calibrate(ball, loss, horizon=10**4, budget=budget, coupling="scheduled")
            if module is comw and loss == CustomLoss(1.0, 1.0):
                p = dataclasses.replace(p, sampler="exact", sampler_tolerance=0.0)
            assert module.guarantee(ball, loss, p, budget=budget).certified is certified


def test_parameters_the_engine_refuses_have_no_guarantee():
    anchored = {"coupling": "anchored", "block": 1, "forced_switch": 0.03, "anchors": 16,
                "max_switches": 4000}  # fmt: skip
    assert gibbs(**anchored, clip_high=0.015, clip_low=0.015).private
    for high, low in ((0.015, 0.01), (0.0, 0.015), (0.0, 0.0)):
        with pytest.raises(ValueError, match="one positive width"):
            gibbs(**anchored, clip_high=high, clip_low=low)
    for cap in (2**64, 10**30):
        with pytest.raises(ValueError, match="max_switches"):
            gibbs(coupling="scheduled", forced_switch=1.0, clip_high=0.0, clip_low=0.0,
                  max_switches=cap)  # fmt: skip


def test_the_rounding_of_normalisers_is_charged():
    window = {"coupling": "density_ratio", "block": 4, "forced_switch": 0.2, "clip_high": 0.009,
              "clip_low": 0.009, "max_switches": 3000}  # fmt: skip

    def shift(horizon, radius):
        domain, loss = LpBall(3, 2.0, radius), LinearLoss(1.0)
        base = comw.calibrate(
            domain, loss, horizon=horizon, budget=Budget(1.0, DELTA), coupling="density_ratio"
        )
        p = dataclasses.replace(base, inverse_temperature=1e-4, regularization=1e6, **window)
        return comw.guarantee(domain, loss, p, budget=DELTA).profile["shift"]

    exact = 4 * 2e-10  # block times 2 g^2
    assert shift(10**5, 1.0) == pytest.approx(exact, rel=1e-4)
    # At 1e9 rounds the log masses reach g^2 T^2 / 2 = 5e7, good to about 1e-8.
    assert 2e-8 < shift(10**9, 1.0) < 1e-6
