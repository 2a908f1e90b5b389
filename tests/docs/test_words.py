"""The rules of words find what they are for, and nothing is left that the list does not know."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import words  # noqa: E402

PYTHON = """
def held(self):
    "What a pair does not reach is not tested. It is tried in vain."

@cached_property
def certified(self): ...

def seed(): ...

def _law_of(x):
    return f(x)  # it hangs on |x|_2, of its own, too.
"""
CPP = """
double placed(double x) {  // beside |x - c|^2
  return bounded(x);
}
void feed(int x);
"""
PAGE = """She asks $|w|^2$, ||w||^2, |x_i|^2.5 and $\\|w\\|^2$ anew.
```python
x = held(anew)
```
"""


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.py", PYTHON, ["hangs on", "held", "in vain", "of its own", "too, last", "_law_of",
                          "|x|", "What ... is"]),
        ("a.hpp", CPP, ["placed", "beside", "|x|"]),
        ("a.md", PAGE, ["her", "anew", "|x|"]),
    ],
)  # fmt: skip
def test_every_rule_finds_its_offenders_and_no_others(path, text, names):
    assert sorted(name for _, _, name in words.check(path, text)) == sorted(names)


def test_the_list_is_read_as_it_is_written():
    text = "of law_of 1\nphrase too, last 2\n"
    assert words.write_known(words.read_known(text)) == text


def test_no_offender_is_new():
    """Mend what this shows; `python tools/words.py --write` takes mended ones off the list."""
    found = words.count_names(words.find_offenders())
    assert not found - words.read_known(words.KNOWN.read_text())
