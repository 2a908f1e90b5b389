"""What the tool does around its mutants: lists, samples, the page, and sources of C++."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.mutation import survivors, targets
from tests.mutation.__main__ import worse
from tests.mutation.operators import mutants

import dpoco

PACKAGE, SOURCES = Path(dpoco.__file__).parent, Path(__file__).parents[2] / "cpp" / "src"
SOURCE = """
double f(double a, int n) {
  constexpr int kMost = 3;
  if (n > kMost) throw Error("n > 3");
  total += a;
  return n == 0 ? -a : std::min(a + 1.0, 2.5);
}
"""


def test_the_page_shows_what_was_recorded():
    assert targets.table() in targets.PAGE.read_text(encoding="utf-8")
    assert sum(int(each["run"]) for each in targets.recorded().values()) >= 1000


def test_a_sample_fails_if_more_survive_than_chance_explains():
    was = {"killed": 970, "survived": 30}
    assert not worse(None, 0, 100)
    assert not worse(was, 194, 6)
    assert not worse(was, 185, 15)
    assert worse(was, 170, 30)
    assert worse(was, 0, 8)


def test_harmless_survivors_are_of_symbols_that_are_there_and_have_reasons():
    rows = survivors._rows()
    for (file, symbol, change), reason in rows.items():
        root = SOURCES if file.endswith(".cpp") else PACKAGE
        source = (root / file).read_text(encoding="utf-8")
        for name in re.findall(r"\w+", symbol.replace("operator", "")):
            assert re.search(rf"\b{name}\b", source), (file, symbol)
        assert reason
        assert survivors.excused(file, symbol, change) == reason
    file, symbol, change = next(iter(rows))
    assert survivors.excused(file, symbol, "1 -> 7") is None
    assert survivors.stale([(file, symbol, "1 -> 7")])
    assert survivors.stale([("another.py", symbol, change)]) == []


def test_changes_are_known_by_their_symbol():
    source = (
        "LIMIT = 3\nclass A:\n    def f(self, x, k=1, *, m=2):\n"
        "        return x + LIMIT if x < 0 else x + 5 + 5\n"
    )
    found = mutants(source)
    assert {each.symbol for each in found} == {"LIMIT", "A.f", "A.f(k)", "A.f(m)"}
    assert {str(each) for each in found if each.symbol == "A.f(m)"} == {"2 -> 3", "2 -> 1"}
    fives = [each for each in found if each.before == "5"]
    texts = survivors.number_repeats((each.symbol, str(each)) for each in fives)
    assert texts == ["5 -> 6", "5 -> 4", "5 -> 6 #2", "5 -> 4 #2"]
    longer = "import os\n" + source.replace("x < 0", "self.few < 0")  # says the same of the fives
    assert [str(each) for each in mutants(longer) if each.before == "5"] == list(map(str, fives))


def test_changes_of_compiled_sources():
    compiled = pytest.importorskip("tests.mutation.compiled")
    found = compiled.changes(SOURCE)
    texts = [str(each) for each in found]
    for text in ("n > kMost -> (n) <= (kMost)", "total += a; -> (nothing)", "-a -> a",
                 "total += a -> total -= a", "std::min(a + 1.0, 2.5) -> std::max(a + 1.0, 2.5)",
                 "a + 1.0 -> a", "2.5 -> 0.5 * 2.5", "0 -> 0 + 1"):  # fmt: skip
        assert text in texts, text
    assert not any("Error" in text or "kMost = " in text for text in texts)
    assert {each.symbol for each in found} == {"f"}
    outside = compiled.changes("class A { double grid_ = 0.5; int g() const { return 2; } };")
    assert {each.symbol for each in outside} == {"grid_", "g"}
    text, places = compiled.instrumented(SOURCE, dict(enumerate(found)))
    lines = text.split("\n")
    assert sorted(places) == list(range(len(found)))
    assert all(f"DPOCO_M({number})" in lines[at - 1] for number, at in places.items())
    assert text.count("throw Error") == 1
