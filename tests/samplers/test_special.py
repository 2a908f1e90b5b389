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


def test_log_normal_cdf():
    generator = np.random.default_rng(1)
    x = np.concatenate(
        [
            generator.uniform(-10, 10, 200),
            -(10 ** generator.uniform(0, 4, 50)),
            generator.uniform(8, 36, 50),
            10 ** generator.uniform(-12, 0, 30) * generator.choice([-1, 1], 30),
        ]
    )
    got = probes.log_normal_cdf(x)
    with mpmath.workdps(40):
        for each, value in zip(x, got, strict=True):
            tail = mpmath.erfc(abs(mpmath.mpf(each)) / mpmath.sqrt(2)) / 2
            want = mpmath.log1p(-tail) if each > 0 else mpmath.log(tail)
            assert relative(value, want) < 1.5e-13, each
    ends = probes.log_normal_cdf(np.array([-np.inf, 0.0, np.inf, -1e120]))
    assert ends[0] == -np.inf
    assert ends[1] == pytest.approx(np.log(0.5), rel=1e-15)
    assert ends[2] == 0.0
    assert ends[3] == pytest.approx(-0.5e240, rel=1e-12)


def test_log_normal_interval():
    generator = np.random.default_rng(2)
    with mpmath.workdps(60):
        for _ in range(1500):
            a = generator.normal() * 10 ** generator.uniform(-3, 2.5)
            b = a + 10 ** generator.uniform(-10, 3)
            low, high = (a, b) if a + b >= 0 else (-b, -a)
            want = normal_interval(mpmath.mpf(low), mpmath.mpf(high))
            if abs(want) > 1e-280:
                assert relative(probes.log_normal_interval(a, b), want) < 1e-13, (a, b)
    assert probes.log_normal_interval(-np.inf, np.inf) == 0.0
    assert probes.log_normal_interval(1.0, 1.0) == -np.inf
    tail = probes.log_normal_interval(2.0, np.inf)
    assert tail == probes.log_normal_cdf(np.array([-2.0]))[0]


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
