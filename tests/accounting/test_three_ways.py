"""Every event, every count, both relations: own accounting, a library and brute force.

Ours must be at least the truth (the lower end of the brute-force bracket) and at most the truth and
a stated slack. A dropped count, a sensitivity doubled or not, and one direction taken for both must
be seen. Nothing here is random: there are no false alarms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from tests.accounting import brute_force as brute

from dpoco.accounting.gaussian import compose_gdp, gaussian_delta
from dpoco.accounting.rdp import (
    DEFAULT_ORDERS,
    compose_zcdp,
    rdp_delta,
    zcdp_delta,
)
from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.coupled_bits import CoupledBits
from dpoco.privacy.losses.loss import pure_delta
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.neighbours import Neighbours

from .by_hand import stated

COUNTS = (1, 2, 3, 17)
RELATIONS = ("replace", "zero_out")
LEVELS = (1e-2, 1e-5)  # of the truth, where curves are compared
ORDERS = np.array(DEFAULT_ORDERS)


def distance(relation, **problem):
    """How far apart neighbours are, by the library's own sensitivity."""
    problem = {"norm": 2.0, "dimension": 3, "bound": 0.5, "bound_l2": math.inf} | problem
    return ClippedVector(**problem).movement(Neighbours(relation))


@dataclass(frozen=True)
class Case:
    """One kind of mechanism: a curve of ours, one of the library, and brackets of the truth."""

    name: str
    slack: float  # ours is at most this factor of delta above the truth
    tight: bool = True  # whether an overcharge must be seen

    def ours(self, count, relation, epsilon):
        return getattr(self, f"_{self.name}")(count, relation, epsilon)

    def truth(self, count, relation):
        return TRUTHS[self.name](count, relation)

    def _gaussian(self, count, relation, epsilon):
        return gaussian_delta(epsilon, compose_gdp([distance(relation) / SIGMA(count)] * count))

    def _gaussian_guarantee(self, count, relation, epsilon):
        mu = compose_gdp([distance(relation) / SIGMA(count)] * count)
        return stated(mu=mu).delta_at(epsilon)

    def _zcdp(self, count, relation, epsilon):
        rho = 0.5 * (distance(relation) / SIGMA(count)) ** 2
        return zcdp_delta(epsilon, compose_zcdp([rho] * count))

    def _renyi(self, count, relation, epsilon):
        one = 0.5 * (distance(relation) / SIGMA(count)) ** 2 * ORDERS
        return rdp_delta(ORDERS, count * one, epsilon)

    def _laplace(self, count, relation, epsilon):
        return pure_delta(epsilon, count * distance(relation) / SIGMA(count))

    def _laplace_zcdp(self, count, relation, epsilon):
        rho = 0.5 * (distance(relation) / SIGMA(count)) ** 2
        return zcdp_delta(epsilon, compose_zcdp([rho] * count))

    def _pure(self, count, relation, epsilon):
        return stated(pure=count * distance(relation) / SIGMA(count)).delta_at(epsilon)

    def _responses(self, count, relation, epsilon):
        each = distance(relation) / SIGMA(count)
        return Responses(each=each, reports=count).delta(epsilon)

    def _responses_profile(self, count, relation, epsilon):
        each = distance(relation) / SIGMA(count)
        return stated(profile=Responses(each, count).to_dict()).delta_at(epsilon)

    def _bounded_range(self, count, relation, epsilon):
        loss = BoundedRange(distance(relation) / SIGMA(count), count)
        return stated(profile=loss.to_dict()).delta_at(epsilon)

    def _bits(self, count, relation, epsilon):
        shift = 0.1 * distance(relation)
        loss = CoupledBits(
            draws=distance(relation), forced_switch=0.2, factor_floor=0.7, later_bits=count,
            shift=shift,
        )  # fmt: skip
        return loss.delta(epsilon)


def SIGMA(count):  # noise such that all counts have curves of interest
    return 1.3 * math.sqrt(count)


# ---- the truth: sensitivities of vectors of norm 1/2 by hand, laws by brute force ----------------

APART = {"replace": 1.0, "zero_out": 0.5}


class Exact:
    """A curve known in closed form or by enumeration."""

    def __init__(self, curve):
        self.low = self.high = lru_cache(maxsize=None)(curve)

    epsilon_of = brute.Bracket.epsilon_of


class Largest:
    """The largest of several brackets: worst case over directions or instances."""

    def __init__(self, *brackets):
        self.brackets = brackets

    def low(self, epsilon):
        return max(b.low(epsilon) for b in self.brackets)

    def high(self, epsilon):
        return max(b.high(epsilon) for b in self.brackets)

    epsilon_of = brute.Bracket.epsilon_of


def true_gaussian(count, relation):
    return brute.gaussian(APART[relation] / SIGMA(count), count)


def true_laplace(count, relation):
    return brute.laplace(APART[relation] / SIGMA(count), count)


@lru_cache(maxsize=64)
def true_responses(count, relation):
    each = APART[relation] / SIGMA(count)
    return Exact(lambda e: brute.randomised_responses(each, count, e))


@lru_cache(maxsize=64)
def true_selections(count, relation):
    """Softmax: two outcomes, losses t and t - r; the worst t of a grid."""
    r = APART[relation] / SIGMA(count)
    curves = [brute.two_outcomes(share * r, r, count) for share in np.linspace(0.02, 0.98, 49)]
    return Exact(lambda epsilon: max(curve(epsilon) for curve in curves))


@lru_cache(maxsize=32)
def true_bits(count, relation):
    """Coin of the changed block, `count` later three-outcome bits and one draw, one sum a time."""
    apart = APART[relation]
    p, w, shift = 0.2, 0.7, 0.1 * apart
    moved = (1 - p) * (1 - math.exp(-shift))
    if 2 * p + moved > 1:
        rare, step = (1 - p) * math.exp(-shift), shift
    else:
        rare, step = p, math.log1p(moved / p)
    later = {0: 1.0}
    for _ in range(count):
        following = {}
        for at, mass in later.items():
            for move, weight in ((1, rare * math.exp(step)), (-1, rare)):
                following[at + move] = following.get(at + move, 0.0) + mass * weight
            rest = 1 - rare * (1 + math.exp(step))
            following[at] = following.get(at, 0.0) + mass * rest
        later = following
    stay = (1 - p) * w
    ways = (
        ((p, 1 - p), (p / (1 - stay), (1 - p) / stay)),
        ((1 - stay, stay), ((1 - stay) / p, stay / (1 - p))),
    )

    def curve(epsilon):
        best = 0.0
        for weights, ratios in ways:
            total = 0.0
            for weight, ratio in zip(weights, ratios, strict=True):
                for at, mass in later.items():
                    e = epsilon - math.log(ratio) - at * step
                    total += weight * mass * normal_curve(e, apart)
            best = max(best, total)
        return best

    return Exact(curve)


def normal_curve(epsilon, mu):
    """delta(epsilon) of N(mu, 1) against N(0, 1), for any real epsilon."""
    from scipy.special import log_ndtr, ndtr

    a, b = 0.5 * mu - epsilon / mu, -0.5 * mu - epsilon / mu
    return float(ndtr(a) - math.exp(epsilon + log_ndtr(b)))


@lru_cache(maxsize=256)
def level_of(truth, level):
    return truth.epsilon_of(level)


TRUTHS: dict[str, Any] = {
    "gaussian": true_gaussian,
    "gaussian_guarantee": true_gaussian,
    "zcdp": true_gaussian,
    "renyi": true_gaussian,
    "laplace": true_laplace,
    "laplace_zcdp": true_laplace,
    "pure": true_responses,
    "responses": true_responses,
    "responses_profile": true_responses,
    "bounded_range": true_selections,
    "bits": true_bits,
}
# Slack: ours at (1 + slack) epsilon is at most the truth at epsilon. Renyi divergences and sums of
# pure epsilons are bounds, not accounts; the rest is the brute force's own.
CASES = [
    Case("gaussian", 0.01), Case("gaussian_guarantee", 0.01), Case("zcdp", 0.3, tight=False),
    Case("renyi", 0.3, tight=False), Case("laplace", 5.2, tight=False),
    Case("laplace_zcdp", 4.5, tight=False), Case("pure", 5.2, tight=False),
    Case("responses", 1e-9), Case("responses_profile", 1e-9),
    Case("bounded_range", 0.4, tight=False), Case("bits", 1e-7),
]  # fmt: skip
by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("count", COUNTS)
@by_name
def test_ours_is_at_least_the_truth_and_not_much_more(case, count, relation):
    truth = case.truth(count, relation)
    for level in LEVELS:
        epsilon = level_of(truth, level)
        low, high = truth.low(epsilon), truth.high(epsilon)
        ours = case.ours(count, relation, epsilon)
        assert truth.high(1.02 * epsilon) <= low  # the bracket itself says something
        assert low * (1 - 1e-9) <= ours
        assert case.ours(count, relation, (1 + case.slack) * epsilon) <= high
        if case.tight and relation == "replace":  # planted: the sensitivity is not doubled
            assert case.ours(count, "zero_out", epsilon) < low
        elif case.tight:  # planted: it is doubled though it need not be
            assert case.ours(count, "replace", (1 + case.slack) * epsilon) > high


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("count", COUNTS[1:])
@by_name
def test_a_dropped_count_is_seen(case, count, relation, monkeypatch):
    """The same noise, accounted as if there were one release fewer, or one in all."""
    truth, scale = case.truth(count, relation), SIGMA(count)
    monkeypatch.setitem(globals(), "SIGMA", lambda _: scale)
    epsilon = level_of(truth, 1e-5)
    if case.tight or count >= 17:
        assert case.ours(1, relation, epsilon) < truth.low(epsilon)
    if case.tight and count <= 3:
        assert case.ours(count - 1, relation, epsilon) < truth.low(epsilon)


def test_one_orientation_of_a_bit_is_not_enough():
    p, w = 0.2, 0.7
    loss = CoupledBits(draws=0.0, forced_switch=p, factor_floor=w)
    both = [-math.log(w), math.log((1 - (1 - p) * w) / p)]
    assert loss.delta(max(both) * (1 + 1e-9)) == 0.0
    assert loss.delta(max(both) * (1 - 1e-3)) > 0.0
    assert min(both) < 0.5 * max(both)
