"""What no proof is about is refused: ``refused.txt`` has what is taken, and what is not instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_vectors import NAMES, lines

CHOICES = re.compile(r"\{([^{}|]*)\|([^{}|]*)\}")


def taken(text: str) -> str:
    """Return the text with the first of all choices."""
    return CHOICES.sub(lambda choice: choice[1].strip(), text)


def refused(text: str) -> list[str]:
    """Return the texts with one of the other choices, and the first of the rest."""
    return [
        taken(text[: choice.start()]) + other.strip() + taken(text[choice.end() :])
        for choice in CHOICES.finditer(text)
        for other in choice[2].split(";")
    ]


@pytest.mark.parametrize("text", lines(Path(__file__).with_name("refused.txt")).values())
def test_what_no_proof_is_about_is_refused(text):
    eval(taken(text), dict(NAMES))
    assert refused(text)
    for other in refused(text):
        with pytest.raises((TypeError, ValueError)):
            pytest.fail(f"{other} is {eval(other, dict(NAMES))}")
