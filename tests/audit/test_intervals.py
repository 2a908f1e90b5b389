"""Audits of monitors: replay and likelihood, with several records of one person in an interval."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.audit.faults import planted

from dpoco import Budget, Participation
from dpoco.audit import check_learner, likelihood_audit, replay_audit
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source
from dpoco.statistics import (
    Categories,
    Count,
    Histogram,
    Last,
    Mean,
    Monitor,
    Quantiles,
    Share,
    Sum,
)

INTERVALS, MOST = 6, 3
PEOPLE = Participation(2, separation=2, enforced=False)
STATISTICS = {
    "count": {"n": Count()},
    "sum": {"x": Sum(-1.0, 3.0)},
    "mean": {"x": Mean(2.0, 6.0)},
    "share": {"x": Share()},
    "histogram": {"x": Histogram((0.0, 2.0))},
    "quantiles": {"x": Quantiles(0.5, (0.0, 1.0, 2.0, 4.0))},
    "categories": {"x": Categories(("a", "b"))},
    "several": {"n": Count(), "x": Mean(2.0, 6.0), "y": Histogram((0.0,), column="x")},
}


def maker(statistics, kind=Monitor, epsilon=1.0, **options):
    given = {"every": None, "releases": INTERVALS, "budget": Budget(epsilon, 1e-3),
             "views": ["interval", "total"]}  # fmt: skip
    return lambda source: kind(statistics, source=source, **given | options)


def stream_of(make):
    """Return a stream with a record in every second row, and the width of a record."""
    from dpoco.audit._kinds import find_family

    family = find_family(make(Source.seeded(1)))
    (rows, width) = family.shapes()["records"]
    stream = np.zeros((INTERVALS, rows, width))
    stream[::2, :, 0] = 1.0
    stream[:, :, 1:] = 1.0
    return stream


def far(stream, at, number, present=1.0):
    record = stream[at].copy()
    record[:, 0], record[:, 1:] = present, number
    return record


NUMBERS = [6.0, -1.0, math.nan, 1e300, 0.0, 2.0, -math.inf]


@pytest.mark.parametrize("people", [None, PEOPLE], ids=["record", "person"])
@pytest.mark.parametrize("relation", ["zero_out", "replace"])
@pytest.mark.parametrize("name", STATISTICS)
def test_no_record_moves_more_than_stated(name, relation, people):
    several = {} if people is None else {"participation": people, "records_per_interval": MOST}
    make = maker(STATISTICS[name], relation=relation, by={"g": ["u", "v"]}, **several)
    stream = stream_of(make)
    neighbours = [(0, far(stream, 0, 0.0, present=0.0)), (1, far(stream, 1, 6.0))]
    if relation == "replace":
        neighbours += [(2, far(stream, 2, x)) for x in NUMBERS if x != 1.0]
    report = replay_audit(make, stream, neighbours)
    assert not report.violated, str(report)
    assert report.measured > 0.45 * report.declared  # of the largest movement there is


def test_empty_records_are_there_or_not():
    make = maker(STATISTICS["mean"])
    stream = stream_of(make)
    with pytest.raises(ValueError, match="not differ"):
        replay_audit(make, stream, [(0, far(stream, 0, 5.0))])


class Unclipped(Monitor):
    """Forgets to clip: a reader that scales numbers beforehand."""

    def add(self, record, **options):
        for _ in range(2 if record.get("x", 0.0) > 5.0 else 1):
            super().add(record, **options)
        return []


class Peeking(Monitor):
    """Draws once more where a record is large."""

    def add(self, record, **options):
        if record["x"] > 5.0:
            self.release()
        return super().add(record, **options)


class Late(Monitor):
    """Counts a record in the next interval, too."""

    _again: tuple = ()

    def release(self):
        found = super().release()
        again, self._again = self._again, ()
        for record in again:
            super().add(record)
        return found

    def add(self, record, **options):
        self._again = (*self._again, record)
        return super().add(record, **options)


class Twice(Monitor):
    """Counts every record twice."""

    def add(self, record, **options):
        super().add(record, **options)
        return super().add(record, **options)


@pytest.mark.parametrize("relation", ["zero_out", "replace"])
@pytest.mark.parametrize("people", [None, PEOPLE], ids=["record", "person"])
def test_a_record_that_is_counted_twice_is_found(relation, people):
    several = {} if people is None else {"participation": people, "records_per_interval": MOST}
    make = maker({"n": Count()}, kind=Twice, relation=relation, **several)
    stream = stream_of(make)
    assert replay_audit(make, stream, [(0, far(stream, 0, 0.0, present=0.0))]).violated


class Open(Monitor):
    """Takes every record for one of somebody else."""

    def add(self, record, *, person, **options):
        self._names = getattr(self, "_names", 0) + 1
        return super().add(record, person=f"{person} {self._names}", **options)


@pytest.mark.parametrize("kind", [Monitor, Open])
def test_a_person_who_comes_too_often_moves_no_more_than_stated(kind):
    rule = Participation(2, separation=2)
    make = maker(STATISTICS["several"], kind, participation=rule, records_per_interval=MOST)

    def totals(present):
        monitor, found = make(Source.seeded(1)), []
        for t in range(INTERVALS):
            for _ in range(2 * MOST if present else 0):
                monitor.add({"x": 6.0}, person="she")
            monitor.add({"x": 2.0}, person=f"another {t}")
            found.append(monitor.release().vectors["total"])
        return np.array(found), monitor

    (mine, monitor), (others, _) = totals(True), totals(False)
    guarantee = make(Source()).guarantee
    assert guarantee.certified
    assert guarantee.conditions[0].startswith("Each person contributes at most 3 records")
    sizes = np.linalg.norm(np.diff(mine - others, axis=0, prepend=0.0), axis=1)
    came = np.flatnonzero(sizes > 0.5)  # the noise of both is the same
    kept = (
        max(sizes) <= monitor.plan().total.summand.movement(Neighbours("zero_out")) + 0.01
        and len(came) <= 2
        and min(np.diff(came), default=2) >= 2
    )
    assert kept == (kind is Monitor)
    if kept:
        assert came.tolist() == [0, 2]
        assert sizes[0] == pytest.approx(MOST, abs=0.01)


@pytest.mark.parametrize("kind", [Unclipped, Peeking, Late])
def test_planted_bugs_are_found(kind):
    make = maker({"x": Mean(2.0, 6.0)}, kind=kind, relation="replace", releases=30)
    stream = stream_of(make)
    report = replay_audit(make, stream, [(2, far(stream, 2, 6.0))])
    assert report.violated


@pytest.mark.parametrize("relation", ["zero_out", "replace"])
def test_transcripts_have_the_stated_loss(relation):
    make = maker(
        {"x": Sum(-4.0, 4.0)}, relation=relation, participation=PEOPLE,
        records_per_interval=MOST, views=[Last(2)], epsilon=2.0,
    )  # fmt: skip
    stream = stream_of(make)
    other = stream.copy()
    for t in (0, 2):  # a person's rounds, two apart
        stream[t] = far(stream, t, -4.0)
        other[t] = far(stream, t, 4.0, present=float(relation == "replace"))
    report = likelihood_audit(make, stream, other, 300)
    assert not report.violated, str(report)
    assert report.powerful
    assert report.detectable < 3.0


def quieter(monitor, source):
    """A fault: totals have less noise than is accounted for."""
    total = monitor._mechanism
    monitor._mechanism = replace(total, scale=0.8 * total.scale)
    monitor._build(source._claim())
    monitor._mechanism = total


def test_totals_with_noise_of_another_scale_are_found():
    make = maker(
        {"n": Count(), "x": Mean(-1.0, 1.0)}, participation=PEOPLE, records_per_interval=MOST,
        views=["total"], by={"g": range(20)},
    )  # fmt: skip
    neighbour = np.zeros_like(stream_of(make))
    stream = neighbour.copy()
    stream[[0, 2]] = [1.0, 1.0, 3.0]  # a person's intervals
    # As few runs as an audit takes: each has hundreds of variates.
    assert likelihood_audit(planted(make, quieter), stream, neighbour, 136).violated


def test_monitors_keep_the_contract():
    """Over a second: a state is saved and loaded for every interval, and processes are forked."""
    passed = check_learner("monitor")
    assert len(passed) == 14

    def make(*, releases, source):
        return maker(
            STATISTICS["several"], by={"g": ["u"]}, participation=PEOPLE, releases=releases,
            records_per_interval=MOST, views=["interval", Last(3)],
        )(source)  # fmt: skip

    assert check_learner(make) == passed
    late = maker(STATISTICS["mean"], kind=Late, relation="replace", releases=24)
    with pytest.raises(AssertionError, match="fails the check"):
        check_learner(lambda *, releases, source: late(source))
