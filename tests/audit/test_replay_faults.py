"""Replay catches small bounds, too little noise, draws that hang on records, and long memories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.audit.faults import counting, derived, other_engine, planted, rebuilt, shown
from tests.audit.replay_cases import CASES, case, find
from tests.descriptions import changed

import dpoco
from dpoco.audit import replay_audit
from dpoco.bandits import LinUCB
from dpoco.domains import LpBall
from dpoco.experts import (
    BatchShare,
    EpochSelector,
    ObliviousTracker,
    PrefixHedge,
    ShiftDetector,
    WindowSelector,
)
from dpoco.frank_wolfe import PolyhedralFrankWolfe, SufficientStatistics, TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.mechanisms import AboveThreshold, NoisyMax
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    CoupledRegularizedLeader,
    LipschitzLearner,
    NoisyFTRL,
)
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def audited(name, fault):
    """The report on a case's learners, with a fault in each."""
    make, stream, replacements = case(name)
    return replay_audit(planted(make, fault), stream, replacements)


# ---- bounds and scales ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "factors"),
    [
        (find(NoisyMax), {"scale": 0.5}),
        (find(NoisyMax, noise="gumbel"), {"scale": 0.9}),
        (find(AboveThreshold), {"query_scale": 0.5}),
        (find(AboveThreshold, alarms=3), {"threshold_scale": 0.5}),
        *((find(BatchShare, noise=noise), {"scale": 0.25})
          for noise in ("gaussian", "laplace")),
        *((find(EpochSelector, **own), {"scale": 0.5})
          for own in ({}, {"selection": "gumbel"}, {"selection": "laplace"})),
        (find(WindowSelector), {"scale": 0.5}),
        (find(ShiftDetector, windows="dyadic"), {"scale": 0.25}),
        (find(SufficientStatistics), {"scale": 0.2}),
    ],
)  # fmt: skip
def test_scales_that_do_not_fit_the_claim_are_caught(name, factors):
    assert not audited(name, shown(**factors)).passed


def test_a_larger_sensitivity_is_granted():
    """Rows of the stream still move by no more."""
    name = find(NoisyMax, noise="gumbel")
    assert audited(name, shown(sensitivity=2.0)).passed


@pytest.mark.parametrize(
    ("used", "promised", "finding"),
    [
        ({"learning_rate": 1.25}, {}, "law of fresh draws"),
        ({"learning_rate": 1.25}, {}, "the coin of its batch"),
        ({"forced": 0.02}, {}, "a coin stays with a larger chance"),
        ({"cap": None}, {"cap": 1}, "more fresh draws"),
        ({"batch": 1}, {}, "coins of other batches"),
    ],
)
def test_coins_are_held_to_the_promise_and_not_to_the_parameters(used, promised, finding):
    make, stream, replacements = case(find(ObliviousTracker))
    own, n, rounds = make(Source.seeded(0)).plan, make(Source.seeded(0)).experts, len(stream)

    def built(source, changes=used):
        plan = changed(own, **changes)
        return ObliviousTracker(n, horizon=rounds, budget=None, plan=plan, source=source)

    promise = built(Source.seeded(0), promised).guarantee

    def liar(learner, _):
        learner._guarantee = promise

    assert finding in str(replay_audit(planted(built, liar), stream, replacements))
    assert not replay_audit(built, stream, replacements).violated


SQUARES = SquaredLoss(100.0, 1.0)


@pytest.mark.parametrize(
    ("cls", "own", "wide"),
    [
        (PolyhedralFrankWolfe, {"batch": 2}, (LpBall(3, 1.0), SQUARES)),
        (LipschitzLearner, {"resolution": 5}, {"enforce": False}),
        (LinUCB, {"batch": 2}, {"context_bound": 9.0, "reward_bound": 9.0}),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_forgotten_clip_is_caught(cls, own, wide):
    exercise = CASES[find(cls, **own)]
    changes = {"arguments": wide} if isinstance(wide, tuple) else {
        "options": {**exercise.options, **wide}}  # fmt: skip
    loose = replace(exercise, **changes).maker()
    report = audited(find(cls, **own), other_engine(loose))
    assert not report.passed, str(report)


# ---- draws and memories --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cls",
    [
        TreeFrankWolfe, PolyhedralFrankWolfe, NoisyFTRL, EpochSelector, ShiftDetector,
        ObliviousTracker, BatchShare, LipschitzLearner, CoupledRegularizedLeader,
        ContinuousMultiplicativeWeights, NoisyMax, AboveThreshold,
    ],
)  # fmt: skip
def test_a_draw_that_depends_on_the_record_is_caught(cls):
    make, _, replacements = case(find(cls))
    margin = getattr(make(Source.seeded(0)).plan.tuning, "margin", 0.0)  # of queries
    first = np.max(replacements[0][1]) - margin

    def like_the_first(record):
        return bool(np.max(record) == first)

    assert "variates" in str(audited(find(cls), counting(like_the_first)))


@pytest.mark.parametrize("cls", [TreeFrankWolfe, PrefixHedge, LinUCB])
def test_an_engine_without_noise_under_a_private_claim_is_caught(cls):
    def silent(plan):
        return replace(plan, mechanism=replace(plan.mechanism, scale=0.0, grid=0.0, limit=0))

    assert "drew no noise" in str(audited(find(cls), rebuilt(silent)))


def lagging(cls):
    """A learner that mixes every record with the one before."""

    class Lagging(cls):
        last = None

        def observe(self, record, *label):
            row = np.asarray(record, dtype=float)
            mixed = row if self.last is None else 0.5 * (row + self.last)
            super().observe(mixed, *label)
            self.last = np.where(np.isfinite(row), row, 0.0)

    return Lagging


def stretching(cls):
    """A learner of experts that scales losses up before they are admitted, by a wrong range."""

    class Stretching(cls):
        def observe(self, losses):
            super().observe(3.0 * np.asarray(losses) - 1.0)

    return Stretching


def unclipped(cls):
    """A fit whose engine admits features of any length."""

    class Unclipped(cls):
        def _engine(self):
            honest = self._mechanism
            self._mechanism = replace(honest, summand=replace(honest.summand, features=100.0))
            try:
                return super()._engine()
            finally:
                self._mechanism = honest

    return Unclipped


@pytest.mark.parametrize(
    ("cls", "own", "kind"),
    [
        (TreeFrankWolfe, {"numerics": "lattice"}, lagging),
        (TreeFrankWolfe, {"batch": 2}, lagging),
        (PolyhedralFrankWolfe, {"batch": 2}, lagging),
        (NoisyFTRL, {"numerics": "lattice"}, lagging),
        (PrefixHedge, {}, lagging),
        (WindowSelector, {}, lagging),
        (BatchShare, {}, lagging),
        (ContinuousMultiplicativeWeights, {"keep": "anchored"}, lagging),
        (PrefixHedge, {}, stretching),
        (SufficientStatistics, {}, unclipped),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_records_that_are_kept_or_admitted_otherwise_are_caught(cls, own, kind):
    assert not audited(find(cls, **own), derived(kind)).passed


def test_a_threshold_that_remembers_is_caught():
    class Latching(AboveThreshold):
        last = -9.0

        def test(self, value, threshold=0.0):
            before, self.last = self.last, value
            return super().test(max(value, before + 0.3), threshold)

    def make(source):
        return Latching(
            horizon=24, budget=dpoco.Budget(4000.0, 0.0), alarms=24, sensitivity=1.0, source=source
        )

    assert not replay_audit(make, np.full(24, -0.5), [(2, 0.0)]).passed
