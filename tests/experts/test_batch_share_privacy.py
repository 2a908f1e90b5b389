"""Audits of the batched share: laws of its noise, and attacks on its epsilon.

The printed algorithm serves as the positive control: every attack that ours passes catches it.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samples import ALARM, bound, distance

from dpoco import _core
from dpoco.privacy.mechanisms.batch_release import BatchRelease
from dpoco.random import Source

N = 10


# -- laws of the noise, in the production engine --------------------------------------------------


def engine(seed, stream, noise="knorm", scale=1.0, rounds=10_000, rate=100.0, share=0.0):
    claim = {**Source.seeded(seed)._claim(), "stream": stream}
    description = BatchRelease(experts=N, law=noise, scale=scale, batch=1, grid=0.0)
    sizes = {"experts": N, "rounds": rounds, "low": 0.0, "high": 1.0}
    return _core.BatchShare(description, sizes, 1, rate, share, 0.0, claim)


def engine_noise(noise, scale, rounds=20_000):
    """What the engine adds to its sums: released minus input, in every round."""
    learner = engine(5, 1, noise, scale, rounds + 1, rate=0.01, share=0.1)
    out = np.empty((rounds, N))
    for t in range(rounds):
        learner.observe(t, np.full(N, 0.5))
        out[t] = learner.released() - learner.nonprivate_input()
    return out


def test_the_largest_entry_of_cube_noise_is_gamma_n_and_the_rest_uniform_below_it():
    z = engine_noise("knorm", 3.0)
    largest = np.abs(z).max(axis=1)

    def law(scale, shape=N):
        return distance(largest, lambda x: scipy.stats.gamma.cdf(x, shape, scale=scale))

    assert law(3.0) < bound(largest.size)
    for wrong in (law(2.85), law(3.15), law(3.0, N + 1)):
        assert wrong > bound(largest.size)
    # Given the largest entry, the others are uniform below it; all signs are fair.
    place = np.abs(z).argmax(axis=1)
    rest = np.abs(z[np.arange(len(z)), (place + 1) % N]) / largest
    assert distance(rest, lambda u: u) < bound(rest.size)
    assert abs(np.mean(z > 0) - 0.5) < bound(z.size)
    assert scipy.stats.chisquare(np.bincount(place, minlength=N)).pvalue > ALARM
    assert z.var() == pytest.approx(9 * 44, rel=0.03)


def test_gaussian_and_laplace_noise_have_their_scale():
    for noise, cdf in (("gaussian", scipy.special.ndtr), ("laplace", scipy.stats.laplace.cdf)):
        z = engine_noise(noise, 3.0).ravel()
        assert distance(z, lambda x, cdf=cdf: cdf(x / 3.0)) < bound(z.size)
        for wrong in (2.85, 3.15):
            assert distance(z, lambda x, cdf=cdf, s=wrong: cdf(x / s)) > bound(z.size)


def test_released_sums_lie_on_a_coarse_grid():
    for noise, scale in (("knorm", 3.0), ("gaussian", 13.3), ("laplace", 0.7)):
        learner = engine(1, 1, noise, scale)
        for t in range(20):
            learner.observe(t, np.random.default_rng(t).uniform(size=N))
            grid = 2.0 ** (math.floor(math.log2(scale)) - 12)
            assert np.array_equal(learner.released() / grid, np.rint(learner.released() / grid))


# -- the attack on the printed calibration: losses (0, 1, ..., 1) or (1, 0, ..., 0) ----------------


def laplace_odds(scale):
    """P(expert 0 has the least noisy loss), its loss being 1 below, and 1 above, all others."""

    def first(gap):
        def integrand(z):
            return (
                scipy.stats.laplace.pdf(z, scale=scale)
                * scipy.stats.laplace.sf(z - gap, scale=scale) ** 9
            )

        edges = sorted({-60.0 * scale, min(0.0, gap), 0.0, max(0.0, gap), 60.0 * scale})
        return sum(
            scipy.integrate.quad(integrand, a, b, epsabs=1e-12)[0]
            for a, b in itertools.pairwise(edges)
        )

    return first(1.0), first(-1.0)


def cube_odds(scale):
    """The same for cube noise: given its radius r, entries are uniform in [-r, r]."""

    def first(gap):
        def given(r):
            def integrand(z):
                return np.clip((r - (z - gap)) / (2 * r), 0.0, 1.0) ** 9 / (2 * r)

            points = [p for p in (gap - r, gap + r) if -r < p < r]
            return scipy.integrate.quad(integrand, -r, r, points=points or None, epsabs=1e-10)[0]

        return scipy.integrate.quad(
            lambda r: scipy.stats.gamma.pdf(r, N + 1, scale=scale) * given(r), 1e-9, 60 * scale,
            epsabs=1e-9, limit=200,
        )[0]  # fmt: skip

    return first(1.0), first(-1.0)


def test_quadrature_catches_the_printed_scale_and_not_ours():
    high, low = laplace_odds(1.0)
    assert high == pytest.approx(0.25734, abs=2e-5)
    assert low == pytest.approx(0.03680, abs=2e-5)
    assert math.log(high / low) == pytest.approx(1.945, abs=1e-3)  # at a claimed epsilon of 1
    for odds in (laplace_odds(float(N)), cube_odds(1.0)):
        assert 0.05 < math.log(odds[0] / odds[1]) <= 1.0
    assert math.log(np.divide(*cube_odds(0.25))) > 1.0  # cube noise of a too small scale


def lower_bound(event, scale, x, y, noise, draws=100_000):
    """Lower bound, but for ALARM, on log P(event | y) / P(event | x), and the plain estimate."""
    counts = []
    for world, vector in enumerate((y, x)):
        source = Source.seeded(21 + world)._engine
        counts.append(
            sum(
                bool(event(probes.release_vector(source, noise, scale, vector)))
                for _ in range(draws)
            )
        )
    low = scipy.special.betaincinv(counts[0], draws - counts[0] + 1, ALARM)
    high = scipy.special.betaincinv(counts[1] + 1, draws - counts[1], 1 - ALARM)
    return math.log(low / high), math.log(counts[0] / counts[1])


def test_the_privacy_of_cube_noise_is_attained_and_not_exceeded():
    # Where max y >= 2 - min y, the max-norm of y is 1 above that of y - (1, ..., 1): the density of
    # the noise around (1, ..., 1) is e^epsilon times that around 0 on all of this event.
    def event(y):
        return y.max() >= 2.0 - y.min()

    zero, one = np.zeros(3), np.ones(3)
    shown, estimate = lower_bound(event, 2.0, zero, one, "knorm")
    assert 0.4 < shown <= 0.5
    assert estimate == pytest.approx(0.5, abs=0.06)
    shown, _ = lower_bound(event, 1.5, zero, one, "knorm")
    assert shown > 0.5  # a scale that is too small is caught
