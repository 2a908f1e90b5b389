"""Learners that protect all rounds of a person are attacked in all of them."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

import dpoco
from dpoco.audit import (
    audit_learner,
    black_box_audit,
    learner_runs,
    likelihood_audit,
    replay_audit,
    standard_case,
)
from dpoco.audit._family import calibrate_once
from dpoco.audit.report import Claim
from dpoco.bandits import LinUCB
from dpoco.domains import LpBall
from dpoco.experts import BatchShare, EpochSelector, PrefixHedge, WindowSelector
from dpoco.frank_wolfe import PolyhedralFrankWolfe, TreeFrankWolfe
from dpoco.learners import LEARNERS
from dpoco.losses import LinearLoss, LogisticLoss
from dpoco.oco import NoisyFTRL
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, RULE = 9, (3, 2)
BUDGET = dpoco.Budget.from_dict({"epsilon": 3.0, "delta": 1e-2})  # without a warning
HERS = (0, 2, 4)
BALL, LINEAR = LpBall(2, 2.0), LinearLoss(1.0)
PULLS = np.tile([1.0, 0.0], (T, 1))
PULLS[1::2] = [0.0, 1.0]  # of others
HALVES = np.tile([0.0, 1.0, 0.0, 1.0], (T, 1))
USERS = (np.tile([1.0, 0.0], (T, 1)), np.ones((T, 2)))
LINUCB = {"batch": 3, "exploration": 0.0, "context_bound": 1.0, "reward_bound": 1.0}
CASES = {
    "leader": (NoisyFTRL, (BALL, LINEAR), {}, PULLS, (-PULLS[0],)),
    "leader, lattice": (NoisyFTRL, (BALL, LINEAR), {"numerics": "lattice"}, PULLS, (-PULLS[0],)),
    "leader, logistic": (
        NoisyFTRL, (BALL, LogisticLoss(1.0)), {}, (PULLS, np.ones(T)), (PULLS[0], -1.0)
    ),
    "tree, batches": (TreeFrankWolfe, (BALL, LINEAR), {"batch": 3}, PULLS, (-PULLS[0],)),
    "emptied": (
        TreeFrankWolfe, (BALL, LINEAR), {"relation": "zero_out", "sum_method": "tree"}, PULLS,
        (0.0 * PULLS[0],),
    ),
    "hedge": (PrefixHedge, (4,), {"learning_rate": 1e3}, HALVES, (1.0 - HALVES[0],)),
    "users": (LinUCB, (2, 2), LINUCB, USERS, ([0.0, 1.0], -np.ones(2))),
}  # fmt: skip
GROUPS = {
    "vertices": (PolyhedralFrankWolfe, (LpBall(2, 1.0), LINEAR), {"batch": 1}, PULLS),
    "share": (BatchShare, (4,), {"batch": 2, "noise": "gaussian"}, HALVES),
    "epochs": (EpochSelector, (4,), {}, HALVES),
    "windows": (WindowSelector, (4,), {"window": 2}, HALVES),
}


@functools.cache
def maker(name, enforced=False, lying=False):
    """Return a maker of learners that claim people; lying ones have noise for single rounds."""
    cls, arguments, options, *_ = {**CASES, **GROUPS}[name]
    rule = dpoco.Participation(*RULE, enforced=enforced)
    build = functools.partial(calibrate_once, cls, *arguments, horizon=T, budget=BUDGET, **options)
    if not lying:
        return build(participation=rule)
    quiet = build(participation=rule, plan=build()(Source()).plan)

    def make(source):
        learner = quiet(source)
        learner._guarantee = maker(name)(Source()).guarantee
        return learner

    return make


def changed(stream, record, hers=HERS):
    parts = tuple(np.array(part) for part in (stream if isinstance(stream, tuple) else (stream,)))
    for part, entry in zip(parts, record, strict=True):
        part[list(hers)] = entry
    return parts if len(parts) > 1 else parts[0]


@pytest.mark.parametrize("enforced", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_movement_of_all_rounds_is_held_to_the_norm(name, enforced):
    *_, stream, record = CASES[name]
    report = replay_audit(maker(name, enforced), stream, [(0, *record), (3, *record)], seed=1)
    assert report.passed, str(report)


@pytest.mark.parametrize("name", CASES)
def test_noise_of_a_single_round_is_too_little_for_a_person(name):
    *_, stream, record = CASES[name]
    report = replay_audit(maker(name, lying=True), stream, [(0, *record)])
    assert report.violated
    assert "mu of the releases" in str(report.findings)


@pytest.mark.parametrize("name", CASES)
def test_likelihoods_are_held_to_the_curve_of_a_person(name):
    *_, stream, record = CASES[name]
    other = changed(stream, record)
    honest = likelihood_audit(maker(name, enforced=True), stream, other, 500)
    assert not honest.violated, str(honest)
    assert honest.powerful
    caught = likelihood_audit(maker(name, lying=True), stream, other, 400)
    assert any("delta(" in text for text in caught.findings)


@pytest.mark.parametrize("name", ["leader", "hedge", "users"])
def test_black_boxes_play_all_rounds_of_a_person(name):
    *_, stream, record = CASES[name]
    trials = 5000 if name == "hedge" else 20_000  # there one round tells a fourth of three
    claim = {"epsilon": BUDGET.epsilon, "delta": BUDGET.delta, "trials": trials}

    def played(hers=HERS, **kind):
        run = learner_runs(maker(name, **kind))
        return black_box_audit(run, stream, changed(stream, record, hers), **claim)

    assert not played(enforced=True).violated
    alone, together = played((0,), lying=True), played(lying=True)
    assert together.measured > 1.3 * alone.measured > 0.0
    assert together.violated == (name == "leader")  # decisions tell less than sums


def test_who_is_shown_a_decision_is_left_out_of_what_others_see():
    *_, stream, record = CASES["users"]
    run = learner_runs(maker("users")).pair(stream, changed(stream, record))
    assert run(stream, 3, Source.seeded(0)).shape == (3, T - len(HERS))


@pytest.mark.parametrize("name", GROUPS)
def test_groups_are_attacked_in_all_rounds_too(name):
    *_, stream = GROUPS[name]
    record = 1.0 - stream[0] if name != "vertices" else -stream[0]
    assert not replay_audit(maker(name), stream, [(0, record)]).violated
    other = changed(stream, (record,))
    honest = likelihood_audit(maker(name), stream, other, 500)
    assert not honest.violated, str(honest)
    trials = 800 if name == "vertices" else 400  # choices of vertices tell less than sums do
    assert likelihood_audit(maker(name, lying=True), stream, other, trials).violated


def test_square_roots_of_counts_are_refuted():
    """Rounds of one person are correlated: their sum is not that of independent releases."""
    make, single = maker("leader"), maker("leader", lying=True)(Source.seeded(0))
    *_, stream, record = CASES["leader"]
    alone = NoisyFTRL(BALL, LINEAR, horizon=T, budget=None, plan=single.plan)

    def wishful(source):
        learner = maker("leader", lying=True)(source)
        loss = Gaussian(np.sqrt(3.0) * alone.guarantee.mu)
        learner._guarantee = replace(learner.guarantee, loss=loss)
        return learner

    assert replay_audit(wishful, stream, [(0, *record)]).violated
    assert not replay_audit(make, stream, [(0, *record)]).violated


def test_streams_that_are_not_those_of_one_person_are_refused():
    *_, stream, record = CASES["leader"]
    for hers, text in (((0, 2, 4, 6), "at most 3"), ((0, 1), "at least 2 apart")):
        with pytest.raises(ValueError, match=text):
            likelihood_audit(maker("leader"), stream, changed(stream, record, hers), 300)
    plain = NoisyFTRL(BALL, LINEAR, horizon=T, budget=BUDGET).plan

    def of_records(source):
        return NoisyFTRL(BALL, LINEAR, horizon=T, budget=None, plan=plain, source=source)

    with pytest.raises(ValueError, match="differ in 2 rounds"):
        likelihood_audit(of_records, stream, changed(stream, record, (0, 2)), 300)


def test_one_call_attacks_what_is_claimed():
    *_, stream, record = CASES["leader"]
    for lying in (False, True):
        make = maker("leader", enforced=not lying, lying=lying)
        case = replace(
            standard_case("noisy-ftrl"), make_learner=make, stream=stream, exercises=(),
            neighbour=changed(stream, record), replacements=((0, *record),),
            claim=Claim.of(make(Source.seeded(0)).guarantee),
        )  # fmt: skip
        report = audit_learner(case, trials=1000)
        assert report.violated == lying
        found = {attack.name: attack.verdict for attack in report.attacks}
        assert (found["replay"] == "violated") == (found["likelihood"] == "violated") == lying


STANDARD = [
    each.name for each in LEARNERS if each.plays in ("records", "surface", "experts", "arms")
]


@pytest.mark.parametrize("name", STANDARD)
def test_standard_cases_differ_in_all_rounds_of_a_person(name):
    case = standard_case(name, participation=dpoco.Participation(*RULE))
    assert case.claim.guarantee.person == RULE
    assert case.claim.epsilon <= 1.0 + 1e-9
    ours, theirs = (s if isinstance(s, tuple) else (s,) for s in (case.stream, case.neighbour))
    apart = np.zeros(len(ours[0]), dtype=bool)
    for a, b in zip(ours, theirs, strict=True):
        apart |= np.any((a != b).reshape(len(a), -1), axis=1)
    assert tuple(np.flatnonzero(apart)) == HERS
    assert {"rounds_per_person": 3, "separation": 2}.items() <= case.settings.items()
    assert replay_audit(case.make_learner, case.stream, case.replacements).findings == ()
    if name == "comw":  # so short a stream is not learned from
        with pytest.raises(TypeError, match="too concentrated"):
            likelihood_audit(case.make_learner, case.stream, case.neighbour, 300)
        return
    few = 136  # as few as an audit takes: it shows that a sound learner is not accused
    assert not likelihood_audit(case.make_learner, case.stream, case.neighbour, few).violated
    if name not in ("noisy-ftrl", "epoch-selector"):
        return
    single = standard_case(name, horizon=10).make_learner

    def lying(source):
        learner = single(source)
        learner._guarantee = case.claim.guarantee
        return learner

    attacks = (
        replay_audit(lying, case.stream, case.replacements),
        likelihood_audit(lying, case.stream, case.neighbour, 300),
    )
    assert [attack.violated for attack in attacks] == [name == "noisy-ftrl", True]
