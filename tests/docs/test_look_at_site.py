"""The look at the site in a real browser finds planted faults, and none on a sound page."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import look_at_site

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
IMAGE = '<img src="dot.png" alt="A dot that says very much.">'
PAGES = {
    "sound.html": IMAGE + "<div style='overflow-x: auto'><p style='width: 2000px'>wide</p></div>",
    "wide.html": "<p style='width: 600px'>wider than a phone</p>",
    "script.html": "<script>unknown.name</script>",
    "missing.html": '<img src="no.png" alt="A dot that is not there.">',
    "mute.html": '<img src="dot.png" alt="dot">',
    "elsewhere.html": "<script src='http://127.0.0.1:9/other.js'></script>",
}


def test_planted_faults_are_found_on_their_pages(tmp_path):
    """Over a second: starts a browser."""
    program = look_at_site.browser()
    if program is None:
        pytest.skip("no Chromium on this machine: pages are not looked at")
    (tmp_path / "dot.png").write_bytes(DOT)
    for name, body in PAGES.items():
        head = "<head><meta charset='utf-8'></head>"
        page = f"<!doctype html><html>{head}<body><article>{body}</article></body></html>"
        (tmp_path / name).write_text(page, encoding="utf-8")
    faults = look_at_site.look_at(tmp_path, program)
    assert set(faults) == {
        f"{name} at {width}"
        for name in PAGES
        for width in look_at_site.WIDTHS
        if name != "sound.html" and (name, width) != ("wide.html", 1280)
    }
    assert any("<p> ends at" in line for line in faults["wide.html at 390"])
    assert any("unknown" in line for line in faults["script.html at 390"])
    assert any("no image" in line for line in faults["missing.html at 390"])
    assert any("four words" in line for line in faults["mute.html at 1280"])
    assert any("other.js" in line for line in faults["elsewhere.html at 1280"])


def test_a_folder_without_pages_is_a_fault(tmp_path):
    assert look_at_site.look_at(tmp_path, "no browser is started") == {str(tmp_path): ["no page"]}
