"""Accounting of the batched share: prior, moments, bounds, schedules and guarantees."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy
from tests.descriptions import changed

import dpoco
from dpoco import Budget
from dpoco.accounting import batch_share
from dpoco.accounting import batch_share as bounds
from dpoco.accounting.batch_share import (
    ShareTuning,
    best_share_rate,
    calibrate,
    guarantee,
    log_class_size,
    regret,
    share_log_prior,
)
from dpoco.accounting.gaussian import gaussian_delta
from dpoco.accounting.plan import Forecast
from dpoco.privacy.mechanisms.batch_release import movement
from dpoco.published import asi_tracking

MIXED = Budget(1.0, 1e-6)


@pytest.mark.parametrize("law", ["knorm", "laplace"])
def test_the_least_noise_of_a_pure_epsilon_is_never_too_small(law):
    """Exactly: a quotient that is rounded to nearest is too small every other time."""
    too_small = 0
    for epsilon in (Fraction(k, 10) for k in range(1, 60)):
        scale = bounds.noise_scale(5, law, Budget(float(epsilon), 0.0))
        moved = Fraction(movement(law, 5))
        assert moved / Fraction(scale) <= Fraction(float(epsilon))
        less = math.nextafter(scale, 0.0)
        too_small += movement(law, 5) / less <= float(epsilon) < moved / Fraction(less)
    assert too_small > 5  # cases in which the rounded quotient would have taken less


def test_scales_of_the_noises():
    for n, epsilon, delta, unit in [
        (10, 1.0, 1e-6, 4.2246789),
        (4, 0.3, 1e-6, 12.992383),
        (2, 4.0, 1e-6, 1.1935186),
        (8, 1.0, 1e-5, 3.7306316),
        (6, 0.5, 1e-8, 9.8635338),
    ]:
        scale = batch_share.noise_scale(n, "gaussian", Budget(epsilon, delta))
        assert scale / math.sqrt(n) == pytest.approx(unit, rel=1e-7)
    assert batch_share.noise_scale(10, "knorm", MIXED) == 1.0
    assert batch_share.noise_scale(10, "laplace", MIXED) == 10.0
    for epsilon in (0.1, 0.3, 0.7, 1.1, 3.0, 49.0):  # never a rounding below what is needed
        for noise in ("knorm", "laplace"):
            budget = Budget(epsilon, 0.0)
            found = guarantee(calibrate(3, horizon=50, budget=budget, noise=noise, batch=1))
            assert 0.999999 * epsilon < found.epsilon <= epsilon
            found.require(Budget(epsilon, 0.0))


def test_the_centred_sensitivity_is_the_largest_norm():
    for n in range(1, 9):
        rows = np.array(list(itertools.product([-1.0, 0.3, 1.0], repeat=n)))
        centred = rows - rows.mean(axis=1, keepdims=True)
        largest = np.linalg.norm(centred, axis=1).max()
        assert largest <= movement("gaussian", n) * (1 + 1e-15) + 1e-15
        assert movement("gaussian", n) == pytest.approx(largest, rel=1.1e-9, abs=1e-12)
    assert movement("gaussian", 3) == pytest.approx(1.633, abs=5e-4)


def test_moments_of_the_cube_noise():
    assert bounds.Noise("knorm", 1.0, 10).log_moment(0.05) == pytest.approx(0.0547431874, abs=1e-10)
    assert bounds.Noise("knorm", 1.0, 10).log_moment(0.1) == pytest.approx(0.2160902155, abs=1e-10)
    assert bounds.Noise("knorm", 1.0, 10).variance == 44.0
    with mpmath.workdps(60):
        for n in (1, 2, 10, 1000, 10**6):
            for x in (1e-12, 1e-7, 1e-3, 0.04999, 0.0500001, 0.3, 0.9, 1 - 1e-9):
                y = mpmath.mpf(x)
                exact = mpmath.log(((1 - y) ** -n - (1 + y) ** -n) / (2 * y * n))
                got = bounds.Noise("knorm", 2.0, n).log_moment(0.5 * x)
                assert got == pytest.approx(float(exact), rel=1e-10)
    assert bounds.Noise("knorm", 1.0, 1).log_moment(0.3) == pytest.approx(
        bounds.Noise("laplace", 1.0, 1).log_moment(0.3), rel=1e-13
    )
    assert bounds.Noise("knorm", 1.0, 3).log_moment(1.0) == math.inf
    # By its definition: a uniform coordinate of a cube whose radius is Gamma(N + 1).
    value, _ = scipy.integrate.quad(
        lambda r: scipy.stats.gamma.pdf(r, 5.0) * math.sinh(0.3 * r) / (0.3 * r), 0, 200
    )
    assert bounds.Noise("knorm", 1.0, 4).log_moment(0.3) == pytest.approx(math.log(value), rel=1e-8)


def test_published_examples_of_the_bound():
    common = (100_000, 5)
    schedule = bounds.Schedule(16, 0.012644511657, 5 / 6249)
    knorm = bounds.bound_regret(bounds.Noise("knorm", 1.0, 10), *common, schedule)
    assert knorm.oblivious == pytest.approx(8572.909, abs=1e-3)
    assert knorm.adaptive == pytest.approx(13929.18, abs=1e-2)
    assert sum(knorm.terms.values()) == pytest.approx(knorm.oblivious, rel=1e-12)
    assert sum(knorm.terms_for("adaptive").values()) == pytest.approx(knorm.adaptive, rel=1e-12)
    scale = batch_share.noise_scale(10, "gaussian", MIXED)
    schedule = bounds.Schedule(32, 0.008622446459, 5 / 3124)
    gauss = bounds.bound_regret(bounds.Noise("gaussian", scale, 10), *common, schedule)
    assert gauss.oblivious == pytest.approx(11787.095, abs=1e-3)


TABLE = {  # (N, S, epsilon) at T = 1e5: knorm, Gaussian, each oblivious and adaptive
    (2, 5, 1.0): (4405, 6830, 7218, 11078),
    (10, 5, 1.0): (8573, 13381, 11787, 18403),
    (10, 5, 4.0): (4543, 7103, 6608, 10352),
    (100, 5, 1.0): (26377, 41380, 22684, 35681),
    (10, 0, 1.0): (1763, 2817, 2494, 3999),
}


@pytest.mark.parametrize("row", TABLE)
def test_schedules_reach_the_table(row):
    n, switches, epsilon = row
    cases = itertools.product(("knorm", "gaussian"), ("oblivious", "adaptive"))
    for want, (noise, adversary) in zip(TABLE[row], cases, strict=True):
        found = calibrate(
            n, horizon=100_000, budget=Budget(epsilon, 1e-6), switches=switches, noise=noise,
            adversary=adversary,
        )  # fmt: skip
        assert 0.97 * want < found.forecast.regret_bound <= 1.005 * want
        assert found.forecast.regret_scope == adversary
        assert guarantee(found).regret_bound == found.forecast.regret_bound
    # "auto" is the smaller of the two.
    for adversary, column in (("oblivious", 0), ("adaptive", 1)):
        auto = calibrate(
            n, horizon=100_000, budget=Budget(epsilon, 1e-6), switches=switches,
            adversary=adversary,
        )  # fmt: skip
        knorm, gauss = TABLE[row][column], TABLE[row][2 + column]
        assert auto.mechanism.law == ("knorm" if knorm < gauss else "gaussian")


def test_schedules_are_optimal():
    for noise, adversary in itertools.product(("knorm", "gaussian"), ("oblivious", "adaptive")):
        law = bounds.Noise(noise, 1.3, 4)
        best = math.inf
        for batch in range(1, 100):
            sigma = best_share_rate(4, -(-300 // batch), 2)

            def value(log_rate, law=law, batch=batch, sigma=sigma, adversary=adversary):
                schedule = bounds.Schedule(batch, math.exp(log_rate), sigma)
                return min(bounds.bound_regret(law, 300, 2, schedule).bound(adversary), 1e9)

            found = scipy.optimize.minimize_scalar(value, bounds=(-8.0, 1.0), method="bounded",
                                             options={"xatol": 1e-7})  # fmt: skip
            best = min(best, found.fun)
        least, schedule = bounds.search(law, 300, 2, adversary)
        assert least == bounds.bound_regret(law, 300, 2, schedule).bound(adversary) <= best * 1.002
    fixed = calibrate(
        4, horizon=300, budget=Budget(1.0, 0.0), batch=7, learning_rate=0.1, share_rate=0.2
    )
    own = fixed.tuning
    assert (own.batch, own.learning_rate, own.share_rate) == (7, 0.1, 0.2)
    wild = calibrate(4, horizon=300, budget=Budget(1.0, 0.0), learning_rate=2.0)
    assert wild.forecast.regret_bound == math.inf  # past the moments of the noise
    assert regret(wild, 300).terms == {}


def test_pure_guarantees():
    for noise in ("knorm", "laplace", "auto"):
        p = calibrate(6, horizon=1000, budget=Budget(0.7, 0.0), switches=1, noise=noise)
        found = guarantee(p)
        assert found.epsilon == pytest.approx(0.7, rel=1e-12)
        assert found.delta == 0.0
        assert found.truncation_mass == 0.0
        assert found.certified
        assert found.delta_at(0.7) == 0.0
        assert found.change == "replace"


@pytest.mark.parametrize("n", [2, 3, 200])
def test_gaussian_guarantees_pay_for_one_truncated_release(n):
    common = {"horizon": 10**9, "budget": MIXED, "noise": "gaussian", "switches": 3}
    p = calibrate(n, numerics="float", **common)
    exact = guarantee(calibrate(n, numerics="auto", **common), budget=MIXED)
    found = guarantee(p, budget=MIXED)
    assert exact.truncation_mass == n * 2.0**-100
    assert exact.epsilon <= found.epsilon
    assert found.truncation_mass == n * 2.0**-64  # however long the stream
    assert found.mu == pytest.approx(movement("gaussian", n) / p.mechanism.scale)
    assert found.epsilon == pytest.approx(1.0, rel=1e-9)
    want = gaussian_delta(1.0, found.mu) + (1 + math.e) * n * 2.0**-64
    assert found.delta_at(1.0) == pytest.approx(want, rel=1e-9)
    found.require(MIXED)
    with pytest.raises(dpoco.BudgetExceeded):
        found.require(Budget(0.9, 1e-6))
    with pytest.raises(dpoco.CalibrationError):
        calibrate(n, horizon=100, budget=Budget(1.0, 1e-19), noise="gaussian")
    assert calibrate(n, horizon=100, budget=Budget(1.0, 1e-19), batch=1).mechanism.law == "knorm"


def test_the_paper_claims_n_times_too_little():
    p = asi_tracking.batch_share(10, horizon=10_000, budget=Budget(1.0, 0.0), switches=5)
    found = guarantee(p)
    assert found.epsilon == 10.0
    assert found.claimed == (1.0, 0.0)
    assert any("AS PRINTED" in text and "10 times" in text for text in found.conditions)
    assert found.regret_bound is None
    assert p.mechanism.scale == 1.0
    assert p.tuning.learning_rate == pytest.approx(math.sqrt(5 / (10_000 * math.log(100_000))))
    assert p.tuning.floor == pytest.approx(5 / 100_000)
    with pytest.raises(dpoco.BudgetExceeded):
        found.require(Budget(1.0, 0.0))


def test_where_nothing_depends_on_data_epsilon_is_zero():
    for n, horizon, batch in [(1, 100, 3), (4, 1, None), (4, 10, 10), (4, 10, 12)]:
        for noise in ("knorm", "gaussian"):
            p = calibrate(n, horizon=horizon, budget=MIXED, noise=noise, batch=batch)
            assert guarantee(p).epsilon == guarantee(p).delta == 0.0
    p = calibrate(4, horizon=11, budget=Budget(1.0, 0.0), batch=10)
    assert guarantee(p).epsilon == 1.0


def test_without_noise_nothing_is_promised():
    p = calibrate(10, horizon=100_000, budget=None, switches=5)
    found = guarantee(p)
    assert math.isinf(found.epsilon)
    assert p.tuning.batch == 1
    assert p.tuning.share_rate == 5 / 99_999
    prior = share_log_prior(10, 100_000, 5, p.tuning.share_rate)
    assert found.regret_bound == pytest.approx(math.sqrt(prior * 100_000 / 2), rel=1e-9)
    assert regret(p, 100_000).terms.keys() == {"prior", "learning"}


def test_parameters_are_checked():
    p = calibrate(10, horizon=1000, budget=MIXED, switches=2)
    record = p.to_dict()
    for part, changes in (
        ("mechanism", {"law": "none"}),
        ("mechanism", {"scale": -1.0}),
        ("tuning", {"share_rate": 0.95}),
        ("tuning", {"share_rate": 1e-200}),
        ("tuning", {"floor": 0.01}),
    ):
        with pytest.raises((ValueError, TypeError)):
            changed(p, **changes)
        wrong = {**record, part: {**record[part], **changes}}
        with pytest.raises(dpoco.StateError):
            dpoco.Plan.from_dict(wrong, ShareTuning, Forecast)


def test_class_sizes_are_counts():
    for n, t, s in [(3, 6, 2), (2, 7, 3), (4, 5, 1), (3, 5, 0), (3, 5, 9), (2, 1, 3), (1, 4, 2)]:
        count = sum(
            sum(a != b for a, b in itertools.pairwise(path)) <= s
            for path in itertools.product(range(n), repeat=t)
        )
        assert log_class_size(n, t, s) == pytest.approx(math.log(count), abs=1e-12)
    assert log_class_size(3, 6, 2) == pytest.approx(5.030437921, abs=1e-9)
    assert log_class_size(10, 100_000, 5) == pytest.approx(66.06570, abs=5e-6)
    for n, t, s in [(10, 3000, 40), (2, 3000, 1499), (7, 3000, 2999), (1000, 3000, 2)]:
        count = n * sum(math.comb(t - 1, c) * (n - 1) ** c for c in range(s + 1))
        assert log_class_size(n, t, s) == pytest.approx(float(mpmath.log(count)), rel=1e-12)
    # All sequences: where a million terms are too few, the others are bounded and not dropped.
    for n, t in [(2, 10**12), (3, 10**12), (2, 10**11)]:
        exact = t * math.log(n)
        assert exact <= log_class_size(n, t, t) <= exact + 0.05


def test_the_prior_is_a_law_on_sequences():
    for n, t, sigma in [(3, 5, 0.2), (2, 6, 0.5), (4, 4, 0.75)]:
        mass = sum(
            math.exp(
                -share_log_prior(n, t, sum(a != b for a, b in itertools.pairwise(path)), sigma)
            )
            for path in itertools.product(range(n), repeat=t)
        )
        assert mass == pytest.approx(1.0, abs=1e-12)
    assert share_log_prior(10, 100_000, 5, 5 / 99_999) == pytest.approx(67.80597, abs=5e-6)
    assert share_log_prior(1, 9, 3, 0.0) == 0.0
    assert share_log_prior(7, 9, 0, 0.0) == pytest.approx(math.log(7))
    assert share_log_prior(7, 9, 1, 0.0) == math.inf
    assert share_log_prior(7, 1, 4, 0.0) == pytest.approx(math.log(7))
    assert share_log_prior(7, 3, 4, 0.2) == share_log_prior(7, 3, 2, 0.2)
    # The closed form of the best rate; fewer switches never cost more.
    for n, t, s in [(10, 50, 3), (2, 9, 8), (4, 9, 5)]:
        best = best_share_rate(n, t, s)
        costs = [share_log_prior(n, t, s, x) for x in np.linspace(1e-6, 1 - 1 / n, 4001)]
        assert share_log_prior(n, t, s, best) <= min(costs) + 1e-12
        fewer = [share_log_prior(n, t, k, best) for k in range(s + 1)]
        assert np.all(np.diff(fewer) >= -1e-12)
