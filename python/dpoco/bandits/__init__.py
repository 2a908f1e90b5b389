"""Private contextual bandits: for each context the learner chooses an arm, and sees its reward.

The guarantee is joint differential privacy: what all other users see together reveals almost
nothing about one user's context and rewards. A user's own action may, and must, depend on this
user's context.
"""

from __future__ import annotations

from dpoco.bandits._bandit import BanditTrace
from dpoco.bandits._learners import HighDimensionalBandit, LinUCB
from dpoco.bandits._residual_phases import ResidualPhases

__all__ = ["BanditTrace", "HighDimensionalBandit", "LinUCB",
           "ResidualPhases"]  # fmt: skip
