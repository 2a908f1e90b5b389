"""The prior of sharing and the number of sequences, by enumeration."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest

from dpoco.accounting._share_regret import (
    best_share_rate,
    log_class_size,
    share_log_prior,
)


def test_class_sizes_are_counts():
    for n, t, s in [(3, 6, 2), (2, 7, 3), (4, 5, 1), (3, 5, 0), (3, 5, 9), (2, 1, 3), (1, 4, 2)]:
        count = sum(
            sum(a != b for a, b in itertools.pairwise(path)) <= s
            for path in itertools.product(range(n), repeat=t)
        )
        assert log_class_size(n, t, s) == pytest.approx(math.log(count), abs=1e-12)
    assert log_class_size(3, 6, 2) == pytest.approx(5.030437921, abs=1e-9)
    assert log_class_size(10, 100_000, 5) == pytest.approx(66.06570, abs=5e-6)
    for n, t, s in [(10, 3000, 40), (2, 3000, 1499), (7, 3000, 2999), (1000, 3000, 2)]:
        count = n * sum(math.comb(t - 1, c) * (n - 1) ** c for c in range(s + 1))
        assert log_class_size(n, t, s) == pytest.approx(float(mpmath.log(count)), rel=1e-12)
    assert log_class_size(2, 10**12, 10**12) == pytest.approx(10**12 * math.log(2.0), rel=1e-9)


def test_the_prior_is_a_law_on_sequences():
    for n, t, sigma in [(3, 5, 0.2), (2, 6, 0.5), (4, 4, 0.75)]:
        mass = sum(
            math.exp(
                -share_log_prior(n, t, sum(a != b for a, b in itertools.pairwise(path)), sigma)
            )
            for path in itertools.product(range(n), repeat=t)
        )
        assert mass == pytest.approx(1.0, abs=1e-12)
    assert share_log_prior(10, 100_000, 5, 5 / 99_999) == pytest.approx(67.80597, abs=5e-6)
    assert share_log_prior(1, 9, 3, 0.0) == 0.0
    assert share_log_prior(7, 9, 0, 0.0) == pytest.approx(math.log(7))
    assert share_log_prior(7, 9, 1, 0.0) == math.inf
    assert share_log_prior(7, 1, 4, 0.0) == pytest.approx(math.log(7))
    assert share_log_prior(7, 3, 4, 0.2) == share_log_prior(7, 3, 2, 0.2)
    # The closed form of the best rate; fewer switches never cost more.
    for n, t, s in [(10, 50, 3), (2, 9, 8), (4, 9, 5)]:
        best = best_share_rate(n, t, s)
        costs = [share_log_prior(n, t, s, x) for x in np.linspace(1e-6, 1 - 1 / n, 4001)]
        assert share_log_prior(n, t, s, best) <= min(costs) + 1e-12
        fewer = [share_log_prior(n, t, k, best) for k in range(s + 1)]
        assert np.all(np.diff(fewer) >= -1e-12)
