"""Audits of every kind of randomizer, and public constants that are the same on every machine."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from local_cases import FC

from dpoco.local import (
    BitRandomizer,
    SubsetRandomizer,
    VectorRandomizer,
    audit,
)
from dpoco.local._randomizers import best_bits, best_subset_size


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.5])
def test_vectors_are_audited_exactly(epsilon):
    for more in ({}, {"index": 2}):
        randomizer = VectorRandomizer(FC, epsilon, 0.1, **more)
        found = audit(randomizer)
        assert found.holds
        assert found.ratio is None
        assert found.epsilon == epsilon
        assert found.log_ratio == pytest.approx(epsilon)
        randomizer.scale *= Fraction(999_999, 1_000_000)  # a little too little noise
        assert not audit(randomizer).holds


def test_what_promises_no_ratio_is_refused():
    for noise in ("gaussian", "composed"):
        with pytest.raises(ValueError, match="positive delta"):
            audit(VectorRandomizer(FC, 1.0, 0.1, noise=noise, delta=1e-6))
    with pytest.raises(TypeError, match="no randomizer"):
        audit(object())


def test_other_randomizers_may_bring_their_ratio():
    class Mine:
        epsilon = 1.0

        def largest_ratio(self):
            return Fraction(5, 2)

    assert audit(Mine()).holds
    Mine.epsilon = 0.9
    found = audit(Mine())
    assert not found.holds
    assert found.ratio == Fraction(5, 2)
    for randomizer in (
        BitRandomizer(1.0, 2),
        BitRandomizer(1.0),
        SubsetRandomizer(5, 2, 1.0),
    ):
        assert audit(randomizer).holds
        assert audit(randomizer).ratio is not None


def test_sizes_of_subsets_are_those_of_exact_arithmetic():
    rng = np.random.default_rng(0)
    with mpmath.workdps(50):
        for labels, epsilon in zip(
            rng.integers(2, 10**6, size=2000), rng.exponential(2.0, size=2000), strict=True
        ):
            size = int(mpmath.floor(int(labels) / (mpmath.exp(mpmath.mpf(epsilon)) + 1) + 0.5))
            assert best_subset_size(int(labels), epsilon) == min(max(size, 1), labels - 1)


def test_numbers_of_bits_are_those_of_exact_arithmetic():
    with mpmath.workdps(50):
        for epsilon in (*np.linspace(0.5, 30.0, 119), 3.05, 3.06):
            best = max(
                range(1, 65), key=lambda k: k * mpmath.tanh(mpmath.mpf(epsilon) / (2 * k)) ** 2
            )
            assert best_bits(float(epsilon)) == best
    for epsilon in (5e-324, 1e-300, 2.3e-16, 1e-15, 1e-6):
        assert best_bits(epsilon) == 1
    assert best_bits(4.0) == 2
    assert math.isfinite(BitRandomizer(30.0, "auto").contrast)
