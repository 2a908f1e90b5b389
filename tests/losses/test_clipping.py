"""Clipping of records: the exact norm never passes the bound, nothing in the data raises."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco import _core
from dpoco.domains import LpBall
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, SquaredLoss

ORDERS = [1.0, 1.000001, 1.5, 2.0, 3.0, 21.0, 1e6, math.inf]


def exact_norm(x: np.ndarray, order: float) -> float:
    """In long double, not rounded below the bound."""
    t = np.abs(x.astype(np.longdouble))
    m = t.max()
    if math.isinf(order) or m == 0:
        return m
    return m * ((t / m) ** np.longdouble(order)).sum() ** (1 / np.longdouble(order))


def multiplier(x, bound=1.0, order=2.0, bound_l2=math.inf) -> float:
    x = np.asarray(x, dtype=float)
    return float(_core.RecordClipper(x.size, bound, order, bound_l2).multipliers(x[None])[0])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("d", [1, 3, 20])
def test_clipped_records_stay_inside_and_lose_nothing(order, d) -> None:
    rng = np.random.default_rng(41)
    for size in (1e-320, 1e-300, 1e-5, 0.5, 1.0, 2.0, 1e5, 1e300):
        for _ in range(30):
            x = rng.normal(size=d)
            x *= size / np.abs(x).max()
            factor = multiplier(x, 0.7, order)
            assert 0.0 < factor <= 1.0
            assert exact_norm(factor * x, order) <= np.longdouble(0.7)
            if exact_norm(x, order) <= 0.7 * (1 - 1e-12):
                assert factor == 1.0
            else:
                assert float(exact_norm(factor * x, order)) == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_records_at_the_boundary(order) -> None:
    rng = np.random.default_rng(42)
    for _ in range(300):
        x = rng.normal(size=6)
        x *= float(1.3 / exact_norm(x, order))
        factor = multiplier(x, 1.3, order)
        assert factor == pytest.approx(1.0, abs=1e-13)
        assert exact_norm(factor * x, order) <= np.longdouble(1.3)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=12),
    st.sampled_from(ORDERS),
    st.sampled_from([1e-100, 0.3, 1.0, 1e100]),
    st.sampled_from([0.2, 5.0, math.inf]),
)
def test_any_record_is_served(x, order, bound, bound_l2) -> None:
    x = np.array(x)
    factor = multiplier(x, bound, order, bound_l2)
    assert 0.0 <= factor <= 1.0
    if not np.isfinite(x).all():
        assert factor == 0.0
    else:
        assert exact_norm(factor * x, order) <= np.longdouble(bound)
        if math.isfinite(bound_l2):
            assert exact_norm(factor * x, 2.0) <= np.longdouble(bound_l2)
        if np.abs(x).max() <= min(bound, bound_l2) * (1 - 1e-9) / x.size:
            assert factor == 1.0


@pytest.mark.parametrize("order", ORDERS)
def test_non_finite_zero_and_extreme_records(order) -> None:
    for bad in (math.nan, math.inf, -math.inf):
        for position in range(3):
            x = np.ones(3)
            x[position] = bad
            assert multiplier(x, 1.0, order) == 0.0
            assert multiplier(x, 1.0, order, 1.0) == 0.0
    assert multiplier(np.zeros(3), 1.0, order) == 1.0
    assert multiplier([5e-324] * 3, 1.0, order) == 1.0
    assert multiplier([1e300, 0, 0], 1.0, order) == pytest.approx(1e-300, rel=1e-12)
    assert multiplier([1e308] * 20, 1e-90, order) == 0.0


def test_large_exponents_do_not_underflow() -> None:
    """The unscaled sum of powers of 0.5 is 0 for q = 1e6, which would clip nothing."""
    x = np.full(10, 5.0)
    assert multiplier(x, 1.0, 1e6) == pytest.approx(0.2, rel=1e-5)
    assert multiplier(x / 10, 0.25, 1e6) == pytest.approx(0.5, rel=1e-5)


def test_two_bounds_take_the_smaller_factor() -> None:
    x = np.array([3.0, 4.0])
    assert multiplier(x, 4.0, math.inf, 2.5) == pytest.approx(0.5)
    assert multiplier(x, 2.0, math.inf, 4.0) == pytest.approx(0.5)


def test_largest_entry_is_exact() -> None:
    assert multiplier([1.0, -1.0, 0.25], 1.0, math.inf) == 1.0
    assert multiplier([np.nextafter(1.0, 2.0)], 1.0, math.inf) < 1.0


@pytest.mark.parametrize(
    "arguments", [(0, 1.0, 2.0, 1.0), (2, 0.0, 2.0, 1.0), (2, 1.0, 0.5, 1.0), (2, 1.0, 2.0, 0.0)]
)
def test_bad_bounds_are_refused(arguments) -> None:
    with pytest.raises(ValueError, match="must be"):
        _core.RecordClipper(*arguments)


def test_labels_are_clipped_for_any_value() -> None:
    labels = np.array([-9.0, -1.0, 0.3, 1.0, 9.0, math.inf, -math.inf, math.nan])
    squared = SquaredLoss(1, 2.0)._glm_engine.clip_labels(labels)
    assert squared.tolist() == [-2.0, -1.0, 0.3, 1.0, 2.0, 2.0, -2.0, -2.0]
    logistic = LogisticLoss(1.0)._glm_engine.clip_labels(labels)
    assert logistic.tolist() == [0.0, 0.0, 0.3, 1.0, 1.0, 1.0, 0.0, 0.0]


def test_batch_values_clip_and_ignore_broken_records() -> None:
    domain = LpBall(2, 2.0, 1.0)
    theta = np.array([0.6, 0.8])
    rows = np.array([[0.3, 0.4], [30, 40], [math.nan, 0], [0, math.inf], [0.3, 0.4], [0.3, 0.4]])
    labels = np.array([0.5, 9.0, 0.0, 0.0, math.nan, -math.inf])
    squared = SquaredLoss(1.0, 2.0).batch_values(domain, theta, rows, labels)
    assert squared == pytest.approx([0.0, 1.0, 0, 0, 0, 0], abs=1e-12)
    huber = HuberLoss(1.0, 2.0, threshold=0.5).batch_values(domain, theta, rows, labels)
    assert huber == pytest.approx([0.0, 0.5 * (1 - 0.25), 0, 0, 0, 0], abs=1e-12)
    linear = LinearLoss(1.0).batch_values(domain, theta, rows, None)
    assert linear == pytest.approx([0.5, 1.0, 0, 0, 0.5, 0.5], abs=1e-12)
    with pytest.raises(ValueError, match="theta"):
        LinearLoss(1.0).batch_values(domain, np.zeros(3), rows, None)


def test_violations_name_the_first_record() -> None:
    domain = LpBall(2, 2.0, 1.0)
    good = np.array([[0.6, 0.8], [0.0, 0.0]])
    labels = np.array([1.0, -1.0])
    loss = SquaredLoss(1.0, 1.0)
    assert loss._first_violation(domain, good, labels) is None
    assert loss._first_violation(domain, good * [[1], [math.nan]], labels) == 1
    assert loss._first_violation(domain, good * 1.001, labels) == 0
    assert loss._first_violation(domain, good, np.array([1.0, -1.001])) == 1
    assert loss._first_violation(domain, good, np.array([1.0, math.nan])) == 1
    assert LinearLoss(1.0)._first_violation(domain, good, None) is None
    assert LinearLoss(0.9)._first_violation(domain, good, None) == 0
    assert LinearLoss(1.0, gradient_bound_l2=0.9)._first_violation(domain, good, None) == 0
    assert CustomLoss(1.0, 0.0)._first_violation(domain, good, None) is None
    assert CustomLoss(0.9, 0.0)._first_violation(domain, good, None) == 0
