"""Replay of contextual bandits: a user's own action may depend on the own record, no earlier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco._validation import float_array
from dpoco.audit._replay_base import (
    ROUNDING,
    Change,
    Family,
    FloatArray,
    Play,
    Rounds,
    positions,
    two_parts,
)
from dpoco.audit._replay_sums import (
    grid_of,
    quadratic_statistics,
    rounded,
    rounding_of,
    spent,
)

__all__ = ["Bandits", "leaf_of_action"]


class Bandits(Family):
    """LinUCB; joint privacy: what others see is the released sums."""

    first_affected = 0

    def rounds(self, stream: Any) -> Rounds:
        learner = self.learner
        contexts, rewards = two_parts("contexts and rewards", stream)
        rows = float_array("contexts", contexts, (None, learner._dimension))
        table = float_array("rewards", rewards, (rows.shape[0], learner._arms))
        return Rounds((rows, table))

    def play(self, learner: Any, rounds: Rounds) -> Play:
        engine, p, play = learner._engine, learner.parameters, Play()
        play.variates.append(positions(learner))
        total = np.array(engine.nonprivate_sum())
        pending = np.zeros_like(total)
        grid = grid_of(learner)
        for t in range(len(rounds)):
            context, rewards = rounds.record(t)
            released = engine.released().tobytes()
            arm = learner.decide(context)
            play.published.append((int(arm), released))
            learner.observe(rewards[arm])
            leaf = leaf_of_action(learner, arm, context, rewards[arm])
            pending = pending + leaf
            ends = (t + 1) % p.batch == 0 and learner.round < learner.horizon
            if ends:
                total, pending = total + rounded(pending, grid), np.zeros_like(total)
            found = np.array(engine.nonprivate_sum())
            scale = max(float(np.abs(found).max()), p.sensitivity)
            if not np.all(np.abs(found - total) <= ROUNDING * scale + (t + 1) * grid):
                play.findings.append(
                    "what enters the sum is not a function of record and action alone"
                )
                total = found
            play.note(leaf=leaf, sum=found, arm=int(arm))
            play.variates.append(positions(learner))
            play.fresh.append(ends and learner.guarantee.private)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        p = self.learner.parameters
        # Both actions count: the user's own may be another one.
        moved = float(np.linalg.norm(base.notes["leaf"][at] - other.notes["leaf"][at]))
        yield "the sum", moved, p.sensitivity
        end = at + p.batch - at % p.batch
        if end <= len(base.notes["sum"]) and end < self.learner.horizon:
            gap = base.notes["sum"][end - 1] - other.notes["sum"][end - 1]
            if self._same_actions(base, other, at, end):
                moved = float(np.linalg.norm(gap))
                yield "the sum", moved, p.sensitivity + rounding_of(self.learner, gap.size)
                yield from spent(self.learner, moved, p.pushes)

    @staticmethod
    def _same_actions(base: Play, other: Play, at: int, end: int) -> bool:
        ours, theirs = (play.notes["arm"][at + 1 : end] for play in (base, other))
        return bool(ours == theirs)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        # Within its batch a record is released to nobody.
        end = min(at + self.learner.parameters.batch - at % self.learner.parameters.batch,
                  len(base.published))  # fmt: skip
        for t in range(at, end):
            if base.published[t][1] != other.published[t][1]:
                yield "an estimate depends on a record before it was released"
                return
            if t > at and base.published[t] != other.published[t]:
                yield "an action depends on a record of its batch"
                return


def leaf_of_action(learner: Any, arm: int, context: FloatArray, reward: float) -> FloatArray:
    """Return what a record adds to the sum: nothing if it is not finite, else clipped."""
    p = learner.parameters
    d, arms = len(context), learner._arms
    leaf: FloatArray = np.zeros((arms, d * (d + 1) // 2 + d))
    if np.all(np.isfinite(context)) and np.isfinite(reward):
        from dpoco import _core

        clipper = _core.RecordClipper(d, p.context_bound, 2.0, np.inf)
        factor = clipper.multipliers(np.ascontiguousarray(context[None, :]))[0]
        weighted = p.reward_weight * np.clip(reward, -p.reward_bound, p.reward_bound)
        leaf[arm] = quadratic_statistics(factor * context, weighted)
    return leaf.ravel()
