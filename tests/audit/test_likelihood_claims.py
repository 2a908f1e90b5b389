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

# Far below their claim on these streams, or the same law in another arithmetic.
WITHOUT = ("squared", "quadratic", "lattice", "Wolfe, box", "Wolfe, simplex")
PLAIN = [
    name
    for name in (*cases.SUMS, *cases.SELECTIONS)
    if not any(word in name for word in (*WITHOUT, "Polyhedral"))
]
# Name: factor, and runs.
CLAIMS = {
    **{name: (4.0, 300) for name in PLAIN},
    **{name: (4.0, cases.CASES[name][3]) for name in cases.FITS},
    "PhasedSGD": (8.0, 200), "PolyhedralFrankWolfe": (10.0, 500),
    "PolyhedralFrankWolfe, points": (10.0, 500), "LinUCB, lattice": (4.0, 150),
    "HighDimensionalBandit, no schedule": (4.0, 200), "HighDimensionalBandit, tree": (4.0, 200),
    "EpochSelector, exponential": (2.0, 350), "EpochSelector, gumbel": (2.0, 350),
    "AboveThreshold": (4.0, 400), "ShiftDetector": (4.0, 350), "ShiftDetector, early": (3.0, 350),
    "ObliviousTracker": (8.0, 350), "ObliviousTracker, at most": (4.0, 350),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_of_a_fraction_of_the_epsilon_is_caught(name):
    (make, stream, neighbour, _), (factor, trials) = cases.CASES[name], CLAIMS[name]
    report = likelihood_audit(cases.overclaiming(make, factor), stream, neighbour, trials)
    assert report.violated
    assert not report.passed
    assert "VIOLATED" in str(report)
