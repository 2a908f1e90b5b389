"""Moments on a line: within their stated rounding of sums in 60 digits; and frequencies' blocks."""

from __future__ import annotations

import numpy as np
import pytest

from dpoco.privacy.losses import sampled_sum as composition
from dpoco.privacy.losses.sampled_step import SampledStep, sampled_step

mpmath = pytest.importorskip("mpmath")


def exact(step, theta, t):
    """E exp(s L) - 1 at s = theta + i t, from the definition."""
    with mpmath.workdps(60):
        s = mpmath.mpc(theta, t)
        total = mpmath.mpc(0)
        for loss, mass in zip(step.losses.tolist(), step.masses.tolist(), strict=True):
            l, m = mpmath.mpf(loss), mpmath.mpf(mass)  # noqa: E741
            total += m * (mpmath.exp((1 + s) * l) - mpmath.exp(l) + mpmath.exp(-s * l) - 1)
        return total


CASES = [(10**6, 1.0, 10**7, 0.9, 0.07, 4000), (10**6, 3.0, 10**7, 3.5, 0.06, 3000),
         (1000, 0.3, 10**6, 5.0, 2.0, 60), (50, 1.0, 40, 0.4, 11.0, 1),
         (10**7, 2.3, 10**8, 0.3, 40.0, 8000), (3, 7.5, 10**4, 0.5, 1e-3, 90)]  # fmt: skip


@pytest.mark.parametrize(("n", "mu", "k", "theta", "spacing", "count"), CASES)
def test_moments_are_within_their_rounding(n, mu, k, theta, spacing, count):
    step = sampled_step(n, mu, k)
    theta = min(theta, step.largest_tilt)
    real, imaginary, rounding = step.moments_on_line(theta, spacing, count)
    assert real.shape == imaginary.shape == rounding.shape == (count,)
    assert np.all(rounding >= 0.0)
    picked = sorted({0, 1, 2, count // 3, count // 2, count - 2, count - 1} & set(range(count)))
    for at in picked:
        truth = exact(step, theta, at * spacing)
        error = abs(mpmath.mpc(real[at], imaginary[at]) - truth)
        assert error <= rounding[at]
        # The bound is no licence: it is small beside what a moment can be at all.
        assert rounding[at] <= 1e-9 * (1.0 + real[0])


def test_a_wrong_weight_is_seen():
    step = sampled_step(1000, 0.7, 10**6)
    masses = step.masses.copy()
    masses[20] *= 1.0 + 1e-9
    wrong = SampledStep(step.losses, masses, step.beyond, step.top)
    real, imaginary, rounding = wrong.moments_on_line(2.0, 0.5, 100)
    truth = exact(step, 2.0, 50 * 0.5)
    assert abs(mpmath.mpc(real[50], imaginary[50]) - truth) > rounding[50]


def test_blocks_of_rows_change_nothing(monkeypatch):
    step = sampled_step(10**5, 1.0, 10**6)
    many = step.moments_on_line(1.0, 0.3, 777)
    monkeypatch.setattr("dpoco.privacy.losses.sampled_step._MULTIPLIED_AT_ONCE", 1)
    for got, expected, rounding in zip(
        step.moments_on_line(1.0, 0.3, 777), many, (many[2],) * 3, strict=True
    ):
        assert np.all(np.abs(got - expected) <= 2.0 * rounding)


def test_blocks_of_frequencies_leave_no_gap_and_bound_what_is_in_them():
    n, mu, k = 10**4, 0.8, 10**7
    step = sampled_step(n, mu, k)
    theta = composition._tilt(1.0, step, k)
    tilted = composition._Tilted(step, k, theta)
    edges = composition._edges(1.0 / tilted.deviation)
    found = tilted._exponents(edges)
    assert len(found) == len(edges) - 1
    still = 1.0 + tilted.excess
    for block in (0, 3, 8, 15, 30):
        inside = np.linspace(edges[block], edges[block + 1], 5)
        for t in inside.tolist():
            real, imaginary, _ = step.moments_on_line(theta, t, 2)
            size = k * np.log(abs(complex(1.0 + real[1], imaginary[1])) / still)
            assert size <= -found[block] + 1e-6
    first = tilted.negligible_from()
    at = int(np.searchsorted(edges, first))
    assert found[at] >= 35.0
    assert at == 0 or np.all(found[:at] < 35.0)
