"""Print sentences of the documentation at random, to be read aloud.

Usage: python tools/random_sentences.py [--seed N] [--count 20]

They come from the README, CONTRIBUTING, SECURITY and the pages of docs/ outside docs/privacy.
Sentences that need a change are changed; then the next seed is drawn, until none does.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOT_PROSE = re.compile(r"^```.*?^```|^[|#][^\n]*|<!--.*?-->|!\[[^\]]*\]\([^)]*\)", re.M | re.S)


def find_sentences(text: str) -> list[str]:
    """Return the sentences of a page: no code, tables, headings or figures."""
    found = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", NOT_PROSE.sub("\n\n", text)):
        words = re.sub(r"^[*-] ", "", " ".join(block.split()))
        found += re.split(r"(?<=[.!?]) (?=[A-Z*`\[])", words)
    return [each for each in found if len(each.split()) > 3 and each.endswith((".", "!", "?"))]


def find_pages() -> list[Path]:
    """Return the pages that everybody reads."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    own = [page for page in pages if page.name != "CHANGELOG.md" and "privacy" not in page.parts]
    return sorted(own)


def main(arguments: list[str]) -> int:
    """Print the sentences with their pages."""
    parser = argparse.ArgumentParser(description="Sentences of the documentation at random.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args(arguments)
    known = [
        (page.relative_to(ROOT).as_posix(), sentence)
        for page in find_pages()
        for sentence in find_sentences(page.read_text(encoding="utf-8"))
    ]
    for page, sentence in random.Random(options.seed).sample(known, options.count):
        print(f"{page}: {sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
