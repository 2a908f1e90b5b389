"""Han et al., Lemma 2.1: sigma^2 = 2 ln(1/delta) s^2 / epsilon^2 is not enough at large epsilon.

Gaussian noise has an exact curve, here at the two data sets that are farthest apart.
"""

import math


def normal(x):
    """Return the chance that a standard normal variate is below x."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


epsilon, delta = 10.0, 1e-5
mu = epsilon / math.sqrt(2 * math.log(1 / delta))  # sensitivity over the printed sigma
true = normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)
print(f"claimed delta(10) = {delta:g}; at least {true:.3g}")
