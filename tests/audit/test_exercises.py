"""Exercises: kinds of fault that one hard pair does not show, and what a report says of them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.descriptions import changed, number

import dpoco
from dpoco.audit import Exercise, audit_learner, replay_audit, standard, standard_case
from dpoco.audit._exercises import EXERCISES, exercise_attack
from dpoco.audit._kinds import find_family
from dpoco.audit.learner import replay_attack
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.experts import BatchShare, ObliviousTracker, ShiftDetector
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.losses import LogisticLoss
from dpoco.mechanisms import AboveThreshold, ContinualSum
from dpoco.oco import ContinuousMultiplicativeWeights, CoupledRegularizedLeader, NoisyFTRL
from dpoco.random import Source

LEVEL = 1.0 - 1e-6
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def findings(cls, wrong):
    """What the exercises of a class find in a class derived from it, one after another."""
    planted = type(cls.__name__, (wrong,), {"__doc__": cls.__doc__})
    for each in EXERCISES[cls]:
        yield from exercise_attack((replace(each, cls=planted),), 0, LEVEL).findings


@pytest.mark.parametrize("cls", EXERCISES, ids=lambda cls: cls.__name__)
def test_correct_code_passes_and_everything_listed_is_reached(cls):
    report = exercise_attack(EXERCISES[cls], 0, LEVEL)
    assert report.findings == ()
    assert report.not_exercised == ()
    assert report.scored >= 1
    assert "records that are not finite" in report.exercised
    assert "a dimension above 16" in report.exercised or cls is AboveThreshold


@pytest.mark.parametrize("cls", EXERCISES, ids=lambda cls: cls.__name__)
def test_every_instruction_set_plays_the_same(cls):
    """Dimensions with whole blocks of vector registers and a rest; all that a replay notes."""
    for exercise in EXERCISES[cls]:
        make, plays = exercise.maker(), []
        try:
            for name in ("baseline", "avx2", "avx512"):
                try:
                    dpoco.random.select_instruction_set(name)
                except ValueError:
                    continue  # this processor has it not
                family = find_family(make(Source.seeded(1)))
                play = family.play(make(Source.seeded(1)), exercise.stream(family))
                plays.append(pickle.dumps((play.published, play.variates, play.notes)))
        finally:
            dpoco.random.select_instruction_set("auto")
        assert plays == plays[:1] * len(plays)


# ---- one kind of fault each ----------------------------------------------------------------------


def rebuilt(cls, **changes):
    """A class whose engine was built from another plan than it shows; None changes nothing."""

    class Wrong(cls):
        def _build_engine(self, claim):
            honest = self._plan, self._mechanism
            own = {name: change(self._plan) for name, change in changes.items()}
            self._plan = changed(self._plan, **{k: v for k, v in own.items() if v is not None})
            self._mechanism = self._plan.mechanism
            try:
                return super()._build_engine(claim)
            finally:
                self._plan, self._mechanism = honest

    return Wrong


class KeptAfterAlarms(ShiftDetector):
    """The first round is counted again after alarms, which end the instance that it lies in."""

    _first = None

    def observe(self, losses):
        now = np.asarray(losses, float)
        if self._first is None:
            self._first = now
        super().observe(0.5 * (now + self._first) if len(self.alarms) else now)


class StoppedClock(HighDimensionalBandit):
    """A context that is not finite is answered, and its round does not take place."""

    _empty = False

    def decide(self, context):
        self._empty = not np.all(np.isfinite(context))
        return 0 if self._empty else super().decide(context)

    def observe(self, reward):
        if not self._empty:
            super().observe(reward)


class OneMoreAlarm(rebuilt(AboveThreshold, alarms=lambda p: p.mechanism.alarms + 1)):
    """The cap on alarms is compared with one too many."""

    @property
    def alarms_left(self):
        return self._plan.mechanism.alarms + 1 - self._engine.alarms

    def test(self, value, threshold=0.0):
        return bool(self._engine.test(np.nan_to_num(value, posinf=0.0) - self._plan.tuning.margin))


class OtherClip(NoisyFTRL):
    """`run` clips entry by entry, `observe` by the norm."""

    def run(self, features, labels=None, **options):
        return super().run(np.clip(features, -0.5, 0.5), labels, **options)


class DroppedRemainder(TreeFrankWolfe):
    """A call of `run` forgets the records of a batch that it does not complete."""

    def run(self, features, labels=None, **options):
        rows = np.array(features)
        left = (self.round + len(rows)) % self.plan.mechanism.batch
        if left:
            rows[-min(left, len(rows)) :] = 0.0
        return super().run(rows, labels, **options)


class SharedNoise(ContinualSum):
    """Entries beyond the sixteenth take the noise of the first ones."""

    def push(self, value):
        released = super().push(value)
        state = np.frombuffer(self._engine.state(), dtype="<f8")
        sums = state[2 : 2 + len(released)]
        noise = released - sums
        noise[16:] = noise[: max(0, len(noise) - 16)]
        return sums + noise


def one_more(name):
    def change(p):
        cap = number(p, name)
        return cap if cap is None else cap + 1

    return change


def in_batches(p):
    return number(p, "scale") / number(p, "batch")


@pytest.mark.parametrize(
    ("cls", "wrong", "text"),
    [
        (ShiftDetector, KeptAfterAlarms, "after the alarm"),
        (ObliviousTracker, rebuilt(ObliviousTracker, cap=one_more("cap")),
         "more fresh draws than were promised"),
        (CoupledRegularizedLeader,
         rebuilt(CoupledRegularizedLeader, cap=one_more("cap")),
         "a draw where none may be"),
        (ContinuousMultiplicativeWeights,
         rebuilt(ContinuousMultiplicativeWeights, cap=one_more("cap")),
         "a draw where none may be"),
        (AboveThreshold, OneMoreAlarm, "more alarms than were promised"),
        (BatchShare, rebuilt(BatchShare, share_rate=lambda p: 0.5 * p.tuning.share_rate),
         "weights do not follow"),
        # Laplace noise is added to sums that are not centred.
        (BatchShare, rebuilt(BatchShare, law=lambda p: (
            "laplace" if p.mechanism.law == "gaussian" and p.mechanism.experts % 2 == 0
            else p.mechanism.law)),
         "another law than declared"),
        (HighDimensionalBandit, StoppedClock, "clock"),
        (LinUCB, rebuilt(LinUCB, summand=lambda p: replace(
            p.mechanism.summand, weight=2.0 * p.mechanism.summand.weight)),
         "not a function of record and action"),
        (NoisyFTRL, rebuilt(NoisyFTRL, weight=lambda p: (
            0.5 * number(p, "weight") if hasattr(p.mechanism.summand, "weight") else None)),
         "not a function of record and decisions"),
        (PolyhedralFrankWolfe, rebuilt(PolyhedralFrankWolfe, scale=in_batches),
         "another law than declared"),
        (NoisyFTRL, OtherClip, "`run` leaves another state"),
        (TreeFrankWolfe, DroppedRemainder, "`run` leaves another state"),
        (ContinualSum, SharedNoise, "repeats itself, in entries 1 and 17"),
    ],
    ids=[
        "state that survives an alarm", "cap of a tracker", "cap of a leader", "cap of weights",
        "cap of alarms", "half the forgetting", "not centred", "clock that stops at NaN",
        "rewards counted twice", "labels counted twice", "scale without the batch",
        "run without the clip", "remainder of a batch", "noise shared between entries",
    ],
)  # fmt: skip
def test_each_kind_of_fault_is_found(cls, wrong, text):
    assert any(text in finding for finding in findings(cls, wrong))


# ---- what a report says --------------------------------------------------------------------------


def test_a_report_lists_what_was_not_exercised():
    short = (Exercise(ContinualSum, (2,), {"method": "tree", "bound": 1.0}, odd=False),)
    case = replace(standard_case("continual-sum"), exercises=short)
    report = audit_learner(case, trials=300)
    missed = report.exercises.not_exercised
    assert {"records that are not finite", "an odd dimension", "a dimension above 16"} <= set(
        missed
    )
    assert "an even dimension" in report.exercises.exercised
    assert f"not exercised: {', '.join(missed)}" in str(report)
    assert report.to_dict()["exercises"]["not_exercised"] == list(missed)
    none = audit_learner(replace(case, exercises=()), trials=300)
    assert none.exercises.exercised == ()
    assert "none of them was played" in str(none)


def test_a_finding_of_an_exercise_refutes_the_claim():
    planted = type("ContinualSum", (SharedNoise,), {})
    case = standard_case("continual-sum")
    wrong = tuple(replace(each, cls=planted) for each in case.exercises)
    report = audit_learner(replace(case, exercises=wrong), trials=300)
    assert report.violated
    assert report.outcome == "refuted"
    assert report.verdict == "VIOLATED: the claim is refuted (exercises)"
    assert all(attack.verdict != "violated" for attack in report.attacks)


def test_outcomes_name_the_power_they_have():
    report = audit_learner("batch-share", trials=300)
    assert report.outcome == "not refuted"
    assert report.detectable_epsilon == pytest.approx(1.0)
    assert "with power down to epsilon 1 " in report.verdict
    record = report.to_dict()
    assert (record["outcome"], record["version"]) == ("not refuted", 2)
    assert record["detectable_epsilon"] == report.detectable_epsilon


@pytest.mark.parametrize("name", ["comw", "coupled-regularized-leader"])
def test_a_replay_without_bounds_says_that_it_saw_nothing(name):
    case = standard_case(name)
    make, stream, pairs = case.make_learner, case.stream, case.replacements
    if name != "comw":  # the sum of gradients of linear losses has a bound, logistic ones have none
        leader = CoupledRegularizedLeader(
            LpBall(1, 2.0), LogisticLoss(1.0), horizon=12, budget=dpoco.Budget(1.0, 1e-3),
            coupling="scheduled", block=3,
        )  # fmt: skip
        p = leader.plan

        def make(source):
            return CoupledRegularizedLeader(
                LpBall(1, 2.0), LogisticLoss(1.0), horizon=12, budget=None, plan=p,
                coupling="scheduled", block=3, source=source,
            )  # fmt: skip

        stream, pairs = (np.ones((12, 1)), np.ones(12)), [(0, [1.0], 0.0)]
        case = SimpleNamespace(
            make_learner=make, stream=stream, replacements=pairs, claim=case.claim
        )
    report = replay_audit(make, stream, pairs)
    assert report.findings == ()
    assert not report.applicable
    assert report.verdict == "not applicable"
    assert (report.measured, report.declared, report.passed) == (None, None, False)
    assert "'not applicable'" in repr(report)
    assert str(report).startswith("Replay audit: no power, not applicable: ")
    assert "no bound on what a record moves is declared" in str(report)
    attack = replay_attack(case, 0)
    assert attack.verdict == "not applicable"
    assert "nothing that a record moves would have been found" in attack.power


def test_a_learner_without_a_standard_case_is_told_what_to_register(monkeypatch):
    monkeypatch.delitem(standard.CASES, "above-threshold")
    with pytest.raises(ValueError, match=r"above-threshold has no .* none of domain, experts"):
        standard_case("AboveThreshold")
