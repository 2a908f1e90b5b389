"""Gibbs draws: oracles, the two theorems by quadrature, and the whole accounting by exact laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpoco.accounting.coupling import coupled_delta, coupled_epsilon
from dpoco.accounting.gaussian import gaussian_delta
from dpoco.accounting.gibbs_draws import anchor_width, clip_width, draw_mu, ratio_shift

BETA, LAM, HORIZON = 0.002, 500.0, 100_000


# -- oracles -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coupling", "p", "window", "cap", "block", "value"),
    [
        ("density_ratio", 0.03, 2 * 0.009, 4000, 1, 1.3492635),
        ("anchored", 0.03, 2 * 0.015, 4000, 1, 1.5752726),
        ("dartboard", 0.03, BETA * 2.0, 4000, 1, 1.0831479),
        ("scheduled", 1.0, 0.0, 999, 100, 0.51001899),
        ("density_ratio", 0.2, 2 * 0.009, 3000, 10, 0.94063231),
    ],
)
def test_epsilon_oracles(coupling, p, window, cap, block, value):
    mu = draw_mu(2.0, BETA, LAM)
    assert mu == pytest.approx(0.004, rel=1e-12)
    bits = {}
    if coupling == "density_ratio":
        c = ratio_shift(2.0, 1.0, BETA, LAM)
        window += (block - 1) * c
        later = max(math.ceil(HORIZON / block) - 2, 0)
        bits = {"later_bits": later, "shift": block * c}
    epsilon = coupled_epsilon(
        1e-6,
        mu=mu * math.sqrt(cap),
        forced_switch=p,
        factor_floor=math.exp(-window),
        **bits,
    )
    assert epsilon == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("g", "error", "value"),
    [(0.001, 1e-8, 3.9240111e-3), (0.01, 1e-10, 0.053092033), (0.05, 1e-6, 0.18921317)],
)
def test_clip_width_oracles(g, error, value):
    a = clip_width(g, error)
    assert a == pytest.approx(value, rel=1e-6)
    assert gaussian_delta(a, g) <= error < gaussian_delta(0.999 * a, g)


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


def test_bad_arguments():
    for call in (
        lambda: draw_mu(-1.0, 1.0, 1.0),
        lambda: draw_mu(1.0, 0.0, 1.0),
        lambda: ratio_shift(1.0, -1.0, 1.0, 1.0),
        lambda: ratio_shift(1.0, 1.0, 1.0, 1.0, normalizer_error=-1.0),
        lambda: clip_width(0.1, 0.0),
        lambda: anchor_width(0.1, 2.0, anchors=1, mean_age=0.0, horizon=1),
        lambda: anchor_width(0.1, 0.1, anchors=0, mean_age=0.0, horizon=1),
        lambda: anchor_width(0.1, 0.1, anchors=1, mean_age=-1.0, horizon=1),
    ):
        with pytest.raises(ValueError, match="must be"):
            call()
    assert ratio_shift(2.0, 1.0, 0.1, 4.0, normalizer_error=0.5) == pytest.approx(1.05)


# -- the two theorems, by quadrature on an interval --------------------------------------------


def law(energy):
    weight = np.exp(-(energy - energy.min()))
    return weight / weight.sum()


def kinks(random, x, lipschitz, convex):
    """Random piecewise linear values with slopes within [-lipschitz, lipschitz]."""
    slopes = random.uniform(-lipschitz, lipschitz, 5)
    if convex:
        slopes = np.sort(slopes)
    edges = np.sort(random.uniform(x[0], x[-1], 4))
    steps = slopes[np.searchsorted(edges, x[:-1])] * np.diff(x)
    return np.concatenate([[0.0], np.cumsum(steps)])


def test_a_draw_is_gaussian_private_in_both_directions():
    """P strongly log-concave, Q = P e^-h with h Lipschitz, convex or not."""
    random = np.random.default_rng(1)
    x = np.linspace(-1.0, 1.0, 4001)
    for _ in range(60):
        kappa, lipschitz = 10 ** random.uniform(-1, 2), 10 ** random.uniform(-1, 1)
        base = kinks(random, x, 10 ** random.uniform(-1, 1.5), convex=True)
        exchanged = kinks(random, x, lipschitz, convex=bool(random.integers(2)))
        first = law(base + 0.5 * kappa * (x - random.uniform(-1, 1)) ** 2)
        second = first * np.exp(-exchanged)
        second /= second.sum()
        mu = lipschitz / math.sqrt(kappa)
        for epsilon in (0.0, 0.1, 0.3, 1.0, 3.0):
            for a, b in ((first, second), (second, first)):
                got = np.maximum(a - math.exp(epsilon) * b, 0.0).sum()
                assert got <= gaussian_delta(epsilon, mu) + 3e-4 * (mu > 1) + 3e-5


def test_linear_losses_attain_the_bound_and_a_smaller_one_fails():
    beta, lam, slope = 2.0, 50.0, 3.0
    x = np.linspace(-2.0, 2.0, 8001)
    first = law(beta * (0.4 * x + 0.5 * lam * x**2))
    second = law(beta * ((0.4 - slope) * x + 0.5 * lam * x**2))
    mu = draw_mu(slope, beta, lam)
    for epsilon in (0.0, 0.5, 2.0):
        got = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
        assert got == pytest.approx(gaussian_delta(epsilon, mu), rel=1e-3)
        assert got > 1.02 * gaussian_delta(epsilon, 0.97 * mu)


def test_the_log_density_ratio_moves_by_at_most_its_bound():
    random = np.random.default_rng(2)
    x = np.linspace(-1.0, 1.0, 2001)
    largest = 0.0
    for _ in range(60):
        beta, lam, lipschitz = 10 ** random.uniform(-1, 1), 10 ** random.uniform(0, 2), 1.0
        past = kinks(random, x, 5.0, convex=True) + 0.5 * lam * x**2
        linear = random.integers(2)
        changed, other, current = (
            random.choice([-1.0, 1.0]) * x if linear else kinks(random, x, lipschitz, convex=True)
            for _ in range(3)
        )

        def ratio(before, beta=beta, past=past, current=current):
            now, then = law(beta * (past + before)), law(beta * (past + before + current))
            return np.log(then / now)[1000]

        moved = abs(ratio(changed) - ratio(other))
        bound = ratio_shift(2.0 * lipschitz, lipschitz, beta, lam)
        assert moved <= bound * (1.0 + 1e-3)
        largest = max(largest, moved / bound)
    assert largest > 0.9  # hence nine tenths of the bound would be wrong


# -- the whole accounting against exact joint laws ---------------------------------------------


def joint_laws(p, width, beta, lam):
    """Exact laws of all bits and draws of three rounds (density ratio, m = 1) in both worlds."""
    x = np.linspace(-1.0, 1.0, 61)
    worlds = []
    for first in (0.05 * x, -0.05 * x):
        sums = np.cumsum([0.0 * x, first, -0.05 * x, 0.05 * np.abs(x - 0.2)], axis=0)
        mu = [law(beta * (total + 0.5 * lam * x**2)) for total in sums]
        stay = [
            (1 - p) * np.exp(np.clip(np.log(b / a) - width, -2 * width, 0.0))
            for a, b in itertools.pairwise(mu)
        ]
        one, two, three, _ = mu
        # Draw 1, then per decision stay or a fresh draw.
        both = one * stay[0] * stay[1]
        late = np.outer(one * stay[0] * (1 - stay[1]), three)
        early = np.outer(one * (1 - stay[0]), two * stay[1])
        none = np.outer(one * (1 - stay[0]), np.outer(two * (1 - stay[1]), three))
        worlds.append(np.concatenate([part.ravel() for part in (both, late, early, none)]))
        assert worlds[-1].sum() == pytest.approx(1.0, abs=1e-12)
    return worlds


@pytest.mark.parametrize(("p", "width"), [(0.15, 0.25), (0.02, 0.05), (0.95, 0.3)])
def test_exact_joint_laws_of_three_rounds(p, width):
    beta, lam = 40.0, 0.8
    worlds = joint_laws(p, width, beta, lam)

    def bound(epsilon, scale, floor):
        return coupled_delta(
            epsilon,
            mu=scale * draw_mu(0.1, beta, lam) * math.sqrt(2),
            forced_switch=p,
            factor_floor=floor,
            later_bits=1,
            shift=scale * ratio_shift(0.1, 0.05, beta, lam),
        )

    for epsilon in (0.0, 0.1, 0.3, 0.6, 1.0):
        for first, second in (worlds, worlds[::-1]):
            got = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
            assert got <= bound(epsilon, 1.0, math.exp(-2 * width))
            if p > 0.9:  # both fresh draws are nearly always made: nine tenths would be wrong
                assert got > bound(epsilon, 0.9, math.exp(-2 * width))
