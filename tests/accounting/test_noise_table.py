"""The comparison with the published constants, to the digits in which it is quoted."""

from __future__ import annotations

import pytest

from dpoco.accounting.tables import format_markdown, noise_table

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
# Tree ratio / BLT ratio / spent epsilon; quoted after two roundings, hence 0.55 units of tolerance.
QUOTED = {
    10**3: "8.6/25.1/.0045 6.5/18.9/.050 5.8/16.9/.12 5.2/15.1/.28 4.6/13.2/.64 3.9/11.4/1.46",
    10**4: "8.0/26.9/.0086 6.6/22.4/.058 6.1/20.7/.13 5.6/19.0/.28 5.1/17.2/.62 4.5/15.2/1.35",
    10**5: "7.6/26.5/.011 6.7/23.2/.063 6.3/21.9/.13 5.9/20.5/.29 5.4/18.9/.61 4.9/17.0/1.31",
    10**6: "7.5/26.7/.011 6.8/24.1/.065 6.5/22.9/.14 6.1/21.7/.28 5.7/20.3/.60 5.2/18.5/1.26",
    10**7: "7.7/28.8/.012 7.1/26.5/.064 6.8/25.5/.13 6.5/24.3/.27 6.1/22.9/.57 5.7/21.2/1.19",
}


def test_every_cell():
    table = noise_table(QUOTED, EPSILONS)
    assert [(e.horizon, e.epsilon) for e in table] == [(n, x) for n in QUOTED for x in EPSILONS]
    cells = iter(table)
    for row in QUOTED.values():
        for quoted in row.split():
            cell = next(cells)
            values = (cell.tree_ratio, cell.blt_ratio, cell.spent_epsilon)
            for text, value in zip(quoted.split("/"), values, strict=True):
                unit = 10.0 ** -len(text.split(".")[1])
                assert value == pytest.approx(float(text), abs=0.55 * unit)


def test_markdown():
    text = format_markdown(noise_table([1000, 10_000], [1.0, 2.0]))
    lines = text.splitlines()
    assert len(lines) == 4
    assert lines[0] == "| rounds | epsilon = 1 | epsilon = 2 |"
    assert lines[2].startswith("| 1000 | 5.83 / 16.9 / 0.12 |")
    assert len({line.count("|") for line in lines}) == 1
