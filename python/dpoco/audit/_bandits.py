"""Contextual bandits: statistics of all arms in one sum, or a learner and a clock of every arm."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpoco._validation import FloatArray
from dpoco.audit._family import Change, Play, Scores
from dpoco.audit._sum_noise import (
    Push,
    Pushes,
    ReleasedSums,
    Run,
    VertexChoices,
    pick_actions,
    score_choices,
    sum_noise,
)
from dpoco.audit._sums import ROUNDING, Sums, clip_vector, quadratic_statistics
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.mechanisms.residuals import ResidualStatistics
from dpoco.random import Source


class Statistics(Sums):
    """Statistics of all arms in one sum; joint privacy: what others see is the released sums."""

    joint = True
    astray = "what enters the sum is not a function of record and action alone"

    def publication(self, learner: Any, decision: Any) -> Any:
        return decision, learner._engine.released().tobytes()

    def leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        (context, rewards), summand = record, self.mechanism.summand
        if not np.all(np.isfinite(context)) or not np.isfinite(rewards[decision]):
            return np.zeros(summand.size)
        own = clip_vector(context, learner._context_bound(), 2.0, None)
        reward = float(np.clip(rewards[decision], *learner._reward_range()))
        if isinstance(summand, ResidualStatistics):
            return residual_statistics(learner, summand, decision, own, reward)
        leaf: FloatArray = np.zeros((summand.arms, summand.size // summand.arms))
        leaf[decision] = quadratic_statistics(own, summand.weight * reward)
        return leaf.ravel()

    def find_complete(self, learner: Any, t: int, play: Play) -> Any:
        return super().find_complete(learner, t, play) if learner.round < learner.horizon else []

    def find_rounds_apart(self, base: Play, other: Play, at: int) -> Iterator[int]:
        for t in super().find_rounds_apart(base, other, at):
            ours, theirs = ([arm for arm, _ in x.published[at + 1 : t + 1]] for x in (base, other))
            if t + 1 < self.learner.horizon and ours == theirs:
                yield t

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        # Within its batch a record is released to no one.
        rounds = len(base.published)
        end = next((end for end in self.ends(rounds) if end > at), rounds)
        for t in range(at, end):
            if base.published[t][1] != other.published[t][1]:
                yield "an estimate depends on a record before it was released"
                return
            if t not in self.person_rounds and base.published[t] != other.published[t]:
                yield "an action depends on a record of its batch"
                return


def residual_statistics(
    learner: Any, summand: ResidualStatistics, arm: int, context: FloatArray, reward: float
) -> FloatArray:
    """Return what a bounded record adds to sums of residuals, by definition: `clip` is released."""
    units = context / summand.features
    residual = (reward - learner.coefficients[arm] @ context) / learner.clip
    vectors, bins = np.zeros((summand.arms, len(units))), np.zeros(summand.bins)
    vectors[arm] = np.clip(residual, -1.0, 1.0) * units
    edges = 2.0 ** (0.5 * np.arange(summand.bins - 1) - 3.0)
    bins[np.count_nonzero(abs(residual) > edges)] = summand.mark
    moments = summand.weight * quadratic_statistics(units, 0.0)[: math.comb(len(units) + 1, 2)]
    if summand.mean is None:
        return np.concatenate([vectors.ravel(), moments, bins])
    own = np.zeros((summand.arms, len(moments)))
    own[arm] = moments
    return np.concatenate([vectors.ravel(), own.ravel(), summand.mean * units, bins])


class Arms(Statistics):
    """HighDimensionalBandit; joint privacy: what others see are the estimates of all arms."""

    needs = ("clocks", "leaf", "nonprivate_sums", "variates_drawn")
    several = False
    astray = "what enters an arm's sum is not a function of its records and estimates alone"

    @property
    def mechanism(self) -> Any:
        return super().mechanism.parts[0]

    def publication(self, learner: Any, decision: Any) -> Any:
        return decision, learner._engine.coefficients().tobytes()

    def leaf(self, learner: Any, decision: Any, record: tuple[Any, ...]) -> FloatArray:
        leaf: FloatArray = np.zeros((learner.arms, learner.dimension))
        context, reward = record[0], record[1][decision]
        if np.all(np.isfinite(context)) and np.isfinite(reward):
            bound = learner._context_bound()
            largest = float(np.abs(context).max(initial=0.0))
            own = context if largest <= bound else (context / largest) * bound
            row = np.ascontiguousarray(np.clip(own, -bound, bound))
            leaf[decision] = learner._engine.leaf(
                decision, row, float(np.clip(reward, *learner._reward_range()))
            )
        return leaf

    def exact(self, learner: Any) -> FloatArray:
        return np.array(learner._engine.nonprivate_sums()).reshape(learner.arms, -1)

    def start(self, learner: Any, play: Play) -> None:
        super().start(learner, play)
        play.note(clocks=learner._engine.clocks())

    def find_complete(self, learner: Any, t: int, play: Play) -> Any:
        before, now = play.notes["clocks"][-1], learner._engine.clocks()
        play.note(clocks=now)
        return [k for k in range(len(now)) if now[k] > before[k] and now[k] % self.batch == 0]

    def changes(self, base: Play, other: Play, at: int) -> Iterator[Change]:
        yield from self._sizes(base, other, at, "leaf", at, 0.0)
        # As it was added, after all later records of the batch were.
        released = self._find_release(base, other, at)
        if self.batch > 1 and released is not None:
            rounding = math.sqrt(self.learner.dimension) * self.grid
            yield from self._sizes(base, other, at, "sum", released, rounding)

    def _sizes(
        self, base: Play, other: Play, at: int, name: str, when: int, rest: float
    ) -> Iterator[Change]:
        gap, moved = base.notes[name][when] - other.notes[name][when], self.sensitivity
        arms = {base.published[at][0], other.published[at][0]}
        tree = isinstance(self.mechanism, GaussianSum)
        sizes = np.linalg.norm(gap, axis=1) if tree else np.abs(gap).max(axis=1)
        if len(arms) == 1:
            yield "the sum of one arm", float(sizes.max()), moved + rest
        else:
            # One arm loses the record and another gets one: half of a replacement each.
            single = moved * (0.5 if self.relation == "replace" else 1.0)
            yield "the sums of two arms, each", float(sizes.max()), single + rest
        untouched = [k for k in range(len(sizes)) if k not in arms]
        if untouched:
            # What two batches add up to differs by roundings alone.
            most = float(sizes[untouched].max())
            yield "the sums of other arms", most, ROUNDING * moved + rest
        if tree:
            yield from self.spend_mu(float(np.linalg.norm(gap)))

    def compare(self, base: Play, other: Play, at: int) -> Iterator[str]:
        if base.notes["clocks"] != other.notes["clocks"]:
            yield "an arm's clock depends on a record"
        released = self._find_release(base, other, at)
        end = len(base.published) if released is None else released + 1
        for t in range(at, end):
            if base.published[t][1] != other.published[t][1]:
                yield "an estimate depends on a record before it was released"
                return
        # An observer of the estimates knows all actions but the one of the changed round.
        for t in range(at + 1, len(base.published)):
            if base.published[t][1] != other.published[t][1]:
                return
            if base.published[t][0] != other.published[t][0]:
                yield "an action depends on the record of another round"
                return

    def _find_release(self, base: Play, other: Play, at: int) -> int | None:
        """Return the first round after whose end the changed record is in a release, if any."""
        clocks, ends = base.notes["clocks"], []
        for arm in {base.published[at][0], other.published[at][0]}:
            due = (clocks[at][arm] // self.batch + 1) * self.batch
            ends += [t for t in range(at, len(base.published)) if clocks[t + 1][arm] >= due][:1]
        return min(ends, default=None)


class ArmReleases(ReleasedSums):
    """HighDimensionalBandit: the vertices that polyhedral arms select, or the sums of tree arms."""

    family: Arms
    astray = "estimates do not follow from releases of the declared law"

    def __init__(self, family: Arms, stream: Any, neighbour: Any) -> None:
        learner = family.learner
        self._tree = isinstance(family.mechanism, GaussianSum)
        self._forced = min(learner.arms * learner._mechanism.forced, learner.horizon)
        if self._tree:
            super().__init__(family, stream, neighbour)
        else:
            Pushes.__init__(self, family, stream, neighbour)
            self._vertices = VertexChoices(family.mechanism, learner.domain)

    def _releases(self) -> dict[Any, int]:
        each, rounds = self.learner._mechanism.forced, len(self.streams[0])
        own = (min(max(rounds - k * each, 0), each) for k in range(self.learner.arms))
        later = max(rounds - self._forced, 0)  # in which all clocks count
        batch = self.family.batch
        return {arm: (forced + later) // batch for arm, forced in enumerate(own)}

    def _decisions(self, learner: Any, records: list[tuple[Any, ...]], run: Run) -> list[Any]:
        return pick_actions(learner, records, run, self._forced)

    def _show(self, learner: Any) -> FloatArray:
        return np.array(learner.coefficients)

    def _due(self, t: int, decision: Any, run: Run) -> list[tuple[Any, int]]:
        due, batch = [], self.family.batch
        for arm in [decision] if t < self._forced else range(self.learner.arms):
            run.clocks[arm] += 1
            if run.clocks[arm] % batch == 0:
                due.append((arm, run.clocks[arm] // batch))
        return due

    def _noise(self, learner: Any, tape: Source) -> Any:
        if not self._tree:
            return None
        claim = tape._claim()
        message = b"dpoco arms of a bandit" + claim["key"] + claim["stream"].to_bytes(8, "little")
        key, d = hashlib.sha256(message).digest(), learner.dimension
        return [
            sum_noise(self.family, d, n, {"key": key, "stream": arm})
            for arm, n in self._counts.items()
        ]

    def _release(self, learner: Any, run: Run, push: Push, noise: Any) -> bool:
        if self._tree:
            return super()._release(learner, run, push, noise)
        return self._vertices.note(run, push)

    def _read_release(self, learner: Any, push: Push, noise: Any) -> FloatArray:
        released: FloatArray = self.family.exact(learner)[push.part]
        drawn: FloatArray = noise[push.part][push.number - 1]
        return released + drawn

    def _follows(self, learner: Any, push: Push, released: FloatArray) -> bool:
        return self._moves_to_best(push, learner.plan.tuning.arm.step_scale, released)

    def score(self, runs: list[Any], world: int) -> Scores:
        return super().score(runs, world) if self._tree else score_choices(runs, world, self.astray)
