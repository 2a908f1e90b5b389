"""Tables that a program writes into a page, between markers."""

from __future__ import annotations

import re
from typing import Any


def replaced(page: str, key: str, text: str) -> str:
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
