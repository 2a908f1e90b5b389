"""Draw the figures of examples again: python docs/draw_examples.py [--folder FOLDER] [NAME ...].

All of them take about two minutes. Figures have no date, so that the same one is the same file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"


def drawing() -> list[str]:
    """Return the names of the examples that draw a figure."""
    return sorted(path.stem for path in EXAMPLES.glob("*.py") if '"--output"' in path.read_text())


def draw(name: str, folder: Path, *options: str) -> Path:
    """Run an example, and return its figure."""
    figure = folder / f"{name}.svg"
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--output", str(figure), *options]
    undated = os.environ | {"SOURCE_DATE_EPOCH": "0"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=undated)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the figures of examples again.")
    parser.add_argument("--folder", type=Path, default=DOCS / "figures")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    chosen = parser.parse_args()
    for each in chosen.names or drawing():
        print(draw(each, chosen.folder), flush=True)
