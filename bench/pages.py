"""Tables that a program writes into a page, between markers, and its figures."""

from __future__ import annotations

import contextlib
import re
from typing import Any


def replace_table(page: str, key: str, text: str) -> str:
    """Put `text` between the markers of `key`."""
    pattern = re.compile(rf"(<!-- begin {key} -->\n).*?(<!-- end {key} -->)", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page needs one pair of markers for {key!r}")
    return pattern.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


def machine_line(facts: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['cpu']}, {facts['cores']} cores, instruction set {facts['instruction_set']}; "
        f"{versions}; one thread."
    )


def in_style() -> contextlib.AbstractContextManager[None]:
    """Return a context in which figures look like those of the library's gallery."""
    import matplotlib

    from dpoco.plotting import STYLE

    plain = {"svg.fonttype": "path", "font.size": 9.0}
    return matplotlib.rc_context({**STYLE, **plain})


def read_rows(page: str, key: str) -> list[list[str]]:
    """Return the cells of the table between the markers of `key`: its head, then its rows."""
    part = page.partition(f"<!-- begin {key} -->")[2].partition(f"<!-- end {key} -->")[0]
    lines = [line for line in part.split("\n") if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if not set("".join(row)) <= set("-:")]
