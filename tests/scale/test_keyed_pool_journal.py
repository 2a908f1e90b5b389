"""A pool in a journal: one commit a batch, batches that come again, and kills in between."""

from __future__ import annotations

import os
import shutil
import signal

import numpy as np
import pytest

import dpoco
from dpoco import Budget
from dpoco.accounting.ledger import Ledger
from dpoco.journal import Journal
from dpoco.learning.participation import Limiter
from dpoco.scale import KeyedPool, _keyed_learners

BUDGET = Budget(1.0, 1e-6)
BATCHES, SIZE = 6, 40
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
RNG = np.random.default_rng(7)
LOSSES = RNG.uniform(size=(BATCHES, SIZE, 4))
# Every batch brings a key that is new.
KEYS = [
    [f"user {i}" for i in RNG.integers(0, 3 + b, SIZE - 1)] + [f"user {2 + b}"]
    for b in range(BATCHES)
]


def hedge(horizon=10_000):
    return dpoco.experts.PrefixHedge(4, horizon=horizon, budget=BUDGET)


def bandit():
    return dpoco.bandits.LinUCB(
        3, 2, horizon=1000, budget=BUDGET, context_bound=1.0, reward_bound=1.0
    )


def commits(journal):
    return journal._rows.head.sequence


@pytest.mark.parametrize("make", [hedge, bandit])
def test_a_batch_is_one_commit_and_can_come_again(tmp_path, make):
    rng = np.random.default_rng(1)
    shapes = ((4,),) if make is hedge else ((2,), (3,))
    arrays = [[rng.uniform(size=(SIZE, *shape)) for shape in shapes] for _ in range(BATCHES)]
    with Journal(tmp_path / "j.db") as journal:
        pool = KeyedPool(make(), journal=journal, workers=2)
        assert pool.last_batch == -1
        first = []
        for batch in range(BATCHES):
            before = commits(journal)
            first.append(pool.process(KEYS[batch], *arrays[batch], batch=batch))
            assert commits(journal) == before + 1
        before = commits(journal)
        for batch in (5, 0, 3):
            again = pool.process(KEYS[batch], *arrays[batch], batch=batch)
            assert again.tobytes() == first[batch].tobytes()
        assert commits(journal) == before
        assert pool.process([], *(x[:0] for x in arrays[0]), batch=6).shape[0] == 0
        rounds = {key: pool.round(key) for key in pool}
    with Journal(tmp_path / "j.db") as journal:
        pool = KeyedPool(None, journal=journal)
        assert (pool.last_batch, {key: pool.round(key) for key in pool}) == (6, rounds)
        assert pool.process(KEYS[4], *arrays[4], batch=4).tobytes() == first[4].tobytes()
        assert not pool.process(KEYS[4], *arrays[4], batch=4).flags.writeable
    assert sum(rounds.values()) == BATCHES * SIZE


def test_people_are_counted_under_each_key_and_once(tmp_path, monkeypatch):
    rule = dpoco.Participation(2, 2, max_persons=4)
    strict = dpoco.experts.PrefixHedge(4, horizon=1000, budget=BUDGET, participation=rule)
    people = RNG.integers(0, 4, (BATCHES, SIZE))

    def failing(store):
        raise OSError("the disk is full")

    with Journal(tmp_path / "j.db", key=bytes(32)) as journal:
        pool = KeyedPool(strict, journal=journal)
        released = []
        for batch in range(BATCHES):
            with monkeypatch.context() as patch:
                patch.setattr(dpoco.journal.SqliteStore, "commit", failing)
                with pytest.raises(OSError, match="full"):
                    pool.process(KEYS[batch], LOSSES[batch], batch=batch, person=people[batch])
            released.append(
                pool.process(KEYS[batch], LOSSES[batch], batch=batch, person=people[batch])
            )
        with pytest.raises(dpoco.RoundOrderError, match="max_persons"):
            pool.process(["new"] * 5, np.zeros((5, 4)), batch=BATCHES, person=range(5))
        assert "new" not in pool
    with Journal(tmp_path / "j.db", key=bytes(32)) as journal:
        pool = KeyedPool(None, journal=journal)
        again = pool.process(KEYS[2], LOSSES[2], batch=2, person=people[2])
        assert (again == released[2]).all()
        with pytest.raises(dpoco.ReplayMismatch):
            pool.process(KEYS[2], LOSSES[2], batch=2, person=people[2] ^ 1)
        for key in pool:
            stream = pool[key]
            own = [p for names, who in zip(KEYS, people, strict=True)
                   for k, p in zip(names, who.tolist(), strict=True) if k == key]  # fmt: skip
            exact = Limiter(rule, 1000)
            assert stream.round == len(own)
            exact._key = stream._learner._limiter._key
            exact.admit(0, exact.digests(own, len(own)))
            assert sorted(stream._learner._limiter.state()) == sorted(exact.state())


@pytest.mark.parametrize("most", [100_000, 2])
def test_decisions_are_those_of_single_streams(tmp_path, monkeypatch, most):
    """The same initial states, played as streams of the journal."""
    monkeypatch.setattr(_keyed_learners, "MOST_LOADED", most)
    with Journal(tmp_path / "a.db", key=bytes(32), mark=False) as journal:
        pool = KeyedPool(hedge(), journal=journal)
        pool.register([f"user {i}" for i in range(10)])
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    with (
        Journal(tmp_path / "a.db", key=bytes(32), mark=False) as one,
        Journal(tmp_path / "b.db", key=bytes(32), mark=False) as two,
    ):
        pool = KeyedPool(hedge(), journal=one, workers=2)
        for keys, losses in zip(KEYS, LOSSES, strict=True):
            expected = np.empty(SIZE, dtype=np.int64)
            for key in set(keys):
                rows = [i for i, other in enumerate(keys) if other == key]
                expected[rows] = two.open(f"pool/s:{key}").process(losses[rows])
            assert (pool.process(keys, losses) == expected).all()
        awake = {name for name, each in one._streams.items() if each._learner is not None}
        last = KEYS[-1] if most == 2 else [key for keys in KEYS for key in keys]
        assert awake == {f"pool/s:{key}" for key in last}


@pytest.mark.parametrize("make", [hedge, bandit])
def test_learners_that_make_room_for_others_leave_no_trace(tmp_path, monkeypatch, make):
    """Also between a decision and its record, and not before a commit that others wait for."""
    context = (np.ones(2),) if make is bandit else ()
    record = (0.5,) if make is bandit else (LOSSES[0, 0],)
    with Journal(tmp_path / "a.db", key=bytes(32), mark=False) as journal:
        KeyedPool(make(), journal=journal).register(range(5))
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    found = []
    for name, most in (("a.db", 1), ("b.db", 100)):
        monkeypatch.setattr(_keyed_learners, "MOST_LOADED", most)
        with (
            Journal(tmp_path / name, key=bytes(32), mark=False) as journal,
            dpoco.journal.GroupCommitExecutor(journal, linger=1e-3) as calls,
        ):
            pool, decisions = KeyedPool(None, journal=journal), []
            for _ in range(5):
                decisions += [pool.decide(key, *context) for key in range(5)]
                for key in range(2):
                    pool.observe(key, *record)
                together = [calls.submit(pool[key].observe, *record) for key in range(2, 5)]
                assert [each.result() for each in together] == [None] * 3
            found.append((decisions, [pool.round(key) for key in pool]))
    assert found[0] == found[1]


def test_other_batches_under_a_number_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_keyed_learners, "KEPT_BATCHES", 3)
    with Journal(tmp_path / "j.db") as journal:
        pool = KeyedPool(hedge(), journal=journal)
        for batch in range(5):
            pool.process(KEYS[batch], LOSSES[batch], batch=2 * batch)
        before = commits(journal)
        changed = LOSSES[4].copy()
        changed[7, 2] = np.nextafter(changed[7, 2], 2.0)
        for keys, losses, error in (
            (KEYS[4], changed, dpoco.ReplayMismatch),
            (KEYS[4][::-1], LOSSES[4], dpoco.ReplayMismatch),
            (["nobody", *KEYS[4][1:]], LOSSES[4], dpoco.ReplayMismatch),
            (KEYS[4][:-1], LOSSES[4][:-1], dpoco.ReplayMismatch),
        ):
            with pytest.raises(error):
                pool.process(keys, losses, batch=8)
        for batch in (0, 7):  # too old; never played
            with pytest.raises(dpoco.StateError, match="not among the last 3"):
                pool.process(KEYS[0], LOSSES[0], batch=batch)
        with pytest.raises(ValueError, match="batch"):
            pool.process(KEYS[0], LOSSES[0], batch=-1)
        assert commits(journal) == before
        assert "nobody" not in pool


def test_the_whole_pool_is_charged_once(tmp_path):
    with Journal(tmp_path / "j.db", ledger=Ledger(Budget(1.5, 1e-5))) as journal:
        KeyedPool(hedge(), journal=journal).register(range(100))
        assert len(journal.ledger.entries) == 1
        spent = journal.spent
        KeyedPool(hedge(), journal=journal)
        assert journal.spent == spent
        with pytest.raises(dpoco.BudgetExceeded):
            KeyedPool(
                hedge(),
                journal=journal,
                name="many",
                privacy_unit="user",
                rounds_per_user=9,
                same_unit=True,
            )
        with pytest.raises(ValueError, match="one user"):
            KeyedPool(hedge(), journal=journal, name="user", privacy_unit="user")
        with pytest.raises(dpoco.StateError, match="other arguments"):
            KeyedPool(hedge(), journal=journal, max_keys=7)
        with pytest.raises(dpoco.StateError, match="other learners"):
            KeyedPool(hedge(77), journal=journal)
        with pytest.raises(dpoco.StateError, match="no pool"):
            KeyedPool(None, journal=journal, name="unknown")
        with pytest.raises(ValueError, match="back up the journal"):
            KeyedPool(hedge(), journal=journal).save(tmp_path / "pool")


def test_a_refused_batch_leaves_nothing(tmp_path):
    with Journal(tmp_path / "j.db") as journal:
        pool = KeyedPool(hedge(3), journal=journal, max_keys=4)
        pool.process(["a", "a", "b"], np.zeros((3, 4)), batch=0)
        before = commits(journal)
        with pytest.raises(dpoco.HorizonExceeded):
            pool.process(["c", "b", "a", "a"], np.zeros((4, 4)), batch=1)
        with pytest.raises(dpoco.BudgetExceeded):
            pool.process(["c", "d", "e"], np.zeros((3, 4)), batch=1)
        assert (commits(journal), pool.keys(), pool.round("b")) == (before, ["a", "b"], 1)
        assert journal.streams() == ["pool/s:a", "pool/s:b"]
        pool.process(["c", "b", "a"], np.zeros((3, 4)), batch=1)
        assert [pool.round(key) for key in "abc"] == [3, 2, 1]
        assert pool.decide("b") == pool["b"].decide()
        pool.observe("b", np.zeros(4))
        assert pool.round("b") == 3


@pytest.mark.parametrize("durable", [False, True])
def test_a_commit_that_fails(tmp_path, monkeypatch, durable):
    """Also one that was durable although it reported an error."""
    with Journal(tmp_path / "j.db") as journal:
        pool = KeyedPool(hedge(), journal=journal)
        pool.process(KEYS[0], LOSSES[0], batch=0)
        commit = type(journal._store).commit

        def failing(store):
            if durable:
                commit(store)
            raise OSError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(type(journal._store), "commit", failing)
            with pytest.raises(OSError, match="full"):
                pool.process(KEYS[1], LOSSES[1], batch=1)
        released = pool.process(KEYS[1], LOSSES[1], batch=1)
        assert pool.last_batch == 1
        assert sum(pool.round(key) for key in pool) == 2 * SIZE
        assert (pool.process(KEYS[1], LOSSES[1], batch=1) == released).all()
        pool.process(KEYS[2], LOSSES[2], batch=2)


def killed(directory, kill):
    """Play on in a child until the end or its death; return its words, and whether it died."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with Journal(directory / "j.db") as journal:
                pool = KeyedPool(None, journal=journal)
                batch = max(0, pool.last_batch)  # the last one again: its answer may be lost
                kill()
                for number in range(batch, BATCHES):
                    decisions = pool.process(KEYS[number], LOSSES[number], batch=number)
                    os.write(write, bytes([number]) + decisions.astype(np.uint8).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    words = b""
    while piece := os.read(read, 65536):
        words += piece
    os.close(read)
    _, status = os.waitpid(child, 0)
    died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return [words[i : i + SIZE + 1] for i in range(0, len(words), SIZE + 1)], died


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_between_draw_and_commit_and_after_it(tmp_path, monkeypatch):
    with Journal(tmp_path / "j.db", key=bytes(32), mark=False) as journal:
        KeyedPool(hedge(), journal=journal).register([f"user {i}" for i in range(8)])
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        shutil.copy(tmp_path / "j.db", tmp_path / name / "j.db")

    class OneKey(Journal):
        def __init__(self, path):
            super().__init__(path, key=bytes(32), mark=False)

    monkeypatch.setitem(globals(), "Journal", OneKey)
    expected = {word[0]: word for word in killed(tmp_path / "whole", lambda: None)[0]}
    assert sorted(expected) == list(range(BATCHES))

    play, commit = _keyed_learners.play_keyed, dpoco.journal.SqliteStore.commit
    seen, deaths = {}, 0
    for turn in range(3 * BATCHES):

        def kill(turn=turn):
            count = [0]

            def die():
                count[0] += 1
                if count[0] == 1 + turn % 2:
                    os.kill(os.getpid(), signal.SIGKILL)

            def drawn(*arguments):
                decisions = play(*arguments)
                if turn % 3 == 0:
                    die()
                return decisions

            def before(store):
                if turn % 3 == 1:
                    die()
                commit(store)
                if turn % 3 == 2:
                    die()

            _keyed_learners.play_keyed = drawn
            dpoco.journal.SqliteStore.commit = before

        words, died = killed(tmp_path / "killed", kill)
        deaths += died
        for word in words:
            assert seen.setdefault(word[0], word) == word
    assert deaths > BATCHES
    for word in killed(tmp_path / "killed", lambda: None)[0]:
        assert seen.setdefault(word[0], word) == word
    assert {number: seen[number] for number in seen} == {n: expected[n] for n in seen}
    assert BATCHES - 1 in seen
    with Journal(tmp_path / "killed" / "j.db") as journal:
        pool = KeyedPool(None, journal=journal)
        assert sum(pool.round(key) for key in pool) == BATCHES * SIZE
        for number in range(BATCHES):  # also those whose answers were lost
            again = pool.process(KEYS[number], LOSSES[number], batch=number)
            assert bytes([number]) + again.astype(np.uint8).tobytes() == expected[number]
