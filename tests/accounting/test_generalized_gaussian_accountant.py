"""Generalized Gaussian noise: constants, moments, and the privacy claim by brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpoco.accounting import Budget
from dpoco.accounting.claims import published_sigma
from dpoco.accounting.gaussian import (
    best_order,
    coordinate_variance,
    expected_norm_bound,
    gaussian_delta,
    generalized_gaussian_mu,
    paper_order,
    smoothness_constant,
)

INF = math.inf


@pytest.mark.parametrize(
    ("q", "d", "order", "kappa"),
    [
        (3, 5, 2.0, 1.70997595), (3, 1000, 3.0, 2.0), (6, 100, 6.0, 5.0),
        (21, 1000, 12.73026096, 17.98503548), (INF, 1000, 12.73026096, 34.72366716),
        (INF, 8, 2.48588224, 7.91697778), (INF, 7, 2.0, 7.0),
    ],
)  # fmt: skip
def test_smallest_constant_oracles(q, d, order, kappa):
    found = best_order(q, d)
    assert found == pytest.approx(order, abs=1e-8)
    assert smoothness_constant(found, q, d) == pytest.approx(kappa, abs=1e-8)


@pytest.mark.parametrize("q", [2.0, 2.3, 3.0, 10.0, 50.0, INF])
@pytest.mark.parametrize("d", [1, 2, 7, 8, 20, 1000, 10**6])
def test_best_order_is_the_best(q, d):
    grid = np.linspace(2.0, min(q, 60.0), 2000)
    least = min(smoothness_constant(r, q, d) for r in grid)
    best = smoothness_constant(best_order(q, d), q, d)
    assert best <= least * (1 + 1e-12)
    assert best <= smoothness_constant(paper_order(q, d), q, d)


def test_paper_order_is_clipped_from_below():
    assert paper_order(3.0, 5) == 2.0
    assert paper_order(3.0, 20) == pytest.approx(math.log(20))
    assert paper_order(2.5, 1000) == 2.5
    assert paper_order(INF, 1) == 2.0
    assert paper_order(1.5, 1000) == 2.0


@pytest.mark.parametrize("order", [0.609, 1.0, 1.999999, -0.3, INF, math.nan])
def test_orders_without_a_claim_are_refused(order):
    """The exponent printed in the paper, min(q - 1, ln d - 1) = 0.609 at d = 5, among them."""
    with pytest.raises(ValueError, match="order"):
        smoothness_constant(order, 3.0, 5)


def test_only_the_plain_gaussian_below_two():
    assert smoothness_constant(2.0, 1.0, 50) == 1.0
    assert smoothness_constant(2.0, 1.7, 50) == 1.0
    with pytest.raises(ValueError, match="order"):
        smoothness_constant(2.5, 1.7, 50)


def test_an_order_above_q_has_no_dimension_factor():
    assert smoothness_constant(5.0, 3.0, 1000) == 4.0


def test_privacy_parameters():
    mu = generalized_gaussian_mu(2.0, 10.0, 3.0, 3.0, 100)
    assert mu == pytest.approx(math.sqrt(2.0) * 2.0 / 10.0)


def sample(order, dimension, size, rng):
    """Draw by the definition: radius^2 ~ Gamma(d/2, 2), direction from the cone measure."""
    magnitude = rng.gamma(1.0 / order, size=(size, dimension)) ** (1.0 / order)
    direction = magnitude * rng.choice([-1.0, 1.0], size=magnitude.shape)
    direction /= (np.abs(direction) ** order).sum(axis=1, keepdims=True) ** (1.0 / order)
    return direction * np.sqrt(rng.gamma(dimension / 2.0, 2.0, size=(size, 1)))


@pytest.mark.parametrize(("order", "dimension"), [(1.0, 5), (2.5, 2), (3.0, 30), (6.0, 5)])
def test_variance_against_draws(order, dimension):
    """Closed forms are for other orders and dimensions."""
    z = sample(order, dimension, 100_000, np.random.default_rng(7))[:, 0] ** 2
    error = z.std() / math.sqrt(z.size)
    assert abs(z.mean() - coordinate_variance(order, dimension)) < 5.5 * error


def test_variance_in_closed_form():
    assert coordinate_variance(2.0, 17) == pytest.approx(1.0, rel=1e-12)
    assert coordinate_variance(3.7, 1) == pytest.approx(1.0, rel=1e-12)
    assert coordinate_variance(INF, 1) == 1.0
    assert coordinate_variance(INF, 7) == pytest.approx(3.0, rel=1e-12)
    assert coordinate_variance(1e7, 7) == pytest.approx(3.0, rel=1e-5)
    assert coordinate_variance(1.0, 3) == pytest.approx(0.5, rel=1e-12)
    # Large dimensions keep their digits: by Stirling the ratio tends to the r = 3 constant.
    ratio = coordinate_variance(3.0, 10**8) / coordinate_variance(3.0, 10**6)
    assert ratio == pytest.approx(100 ** (1 - 2 / 3), rel=1e-5)


def test_variance_by_two_dimensional_quadrature():
    x = np.linspace(-10, 10, 2001)
    for order in (2.5, 6.0):
        norm = (np.abs(x)[:, None] ** order + np.abs(x)[None, :] ** order) ** (1 / order)
        density = np.exp(-0.5 * norm**2)
        variance = (density * x[:, None] ** 2).sum() / density.sum()
        assert coordinate_variance(order, 2) == pytest.approx(variance, rel=1e-6)


def hockey_stick(order, shift, epsilon, step=0.02, reach=9.0):
    """Return delta(epsilon) of one shifted l_order generalized Gaussian in the plane."""
    x = np.arange(-reach, reach, step)

    def density(a, b):
        norm = (np.abs(x - a)[:, None] ** order + np.abs(x - b)[None, :] ** order) ** (1 / order)
        return np.exp(-0.5 * norm**2)

    p, q = density(0.0, 0.0), density(*shift)
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() / p.sum())


@pytest.mark.parametrize("order", [2.0, 2.5, 3.0, 6.0])
@pytest.mark.parametrize("direction", [(1.0, 0.0), (1.0, 1.0), (1.0, -0.4)])
def test_the_gdp_claim_in_the_plane(order, direction):
    for length in (0.4, 1.2)[direction != (1.0, 1.0) :]:
        scale = length / (sum(abs(v) ** order for v in direction) ** (1 / order))
        shift = tuple(scale * v for v in direction)
        mu = math.sqrt(order - 1.0) * length
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            exact = hockey_stick(order, shift, epsilon)
            bound = gaussian_delta(epsilon, mu)
            assert exact <= bound + 2e-5
            if order == 2.0:
                assert exact == pytest.approx(bound, abs=2e-5)


def test_the_claim_needs_the_smoothness_constant():
    """Forgetting kappa = r - 1 is caught: order 6 with mu = length is violated."""
    each = 1.2 / 2 ** (1 / 6)  # l_6 norm 1.2
    assert hockey_stick(6.0, (each, each), 1.0) > gaussian_delta(1.0, 1.2) + 0.05


def test_the_printed_exponent_is_not_private():
    """p = 1.5, d = 5: order 0.609 with the published scale breaks one node's share of the claim."""
    rng = np.random.default_rng(11)
    budget, pushes, nodes, bound = Budget(1.0, 1e-3), 1000, 11, 10.0
    sigma = published_sigma(
        budget, pushes=pushes, kappa=smoothness_constant(2.0, 3.0, 5), leaf_bound=bound
    )
    shift = np.full(5, 2.0 * bound / 5 ** (1 / 3))  # l_3 norm 2 * bound

    def node_delta(order):
        z = sigma * sample(order, 5, 200_000, rng)

        def squared(x):
            return (np.abs(x) ** order).sum(axis=1) ** (2.0 / order)

        loss = (squared(z - shift) - squared(z)) / (2.0 * sigma**2)
        return float(np.maximum(0.0, -np.expm1(budget.epsilon / nodes - loss)).mean())

    assert node_delta(math.log(5) - 1.0) > 0.01 > 100 * budget.delta / nodes
    # The valid order at the same scale stays below its share by the exact curve.
    mu = generalized_gaussian_mu(2.0 * bound, sigma, 2.0, 3.0, 5)
    assert gaussian_delta(budget.epsilon / nodes, mu) < budget.delta / nodes
    assert node_delta(2.0) < budget.delta / nodes


@pytest.mark.parametrize("dimension", [1, 5, 100])
def test_expected_norm_bound(dimension):
    for order, q in itertools.product([2.0, 3.0, 5.0], [1.0, 1.5, 2.0, 3.0, 21.0, INF]):
        z = np.abs(sample(order, dimension, 4000, np.random.default_rng(3)))
        norms = z.max(axis=1) if q == INF else (z**q).sum(axis=1) ** (1 / q)
        error = norms.std() / math.sqrt(norms.size)
        bound = expected_norm_bound(order, q, dimension)
        assert norms.mean() <= bound + 5 * error
        assert bound <= 1.6 * norms.mean() + 5 * error


@pytest.mark.parametrize(
    ("q", "d", "size"),
    [(21, 20, 8.48), (21, 1000, 80.2), (6, 100, 15.4), (3, 5, 2.37), (3, 1000, 36.9)],
)
def test_gaussian_noise_is_best_in_the_dual_norm(q, d, size):
    """At mu = 1 and unit l_q sensitivity; `size` measured, 1 % accurate."""
    gaussian = d ** (0.5 - 1 / q) * expected_norm_bound(2.0, q, d)
    assert 0.99 * size < gaussian < 1.35 * size
    order = best_order(q, d)
    other = math.sqrt(smoothness_constant(order, q, d)) * expected_norm_bound(order, q, d)
    assert gaussian <= other * (1 + 1e-12) or gaussian < 1.3 * other
