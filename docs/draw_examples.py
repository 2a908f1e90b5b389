"""Draw the figures of examples again: python docs/draw_examples.py [--folder FOLDER] [NAME ...].

All of them take about two minutes. A figure above 100 kB is saved with a palette of 128 colours.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
LARGEST, COLOURS = 100_000, 128


def drawing() -> list[str]:
    """Return the names of the examples that draw a figure."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if '"--output"' in path.read_text())


def shrink(figure: Path) -> None:
    """Give a large figure a palette."""
    if figure.stat().st_size <= LARGEST:
        return
    from PIL import Image

    with Image.open(figure) as image:
        small = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(figure, optimize=True)


def draw(name: str, folder: Path, *options: str) -> Path:
    """Run an example, and return its figure."""
    figure = folder / f"{name}.png"
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--output", str(figure), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shrink(figure)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the figures of examples again.")
    parser.add_argument("--folder", type=Path, default=DOCS / "figures")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    chosen = parser.parse_args()
    for each in chosen.names or drawing():
        print(draw(each, chosen.folder), flush=True)
