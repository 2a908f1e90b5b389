"""Compiled learners keep threads apart by themselves, without the guard around them."""

from __future__ import annotations

import itertools
import threading
from contextlib import nullcontext

import numpy as np
import pytest

import dpoco
from dpoco.audit._contract import (
    ROUNDS,
    RUNNING,
    STEPPED,
    _standard_subject,
    expect_error,
    expect_no_change,
    quiet,
)
from dpoco.learners import LEARNERS
from dpoco.random import Source

NAMES = [each.name for each in LEARNERS if each.plays in RUNNING]
SLOW = {"comw": 400, "ctrl": 2000}  # rounds, where one costs much


@pytest.mark.parametrize("name", NAMES)
def test_long_runs_are_short_ones_in_a_row(name):
    """Past the end of a chunk (8192 rounds), and of what compiled loops take at a time."""
    rounds, subject = 400 if name in SLOW else 8300, _standard_subject(name)
    parts = tuple(np.resize(part, (rounds, *part.shape[1:])) for part in subject.stream)
    with quiet():
        whole, short = (subject.make(horizon=rounds, source=Source.seeded(1)) for _ in range(2))
    ends = (0, 1, 3, 10, 74, 139, 267, 390, *range(1000, rounds, 1234), rounds)
    played = [short.run(*(p[i:j] for p in parts)) for i, j in itertools.pairwise(ends)]
    played.append(whole.run(*parts))
    if subject.plays != "sums":
        part = "actions" if subject.plays == "arms" else "decisions"
        played = [getattr(each, part) for each in played]
    assert np.array_equal(np.concatenate(played[:-1]), played[-1])
    assert whole._engine.state() == short._engine.state()


@pytest.mark.parametrize("name", NAMES)
def test_two_threads_never_interleave(name):
    """Whole compiled calls only; up to 2 s, for a call must be long enough to be met."""
    rounds, subject = SLOW.get(name, 8000), _standard_subject(name)
    parts = tuple(np.resize(part, (rounds, *part.shape[1:])) for part in subject.stream)
    with quiet():
        learner = subject.make(horizon=2 * rounds, budget=None, source=Source.seeded(1))
    learner._check_alone, learner._alone = (lambda: None), nullcontext
    outcomes, barrier = [], threading.Barrier(2)

    def play():
        barrier.wait()
        try:
            learner.run(*parts)
            outcomes.append("played")
        except dpoco.RoundOrderError:
            outcomes.append("refused")

    threads = [threading.Thread(target=play) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 2
    assert learner.round == outcomes.count("played") * rounds > 0


@pytest.mark.parametrize("name", [each.name for each in LEARNERS if each.plays in STEPPED])
def test_compiled_learners_know_their_horizon_themselves(name):
    subject = _standard_subject(name)
    learner = subject.fresh()
    subject.play(learner)
    learner._horizon = 2 * ROUNDS
    with expect_no_change(learner, "a call past the horizon"):
        expect_error("a round past the horizon", dpoco.HorizonExceeded, subject.step, learner, 0)
        if subject.plays in RUNNING:
            expect_error(
                "a run past the horizon", dpoco.HorizonExceeded, subject.run, learner, 0, 3
            )
