"""The law of the compiled coupled leader's decisions: printed values, moments, couplings."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from tests.coupled_engines import leaders
from tests.oco.ctrl_pairs import ref
from tests.probes import probes

from dpoco import _core

# Barrier weight G D / ln(T^2 / (2 T - 1)) for G = 1, D = 2, T = 1000.
WEIGHT = 2.0 / math.log(1000**2 / 1999)
FALSE_ALARM = 1e-6


def engines(domain, losses, **changes):
    settings = ref.Settings(**({"horizon": 1000, "forced_switch": 1e-9} | changes))
    make = leaders(domain, losses, ref.engine_settings(settings))
    return lambda key: make(ref.claim(key))


def engine(domain, losses, **changes):
    return engines(domain, losses, **changes)(1)


def logistic(d, *, unbounded=False):
    return {
        "kind": "glm",
        "unbounded": unbounded,
        "glm": _core.GlmLoss("logistic", 1.0, 1.0, 0.0, 1.0),
        "clipper": _core.RecordClipper(d, 2.0, 2.0, np.inf),
    }


def feed(learner, rows):
    for v, y, count in rows:
        for _ in range(count):
            learner.observe(learner.round, np.array(v, dtype=float), y)


def on_the_disc(noise_scale=5.0):
    learner = engine(
        _core.LpBall(2, 2.0, 1.0), logistic(2), noise_scale=noise_scale, barrier_weight=WEIGHT
    )
    feed(learner, [((0.6, 0.8), 0.0, 40), ((1.0, 0.0), 0.0, 25), ((-0.8, 0.6), 0.0, 30)])
    return learner


def test_leader_density_and_ratio_on_a_disc():
    learner = on_the_disc()
    x = np.array(learner.nonprivate_solve(np.array([3.0, -4.0])))
    np.testing.assert_allclose(x, [-0.4920623823, -0.8432738456], rtol=1e-9)
    before = probes.log_density(learner, x)
    assert before == pytest.approx(4.1358064, rel=1e-7)
    feed(learner, [((0.28, 0.96), 0.0, 1)])
    assert probes.log_ratio_at(learner, x) == pytest.approx(-0.034327193, rel=1e-7)
    after = probes.log_density(learner, x)
    assert after - before == pytest.approx(-0.034327193, rel=1e-7)
    # ln ratio = a / sigma^2 + the determinant's part: two noise scales separate them.
    calm = on_the_disc(noise_scale=50.0)
    feed(calm, [((0.28, 0.96), 0.0, 1)])
    ratios = {5.0: probes.log_ratio_at(learner, x), 50.0: probes.log_ratio_at(calm, x)}
    part = (ratios[50.0] * 50.0**2 - ratios[5.0] * 5.0**2) / (50.0**2 - 5.0**2)
    assert part == pytest.approx(7.6524786e-4, rel=1e-6)


class Offset:
    """softplus(s x - o) in one dimension, as a user's loss."""

    def __init__(self, sign, offset):
        self.sign, self.offset = sign, offset

    def value(self, x):
        return float(np.logaddexp(0.0, self.sign * x[0] - self.offset))

    def gradient(self, x):
        return np.array([self.sign / (1.0 + math.exp(self.offset - self.sign * x[0]))])

    def hessian(self, x):
        s = 1.0 / (1.0 + math.exp(self.offset - self.sign * x[0]))
        return np.array([[s * (1.0 - s)]])


def test_density_on_an_interval():
    learner = engine(
        _core.LpBall(1, 2.0, 1.0),
        {"kind": "custom", "unbounded": False},
        noise_scale=4.0,
        barrier_weight=WEIGHT,
    )
    for sign, offset, count in ((1.0, 0.3, 5), (-1.0, -0.2, 3)):
        for _ in range(count):
            learner.observe_custom(learner.round, Offset(sign, offset))
    np.testing.assert_allclose(learner.nonprivate_solve(np.array([4.0])), [-0.80215326], rtol=1e-7)
    assert math.exp(probes.log_density(learner, np.array([0.25]))) == pytest.approx(
        0.43771093, rel=1e-7
    )
    assert math.exp(probes.log_density(learner, np.array([-0.6]))) == pytest.approx(
        0.48164696, rel=1e-7
    )
    # x = tanh(s): the integrand is smooth and vanishes at both ends.
    s = np.linspace(-9.0, 9.0, 1201)
    x = np.tanh(s)
    density = np.array([math.exp(probes.log_density(learner, np.array([t]))) for t in x])
    weights = density * (1.0 - x**2) * (s[1] - s[0])
    assert weights.sum() == pytest.approx(1.0, abs=1e-9)
    assert weights @ x == pytest.approx(-0.073801775, rel=1e-7)
    assert weights @ x**2 == pytest.approx(0.37047179, rel=1e-7)


def last_points(losses, play, *, runs, n, **changes):
    """The point at the end of many short streams with independent keys."""
    points = np.empty((runs, n))
    kept = 0
    make = engines(_core.LpBall(n, 2.0, 1.0), losses, **changes)
    for key in range(runs):
        learner = make(key)
        play(learner)
        points[key] = learner.nonprivate_point()
        kept += learner.switches
    return points, kept


def test_linear_losses_without_bounds_leave_a_gaussian():
    gradients = np.array([[0.5, -0.5], [0.2, 0.9], [0.3, 0.1], [0.0, 0.0]])
    losses = {
        "kind": "linear", "unbounded": True, "clipper": _core.RecordClipper(2, 5.0, 2.0, np.inf)
    }  # fmt: skip

    def play(learner):
        for t, g in enumerate(gradients):
            learner.observe_gradient(t, g)
        # Released: eta times the point, on a grid of 2^-12 noise scales.
        np.testing.assert_allclose(
            learner.decision(), -0.5 * learner.nonprivate_point(), atol=probes.grid(learner)
        )

    y, kept = last_points(
        losses, play, runs=4000, n=2, horizon=5, noise_scale=2.0, forced_switch=0.0,
        coupling="maximal",
    )  # fmt: skip
    assert 0 < kept < 2000  # most runs kept their first point through three tilts
    for j, mean in enumerate(gradients.sum(axis=0)):
        assert scipy.stats.kstest(y[:, j], scipy.stats.norm(mean, 2.0).cdf).pvalue > FALSE_ALARM
        assert scipy.stats.kstest(y[:, j], scipy.stats.norm(mean, 2.4).cdf).pvalue < FALSE_ALARM


def test_quadratic_losses_without_bounds_leave_a_gaussian():
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((6, 2, 2))
    matrices = np.einsum("tij,tkj->tik", factors, factors)
    vectors = rng.standard_normal((6, 2))
    losses = {
        "kind": "quadratic", "unbounded": True, "lipschitz": 1.0, "smoothness": 100.0,
        "radius": math.inf,
    }  # fmt: skip

    def play(learner):
        for t in range(6):
            learner.observe_quadratic(t, matrices[t], vectors[t])

    hessian = matrices.sum(axis=0) + np.eye(2) / 0.5
    mean = np.linalg.solve(hessian, vectors.sum(axis=0))
    for coupling, forced in (("maximal", 0.0), ("scheduled", 1.0)):
        x, _ = last_points(
            losses, play, runs=3000, n=2, horizon=7, noise_scale=3.0, coupling=coupling,
            forced_switch=forced,
        )  # fmt: skip
        white = (x - mean) @ hessian / 3.0  # covariance 9 H^-2
        for direction in (white[:, 0], white[:, 1], white @ [0.6, 0.8]):
            assert scipy.stats.kstest(direction, scipy.stats.norm.cdf).pvalue > FALSE_ALARM
            assert scipy.stats.kstest(1.15 * direction, scipy.stats.norm.cdf).pvalue < 1e-2


def test_maximal_coupling_keeps_the_marginal_and_switches_least():
    losses = logistic(1)
    rounds = 4

    def play(learner):
        for t in range(rounds):
            learner.observe(t, np.array([1.0]), 0.0 if t < 3 else 1.0)

    x, kept = last_points(
        losses, play, runs=6000, n=1, horizon=rounds + 1, noise_scale=1.0, barrier_weight=0.1,
        coupling="maximal", forced_switch=0.0,
    )  # fmt: skip
    s = np.tanh(np.linspace(-8.0, 8.0, 801))
    densities = []
    for t in range(rounds + 1):
        learner = engine(
            _core.LpBall(1, 2.0, 1.0), losses, horizon=99, noise_scale=1.0, barrier_weight=0.1
        )
        for k in range(t):
            learner.observe(k, np.array([1.0]), 0.0 if k < 3 else 1.0)
        densities.append([math.exp(probes.log_density(learner, np.array([v]))) for v in s])
    p = np.array(densities)
    middle = 0.5 * (p[:, 1:] + p[:, :-1]) * np.diff(s)
    law = np.concatenate([[0.0], np.cumsum(middle[-1])])

    def cdf(v):
        return np.interp(v, s, law)

    assert law[-1] == pytest.approx(1.0, abs=1e-3)
    assert scipy.stats.kstest(x[:, 0], cdf).pvalue > FALSE_ALARM
    assert scipy.stats.kstest(x[:, 0] * 0.9, cdf).pvalue < FALSE_ALARM
    # The number of switches is a sum of total variations, the least possible.
    distances = 0.5 * np.abs(np.diff(p, axis=0))
    total = float((0.5 * (distances[:, 1:] + distances[:, :-1]) * np.diff(s)).sum())
    assert abs(kept / 6000 - total) < 5.0 * math.sqrt(total * (1.0 + total) / 6000)


def test_mean_hazard_of_the_density_ratio():
    """1 - (1 - p) exp(-a) under the law, for windows that never clip."""
    rounds, p, a = 4000, 0.05, 0.25
    switches = 0
    losses = {
        "kind": "linear", "unbounded": True, "clipper": _core.RecordClipper(1, 0.1, 2.0, np.inf)
    }  # fmt: skip
    make = engines(
        _core.LpBall(1, 2.0, 1.0), losses, horizon=rounds + 1, noise_scale=2.0, forced_switch=p,
        clip_high=a, clip_low=a,
    )  # fmt: skip
    for key in range(25):
        learner = make(key)
        g = np.tile([[0.1], [-0.1]], (rounds // 2, 1))
        learner.run(g, None, np.empty(rounds), None, np.empty(rounds, dtype=np.uint8))
        switches += learner.switches
    hazard = 1.0 - (1.0 - p) * math.exp(-a)
    error = 5.0 * math.sqrt(hazard * (1.0 - hazard) / (25 * rounds))
    assert abs(switches / (25 * rounds) - hazard) < min(error, 0.01 * hazard * 3)
    assert abs(switches / (25 * rounds) - (1.0 - (1.0 - p))) > error  # clipping is not left out
