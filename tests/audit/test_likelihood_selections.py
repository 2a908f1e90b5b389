"""Privacy losses of private selections and of released batches."""

from __future__ import annotations

import sys

import pytest

from dpoco.audit import likelihood_audit

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("name", cases.SELECTIONS)
def test_no_violation_is_found_by_an_audit_with_power(name):
    make, stream, neighbour, trials = cases.SELECTIONS[name]
    report = likelihood_audit(make, stream, neighbour, trials)
    assert not report.violated, str(report)
    assert report.detectable < (8.0 if "Frank" in name else 2.2)
    assert report.passed == (report.detectable <= 4.0)
    assert ("no power" in str(report)) != report.passed
