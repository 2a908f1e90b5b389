"""Charges across learners, restarts and forks; what is not paid for draws nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.journal.journal_cases import PART, ROUNDS, TOTAL, VALUES, cases, opened, sums

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.accounting.pools import read_noise
from dpoco.journal._accounts import check_forkable, renew

CASES = {case.name: case for case in cases()}


def test_charges_survive_restarts(tmp_path):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        assert journal.spent == 0.0
        journal.open("a", sums)
        first = journal.spent
        assert 0.0 < first < 1.0
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:  # of the same terms
        assert journal.spent == first
        journal.open("a", sums)  # not charged again
        assert journal.spent == first
        journal.open("b", sums)
        assert journal.spent == pytest.approx(2 * first)
        assert [entry.label for entry in journal.ledger.entries] == ["a", "b"]
    with opened(tmp_path) as journal:
        made = []
        with pytest.raises(dpoco.BudgetExceeded):
            journal.open("c", lambda: made.append(sums()) or made[-1])
        assert made[0]._engine.round == 0
        assert journal.streams() == ["a", "b"]
        assert journal.spent == pytest.approx(2 * first)
        assert journal.guarantee.epsilon == 1.0
        with pytest.raises(dpoco.BudgetExceeded):
            journal.open("free", lambda: sums(budget=None))


def test_terms_of_the_ledger(tmp_path):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        journal.open("a", sums)
    for other in (
        Ledger(dpoco.Budget(2.0, 1e-6)),
        Ledger(TOTAL, relation="zero_out"),
        Ledger(TOTAL, unit="one person"),
        Ledger(TOTAL, currency="renyi"),
        Ledger(TOTAL, adaptive=False),
    ):
        with pytest.raises(dpoco.StateError, match="another ledger"):
            opened(tmp_path, ledger=other)
    with pytest.raises(TypeError):
        dpoco.journal.Journal(tmp_path / "journal.db", ledger=1.0)
    (tmp_path / "free").mkdir()
    with opened(tmp_path / "free") as journal:
        assert journal.spent is None
        assert journal.ledger is None
        assert journal.guarantee is None
    with pytest.raises(dpoco.StateError, match="without a ledger"):
        opened(tmp_path / "free", ledger=Ledger(TOTAL))


def test_a_refused_charge_is_not_half_entered(tmp_path, monkeypatch):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        journal.open("a", sums)
        before = journal.spent

        def full(rows):
            raise OSError("full")

        monkeypatch.setattr(journal._store, "put", full)
        with pytest.raises(OSError, match="full"):
            journal.open("b", sums)
        monkeypatch.undo()
        assert journal.spent == before
        journal.open("b", sums)
        assert journal.spent == pytest.approx(2 * before)


def test_adaptive_budgets_hold_for_adopted_learners(tmp_path):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        started = sums(1)
        started.push(VALUES[0])
        journal.adopt("a", started)
        assert journal.spent > 0.0
        with pytest.raises(dpoco.BudgetExceeded):
            journal.adopt("b", sums(2, budget=TOTAL))


# -- forks --------------------------------------------------------------------------------------


def test_a_fork_is_a_second_charge(tmp_path):
    with opened(tmp_path, ledger=Ledger(TOTAL)) as journal:
        stream = journal.open("a", sums)
        once = journal.spent
        common = stream.process(VALUES[:7])
        fork = stream.fork("b")
        assert journal.spent == pytest.approx(2 * once)
        assert (fork.round, fork.kept_from) == (7, 7)
        with pytest.raises(dpoco.StateError, match="not kept"):
            fork.releases(0, 7)
        with pytest.raises(dpoco.BudgetExceeded):
            stream.fork("c")
        with pytest.raises(ValueError, match="already"):
            stream.fork("b")
        assert journal.streams() == ["a", "b"]
        ours, theirs = stream.process(VALUES[7:]), fork.process(VALUES[7:])
        assert (ours != theirs).all()  # the same data, other noise
        np.testing.assert_array_equal(stream.releases(0, 7), common)
    with opened(tmp_path) as journal:
        np.testing.assert_array_equal(journal.open("b").process(VALUES[7:], first_round=7), theirs)
        np.testing.assert_array_equal(journal.open("a").process(VALUES, first_round=0)[7:], ours)


def test_without_a_ledger_there_is_no_fork(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", sums)
        with pytest.raises(dpoco.StateError, match="no ledger"):
            stream.fork("b")


def test_facts_about_noise_belong_to_the_class_and_not_to_its_name():
    hidden = type("NoisyFTRL", (dpoco.experts.ObliviousTracker,), {})
    renamed = type("ObliviousTracker", (dpoco.oco.NoisyFTRL,), {})
    learner = hidden(4, horizon=10, budget=TOTAL)
    assert learner._kind == "NoisyFTRL"
    assert read_noise(learner) == "hidden"
    with pytest.raises(TypeError, match="cannot be forked"):
        check_forkable(learner)
    ball, loss = dpoco.domains.LpBall(3, p=2.0), dpoco.losses.LogisticLoss(1.0)
    learner = renamed(ball, loss, horizon=10_000, budget=PART)
    assert read_noise(learner) == "fresh"
    check_forkable(learner)
    queries = dpoco.mechanisms.NoisyMax(4, horizon=10, budget=PART, sensitivity=1.0)
    assert read_noise(queries) == "hidden"  # one record is in all rounds
    check_forkable(queries)


@pytest.mark.parametrize("name", sorted(CASES))
def test_forks_of_every_family(name, tmp_path):
    case = CASES[name]
    wide = Ledger(dpoco.Budget(100.0, 1e-4), currency="basic", relation="replace")
    if name == "LinUCB":
        wide = Ledger(dpoco.Budget(100.0, 1e-4), currency="basic", view="others")
    with opened(tmp_path, ledger=wide) as journal:
        stream = journal.open("a", lambda: case.make(1))
        stream.process(*case.part(0, 9))
        if type(case.make(1))._noise != "fresh":
            with pytest.raises(TypeError, match="cannot be forked"):
                stream.fork("b")
            return
        fork = stream.fork("b")
        if not stream._family.answers and not stream._family.contextual:
            assert np.array_equal(fork.decide(), stream.decide())  # decided before the fork
        fork.process(*case.part(9, ROUNDS))
        np.testing.assert_array_equal(stream.process(*case.part(9, ROUNDS)), case.reference()[9:])
        states = [s._learner._engine.state() for s in (stream, fork)]
        assert len(states[0]) == len(states[1])
        assert states[0] != states[1]


@pytest.mark.parametrize("method", ["tree", "blt", "toeplitz"])
def test_the_noise_of_a_fork(method):
    """Past draws are shared, later ones are independent: the law of the difference of the two.

    A fork that kept its key would have no difference, one that forgot its past that of two whole
    noises.
    """
    at, seen = 5, []
    zero = np.zeros((ROUNDS, 2))
    for seed in range(400):
        learner = sums(seed, method=method)
        learner.run(zero[:at])
        other = type(learner)._from_bytes(learner._to_bytes())
        renew(other)
        seen.append(learner.run(zero[at:]) - other.run(zero[at:]))
    difference = np.array(seen).transpose(1, 0, 2).reshape(ROUNDS - at, -1)
    later = range(at + 1, ROUNDS + 1)
    if method == "tree":
        scale = learner.plan.mechanism.scale
        parts = [scale**2 * sum(end > at for end in _node_ends(t)) for t in later]
    else:  # the same weights, counted from the fork on
        parts = [learner.variance(t - at) for t in later]
    expected = 2.0 * np.array(parts)
    # chi^2 with 800 degrees of freedom: six standard deviations are 30 %.
    np.testing.assert_allclose((difference**2).mean(axis=1), expected, rtol=0.3)
    whole = np.array([learner.variance(t) for t in later])
    assert (expected < 2.0 * whole).any()


def _node_ends(t):
    """Last leaves of the nodes of the binary tree that make up the first t leaves."""
    ends, end = [], 0
    for level in reversed(range(t.bit_length())):
        if t >> level & 1:
            end += 1 << level
            ends.append(end)
    return ends


def test_the_squared_sensitivity_of_both_continuations_at_most_doubles():
    """Gaussian draws: those of the past once, later ones twice, for every place of the record."""
    for horizon, at in ((8, 3), (16, 11), (5, 0), (7, 7)):
        coefficients = _square_root(horizon)
        largest = math.sqrt(np.square(coefficients).sum(axis=0).max())
        for place in range(horizon):
            column = coefficients[:, place]
            joint = np.square(column[:at]).sum() + 2.0 * np.square(column[at:]).sum()
            assert joint <= 2.0 * largest**2 * (1.0 + 1e-12)


def _square_root(horizon):
    """The square root of the matrix of ones below the diagonal."""
    row = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, horizon))])
    return np.array(
        [[row[i - j] if i >= j else 0.0 for j in range(horizon)] for i in range(horizon)]
    )
