"""Simulated worlds for learners: oblivious and adaptive sequences of losses.

Worlds see only decisions and have their own random numbers. Oblivious worlds fix all losses in
advance; an adaptive world reacts to the decisions it has seen. Contextual worlds are for bandits:
they show a context in each round, which determines the means of the rewards. Classes of
distributions are for learning from locally private reports.
"""

from __future__ import annotations

from dpoco.environments._base import (
    AdversarialBlocks,
    BurnAfterPlay,
    Environment,
    Oblivious,
    ObliviousSwitching,
    Packing,
    Recorded,
    SwitchingStochastic,
)
from dpoco.environments._contextual import ContextualWorld, LinearWorld, LogisticWorld
from dpoco.environments._distributions import (
    HadamardClass,
    dirichlet_class,
    draw_labels,
    hadamard_class,
    misspecified,
    near_duplicates,
    softmax_class,
)
from dpoco.environments._play import DelayedRun, play, play_bandit, play_delayed

__all__ = ["AdversarialBlocks", "BurnAfterPlay", "ContextualWorld", "DelayedRun",
           "Environment", "HadamardClass", "LinearWorld", "LogisticWorld",
           "Oblivious", "ObliviousSwitching", "Packing", "Recorded",
           "SwitchingStochastic", "dirichlet_class", "draw_labels", "hadamard_class",
           "misspecified", "near_duplicates", "play", "play_bandit", "play_delayed",
           "softmax_class"]  # fmt: skip
