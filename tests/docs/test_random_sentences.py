"""The script that draws sentences of the documentation draws prose, and the same for a seed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import random_sentences


def test_sentences_are_prose_and_nothing_else():
    page = (
        "# A title that is no sentence.\n\nOne sentence of `code.x` goes\nover two lines. Another "
        "follows it as prose.\n\n```python\nx = 1  # none at all.\n```\n\n| a cell here. |\n\n"
        "![An image that says much.](x.svg)\n\n* A point of a list.\n* The second point of it.\n"
    )
    assert random_sentences.find_sentences(page) == [
        "One sentence of `code.x` goes over two lines.",
        "Another follows it as prose.",
        "A point of a list.",
        "The second point of it.",
    ]


def test_a_seed_draws_the_same_sentences_from_many_pages(capsys):
    drawn = []
    for seed in ("3", "3", "4"):
        assert random_sentences.main(["--seed", seed, "--count", "5"]) == 0
        drawn.append(capsys.readouterr().out)
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0].splitlines()) == 5
    assert len(random_sentences.find_pages()) > 60
    assert not any("privacy" in page.parts for page in random_sentences.find_pages())
