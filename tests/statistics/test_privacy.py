"""The claim of interval totals against every pattern of one person, and what lets records in."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from check import check
from tests.people.oracle import patterns
from tests.privacy.test_participation import matrix

import dpoco
from dpoco import Budget, Participation, _core
from dpoco.privacy.mechanisms.bounds import IntervalTotals
from dpoco.privacy.mechanisms.factorisations import Buffered
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import read, to_record
from dpoco.statistics import (
    Categories,
    Count,
    HalfLife,
    Histogram,
    Mean,
    Monitor,
    Quantiles,
    Share,
    Sum,
)
from dpoco.statistics._layout import Layout

FACTOR = Buffered((0.3, 0.05), (0.2, 0.1))
BUDGET = Budget(1.0, 1e-6)
# A statistic, and records that move its cells as far as any can.
STATISTICS = {
    "count": (Count(), [{}]),
    "sum": (Sum(-1.0, 3.0), [{"x": 3.0}, {"x": -1.0}, {"x": math.nan}]),
    "mean": (Mean(2.0, 6.0), [{"x": 6.0}, {"x": 2.0}, {"x": math.nan}]),
    "share": (Share(), [{"x": True}, {"x": False}, {"x": math.nan}]),
    "histogram": (Histogram((0.0, 1.0)), [{"x": -1.0}, {"x": 0.5}, {"x": 9.0}]),
    "categories": (Categories(("a", "b")), [{"x": "a"}, {"x": "b"}, {"x": "c"}, {"x": None}]),
    "quantiles": (Quantiles(0.5, (0.0, 1.0, 2.0)), [{"x": 0.5}, {"x": 5.0}]),
    "sum of one sign": (Sum(1.0, 3.0), [{"x": 3.0}, {"x": 1.0}, {"x": -math.inf}]),
    "mean below zero": (Mean(-9.0, -8.0), [{"x": -9.0}, {"x": -8.0}, {"x": 1e300}]),
    "one value": (Categories((7,)), [{"x": 7}, {"x": "7"}, {"x": None}]),
}


def vectors(layout, records, grid=2.0**-24):
    """What each record adds, by the program itself."""
    from dpoco.statistics._partition import Reader

    summand, found = layout.summand(1), []
    tally = replace(layout, grid=grid).make_tally(summand)
    reader = Reader(layout)
    for record in records:
        numbers, group = reader.record(record)
        cells = np.zeros(summand.size, dtype=np.int64)
        columns = [np.array([number]) for number in numbers]
        tally.add(columns, np.array([group], dtype=np.int32), None, 1, cells)
        found.append(cells * grid)
    return found


def layout_of(name, by=None):
    statistic, records = STATISTICS[name]
    own = {"n": Count(), "x": statistic} if statistic.reads else {"x": statistic}
    return Layout.of(own, {"x": 2.0}, by), records


def worst_move(changes, n, rounds, separation, records):
    """The largest l2 norm of the rows' move, over all patterns and choices of a person's records.

    `changes`: what one record can change. C is at least 0, so all records of a pattern do the same.
    """
    table = matrix(FACTOR, n)
    return max(
        float(np.linalg.norm(np.outer(table[:, list(places)].sum(axis=1), records * change)))
        for places in patterns(n, rounds, separation)
        for change in changes
    )


@pytest.mark.parametrize("relation", ["zero_out", "replace"])
@pytest.mark.parametrize("name", STATISTICS)
def test_no_pattern_of_a_person_moves_further(name, relation):
    layout, records = layout_of(name)
    moves = vectors(layout, records)
    changes = moves
    if relation == "replace":
        changes = [a - b for a, b in itertools.product(moves, repeat=2)]
    for n, rounds, separation, several in [(6, 1, 1, 1), (7, 3, 2, 1), (8, 2, 3, 4), (5, 5, 1, 2)]:
        near = Neighbours(relation, rounds=rounds, separation=separation)
        total = GaussianSum(layout.summand(several), FACTOR, pushes=n, scale=3.0)
        stated = total.reach(near)
        seen = worst_move(changes, n, rounds, separation, several)
        assert seen <= stated * (1.0 + 1e-6)
        if relation == "zero_out":  # attained but for rounding to the grid
            assert seen >= stated * (1.0 - 1e-5)
        # Wrong bounds that a pattern refutes: of one record, of one interval, without a spacing.
        if relation == "zero_out" and several > 1:
            assert seen > replace(total, summand=layout.summand(1)).reach(near)
        if relation == "zero_out" and rounds > 1:
            assert seen > total.reach(Neighbours(relation))


def test_times_that_differ_between_worlds_cost_no_more_than_stated():
    layout, records = layout_of("sum")
    moves = [v for v in vectors(layout, records) if np.any(v)]
    table = matrix(FACTOR, 7)
    total = GaussianSum(layout.summand(2), FACTOR, pushes=7, scale=1.0)
    stated = total.reach(Neighbours("replace", rounds=2, separation=2))
    seen = 0.0
    for one, other in itertools.product(list(patterns(7, 2, 2)), repeat=2):
        for v, w in itertools.product(moves, repeat=2):
            rows = np.outer(table[:, list(one)].sum(axis=1), v)
            rows = 2.0 * (rows - np.outer(table[:, list(other)].sum(axis=1), w))
            seen = max(seen, float(np.linalg.norm(rows)))
    assert 0.55 * stated < seen <= stated * (1.0 + 1e-6)


def test_rounding_of_every_record_is_charged():
    layout, records = layout_of("mean")
    grid = 2.0**-4  # coarse, so that rounding shows
    exact = vectors(layout, records)
    rounded = vectors(layout, records, grid)
    size = layout.summand(1).size
    for (v, k), (w, m) in itertools.product(zip(exact, rounded, strict=True), repeat=2):
        moved = np.linalg.norm(k - m)
        assert moved <= np.linalg.norm(v - w) + math.sqrt(size) * grid + 1e-6
    factor = Buffered((0.05, 0.3), (0.1, 0.2))
    sparse = replace(
        GaussianSum(layout.summand(3), factor, pushes=50, scale=2.0), grid=2.0**-15, limit=2**20
    )
    near = Neighbours("zero_out")
    leaf = 3 * math.sqrt(size) * 2.0**-15
    path = factor.path(50, 2.0**-15, 2.0) * math.sqrt(50 * size)
    expected = factor.column(50) * (3.0 + leaf) + path
    assert sparse.reach(near) == pytest.approx(expected, rel=1e-9)
    assert sparse.reach(near) > replace(sparse, grid=0.0, limit=0).reach(near)


def test_groups_cost_nothing():
    by = {"land": ("de", "fr")}
    layout, _ = layout_of("mean", by)
    plain, _ = layout_of("mean")
    assert layout.summand(2).movement(Neighbours()) == plain.summand(2).movement(Neighbours())
    assert layout.summand(2).size == 3 * plain.summand(2).size


def test_a_description_is_read_back_and_refuses_what_it_is_not_about():
    summand = IntervalTotals((2, 3), (0.6, 0.8), 4)
    total = GaussianSum(summand, FACTOR, pushes=9, scale=2.0)
    assert read(json.loads(json.dumps(to_record(total))), (GaussianSum,)) == total
    for wrong in [((), (), 1), ((1,), (0.5, 0.5), 1), ((1,), (0.0,), 1), ((1,), (0.5,), 0)]:
        with pytest.raises(ValueError, match="interval_totals"):
            IntervalTotals(*wrong)


def listed_limiter(people, intervals, rounds, separation, records):
    """Which records pass, by lists of everything that ever passed."""
    passed, admitted, counts = [], {}, {}
    for person, interval in zip(people, intervals, strict=True):
        own = admitted.setdefault(person, [])
        key = (person, interval)
        if key not in counts:
            free = not own or interval - own[-1] >= separation
            counts[key] = records if free and len(own) < rounds else 0
            if counts[key]:
                own.append(interval)
        passed.append(counts[key] > 0)
        counts[key] -= passed[-1]
    return passed


@pytest.mark.parametrize(("rounds", "separation", "records"), [(1, 1, 1), (3, 2, 2), (2, 5, 3)])
def test_people_are_limited_as_lists_would(rounds, separation, records):
    rng = np.random.default_rng(7)
    people = rng.integers(0, 12, 600)
    intervals = np.sort(rng.integers(0, 40, 600))
    rule = Participation(rounds=rounds, separation=separation)
    limiter = dpoco.learning.participation.Limiter(rule, 40, bytes(32), records=records)
    passed = []
    for interval in range(40):
        own = people[intervals == interval]
        half = len(own) // 2  # an interval in two parts, with a state between them
        for part in (own[:half], own[half:]):
            digests = limiter.digests(part, len(part)) if len(part) else b""
            passed += limiter.admit(interval, digests).tolist()
            again = dpoco.learning.participation.Limiter(rule, 40, bytes(32), records=records)
            again.restore(limiter.state())
            limiter = again
    assert passed == listed_limiter(people, intervals, rounds, separation, records)


def test_nobody_changes_what_another_may_do():
    rng = np.random.default_rng(8)
    people, intervals = rng.integers(1, 9, 300), np.sort(rng.integers(0, 20, 300))

    def run(names, when):
        limiter = dpoco.learning.participation.Limiter(
            Participation(3, separation=2), 20, bytes(32), records=2
        )
        return [
            bool(limiter.admit(int(t), limiter.digests([int(p)], 1))[0])
            for p, t in zip(names, when, strict=True)
        ]

    without = run(people, intervals)
    at = np.sort(rng.integers(0, 300, 80))
    names, when = np.insert(people, at, 0), np.insert(intervals, at, intervals[at])
    mixed = run(names, when)
    assert [ok for ok, who in zip(mixed, names, strict=True) if who != 0] == without


def test_intervals_need_numbers():
    with pytest.raises(ValueError, match="largest number"):
        _core.IntervalParticipants(0, 2, 10, 1)
    with pytest.raises(ValueError, match="largest number"):
        _core.IntervalParticipants(1, 2, 10, 0)


def monitor(**options):
    given = {"every": None, "releases": 100, "budget": BUDGET} | options
    return Monitor({"n": Count(), "x": Mean(0.0, 1.0)}, **given)


def test_the_guarantee_says_what_is_protected():
    own = monitor().guarantee
    assert own.certified
    assert (own.unit, own.change, own.numerics) == ("one record", "zero_out", "lattice")
    assert own.epsilon <= 1.0
    people = monitor(participation=Participation(10, separation=4), records_per_interval=3)
    assert people.guarantee.unit == "one person"
    said = " ".join(people.guarantee.conditions)
    assert "at most 3 records in each of at most 10 intervals, any two at least 4 apart" in said
    assert people.guarantee.epsilon_at(1e-6) <= 1.0 < own.for_person(10, 4).epsilon_at(1e-6)
    several = own.for_person(10, 4)
    assert several.person == (10, 4)
    with pytest.raises(ValueError, match="come less often"):
        people.guarantee.for_person(11, 4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"relation": "replace"},
        {"participation": Participation(10, separation=4), "records_per_interval": 3},
        {"releases": None, "views": [HalfLife(5.0)]},
        {"views": ["total"]},
    ],
)
def test_the_independent_checker_proves_it(options):
    own = monitor(**options).guarantee
    record = json.loads(own.to_json())
    assert check.check(record)[0] == ("only if" if own.doubts else "proved")
    record["description"]["summand"]["records"] += 1
    assert check.check(record)[0] == "not proved"
    assert own.from_json(own.to_json()) == own


def test_a_ledger_takes_it():
    ledger = dpoco.accounting.Ledger(Budget(2.0, 1e-5), relation="zero_out", unit="one record")
    ledger.charge(monitor().guarantee, "visits")
    assert 0.0 < ledger.spent < 1.0
