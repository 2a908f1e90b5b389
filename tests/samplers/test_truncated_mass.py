"""The mass of a Gaussian in a box or a ball, and the log partition ratios it gives."""

import math

import mpmath
import numpy as np
import pytest
import scipy
from tests.probes import probes
from tests.samplers import mass_reference

from dpoco import _core, samplers
from dpoco.domains import Box, LpBall


def ball(d, m, s=1.0, r=1.0):
    mean = np.zeros(d)
    mean[-1] = m
    return samplers.log_mass(LpBall(d, 2.0, r), mean, s)


def ratio(domain, total, loss, beta=0.5, lam=4.0):
    """ln of Z after a linear loss over Z before it, centre 0."""
    total, loss = np.array(total, float), np.array(loss, float)
    s = 1 / np.sqrt(beta * lam)
    before = -total / lam
    after = before - loss / lam
    free = -beta * loss @ before + beta * loss @ loss / (2 * lam)
    return free + samplers.log_mass(domain, after, s) - samplers.log_mass(domain, before, s)


def test_log_partition_ratios():
    box = Box([-1.0, -1.0], [1.0, 1.0])
    assert ratio(box, [3, -1], [1, 0.5]) == pytest.approx(0.17568043, rel=1e-7)
    disc = LpBall(2, 2.0, 1.0)
    assert ratio(disc, [3, -1], [1, 0.5]) == pytest.approx(0.14994118, rel=1e-7)
    five = LpBall(5, 2.0, 1.0)
    got = ratio(five, [3, -1, 0, 0, 2], [1, 0.5, 0, 0, 0])
    assert got == pytest.approx(0.098524376, rel=1e-7)
    tail = ratio(Box([-1.0], [1.0]), [400], [1])
    assert tail == pytest.approx(0.49747819, rel=1e-7)
    assert ratio(LpBall(1, 2.0, 1.0), [400], [1]) == pytest.approx(tail, rel=1e-12)


def test_log_partition_function():
    """ln of the integral of exp(-beta (<S, x> + lam/2 |x|^2)) over the disc and the ball."""
    beta, lam = 0.5, 4.0
    for d, total, want in [(2, [3, -1], 0.93862965), (5, [3, -1, 0, 0, 2], 1.198113)]:
        mean = -np.array(total) / lam
        constant = 0.5 * beta * lam * mean @ mean + 0.5 * d * np.log(2 * np.pi / (beta * lam))
        mass = samplers.log_mass(LpBall(d, 2.0, 1.0), mean, 1 / np.sqrt(beta * lam))
        assert constant + mass == pytest.approx(want, rel=1e-6)


def exact_ball(d, m, r):
    """ln of the noncentral chi-square mass by the Poisson mixture, in high precision."""
    with mpmath.workdps(40):
        m, r = mpmath.mpf(m), mpmath.mpf(r)
        x = r * r / 2
        term_count = int(60 + m * r / 2 + 14 * mpmath.sqrt(m * r / 2 + 1) + r * r / 2)
        # P(a, x) downwards: P(a, x) = P(a+1, x) + x^a exp(-x) / Gamma(a+1).
        a = mpmath.mpf(d) / 2 + term_count
        p = mpmath.gammainc(a, 0, x, regularized=True)
        step = mpmath.exp(a * mpmath.log(x) - x - mpmath.loggamma(a + 1))
        if m == 0:
            return mpmath.log(mpmath.gammainc(mpmath.mpf(d) / 2, 0, x, regularized=True))
        weight = mpmath.exp(
            -m * m / 2 + term_count * mpmath.log(m * m / 2) - mpmath.loggamma(term_count + 1)
        )
        total = mpmath.mpf(0)
        for j in range(term_count, -1, -1):
            total += weight * p
            step *= a / x
            a -= 1
            p += step
            weight *= 2 * j / (m * m)
        return mpmath.log(total)


@pytest.mark.parametrize("d", [2, 3, 5, 10, 11, 100, 301])
def test_ball_against_the_poisson_mixture(d):
    for m, r in [
        (0.8, 2.0),
        (0.0, 1.0),
        (0.0, 1e-3),
        (7.0, 3.0),
        (1e-9, 1.0),
        (20.0, 10.0),
        (10.0, 20.0),
        (1e3, 1e-2),
        (25.0, 26.0),
        (3.0, 12.0),
    ]:
        want = exact_ball(d, m, r)
        assert abs(ball(d, m, r=r) - want) < 1e-12 * max(1.0, abs(want))


@pytest.mark.parametrize("d", [2, 3, 5, 10, 40])
def test_ball_with_a_far_mean_against_quadrature(d):
    """The axial integral with scipy's gamma function, Gauss-Legendre on pieces in t = ln u."""
    for m, r in [
        (200.0, 198.0),
        (1e4, 1e4 - 3),
        (1e4, 1e4 + 2),
        (1e6, 0.1),
        (1e9, 1e-3),
        (1e8, 1e8),
    ]:
        c = m - r
        nodes, weights = np.polynomial.legendre.leggauss(60)
        t = np.linspace(
            np.log(min(r, (d + 1) / max(c, 1.0) + (d + 1) / r)) - 30, np.log(2 * r), 400
        )
        middle, half = 0.5 * (t[1:] + t[:-1]), 0.5 * np.diff(t)
        u = np.exp(middle[:, None] + half[:, None] * nodes)
        x = u * (r - 0.5 * u)
        a = (d - 1) / 2
        with np.errstate(divide="ignore"):
            log_p = np.where(
                x < 1e-8,
                a * np.log(x) - scipy.special.gammaln(a + 1),
                np.log(scipy.special.gammainc(a, x)),
            )
        logs = -c * u - 0.5 * u * u + log_p + np.log(u)
        top = logs.max()
        total = np.sum(half[:, None] * weights * np.exp(logs - top))
        want = top + np.log(total) - 0.5 * c * c - 0.5 * np.log(2 * np.pi)
        assert ball(d, m, r=r) == pytest.approx(want, rel=1e-12, abs=1e-12)


def test_the_two_methods_for_balls_agree_where_they_meet():
    for d in (2, 5, 50):
        for r in (100.0, np.sqrt(2e4), 150.0):
            steps = 1 + np.linspace(-1e-6, 1e-6, 21)
            values = np.array([ball(d, 2e4 / r * step, r=r) for step in steps])
            # A jump between the methods would show in the third differences of a smooth function.
            assert np.abs(np.diff(values, 3)).max() < 4e-12 * max(1.0, np.abs(values).max())


def test_box_is_the_sum_of_its_coordinates():
    generator = np.random.default_rng(4)
    for _ in range(200):
        d = int(generator.integers(1, 40))
        half = 10 ** generator.uniform(-9, 2, d)
        centre = generator.normal(size=d)
        mean = generator.normal(size=d) * 10 ** generator.uniform(-2, 3)
        s = 10 ** generator.uniform(-2, 2)
        low, high = centre - half, centre + half
        mid, wide = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        want = sum(
            probes.log_normal_interval(w / s, (x - c) / s)
            for w, x, c in zip(wide, mean, mid, strict=True)
        )
        got = samplers.log_mass(Box(low, high), mean, s)
        assert got == pytest.approx(want, rel=1e-7, abs=1e-12)
        plain = scipy.special.ndtr((high - mean) / s) - scipy.special.ndtr((low - mean) / s)
        if plain.min() > 1e-3:
            assert got == pytest.approx(np.log(plain).sum(), rel=1e-11, abs=1e-13 * d)


def test_extremes_are_finite_and_ordered():
    for domain in (Box([-1.0] * 3, [1.0] * 3), LpBall(3, 2.0, 1.0)):
        previous = 0.0
        for m in [0.0, 1.0, 10.0, 1e3, 1e8, 1e50]:
            value = samplers.log_mass(domain, [m, 0.0, 0.0], 0.7)
            assert np.isfinite(value)
            assert value < previous
            previous = value
        for mean, s in [([1e300, 0, 0], 1e-100), ([0, 0, 0], 1e100), ([0, 0, 0], 1e-100)]:
            value = samplers.log_mass(domain, mean, s)
            assert np.isfinite(value)
            assert value <= 0.0
    assert ball(3, 0.0, s=1e100, r=1e-100) == pytest.approx(
        np.log(4 * np.pi / 3) - 1.5 * np.log(2 * np.pi) - 600 * np.log(10), rel=1e-12
    )


# ---- the bound that guarantees charge -----------------------------------------------------------

UNIT = 2.0**-53


def error_and_bound(found, exact, squares, centre, n):
    """How far a log mass is off, and what docs/privacy/gibbs_draws.md allows it to be."""
    with mpmath.workdps(60):
        error = abs(float(mpmath.mpf(found) - exact))
    return error, 24 * UNIT * (2 * n + 81 + 0.5 * squares - float(centre))


@pytest.mark.parametrize("n", [1, 2, 30, 1000])
def test_log_masses_of_boxes_are_within_the_charged_error(n):
    """Isotropic and anisotropic boxes, means from the centre to 1000 widths; half is margin."""
    rng = np.random.default_rng(n)
    largest = 0.0
    for half in (
        np.full(n, 1e-3),
        np.full(n, 1.0),
        np.full(n, 40.0),
        10.0 ** rng.uniform(-4, 1, n),
    ):
        centre = mass_reference.box(half, np.zeros(n), mpmath.mpf(1))
        # Of many coordinates each is close to the centre, but for the last mean.
        for far in (1e-3, 0.3, 3.0, 30.0, 1000.0) if n < 100 else (3.0, 1000.0):
            mean = rng.standard_normal(n)
            mean *= far / np.linalg.norm(mean)
            found = _core.log_gaussian_mass(Box(-half, half)._engine, mean, 1.0)
            exact = mass_reference.box(half, [mpmath.mpf(m) for m in mean], mpmath.mpf(1))
            error, bound = error_and_bound(found, exact, far**2, centre, n)
            assert error <= 0.5 * bound
            largest = max(largest, error / bound)
    assert largest > 1e-3  # the bound is not from another world


@pytest.mark.parametrize("n", [2, 3, 10, 50, 301, 1000])
def test_log_masses_of_balls_are_within_the_charged_error(n):
    """Both series, small and large balls, means inside and up to 1000 radii outside."""
    rng = np.random.default_rng(n)
    largest = 0.0
    for r in (1e-2, 1.0, 3.0, math.sqrt(n), 2.0 * math.sqrt(n), 100.0):
        centre = mass_reference.ball(n, mpmath.mpf(10) ** -30, mpmath.mpf(r))
        for far in (1e-2, 1.0, 10.0, 100.0, 1000.0):
            mean = rng.standard_normal(n)
            mean *= far / np.linalg.norm(mean)
            with mpmath.workdps(60):
                m = mpmath.sqrt(mpmath.fsum(mpmath.mpf(each) ** 2 for each in mean))
            found = _core.log_gaussian_mass(LpBall(n, 2.0, r)._engine, mean, 1.0)
            error, bound = error_and_bound(
                found, mass_reference.ball(n, m, mpmath.mpf(r)), far**2, centre, n
            )
            assert error <= 0.5 * bound
            largest = max(largest, error / bound)
    assert largest > 1e-3


@pytest.mark.parametrize(("n", "r", "far"), [
    (2, 10.738562225041118, 0.5827439783435304), (2, 9.761564325216186, 0.2575985606100737),
    (3, 9.97, 1.05), (50, 14.54, 0.32), (100_000, 2.0, 1.0), (5000, 5.8e-7, 0.11),
])  # fmt: skip
def test_error_where_large_terms_cancel_or_add_up(n, r, far):
    """Means deep inside, where terms of (r - |m|)^2 / 2 leave nothing, and many logarithms."""
    mean = np.zeros(n)
    mean[0] = far
    found = _core.log_gaussian_mass(LpBall(n, 2.0, r)._engine, mean, 1.0)
    centre = mass_reference.ball(n, mpmath.mpf(10) ** -30, mpmath.mpf(r))
    exact = mass_reference.ball(n, mpmath.mpf(far), mpmath.mpf(r))
    error, bound = error_and_bound(found, exact, far**2, centre, n)
    assert error <= 0.5 * bound
    if n > 1000:  # sums of logarithms: without compensation hundreds of times as much
        assert error <= 0.1 * bound
