"""Losses composed: each combinator against an oracle that shares no code with it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy

from dpoco.privacy.losses.combined import (
    NOTHING,
    UNKNOWN,
    Group,
    Least,
    Tailed,
    either,
    group,
    together,
    with_tails,
)
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import ORDERS, Loss, Pure, Zcdp, crossing

EPSILONS = (0.0, 0.01, 0.3, 1.0, 2.5, 7.0)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the hockey-stick divergence of N(mu, 1) from N(0, 1), by the textbook formula."""
    upper = scipy.stats.norm.cdf(0.5 * mu - epsilon / mu)
    return float(upper - math.exp(epsilon) * scipy.stats.norm.cdf(-0.5 * mu - epsilon / mu))


def with_response(epsilon: float, mu: float, pure: float) -> float:
    """Return the exact delta of a Gaussian release beside a randomised response."""
    p = 1.0 / (1.0 + math.exp(-pure))
    likely, unlikely = ((p, pure), (1.0 - p, -pure))

    def shifted(e: float) -> float:  # the Gaussian's divergence holds at any real epsilon
        return gaussian_delta(e, mu)

    return sum(weight * shifted(epsilon - ratio) for weight, ratio in (likely, unlikely))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_together_of_gaussians_is_exact(epsilon):
    found = together(Gaussian(0.6), Gaussian(0.8))
    assert isinstance(found, Gaussian)
    assert found.delta(epsilon) == pytest.approx(gaussian_delta(epsilon, 1.0), rel=1e-9, abs=1e-15)
    less = together(Gaussian(0.6), Gaussian(0.7))
    assert less.delta(epsilon) < gaussian_delta(epsilon, 1.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("mu", "pure"), [(0.5, 0.2), (1.0, 1.0), (2.0, 0.05), (0.1, 3.0)])
def test_together_bounds_a_gaussian_beside_a_response(epsilon, mu, pure):
    truth = with_response(epsilon, mu, pure)
    found = together(Gaussian(mu), Pure(pure)).delta(epsilon)
    assert truth <= found * (1.0 + 1e-9)
    # Were a part dropped, the bound would fall below the truth somewhere.
    assert gaussian_delta(epsilon, mu) < truth or truth < 1e-12
    assert found <= 1.0


def test_together_is_no_worse_than_its_ways():
    loss = together(Gaussian(0.5), Pure(0.25))
    for epsilon in EPSILONS:
        aside = Gaussian(0.5).delta(epsilon - 0.25) if epsilon >= 0.25 else 1.0
        assert loss.delta(epsilon) <= min(1.0, aside) * (1.0 + 1e-9)
    assert together(NOTHING, Gaussian(0.5)) == Gaussian(0.5)
    assert together() == NOTHING
    assert together(Pure(1.0), Pure(0.5)).pure == pytest.approx(1.5, rel=1e-12)
    assert together(Gaussian(1.0), UNKNOWN).delta(3.0) == 1.0


def test_divergences_add_up():
    parts = (Gaussian(0.7), Zcdp(0.2), Pure(0.4))
    total = together(*parts).renyi(ORDERS)
    separate = sum(part.renyi(ORDERS) for part in parts)
    assert np.all(total >= separate)
    assert total == pytest.approx(separate, rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_either_is_the_worst_everywhere(epsilon):
    # Their curves cross: neither alone is enough.
    parts = (Gaussian(1.0), Pure(1.2))
    assert Gaussian(1.0).delta(0.0) < Pure(1.2).delta(0.0)
    assert Gaussian(1.0).delta(2.5) > Pure(1.2).delta(2.5)
    found = either(*parts).delta(epsilon)
    assert found == max(part.delta(epsilon) for part in parts)


@dataclass(frozen=True)
class Step(Loss):
    """A curve with a parameter of its own."""

    kind = "step"
    height: float

    def delta(self, epsilon: float) -> float:
        return self.height


def test_either_drops_no_part_that_differs():
    assert either(Step(0.1), Step(0.2)).delta(1.0) == 0.2
    assert either(Step(0.1), Step(0.1)) == Step(0.1)


@pytest.mark.parametrize("size", [2, 5, 40])
def test_a_group_is_a_chain(size):
    assert group(Gaussian(0.3), 1) == Gaussian(0.3)
    for epsilon in EPSILONS:
        truth = gaussian_delta(epsilon, 0.3 * size)
        assert group(Gaussian(0.3), size).delta(epsilon) >= truth * (1.0 - 1e-9)
        pure = group(Pure(0.1), size)
        assert pure.delta(epsilon) >= Pure(0.1 * size).delta(epsilon)
        rho = group(Zcdp(0.01), size)
        assert rho.delta(epsilon) >= Zcdp(0.01 * size**2).delta(epsilon) * (1.0 - 1e-12)
    tails = group(with_tails(Gaussian(0.3), 1e-9), size)
    assert tails.mass == 1e-9  # the two ends of the chain only
    assert group(Step(0.1 / size), size) == Group(Step(0.1 / size), size)


@dataclass(frozen=True)
class Curve(Loss):
    """A curve of which nothing else is known."""

    kind = "curve"
    of: Loss

    def delta(self, epsilon: float) -> float:
        return self.of.delta(epsilon)


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("one", [Gaussian(0.4), Gaussian(2.0), Pure(0.5)])
def test_a_chain_of_curves_is_above_the_truth(one, size):
    chain = group(Curve(one), size)
    truth = Gaussian(one.mu * size) if one.mu < math.inf else Pure(one.pure * size)
    for epsilon in (*EPSILONS, 650.0, 800.0, 1e5):
        share = epsilon / size
        terms = sum(math.exp(i * share) for i in range(size)) if epsilon < 700.0 else math.inf
        assert chain.delta(epsilon) >= truth.delta(epsilon) * (1.0 - 1e-9)
        if epsilon < 700.0:
            stated = min(1.0, terms * one.delta(share))
            assert chain.delta(epsilon) == pytest.approx(stated, rel=1e-9, abs=1e-13)
    assert chain.epsilon(1e-6) >= truth.epsilon(1e-6) * (1.0 - 1e-9)


def test_a_chain_without_its_powers_would_be_false():
    """The delta of one change at epsilon / k alone is below the truth, and so is k times it."""
    truth = Gaussian(4.0)
    assert any(2.0 * Gaussian(2.0).delta(e / 2) < truth.delta(e) for e in EPSILONS)


def test_a_chain_is_stored_and_read():
    chain = group(Curve(Pure(0.5)), 3)
    assert chain.to_dict() == {
        "kind": "group",
        "one": {"kind": "curve", "of": {"kind": "pure", "epsilon": 0.5}},
        "size": 3,
    }
    for size in (1, 2.0, True):
        with pytest.raises(ValueError, match="size"):
            Group(Pure(0.5), size)


def test_what_is_known_in_two_ways_counts_as_the_less():
    both = Least((Gaussian(1.0), Pure(1.2)))
    for epsilon in EPSILONS:
        assert both.delta(epsilon) == min(Gaussian(1.0).delta(epsilon), Pure(1.2).delta(epsilon))
    assert both.mu == 1.0
    assert both.pure == 1.2


@pytest.mark.parametrize("ideal", [Gaussian(0.8), Pure(2.0), Zcdp(0.3)])
@pytest.mark.parametrize("mass", [1e-12, 1e-7, 1e-3])
def test_tails_are_charged_at_the_best_smaller_epsilon(ideal, mass):
    loss = with_tails(ideal, mass)
    assert loss.mass == mass
    grid = np.linspace(0.0, 12.0, 2001)
    for epsilon in EPSILONS:
        points = [e for e in grid if e < epsilon] + [epsilon]
        best = min(ideal.delta(e) + (1.0 + math.exp(e)) * mass for e in points)
        found = loss.delta(epsilon)
        assert found >= ideal.delta(epsilon)
        assert found <= min(1.0, best) * 1.3
        assert found >= best * (1.0 - 1e-2)  # the grid is coarse
    assert with_tails(loss, mass) == Tailed(ideal, 2.0 * mass * (1.0 + 1e-14))
    assert with_tails(ideal, 0.0) is ideal


def test_a_delta_below_the_charge_for_tails_needs_no_search(monkeypatch):
    loss = with_tails(Least((Gaussian(0.8), Zcdp(0.3))), 1e-9)
    assert loss.epsilon(1e-5) < math.inf
    monkeypatch.setattr(Gaussian, "delta", None)
    assert loss.epsilon(1.9e-9) == math.inf


@pytest.mark.parametrize(
    "loss",
    [
        Gaussian(1e-4),
        Gaussian(0.9),
        Gaussian(30.0),
        Pure(1e-3),
        Pure(5.0),
        Zcdp(1e-6),
        Zcdp(2.0),
        together(Gaussian(0.4), Pure(0.3)),
        with_tails(Gaussian(0.9), 1e-12),
        with_tails(Pure(0.9), 1e-12),
    ],
    ids=str,
)
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-10])
def test_the_search_returns_what_holds_and_little_more(loss, delta):
    epsilon = loss.epsilon(delta)
    if epsilon == math.inf:  # the tails alone cost more
        assert loss.mass > 0.0
        assert min(loss.delta(e) for e in np.linspace(0.0, 20.0, 201)) > delta
        return
    assert loss.delta(epsilon) <= delta
    assert epsilon == 0.0 or loss.delta(epsilon * (1.0 - 1e-12)) > delta


def test_the_search_of_what_is_never_reached():
    assert UNKNOWN.epsilon(1e-6) == math.inf
    assert with_tails(Gaussian(1.0), 1e-3).epsilon(1e-6) == math.inf
    assert Gaussian(1.0).epsilon(0.0) == math.inf
    assert Pure(1.0).epsilon(0.0) == 1.0
    assert with_tails(Pure(1.0), 1e-20).epsilon(0.0) == math.inf
    assert NOTHING.epsilon(0.0) == 0.0
    assert Gaussian(1e9).epsilon(0.5) == math.inf


@pytest.mark.parametrize("power", [1, 3, 9])
def test_a_crossing_is_found_from_above(power):
    root = 0.7391
    found = crossing(lambda x: root**power - x**power, 0.0, 3.0, 2.0**-49)
    assert root - 1e-15 <= found <= root * (1.0 + 2.0**-48)
    stairs = crossing(lambda x: 1.0 if x < root else -1.0, 0.0, 1e6, 2.0**-49)
    assert root <= stairs <= root * (1.0 + 2.0**-47)


@pytest.mark.parametrize("cls", [Gaussian, Pure, Zcdp])
@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_what_is_no_bound_is_refused(cls, value):
    with pytest.raises(ValueError, match="at least 0"):
        cls(value)
