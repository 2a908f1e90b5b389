"""Attacks on the floating-point grid of noise: they break naive addition and not released sums.

The noise alone takes only some of the double-precision numbers. An observer who asks of every
released coordinate whether it is one of them sees which coordinates a record has touched, whatever
epsilon says. Released sums are rounded to a coarse grid, which leaves these attacks nothing.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.samples import replays

import dpoco
from dpoco.domains import LpBall
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.mechanisms import ContinualSum
from dpoco.random import Source

D, TRIALS = 2048, 200
HALF = np.arange(D) < D // 2
BUDGET = dpoco.Budget(0.01, 1e-9)


def record(secret: int) -> np.ndarray:
    """A unit vector on the first or on the second half of the coordinates."""
    x = np.where((secret == 0) == HALF, 1.0, 0.0)
    return x / np.linalg.norm(x)


def reachable(released: np.ndarray, scale: float) -> np.ndarray:
    """Whether each value is scale times some double."""
    z = released / scale
    near = [z, np.nextafter(z, np.inf), np.nextafter(z, -np.inf)]
    return np.any([candidate * scale == released for candidate in near], axis=0)


def correct_guesses(release) -> int:
    """How often the side with the less reachable values is the one that was touched."""
    rng = np.random.default_rng(1)
    right = 0
    for trial in range(TRIALS):
        secret = int(rng.integers(2))
        values, scale = release(record(secret), trial)
        hit = reachable(values, scale)
        guess = 0 if hit[~HALF].mean() > hit[HALF].mean() else 1
        right += guess == secret
    return right


def naive(x, trial):
    scale = 837.3
    return x + dpoco.noise.gaussian(Source.seeded(trial), D, scale=scale), scale


def released_sum(numerics, x, trial):
    total = ContinualSum(
        D, horizon=1000, budget=BUDGET, numerics=numerics, source=Source.seeded(trial), bound=1.0
    )
    return total.push(x), total.plan.mechanism.scale


@pytest.mark.parametrize("numerics", ["float", "lattice"])
def test_the_scaling_grid_breaks_naive_addition_and_not_released_sums(numerics):
    assert correct_guesses(naive) > 190
    # Binomial(200, 1/2) is within 100 +- 36 but for 3e-7.
    assert 64 <= correct_guesses(partial(released_sum, numerics)) <= 136


def test_released_sums_lie_on_the_stated_grid():
    from dpoco.accounting.continual_sum import release_grid

    for method in ("blt", "tree", "toeplitz"):
        total = ContinualSum(
            5, horizon=50, budget=dpoco.Budget(1.0, 1e-6), method=method, bound=1.0
        )
        grid = release_grid(total.plan.mechanism.scale)
        released = total.run(np.random.default_rng(0).normal(size=(50, 5))) / grid
        assert np.array_equal(released, np.rint(released))
        assert 2**-13 < grid / total.plan.mechanism.scale <= 2**-12


def test_pairs_of_coordinates_lie_on_no_lattice_of_angles():
    # Coordinates i and i + 64 of a fresh vector are one point of a circle. Were its angle a
    # multiple of 2 pi / 2^52, small angles would show it; the tangent is resolved much finer.
    z = dpoco.noise.gaussian(Source.seeded(3), 128 * 4000).reshape(-1, 2, 64)
    low = np.minimum(np.abs(z[:, 0]), np.abs(z[:, 1])).ravel()
    high = np.maximum(np.abs(z[:, 0]), np.abs(z[:, 1])).ravel()
    turns = np.arctan(low / high) / (2 * np.pi) * 2.0**52
    small = turns[turns < 2.0**44]  # where doubles resolve the lattice well
    assert small.size > 300
    share = np.mean(np.abs(small - np.rint(small)) < 0.1)
    assert abs(share - 0.2) < 5.5 * np.sqrt(0.16 / small.size)


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_decisions_show_no_grid_either():
    # With p = 2 the second decision is the released sum but for its length: ratios of coordinates.
    right = 0
    rng = np.random.default_rng(5)
    new = TreeFrankWolfe(
        LpBall(D, 2.0), SquaredLoss(1.0, 1.0), horizon=1000, budget=BUDGET, source=Source.seeded(0)
    )
    for learner in replays(new, TRIALS):
        secret = int(rng.integers(2))
        learner.decide()
        learner.observe(record(secret), 1.0)
        theta = learner.decide().reshape(-1, 2, 64)
        low = np.minimum(np.abs(theta[:, 0]), np.abs(theta[:, 1]))
        high = np.maximum(np.abs(theta[:, 0]), np.abs(theta[:, 1]))
        turns = np.arctan(low / high) / (2 * np.pi) * 2.0**52
        off = np.where(turns < 2.0**46, np.abs(turns - np.rint(turns)), np.nan)
        first, second = np.nanmean(off[: D // 256]), np.nanmean(off[D // 256 :])
        right += (0 if first > second else 1) == secret
    assert 64 <= right <= 136
