"""Han et al., Lemma 3.2: noise of the printed order is not (epsilon, delta)-private.

The noise of a tree's node has a density proportional to exp(-|x|_r^2 / (2 sigma^2)). Printed is the
order r = min(q - 1, ln d - 1), here ln 5 - 1 = 0.609, and sigma is that of Theorem 3.1 for
(1, 0.001). A round's leaf is in ten nodes. Two leaves are 20 apart in l_3; then delta(1) is the
mean of max(0, 1 - e^(1 - L)), L the privacy loss: estimated here, with a confidence bound.
"""

import math

import numpy as np

EPSILON, DELTA, NODES, BOUND, RUNS = 1.0, 1e-3, 10, 10.0, 50_000
dimension, q = 5, 3.0  # p = 1.5
order = min(q - 1, math.log(dimension) - 1)
levels = math.ceil(math.log2(1000)) + 1  # as printed, for 1000 rounds
kappa = 2.0  # more than the printed constant gives: sigma is not too small
sigma = levels * math.sqrt(8 * kappa * math.log(levels / DELTA)) * BOUND / EPSILON
shift = np.full(dimension, 2 * BOUND / dimension ** (1 / q))  # l_3 norm 2 BOUND
rng = np.random.default_rng(1)


def squared(x):
    """Return the square of the printed norm."""
    return (np.abs(x) ** order).sum(axis=1) ** (2 / order)


loss = np.zeros(RUNS)
for _ in range(NODES):
    x = rng.gamma(1 / order, size=(RUNS, dimension)) ** (1 / order)
    x *= rng.choice([-1.0, 1.0], size=x.shape)
    x /= np.sqrt(squared(x))[:, None]
    x *= sigma * np.sqrt(rng.gamma(dimension / 2, 2.0, size=(RUNS, 1)))
    loss += (squared(x - shift) - squared(x)) / (2 * sigma**2)
sample = np.maximum(0.0, -np.expm1(EPSILON - loss))  # in [0, 1]; its mean is delta(1)
log = math.log(2 / 1e-6)  # empirical Bernstein bound, wrong with probability 1e-6
lower = sample.mean() - math.sqrt(2 * sample.var(ddof=1) * log / RUNS) - 7 * log / (3 * RUNS - 3)
print(f"claimed delta(1) = {DELTA}; at least {lower:.3g} (estimate {sample.mean():.3g})")
