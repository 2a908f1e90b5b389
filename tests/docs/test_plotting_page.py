"""The pages with galleries show what their snippets draw."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dpoco

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("plotting.md", "examples.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_small_and_described(page):
    figures = re.findall(r"!\[([^\]]*)\]\(figures/([\w.]+)\)", page.read_text())
    assert len(figures) >= 4
    for words, name in figures:
        assert len(words) > 10
        assert (ROOT / "docs" / "figures" / name).stat().st_size < 500_000, name


def test_snippets_save_the_figures_that_are_shown():
    text = PAGES[0].read_text()
    assert re.findall(r'savefig\("([\w.]+)"', text) == re.findall(r"\(figures/([\w.]+)\)", text)


def test_every_function_is_on_the_page():
    text = PAGES[0].read_text()
    for name in dpoco.plotting.__all__:
        if name not in ("plot_figure_5_1", "plot_table_5_1"):  # of published experiments
            assert name in text, name
