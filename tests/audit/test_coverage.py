"""No learner, mechanism or randomizer is without its audits."""

from __future__ import annotations

import inspect

import pytest
from tests.local.exact import exact_audit

from dpoco import bandits, experts, frank_wolfe, local, mechanisms, oco, statistics
from dpoco.audit import standard_case, standard_names
from dpoco.audit._exercises import EXERCISES
from dpoco.audit._family import Family
from dpoco.audit._kinds import find_family, find_scorer
from dpoco.audit._laws import Scorer
from dpoco.learners import LEARNERS, MONITORS
from dpoco.random import Source

ROOMS = (experts, frank_wolfe, oco, bandits, mechanisms)
LOCAL_OR_FINDER = ("reports", "pairs", "ranges")
AUDITS = {each.load() for each in (*LEARNERS, *MONITORS) if each.plays not in LOCAL_OR_FINDER}
# What a class is called that takes data and answers with something released.
VERBS = ("observe", "fit", "push", "select", "test", "respond", "release")

# Of the room of local reports, why neither a stream is replayed nor a transcript scored.
REPORTS = {
    "BitRandomizer": "exact audit",
    "SubsetRandomizer": "exact audit",
    "LocalClient": "its randomizers are audited exactly, one report at a time",
    "ClientPool": "clients of many users in one process: the same randomizers",
    "DistributionLearner": "reads reports, which are private when they arrive",
    "LocalHypothesisSelector": "reads reports, which are private when they arrive",
}


def classes(room):
    found = (getattr(room, name) for name in room.__all__)
    return [each for each in found if inspect.isclass(each)]


def audited():
    return [
        each
        for room in (*ROOMS, statistics)
        for each in classes(room)
        if any(hasattr(each, verb) for verb in VERBS)
    ]


def test_every_public_learner_and_mechanism_is_replayed_scored_and_exercised():
    known = audited()
    assert len(known) >= 19
    assert [each.__name__ for each in known if each not in AUDITS] == []
    # And nothing is listed that does not exist any more.
    assert set(AUDITS) == set(EXERCISES) == set(known)


def test_whatever_else_these_rooms_export_holds_no_data():
    others = {each.__name__ for room in ROOMS for each in classes(room) if each not in AUDITS}
    ends = ("Parameters", "Trace", "Plan", "Weight", "EstimatedLoss")
    assert all(name.endswith(ends) for name in others), others


def test_every_class_of_local_reports_is_audited_or_excused():
    active = {
        each.__name__
        for each in classes(local)
        if any(hasattr(each, verb) for verb in (*VERBS, "update", "specify"))
    }
    assert active - set(REPORTS) == set()
    assert {name for name in REPORTS if name not in local.__all__} == set()


def test_every_randomizer_is_audited_exactly():
    made = [
        local.BitRandomizer(1.0, 2),
        local.SubsetRandomizer(5, 2, 1.0),
    ]
    excused = {name for name, reason in REPORTS.items() if reason == "exact audit"}
    assert {type(each).__name__ for each in made} == excused
    assert excused == {name for name in local.__all__ if name.endswith("Randomizer")}
    for each in made:
        assert exact_audit(each).passed


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_every_standard_case_has_its_audits():
    for name in standard_names():
        case = standard_case(name)
        learner = case.make_learner(Source.seeded(0))
        assert isinstance(find_family(learner), Family)
        assert isinstance(find_scorer(learner, case.stream, case.neighbour), Scorer)
