"""The coordinate Gibbs chain against exact draws and rejection."""

import numpy as np

from dpoco import samplers
from dpoco.domains import Box
from dpoco.random import Source


def problem(d, seed=0):
    """A random rotation, eigenvalues 0.05 to 1, a mean partly outside [-1, 1]^d."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(d, d)))[0]
    covariance = rotation @ np.diag(np.linspace(0.05, 1.0, d)) @ rotation.T
    return covariance, np.linalg.inv(covariance), generator.uniform(-1.2, 1.2, d)


def chain(precision, mean, size, seed=1, **options):
    wall = np.ones(len(mean))
    source = Source.seeded(seed)
    return samplers.coordinate_gibbs(
        precision, mean, -wall, wall, size=size, source=source, **options
    )


def batch_error(values, batches=100):
    """Standard error of the mean of dependent values."""
    means = values[: len(values) // batches * batches].reshape(batches, -1).mean(axis=1)
    return means.std(ddof=1) / np.sqrt(batches)


def test_moments_against_rejection_in_five_dimensions():
    covariance, precision, mean = problem(5)
    generator = np.random.default_rng(7)
    proposals = generator.multivariate_normal(mean, covariance, size=1_000_000)
    exact = proposals[np.all(np.abs(proposals) <= 1, axis=1)]
    assert len(exact) > 20_000
    x = chain(precision, mean, 300_000)
    assert np.abs(x).max() <= 1.0
    shifted = chain(precision, mean + 0.05, 300_000)
    worst_shift = 0.0
    for i in range(5):
        for power in (1, 2):
            want = exact[:, i] ** power
            got = x[:, i] ** power
            error = np.hypot(batch_error(got), want.std() / np.sqrt(len(want)))
            assert abs(got.mean() - want.mean()) < 5.5 * error
            wrong = (shifted[:, i] ** power).mean()
            worst_shift = max(worst_shift, abs(wrong - want.mean()) / error)
        for j in range(i):
            got, want = x[:, i] * x[:, j], exact[:, i] * exact[:, j]
            error = np.hypot(batch_error(got), want.std() / np.sqrt(len(want)))
            assert abs(got.mean() - want.mean()) < 5.5 * error
    assert worst_shift > 8  # a mean 0.05 off is seen


def test_a_diagonal_precision_gives_independent_exact_draws():
    d, n = 6, 100_000
    deviation = np.linspace(0.2, 3.0, d)
    mean = np.linspace(-2.0, 2.0, d)
    x = samplers.coordinate_gibbs(
        np.diag(deviation**-2), mean, -np.ones(d), np.ones(d), size=n, source=Source.seeded(2)
    )
    for i in range(d):
        box = Box([-1.0], [1.0])
        exact = samplers.truncated_gaussian(box, mean[i : i + 1], deviation[i], n, Source.seeded(3))
        both = np.sort(np.concatenate([x[:, i], exact[:, 0]]))
        ours = np.searchsorted(np.sort(x[:, i]), both, side="right")
        theirs = np.searchsorted(np.sort(exact[:, 0]), both, side="right")
        assert np.abs(ours - theirs).max() / n < np.sqrt(np.log(2e6) / n)
        lagged = np.corrcoef(x[1:, i], x[:-1, i])[0, 1]
        assert abs(lagged) < 6 / np.sqrt(n)


def test_infinite_walls_give_the_gaussian():
    covariance, precision, mean = problem(3)
    wall = np.full(3, np.inf)
    x = samplers.coordinate_gibbs(
        precision, mean, -wall, wall, size=200_000, source=Source.seeded(4)
    )
    for i in range(3):
        assert abs(x[:, i].mean() - mean[i]) < 5.5 * batch_error(x[:, i])
        square = (x[:, i] - mean[i]) ** 2
        assert abs(square.mean() - covariance[i, i]) < 5.5 * batch_error(square)


def test_sweeps_thin_the_same_chain_and_seeds_repeat():
    _, precision, mean = problem(4)
    every = chain(precision, mean, 60)
    np.testing.assert_allclose(chain(precision, mean, 20, sweeps=3), every[2::3], rtol=0, atol=0)
    np.testing.assert_array_equal(chain(precision, mean, 60), every)
    start = chain(precision, mean, 60, start=np.full(4, 9.0))
    np.testing.assert_array_equal(start, chain(precision, mean, 60, start=np.ones(4)))
    assert not np.array_equal(start, every)
