"""Han et al., Section 3.1 and Algorithm 2: the first gradient enters the private sum twice.

The estimate is d_t = g_t(x_t) + (1 - 1/(t + 1)) (d_(t-1) - g_t(x_(t-1))), g_t the gradient, and d_1
= g_1(x_1); the private sum is (t + 1) d_t. Linear losses have beta = 0, and replacing a record
moves the sum by 2 (beta D + L) = 2 L, says the paper. This runs the recursion on two such streams,
and then computes what Gaussian noise that is exact for 2 L at (1, 1e-6) spends.
"""

import math

import numpy as np

DELTA = 1e-6


def normal(x):
    """Return the chance that a standard normal variate is below x."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def root(rising, low, high):
    """Return where an increasing function is 0."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


def excess(mu, epsilon):
    """Return how far Gaussian noise, data sets mu deviations apart, is beyond DELTA."""
    tail = math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)
    return normal(mu / 2 - epsilon / mu) - tail - DELTA


def last_sum(gradients):
    """Return (t + 1) d_t of linear losses: gradients do not depend on the decision."""
    d = gradients[0]
    for t, g in enumerate(gradients[1:], 2):
        d = g + (1 - 1 / (t + 1)) * (d - g)
    return (len(gradients) + 1) * d


stream = np.random.default_rng(1).choice([-1.0, 1.0], size=50)  # L = 1
stream[0] = 1.0
other = stream.copy()
other[0] = -1.0
moved = abs(last_sum(stream) - last_sum(other))
print(f"claimed sensitivity = 2; at least {moved:.6g}")
mu = root(lambda m: excess(m, 1.0), 1e-3, 10.0)  # (1, DELTA) for a sensitivity of 2
print(f"claimed epsilon = 1; at least {root(lambda e: -excess(mu * moved / 2, e), 0.0, 50.0):.3g}")
