"""Players without privacy, in a few lines of NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest


class FollowTheLeader:
    """Plays the expert that lost least so far; the lowest index of several."""

    def __init__(self, experts):
        self.totals = np.zeros(experts)

    def decide(self):
        return int(self.totals.argmin())

    def observe(self, losses):
        self.totals += losses


class ExponentialWeights(FollowTheLeader):
    """Draws a new expert each round, with weights exp(-rate * total loss)."""

    def __init__(self, experts, rate, seed):
        super().__init__(experts)
        self.rate, self.generator = rate, np.random.default_rng(seed)

    def decide(self):
        weights = np.cumsum(np.exp(-self.rate * (self.totals - self.totals.min())))
        return int(np.searchsorted(weights, self.generator.random() * weights[-1], side="right"))


class Uniform:
    """Ignores the losses."""

    def __init__(self, experts, seed):
        self.experts, self.generator = experts, np.random.default_rng(seed)

    def decide(self):
        return int(self.generator.integers(self.experts))

    def observe(self, losses):
        pass


@pytest.fixture(scope="session")
def players():
    return SimpleNamespace(
        FollowTheLeader=FollowTheLeader, ExponentialWeights=ExponentialWeights, Uniform=Uniform
    )
