"""Diameters count the zero column of no label; what is kept of public arrays is bounded."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from dpoco.local import VectorRandomizer, _losses, _vector
from dpoco.local._losses import kept
from dpoco.local._vector import diameters
from dpoco.random import Source

ONE_HOT = np.eye(4)[[0, 0, 1, 1, 2, 2, 3]]  # 7 hypotheses, 4 labels


def by_pairs(table):
    columns = [*table.T.astype(object), np.zeros(table.shape[0], dtype=object)]
    gaps = [np.abs(a - b) for a, b in itertools.product(columns, columns)]
    return (
        max(int(gap.sum()) for gap in gaps),
        max(int((gap * gap).sum()) for gap in gaps) ** 0.5,
        [max(int(gap[j]) for gap in gaps) for j in range(table.shape[0])],
    )


@pytest.mark.parametrize(
    "table",
    [
        [[5, 5], [4, 4]],  # all labels alike: none is not
        [[-9, -8], [-7, -9]],
        [[1, 100], [100, 1]],
        [[-3, -5]],
        [[7, 7, 9]],
        np.random.default_rng(0).integers(-9, 9, (4, 5)),
        np.random.default_rng(1).integers(3, 9, (4, 5)),
    ],
)
def test_diameters_count_no_label(table, monkeypatch):
    table = np.array(table)
    l1, l2, ranges = by_pairs(table)
    found = diameters(table)
    assert found[0] == l1
    assert l2 <= found[1] <= l2 * (1 + 1e-15)
    assert found[2].tolist() == ranges
    monkeypatch.setattr(_vector, "_MOST_PAIRED_LABELS", 1)
    if table.shape[1] > 1:  # from the ranges: upper bounds
        bound = diameters(table)
        assert bound[0] == sum(ranges) >= l1
        assert bound[1] >= l2


def test_no_label_may_be_farthest_of_all():
    """Seven one-hot hypotheses: the losses of a label are farther from 0 than from another's."""
    cases = [ONE_HOT, *(np.eye(4)[list(rows)] for rows in np.random.default_rng(0).integers(
        0, 4, size=(60, 7)))]  # fmt: skip
    seen = 0
    for matrix in cases:
        it = VectorRandomizer(matrix, 1.0, 0.1)
        columns = it.table.T
        between = max(int(np.abs(a - b).sum()) for a, b in itertools.combinations(columns, 2))
        from_none = int(np.abs(columns).sum(axis=1).max())
        seen += from_none > between
        assert it.l1 >= max(between, from_none)
        # The report on a label, and on none, differ in law by e^epsilon at most.
        for y in range(4):
            for report in (it.table[:, y], it.table[:, y] * 3, -it.table[:, y] * 3):
                gap = it.log_probability(report, y) - it.log_probability(report, None)
                assert abs(gap) <= 1.0 + 1e-12
    assert seen > 0


def test_one_row_is_quick_and_right():
    row = np.random.default_rng(0).integers(-100, 100, (1, 10**5))
    assert diameters(row)[0] == max(row.max(), 0) - min(row.min(), 0)


def test_the_store_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(_losses, "_KEPT_BYTES", 100_000)
    built = []
    for i in range(100):
        matrix = np.full((10, 10), float(i))
        matrix.flags.writeable = False
        kept(matrix, "test", lambda i=i: built.append(i))
        kept(matrix, "test", lambda i=i: built.append(i))
    assert built == list(range(100))
    assert _losses._held[0] <= 100_000
    assert _losses._held[0] == sum(entry[2] for entry in _losses._store.values())


def test_log_probabilities_need_no_long_sums():
    """At any scale in constant memory, and equal to the sum where that is short."""
    from dpoco.local._vector import _gaussian_total

    for scale in (0.1, 1.0, 5.99, 6.0, 6.01, 50.0):
        n = np.arange(1.0, 45 * max(scale, 1.0) + 5.0)
        exact = 1.0 + 2.0 * float(np.exp(-0.5 * (n / scale) ** 2).sum())
        assert abs(_gaussian_total(scale) / exact - 1.0) < 1e-14
    matrix = np.random.default_rng(0).dirichlet(np.ones(5), size=8)
    it = VectorRandomizer(matrix, 1.0, 0.1, delta=1e-6, noise="gaussian")
    assert it.scale > 10**6
    tracemalloc.start()
    assert it.log_probability(it.respond(0, Source.seeded(1)), 0) < 0.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6
