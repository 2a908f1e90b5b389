"""Kills before and after every statement: nothing lost, nothing doubled, nothing different.

Each kill is a copy of all files as they are at that moment, from which the service starts again,
once for all kills that leave the same files. It plays all its batches from the first one on, and
must deliver what an uninterrupted run delivers, and what was delivered before the kill.
"""

from __future__ import annotations

import os
import signal

import pytest
from tests.journal.crash_cases import (
    COMMITS,
    STATEMENTS,
    SYSTEM_NOISE,
    check_every_statement,
    check_inside_of_commits,
    images_of_every_statement,
    kills,
    plan,
    recovered,
    reference,
)


@pytest.mark.parametrize("seed", STATEMENTS)
def test_killed_before_and_after_every_statement(seed, tmp_path):
    assert check_every_statement(tmp_path, seed) >= STATEMENTS[seed]


def test_there_are_enough_kills():
    assert sum((*STATEMENTS.values(), *COMMITS.values(), SYSTEM_NOISE)) >= 1000


@pytest.mark.parametrize("seed", COMMITS)
def test_killed_inside_of_commits(seed, tmp_path):
    """The log grows by a commit; a crash leaves any part of that."""
    assert check_inside_of_commits(tmp_path, seed) >= COMMITS[seed]


def test_killed_with_noise_from_the_operating_system(tmp_path):
    """No seed: what was delivered before the kill must come from the journal."""
    rounds = reference().keys()
    images, delivered = images_of_every_statement(tmp_path, 3, noise_seed=None)
    assert delivered.keys() == rounds
    for place, before in images:
        after = recovered(place, 3, noise_seed=None)
        assert before.items() <= after.items()
        assert after.keys() == rounds
    assert images.kills >= SYSTEM_NOISE


def test_the_plans_differ():
    seeds = (*STATEMENTS, *COMMITS)
    assert len({tuple(plan(seed)) for seed in seeds}) == len(seeds)
    assert {stop - first for _, first, stop in plan(1)} > {1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_random_times(tmp_path):
    expected = {(name, turn): release.hex() for (name, turn), release in reference().items()}
    ends, delivered = [], {}
    for status, lines in kills((str(tmp_path / "journal.db"), "5"), turns=30, seed=2):
        ends.append(status)
        for line in lines:
            name, turn, release = line.split()
            assert expected[name, int(turn)] == release
            delivered[name, int(turn)] = release
    assert delivered == expected
    assert ends.count(0) >= 1
    assert ends.count(0) + ends.count(signal.SIGKILL) == 30
    assert ends.count(signal.SIGKILL) >= 5
