"""The page of the learners of experts says what the calibrators compute."""

from __future__ import annotations

from pathlib import Path

from bench.regret_tables import expert_table, format_experts

PAGE = (Path(__file__).parents[2] / "docs" / "experts.md").read_text()


def test_the_table_is_what_the_script_prints():
    table = expert_table()
    assert format_experts(table) in PAGE
    for entry in table:
        # What the page advises.
        assert entry.nonprivate < entry.tracker < entry.horizon
        assert entry.tracker < entry.share <= entry.share_pure
        assert entry.share < entry.share_adaptive
        if entry.hedge is not None and entry.experts <= 100:
            assert entry.hedge < entry.tracker
