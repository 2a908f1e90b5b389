"""Replay of the high-dimensional bandit: every arm has a learner, a clock and a sum of its own."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
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
from dpoco.audit._replay_sums import add, grid_of, rounded, rounding_of, spent

__all__ = ["Arms", "admitted_record", "arm_view"]


def admitted_record(learner: Any, context: FloatArray, reward: float) -> tuple[Any, float] | None:
    """Return a record as the arms read it: clipped; None if it counts as no data."""
    if not (np.all(np.isfinite(context)) and np.isfinite(reward)):
        return None
    bound = learner.parameters.context_bound
    largest = float(np.abs(context).max(initial=0.0))
    own = context if largest <= bound else (context / largest) * bound
    low, high = learner._reward_range()
    return np.ascontiguousarray(np.clip(own, -bound, bound)), float(np.clip(reward, low, high))


def arm_view(learner: Any) -> Any:
    """Return what looks like the learner of one arm: its parameters, the whole's guarantee."""
    return SimpleNamespace(
        parameters=learner.parameters.arm,
        guarantee=learner.guarantee,
        _mechanism=learner._mechanism.parts[0],
    )


class Arms(Family):
    """HighDimensionalBandit; joint privacy: what others see are the estimates of all arms."""

    first_affected = 0

    def rounds(self, stream: Any) -> Rounds:
        learner = self.learner
        contexts, rewards = two_parts("contexts and rewards", stream)
        rows = float_array("contexts", contexts, (None, learner._dimension))
        return Rounds((rows, float_array("rewards", rewards, (rows.shape[0], learner._arms))))

    @property
    def relation(self) -> str:
        """Which streams are neighbours: "replace" or "zero_out"."""
        return str(self.learner.parameters.arm.relation)

    def play(self, learner: Any, rounds: Rounds) -> Play:
        engine, p, play = learner._engine, learner.parameters, Play()
        shape = (p.arms, learner._dimension)
        play.variates.append(positions(learner))
        play.note(clocks=engine.clocks())
        total = np.array(engine.nonprivate_sums()).reshape(shape)
        rest, pending = np.zeros(shape), np.zeros(shape)
        grid = grid_of(arm_view(learner))
        for t in range(len(rounds)):
            context, rewards = rounds.record(t)
            estimates = engine.coefficients().tobytes()
            arm = learner.decide(context)
            play.published.append((int(arm), estimates))
            leaf = np.zeros(shape)
            record = admitted_record(learner, context, rewards[arm])
            if record is not None:
                leaf[arm] = engine.leaf(int(arm), *record)
            learner.observe(rewards[arm])
            pending = pending + leaf
            before, now = play.notes["clocks"][-1], engine.clocks()
            ended = [k for k in range(p.arms) if now[k] > before[k] and now[k] % p.batch == 0]
            for k in ended:
                total[k], rest[k] = add(rounded(pending[k], grid), total[k], rest[k])
                pending[k] = 0.0
            found = np.array(engine.nonprivate_sums()).reshape(shape)
            scale = max(float(np.abs(found).max()), p.arm.sensitivity)
            if not np.all(np.abs(found - total) <= ROUNDING * scale + (t + 1) * grid):
                play.findings.append(
                    "what enters an arm's sum is not a function of its records and estimates alone"
                )
                total, rest = found.copy(), np.zeros(shape)
            play.note(leaf=leaf, sum=found, clocks=now)
            play.variates.append(positions(learner))
            play.fresh.append(bool(ended) and learner.guarantee.private)
        return play

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        yield from self._sizes(base, other, at, base.notes["leaf"], other.notes["leaf"], at, 0.0)
        # As it was added, after all later records of the batch were.
        released = self._released(base, other, at)
        if self.learner.parameters.batch > 1 and released is not None:
            view = arm_view(self.learner)
            rest = rounding_of(view, self.learner._dimension)
            sums = base.notes["sum"], other.notes["sum"]
            yield from self._sizes(base, other, at, *sums, released, rest)

    def _sizes(
        self, base: Play, other: Play, at: int, ours: Any, theirs: Any, when: int, rest: float
    ) -> Iterator[Change]:
        own = self.learner.parameters.arm
        gap = ours[when] - theirs[when]
        arms = {base.published[at][0], other.published[at][0]}
        tree = self.learner.parameters.arm_learner == "tree"
        sizes = np.linalg.norm(gap, axis=1) if tree else np.abs(gap).max(axis=1)
        if len(arms) == 1:
            yield "the sum of one arm", float(sizes.max()), own.sensitivity + rest
        else:
            # One arm loses the record and another gets one: half of a replacement each.
            single = own.sensitivity * (0.5 if own.relation == "replace" else 1.0)
            yield "the sums of two arms, each", float(sizes.max()), single + rest
        untouched = [k for k in range(len(sizes)) if k not in arms]
        if untouched:
            # What two batches add up to differs by roundings alone.
            most = float(sizes[untouched].max())
            yield "the sums of other arms", most, ROUNDING * own.sensitivity + rest
        if tree:
            yield from spent(arm_view(self.learner), float(np.linalg.norm(gap)), own.pushes)

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        if base.notes["clocks"] != other.notes["clocks"]:
            yield "an arm's clock depends on a record"
        released = self._released(base, other, at)
        end = len(base.published) if released is None else released + 1
        for t in range(at, end):
            if base.published[t][1] != other.published[t][1]:
                yield "an estimate depends on a record before it was released"
                return
        # Whoever knows the estimates knows all actions but the own one.
        for t in range(at + 1, len(base.published)):
            if base.published[t][1] != other.published[t][1]:
                return
            if base.published[t][0] != other.published[t][0]:
                yield "an action depends on the record of another round"
                return

    def _released(self, base: Play, other: Play, at: int) -> int | None:
        """Return the first round after whose end the changed record is in a release, if any."""
        batch, clocks = self.learner.parameters.batch, base.notes["clocks"]
        ends = []
        for arm in {base.published[at][0], other.published[at][0]}:
            due = (clocks[at][arm] // batch + 1) * batch
            ends += [t for t in range(at, len(base.published)) if clocks[t + 1][arm] >= due][:1]
        return min(ends, default=None)
