"""Han et al., published code of the bandit: the direction of a step is that of a private reward.

Noise is added to the sizes of a gradient's entries, the largest is selected, and the step goes
where the entry *without* noise points. The gradient of the squared loss at 0 is -reward * context.
"""

import math

import numpy as np

EPSILON, DIMENSION, RUNS, TIMES = 1.0, 20, 10_000, 1000.0
rng = np.random.default_rng(1)
context = np.full(DIMENSION, 1 / math.sqrt(DIMENSION))


def step(reward):
    """Return the entry that the first step changes, moved by the published rule."""
    gradient = -reward * context
    noise = rng.laplace(scale=TIMES * 4 * math.log(1000) / EPSILON, size=DIMENSION)
    chosen = np.argmax(np.abs(gradient) + noise)
    return -np.sign(gradient[chosen]) / 2


up = [np.mean([step(reward) > 0 for _ in range(RUNS)]) for reward in (1.0, -1.0)]
print(f"{TIMES:g} times noise: the first step is upwards with frequency {up[0]:g} or {up[1]:g}")
ratio = math.inf if up[1] == 0.0 else math.log(up[0] / up[1])
print(f"claimed epsilon = {EPSILON:g}; at least {ratio:.3g}")
