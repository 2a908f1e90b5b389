"""Truncated normals and truncated gammas: laws, walls, number of attempts."""

import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samples import bound, distance

from dpoco import _core, samplers
from dpoco.random import Source

N = 200_000
LIMIT = bound(N, 1e-6)


def draw(mean, scale, low, high, n=N, seed=3):
    return samplers.truncated_normal(mean, scale, low, high, n, Source.seeded(seed))


def cdf(mean, scale, low, high):
    """Of the truncated normal; in the tail that does not cancel."""
    a, b = (low - mean) / scale, (high - mean) / scale
    if a > 0:
        total = scipy.special.ndtr(-a) - scipy.special.ndtr(-b)
        return lambda x: (scipy.special.ndtr(-a) - scipy.special.ndtr(-(x - mean) / scale)) / total
    total = scipy.special.ndtr(b) - scipy.special.ndtr(a)
    return lambda x: (scipy.special.ndtr((x - mean) / scale) - scipy.special.ndtr(a)) / total


CASES = [
    (0.3, 0.5, -1.0, 1.0),
    (0.0, 1.0, -np.inf, np.inf),
    (0.0, 1.0, 0.0, np.inf),
    (0.5, 2.0, -1.0, 1.0),
    (1.5, 1.0, -1.0, 1.0),
    (-1.2, 0.3, -1.0, 1.0),
    (5.0, 0.5, -1.0, 1.0),
    (-3.0, 1.0, -1.0, -0.9),
    (0.0, 1.0, -0.01, 2.0),
    (0.0, 1.0, 0.05, 0.06),
    (0.2, 1.0, -2.3, 0.1),
]


@pytest.mark.parametrize(("mean", "scale", "low", "high"), CASES)
def test_law(mean, scale, low, high):
    x = draw(mean, scale, low, high)
    assert x.min() >= low
    assert x.max() <= high
    assert distance(x, cdf(mean, scale, low, high)) < LIMIT


def test_a_wrong_scale_or_mean_fails():
    x = draw(1.5, 1.0, -1.0, 1.0)
    assert distance(x, cdf(1.5, 1.05, -1.0, 1.0)) > LIMIT
    assert distance(x, cdf(1.55, 1.0, -1.0, 1.0)) > LIMIT


@pytest.mark.parametrize("alpha", [10.0, 1e3, 1e6, 1e9, 1e15, 1e30])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_far_tail_is_exponential(alpha, side):
    # The wall at 0, so that the distance from it is seen to full precision.
    low, high = (0.0, np.inf) if side > 0 else (-np.inf, 0.0)
    y = alpha * side * draw(-side * alpha, 1.0, low, high)

    def curved(t):
        return 1 - np.exp(
            scipy.special.log_ndtr(-alpha - t / alpha) - scipy.special.log_ndtr(-alpha)
        )

    assert distance(y, curved if alpha < 1e5 else lambda t: -np.expm1(-t)) < LIMIT
    assert distance(1.03 * y, lambda t: -np.expm1(-t - t * t / (2 * alpha**2))) > LIMIT


@pytest.mark.parametrize("width", [1e-12, 1e-3, 1.0, 3.0])
def test_short_interval_in_the_tail(width):
    alpha = 1e6
    high = width / alpha
    y = draw(-alpha, 1.0, 0.0, high) / high
    assert y.max() <= 1.0
    assert distance(y, lambda t: np.expm1(-width * t) / np.expm1(-width)) < LIMIT


@pytest.mark.parametrize(
    ("mean", "scale", "expected", "variance"),
    [
        (0.3, 0.5, 0.22557011, 0.17750771),
        (5.0, 0.5, 0.93931594, 3.5812209e-3),
        (-40.0, 1.0, -0.97439258, 6.5488277e-4),
    ],
)
def test_moments(mean, scale, expected, variance):
    x = draw(mean, scale, -1.0, 1.0, n=10**6)
    assert abs(x.mean() - expected) < 5 * np.sqrt(variance / 1e6)
    square = (x - expected) ** 2
    assert abs(square.mean() - variance) < 5 * square.std() / 1e3


def test_attempts_are_bounded_everywhere():
    """Fewer than 2.2 attempts a draw: the number of variates says how many there were."""
    n = 20_000
    out = np.empty(n)
    for a in [0.0, 1e-9, 0.1, 0.5, 1.0, 3.0, 30.0, 1e4, 1e8, 1e12]:
        for width in [1e-12, 1e-3, 0.3, 1.0, 1.6, 2.0, 2.5, 2.51, 5.0, 1e3, np.inf]:
            for low in (a, -a):
                if not low + width > low:
                    continue
                source = _core.Source(bytes(32), 1)
                _core.fill_truncated_normal(source, 0.0, 1.0, low, low + width, out)
                uniform, gaussian, exponential = (probes.position(source, k) for k in (1, 2, 3))
                # One Gaussian, a uniform with its test, or an exponential with its test.
                attempts = gaussian + (uniform or exponential / 2)
                assert attempts < 2.2 * n, (low, width)


def test_extreme_arguments_stay_in_the_interval():
    for mean, scale, low, high in [
        (1e300, 1e-100, -1.0, 1.0),
        (-1e300, 1e-100, -1.0, 1.0),
        (0.0, 1e100, -1.0, 1.0),
        (0.0, 1e-100, -1.0, 1.0),
        (1.0, 1e-100, -1.0, 1.0),
        (2.0, 1e-20, -1.0, 1.0),
        (0.0, 1.0, 1.0, np.nextafter(1.0, 2.0)),
        (-1e16, 1.0, 1.0, 1.0 + 1e-9),
    ]:
        x = draw(mean, scale, low, high, n=100)
        assert np.all((x >= low) & (x <= high))


def test_a_seeded_source_repeats():
    np.testing.assert_array_equal(draw(0.3, 0.5, -1, 1, 1000, 7), draw(0.3, 0.5, -1, 1, 1000, 7))
    assert not np.array_equal(draw(0.3, 0.5, -1, 1, 1000, 7), draw(0.3, 0.5, -1, 1, 1000, 8))


@pytest.mark.parametrize("shape", [0.5, 0.7, 1.0, 1.5, 4.5, 50.0])
@pytest.mark.parametrize("ratio", [1e-6, 0.3, 0.9, 0.999, 1.0, 1.5, 10.0])
def test_truncated_gamma(shape, ratio):
    limit = shape * ratio
    n = 50_000
    out = np.empty(n)
    source = _core.Source(bytes(32), 2)
    probes.fill_truncated_gamma(source, shape, limit, out)
    assert out.max() <= limit
    total = scipy.special.gammainc(shape, limit)
    bound = LIMIT * 2  # a quarter of the draws
    assert distance(out, lambda x: scipy.special.gammainc(shape, x) / total) < bound
    other = shape + 0.1 * max(1.0, shape)
    wrong = scipy.special.gammainc(other, limit)
    assert distance(out, lambda x: scipy.special.gammainc(other, x) / wrong) > bound
