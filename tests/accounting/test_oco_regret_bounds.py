"""Regret bounds, costs of couplings, published constants: closed forms, laws on a grid."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy
from mpmath import mp, mpf
from tests.plans import coupled

from dpoco.accounting import Budget, claims, regret_bounds
from dpoco.accounting import continuous_multiplicative_weights as comw
from dpoco.accounting import coupled_regularized_leader as ctrl
from dpoco.accounting.coupled_regret import (
    age_quantile,
    anchor_width,
    bernstein_cap,
    clip_penalty,
    curving,
    growing_regret,
    growing_switches,
    switch_cap,
)
from dpoco.accounting.coupled_runs import open_plan
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dpoco.accounting.regret_bounds import LazyProblem
from dpoco.domains import LpBall
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss, QuadraticLoss
from dpoco.published import agarwal_ctrl, agarwal_lazy

COMMON = LazyProblem(horizon=10**5, dimension=3, lipschitz=1.0, radius=1.0, diameter=2.0)


def test_gibbs_oracles():
    draws = {"inverse_temperature": 0.002, "regularization": 500.0}
    bound = regret_bounds.gibbs_regret(COMMON, **draws)
    assert bound.total == pytest.approx(9189.2784, rel=1e-7)
    assert math.fsum(bound.terms.values()) == bound.total
    blocks = regret_bounds.gibbs_regret(replace(COMMON, block=10), **draws)
    assert blocks.total == pytest.approx(10089.278, rel=1e-7)


def test_leader_oracles():
    settings = {"step_size": 1e-3, "noise_scale": 300.0}
    bound = regret_bounds.leader_regret(COMMON, **settings, barrier=True)
    assert bound.total == pytest.approx(689.0, rel=1e-12)


def test_scheduled_example():
    """epsilon 1, delta 1e-6, T = 1e4, d = 2, m = 12 on a domain of radius 1/2."""
    problem = LazyProblem(
        horizon=10**4, dimension=2, lipschitz=1.0, radius=0.5, diameter=1.0, block=12
    )
    g = 0.23670438 / 2.0 / math.sqrt(833)
    assert g == pytest.approx(4.1006604e-3, rel=1e-7)
    eta = regret_bounds.best_step_size(problem, 1.0 / g)
    assert eta == pytest.approx(1.0226799e-3, rel=1e-7)
    leader = regret_bounds.leader_regret(problem, step_size=eta, noise_scale=1.0 / g, barrier=True)
    assert leader.total == pytest.approx(246.45576, rel=1e-7)
    beta, lam = regret_bounds.best_inverse_temperature(problem, g)
    assert (beta, lam) == (pytest.approx(0.043010423, rel=1e-6), pytest.approx(2557.7973, rel=1e-7))
    gibbs = regret_bounds.gibbs_regret(problem, inverse_temperature=beta, regularization=lam)
    assert gibbs.total == pytest.approx(639.44932, rel=1e-7)
    domain, budget = LpBall(2, 2.0, 0.5), Budget(1.0, 1e-6)
    # Linear losses need no barrier, which costs 2 G D.
    for module, bound in ((ctrl, 244.45576), (comw, 639.44932)):
        parameters = module.calibrate(
            domain, LinearLoss(1.0), horizon=10**4, budget=budget, coupling="scheduled", block=12
        )
        assert parameters.mechanism.cap == 833
        # The truncated tails take their share of delta, the root finder a little more.
        assert bound <= parameters.forecast.regret_bound <= bound * 1.002


def test_published_privacy_oracles():
    claim = claims.gibbs_claim(10**6, 1e-3, 1e-6, corrected=False)
    assert claim.log_ratio == pytest.approx(0.11542837, rel=1e-7)
    assert claim.forced_switch == pytest.approx(0.01)
    assert claim.epsilon == pytest.approx(30475.737, rel=1e-7)
    fixed = claims.gibbs_claim(10**6, 1e-3, 1e-6, corrected=True)
    assert fixed.epsilon == pytest.approx(14652.505, rel=1e-7)
    assert fixed.cap == claim.cap == 648440
    for corrected, epsilon in ((False, 91.1), (True, 67.7)):
        small = claims.gibbs_claim(10**6, 1e-4, 1e-6, corrected=corrected)
        assert small.epsilon == pytest.approx(epsilon, rel=1e-3)
    case = {"horizon": 10**6, "g": 1e-5, "b": 1e-6, "dimension": 5, "delta": 1e-6}
    claim = claims.leader_claim(**case, corrected=False)
    assert claim.log_ratio == pytest.approx(1.3101268e-3, rel=1e-7)
    assert claim.cap == math.floor(3 * 0.012616824 * 10**6)
    assert claim.epsilon == pytest.approx(3.4810312, rel=1e-7)
    fixed = claims.leader_claim(**case, corrected=True)
    assert fixed.epsilon == pytest.approx(3.611045, rel=1e-7)
    glm = claims.leader_claim(**{**case, "dimension": 1}, corrected=False)
    assert glm.log_ratio == pytest.approx(5.8096274e-4, rel=1e-7)
    assert glm.epsilon == pytest.approx(1.4820046, rel=1e-7)


def test_lazy_oracles():
    domain = LpBall(5, 2.0, 0.5)
    limit = {"horizon": 10**5, "budget": None, "max_switches": 1000}
    best = coupled(comw.calibrate(domain, LinearLoss(1.0), **limit))
    assert best.coupling == "maximal"
    assert best.inverse_temperature == pytest.approx(0.64893937, rel=1e-6)
    assert best.regularization == pytest.approx(1032.7443, rel=1e-6)
    assert best.regret_bound == pytest.approx(258.18609, rel=1e-6)
    assert best.expected_switches == pytest.approx(1000.0, rel=1e-6)
    printed = coupled(
        agarwal_lazy.lazy_continuous_multiplicative_weights(
            domain, LinearLoss(1.0), horizon=10**5, max_switches=1000
        )
    )
    assert printed.regularization == pytest.approx(58251.307, rel=1e-7)
    assert printed.inverse_temperature == pytest.approx(1.9764235e-3, rel=1e-7)
    assert printed.clip_high == printed.clip_low == pytest.approx(2.5000679e-3, rel=1e-7)
    assert printed.expected_switches <= 1000
    # Theorem 4.2; the printed constant 16 lacks sqrt(2).
    whole, t = [], 1e5
    for constant in (16.0, 16.0 * math.sqrt(2.0)):
        lazy = constant * math.log(t) * math.sqrt(5.0) * t / 1000.0
        whole.append(math.sqrt(2.0 * t) + lazy + 13.0)
    lam, beta = printed.regularization, printed.inverse_temperature
    # The closeness 2e-10 of the laws costs 6 delta T^2 besides.
    direct = 0.5 * lam + t / lam + 5.0 * math.log(t) / beta + 1.0 + 12.0
    assert direct == pytest.approx(58266.024, rel=1e-6)
    assert whole[0] < direct <= whole[1]


def test_lazy_leader_oracles():
    domain, loss = LpBall(5, 2.0, 0.5), CustomLoss(1.0, 1.0)
    limit = {"horizon": 10**5, "budget": None, "max_switches": 1000}
    best = coupled(ctrl.calibrate(domain, loss, **limit))
    assert best.coupling == "maximal"
    assert best.regret_bound == pytest.approx(170.0, rel=1e-3)
    assert best.expected_switches <= 1000 * (1 + 1e-9)
    del limit["budget"]
    printed = coupled(agarwal_ctrl.lazy_coupled_regularized_leader(domain, loss, **limit))
    assert printed.noise_scale == pytest.approx(9104.5628, rel=1e-7)
    assert printed.step_size == pytest.approx(3.3333333e-4, rel=1e-7)
    assert printed.clip_high == pytest.approx(3.3333394e-3, rel=1e-7)
    # Theorem 9.
    t = 1e5
    nine = 2.0 * math.sqrt(t) + t / 1000.0 * 5.0 * (3.0 + 12.0 * math.sqrt(math.log(t))) + 14.0
    eta, sigma = printed.step_size, printed.noise_scale
    direct = 0.5 / eta + 2.0 * eta * t + sigma * math.sqrt(5.0) + 2.0 + 12.0
    assert direct == pytest.approx(21939, rel=1e-4)
    assert direct <= nine <= 1.03 * direct
    loss = LogisticLoss(1.0)
    glm = coupled(agarwal_ctrl.lazy_coupled_regularized_leader(domain, loss, **limit))
    assert glm.noise_scale == pytest.approx(9104.5628 * glm.lipschitz / math.sqrt(5), rel=1e-7)


def test_strongly_convex_oracles():
    domain, loss = LpBall(2, 2.0, 0.5), QuadraticLoss(1.0, 1.0, strong_convexity=1.0)
    limit = {"horizon": 10**5, "budget": None, "max_switches": 5000}
    best = coupled(ctrl.calibrate(domain, loss, **limit))
    assert best.step_size == math.inf
    assert best.noise_scale == pytest.approx(0.0625, rel=2e-3)
    assert best.regret_bound == pytest.approx(8.3, rel=0.01)
    assert best.expected_switches <= 5000
    del limit["budget"]
    printed = coupled(agarwal_ctrl.lazy_coupled_regularized_leader(domain, loss, **limit))
    assert printed.noise_scale == pytest.approx(4.86, rel=1e-3)
    assert printed.expected_switches <= 5000


def test_growing_sums_bound_the_exact_ones_closely():
    domain, loss = LpBall(3, 2.0, 0.5), QuadraticLoss(1.0, 2.0, strong_convexity=0.5)
    p = ctrl.calibrate(domain, loss, horizon=60_000, budget=None, max_switches=4000)
    run, p = open_plan(domain, loss, p), coupled(p)
    assert run.grows
    t = np.arange(2.0, p.horizon)
    x, n, s = t - 1.0, 3, p.noise_scale
    h, kappa = 2.0 / (0.5 * x), t / x
    kl = 1.0 / (2.0 * s**2 * x) + n / 2.0 * (kappa - 1.0 - np.log(kappa))
    kl += 3.0 * np.maximum(0.0, np.log1p(h) - kappa * h / (1.0 + h))
    exact = 1.0 + np.minimum(1.0, np.sqrt(kl / 2.0)).sum()
    assert exact <= growing_switches(run) <= exact * 1.001
    t = np.arange(1.0, p.horizon + 1)
    q = np.sqrt(t) - np.sqrt(t - 1.0)
    exact = ((1.0 + s * math.sqrt(n) * q) ** 2 / (2.0 * 0.5 * t)).sum()
    exact += n * s**2 / 0.5 * (q[1:] / np.sqrt(t[1:] - 1.0)).sum() + 2.0
    assert exact <= growing_regret(run).total * (1 + 1e-9) <= exact * 1.001


GRID = np.linspace(-1.0, 1.0, 2001)


def law(log_weight):
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


@pytest.mark.parametrize(("beta", "lam", "block"), [(0.3, 6.0, 1), (2.0, 8.0, 4), (0.02, 5.0, 1)])
def test_gibbs_bound_holds_for_exact_laws(beta, lam, block):
    """Oblivious mixed losses on [-1, 1]; the best fixed point of the grid."""
    generator = np.random.default_rng(5)
    horizon, total, expected = 120, np.zeros_like(GRID), 0.0
    mu = law(-beta * lam / 2 * GRID**2)
    for t in range(horizon):
        kind, knot = generator.integers(3), generator.uniform(-1, 1)
        loss = (GRID, -GRID, np.abs(GRID - knot))[kind] * (1.0 if t < 60 else 0.7)
        expected += mu @ loss
        total = total + loss
        if (t + 1) % block == 0:
            mu = law(-beta * (total + lam / 2 * GRID**2))
    regret = expected - total.min()
    own = replace(COMMON, horizon=horizon, dimension=1, block=block)
    bound = regret_bounds.gibbs_regret(own, inverse_temperature=beta, regularization=lam)
    assert regret <= bound.total
    assert regret > -horizon


def test_unbounded_entropy_term_is_the_best_of_its_family():
    """min over y of (n/beta)(y^2 - 1 - 2 ln y)/2 + G T y sqrt(n/(beta lam))."""
    n, beta, lam, horizon = 4, 0.03, 700.0, 10**5
    y = np.exp(np.linspace(-12.0, 0.0, 400_001))
    family = n / (2 * beta) * (y**2 - 1 - 2 * np.log(y))
    family += horizon * y * math.sqrt(n / (beta * lam))
    term = regret_bounds.entropy_term(replace(COMMON, dimension=n, unbounded=True), beta, lam)
    assert term == pytest.approx(float(family.min()), rel=1e-8)


def test_leader_bound_holds_for_linear_losses():
    """Exact expectation over the Gaussian perturbation in one dimension."""
    horizon, sigma, eta = 200, 8.0, 0.03
    signs = np.where(np.arange(horizon) % 3 == 0, 1.0, -1.0)
    # At u = S + Z the decision is clip(-eta u); integrate over a fine normal grid.
    z = np.linspace(-9.0, 9.0, 2_001)
    weight = np.diff(scipy.special.ndtr(np.r_[-np.inf, 0.5 * (z[1:] + z[:-1]), np.inf]))
    sums = np.r_[0.0, np.cumsum(signs)[:-1]]
    decisions = np.array([weight @ np.clip(-eta * (s + sigma * z), -1.0, 1.0) for s in sums])
    regret = float(signs @ decisions) + abs(signs.sum())
    own = replace(COMMON, horizon=horizon, dimension=1)
    bound = regret_bounds.leader_regret(own, step_size=eta, noise_scale=sigma)
    assert 0.0 < regret <= bound.total


def test_age_quantile_is_rarely_exceeded():
    generator = np.random.default_rng(3)
    anchors, block, forced, tail = 16, 4, 0.1, 1e-3
    gaps = generator.geometric(forced, size=(100_000, anchors + 1))
    weights = np.r_[1.0, (anchors - np.arange(anchors)) / anchors]
    ages = block * gaps @ weights
    assert ages.mean() == pytest.approx((anchors / 2 + 1.5) * block / forced, rel=0.01)
    quantile = age_quantile(anchors, block, forced, tail)
    assert (ages > quantile).mean() <= tail
    assert quantile <= 1.6 * np.quantile(ages, 1 - tail)


# -- clips, widths and caps -----------------------------------------------------------------------


G, A, P = 0.05, 0.1, 0.05


def worst_distance(slopes, width, forced):
    """Largest total variation between the decisions' law and the Gibbs law, over the rounds."""
    lam, beta = 400.0, 1.0  # g = sqrt(beta / lam) = .05 for slopes up to 1
    x = np.linspace(-1.0, 1.0, 4001)

    def log_gibbs(total):
        log = -beta * (total * x + 0.5 * lam * x * x)
        return log - log.max() - math.log(np.exp(log - log.max()).sum())

    total, law, worst = 0.0, np.exp(log_gibbs(0.0)), 0.0
    for slope in slopes:
        log_ratio = log_gibbs(total + slope) - log_gibbs(total)
        after = np.exp(log_gibbs(total + slope))
        stay = (1.0 - forced) * np.exp(np.clip(log_ratio - width, -2.0 * width, 0.0))
        law = law * stay + (1.0 - (law * stay).sum()) * after
        total += slope
        worst = max(worst, 0.5 * float(np.abs(law - after).sum()))
    return worst


def test_the_bound_on_curvature_is_not_below_it():
    """For small b a series takes over; two terms of it were 1e-8 too small."""
    for b in (1e-9, 1e-6, 3e-5, 9.9e-5, 1.1e-4, 0.01, 1.0, 30.0):
        with mp.workdps(50):
            exact = mp.log1p(mpf(b)) - mpf(b) / (1 + mpf(b))
            # The closed form loses the digits that the two terms share: 1e-16 / b^2.
            lost = mpf(4e-16) * b if b >= 1e-4 else 0
            assert exact - lost <= mpf(curving(b)) * (1 + mpf(1e-15))
            assert mpf(curving(b)) <= exact * (1 + mpf(1e-11)) + lost


def test_the_distance_keeps_to_its_bound():
    error = math.exp(-A) * gaussian_delta(A, G)
    bound = (1.0 - P) * error / P
    assert bound == pytest.approx(7.6708908e-3, rel=1e-6)
    rng = np.random.default_rng(0)
    streams = [np.ones(120), np.tile([1.0, -1.0], 60), rng.choice([-1.0, 1.0], 120)]
    found = max(worst_distance(slopes, A, P) for slopes in streams)
    assert 0.3 * bound < found <= bound
    problem = SimpleNamespace(lipschitz=1.0, diameter=1.0, unbounded=False)
    drawn = SimpleNamespace(rounds=400, block=1, keep=SimpleNamespace(forced=P))
    run = SimpleNamespace(problem=problem, mechanism=drawn)
    assert clip_penalty(run, error) == pytest.approx(400 * bound, rel=1e-9)
    # Without forced switches errors add up beyond it.
    assert worst_distance(np.ones(400), A, 0.0) > bound


def test_the_window_found_for_an_error_keeps_to_it():
    error = 1e-4
    width = gaussian_epsilon(G, error)
    worst = worst_distance(np.ones(120), width, P)
    assert worst <= (1.0 - P) * math.exp(-width) * error / P
    assert worst > 1e-5


def test_anchor_width_oracle():
    p, block, horizon, anchors = 0.03, 1, 10**6, 16
    width = anchor_width(
        1e-3,
        p / (2 * block * horizon),
        anchors=anchors,
        mean_age=(anchors / 2 + 1.5) * block / p,
        horizon=horizon,
    )
    assert width == pytest.approx(7.0000462e-3, rel=1e-6)


@pytest.mark.parametrize(("g", "error"), [(1e-3, 1e-9), (1.0, 0.5), (1e-6, 1e-3), (1.0, 1e-250)])
def test_the_first_term_of_the_anchor_width_solves_its_equation(g, error):
    x = anchor_width(g, error, anchors=10**300, mean_age=0.0, horizon=1) / g
    assert math.log(g / x) - 0.5 * x * x == pytest.approx(math.log(error), rel=1e-10)


def test_caps():
    hazard = 1.0 - 0.97 * math.exp(-0.018)
    assert switch_cap(99_999, hazard, 1e-5) == 5019
    assert bernstein_cap(3000.0, 1e-5) == 3267
    for n, h, tail in [(10, 0.3, 0.01), (1, 0.5, 0.4), (1000, 0.9, 1e-9), (5, 0.999, 0.5)]:
        cap = switch_cap(n, h, tail)
        assert scipy.stats.binom.sf(cap, n, h) <= tail
        assert cap == 0 or scipy.stats.binom.sf(cap - 1, n, h) > tail
    assert switch_cap(0, 0.5, 0.1) == 0
    assert switch_cap(7, 1.0, 0.1) == 7
    assert switch_cap(7, 0.0, 0.1) == 0
