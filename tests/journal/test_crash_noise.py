"""Kills of a service whose noise nobody can draw again, and inside of commits of another plan."""

from __future__ import annotations

import pytest
from crash_cases import (
    COMMITS,
    SYSTEM_NOISE,
    check_inside_of_commits,
    images_of_every_statement,
    recovered,
    reference,
)


def test_killed_with_noise_from_the_operating_system(tmp_path):
    """No seed: what was delivered before the kill must come from the journal."""
    rounds = reference().keys()
    images, delivered = images_of_every_statement(tmp_path, 3, noise_seed=None)
    assert delivered.keys() == rounds
    for place, before in images:
        after = recovered(place, 3, noise_seed=None)
        assert before.items() <= after.items()
        assert after.keys() == rounds
    assert len(images) >= SYSTEM_NOISE


@pytest.mark.parametrize("seed", list(COMMITS)[1:])
def test_killed_inside_of_commits(seed, tmp_path):
    assert check_inside_of_commits(tmp_path, seed) >= COMMITS[seed]
