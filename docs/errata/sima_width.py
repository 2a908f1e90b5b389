"""Sima et al., Lemma 6 and Algorithm 2: log-likelihoods have a larger width than log(K T).

A label y is split into n_y = ceil(M max_j F[j, y]) cells; with probability 1/T a device replaces
its cell by any, uniformly. It sends the log-likelihood of one hypothesis, with Laplace noise of
scale log(K T) / epsilon. All densities of the report are known; between two log-likelihoods their
quotients are monotone, so that it is enough to look at the log-likelihoods themselves.
"""

import math

import numpy as np

EPSILON, T = 1.0, 1000
F = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])
K, M = F.shape
cells = np.ceil(M * F.max(axis=0) - 1e-9)
total = cells.sum()
values = np.log(M * ((1 - 1 / T) * F / cells + 1 / (T * total)))
width = (values.max(axis=1) - values.min(axis=1)).max()
print(f"{total:.0f} cells (K M = {K * M}), width {width:.4f} (log K T = {math.log(K * T):.4f})")
scale = math.log(K * T) / EPSILON
worst = 0.0
for row in values:  # the hypothesis that is asked for is drawn by public coins
    for report in row:
        plain = np.exp(-np.abs(report - row) / scale)  # densities of the labels, not replaced
        mixed = (1 - 1 / T) * plain + (cells / total) @ plain / T
        worst = max(worst, math.log(mixed.max() / mixed.min()))
print(f"claimed epsilon = {EPSILON:g}; at least {worst:.5g}")
