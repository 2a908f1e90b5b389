"""Boundaries of intervals: time zones, the ends of the calendar, and times that are refused."""

from __future__ import annotations

import datetime as dt
import pickle
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import dpoco
from dpoco import HorizonExceeded
from dpoco.statistics import Count, Monitor
from dpoco.statistics._clock import Clock


def counter(every, **options):
    given = {"every": every, "releases": 50, "budget": None}
    return Monitor({"n": Count()}, **given | options)


def moved(monitor, tmp_path):
    """Return the monitor of a state that was saved."""
    monitor.save(tmp_path / "state")
    return dpoco.load(tmp_path / "state", Monitor)


@pytest.mark.parametrize(
    ("zone", "skipped"),
    [
        ("America/Santiago", "2026-09-06"),
        ("Africa/Cairo", "2026-04-24"),
        ("Asia/Beirut", "2026-03-29"),
    ],
)
def test_days_whose_midnight_is_skipped(zone, skipped):
    begin = (pd.Timestamp(skipped) - pd.Timedelta(days=4)).tz_localize(zone)
    monitor = counter("1D", start=begin)
    for day in range(12):
        time = begin.tz_localize(None) + pd.Timedelta(days=day, hours=12)
        ended = monitor.add({}, time=time.tz_localize(zone))
        assert len(ended) == (day > 0)
        if ended:
            shown = [pd.Timestamp(ended[0].begin), pd.Timestamp(ended[0].end)]
            assert [each.date() for each in shown] == [
                (begin.tz_localize(None) + pd.Timedelta(days=day - back)).date() for back in (1, 0)
            ]


def test_a_first_day_without_a_midnight_goes_on_at_midnights(tmp_path):
    noon = pd.Timestamp("2026-09-06 12:00", tz="America/Santiago")  # no midnight on this day
    monitor = counter("1D")
    monitor.add({}, time=noon)
    monitor = moved(monitor, tmp_path)
    (ended,) = monitor.add({}, time=noon + pd.Timedelta(days=1))
    assert (ended.begin, ended.end) == ("2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00")


@pytest.mark.parametrize("fold", [0, 1])
def test_the_first_interval_of_an_hour_that_comes_twice(fold):
    time = dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    monitor = counter("1h")
    assert monitor.add({}, time=time) == []
    (ended,) = monitor.advance(pd.Timestamp(time) + pd.Timedelta(hours=1))
    assert ended.value("n") == pytest.approx(1.0)
    assert ended.begin == f"2026-10-25T02:00:00+0{2 - fold}:00"


@pytest.mark.parametrize("every", ["1h", "1D", "MS"])
def test_a_first_midnight_that_comes_twice(every):
    time = dt.datetime(2026, 11, 1, 0, 30, tzinfo=ZoneInfo("America/Havana"), fold=1)
    monitor = counter(every)
    monitor.add({}, time=time)
    assert monitor.add({}, time=time + dt.timedelta(minutes=20)) == []


def test_texts_of_a_summer_and_a_winter():
    monitor = counter("1h")
    times = ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T05:10:00+02:00"]
    ended = monitor.add_many({}, time=times)
    assert [each.value("n") for each in ended] == pytest.approx([1.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="all with a time zone"):
        monitor.add_many({}, time=[*times, "2026-03-29T06:00:00"])


@pytest.mark.parametrize("every", ["QS", "YS", "10YS", "MS"])
def test_long_intervals_reach_to_the_end_of_the_calendar(every):
    monitor = counter(every, start="2020-01-01", releases=5000)
    ended = monitor.advance("2230-01-15")
    assert monitor.round == {"QS": 840, "YS": 210, "10YS": 21, "MS": 2520}[every] == len(ended)
    assert ended[-1].end == "2230-01-01T00:00:00"
    with pytest.raises(ValueError, match="calendar"):
        monitor.advance("2262-04-10")
    assert monitor.round == len(ended)


def test_a_time_far_ahead_is_refused_at_once():
    monitor = counter("1min", start="2026-01-01")
    with pytest.raises(HorizonExceeded):
        monitor.add({}, time="2226-01-01")
    with pytest.raises(HorizonExceeded):
        monitor.advance("2226-01-01")
    with pytest.raises(ValueError, match="calendar"):
        counter("400D", start="2026-01-01").add({}, time="2262-04-11")
    early = counter("1min", start="2262-01-01")
    assert early.add({}, time="1678-01-01") == []  # before the first interval: it counts there


@pytest.mark.parametrize("every", ["0h", "-1h", "-1D", dt.timedelta(0)])
def test_intervals_take_time(every):
    with pytest.raises(ValueError, match="every must"):
        counter(every, start="2026-01-01")


def test_times_that_are_refused_begin_nothing():
    monitor = counter("1h")
    for times in (["2020-01-01"] * 3, [["2020-01-01"] * 2]):
        with pytest.raises(ValueError, match="time must"):
            monitor.add_many({"x": np.zeros(2)}, time=times)
    monitor.add({}, time="2026-01-01T00:10+01:00")
    (ended,) = monitor.advance("2026-01-01T01:00+01:00")
    assert ended.begin == "2026-01-01T00:00:00+01:00"


def test_a_local_time_of_the_system_is_a_difference_from_utc(tmp_path):
    # As `datetime.now().astimezone()` has it. "CET" is also the name of a zone with summers.
    zone = dt.timezone(dt.timedelta(hours=1), "CET")
    summer = dt.timezone(dt.timedelta(hours=-4), "EDT")
    for each in (zone, summer):
        monitor = counter("1D", releases=400)
        monitor.add({}, time=dt.datetime(2026, 1, 1, 12, tzinfo=each))
        other = moved(monitor, tmp_path)
        ends = [m.advance(dt.datetime(2026, 7, 1, tzinfo=each))[-1].end for m in (monitor, other)]
        assert ends[0] == ends[1]
        assert ends[0].startswith("2026-07-01T00:00:00")


class Nameless(dt.tzinfo):
    def utcoffset(self, when):
        return dt.timedelta(hours=1)

    def dst(self, when):
        return dt.timedelta(0)

    def tzname(self, when):
        return "here"


def test_zones_without_a_name_are_refused():
    # A state could not bring them back.
    monitor = counter("1h")
    with pytest.raises(ValueError, match="zoneinfo"):
        monitor.add({}, time=dt.datetime(2026, 1, 1, tzinfo=Nameless()))
    monitor.add({}, time="2026-01-01T00:10+01:00")


def test_a_pickle_keeps_the_start():
    start = pd.Timestamp("2026-01-01", tz="Europe/Berlin")
    monitor = pickle.loads(pickle.dumps(counter("1h", start=start)))
    for each in (monitor, monitor.clone()):
        ended = each.add({}, time=start + pd.Timedelta(hours=2))
        assert len(ended) == 2
        assert each.get_params()["start"] == start


@pytest.mark.parametrize(
    "every", [pd.DateOffset(months=1), pd.offsets.CustomBusinessDay(holidays=["2026-03-12"])]
)
def test_intervals_without_a_name_are_refused(every):
    # A state could not bring them back.
    with pytest.raises(ValueError, match="has a name"):
        counter(every)


@pytest.mark.parametrize(
    "every", [pd.offsets.Hour(9), dt.timedelta(hours=20), "2W-MON", "SMS", "B", "ME", "90min", "3D"]
)
def test_intervals_of_any_name_go_on_after_a_state(every, tmp_path):
    time = pd.Timestamp("2026-03-10 05:30", tz="Europe/Berlin")
    monitor = counter(every, releases=2000)
    monitor.add({}, time=time)
    other = moved(monitor, tmp_path)
    later = time + pd.Timedelta(days=40)
    ends = [(each.begin, each.end) for each in monitor.advance(later)]
    assert ends == [(each.begin, each.end) for each in other.advance(later)]
    assert pd.Timestamp(ends[0][0]) <= time < pd.Timestamp(ends[0][1])
    assert pd.Timestamp(ends[-1][1]) <= later
    assert [each[0] for each in ends[1:]] == [each[1] for each in ends[:-1]]


@pytest.mark.parametrize("every", ["1h", "1D", "MS"])
def test_no_interval_ends_before_one_has_begun(every):
    monitor = counter(every)
    with pytest.raises(ValueError, match="no interval has begun"):
        monitor.release()
    assert monitor.round == 0
    monitor.add({}, time="2026-03-01 08:30")
    assert monitor.release().begin.startswith("2026-03-01T0")


@pytest.mark.parametrize(
    "texts",
    [
        ["2026-01-01T10:00:00.5", "2026-01-01T10:00:01"],  # as isoformat writes whole seconds
        ["2026-01-01 10:00", "2026-01-01T10:00:01"],
        ["2026-01-01T10:30:00.5+01:00", "2026-01-03T10:30+02:00"],
    ],
)
def test_a_text_does_not_decide_how_the_next_ones_are_written(texts):
    batch, single = counter("1D"), counter("1D")
    ended = [batch.add_many({}, time=texts), [r for t in texts for r in single.add({}, time=t)]]
    for monitor, releases in zip((batch, single), ended, strict=True):
        releases.append(monitor.release())
    first, second = ([(r.begin, r.end, r.value("n")) for r in releases] for releases in ended)
    assert first == second
    assert sum(count for *_, count in first) == len(texts)


@pytest.mark.parametrize(
    "texts",
    [
        # A day above 12 would turn day and month of the texts behind it.
        ["13/02/2026 10:00", "03/02/2026 10:00"],
        ["03/02/2026 10:00"],
        ["10:30"],
        ["now"],
        ["today"],
        ["13/02/2026 10:00+01:00", "2026-01-01T00:00+02:00"],
    ],
)
def test_texts_are_those_of_iso_8601_alone(texts):
    with pytest.raises(ValueError, match="ISO 8601"):
        counter("1h").add_many({}, time=texts)
    with pytest.raises(ValueError, match="ISO 8601"):
        counter("1h").add({}, time=texts[0])
    with pytest.raises(ValueError, match="ISO 8601"):
        counter("1h", start=texts[0])


@pytest.mark.parametrize("number", [1767225600, 1767225600.5, True, np.int64(1767225600)])
def test_numbers_are_no_times_because_nobody_says_their_unit(number):
    for call in (
        lambda: counter("1h").add({}, time=number),
        lambda: counter("1h").add_many({}, time=[number]),
        lambda: counter("1h", start=number),
    ):
        with pytest.raises(ValueError, match="unit"):
            call()
    with pytest.raises(ValueError, match="must not be missing"):
        counter("1h").add_many({}, time=[np.nan])


@pytest.mark.parametrize("zone", ["Europe/Berlin", None])
@pytest.mark.parametrize("library", ["polars", "arrow"])
def test_columns_of_every_library_keep_their_time_zone(library, zone):
    times = pd.to_datetime(["2026-01-01T23:30", "2026-01-02T00:30"]).tz_localize(zone)
    frame = pd.DataFrame({"at": times})
    if library == "polars":
        table = pytest.importorskip("polars").from_pandas(frame)
    else:
        table = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    begins = []
    for records in (frame, table):
        monitor = counter("1D")
        begins.append([r.begin for r in [*monitor.add_many(records, time="at"), monitor.release()]])
    assert begins[0] == begins[1]
    assert len(begins[0]) == 2


def test_the_rules_of_a_zone_do_not_change_with_a_state():
    # Pandas finds other rules than zoneinfo for some names, and those that it found before.
    time = dt.datetime(2026, 11, 1, 0, 30, tzinfo=ZoneInfo("America/Havana"), fold=1)
    clock, again = Clock("1D"), Clock("1D")
    clock.times([time], 1)
    again.restore(clock.state())
    later = clock.times([time + dt.timedelta(days=days) for days in range(0, 400, 7)], 58)
    assert again.intervals(later).tolist() == clock.intervals(later).tolist()
    assert [again.bounds(i) for i in range(400)] == [clock.bounds(i) for i in range(400)]
    assert isinstance(again._zone, ZoneInfo)
