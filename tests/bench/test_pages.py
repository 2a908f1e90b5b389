"""Tables that programs write into pages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def replace_table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    from pages import replace_table

    yield replace_table
    sys.modules.pop("pages", None)


def test_a_table_is_replaced_and_nothing_else(replace_table):
    page = "# T\n<!-- begin a -->\nold\n<!-- end a -->\ntext\n<!-- begin b -->\n<!-- end b -->\n"
    page = replace_table(page, "a", r"| 1 | \g<0> |")
    page = replace_table(page, "b", "new")
    assert page == (
        "# T\n<!-- begin a -->\n| 1 | \\g<0> |\n<!-- end a -->\n"
        "text\n<!-- begin b -->\nnew\n<!-- end b -->\n"
    )


@pytest.mark.parametrize("page", ["", "<!-- begin a -->\n<!-- end a -->\n" * 2])
def test_a_page_without_the_one_place_is_refused(replace_table, page):
    with pytest.raises(ValueError, match="one pair"):
        replace_table(page, "a", "text")


@pytest.mark.parametrize(
    "key", ["machine", "memory", "rounds", "live", "peers", "starts", "threads", "journal"]
)
def test_the_page_of_costs_has_its_tables(replace_table, key):
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    emptied = replace_table(page, key, "")
    assert len(emptied) < len(page) - 60
