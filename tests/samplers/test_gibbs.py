"""Gibbs laws against quadrature and importance sampling, with mass on the walls.

Thresholds at p = 1e-8 and 6 standard errors; each comparison also rejects a wrong law.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samplers import gibbs_reference as reference
from tests.samplers.gibbs_reference import CHAIN, draw, problem, sampler
from tests.samples import ALARM, bound, distance

from dpoco import _core
from dpoco.domains import Box, LpBall, Simplex


@pytest.mark.parametrize("kind", ["logistic", "huber", "squared"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
def test_one_dimension_is_one_exact_draw(kind, scale):
    domain = Box([-0.5], [1.0])
    rows, labels = problem(kind, 1, 12, 0.7)
    gibbs = sampler(domain, kind, rows, labels, scale, 0.3)
    n = 40_000
    draws = np.sort(draw(gibbs, 12, n, 1)[:, 0])
    report = probes.gibbs_report(gibbs)
    assert report["method"] == "line"
    assert report["proposals"] < 2 * n

    def error(temper: float) -> float:
        x = np.linspace(-0.5, 1.0, 20_001)[:, None]
        log = -scale * temper * reference.energy(kind, rows, labels, 0.3, domain.center, x)
        density = np.exp(log - log.max())
        cdf = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
        return distance(draws, lambda at: np.interp(at, x[:, 0], cdf / cdf[-1]))

    assert error(1.0) < bound(n)
    if scale >= 1.0:  # a law that is almost uniform shows little of its temperature
        assert error(1.3) > bound(n)


@pytest.mark.parametrize("body", ["box", "ball", "simplex"])
@pytest.mark.parametrize("kind", ["logistic", "huber"])
def test_more_dimensions_against_importance_sampling(body, kind):
    d = {"box": 10, "ball": 6, "simplex": 6}[body]
    beta, lam, count = 0.5, 1.0, 40
    rows, labels = problem(kind, d, count, 0.3)
    rng = np.random.default_rng(5)
    n = 40_000
    if body == "box":
        domain = Box(np.full(d, -0.7), np.full(d, 0.5))
        # Independent truncated normals of roughly the right curvature.
        mode, _ = probes.gibbs_mode(sampler(domain, kind, rows, labels, beta, lam))
        slope = reference.gradient(kind, rows, labels, mode) + lam * (mode - domain.center)
        spread = 1 / np.sqrt(beta * (lam + 0.12 * count))
        mean = mode - beta * spread**2 * slope
        low, high = (scipy.special.ndtr((wall - mean) / spread) for wall in (-0.7, 0.5))
        white = scipy.special.ndtri(low + rng.random((n, d)) * (high - low))
        points, log_proposal = mean + spread * white, -0.5 * np.sum(white**2, axis=1)
    elif body == "ball":
        domain = LpBall(d, 2.0, 0.8)
        direction = rng.normal(size=(n, d))
        direction /= np.linalg.norm(direction, axis=1)[:, None]
        points = 0.8 * rng.random((n, 1)) ** (1 / d) * direction
        log_proposal = np.zeros(n)
    else:
        domain = Simplex(d, 1.0)
        points = rng.dirichlet(np.ones(d), n)
        log_proposal = np.zeros(n)
    target = -beta * reference.energy(kind, rows, labels, lam, domain.center, points)
    mean, error = reference.weighted_means(target, log_proposal, points, reference.moments)
    hot, hot_error = reference.weighted_means(0.6 * target, log_proposal, points, reference.moments)
    for options, n_draws in (({}, 8_000), (CHAIN, 300)):
        gibbs = sampler(domain, kind, rows, labels, beta, lam, **options)
        values = reference.moments(draw(gibbs, 13, n_draws, d))
        own = values.std(axis=0) / np.sqrt(n_draws)
        z = np.abs(values.mean(axis=0) - mean) / np.hypot(error, own)
        assert z.max() < 6
        if not options:
            z_hot = np.abs(values.mean(axis=0) - hot) / np.hypot(hot_error, own)
            assert z_hot.max() > 6


def test_quadratic_losses_on_the_space_are_gaussian():
    a = np.array([[2.0, 0.3], [0.3, 1.0]])
    b = np.array([1.0, -0.5])
    beta, lam, n = 0.5, 4.0, 200_000
    losses = {
        "kind": "quadratic",
        "unbounded": True,
        "lipschitz": 10.0,
        "smoothness": 10.0,
        "radius": np.inf,
    }
    gibbs = _core.GibbsSampler(LpBall(2, 2.0, 1.0)._engine, losses, beta, lam)
    gibbs.observe_matrix(a, b)
    draws = draw(gibbs, 14, n, 2)
    assert probes.gibbs_report(gibbs)["method"] == "gaussian"
    precision = beta * (a + lam * np.eye(2))
    mean = np.linalg.solve(a + lam * np.eye(2), b)
    np.testing.assert_allclose(probes.gibbs_mode(gibbs)[0], mean, rtol=1e-12)
    white = (draws - mean) @ np.linalg.cholesky(precision)
    assert np.abs(white.mean(axis=0)).max() < 6 / np.sqrt(n)
    assert np.abs(white.T @ white / n - np.eye(2)).max() < 6 * np.sqrt(2 / n)
    # The regulariser left out would show.
    bare = (draws - mean) @ np.linalg.cholesky(beta * a)
    assert np.abs(bare.T @ bare / n - np.eye(2)).max() > 6 * np.sqrt(2 / n)


def test_losses_that_are_all_zero_leave_the_regulariser():
    domain = LpBall(3, 2.0, 1.0)
    for rows in (0, 4):
        gibbs = sampler(domain, "logistic", np.zeros((rows, 3)), np.zeros(rows), 2.0, 1.5)
        radius = np.linalg.norm(draw(gibbs, 15, 20_000, 3), axis=1)
        total = scipy.stats.chi2.cdf(3.0, 3)
        fit = scipy.stats.kstest(
            radius, lambda r, total=total: scipy.stats.chi2.cdf(3 * r**2, 3) / total
        )
        assert fit.pvalue > ALARM


def test_losses_given_as_objects():
    class Distance:  # not differentiable, no curvature
        def value(self, x):
            return float(3 * np.abs(x - 0.2).sum())

        def gradient(self, x):
            return 3 * np.sign(x - 0.2)

        def hessian(self, x):
            return np.zeros((2, 2))

    domain = Box([-1.0, -1.0], [1.0, 1.0])
    losses = {"kind": "custom", "unbounded": False}
    gibbs = _core.GibbsSampler(domain._engine, losses, 1.5, 0.7)
    gibbs.observe_loss(Distance())
    mode, _ = probes.gibbs_mode(gibbs)
    np.testing.assert_allclose(mode, 0.2, atol=1e-6)
    draws = draw(gibbs, 16, 500, 2)

    def log_density(x):
        return -1.5 * (3 * np.abs(x - 0.2).sum(1) + 0.35 * np.sum(x**2, 1))

    masses, _ = reference.cell_masses(log_density, [-1, -1], [1, 1], 5, 50)
    assert reference.fit(draws, [-1, -1], [1, 1], masses) > ALARM
