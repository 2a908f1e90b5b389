"""Asi et al., Algorithm 3 and Theorem 5.2: Laplace noise of scale 1 on each of N losses.

"Each loss vector has sensitivity 1": each entry has; N entries move. Releasing decisions only does
not help: for a large learning rate the second decision is the argmin of the noisy losses. With
losses (0, 1, ..., 1) or (1, 0, ..., 0) its law is an integral over the noise of expert 0.
"""

import math

import numpy as np

EXPERTS = 10
x, width = np.linspace(-60.0, 60.0, 1_200_001, retstep=True)


def above(y):
    """Return the chance that Laplace noise of scale 1 is at least y."""
    return np.where(y > 0, 0.5 * np.exp(-np.abs(y)), 1 - 0.5 * np.exp(-np.abs(y)))


def chance(own, others):
    """Return the chance that expert 0 has the smallest noisy loss."""
    density = 0.5 * np.exp(-np.abs(x - own))
    return float(np.sum(density * above(x - others) ** (EXPERTS - 1)) * width)


good, bad = chance(0.0, 1.0), chance(1.0, 0.0)
print(f"expert 0 is chosen with probability {good:.5f} or {bad:.5f}")
print(f"claimed epsilon = 1; at least {math.log(good / bad):.4g}")
