"""Many users at once: the same laws as single devices, budgets of their own, and no reordering."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from local_cases import FA, FC, bit_spec, coordinate_spec, fixed, subset_spec
from tests.probes import probes

import dpoco
from dpoco.local import (
    ClientPool,
    HadamardQuery,
    Hypotheses,
    RoundSpec,
    SubsetRandomizer,
)
from dpoco.local import _messages as families
from dpoco.local._bounds import loss_ranges
from dpoco.local._hypotheses import label_indices as indices
from dpoco.local._randomizers import bit_randomizer
from dpoco.random import Source

TABLE = np.stack([FA, FA[::-1], np.roll(FA, 1, axis=1)])


def thresholds_of(spec, column_of, labels):
    """k of every user and bit, by the single device's way."""
    randomizer = bit_randomizer(spec.epsilon, len(spec.queries))
    return np.array([
        [randomizer.threshold(query.phi(column_of(i, y), y, spec.labels)) for query in spec.queries]
        for i, y in enumerate(labels)
    ], dtype=np.uint64)  # fmt: skip


def expected_bits(spec, column_of, labels, seed):
    """Bit b of user i takes word b n + i: one query after the other."""
    k = thresholds_of(spec, column_of, labels)
    words = Source.seeded(seed).words(k.size).reshape(k.shape[1], k.shape[0]).T
    return ((words >> np.uint64(11)) < k).astype(np.int64)


@pytest.mark.parametrize("users", [3, 50])  # fewer than labels, and more
def test_bits_equal_single_devices(users):
    rng = np.random.default_rng(1)
    matrix = rng.dirichlet(np.full(12, 0.3), size=5)
    queries = (
        families.threshold("bisection", 1, 1, 0, 5), families.hadamard(1, 1, 1, 12),
        families.loss(1, 1, 2, 0.1, loss_ranges(5, 0.1)),
        families.threshold("mean_test", 1, 1, 3, 5),
    )  # fmt: skip
    spec = RoundSpec(1, "bit", 3.0, 5, 12, queries=queries)
    labels = rng.integers(-2, 14, users)
    batch = ClientPool(Hypotheses(matrix), users, 3.0, simulation_seed=8).respond(
        spec.to_bytes(), None, labels
    )
    hypotheses = Hypotheses(matrix)
    expected = expected_bits(spec, lambda i, y: hypotheses.column(None, int(y)), labels, 8)
    assert batch.values.tolist() == expected.tolist()
    assert batch.simulated
    spec.check_reports(batch)
    assert len(set(batch.nonces.tolist())) == users


def test_private_contexts_one_a_user():
    spec = coordinate_spec(FA, epsilon=2.0)
    contexts, labels = [0, 2, 1, 1, "none", 0] * 4, [0, 1, None, 3, 2, -1] * 4
    pool = ClientPool(Hypotheses(TABLE), 24, 2.0, protect="label_and_context", simulation_seed=3)
    batch = pool.respond(spec, contexts, labels)
    table = Hypotheses(TABLE)

    def column(i, y):
        return np.zeros(3) if contexts[i] == "none" else table.column(contexts[i], y)

    assert batch.values.tolist() == expected_bits(spec, column, labels, 3).tolist()
    with pytest.raises(ValueError, match="one context"):
        pool.respond(spec, [0, 1], labels)


def test_subsets_equal_single_devices():
    spec, labels = subset_spec(FC, 2, epsilon=1.5), np.array([0, 5, -1, 6, 3] * 10)
    pool = ClientPool(fixed(FC), 50, 1.5, simulation_seed=4)
    batch = pool.respond(spec, None, labels)
    spec.check_reports(batch)
    randomizer, source = SubsetRandomizer(6, 2, 1.5), Source.seeded(4)
    assert [tuple(row) for row in batch.values.tolist()] == [
        randomizer.respond(int(y), source) for y in labels
    ]


@pytest.mark.parametrize("kind", ["bit", "subset", "coordinate"])
def test_laws(kind):
    """Frequencies of a label's reports against the exact law; the wrong epsilon is found."""
    from scipy.special import chdtrc

    spec = {"bit": bit_spec(FC, epsilon=1.4, bits=2), "subset": subset_spec(FC, 2, epsilon=1.4),
            "coordinate": coordinate_spec(FC, epsilon=1.4)}[kind]  # fmt: skip
    n = 60_000

    def p_value(epsilon, seed, label):
        pool = ClientPool(fixed(FC), n, 2.0, simulation_seed=seed)
        values = pool.respond(spec, None, np.full(n, label)).values
        if kind == "subset":
            law = SubsetRandomizer(6, 2, epsilon).pmf(label)
        else:
            phis = [query.phi(FC[:, label].copy(), label, 6) for query in spec.queries]
            law = bit_randomizer(epsilon, len(phis)).pmf(phis)
        code = 10 ** np.arange(values.shape[1])
        counts = np.bincount(values @ code, minlength=100)
        outcomes = [int(np.array(z) @ code) for z in law]
        assert counts.sum() == counts[outcomes].sum()
        expected = n * np.array([float(p) for p in law.values()])
        return chdtrc(len(law) - 1, float(((counts[outcomes] - expected) ** 2 / expected).sum()))

    for seed, label in itertools.product(range(3), (0, 4)):
        assert p_value(1.4, seed, label) > 1e-7
    assert min(p_value(2.1, 0, label) for label in (0, 1, 4)) < 1e-6


def test_budgets_are_those_of_the_users():
    pool = ClientPool(fixed(FA), 5, 1.0, max_reports=3)
    pool.respond(bit_spec(FA, epsilon=0.4), None, [0, 1], users=[3, 1])
    assert pool.spent.tolist() == [0.0, 0.4, 0.0, 0.4, 0.0]
    assert pool.reports.tolist() == [0, 1, 0, 1, 0]
    pool.respond(bit_spec(FA, epsilon=0.6), None, [0], users=np.array([3]))
    fits = pool._ledgers.affordable(None, 0.6, 1.0, 3)
    assert fits.tolist() == [True, True, True, False, True]
    before, drawn = pool.spent.tolist(), probes.position(pool._source._engine, 0)
    with pytest.raises(dpoco.BudgetExceeded, match="1 of 5"):
        pool.respond(bit_spec(FA, epsilon=0.1), None, [0] * 5)
    assert pool.spent.tolist() == before
    assert probes.position(pool._source._engine, 0) == drawn
    small = ClientPool(fixed(FA), 2, 10.0)
    small.respond(bit_spec(FA), None, [0, 1])
    with pytest.raises(dpoco.BudgetExceeded):
        small.respond(bit_spec(FA, epsilon=0.1), None, [0, 1])


def test_order_of_users_is_kept():
    labels = np.array([0, 3, -1])
    one = ClientPool(fixed(FA), 9, 30.0, simulation_seed=1)
    batch = one.respond(bit_spec(FA, epsilon=30.0), None, labels, users=[7, 2, 5])
    values = bit_spec(FA).queries[0].values(FA)
    assert batch.values[:2, 0].tolist() == [int(values[0] > 0), int(values[3] > 0)]
    empty = one.respond(bit_spec(FA), None, [], users=[])
    assert len(empty) == 0
    assert empty.values.shape == (0, 1)


@pytest.mark.parametrize(("arguments", "error"), [
    ((None, [0, 1]), ValueError), ((None, [0, 1, 2], [0, 1]), ValueError),
    ((None, [0, 1], [1, 1]), ValueError), ((None, [0], [3]), ValueError),
    ((None, [0], [-1]), ValueError), ((None, [0], [0.5]), TypeError),
    ((1, [0, 1, 2]), ValueError),
])  # fmt: skip
def test_refusals_change_nothing(arguments, error):
    pool = ClientPool(fixed(FA), 3, 1.0)
    with pytest.raises(error):
        pool.respond(bit_spec(FA), *arguments)
    for spec in (bit_spec(FC), b"junk"):
        with pytest.raises(ValueError):  # noqa: PT011
            pool.respond(spec, None, [0, 1, 2])
    assert pool.spent.tolist() == [0.0] * 3
    assert probes.position(pool._source._engine, 0) == 0


def test_labels():
    found = indices([0, None, 3, 4, -1, True, 2.0, "x", 10**30, np.int8(1)], 4)
    assert found.tolist() == [0, -1, 3, -1, -1, -1, -1, -1, -1, 1]
    assert indices(np.array([2**64 - 1, 3], dtype=np.uint64), 4).tolist() == [-1, 3]
    assert indices(np.array([-5, 3, 7], dtype=np.int8), 4).tolist() == [-1, 3, -1]
    assert indices(np.array([1.0, 2.0]), 4).tolist() == [-1, -1]
    assert indices(np.ma.masked_array([1, 2], [False, True]), 4).tolist() == [1, -1]


def test_single_labels_ask_nothing():
    spec = RoundSpec(1, "bit", 30.0, 2, 1, queries=(HadamardQuery(1),))
    pool = ClientPool(Hypotheses(np.ones((2, 1))), 4000, 30.0, simulation_seed=2)
    ones = int(pool.respond(spec, None, np.array([0, -1] * 2000)).values.sum())
    assert abs(ones - 2000) < 5.5 * math.sqrt(1000)


def test_noise_differs_between_users_rounds_and_pools():
    spec = bit_spec(FA, epsilon=0.01, bits=30)
    pools = [ClientPool(fixed(FA), 8, 1.0, 2) for _ in range(2)]
    rows = np.concatenate([pool.respond(spec, None, [1] * 8).values for pool in pools * 2])
    assert len({tuple(row) for row in rows.tolist()}) == 32


# -- labels of any dtype --------------------------------------------------------------------------

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("users", [3, 12])  # fewer than labels, and more
def test_labels_of_any_integer_dtype(dtype, users):
    """Out of the domain is no event: the law of `LocalClient`, and no error once it is paid."""
    rng = np.random.default_rng(5)
    matrix = rng.dirichlet(np.ones(6), size=4)
    outside = [np.iinfo(dtype).max, 100, 6] + ([-1] if dtype.startswith("i") else [])
    labels = np.array(([0, *outside, 5, 3, *outside] * 2)[:users], dtype=dtype)
    expected = [int(y) if 0 <= int(y) < 6 else -1 for y in labels]
    assert indices(labels, 6).tolist() == expected
    hypotheses = Hypotheses(matrix)
    pool = ClientPool(hypotheses, users, 2.0, simulation_seed=8)
    spec = bit_spec(matrix, epsilon=2.0, bits=2)
    found = pool.respond(spec, None, labels)
    law = expected_bits(spec, lambda i, y: hypotheses.column(None, int(y)), labels, 8)
    assert found.values.tolist() == law.tolist()
    for y in labels[1:4]:  # the law is that of a single device
        exact = bit_randomizer(2.0, 2).pmf(
            [query.phi(hypotheses.column(None, int(y)), int(y), 6) for query in spec.queries]
        )
        assert set(exact.values()) == ({0.25} if int(y) > 5 or int(y) < 0 else set(exact.values()))
    for other in (subset_spec(matrix, 2, epsilon=2.0), coordinate_spec(matrix, epsilon=2.0)):
        batch = ClientPool(hypotheses, users, 2.0, simulation_seed=1).respond(other, None, labels)
        same = ClientPool(hypotheses, users, 2.0, simulation_seed=1).respond(
            other, None, [None if y < 0 else y for y in expected]
        )
        assert batch.values.tolist() == same.values.tolist()


@pytest.mark.parametrize(
    "labels",
    [np.zeros(3), np.zeros((3, 1), dtype=int), np.zeros(3, dtype=bool), np.array(["a", "b", "c"])],
)
def test_arrays_that_hold_no_labels_are_refused(labels):
    pool = ClientPool(fixed(FA), 3, 2.0, simulation_seed=3)
    with pytest.raises((TypeError, ValueError), match="labels must"):
        pool.respond(bit_spec(FA, epsilon=1.0), None, labels)
    assert not pool.spent.any()
    assert probes.position(pool._source._engine, 0) == 0
    pool.respond(bit_spec(FA, epsilon=1.0), None, np.array([0, None, "x"], dtype=object))
