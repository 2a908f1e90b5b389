"""Sums of parts of a stream: the same bits as of the whole."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.statistics.test_monitor import columns, noisy

from dpoco import HorizonExceeded, Participation, RoundOrderError
from dpoco.statistics import Count, Monitor, Tally

BY = {"country": ["DE", "FR"]}


def parts_of(table, parts):
    return [{n: c[table["user"] % parts == i] for n, c in table.items()} for i in range(parts)]


@pytest.mark.parametrize("arrow", [False, True])
@pytest.mark.parametrize("people", [None, Participation(3, separation=2)])
def test_any_partition_gives_the_same_bits(people, arrow):
    options = {"by": BY, "participation": people, "records_per_interval": 4 if people else 1}
    person = "user" if people else None
    whole, merged = noisy(**options), noisy(**options)
    workers = [pickle.loads(pickle.dumps(merged.partition())) for _ in range(3)]
    for interval in range(6):
        table = columns(400, seed=interval)
        whole.add_many(table, person=person)
        tallies = []
        for worker, part in zip(workers, parts_of(table, 3), strict=True):
            worker.add_many(part, person=person)
            tallies.append(pickle.loads(pickle.dumps(worker.tally(interval))))
        if arrow:
            tallies = [Tally.from_arrow(each.to_arrow())[0] for each in tallies]
        merged.merge(tallies[2].merge(tallies[0]))
        merged.merge(tallies[1])
        one, other = whole.release(), merged.release()
        assert np.array_equal(one.vectors["interval"], other.vectors["interval"])


def test_people_in_two_partitions_count_twice():
    monitor = noisy({"n": Count()}, participation=Participation(1), budget=None)
    for worker in (monitor.partition(), monitor.partition()):
        worker.add_many({}, person=[7])
        monitor.merge(worker.tally())
    assert monitor.release().value("n") == pytest.approx(2.0)


def test_people_stay_apart_where_numbers_of_intervals_jump():
    rule = Participation(9, separation=3)
    monitor = noisy({"n": Count()}, participation=rule, budget=None, releases=27)
    worker = monitor.partition()
    counted = []
    for interval in (10, 11, 12, 13, 20, 21):  # another worker had the others
        worker.add_many({}, person=[7])
        if interval == 20:
            worker.add_many({}, person=[8])
        counted.append(int(worker.tally(interval).cells[0]))
    unit = counted[0]
    # Interval 13 is 3 behind 10. Before 20 the partition is not told that intervals passed.
    assert counted == [unit, 0, 0, unit, unit, 0]
    # Without records until then, an interval that has passed counts.
    worker.tally(25)
    worker.add_many({}, person=[7])
    assert int(worker.tally(26).cells[0]) == unit


def test_tallies_of_another_interval_are_refused():
    monitor, other = noisy(releases=2), noisy({"n": Count()})
    worker = monitor.partition()
    with pytest.raises(ValueError, match="interval 0"):
        monitor.merge(worker.tally(1))
    with pytest.raises(ValueError, match="at least 2"):
        worker.tally(0)
    with pytest.raises(ValueError, match="same interval and layout"):
        monitor.merge(other.partition().tally())
    with pytest.raises(HorizonExceeded):
        monitor.merge(worker.tally(2))
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(worker)


class Column(list):
    """A column that runs something when it is read."""

    read = None

    def __iter__(self):
        self.read()
        return super().__iter__()


@pytest.mark.parametrize("people", [None, Participation(3)])
def test_a_second_thread_is_refused(people):
    """Two threads in one partition would add to cells and counters that the other one writes."""
    worker = noisy(participation=people).partition()
    table, person = columns(50), "user" if people else None
    tries = [lambda: worker.add_many(columns(50), person=person), worker.tally]
    with ThreadPoolExecutor(1) as pool:

        def intrude():
            for each in tries:
                with pytest.raises(RoundOrderError, match="in use by another thread"):
                    pool.submit(each).result(timeout=60)

        name = next(name for name in table if name != "user")
        column = Column(table[name].tolist())
        column.read = intrude
        worker.add_many({**table, name: column}, person=person)
    alone = noisy(participation=people).partition()
    alone.add_many(table, person=person)
    assert worker.records == 50
    assert people or np.array_equal(worker.tally().cells, alone.tally().cells)


def test_tallies_that_are_too_large_do_not_wrap():
    largest = np.array([2**63 - 1, -(2**63)])
    for one, other in ((largest, largest), (largest, np.array([1, -1]))):
        found = Tally(0, one, 1).merge(Tally(0, other, 1))
        assert found.cells.tolist() == [2**61, -(2**61)]
    monitor = noisy({"n": Count()}, budget=None)
    monitor.add_many([{}] * 3)
    monitor.merge(Tally(0, largest[:1], 1))
    assert monitor.release().value("n") > 1e9


def test_texts_of_tallies_and_partitions_show_no_sum():
    monitor = Monitor({"n": Count()}, every=None, releases=2, budget=None)
    partition = monitor.partition()
    partition.add_many({"x": [1.0] * 54321})
    tally = partition.tally()
    monitor.merge(tally)
    for each in (tally, [tally], {"sums": tally}, partition, monitor, partition.reader):
        assert "54321" not in f"{each!r} {each}"
        assert str(int(tally.cells[0])) not in f"{each!r} {each}"
