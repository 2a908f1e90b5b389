"""Norms of the continual sums against explicit matrices and exhaustive search."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpoco.accounting import continual_sum
from dpoco.accounting.continual_sum import (
    SHIPPED,
    choose_method,
    column_norm,
    max_error,
    noise_sigma,
    root_mean_square_row,
    row_norm,
    worst_round,
    worst_row_norm,
)
from dpoco.privacy.mechanisms.bounds import ClippedVector
from dpoco.privacy.mechanisms.factorisations import Tree
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum

SIZES = [1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 255, 256, 257]
LARGE = [1025]  # beyond the first table of the buffered sums


def toeplitz_matrix(coefficients):
    n = len(coefficients)
    rows, columns = np.indices((n, n))
    return np.where(rows >= columns, np.asarray(coefficients)[(rows - columns) % n], 0.0)


def factorisation(method, n):
    """Return explicit (B, C, last) with last[m] the round at which row m of C is emitted."""
    if method == "blt":
        p = continual_sum.blt_parameters(n)
        return toeplitz_matrix(p.decoder(n)), toeplitz_matrix(p.encoder(n)), range(1, n + 1)
    if method == "blt_normalised":
        own = continual_sum.factorisation(method, n)
        levels = np.repeat(own.levels, np.diff(own.ends, prepend=0))
        b, c, last = factorisation("blt", n)
        return np.tril(np.ones((n, n))) * levels @ np.linalg.inv(c), c / levels, last
    if method == "toeplitz":
        f = [math.comb(2 * k, k) / 4**k for k in range(n)]
        return toeplitz_matrix(f), toeplitz_matrix(f), range(1, n + 1)
    if method == "banded":
        own = continual_sum.factorisation(method, n)
        c = toeplitz_matrix([*own.coefficients, *[0.0] * (n - own.band)])
        levels = np.array(own.levels)
        return np.tril(np.ones((n, n))) * levels @ np.linalg.inv(c), c / levels, range(1, n + 1)
    nodes, index = [], {}
    for t in range(1, n + 1):
        zeros = (t & -t).bit_length() - 1
        index[zeros, t] = len(nodes)
        nodes.append((zeros, t))
    c = np.zeros((len(nodes), n))
    for m, (level, t) in enumerate(nodes):
        c[m, t - 2**level : t] = 1.0

    b = np.zeros((n, len(nodes)))
    for t in range(1, n + 1):
        end = 0
        for level in reversed(range(t.bit_length())):
            if t >> level & 1:
                end += 2**level
                b[t - 1, index[level, end]] = 1.0
    return b, c, [t for _, t in nodes]


@pytest.mark.parametrize("method", continual_sum.METHODS)
def test_norms_of_explicit_matrices(method):
    for n in [*SIZES, *LARGE]:
        b, c, last = factorisation(method, n)
        np.testing.assert_allclose(b @ c, np.tri(n), atol=1e-8)
        columns = np.linalg.norm(c, axis=0)
        assert column_norm(method, n) == pytest.approx(columns.max(), rel=1e-12)
        rows = np.linalg.norm(b, axis=1)
        np.testing.assert_allclose(row_norm(method, np.arange(1, n + 1), n), rows, rtol=1e-9)
        assert worst_row_norm(method, n) == pytest.approx(rows.max(), rel=1e-9)
        assert rows[worst_round(method, n) - 1] == pytest.approx(rows.max(), rel=1e-12)
        assert root_mean_square_row(method, n) == pytest.approx(
            math.sqrt((rows**2).mean()), rel=1e-9
        )
        assert c.shape[0] <= continual_sum.factorisation(method, n).draws(n)
        # Row m involves only rounds completed when it is drawn: needed for adaptive streams.
        support = np.array([np.flatnonzero(row)[-1] + 1 for row in c])
        assert np.all(support <= np.asarray(last))
        assert list(last) == sorted(last)


@pytest.mark.parametrize(
    ("n", "square"), [(1, 1), (2, 2), (5, 3), (1000, 10), (1023, 10), (1024, 11), (10**6, 20)]
)
def test_tree_column_oracles(n, square):
    assert column_norm("tree", n) ** 2 == pytest.approx(square, rel=1e-14)


@pytest.mark.parametrize(
    ("n", "column", "row"),
    [(2, 1.249613, 1.250387), (10**3, 3.264905, 3.265160), (10**4, 3.996914, 4.000519),
     (10**5, 4.723234, 4.749628), (10**6, 5.434543, 5.538915), (10**7, 6.120666, 6.404253),
     (10**8, 6.771417, 7.387256), (10**9, 7.374509, 8.539965)],
)  # fmt: skip
def test_blt_oracles(n, column, row):
    assert column_norm("blt", n) ** 2 == pytest.approx(column, abs=6e-7)
    assert row_norm("blt", n, n) ** 2 == pytest.approx(row, abs=6e-7)


@pytest.mark.parametrize(
    ("n", "tree", "buffered"),
    [(10**3, (9.49, 7.03), 3.2650), (10**4, (13.49, 9.51), 3.9987),
     (10**5, (16.49, 11.77), 4.7364),
     (10**6, (19.49, 14.06), 5.4865),
     (10**7, (23.50, 16.57), 6.2609)],
)  # fmt: skip
def test_worst_and_root_mean_square_errors(n, tree, buffered):
    worst, mean = tree
    assert max_error("tree", n) == pytest.approx(worst, abs=0.0055)
    mean_error = column_norm("tree", n) * root_mean_square_row("tree", n)
    assert mean_error == pytest.approx(mean, abs=0.0055)
    assert max_error("blt", n) == pytest.approx(buffered, abs=5.5e-5)


def test_worst_rounds_of_the_trees_exhaustively():
    squares = np.asarray(row_norm("tree", np.arange(1, 1101), 1100)) ** 2
    for n in range(1, 1101):
        assert worst_row_norm("tree", n) ** 2 == pytest.approx(squares[:n].max(), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(n=st.integers(1, 10**12), seed=st.integers(0, 2**32))
def test_no_round_beats_the_worst_one(n, seed):
    rounds = np.random.default_rng(seed).integers(1, n, size=64, endpoint=True)
    assert worst_round("tree", n) <= n
    assert np.all(row_norm("tree", rounds, n) <= worst_row_norm("tree", n) * (1 + 1e-12))
    assert worst_row_norm("tree", n) ** 2 == pytest.approx((n + 1).bit_length() - 1, rel=1e-12)


@pytest.mark.parametrize("key", SHIPPED)
def test_blt_coefficients_are_inverse_and_closed_forms_sum_them(key):
    p = continual_sum.blt_parameters(key)
    assert p.horizon == key
    n = 1000
    product = np.convolve(p.encoder(n), p.decoder(n))[:n]
    np.testing.assert_allclose(product, 1.0, atol=1e-8)
    m = min(key, 10**5)
    columns, rows = p.encoder(m) ** 2, p.decoder(m) ** 2
    column = SHIPPED[key].column
    assert column(m) ** 2 == pytest.approx(math.fsum(columns), rel=1e-11)
    assert p.row_norm(m) ** 2 == pytest.approx(math.fsum(rows), rel=1e-9)
    mean = math.fsum(rows * (m - np.arange(m))) / m
    assert p.mean_square_row(m) == pytest.approx(mean, rel=1e-9)
    assert column(1) == 1.0
    assert p.row_norm(1) == pytest.approx(1.0, rel=1e-12)
    assert np.all(np.diff(p.row_norm(np.arange(1, 5000))) >= 0)
    assert not any(a.flags.writeable for a in (p.decay, p.weights, p.g, p.gamma))


def test_blt_closed_forms_to_fifty_digits():
    mpmath = pytest.importorskip("mpmath")
    p = continual_sum.blt_parameters(10**9)
    with mpmath.workdps(50):
        s, w = [mpmath.mpf(float(x)) for x in p.decay], [mpmath.mpf(float(x)) for x in p.weights]
        for n in (10**9, 10**12):
            total = mpmath.mpf(1)
            for (a, u), (b, v) in itertools.product(zip(s, w, strict=True), repeat=2):
                x = a + b - a * b
                total += u * v * (1 - (1 - x) ** (n - 1)) / x
            assert abs(SHIPPED[10**9].column(n) / mpmath.sqrt(total) - 1) < 1e-13

        def secular(y):
            return 1 + sum(u / (a - y) for a, u in zip(s, w, strict=True))

        # The decoder's rates are the roots of the secular equation.
        for g in p.g:
            below, above = mpmath.mpf(float(g)) * (1 - 1e-14), mpmath.mpf(float(g)) * (1 + 1e-14)
            assert secular(below) < 0 < secular(above)


def test_blt_beyond_its_table_is_charged_at_the_actual_horizon():
    factor = SHIPPED[10**9]
    assert factor.column(10**12) > factor.column(10**9)
    assert continual_sum.blt_parameters(10**9 + 1).horizon == 10**10
    assert column_norm("blt", None) == column_norm("blt", 10**9)
    assert continual_sum.blt_parameters(1001).horizon == 10**4
    assert (
        continual_sum.blt_parameters(1000).horizon
        == continual_sum.blt_parameters(1).horizon
        == 10**3
    )


@pytest.mark.parametrize(
    ("t", "factor"), [(10**3, 1.56), (10**4, 1.45), (10**5, 1.30), (10**6, 1.24), (10**7, 1.14)]
)
def test_price_of_an_unknown_horizon(t, factor):
    """Against the square-root Toeplitz sum planned for t, whose squared norm is known."""
    optimum = math.log(t) / math.pi + 1.06628
    price = column_norm("blt", None) * row_norm("blt", t, None) / optimum
    assert price == pytest.approx(factor, abs=0.006)


def test_the_choice_is_the_best_at_its_cost():
    for n in (1, 2, 3, 5, 10, 100, 4096, 10**6, 10**9, 10**12):
        limits = {"toeplitz": 4096, "banded": 0}  # bands are for people who come back
        allowed = [m for m in continual_sum.METHODS if n <= limits.get(m, n)]
        assert max_error(choose_method(n), n) == min(max_error(m, n) for m in allowed)
    assert choose_method(1000) == "blt_normalised"
    assert choose_method(None) == "blt"


def test_scales_and_draws():
    assert noise_sigma("tree", 1000, 2.0, 0.5) == pytest.approx(2.0 * math.sqrt(10) / 0.5)
    for method, count in (("blt", 10), ("tree", 10), ("toeplitz", 10)):
        assert continual_sum.factorisation(method, 10).draws(10) == count
    vector = ClippedVector(3, 4.0, 1.0, math.inf)
    assert GaussianSum(vector, Tree(), 10, scale=1.0).mass == 30 * 2.0**-64
    assert GaussianSum(vector, Tree(), 10, scale=1.0, order=3.0).mass == 10 * 8 * 4 * 2.0**-64
