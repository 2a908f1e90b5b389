"""Learners against worlds, round by round."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dpoco.environments._base import Environment, Oblivious
from dpoco.experts import ExpertTrace

__all__ = ["ExpertsPlayer", "play"]


class ExpertsPlayer(Protocol):
    """Whatever plays experts: the learners of `dpoco.experts`, or your own."""

    def decide(self) -> int:
        """Return this round's expert, in 0..N-1."""

    def observe(self, losses: Any) -> None:
        """End the round with the losses of all experts, shape (N,)."""


def play(
    learner: ExpertsPlayer, environment: Environment, *, rounds: int | None = None
) -> ExpertTrace:
    """Let a learner and a world play.

    In each round the world's losses are computed, the learner decides, the world is told the
    decision and nothing else, and the learner the losses.

    Parameters
    ----------
    learner : object with ``decide()`` and ``observe(losses)``
        A learner of `dpoco.experts`, or your own.
    environment : Environment
        Played from its current round on.
    rounds : int, optional
        Rounds to play; None is all that are left of the world, and at least one.

    Returns
    -------
    ExpertTrace
        Losses and decisions; not private. Holds the losses of all experts: T N doubles.

    Raises
    ------
    ValueError
        If learner and world differ in the number of experts, or the world has too few rounds left.
    """
    left = environment.horizon - environment.round
    count = left if rounds is None else rounds
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
        raise TypeError(f"rounds must be an int; got {type(count).__name__}")
    if not 1 <= count <= left:
        raise ValueError(f"rounds must be in [1, {left}], what is left of the world; got {count}")
    experts = getattr(learner, "experts", environment.experts)
    if experts != environment.experts:
        raise ValueError(f"the learner has {experts} experts, the world {environment.experts}")
    first_round = int(getattr(learner, "round", 0))
    start = environment.round
    known = environment.matrix()[start:] if isinstance(environment, Oblivious) else None
    rows = np.empty((count, environment.experts)) if known is None else known[:count]
    decisions = np.empty(count, dtype=np.int64)
    for t in range(count):
        losses = environment.losses()
        if known is None:
            rows[t] = losses
        decisions[t] = decision = learner.decide()
        environment.observe(decision)
        learner.observe(losses)
    own = rows[np.arange(count), decisions]
    return ExpertTrace.of(rows, own, decisions, first_round, (0.0, 1.0))
