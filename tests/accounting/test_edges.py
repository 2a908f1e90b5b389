"""Edges and constants that no other test would miss: each line here once survived a mutation."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.descriptions import changed

import dpoco
from dpoco.accounting import Budget, Guarantee, above_threshold, gaussian, noisy_max
from dpoco.accounting.rdp import DEFAULT_ORDERS, rdp_delta
from dpoco.errors import CalibrationError
from dpoco.privacy.losses.decaying import _pure_moment


def test_renyi_bounds_that_say_nothing_say_so():
    """A bound above 1 is 1, never less."""
    assert rdp_delta([2.0], [50.0], 0.0) == 1.0
    assert rdp_delta([1.5, 8.0], [math.inf, math.inf], 3.0) == 1.0


def test_default_orders_reach_from_near_one_to_thousands():
    assert DEFAULT_ORDERS[0] == 1.0 + 2.0**-8
    assert DEFAULT_ORDERS[-1] == 1.0 + 2.0**12
    ratios = np.diff(np.log(np.array(DEFAULT_ORDERS) - 1.0))
    assert np.allclose(ratios, math.log(2.0) / 8.0)


def test_what_spends_nothing_is_a_guarantee():
    nothing = dataclasses.replace(Guarantee.none(3), epsilon=0.0, delta=0.0)
    assert nothing.private
    assert nothing.delta_at(0.0) == 0.0
    assert nothing.epsilon_at(0.0) == 0.0
    with pytest.raises(ValueError, match="epsilon"):
        dataclasses.replace(nothing, epsilon=-1e-300)


@pytest.mark.parametrize("bound", [1e-100, 1e100])
def test_numbers_that_no_double_holds_are_refused_in_a_sentence(bound):
    ball, loss = dpoco.domains.LpBall(2, radius=1e100), dpoco.losses.SquaredLoss(bound, bound)
    with pytest.raises(CalibrationError, match="doubles cannot hold"):
        dpoco.oco.NoisyFTRL(
            ball, loss, horizon=100, budget=Budget(1.0, 1e-6), statistics="quadratic"
        )


def test_the_largest_of_many_normals():
    """The sharper of two bounds, where it is the sharper one."""
    from dpoco.accounting.gaussian import expected_norm_bound

    n = 10**6
    assert expected_norm_bound(2.0, math.inf, n) <= math.sqrt(2.0 * math.log(2.0 * n))


# ---- the sparse vector ---------------------------------------------------------------------------


@pytest.mark.parametrize(("alarms", "spread"), [(1, None), (5, 1.5), (5, 0.7)])
def test_above_threshold_parameters(alarms, spread):
    """The scales spend the budget, and no other split has less noise."""
    sensitivity = 0.7 if spread == 0.7 else 1.0
    p = above_threshold.calibrate(
        horizon=200, budget=Budget(0.8, 0.0), sensitivity=sensitivity, spread=spread,
        alarms=alarms, false_alarm=0.02,
    )  # fmt: skip
    reach = 2.0 * sensitivity if spread is None else spread
    assert p.mechanism.spread == reach
    first, second = p.mechanism.threshold_scale, p.mechanism.query_scale
    spent = sensitivity / first + alarms * reach / second
    assert above_threshold.guarantee(p).epsilon == pytest.approx(spent, rel=1e-12)
    assert 0.8 * (1 - 1e-9) < spent <= 0.8
    logs = math.log(200 / 0.02)
    assert p.tuning.margin == pytest.approx(second * logs, rel=1e-12)
    assert above_threshold.detection_margin(p, 0.1) == pytest.approx(
        first * math.log(10.0), rel=1e-12
    )
    for share in np.linspace(0.01, 0.99, 99):
        other = sensitivity / (share * 0.8) + logs * alarms * reach / ((1 - share) * 0.8)
        assert first + logs * second <= other * (1 + 1e-9)
    assert above_threshold.guarantee(p).horizon == 200
    endless = above_threshold.calibrate(horizon=None, budget=Budget(0.8, 0.0))
    assert above_threshold.guarantee(endless).horizon == 10**12
    assert endless.tuning.margin > p.tuning.margin / alarms
    for name in ("threshold_scale", "query_scale"):
        open_side = changed(p, **{name: 0.0})
        assert not above_threshold.guarantee(open_side).private


# ---- noisy max -----------------------------------------------------------------------------------


def test_mean_excess_of_noisy_max():
    """Mean of the maximum of n exponential variates, less that of one: H_n - 1."""
    for n in (2, 3, 1000, 1001, 5000):
        exact = math.fsum(1.0 / k for k in range(1, n + 1))
        assert noisy_max.mean_excess(n, "exponential") == pytest.approx(exact - 1.0, rel=1e-7)
        assert noisy_max.mean_excess(n, "exponential") >= (exact - 1.0) * (1 - 1e-13)
        assert noisy_max.mean_excess(n, "laplace") == pytest.approx(exact, rel=1e-7)
        assert noisy_max.mean_excess(n, "gumbel") == pytest.approx(math.log(n), rel=1e-14)
    assert noisy_max.mean_excess(1, "laplace") == 0.0


def test_mean_excess_is_never_below_the_harmonic_number():
    """Exactly: sums of doubles alone were below it for two thirds of these numbers."""
    for n in range(2, 60):
        exact = sum((Fraction(1, k) for k in range(1, n + 1)), Fraction())
        assert exact <= noisy_max.mean_excess(n, "laplace") <= float(exact) * (1.0 + 1e-14)
        assert exact - 1 <= noisy_max.mean_excess(n, "exponential")


def test_noisy_max_spends_its_budget():
    """Neither more nor, by more than a thousandth, less."""
    for noise in ("gumbel", "laplace"):
        for count in (1, 40):
            budget = Budget(1.0, 1e-6)
            p = noisy_max.calibrate(5, horizon=count, budget=budget, noise=noise)
            g = noisy_max.guarantee(p, budget=budget)
            assert g.epsilon <= 1.0
            less = changed(p, scale=p.mechanism.scale * 0.999)
            assert noisy_max.guarantee(less, budget=budget).epsilon > 1.0 or count == 1


def test_gumbel_noise_spends_no_more_than_its_budget():
    rng = np.random.default_rng(3)
    given = zip(10.0 ** rng.uniform(-2, 1.3, 500), 10.0 ** rng.uniform(-10, -4, 500), strict=True)
    # Two that stated epsilon in one of 1,500, by its last digit; a ledger refuses such a guarantee.
    for epsilon, delta in [(4.418963712841488, 1.8952400892704135e-08),
                           (0.9529162674743201, 1e-6), *given]:  # fmt: skip
        budget = dpoco.Budget(float(epsilon), float(delta))
        plan = noisy_max.calibrate(5, budget=budget, noise="gumbel")
        assert noisy_max.guarantee(plan, budget=budget).epsilon <= epsilon


def test_one_candidate_reveals_nothing():
    p = noisy_max.calibrate(1, horizon=4, budget=Budget(1.0, 1e-6))
    assert noisy_max.guarantee(p).epsilon == 0.0
    assert noisy_max.guarantee(noisy_max.calibrate(1, budget=None)).epsilon == 0.0


def test_score_range():
    for one_way, factor in ((True, 1.0), (False, 2.0)):
        p = noisy_max.calibrate(
            3, budget=Budget(0.5, 0.0), sensitivity=0.3, one_directional=one_way
        )
        assert p.mechanism.scores.range == pytest.approx(factor * 0.3)
        assert p.mechanism.scale == pytest.approx(factor * 0.3 / 0.5)


# ---- truncated tails -----------------------------------------------------------------------------


def test_the_charged_inverse_moves_up_until_the_curve_agrees():
    """An ideal inverse that is a shade too small is corrected, by little."""

    def curve(epsilon):
        return 0.0 if epsilon >= 3.0 else 1.0

    found = gaussian.charged_epsilon(lambda delta: 3.0 - 1e-12, curve, 0.1, 1e-9)
    assert 3.0 <= found < 3.0 + 1e-9
    never = gaussian.charged_epsilon(lambda delta: 1.0, lambda epsilon: 1.0, 0.1, 1e-9)
    assert never == math.inf


def test_tails_that_take_all_of_delta_leave_nothing():
    def inverse(delta):
        assert delta > 0.0
        return 0.0

    tails = partial(gaussian.charged_delta, lambda e: 0.0, mass=1e-3)
    assert gaussian.charged_epsilon(inverse, tails, 1.9e-3, 1e-3) == math.inf
    assert gaussian.charged_epsilon(inverse, tails, 2e-3, 1e-3) == 0.0
    assert gaussian.charged_gaussian_delta(1.0, math.inf, 1e-9) == 1.0


# ---- selections of pure privacy ------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2, 0.7, 9.0])
def test_moments_of_randomised_response_are_rounded_up(epsilon):
    orders = np.array([1.004, 1.5, 2.0, 40.0, 4097.0])
    found = _pure_moment(np.full(5, epsilon), orders)
    with mp.workdps(50):
        e = mpf(epsilon)
        keep = 1 / (1 + mp.exp(-e))
        for a, value in zip(orders, found, strict=True):
            t = mpf(float(a)) - 1
            exact = mp.log(keep * mp.exp(t * e) + (1 - keep) * mp.exp(-t * e))
            assert exact <= mpf(float(value)) <= exact + 5e-15 * (2 + t * e)
