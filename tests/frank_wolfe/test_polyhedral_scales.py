"""Noise scales of the polyhedral learner: the least that keep to a budget, and no less."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from dpoco.accounting import Budget
from dpoco.accounting.polyhedral_frank_wolfe import closed_scale, least_at, with_least_scale
from dpoco.privacy.mechanisms.selections import Selections, VertexScores
from dpoco.privacy.neighbours import ONE

SCORES = VertexScores(
    slope=1.0, leaf=1.0, leaf_l2=math.inf, diameter_l1=1.0, diameter_l2=1.0, diameter_max=1.0,
    product=False, batch=1, offset=0,
)  # fmt: skip
CASES = [(Budget(epsilon, delta), Selections(law, SCORES, 0.0, updates, power))
         for epsilon in (0.1, 1.0, 8.0) for delta in (1e-3, 1e-9)
         for law in ("gumbel", "laplace")
         for power, updates in ((2.0 / 3.0, 1), (2.0 / 3.0, 40), (0.5, 10**6))]  # fmt: skip


@pytest.mark.parametrize(("budget", "silent"), CASES)
def test_the_scale_is_the_least_that_keeps_to_the_budget(budget, silent):
    def delta(scale):
        return replace(silent, scale=scale).loss(ONE).delta(budget.epsilon)

    scale = with_least_scale(silent, ONE, budget).scale
    assert delta(scale) <= budget.delta
    assert delta(scale * (1.0 - 2e-9)) > budget.delta
    # What batches are compared by is the looser scale.
    quick = closed_scale(silent, ONE, budget)
    loose = with_least_scale(silent, ONE, budget, tight=False).scale
    assert delta(loose) <= budget.delta
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
