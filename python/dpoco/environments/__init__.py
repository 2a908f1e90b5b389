"""Simulated worlds for learners: oblivious and adaptive sequences of losses.

They see decisions and nothing else, and keep random numbers of their own. Oblivious worlds fix all
losses in advance; an adaptive one answers to the decisions it has seen. Contextual worlds are for
bandits: a context a round, and rewards whose means it determines. Classes of distributions are for
learning from locally private reports.
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
