"""NOT PRIVATE: a simulation of the selection behind Figure 5.1.

The published bandit adds Laplace noise to the sizes of a gradient's entries, selects the largest,
and then moves along that coordinate in the direction that the *unperturbed* gradient tells: one
bit of raw data a round, which no amount of noise in the selection hides. So the noise can be
multiplied by any factor and the learner still learns, which is how `figure_5_1` shows that its
curve says nothing about privacy. It also lacks what a proof of joint privacy needs: zero updates of
the arms that are not chosen, and a clock of each arm's own.

Nothing here promises anything and nothing of the library uses it.
"""

from __future__ import annotations

import math

import numpy as np

from dpoco.environments import ContextualWorld
from dpoco.reproduce._shared import FloatArray

__all__ = ["not_private_regrets"]


def not_private_regrets(
    worlds: list[ContextualWorld],
    *,
    epsilon: float,
    factor: float,
    shared: bool,
    leak: bool,
    generator: np.random.Generator,
) -> FloatArray:
    """Return the regret of every round under the published selection. NOT PRIVATE.

    Parameters
    ----------
    worlds : list of ContextualWorld
        Of the same size; all are played at once.
    epsilon : float
        What the published noise is meant for, with delta = 1/T.
    factor : float
        Multiplies the published noise.
    shared : bool
        One running gradient for all arms, or one for each.
    leak : bool
        Whether the direction of a step is the unperturbed gradient's. False perturbs it along
        with the size: still not the published claim, but then noise is noise.
    generator : Generator
        NumPy's: these draws protect nobody.

    Returns
    -------
    ndarray of shape (worlds, T)
    """
    first = worlds[0]
    count, arms, d, horizon = len(worlds), first.arms, first.dimension, first.horizon
    contexts = np.stack([world.contexts for world in worlds], axis=1)
    rewards = np.stack([world.rewards for world in worlds], axis=1)
    means = np.stack([world.means for world in worlds], axis=1)
    warm_up = math.floor(math.log(d * horizon) * math.log(horizon) / epsilon**2)
    # The published scale on unit steps, without the factor D (beta D + L) that it needs.
    unit = 4.0 * math.sqrt(math.log(horizon) * math.log(horizon)) / epsilon
    row = np.arange(count)
    theta = np.zeros((count, arms, d))
    before = theta.copy()
    gradient = np.zeros((count, 1 if shared else arms, d))
    regret = np.empty((horizon, count))
    for t in range(horizon):
        x = contexts[t]
        if t < arms * warm_up:
            arm, clock = np.full(count, t // warm_up), t % warm_up + 1
        else:
            arm, clock = np.argmax(np.einsum("wkd,wd->wk", theta, x), axis=1), t + 1
        regret[t] = means[t].max(axis=1) - means[t, row, arm]
        slot = np.zeros(count, dtype=np.int64) if shared else arm
        own = theta[row, arm]
        residual = np.einsum("wd,wd->w", own, x) - rewards[t, row, arm]
        earlier = np.einsum("wd,wd->w", before[row, arm], x) - rewards[t, row, arm]
        kept = 1.0 - 1.0 / (clock + 1.0)
        now = residual[:, None] * x + kept * (gradient[row, slot] - earlier[:, None] * x)
        gradient[row, slot] = now
        noise = generator.laplace(0.0, 1.0, (count, d)) * (factor * unit / math.sqrt(clock))
        size = np.abs(now) + noise if leak else np.abs(now + noise)
        chosen = np.argmax(size, axis=1)
        direction = now if leak else now + noise
        moved = own * (1.0 - 1.0 / (clock + 1.0))
        moved[row, chosen] -= np.sign(direction[row, chosen]) / (clock + 1.0)
        before[row, arm], theta[row, arm] = own, moved
    return regret.T
