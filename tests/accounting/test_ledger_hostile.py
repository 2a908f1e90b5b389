"""Ledgers against hostile use: negative costs, extremes, builders that charge, edited records."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from mpmath import mp, mpf
from tests.late import Late

from dpoco.accounting import Budget, sum_release
from dpoco.accounting._ledger_sums import pure_mu
from dpoco.accounting.events import event_loss
from dpoco.accounting.ledger import Ledger
from dpoco.errors import BudgetExceeded, CalibrationError, StateError

BUDGET = Budget(1.0, 1e-6)
dpa = Late("dp_accounting")


def sums(budget):
    parameters = sum_release.calibrate(3, horizon=10, budget=budget)
    return sum_release.guarantee(parameters, budget=budget)


def test_no_event_enlarges_the_budget():
    """Such a cost would be negative, or nothing: the package that defines events checks nothing."""
    for event in (
        dpa.ZCDpEvent(-1.0), dpa.ZCDpEvent(math.nan), dpa.RandomizedResponseDpEvent(1.5, 2),
        dpa.RandomizedResponseDpEvent(-0.5, 2), dpa.RandomizedResponseDpEvent(math.nan, 2),
        dpa.RandomizedResponseDpEvent(0.5, 0), dpa.RandomizedResponseDpEvent(0.5, -3),
        dpa.SelfComposedDpEvent(dpa.SelfComposedDpEvent(dpa.NoOpDpEvent(), 10**12), 2),
    ):  # fmt: skip
        ledger, hidden = Ledger(BUDGET), dpa.ComposedDpEvent([event, dpa.LaplaceDpEvent(2.0)])
        with pytest.raises(ValueError, match="must"):
            ledger.charge(event, "hostile")
        with pytest.raises(ValueError, match="must"):
            ledger.charge(hidden, "hidden in another")
        assert ledger.entries == ()
        assert ledger.spent == 0.0


@pytest.mark.parametrize("multiplier", [-1.0, 0.0, 1e-200, 5e-324, math.nan])
@pytest.mark.parametrize("currency", ["auto", "basic", "gaussian", "renyi"])
def test_noise_that_is_none_is_refused_in_every_currency(currency, multiplier):
    for event in (dpa.GaussianDpEvent, dpa.LaplaceDpEvent):
        ledger = Ledger(BUDGET, currency=currency)
        with pytest.raises(BudgetExceeded):
            ledger.charge(event(multiplier), "no noise")
        assert not ledger.affordable(event(multiplier))


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 300.0, 599.0, 601.0, 701.0, 5e3, 1e9, 1e300])
def test_pure_privacy_of_any_size_is_converted_upwards(epsilon):
    """Phi(-mu / 2) <= 1 / (1 + e^epsilon), in logarithms and many digits."""
    with mp.workdps(40):
        x, e = mpf(pure_mu(epsilon)) / 2, mpf(epsilon)
        chance = mp.log(mp.erfc(x / mp.sqrt(2)) / 2) if x < 1e6 else -x * x / 2  # an upper bound
        wanted = -mp.log1p(mp.exp(e)) if e < 1e4 else -e - mp.log(2)
        assert chance <= wanted * (1 - mpf(10) ** -13) + mpf(10) ** -30
        assert chance >= wanted * mpf("1.02") - mpf(1e-8)


def test_a_huge_pure_epsilon_does_not_fit_a_large_gaussian_budget():
    ledger = Ledger(Budget(4000.0, 1e-6), currency="gaussian")
    for multiplier in (1.0 / 5000.0, 1e-9):
        with pytest.raises(BudgetExceeded):
            ledger.charge(dpa.LaplaceDpEvent(multiplier), "epsilon over the budget's")


KINDS = ({}, {"currency": "basic"}, {"adaptive": False})
EPSILONS = (5e-324, 1e-300, 1e-4, 1.0, 700.0, 2.0**63, 1e300)
DELTAS = (0.0, 5e-324, 1e-300, 1e-6, 0.5, 1.0 - 2.0**-53)
# Every pair of an epsilon, a delta and a kind of ledger.
HUGE_AND_TINY = [
    (epsilon, delta, KINDS[(i + j) % 3])
    for (i, epsilon), (j, delta) in itertools.product(enumerate(EPSILONS), enumerate(DELTAS))
]


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
@pytest.mark.parametrize(("epsilon", "delta", "options"), HUGE_AND_TINY)
def test_budgets_of_any_size_work_as_far_as_a_currency_has_a_limit(epsilon, delta, options):
    ledger = Ledger(Budget(epsilon, delta), **options)
    ledger.charge(dpa.NoOpDpEvent(), "nothing")
    ledger.charge(dpa.LaplaceDpEvent(4.0 / min(epsilon, 1e300)), "at most half")
    with pytest.raises(BudgetExceeded):
        ledger.charge(dpa.GaussianDpEvent(0.0), "everything")
    assert 0.0 <= ledger.spent <= 1.0
    assert ledger.remaining is None or ledger.remaining.epsilon <= epsilon
    assert str(ledger)
    assert repr(ledger)
    assert ledger.guarantee.epsilon <= epsilon
    assert Ledger.from_json(ledger.to_json()).to_dict() == ledger.to_dict()


def test_a_currency_without_a_limit_is_refused_when_it_is_chosen():
    """Renyi divergences prove nothing for a small epsilon at a small delta."""
    with pytest.raises(CalibrationError, match="renyi"):
        Ledger(Budget(1e-4, 1e-6), currency="renyi")
    with pytest.raises(CalibrationError, match="gaussian"):
        Ledger(Budget(1e7, 1e-6), currency="gaussian")
    ledger = Ledger(Budget(1e-4, 1e-6))
    ledger.charge(dpa.GaussianDpEvent(1e200), "next to nothing")
    assert ledger.currency in ("basic", "gaussian")
    assert ledger.spent < 1e-9


def test_small_squares_do_not_vanish():
    tiny = event_loss(dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1e160), 10**12))
    assert tiny.mu**2 == pytest.approx(1e-308, rel=1e-6)


def test_a_builder_that_charges_the_same_ledger_gets_nothing():
    """What was left when a learner was measured is not left any more when it would be charged."""
    ledger, calls = Ledger(BUDGET), []

    class Learner:
        def __init__(self, budget):
            self.guarantee = sums(budget)

    def make(budget):
        calls.append(budget)
        if len(calls) == 3:
            ledger.charge(sums(Budget(0.9, 1e-6)), "inner")
        return Learner(budget)

    with pytest.raises(RuntimeError, match="must not charge"):
        ledger.open(make, "outer", share=0.5)
    assert [entry.label for entry in ledger.entries] == ["inner"]
    assert ledger.spent <= 1.0


@pytest.mark.parametrize("edit", [{"unit": None}, {"currency": "auto"}])
def test_records_that_forget_what_the_first_charge_decided_are_refused(edit):
    ledger = Ledger(BUDGET)
    ledger.charge(sums(Budget(0.5, 1e-6)), "sums")
    record = json.loads(ledger.to_json())
    assert Ledger.from_dict(record).to_dict() == ledger.to_dict()
    with pytest.raises(StateError):
        Ledger.from_dict(record | edit)


def test_thousands_of_charges_fill_a_budget_and_never_exceed_it():
    """Sums are exact but for one rounding at the end, in whatever order and of whatever sizes."""
    ledger = Ledger(Budget(1.0, 0.0))
    small, large = dpa.LaplaceDpEvent(2.0**20), dpa.LaplaceDpEvent(2.0)
    for count in range(300):
        ledger.charge(small, f"small {count}")
    ledger.charge(large, "half")
    rest = 2**19 - 300
    ledger.charge(dpa.SelfComposedDpEvent(small, rest), "to the last bit")
    assert ledger.spent == 1.0
    assert ledger.remaining is None
    with pytest.raises(BudgetExceeded):
        ledger.charge(dpa.LaplaceDpEvent(2.0**50), "one more")
