"""Queries: the device's value equals the server's bit for bit, and nothing leaves [-1, 1]."""

from __future__ import annotations

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from local_cases import FA, FB

from dpoco.local import HadamardQuery, LossQuery, ThresholdQuery
from dpoco.local import _messages as families
from dpoco.local._bounds import loss_ranges, losses
from dpoco.local._messages import read_query

HOSTILE = (math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0)


def random_class(k, m, seed, alpha=1.0):
    return np.random.default_rng(seed).dirichlet(np.full(m, alpha), size=k)


def queries_for(k, m, seed):
    yield families.threshold("bisection", seed, 3, 0, k)
    yield families.threshold("scheffe", seed, 3, 0, k)
    yield families.threshold("mean_test", seed, 3, 0, k)
    yield families.hadamard(seed, 3, 0, m)
    yield families.loss(seed, 3, 0, 0.02, loss_ranges(k, 0.02))
    matrix = random_class(k, m, seed)
    yield families.loss(seed, 3, 0, 0.02, loss_ranges(matrix, 0.02))
    yield ThresholdQuery(np.random.default_rng(seed).normal(size=k))


@pytest.mark.parametrize(("k", "m"), [(2, 2), (3, 5), (8, 16), (64, 300), (5, 1000)])
def test_device_and_server_agree_bit_for_bit(k, m):
    matrix = random_class(k, m, k + m, alpha=0.1)
    for query in queries_for(k, m, 17):
        values = query.values(matrix)
        one = [query.phi(np.ascontiguousarray(matrix[:, y]), y, m) for y in range(m)]
        assert values.tolist() == one
        pick = np.arange(m)[::-1].copy()
        at = query.values_at(np.ascontiguousarray(matrix[:, pick]), pick)
        assert at.tolist() == values[pick].tolist()
        assert np.abs(values).max() <= 1.0
        exact = np.array([math.fsum(row * values) for row in matrix])
        np.testing.assert_allclose(query.means(matrix), exact, atol=1e-13)


def test_threshold_sums_ascend_without_fused_operations():
    """Sums that cancel: the sign hangs on the last rounding, that of plain doubles."""
    rng = np.random.default_rng(4)
    for _ in range(300):
        c, column = rng.normal(size=7), rng.dirichlet(np.ones(7))
        c[-1] = -float(sum(a * b for a, b in zip(c[:-1], column[:-1], strict=True))) / column[-1]
        total = 0.0
        for a, b in zip(c.tolist(), column.tolist(), strict=True):
            total += a * b
        assert ThresholdQuery(c).phi(column, 0, 2) == (1.0 if total > 0.0 else -1.0)


def test_threshold_is_exact_where_the_sum_is():
    for c in itertools.product((-2.0, -1.0, 0.0, 1.0), repeat=3):
        values = ThresholdQuery(c).values(FA)
        for y in range(4):
            total = sum(Fraction(a) * Fraction(b) for a, b in zip(c, FA[:, y], strict=True))
            if abs(total) > Fraction(1, 10**12):
                assert values[y] == (1.0 if total > 0 else -1.0)


def test_hadamard_values():
    for row, y in itertools.product(range(1, 16), range(13)):
        expected = (-1.0) ** bin(row & y).count("1")
        query = HadamardQuery(row)
        assert query.phi(np.zeros(2), y, 13) == query.values(np.zeros((2, 13)))[y] == expected
    large = HadamardQuery(2**20 - 1)
    assert large.phi(np.zeros(1), 2**20 - 2, 2**20) == -1.0


def test_loss_values_are_the_losses():
    own = losses(FA, 0.1)
    for j in range(3):
        query = LossQuery(j, 0.0, 1.0, 0.1)
        np.testing.assert_allclose(query.values(FA), own[j], atol=1e-14)
        middle, half = loss_ranges(FA, 0.1)
        query = LossQuery(j, middle[j], half[j], 0.1)
        expected = (own[j] - middle[j]) / half[j]
        np.testing.assert_allclose(query.values(FA), expected, atol=1e-13)
        assert query.values(FA).max() == pytest.approx(1.0, abs=1e-15)
    matrix = random_class(9, 40, 1, alpha=0.1)
    u = losses(matrix, 0.003)
    for j in range(9):
        np.testing.assert_allclose(LossQuery(j, 0.0, 10.0, 0.003).values(matrix), u[j] / 10.0,
                                   atol=1e-13)  # fmt: skip


def test_impossible_labels_and_no_labels():
    gap = np.array([[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]])
    assert LossQuery(0, 0.3, 1.0, 0.1).values(gap)[2] == 0.0  # not (0 - mid) / R
    assert ThresholdQuery([1.0, -1.0]).values(gap)[2] == -1.0
    for query in queries_for(2, 3, 1):
        for label in (None, -1, 3, 10**30, 1.0, "1", math.nan):
            assert query.phi(gap[:, 0].copy(), label, 3) == 0.0
    assert ThresholdQuery([1.0, 1.0]).phi(gap[:, 0].copy(), np.int64(0), 3) == 1.0


def test_nothing_to_ask():
    single = np.ones((3, 1))
    for query in queries_for(3, 1, 2):
        assert query.values(single).tolist() == [0.0]
        assert query.phi(single[:, 0].copy(), 0, 1) == 0.0
    assert families.threshold("bisection", 1, 1, 0, 1).values(FA[:1]).tolist() == [0.0] * 4
    assert (
        families.loss(1, 1, 0, 1.0, loss_ranges(3, 1.0)).values(FA).tolist() == [0.0] * 4
    )  # all mixed


def test_extreme_losses_reach_the_ends():
    """Private contexts, worst-case range: one hypothesis gives all, the others nothing."""
    for k, mixing in itertools.product((2, 5, 64), (0.5, 0.02, 1e-6)):
        column = np.zeros(k)
        column[0] = 1.0
        for j, end in ((0, -1.0), (1, 1.0)):
            phi = families.loss(0, 1, 0, mixing, loss_ranges(k, mixing))
            query = LossQuery(j, 0.0, phi.half_range, mixing)
            assert query.phi(column, 0, 2) == pytest.approx(end, abs=1e-13)


def test_hostile_numbers_never_leave_the_interval():
    columns = [np.array(c) for c in itertools.product((*HOSTILE, 0.3), repeat=2)]
    queries = [ThresholdQuery(c) for c in itertools.product((*HOSTILE, 1.0), repeat=2)]
    queries += [
        LossQuery(1, mid, half, mixing)
        for mid, half, mixing in itertools.product(
            (*HOSTILE, 0.1), (*HOSTILE, 1.0, -1.0), (*HOSTILE, 0.1, -3.0, 7.0)
        )
    ]
    for query in queries:
        for column in columns:
            value = query.phi(column, 0, 2)
            assert -1.0 <= value <= 1.0  # refuses NaN
    matrix = np.array(columns).T.copy()
    for query in queries:
        assert np.all(np.abs(query.values(matrix)) <= 1.0)
    assert ThresholdQuery([math.nan, 1.0]).values(FB).tolist() == [0.0] * 4


def test_checks():
    for query, k, m in (
        (ThresholdQuery([1.0, 2.0]), 3, 4),
        (HadamardQuery(4), 3, 4),
        (HadamardQuery(1), 3, None),
        (LossQuery(3, 0.0, 1.0, 0.1), 3, 4),
    ):
        with pytest.raises(ValueError, match="query"):
            query.check(k, m)
    HadamardQuery(3).check(3, 4)
    HadamardQuery(4).check(3, 5)
    for bad in (0, -1):
        with pytest.raises(ValueError, match="row"):
            HadamardQuery(bad)
    with pytest.raises(ValueError, match="index"):
        LossQuery(-1, 0.0, 1.0, 0.1)


def test_bytes_and_values():
    for query in [*queries_for(4, 6, 3), ThresholdQuery([math.nan, math.inf])]:
        data = query.to_bytes()
        again, end = read_query(b"xyz" + data + b"more", 3)
        assert again == query
        assert end == 3 + len(data)
        assert hash(again) == hash(query)
        assert pickle.loads(pickle.dumps(query)) == query
        for cut in range(len(data)):
            with pytest.raises(ValueError, match="malformed"):
                read_query(data[:cut], 0)
        with pytest.raises(AttributeError):
            query.row = 3
    with pytest.raises(ValueError, match="read-only"):
        ThresholdQuery([1.0, 2.0]).coefficients[0] = 5.0
    assert ThresholdQuery([1.0]) != HadamardQuery(1)
