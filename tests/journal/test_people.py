"""Streams that enforce a participation: exact counters, whatever happens to the process."""

from __future__ import annotations

import functools
import shutil
import threading

import numpy as np
import pytest
from tests.journal.crash_cases import check_people, counters, image, recorded
from tests.journal.journal_cases import KEY, QuickStore, opened

import dpoco
from dpoco.domains import LpBall
from dpoco.journal import Journal, _stream
from dpoco.losses import SquaredLoss
from dpoco.random import Source

ROUNDS = 30
RNG = np.random.default_rng(21)
NAMES = [f"user {n}" for n in RNG.integers(0, 6, ROUNDS)]
LOSSES = RNG.uniform(size=(ROUNDS, 3))
FEATURES, LABELS = RNG.normal(size=(ROUNDS, 3)) / 3.0, RNG.uniform(-1.0, 1.0, ROUNDS)
COUNTS, RING = dpoco.Participation(2, 3), dpoco.Participation(None, 8)
BANDIT = functools.partial(dpoco.bandits.LinUCB, context_bound=1.0, reward_bound=1.0)
CLASSES = {
    "experts": (dpoco.experts.PrefixHedge, (3,), (LOSSES,)),
    "records": (
        dpoco.frank_wolfe.TreeFrankWolfe,
        (LpBall(3), SquaredLoss(1.0, 1.0)),
        (FEATURES, LABELS),
    ),
    "arms": (BANDIT, (3, 3), (FEATURES, LOSSES)),
}
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@functools.cache
def parameters(name, rule):
    kind, problem, _ = CLASSES[name]
    budget = dpoco.Budget(1.0, 1e-6)
    return kind(*problem, horizon=ROUNDS, budget=budget, participation=rule).plan


def learner(name="experts", rule=COUNTS, seed=1):
    kind, problem, _ = CLASSES[name]
    return kind(
        *problem, horizon=ROUNDS, budget=dpoco.Budget(1.0, 1e-6), participation=rule,
        plan=parameters(name, rule), source=None if seed is None else Source.seeded(seed),
    )  # fmt: skip


def batch(name, start, stop):
    return tuple(part[start:stop] for part in CLASSES[name][2])


def reference(name, rule=COUNTS):
    alone = learner(name, rule)
    trace = alone.run(*batch(name, 0, ROUNDS), persons=NAMES)
    return alone, getattr(trace, "actions" if name == "arms" else "decisions")


@pytest.fixture(params=[128, 4], ids=["snapshots", "rounds"])
def written(request, monkeypatch):
    """How people are read again: as they were stored as a whole, or from the rounds since."""
    monkeypatch.setattr(_stream, "_WRITTEN", request.param)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("rule", [COUNTS, RING], ids=["counts", "ring"])
def test_a_stream_is_the_learner_in_any_batches_after_restarts_and_sent_again(
    name, rule, written, tmp_path
):
    alone, expected = reference(name, rule)
    for _ in range(2):
        at = 0
        for size in (1, 4, 12, 13):
            with opened(tmp_path) as journal:
                stream = journal.open("a", lambda: learner(name, rule))
                check_people(stream, NAMES)
                part, who = batch(name, at, at + size), NAMES[at : at + size]
                released = stream.process(*part, first_round=at, person=who)
                np.testing.assert_array_equal(released, expected[at : at + size])
                at += size
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        check_people(stream, NAMES)
        assert stream._learner._engine.state() == alone._engine.state()
        with pytest.raises(dpoco.HorizonExceeded):
            stream.process(*batch(name, 0, 1), person=NAMES[:1])
        check_people(stream, NAMES)


def test_round_by_round_and_in_a_pipeline(tmp_path):
    alone, expected = reference("records")
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: learner("records"))
        for turn in range(5):
            np.testing.assert_array_equal(stream.decide(), expected[turn])
            for _ in range(2):
                stream.observe(FEATURES[turn], LABELS[turn], round=turn, person=NAMES[turn])
        parts = [(*batch("records", at, at + 5), NAMES[at : at + 5]) for at in range(0, ROUNDS, 5)]
        released = list(stream.process_many(parts, first_round=0, together=2))
        np.testing.assert_array_equal(np.concatenate(released), expected)
        check_people(stream, NAMES)
        assert stream._learner._engine.state() == alone._engine.state()


def test_a_bandit_round_by_round_with_lost_contexts_and_tickets(written, tmp_path):
    alone = learner("arms")
    who = [*NAMES[:3], "", *NAMES[4:6]]
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: learner("arms"))
        for turn in range(6):
            arm = alone.decide(FEATURES[turn])
            assert stream.decide(FEATURES[turn]) == arm
            if turn == 3:
                stream.unload()  # as a crash does: who it was is lost, too
                stream.skip(round=3, person="")
                alone.skip(person="")
            else:
                stream.observe(LOSSES[turn, arm], person=NAMES[turn])
                alone.observe(LOSSES[turn, arm], person=NAMES[turn])
        stream.skip(round=3, person="")
        with pytest.raises(dpoco.ReplayMismatch):
            stream.skip(round=3, person=NAMES[3])
        check_people(stream, who)
        tickets = [stream.decide(context, ticket=True)[1] for context in FEATURES[6:9]]
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        for _ in range(2):  # a ticket that comes again counts nobody again
            stream.observe(0.5, ticket=tickets[1], person=NAMES[7])
            stream.skip(ticket=tickets[0], person=NAMES[6])
        for person in (NAMES[6] + "?", None, 5):
            with pytest.raises((dpoco.ReplayMismatch, TypeError)):
                stream.observe(0.5, ticket=tickets[1], person=person)
        check_people(stream, [*who, NAMES[7], NAMES[6]])
    with opened(tmp_path) as journal:
        check_people(journal.open("a"), [*who, NAMES[7], NAMES[6]])


def test_refusals_before_anything_is_drawn_or_counted(tmp_path):
    with opened(tmp_path) as journal:
        few = dpoco.Participation(2, 3, max_persons=3)
        stream = journal.open("a", lambda: learner(rule=few))
        plain = journal.open("b", dpoco.experts.PrefixHedge(3, horizon=ROUNDS, budget=None))
        sums = journal.open(
            "c", dpoco.mechanisms.ContinualSum(3, horizon=9, budget=None, bound=1.0)
        )
        stream.process(LOSSES[:2], person=["x", "y"])
        commits, before = journal._rows.head.sequence, counters(stream._learner._limiter)
        for at, error, person in (
            (2, TypeError, None), (2, TypeError, [1]), (2, TypeError, [b"x"]),
            (2, TypeError, [1.5]), (2, ValueError, ["x", "y"]), (2, ValueError, "x"),
            (0, TypeError, [1]), (0, dpoco.ReplayMismatch, ["y"]),
            (3, dpoco.RoundOrderError, ["x"]),
        ):  # fmt: skip
            with pytest.raises(error):
                stream.process(LOSSES[:1], first_round=at, person=person)
        with pytest.raises(TypeError, match="person"):
            stream.observe(LOSSES[0])
        with pytest.raises(dpoco.RoundOrderError, match="max_persons"):
            stream.process(LOSSES[:4], person=["x", "p", "q", "x"])
        for other in (plain, sums):
            with pytest.raises(TypeError, match="ignored"):
                other.process(LOSSES[:1], person=["x"])
        assert (journal._rows.head.sequence, counters(stream._learner._limiter)) == (
            commits,
            before,
        )
        stream.process(LOSSES[:2], person=["p", "x"])
    with opened(tmp_path) as journal, pytest.raises(dpoco.RoundOrderError, match="max_persons"):
        journal.open("a").process(LOSSES[:1], person=["q"])


@pytest.mark.parametrize("durable", [False, True])
def test_a_commit_that_fails_counts_what_is_durable(durable, written, tmp_path, monkeypatch):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: learner())
        stream.process(LOSSES[:5], person=NAMES[:5])
        commit = QuickStore.commit

        def failing(store):
            if durable:
                commit(store)
            raise OSError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(QuickStore, "commit", failing)
            with pytest.raises(OSError, match="full"):
                stream.process(LOSSES[5:9], person=NAMES[5:9])
        assert stream.round == (9 if durable else 5)
        check_people(stream, NAMES)


def kill_everywhere(tmp_path, name, rule):
    """Kill before and after every statement; return how often, each time with exact counters."""
    sizes = np.random.default_rng(5).integers(1, 7, ROUNDS)
    stops = [int(stop) for stop in np.cumsum(sizes) if stop <= ROUNDS]

    def serve(store):
        at, released = 0, []
        with Journal(store) as journal:
            stream = journal.open("a", lambda: learner(name, rule))
            check_people(stream, NAMES)
            for stop in stops:
                part, who = batch(name, at, stop), NAMES[at:stop]
                released.append(stream.process(*part, first_round=at, person=who))
                at = stop
            check_people(stream, NAMES)
        return np.concatenate(released)

    tmp_path.mkdir(exist_ok=True)
    store, images = recorded(tmp_path, {})
    expected = reference(name, rule)[1][: stops[-1]]
    np.testing.assert_array_equal(serve(store), expected)
    for place, _ in images:
        np.testing.assert_array_equal(serve(QuickStore(place / "journal.db")), expected)
    return images.kills


def test_killed_at_two_hundred_points(tmp_path, monkeypatch):
    kills = 0
    for name, rule, bytes_a_round in (
        ("experts", COUNTS, 4), ("experts", COUNTS, 128), ("arms", RING, 4)
    ):  # fmt: skip
        monkeypatch.setattr(_stream, "_WRITTEN", bytes_a_round)
        kills += kill_everywhere(tmp_path / f"{kills}", name, rule)
    assert kills >= 200


def test_killed_between_counting_and_commit_and_after_it(tmp_path, monkeypatch):
    """Some kills of the slow test."""
    monkeypatch.setattr(_stream, "_WRITTEN", 4)
    (tmp_path / "live").mkdir()
    commit, images = QuickStore.commit, []

    def copied(store):
        for step in (lambda _: None, commit):
            step(store)
            images.append(tmp_path / f"image {len(images)}")
            image(tmp_path / "live", images[-1])

    with monkeypatch.context() as patch, opened(tmp_path / "live") as journal:
        stream = journal.open("a", lambda: learner())
        patch.setattr(QuickStore, "commit", copied)
        for turn in range(8):
            stream.observe(LOSSES[turn], person=NAMES[turn])
    for turn, place in enumerate(images):
        with opened(place) as journal:
            check_people(journal.open("a"), NAMES)
            assert journal.open("a").round == (turn + 1) // 2


def test_upkeep_keeps_the_counters(written, tmp_path):
    with Journal(QuickStore(tmp_path / "journal.db")) as journal:
        stream = journal.open("a", lambda: learner())
        for turn in range(20):
            stream.observe(LOSSES[turn], person=NAMES[turn])
            if turn == 9:
                journal.rotate_key()
                assert journal.compact("a") >= 8
        assert journal.compact("a") == 10
        for turn in (20, 21):  # the latter alone, so that the former need not be kept
            stream.observe(LOSSES[turn], person=NAMES[turn])
        assert journal.forget("a", 21) == 21
        stream.observe(LOSSES[21], person=NAMES[21], round=21)
        with pytest.raises(dpoco.StateError, match="not kept"):
            stream.observe(LOSSES[20], person=NAMES[20], round=20)
        assert len(journal._rows._next.keys) == 2
        journal.rotate_key()  # and the key of rounds that are gone goes, too
        assert len(journal._rows.head.keys) == 2
    with Journal(QuickStore(tmp_path / "journal.db")) as journal:
        check_people(journal.open("a"), NAMES)


def test_two_threads(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: learner())
        order, lock = [], threading.Lock()

        def client(name):
            for _ in range(6):
                with lock, journal.transaction() as together:
                    together.process(stream, LOSSES[:1], person=[name])
                    order.append(name)

        threads = [threading.Thread(target=client, args=(name,)) for name in ("x", "y")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check_people(stream, order)
    with opened(tmp_path) as journal:
        check_people(journal.open("a"), order)


def test_copies_forks_and_adopted_learners_know_who_came(tmp_path):
    ledger = dpoco.accounting.ledger.Ledger(dpoco.Budget(9.0, 1e-5))
    path = tmp_path / "one.db"
    with Journal(QuickStore(path), key=KEY, ledger=ledger, mark=False) as journal:
        started = learner()
        started.run(LOSSES[:4], persons=NAMES[:4])
        stream = journal.adopt("a", started)
        stream.process(LOSSES[4:9], person=NAMES[4:9])
        child = stream.fork("b")
        for each in (stream, child):
            each.process(LOSSES[9:12], person=NAMES[9:12])
            check_people(each, NAMES)
        # Each counts for itself from the fork on.
        child.process(LOSSES[12:13], person=["somebody"])
        check_people(stream, NAMES)
    shutil.copy(path, tmp_path / "two.db")
    for place in (path, tmp_path / "two.db"):
        with Journal(QuickStore(place), key=KEY, mark=False) as journal:
            check_people(journal.open("a"), NAMES)
            check_people(journal.open("b"), [*NAMES[:12], "somebody"])
    with pytest.raises(dpoco.StateError, match="key"):
        Journal(QuickStore(tmp_path / "two.db"), key=bytes(32), mark=False)


@pytest.mark.parametrize("damage", ["DELETE FROM sealed", "UPDATE sealed SET body = ?"])
def test_lost_people_are_refused(damage, tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: learner())
        stream.process(LOSSES[:5], person=NAMES[:5])
        older = journal._store._run("SELECT body FROM sealed WHERE kind = 4 AND owner = 1")[0]
        stream.process(LOSSES[5:9], person=NAMES[5:9])
        given = older if "?" in damage else ()
        journal._store._run(f"{damage} WHERE kind = 4 AND owner = 1", given)
        stream.unload()
        with pytest.raises(dpoco.StateError):
            stream.round  # noqa: B018
    with pytest.raises(dpoco.StateError), opened(tmp_path) as journal:
        journal.open("a").process(LOSSES[9:10], person=["x"])


def test_people_are_stored_as_a_whole_seldom(tmp_path, monkeypatch):
    """Bytes written grow with the rounds, not with rounds times people."""
    sizes, rounds = [], 3000
    rule = dpoco.Participation(1)
    hedge = dpoco.experts.PrefixHedge(3, horizon=rounds, budget=None, participation=rule)
    put = QuickStore.put

    def measured(store, rows):
        rows = list(rows)
        sizes.extend(len(row.body) for row in rows if row.kind == 4 and row.owner == 1)
        put(store, rows)

    monkeypatch.setattr(QuickStore, "put", measured)
    with opened(tmp_path) as journal:
        stream = journal.open("a", hedge)
        for start in range(0, rounds, 10):
            stream.process(
                np.zeros((10, 3)), first_round=start, person=np.arange(start, start + 10)
            )
    assert len(sizes) >= 5
    assert max(sizes) >= 24 * rounds / 2
    assert sum(sizes) <= (_stream._WRITTEN + 40) * rounds
