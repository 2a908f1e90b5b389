"""Simulated worlds for learners: oblivious and adaptive sequences of losses.

Environments only see decisions and have their own random numbers. Oblivious ones fix all losses in
advance; your own class derived from `Environment` may react to earlier decisions. Contextual
environments are for bandits: they show a context in each round, which determines the means of the
rewards. `simulate_local` plays servers of `dpoco.local` and their devices.
"""

from __future__ import annotations

from dpoco.environments._base import Environment, Oblivious, SwitchingStochastic
from dpoco.environments._contextual import ContextualWorld, LinearWorld
from dpoco.environments._drifting import DriftingRegression
from dpoco.environments._local import LocalTrace, simulate_local
from dpoco.environments._play import DelayedRun, play, play_bandit, play_delayed

__all__ = ["ContextualWorld", "DelayedRun", "DriftingRegression", "Environment", "LinearWorld",
           "LocalTrace", "Oblivious", "SwitchingStochastic", "play", "play_bandit", "play_delayed",
           "simulate_local"]  # fmt: skip
