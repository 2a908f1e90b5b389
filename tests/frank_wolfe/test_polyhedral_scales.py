"""Noise scales of the polyhedral learner: the least that keep to a budget, and no less."""

from __future__ import annotations

import math

import pytest

from dpoco.accounting import Budget
from dpoco.accounting.polyhedral_frank_wolfe import Ranges, least_at
from dpoco.privacy.losses.decaying import Decay

CASES = [(Budget(epsilon, delta), Ranges(law, 2.0, 2.0, Decay(power, 0, updates)))
         for epsilon in (0.1, 1.0, 8.0) for delta in (1e-3, 1e-9)
         for law in ("gumbel", "laplace")
         for power, updates in ((2.0 / 3.0, 1), (2.0 / 3.0, 40), (0.5, 10**6))]  # fmt: skip


@pytest.mark.parametrize(("budget", "ranges"), CASES)
def test_the_scale_is_the_least_that_keeps_to_the_budget(budget, ranges):
    scale = ranges.least_scale(budget, tight=True)
    assert ranges.loss(scale).delta(budget.epsilon) <= budget.delta
    assert ranges.loss(scale * (1.0 - 2e-9)).delta(budget.epsilon) > budget.delta
    # What batches are compared by is the looser scale.
    quick, loose = ranges.closed_scale(budget), ranges.least_scale(budget, tight=False)
    assert ranges.loss(loose).delta(budget.epsilon) <= budget.delta
    assert quick <= loose <= quick * (1.0 + 1e-9)
    assert scale <= loose


@pytest.mark.parametrize(
    "delta",
    [
        lambda b: math.exp(-b),
        lambda b: b**-9.0,
        lambda b: 0.0 if b >= 2.0 else 1.0,  # falls at once, as past a pure epsilon
        lambda b: math.exp(-b) if b < 3.0 else 0.0,
    ],
)
@pytest.mark.parametrize("high", [3.5, 40.0])
def test_the_search_ends_above_the_least_for_any_falling_curve(delta, high):
    found = least_at(high, delta, 0.04)
    if delta(high) > 0.04:
        assert found == high
        return
    assert delta(found) <= 0.04
    assert delta(found * (1.0 - 2e-9)) > 0.04
