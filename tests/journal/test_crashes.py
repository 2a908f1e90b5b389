"""Kills before and after every statement, and inside of commits: nothing lost, doubled, different.

Each kill is a copy of all files as they are at that moment, from which the service starts again: it
plays all its batches from the first one on, and must deliver what an uninterrupted run delivers,
and what was delivered before the kill.
"""

from __future__ import annotations

import numpy as np
import pytest
from crash_cases import Recorded, image, plan, recovered, reference, serve

EXPECTED = reference()
KILLS = []  # of all tests of this file, for the last one


def test_the_service_delivers_what_learners_without_a_journal_do(tmp_path):
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        assert recovered(tmp_path / str(seed), seed) == EXPECTED
    assert {stop - first for _, first, stop in plan(1)} > {1}


@pytest.mark.parametrize("seed", range(5))
def test_killed_before_and_after_every_statement(seed, tmp_path):
    home, images, delivered = tmp_path / "home", [], {}
    home.mkdir()

    def step():
        place = tmp_path / f"image {len(images)}"
        image(home, place)
        images.append((place, dict(delivered)))

    store = Recorded(home / "journal.db", step)
    serve(store, seed, lambda name, turn, release: delivered.update({(name, turn): release}))
    assert delivered == EXPECTED
    for place, before in images:
        assert before.items() <= EXPECTED.items()
        assert recovered(place, seed) == EXPECTED
    KILLS.append(len(images))


@pytest.mark.parametrize("seed", range(2))
def test_killed_inside_of_commits(seed, tmp_path):
    """The log grows by a commit; a crash leaves any part of that."""
    home, sizes, delivered = tmp_path / "home", [], {}
    home.mkdir()
    log, cuts = home / "journal.db-wal", 0
    rng = np.random.default_rng(seed)

    def step():
        nonlocal cuts
        size = log.stat().st_size if log.exists() else 0
        before = sizes[-1] if sizes else 0
        sizes.append(size)
        for cut in rng.integers(before, size + 1, 3) if size > before else ():
            place = tmp_path / f"cut {cuts}"
            image(home, place, wal_bytes=int(cut))
            assert recovered(place, seed) == EXPECTED
            cuts += 1

    serve(
        Recorded(home / "journal.db", step),
        seed,
        lambda name, turn, release: delivered.update({(name, turn): release}),
    )
    assert delivered == EXPECTED
    assert cuts >= 30
    KILLS.append(cuts)


def test_killed_with_noise_from_the_operating_system(tmp_path):
    """No seed: what was delivered before the kill must come from the journal."""
    home, images, delivered = tmp_path / "home", [], {}
    home.mkdir()

    def step():
        place = tmp_path / f"image {len(images)}"
        image(home, place)
        images.append((place, dict(delivered)))

    store = Recorded(home / "journal.db", step)
    serve(
        store,
        3,
        lambda name, turn, release: delivered.update({(name, turn): release}),
        noise_seed=None,
    )
    assert delivered.keys() == EXPECTED.keys()
    for place, before in images:
        after = recovered(place, 3, noise_seed=None)
        assert before.items() <= after.items()
        assert after.keys() == EXPECTED.keys()
    KILLS.append(len(images))


def test_there_were_enough_kills(request):
    if len(KILLS) < 8:
        pytest.skip("only some of the tests above ran")
    assert sum(KILLS) >= 1000, sum(KILLS)
