"""Rounds of one person in correlated sums: against all patterns, digits known, and a game."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy
from tests.people.oracle import patterns

from dpoco.accounting.continual_sum import SHIPPED
from dpoco.privacy.mechanisms.base import Parts
from dpoco.privacy.mechanisms.batch_release import BatchRelease
from dpoco.privacy.mechanisms.bounds import CentredLosses, ClippedVector, SecondMoments
from dpoco.privacy.mechanisms.factorisations import Buffered, Normalised, SquareRoot, Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum, batch_starts
from dpoco.privacy.mechanisms.participation import most_rounds, normalised_column, tree_column
from dpoco.privacy.neighbours import Neighbours

METHODS = {
    "blt": SHIPPED[10**3],
    "blt, two": Buffered((0.3, 0.05), (0.2, 0.1)),
    "blt, one": Buffered((0.9,), (1.0,)),
    "square root": SquareRoot(),
    "tree": Tree(),
}
EXACT = ("blt", "blt, two", "blt, one", "square root")


def person(rounds, separation, **more):
    return Neighbours(rounds=rounds, separation=separation, **more)


def matrix(method, n):
    """|C| as a table: rows are draws."""
    if isinstance(method, Tree):
        nodes = [(h, i) for h in range(n.bit_length()) for i in range(n >> h)]
        table = np.zeros((len(nodes), n))
        for row, (h, i) in zip(table, nodes, strict=True):
            row[i << h : (i + 1) << h] = 1.0
        return table
    if isinstance(method, SquareRoot):
        c = np.concatenate([[1.0], np.cumprod([(2 * k - 1) / (2 * k) for k in range(1, n)])])
    else:
        c = [1.0] + [
            sum(w * (1 - s) ** i for s, w in zip(method.decay, method.weights, strict=True))
            for i in range(n - 1)
        ]
    table = np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    if isinstance(method, Normalised):
        return table / np.repeat(method.levels, np.diff(method.ends, prepend=0))
    return table


def brute(method, pushes, batch, rounds, separation):
    every = patterns(pushes * batch, rounds, separation)
    weights = [np.bincount([i // batch for i in places], minlength=pushes) for places in every]
    return float(np.linalg.norm(np.array(weights) @ matrix(method, pushes).T, axis=1).max())


CASES = [(n, k, b) for n in (1, 2, 3, 7, 12) for k in (1, 2, 3, 20) for b in (1, 2, 3, 5, 20)]


@pytest.mark.parametrize("name", METHODS)
def test_no_pattern_has_more(name):
    method = METHODS[name]
    for n, k, b in CASES:
        found, truth = method.column(n, person(k, b)), brute(method, n, 1, k, b)
        assert truth * (1 - 1e-14) <= found, (n, k, b)
        assert found <= truth * (1 + (1e-11 if name in EXACT else 0.1)), (n, k, b)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("batch", [2, 3, 5])
def test_no_pattern_has_more_in_batches(name, batch):
    method = METHODS[name]
    for pushes, k, b in itertools.product((1, 2, 3, 4), (1, 2, 3, 9), (1, 2, 3, 4, 6, 11)):
        if pushes * batch > 15:
            continue
        found = method.column(pushes, person(k, b), batch)
        truth = brute(method, pushes, batch, k, b)
        assert truth * (1 - 1e-14) <= found, (pushes, k, b)
        if name in EXACT and b % batch == 0:
            assert found <= truth * (1 + 1e-11), (pushes, k, b)
        assert found <= truth * 1.25, (pushes, k, b)


@pytest.mark.parametrize(
    ("growth", "first", "pushes", "most"),
    [("quarter", 1, 12, 4), ("root", 2, 17, 2), ("three_tenths", 3, 5, 3)],
)
def test_no_pattern_has_more_in_growing_batches(growth, first, pushes, most):
    """And that batches far apart were rounds far apart would not do."""
    starts = list(itertools.islice(batch_starts(first, growth), pushes + 1))
    vector = ClippedVector(3, 2.0, 1.0, 2.0)
    total = GaussianSum(vector, SquareRoot(), pushes, first, growth=growth)
    table, refuted = matrix(SquareRoot(), pushes), False
    for k, b in itertools.product(range(1, most + 1), (1, 2, 3, 4, 7, 9)):
        truth = max(
            np.linalg.norm(table @ np.histogram(places, starts)[0])
            for places in patterns(starts[-1], k, b)
        )
        found = total.column(person(k, b))
        assert truth <= found * (1.0 + 1e-12)
        assert found <= k * SquareRoot().column(pushes) * (1.0 + 1e-12)
        refuted = refuted or SquareRoot().column(pushes, person(k, b)) < truth * (1.0 - 1e-9)
    assert refuted


def test_batches_of_phases_grow_by_three_tenths():
    starts = list(itertools.islice(batch_starts(10, "three_tenths"), 12))
    # 13, 16.9, 21.97, 28.561, ...: an engine plays whole rounds, and the lengths keep the rest.
    assert np.diff(starts).tolist() == [int(10.0 * 1.3**k) for k in range(11)]


def longhand(factor, n, k, b):
    """The norm for rounds 1, 1 + b, ..., added up in vectors."""
    i = np.arange(n - 1)
    c = np.ones(n)
    c[1:] = sum(w * (1 - s) ** i for s, w in zip(factor.decay, factor.weights, strict=True))
    total = np.zeros(n)
    for place in range(0, min(k * b, n), b):
        total[place:] += c[: n - place]
    return float(np.linalg.norm(total))


@pytest.mark.parametrize(("n", "k", "b"), [(1000, 10, 100), (5000, 77, 13), (4097, 4097, 1)])
def test_doubling_is_the_long_sum(n, k, b):
    factor = SHIPPED[10**4]
    assert factor.column(n, person(k, b)) == pytest.approx(longhand(factor, n, k, b), rel=3e-12)


@pytest.mark.parametrize(
    ("n", "k", "b", "batch", "value"),
    [
        (1000, 10, 100, 1, 9.15357561221),
        (100_000, 10, 1000, 1, 13.6485521077),
        (10**9, 100, 10_000, 1, 172.802820070654),
        (10**9, 10**6, 1000, 1, 795190.972440),
        (100, 6, 25, 10, 7.55570708048),
    ],
)
def test_known_digits(n, k, b, batch, value):
    shipped = min(size for size in SHIPPED if size >= min(n, 10**9))
    assert SHIPPED[shipped].column(n, person(k, b), batch) == pytest.approx(value, rel=1e-9)


def test_known_digits_of_other_methods():
    assert SquareRoot().column(1000, person(10, 100)) == pytest.approx(9.15404300023, rel=1e-9)
    assert SquareRoot().column(4096, person(7, 13)) == pytest.approx(10.5093809094, rel=1e-9)
    assert tree_column(100_000, 1, 10, 1000) == math.sqrt(580)


@pytest.mark.parametrize("name", METHODS)
def test_more_rounds_or_less_distance_cost_more(name):
    method = METHODS[name]
    for n, batch in ((50, 1), (20, 7)):
        rising = [method.column(n, person(k, 3), batch) for k in range(1, 20)]
        assert rising == sorted(rising)
        falling = [method.column(n, person(5, b), batch) for b in (1, 7, 14, 35, 70, 140, 700)]
        assert falling == sorted(falling, reverse=True)
        assert falling[-1] == method.column(n)  # she can come once only


def test_huge_counts_are_quick_and_below_the_group():
    factor = SHIPPED[10**9]
    single = factor.column(10**12)
    for k, b, batch in ((10**12, 1, 1), (10**6, 10**5, 1), (10**9, 10, 7), (10**7, 3, 10**4)):
        found = factor.column(10**12 // batch, person(k, b), batch)
        assert single < found <= k * single


def drawn(rng, buffers, pushes=None):
    """Valid parameters of any shape, of a sum with levels if `pushes` are given."""
    while True:
        decay = np.sort(rng.uniform(0.0, 1.0, size=buffers) ** rng.choice([1, 3, 9]))
        weights = rng.dirichlet(np.ones(buffers)) * rng.uniform(0.05, 1.0)
        if pushes is None or weights.sum() ** 2 < 0.999 * (weights @ (1.0 - decay)):
            rates = tuple(decay.tolist()), tuple(weights.tolist())
            return Buffered(*rates) if pushes is None else Normalised(*rates, pushes)


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_no_pattern_has_more_for_any_parameters(seed, levels):
    """The column of other parameters is not enough, so that the test can tell."""
    rng = np.random.default_rng(seed)
    n, k, b = int(rng.integers(8, 17)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    own, other = (drawn(rng, size, n if levels else None) for size in (rng.integers(1, 6), 2))
    found, truth = own.column(n, person(k, b)), brute(own, n, 1, k, b)
    assert truth * (1 - 1e-13) <= found <= truth * (1 + 1e-8)
    less, more = sorted((own, other), key=lambda one: one.column(n, person(k, b)))
    assert less.column(n, person(k, b)) < brute(more, n, 1, k, b) * (1 - 1e-6)
    short = Normalised(own.decay, own.weights, 6) if levels else own
    for batch in (2, 3):
        crowded = short.column(6, person(k, b), batch)
        assert brute(short, 6, batch, k, b) * (1 - 1e-13) <= crowded


def test_other_quotients_have_other_worst_patterns():
    """Two neighbours at the end are worse than at the start: such weights are refused."""
    s, w, n = np.array([0.99]), np.array([0.8]), 5
    c = np.concatenate([[1.0], 0.8 * 0.01 ** np.arange(n - 1)])
    norms = np.sqrt(np.cumsum(c**2))
    closed = normalised_column(
        tuple(s), tuple(w), lambda m: norms[np.asarray(m, int) - 1], n, 1, 2, 1
    )
    table = np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    last = np.linalg.norm((table / norms[::-1]) @ [0, 0, 0, 1, 1])
    assert closed < 0.97 * last
    with pytest.raises(ValueError, match="blt_normalised needs"):
        Normalised((0.99,), (0.8,), n)


def test_a_sum_charges_the_norm_once():
    """mu = D S / scale, also of joint views; tails once; on a lattice the path once."""
    summand = ClippedVector(5, 2.0, 1.0, math.inf)
    total = GaussianSum(summand, SHIPPED[10**3], pushes=1000, scale=7.0)
    one, ten = total.loss(person(1, 1)), total.loss(person(10, 100))
    assert ten.ideal.mu == pytest.approx(2.0 * 9.15357561221 / 7.0, rel=1e-9)
    assert ten.mass == one.mass
    assert total.loss(person(10, 100, view="others")) == ten
    assert total.loss(person(10, 100, change="zero_out")).ideal.mu == ten.ideal.mu / 2
    fine = GaussianSum(
        CentredLosses(50), SHIPPED[10**4], pushes=10**4, scale=16.0, grid=2.0**-16, limit=2**19
    )
    path = fine.reach(person(1, 1)) - fine.factorisation.column(10**4) * (
        fine.summand.movement(person(1, 1)) + math.sqrt(50) * 2.0**-16
    )
    many = person(10, 100)
    expected = path + fine.factorisation.column(10**4, many) * (
        fine.summand.movement(many) + math.sqrt(50) * 2.0**-16
    )
    assert fine.reach(many) == pytest.approx(expected, rel=1e-9)


def test_moments_in_batches_count_arrivals():
    """Separation is in rounds, not in pushes: ten of hers can lie in one batch."""
    moments = SecondMoments(3, 2.0, 1.0, math.inf, 1.0, 1.0)
    total = GaussianSum(moments, SHIPPED[10**3], pushes=10, batch=100, scale=1.0)
    crowded = total.factorisation.column(10, person(10, 10), 100)
    assert crowded == pytest.approx(10.0 * total.factorisation.column(10), rel=0.1)
    assert total.loss(person(10, 10)).ideal.mu == pytest.approx(
        moments.movement(person(1, 1)) * crowded, rel=1e-12
    )


def test_reacting_to_releases_gains_nothing():
    """A game in which she comes as soon as the releases favour it: delta of the worst fixed
    pattern bounds all rules; a norm taken as that of independent rounds is refuted. About 1 s.
    """
    n, k, b, scale, runs = 12, 3, 2, 4.0, 400_000
    factor, rng = SHIPPED[10**3], np.random.default_rng(5)
    c, mu = matrix(factor, n), factor.column(n, person(k, b)) / scale
    level = 0.5
    bound = scipy.stats.norm.cdf(mu / 2 - level / mu) - math.exp(level) * scipy.stats.norm.cdf(
        -mu / 2 - level / mu
    )
    few = math.sqrt(k) * factor.column(n) / scale
    wrong = scipy.stats.norm.cdf(few / 2 - level / few) - math.exp(level) * scipy.stats.norm.cdf(
        -few / 2 - level / few
    )
    for rule in (lambda loss, t: loss < 1.0, lambda loss, t: t % 2 == 0, lambda loss, t: loss < 0):
        came, last = np.zeros(runs, int), np.full(runs, -b)
        shift, loss = np.zeros((runs, n)), np.zeros(runs)
        for t in range(n):
            comes = (came < k) & (t - last >= b) & rule(loss, t)
            shift[comes, t:] += c[t:, t]
            came, last = came + comes, np.where(comes, t, last)
            seen = rng.normal(size=runs) + shift[:, t] / scale
            loss = loss + shift[:, t] / scale * seen - 0.5 * (shift[:, t] / scale) ** 2
        gain = np.maximum(0.0, 1.0 - np.exp(level - loss))
        spread = 5.0 * gain.std() / math.sqrt(runs)  # false alarms below 1e-6
        assert gain.mean() - spread <= bound
    fixed = np.maximum(0.0, 1.0 - np.exp(level - (mu * rng.normal(size=runs) + mu * mu / 2)))
    assert fixed.mean() - 5.0 * fixed.std() / math.sqrt(runs) > wrong


@pytest.mark.parametrize("batch", [1, 4, 7])
def test_batches_that_are_released_once_add_squares(batch):
    for k, b in itertools.product((1, 2, 3, 5), (1, 2, 3, 4, 9)):
        release = BatchRelease(experts=6, law="gaussian", scale=3.0, batch=batch, grid=0.0)
        one, mine = release.loss(person(1, 1)), release.loss(person(k, b))
        length = batch * k + b * k
        worst = 0.0
        for places in itertools.combinations(range(min(length, 22)), k):
            if all(y - x >= b for x, y in itertools.pairwise(places)):
                worst = max(worst, float(np.sum(np.bincount([i // batch for i in places]) ** 2.0)))
        found = (mine.ideal.mu / one.ideal.mu) ** 2
        assert worst * (1 - 1e-12) <= found
        if k * b < 14:
            assert found == pytest.approx(worst, rel=1e-12)
        assert mine.mass == pytest.approx(k * one.mass, rel=1e-12)
    pure = BatchRelease(experts=6, law="knorm", scale=3.0, batch=4, grid=0.0)
    assert pure.loss(person(3, 9)).pure == pytest.approx(1.0, rel=1e-12)


def test_rounds_that_meet_all_parts_cost_all_of_them():
    arm = GaussianSum(ClippedVector(5, 2.0, 1.0, math.inf), Tree(), pushes=100, scale=7.0)
    apart = person(2, 90)
    both = Parts("together", (arm, arm)).loss(apart)
    assert both.ideal.mu == pytest.approx(math.sqrt(2.0) * arm.loss(apart).ideal.mu, rel=1e-12)


@pytest.mark.parametrize("method", [SHIPPED[10**9], SquareRoot()], ids=["blt", "square root"])
@pytest.mark.parametrize(
    ("batch", "rounds", "separation"),
    [(3, 10**6, 2**44 + 1), (7, 10**6, 10**6 + 1), (10**9, 10**18, 1), (2**61, 10**6, 2**50 + 1),
     (1000, 2**62, 7), (3, 9000, 2)],
)  # fmt: skip
def test_counts_beyond_64_bits(method, batch, rounds, separation):
    """Rounds at the starts of every so many batches are one of the patterns."""
    pushes = min(method.longest, 2**61)
    found = method.column(pushes, person(rounds, separation), batch)
    assert found >= method.column(pushes, person(rounds, -(-separation // batch))) * (1 - 1e-9)
    assert found <= most_rounds(rounds, separation, pushes * batch) * method.column(pushes)


def test_rounding_of_rates_and_counts():
    """Rates next to 1, and counts that doubles do not hold: nothing is lost."""
    steep = Buffered((1 - 1e-9,), (0.5,))
    for k, b in ((10, 1), (3, 1), (3, 10)):
        assert steep.column(10, person(k, b)) >= brute(steep, 10, 1, k, b) * (1 - 1e-12)
    slow = Buffered((1e-2,), (0.14,))
    for shift in (20, 40, 50, 59):
        found = slow.column(2**shift + 60, person(2, 2**shift))
        assert found == pytest.approx(slow.column(2**20 + 60, person(2, 2**20)), rel=1e-9)


@pytest.mark.parametrize(
    ("n", "k", "b"), [(10**8, 2**24 - 1, 1), (10**10, 10**8, 100), (10**12, 10**12, 2)]
)
def test_many_rounds_are_never_rounded_below_the_closed_form(n, k, b):
    """Also where a product of k rounded powers would be off by more than the margin."""
    factor, most = SHIPPED[n], most_rounds(k, b, n)
    with mpmath.workdps(60):
        s, w = ([mpmath.mpf(x) for x in each] for each in (factor.decay, factor.weights))
        r = [(1 - x) ** b for x in s]
        v = [x * (1 - y) ** (b - 1) for x, y in zip(w, s, strict=True)]

        def powers(x):  # x + x^2 + ... + x^(k - 1)
            return x * (1 - x ** (most - 1)) / (1 - x)

        squared = most + 2 * sum(
            x * (most - 1 - powers(y)) / (1 - y) for x, y in zip(v, r, strict=True)
        )
        for i, j in np.ndindex(len(s), len(s)):
            both = powers(r[i] * r[j]) - powers(r[i]) - powers(r[j]) + most - 1
            both /= (1 - r[i]) * (1 - r[j])
            last = (1 - r[i] ** most) * (1 - r[j] ** most) / ((1 - r[i]) * (1 - r[j]))
            y = s[i] + s[j] - s[i] * s[j]
            between, behind = (1 - (1 - y) ** m for m in (b - 1, n - 1 - (most - 1) * b))
            squared += v[i] * v[j] * both + w[i] * w[j] * (between * both + behind * last) / y
        excess = float(factor.column(n, person(k, b)) / mpmath.sqrt(squared) - 1)
    assert 0.0 < excess < 2e-12
