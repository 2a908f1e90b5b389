"""The dashboards of the comparison page: cheap rows of the table again, and what they rest on."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

import dashboards

PAGE = dashboards.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("person", [None, (24, 1)])
@pytest.mark.parametrize("way", dashboards.WAYS)
def test_rows_are_those_of_the_page(way, person):
    """Over a second: the noise of people who come back is searched for."""
    part = PAGE.partition(dashboards.START)[2].partition(dashboards.END)[0]
    name = next(name for name, rule in dashboards.PEOPLE.items() if rule == person)
    table = part.partition(f"720 intervals, {name}:")[2].partition("intervals,")[0]
    found = next(line for line in table.splitlines() if line.startswith(f"| {way} |"))
    shown = [float(x.replace(",", "")) for x in found.split("|")[2:5]]
    assert shown == pytest.approx(dashboards.WAYS[way](720, person), rel=0.01, abs=0.06)


def test_shares_are_counted_as_records_enter():
    n, person = 60, (3, 7)
    present = np.zeros(n)
    present[[0, 7, 14]] = 1.0
    totals = [present[: t + 1].sum() for t in range(n)]
    window = [present[max(0, t - 23) : t + 1].sum() for t in range(n)]
    assert dashboards.count_shares(n, person).tolist() == [present.tolist(), totals, window]


def test_zcdp_is_converted_as_by_opendp():
    rho = 1.0 / (2.0 * dashboards.zcdp_scale(1.0) ** 2)
    log = math.log(1e6)
    assert rho + 2.0 * math.sqrt(rho * log) > 1.0  # better than the simple conversion
    found = dashboards.check_opendp()
    assert found is None or found == pytest.approx(1.0, rel=1e-3)
