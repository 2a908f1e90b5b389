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


def test_own_actions_may_differ_and_are_accounted_for():
    """A record whose context flips, too, is given another arm on the other stream."""
    make, (contexts, rewards), _, _ = cases.ARMS["HighDimensionalBandit, no schedule"]
    other = contexts.copy()
    other[0] *= -1.0
    report = likelihood_audit(make, (contexts, rewards), (other, rewards), 150)
    assert not report.violated, str(report)
    moved = np.abs(other - contexts).sum()
    assert moved > 0.0
