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


BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}
TREE, POLYHEDRAL = frank_wolfe.TreeFrankWolfe, frank_wolfe.PolyhedralFrankWolfe
CTRL, COMW = oco.CoupledRegularizedLeader, oco.ContinuousMultiplicativeWeights
HDB = bandits.HighDimensionalBandit
VARIANTS = {
    "tree, l_1.5": of(TREE, LpBall(D, 1.5, 2.0), SquaredLoss(1.0, 1.0)),
    "tree, batches": of(TREE, BALL, HuberLoss(1.0, 1.0), batch=3, sum_method="tree"),
    "tree, simplex": of(
        TREE, SIMPLEX, LogisticLoss(1.0), sum_method="tree", relation="zero_out"
    ),
    "tree, box": of(TREE, BOX, LinearLoss(1.0), sum_method="toeplitz"),
    "tree, generalized": of(
        TREE, LpBall(D, 1.2), SquaredLoss(1.0, 1.0), noise="generalized_gaussian", norm_order=3.0
    ),
    "tree, two bounds": of(TREE, LpBall(D, np.inf), SquaredLoss(1.0, 1.0, feature_bound_l2=0.6)),
    "tree, lattice": of(
        TREE, BALL, SquaredLoss(1.0, 1.0), numerics="lattice", sum_method="tree"
    ),
    "tree, batches on a lattice": of(
        TREE, BALL, SquaredLoss(1.0, 1.0), numerics="lattice", sum_method="tree", batch=4
    ),
    "tree, free": of(TREE, BALL, SquaredLoss(1.0, 1.0), budget=None),
    "tree, custom": of(TREE, BALL, CUSTOM, stream=LOSSES),
    "polyhedral, laplace": of(POLYHEDRAL, L1, SquaredLoss(1.0, 1.0), selector="laplace", batch=5),
    "polyhedral, simplex": of(POLYHEDRAL, SIMPLEX, LogisticLoss(1.0), weights="paper", batch=1),
    "polyhedral, box": of(POLYHEDRAL, BOX, LinearLoss(1.0), batch=2),
    "polyhedral, vertices": of(POLYHEDRAL, VERTICES, HuberLoss(1.0, 1.0), exponent=0.4),
    "polyhedral, pure": of(
        POLYHEDRAL, SIMPLEX, SquaredLoss(1.0, 1.0), budget=PURE, relation="zero_out"
    ),
    "polyhedral, custom": of(POLYHEDRAL, L1, CUSTOM, stream=LOSSES),
    "ftrl, linear": of(oco.NoisyFTRL, BALL, LinearLoss(1.0), sum_method="tree"),
    "ftrl, squares": of(
        oco.NoisyFTRL, BALL, SquaredLoss(1.0, 1.0, feature_bound_l2=1.0), statistics="quadratic"
    ),
    "ftrl, simplex": of(oco.NoisyFTRL, SIMPLEX, LogisticLoss(1.0), sum_method="tree", batch=3),
    "ftrl, box": of(oco.NoisyFTRL, BOX, HuberLoss(1.0, 1.0), sum_method="toeplitz"),
    "ftrl, squares on a lattice": of(
        oco.NoisyFTRL, BALL, SquaredLoss(1.0, 1.0), numerics="lattice", statistics="quadratic",
            batch=2
    ),
    "ftrl, lattice": of(oco.NoisyFTRL, BALL, LogisticLoss(1.0), numerics="lattice"),
    "ftrl, l_1": of(oco.NoisyFTRL, LpBall(D, 1.0), LinearLoss(2.0)),
    "ftrl, squares, l_1": of(
        oco.NoisyFTRL, LpBall(D, 1.0), SquaredLoss(2.0, 1.0), statistics="quadratic"
    ),
    "ftrl, half-life": of(
        oco.NoisyFTRL, BALL, SquaredLoss(1.0, 1.0), statistics="quadratic", half_life=8.0
    ),
    "ftrl, choice": of(
        oco.NoisyFTRL, BALL, SquaredLoss(1.0, 1.0), statistics="quadratic", half_life="auto",
            batch=2
    ),
    "ftrl, running loss": of(
        oco.NoisyFTRL, BALL, SquaredLoss(1.0, 1.0), statistics="quadratic", half_life="auto",
            running_loss=True, batch=2
    ),
    "ftrl, choice, box": of(
        oco.NoisyFTRL, BOX, SquaredLoss(1.0, 1.0), statistics="quadratic", half_life="auto",
            ridge="auto", batch=2
    ),
    "ftrl, slopes": of(oco.NoisyFTRL, BALL, LogisticLoss(1.0, slope_bound=0.5)),
    "newton, simplex": of(oco.NoisyNewton, SIMPLEX, LogisticLoss(1.0, slope_bound=0.75)),
    "newton, box": of(oco.NoisyNewton, BOX, HuberLoss(1.0, 1.0), numerics="lattice"),
    "newton, half-life": of(oco.NoisyNewton, BALL, LogisticLoss(1.0), half_life=8.0),
    "newton, long half-life": of(oco.NoisyNewton, BOX, HuberLoss(1.0, 1.0), half_life=40.0),
    "newton, endless": of(oco.NoisyNewton, BALL, LogisticLoss(1.0), relation="zero_out"),
    "ftrl, custom": of(oco.NoisyFTRL, BALL, CUSTOM, stream=LOSSES),
    "ctrl, logistic": of(CTRL, BOX, LogisticLoss(1.0), budget=LARGE, coupling="density_ratio"),
    "ctrl, scheduled": of(CTRL, SIMPLEX, SquaredLoss(1.0, 1.0), budget=LARGE, coupling="scheduled"),
    "ctrl, zero out": of(CTRL, BALL, LinearLoss(1.0), budget=LARGE, relation="zero_out", block=2),
    "ctrl, quadratic": of(CTRL, BALL, QuadraticLoss(3.0, 1.0), budget=LARGE, stream=SQUARES),
    "ctrl, custom": of(CTRL, BALL, CUSTOM, budget=LARGE, stream=LOSSES),
    "comw, linear": of(COMW, BOX, LinearLoss(1.0), budget=LARGE, coupling="density_ratio"),
    "comw, dartboard": of(COMW, BOX, LogisticLoss(1.0), budget=LARGE, coupling="dartboard"),
    "comw, anchored": of(COMW, BALL, HuberLoss(1.0, 1.0), budget=LARGE, coupling="anchored"),
    "comw, scheduled": of(COMW, SIMPLEX, LinearLoss(1.0), budget=LARGE, coupling="scheduled"),
    "comw, quadratic": of(COMW, BALL, QuadraticLoss(3.0, 1.0), budget=LARGE, stream=SQUARES),
    "comw, custom": of(COMW, BALL, CUSTOM, budget=LARGE, stream=LOSSES),
    "lipschitz, plane": of(
        oco.LipschitzLearner, Box([0.0, 0.0], [1.0, 1.0]), lipschitz=1.0, resolution=4
    ),
    "lipschitz, tree": of(
        oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=2.0, resolution=5, sum_method="tree"
    ),
    "hedge, tree": of(experts.PrefixHedge, 4, sum_method="tree", loss_range=(-1.0, 1.0)),
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
    "linucb, batches": of(
        bandits.LinUCB, 3, D, batch=4, numerics="float", sum_method="tree", **BOUNDED
    ),
    "linucb, lattice": of(
        bandits.LinUCB, 3, D, batch=1, numerics="lattice", relation="zero_out", **BOUNDED
    ),
    "linucb, half-life": of(bandits.LinUCB, 3, D, batch=2, half_life=12.0, **BOUNDED),
    "linucb, free": of(bandits.LinUCB, 3, D, batch=1, budget=None, **BOUNDED),
    "phases, lattice": of(
        bandits.ResidualPhases, 3, D, numerics="lattice", relation="zero_out", reward_noise=0.3,
        **BOUNDED,
    ),
    "phases, half-life": of(bandits.ResidualPhases, 3, D, half_life=12.0, **BOUNDED),
    "phases, intercept": of(
        bandits.ResidualPhases, 3, D, numerics="float", intercept=0.25, **BOUNDED
    ),
    "phases, any law": of(bandits.ResidualPhases, 3, D, context_law="any", **BOUNDED),
    "phases, free": of(bandits.ResidualPhases, 2, D, budget=None, **BOUNDED),
    "phases, one arm": of(bandits.ResidualPhases, 1, D, parameter_bound=3.0, **BOUNDED),
    "bandit, polyhedral": of(
        HDB, 3, L1, arm_learner="polyhedral", batch=2, forced_rounds=3, gap=0.3, **BOUNDED
    ),
    "bandit, tree": of(
        HDB, 3, L1, arm_learner="tree", forced_rounds=4, sum_method="tree", **BOUNDED
    ),
    "bandit, logistic": of(
        HDB, 3, SIMPLEX, link="logistic", relation="zero_out", forced_rounds=0, context_bound=1.0
    ),
    "sum, tree": of(mechanisms.ContinualSum, D, method="tree", bound=2.0),
    "sum, normalised": of(mechanisms.ContinualSum, D, method="blt_normalised", bound=1.0),
    "tree, normalised batches": of(
        TREE, BALL, SquaredLoss(1.0, 1.0), sum_method="blt_normalised", batch=4
    ),
    "ftrl, normalised": of(
        oco.NoisyFTRL, BALL, SquaredLoss(1.0, 1.0), sum_method="blt_normalised",
            statistics="quadratic"
    ),
    "hedge, normalised": of(experts.PrefixHedge, 4, sum_method="blt_normalised"),
    "lipschitz, normalised": of(
        oco.LipschitzLearner, Box([0.0], [1.0]), lipschitz=1.0, resolution=5,
        sum_method="blt_normalised",
    ),
    "linucb, normalised": of(bandits.LinUCB, 3, D, sum_method="blt_normalised", **BOUNDED),
    "bandit, normalised": of(
        HDB, 3, L1, arm_learner="tree", sum_method="blt_normalised", **BOUNDED
    ),
    "sum, toeplitz": of(mechanisms.ContinualSum, D, method="toeplitz", norm=1.0, bound=1.0),
    "sum, generalized": of(
        mechanisms.ContinualSum, D, noise="generalized_gaussian", norm=3.0, method="tree", bound=1.0
    ),
    "sum, lattice": of(mechanisms.ContinualSum, D, numerics="lattice", bound=1.0),
    "max, gumbel": of(
        mechanisms.NoisyMax, 4, noise="gumbel", one_directional=True, sensitivity=1.0
    ),
    "max, laplace": of(mechanisms.NoisyMax, 4, noise="laplace", largest=False, sensitivity=2.0),
    "above, spread": of(
        mechanisms.AboveThreshold, spread=1.5, alarms=5, stream=np.full(25, -99.0), sensitivity=1.0
    ),
    # Without a budget, and where a budget buys nothing: then no noise is drawn.
    "polyhedral, free": of(
        POLYHEDRAL, L1, SquaredLoss(1.0, 1.0), budget=None, weights="paper", batch=4
    ),
    "polyhedral, one point": of(POLYHEDRAL, Box([0.5] * D, [0.5] * D), LogisticLoss(1.0)),
    "ftrl, squares, free": of(
        oco.NoisyFTRL, BOX, SquaredLoss(1.0, 1.0), budget=None, statistics="quadratic", batch=2
    ),
    "newton, free": of(oco.NoisyNewton, BALL, LogisticLoss(1.0), budget=None),
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
    "linucb, one arm": of(
        bandits.LinUCB, 1, D, batch=7, sum_method="tree", numerics="float", **BOUNDED
    ),
    "comw, free": of(COMW, BOX, HuberLoss(1.0, 1.0), budget=None),
    "ctrl, free": of(CTRL, BALL, SquaredLoss(1.0, 1.0), budget=None, block=4),
    "statistics, box": of(
        frank_wolfe.SufficientStatistics, Box([-0.2] * D, [0.1, 0.2, 0.3]), SquaredLoss(1.0, 1.0)
    ),
}  # fmt: skip
# Played for their releases only: the contract plays more than one net with records of one, and
# takes clipping and noise for granted.
RELEASED = {
    "lipschitz, disc", "lipschitz, free", "lipschitz, point", "lipschitz, segment",
}  # fmt: skip
