"""Attacks on low-order bits, reachable sets and grids: of noise alone, and of every sum.

An event that only one of two neighbouring inputs can cause refutes any epsilon, however rare it
is. Doubles offer many: products of a scale and a double are not all doubles, a logarithm of
random bits takes only some values, and 1 + z has fewer digits than z. All of them break noise
that is added in doubles. What is released with numerics="lattice" is an integer of the right law
times a public grid, and shows them nothing.

Sources: Mironov (2012), "On significance of the least significant bits for differential privacy";
Haney, Desfontaines, Hartman, Shrestha and Hay (2022), "Precision-based attacks and interval
refining".
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from tests.probes import probes

import dpoco
from dpoco import _core
from dpoco.accounting.continual_sum import release_grid
from dpoco.audit._sum_noise import sum_alone
from dpoco.bandits import LinUCB
from dpoco.domains import LpBall
from dpoco.experts import PrefixHedge
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.mechanisms import ContinualSum
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

N = 200_000
SCALE = 1.37  # of noise for inputs 0 and 1
EPSILON = 1.0 / SCALE
GRID = 2.0**-28
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def reachable(y, scale):
    """Whether each value is `scale` times some double."""
    near = [y / scale, np.nextafter(y / scale, np.inf), np.nextafter(y / scale, -np.inf)]
    return np.any([z * scale == y for z in near], axis=0)


def epsilon_shown(often, seldom, n=N):
    """Lower confidence bound on epsilon from counts of one event; false with 1e-6."""
    low = scipy.stats.beta.ppf(5e-7, often, n - often + 1) if often else 0.0
    high = scipy.stats.beta.ppf(1.0 - 5e-7, seldom + 1, n - seldom) if seldom < n else 1.0
    return math.log(low / high) if low > 0.0 else -math.inf


def strongest(event, release):
    """The larger bound of the two directions, for an event of one released number."""
    counts = [int(np.sum(event(release(x, Source.seeded(7 + x))))) for x in (0, 1)]
    return max(epsilon_shown(*counts), epsilon_shown(*counts[::-1]))


def textbook_laplace(x, source):
    """Inverse transform of 53 random bits, as in every first implementation."""
    u = (np.floor(source.uniform(N) * 2.0**53) + 1.0) * 2.0**-53
    sign = np.where(source.uniform(N) < 0.5, -1.0, 1.0)
    return x + sign * (SCALE * np.log(u))


def naive_laplace(x, source):
    return x + dpoco.noise.laplace(source, N, scale=SCALE)


def naive_gaussian(x, source):
    return x + dpoco.noise.gaussian(source, N, scale=SCALE)


def integer_laplace(x, source):
    noise = dpoco.noise.discrete_laplace(source, N, scale=SCALE / GRID)
    return (noise + round(x / GRID)) * GRID


def integer_gaussian(x, source):
    noise = dpoco.noise.discrete_gaussian(source, N, scale=SCALE / GRID)
    return (noise + round(x / GRID)) * GRID


def rounded_gaussian(x, source):
    out = np.empty(N)
    claim = source._claim()
    probes.fill_rounded_gaussian(_core.Source(claim["key"], claim["stream"]), SCALE / GRID, out)
    return (out + round(x / GRID)) * GRID


def not_a_scaled_double(y):
    return ~reachable(y, SCALE)


def not_a_scaled_logarithm(y):
    """Whether no 53 random bits lead from input 0 to y."""
    k = np.rint(np.exp(-np.abs(y) / SCALE) * 2.0**53)
    values = [np.abs(SCALE * np.log(np.clip(k + j, 1, 2.0**53) * 2.0**-53)) for j in range(-8, 9)]
    return ~np.any([v == np.abs(y) for v in values], axis=0)


def finer_than_sums_with_one(y):
    """Whether a small y has digits that no double around 1 has."""
    return (np.abs(y) < 0.25) & (np.rint(y * 2.0**53) != y * 2.0**53)


ATTACKS = [not_a_scaled_double, not_a_scaled_logarithm, finer_than_sums_with_one]
# What each attack was made for.
BROKEN = [
    (not_a_scaled_double, naive_gaussian),
    (not_a_scaled_double, naive_laplace),
    (not_a_scaled_double, textbook_laplace),
    (not_a_scaled_logarithm, textbook_laplace),
    (finer_than_sums_with_one, naive_gaussian),
    (finer_than_sums_with_one, naive_laplace),
]


@pytest.mark.parametrize(("attack", "release"), BROKEN)
def test_noise_added_in_doubles_has_no_epsilon(attack, release):
    # An event of a few percent against none at all: only the number of trials limits the bound.
    assert strongest(attack, release) > EPSILON + 4.0


@pytest.mark.parametrize("release", [integer_laplace, integer_gaussian, rounded_gaussian])
@pytest.mark.parametrize("attack", ATTACKS)
def test_integers_show_these_attacks_nothing(attack, release):
    # A Gaussian's epsilon is the one at a delta; these events are no tails.
    assert strongest(attack, release) < EPSILON


@pytest.mark.parametrize("release", [integer_laplace, integer_gaussian, rounded_gaussian])
def test_every_residue_is_as_likely_for_both_inputs(release):
    for x in (0, 1):
        units = release(x, Source.seeded(20 + x)) / GRID
        assert np.array_equal(units, np.rint(units))
    for modulus in (2, 3, 64):
        for residue in range(min(modulus, 4)):
            found = strongest(lambda y, m=modulus, r=residue: (y / GRID) % m == r, release)
            assert found < 0.0


# Sums: one release of very many coordinates. Between inputs 0 and c (1, ..., 1) each coordinate
# is an independent trial, and with noise for the whole vector all of them together may move the
# standardised difference of two counts by no more than 0.71 mu.

D = 60_000


def features(y, scale, step):
    """Yes-no questions about the digits of doubles: pairs of a name and an array."""
    yield "is a scaled double", reachable(y, scale)
    yield "lies on the public grid", np.rint(y / step) == y / step
    units = np.rint(y / step).astype(np.int64)
    for bit in range(6):
        yield f"digit {bit} of the grid", (units >> bit) & 1
    words = np.ascontiguousarray(y).view(np.uint64)
    for bit in range(52):
        yield f"digit {bit} of the significand", (words >> np.uint64(bit)) & np.uint64(1)
    yield "sign", y < 0.0


def clues(pair, scale, step):
    """The largest standardised difference of all counts, and the question it belongs to."""
    best = (0.0, "")
    for (name, own), (_, other) in zip(*(features(y, scale, step) for y in pair), strict=True):
        counts = float(np.sum(own)), float(np.sum(other))
        total = sum(counts)
        spread = math.sqrt(max(total * (1.0 - total / (2 * own.size)), 1.0))
        best = max(best, (abs(counts[0] - counts[1]) / spread, name))
    return best


BUDGET = dpoco.Budget(1.0, 1e-6)
COMMON = {"horizon": 6, "budget": BUDGET}


def a_sum(method):
    return lambda source, numerics: ContinualSum(
        D, method=method, numerics=numerics, source=source, **{"bound": 1.0, **COMMON}
    )


def frank_wolfe(source, numerics):
    return TreeFrankWolfe(
        LpBall(D, 2.0), SquaredLoss(1.0, 1.0), numerics=numerics, source=source, **COMMON
    )  # fmt: skip


def leader(source, numerics):
    return NoisyFTRL(
        LpBall(D, 2.0), LinearLoss(1.0), numerics=numerics, source=source, **COMMON
    )  # fmt: skip


def hedge(source, numerics):
    return PrefixHedge(D, numerics=numerics, source=source, **COMMON)


def bandit(source, numerics):
    return LinUCB(
        2,
        240,
        numerics=numerics,
        source=source,
        **{"context_bound": 1.0, "reward_bound": 1.0, **COMMON},
    )


MECHANISMS = {
    **{f"ContinualSum, {m}": a_sum(m) for m in ("blt", "blt_normalised", "tree", "toeplitz")},
    "TreeFrankWolfe": frank_wolfe,
    "NoisyFTRL": leader,
    "PrefixHedge": hedge,
    "LinUCB": bandit,
}


def sum_inside(make, seed, numerics):
    """A mechanism's sum alone, its description, and the guarantee."""
    made = make(Source.seeded(seed), numerics)
    total = made._mechanism
    assert (total.grid > 0.0) == (numerics == "lattice")
    return sum_alone(total, Source.seeded(seed)._claim()), total, made.guarantee


def released_sums(total, description, first):
    """All sums of one vector of equal entries and then nothing."""
    shape = (description.pushes, description.summand.size)
    rows, out = np.zeros(shape), np.empty(shape)
    rows[0] = first
    total.run(rows, out)
    return out


@pytest.mark.parametrize("numerics", ["lattice", "float"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_released_sums_show_nothing(name, numerics):
    make = MECHANISMS[name]
    inside = [sum_inside(make, seed, numerics) for seed in (1, 2)]
    _, total, guarantee = inside[0]
    scale, step = total.scale, release_grid(total.scale)
    assert 2**-13 < step / scale <= 2**-12
    entry = guarantee.sensitivity / math.sqrt(total.summand.size)
    pair = [released_sums(*inside[x][:2], x * entry) for x in (0, 1)]
    assert np.abs(pair[1][0]).max() > 0.0
    # 60 questions about 6 sums and 5 differences: 1e-6 in all is 6.5 deviations each.
    most = 6.5 + 0.71 * guarantee.mu
    for t in range(len(pair[0])):
        assert all(np.array_equal(y[t] / step, np.rint(y[t] / step)) for y in pair)
        assert clues([y[t] for y in pair], scale, step)[0] < most
        if t > 0:
            assert clues([y[t] - y[t - 1] for y in pair], scale, step)[0] < most


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_same_noise_added_in_doubles_shows_everything(name):
    _, total, guarantee = sum_inside(MECHANISMS[name], 1, "float")
    d, scale = total.summand.size, total.scale
    entry = guarantee.sensitivity / math.sqrt(d)
    pair = [x * entry + dpoco.noise.gaussian(Source.seeded(50 + x), d, scale=scale) for x in (0, 1)]
    found, question = clues(pair, scale, release_grid(scale))
    assert found > 30.0
    assert question == "is a scaled double"


def decisions(name, secret, numerics):
    """What a learner publishes after one record: many numbers computed from a released sum."""
    source = Source.seeded(90 + secret)
    learner = MECHANISMS[name](source, numerics)
    if name == "LinUCB":
        learner.decide(np.full(240, 240.0**-0.5))
        learner.observe(float(secret))
        return learner.coefficients.ravel()
    learner.decide()
    if name == "PrefixHedge":
        losses = np.full(D, 0.5)
        losses[: D // 2] = secret
        learner.observe(losses)
        return learner.weights
    vector = np.full(D, secret / math.sqrt(D))
    learner.observe(vector, *([1.0] if name == "TreeFrankWolfe" else []))
    return learner.decide()


@pytest.mark.parametrize("numerics", ["lattice", "float"])
@pytest.mark.parametrize("name", ["TreeFrankWolfe", "NoisyFTRL", "PrefixHedge", "LinUCB"])
def test_decisions_show_nothing(name, numerics):
    # The digits that no common factor of all coordinates, such as a norm, can move. Noise on a grid
    # has equal values, which would count several times.
    words = [np.unique(np.array(decisions(name, x, numerics)).view(np.uint64)) for x in (0, 1)]
    assert not np.array_equal(*words)
    deviation = math.sqrt(sum(0.25 / w.size for w in words))
    for bit in range(40):
        shares = [float(np.mean((w >> np.uint64(bit)) & np.uint64(1))) for w in words]
        assert abs(shares[0] - shares[1]) < 6.5 * deviation


def test_pairs_of_coordinates_lie_on_no_lattice_of_angles():
    # Coordinates i and i + 64 of a fresh vector are one point of a circle. Were its angle a
    # multiple of 2 pi / 2^52, small angles would show it; the tangent is resolved much finer.
    z = dpoco.noise.gaussian(Source.seeded(3), 128 * 4000).reshape(-1, 2, 64)
    low = np.minimum(np.abs(z[:, 0]), np.abs(z[:, 1])).ravel()
    high = np.maximum(np.abs(z[:, 0]), np.abs(z[:, 1])).ravel()
    turns = np.arctan(low / high) / (2 * np.pi) * 2.0**52
    small = turns[turns < 2.0**44]  # where doubles resolve the lattice well
    assert small.size > 300
    share = np.mean(np.abs(small - np.rint(small)) < 0.1)
    assert abs(share - 0.2) < 5.5 * np.sqrt(0.16 / small.size)
