"""The page: what it says, that it loads nothing, and that a browser shows it."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from tests.statistics.test_monitor import columns, noisy

from dpoco.statistics import Categories, Count, Mean, Monitor, draw_page

NASTY = '<script>alert("x")</script>'


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "polygon", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(intervals=5, statistics=None, **options):
    given = statistics or {"n": Count(), "latency": Mean(0.0, 1000.0)}
    monitor = noisy(given, by={"country": ["DE", "FR"]}, **options)
    releases = []
    for i in range(intervals):
        if i != 2:  # an empty one, whose means are unknown
            monitor.add_many(columns(900, seed=i))
        releases.append(monitor.release().to_dict())
    return draw_page(releases, monitor.guarantee, "Visits"), releases


def test_charts_have_the_right_points_and_tables_behind():
    text, releases = page()
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    lines = [a["points"].split() for tag, a in reader.tags if tag == "polyline"]
    known = sum(c["value"] is not None for r in releases for c in r["cells"])
    assert sum(map(len, lines)) == known
    bands = [a["points"].split() for tag, a in reader.tags if tag == "polygon"]
    assert sum(map(len, bands)) == 2 * known
    charts = [a for tag, a in reader.tags if tag == "svg"]
    assert len(charts) == 6  # two statistics, three groups
    assert all(a["role"] == "img" and "latest value" in a["aria-label"] for a in charts)
    assert sum(tag == "table" for tag, _ in reader.tags) == 6
    assert sum(a.get("scope") == "row" for tag, a in reader.tags if tag == "th") == 6 * 5
    assert "unknown" in text
    assert "epsilon = 1" in text


def test_it_loads_nothing_and_runs_nothing():
    text, _ = page()
    reader = Reader()
    reader.feed(text)
    assert not {tag for tag, _ in reader.tags} & {"script", "link", "img", "iframe", "object"}
    assert not any(name in a for _, a in reader.tags for name in ("src", "href", "onload"))
    assert "url(" not in text
    assert "@import" not in text


def test_names_are_text():
    monitor = Monitor(
        {NASTY: Categories((NASTY, "b"))}, every=None, releases=3, budget=None
    )  # fmt: skip
    text = draw_page([monitor.release().to_dict()], None, NASTY)
    assert "<script" not in text


def test_pages_without_releases_or_known_values():
    assert "No interval has ended yet" in draw_page([], None)
    text, _ = page(3, {"latency": Mean(0.0, 1000.0)})
    assert "<svg" in text
    monitor = noisy({"latency": Mean(0.0, 1000.0)})
    assert "hides all values" in draw_page([monitor.release().to_dict()], monitor.guarantee)


def test_drawings_are_well_formed():
    text, _ = page()
    for part in text.split("<svg")[1:]:
        drawing = ElementTree.fromstring("<svg" + part.partition("</svg>")[0] + "</svg>")
        assert drawing.get("viewBox")


BROWSER = next(filter(shutil.which, ("chromium", "chromium-browser", "google-chrome")), None)


@pytest.mark.skipif(
    BROWSER is None, reason="NO BROWSER: install chromium to test that pages render"
)
def test_a_browser_renders_it(tmp_path):
    """Starts a browser, which takes seconds."""
    text, _ = page()
    path, picture = tmp_path / "page.html", tmp_path / "page.png"
    path.write_text(text)
    common = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    run = [*common, "--dump-dom", path.as_uri()]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.count("<polyline") == text.count("<polyline")
    assert "Uncaught" not in done.stderr
    shot = [*common, "--window-size=390,800", f"--screenshot={picture}", path.as_uri()]
    subprocess.run(shot, capture_output=True, check=True, timeout=120)
    assert picture.stat().st_size > 5000
