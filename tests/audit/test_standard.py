"""Standard cases of all learners, and the report of all attacks on one of them."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import replace

import numpy as np
import pytest

import dpoco
from dpoco import bandits, experts, frank_wolfe, mechanisms, oco, statistics
from dpoco.audit import (
    AuditReport,
    audit_learner,
    black_box_audit,
    learner_runs,
    replay_audit,
    standard_case,
    standard_names,
)
from dpoco.audit.likelihood import likelihood_audit
from dpoco.audit.report import Claim, epsilon_of_point
from dpoco.audit.standard import StandardCase
from dpoco.learners import LEARNERS, MONITORS
from dpoco.random import Source

FEW = 300


def parts(stream):
    return stream if isinstance(stream, tuple) else (stream,)


def test_every_learner_and_mechanism_has_a_case():
    found = set()
    for room in (experts, oco, frank_wolfe, bandits, mechanisms, statistics):
        for name in room.__all__:
            thing = getattr(room, name)
            if inspect.isclass(thing) and hasattr(thing, "guarantee"):
                found.add(name)
    named = set(standard_names())
    assert {each.class_name for each in (*LEARNERS, *MONITORS) if each.name in named} == found


@pytest.mark.parametrize("name", standard_names())
def test_pairs_reach_the_bound_and_nothing_is_violated(name):
    case = standard_case(name)
    assert type(case.make_learner(Source.seeded(1))).__name__ == case.learner
    assert case.claim.epsilon <= 1.0 + 1e-9
    stated = case.claim.guarantee  # of a learner with real entropy
    assert stated.certified != bool(stated.doubts)
    assert bool(stated.doubts) == (name in ("noisy-max", "above-threshold"))
    ours, theirs = parts(case.stream), parts(case.neighbour)
    apart = np.zeros(len(ours[0]), dtype=bool)
    for a, b in zip(ours, theirs, strict=True):
        apart |= np.any((a != b).reshape(len(a), -1), axis=1)
    assert apart.sum() == 1 or name in ("noisy-max", "above-threshold")
    report = replay_audit(case.make_learner, case.stream, case.replacements)
    assert report.findings == ()
    reached = [measured / declared for measured, declared in report.changes.values() if declared]
    if name not in ("comw", "oblivious-tracker"):
        assert max(reached) >= (0.5 if "bandit" in name else 0.75)


@pytest.mark.parametrize("name", ["batch-share", "noisy-max", "epoch-selector"])
def test_pure_cases_come_near_their_claim(name):
    case = standard_case(name)
    report = likelihood_audit(case.make_learner, case.stream, case.neighbour, FEW)
    assert not report.violated
    assert report.largest_loss > 0.95 * case.claim.epsilon


def test_names_in_any_spelling():
    for name in ("TreeFrankWolfe", "tree_frank_wolfe", "tree-frank-wolfe", "treefrankwolfe"):
        assert standard_case(name).name == "tree-frank-wolfe"
    assert standard_case("ctrl").learner == "CoupledRegularizedLeader"
    with pytest.raises(ValueError, match="did you mean 'batch-share'"):
        standard_case("batchshares")
    with pytest.raises(ValueError, match="it is one of: tree-frank-wolfe"):
        standard_case("zebra")
    with pytest.raises(TypeError, match="must be a name or a class"):
        standard_case(3)


# ---- the report ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest():
    return audit_learner("batch-share", trials=FEW, seed=3)


@pytest.fixture(scope="module")
def printed():
    return audit_learner(standard_case("batch-share", published="printed"), trials=FEW)


def test_a_report_of_an_honest_learner(honest):
    assert isinstance(honest, AuditReport)
    assert not honest.violated
    assert honest.powerful
    assert [attack.name for attack in honest.attacks] == ["replay", "likelihood", "black box"]
    best = honest.strongest
    assert best is not None
    assert best.name == "likelihood"
    assert 0.95 <= best.epsilon <= 1.0
    text = str(honest)
    assert "claim: epsilon = 1, delta = 0" in text
    assert "strongest attack: likelihood, epsilon is at least" in text
    assert "passed" not in text
    assert "would have been found" in text
    for attack in honest.attacks:
        assert attack.power
        assert all(delta <= honest.claim.delta_at(epsilon) for epsilon, delta in attack.points)


def test_reports_repeat_themselves_and_are_json(honest):
    again = audit_learner("BatchShare", trials=FEW, seed=3)
    assert again.to_json() == honest.to_json()
    record = json.loads(honest.to_json())
    assert record["kind"] == "dpoco.audit"
    assert record["violated"] is False
    assert record["claim"]["epsilon"] == 1.0
    assert [attack["name"] for attack in record["attacks"]] == ["replay", "likelihood", "black box"]
    assert dpoco.Guarantee.from_dict(record["claim"]["guarantee"]) == honest.claim.guarantee


def test_the_published_claim_of_batch_share_falls(printed):
    assert printed.claim.published
    assert (printed.claim.epsilon, printed.claim.delta) == (1.0, 0.0)
    assert printed.claim.guarantee.epsilon == pytest.approx(10.0)
    assert printed.violated
    assert printed.strongest.epsilon == pytest.approx(10.0, rel=0.05)
    assert "VIOLATED" in str(printed).splitlines()[0]
    assert "as published (stated here for the same noise: epsilon = 10)" in str(printed)


def test_the_published_claim_of_transformed_losses_falls():
    from dpoco.audit.learner import replay_attack

    attack = replay_attack(standard_case("lipschitz", published="printed"), 0)
    assert attack.verdict == "violated"
    (finding,) = attack.findings
    assert "epsilon = 1 at delta = 0.001" in finding
    honest = replay_attack(standard_case("lipschitz"), 0)
    assert honest.verdict == "nothing found"


def weaker(case, factor):
    """The case of a learner with that much less noise than it claims."""
    budget = factor * case.claim.epsilon
    liar = standard_case(case.name, epsilon=budget, delta=case.settings["delta"])

    def make(source):
        learner = liar.make_learner(source)
        learner._guarantee = case.claim.guarantee
        return learner

    return replace(case, make_learner=make)


@pytest.mark.parametrize("name", ["batch-share", "noisy-max", "noisy-ftrl"])
def test_too_little_noise_is_refuted(name):
    case = weaker(standard_case(name), 4.0)
    report = audit_learner(case, trials=FEW)
    assert report.violated
    assert not audit_learner(weaker(case, 1.0), trials=FEW).violated


def test_what_has_no_power_says_so():
    case = standard_case("continual-sum")
    stream = case.stream.copy()
    stream[0] *= 0.999
    near = replace(case, neighbour=stream, replacements=((0, stream[0]),))
    report = audit_learner(near, trials=FEW)
    assert not report.violated
    assert not report.powerful
    assert report.verdict.startswith("no power")
    assert not any(attack.verdict == "nothing found" for attack in report.attacks)


# ---- claims --------------------------------------------------------------------------------------


def test_the_curve_of_a_bare_claim_is_that_of_its_worst_mechanism():
    guarantee = standard_case("batch-share", published="printed").claim.guarantee
    for epsilon, delta in ((1.0, 0.0), (0.5, 0.01), (6.0, 0.1)):
        claim = Claim(epsilon, delta, True, guarantee)
        assert claim.delta_at(epsilon) == delta == claim.delta_at(9.0)
        for at in (0.0, 0.3 * epsilon, 0.9 * epsilon):
            # Outcomes that tell the bit with probability delta, and a random response otherwise.
            p = (1.0 - delta) / (1.0 + math.exp(-epsilon))
            exact = delta + max(0.0, p - math.exp(at) * (1.0 - delta - p))
            assert claim.delta_at(at) == pytest.approx(exact, rel=1e-12)
            assert epsilon_of_point(at, claim.delta_at(at), delta) == pytest.approx(epsilon)
        assert epsilon_of_point(0.2, 0.5 * delta, delta) == 0.0
        assert epsilon_of_point(0.2, delta, delta) == 0.0


def test_the_stronger_claim_is_tested():
    loose = standard_case("tree-frank-wolfe", published="printed").claim
    assert loose.guarantee.claimed[0] == pytest.approx(1.0)
    assert not loose.published  # exact accounting promises more than the paper does
    assert loose.epsilon < 1.0


# ---- bad input -----------------------------------------------------------------------------------

AUDITS = {
    "replay": lambda make, ours, theirs: replay_audit(make, ours, [(0, theirs[0])]),
    "likelihood": lambda make, ours, theirs: likelihood_audit(make, ours, theirs, FEW),
    "black box": lambda make, ours, theirs: black_box_audit(
        learner_runs(make), ours, theirs, epsilon=1.0, trials=10
    ),
}


@pytest.mark.parametrize("audit", AUDITS.values(), ids=AUDITS)
def test_learners_that_have_played_or_are_not_made_anew_are_refused(audit):
    case = standard_case("continual-sum")
    single = case.make_learner(Source.seeded(0))

    def played(source):
        sums = case.make_learner(source)
        sums.push(case.stream[0])
        return sums

    for make, message in (
        (lambda source: single, "new learner|source it is called with"),
        (lambda source: case.make_learner(Source()), "source it is called with"),
        (played, "not played"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            audit(make, case.stream, case.neighbour)


def test_bad_input_is_refused():
    case = standard_case("noisy-ftrl")
    with pytest.raises(ValueError, match="trials must be at least"):
        audit_learner(case, trials=20)
    with pytest.raises(TypeError, match="trials must be an int"):
        audit_learner(case, trials=1e4)
    with pytest.raises(ValueError, match="confidence"):
        audit_learner(case, confidence=1.0)
    twice = case.neighbour.copy()
    twice[3, 1] = 1.0
    with pytest.raises(ValueError, match="differ in 2 rounds"):
        audit_learner(replace(case, neighbour=twice), trials=FEW)
    with pytest.raises(ValueError, match="leaves the stream as it is"):
        audit_learner(replace(case, replacements=((0, case.stream[0]),)), trials=FEW)
    free = dpoco.Guarantee.none(6)
    with pytest.raises(ValueError, match="no privacy guarantee"):
        audit_learner(replace(case, claim=Claim.of(free)), trials=FEW)
    assert isinstance(case, StandardCase)


def test_published_claims_of_any_size_have_a_curve():
    guarantee = dpoco.Guarantee.pure_epsilon(1e4, horizon=1)
    claim = Claim(800.0, 0.0, True, guarantee)
    assert claim.delta_at(0.0) == 1.0
    assert claim.delta_at(799.0) == pytest.approx(-np.expm1(-1.0))
    assert claim.delta_at(800.0) == 0.0


def test_seeds_are_named_as_they_were_given():
    with pytest.raises(ValueError, match="got -1"):
        audit_learner("noisy-max", seed=-1)
