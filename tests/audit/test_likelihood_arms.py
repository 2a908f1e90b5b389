"""Privacy losses of the contextual bandits, joint over all other users, and what is wrong."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dpoco.audit import likelihood_audit

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("name", cases.ARMS)
def test_no_violation_is_found_by_an_audit_with_power(name):
    make, stream, neighbour, trials = cases.ARMS[name]
    report = likelihood_audit(make, stream, neighbour, trials)
    assert report.passed, str(report)
    assert report.detectable < 3.5


@pytest.mark.parametrize("name", ["HighDimensionalBandit", "HighDimensionalBandit, tree"])
def test_arms_that_share_their_noise_are_caught(name):
    make, stream, neighbour, _ = cases.ARMS[name]

    def liar(source):
        learner = make(source)
        own = type(learner)._arm_settings
        learner._arm_settings = lambda claim: own(learner, {**claim, "stream": 0})
        learner._engine = learner._build_engine({"key": source._key, "stream": 1})
        return learner

    report = likelihood_audit(liar, stream, neighbour, 300)
    assert report.violated, str(report)


def test_own_actions_may_differ_and_are_accounted_for():
    """A record whose context flips, too, is given another arm on the other stream."""
    make, (contexts, rewards), _, _ = cases.ARMS["HighDimensionalBandit, no schedule"]
    other = contexts.copy()
    other[0] *= -1.0
    report = likelihood_audit(make, (contexts, rewards), (other, rewards), 250)
    assert not report.violated, str(report)
    moved = np.abs(other - contexts).sum()
    assert moved > 0.0
