"""Text of the figures, at the width at which a page of the site shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIGURES = sorted((ROOT / "docs" / "figures").glob("*.svg"))
# Points that a page of 1,280 pixels leaves for a figure: 51em less 3em on both sides.
PAGE = 45 * 16 * 0.75
LEAST = 8.0
# Glyphs are drawn a hundred points high; the outermost scale of a text is its size. Exponents of
# powers of ten are scaled again within it.
TEXT = re.compile(r'scale\((\d+(?:\.\d+)?) -\d+(?:\.\d+)?\)"')


def text_sizes(svg: str) -> list[float]:
    """Return the size of every text in points, where it is shown."""
    width = re.search(r'<svg[^>]* width="([\d.]+)pt"', svg)
    assert width is not None
    shrink = min(1.0, PAGE / float(width[1]))
    return [100.0 * float(each) * shrink for each in TEXT.findall(svg) if float(each) < 1.0]


@pytest.mark.parametrize("figure", FIGURES, ids=lambda path: path.stem)
def test_text_is_large_enough_where_it_is_shown(figure):
    svg = figure.read_text(encoding="utf-8")
    sizes = text_sizes(svg)
    assert sizes
    assert "<text" not in svg  # its size would be another measure
    assert min(sizes) >= LEAST


def test_small_text_is_found():
    svg = '<svg x="0" width="1080pt"><g transform="translate(1 2) scale(0.1 -0.1)"/></svg>'
    assert text_sizes(svg) == [5.0]
