"""Releases that are computed again: the same ones, for the same records only."""

from __future__ import annotations

import numpy as np
import pytest
from tests.journal.journal_cases import QuickStore

import dpoco
from dpoco.journal import Journal, SqliteStore
from dpoco.journal._releases import Recipe, decode, kept_form
from dpoco.random import Source

ROUNDS, WIDTH = 600, 40
RECORDS = np.random.default_rng(5).normal(size=(ROUNDS, WIDTH)) / WIDTH
TARGETS = np.random.default_rng(6).uniform(-1.0, 1.0, ROUNDS)
BUDGET = dpoco.Budget(1.0, 1e-6)


def walker(seed):
    return dpoco.frank_wolfe.TreeFrankWolfe(
        dpoco.domains.LpBall(WIDTH),
        dpoco.losses.SquaredLoss(1.0, 1.0),
        horizon=ROUNDS,
        budget=BUDGET,
        source=None if seed is None else Source.seeded(seed),
    )


def sums(seed):
    return dpoco.mechanisms.ContinualSum(
        WIDTH,
        horizon=ROUNDS,
        budget=BUDGET,
        source=None if seed is None else Source.seeded(seed),
        bound=1.0,
    )


CASES = {"walker": (walker, (RECORDS, TARGETS)), "sums": (sums, (RECORDS,))}


def opened(path, **options):
    return Journal(QuickStore(path / "journal.db"), releases="recompute", **options)


def batch(name, start, stop):
    return tuple(array[start:stop] for array in CASES[name][1])


def recipes(journal):
    stream = journal.open("a")
    chunks = journal._rows.chunks(stream._row.id, stream.kept_from, stream.round)
    return [chunk.first for chunk in chunks if Recipe.of(chunk.releases) is not None]


@pytest.mark.parametrize("seed", [1, None])
@pytest.mark.parametrize("name", CASES)
def test_replays_give_what_was_released(name, seed, tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: CASES[name][0](seed))
        first = stream.process(*batch(name, 0, 200), first_round=0)
        rest = stream.process(*batch(name, 200, 400), first_round=200)
        last = stream.process(*batch(name, 400, 403), first_round=400)  # too few: stored
        assert recipes(journal) == [0, 200]
    seen = np.concatenate([first, rest, last])
    with Journal(QuickStore(tmp_path / "journal.db")) as journal:  # whatever the mode is now
        stream = journal.open("a")
        state = stream._learner._engine.state()
        for start, stop in ((0, 403), (0, 57), (200, 401), (200, 300), (401, 403)):
            again = stream.process(*batch(name, start, stop), first_round=start)
            np.testing.assert_array_equal(again, seen[start:stop])
            assert not again.flags.writeable
        assert stream._learner._engine.state() == state
        with pytest.raises(dpoco.StateError, match="from round 0 on"):
            stream.process(*batch(name, 1, 4), first_round=1)
        for attempt in (lambda: stream.release(7), lambda: stream.releases(300, 402)):
            with pytest.raises(dpoco.StateError, match="not stored"):
                attempt()
        np.testing.assert_array_equal(stream.releases(400, 403), seen[400:])
        if seed is not None:
            alone = CASES[name][0](seed).run(*batch(name, 0, 600))
            alone = getattr(alone, "decisions", alone)
            whole = stream.process(*batch(name, 0, 600), first_round=0)  # 400 again, 200 new
            np.testing.assert_array_equal(whole, alone)


@pytest.mark.parametrize("place", [0, 3, 199])
def test_other_records_never_meet_the_noise(place, tmp_path, monkeypatch):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: walker(1))
        stream.process(*batch("walker", 0, 200))
        changed = RECORDS[:200].copy()
        changed[place, 5] = np.nextafter(changed[place, 5], np.inf)
        monkeypatch.setattr(
            type(stream._family), "play", lambda *_: pytest.fail("played other records")
        )
        with pytest.raises(dpoco.ReplayMismatch, match=f"round {place} "):
            stream.process(changed, TARGETS[:200], first_round=0)


def test_another_outcome_is_not_handed_out(tmp_path, monkeypatch):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: walker(1))
        stream.process(*batch("walker", 0, 200))
        play = type(stream._family).play

        def other(self, *arguments):
            decisions = play(self, *arguments).copy()
            decisions[150, 3] = np.nextafter(decisions[150, 3], 1.0)
            return decisions

        monkeypatch.setattr(type(stream._family), "play", other)
        with pytest.raises(dpoco.StateError, match="another version"):
            stream.process(*batch("walker", 0, 200), first_round=0)


def test_upkeep(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: walker(1))
        seen = [stream.process(*batch("walker", at, at + 100)) for at in range(0, 300, 100)]
        seen += [stream.process(*batch("walker", at, at + 1)) for at in range(300, 304)]
        seen = np.concatenate(seen)
        assert journal.compact("a") == 4  # the stored ones: the others begin where they began
        assert recipes(journal) == [0, 100, 200]
        journal.rotate_key()
        assert journal.forget("a", 150) == 100
        again = stream.process(*batch("walker", 100, 304), first_round=100)
        np.testing.assert_array_equal(again, seen[100:])


def test_what_is_kept():
    rng = np.random.default_rng(0)
    releases, start = rng.normal(size=(100, 8)), bytes(64)
    kept = kept_form(releases, start)
    assert len(kept) == 16 + 200 + 64
    recipe = Recipe.of(kept)
    assert recipe is not None
    assert recipe.start == start
    words = np.add.reduce(releases.view("<u8"), axis=1)  # modulo 2^64
    np.testing.assert_array_equal(recipe.sums, (words % 2**16).astype(np.uint16))
    for stored in (
        (releases, None),
        (releases, bytes(4000)),
        (np.repeat(releases[:1], 100, axis=0), start),
        (releases[:, 0].copy(), start),
        (rng.integers(0, 9, 100), b""),
        (releases[:0], b""),
    ):
        kept = kept_form(*stored)
        assert Recipe.of(kept) is None
        np.testing.assert_array_equal(decode(kept, len(stored[0])), stored[0])


def test_modes_are_named(tmp_path):
    with pytest.raises(ValueError, match="releases"):
        Journal(tmp_path / "a.db", releases="none")
    with pytest.raises(ValueError, match="durability"):
        SqliteStore(tmp_path / "a.db", durability="none")
    for durability, level in (("disk", 2), ("process", 1)):
        store = SqliteStore(tmp_path / f"{durability}.db", durability=durability)
        assert store._run("PRAGMA synchronous") == [(level,)]
        store.close()
