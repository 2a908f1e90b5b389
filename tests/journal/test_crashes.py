"""Kills before and after every statement: nothing lost, nothing doubled, nothing different.

Each kill is a copy of all files as they are at that moment, from which the service starts again: it
plays all its batches from the first one on, and must deliver what an uninterrupted run delivers,
and what was delivered before the kill.
"""

from __future__ import annotations

import pytest
from crash_cases import (
    COMMITS,
    STATEMENTS,
    SYSTEM_NOISE,
    check_every_statement,
    plan,
    recovered,
    reference,
)


def test_the_service_delivers_what_learners_without_a_journal_do(tmp_path):
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        assert recovered(tmp_path / str(seed), seed) == reference()
    assert {stop - first for _, first, stop in plan(1)} > {1}


@pytest.mark.parametrize("seed", list(STATEMENTS)[:3])
def test_killed_before_and_after_every_statement(seed, tmp_path):
    assert check_every_statement(tmp_path, seed) >= STATEMENTS[seed]


def test_there_are_enough_kills():
    assert sum((*STATEMENTS.values(), *COMMITS.values(), SYSTEM_NOISE)) >= 1000
