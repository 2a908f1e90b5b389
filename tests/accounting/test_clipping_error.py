"""What clipping the density ratio does to the law of the decisions, propagated on a grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpoco.accounting.gaussian import gaussian_delta
from dpoco.accounting.gibbs_draws import clip_width

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
    bound = (1.0 - P) * math.exp(-A) * gaussian_delta(A, G) / P
    assert bound == pytest.approx(7.6708908e-3, rel=1e-6)
    rng = np.random.default_rng(0)
    streams = [np.ones(120), np.tile([1.0, -1.0], 60), rng.choice([-1.0, 1.0], 120)]
    found = max(worst_distance(slopes, A, P) for slopes in streams)
    assert 0.3 * bound < found <= bound
    # Without forced switches errors add up beyond it.
    assert worst_distance(np.ones(400), A, 0.0) > bound


def test_the_window_found_for_an_error_keeps_to_it():
    error = 1e-4
    width = clip_width(G, error)
    worst = worst_distance(np.ones(120), width, P)
    assert worst <= (1.0 - P) * math.exp(-width) * error / P
    assert worst > 1e-5
