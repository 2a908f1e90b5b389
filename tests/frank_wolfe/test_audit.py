"""Attacks on the learner's claim: replay on one random tape, and the exact law of its releases."""

from __future__ import annotations

import numpy as np
import pytest

import dpoco
from dpoco.audit import replay_audit
from dpoco.domains import Box, LpBall, Simplex
from dpoco.frank_wolfe import TreeFrankWolfe
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

T, D = 30, 3
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(T, D)), RNG.normal(size=T)
NASTY = [
    ([1e300, -1e300, 0.0], 1e300),
    ([0.0, 0.0, 0.0], 0.0),
    ([np.nan, 0.0, 0.0], 0.0),
    ([1.0, 1.0, 1.0], np.inf),
    ([1e-310, 0.0, 0.0], 1.0),
    ([-50.0, 0.0, 0.0], -50.0),
]


def replacements():
    return [(index, *NASTY[k % len(NASTY)]) for k, index in enumerate([0, 1, 2, 7, 15, T - 1] * 3)]


CASES = {
    "p=2": dict(domain=LpBall(D, 2.0, 1.5), loss=SquaredLoss(1.0, 1.0)),
    "p=1": dict(domain=LpBall(D, 1.0), loss=SquaredLoss(1.0, 1.0)),
    "p=1.5, paper": dict(domain=LpBall(D, 1.5), loss=SquaredLoss(1.0, 1.0), calibration="paper"),
    "p=1.5, corrected": dict(
        domain=LpBall(D, 1.5), loss=LogisticLoss(1.0), calibration="corrected"
    ),
    "p=inf": dict(domain=LpBall(D, np.inf), loss=HuberLoss(1.0, 1.0, threshold=0.3)),
    "l2 bound": dict(domain=LpBall(D, np.inf), loss=SquaredLoss(1.0, feature_bound_l2=0.6)),
    "simplex, honaker": dict(domain=Simplex(D), loss=LogisticLoss(2.0), sum_method="honaker"),
    "box, tree": dict(
        domain=Box([-1.0, 0.0, -0.5], [1.0, 2.0, 0.5]), loss=SquaredLoss(1.0, 1.0),
        sum_method="tree",
    ),
    "linear": dict(domain=LpBall(D, 1.5), loss=LinearLoss(2.0)),
    "batches": dict(domain=LpBall(D, 2.0), loss=SquaredLoss(1.0, 1.0), batch=7),
    "generalized Gaussian": dict(
        domain=LpBall(D, 1.2), loss=SquaredLoss(1.0, 1.0), noise="generalized_gaussian",
        norm_order=3.0,
    ),
}  # fmt: skip


def maker(horizon=T, **options):
    options = {"budget": dpoco.Budget(1.0, 1e-4), **options}
    return lambda source: TreeFrankWolfe(horizon=horizon, source=source, **options)


@pytest.mark.parametrize("case", CASES)
def test_replay_audit_finds_no_violation(case):
    labels = None if isinstance(CASES[case]["loss"], LinearLoss) else Y
    report = replay_audit(maker(**CASES[case]), (X, labels), replacements())
    assert not report.violated, str(report)
    assert report.pairs == 18
    # The neighbours really exercise the bound (a vacuous audit would pass anything).
    assert report.measured > 0.15 * report.declared
    assert ("no violation" if report.passed else "no power") in str(report)


@pytest.mark.parametrize("weight", [1.0, 1e-8, 1e-15, 3e-17, 1e-90])
def test_tiny_losses_and_huge_features_stay_within_the_sensitivity(weight):
    # Scalar times clipping factor may be subnormal, where rounding is coarse.
    learner = TreeFrankWolfe(
        LpBall(2, 2.0, 1e-9), SquaredLoss(1.0, 1.0, weight=weight), horizon=10,
        budget=dpoco.Budget(1.0, 1e-6), source=Source.seeded(0),
    )  # fmt: skip
    zero = np.zeros(2)
    for size in np.geomspace(1e300, 1.79e308, 3000):
        record = np.array([size, 0.0])
        change = learner._engine.leaf(zero, zero, record, -1.0)
        change = change - learner._engine.leaf(zero, zero, record, 1.0)
        assert np.linalg.norm(change) <= learner.guarantee.sensitivity * (1 + 1e-9)
