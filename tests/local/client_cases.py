"""Fixtures and independent implementations for the tests of the client side."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpoco.local import Hypotheses, RoundSpec
from dpoco.local import _families as families

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15

LEVELS = [1e-15, 1e-6, 0.1, 1.0, 4.0, 29.9, 30.0]
UNITS = 2**53
HOSTILE = [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-320, 2.0, -2.0]

FA = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])
FB = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])
FC = np.array(
    [
        [0.30, 0.25, 0.20, 0.15, 0.07, 0.03],
        [0.05, 0.10, 0.15, 0.20, 0.25, 0.25],
        [0.02, 0.48, 0.02, 0.02, 0.44, 0.02],
        [1 / 6] * 6,
    ]
)


def mix(z):
    """SplitMix64's finaliser, in Python's integers."""
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


class ReferenceCoins:
    """Public coins as written down, without the library."""

    def __init__(self, seed, round, slot=0):
        self.h = mix(seed ^ mix((round * GAMMA + slot + 1) & MASK))
        self.i = 0

    def word(self):
        self.i += 1
        return mix((self.h + self.i * GAMMA) & MASK)

    def below(self, n):
        while True:
            product = self.word() * n
            if product % 2**64 >= 2**64 % n:
                return product >> 64


def bit_spec(matrix, *, epsilon=1.0, round=1, seed=2024, bits=1):
    k, m = matrix.shape
    queries = tuple(families.bisection(seed, round, slot, k) for slot in range(bits))
    return RoundSpec(round, "bit", epsilon, k, m, queries=queries)


def subset_spec(matrix, size, *, epsilon=1.0, round=1):
    return RoundSpec(round, "subset", epsilon, *matrix.shape, subset_size=size)


def coordinate_spec(matrix, *, epsilon=1.0, round=1, seed=5, mixing=0.1):
    k, m = matrix.shape
    query = families.loss(seed, round, 0, k, mixing)
    return RoundSpec(round, "coordinate", epsilon, k, m, queries=(query,))


def fixed(matrix):
    return Hypotheses(matrix)


def words_drawn(client):
    return client._source._engine.position(0)


def refused(client, spec, error, **arguments):
    """The call raises, and neither the ledger nor the noise has moved."""
    before = (client.spent, client.reports_left, words_drawn(client))
    with pytest.raises(error):
        client.respond(spec, **arguments)
    assert (client.spent, client.reports_left, words_drawn(client)) == before


def exceeds(ratio, epsilon):
    """ratio > e^epsilon with 100 digits, without the library."""
    with mpmath.workdps(100):
        return mpmath.mpf(ratio.numerator) / ratio.denominator > mpmath.exp(mpmath.mpf(epsilon))
