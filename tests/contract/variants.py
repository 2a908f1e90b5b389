"""Learners with other options than the contract makes up: all laws, methods, domains, losses."""

from __future__ import annotations

import functools

import numpy as np

import dpoco
from dpoco import bandits, experts, frank_wolfe, mechanisms, oco
from dpoco.domains import Box, LpBall, Simplex, VertexSet
from dpoco.losses import (
    CustomLoss,
    HuberLoss,
    LinearLoss,
    LogisticLoss,
    QuadraticLoss,
    SquaredLoss,
)

ROUNDS, D = 25, 3
BUDGET = dpoco.Budget(4.0, 1e-5)
LARGE = dpoco.Budget.from_dict({"epsilon": 20.0, "delta": 0.1})  # without a warning
TINY = dpoco.Budget(1e-4, 1e-5)
PURE = dpoco.Budget(4.0, 0.0)
BALL, L1, BOX, SIMPLEX = LpBall(D), LpBall(D, 1.0), Box([-1.0] * D, [1.0] * D), Simplex(D)
RNG = np.random.default_rng(3)
VERTICES = VertexSet(RNG.normal(size=(9, D)))


class Softplus:
    """ln(1 + exp(<v, x>)) - y <v, x>, as a user would write it."""

    def __init__(self, v, y):
        self.v, self.y = v / np.linalg.norm(v), float(y)

    def _chance(self, x):
        return 1.0 / (1.0 + np.exp(-(self.v @ x)))

    def value(self, x):
        return float(np.logaddexp(0.0, self.v @ x) - self.y * (self.v @ x))

    def gradient(self, x):
        return (self._chance(x) - self.y) * self.v

    def hessian(self, x):
        chance = self._chance(x)
        return chance * (1.0 - chance) * np.outer(self.v, self.v)


CUSTOM = CustomLoss(lipschitz=1.0, smoothness=1.0)
LOSSES = (
    [Softplus(v, y) for v, y in zip(RNG.normal(size=(ROUNDS, D)), [0, 1] * 13, strict=False)],
)
FACTORS = RNG.uniform(-0.4, 0.4, (ROUNDS, D, D))
SQUARES = (FACTORS @ FACTORS.swapaxes(1, 2), RNG.uniform(-0.4, 0.4, (ROUNDS, D)))


def of(kind, *problem, stream=None, **options):
    return functools.partial(kind, *problem, **{"budget": BUDGET, **options}), stream


TREE, POLYHEDRAL = frank_wolfe.TreeFrankWolfe, frank_wolfe.PolyhedralFrankWolfe
CTRL, COMW = oco.CoupledRegularizedLeader, oco.ContinuousMultiplicativeWeights
HDB = bandits.HighDimensionalBandit
VARIANTS = {
    "tree, l_1.5": of(TREE, LpBall(D, 1.5, 2.0), SquaredLoss()),
    "tree, batches": of(TREE, BALL, HuberLoss(1.0, 1.0), batch=3, sum_method="tree"),
    "tree, simplex": of(TREE, SIMPLEX, LogisticLoss(), sum_method="honaker", relation="zero_out"),
    "tree, box": of(TREE, BOX, LinearLoss(), sum_method="toeplitz"),
    "tree, generalized": of(
        TREE, LpBall(D, 1.2), SquaredLoss(), noise="generalized_gaussian", norm_order=3.0
    ),
    "tree, corrected": of(TREE, BALL, SquaredLoss(), calibration="corrected", start=[0.1] * D),
    "tree, two bounds": of(TREE, LpBall(D, np.inf), SquaredLoss(1.0, feature_bound_l2=0.6)),
    "tree, lattice": of(TREE, BALL, SquaredLoss(), numerics="lattice", sum_method="honaker"),
    "tree, batches on a lattice": of(
        TREE, BALL, SquaredLoss(), numerics="lattice", sum_method="tree", batch=4
    ),
    "tree, free": of(TREE, BALL, SquaredLoss(), budget=None),
    "tree, custom": of(TREE, BALL, CUSTOM, stream=LOSSES),
    "polyhedral, laplace": of(POLYHEDRAL, L1, SquaredLoss(), selector="laplace", batch=5),
    "polyhedral, simplex": of(POLYHEDRAL, SIMPLEX, LogisticLoss(), weights="paper", batch=1),
    "polyhedral, box": of(POLYHEDRAL, BOX, LinearLoss(), batch=2),
    "polyhedral, vertices": of(POLYHEDRAL, VERTICES, HuberLoss(1.0, 1.0), exponent=0.4),
    "polyhedral, pure": of(POLYHEDRAL, SIMPLEX, SquaredLoss(), budget=PURE, relation="zero_out"),
    "polyhedral, custom": of(POLYHEDRAL, L1, CUSTOM, stream=LOSSES),
    "ftrl, linear": of(oco.NoisyFTRL, BALL, LinearLoss(), sum_method="tree"),
    "ftrl, squares": of(
        oco.NoisyFTRL, BALL, SquaredLoss(1.0, feature_bound_l2=1.0), statistics="quadratic"
    ),
    "ftrl, simplex": of(oco.NoisyFTRL, SIMPLEX, LogisticLoss(), sum_method="honaker", batch=3),
    "ftrl, box": of(oco.NoisyFTRL, BOX, HuberLoss(1.0, 1.0), sum_method="toeplitz"),
    "ftrl, squares on a lattice": of(
        oco.NoisyFTRL, BALL, SquaredLoss(), numerics="lattice", statistics="quadratic", batch=2
    ),
    "ftrl, lattice": of(oco.NoisyFTRL, BALL, LogisticLoss(), numerics="lattice"),
    "ftrl, l_1": of(oco.NoisyFTRL, LpBall(D, 1.0), LinearLoss(2.0)),
    "ftrl, squares, l_1": of(
        oco.NoisyFTRL, LpBall(D, 1.0), SquaredLoss(2.0, 1.0), statistics="quadratic"
    ),
    "ftrl, slopes": of(oco.NoisyFTRL, BALL, LogisticLoss(slope_bound=0.5)),
    "newton, simplex": of(oco.NoisyNewton, SIMPLEX, LogisticLoss(slope_bound=0.75)),
    "newton, box": of(oco.NoisyNewton, BOX, HuberLoss(1.0, 1.0), numerics="lattice"),
    "newton, endless": of(oco.NoisyNewton, BALL, LogisticLoss(), relation="zero_out"),
    "ftrl, custom": of(oco.NoisyFTRL, BALL, CUSTOM, stream=LOSSES),
    "ctrl, logistic": of(CTRL, BOX, LogisticLoss(), budget=LARGE, coupling="density_ratio"),
    "ctrl, scheduled": of(CTRL, SIMPLEX, SquaredLoss(), budget=LARGE, coupling="scheduled"),
    "ctrl, zero out": of(CTRL, BALL, LinearLoss(), budget=LARGE, relation="zero_out", block=2),
    "ctrl, quadratic": of(CTRL, BALL, QuadraticLoss(3.0, 1.0), budget=LARGE, stream=SQUARES),
    "ctrl, custom": of(CTRL, BALL, CUSTOM, budget=LARGE, stream=LOSSES),
    "comw, linear": of(COMW, BOX, LinearLoss(), budget=LARGE, coupling="density_ratio"),
    "comw, dartboard": of(COMW, BOX, LogisticLoss(), budget=LARGE, coupling="dartboard"),
    "comw, anchored": of(COMW, BALL, HuberLoss(1.0, 1.0), budget=LARGE, coupling="anchored"),
    "comw, scheduled": of(COMW, SIMPLEX, LinearLoss(), budget=LARGE, coupling="scheduled"),
    "comw, quadratic": of(COMW, BALL, QuadraticLoss(3.0, 1.0), budget=LARGE, stream=SQUARES),
    "comw, custom": of(COMW, BALL, CUSTOM, budget=LARGE, stream=LOSSES),
    "lipschitz, plane": of(
        oco.LipschitzLearner, Box([0.0, 0.0], [1.0, 1.0]), lipschitz=1.0, resolution=4
    ),
    "lipschitz, honaker": of(
        oco.LipschitzLearner, Simplex(2, 2.0), lipschitz=1.0, resolution=6, sum_method="honaker"
    ),
    "lipschitz, tree": of(
        oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=2.0, resolution=5, sum_method="tree"
    ),
    "hedge, tree": of(experts.PrefixHedge, 4, sum_method="tree", loss_range=(-1.0, 1.0)),
    "hedge, honaker": of(experts.PrefixHedge, 4, sum_method="honaker", learning_rate=0.01),
    "hedge, toeplitz": of(experts.PrefixHedge, 4, sum_method="toeplitz"),
    "hedge, lattice": of(experts.PrefixHedge, 4, numerics="lattice"),
    "epochs, pure": of(experts.EpochSelector, 4, budget=PURE, loss_range=(-3.0, 5.0)),
    "windows": of(experts.WindowSelector, 4, budget=PURE, window=2),
    "detector": of(experts.ShiftDetector, 4, budget=PURE, expected_shifts=2, windows="dyadic"),
    "tracker, switches": of(experts.ObliviousTracker, 4, switches=2),
    "tracker, at most": of(
        experts.ObliviousTracker, 4, switches=3, prior="at_most", learning_rate=0.5
    ),
    "tracker, always": of(
        experts.ObliviousTracker, 4, budget=None, switches=3, share_rate=0.1, learning_rate=0.5,
        forced_switch=1.0,
    ),
    "tracker, never forced": of(
        experts.ObliviousTracker, 4, budget=None, switches=3, prior="at_most", learning_rate=40.0
    ),
    "tracker, resamples": of(
        experts.ObliviousTracker, 4, budget=None, switches=3, prior="at_most", learning_rate=0.5,
        forced_switch=0.2, batch=2, max_resamples=4,
    ),
    "tracker, batches": of(experts.ObliviousTracker, 4, switches=1, batch=4, forced_switch=0.2),
    "share": of(experts.BatchShare, 4, budget=PURE, switches=2, batch=1),
    "share, adaptive": of(experts.BatchShare, 4, adversary="adaptive", switches=2, batch=5),
    "share, lattice": of(experts.BatchShare, 4, noise="gaussian", numerics="lattice"),
    "linucb, batches": of(bandits.LinUCB, 3, D, batch=4, numerics="float", sum_method="honaker"),
    "linucb, lattice": of(bandits.LinUCB, 3, D, batch=1, numerics="lattice", relation="zero_out"),
    "linucb, free": of(bandits.LinUCB, 3, D, batch=1, budget=None),
    "bandit, polyhedral": of(
        HDB, 3, L1, arm_learner="polyhedral", batch=2, forced_rounds=3, gap=0.3
    ),
    "bandit, tree": of(HDB, 3, L1, arm_learner="tree", forced_rounds=4, sum_method="honaker"),
    "bandit, logistic": of(HDB, 3, SIMPLEX, link="logistic", relation="zero_out", forced_rounds=0),
    "sum, tree": of(mechanisms.ContinualSum, D, method="tree", bound=2.0),
    "sum, honaker": of(mechanisms.ContinualSum, D, method="honaker", relation="zero_out"),
    "sum, normalised": of(mechanisms.ContinualSum, D, method="blt_normalised"),
    "tree, normalised batches": of(TREE, BALL, SquaredLoss(), sum_method="blt_normalised", batch=4),
    "ftrl, normalised": of(
        oco.NoisyFTRL, BALL, SquaredLoss(), sum_method="blt_normalised", statistics="quadratic"
    ),
    "hedge, normalised": of(experts.PrefixHedge, 4, sum_method="blt_normalised"),
    "lipschitz, normalised": of(
        oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=5,
        sum_method="blt_normalised",
    ),
    "linucb, normalised": of(bandits.LinUCB, 3, D, sum_method="blt_normalised"),
    "bandit, normalised": of(HDB, 3, L1, arm_learner="tree", sum_method="blt_normalised"),
    "sum, toeplitz": of(mechanisms.ContinualSum, D, method="toeplitz", norm=1.0),
    "sum, generalized": of(
        mechanisms.ContinualSum, D, noise="generalized_gaussian", norm=3.0, method="tree"
    ),
    "sum, lattice": of(mechanisms.ContinualSum, D, numerics="lattice"),
    "max, gumbel": of(mechanisms.NoisyMax, 4, noise="gumbel", one_directional=True),
    "max, laplace": of(mechanisms.NoisyMax, 4, noise="laplace", largest=False, sensitivity=2.0),
    "above, spread": of(mechanisms.AboveThreshold, spread=1.5, alarms=5, stream=np.full(25, -99.0)),
    # Without a budget, and where a budget buys nothing: then no noise is drawn.
    "polyhedral, free": of(POLYHEDRAL, L1, SquaredLoss(), budget=None, weights="paper", batch=4),
    "polyhedral, one point": of(POLYHEDRAL, Box([0.5] * D, [0.5] * D), LogisticLoss()),
    "ftrl, squares, free": of(
        oco.NoisyFTRL, BOX, SquaredLoss(), budget=None, statistics="quadratic", batch=2
    ),
    "newton, free": of(oco.NoisyNewton, BALL, LogisticLoss(), budget=None),
    "detector, free": of(experts.ShiftDetector, 4, budget=None, expected_shifts=3),
    "detector, naive": of(experts.ShiftDetector, 4, windows="naive"),
    "detector, idle": of(experts.ShiftDetector, 4, budget=TINY),
    "detector, one expert": of(experts.ShiftDetector, 1),
    "share, free": of(experts.BatchShare, 4, budget=None, batch=3, switches=2),
    "share, one expert": of(experts.BatchShare, 1),
    "tracker, idle": of(experts.ObliviousTracker, 4, budget=TINY, switches=30, prior="at_most"),
    "hedge, free": of(experts.PrefixHedge, 4, budget=None, loss_range=(-2.0, 6.0)),
    "lipschitz, free": of(oco.LipschitzLearner, LpBall(2), budget=None, lipschitz=1.0),
    "statistics, free": of(
        frank_wolfe.SufficientStatistics, Box([-0.2] * D, [0.1, 0.2, 0.3]),
        SquaredLoss(3.0, 1.0), budget=None,
    ),
    # Nets of other shapes; problems that end elsewhere.
    "lipschitz, flat": of(
        oco.LipschitzLearner, Box([0.0, 0.5], [1.0, 0.5]), lipschitz=1.0, resolution=5
    ),
    "lipschitz, disc": of(
        oco.LipschitzLearner, LpBall(2), lipschitz=1.0, resolution=5, enforce=False
    ),
    "lipschitz, segment": of(oco.LipschitzLearner, LpBall(1), lipschitz=1.0, transform="parent"),
    "lipschitz, point": of(oco.LipschitzLearner, Box([0.5], [0.5]), lipschitz=1.0),
    "linucb, one arm": of(bandits.LinUCB, 1, D, batch=7, sum_method="tree", numerics="float"),
    "comw, free": of(COMW, BOX, HuberLoss(1.0, 1.0), budget=None),
    "ctrl, free": of(CTRL, BALL, SquaredLoss(), budget=None, block=4),
    "statistics, box": of(
        frank_wolfe.SufficientStatistics, Box([-0.2] * D, [0.1, 0.2, 0.3]), SquaredLoss(1.0, 1.0)
    ),
}  # fmt: skip
# Played for their releases only: the contract plays more than one net with records of one, and
# takes clipping and noise for granted.
RELEASED = {
    "lipschitz, disc", "lipschitz, free", "lipschitz, point", "lipschitz, segment",
}  # fmt: skip
