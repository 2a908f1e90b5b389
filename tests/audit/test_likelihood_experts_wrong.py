"""Claims too strong for selections on epochs, alarms and coins, and engines of another law."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from dpoco.audit import likelihood_audit

cases = sys.modules["audit_likelihood_cases"]
pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("EpochSelector, exponential", 2.0),
        ("EpochSelector, gumbel", 2.0),
        ("AboveThreshold", 4.0),
        ("ShiftDetector", 4.0),
        ("ShiftDetector, early", 3.0),
        ("ObliviousTracker", 8.0),
        ("ObliviousTracker, at most", 4.0),
    ],
)
def test_a_claim_of_a_fraction_of_the_epsilon_is_caught(name, factor):
    make, stream, neighbour, trials = cases.EXPERTS[name]
    liar = cases.overclaiming(make, factor)
    assert likelihood_audit(liar, stream, neighbour, trials).violated


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("EpochSelector, exponential", {"scale": 0.3}),
        ("EpochSelector, laplace", {"scale": 8.0}),
        ("AboveThreshold", {"threshold_noise_scale": 6.0}),
        ("AboveThreshold, alarms", {"threshold_noise_scale": 6.0}),
        ("ShiftDetector, early", {"query_noise_scale": 0.2}),
        ("ShiftDetector, early", {"threshold_noise_scale": 0.1}),
        ("ObliviousTracker", {"forced_switch": 0.5}),
        ("ObliviousTracker, at most", {"learning_rate": 6.0}),
    ],
)
def test_engines_of_another_law_are_caught(name, changes):
    make, stream, neighbour, _ = cases.EXPERTS[name]

    def change(p):
        return replace(p, **{key: factor * getattr(p, key) for key, factor in changes.items()})

    report = likelihood_audit(cases.rebuilt(make, change), stream, neighbour, 400)
    assert report.violated, str(report)
