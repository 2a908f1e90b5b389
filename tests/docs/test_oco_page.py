"""The page of the Euclidean learners says what the calibrators compute."""

from __future__ import annotations

from pathlib import Path

from bench.regret_tables import format_regret, regret_table

PAGE = (Path(__file__).parents[2] / "docs" / "oco.md").read_text()


def test_the_table_is_what_the_script_prints():
    table = regret_table()
    assert format_regret(table) in PAGE
    for entry in table:
        # The order of the columns is the advice of the page.
        assert entry.ftrl < entry.leader < entry.weights < 0.5
        assert entry.leader_glm <= entry.leader
        assert entry.published_leader > 100.0 * entry.leader
        assert entry.published_weights > 100.0 * entry.weights
