"""Privacy losses of every learner whose law is known: nothing is found, by audits with power."""

from __future__ import annotations

import sys

import pytest

from dpoco.audit import likelihood_audit

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

# By which factor losses may be larger and go unnoticed, in the few runs of a test.
WEAK = {"squared": 8.0, "quadratic": 8.0, "Polyhedral": 8.0, "alarms": 7.5}
LIMITS = {
    **dict.fromkeys(cases.SUMS, 2.7),
    **dict.fromkeys(cases.SELECTIONS, 2.2),
    **dict.fromkeys(cases.EXPERTS, 4.5),
    **dict.fromkeys(cases.ARMS, 3.5),
    **dict.fromkeys(cases.FITS, 4.0),
}


@pytest.mark.parametrize("name", cases.CASES)
def test_no_violation_is_found_by_an_audit_with_power(name):
    make, stream, neighbour, trials = cases.CASES[name]
    report = likelihood_audit(make, stream, neighbour, trials)
    assert not report.violated, str(report)
    assert report.detectable <= next((WEAK[w] for w in WEAK if w in name), LIMITS[name])
    assert report.passed == (report.detectable <= 4.0)
    assert ("no power" in str(report)) != report.passed
    assert "would have been reported" in str(report)
    if name in cases.SUMS and "lattice" in name:
        assert make.once().parameters.numerics == "lattice"


def test_an_audit_without_power_says_so_and_does_not_pass():
    make, stream, _, _ = cases.SUMS["ContinualSum, blt"]
    near = stream.copy()
    near[2] *= 0.999
    report = likelihood_audit(make, stream, near, 200)
    assert not report.violated
    assert not report.powerful
    assert not report.passed
    assert "no power" in str(report)
    assert "would not have been reported" in str(report)


def test_own_actions_may_differ_and_are_accounted_for():
    """A record whose context flips, too, is given another arm on the other stream."""
    make, (contexts, rewards), _, _ = cases.ARMS["HighDimensionalBandit, no schedule"]
    other = contexts.copy()
    other[0] *= -1.0
    report = likelihood_audit(make, (contexts, rewards), (other, rewards), 150)
    assert not report.violated, str(report)
