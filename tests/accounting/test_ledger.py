"""Ledgers: amounts and limits against other arithmetic, filters against adversaries."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from tests.late import Late

from dpoco.accounting import Budget
from dpoco.accounting._ledger_sums import Cost, Spent, fixed_epsilon, make_filter, pure_mu
from dpoco.accounting.events import event_loss, gaussian_event
from dpoco.accounting.gaussian import gaussian_delta
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.rdp import rdp_delta, zcdp_rho
from dpoco.privacy.losses.bounded_range import moment
from dpoco.privacy.losses.combined import with_tails
from dpoco.privacy.losses.decaying import Decaying
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Pure

from .by_hand import pure, stated

BUDGET = Budget(1.0, 1e-6)
dpa = Late("dp_accounting")


def renyi(cost, order):
    return float(cost.renyi(np.array([order]))[0])


# --- amounts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 40.0])
def test_pure_privacy_is_gaussian_privacy_of_that_mu(epsilon):
    """The curve of mu covers randomised response everywhere, and touches it at epsilon = 0."""
    mu = pure_mu(epsilon)
    for share in np.linspace(0.0, 0.999, 40):
        e = share * epsilon
        exact = -math.expm1(e - epsilon) / (1 + math.exp(-epsilon))
        assert gaussian_delta(e, mu) >= exact * (1 - 1e-12)
    if epsilon < 30.0:  # else both are 1
        assert gaussian_delta(0.0, mu * (1 - 1e-3)) < math.tanh(epsilon / 2)  # and no smaller would


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize("order", [1.001, 2.0, 17.0, 4000.0])
def test_pure_renyi_against_many_digits(epsilon, order):
    with mp.workdps(60):
        e, a = mpf(epsilon), mpf(order)
        p = 1 / (1 + mp.exp(-e))
        exact = mp.log(p * mp.exp((a - 1) * e) + (1 - p) * mp.exp(-(a - 1) * e)) / (a - 1)
        found = mpf(renyi(Pure(epsilon), order))
        assert exact <= found <= exact * (1 + mpf(1e-9)) + mpf(3e-15) / (a - 1) + mpf(3e-15)


def test_events_count_their_repetitions():
    """100 randomised responses are 100, whatever the accountants of that package make of them."""
    response = dpa.RandomizedResponseDpEvent(0.5, 2)
    hundred = event_loss(dpa.SelfComposedDpEvent(response, 100))
    assert hundred.pure == pytest.approx(100 * math.log(3), rel=1e-12)
    twice = event_loss(dpa.SelfComposedDpEvent(dpa.SelfComposedDpEvent(response, 5), 20))
    assert twice.pure == hundred.pure
    parts = [dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(5.0), 3), dpa.LaplaceDpEvent(4.0)]
    mixed = event_loss(dpa.ComposedDpEvent([*parts, dpa.NoOpDpEvent()]))
    assert mixed.mu**2 == pytest.approx(3 / 25 + pure_mu(0.25) ** 2, rel=1e-12)
    assert renyi(mixed, 2.0) == pytest.approx(3 / 25 + renyi(Pure(0.25), 2.0), rel=1e-12)
    assert mixed.pure == math.inf
    three = event_loss(dpa.RandomizedResponseDpEvent(0.6, 3))
    assert three.pure == pytest.approx(math.log((0.4 + 0.2) / 0.2), rel=1e-12)
    assert event_loss(dpa.RandomizedResponseDpEvent(0.0, 3)).pure == math.inf
    assert renyi(event_loss(dpa.ZCDpEvent(0.1)), 3.0) == pytest.approx(0.3)
    for wrong in (dpa.ZCDpEvent(0.1, 0.1), dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(1))):
        with pytest.raises(ValueError, match="closed form"):
            event_loss(wrong)


def test_events_cost_no_less_than_they_say_and_say_no_more_than_holds():
    """In fractions: to nearest, half of the quotients of doubles lie on the wrong side."""
    for multiplier in (0.3, 0.7, 1.1, 3.0, 4.9, 5.1, 7.0, 49.0):
        exact = 1 / Fraction(multiplier)
        up = math.nextafter(float(exact), math.inf)
        assert exact <= event_loss(dpa.GaussianDpEvent(multiplier)).mu <= up
        assert exact <= event_loss(dpa.LaplaceDpEvent(multiplier)).pure <= up
        noise = Fraction(gaussian_event(multiplier).noise_multiplier)
        assert math.nextafter(float(exact), 0.0) <= noise <= exact
    for p in (0.1, 0.3, 0.55, 0.6, 0.9, 0.999):
        for buckets in (2, 3, 17):
            found = event_loss(dpa.RandomizedResponseDpEvent(p, buckets)).pure
            with mp.workdps(40):
                exact = mp.log1p((1 - mpf(p)) * buckets / mpf(p))
                assert exact <= mpf(found) <= exact * (1 + mpf(1e-13))


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 60.0])
def test_profiles_have_their_renyi_divergences(order):
    profile = {"kind": "bounded_range", "range": 0.3, "count": 7}
    selection = stated(profile=profile)
    entry = Ledger(Budget(9.0, 1e-6), currency="renyi").charge(selection, "selections")
    each = float(moment(np.asarray(0.3), np.asarray(order))) / (order - 1)
    assert renyi(entry.cost, order) == pytest.approx(7 * each, rel=1e-12)
    assert renyi(entry.cost, order) < 0.99 * min(
        7 * renyi(Pure(0.3), order), renyi(Pure(2.1), order)
    )


def test_other_profiles_have_divergences_too():
    selections = Decaying("pure", 0.1, 0.1, 0.5, 1, 20)
    found = renyi(selections, 3.0)
    exact = math.fsum(renyi(Pure(0.1 * math.sqrt(j) / (j + 1)), 3.0) for j in range(1, 21))
    assert found == pytest.approx(exact, rel=1e-9)


def test_prices_are_the_cheapest_that_can_be_paid():
    rule = make_filter("gaussian", BUDGET, 0.5)
    cost = Cost(with_tails(Gaussian(0.1), 1e-9), epsilon=0.05, delta=3e-7)
    tails = Spent(0.1**2, (1 + math.e) * 1e-9)
    point = Spent(pure_mu(0.05) ** 2, 3e-7)

    def price(left):
        return rule.prices(cost)[rule.choose(cost, left)]

    assert price(rule.limit) == pytest.approx(point)
    assert price(Spent(rule.limit.main, 2e-7)) == pytest.approx(tails)
    assert price(Spent(0.005, 2e-7)) == pytest.approx(point)  # neither: the smaller


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [BUDGET, Budget(0.1, 1e-9), Budget(8.0, 1e-3)])
def test_limits_are_those_of_the_curves(budget):
    rule = make_filter("gaussian", budget, 0.25)
    assert rule.limit.side == 0.25 * budget.delta
    main = 0.75 * budget.delta
    assert gaussian_delta(budget.epsilon, math.sqrt(rule.limit.main)) <= main
    assert gaussian_delta(budget.epsilon, math.sqrt(rule.limit.main * (1 + 1e-6))) > main
    rule = make_filter("renyi", budget, 0.25)
    assert rdp_delta([rule.order], [rule.limit.main], budget.epsilon) <= main
    assert rdp_delta([rule.order], [rule.limit.main * (1 + 1e-6)], budget.epsilon) > main
    # No worse than the zCDP filter for mechanisms that are known by rho only.
    assert rule.limit.main / rule.order == pytest.approx(zcdp_rho(budget.epsilon, main), rel=1e-5)


# --- the filters, against adversaries that choose as they go --------------------------------------


def hockey_stick_of_adaptive_gaussians(policy, steps, epsilon, points=400):
    """delta(epsilon) of Gaussian releases whose mu depends on the sign of the last release.

    The state is (share spent, last sign); the loss is convolved on a grid, with P = N(mu, 1).
    """
    width = 0.02
    grid = np.arange(-points, points + 1) * width
    states = {(0.0, +1): np.where(np.arange(grid.size) == points, 1.0, 0.0)}
    for step in range(steps):
        following = {}
        for (spent, sign), law in states.items():
            mu = policy(step, spent, sign)
            for after, low, high in ((-1, -np.inf, 0.5 * mu), (+1, 0.5 * mu, np.inf)):
                kernel = kernel_of_loss(mu, low, high, width, points)
                key = (spent + mu * mu, after)
                moved = np.convolve(law, kernel)[points:-points]
                following[key] = following.get(key, 0.0) + moved
        states = following
    total = sum(states.values())
    assert total.sum() == pytest.approx(1.0, abs=1e-6)
    over = grid > epsilon
    return float(total[over] @ -np.expm1(epsilon - grid[over]))


def kernel_of_loss(mu, low, high, width, points):
    """Masses of the loss mu x - mu^2/2, x ~ N(mu, 1) in [low, high], at the nearest grid points."""
    from scipy.special import ndtr

    if mu == 0.0:  # nothing is released: the sign is a public coin
        return 0.5 * (np.arange(2 * points + 1) == points)
    edges = (np.arange(-points, points + 2) - 0.5) * width
    x = np.clip(edges / mu + 0.5 * mu, low, high)
    return np.diff(ndtr(x - mu))


def test_a_gaussian_filter_holds_against_a_policy_that_reacts():
    """Spend much after good luck, little after bad luck, and stop: within the budget's curve."""
    budget = Budget(1.0, 1e-3)
    limit = make_filter("gaussian", budget, 0.0).limit.main

    def policy(step, spent, sign):
        left = limit - spent
        wanted = math.sqrt(0.7 * left) if sign > 0 else math.sqrt(0.1 * left)
        return wanted if step < 3 else math.sqrt(max(left, 0.0)) * (sign > 0)

    delta = hockey_stick_of_adaptive_gaussians(policy, 4, budget.epsilon)
    assert 0.2 * budget.delta < delta <= budget.delta * (1 + 0.02)  # 2 %: the grid
    # The same policy with the error of forgetting one charge is beyond the budget.
    forgetful = hockey_stick_of_adaptive_gaussians(
        lambda step, spent, sign: policy(step, 0.0 if step == 1 else spent / 2, sign), 4, 1.0
    )
    assert forgetful > 1.5 * budget.delta


def test_every_tree_of_randomised_responses_within_the_basic_limits_holds():
    """All policies with two responses of three levels: exact worst case by enumeration."""
    budget, levels = Budget(1.0, 0.0), (0.2, 0.5, 0.8)
    worst = 0.0
    for first, after_yes, after_no in itertools.product(levels, levels, levels):
        ledgers = []
        for second in (after_yes, after_no):
            ledger = Ledger(budget)
            ledger.charge(pure(first), "first")
            admitted = ledger.affordable(pure(second))
            assert admitted == (first + second <= 1.0)
            ledgers.append(second if admitted else 0.0)
        worst = max(worst, first + max(ledgers))
    assert worst == 1.0


@pytest.mark.parametrize("currency", ["gaussian", "renyi"])
def test_fixed_plans_inside_a_filter_keep_the_budget_exactly(currency):
    """A full ledger of mixed charges, composed numerically by an independent accountant."""
    ledger = Ledger(Budget(2.0, 1e-5), currency=currency)
    events = []
    for multiplier in itertools.cycle((6.0, 9.0, 14.0)):
        event = dpa.GaussianDpEvent(multiplier)
        if not ledger.affordable(event):
            break
        ledger.charge(event, "noise")
        events.append(event)
        laplace = dpa.LaplaceDpEvent(20.0)
        if ledger.affordable(laplace):
            ledger.charge(laplace, "laplace")
            events.append(laplace)
    accountant = dpa.pld.PLDAccountant(dpa.NeighboringRelation.REPLACE_SPECIAL)
    for event in events:
        accountant.compose(event)
    truth = accountant.get_epsilon(1e-5)
    assert len(events) > 6
    assert 1.6 < truth <= 2.0
    assert fixed_epsilon([e.cost for e in ledger.entries], 1e-5) >= truth - 1e-3
