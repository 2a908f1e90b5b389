"""A monitor's calls: intervals, records of all kinds, people, states, and what is refused."""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import json
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpoco
from dpoco import (
    Budget,
    EncryptionKey,
    HorizonExceeded,
    Participation,
    StateError,
)
from dpoco.random import Source
from dpoco.statistics import (
    Categories,
    Count,
    HalfLife,
    Histogram,
    Last,
    Mean,
    Monitor,
    Quantiles,
    Share,
    Sum,
)
from dpoco.statistics import _plan as planning

BUDGET = Budget(1.0, 1e-6)
ALL = {
    "n": Count(),
    "paid": Sum(0.0, 50.0),
    "latency": Mean(0.0, 1000.0),
    "failed": Share(),
    "sizes": Histogram((0.0, 10.0, 20.0), column="size"),
    "browser": Categories(("firefox", "chrome")),
    "tail": Quantiles((0.5, 0.95), tuple(range(0, 1001, 100)), column="latency"),
}


def exact(statistics=ALL, **options):
    return Monitor(statistics, **{"every": None, "releases": 50, "budget": None} | options)


def noisy(statistics=ALL, **options):
    given = {"every": None, "releases": 50, "budget": BUDGET, "source": Source.seeded(3)}
    return Monitor(statistics, **given | options)


def columns(n, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "paid": rng.uniform(-5.0, 80.0, n),
        "latency": np.where(rng.random(n) < 0.1, np.nan, rng.gamma(2.0, 150.0, n)),
        "failed": rng.random(n) < 0.2,
        "size": rng.normal(10.0, 8.0, n),
        "browser": rng.choice(["firefox", "chrome", "lynx"], n, p=[0.5, 0.3, 0.2]),
        "country": rng.choice(["DE", "FR", "US", "AT"], n),
        "user": rng.integers(0, 30, n),
    }


def records_of(table):
    names = list(table)
    return [dict(zip(names, row, strict=True)) for row in zip(*table.values(), strict=True)]


def test_values_are_those_of_the_records():
    table = columns(5000)
    monitor = exact()
    assert monitor.add_many(table) == []
    found = monitor.release()
    n, latency = 5000, np.clip(table["latency"], 0.0, 1000.0)
    assert found.value("n") == pytest.approx(n)
    assert found.value("paid") == pytest.approx(np.clip(table["paid"], 0.0, 50.0).sum(), rel=1e-6)
    assert found.value("latency") == pytest.approx(np.nanmean(latency), rel=1e-5)
    assert found.value("failed") == pytest.approx(table["failed"].mean())
    for low, high, label in [(-9e9, 0, "< 0"), (0, 10, "[0, 10)"), (20, 9e9, ">= 20")]:
        count = ((table["size"] >= low) & (table["size"] < high)).sum()
        assert found.value("sizes", label=label) == pytest.approx(count)
    assert found.value("browser", label="other") == pytest.approx(
        (table["browser"] == "lynx").sum()
    )
    median = np.nanmedian(latency)
    assert found.value("tail", label="0.5") == pytest.approx(median, abs=15.0)
    assert found.bounds("n") == pytest.approx((n, n))


def tables():
    table = columns(300)
    frame = pd.DataFrame(table)
    structured = frame.to_records(index=False)
    holes = frame.convert_dtypes()
    return {
        "columns": table,
        "frame": frame,
        "nullable": holes,
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "batch": pa.RecordBatch.from_pandas(frame, preserve_index=False),
        "structured": np.asarray(structured),
        "mappings": records_of(table),
    }


@pytest.mark.parametrize("kind", ["columns", "frame", "nullable", "arrow", "batch", "structured",
                                  "mappings", "one by one"])  # fmt: skip
def test_records_of_all_kinds_give_the_same_bits(kind):
    by = {"country": ["DE", "FR"]}
    expected, found = noisy(by=by), noisy(by=by)
    expected.add_many(columns(300))
    if kind == "one by one":
        for record in records_of(columns(300)):
            assert found.add(record) == []
    else:
        found.add_many(tables()[kind])
    one, other = expected.release(), found.release()
    assert np.array_equal(one.vectors["interval"], other.vectors["interval"])
    assert one.layout.groups == ("DE", "FR", "other")


def test_polars_tables():
    polars = pytest.importorskip("polars")
    expected, found = exact(), exact()
    expected.add_many(columns(100))
    found.add_many(polars.DataFrame(columns(100)))
    one, other = expected.release(), found.release()
    assert np.array_equal(one.vectors["interval"], other.vectors["interval"])
    with pytest.raises(ValueError, match="no column 'latency'"):
        found.add_many(polars.DataFrame(columns(100)).drop("latency"))


ODD = [None, math.nan, math.inf, -math.inf, 10**400, np.float32(3), pd.NA, True]


@pytest.mark.parametrize("value", ODD, ids=[str(i) for i in range(len(ODD))])
def test_no_value_decides_over_an_exception(value):
    statistics = {"x": Mean(0.0, 1.0), "y": Share(), "z": Categories(("a",)), "s": Sum(-1.0, 1.0)}
    record = dict.fromkeys(statistics, value)
    one, many = exact(statistics, by={"g": ["a"]}), exact(statistics, by={"g": ["a"]})
    one.add(record | {"g": value})
    many.add_many([record | {"g": value}])
    found, other = one.release(), many.release()
    assert np.array_equal(found.vectors["interval"], other.vectors["interval"])
    assert np.all(np.isfinite(found.vectors["interval"]))


def test_records_of_another_shape_count_nothing():
    monitor = exact()
    good = records_of(columns(2))
    monitor.add(good[0])
    for bad in ({"paid": 1.0}, good[1] | {"latency": "12"}, good[1] | {"paid": [1.0]}):
        with pytest.raises((ValueError, TypeError)):
            monitor.add(bad)
    table = columns(3)
    for wrong in (table | {"latency": ["a", "b", "c"]}, table | {"size": [1.0]}, {}):
        with pytest.raises((ValueError, TypeError)):
            monitor.add_many(wrong)
    with pytest.raises(TypeError, match="time would be ignored"):
        monitor.add(good[0], time="2026-01-01")
    with pytest.raises(TypeError, match="person would be ignored"):
        monitor.add(good[0], person=3)
    assert monitor.release().value("n") == pytest.approx(1.0)


def test_the_last_interval_is_the_last():
    monitor = exact(releases=2)
    monitor.release()
    monitor.add_many(columns(5))
    assert monitor.release().value("n") == pytest.approx(5.0)
    for call in (monitor.release, lambda: monitor.add(records_of(columns(1))[0])):
        with pytest.raises(HorizonExceeded, match="all 2 intervals"):
            call()
    assert monitor.round == 2


def test_intervals_by_the_clock_release_empty_ones_too():
    monitor = exact({"n": Count()}, every="1h", start="2026-01-01T00:00", releases=10)
    assert monitor.add({}, time="2026-01-01T00:10") == []
    assert monitor.add({}, time=dt.datetime(2026, 1, 1, 0, 59)) == []
    ended = monitor.add({}, time=pd.Timestamp("2026-01-01T03:00"))
    assert [r.value("n") for r in ended] == pytest.approx([2.0, 0.0, 0.0])
    assert [r.begin for r in ended] == [f"2026-01-01T0{h}:00:00" for h in range(3)]
    assert ended[-1].end == "2026-01-01T03:00:00"
    # A time that goes back counts in the running interval.
    assert monitor.add({}, time="2026-01-01T01:00") == []
    (last,) = monitor.advance("2026-01-01T04:30")
    assert last.value("n") == pytest.approx(2.0)
    with pytest.raises(HorizonExceeded):
        monitor.advance("2026-01-02")
    with pytest.raises(HorizonExceeded):
        monitor.add({}, time="2026-01-01T10:00")
    assert monitor.round == 4
    assert len(monitor.advance("2026-01-01T10:00")) == 6


def test_many_records_by_the_clock_are_those_one_by_one():
    rng = np.random.default_rng(4)
    times = pd.Timestamp("2026-03-01", tz="Europe/Berlin") + pd.to_timedelta(
        np.sort(rng.uniform(0.0, 30.0, 500)) + rng.normal(0.0, 0.5, 500), unit="h"
    )
    table = pd.DataFrame(columns(500)).assign(when=times)
    options = {"every": "1h", "start": "2026-02-28T22:00+01:00", "by": {"country": ["DE"]}}
    one, many = noisy(**options), noisy(**options)
    ended = []
    for record in table.to_dict("records"):
        ended += one.add(record, time=record["when"])
    found = many.add_many(table[:123], time="when") + many.add_many(table[123:], time=times[123:])
    assert len(found) == len(ended) == one.round == many.round > 28
    for left, right in zip(ended, found, strict=True):
        assert np.array_equal(left.vectors["interval"], right.vectors["interval"])
        assert (left.begin, left.end) == (right.begin, right.end)


@pytest.mark.parametrize(
    ("every", "start", "lengths"),
    [
        ("1D", "2026-03-28", [24, 23, 24]),  # the clock is put forward
        ("1D", "2026-10-24", [24, 25, 24]),
        ("1h", "2026-03-29 00:00", [1, 1, 1]),
        ("MS", "2026-02-01", [28 * 24, 31 * 24 - 1, 30 * 24]),
    ],
)
def test_days_and_months_are_those_of_the_calendar(every, start, lengths):
    begin = pd.Timestamp(start, tz="Europe/Berlin")
    monitor = exact({"n": Count()}, every=every, start=begin)
    late = begin + pd.Timedelta(hours=sum(lengths))
    ended = monitor.advance(late)
    hours = [(pd.Timestamp(r.end) - pd.Timestamp(r.begin)) / pd.Timedelta("1h") for r in ended]
    assert hours == lengths


def test_mixed_time_zones_are_refused():
    monitor = exact({"n": Count()}, every="1h")
    with pytest.raises(ValueError, match="with a time zone or all without"):
        monitor.add_many({}, time=["2026-01-01T00:00", "2026-01-01T00:00+01:00"])
    monitor.add({}, time="2026-01-01T00:10+01:00")
    for wrong in ("2026-01-01T00:20", "yesterday at noon", None, pd.NaT):
        with pytest.raises((ValueError, TypeError), match="time"):
            monitor.add({}, time=wrong)
    (ended,) = monitor.advance("2026-01-01T01:30+01:00")
    assert (ended.begin, ended.value("n")) == ("2026-01-01T00:00:00+01:00", pytest.approx(1.0))


def test_memory_does_not_grow_with_intervals():
    monitor = exact({"n": Count()}, every="1min", start="2026-01-01", releases=10_000)
    sizes = []
    for hour in range(150):
        monitor.advance(pd.Timestamp("2026-01-01") + pd.Timedelta(hours=hour))
        if hour % 10 == 0:
            sizes.append(len(monitor._payload()))
    assert max(sizes) == min(sizes[1:])
    assert len(monitor._clock._bounds) == 0  # intervals of one length are computed
    assert monitor.round == 149 * 60


def test_intervals_by_a_number_of_records():
    monitor = exact({"x": Mean(0.0, 1.0)}, every=3)
    ended = monitor.add_many({"x": [0.0] * 3 + [1.0] * 5})
    assert [r.value("x") for r in ended] == pytest.approx([0.0, 1.0], abs=1e-6)
    assert [len(monitor.add({"x": 0.5})) for _ in range(4)] == [1, 0, 0, 1]
    assert "emptied in place" in " ".join(exact(every=3, statistics={"x": Share()},
                                                budget=BUDGET).guarantee.conditions)  # fmt: skip


def test_people_count_as_often_as_they_may():
    rule = Participation(2, separation=2)
    monitor = exact({"n": Count()}, participation=rule, records_per_interval=2, releases=6)
    seen = []
    for _ in range(6):
        monitor.add_many({}, person=np.array([1, 1, 1, 2]))
        monitor.add({}, person=1)
        seen.append(monitor.release().value("n"))
    assert seen == pytest.approx([3.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    with pytest.raises(HorizonExceeded):
        monitor.add({}, person=1)
    other = exact({"n": Count()}, participation=rule)
    other.add({}, person="anna")
    for wrong in (3, b"anna", None, 1.5, True):
        with pytest.raises(TypeError):
            other.add({}, person=wrong)
    assert other.release().value("n") == pytest.approx(1.0)


def test_a_caller_may_keep_the_rule():
    rule = Participation(2, enforced=False)
    monitor = exact({"n": Count()}, participation=rule, budget=BUDGET)
    assert not monitor.guarantee.certified
    assert "the caller keeps each person" in " ".join(monitor.guarantee.conditions)


VIEWS = ["interval", "total", Last(3), HalfLife(2.0)]


KEY = EncryptionKey(hashlib.sha256(b"a test's key").digest())


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_state_goes_on_bit_for_bit(tmp_path, key):
    def fresh():
        return Monitor(
            ALL, every="1h", start="2026-01-01T00:00+01:00", releases=30, budget=BUDGET,
            participation=Participation(5, separation=2), records_per_interval=2, views=VIEWS,
            by={"country": ["DE", "FR"]}, weights={"n": 2.0}, source=Source.seeded(5),
        )  # fmt: skip

    table = columns(2000)
    hours = np.sort(np.random.default_rng(6).uniform(0.0, 20.0, 2000))
    times = pd.Timestamp("2026-01-01T00:00+01:00") + pd.to_timedelta(hours, unit="h")
    whole, path = fresh(), tmp_path / "monitor.dpoco"
    expected = whole.add_many(table, time=times, person="user")
    parts, found = fresh(), []
    for start in range(0, 2000, 170):
        part = {name: column[start : start + 170] for name, column in table.items()}
        found += parts.add_many(part, time=times[start : start + 170], person="user")
        parts.position = {"row": start + 170}
        parts.save(path, key=key)
        parts = dpoco.load(path, Monitor, key=key)
        assert parts.position == {"row": start + 170}
    assert len(found) == len(expected) == 19
    for one, other in zip(expected, found, strict=True):
        assert one.to_json() == other.to_json()
    assert parts.guarantee == whole.guarantee
    assert str(parts.plan()) == str(whole.plan())


def test_records_of_add_are_in_the_state(tmp_path):
    monitor = noisy()
    for record in records_of(columns(7)):
        monitor.add(record)
    monitor.save(tmp_path / "state")
    again = dpoco.load(tmp_path / "state")
    assert np.array_equal(
        monitor.release().vectors["interval"], again.release().vectors["interval"]
    )


def test_damaged_states_are_refused(tmp_path):
    monitor = noisy()
    monitor.add_many(columns(10))
    monitor.save(tmp_path / "state")
    data = (tmp_path / "state").read_bytes()
    for at in (40, len(data) // 2, len(data) - 40):
        broken = bytearray(data)
        broken[at] ^= 1
        (tmp_path / "broken").write_bytes(broken)
        (tmp_path / "broken").chmod(0o600)
        with pytest.raises(StateError):
            dpoco.load(tmp_path / "broken")


def test_copies_share_no_noise():
    monitor = noisy()
    monitor.add_many(columns(3))
    with pytest.raises(StateError, match="clone"):
        copy.copy(monitor)
    copied = pickle.loads(pickle.dumps(monitor))
    with pytest.raises(StateError, match="suspended"):
        copied.release()
    fresh = Monitor(ALL, every=None, releases=5, budget=BUDGET).clone()
    assert fresh.round == 0


def test_releases_in_all_forms():
    monitor = noisy(by={"country": ["DE"]}, views=["interval", "total"])
    monitor.add_many(columns(3000))
    found = monitor.release()
    cells = found.cells()
    assert len(cells) == 2 * 2 * (1 + 1 + 1 + 1 + 4 + 3 + 2)
    frame = found.to_frame()
    assert list(frame.columns[:5]) == ["interval", "begin", "end", "view", "statistic"]
    assert len(frame) == len(cells)
    record = json.loads(found.to_json())
    assert record["cells"][0]["value"] == cells[0].value
    wide = found.cells(simultaneous=True)
    assert all(b.low <= a.low and a.high <= b.high for a, b in zip(cells, wide, strict=True))
    counts = [c for c in found.cells(integers=True) if c.statistic in ("n", "sizes", "browser")]
    assert all(c.value >= 0.0 and c.value == int(c.value) for c in counts)
    text = found.open_metrics()
    assert text.endswith("# EOF\n")
    assert "# TYPE dpoco_n gauge" in text
    assert 'dpoco_browser{view="interval",group="DE",label="firefox"} ' in text
    assert str(found).startswith("0  interval: n DE ")
    assert "\n" not in str(found)
    with pytest.raises(KeyError, match=r"no group '' .* it has the groups .'DE'"):
        found.value("n")
    with pytest.raises(KeyError, match="no statistic 'sises'; did you mean 'sizes'"):
        found.value("sises")
    with pytest.raises(KeyError, match="no view 'day'; it is one of: interval"):
        found.value("n", "day", group="DE")
    with pytest.raises(ValueError, match="level"):
        found.bounds("n", group="DE", level=1.0)


def test_an_empty_interval_says_unknown():
    monitor = noisy({"x": Mean(0.0, 1.0)})
    found = monitor.release()
    assert found.value("x") is None
    assert found.bounds("x") == (0.0, 1.0)
    assert "unknown" in str(found)
    assert json.loads(found.to_json())["cells"][0]["value"] is None
    assert 'dpoco_x{view="interval"} NaN' in found.open_metrics()


def test_weights_trade_noise():
    plain = {row.statistic: row.deviation for row in noisy().plan().rows}
    heavy = {row.statistic: row.deviation for row in noisy(weights={"n": 2.0}).plan().rows}
    assert heavy["n"] < plain["n"]
    assert heavy["paid"] == pytest.approx(2.0 * heavy["n"])


def test_many_records_saturate_and_do_not_wrap():
    tally = dpoco._core.Tally([("one", 0, 1, 2.0**50, [], [])], 1)
    cells = np.array([2**61 - 2**50 - 1], dtype=np.int64)
    tally.add([], None, None, 5, cells)
    assert cells[0] == 2**61


class Slow(dict):
    """A mapping that the compiled reader of dictionaries leaves to Python."""


PLAIN = [3, -2, 2.5, True, False, None, math.nan, math.inf, 10**400, "12", [1.0]]
NAMES = ["a", "b", "c", 7, True, None, 2.0, ("a",)]


def test_plain_records_are_read_as_all_others():
    statistics = {
        "n": Count(), "x": Mean(-5.0, 5.0), "y": Share(column="x"), "z": Categories(("a", 7)),
    }  # fmt: skip
    by = {"g": ["a", 7]}
    for value in PLAIN:
        for name in NAMES:
            record, seen = {"x": value, "z": name, "g": name}, []
            for kind in (dict, Slow):
                monitor = exact(statistics, by=by)
                try:
                    monitor.add(kind(record))
                except (TypeError, ValueError) as error:
                    seen.append((type(error), str(error)))
                else:
                    seen.append(monitor.release().vectors["interval"].tolist())
            assert seen[0] == seen[1], (value, name)
    for kind in (dict, Slow):
        with pytest.raises(ValueError, match="no column 'g'"):
            exact(statistics, by=by).add(kind(x=1.0, z="a"))


def test_ten_thousand_plain_records_are_counted_in_order():
    one, other = noisy({"x": Mean(0.0, 1.0)}, releases=2), noisy({"x": Mean(0.0, 1.0)}, releases=2)
    values = np.random.default_rng(2).random(10_000).tolist()
    for value in values:
        assert one.add({"x": value}) == []
    other.add_many({"x": values})
    assert np.array_equal(one.release().vectors["interval"], other.release().vectors["interval"])
    one.release()
    with pytest.raises(HorizonExceeded):
        one.add({"x": 0.5})


@pytest.mark.parametrize("kind", [dt.datetime, pd.Timestamp])
def test_times_are_seen_to_lie_in_the_running_interval_or_not(kind):
    rng = np.random.default_rng(4)
    seconds = np.sort(rng.uniform(0.0, 5 * 3600.0, 300)) - rng.exponential(300.0, 300)
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    times = [begin + dt.timedelta(seconds=s) for s in seconds.tolist()]
    start = pd.Timestamp(begin)
    one = noisy({"n": Count()}, every="1h", start=start)
    many = noisy({"n": Count()}, every="1h", start=start)
    ended = []
    for time in times:
        ended += one.add({}, time=time if kind is dt.datetime else pd.Timestamp(time))
    for left, right in zip(ended, many.add_many({}, time=times), strict=True):
        assert np.array_equal(left.vectors["interval"], right.vectors["interval"])
    for wrong in (dt.datetime(2026, 1, 1, 5), pd.NaT, None, 3.5):
        with pytest.raises((ValueError, TypeError), match="time"):
            one.add({}, time=wrong)
    edge = begin + dt.timedelta(hours=one.round + 1)  # belongs to the next interval
    assert len(one.add({}, time=edge)) == 1


def test_a_view_is_not_longer_than_the_stream():
    with pytest.raises(ValueError, match="'last 51' is longer than all 50 intervals"):
        exact(views=[Last(51)])
    with pytest.raises(ValueError, match="calendar"):
        exact({"n": Count()}, every="400YS")


def test_late_records_are_counted_and_their_number_is_not_published():
    monitor = exact({"n": Count()}, every="1h", start="2026-01-01T00:00")
    monitor.add({}, time="2026-01-01T02:10")
    monitor.add_many({}, time=["2026-01-01T00:30", "2026-01-01T02:20", "2026-01-01T01:59"])
    (found,) = monitor.advance("2026-01-01T03:00")
    assert found.value("n") == pytest.approx(4.0)
    assert "late" not in found.to_json()
    assert set(json.loads(found.to_json())) == {
        "kind", "interval", "begin", "end", "level", "cells",
    }  # fmt: skip


def test_unknown_groups_are_other():
    monitor = exact({"n": Count()}, by={"country": ["DE"]})
    monitor.add_many({"country": ["DE", "XX", None, "de"]})
    found = monitor.release()
    assert found.value("n", group="DE") == pytest.approx(1.0)
    assert found.value("n", group="other") == pytest.approx(3.0)


def test_more_people_than_there_is_room_for_are_refused_at_once():
    rule = Participation(1, max_persons=2)
    monitor = exact({"n": Count()}, participation=rule)
    for person in (1, 2):
        monitor.add({}, person=person)
    with pytest.raises(dpoco.RoundOrderError, match="no room"):
        monitor.add({}, person=3)
    assert monitor.release().value("n") == pytest.approx(2.0)


@pytest.mark.parametrize("room", [12, 13, 10_000])
@pytest.mark.parametrize("every", [None, 7])
def test_people_one_by_one_are_those_of_a_batch(room, every, tmp_path):
    """Records of people wait to be added up, also where there is room for only few others."""
    rng = np.random.default_rng(4)
    people, values = rng.integers(-6, 6, 300), rng.uniform(-1.0, 2.0, 300)
    people[:2] = -(2**63), 2**63 - 1
    rule = Participation(3, separation=2, max_persons=room + 2)
    options = {"participation": rule, "records_per_interval": 2, "every": every, "releases": 60}
    one, batch = (exact({"x": Sum(0.0, 1.0)}, **options) for _ in range(2))
    ours, theirs = [], []
    for start in range(0, 300, 20):
        for at in range(start, start + 20):
            # Records that the compiled recorder takes, and such that it leaves to Python.
            value = float(values[at]) if at % 3 else np.float64(values[at])
            ours += one.add({"x": value}, person=int(people[at]))
        table = {"x": values[start : start + 20]}
        theirs += batch.add_many(table, person=people[start : start + 20])
        if every is None:
            ours.append(one.release())
            theirs.append(batch.release())
        elif start == 100:
            one.save(tmp_path / "state")
            one = dpoco.load(tmp_path / "state", Monitor)
    assert len(ours) == (15 if every is None else 300 // 7)
    assert [each.value("x") for each in ours] == [each.value("x") for each in theirs]


def test_a_person_whose_record_was_not_taken_leaves_no_trace():
    monitor, same = (exact({"x": Sum(0.0, 1.0)}, participation=Participation(1)) for _ in range(2))
    for each in (monitor, same):
        each.add({"x": 1.0}, person=1)
    with pytest.raises(TypeError, match="column"):
        monitor.add({"x": "text"}, person=2)
    # As an interrupt between a person and her record would leave it.
    monitor._waiting += bytes(16)
    for each in (monitor, same):
        each.add({"x": 0.5}, person=2)
        each.add({"x": 0.5}, person=2)
    assert monitor.release().value("x") == same.release().value("x") == pytest.approx(1.5)


def test_a_half_life_of_many_digits_is_the_same_after_a_state(tmp_path):
    view = HalfLife(1.0 / 3.0)
    monitor = noisy({"n": Count()}, views=[view, HalfLife(0.333333)])
    assert monitor.add_many({}) == []  # no record is a batch as any other
    monitor.release()
    monitor.save(tmp_path / "state")
    other = dpoco.load(tmp_path / "state", Monitor)
    assert other.get_params()["views"][0] == view
    ours, theirs = monitor.release(), other.release()
    assert len(ours.vectors) == 2
    for name, vector in ours.vectors.items():
        assert np.array_equal(vector, theirs.vectors[name])


def test_labels_tell_bins_and_quantiles_apart():
    edges = (1234567.0, 1234568.0, 1234569.0)
    monitor = exact({
        "x": Histogram(edges),
        "q": Quantiles((0.9999991, 0.9999992), edges, column="x"),
    })  # fmt: skip
    monitor.add_many({"x": [1234567.5, 1234568.5, 1234568.6]})
    release = monitor.release()
    labels = [(cell.statistic, cell.label) for cell in release.cells()]
    assert len(set(labels)) == len(labels)
    assert release.value("x", label="[1234567.0, 1234568.0)") == pytest.approx(1.0)


def test_groups_have_different_labels():
    by = {"city": ["Paris", "Paris, TX"], "shop": ["TX, 1", "1"]}
    with pytest.raises(ValueError, match="same label"):
        exact({"n": Count()}, by=by)
    for values in (["1", 1], ["a", "other"], [True, "True"]):
        with pytest.raises(ValueError, match="must differ"):
            exact({"n": Count()}, by={"x": values})
        with pytest.raises(ValueError, match="must differ"):
            Categories(values)


def test_releases_that_were_read_are_pickled():
    monitor = exact({"n": Count(), "x": Mean(0.0, 1.0)})
    monitor.add_many({"x": [0.5, 0.25]})
    release = monitor.release()
    other = pickle.loads(pickle.dumps((release.value("x"), release)))[1]
    assert other.to_json() == release.to_json()
    assert copy.deepcopy(release).to_json() == release.to_json()


def test_a_half_life_without_a_memory_is_that_of_single_intervals():
    one, other = noisy(views=[HalfLife(1e-5)]), noisy(views=["interval"])
    assert one.plan().total == other.plan().total


def test_the_noise_of_a_long_stream_is_computed_when_it_is_asked_for():
    monitor = noisy({"n": Count()}, views=["total"], releases=10**9)
    assert 0.0 < monitor.release().deviations["total"] < 100.0
    few = noisy({"n": Count()}, views=["total"], releases=1000)
    assert [few.release().deviations["total"] for _ in range(3)] == [
        few._mechanism.scale * each
        for each in planning.row_norms(few._mechanism.factorisation, "total", 1000)[:3]
    ]
    with pytest.raises(MemoryError, match="every interval"):
        noisy({"n": Count()}, releases=10**12)


def test_a_number_of_records_may_be_one_of_numpy():
    monitor = exact({"x": Mean(0.0, 1.0)}, every=np.int64(5))
    assert len(monitor.add_many({"x": np.zeros(11)})) == 2


def test_people_without_a_largest_number_need_no_noise():
    rule = Participation(None, separation=2)
    monitor = exact({"n": Count()}, participation=rule, releases=5)
    for person, count in ((1, 1), (1, 0), (1, 1)):
        monitor.add({}, person=person)
        assert monitor.release().value("n") == pytest.approx(count)
    assert not monitor.guarantee.private


def test_a_second_thread_ends_no_interval_twice():
    monitor = exact({"n": Count()}, every="1h", start="2026-01-01")
    with monitor._alone(), pytest.raises(dpoco.RoundOrderError, match="another thread"):
        monitor.add({}, time="2026-01-01T05:00")
    assert monitor.round == 0


def test_a_release_that_an_interrupt_lost_is_not_skipped_silently(tmp_path):
    """The next interval's view would be of both, with the error bars of one."""
    monitor = noisy({"n": Count()}, views=["interval", Last(2)])
    for count in (3, 4):
        monitor.add_many([{}] * count)
        monitor.release()
    monitor.save(tmp_path / "state")
    engine = monitor._engine

    class Interrupted:
        def __getattr__(self, name):
            return getattr(engine, name)

        def push(self, total):
            engine.push(total)
            raise KeyboardInterrupt

    monitor.add_many([{}] * 5)
    monitor._engine = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        monitor.release()
    monitor._engine = engine
    with pytest.raises(StateError, match="lost"):
        monitor.release()
    again = dpoco.load(tmp_path / "state", Monitor)
    again.add_many([{}] * 5)
    assert again.release().interval == 2


@pytest.mark.parametrize("weight", [1e-9, 1e-90])
@pytest.mark.parametrize("budget", [None, dpoco.Budget(1.0, 1e-6)])
def test_a_weight_below_the_grid_is_refused_before_noise_is_drawn(weight, budget):
    # Its cells would always be 0, and its release would divide by that.
    given = {"n": Count(), "x": Mean(0.0, 1.0)}
    with pytest.raises(ValueError, match="weights are too far apart"):
        Monitor(given, every=None, releases=10, budget=budget, weights={"n": weight})
    light = Monitor(given, every=None, releases=10, budget=budget, weights={"n": 1e-4})
    light.add_many({"x": [0.5] * 10})
    assert light.release().value("n") is not None


@pytest.mark.parametrize("kind", [Sum, Mean])
def test_ranges_whose_error_bars_would_overflow_or_vanish_are_refused(kind):
    for low, high in ((-1e308, 1e307), (1e300, 2e300), (0.0, 5e-324), (0.0, 1e-200)):
        with pytest.raises(ValueError, match="low"):
            kind(low, high)
    for low, high in ((-1e100, 1e100), (0.0, 1e-100)):
        monitor = Monitor(
            {"x": kind(low, high)}, every=None, releases=2, budget=dpoco.Budget(1.0, 1e-6)
        )
        monitor.add_many({"x": [low, high] * 500})
        (cell,) = monitor.release().cells()
        assert cell.deviation > 0.0
        assert np.isfinite([cell.low, cell.high]).all()


def test_a_lattice_that_is_too_coarse_names_what_a_monitor_has():
    with pytest.raises(dpoco.CalibrationError, match="fewer records of a person") as caught:
        Monitor(
            {"n": Count()}, every=None, releases=10, budget=dpoco.Budget(1.0, 1e-6),
            participation=dpoco.Participation(5), records_per_interval=10**9,
        )  # fmt: skip
    assert "numerics" not in str(caught.value)


def test_what_is_masked_is_missing():
    masked = np.ma.masked_array([1.0, 1.0, 1.0], [False, True, False])
    names = np.ma.masked_array(["chrome", "chrome", "opera"], [True, False, False])
    table = {"paid": masked, "browser": names}
    statistics = {key: ALL[key] for key in ("n", "paid", "browser")}
    monitor, plain = exact(statistics), exact(statistics)
    monitor.add_many(table)
    plain.add_many({"paid": [1.0, None, 1.0], "browser": [None, "chrome", "opera"]})
    assert (
        monitor.release().vectors["interval"].tolist()
        == plain.release().vectors["interval"].tolist()
    )
    whole = exact({"paid": Sum(0.0, 50.0)})
    whole.add_many({"paid": np.ma.masked_array([7, 9], [False, True])})
    assert whole.release().value("paid") == pytest.approx(7.0, abs=1e-3)
    clock = exact({"n": Count()}, every="1h")
    times = np.array(["2024-01-01", "2024-01-02"], "datetime64[s]")
    with pytest.raises(ValueError, match="must not be missing"):
        clock.add_many({"x": [1.0, 2.0]}, time=np.ma.masked_array(times, [False, True]))
    people = exact({"n": Count()}, participation=Participation(1))
    with pytest.raises(TypeError, match="all int"):
        people.add_many({"x": [1, 2]}, person=np.ma.masked_array([1, 2], [False, True]))


def test_an_interrupted_call_says_which_records_may_have_been_counted(monkeypatch):
    monitor = exact({"n": Count()}, every="1h", start="2024-01-01")
    times = np.array([f"2024-01-01T0{hour}:00" for hour in (0, 0, 1, 2, 2)], "datetime64[s]")
    add, seen = monitor._part.add, []

    def stop(*given):
        add(*given)
        seen.append(given[-1])
        if sum(seen) == 3:
            raise KeyboardInterrupt

    monitor._part.add = stop
    with pytest.warns(UserWarning, match="the first 3 of its 5"), pytest.raises(KeyboardInterrupt):
        monitor.add_many({"x": np.zeros(5)}, time=times)
    monitor._part.add = add
    (ended,) = monitor.add_many({"x": np.zeros(2)}, time=times[3:])
    assert ended.value("n") == 1.0

    def interrupt(*given):
        raise KeyboardInterrupt

    monitor._add_checked = interrupt
    monitor._take = lambda record: False
    with pytest.warns(UserWarning, match="may have been counted"), pytest.raises(KeyboardInterrupt):
        monitor.add({"x": 1.0}, time=times[4])
    # What is refused counts nothing, and is no reason for a warning.
    plain = exact({"n": Count()})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError):
            plain.add_many({"x": [1.0]}, person=[1])
