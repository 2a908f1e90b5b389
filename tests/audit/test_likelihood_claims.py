"""Claims of a fraction of the epsilon: the measured curve lies above them."""

from __future__ import annotations

import sys

import pytest

from dpoco.audit import likelihood_audit

cases = sys.modules["audit_likelihood_cases"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning"),
]

HARD = {"PolyhedralFrankWolfe, box", "PolyhedralFrankWolfe, simplex"}  # far below their claim
NAMES = [
    name
    for name in [*cases.SUMS, *cases.SELECTIONS]
    if not any(word in name for word in ("squared", "quadratic", "lattice")) and name not in HARD
]


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_of_a_fraction_of_the_epsilon_is_caught(name):
    make, stream, neighbour, trials = cases.CASES[name]
    liar = cases.overclaiming(make, 10.0 if "Polyhedral" in name else 4.0)
    report = likelihood_audit(liar, stream, neighbour, trials if "Poly" in name else 300)
    assert report.violated
    assert not report.passed
    assert "VIOLATED" in str(report)
