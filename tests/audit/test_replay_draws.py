"""Replay catches draws that depend on records, noise used again, and decisions that look ahead."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from dpoco.audit import replay_audit
from dpoco.experts import PrefixHedge
from dpoco.mechanisms import ContinualSum, NoisyMax
from dpoco.random import Source

cases = sys.modules["audit_replay_cases"]
tampered = sys.modules["audit_likelihood_cases"].tampered
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


class Counting:
    """An engine that draws one variate more for some records."""

    def __init__(self, engine, choose):
        self.__dict__.update(engine=engine, choose=choose, extra=0)

    def __getattr__(self, name):
        found = getattr(self.engine, name)
        if name == "variates_drawn":
            return lambda: [self.extra + self.engine.variates_drawn()[0], *found()[1:]]
        if name in ("observe", "observe_gradient"):

            def observed(turn, record, *rest):
                self.__dict__["extra"] += int(self.choose(record))
                return found(turn, record, *rest)

            return observed
        return found


ENGINES = [
    "TreeFrankWolfe", "PolyhedralFrankWolfe, batches", "NoisyFTRL", "PrefixHedge", "EpochSelector",
    "ShiftDetector", "ObliviousTracker", "BatchShare", "LipschitzLearner",
    "CoupledRegularizedLeader", "ContinuousMultiplicativeWeights, dartboard",
]  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
def test_a_draw_that_depends_on_the_record_is_caught(name):
    make, stream, replacements = cases.CASES[name]

    def liar(source):
        learner = make(source)
        learner._engine = Counting(learner._engine, lambda row: np.nan_to_num(row).max() > 0.99)
        return learner

    caught = replay_audit(liar, stream, replacements)
    assert any("variates" in text for text in caught.findings)


def bumped(state, by):
    words = np.frombuffer(state, dtype="<u8").copy()
    words[-3] = words[-3] + by if by else 0  # exponentials drawn
    return words.tobytes()


@pytest.mark.parametrize("name", ["NoisyMax", "AboveThreshold"])
def test_draws_of_mechanisms_that_depend_on_the_record_are_caught(name):
    make, stream, replacements = cases.CASES[name]

    class Eager(type(make(Source.seeded(0)))):
        def _after(self, value):
            if np.max(value) > np.mean(stream):
                self._engine.restore(bumped(self._engine.state(), 1))

        def select(self, scores):
            chosen = super().select(scores)
            self._after(np.max(scores) + (0.9 if scores[1] < 0 else -9.0))
            return chosen

        def test(self, value, threshold=0.0):
            answer = super().test(value, threshold)
            self._after(value)
            return answer

    def liar(source):
        learner = make(source)
        learner.__class__ = Eager
        return learner

    caught = replay_audit(liar, stream, replacements)
    assert any("variates" in text for text in caught.findings)


def test_noise_that_is_used_again_is_caught():
    class Again(ContinualSum):
        """Every sum with the noise of the first."""

        def push(self, value):
            claim = getattr(self, "claim", None)
            if claim is None:
                return super().push(value)
            before = np.frombuffer(self._engine.state(), dtype="<u8")
            total = before[2 : 2 + self._mechanism.summand.size].view(np.float64)
            vector = replace(self._mechanism.summand, bound=1e9)
            wide = replace(
                self.plan, mechanism=replace(self._mechanism, summand=vector, grid=0.0, limit=0)
            )
            self._set_up(self._arguments, wide, True, claim)
            return super().push(np.asarray(value) + total)

    def make(source):
        sums = Again(2, horizon=6, budget=cases.GAUSS, bound=1.0, source=source)
        sums.claim = Source.seeded(3)._claim()
        return sums

    rows = np.tile([0.3, 0.4], (6, 1))
    report = replay_audit(make, rows, [(2, [-0.3, 0.4])])
    assert "drew no noise" in str(report)

    class Stuck(NoisyMax):
        """Every selection with the noise of the first."""

        def select(self, scores):
            chosen = super().select(scores)
            self._engine.restore(bumped(self._engine.state(), 0))
            return chosen

    report = replay_audit(
        cases.of(Stuck, 3, budget=cases.PURE, sensitivity=1.0),
        np.zeros((5, 3)),
        [(2, [1.0, 0.0, 0.0])],
    )
    assert "drew no noise" in str(report)


@pytest.mark.parametrize("name", ["TreeFrankWolfe", "PrefixHedge", "BatchShare", "LinUCB"])
def test_an_engine_without_noise_under_a_private_claim_is_caught(name):
    make, stream, replacements = cases.CASES[name]

    def liar(source):
        learner = make(source)
        honest = learner._mechanism
        numbers = {"scale": 0.0, "grid": 0.0} | ({} if name == "BatchShare" else {"limit": 0})
        learner._mechanism = replace(honest, **numbers)
        learner._engine = learner._build_engine(source._claim())
        learner._mechanism = honest
        return learner

    caught = replay_audit(liar, stream, replacements)
    assert "drew no noise" in str(caught)


def test_a_decision_that_looks_ahead_is_caught():
    class Foresighted(PrefixHedge):
        rows = None

        def decide(self):
            super().decide()
            return int(np.argmin(self.rows[min(self.round + 1, len(self.rows) - 1)]))

    _, stream, replacements = cases.CASES["PrefixHedge"]
    tapes = iter(range(100))

    def liar(source):
        learner = cases.of(Foresighted, cases.N)(source)
        k = next(tapes)  # one probe, one repetition, then the neighbours in order
        learner.rows = stream.copy()
        if k >= 2:
            at, row = replacements[k - 2]
            learner.rows[at] = np.nan_to_num(row)
        return learner

    assert "earlier decision" in str(replay_audit(liar, stream, replacements))
