"""Runs of files whose ranges nothing says: a private search in the first rows, one guarantee."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpoco

ROWS = 5300
OPTIONS = (
    "--features", "heat,time", "--label", "alarm", "--learner", "noisy-newton",
    "--set", "figure=false", "--set", "repeats=1", "--set", "progress=false",
)  # fmt: skip


def write(path, start, stop, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(20_000, 2))[start:stop]
    lines = ["heat,time,alarm,user"]
    for place, ((a, b), label) in enumerate(zip(z, (z @ [1.0, -1.0] > 0.0) + 0, strict=True)):
        heat = "" if place % 40 == 7 else f"{5e5 + 1e3 * a:.3f}"
        lines.append(f"{heat},{1.6e9 + 1e5 * b:.0f},{label},u{place // 2}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "events.csv", 0, ROWS)
    return tmp_path


def test_ranges_are_found_and_certified_with_the_learner(events, invoke):
    """Takes a second: three plays of five thousand rows."""
    result = invoke("run", "events.csv", *OPTIONS, "--decision", "model.json")
    assert "no --range of heat, time: a private search for ranges takes" in result.stderr
    report = json.loads((events / "results/report.json").read_text())
    guarantee = dpoco.Guarantee.from_dict(report["guarantee"])
    search, _ = guarantee.description.parts
    first = search.longest
    assert guarantee.description.lemma == "ranges"
    assert guarantee.horizon == ROWS
    assert report["stream"]["rounds"] == ROWS - first
    assert max(report["private"]["average_losses"]) < 0.6
    model = dpoco.Model.load(events / "model.json")
    assert model.guarantee.description.lemma == "ranges"
    model.guarantee.verify()
    ranges = dict(zip(model.features, model.ranges, strict=True))
    assert 4.97e5 < ranges["heat"][0] < ranges["heat"][1] < 5.03e5
    assert 1.5995e9 < ranges["time"][0] < ranges["time"][1] < 1.6005e9
    assert model.coding.missing["heat"] == pytest.approx(sum(ranges["heat"]) / 2)


def test_a_saved_learner_goes_on_without_a_search(events, invoke):
    """Takes seconds: four plays of files."""
    write(events / "more.csv", ROWS, ROWS + 300)
    asked = ("--horizon", "6000", "--checkpoint", "state")
    invoke("run", "events.csv", *OPTIONS, *asked)
    played = dpoco.load("state").round
    again = invoke("run", "more.csv", "--checkpoint", "state", "--resume", "--set", "figure=false")
    assert "search" not in again.stderr
    state = dpoco.load("state")
    assert state.round == played + 300
    report = json.loads((events / "results/report.json").read_text())
    guarantee = dpoco.Guarantee.from_dict(report["guarantee"])
    assert guarantee.description.lemma == "ranges"
    assert guarantee.horizon == 6000
    # The same file with more rows: neither the search nor the learner gets a row again.
    write(events / "events.csv", 0, ROWS + 400)
    more = ("--resume", "--set", "skip-played=true", "--set", "figure=false")
    invoke("run", "events.csv", "--checkpoint", "state", *more)
    assert dpoco.load("state").round == played + 400


def test_people_are_limited_in_the_search_too(events, invoke):
    people = ("--rounds-per-person", "2", "--person", "user", "--epsilon", "8")
    write(events / "events.csv", 0, 12_000)
    invoke("run", "events.csv", *OPTIONS, *people, "--set", "baseline=false")
    report = json.loads((events / "results/report.json").read_text())
    guarantee = dpoco.Guarantee.from_dict(report["guarantee"])
    assert guarantee.person == [2, 1] or guarantee.person == (2, 1)
    assert 7.9 < guarantee.epsilon <= 8.0
    guarantee.verify()


def test_too_few_rows_are_refused_by_public_sizes(events, refused):
    write(events / "events.csv", 0, 300)
    error = refused("run", "events.csv", *OPTIONS)
    assert "--range COLUMN=LOW:HIGH for heat, time" in error
    assert "takes 500 records, and a tenth of 300 rounds is 30" in error
    assert "centre" not in error  # an argument of Python
    write(events / "events.csv", 0, 300, seed=5)
    assert refused("run", "events.csv", *OPTIONS) == error


def test_columns_without_values_or_changes_do_not_stop_a_run(events, invoke):
    lines = (events / "events.csv").read_text().splitlines()
    heads = ["heat,time,alarm,same,empty"]
    rows = [f"{','.join(line.split(',')[:3])},7,{'1' if i < 9 else ''}"
            for i, line in enumerate(lines[1:])]  # fmt: skip
    (events / "events.csv").write_text("\n".join([*heads, *rows]) + "\n")
    asked = ("--features", "heat,time,same,empty", *OPTIONS[2:], "--decision", "model.json")
    write_more = [*rows, *rows]
    (events / "events.csv").write_text("\n".join([*heads, *write_more]) + "\n")
    invoke("run", "events.csv", *asked)
    model = dpoco.Model.load(events / "model.json")
    low, high = dict(zip(model.features, model.ranges, strict=True))["empty"]
    assert high - low > 1e20  # off: all values are next to the middle


def test_who_had_the_only_round_in_the_search_has_none_behind_it(events, invoke):
    """Takes seconds: two runs of twelve thousand rows."""
    people = ("--rounds-per-person", "1", "--person", "user", "--epsilon", "8")
    write(events / "events.csv", 0, 12_000)
    head, *rows = (events / "events.csv").read_text().splitlines()
    last = [f"0,1.6e9,1,u{place}" for place in range(200)]
    (events / "events.csv").write_text("\n".join([head, *rows, *last]) + "\n")
    invoke("run", "events.csv", *OPTIONS, *people, "--checkpoint", "state")
    learner = dpoco.load("state")
    first = 12_200 - learner.round
    assert first < 1000
    # All users of rows, each once: those of the search, all others, and nobody new in the end.
    assert learner._limiter._people.people == 6000
    report = json.loads((events / "results/report.json").read_text())
    assert dpoco.Guarantee.from_dict(report["guarantee"]).person == (1, 1)
    digests = learner._limiter.digests([f"u{place}" for place in range(200)], 200)
    assert not learner._limiter.admit(learner.round, digests).any()
