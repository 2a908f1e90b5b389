"""Gibbs draws: oracles, the two theorems by quadrature, and the whole accounting by exact laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpoco.privacy.losses.coupled_bits import CoupledBits
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.losses.tilted_draws import ReturningDraws
from dpoco.privacy.mechanisms.coupled_draws import (
    Always,
    Anchored,
    CoupledDraws,
    Dartboard,
    GibbsDraw,
    SmoothLosses,
    Window,
)
from dpoco.privacy.neighbours import Neighbours

BETA, LAM, HORIZON = 0.002, 500.0, 100_000


# -- oracles -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep", "cap", "block", "value"),
    [
        (Window(0.03, 0.009, 0.009), 4000, 1, 1.3492635),
        (Anchored(0.03, 0.015), 4000, 1, 1.5752726),
        (Dartboard(0.03, 2.0), 4000, 1, 1.0831479),
        (Always(), 999, 100, 0.51001899),
        (Window(0.2, 0.009, 0.009), 3000, 10, 0.94063231),
    ],
)
def test_epsilon_oracles(keep, cap, block, value):
    losses = SmoothLosses(3, 1.0, 0.0, 0)
    draw = GibbsDraw(BETA, LAM, math.inf, 0.0)
    assert draw.distance(losses, Neighbours()) == pytest.approx(0.004, rel=1e-12)
    mechanism = CoupledDraws(losses, draw, keep, HORIZON, block, cap)
    assert mechanism.loss(Neighbours()).epsilon(1e-6) == pytest.approx(value, rel=1e-6)


def moved_by(sensitivity, beta, lam):
    return GibbsDraw(beta, lam, math.inf, 0.0).distance(
        SmoothLosses(1, sensitivity, 0.0, 0), Neighbours("zero_out")
    )


def shifted_by(sensitivity, lipschitz, beta, lam):
    """The shift of a later round for losses of slope `lipschitz`, exchanged ones of twice that."""
    assert sensitivity == 2.0 * lipschitz
    losses, draw = SmoothLosses(1, lipschitz, 0.0, 0), GibbsDraw(beta, lam, math.inf, 0.0)
    return draw.shift(losses, Neighbours(), Window(0.1, 0.0, 0.0), 1)


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
    mu = moved_by(slope, beta, lam)
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
        bound = shifted_by(2.0 * lipschitz, lipschitz, beta, lam)
        assert moved <= bound * (1.0 + 1e-3)
        largest = max(largest, moved / bound)
    assert largest > 0.9  # hence nine tenths of the bound would be wrong


# -- the whole accounting against exact joint laws ---------------------------------------------


def joint_laws(p, width, beta, lam, hers=1):
    """Exact laws of all bits and draws of three rounds (density ratio, m = 1) in both worlds.

    They differ in the losses of the first `hers` rounds.
    """
    x = np.linspace(-1.0, 1.0, 61)
    worlds = []
    for first in (0.05 * x, -0.05 * x):
        second = first if hers == 2 else -0.05 * x
        sums = np.cumsum([0.0 * x, first, second, 0.05 * np.abs(x - 0.2)], axis=0)
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
        loss = CoupledBits(
            draws=scale * moved_by(0.1, beta, lam) * math.sqrt(2),
            forced_switch=p,
            factor_floor=floor,
            later_bits=1,
            shift=scale * shifted_by(0.1, 0.05, beta, lam),
        )
        return loss.delta(epsilon)

    for epsilon in (0.0, 0.1, 0.3, 0.6, 1.0):
        for first, second in (worlds, worlds[::-1]):
            got = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
            assert got <= bound(epsilon, 1.0, math.exp(-2 * width))
            if p > 0.9:  # both fresh draws are nearly always made: nine tenths would be wrong
                assert got > bound(epsilon, 0.9, math.exp(-2 * width))


@pytest.mark.parametrize(("p", "width"), [(0.15, 0.25), (0.02, 0.05), (0.95, 0.3)])
def test_exact_joint_laws_of_two_rounds_of_a_person(p, width):
    beta, lam = 40.0, 0.8
    worlds = joint_laws(p, width, beta, lam, hers=2)
    orders = np.array([1.5, 2.0, 4.0, 16.0])

    def bound(many):
        return ReturningDraws(
            forced_switch=p, factor_floor=math.exp(-2 * width), later_bits=1,
            shift=many * shifted_by(0.1, 0.05, beta, lam), cap=2,
            sensitivity_ratio=many * moved_by(0.1, beta, lam), b=0.0, dimension=1, rank=0,
            change="replace", rounds=many, together=1, block=1,
        )  # fmt: skip

    for first, second in (worlds, worlds[::-1]):
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            got = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
            assert got <= bound(2).delta(epsilon)
        ratio = np.log(first / second)
        found = [np.log((first * np.exp((a - 1) * ratio)).sum()) / (a - 1) for a in orders]
        assert np.all(found <= bound(2).renyi(orders))
        if p > 0.9:  # nearly all of it is two fresh draws, of which the first sees one round
            assert np.all(found > bound(1).renyi(orders))
