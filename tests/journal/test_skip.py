"""A bandit's round whose context or reward is lost ends as an empty record."""

from __future__ import annotations

import numpy as np
import pytest
from tests.journal.crash_cases import recorded
from tests.journal.journal_cases import QuickStore, opened
from tests.journal.ticket_cases import BANDITS, CASES

import dpoco
from dpoco.journal import Journal

LOST = (1, 4, 5, 9, 20)  # rounds; the second bandit's first eight are forced


def reference(case):
    """Arms and last state of a learner that skips, without a journal."""
    learner, arms = case.make(1), []
    for turn, (context, rewards) in enumerate(zip(*case.batch, strict=True)):
        arms.append(learner.decide(context))
        if turn in LOST:
            learner.skip()
        else:
            learner.observe(rewards[arms[-1]])
    return arms, learner._engine.state()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("name", BANDITS)
def test_a_stream_goes_on_after_a_context_is_lost(name, crash, tmp_path):
    case = CASES[name]
    expected, state = reference(case)
    journal = opened(tmp_path)
    stream, arms = journal.open("offers", lambda: case.make(1)), []
    for turn, (context, rewards) in enumerate(zip(*case.batch, strict=True)):
        arms.append(stream.decide(context))
        if turn not in LOST:
            stream.observe(rewards[arms[-1]], round=turn)
            continue
        if crash:
            journal.close()
            journal = opened(tmp_path)
            stream = journal.open("offers")
            with pytest.raises(dpoco.RoundOrderError):
                stream.observe(0.5)
            with pytest.raises(dpoco.ReplayMismatch):
                stream.decide(np.zeros(3))
        stream.skip()
    assert arms == expected
    assert stream._learner._engine.state() == state
    assert stream.releases(0, len(arms)).tolist() == arms
    for turn in range(len(arms)):
        if turn in LOST:
            stream.skip(round=turn)
            with pytest.raises(dpoco.ReplayMismatch):
                stream.observe(case.batch[0][turn], 0.5, round=turn)
        else:
            with pytest.raises(dpoco.ReplayMismatch):
                stream.skip(round=turn)
    assert stream._learner._engine.state() == state
    journal.close()


def test_a_skipped_round_is_a_record_of_nans(tmp_path):
    case, nothing = CASES["LinUCB"], (np.full((1, 3), np.nan), np.full((1, 4), np.nan))
    with opened(tmp_path) as journal:
        stream = journal.open("offers", lambda: case.make(1))
        arm = stream.decide(case.batch[0][0])
        stream.skip()
        assert stream.process(*nothing, first_round=0).tolist() == [arm]
        with pytest.raises(dpoco.ReplayMismatch):
            stream.observe(np.zeros(3), 0.0, round=0)
        stream.process(*nothing, first_round=1)
        stream.skip(round=1)
        assert stream.round == 2


def test_killed_before_and_after_every_statement(tmp_path):
    case = CASES["LinUCB"]
    contexts, rewards = (array[:4] for array in case.batch)

    def serve(store, contexts):
        """Decide, and skip what was begun with a context that nobody knows any more."""
        arms = []
        with Journal(store) as journal:
            stream = journal.open("offers", lambda: case.make(1))
            for turn in range(stream.round, 4):
                try:
                    arms.append((turn, stream.decide(contexts[turn])))
                    if turn % 2:
                        stream.skip(round=turn)
                    else:
                        stream.observe(rewards[turn, arms[-1][1]], round=turn)
                except dpoco.ReplayMismatch:
                    stream.skip(round=turn)
            return arms, stream.releases(0, 4).tolist()

    store, images = recorded(tmp_path, {})
    serve(store, contexts)
    lost = 0
    for (place, _), kills in zip(images, images.counts, strict=True):
        begun, released = serve(QuickStore(place / "journal.db"), -contexts)
        assert len(released) == 4
        assert all(released[turn] == arm for turn, arm in begun)
        with Journal(QuickStore(place / "journal.db")) as journal:
            assert journal.open("offers").round == 4
        lost += kills * (len(begun) < 4)
    assert images.kills >= 50
    assert lost >= 10


def test_without_a_decision_there_is_nothing_to_skip(tmp_path):
    with opened(tmp_path) as journal:
        stream = journal.open("offers", lambda: CASES["LinUCB"].make(1))
        for turn in (None, 0, 3):
            with pytest.raises(dpoco.RoundOrderError):
                stream.skip(round=turn)
        stream.decide(np.ones(3))
        stream.skip(round=0)
        with pytest.raises(dpoco.RoundOrderError):
            stream.skip()
        hedge = journal.open("hedge", lambda: CASES["PrefixHedge"].make(1))
        with pytest.raises(TypeError, match="NaNs"):
            hedge.skip()
        assert (stream.round, hedge.round) == (1, 0)
