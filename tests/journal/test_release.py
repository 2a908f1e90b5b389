"""A journal releases what the learner would, once, and the same after any restart."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.journal.journal_cases import ROUNDS, Case, cases, opened

import dpoco
from dpoco.losses import LinearLoss, LogisticLoss

CASES = cases()
NAMES = [case.name for case in CASES]
BANDIT = CASES[NAMES.index("LinUCB")]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_learner_s_own_releases_in_batches_of_any_size(case: Case, tmp_path):
    expected = case.reference()
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: case.make(1))
        parts = [
            stream.process(*case.part(a, b)) for a, b in ((0, 1), (1, 1), (1, 10), (10, ROUNDS))
        ]
        assert stream.round == ROUNDS
        np.testing.assert_array_equal(np.concatenate([p for p in parts if len(p)]), expected)
        assert all(not part.flags.writeable for part in parts)
        with pytest.raises(dpoco.HorizonExceeded):
            stream.process(*case.part(0, 1))
        np.testing.assert_array_equal(stream.releases(3, 12), expected[3:12])
        assert np.array_equal(stream.release(5), expected[5])


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_replays_give_the_stored_release_and_nothing_else(case: Case, tmp_path):
    expected = case.reference()
    with opened(tmp_path) as journal:
        journal.open("a", lambda: case.make(1)).process(*case.part(0, 9))
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        np.testing.assert_array_equal(
            stream.process(*case.part(2, 7), first_round=2), expected[2:7]
        )
        with pytest.raises(dpoco.ReplayMismatch):  # in its old part: the new one is not played
            stream.process(*case.changed(4), first_round=0)
        assert stream.round == 9
        whole = stream.process(*case.batch, first_round=0)  # partly committed
        np.testing.assert_array_equal(whole, expected)
        for place in (0, 8, ROUNDS - 1):
            before = stream.round
            with pytest.raises(dpoco.ReplayMismatch, match=f"round {place} "):
                stream.process(*case.changed(place), first_round=0)
            assert stream.round == before
        assert stream.process(*case.part(0, 0), first_round=3).shape[0] == 0
        with pytest.raises(dpoco.RoundOrderError, match="rounds are missing"):
            stream.process(*case.part(0, 1), first_round=ROUNDS + 1)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name != "LinUCB"], ids=lambda case: case.name
)
def test_round_by_round(case: Case, tmp_path):
    expected = case.reference()
    answers = case.name in ("ContinualSum", "NoisyMax", "AboveThreshold")
    for turn in range(6):
        with opened(tmp_path) as journal:  # restarted in every round
            stream = journal.open("a", lambda: case.make(1))
            record = [array[turn] for array in case.batch]
            if answers:
                with pytest.raises(TypeError):
                    stream.decide()
                assert np.array_equal(stream.observe(*record), expected[turn])
            else:
                assert np.array_equal(stream.decide(), expected[turn])
                assert np.array_equal(stream.decide(), stream.release(turn))
                assert stream.observe(*record, round=turn) is None
            stream.observe(*record, round=turn)  # doubled by an impatient caller
            assert stream.round == turn + 1
            other = [array[turn] + 0.25 for array in case.batch]
            with pytest.raises(dpoco.ReplayMismatch):
                stream.observe(*other, round=turn)


def test_a_bandit_round_by_round(tmp_path):
    expected = BANDIT.reference()
    contexts, rewards = BANDIT.batch
    for turn in range(6):
        with opened(tmp_path) as journal:
            stream = journal.open("a", lambda: BANDIT.make(1))
            arm = stream.decide(contexts[turn])
            assert arm == expected[turn]
        with opened(tmp_path) as journal:  # killed before the reward came
            stream = journal.open("a")
            with pytest.raises(dpoco.RoundOrderError):
                stream.observe(0.5)
            with pytest.raises(dpoco.ReplayMismatch, match="another context"):
                stream.decide(contexts[turn] + 0.1)
            with pytest.raises(dpoco.ReplayMismatch, match="another context"):
                stream.process(contexts[turn : turn + 1] + 0.1, rewards[turn : turn + 1])
            if turn % 2:
                assert stream.decide(list(contexts[turn])) == arm
                stream.observe(rewards[turn, arm])
            else:
                stream.observe(contexts[turn], rewards[turn, arm], round=turn)
            stream.observe(contexts[turn], rewards[turn, arm], round=turn)
            with pytest.raises(dpoco.ReplayMismatch):
                stream.observe(contexts[turn], rewards[turn, arm] + 0.1, round=turn)
            with pytest.raises(dpoco.RoundOrderError):
                stream.observe(rewards[turn, arm], round=turn)
            assert stream.round == turn + 1
    with opened(tmp_path) as journal:
        stream = journal.open("a")
        # Rewards of arms that were not chosen are never seen: they may differ.
        rewards = np.where(np.arange(4) == expected[:, None], rewards, 9.0)
        np.testing.assert_array_equal(stream.process(contexts, rewards, first_round=0), expected)


def test_a_pending_bandit_round_in_a_batch(tmp_path):
    expected = BANDIT.reference()
    with opened(tmp_path) as journal:
        journal.open("a", lambda: BANDIT.make(1)).decide(BANDIT.batch[0][0])
    with opened(tmp_path) as journal:
        np.testing.assert_array_equal(journal.open("a").process(*BANDIT.batch), expected)


def test_equal_records_in_other_clothes(tmp_path):
    case = CASES[0]
    features, labels = (array.astype(np.float32) for array in case.batch)
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: case.make(1))
        out = stream.process(features, labels)
        for x, y in (
            (features.astype(float), labels.astype(float)),
            (features.tolist(), labels.tolist()),
            (np.asfortranarray(features), labels[::-1][::-1]),
        ):
            np.testing.assert_array_equal(stream.process(x, y, first_round=0), out)


def test_functions_of_points(tmp_path):
    case = CASES[NAMES.index("LipschitzLearner")]
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: case.make(1))
        stream.observe(lambda points: points[:, 0])
        values = [0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]
        np.testing.assert_array_equal(
            stream.process([values], first_round=0), stream.releases(0, 1)
        )


def test_a_transaction_over_streams(tmp_path):
    with opened(tmp_path) as journal:
        streams = [journal.open(c.name, lambda c=c: c.make(1)) for c in CASES]
        with journal.transaction() as together:
            works = [
                together.process(s, *c.part(0, 9)) for s, c in zip(streams, CASES, strict=True)
            ]
            more = together.process(streams[0], *CASES[0].part(5, 12), first_round=5)
            with pytest.raises(dpoco.RoundOrderError, match="committed"):
                _ = works[0].decisions
        for work, case in zip(works, CASES, strict=True):
            np.testing.assert_array_equal(work.decisions, case.reference()[:9])
        np.testing.assert_array_equal(more.decisions, CASES[0].reference()[5:12])
        assert journal.streams() == NAMES
    with opened(tmp_path) as journal:
        assert [journal.open(name).round for name in NAMES[:3]] == [12, 9, 9]


def test_a_failed_transaction_releases_nothing_of_any_stream(tmp_path):
    with opened(tmp_path) as journal:
        streams = [journal.open(c.name, lambda c=c: c.make(1)) for c in CASES]
        together, works = journal.transaction(), []

        def fail():
            for stream, case in zip(streams, CASES, strict=True):
                works.append(together.process(stream, *case.part(0, 9)))
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError), together:
            fail()
        with pytest.raises(dpoco.RoundOrderError):
            _ = works[0].decisions
        with pytest.raises(dpoco.RoundOrderError):
            together.process(streams[0], *CASES[0].part(0, 1))
        assert [stream.round for stream in streams] == [0] * len(streams)
        for stream, case in zip(streams, CASES, strict=True):
            np.testing.assert_array_equal(stream.process(*case.batch), case.reference())


def test_bad_batches_change_nothing(tmp_path):
    case = CASES[0]
    features, labels = case.batch
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: case.make(1))
        for bad in (
            (features,),
            (features, labels[:-1]),
            (features[:, :2], labels),
            (None, labels),
        ):
            with pytest.raises((TypeError, ValueError)):
                stream.process(*bad)
        for first in (-1, 0.0, "0", True):
            with pytest.raises((TypeError, ValueError)):
                stream.process(features, labels, first_round=first)
        with pytest.raises(dpoco.HorizonExceeded):
            stream.process(np.vstack([features] * 2), np.hstack([labels] * 2))
        assert stream.round == 0
        np.testing.assert_array_equal(stream.process(*case.batch), case.reference())


def test_what_a_journal_does_not_hold(tmp_path):
    with opened(tmp_path) as journal:
        custom = dpoco.frank_wolfe.TreeFrankWolfe(
            dpoco.domains.LpBall(2),
            dpoco.losses.CustomLoss(lipschitz=1.0, smoothness=1.0),
            horizon=10,
            budget=None,
        )
        for thing in (custom, object(), 3, "learner"):
            with pytest.raises(TypeError):
                journal.open("a", lambda thing=thing: thing)
        with pytest.raises(dpoco.StateError, match="no stream"):
            journal.open("a")
        with pytest.raises(ValueError, match="name"):
            journal.open("", lambda: CASES[0].make(1))
        assert journal.streams() == []


def test_learners_can_be_unloaded(tmp_path):
    case = CASES[0]
    with opened(tmp_path) as journal:
        stream = journal.open("a", lambda: case.make(1))
        for start in range(0, ROUNDS, 6):
            part = stream.process(*case.part(start, start + 6))
            np.testing.assert_array_equal(part, case.reference()[start : start + 6])
            stream.unload()
        assert stream.horizon == ROUNDS


def test_check_compares_the_arguments(tmp_path):
    case = CASES[3]
    with opened(tmp_path) as journal:
        first = journal.open("a", case.make(1))
        assert journal.open("a", case.make(2), check=True) is first
        other = CASES[4].make(1)
        assert journal.open("a", other, check=False) is first
        with pytest.raises(dpoco.StateError, match="other arguments"):
            journal.open("a", other)
    made = []

    def make(seed, number=3):
        made.append(CASES[number].make(seed))
        return made[-1]

    with opened(tmp_path) as journal:
        for attempt in (lambda: make(1, 4), lambda: make(None), object):
            with pytest.raises(dpoco.StateError, match="other arguments"):
                journal.open("a", attempt)
        assert len(made) == 2
        journal.open("a", lambda: pytest.fail("called"), check=False)
    with opened(tmp_path) as journal:
        first = journal.open("a", lambda: make(2))
        assert journal.open("a", lambda: pytest.fail("compared already")) is first
        assert first.decide() is not None


def test_guarantees_are_computed_once_for_each_header(tmp_path, monkeypatch):
    from dpoco.accounting import sum_release

    budgets = [dpoco.Budget(1.0, 1e-6), dpoco.Budget(2.0, 1e-6)]

    def make(budget):
        return dpoco.mechanisms.ContinualSum(3, horizon=ROUNDS, budget=budget, bound=1.0)

    values = CASES[NAMES.index("ContinualSum")].batch
    with opened(tmp_path) as journal:
        seen = {}
        for number in range(12):
            stream = journal.open(str(number), lambda n=number: make(budgets[n % 2]))
            seen[stream.name] = stream.process(values[0][:5]), stream.guarantee
        assert seen["0"][1] != seen["1"][1]
    computed = []
    guarantee = sum_release.guarantee

    def counted(*arguments, **options):
        computed.append(arguments)
        return guarantee(*arguments, **options)

    monkeypatch.setattr(sum_release, "guarantee", counted)
    with opened(tmp_path) as journal:
        for name, (releases, stated) in seen.items():
            stream = journal.open(name)
            assert stream.guarantee == stated
            np.testing.assert_array_equal(stream.process(values[0][:5], first_round=0), releases)
            stream.unload()
            assert len(np.unique(stream.process(values[0][5:9])[:, 0])) == 4
        assert len(computed) == 2
        states = {journal.open(name)._learner._engine.state() for name in seen}
        assert len(states) == 12  # each has noise of its own


@pytest.mark.parametrize("loss", [LogisticLoss(1.0), LinearLoss(1.0)])
@pytest.mark.parametrize("late", [False, True])
def test_a_missing_label_is_that_of_the_learner_itself(tmp_path, loss, late):
    def make():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
            return dpoco.oco.NoisyFTRL(
                dpoco.domains.LpBall(3), loss, horizon=ROUNDS, budget=dpoco.Budget(1.0, 1e-6),
                source=dpoco.random.Source.seeded(1),
            )  # fmt: skip

    alone = make()
    with opened(tmp_path) as journal:
        stream = journal.open("a", make)
        for label in (None, 1.0 if loss.glm else None):
            for each in (alone, stream):
                _, ticket = each.decide(ticket=True) if late else (each.decide(), None)
                each.observe(np.ones(3) / 3, label, ticket=ticket)
        assert np.array_equal(stream.decide(), alone.decide())


def test_threads_that_open_a_stream_at_once_get_one(tmp_path):
    meet, one = threading.Barrier(2, timeout=60), threading.Lock()

    def make():
        if threading.current_thread() not in made:
            made.append(threading.current_thread())
            meet.wait()
        with one:  # filters of warnings belong to all threads
            return CASES[0].make(1)

    made = []
    with opened(tmp_path) as journal, ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: journal.open("a", make), range(2))
        assert first is second
        assert journal.streams() == ["a"]


@pytest.mark.parametrize("loss", [dpoco.losses.LinearLoss(1.0), dpoco.losses.SquaredLoss(1.0, 1.0)])
def test_a_record_without_a_label_after_the_learner_was_unloaded(loss, tmp_path):
    def make():
        ball = dpoco.domains.LpBall(3)
        return dpoco.frank_wolfe.TreeFrankWolfe(ball, loss, horizon=9, budget=None)

    with opened(tmp_path) as journal:
        stream = journal.open("a", make)
        stream.unload()
        stream.observe([0.1, 0.2, 0.3], None)
        assert stream.round == 1
