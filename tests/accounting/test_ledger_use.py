"""Ledgers in use: fixed plans, charges on the side, other relations, opening learners."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
from mpmath import mp, mpf, quad
from tests.late import Late

import dpoco
from dpoco.accounting import Budget, sum_release
from dpoco.accounting._ledger_sums import (
    Cost,
    Repeated,
    Spent,
    fixed_epsilon,
    make_filter,
    pure_mu,
)
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpoco.accounting.ledger import Ledger
from dpoco.errors import BudgetExceeded
from dpoco.privacy.losses.combined import Least, with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Pure, Zcdp

from .by_hand import bare, gaussian, pure

BUDGET = Budget(1.0, 1e-6)
dpa = Late("dp_accounting")


# --- fixed plans ----------------------------------------------------------------------------------


def test_a_fixed_plan_takes_the_smallest_bound():
    plan = Ledger(BUDGET, adaptive=False)
    assert plan.currency == "smallest bound"
    plan.charge(gaussian(0.1), "a")
    plan.charge(gaussian(0.12), "b")
    two = gaussian_epsilon(math.hypot(0.1, 0.12), 1e-6)
    assert plan.guarantee.epsilon == pytest.approx(two, rel=1e-9)
    plan.charge(pure(0.1), "c")
    assert plan.guarantee.epsilon == pytest.approx(two + 0.1, rel=0.2)
    assert plan.guarantee.epsilon <= (two + 0.1) * (1 + 1e-12)
    left = plan.remaining
    plan.charge(pure(left.epsilon * (1 - 1e-9)), "the rest")
    with pytest.raises(BudgetExceeded, match="above the budget's 1"):
        plan.charge(pure(0.01), "too much")
    assert plan.guarantee.delta == 1e-6
    assert plan.spent == pytest.approx(1.0, rel=1e-6)


def test_bare_charges_pay_on_the_side():
    ledger = Ledger(BUDGET, currency="gaussian", side_share=0.5)
    entry = ledger.charge(bare(0.1, 2e-7), "bare")
    assert entry.price.main == pytest.approx(pure_mu(0.1) ** 2)
    assert entry.price.side == 2e-7
    ledger.charge(bare(0.1, 3e-7), "fills the side")
    with pytest.raises(BudgetExceeded, match="on the side"):
        ledger.charge(bare(0.001, 1e-9), "no side left")
    plan = [entry.cost for entry in ledger.entries]
    assert fixed_epsilon(plan, 1e-6) <= 0.2 + 1e-12
    assert fixed_epsilon(plan, 4.9e-7) == math.inf


def test_truncated_tails_are_paid_with_the_factor_of_the_budget():
    tailed = gaussian(0.01, truncation_mass=1e-10)
    entry = Ledger(BUDGET).charge(tailed, "tails")
    assert entry.price.side == pytest.approx((1 + math.e) * 1e-10)
    assert entry.price.main == pytest.approx(1e-4)
    with pytest.raises(BudgetExceeded):
        Ledger(BUDGET, side_share=0.0, currency="gaussian").charge(
            gaussian(0.2, truncation_mass=1e-7), "tails"
        )
    tailed = pure(0.1, truncation_mass=1e-10, delta=1e-8)
    entry = Ledger(BUDGET, currency="basic").charge(tailed, "tails")
    assert (entry.price.main, entry.price.side) == (tailed.epsilon, 1e-8)
    assert tailed.epsilon > 0.0999


# --- conversions ----------------------------------------------------------------------------------

# How far apart a guarantee's neighbours are in a ledger's; 0: it says nothing there.
STEPS = {
    ("replace", "replace"): 1, ("replace", "zero_out"): 2, ("zero_out", "replace"): 1,
    ("zero_out", "zero_out"): 1,
}  # fmt: skip
SEEN = ("others", "everyone", "server")  # each sees what those before it see
KINDS = [pair for pair in itertools.product(("replace", "zero_out"), SEEN)
         if pair != ("zero_out", "server")]  # fmt: skip


@pytest.mark.parametrize("charged", KINDS)
@pytest.mark.parametrize("ledger", KINDS)
def test_change_decides_the_price_and_view_what_is_admitted(ledger, charged):
    item = dataclasses.replace(gaussian(0.05), change=charged[0], view=charged[1])
    book = Ledger(BUDGET, relation=ledger[0], view=ledger[1])
    emptied_reports = (ledger[0], charged[1]) == ("zero_out", "server")
    if SEEN.index(charged[1]) < SEEN.index(ledger[1]) or emptied_reports:
        cure = "relation='replace'" if emptied_reports else f"view='{charged[1]}'"
        with pytest.raises(ValueError, match=f"does not cover.*{cure}"):
            book.charge(item, "x")
        assert book.entries == ()
        return
    steps = STEPS[ledger[0], charged[0]]
    entry = book.charge(item, "x")
    assert entry.price.main == pytest.approx((steps * 0.05) ** 2)
    assert (entry.condition == "") == (ledger == charged)
    assert entry.condition in ("", *book.guarantee.conditions)
    assert Ledger.from_json(book.to_json()).to_json() == book.to_json()
    event = Ledger(BUDGET, relation=ledger[0], view=ledger[1])
    event = event.charge(dpa.GaussianDpEvent(20.0), "x", relation=charged[0])
    assert event.price.main == entry.price.main


def test_bandits_of_emptied_rounds_are_charged_as_any_learner_of_emptied_rounds():
    budget = Budget(0.25, 1e-6)
    problem = (dpoco.domains.LpBall(4, p=2.0), dpoco.losses.LogisticLoss(1.0))
    learners = [
        dpoco.oco.NoisyFTRL(*problem, horizon=10**5, budget=budget, relation="zero_out"),
        dpoco.bandits.LinUCB(
            3,
            4,
            horizon=10**5,
            budget=budget,
            relation="zero_out",
            context_bound=1.0,
            reward_bound=1.0,
        ),
        dpoco.bandits.HighDimensionalBandit(
            2,
            dpoco.domains.LpBall(4, p=1.0),
            horizon=10**5,
            budget=budget,
            relation="zero_out",
            context_bound=1.0,
            reward_bound=1.0,
        ),
    ]
    for learner in learners:
        guarantee = learner.guarantee
        assert guarantee.change == learner.get_params()["relation"] == "zero_out"
        book = Ledger(Budget(1.0, 1e-6), view="others", currency="gaussian")
        entry = book.charge(guarantee, "x", same_unit=True)
        if guarantee.mu is not None:
            assert entry.price.main == pytest.approx(4.0 * guarantee.mu**2)
        assert entry.cost.epsilon == 2.0 * guarantee.epsilon
        if guarantee.view == "others":
            with pytest.raises(ValueError, match="view='others'"):
                Ledger(Budget(9.0, 1e-5)).charge(guarantee, "x", same_unit=True)


def test_two_steps_against_brute_force():
    """Emptying and filling a round with Gaussian, Laplace and approximate noise."""
    cost = Ledger(BUDGET).charge(gaussian(0.05), "x").cost.double()
    for epsilon in (0.0, 0.1, 0.5):
        with mp.workdps(30):  # N(0.1, 1) against N(0, 1): sums 0.05 apart, twice
            e = mpf(epsilon)

            def excess(x, e=e):
                return max(mp.npdf(x, mpf("0.1"), 1) - mp.exp(e) * mp.npdf(x), 0)

            start = e / mpf("0.1") + mpf("0.05")
            truth = quad(excess, [start, start + 2, start + 12])
        found = gaussian_delta(epsilon, math.sqrt(cost.square()))
        assert found == pytest.approx(float(truth), rel=1e-9)
    assert cost.loss.rho == pytest.approx(4 * 0.05**2 / 2)
    both = Cost(Repeated(Least((Pure(0.1), Gaussian(1.0))), 3)).double().loss
    assert (both.one.pure, both.one.mu) == pytest.approx((0.2, 2.0), rel=1e-13)
    assert both.count == 3
    assert Cost(epsilon=800.0, delta=1e-9).double().delta == 1.0
    assert Cost(epsilon=10.0, delta=0.5).double().delta == 1.0
    basic = Ledger(Budget(1.0, 1e-3), relation="replace", currency="basic")
    entry = basic.charge(dataclasses.replace(bare(0.3, 1e-4), change="zero_out"), "x")
    # P <= e^a Q + d and Q <= e^a R + d give P <= e^2a R + (1 + e^a) d.
    assert entry.price.main == pytest.approx(0.6)
    assert entry.price.side == pytest.approx(1e-4 * (1 + math.exp(0.3)))


# --- opening learners -----------------------------------------------------------------------------


def test_open_gives_the_largest_budget_that_fits():
    ledger = Ledger(BUDGET)
    asked = []

    def make(budget):
        asked.append(budget)
        parameters = sum_release.calibrate(3, horizon=64, budget=budget, bound=1.0)
        return dataclasses.make_dataclass("Sum", ["guarantee"])(
            sum_release.guarantee(parameters, budget=budget)
        )

    first = ledger.open(make, "half", share=0.5)
    assert len(asked) <= 30
    limit = gaussian_mu(1.0, 0.99e-6) ** 2
    assert 0.49 * limit < first.guarantee.mu**2 <= 0.5 * limit
    second = ledger.open(make, "the rest")
    assert 0.995 < ledger.spent <= 1.0
    assert math.hypot(first.guarantee.mu, second.guarantee.mu) <= gaussian_mu(1.0, 1e-6)
    with pytest.raises(BudgetExceeded, match="nothing fits"):
        ledger.open(make, "one more", share=1e-4)
    assert len(ledger.entries) == 2


def test_what_remains_is_admitted_and_not_more():
    for currency in ("gaussian", "renyi", "basic"):
        ledger = Ledger(BUDGET, currency=currency)
        ledger.charge(bare(0.1, 1e-8), "first")
        left = ledger.remaining
        if currency == "basic":
            assert (left.epsilon, left.delta) == (0.9, 1e-6 - 1e-8)
            fits, too_much = bare(left.epsilon, left.delta), bare(left.epsilon + 1e-9, 0.0)
        else:
            mu = gaussian_mu(left.epsilon, left.delta)
            fits, too_much = gaussian(mu), gaussian(mu * (1 + 1e-6))
        assert not ledger.affordable(too_much)
        ledger.charge(fits, "second")
        assert ledger.spent == pytest.approx(1.0, abs=1e-6)


def test_a_real_learner_may_take_everything():
    domain = dpoco.domains.LpBall(2, p=2.0, radius=1.0)
    learner = dpoco.frank_wolfe.TreeFrankWolfe(
        domain, dpoco.losses.SquaredLoss(1.0, 1.0), horizon=3000, budget=BUDGET
    )
    ledger = Ledger(BUDGET)
    ledger.charge(learner.guarantee, "everything")
    assert ledger.currency == "basic"
    assert ledger.spent == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(BudgetExceeded, match="left are"):
        ledger.charge(pure(1e-3), "more")


def test_the_first_charge_decides_by_the_smallest_share():
    for charge, currency in (
        (gaussian(0.05), "gaussian"), (pure(0.3), "basic"), (pure(0.003), "renyi"),
        (bare(0.9, 9e-7), "basic"),
    ):  # fmt: skip
        ledger = Ledger(BUDGET)
        ledger.charge(charge, "first")
        assert ledger.currency == currency
        shares = []
        for other in ("basic", "gaussian", "renyi"):
            book = Ledger(BUDGET, currency=other)
            if book.affordable(charge):
                book.charge(charge, "first")
                shares.append(book.spent)
        assert ledger.spent == min(shares)


def test_a_share_of_a_fixed_plan():
    plan = Ledger(Budget(1.0, 0.0), adaptive=False)
    plan.charge(pure(0.2), "first")

    class Learner:
        def __init__(self, budget):
            self.guarantee = pure(budget.epsilon)

    learner = plan.open(Learner, "a quarter of the rest", share=0.25)
    assert 0.2 * (1 - 2e-3) <= learner.guarantee.epsilon <= 0.2
    assert plan.open(Learner, "the rest").guarantee.epsilon == pytest.approx(0.6, rel=3e-3)


def test_sums_may_be_filled_to_the_last_bit():
    """Ten tenths are one, whatever their differences round to."""
    ledger = Ledger(Budget(1.0, 0.0))
    for day in range(10):
        ledger.charge(pure(0.1), f"day {day}")
    assert ledger.spent == 1.0
    assert not ledger.affordable(pure(1e-12))


def test_a_share_of_the_side_is_a_share_of_what_is_left():
    ledger = Ledger(BUDGET, currency="gaussian", side_share=0.5)
    ledger.charge(bare(0.01, 4e-7), "most of the side")

    class Learner:
        def __init__(self, budget):
            self.guarantee = bare(0.001 * budget.epsilon, 9e-8)

    with pytest.raises(BudgetExceeded, match="nothing fits"):
        ledger.open(Learner, "more than half of the rest", share=0.5)
    ledger.open(Learner, "less than all of the rest", share=0.95)


def test_without_a_side_the_parts_are_paid():
    rule = make_filter("gaussian", BUDGET, 0.5)
    cost = Cost(Gaussian(0.1), epsilon=0.05, delta=3e-7)
    assert rule.choose(cost, rule.limit) == "point"
    assert rule.choose(cost, Spent(rule.limit.main, 0.0)) == "parts"


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
def test_a_budget_beyond_all_numbers_has_no_tails_to_pay():
    """e^800 overflows: tails cannot be paid then, and no tails cost nothing."""
    rule = make_filter("gaussian", Budget(800.0, 0.1), 0.1)
    ideal, real = Cost(Gaussian(1.0)), Cost(with_tails(Gaussian(1.0), 1e-12))
    assert rule.prices(ideal)["parts"] == (1.0, 0.0)
    assert rule.prices(real)["parts"] == (1.0, math.inf)


@pytest.mark.parametrize("known", ["mu", "rho"])
def test_tails_of_all_charges_count_in_a_plan(known):
    """Two charges with tails: delta pays (1 + e^epsilon) times both masses."""
    loss = Gaussian(0.1) if known == "mu" else Zcdp(0.005)
    costs = [Cost(with_tails(loss, mass)) for mass in (2e-7, 1e-7)]
    epsilon = fixed_epsilon(costs, 1e-6)
    ideal = fixed_epsilon([Cost(loss)] * 2, 1e-6)
    charged = fixed_epsilon([Cost(with_tails(loss, 3e-7)), Cost(loss)], 1e-6)
    assert epsilon == pytest.approx(charged, rel=1e-9)
    assert epsilon > 1.02 * ideal
    assert fixed_epsilon(costs, 5e-7) == math.inf
    side = [*costs, Cost(epsilon=0.0, delta=3e-7)]
    assert fixed_epsilon(side, 1.3e-6) >= epsilon * (1 - 1e-9)
    if known == "rho":  # the faster search of all epsilons
        assert fixed_epsilon(side[:1] + side[2:], 4e-7) == math.inf
