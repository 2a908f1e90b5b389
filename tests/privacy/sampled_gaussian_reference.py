"""The delta of many sampled Gaussian steps by quadrature, in extended precision: no grid of losses.

E (1 - exp(epsilon - S))_+ for the sum S of the steps' losses, as the Fourier sum of a period so
long that no other counts. The law of a loss is integrated by Gauss-Legendre rules, not discretised.
"""

from __future__ import annotations

import math

import numpy as np

REAL, PI = np.longdouble, np.longdouble("3.14159265358979323846264338327950288")


def losses_and_weights(records, mu):
    """Nodes of log(1 + (exp(mu u) - 1)/n) under the density of u: all but a mass of exp(-60).

    Not far beyond: tilted, what is there would need a longer period.
    """
    points, weights = np.polynomial.legendre.leggauss(20)
    reach = mu / 2 + 11
    edges = np.linspace(0, reach, int(8 * reach) + 1).astype(REAL)
    half = np.diff(edges)[:, None] / 2
    at = (edges[:-1, None] + half * (points + 1)).ravel()
    density = np.exp(-((at + REAL(mu) / 2) ** 2) / 2) / np.sqrt(2 * PI)
    loss = np.log1p(np.expm1(REAL(mu) * at) / REAL(records))
    return loss, density * (half * weights).ravel()


def expm1(z):
    return (np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2) + 1j * (
        np.exp(z.real) * np.sin(z.imag)
    )


def exact_delta(epsilon, records, mu, steps):
    loss, mass = losses_and_weights(records, mu)

    def excess(s):  # E exp(s L) - 1
        z = np.multiply.outer(s, loss)
        return (-expm1(-z) * expm1(z + loss)) @ mass

    def size(theta):
        power = steps * np.log1p(float(excess(np.array([theta + 0j]))[0].real))
        return power - theta * epsilon - math.log(theta * (theta + 1))

    with np.errstate(over="ignore", invalid="ignore"):
        found = [(size(t), t) for t in np.geomspace(1e-2, 2000 / float(loss[-1]), 100)]
    theta = REAL(min(pair for pair in found if np.isfinite(pair[0]))[1])
    both = np.exp((1 + theta) * loss) + np.exp(-theta * loss)
    period = 16 * np.sqrt(steps * np.sum(loss**2 * both * mass)) + 60 / theta
    total, first = REAL(0), None
    for block in range(0, 60_000, 64):
        s = theta + 2j * PI / period * np.arange(block, block + 64)
        moment = excess(s)
        log_size = np.log1p(2 * moment.real + np.abs(moment) ** 2) / 2
        angle = steps * np.arctan2(moment.imag, 1 + moment.real) - s.imag * epsilon
        terms = 2 * np.exp(steps * log_size - theta * epsilon) / np.abs(s * (s + 1))
        if first is None:
            first = terms[0]
            terms[0] /= 2  # all others stand for their conjugates, too
        total += np.sum(terms * np.cos(angle - np.angle(s * (s + 1))))
        if terms[-1] * (block + 64) < 1e-13 * first:
            return float(total / period)
    raise AssertionError("the sum has not converged")
