"""Caps, widths and clipping errors of couplings: oracles, exact tails, laws on a grid."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from dpoco.accounting._coupled_costs import anchor_width, bernstein_cap, clip_penalty, switch_cap
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon

G, A, P = 0.05, 0.1, 0.05


def worst_distance(slopes, width, forced):
    """Largest total variation between the decisions' law and the Gibbs law, over the rounds."""
    lam, beta = 400.0, 1.0  # g = sqrt(beta / lam) = .05 for slopes up to 1
    x = np.linspace(-1.0, 1.0, 4001)

    def log_gibbs(total):
        log = -beta * (total * x + 0.5 * lam * x * x)
        return log - log.max() - math.log(np.exp(log - log.max()).sum())

    total, law, worst = 0.0, np.exp(log_gibbs(0.0)), 0.0
    for slope in slopes:
        log_ratio = log_gibbs(total + slope) - log_gibbs(total)
        after = np.exp(log_gibbs(total + slope))
        stay = (1.0 - forced) * np.exp(np.clip(log_ratio - width, -2.0 * width, 0.0))
        law = law * stay + (1.0 - (law * stay).sum()) * after
        total += slope
        worst = max(worst, 0.5 * float(np.abs(law - after).sum()))
    return worst


def test_the_distance_keeps_to_its_bound():
    error = math.exp(-A) * gaussian_delta(A, G)
    bound = (1.0 - P) * error / P
    assert bound == pytest.approx(7.6708908e-3, rel=1e-6)
    rng = np.random.default_rng(0)
    streams = [np.ones(120), np.tile([1.0, -1.0], 60), rng.choice([-1.0, 1.0], 120)]
    found = max(worst_distance(slopes, A, P) for slopes in streams)
    assert 0.3 * bound < found <= bound
    p = SimpleNamespace(
        horizon=400, block=1, forced_switch=P, lipschitz=1.0, diameter=1.0, unbounded=False
    )
    assert clip_penalty(p, error) == pytest.approx(400 * bound, rel=1e-9)
    # Without forced switches errors add up beyond it.
    assert worst_distance(np.ones(400), A, 0.0) > bound


def test_the_window_found_for_an_error_keeps_to_it():
    error = 1e-4
    width = gaussian_epsilon(G, error)
    worst = worst_distance(np.ones(120), width, P)
    assert worst <= (1.0 - P) * math.exp(-width) * error / P
    assert worst > 1e-5


def test_anchor_width_oracle():
    p, block, horizon, anchors = 0.03, 1, 10**6, 16
    width = anchor_width(
        1e-3,
        p / (2 * block * horizon),
        anchors=anchors,
        mean_age=(anchors / 2 + 1.5) * block / p,
        horizon=horizon,
    )
    assert width == pytest.approx(7.0000462e-3, rel=1e-6)


@pytest.mark.parametrize(("g", "error"), [(1e-3, 1e-9), (1.0, 0.5), (1e-6, 1e-3), (1.0, 1e-250)])
def test_the_first_term_of_the_anchor_width_solves_its_equation(g, error):
    x = anchor_width(g, error, anchors=10**300, mean_age=0.0, horizon=1) / g
    assert math.log(g / x) - 0.5 * x * x == pytest.approx(math.log(error), rel=1e-10)


def test_caps():
    hazard = 1.0 - 0.97 * math.exp(-0.018)
    assert switch_cap(99_999, hazard, 1e-5) == 5019
    assert bernstein_cap(3000.0, 1e-5) == 3267
    for n, h, tail in [(10, 0.3, 0.01), (1, 0.5, 0.4), (1000, 0.9, 1e-9), (5, 0.999, 0.5)]:
        cap = switch_cap(n, h, tail)
        assert binom.sf(cap, n, h) <= tail
        assert cap == 0 or binom.sf(cap - 1, n, h) > tail
    assert switch_cap(0, 0.5, 0.1) == 0
    assert switch_cap(7, 1.0, 0.1) == 7
    assert switch_cap(7, 0.0, 0.1) == 0
