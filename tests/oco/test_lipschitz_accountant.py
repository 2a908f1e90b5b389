"""Accounting of Lipschitz losses on a net: noise, guarantees, regret, and the choice of a net."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.plans import changed, net
from tests.published import planned

import dpoco
from dpoco.accounting import continual_sum
from dpoco.accounting.gaussian import gaussian_sigma
from dpoco.accounting.nets import (
    _path,
    bounding_box,
    discretisation,
    grid_variances,
    net_shape,
    noise_field,
    published_sensitivity,
)
from dpoco.accounting.prefix_hedge import HedgeRun
from dpoco.domains import Box, LpBall, Polytope, Simplex
from dpoco.privacy.mechanisms.nets import NetDifferences
from dpoco.privacy.neighbours import Neighbours

BUDGET = dpoco.Budget(1.0, 1e-6)
LINE = Box([0.0], [1.0])
SQUARE = Box([0.0, 0.0], [math.sqrt(0.5)] * 2)  # of diameter 1


def sensitivity(name, shape, counts, lipschitz):
    return NetDifferences(shape.sides, counts, name, lipschitz).movement(Neighbours())


def plan(domain=LINE, *, horizon=1000, budget=BUDGET, lipschitz=1.0, **options):
    problem = {"lipschitz": lipschitz, "horizon": horizon, "budget": budget}
    return net(domain, planned(dpoco.accounting.lipschitz, domain, **problem, **options))


def guarantee(domain, p, **options):
    return dpoco.accounting.lipschitz.guarantee(domain, p.plan, **options)


@pytest.mark.parametrize(
    ("domain", "options", "reach"),
    [
        (LINE, {"resolution": 9}, 0.70710678119),
        (Box([0.0, 0.0], [1.0, 1.0]), {"resolution": 9}, 3.0),
        (Box([0.0, 0.0], [1.0, 1.0]), {"resolution": 9, "transform": "parent"}, 5.6124860802),
        (LINE, {"resolution": 9, "calibration": "paper"}, 2.3979157616),
    ],
)
@pytest.mark.parametrize("budget", [BUDGET, dpoco.Budget(0.3, 1e-8)])
def test_noise_is_the_analytic_gaussian_one(domain, options, reach, budget):
    p = plan(domain, budget=budget, lipschitz=2.0, **options)
    column = continual_sum.column_norm(p.sum_method, 999)
    assert p.noise_scale == pytest.approx(2.0 * reach * column * gaussian_sigma(budget, 1.0), 1e-6)
    g = guarantee(domain, p, budget=budget)
    assert g.certified == (g.claimed is None)  # nobody proves what is in print
    g.require(budget)


@pytest.mark.parametrize(
    ("horizon", "line", "square"), [(10**3, 75, 153), (10**4, 213, 376), (10**5, 656, 1017)]
)
def test_bounds_reach_the_reference_values(horizon, line, square):
    for domain, bound in ((LINE, line), (SQUARE, square)):
        p = plan(domain, horizon=horizon)
        assert p.regret_bound <= bound
        assert p.regret_bound == pytest.approx(math.fsum(p.regret_terms.values()), rel=1e-12)
        assert p.regret_scope == "oblivious"
        assert 0.0 < p.regret_terms["rounding"] < 1e-3 * p.regret_bound
        assert guarantee(domain, p, budget=BUDGET).regret_bound == p.regret_bound


def test_bounds_are_in_units_of_the_losses_and_smallest_without_noise():
    for domain in (LINE, SQUARE):
        wide = Box(10.0 * domain.lower, 10.0 * domain.upper)
        scaled = plan(wide, lipschitz=0.3)
        assert scaled.regret_bound == pytest.approx(3.0 * plan(domain).regret_bound, rel=1e-2)
        assert plan(domain, budget=None).regret_bound < plan(domain).regret_bound


def run_of(domain, p):
    shape = net_shape(domain)
    return HedgeRun(
        points=p.experts,
        horizon=p.horizon,
        loss_range=p.lipschitz * shape.diameter,
        discretisation=discretisation(shape, p.resolution, p.lipschitz),
        method=p.sum_method,
        noise_scale=p.noise_scale,
        field=noise_field(p.transform, p.resolution),
    )


@pytest.mark.parametrize("domain", [LINE, SQUARE])
@pytest.mark.parametrize("horizon", [100, 10**4])
def test_learning_rate_and_net_are_the_best(domain, horizon):
    p = plan(domain, horizon=horizon)
    run = run_of(domain, p)
    for factor in np.geomspace(0.01, 100.0, 81):
        assert run.regret(p.learning_rate * factor).total >= p.regret_bound * (1.0 - 1e-12)
    axes = len(p.resolution)
    for n in (2, 3, 5, 7, 11, 16, 23, 33, 40, 64, 81, 100, 161, 224, 251):
        other = plan(domain, horizon=horizon, resolution=(n,) * axes, sum_method=p.sum_method)
        assert other.regret_bound >= 0.98 * p.regret_bound


def test_the_growing_noise_bound_joins_its_two_parts():
    run = run_of(SQUARE, plan(SQUARE))
    turn = run.maximum / (run.square * run.last_scale)
    below, above = (run.growing_regret(turn * f).total for f in (1.0 - 1e-9, 1.0 + 1e-9))
    assert below == pytest.approx(above, rel=1e-8)
    for eta in (0.1 * turn, turn, 10.0 * turn):
        assert run.growing_regret(eta).total - math.log(run.points) / eta >= 0.0
    # What is left of it without noise is the textbook bound.
    calm = run_of(SQUARE, plan(SQUARE, budget=None))
    eta = calm.best_learning_rate()
    assert calm.regret(eta).total == pytest.approx(
        math.sqrt(calm.horizon * math.log(calm.points) / 2.0) + calm.horizon * calm.discretisation,
        rel=1e-12,
    )


def test_trees_have_no_bound_that_grows_slowly():
    slow = plan(sum_method="tree")
    assert "trivial" in slow.regret_terms or slow.regret_scope == "adaptive"
    assert not slow.noise_dominates
    small = plan(horizon=10**6, budget=dpoco.Budget(50.0, 1e-3), sum_method="tree")
    assert small.regret_scope == "adaptive"
    assert small.regret_bound < 10**6


def samples(name, counts, draws, seed=0):
    """Values on the net that unit noise on the transform turns into, shape (draws, N)."""
    rng = np.random.default_rng(seed)
    if name == "increments":
        steps = rng.normal(size=(draws, counts[0] - 1))
        return np.concatenate([np.zeros((draws, 1)), np.cumsum(steps, axis=1)], axis=1)
    (waves, low), (other, high) = map(_path, counts)
    roots = np.sqrt(low[:, None] + high[None, :])
    roots[0, 0] = np.inf
    white = rng.normal(size=(draws, *counts)) / roots
    return (waves @ white @ other.T).reshape(draws, -1)


@pytest.mark.parametrize(
    ("name", "counts", "loose"),
    [
        ("increments", (2,), 1.02),
        ("increments", (100,), 1.02),
        ("grid_laplacian", (2, 2), 1.45),
        ("grid_laplacian", (17, 17), 1.45),
        ("grid_laplacian", (40, 12), 1.45),
    ],
)
def test_expected_maximum_of_the_noise(name, counts, loose):
    maxima = samples(name, counts, 8_000).max(axis=1)
    mean, error = maxima.mean(), maxima.std() / math.sqrt(len(maxima))
    bound = noise_field(name, counts).maximum
    assert mean - 5.0 * error <= bound <= loose * mean + 5.0 * error


@pytest.mark.parametrize(
    ("name", "counts"), [("increments", (40,)), ("grid_laplacian", (9, 9)), ("parent", (17,))]
)
def test_radius_of_the_noise_covers_every_mixture(name, counts):
    """The largest sum_j w_j v_jj - w' v w over the simplex, by Frank-Wolfe with exact steps."""
    if name == "parent":
        index = np.arange(counts[0])
        ancestors = np.zeros((counts[0], counts[0]))
        for i in index:
            j = int(i)
            while j:
                ancestors[i, j] = 1.0
                j &= j - 1
        points = ancestors
    elif name == "increments":
        points = np.tri(counts[0], counts[0] - 1, k=-1)
    else:
        (waves, low), (other, high) = map(_path, counts)
        roots = np.sqrt(low[:, None] + high[None, :])
        roots[0, 0] = np.inf
        points = np.einsum("ip,jq->ijpq", waves, other) / roots
        points = points.reshape(math.prod(counts), -1)
    squares = (points**2).sum(axis=1)
    weights = np.full(len(points), 1.0 / len(points))
    for step in range(20_000):
        gradient = squares - 2.0 * points @ (weights @ points)
        weights *= 1.0 - 2.0 / (step + 3.0)
        weights[int(np.argmax(gradient))] += 2.0 / (step + 3.0)
    value = float(weights @ squares - np.sum((weights @ points) ** 2))
    radius = noise_field(name, counts).radius
    assert value <= radius**2 * (1.0 + 1e-12)
    if name != "parent":
        assert value >= 0.999 * radius**2
    if name == "grid_laplacian":
        variances, _, _ = grid_variances(*counts)
        assert radius**2 < 0.9 * variances.max()


def test_a_huge_net_pays_for_rounding():
    huge = plan(SQUARE, resolution=1024)
    assert huge.regret_terms["rounding"] > 4.0 * plan(SQUARE).regret_terms["rounding"]


@pytest.mark.parametrize("domain", [LINE, Box([0.0, 0.0], [1.0, 1.0])])
def test_paper_mode_states_what_is_true(domain):
    p = plan(domain, calibration="paper")
    assert (p.transform, p.sum_method) == ("parent", "tree")
    assert all(n == 2 ** ((n - 1).bit_length() - 1) + 1 for n in p.resolution)
    g = guarantee(domain, p, budget=BUDGET)
    assert g.epsilon <= BUDGET.epsilon
    assert g.calibration == "paper"
    shape = net_shape(domain)
    ratio = sensitivity("parent", shape, p.resolution, 1.0) / published_sensitivity(
        shape, p.resolution, 1.0
    )
    assert ratio > 1.2
    assert g.claimed == (g.paper_epsilon, 1e-6)
    assert g.claimed[0] < 0.9 * g.epsilon
    assert g.delta_at(g.claimed[0]) > 2e-6
    assert any("is false for this noise" in text for text in g.conditions)


def test_the_published_constant_misses_the_factor_two():
    shape = net_shape(LINE)
    for k in (1, 3, 8):
        truth = sensitivity("parent", shape, (2**k + 1,), 1.0)
        printed = published_sensitivity(shape, (2**k + 1,), 1.0)
        assert truth / printed == pytest.approx(2.0 * math.sqrt(1.5 - 0.5 ** (k + 1)), rel=1e-9)


@pytest.mark.parametrize(
    ("domain", "horizon"), [(LINE, 1), (SQUARE, 1), (Box([2.0], [2.0]), 50), (Simplex(1), 50)]
)
def test_nothing_to_protect_is_free(domain, horizon):
    for budget in (BUDGET, dpoco.Budget(1.0, 0.0), None):
        options = {} if horizon == 1 else {"transform": "grid_laplacian"}  # which does not matter
        p = plan(domain, horizon=horizon, budget=budget, **options)
        g = guarantee(domain, p, budget=budget)
        assert g.epsilon == 0.0
        assert g.delta == 0.0
        assert g.certified
        assert g.delta_at(0.0) == 0.0
    if p.experts == 1:
        assert g.regret_bound == 0.0


def test_without_enforcement_nothing_is_certified():
    p = plan(enforce=False)
    g = guarantee(LINE, p, budget=BUDGET)
    assert g.epsilon <= BUDGET.epsilon
    assert not g.certified
    assert any("PROMISED" in text for text in g.conditions)
    assert p.noise_scale == plan().noise_scale


def test_shapes_of_domains():
    assert net_shape(LpBall(1, 2.0, 3.0)).sides == (6.0,)
    assert net_shape(Box([0.0] * 4, [1.0, 0.0, 2.0, 0.0])).sides == (1.0, 2.0)
    triangle = Polytope([[-1.0, 0.0], [0.0, -1.0], [1.0, 1.0]], [0.0, 0.0, 1.0])
    assert net_shape(triangle).sides == pytest.approx((1.0, 1.0), rel=1e-9)
    assert net_shape(triangle).diameter == pytest.approx(math.sqrt(2.0), rel=1e-6)
    lower, upper = bounding_box(triangle)
    assert np.all(lower <= 0.0)
    assert np.all(upper >= 1.0)


@pytest.mark.parametrize("domain", [LpBall(3), Simplex(3), Box([0.0] * 3, [1.0] * 3)])
def test_more_dimensions_are_not_implemented(domain):
    with pytest.raises(NotImplementedError):
        plan(domain)


def test_parameters_of_another_domain_are_refused():
    with pytest.raises(ValueError, match="axes"):
        guarantee(SQUARE, plan(LINE))
    with pytest.raises(TypeError):
        guarantee("domain", plan(LINE))
    with pytest.raises(ValueError, match="sides"):
        guarantee(Box([0.0], [2.0]), plan(LINE))
    own = plan(LINE, resolution=5)
    lattice = replace(own.plan, mechanism=replace(own.plan.mechanism, grid=2.0**-16, limit=2**30))
    for wrong in (changed(own.plan, batch=2), lattice):
        with pytest.raises(ValueError, match="not those of Hedge on a net"):
            dpoco.accounting.lipschitz.guarantee(LINE, wrong)
