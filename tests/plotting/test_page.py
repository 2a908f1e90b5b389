"""The page: what it says, that it loads nothing, and that a browser shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.statistics.test_monitor import columns, noisy

import dpoco
from dpoco.plotting import draw_page
from dpoco.statistics import Categories, Count, Mean, Monitor

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import look_at_site

NASTY = '<script>alert("x")</script>'


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "polygon", "polyline", "path", "circle"):
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


def test_lonely_values_are_seen():
    def release(i, value):
        cell = {"statistic": "x", "view": "interval", "group": "", "label": "", "value": value,
                "low": 0.0, "high": 1.0}  # fmt: skip
        return {"interval": i, "begin": None, "level": 0.95, "cells": [cell]}

    text = draw_page([release(0, 0.5), release(1, None), release(2, 0.25)], None)
    assert text.count("<circle") == 2
    assert text.count("<polyline") == 2


@pytest.mark.parametrize(
    ("low", "value", "high", "said"),
    [(136.2, 162.4, 188.6, "162"), (-1.0, 4.0, 9.0, "4.0"), (0.0286, 0.0364, 0.044, "0.0364"),
     (1e6, 1234567.0, 2e6, "1,234,567"), (-0.5, -0.0001, 0.5, "0.00"), (3.0, 3.0, 3.0, "3.000")],
)  # fmt: skip
def test_figures_have_the_digits_that_the_noise_leaves(low, value, high, said):
    cell = {"statistic": "x", "view": "total", "group": "", "label": "", "value": value,
            "low": low, "high": high}  # fmt: skip
    text = draw_page([{"interval": 0, "begin": None, "level": 0.95, "cells": [cell]}], None)
    assert f"<b>{said}</b>" in text


@pytest.mark.parametrize(
    ("level", "said"), [(0.95, "95%"), (0.999, "99.9%"), (0.9999999, "99.99999%")]
)
def test_levels_are_not_rounded_to_certainty(level, said):
    cell = {"statistic": "x", "view": "total", "group": "", "label": "", "value": 1.0,
            "low": 0.0, "high": 2.0}  # fmt: skip
    guarantee = dpoco.Guarantee.pure_epsilon(1.0, horizon=1)
    release = {"interval": 0, "begin": None, "level": level, "cells": [cell]}
    text = draw_page([release], guarantee)
    assert f"with probability {said};" in text
    assert f"low, {said}<" in text


def test_a_browser_renders_it_on_a_desktop_and_on_a_phone(tmp_path):
    """Starts a browser: nothing is wider than the page, fails, or is loaded from elsewhere."""
    program = look_at_site.browser()
    if program is None:
        pytest.skip("NO BROWSER: install chromium to see that pages render")
    browsers = Categories(("firefox", "chrome"))
    text, _ = page(30, {"n": Count(), "latency": Mean(0.0, 1000.0), "browser": browsers})
    site = tmp_path / "site"
    site.mkdir()
    (site / "page.html").write_text(text)
    assert look_at_site.look_at(site, program) == {}
    # The same page with a fault is found out.
    broken = text.replace("</article>", "<p style='width: 600px'>wide</p></article>")
    (site / "page.html").write_text(broken)
    assert set(look_at_site.look_at(site, program)) == {"page.html at 390"}
    common = [program, "--headless=new", "--no-sandbox", "--disable-gpu",
              f"--user-data-dir={tmp_path / 'profile'}"]  # fmt: skip
    (site / "page.html").write_text(text)
    run = [*common, "--dump-dom", (site / "page.html").as_uri()]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=300)
    for tag in ("polyline", "polygon"):
        drawn, written = (
            [len(points.split()) for points in re.findall(f'<{tag} [^>]*points="([^"]*)"', each)]
            for each in (done.stdout, text)
        )
        assert drawn == written != []
