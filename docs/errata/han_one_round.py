"""Han et al., Theorem 3.4: with one round Algorithm 2 adds no noise at all.

Its Laplace noise has a scale proportional to sqrt(ln n). For n = 1 the chosen vertex is a function
of the record: an event with probability 1 for one record, and 0 for another.
"""

import math

import numpy as np

EPSILON, DELTA, ROUNDS, RUNS = 1.0, 1e-3, 1, 10_000
scale = 4 * math.sqrt(math.log(ROUNDS) * math.log(1 / DELTA)) / EPSILON
rng = np.random.default_rng(1)
frequency = []
for gradient in (np.array([1.0, 0.0]), np.array([0.0, 1.0])):
    scores = np.concatenate([gradient, -gradient])  # of the vertices e_1, e_2, -e_1, -e_2
    chosen = np.argmin(scores + scale * rng.laplace(size=(RUNS, 4)), axis=1)
    frequency.append(np.mean(chosen == 2))  # -e_1
print(f"-e_1 is chosen with frequency {frequency[0]:g} or {frequency[1]:g}, noise of scale {scale}")
ratio = math.inf if frequency[1] == 0.0 else math.log(frequency[0] / frequency[1])
print(f"claimed epsilon = {EPSILON:g}; at least {ratio:.3g}")
