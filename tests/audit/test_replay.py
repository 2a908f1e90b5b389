"""Replay of every learner and mechanism, and of learners that are wrong on purpose."""

from __future__ import annotations

import sys
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

import dpoco
from dpoco import _core
from dpoco.audit import replay_audit
from dpoco.audit._replay_families import FAMILIES
from dpoco.bandits import LinUCB
from dpoco.experts import BatchShare, EpochSelector, PrefixHedge, ShiftDetector
from dpoco.frank_wolfe import NoisyFrankWolfe, PhasedSGD, PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import SquaredLoss
from dpoco.mechanisms import AboveThreshold, ContinualSum, NoisyMax
from dpoco.oco import NoisyFTRL
from dpoco.random import Source

cases = sys.modules["audit_replay_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("name", cases.CASES)
def test_no_violation_is_found(name):
    make, stream, replacements = cases.CASES[name]
    make(Source.seeded(0))  # calibrated, and SciPy is loaded
    start = perf_counter()
    report = replay_audit(make, stream, replacements)
    took = perf_counter() - start
    assert report.passed, str(report)
    assert report.pairs == len(replacements)
    assert took < 5.0  # far less than one on a quiet machine
    assert "no violation" in str(report)
    assert report.measured > 0.05 * report.declared


def test_every_stateful_learner_has_a_family():
    from dpoco._state import _KINDS

    known = {each.__name__ for each in FAMILIES}
    later = {name for name in _KINDS if name not in known}
    assert not later & {
        "AboveThreshold", "BatchShare", "ContinualSum", "ContinuousMultiplicativeWeights",
        "CoupledRegularizedLeader", "EpochSelector", "LinUCB", "LipschitzLearner", "NoisyFTRL",
        "NoisyMax", "ObliviousTracker", "PolyhedralFrankWolfe", "PrefixHedge", "ShiftDetector",
        "TreeFrankWolfe",
    }  # fmt: skip


# ---- planted: what a family declares is too small ------------------------------------------------

LOUD = {
    "TreeFrankWolfe", "TreeFrankWolfe, batches", "TreeFrankWolfe, linear", "PolyhedralFrankWolfe",
    "PolyhedralFrankWolfe, batches", "PolyhedralFrankWolfe, points", "NoisyFTRL",
    "NoisyFTRL, batches", "NoisyFTRL, quadratic", "LipschitzLearner", "PrefixHedge", "LinUCB",
    "LinUCB, batches", "ContinualSum", "ContinualSum, l1 and generalized",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LOUD))
def test_an_understated_sensitivity_is_caught(name):
    make, stream, replacements = cases.CASES[name]
    honest = replay_audit(make, stream, replacements)
    quantity = next(key for key in honest.changes if key == "the sum")

    def liar(source):
        learner = make(source)
        small = 0.99 * honest.changes[quantity][0]
        own = {"leaf_bound": 0.5 * small} if name.startswith("Poly") else {"sensitivity": small}
        learner._parameters = replace(learner.parameters, **own)
        return learner

    caught = replay_audit(liar, stream, replacements)
    assert not caught.passed
    assert "moved the sum" in str(caught)


@pytest.mark.parametrize("name", sorted(LOUD - {"ContinualSum, l1 and generalized"}))
def test_noise_below_the_claim_is_caught(name):
    make, stream, replacements = cases.CASES[name]
    if name.startswith("Polyhedral"):
        pytest.skip("its odds are the likelihood audit's")

    def liar(source):
        learner = make(source)
        p = learner.parameters
        learner._parameters = replace(p, noise_scale=0.1 * p.noise_scale)
        return learner

    caught = replay_audit(liar, stream, replacements)
    assert "mu of the releases" in str(caught)
    assert not caught.passed


def halved(name, **changes):
    make, stream, replacements = cases.CASES[name]

    def liar(source):
        learner = make(source)
        own = {key: factor * getattr(learner.parameters, key) for key, factor in changes.items()}
        learner._parameters = replace(learner.parameters, **own)
        return learner

    return replay_audit(liar, stream, replacements)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("NoisyMax", {"scale": 0.5}),
        ("NoisyMax, counts", {"scale": 0.9}),
        ("NoisyMax, counts", {"sensitivity": 2.0}),  # granted: no more than the guarantee was for
        ("AboveThreshold", {"query_noise_scale": 0.5}),
        ("AboveThreshold, alarms", {"threshold_noise_scale": 0.5}),
        ("ObliviousTracker", {"learning_rate": 0.4}),
        ("ObliviousTracker, coins", {"learning_rate": 0.5}),
        ("ContinuousMultiplicativeWeights", {"clip_high": 0.1, "clip_low": 0.1}),
        ("ContinuousMultiplicativeWeights, dartboard", {"factor_range": 0.1}),
        ("PhasedSGD", {"noise_multiplier": 0.2}),
        ("NoisyFrankWolfe", {"later_scale": 0.2, "first_scale": 0.2}),
        ("LocalizedMirrorDescent", {"noise_multiplier": 0.1}),
    ],
)
def test_scales_that_do_not_fit_the_claim_are_caught(name, changes):
    report = halved(name, **changes)
    if changes == {"sensitivity": 2.0}:
        assert report.passed  # rows of the stream still move by no more
    else:
        assert not report.passed, str(report)


# ---- planted: no clipping ------------------------------------------------------------------------


def with_engine_of(name, other):
    """A learner that declares one thing and runs the engine of another."""
    make, stream, replacements = cases.CASES[name]

    def liar(source):
        learner = make(source)
        learner._engine = other(source)._engine
        return learner

    return replay_audit(liar, stream, replacements)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("TreeFrankWolfe", cases.of(TreeFrankWolfe, cases.BALL, SquaredLoss(100.0, 1.0))),
        ("PolyhedralFrankWolfe",
         cases.of(PolyhedralFrankWolfe, cases.CROSS, SquaredLoss(100.0, 1.0), batch=1)),
        ("NoisyFTRL, batches", cases.of(NoisyFTRL, cases.BALL, SquaredLoss(100.0, 1.0), batch=4)),
        ("PrefixHedge", cases.of(PrefixHedge, cases.N, loss_range=(-9.0, 0.5))),
        ("LipschitzLearner", cases.of(
            dpoco.oco.LipschitzLearner, dpoco.domains.Box([0.0], [1.0]), lipschitz=1.0,
            resolution=cases.N, enforce=False)),
        ("LinUCB", cases.of(LinUCB, 2, cases.D, batch=1, context_bound=9.0, reward_bound=9.0)),
        ("ContinualSum", cases.of(ContinualSum, cases.D, bound=50.0)),
    ],
)  # fmt: skip
def test_a_forgotten_clip_is_caught(name, other):
    if name == "PrefixHedge":
        _, stream, replacements = cases.CASES[name]

        class Wide(PrefixHedge):
            """Losses are scaled up before they are admitted, by a wrong range."""

            def observe(self, losses):
                super().observe(3.0 * np.asarray(losses) - 1.0)

        report = replay_audit(cases.of(Wide, cases.N), stream, replacements)
    else:
        report = with_engine_of(name, other)
    assert not report.passed


@pytest.mark.parametrize("cls", [NoisyFrankWolfe, PhasedSGD])
def test_a_forgotten_clip_of_a_fit_is_caught(cls):
    class Unclipped(cls):
        def _engine(self, features, labels):
            honest, self._loss = self._loss, SquaredLoss(100.0, 1.0)
            try:
                return super()._engine(features, labels)
            finally:
                self._loss = honest

    assert not replay_audit(cases.batch(Unclipped), (cases.X, cases.Y), cases.RECORDS).passed


# ---- planted: a record is kept -------------------------------------------------------------------


def lagging(cls):
    """A learner that mixes every record with the one before."""

    class Lagging(cls):
        last = None

        def observe(self, record, *label):
            row = np.asarray(record, dtype=float)
            finite = np.where(np.isfinite(row), row, 0.0)
            mixed = row if self.last is None else 0.5 * (row + self.last)
            super().observe(mixed, *label)
            self.last = finite

    return Lagging


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("TreeFrankWolfe", cases.of(lagging(TreeFrankWolfe), cases.BALL, cases.SQUARED)),
        ("TreeFrankWolfe, batches",
         cases.of(lagging(TreeFrankWolfe), cases.CROSS, cases.SQUARED, batch=5)),
        ("PolyhedralFrankWolfe, batches",
         cases.of(lagging(PolyhedralFrankWolfe), cases.BOX, cases.SQUARED, batch=4)),
        ("NoisyFTRL", cases.of(lagging(NoisyFTRL), cases.BALL, cases.LINEAR)),
        ("PrefixHedge", cases.of(lagging(PrefixHedge), cases.N)),
        ("EpochSelector", cases.of(lagging(EpochSelector), cases.N, budget=cases.PURE)),
        ("BatchShare", cases.of(lagging(BatchShare), cases.N, budget=cases.PURE, batch=3)),
        ("ContinuousMultiplicativeWeights, anchored", None),
    ],
)  # fmt: skip
def test_a_record_kept_for_a_second_round_is_caught(name, make):
    honest, stream, replacements = cases.CASES[name]
    if make is None:
        kind = lagging(type(honest(Source.seeded(0))))

        def make(source):
            learner = honest(source)
            learner.__class__ = kind
            return learner

    assert not replay_audit(make, stream, replacements).passed


def test_sums_that_overlap_are_caught():
    class Sticky(ShiftDetector):
        """Hands a record of an instance to the next one, too."""

        kept = None

        def observe(self, losses):
            row = np.asarray(losses)
            alarms = self.alarms
            if self.round == 1:
                self.kept = row
            if len(alarms) and self.round == alarms[0] + 1:
                row = 0.5 * (row + self.kept)
            super().observe(row)

    rows = np.tile([1.0, 0.0], (40, 1))
    rows[:12] = [0.0, 0.9]
    p = ShiftDetector(2, horizon=40, budget=dpoco.Budget(400.0, 0.0), first=0).parameters
    p = replace(p, threshold=3.0, log_windows=0.0, log_selection=None)

    def make(kind):
        return lambda source: kind(2, horizon=40, budget=None, parameters=p, source=source)

    pairs = [(1, [0.2, 0.9]), (2, [0.0, 0.8])]
    told = make(ShiftDetector)(Source.seeded(0))
    told.run(rows)
    assert 12 < told.alarms[0] < 30
    assert replay_audit(make(ShiftDetector), rows, pairs).passed
    caught = replay_audit(make(Sticky), rows, pairs)
    assert "kept after the alarm" in str(caught)


def test_a_fit_that_copies_a_record_is_caught():
    class Copying(NoisyFrankWolfe):
        def _engine(self, features, labels):
            rows = features.copy()
            rows[1:] = 0.5 * (rows[1:] + np.nan_to_num(rows[:-1], posinf=0, neginf=0))
            return super()._engine(rows, labels)

    report = replay_audit(cases.batch(Copying), (cases.X, cases.Y), cases.RECORDS)
    assert "releases of other records" in str(report)
    assert not report.passed


def test_scores_that_remember_are_caught():
    class Averaging(NoisyMax):
        total = 0.0

        def select(self, scores):
            self.total = self.total + np.asarray(scores)
            return super().select(self.total)

    make = cases.of(Averaging, 2, budget=dpoco.Budget(4000.0, 0.0))
    rows = np.zeros((cases.T, 2))
    assert not replay_audit(make, rows, [(0, [1.0, -1.0])]).passed

    class Latching(AboveThreshold):
        last = -9.0

        def test(self, value, threshold=0.0):
            before, self.last = self.last, value
            return super().test(max(value, before + 0.3), threshold)

    make = cases.of(Latching, budget=dpoco.Budget(4000.0, 0.0), alarms=cases.T)
    rows = np.full(cases.T, -0.5)
    assert not replay_audit(make, rows, [(2, 0.0)]).passed


def test_a_bandit_that_remembers_is_caught():
    class Sticky(LinUCB):
        worst = 0.0

        def observe(self, reward):
            self.worst = max(self.worst, reward)
            super().observe(self.worst)

    make = cases.of(Sticky, 2, cases.D, batch=1)
    assert not replay_audit(make, cases.BANDIT, cases.USERS).passed


# ---- planted: control flow and noise -------------------------------------------------------------


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
            total = before[2 : 2 + self.parameters.dimension].view(np.float64)
            self._set_up(self._arguments, replace(self.parameters, bound=1e9), True, claim)
            return super().push(np.asarray(value) + total)

    def make(source):
        sums = Again(2, horizon=6, budget=cases.GAUSS, source=source)
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
        cases.of(Stuck, 3, budget=cases.PURE), np.zeros((5, 3)), [(2, [1.0, 0.0, 0.0])]
    )
    assert "drew no noise" in str(report)


@pytest.mark.parametrize("name", ["TreeFrankWolfe", "PrefixHedge", "BatchShare", "LinUCB"])
def test_an_engine_without_noise_under_a_private_claim_is_caught(name):
    make, stream, replacements = cases.CASES[name]

    def liar(source):
        learner = make(source)
        p = learner.parameters
        other = {"noise": "none"} if name == "BatchShare" else {"mu": np.inf}
        quiet = replace(p, noise_scale=0.0, **other)
        honest, learner._parameters = p, quiet
        learner._engine = learner._build_engine(source._claim())
        learner._parameters = honest
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


# ---- what is refused -----------------------------------------------------------------------------


def test_bad_input_is_refused():
    make, stream, _ = cases.CASES["PrefixHedge"]
    one = [(3, 1.0 - stream[3])]
    with pytest.raises(ValueError, match="no neighbour: round 99"):
        replay_audit(make, stream, [(99, stream[3])])
    with pytest.raises(ValueError, match="as it is"):
        replay_audit(make, stream, [(3, stream[3])])
    with pytest.raises(ValueError, match="at least one"):
        replay_audit(make, stream, [])
    with pytest.raises(TypeError, match="tuple"):
        replay_audit(make, stream, [3])
    with pytest.raises(TypeError, match="must be an int"):
        replay_audit(make, stream, [(3.0, stream[3])])
    with pytest.raises(ValueError, match="over the learner"):
        replay_audit(make, np.vstack([stream, stream]), one)
    with pytest.raises(ValueError, match="one array of losses"):
        replay_audit(make, (stream, stream), one)
    with pytest.raises(TypeError, match="no replay of a object"):
        replay_audit(lambda source: object(), stream, one)
    single = make(Source.seeded(0))
    with pytest.raises(TypeError, match="new learner"):
        replay_audit(lambda source: single, stream, one)
    with pytest.raises(ValueError, match="source it is called with"):
        replay_audit(
            lambda source: PrefixHedge(cases.N, horizon=cases.T, budget=cases.GAUSS), stream, one
        )
    seeds = iter(range(9))
    with pytest.raises(ValueError, match="repeat themselves"):
        replay_audit(lambda source: make(Source.seeded(next(seeds))), stream, one)

    def played(source):
        learner = make(source)
        learner.run(stream[:2])
        return learner

    with pytest.raises(ValueError, match="not played"):
        replay_audit(played, stream, one)


def test_streams_that_are_no_neighbours_are_refused():
    make, stream, _ = cases.CASES["TreeFrankWolfe, emptied"]
    with pytest.raises(ValueError, match="zero_out"):
        replay_audit(make, stream, [(2, [0.5, 0.5, 0.5], 1.0)])
    make, stream, _ = cases.CASES["NoisyMax"]
    with pytest.raises(ValueError, match="promise"):
        replay_audit(make, stream, [(2, stream[2] + 3.0)])
    make, stream, _ = cases.CASES["NoisyMax, counts"]
    with pytest.raises(ValueError, match="both directions"):
        replay_audit(make, stream, [(2, stream[2] + [0.5, -0.5, 0, 0, 0])])
    with pytest.raises(TypeError, match="custom loss"):
        replay_audit(
            cases.of(NoisyFTRL, cases.BALL, dpoco.losses.CustomLoss(lipschitz=1.0, smoothness=1.0)),
            cases.X, cases.ROWS,
        )  # fmt: skip


def test_reports_say_what_was_not_tested():
    make, stream, _ = cases.CASES["PrefixHedge"]
    report = replay_audit(make, stream, [(cases.T - 1, 1.0 - stream[-1])])
    assert report.passed
    assert "not tested" in str(report)
    assert isinstance(_core.instruction_set(), str)
