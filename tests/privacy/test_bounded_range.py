"""Bounded range: closed forms against brute force, the exponential mechanism and a library."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco.accounting import events
from dpoco.accounting.explanation import in_words
from dpoco.accounting.guarantee import Guarantee
from dpoco.privacy.losses.bounded_range import BoundedRange, bounded_range_delta, moment
from dpoco.privacy.losses.loss import pure_delta


def bounded_range_moment(r, order):
    return moment(np.asarray(r, dtype=float), np.asarray(order, dtype=float))


def bounded_range_epsilon(delta, r):
    return BoundedRange(r).epsilon(delta)


def responses(r, points=20_001):
    """Likelihoods (p, q) of all generalised randomised responses of range r, on a grid of t."""
    t = np.linspace(0.0, r, points)[1:-1]
    p = np.expm1(t - r) / np.expm1(-r)
    return np.stack([p, 1 - p]), np.stack([p * np.exp(-t), 1 - p * np.exp(-t)])


@pytest.mark.parametrize(
    ("r", "moments"),
    [
        (0.5, (0.0618596072, 1.4853462787, 11.9828087296)),
        (2.0, (0.867561661, 11.1312570882, 57.6954679073)),
    ],
)
def test_moment_oracles(r, moments):
    np.testing.assert_allclose(bounded_range_moment(r, [2, 8, 32]), moments, rtol=1e-9)


def test_delta_oracles():
    assert bounded_range_delta(0.0, 1.0) == pytest.approx(math.tanh(0.25), rel=1e-14)
    assert bounded_range_delta(0.5, 1.0) == pytest.approx(0.0774047, abs=1e-7)
    assert bounded_range_delta(-0.5, 1.0) == pytest.approx(0.4404177, abs=1e-7)


@pytest.mark.parametrize("r", [0.05, 0.7, 3.0, 12.0])
def test_delta_is_the_supremum_over_randomised_responses(r):
    p, q = responses(r)
    for epsilon in np.linspace(-0.9 * r, 0.9 * r, 7):
        worst = np.maximum(p - math.exp(epsilon) * q, 0.0).sum(axis=0).max()
        exact = bounded_range_delta(epsilon, r)
        assert worst <= exact * (1 + 1e-9)
        assert worst == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("r", [0.05, 0.7, 3.0, 12.0])
@pytest.mark.parametrize("order", [1.05, 2.0, 8.0, 64.0])
def test_moment_is_the_supremum_over_randomised_responses(r, order):
    p, q = responses(r)
    logs = np.logaddexp.reduce(order * np.log(p) + (1 - order) * np.log(q), axis=0)
    value = float(bounded_range_moment(r, order))
    assert logs.max() <= value * (1 + 1e-9)
    assert logs.max() == pytest.approx(value, rel=1e-4)


def exact_moment(r, a):
    r, a = mpmath.mpf(r), mpmath.mpf(a)
    s = mpmath.log(a * mpmath.expm1(-(a - 1) * r) / ((a - 1) * mpmath.expm1(-a * r)))
    p = mpmath.expm1(-s) / mpmath.expm1(-r)
    t = r - s
    return mpmath.log(p * mpmath.exp((a - 1) * t) + (1 - p) * mpmath.exp((a - 1) * (t - r)))


def test_moment_against_long_arithmetic():
    with mpmath.workdps(120):
        for r in (1e-12, 1e-8, 2e-6, 1e-4, 9e-4, 1.1e-3, 1e-2, 0.3, 1.0, 7.0, 50.0, 700.0, 1e5):
            for a in (1.0 + 1e-9, 1.0 + 2.0**-8, 1.05, 1.5, 2.0, 8.0, 33.0, 200.0, 4097.0):
                exact = exact_moment(r, a)
                value = float(bounded_range_moment(r, a))
                assert value >= exact * (1 - 4e-16)
                tolerance = 5e-11 if a * r > 1e-3 and r > 1e-6 else 1e-7 + (a * r) ** 2
                assert value <= exact * (1 + tolerance)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    r=st.floats(1e-9, 1e3),
    scale=st.floats(0.01, 1.0),
    order=st.floats(1.001, 1e4),
)
def test_moment_grows_at_most_like_a_square(r, scale, order):
    small, large = (float(bounded_range_moment(x, order)) for x in (scale * r, r))
    assert small <= large * (1 + 1e-7)
    assert small >= large * scale**2 * (1 - 1e-6)
    assert large <= 0.125 * order * (order - 1) * r * r * (1 + 1e-12)
    assert large <= (order - 1) * r * (1 + 1e-12)


def test_moment_limits():
    assert bounded_range_moment(0.0, 5.0) == 0.0
    assert bounded_range_moment(math.inf, 5.0) == math.inf
    assert bounded_range_moment(1e300, 2.0) == pytest.approx(1e300)
    assert bounded_range_moment(1e-300, 1e10) == 0.0
    assert bounded_range_moment([[0.1], [0.2]], [2.0, 3.0, 4.0]).shape == (2, 3)


def softmax(x):
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def test_exponential_mechanism_is_within_and_comes_close():
    """Scores move by at most 1 either way: softmax of eta times them has range 2 eta."""
    random = np.random.default_rng(1)
    eta = 0.6
    r, nearest = 2 * eta, 0.0
    for trial in range(400):
        n = int(random.integers(2, 6))
        scores = random.normal(size=n) * random.choice([0.1, 1.0, 4.0])
        move = random.choice([-1.0, 1.0], n) if trial % 2 else random.uniform(-1, 1, n)
        p, q = softmax(eta * scores), softmax(eta * (scores + move))
        for epsilon in (0.0, 0.3, 0.8):
            delta = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
            bound = bounded_range_delta(epsilon, r)
            assert delta <= bound * (1 + 1e-12)
            nearest = max(nearest, delta / bound)
        for a in (1.05, 2.0, 8.0, 64.0):
            moment = float(np.logaddexp.reduce(a * np.log(p) + (1 - a) * np.log(q)))
            assert moment <= float(bounded_range_moment(r, a)) * (1 + 1e-12)
    # A range of 1.9 eta would be refuted.
    assert nearest > 0.99
    assert bounded_range_delta(0.3, 1.9 * eta) < 0.95 * bounded_range_delta(0.3, r)


def test_gumbel_noise_of_an_epsilon_private_mechanism_has_that_range():
    """epsilon-private for moves by 1 either way: scale 2 / epsilon, and range epsilon."""
    epsilon = 0.8
    ratio = np.log(softmax(epsilon / 2 * np.array([1.0, 0, 0])))
    ratio -= np.log(softmax(epsilon / 2 * np.array([0.0, 1, 1])))
    assert ratio.max() - ratio.min() == pytest.approx(epsilon)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(r=st.floats(1e-6, 60.0), log_delta=st.floats(-60.0, -0.01))
def test_epsilon_inverts_delta(r, log_delta):
    delta = math.exp(log_delta)
    epsilon = bounded_range_epsilon(delta, r)
    assert 0.0 <= epsilon <= r
    assert bounded_range_delta(epsilon, r) <= delta
    if epsilon > 0.0:
        assert bounded_range_delta(epsilon - 1e-9 * (1 + r), r) >= delta


def test_delta_limits():
    assert bounded_range_delta(1.0, 1.0) == 0.0
    assert bounded_range_delta(-3.0, 1.0) == pytest.approx(1 - math.exp(-3.0))
    assert bounded_range_delta(0.0, 0.0) == 0.0
    assert bounded_range_delta(math.inf, 2.0) == 0.0
    assert bounded_range_delta(1.0, math.inf) == 1.0
    assert bounded_range_delta(0.0, 1e3) == pytest.approx(1.0)
    assert bounded_range_epsilon(0.0, 1.5) == 1.5
    assert bounded_range_epsilon(0.1, math.inf) == math.inf
    assert BoundedRange(1.0) != BoundedRange(2.0) != BoundedRange(2.0, 3)
    for call in (
        lambda: bounded_range_delta(math.nan, 1.0),
        lambda: bounded_range_delta(0.0, -1.0),
        lambda: BoundedRange(-1.0, 1),
        lambda: BoundedRange(1.0, 0),
        lambda: BoundedRange(1.0, True),
    ):
        with pytest.raises(ValueError, match=r"must|has the fields"):
            call()


def test_one_release_is_better_than_pure_privacy_says():
    loss = BoundedRange(1.0, 1)
    for epsilon in (0.0, 0.25, 0.5, 0.9):
        assert loss.delta(epsilon) < 0.6 * pure_delta(epsilon, 1.0)
    assert loss.pure == 1.0


@pytest.mark.parametrize(("r", "count"), [(0.02, 1000), (0.3, 20), (2.0, 3), (0.05, 2)])
def test_composition_covers_repeated_randomised_responses(r, count):
    """Against the library's exact composition of the same two-point law."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as pld

    loss = BoundedRange(r, count)
    nearest = 0.0
    for t in np.array([0.3, 0.5, 0.6]) * r:
        p = math.expm1(t - r) / math.expm1(-r)
        q = p * math.exp(-t)
        one = pld.from_two_probability_mass_functions(
            {0: math.log(p), 1: math.log1p(-p)},
            {0: math.log(q), 1: math.log1p(-q)},
            pessimistic_estimate=False,
            value_discretization_interval=1e-3 * min(1.0, r),
        )
        composed = one.self_compose(count)
        for delta in (1e-3, 1e-6):
            theirs = composed.get_epsilon_for_delta(delta)
            ours = loss.epsilon(delta)
            assert theirs <= ours * (1 + 1e-3)
            nearest = max(nearest, theirs / ours)
    assert nearest > 0.75


def test_composition_curve_and_inverse_agree():
    loss = BoundedRange(0.1, 50)
    for delta in (1e-2, 1e-6, 1e-12):
        epsilon = loss.epsilon(delta)
        assert loss.delta(epsilon) <= delta * (1 + 1e-9)
        assert loss.delta(0.98 * epsilon) > delta
    assert loss.epsilon(1e-300) <= loss.pure == pytest.approx(5.0)
    assert loss.delta(loss.pure) == 0.0
    assert loss.delta(math.inf) == 0.0
    more = BoundedRange(0.1, 100)
    assert more.epsilon(1e-6) > 1.3 * loss.epsilon(1e-6)


def test_profile_in_a_guarantee():
    loss = BoundedRange(0.25, 4)
    assert loss.pure == 1.0
    fields = Guarantee.none(10).to_dict() | {
        "epsilon": loss.epsilon(1e-6),
        "delta": 1e-6,
        "profile": {"kind": "bounded_range", "range": 0.25, "count": 4},
    }
    guarantee = Guarantee.from_dict(fields)
    assert guarantee.loss == loss
    assert Guarantee.from_json(guarantee.to_json()) == guarantee
    assert guarantee.epsilon_at(0.0) == 1.0
    assert guarantee.delta_at(1.0) == 0.0
    assert "interval of length 0.25" in str(guarantee)
    assert in_words(BoundedRange(0.25, 1)).startswith("log-likelihood")


def test_event_is_weaker():
    accounting = pytest.importorskip("dp_accounting")
    loss = BoundedRange(0.1, 50)
    orders = [1.5, 2, 4, 8, 16, 20, 24, 32, 48, 64]
    accountant = accounting.rdp.RdpAccountant(
        orders, accounting.NeighboringRelation.REPLACE_SPECIAL
    )
    accountant.compose(events.zcdp_event(loss.rho))
    theirs = accountant.get_epsilon(1e-6)
    assert loss.epsilon(1e-6) <= theirs <= 1.1 * loss.epsilon(1e-6)
