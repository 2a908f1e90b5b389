"""The theorem of local_vector_channels.md: pure bits have less noise than reports with a delta."""

from __future__ import annotations

import importlib.util
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpoco.local import BitRandomizer
from dpoco.reproduce import PublishedChannel

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("local_noise", ROOT / "bench" / "local_noise.py")
local_noise = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(local_noise)


def test_the_page_has_the_table_that_the_program_prints():
    page = (ROOT / "docs" / "privacy" / "local_vector_channels.md").read_text()
    assert local_noise.table() in page


def errors_of_bits(values, epsilon):
    """Return the errors of the estimates of all losses, by the exact law of the bit."""
    count = len(values)
    law = BitRandomizer(epsilon)
    found = []
    for j, value in enumerate(values):
        total = Fraction(0)
        for drawn in range(count):
            for (bit,), chance in law.pmf(values[drawn]).items():
                estimate = (2 * bit - 1) * count * law.inverse_contrast if drawn == j else 0.0
                total += chance * Fraction(estimate - value) ** 2 / count
        found.append(float(total))
    return found


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 30.0])
def test_errors_of_pure_bits_are_at_most_the_formula_and_attain_it_in_the_middle(epsilon):
    values = [0.0, 1.0, -0.3, 0.7]
    found, bound = errors_of_bits(values, epsilon), local_noise.pure_error(4, epsilon)
    assert found[0] == pytest.approx(bound)
    assert all(each <= bound * (1.0 + 1e-12) for each in found)
    assert found[1] == pytest.approx(bound - 1.0)


@pytest.mark.parametrize("epsilon", local_noise.EPSILONS)
@pytest.mark.parametrize("delta", [0.014, 1e-4, 1e-6, 1e-9])
def test_the_published_channel_has_more_noise_for_all_classes(epsilon, delta):
    """Its noise as sent, in exact arithmetic of its own scale, over random classes and horizons."""
    rng = np.random.default_rng(3)
    for count, labels, horizon in ((1, 5, 100), (2, 2, 10), (5, 9, 10**4), (40, 3, 10**6)):
        matrix = rng.dirichlet(np.full(labels, 0.3), size=count)
        channel = PublishedChannel(matrix, horizon, epsilon, delta)
        reach = channel.spread  # of its integers; the scale is for at least as much
        scale = float(channel.scale)
        noise = 0.5 / math.sinh(0.5 / scale) ** 2
        pure = local_noise.pure_error(count, epsilon) * (0.5 * reach) ** 2
        log = math.log(1.0 / delta)
        promised = 8.0 / epsilon**2 * (2.0 * math.sqrt(2.0 * log) + math.sqrt(epsilon)) ** 2
        promised *= math.tanh(0.5 * epsilon) ** 2
        assert 1.0 <= promised * (1.0 - 1e-9) <= noise / pure


def test_noise_that_delta_is_paid_for_exactly_is_larger_where_the_theorem_says_so():
    """And smaller beyond, so that the conditions are not empty."""
    for epsilon in local_noise.EPSILONS:
        for delta in local_noise.DELTAS:
            pure = local_noise.pure_error(8, epsilon)
            if epsilon + 2.0 <= 4.0 * math.sqrt(math.log(1.0 / delta)):
                assert local_noise.composed_error(8, epsilon, delta) >= pure
            if epsilon <= 8.0 and delta <= 1e-4:
                assert local_noise.gaussian_error(8, epsilon, delta) >= pure
            if delta <= 1e-4:
                several = min(
                    8.0 / k * BitRandomizer(epsilon, k).inverse_contrast ** 2 for k in range(1, 17)
                )
                assert local_noise.gaussian_error(8, epsilon, delta) >= several
    assert local_noise.gaussian_error(8, 16.0, 1e-6) < local_noise.pure_error(8, 16.0)
    assert local_noise.printed_error(8, 30.0, 0.3) < local_noise.pure_error(8, 30.0)


def test_the_program_knows_the_variance_of_the_discrete_law():
    for scale in (0.001, 0.5, 7.0):
        step = 2.0 / 2**20
        z = np.arange(-200_000, 200_001) * step if scale < 0.1 else None
        if z is not None:
            weights = np.exp(-np.abs(z) / scale)
            direct = float((weights * z**2).sum() / weights.sum())
            assert local_noise.laplace_error(scale) == pytest.approx(direct)
        assert local_noise.laplace_error(scale) == pytest.approx(2.0 * scale**2, rel=1e-3)
