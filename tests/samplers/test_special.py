"""Normal and gamma integrals against mpmath and their identities."""

import mpmath
import numpy as np
import pytest
from tests.probes import probes


def relative(got, want):
    return float(abs(mpmath.mpf(float(got)) - want) / abs(want))


def normal_interval(a, b):
    """ln(Phi(b) - Phi(a)) in mpmath's working precision, for a + b >= 0."""
    root = mpmath.sqrt(2)
    if a > 0:
        return mpmath.log((mpmath.erfc(a / root) - mpmath.erfc(b / root)) / 2)
    return mpmath.log1p(-(mpmath.erfc(-a / root) + mpmath.erfc(b / root)) / 2)


def test_log_normal_interval():
    generator = np.random.default_rng(2)
    with mpmath.workdps(60):
        for _ in range(1500):
            low = generator.normal() * 10 ** generator.uniform(-3, 2.5)
            high = low + 10 ** generator.uniform(-10, 3)
            h, m = 0.5 * (high - low), 0.5 * (low + high)
            near, far = mpmath.mpf(abs(m)) - h, mpmath.mpf(abs(m)) + h
            want = normal_interval(near, far)
            if abs(want) > 1e-280:
                # The nearer end is a difference of doubles: its rounding, times the relative slope.
                slope = 2.0 / near if near > 1.0 else abs(near) + 1.0
                allowed = 1e-13 + 2.0**-53 * far * slope
                assert relative(probes.log_normal_interval(h, m), want) < allowed, (h, m)


@pytest.mark.parametrize("a", [0.5, 1.0, 1.5, 4.5, 9.5, 10.0, 49.5, 499.5])
def test_incomplete_gamma(a):
    generator = np.random.default_rng(int(2 * a))
    near = a + np.sqrt(a) * generator.uniform(-6, 6, 20)
    x = np.concatenate([a * 10 ** generator.uniform(-3, 1, 20), near[near > 0], [1e-200, 1e-30]])
    got = probes.log_gamma_p(a, x)
    elasticity = probes.gamma_elasticity(a, x)
    with mpmath.workdps(40):
        for each, value, slope in zip(x, got, elasticity, strict=True):
            point = mpmath.mpf(each)
            if each < a + 1:
                want = mpmath.log(mpmath.gammainc(a, 0, point, regularized=True))
            else:
                want = mpmath.log1p(-mpmath.gammainc(a, point, mpmath.inf, regularized=True))
            if abs(want) < 1e-200:
                continue
            assert relative(value, want) < 2e-13, each
            log_slope = a * mpmath.log(point) - point - mpmath.loggamma(a) - want
            assert relative(slope, mpmath.exp(log_slope)) < 3e-13, each


def test_log_gamma():
    for a in np.geomspace(1e-3, 1e6, 200):
        assert abs(probes.log_gamma(a) - float(mpmath.loggamma(a))) < 2e-14 * max(
            1.0, abs(float(mpmath.loggamma(a)))
        )
