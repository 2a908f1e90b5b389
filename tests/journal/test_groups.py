"""Groups of streams: charged once as what is proved for all of them, for no more than promised."""

from __future__ import annotations

import warnings

import pytest
from tests.journal.journal_cases import TOTAL, VALUES, opened, sums

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.pools import pool_guarantee, read_noise
from dpoco.domains import LpBall
from dpoco.losses import LinearLoss, QuadraticLoss

WIDE = dpoco.Budget(100.0, 1e-4)


def hidden(budget=TOTAL):
    """A learner that keeps its noise, private at a delta only and, far worse, purely."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
        return dpoco.experts.ObliviousTracker(4, horizon=1000, budget=budget)


def coupled():
    loss = QuadraticLoss(lipschitz=1.0, smoothness=1.0)
    return dpoco.oco.CoupledRegularizedLeader(LpBall(2), loss, horizon=10**6, budget=TOTAL)


def _guarantee(learner, size):
    return pool_guarantee(learner.guarantee, keys=size, noise=read_noise(learner))


def test_fresh_draws_cost_what_one_learner_costs(tmp_path):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        for user in range(5):
            journal.open(f"user {user}", sums, group="users", group_size=7)
            if user == 0:
                once = journal.spent
        assert journal.spent == once
        (entry,) = journal.ledger.entries
        assert entry.label == "group users"
        charge, one = _guarantee(sums(), 7), sums().guarantee
        assert (charge.epsilon, charge.mu) == (one.epsilon, one.mu)
        assert any("at most 7 keys" in text for text in charge.conditions)
    with opened(tmp_path) as journal:
        journal.open("user 5", sums, group="users")  # the size is known
        journal.open("user 0", sums, group="users")  # is there already
        started = sums()
        started.push(VALUES[0])
        journal.adopt("user 6", started, group="users")
        assert journal.spent == once
        with pytest.raises(dpoco.StateError, match="full"):
            journal.open("user 7", sums, group="users")
        assert journal.streams() == [f"user {user}" for user in range(7)]
        journal.open("other", sums)
        assert journal.spent == pytest.approx(2 * once)


def test_the_size_is_enforced_across_failures(tmp_path, monkeypatch):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        journal.open("a", sums, group="users", group_size=2)

        def full(rows):
            raise OSError("full")

        monkeypatch.setattr(journal._store, "put", full)
        for _ in range(3):
            with pytest.raises(OSError, match="full"):
                journal.open("b", sums, group="users")
        monkeypatch.undo()
        journal.open("b", sums, group="users")  # attempts do not count
        with pytest.raises(dpoco.StateError, match="full"):
            journal.open("c", sums, group="users")


def test_refusals_of_groups(tmp_path):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        with pytest.raises(TypeError, match="needs group_size"):
            journal.open("a", sums, group="users")
        with pytest.raises(TypeError, match="group_size needs group"):
            journal.open("a", sums, group_size=3)
        with pytest.raises(TypeError, match="text"):
            journal.open("a", sums, group=3, group_size=3)
        for size, error in ((0, ValueError), (2**31 + 1, ValueError), (1.0, TypeError)):
            with pytest.raises(error, match="group_size"):
                journal.open("a", sums, group="users", group_size=size)
        assert journal.streams() == []
        assert journal.spent == 0.0
        journal.open("a", sums, group="users", group_size=3)
        with pytest.raises(ValueError, match="for 3 streams"):
            journal.open("b", sums, group="users", group_size=4)
        with pytest.raises(ValueError, match="alike"):
            journal.open("b", lambda: sums(budget=TOTAL), group="users")
        with journal.transaction():
            journal._rows.put_value("group users", "{}")
        with pytest.raises(dpoco.StateError, match="corrupt"):
            journal.open("b", sums, group="users")


def test_hidden_noise_costs_more_than_one_learner(tmp_path):
    """A delta may be announced, and data come in reaction: one charge of it would be false."""
    one = hidden().guarantee
    charge = _guarantee(hidden(), 100)
    assert charge.delta == one.delta > 0.0
    assert charge.epsilon > 1.1 * one.epsilon
    with opened(tmp_path, ledger=Ledger(WIDE, currency="basic")) as journal:
        journal.open("alone", hidden)
        alone = journal.spent
        journal.open("user 0", hidden, group="users", group_size=100)
        assert journal.spent > 2.1 * alone  # once and once more would be 2
    (tmp_path / "tight").mkdir()
    with opened(tmp_path / "tight", ledger=Ledger(TOTAL)) as journal:
        with pytest.raises(dpoco.BudgetExceeded):
            journal.open("user 0", hidden, group="users", group_size=100)
        assert journal.streams() == []
        journal.open("alone", hidden)


def test_couplings_pay_the_tails_of_all_streams():
    learner = dpoco.oco.ContinuousMultiplicativeWeights(
        LpBall(2), LinearLoss(1.0), horizon=10**6, budget=TOTAL, sampler="mcmc"
    )
    one, charge = learner.guarantee, _guarantee(learner, 5)
    assert one.truncation_mass > 0.0
    assert charge.truncation_mass == pytest.approx(5 * one.truncation_mass)
    assert charge.epsilon > one.epsilon
    exact = coupled()
    assert _guarantee(exact, 10**4).epsilon == exact.guarantee.epsilon


def test_forks_of_a_group_are_charges_of_their_own(tmp_path):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        stream = journal.open("a", sums, group="users", group_size=1)
        once = journal.spent
        stream.process(VALUES[:3])
        stream.fork("b")
        assert journal.spent == pytest.approx(2 * once)
