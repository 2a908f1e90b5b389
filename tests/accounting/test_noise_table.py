"""The comparison with the published constants, to the digits in which it is quoted."""

from __future__ import annotations

import pytest

from dpoco.accounting.tables import format_markdown, noise_table

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
# Tree ratio / default sum's ratio / spent epsilon; two roundings, hence 0.55 units of tolerance.
QUOTED = {
    10**3: "8.6/26.6/.0045 6.5/20.1/.050 5.8/18.0/.12 5.2/16.0/.28 4.6/14.1/.64 3.9/12.1/1.46",
    10**4: "8.0/28.3/.0086 6.6/23.6/.058 6.1/21.8/.13 5.6/20.0/.28 5.1/18.1/.62 4.5/16.0/1.35",
    10**5: "7.6/27.7/.011 6.7/24.2/.063 6.3/22.8/.13 5.9/21.4/.29 5.4/19.7/.61 4.9/17.7/1.31",
    10**6: "7.5/27.7/.011 6.8/25.0/.065 6.5/23.8/.14 6.1/22.6/.28 5.7/21.1/.60 5.2/19.3/1.26",
    10**7: "7.7/29.8/.012 7.1/27.4/.064 6.8/26.3/.13 6.5/25.2/.27 6.1/23.7/.57 5.7/21.9/1.19",
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
    assert lines[2].startswith("| 1000 | 5.83 / 18 / 0.12 |")
    assert len({line.count("|") for line in lines}) == 1
