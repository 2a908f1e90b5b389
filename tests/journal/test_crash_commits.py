"""Kills inside of commits, and between the statements of another plan."""

from __future__ import annotations

import pytest
from crash_cases import COMMITS, STATEMENTS, check_every_statement, check_inside_of_commits, plan


@pytest.mark.parametrize("seed", list(COMMITS)[:1])
def test_killed_inside_of_commits(seed, tmp_path):
    """The log grows by a commit; a crash leaves any part of that."""
    assert check_inside_of_commits(tmp_path, seed) >= COMMITS[seed]


@pytest.mark.parametrize("seed", list(STATEMENTS)[3:])
def test_killed_before_and_after_every_statement(seed, tmp_path):
    assert check_every_statement(tmp_path, seed) >= STATEMENTS[seed]


def test_the_plans_differ():
    seeds = (*STATEMENTS, *COMMITS)
    assert len({tuple(plan(seed)) for seed in seeds}) == len(seeds)
