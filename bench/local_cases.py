"""Rows of the table for the device side of `dpoco.local`, and the NumPy code they are against."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from measurement import Row, available_sets, compare, rate
from numpy.typing import NDArray

from dpoco.local import ClientPool, Hypotheses, LocalClient, RoundSpec, SubsetRandomizer
from dpoco.local import _messages as families

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

GROUP = "Local reports (per second of CPU time)"
UNLIMITED = 10**9


def make_matrix(hypotheses: int, labels: int) -> FloatArray:
    generator = np.random.default_rng(labels)
    return generator.dirichlet(np.ones(labels), size=hypotheses)


def bit_round(hypotheses: int, labels: int) -> RoundSpec:
    query = families.threshold("bisection", 1, 1, 0, hypotheses)
    return RoundSpec(1, "bit", 1.0, hypotheses, labels, queries=(query,))


def subset_round(hypotheses: int, labels: int, size: int | None) -> RoundSpec:
    chosen = SubsetRandomizer(labels, size, 1.0).size
    return RoundSpec(1, "subset", 1.0, hypotheses, labels, subset_size=chosen)


def numpy_subsets(labels: IntArray, count: int, size: int, epsilon: float) -> IntArray:
    """Subset selection as a NumPy user writes it: random keys, the smallest ones are chosen."""
    generator = np.random.default_rng()
    keys = generator.random((labels.size, count))
    inside = size / (size + (count - size) * np.exp(-epsilon))
    included = generator.random(labels.size) < inside
    keys[np.arange(labels.size), labels] = np.where(included, -1.0, 2.0)
    return np.sort(np.argpartition(keys, size - 1, axis=1)[:, :size], axis=1)


def numpy_bits(values: FloatArray, labels: IntArray, epsilon: float) -> NDArray[np.bool_]:
    """One-bit reports in floating point: fast, and not private to the last digit."""
    chances = 0.5 * (1.0 + np.tanh(epsilon / 2.0) * values)
    return np.random.default_rng().random(labels.size) < chances[labels]


def rows(pairs: int, shrink: int) -> Iterator[Row]:
    yield from device_rows(pairs, shrink)
    yield from pool_rows(pairs, shrink)


def device_rows(pairs: int, shrink: int) -> Iterator[Row]:
    reports = max(4000 // shrink, 200)
    for hypotheses, labels in ((8, 16), (64, 64)):
        client = LocalClient(
            Hypotheses(make_matrix(hypotheses, labels)), 1e6, max_reports=UNLIMITED
        )
        spec = bit_round(hypotheses, labels)

        def respond(client: LocalClient = client, spec: RoundSpec = spec) -> None:
            for _ in range(reports):
                client.respond(spec, None, 3)

        yield rate(
            GROUP,
            f"LocalClient.respond, one bit, K = {hypotheses}",
            respond,
            units=reports,
            repetitions=pairs,
            target=None,
            unit="reports/s",
        )


def pool_rows(pairs: int, shrink: int) -> Iterator[Row]:
    users = max(10**6 // shrink, 10_000)
    generator = np.random.default_rng(0)
    matrix, spec = make_matrix(64, 64), bit_round(64, 64)
    pool = ClientPool(Hypotheses(matrix), users, 1e9, max_reports=UNLIMITED)
    labels = generator.integers(0, 64, users)
    yield rate(
        GROUP,
        "ClientPool.respond, one bit, K = M = 64",
        partial(pool.respond, spec, None, labels),
        units=users,
        repetitions=pairs,
        target=1e6,
        unit="reports/s",
    )
    yield rate(
        GROUP,
        "NumPy bits in floating point, no ledger",
        partial(numpy_bits, spec.queries[0].values(matrix), labels, 1.0),
        units=users,
        repetitions=pairs,
        target=None,
        unit="reports/s",
    )
    for count, size in ((64, None), (1000, None)):
        few = max(20_000 // shrink, 1000)
        asked = subset_round(8, count, size)
        assert asked.subset_size is not None
        crowd = ClientPool(Hypotheses(make_matrix(8, count)), few, 1e9, max_reports=UNLIMITED)
        own = generator.integers(0, count, few)
        yield compare(
            "Local reports: subset selection (ns per report)",
            f"M = {count}, d = {asked.subset_size}",
            partial(crowd.respond, asked, None, own),
            partial(numpy_subsets, own, count, asked.subset_size, 1.0),
            against="NumPy keys and argpartition",
            units=few,
            pairs=pairs,
            instruction_set=available_sets()[0],
            target=1.0,
        )
