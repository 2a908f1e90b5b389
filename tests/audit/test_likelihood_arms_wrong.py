"""Claims too strong for the contextual bandits, and noise of another scale."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from dpoco.audit import likelihood_audit

cases = sys.modules["audit_likelihood_cases"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning"),
    pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning"),
]


@pytest.mark.parametrize(
    "name",
    ["LinUCB, lattice", "HighDimensionalBandit, no schedule", "HighDimensionalBandit, tree"],
)
def test_a_claim_of_a_quarter_of_the_epsilon_is_caught(name):
    make, stream, neighbour, trials = cases.ARMS[name]
    liar = cases.overclaiming(make, 4.0)
    assert likelihood_audit(liar, stream, neighbour, trials).violated


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("LinUCB", 0.7),
        ("LinUCB, lattice", 1.4),
        ("HighDimensionalBandit", 0.3),
        ("HighDimensionalBandit, tree", 0.7),
    ],
)
def test_noise_of_another_scale_is_caught(name, factor):
    make, stream, neighbour, trials = cases.ARMS[name]

    def change(p):
        if not hasattr(p, "arm"):
            return replace(p, noise_scale=factor * p.noise_scale)
        key = "noise_scale" if p.arm_learner == "tree" else "scale"
        return replace(p, arm=replace(p.arm, **{key: factor * getattr(p.arm, key)}))

    assert likelihood_audit(cases.rebuilt(make, change), stream, neighbour, trials).violated


@pytest.mark.parametrize("name", ["HighDimensionalBandit", "HighDimensionalBandit, tree"])
def test_arms_that_share_their_noise_are_caught(name):
    make, stream, neighbour, _ = cases.ARMS[name]

    def liar(source):
        learner = make(source)
        own = type(learner)._arm_settings
        learner._arm_settings = lambda claim: own(learner, {**claim, "stream": 0})
        learner._engine = learner._build_engine({"key": source._key, "stream": 1})
        return learner

    report = likelihood_audit(liar, stream, neighbour, 200)
    assert report.violated, str(report)
