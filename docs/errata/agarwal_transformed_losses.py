"""Agarwal et al., Lemma 16 and Theorem 14: noise for one loss, not for the difference of two.

The transform M takes from the value at a point that at its parent, whose index has the lowest bit
removed. Noise is for the largest norm of M l, and that is taken to be 1 on [0, 1] (C_1 = 1).
Replacing l(x) = x by -x moves M l by twice its norm, and the far end adds to it. The claim is (1,
1e-6); Gaussian noise has an exact curve.
"""

import math

import numpy as np

DELTA, DEPTH = 1e-6, 10


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


index = np.arange(1, 2**DEPTH + 1)
parent = index & (index - 1)
transformed = (index - parent) / 2**DEPTH  # M l for l(x) = x; for -x the negative of it
norm = float(np.linalg.norm(transformed))
moved = float(np.linalg.norm(transformed - -transformed))
mu = root(lambda m: excess(m, 1.0), 1e-3, 10.0)  # (1, DELTA) for a sensitivity of 1


def spent(factor):
    """Return epsilon of noise made for a sensitivity that is `factor` times too small."""
    return root(lambda e: -excess(mu * factor, e), 0.0, 50.0)


print(f"norm of M l: claimed 1, is {norm:.4g}; of M (l - l'): {moved:.4g}")
print(f"claimed epsilon = 1; at least {spent(norm):.3g} (C_1 alone)")
print(f"claimed epsilon = 1; at least {spent(2.0):.3g} (Lemma 16 alone)")
print(f"claimed epsilon = 1; at least {spent(moved):.3g}")
