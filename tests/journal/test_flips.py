"""Damaged journals are found as they were, or refused: see `flips`, whose long run is a program.

Each damage opens the journal twice and replays it: five seconds altogether.
"""

from __future__ import annotations

from tests.journal import flips


def test_damage_is_refused_or_without_effect(tmp_path):
    ends = flips.run(tmp_path, 300, seed=5)
    kinds = {kind for kind, _ in ends}
    assert len(kinds) == 10
    for kind in kinds:
        assert ends[kind, "refused"] >= 1  # of 30, a quarter or more
    # Values of rows, and what the log holds of the last commit, are never damaged without effect.
    for kind in ("value", "another value", "head of a frame", "page in the log"):
        assert ends[kind, "exact"] <= 1
    assert sum(ends[kind, "exact"] for kind in kinds) >= 25
