"""Learners of every family, and records for them."""

from __future__ import annotations

import numpy as np

import dpoco
from dpoco.domains import Box, LpBall
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss, QuadraticLoss, SquaredLoss
from dpoco.random import Source

T, D, N, K = 40, 3, 4, 3
BUDGET = dpoco.Budget(2.0, 1e-5)
LARGE = dpoco.Budget.from_dict({"epsilon": 20.0, "delta": 0.1})  # without a warning


class Distance:
    """Half the squared distance, as a custom loss."""

    def __init__(self, centre):
        self.centre = np.asarray(centre)

    def value(self, theta):
        return 0.5 * float(np.sum((theta - self.centre) ** 2))

    def gradient(self, theta):
        return theta - self.centre

    def hessian(self, theta):
        return np.eye(len(theta))


def glm(rng):
    return rng.uniform(-0.5, 0.5, D), float(rng.uniform(-1, 1))


def label(rng):
    return rng.uniform(-0.5, 0.5, D), float(rng.integers(2))


def gradient(rng):
    return (rng.uniform(-0.5, 0.5, D),)


def custom(rng):
    return (Distance(rng.uniform(-0.5, 0.5, D)),)


def matrix(rng):
    a = rng.uniform(-0.4, 0.4, (D, D))
    return a @ a.T, rng.uniform(-0.4, 0.4, D)


def expert(rng):
    return (rng.random(N),)


def net(rng):
    return (np.cumsum(rng.uniform(-0.05, 0.05, 9)),)


def of(module, name, *problem, **options):
    """Return a maker of learners that calibrates once."""
    known = {}

    def make(seed=1, **more):
        given = {"horizon": T, "budget": BUDGET, "source": Source.seeded(seed), **options, **more}
        kept = {} if more else known
        learner = getattr(getattr(dpoco, module), name)(*problem, **kept, **given)
        if not more:
            known["plan"] = learner.plan
        return learner

    return make


BALL, CORNERS = LpBall(D, 2.0), LpBall(D, 1.0)
CUSTOM = CustomLoss(lipschitz=2.0, smoothness=1.0)
LEARNERS = {
    "tree": (of("frank_wolfe", "TreeFrankWolfe", BALL, SquaredLoss(1.0, 1.0)), glm),
    "tree, batches": (
        of("frank_wolfe", "TreeFrankWolfe", BALL, SquaredLoss(1.0, 1.0), batch=3), glm
    ),
    "tree, custom": (of("frank_wolfe", "TreeFrankWolfe", BALL, CUSTOM), custom),
    "polyhedral": (of("frank_wolfe", "PolyhedralFrankWolfe", CORNERS, LogisticLoss(1.0)), label),
    "polyhedral, custom": (of("frank_wolfe", "PolyhedralFrankWolfe", CORNERS, CUSTOM), custom),
    "ftrl": (of("oco", "NoisyFTRL", BALL, LinearLoss(1.0)), gradient),
    "ftrl, squares": (
        of("oco", "NoisyFTRL", BALL, SquaredLoss(1.0, 1.0, feature_bound_l2=1.0)), glm
    ),
    "newton": (of("oco", "NoisyNewton", BALL, LogisticLoss(1.0)), label),
    "windows": (of("experts", "WindowSelector", N, budget=dpoco.Budget(2.0, 0.0)), expert),
    "ctrl": (of("oco", "CoupledRegularizedLeader", BALL, LogisticLoss(1.0), budget=LARGE), label),
    "ctrl, quadratic": (
        of("oco", "CoupledRegularizedLeader", BALL, QuadraticLoss(3.0, 1.0), budget=LARGE),
        matrix,
    ),
    "comw": (
        of(
            "oco", "ContinuousMultiplicativeWeights", Box([-1.0] * D, [1.0] * D), LinearLoss(1.0),
            budget=LARGE,
        ),
        gradient,
    ),
    "lipschitz": (
        of("oco", "LipschitzLearner", Box([-1.0], [1.0]), lipschitz=1.0, resolution=9),
        net,
    ),
    "hedge": (of("experts", "PrefixHedge", N), expert),
    "epochs": (of("experts", "EpochSelector", N, budget=dpoco.Budget(2.0, 0.0)), expert),
    "detector": (of("experts", "ShiftDetector", N, budget=dpoco.Budget(2.0, 0.0)), expert),
    "tracker": (of("experts", "ObliviousTracker", N, switches=2), expert),
    "share": (of("experts", "BatchShare", N, switches=2), expert),
}  # fmt: skip
BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}
BANDITS = {
    # In doubles, so that sums can be compared digit by digit: the lattice rounds every record.
    "linucb": of("bandits", "LinUCB", K, D, numerics="float", **BOUNDED),
    "linucb, batches": of("bandits", "LinUCB", K, D, batch=4, numerics="float", **BOUNDED),
    "linucb, exact": of("bandits", "LinUCB", K, D, batch=1, budget=None, **BOUNDED),
    "linucb, lattice": of("bandits", "LinUCB", K, D, numerics="lattice", **BOUNDED),
    "phases": of("bandits", "ResidualPhases", K, D, numerics="float", **BOUNDED),
    "phases, lattice": of("bandits", "ResidualPhases", K, D, numerics="lattice", **BOUNDED),
    "polyhedral": of("bandits", "HighDimensionalBandit", K, CORNERS, forced_rounds=4, **BOUNDED),
    "tree": of(
        "bandits", "HighDimensionalBandit", K, CORNERS, forced_rounds=3,
        arm_learner="tree", gap=0.1, **BOUNDED,
    ),
    "all forced": of(
        "bandits", "HighDimensionalBandit", K, CORNERS, forced_rounds=15, batch=1, **BOUNDED,
    ),
    "free": of(
        "bandits", "HighDimensionalBandit", K, CORNERS, forced_rounds=0, batch=1, **BOUNDED
    ),
}  # fmt: skip


def records(kind, seed=0, rounds=T):
    rng = np.random.default_rng(seed)
    return [kind(rng) for _ in range(rounds)]


def world(seed=0, rounds=T):
    """Contexts and rewards of all arms."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-1.0, 1.0, (rounds, D)), rng.uniform(-1.0, 1.0, (rounds, K))


def schedule(seed, tickets=T, share_lost=0.0):
    """A random schedule: ("issue", n), ("arrive", n) and ("expire", n) in a possible order."""
    rng = np.random.default_rng(seed)
    at = np.arange(tickets) + 0.1 + rng.exponential(6.0, tickets) * rng.integers(2, size=tickets)
    events = [(float(n), "issue", n) for n in range(tickets)]
    lost = rng.random(tickets) < share_lost
    events += [(at[n], "expire" if lost[n] else "arrive", n) for n in range(tickets)]
    return [(name, n) for _, name, n in sorted(events)]
