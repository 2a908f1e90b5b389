"""Gaussians restricted to boxes, balls and simplices, against independent quadrature."""

import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samples import bound, distance

from dpoco import _core, samplers
from dpoco.domains import Box, LpBall, Simplex
from dpoco.random import Source

N = 60_000
LIMIT = bound(N, 1e-6)


def from_density(grid, density):
    """The law with a density known on a fine grid."""
    total = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))])
    return lambda x: np.interp(x, grid, total / total[-1])


def draw(domain, mean, scale, n=N, seed=11):
    return samplers.truncated_gaussian(domain, mean, scale, n, Source.seeded(seed))


# ---- box ----------------------------------------------------------------------------------------


def test_box_coordinates_are_independent_truncated_normals():
    lower = np.array([-1.0, 0.0, 2.0, -5.0, 0.1, -1.0])
    upper = np.array([1.0, 0.5, 3.0, 5.0, 0.2, 9.0])
    mean = np.array([0.9, 2.0, -1.0, 0.5, 0.0, 4.0])
    x = draw(Box(lower, upper), mean, 0.8)
    assert np.all((x >= lower) & (x <= upper))
    for i in range(6):
        law = scipy.stats.truncnorm(
            (lower[i] - mean[i]) / 0.8, (upper[i] - mean[i]) / 0.8, mean[i], 0.8
        )
        assert distance(x[:, i], law.cdf) < LIMIT
        wrong = scipy.stats.truncnorm(
            (lower[i] - mean[i]) / 0.9, (upper[i] - mean[i]) / 0.9, mean[i], 0.9
        )
        if i in (0, 1, 2, 3):
            assert distance(x[:, i], wrong.cdf) > LIMIT
    correlation = np.corrcoef(x.T) - np.eye(6)
    assert np.abs(correlation).max() < 6 / np.sqrt(N)


# ---- ball ---------------------------------------------------------------------------------------

BALLS = [  # dimension, |mean|, scale, radius
    (2, 0.4, 0.5, 1.0),
    (2, 0.0, 30.0, 1.0),
    (3, 1.1, 0.3, 1.0),
    (5, 2.0, 0.3, 1.0),
    (5, 0.0, 1.0, 1.0),
    (5, 0.9, 0.05, 1.0),
    (5, 3.0, 2.0, 1.0),
    (10, 0.4, 0.5, 1.0),
    (10, 40.0, 1.0, 38.0),
    (10, 1.0, 0.01, 1.0),
    (50, 0.5, 0.12, 1.0),
    (200, 2.0, 0.2, 1.0),
]


def axis_of(d):
    axis = np.cos(np.arange(1.0, d + 1.0))
    return axis / np.linalg.norm(axis)


def axial_law(d, m, s, r):
    z = np.unique(np.concatenate([np.linspace(-r, r, 40_001),
                                  r - r * np.geomspace(1e-9, 1.0, 20_001)]))  # fmt: skip
    with np.errstate(divide="ignore"):
        mass = np.log(
            scipy.special.gammainc((d - 1) / 2, np.maximum(r * r - z * z, 0.0) / (2 * s * s))
        )
    log_density = mass - (z - m) ** 2 / (2 * s * s)
    return from_density(z, np.exp(log_density - log_density.max()))


@pytest.mark.parametrize(("d", "m", "s", "r"), BALLS)
def test_ball(d, m, s, r):
    axis = axis_of(d)
    n = N if d < 100 else N // 4
    limit = LIMIT * np.sqrt(N / n)
    x = draw(LpBall(d, 2.0, r), m * axis, s, n)
    along = x @ axis
    norms = np.linalg.norm(x, axis=1)
    assert norms.max() <= r * (1 + 1e-15)
    assert distance(along, axial_law(d, m, s, r)) < limit
    assert distance(along, axial_law(d, m + 0.05 * (s + r) + 0.3 * s * s / r, s, r)) > limit
    # The length: a noncentral chi variate, truncated; here from the axial law given the length.
    if m < 10:
        t = np.linspace(0.0, r, 4001)
        total = scipy.special.chndtr((t / s) ** 2, d, (m / s) ** 2)
        if total[-1] > 1e-200 and np.all(np.isfinite(total)):
            assert distance(norms, lambda v: np.interp(v, t, total / total[-1])) < limit
    # Across the axis all directions are alike.
    across = x - along[:, None] * axis
    other = np.zeros(d)
    other[0], other[1] = -axis[1], axis[0]
    other /= np.linalg.norm(other)
    cosine = (across @ other) / np.linalg.norm(across, axis=1)
    assert abs(cosine.mean()) < 5 / np.sqrt(n)
    if d > 2:
        assert distance(cosine**2, scipy.stats.beta(0.5, (d - 2) / 2).cdf) < limit


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_uniform_on_the_ball(d):
    x = draw(LpBall(d, 2.0, 3.0), np.zeros(d), 1e6)
    assert distance(np.linalg.norm(x, axis=1) / 3.0, lambda v: v**d) < LIMIT
    assert distance((x[:, 0] > 0) * 0.5 + 0.25, lambda v: np.where(v > 0.5, 1.0, 0.5)) < 0.5 + LIMIT


@pytest.mark.parametrize("d", [2, 3, 10, 100])
@pytest.mark.parametrize("m", [1e2, 1e6, 1e12])
def test_mean_far_outside_a_ball(d, m):
    """At the pole the squared distance across is 2 u, and u is Gamma((d+1)/2) with rate m."""
    s = 1e-2
    n = N // 2
    axis = np.zeros(d)
    axis[0] = 1.0
    x = draw(LpBall(d, 2.0, 1.0), m * axis, s, n)
    rate = m / s**2
    square = rate * np.sum(x[:, 1:] ** 2, axis=1)  # u = (1 - z) ~ (w + e)/rate, w = square/2
    assert (
        distance(0.5 * square, scipy.stats.gamma((d - 1) / 2).cdf)
        < LIMIT * np.sqrt(2) + 2 * d / rate
    )
    assert distance(0.55 * square, scipy.stats.gamma((d - 1) / 2).cdf) > LIMIT * np.sqrt(2)


def test_trials_in_a_ball_are_bounded():
    """Uniforms count the trials of the axial coordinate, Gaussians those of the whole vector."""
    for d in (4, 5, 10, 101, 1000):
        for r in np.geomspace(1e-6, 1e6, 7):
            for m in [0.0, 0.5 * r, r, r + 1, 2 * r, 1e3 * r + 1e3, abs(r - np.sqrt(d))]:
                source = _core.Source(bytes(32), 1)
                n = 200
                out = np.empty((n, d))
                mean = np.zeros(d)
                mean[0] = m
                _core.fill_truncated_gaussian(source, LpBall(d, 2.0, r)._engine, mean, 1.0, out)
                if probes.position(source, 1) > 0:
                    assert probes.position(source, 1) < 2.2 * n, (d, r, m)
                assert probes.position(source, 2) < (4 * d + 5) * n, (d, r, m)
                assert probes.position(source, 3) < 14 * n, (d, r, m)


@pytest.mark.parametrize(
    ("m", "s", "r", "d", "n", "axial", "square", "norm"),
    [
        (0.4, 0.5, 1.0, 2, 10**6, 0.2630603, 0.21990484, 0.38431753),
        (0.4, 0.5, 1.0, 10, 10**6, 0.1242234, 0.091104582, 0.78986122),
        (2.0, 0.3, 1.0, 5, 10**5, 0.84521634, 0.72225075, 0.87438969),
    ],
)
def test_ball_moments(m, s, r, d, n, axial, square, norm):
    axis = axis_of(d)
    x = draw(LpBall(d, 2.0, r), m * axis, s, n)
    along = x @ axis
    for values, want in [(along, axial), (along**2, square), (np.sum(x * x, axis=1), norm)]:
        assert abs(values.mean() - want) < 5 * values.std() / np.sqrt(n)
        assert abs(values.mean() - 1.02 * want) > 5 * values.std() / np.sqrt(n)


# ---- simplex ------------------------------------------------------------------------------------


def simplex_marginals(mean, s, total):
    """Each coordinate's law: its own density times the convolution of all others'."""
    grid = np.linspace(0.0, total, 2001)
    log_densities = [-((grid - m) ** 2) / (2 * s * s) for m in mean]
    densities = [np.exp(each - each.max()) for each in log_densities]
    laws = []
    for i, own in enumerate(densities):
        rest = None
        for j, other in enumerate(densities):
            if j == i:
                continue
            weighted = other.copy()
            weighted[0] *= 0.5  # trapezoidal rule at the wall
            rest = other if rest is None else np.convolve(rest, weighted)[: len(grid)]
            rest = rest / rest.max()
        laws.append(from_density(grid, own * rest[::-1]))
    return laws


@pytest.mark.parametrize(
    ("mean", "s"),
    [
        ([0.2, 0.5, 0.3], 0.4),
        ([0.9, 0.3, 0.1, -0.2, 0.0, 0.1], 0.2),
        ([2.0, 2.0, -1.0, 0.0, 0.0], 0.3),
        ([0.0] * 6, 5.0),
        ([0.1, 0.2, 0.3, 0.2, 0.1, 0.1], 0.03),
    ],
)
def test_simplex(mean, s):
    d = len(mean)
    x = draw(Simplex(d, 2.0), mean, s)
    assert x.min() > -1e-14
    np.testing.assert_allclose(x.sum(axis=1), 2.0, rtol=1e-13)
    for i, law in enumerate(simplex_marginals(mean, s, 2.0)):
        assert distance(x[:, i], law) < LIMIT + 2e-3
    wrong = simplex_marginals(np.array(mean) + np.eye(d)[0] * s, s, 2.0)[0]
    assert distance(x[:, 0], wrong) > 3 * LIMIT or s > 1


def test_uniform_on_the_simplex():
    for d in (2, 3, 30):
        x = draw(Simplex(d), np.zeros(d), 1e8, N // 3)
        for i in (0, d - 1):
            assert distance(x[:, i], lambda v, d=d: 1 - (1 - v) ** (d - 1)) < LIMIT * np.sqrt(3)


def test_simplex_far_means_sit_at_a_vertex():
    d, m = 6, 1e4
    mean = np.zeros(d)
    mean[2] = m
    x = draw(Simplex(d), mean, 1.0, N // 3)
    for i in (0, 5):
        assert distance(m * x[:, i], scipy.stats.expon.cdf) < LIMIT * np.sqrt(3) + 1e-3


# ---- all ----------------------------------------------------------------------------------------

EXTREMES = [(1e300, 1e-100), (-1e300, 1e100), (0.0, 1e100), (0.0, 1e-100), (1.0, 1e-100)]


@pytest.mark.parametrize(
    "domain",
    [
        Box([-1.0] * 3, [2.0] * 3),
        LpBall(3, 2.0, 1.0),
        LpBall(3, 2.0, 1e-100),
        LpBall(40, 2.0, 1e100),
        LpBall(3, np.inf, 1.0),
        Simplex(4),
        Simplex(2, 1e-50),
    ],
    ids=repr,
)
def test_extreme_arguments_give_points_of_the_domain(domain):
    for m, s in EXTREMES:
        mean = np.zeros(domain.dimension)
        mean[0] = m
        x = draw(domain, mean, s, 20)
        assert all(domain.contains(row, 1e-12) for row in x)


def test_a_seeded_source_repeats_and_splits():
    for domain in (Box([-1.0] * 3, [2.0] * 3), LpBall(3, 2.0, 1.0), Simplex(4)):
        mean = np.full(domain.dimension, 0.4)
        whole = draw(domain, mean, 0.5, 100, 5)
        np.testing.assert_array_equal(whole, draw(domain, mean, 0.5, 100, 5))
        source = Source.seeded(5)
        parts = [samplers.truncated_gaussian(domain, mean, 0.5, n, source) for n in (1, 60, 39)]
        np.testing.assert_array_equal(whole, np.concatenate(parts))
        assert not np.array_equal(whole, draw(domain, mean, 0.5, 100, 6))
