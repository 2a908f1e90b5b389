"""The sampled Gaussian mechanism: brute force, a second accountant, limits, planted mistakes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

import dpoco
from dpoco.accounting import noisy_sgd as accountant
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpoco.privacy.losses import sampled as loss
from dpoco.privacy.losses import sampled as transform
from dpoco.privacy.losses.sampled import Sampled
from dpoco.privacy.losses.sampled_step import sampled_step
from dpoco.privacy.losses.sampled_sum import composed_delta

GRID = np.arange(-14.0, 14.0, 0.02)


def densities(rate, a, b, sigma):
    """Density of one step: the changed record's vector b with probability `rate`, else a."""
    return (1 - rate) * norm.pdf(GRID, a, sigma) + rate * norm.pdf(GRID, b, sigma)


def brute_delta(epsilon, steps, rate, sigma):
    """Exact delta of steps given as (a, b, b'): vectors of the others and of the changed record."""
    p, q = np.ones(1), np.ones(1)
    for a, b, changed in steps:
        p = np.multiply.outer(p, densities(rate, a, b, sigma)).ravel() * 0.02
        q = np.multiply.outer(q, densities(rate, a, changed, sigma)).ravel() * 0.02
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


# All vectors are in [-1, 1]: two of them are at most 2 apart.
ATTACKS = {
    "remove twice": [(-1.0, 1.0, -1.0)] * 2,
    "add twice": [(1.0, 1.0, -1.0)] * 2,
    "one of each": [(-1.0, 1.0, -1.0), (1.0, 1.0, -1.0)],
    "across the middle": [(0.0, 1.0, -1.0)] * 2,
    "mixed": [(-1.0, 1.0, -1.0), (0.0, 1.0, -1.0)],
}


@pytest.mark.parametrize("sigma", [1.0, 2.5])
@pytest.mark.parametrize("records", [2, 5])
def test_no_attack_on_two_steps_beats_the_bound(records, sigma):
    slack = []
    for epsilon in (0.0, 0.05, 0.3, 1.0):
        bound = Sampled(records=records, multiplier=sigma / 2.0, steps=2).delta(epsilon)
        found = [brute_delta(epsilon, s, 1 / records, sigma) for s in ATTACKS.values()]
        assert max(found) <= bound * (1 + 1e-6) + 1e-9
        slack.append(max(found) / bound)
    assert min(slack) > 0.8  # not much is given away
    # The sensitivity of a norm instead of a difference, or half the sampling rate, would be wrong.
    worst = brute_delta(0.05, ATTACKS["remove twice"], 1 / records, sigma)
    for wrong in ({"records": records, "multiplier": sigma}, {"records": 2 * records,
                  "multiplier": sigma / 2.0}):  # fmt: skip
        assert Sampled(steps=2, **wrong).delta(0.05) < worst


def test_one_step_is_the_closed_form():
    for n, multiplier in ((3, 0.7), (100, 1.5)):
        for epsilon in (0.0, 0.01, 0.5, 2.0):
            inner = math.log1p(math.expm1(epsilon) * n)
            exact = gaussian_delta(inner, 1 / multiplier) / n
            got = Sampled(records=n, multiplier=multiplier, steps=1).delta(epsilon)
            assert exact * (1 - 1e-9) <= got <= exact * 1.002 + 1e-13


@pytest.mark.parametrize(("n", "k", "multiplier"), [(100, 2000, 1.0), (1000, 10**6, 3.717)])
def test_it_is_above_both_directions_of_another_accountant_and_not_far(n, k, multiplier):
    from dp_accounting.pld import privacy_loss_distribution

    both = privacy_loss_distribution.from_gaussian_mechanism(
        multiplier, sampling_prob=1 / n, use_connect_dots=True,
        value_discretization_interval=5e-5,
    ).self_compose(k)  # fmt: skip
    delta = 1e-3
    one_way = both.get_epsilon_for_delta(delta)
    got = Sampled(records=n, multiplier=multiplier, steps=k).epsilon(delta)
    # Removing only, or adding only, in all steps: what replacing costs besides is up to a third.
    assert one_way * (1 - 2e-3) <= got <= 1.33 * one_way


@pytest.mark.parametrize("n", [1000, 3000])
def test_the_published_noise_agrees_with_the_central_limit(n):
    # Dong, Roth and Su, Corollary 5.4: both directions in every step, K = n^2.
    delta, mu = 1 / n, 1 / math.sqrt(2 * math.log(n))
    limit = math.sqrt(2.0) * math.sqrt(
        math.exp(mu**2) * norm.cdf(1.5 * mu) + 3 * norm.cdf(-0.5 * mu) - 2
    )
    got = Sampled(records=n, multiplier=1 / mu, steps=n * n).epsilon(delta)
    assert got == pytest.approx(gaussian_epsilon(limit, delta), rel=0.01)
    assert 0.7 < got < 0.85  # of the 1 that is claimed


@pytest.mark.parametrize(
    ("n", "k", "epsilon", "delta"),
    [(1000, 10**6, 1.0, 1e-3), (2000, 10**5, 0.5, 1e-5), (50, 20, 2.0, 1e-6), (1, 7, 1.0, 1e-5)],
)
def test_calibration_is_tight_and_never_over(n, k, epsilon, delta):
    multiplier = accountant.sampled_gaussian_multiplier(epsilon, delta, records=n, steps=k)

    def spent(factor):
        return Sampled(records=n, multiplier=factor * multiplier, steps=k).delta(epsilon)

    assert spent(1.0) <= delta
    assert spent(0.999) > delta
    at = Sampled(records=n, multiplier=multiplier, steps=k).epsilon(delta)
    assert at == pytest.approx(epsilon, rel=1e-3)
    assert at <= epsilon * (1 + 1e-8)


def test_a_single_record_or_no_secrecy_is_plain_composition():
    for epsilon in (0.0, 1.0):
        got = Sampled(records=1, multiplier=2.0, steps=9).delta(epsilon)
        assert got == gaussian_delta(epsilon, 1.5)
        many = Sampled(records=4, multiplier=2.0, steps=9).delta(epsilon)
        assert many < got


@pytest.mark.parametrize(("n", "k", "epsilon", "delta"), [(10**5, 10**10, 1.0, 1e-6),
                         (10**6, 10**12, 0.3, 1e-8), (10**6, 10**12, 2.0, 1e-30)])  # fmt: skip
def test_many_steps_are_calibrated_with_little_work(work, n, k, epsilon, delta):
    accountant.sampled_gaussian_multiplier.cache_clear()
    multiplier, done = work(
        lambda: accountant.sampled_gaussian_multiplier(epsilon, delta, records=n, steps=k)
    )
    assert done < 2_000_000  # entries; grids of 2^20 cells at every try would be far more
    at = Sampled(records=n, multiplier=multiplier, steps=k).epsilon(delta)
    assert 0.999 * epsilon < at <= epsilon * (1 + 1e-8)
    if delta > 1e-10:  # in the central limit
        mu = 1 / multiplier
        clt = (
            math.sqrt(2.0)
            * math.sqrt(k)
            / n
            * math.sqrt(math.exp(mu**2) * norm.cdf(1.5 * mu) + 3 * norm.cdf(-0.5 * mu) - 2)
        )
        assert clt == pytest.approx(gaussian_mu(epsilon, delta), rel=2e-3)


@pytest.mark.parametrize(("n", "k", "multiplier"), [(50, 3000, 1.2), (300, 30_000, 0.8)])
def test_fourier_sums_and_transforms_agree(n, k, multiplier):
    step = sampled_step(n, 1 / multiplier, k)
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        bound, unknown = composed_delta(epsilon, step, k)
        other = transform.transformed_delta(epsilon, n, multiplier, k)
        assert bound == pytest.approx(other, rel=0.01)
        assert bound - unknown <= other * (1 + 1e-3)
        # It is no accident of the period or of the tilt: both are free.
        assert 0.0 <= unknown < 0.01 * bound


def quadrature(order, rate, mu, way):
    """Renyi divergence of one step, adding or removing, by brute force."""
    from scipy.integrate import quad

    def integrand(x):
        ratio = 1 + rate * math.expm1(mu * x - mu * mu / 2)
        power = order if way == "remove" else 1 - order
        return math.exp(norm.logpdf(x) + power * math.log(ratio))

    value = quad(integrand, -12, 12 + order * mu, epsabs=0, epsrel=1e-11, limit=400)[0]
    return math.log(value) / (order - 1)


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.003])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_renyi_divergences_are_above_both_ways_by_quadrature(rate, mu):
    orders = [1.25, 2.0, 3.5, 8.0] + [20.0] * (mu < 2.0)
    got = Sampled(records=round(1 / rate), multiplier=1 / mu, steps=1).renyi(np.asarray(orders))
    for order, value in zip(orders, got, strict=True):
        ways = [quadrature(order, 1 / round(1 / rate), mu, way) for way in ("remove", "add")]
        assert max(ways) <= value * (1 + 1e-9)
        # Taking turns costs at most the sum of what both ways cost.
        assert value <= 1.01 * sum(ways)
        # An integer order by the binomial theorem: removing.
        if order == 8.0:
            q = 1 / round(1 / rate)
            terms = [math.comb(8, j) * (1 - q) ** (8 - j) * q**j * math.exp(mu**2 * j * (j - 1) / 2)
                     for j in range(9)]  # fmt: skip
            assert math.log(sum(terms)) / 7 == pytest.approx(ways[0], rel=1e-6)


def test_one_steps_moments_are_those_of_its_law():
    from scipy.integrate import quad

    for n, mu in ((20, 0.5), (1000, 1.5)):
        step = sampled_step(n, mu, 10**6)
        for theta in (0.5, 3.0):

            def integrand(x, n=n, mu=mu, theta=theta):
                y = 1 + math.expm1(mu * x) / n
                return norm.pdf(x + mu / 2) * (y ** (theta + 1) - y + y**-theta - 1)

            exact = quad(integrand, 0, 30, epsabs=0, epsrel=1e-10, limit=300)[0]
            got = float(step.moment_excess(np.array([theta]))[0])
            assert exact * (1 - 1e-9) <= got <= exact * 1.001


def test_coarser_cells_only_add(monkeypatch):
    fine = Sampled(records=30, multiplier=1.0, steps=400).delta(0.5)
    monkeypatch.setattr(transform, "_CELLS_PER_DEVIATION", 2.0)
    monkeypatch.setattr(transform, "_CELLS_IN_ALL", 40.0)
    transform._composed.cache_clear()
    loss._delta.cache_clear()
    coarse = Sampled(records=30, multiplier=1.0, steps=400).delta(0.5)
    transform._composed.cache_clear()
    loss._delta.cache_clear()
    assert fine < coarse < 1.1 * fine


def test_extreme_noise_does_not_overflow():
    assert Sampled(records=10, multiplier=0.01, steps=3).delta(1.0) <= 1.0
    assert Sampled(records=10, multiplier=1e6, steps=3).delta(1.0) < 1e-12
    assert Sampled(records=9, multiplier=1.0, steps=3).delta(math.inf) == 0.0
    curve = [Sampled(records=9, multiplier=1.0, steps=30).delta(e) for e in np.linspace(0, 8, 30)]
    assert all(b <= a for a, b in pairwise(curve))


@pytest.mark.parametrize(
    "wrong",
    [{"records": 0}, {"records": 1.5}, {"multiplier": 0.0}, {"multiplier": math.nan}, {"steps": 0},
     {"steps": 10**14}],
)  # fmt: skip
def test_bad_arguments(wrong):
    good = {"records": 10, "multiplier": 1.0, "steps": 5}
    with pytest.raises((ValueError, TypeError)):
        Sampled(**{**good, **wrong}).delta(1.0)


def test_it_is_a_profile_of_guarantees():
    learner = dpoco.frank_wolfe.NoisySGD(
        dpoco.domains.LpBall(2), dpoco.losses.SquaredLoss(1.0, 1.0), records=100, steps=500,
        budget=dpoco.Budget(1.0, 1e-4),
    )  # fmt: skip
    guarantee = learner.guarantee
    assert dpoco.Guarantee.from_json(guarantee.to_json()) == guarantee
    assert guarantee.mu is None
    assert guarantee.delta_at(1.0) <= 1e-4
    assert guarantee.epsilon_at(1e-6) > guarantee.epsilon_at(1e-4)
    assert "drawn" in str(guarantee)
    assert guarantee.epsilon_at(0.0) == math.inf
    with pytest.raises(ValueError, match="no dp_accounting event"):
        _ = guarantee.event
