"""Worlds that learners are played against: oblivious and adaptive sequences of losses.

They see decisions and nothing else, and keep random numbers of their own. Oblivious worlds fix all
losses in advance; an adaptive one answers to the decisions it has seen. Contextual worlds are for
bandits: a context a round, and rewards whose means it determines. Classes of distributions are for
learning from locally private reports.
"""

from __future__ import annotations

from dpoco.environments._adaptive import BurnAfterPlay
from dpoco.environments._base import Environment, Oblivious
from dpoco.environments._contextual import (
    ContextualWorld,
    LinearWorld,
    LogisticWorld,
)
from dpoco.environments._distributions import (
    dirichlet_class,
    draw_labels,
    misspecified,
    near_duplicates,
    softmax_class,
)
from dpoco.environments._hadamard import HadamardClass, hadamard_class
from dpoco.environments._packing import Packing
from dpoco.environments._play import play
from dpoco.environments._play_bandit import play_bandit
from dpoco.environments._play_delayed import DelayedRun, play_delayed
from dpoco.environments._recorded import Recorded
from dpoco.environments._switching import (
    AdversarialBlocks,
    ObliviousSwitching,
    SwitchingStochastic,
)

__all__ = [
    "AdversarialBlocks",
    "BurnAfterPlay",
    "ContextualWorld",
    "DelayedRun",
    "Environment",
    "HadamardClass",
    "LinearWorld",
    "LogisticWorld",
    "Oblivious",
    "ObliviousSwitching",
    "Packing",
    "Recorded",
    "SwitchingStochastic",
    "dirichlet_class",
    "draw_labels",
    "hadamard_class",
    "misspecified",
    "near_duplicates",
    "play",
    "play_bandit",
    "play_delayed",
    "softmax_class",
]
