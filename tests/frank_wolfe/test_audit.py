"""Attacks on the learner's claim: replay on one random tape, and the exact law of its releases."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

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


@pytest.mark.parametrize("noise_factor", [1.0, 0.25])
def test_black_box_audit_of_the_decisions(noise_factor):
    """Clopper-Pearson bounds on the epsilon that released decisions really have.

    One dimension, four rounds; the neighbours differ in round 1 in the worst way. The decisions of
    rounds 2.. are +-r/k steps, so the attacker sees signs of noisy sums; the test picks the output
    sequence with the largest probability ratio on one half of the runs and bounds it on the other.
    """
    runs, horizon = 40_000, 4
    budget = dpoco.Budget(4.0, 1e-6)
    domain, loss = LpBall(1, 2.0, 1.0), LinearLoss(1.0)
    calibrated = TreeFrankWolfe(domain, loss, horizon=horizon, budget=budget)
    parameters = dataclasses.replace(
        calibrated.parameters,
        noise_scale=calibrated.parameters.noise_scale * noise_factor,
    )
    learner = TreeFrankWolfe(domain, loss, horizon=horizon, budget=None, parameters=parameters)
    counts = []
    for world, first in enumerate((1.0, -1.0)):
        rows = np.zeros((horizon, 1))
        rows[0, 0] = first
        tape = Source.seeded(100 + world)
        codes = np.zeros(runs, dtype=int)
        for i in range(runs):
            engine = learner._build_engine(tape._claim())
            engine.run(rows, None, np.empty(horizon), None, np.empty(horizon, np.uint8))
            codes[i] = int(engine.decision()[0] * 12 + 12)
        counts.append(np.bincount(codes, minlength=25))
    half = [np.random.default_rng(0).binomial(c, 0.5) for c in counts]
    rest = [c - h for c, h in zip(counts, half, strict=True)]
    best = 0.0
    for a, b in ((0, 1), (1, 0)):
        event = int(np.argmax(half[a] / np.maximum(half[b], 3)))
        # Each bound fails with probability 1e-7.
        n_a, n_b = rest[a].sum(), rest[b].sum()
        low = stats.beta.ppf(1e-7, rest[a][event], n_a - rest[a][event] + 1)
        high = stats.beta.ppf(1 - 1e-7, rest[b][event] + 1, n_b - rest[b][event])
        if rest[a][event] > 0 and low > budget.delta:
            best = max(best, float(np.log((low - budget.delta) / high)))
    if noise_factor == 1.0:
        assert best <= budget.epsilon
    else:
        assert best > budget.epsilon  # too little noise is seen through the decisions alone


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
