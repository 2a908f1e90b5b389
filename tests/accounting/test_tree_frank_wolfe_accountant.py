"""Tree Frank-Wolfe: noise scales, guarantees of any parameters, published constants."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco.accounting import Budget, Guarantee
from dpoco.accounting import tree_frank_wolfe as accountant
from dpoco.accounting.continual_sum import column_norm, row_norm
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.accounting.tree_frank_wolfe import TreeFrankWolfeParameters
from dpoco.domains import Box, LpBall, Simplex
from dpoco.errors import CalibrationError, StateError
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss

from .by_hand import both, custom, squared

INF = math.inf
BUDGET = Budget(1.0, 1e-3)

# (d, p, n, epsilon, delta, radius, label bound, blt, tree)
SCALES = [
    (5, 1.5, 1000, 1, 1e-3, 2, 1.25, 79.08480102, 138.40689823),
    (20, 1.5, 10_000, 1, 1e-4, 2, 1.25, 136.41098879, 255.30010057),
    (10, INF, 1000, 1, 1e-3, 2, 1.25, 60.47808423, 105.84314484),
    (50, 1, 10_000, 1, 1e-4, 1, 1.25, 405.31733986, 758.57200761),
    (100, 1.1, 10**6, 2, 1e-6, 1, 1, 273.68496086, 525.03035163),
    (8, 2, 500, 0.5, 1e-5, 1, 1, 98.13812961, 168.76384021),
]


@pytest.mark.parametrize("case", SCALES)
def test_scale_oracles(case):
    d, p, n, epsilon, delta, radius, label, blt, tree = case
    budget = Budget(epsilon, delta)
    domain, loss = LpBall(d, p, radius), squared(label)
    # Truncated tails: tau = n d 2^-64 is charged to delta, visible only where n d is 1e8.
    tolerance = 1e-9 if n * d < 1e7 else 4e-6
    for method, scale in (("blt", blt), ("tree", tree)):
        parameters, guarantee = both(
            domain, loss, budget, horizon=n, sum_method=method, numerics="float"
        )
        assert parameters.noise_scale == pytest.approx(scale, rel=tolerance)
        assert parameters.leaf_bound == pytest.approx(2 * (radius + label))
        assert parameters.leaf_scalar_bound == pytest.approx(2 * (radius + label))
        assert parameters.noise_scale * parameters.mu == pytest.approx(
            parameters.sensitivity * parameters.column_norm, rel=1e-14
        )
        without = parameters.sensitivity * parameters.column_norm / gaussian_mu(epsilon, delta)
        assert without == pytest.approx(scale, rel=1e-10)
        assert without <= parameters.noise_scale
        assert guarantee.epsilon <= epsilon
        assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-9)
        assert guarantee.delta == delta
        assert guarantee.delta_at(epsilon) <= delta
    auto, _ = both(domain, loss, budget, horizon=n)
    assert (auto.sum_method, auto.noise, auto.weights) == (
        "blt_normalised", "gaussian", "unbiased",
    )  # fmt: skip


@pytest.mark.parametrize("noise", ["gaussian", "generalized_gaussian"])
@pytest.mark.parametrize("p", [1.0, 1.2, 1.5, 2.0, 4.0, INF])
@pytest.mark.parametrize("method", ["blt", "tree", "toeplitz"])
@pytest.mark.parametrize("relation", ["replace", "zero_out"])
def test_there_and_back(noise, p, method, relation):
    domain, loss = LpBall(40, p, 1.5), SquaredLoss(2.0, 0.5)
    parameters, guarantee = both(domain, loss, noise=noise, sum_method=method, relation=relation)
    assert guarantee.epsilon <= 1.0
    assert guarantee.epsilon == pytest.approx(1.0, rel=1e-9)
    assert guarantee.change == relation
    assert guarantee.mu == pytest.approx(parameters.mu, rel=1e-13)
    assert guarantee.calibration == "tight"
    assert guarantee.claimed is None


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
@settings(max_examples=60, deadline=None)
@given(
    d=st.integers(1, 200),
    p=st.one_of(st.floats(1.0, 6.0), st.just(INF)),
    n=st.integers(1, 10**6),
    epsilon=st.floats(0.05, 8.0),
    log_delta=st.floats(math.log(1e-8), math.log(1e-2)),
    batch=st.integers(1, 20),
    noise=st.sampled_from(["gaussian", "generalized_gaussian"]),
)
def test_any_problem_meets_its_budget(d, p, n, epsilon, log_delta, batch, noise):
    budget = Budget(epsilon, math.exp(log_delta))
    batch = min(batch, n)
    domain, loss = LpBall(d, p, 1.0), SquaredLoss(1.0, 1.0)
    parameters, guarantee = both(domain, loss, budget, horizon=n, batch=batch, noise=noise)
    assert guarantee.epsilon <= epsilon
    assert guarantee.epsilon == pytest.approx(epsilon, rel=1e-8)
    assert TreeFrankWolfeParameters.from_dict(json.loads(json.dumps(parameters.to_dict()))) == (
        parameters
    )


def test_a_wrong_scale_or_a_lying_field_changes_nothing_but_the_truth():
    domain, loss = LpBall(5, 1.5, 2.0), squared(1.25)
    parameters, guarantee = both(domain, loss)
    weak = dataclasses.replace(parameters, noise_scale=parameters.noise_scale / math.sqrt(2))
    spent = accountant.guarantee(domain, loss, weak, budget=BUDGET)
    assert spent.epsilon == pytest.approx(
        gaussian_epsilon(math.sqrt(2) * parameters.mu, 1e-3), rel=1e-6
    )
    assert spent.epsilon > 1.4
    lie = dataclasses.replace(parameters, mu=1e-3, sensitivity=1e-3, column_norm=1e-3)
    assert accountant.guarantee(domain, loss, lie, budget=BUDGET) == guarantee
    # A longer horizon with the same scale costs more; so does a wider clip.
    longer = dataclasses.replace(parameters, horizon=2000, pushes=2000)
    assert accountant.guarantee(domain, loss, longer, budget=BUDGET).epsilon > 1.03
    wider = dataclasses.replace(parameters, leaf_scalar_bound=13.0, leaf_bound=13.0)
    assert accountant.guarantee(domain, loss, wider, budget=BUDGET).epsilon > 2.0
    tighter = dataclasses.replace(parameters, leaf_scalar_bound=3.25, leaf_bound=3.25)
    assert accountant.guarantee(domain, loss, tighter, budget=BUDGET).epsilon < 0.5


def test_parameters_that_do_not_fit_the_problem():
    domain, loss = LpBall(5, 1.5, 2.0), squared(1.25)
    parameters, _ = both(domain, loss)
    linear, _ = both(domain, LinearLoss(2.0))
    cases = [
        (loss, dataclasses.replace(parameters, leaf_bound=3.0)),
        (loss, dataclasses.replace(parameters, leaf_scalar_bound=3.0)),
        (loss, dataclasses.replace(parameters, leaf_scalar_bound=None)),
        (loss, dataclasses.replace(parameters, leaf_bound_l2=1.0)),
        (LinearLoss(2.0), dataclasses.replace(linear, leaf_bound=1.0)),
        (LinearLoss(2.0), dataclasses.replace(linear, leaf_scalar_bound=2.0)),
        (LinearLoss(1.0), linear),
    ]
    for other, wrong in cases:
        with pytest.raises(ValueError, match="leaf"):
            accountant.guarantee(domain, other, wrong, budget=BUDGET)
    order = dataclasses.replace(
        parameters, noise="generalized_gaussian", norm_order=5.0, numerics="float"
    )
    with pytest.raises(ValueError, match="norm_order"):
        accountant.guarantee(domain, loss, order, budget=BUDGET)


def test_halves_batches_and_unknown_horizons():
    domain, loss = LpBall(5, 1.5, 2.0), squared(1.25)
    plain, _ = both(domain, loss)
    half, _ = both(domain, loss, relation="zero_out")
    assert half.noise_scale == pytest.approx(plain.noise_scale / 2, rel=1e-12)
    batched, guarantee = both(domain, loss, horizon=1009, batch=10)
    assert (batched.pushes, batched.horizon, guarantee.horizon) == (100, 1009, 1009)
    assert guarantee.column_norm == column_norm("blt", 100)
    assert batched.noise_scale < plain.noise_scale
    unknown, _ = both(domain, loss, horizon=None)
    assert (unknown.horizon, unknown.pushes) == (10**9, 10**9)
    assert unknown.column_norm == column_norm("blt", 10**9)


def test_declared_euclidean_bounds_save_noise():
    d = 20
    domain = LpBall(d, INF, 1.0)  # features in l_1, noise for their l_2 norm
    dense, _ = both(domain, squared(1.0))
    known, guarantee = both(domain, squared(1.0, 0.35))
    assert known.leaf_bound_l2 == pytest.approx(0.35 * known.leaf_scalar_bound)
    assert dense.noise_scale / known.noise_scale > 2.8
    assert "l_2 norm" in guarantee.conditions[0]
    useless, _ = both(domain, squared(1.0, 50.0))
    assert useless.noise_scale == pytest.approx(dense.noise_scale, rel=1e-12)
    flat = LpBall(d, 1.0, 1.0)
    assert both(flat, squared(1.0))[0].sensitivity == pytest.approx(8 * math.sqrt(d))
    assert both(flat, squared(1.0, 1.5))[0].sensitivity <= 12.0


def test_leaf_bounds_of_the_other_losses():
    domain = LpBall(10, 1.5, 2.0)
    linear, _ = both(domain, LinearLoss(3.0), step_scale=2.0)
    assert (linear.leaf_bound, linear.leaf_scalar_bound) == (3.0, None)
    for weights in ("unbiased", "paper"):
        smooth, _ = both(domain, custom(3.0, 0.5), step_scale=2.0, weights=weights)
        assert smooth.leaf_bound == 2.0 * 0.5 * 4.0 + 3.0
    chosen, _ = both(domain, custom(3.0, 0.5, 1.25, 0.75))
    assert (chosen.leaf_bound, chosen.leaf_bound_l2, chosen.sensitivity) == (1.25, 0.75, 1.5)
    published, _ = both(domain, squared(1.25), weights="paper")
    assert published.leaf_bound == pytest.approx(2 * 4.0 + 2 * (2.0 + 1.25))
    assert published.leaf_scalar_bound == pytest.approx(published.leaf_bound)
    stretched, _ = both(domain, squared(1.25), step_scale=1.5)
    assert stretched.leaf_scalar_bound == pytest.approx(2 * (2.0 * 2.0 + 1.25))


def test_losses_that_are_not_gradients_are_refused():
    with pytest.raises(TypeError, match=r"dpoco\.oco"):
        both(LpBall(3), QuadraticLoss(1.0, 1.0))


def test_box_and_simplex_of_the_library():
    loss = LogisticLoss(feature_bound=1.0)
    for domain in (Box([-1.0, 0.0], [1.0, 3.0]), Simplex(4, scale=2.0)):
        parameters, guarantee = both(domain, loss)
        margin = loss.margin_bound(domain)
        assert parameters.leaf_bound == pytest.approx(loss.leaf_scalar_bound(margin))
        assert guarantee.epsilon == pytest.approx(1.0, rel=1e-9)
    huber = HuberLoss(feature_bound=2.0, label_bound=1.0, threshold=0.5)
    parameters, guarantee = both(LpBall(3, p=1.5), huber)
    assert parameters.leaf_bound == pytest.approx(2.0 * parameters.leaf_scalar_bound)
    assert guarantee.epsilon == pytest.approx(1.0, rel=1e-9)


def test_no_budget_is_no_privacy():
    domain, loss = LpBall(5), squared()
    parameters, guarantee = both(domain, loss, None)
    assert (parameters.noise_scale, parameters.mu, parameters.private) == (0.0, INF, False)
    assert parameters.predicted_error == 0.0
    assert not parameters.noise_dominates
    assert guarantee == Guarantee.none(1000, guarantee.mechanism)
    assert TreeFrankWolfeParameters.from_dict(json.loads(json.dumps(parameters.to_dict()))) == (
        parameters
    )


def test_without_a_delta_a_cautious_one_is_used():
    domain, loss = LpBall(5), squared()
    parameters, _ = both(domain, loss)
    assert accountant.guarantee(domain, loss, parameters).delta == 1e-4
    assert accountant.guarantee(domain, loss, parameters, budget=1e-7).delta == 1e-7
    seeded = accountant.guarantee(domain, loss, parameters, budget=1e-7, seeded=True)
    assert not seeded.certified


def test_predicted_error_bounds_the_noise():
    rng = np.random.default_rng(5)
    for p in (1.0, 1.5, 2.0, 4.0, INF):
        domain = LpBall(30, p, 2.0)
        q = domain.dual_exponent
        parameters, _ = both(domain, SquaredLoss(1.0, 1.0), batch=4)
        row = row_norm(parameters.sum_method, 250, 250)
        noise = parameters.noise_scale * row * rng.normal(size=(4000, 30))
        measured = 4.0 * np.linalg.norm(noise, ord=q, axis=1).mean() / (4 * 250)
        assert measured * 0.97 < parameters.predicted_error < 1.6 * measured
        assert parameters.loss_range == pytest.approx(6.0 * 4.0)
    hopeless, _ = both(LpBall(100, 1.5, 1.0), SquaredLoss(1.0, 1.0), horizon=50)
    assert hopeless.noise_dominates
    easy, _ = both(LpBall(5, 1.5, 1.0), SquaredLoss(1.0, 1.0), horizon=10**5)
    assert not easy.noise_dominates


@pytest.mark.parametrize(
    "options",
    [
        {"norm_order": 3.0},
        {"noise": "generalized_gaussian", "norm_order": 1.5},
        {"noise": "generalized_gaussian", "norm_order": 3.5},
        {"noise": "generalized_gaussian", "norm_order": INF}, {"noise": "laplace"},
        {"sum_method": "dense"}, {"weights": "uniform"}, {"relation": "joint"},
        {"horizon": 0}, {"batch": 1001}, {"batch": 0},
        {"step_scale": 0.0}, {"step_scale": INF}, {"horizon": 5000, "sum_method": "toeplitz"},
    ],
)  # fmt: skip
def test_contradictions(options):
    with pytest.raises(ValueError, match=r"must|has|order|limited"):
        both(LpBall(5, 1.5), SquaredLoss(1.0, 1.0), **options)


def test_stored_parameters_are_checked():
    good, _ = both(LpBall(5), SquaredLoss(1.0, 1.0))
    for change in (
        {"noise_scale": -1.0}, {"noise_scale": math.nan}, {"noise_scale": 0.0}, {"pushes": 999},
        {"batch": 0}, {"sum_method": "auto"}, {"norm_order": 1.5}, {"norm_order": 3.0},
        {"leaf_bound": 0.0}, {"leaf_bound_l2": -1.0}, {"step_scale": INF},
        {"relation": "joint"}, {"predicted_error": -1.0},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"must|norm_order"):
            dataclasses.replace(good, **change)
    record = good.to_dict()
    for broken in ({}, record | {"version": 9}, record | {"mu": "x"}, record | {"extra": 0}):
        with pytest.raises(StateError):
            TreeFrankWolfeParameters.from_dict(broken)


def test_a_budget_below_the_truncated_tails_is_refused():
    with pytest.raises(CalibrationError, match="truncated tails"):
        both(
            LpBall(10**6), SquaredLoss(1.0, 1.0), Budget(1.0, 1e-6), horizon=None, numerics="float"
        )
