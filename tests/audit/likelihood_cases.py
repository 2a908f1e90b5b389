"""Every learner whose law is known, with a pair of streams that uses up much of its claim."""

from __future__ import annotations

import functools

import numpy as np

import dpoco
from dpoco import bandits, experts, mechanisms, oco
from dpoco import frank_wolfe as fw
from dpoco.audit._family import calibrate_once
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.losses import LinearLoss, SquaredLoss
from dpoco.published import asi_tracking

T = 6
GAUSS = dpoco.Budget.from_dict({"epsilon": 3.0, "delta": 1e-2})  # without a warning
PURE = dpoco.Budget(1.5, 0.0)
G = np.tile([1.0, 0.0], (T, 1))
H = G.copy()
H[2] *= -1.0
SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], size=(T, 3))
SIGNS[0] = [1.0, -1.0, 1.0]
ONES = np.ones(T)
FLIPPED = ONES.copy()
FLIPPED[0] = -1.0
L = np.tile([1.0, 0.0, 0.0, 0.0], (T, 1))
M = L.copy()
M[1] = 1.0 - L[1]
L[1] = [1.0, 1.0, 0.0, 0.0]
M[1] = 1.0 - L[1]
K = L.copy()
K[0] = 1.0 - L[0]
SCORES = np.zeros((3, 4))
MOVED = SCORES + np.array([1.0, -1.0, -1.0, -1.0])


TREES = {"horizon": T, "budget": GAUSS}
BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}


def prepared(cls, *arguments, **options):
    """A maker whose calibration and accounting are done once, when it is first asked."""

    @functools.cache
    def once():
        return calibrate_once(cls, *arguments, **options)

    return lambda source: once()(source)


def sums(method, numerics):
    make = prepared(
        mechanisms.ContinualSum, 2, bound=1.0, method=method, numerics=numerics, **TREES
    )
    return make, G, H, 350


def polyhedral(domain, **options):
    d = domain.dimension
    # With less, losses are so near to 0 that their signs could be reversed unseen.
    make = prepared(
        fw.PolyhedralFrankWolfe, domain, SquaredLoss(1.0, 1.0), horizon=T, batch=1,
        budget=dpoco.Budget(30.0, 0.0), **options,
    )  # fmt: skip
    return make, (SIGNS[:, :d], ONES), (SIGNS[:, :d], FLIPPED), 250


def share(noise, batch=2):
    budget = GAUSS if noise == "gaussian" else PURE
    options = {"noise": noise, "batch": batch, "learning_rate": 0.1}
    return prepared(experts.BatchShare, 4, horizon=T + 1, budget=budget, **options), L, M, 500


def maximum(noise):
    options = {"horizon": 3, "budget": PURE, "noise": noise, "sensitivity": 1.0}
    return prepared(mechanisms.NoisyMax, 4, **options), SCORES, MOVED, 500


BALL, SQUARED = LpBall(2, 2.0), SquaredLoss(1.0, 1.0)
LABELS = ONES.copy()
LABELS[3] = -1.0


def hedge(numerics):
    options = {"horizon": T + 1, "budget": GAUSS, "numerics": numerics}
    return prepared(experts.PrefixHedge, 4, **options), L, M, 350


# ---- sums and selections -------------------------------------------------------------------------

SUMS = {
    **{
        f"ContinualSum, {m}": sums(m, "float")
        for m in ("blt", "blt_normalised", "banded", "tree", "toeplitz")
    },
    "ContinualSum, lattice": sums("blt", "lattice"),
    "TreeFrankWolfe": (
        prepared(fw.TreeFrankWolfe, BALL, LinearLoss(1.0), batch=2, **TREES), G, H, 300
    ),
    "TreeFrankWolfe, lattice": (
        prepared(fw.TreeFrankWolfe, BALL, LinearLoss(1.0), batch=2, numerics="lattice",
                 sum_method="tree", **TREES),
        G, H, 300,
    ),
    "TreeFrankWolfe, squared": (
        prepared(fw.TreeFrankWolfe, BALL, SQUARED, numerics="float", **TREES),
        (G, ONES), (G, LABELS), 600,
    ),
    "NoisyFTRL": (
        prepared(oco.NoisyFTRL, BALL, LinearLoss(1.0), numerics="float", **TREES), G, H, 300
    ),
    "NoisyFTRL, lattice": (
        prepared(oco.NoisyFTRL, BALL, LinearLoss(1.0), numerics="lattice", sum_method="toeplitz",
                 **TREES),
        G, H, 300,
    ),
    "NoisyFTRL, quadratic": (
        prepared(oco.NoisyFTRL, BALL, SQUARED, statistics="quadratic", sum_method="tree", **TREES),
        (G, ONES), (G, LABELS), 600,
    ),
    "NoisyFTRL, quadratic, running loss": (
        prepared(oco.NoisyFTRL, BALL, SQUARED, statistics="quadratic", running_loss=True,
                 sum_method="tree", **TREES),
        (G, ONES), (G, LABELS), 600,
    ),
    "PrefixHedge": hedge("float"),
    "PrefixHedge, lattice": hedge("lattice"),
}  # fmt: skip

ZIGZAG = np.tile([0.0, 0.25, 0.0, 0.25, 0.0], (T, 1))
ZAGZIG = ZIGZAG.copy()
ZAGZIG[1] = 0.25 - ZAGZIG[1]
SUMS["LipschitzLearner"] = (
    prepared(oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=5, horizon=T + 1,
             budget=GAUSS),
    ZIGZAG, ZAGZIG, 250,
)  # fmt: skip

SELECTIONS = {
    **{f"NoisyMax, {noise}": maximum(noise) for noise in ("exponential", "gumbel", "laplace")},
    "PolyhedralFrankWolfe": polyhedral(LpBall(2, 1.0)),
    "PolyhedralFrankWolfe, box": polyhedral(Box([-1.0, 0.0], [1.0, 1.0]), selector="laplace"),
    "PolyhedralFrankWolfe, simplex": polyhedral(Simplex(3), weights="paper"),
    "PolyhedralFrankWolfe, points": polyhedral(VertexSet([[0.0, -1], [1, -0.5], [-1, 1]])),
    **{f"BatchShare, {noise}": share(noise) for noise in ("knorm", "gaussian", "laplace")},
}

# ---- epochs, alarms, coins -----------------------------------------------------------------------

QUIET, LOUD = np.full(T, 3.0), np.full(T, 6.0)
TWO = np.tile([1.0, 0.0], (T, 1))
OWT = TWO.copy()
OWT[1] = [0.0, 1.0]
RICH = dpoco.Budget(6.0, 0.0)


def detector(budget, **options):
    return prepared(experts.ShiftDetector, 2, horizon=T, budget=budget, **options), TWO, OWT, 350


def tracker(**options):
    budget = dpoco.Budget(4.0, 1e-3)
    make = prepared(experts.ObliviousTracker, 4, horizon=T, switches=1, budget=budget, **options)
    return make, L, K, 350


def epochs(noise):
    options = {"horizon": T + 2, "budget": PURE, "selection": noise}
    return prepared(experts.EpochSelector, 4, **options), L, K, 350


EXPERTS = {
    **{f"EpochSelector, {noise}": epochs(noise) for noise in ("exponential", "gumbel", "laplace")},
    "WindowSelector": (
        prepared(experts.WindowSelector, 4, horizon=T + 2, budget=PURE, window=2), L, K, 350
    ),
    "AboveThreshold": (
        prepared(mechanisms.AboveThreshold, horizon=T, budget=dpoco.Budget(3.0, 0.0), spread=1.0,
                 sensitivity=1.0),
        QUIET, QUIET + 1.0, 400,
    ),
    "AboveThreshold, alarms": (
        prepared(mechanisms.AboveThreshold, horizon=T, budget=dpoco.Budget(6.0, 0.0), alarms=3,
                 sensitivity=1.0),
        LOUD, LOUD + 1.0, 400,
    ),
    "ShiftDetector": detector(dpoco.Budget(3.0, 0.0)),
    "ShiftDetector, laplace": detector(
        dpoco.Budget(3.0, 0.0),
        plan=asi_tracking.shift_detector(
            2, horizon=T, budget=dpoco.Budget(3.0, 0.0), corrected=True
        ),
    ),
    "ShiftDetector, early": detector(RICH, threshold_scale=0.01),
    "ShiftDetector, dyadic": detector(RICH, threshold_scale=0.01, windows="dyadic"),
    "ObliviousTracker": tracker(),
    "ObliviousTracker, at most": tracker(prior="at_most"),
    "ObliviousTracker, batches": tracker(batch=2, max_resamples=1),
}  # fmt: skip

# ---- bandits and fits ----------------------------------------------------------------------------

PAID = np.ones((T, 2))
UNPAID = PAID.copy()
UNPAID[0] = -1.0
FEW = np.ones((T, 2))


def linear_bandit(cls, **options):
    make = prepared(cls, 2, 2, horizon=T + 1, budget=GAUSS, **BOUNDED, **options)
    return make, (G, PAID), (G, UNPAID), 150


def arms(arm_learner, **options):
    budget = GAUSS if arm_learner == "tree" else dpoco.Budget(3.0, 0.0)
    make = prepared(
        bandits.HighDimensionalBandit, 2, LpBall(2, 1.0, 0.1), arm_learner=arm_learner, horizon=T,
        budget=budget, **BOUNDED, **options,
    )  # fmt: skip
    return make, (FEW, PAID), (FEW, UNPAID), 200


ARMS = {
    "ResidualPhases": linear_bandit(bandits.ResidualPhases),
    "LinUCB": linear_bandit(bandits.LinUCB, numerics="float", batch=1),
    "LinUCB, lattice": linear_bandit(bandits.LinUCB, numerics="lattice", batch=2),
    "HighDimensionalBandit": arms("polyhedral", batch=1, forced_rounds=1),
    "HighDimensionalBandit, no schedule": arms("polyhedral", batch=2, forced_rounds=0),
    "HighDimensionalBandit, tree": arms("tree", batch=1, forced_rounds=1),
}

N = 8
FEATURES, ANSWERS = np.tile([1.0, 0.0], (N, 1)), np.ones(N)
OTHERS = ANSWERS.copy()
OTHERS[0] = -1.0
SMALL = LpBall(2, 2.0, 0.1)


FITS = {
    "SufficientStatistics": (
        prepared(fw.SufficientStatistics, SMALL, SQUARED, budget=GAUSS, records=N),
        (FEATURES, ANSWERS), (FEATURES, OTHERS), 200,
    ),
}  # fmt: skip
CASES = {**SUMS, **SELECTIONS, **EXPERTS, **ARMS, **FITS}
