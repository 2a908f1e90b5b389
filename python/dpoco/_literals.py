"""Texts that arguments may be, for type checkers and editors.

The texts that constructors accept are defined next to the formulas that they select.
``tests/state/test_learners.py`` compares the two.
"""

from __future__ import annotations

from typing import Literal

Adversary = Literal["stationary", "shifting", "oblivious", "adaptive"]
Ranking = Literal["expected", "bound"]
ArmLearner = Literal["auto", "polyhedral", "tree"]
ArmPolicy = Literal["linucb", "high_dimensional"]
Auto = Literal["auto"]
Channel = Literal["auto", "bit", "subset", "coordinate"]
ContextLaw = Literal["normal", "any"]
Coupling = Literal["auto", "density_ratio", "dartboard", "anchored", "scheduled", "maximal"]
Currency = Literal["auto", "basic", "gaussian", "renyi"]
Durability = Literal["disk", "process"]
ExpertPolicy = Literal["prefix_hedge", "batch_share", "oblivious_tracker"]
LeaderCoupling = Literal["auto", "density_ratio", "scheduled", "maximal"]
LinearLearner = Literal[
    "auto", "tree_frank_wolfe", "polyhedral_frank_wolfe", "noisy_ftrl", "noisy_newton",
    "coupled_regularized_leader",
]  # fmt: skip
Link = Literal["identity", "logistic"]
LocalLearner = Literal["posterior", "hedge"]
Norm = Literal["l2", "max"]
Numerics = Literal["auto", "float", "lattice"]
Prior = Literal["share", "at_most"]
Protect = Literal["label", "label_and_context"]
Query = Literal["auto", "bisection", "scheffe", "mean_test", "hadamard", "loss"]
Range = Literal["exact", "worst_case"]
Ranges = Literal["private"]
Reacting = Literal["oblivious", "adaptive"]
RegressionLoss = Literal["squared", "huber"]
Relation = Literal["replace", "zero_out"]
Releases = Literal["stored", "recompute"]
Sampler = Literal["auto", "exact", "mcmc", "hit_and_run", "langevin", "proximal"]
ScoreNoise = Literal["exponential", "gumbel", "laplace"]
Selection = Literal["exponential", "gumbel", "laplace"]
Selector = Literal["gumbel", "laplace"]
ShareNoise = Literal["auto", "knorm", "gaussian", "laplace"]
Stated = Literal["epsilon, delta"]
Statistics = Literal["gradient", "quadratic"]
SumMethod = Literal["auto", "banded", "blt", "blt_normalised", "toeplitz", "tree"]
SumNoise = Literal["gaussian", "generalized_gaussian"]
Transform = Literal["auto", "increments", "grid_laplacian", "parent"]
Unanswered = Literal["raise", "skip"]
Unit = Literal["record", "user"]
Variable = Literal["residual", "margin"]
View = Literal["others", "everyone", "server"]
Violation = Literal["clip", "raise"]
Weights = Literal["unbiased", "paper"]
WindowSelection = Literal["exponential", "gumbel"]
Windows = Literal["tangent", "dyadic", "naive"]
