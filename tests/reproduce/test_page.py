"""The page about reruns: what can be computed at once is what it says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from bench import reproduce
from bench.reproduce.cell import Cell
from bench.reproduce.verdict import DirectionLaw, repaired_epsilon

from dpoco.evaluation.playing import released_deviations

PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"
CELLS = {
    (cell.p, cell.dimension, cell.horizon): cell
    for cell in reproduce.printed_table_5_1()
    if cell.algorithm == "OFW"
}


def rows(title):
    """The rows of the table that has a column of this title, as dictionaries by cell."""
    for block in PAGE.read_text(encoding="utf-8").split("\n\n"):
        lines = [
            [entry.strip() for entry in line.strip("| ").split("|")]
            for line in block.splitlines()
            if line.startswith("|")
        ]
        if lines and title in lines[0]:
            return {
                (float(line[0]), int(line[1]), int(line[2])): dict(zip(lines[0], line, strict=True))
                for line in lines[2:]
            }
    raise AssertionError(f"no table with a column {title!r}")


def test_every_cell_is_there_with_the_printed_numbers():
    for title in ("tight, tree", "noise, worst sum", "needs epsilon"):
        table = rows(title)
        assert set(table) == set(CELLS)
        for key, row in table.items():
            if "printed" in row:
                value, deviation = (float(part) for part in row["printed"].split(" ± "))
                assert value == pytest.approx(CELLS[key].suboptimality, rel=0.05)
                assert deviation == pytest.approx(CELLS[key].suboptimality_sd, rel=0.6)


def test_noise_ratios():
    for key, row in rows("noise, worst sum").items():
        cell = Cell(key[2], key[1], key[0], [0], "dense", 10)
        paper, tight, tree = (
            released_deviations(cell.learner(0, **options).plan.mechanism, cell.dimension)
            for options in ({"published": "printed"}, {"sum_method": "blt"}, {"sum_method": "tree"})
        )
        assert row["noise, tree / tree"] == f"{paper[0] / tree[0]:.1f}"
        assert row["noise, worst sum"] == f"{paper[1] / tight[1]:.1f}"


def test_what_the_printed_noise_spends():
    for (p, dimension, horizon), row in rows("needs epsilon").items():
        exact = repaired_epsilon(horizon, dimension, p)
        assert row["order repaired, spends"] == f"{exact:.2g}"
        if math.isinf(p):
            law = DirectionLaw(dimension, p)
            least, here = law.least_epsilon(horizon, 8.0), law.least_epsilon(horizon, 2.5)
            assert row["as printed, spends at least"] == f"{least:.2g}"
            assert row["this regression, at least"] == f"{here:.2g}"
        assert row["at (1, 1/T)"] in ("not attained", "no better than predicting zero")
        assert float(row["needs epsilon"]) > 1.0


def spread(title, column):
    """The smallest and the largest number of a column."""
    numbers = [float(row[column].split(" ± ")[0]) for row in rows(title).values()]
    return min(numbers), max(numbers)


def test_findings_are_those_of_the_tables():
    """The sentences above the tables state their numbers."""
    text = " ".join(PAGE.read_text(encoding="utf-8").partition("## Table 5.1")[0].split())
    low, high = spread("noise, worst sum", "noise, tree / tree")
    assert f"the noise is {low:.0f} to {high:.0f} times that of exact accounting" in text
    low, high = spread("noise, worst sum", "noise, worst sum")
    assert f"the noisiest released sum has {low:.0f} to {high:.0f} times the noise" in text
    low, high = spread("needs epsilon", "needs epsilon")
    assert f"printed numbers need an epsilon between {low:g} and {high:g}" in text
    low, high = spread("needs epsilon", "as printed, spends at least")
    assert f"decisions alone spend at least epsilon = {low:g}" in text
    spoiled = [
        float(row["as printed, spends at least"])
        for (p, dimension, _), row in rows("needs epsilon").items()
        if (p, dimension) == (1.5, 5)
    ]
    assert max(spoiled) == high
    assert f"is also wrong, they spend at least {min(spoiled):g}." in text
    low, _ = spread("needs epsilon", "this regression, at least")
    assert f"and at least {low:g} between two streams of this regression" in text
    verdicts = [row["at (1, 1/T)"] for row in rows("needs epsilon").values()]
    assert f"In {verdicts.count('not attained')} of {len(verdicts)} cells" in text
    ratios = [
        float(row["as printed, simulated"].split()[0]) / float(row["printed"].split()[0])
        for row in rows("needs epsilon").values()
    ]
    assert 1.5 < max(max(ratios), 1.0 / min(ratios)) <= 1.6
    assert "within a factor of 1.6 in every cell" in text


def test_the_finding_about_bandits_is_that_of_the_table():
    page = PAGE.read_text(encoding="utf-8")
    cells = [
        line.strip("| ").split(" | ") for line in page.splitlines() if line[:4] in ("| 2 ", "| 5 ")
    ]
    regret = {(int(row[0]), row[1]): float(row[3].split()[0]) for row in cells}
    less = [1.0 - regret[arms, "HDB"] / regret[arms, "uniformly random"] for arms in (2, 5)]
    text = " ".join(page.split())
    assert f"is {less[0]:.0%}".replace("%", " %") + " below that of uniformly random play" in text
    assert f"with two arms, and {less[1]:.0%}".replace("%", " %") + " below it with five" in text
