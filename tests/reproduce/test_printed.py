"""The printed numbers are those of the paper's table."""

from __future__ import annotations

import pytest
from bench import reproduce


def find(horizon, dimension, p, algorithm):
    (cell,) = [
        cell
        for cell in reproduce.printed_table_5_1()
        if (cell.horizon, cell.dimension, cell.p, cell.algorithm)
        == (horizon, dimension, p, algorithm)
    ]
    return cell


def test_all_rows_are_there():
    cells = reproduce.printed_table_5_1()
    assert len(cells) == 47
    keys = {(cell.horizon, cell.dimension, cell.p, cell.algorithm) for cell in cells}
    expected = {
        (horizon, dimension, p, algorithm)
        for horizon in (1000, 2000, 5000, 10_000)
        for dimension in (5, 10, 20)
        for p, other in ((1.5, "NoisySFW"), (float("inf"), "NoisySGD"))
        for algorithm in ("OFW", other)
    }
    assert keys == expected - {(10_000, 5, float("inf"), "NoisySGD")}


def test_some_rows_read_as_printed():
    cell = find(1000, 5, 1.5, "NoisySFW")
    assert (cell.risk, cell.risk_sd, cell.suboptimality, cell.suboptimality_sd) == (
        0.0885, 0.00907, 0.522, 0.0565,
    )  # fmt: skip
    assert (cell.seconds, cell.seconds_sd) == (0.0189, 0.00216)
    assert find(1000, 5, float("inf"), "NoisySGD").seconds == 30.2
    assert find(10_000, 20, float("inf"), "OFW").suboptimality == 0.363
    assert cell.suboptimality_se == pytest.approx(0.0565 / 10**0.5)


def test_the_two_error_measures_tell_the_problem():
    """The dense target everywhere, but for four rows of NoisySGD, whose target is sparse."""
    dense = {(1.5, 5): 0.162, (1.5, 10): 0.078, (1.5, 20): 0.038,
             (float("inf"), 5): 0.293, (float("inf"), 10): 0.152,
             (float("inf"), 20): 0.077}  # fmt: skip
    odd = []
    for cell in reproduce.printed_table_5_1():
        if cell.suboptimality < 0.05:
            continue
        if abs(cell.signal / dense[cell.p, cell.dimension] - 1.0) > 0.25:
            odd.append((cell.algorithm, cell.horizon, cell.dimension))
    assert odd == [("NoisySGD", t, d) for t in (1000, 2000) for d in (10, 20)]
