"""Han et al., Lemma 3.1 and Algorithm 4: a squared radius of Gamma(d/2, 2 sigma) is too short.

Right is the scale 2 sigma^2. At order 2 the noise is Gaussian, and as printed its deviation is
sqrt(sigma). Everything is exact: ten nodes, two leaves 20 apart in l_3, the printed sigma.
"""

import math

EPSILON, DELTA, NODES, BOUND = 1.0, 1e-3, 10, 10.0
dimension, q = 5, 3.0
levels = math.ceil(math.log2(1000)) + 1
kappa = dimension ** (1 - 2 / q)  # of the l_2 norm against l_3
sigma = levels * math.sqrt(8 * kappa * math.log(levels / DELTA)) * BOUND / EPSILON


def normal(x):
    """Return the chance that a standard normal variate is below x."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def spent(mu):
    """Return epsilon at DELTA of Gaussian noise, two data sets mu deviations apart."""
    low, high = 0.0, 100.0
    while high - low > 1e-9:
        e = (low + high) / 2
        delta = normal(mu / 2 - e / mu) - math.exp(e) * normal(-mu / 2 - e / mu)
        low, high = (e, high) if delta > DELTA else (low, e)
    return low


apart = 2 * BOUND * dimension ** (1 / 2 - 1 / q) * math.sqrt(NODES)  # in l_2, all nodes of a round
print(f"with sigma = {sigma:.0f} as the deviation: epsilon = {spent(apart / sigma):.2g}")
print(f"claimed epsilon = {EPSILON:g}; at least {spent(apart / math.sqrt(sigma)):.3g}")
