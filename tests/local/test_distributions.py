"""The hard class: its law, and the proof of its lower bound in numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from distributions import hadamard_class


@pytest.mark.parametrize(("pairs", "labels"), [(1, 2), (2, 4), (3, 4), (4, 8), (7, 8)])
@pytest.mark.parametrize("variant", ["corrected", "printed"])
def test_the_hard_class(pairs, labels, variant):
    made = hadamard_class(pairs, 1000, 1.0, variant)
    assert made.matrix.shape == (2 * pairs, labels)
    np.testing.assert_allclose(made.matrix.sum(axis=1), 1.0, atol=1e-14)
    assert (made.matrix >= 0).all()
    sign = [[(-1) ** (i & y).bit_count() for y in range(labels)] for i in range(1, pairs + 1)]
    np.testing.assert_array_equal(made.matrix[::2], (1 - np.array(sign)) / labels)
    steps = made.matrix[1::2] - made.matrix[::2]
    np.testing.assert_allclose(steps, made.gap * np.array(sign) / labels, atol=1e-15)
    signal = min(math.expm1(1.0) ** 2 / 4, math.e)
    expected = {
        "corrected": math.sqrt(2 * pairs / (9 * 1000 * signal)),
        "printed": math.sqrt(pairs / (9 * 1000 * math.e)),
    }[variant]
    assert made.gap == pytest.approx(expected)
    if variant == "corrected":
        assert made.risk_lower_bound() == pytest.approx(math.log(2) / 6 * made.gap * 1000)
        assert made.risk_lower_bound() >= math.sqrt(2 * pairs * 1000 / (9 * signal)) / 24
    assert made.risk_lower_bound(epsilon=0.5) > made.risk_lower_bound()
    assert made.risk_lower_bound(rounds=10**9) == 0.0  # made for a thousand


def test_no_randomizer_tells_the_pairs_apart_better():
    # The heart of the proof: sum_i KL(reports of p_i1, of p_i2) <= a^2 G, for extreme randomizers.
    rng = np.random.default_rng(0)
    for epsilon in (0.3, 1.0, 3.0):
        made = hadamard_class(7, 100_000, epsilon)
        signal = min(math.expm1(epsilon) ** 2 / 4, math.exp(epsilon))
        best = 0.0
        for _ in range(200):
            plus = rng.random(8) < rng.random()
            one = np.where(plus, math.exp(epsilon), 1.0) / (1 + math.exp(epsilon))
            laws = made.matrix @ np.stack([one, 1 - one], axis=1)
            told = sum(
                float((p * np.log(p / q)).sum()) for p, q in zip(laws[::2], laws[1::2], strict=True)
            )
            best = max(best, told)
            assert told <= made.gap**2 * signal
        assert best > 0.05 * made.gap**2 * signal


def test_no_prediction_is_good_for_both_of_a_pair():
    # The other half of it: KL(p_1, q) + KL(p_2, q) >= (a / 2) log 2 for every q.
    for rounds in (10, 1000):
        made = hadamard_class(3, rounds, 1.0)
        first, second = made.matrix[:2]
        least = math.inf
        for cut in np.linspace(1e-6, 0.5, 2000):
            q = np.where(first == 0, cut / 2, (1 - cut) / 2)
            costs = [float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum()) for p in (first, second)]
            least = min(least, sum(costs))
        assert least >= 0.5 * made.gap * math.log(2)
        assert least < 1.2 * 0.5 * made.gap * math.log(2) + 0.1 * (rounds == 10)
