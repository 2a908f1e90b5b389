"""Asi et al., Algorithm 2: the sparse-vector test is for queries of sensitivity 1; these have 2.

Laplace noise of scale 2 on the threshold and 4 on each query is 1-private for queries that a record
moves by at most 1. A record moves the regret of a window by up to 2: the expert played loses 1
more, another one 1 less. Many silent queries that rise by 2, then an alarm that does not, have the
probabilities below, integrals over the threshold's noise. The algorithm gives the test half of its
budget, so that all of it spends 1.25 times what is claimed.
"""

import math

import numpy as np

FIRST, SECOND, SILENT = 2.0, 4.0, 10**9
rho, width = np.linspace(-200.0, 600.0, 400_001, retstep=True)  # the threshold and its noise


def above(x):
    """Return the chance that Laplace noise of a query is at least x."""
    tail = 0.5 * np.exp(-np.abs(x) / SECOND)
    return np.where(x > 0, tail, 1 - tail)


def chance(silent, alarm):
    """Return the chance of silence at many queries of one value, and then an alarm."""
    density = np.exp(-np.abs(rho) / FIRST) / (2 * FIRST)
    quiet = np.exp(SILENT * np.log1p(-np.minimum(above(rho - silent), 1 - 1e-16)))
    return float(np.sum(density * quiet * above(rho - alarm)) * width)


ratio = math.log(chance(0.0, 0.0) / chance(2.0, 0.0))
print(f"claimed epsilon = 1 (of the test); at least {ratio:.3f}")
