"""The figure of the rerun table."""

from __future__ import annotations

import numpy as np
import pytest
from bench import reproduce
from bench.reproduce.plots import plot_table_5_1
from tests.late import Late

Late("matplotlib")


@pytest.fixture(scope="module")
def table():
    return reproduce.table_5_1(
        horizons=[1000, 2000], dimensions=[5, 10], p=[1.5], seeds=2, verdicts=False
    )


def test_a_panel_for_each_problem(table, tmp_path):
    figure = plot_table_5_1(table)
    figure.savefig(tmp_path / "table.png")
    left, right = figure.axes
    assert left.get_title(loc="left") == "p = 1.5, d = 5"
    assert right.get_title(loc="left") == "p = 1.5, d = 10"
    handles, labels = left.get_legend_handles_labels()
    drawn = dict(zip(labels, handles, strict=True))
    assert set(drawn) == {
        "predicting zero", "printed", "paper's constants", "corrected", "tight", "no noise",
    }  # fmt: skip
    rounds, values = drawn["tight"].lines[0].get_data()
    rows = [row for row in table.rows if row.printed.dimension == 5]
    np.testing.assert_array_equal(rounds, [1000, 2000])
    np.testing.assert_array_equal(values, [r.outcomes["tight"].suboptimality for r in rows])


def test_axes_are_used(table):
    axes = plot_table_5_1(table).axes
    assert plot_table_5_1(table, ax=axes) is axes[0].figure
    with pytest.raises(ValueError, match="ax must be 2"):
        plot_table_5_1(table, ax=axes[:1])
