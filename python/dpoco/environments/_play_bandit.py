"""Bandits against contextual worlds, round by round."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dpoco._validation import positive_int
from dpoco.bandits import BanditTrace
from dpoco.environments._contextual import ContextualWorld

__all__ = ["BanditPlayer", "play_bandit"]


class BanditPlayer(Protocol):
    """Whatever plays a bandit: the learners of `dpoco.bandits`, or your own."""

    def decide(self, context: Any) -> int:
        """Return an arm for the round's context."""

    def observe(self, reward: Any) -> None:
        """End the round with the reward of that arm."""


def play_bandit(
    learner: BanditPlayer, world: ContextualWorld, *, rounds: int | None = None
) -> BanditTrace:
    """Let a learner and a contextual world play, round by round.

    Parameters
    ----------
    learner : object with ``decide(context)`` and ``observe(reward)``
        A learner of `dpoco.bandits` (whose ``run`` is faster), or your own.
    world : ContextualWorld
        Played from its current round on.
    rounds : int, optional
        Rounds to play; None is all that are left of the world, and at least one.

    Returns
    -------
    BanditTrace
        Actions and rewards; not private.

    Raises
    ------
    ValueError
        If learner and world differ in arms or dimension, or the world has too few rounds left.
    """
    left = world.horizon - world.round
    count = left if rounds is None else positive_int("rounds", rounds)
    if not 1 <= count <= left:
        raise ValueError(f"rounds must be in [1, {left}], what is left of the world; got {count}")
    for name in ("arms", "dimension"):
        if getattr(learner, name, getattr(world, name)) != getattr(world, name):
            raise ValueError(f"learner and world differ in {name}")
    first_round = int(getattr(learner, "round", 0))
    part = slice(world.round, world.round + count)
    actions = np.empty(count, dtype=np.int64)
    rewards = np.empty(count)
    for t in range(count):
        actions[t] = action = learner.decide(world.context())
        rewards[t] = reward = world.reward(action)
        learner.observe(reward)
    for array in (actions, rewards):
        array.flags.writeable = False
    return BanditTrace(actions, rewards, first_round, world.contexts[part], world.rewards[part])
