"""Likelihoods of contextual bandits: released statistics, and releases of every arm's learner.

Privacy is joint: all actions but the own one follow from what is released, so that is what is
scored. The changed record may get another action on the other stream; given equal releases, both
actions are known.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.audit._likelihood_base import Scorer, Scores, log_odds, spread
from dpoco.audit._likelihood_selections import choices_of, selection_law
from dpoco.audit._likelihood_sums import PlainSums, SumRun, noise_map, sum_noise, whitening_of
from dpoco.audit._replay_arms import admitted_record, arm_view
from dpoco.audit._replay_bandits import leaf_of_action
from dpoco.random import Source

__all__ = ["ArmReleases", "ReleasedStatistics"]

FloatArray = NDArray[np.float64]


def actions_of(learner: Any, contexts: list[FloatArray], forced: bool) -> tuple[list[int], bool]:
    """Return the actions for contexts, given all that was released; begins the round of the first.

    And whether the round's action is the one that the estimates recommend. `forced` says that the
    schedule decides, whatever the context.
    """
    advised = [int(arm) for arm in learner.recommend(np.array(contexts))]
    arm = int(learner.decide(contexts[0]))
    heeded = forced or arm == advised[0]
    return [arm, *(arm if forced else other for other in advised[1:])], heeded


class ReleasedStatistics(PlainSums):
    """LinUCB: the noisy statistics of all arms, and the estimates that follow from them."""

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        from dpoco.accounting._bandits.linucb_regret import confidence_of

        super().__init__(learner, stream, neighbour)
        p = learner.parameters
        self._shift = p.regularization + confidence_of(p.setting).margin

    def _count(self, rounds: int) -> int:
        p = self.learner.parameters
        return int(min(rounds // p.batch, p.pushes, (self.learner.horizon - 1) // p.batch))

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        p, engine = learner.parameters, learner._engine
        run = SumRun(np.empty((self._pushes, len(engine.nonprivate_sum()))))
        sums: tuple[list[FloatArray], list[FloatArray]] = ([], [])
        pending = [np.zeros(run.released.shape[1]) for _ in (0, 1)]
        for t in range(self._pushes * p.batch):
            records = [self.streams[w].record(t) for w in (world, 1 - world)]
            arms, heeded = actions_of(learner, [context for context, _ in records], forced=False)
            if not heeded:
                run.findings.append("an action is not the one that is recommended")
            for w, arm, (context, rewards) in zip((world, 1 - world), arms, records, strict=True):
                leaf = leaf_of_action(learner, arm, context, rewards[arm])
                pending[w] = pending[w] + leaf
            learner.observe(records[0][1][arms[0]])
            if (t + 1) % p.batch:
                continue
            run.released[t // p.batch] = engine.released()
            for w in (0, 1):
                sums[w].append(pending[w])
                pending[w] = np.zeros_like(pending[w])
            if not self._solves(learner, run.released[t // p.batch]):
                run.findings.append("estimates do not follow from the released statistics")
        run.leaves = [np.array(each) for each in sums]
        return run

    def _solves(self, learner: Any, released: FloatArray) -> bool:
        """Whether every arm's estimate solves its released equations."""
        p, d, arms = learner.parameters, learner._dimension, learner._arms
        own = released.reshape(arms, -1)
        upper, count = np.triu_indices(d), d * (d + 1) // 2
        matrices = np.zeros((arms, d, d))
        matrices[:, upper[0], upper[1]] = own[:, :count]
        matrices[:, ~np.eye(d, dtype=bool)] *= np.sqrt(0.5)  # of the packed norm
        matrices = matrices + np.triu(matrices, 1).transpose(0, 2, 1)
        shifts = np.full(arms, self._shift)
        least = np.linalg.eigvalsh(matrices)[:, 0]
        while np.any(least + shifts <= 1e-12 * shifts):  # doubled until it can be solved
            shifts = np.where(least + shifts <= 1e-12 * shifts, 2.0 * shifts, shifts)
        solved = np.linalg.solve(
            matrices + shifts[:, None, None] * np.eye(d), own[:, count:, None] / p.reward_weight
        )[:, :, 0]
        size = 1.0 + np.abs(solved).max()
        return bool(np.abs(learner.coefficients - solved).max() <= 1e-6 * size)


@dataclass
class _ArmsRun:
    """Releases of all arms' learners: choices of vertices, or sums."""

    loss: float = 0.0
    choices: list[tuple[FloatArray, int]] = field(default_factory=list)
    residuals: list[FloatArray] = field(default_factory=list)
    stray: bool = False


class ArmReleases(Scorer):
    """HighDimensionalBandit: the vertices that polyhedral arms select, or the sums of tree arms."""

    def __init__(self, learner: Any, stream: Any, neighbour: Any) -> None:
        super().__init__(learner, stream, neighbour)
        p = learner.parameters
        self._tree = p.arm_learner == "tree"
        if self._tree and getattr(p.arm, "noise", "gaussian") != "gaussian":
            raise ValueError("no density is known of sums with generalized Gaussian noise")
        self._forced = min(p.arms * p.forced_rounds, p.horizon)
        ends = [self._clock(arm, len(self.streams[0])) // p.batch for arm in range(p.arms)]
        if not any(ends):
            raise ValueError("stream must be long enough for a release")
        self._ends = ends
        if self._tree:
            self._whitening = [
                whitening_of(noise_map(p.arm.sum_method, n, p.arm.pushes))
                if n
                else np.zeros((0, 0))
                for n in ends
            ]
        else:
            self._choices = choices_of(learner.domain)

    def _clock(self, arm: int, rounds: int) -> int:
        """Return how many of the first rounds an arm's clock counts."""
        p = self.learner.parameters
        own = min(max(rounds - arm * p.forced_rounds, 0), p.forced_rounds)
        return int(own + max(rounds - self._forced, 0))

    def run(self, learner: Any, world: int, tape: Source) -> Any:
        p, engine = learner.parameters, learner._engine
        shape = (p.arms, learner._dimension)
        noise = self._noise(learner, tape) if self._tree else []
        run, sums = _ArmsRun(), [np.zeros(shape), np.zeros(shape)]
        paths: tuple[list[list[FloatArray]], ...] = tuple([[] for _ in range(p.arms)] for _ in "ab")
        clocks = [0] * p.arms
        for t in range(len(self.streams[0])):
            records = [self.streams[w].record(t) for w in (world, 1 - world)]
            forced = t < self._forced
            arms, heeded = actions_of(learner, [context for context, _ in records], forced)
            run.stray = run.stray or not heeded
            for w, arm, (context, rewards) in zip((world, 1 - world), arms, records, strict=True):
                record = admitted_record(learner, context, rewards[arm])
                if record is not None:
                    sums[w][arm] += engine.leaf(arm, *record)
            before = np.array(learner.coefficients)
            learner.observe(records[0][1][arms[0]])
            after = np.array(learner.coefficients)
            for arm in [arms[0]] if forced else range(p.arms):
                clocks[arm] += 1
                k, part = divmod(clocks[arm], p.batch)
                if part:
                    continue
                own = [each[arm].copy() for each in sums]
                step = before[arm], after[arm]
                if self._tree:
                    for path, total in zip(paths, own, strict=True):
                        path[arm].append(total)
                    released = engine.nonprivate_sums().reshape(shape)[arm] + noise[arm][k - 1]
                    run.stray = run.stray or not self._leads(learner, k, step, released)
                    # What is left of the release is the noise: scored when the run is over.
                    paths[world][arm][-1] = released - own[world]
                    paths[1 - world][arm][-1] = released - own[1 - world]
                else:
                    self._select(run, k, step, own, world)
        if self._tree:
            self._whiten(run, paths, world)
        return run

    def _select(
        self,
        run: _ArmsRun,
        k: int,
        step: tuple[FloatArray, FloatArray],
        sums: list[FloatArray],
        world: int,
    ) -> None:
        """Score the vertex that update k of an arm moved to."""
        own = self.learner.parameters.arm
        before, after = step
        vertex = before + (after - before) * (k + 1)
        rate = 1.0 / (own.batch * (k + (own.weights == "paper")) * own.noise_scale_at(k))
        noise = "gumbel" if own.selector == "gumbel" else "laplace"
        for entries, table in self._choices:
            gap = np.abs(table - vertex[entries]).sum(axis=1)
            chosen = int(np.argmin(gap))
            run.stray = run.stray or bool(gap[chosen] > 1e-6 * (1.0 + np.abs(table).max()))
            laws = [selection_law(noise, -(table @ each[entries]) * rate, 1.0) for each in sums]
            run.stray = run.stray or not laws[world][chosen] > 0.0
            run.loss += log_odds(laws[world][chosen], laws[1 - world][chosen])
            run.choices.append((laws[world], chosen))

    def _noise(self, learner: Any, tape: Source) -> list[FloatArray]:
        claim = tape._claim()
        message = b"dpoco arms of a bandit" + claim["key"] + claim["stream"].to_bytes(8, "little")
        key, d = hashlib.sha256(message).digest(), learner._dimension
        return [
            sum_noise(arm_view(learner), d, n, {"key": key, "stream": arm})
            for arm, n in enumerate(self._ends)
        ]

    def _leads(
        self, learner: Any, k: int, step: tuple[FloatArray, FloatArray], released: FloatArray
    ) -> bool:
        """Whether the estimate after update k moves to the vertex that the released sum prefers."""
        from dpoco.accounting.continual_sum import release_grid

        own = learner.parameters.arm
        before, after = step
        eta = own.step_scale / (k + own.step_scale)
        vertex = before + (after - before) / eta
        best = learner.domain.minimize_linear(np.ascontiguousarray(released))
        size = float(np.abs(vertex - best).sum())
        slack = 4 * release_grid(own.noise_scale) + 1e-9 * float(np.abs(released).max())
        return bool(released @ (vertex - best) <= slack * (size + 1e-9))

    def _whiten(self, run: _ArmsRun, paths: Any, world: int) -> None:
        scale = self.learner.parameters.arm.noise_scale
        for arm, matrix in enumerate(self._whitening):
            if not len(matrix):
                continue
            own, other = (matrix @ np.array(paths[w][arm]) / scale for w in (world, 1 - world))
            run.loss += float(0.5 * ((other - own) * (other + own)).sum())
            run.residuals.append(own)

    def score(self, runs: list[Any], world: int) -> Scores:
        losses = np.array([run.loss for run in runs])
        stray = any(run.stray for run in runs)
        findings = ("estimates do not follow from releases of the declared law",) if stray else ()
        if self._tree:
            from scipy.special import ndtr

            residuals = np.array([np.concatenate(run.residuals) for run in runs])
            return Scores(losses, ndtr(residuals), findings)
        count, steps = len(runs), len(runs[0].choices)
        jitter = Source.seeded(world).uniform(count * steps).reshape(count, steps)
        columns = [
            spread(
                np.array([run.choices[k][0] for run in runs]),
                np.array([run.choices[k][1] for run in runs]),
                jitter[:, k],
            )
            for k in range(steps)
        ]
        return Scores(losses, np.stack(columns, axis=1), findings)
