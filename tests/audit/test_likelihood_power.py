"""Privacy losses of every learner whose law is known: audits have power, and find false claims."""

from __future__ import annotations

import numpy as np
import pytest
from tests.audit import likelihood_cases as cases
from tests.audit.faults import planted

import dpoco
from dpoco.audit import likelihood_audit
from dpoco.learners import find_learner
from dpoco.random import Source

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning"),
]

# By which factor losses may be larger and go unnoticed, in the few runs of a test.
WEAK = {
    "squared": 8.0, "quadratic": 8.0, "Polyhedral": 7.0, "alarms": 7.5,
    "TreeFrankWolfe, lattice": 2.9,
}  # fmt: skip
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
        assert make(Source.seeded(0)).guarantee.description.grid > 0.0


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


# ---- claims of a fraction of the epsilon ---------------------------------------------------------

# One learner of every scorer: factor, and runs. What is compared with the claim are the losses
# whose enlargement `detectable` states above, for all learners.
CLAIMS = {
    "ContinualSum, blt": (4.0, 300), "NoisyFTRL": (4.0, 300), "PrefixHedge": (4.0, 300),
    "NoisyMax, exponential": (4.0, 300), "BatchShare, knorm": (4.0, 300),
    "PolyhedralFrankWolfe": (5.0, 250),
    "SufficientStatistics": (4.0, 200), "LinUCB, lattice": (4.0, 150),
    "HighDimensionalBandit, no schedule": (4.0, 200), "HighDimensionalBandit, tree": (4.0, 200),
    "EpochSelector, exponential": (2.0, 350), "WindowSelector": (2.0, 350),
    "AboveThreshold": (4.0, 400), "ShiftDetector": (4.0, 350), "ObliviousTracker": (8.0, 350),
}  # fmt: skip


def overclaiming(make, factor):
    """A fault: a learner promises a fraction of the epsilon."""
    honest = make(Source.seeded(0))
    found, kind = honest.guarantee, find_learner(type(honest)).load()
    delta = 0.0 if np.isfinite(found.epsilon_at(0.0)) else found.delta
    budget = dpoco.Budget(found.epsilon / factor, delta)
    arguments = {**honest._arguments, "budget": budget, "source": None, "plan": None}
    promised = kind(**arguments).guarantee

    def liar(learner, _):
        learner._guarantee = promised

    return liar


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_of_a_fraction_of_the_epsilon_is_caught(name):
    (make, stream, neighbour, _), (factor, trials) = cases.CASES[name], CLAIMS[name]
    report = likelihood_audit(planted(make, overclaiming(make, factor)), stream, neighbour, trials)
    assert report.violated
    assert not report.passed
    assert "VIOLATED" in str(report)
