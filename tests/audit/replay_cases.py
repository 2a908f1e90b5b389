"""Every learner and mechanism with a stream and nasty neighbours, for the audits' tests."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import numpy as np

import dpoco
from dpoco import bandits, experts, mechanisms, oco
from dpoco import frank_wolfe as fw
from dpoco.accounting.oblivious_tracker import TrackerTuning
from dpoco.accounting.plan import Forecast, Plan
from dpoco.audit._family import calibrate_once
from dpoco.domains import Box, LpBall, VertexSet
from dpoco.losses import LinearLoss, LogisticLoss, SquaredLoss
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws

T, D, N = 24, 3, 5
GAUSS = dpoco.Budget(1.0, 1e-4)
PURE = dpoco.Budget(2.0, 0.0)
RNG = np.random.default_rng(4)
X, Y = RNG.normal(size=(T, D)), RNG.normal(size=T)
LOSSES = RNG.uniform(size=(T, N))
INF, NAN = np.inf, np.nan

RECORDS = [
    (0, [1e300, -1e300, 0.0], 1e300),
    (1, [0.0, 0.0, 0.0], 0.0),
    (7, [NAN, 0.0, 0.0], 0.0),
    (12, [1.0, 1.0, 1.0], INF),
    (15, [1e-310, 0.0, 0.0], 1.0),
    (T - 1, [-50.0, 0.0, 0.0], -50.0),
    (8, [0.0, -1.0, 0.0], 1.0),
]
ROWS = [(r[0], r[1]) for r in RECORDS]
EXPERTS = [
    (0, np.full(N, 1e300)),
    (1, np.arange(N) % 2.0),
    (2, np.full(N, NAN)),
    (8, np.where(np.arange(N) % 2 > 0, INF, -5.0)),
    (13, 1.0 - np.arange(N) % 2),
    (T - 1, -LOSSES[T - 1]),
]
QUADRATICS = np.array([np.outer(x, x) / 9.0 for x in X])
BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}
BANDIT = (X * 0.7, RNG.normal(size=(T, 2)))
USERS = [(t, x, [y, -y]) for t, x, y in RECORDS]


_spec = importlib.util.spec_from_file_location(
    "audit_oco_problems", Path(__file__).parents[1] / "oco" / "conftest.py"
)
_problems = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_problems)


def coupled(name, **own):
    """A coupled learner with many coins and draws in few rounds."""

    @functools.cache
    def parameters():
        return _problems.parameters(name, **own)

    kind, _, domain, loss = _problems.parse(name)
    return lambda source: kind(
        domain, loss, horizon=T, budget=None, plan=parameters(), source=source
    )


def of(cls, *arguments, **options):
    options = {"horizon": T, "budget": GAUSS, **options}
    return lambda source: cls(*arguments, source=source, **options)


PROBLEM = LpBall(D, 2.0), SquaredLoss(1.0, 1.0)


def batch(cls, noise_scale=None, **options):
    """A maker of fits; of those whose calibration takes long, with a scale instead."""
    changes = {} if noise_scale is None else {"noise_scale": noise_scale}

    @functools.cache
    def once():
        budget = None if changes else GAUSS
        return calibrate_once(cls, *PROBLEM, budget=budget, changes=changes, records=T, **options)

    return lambda source: once()(source)


def arms(**options):
    return of(
        bandits.HighDimensionalBandit,
        2,
        LpBall(D, 1.0),
        **{"context_bound": 1.0, "reward_bound": 1.0, **options},
    )


PATIENTS = [
    *USERS, (10, -BANDIT[0][10], [1.0, 1.0]), (14, BANDIT[0][14], [-1.0, 1.0]),
    (15, [1.0, 1.0, 1.0], [-1.0, -1.0]), (16, [-1.0, 1.0, -1.0], [1.0, -1.0]),
]  # fmt: skip
BALL, CROSS = LpBall(D, 2.0), LpBall(D, 1.0)
SQUARED, LINEAR, LOGISTIC = SquaredLoss(1.0, 1.0), LinearLoss(1.0), LogisticLoss(1.0)
BOX = Box([-1.0, 0.0, -0.5], [1.0, 2.0, 0.5])
RICH = dpoco.Budget(8.0, 1e-3)

# Name: (maker, stream, replacements).
CASES = {
    "TreeFrankWolfe": (of(fw.TreeFrankWolfe, BALL, SQUARED), (X, Y), RECORDS),
    "TreeFrankWolfe, batches": (of(fw.TreeFrankWolfe, CROSS, SQUARED, batch=5), (X, Y), RECORDS),
    "TreeFrankWolfe, linear": (of(fw.TreeFrankWolfe, BALL, LINEAR, batch=2), X, ROWS),
    "TreeFrankWolfe, emptied": (
        of(fw.TreeFrankWolfe, BOX, LOGISTIC, relation="zero_out", sum_method="tree"), (X, Y),
        [(0, [0.0] * 3, 1.0), (9, [NAN] * 3, 0.0)],
    ),
    "PolyhedralFrankWolfe": (of(fw.PolyhedralFrankWolfe, CROSS, SQUARED, batch=1), (X, Y), RECORDS),
    "PolyhedralFrankWolfe, batches": (
        of(fw.PolyhedralFrankWolfe, BOX, SQUARED, batch=4, selector="laplace"), (X, Y), RECORDS
    ),
    "PolyhedralFrankWolfe, points": (
        of(fw.PolyhedralFrankWolfe, VertexSet([[0, 1, 0], [1, 0, 0], [0, 0, -1]]), LINEAR, batch=3),
        X, ROWS,
    ),
    "NoisyFTRL": (of(oco.NoisyFTRL, BALL, LINEAR), X, ROWS),
    "NoisyNewton": (of(oco.NoisyNewton, BALL, LOGISTIC), (X, Y), RECORDS),
    "NoisyNewton, half-life": (
        of(oco.NoisyNewton, BALL, LOGISTIC, half_life=8.0), (X, Y), RECORDS
    ),
    "NoisyFTRL, batches": (of(oco.NoisyFTRL, BALL, SQUARED, batch=4), (X, Y), RECORDS),
    "NoisyFTRL, quadratic": (
        of(oco.NoisyFTRL, BALL, SQUARED, statistics="quadratic", sum_method="tree"),
        (X, Y), RECORDS,
    ),
    "NoisyFTRL, running loss": (
        of(oco.NoisyFTRL, BALL, SQUARED, statistics="quadratic", running_loss=True),
        (X, Y), RECORDS,
    ),
    "SufficientStatistics": (batch(fw.SufficientStatistics), (X, Y), RECORDS),
    "CoupledRegularizedLeader": (coupled("leader density_ratio ball linear"), X, ROWS),
    "CoupledRegularizedLeader, logistic": (
        coupled("leader density_ratio box logistic"), (X, Y), RECORDS
    ),
    "CoupledRegularizedLeader, scheduled": (coupled("leader scheduled simplex linear"), X, ROWS),
    "ContinuousMultiplicativeWeights": (
        coupled("weights density_ratio ball linear"), X, ROWS
    ),
    "ContinuousMultiplicativeWeights, dartboard": (
        coupled("weights dartboard box logistic"), (X, Y), RECORDS
    ),
    "ContinuousMultiplicativeWeights, anchored": (
        coupled("weights anchored box linear"), X, ROWS
    ),
    "ContinuousMultiplicativeWeights, quadratic": (
        coupled("weights dartboard ball quadratic"), (QUADRATICS, X),
        [(3, np.eye(3), [1.0, 0.0, 0.0]), (3, -np.eye(3), [0.0] * 3),
         (T - 1, -np.eye(3), [NAN] * 3)],
    ),
    "LipschitzLearner": (
        of(oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=N), LOSSES, EXPERTS
    ),
    "PrefixHedge": (of(experts.PrefixHedge, N), LOSSES, EXPERTS),
    "PrefixHedge, normalised": (
        of(experts.PrefixHedge, N, sum_method="blt_normalised"), LOSSES, EXPERTS
    ),
    "PrefixHedge, toeplitz": (
        of(experts.PrefixHedge, N, sum_method="toeplitz", loss_range=(-1.0, 3.0)),
        4.0 * LOSSES - 1.0, [(t, 4.0 * np.asarray(row) - 1.0) for t, row in EXPERTS],
    ),
    "EpochSelector": (of(experts.EpochSelector, N, budget=PURE), LOSSES, EXPERTS),
    "EpochSelector, gumbel": (of(experts.EpochSelector, N, selection="gumbel"), LOSSES, EXPERTS),
    "WindowSelector": (of(experts.WindowSelector, N, budget=PURE, window=3), LOSSES, EXPERTS),
    "ShiftDetector": (of(experts.ShiftDetector, N, budget=PURE), LOSSES, EXPERTS),
    "ObliviousTracker": (
        of(experts.ObliviousTracker, N, switches=2, budget=RICH, batch=2), LOSSES, EXPERTS
    ),
    "ObliviousTracker, coins": (
        of(
            experts.ObliviousTracker, N, budget=None,
            plan=Plan(
                TrackerDraws(N, "share", 0.5, 0.1, batch=2, horizon=T, share_rate=0.1, cap=8),
                TrackerTuning(2), Forecast(None, "oblivious"),
            ),
        ),
        LOSSES, EXPERTS,
    ),
    "BatchShare": (of(experts.BatchShare, N, budget=PURE, batch=3, switches=1), LOSSES, EXPERTS),
    "BatchShare, gaussian": (of(experts.BatchShare, N, noise="gaussian", batch=2), LOSSES, EXPERTS),
    "BatchShare, laplace": (of(experts.BatchShare, N, noise="laplace", batch=4), LOSSES, EXPERTS),
    "BatchShare, response": (of(experts.BatchShare, N, noise="coordinate_rr"), LOSSES, EXPERTS),
    "LinUCB": (of(bandits.LinUCB, 2, D, batch=1, **BOUNDED), BANDIT, USERS),
    "LinUCB, half-life": (
        of(bandits.LinUCB, 2, D, batch=2, half_life=9.0, **BOUNDED), BANDIT, USERS
    ),
    "LinUCB, batches": (of(bandits.LinUCB, 2, D, batch=5, **BOUNDED), BANDIT, USERS),
    "ResidualPhases": (of(bandits.ResidualPhases, 2, D, **BOUNDED), BANDIT, USERS),
    "ResidualPhases, half-life": (
        of(bandits.ResidualPhases, 2, D, half_life=12.0, **BOUNDED), BANDIT, USERS,
    ),
    "ResidualPhases, any law": (
        of(bandits.ResidualPhases, 2, D, context_law="any", **BOUNDED), BANDIT, USERS,
    ),
    "ResidualPhases, scale known": (
        of(bandits.ResidualPhases, 2, D, reward_noise=0.4, intercept=0.1, **BOUNDED),
        BANDIT, USERS,
    ),
    "HighDimensionalBandit": (
        arms(arm_learner="polyhedral", batch=1, forced_rounds=2), BANDIT, PATIENTS
    ),
    "HighDimensionalBandit, batches": (
        arms(arm_learner="polyhedral", batch=3, forced_rounds=3, gap=0.3, selector="laplace"),
        BANDIT, PATIENTS,
    ),
    "HighDimensionalBandit, trees": (
        arms(arm_learner="tree", batch=1, forced_rounds=2), BANDIT, PATIENTS
    ),
    "HighDimensionalBandit, trees, emptied": (
        arms(arm_learner="tree", batch=2, forced_rounds=0, link="logistic", sum_method="tree",
             relation="zero_out"),
        BANDIT, [(0, [NAN] * 3, [0.0] * 2), (9, [0.0] * 3, [0.0] * 2)],
    ),
    "ContinualSum": (of(mechanisms.ContinualSum, D, bound=1.0), X, ROWS),
    "ContinualSum, l1 and generalized": (
        of(mechanisms.ContinualSum, D, norm=4.0, noise="generalized_gaussian", method="tree",
            bound=1.0),
        X, ROWS,
    ),
    "NoisyMax": (
        of(mechanisms.NoisyMax, N, budget=PURE, sensitivity=1.0), LOSSES,
        [(0, LOSSES[0] + [1, -1, 0, 1, -1]), (9, LOSSES[9] + 1)],
    ),
    "NoisyMax, counts": (
        of(mechanisms.NoisyMax, N, noise="gumbel", one_directional=True, largest=False,
            sensitivity=1.0), LOSSES,
        [(4, LOSSES[4] - 1.0), (T - 1, np.where(np.arange(N) == 2, 0.0, LOSSES[T - 1]))],
    ),
    "AboveThreshold": (
        of(mechanisms.AboveThreshold, budget=PURE, sensitivity=1.0), -40.0 - Y,
        [(3, -41.0 - Y[3]), (T - 1, -39.5 - Y[T - 1])]
    ),
    "AboveThreshold, alarms": (
        of(mechanisms.AboveThreshold, budget=dpoco.Budget(50.0, 0.0), alarms=3, sensitivity=1.0),
            4 * Y,
        [(2, 4 * Y[2] + 1.0)]
    ),
}  # fmt: skip
