"""Privacy losses of what is led by private sums, in doubles and on the lattice."""

from __future__ import annotations

import sys

import pytest

from dpoco.audit import likelihood_audit

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize("name", cases.SUMS)
def test_no_violation_is_found_by_an_audit_with_power(name):
    make, stream, neighbour, trials = cases.SUMS[name]
    report = likelihood_audit(make, stream, neighbour, trials)
    assert not report.violated, str(report)
    assert report.detectable < (8.0 if "squared" in name or "quadratic" in name else 2.7)
    assert report.passed == (report.detectable <= 4.0)
    assert ("no power" in str(report)) != report.passed
    assert "would have been reported" in str(report)
    if "numerics" in make.once()._arguments and "lattice" in name:
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
