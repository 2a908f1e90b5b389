"""Tables that a program writes into a page, between markers, and its figures."""

from __future__ import annotations

import io
import re
from pathlib import Path
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


def save_figure(figure: Any, path: Path, dpi: int) -> None:
    """Save a figure of flat colours, with a palette that keeps the file small."""
    from PIL import Image

    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=dpi, format="png")
    Image.open(drawn).convert("RGB").quantize(64).save(path, optimize=True)
