"""Contextual bandits: LinUCB in NumPy, without and with tree noise, next to `dpoco.bandits`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from bandit_cases import LinUCB as PlainLinUCB
from numpy.typing import NDArray
from side_convex import normals, tree_noise
from side_measure import BUDGETS, PRIVATE, SEEDS, Action, Calibrated, Case, Contender, Regrets

import dpoco
from dpoco.accounting import continual_sum, gaussian
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.neighbours import Neighbours

FloatArray = NDArray[np.float64]

REWARD_NOISE = 0.1
FAILURE = 0.01
PLAIN, TREE = "LinUCB, NumPy", "DP-LinUCB, tree noise, NumPy"


class Worlds:
    """A world per seed, and the bounds that everybody knows."""

    def __init__(self, arms: int, d: int, rounds: int, **options: Any) -> None:
        kind = dpoco.environments.LinearWorld
        self.worlds = [
            kind(arms, d, rounds, reward_noise=REWARD_NOISE, seed=seed, **options)
            for seed in range(SEEDS)
        ]
        self.arms, self.dimension, self.rounds = arms, d, rounds
        self.cube = bool(np.isinf(options.get("norm", 2.0)))
        self.context_bound = math.sqrt(d) if self.cube else 1.0
        self.reward_bound = self.worlds[0].reward_bound

    def regret(self, actions: NDArray[np.int64], seed: int) -> float:
        means = self.worlds[seed].means
        own = means[np.arange(self.rounds), actions]
        return float((means.max(axis=1) - own).mean())

    def uniform(self) -> Regrets:
        rows = [float((w.means.max(axis=1) - w.means.mean(axis=1)).mean()) for w in self.worlds]
        return {"no privacy": np.array(rows)}


def play(
    bench: Worlds, seeds: list[int], budgets: list[dpoco.Budget | None], exploration: float = 1.0
) -> NDArray[np.int64]:
    """Actions (T, runs) of LinUCB with disjoint arms, after Shariff and Sheffet (2018).

    Every round the statistics (x x', r x) of all arms enter a private binary tree, zeros for the
    arms not played. The Gram matrices are shifted by twice a bound on the norm of their noise, and
    the confidence width is the published one for that shift. Without a budget: plain LinUCB, ridge
    1. Vectorised over runs; the noise is calibrated by `dpoco.accounting`, which needs less of it
    than the published constants.
    """
    k, d, rounds, runs = bench.arms, bench.dimension, bench.rounds, len(seeds)
    contexts = np.stack([bench.worlds[s].contexts for s in seeds], axis=1)
    rewards = np.stack([bench.worlds[s].rewards for s in seeds], axis=1)
    bound = bench.context_bound
    scale, shift, extra, ratio = np.zeros(runs), np.ones(runs), np.zeros(runs), np.ones(runs)
    nodes = rounds.bit_length()
    for i, budget in enumerate(budgets):
        if budget is None:
            continue
        mu = gaussian.gaussian_mu(budget.epsilon, budget.delta)
        weight = math.sqrt(2.0)
        moments = SecondMoments(1, 2.0, bound, math.inf, float(bench.reward_bound), weight)
        moved = moments.movement(Neighbours())
        scale[i] = continual_sum.noise_sigma("tree", rounds, moved, mu)
        # The noise of a prefix is that of at most `nodes` nodes, off the diagonal over sqrt(2).
        spread = scale[i] * math.sqrt(nodes / 2.0)
        tail = math.log(2 * k * rounds / FAILURE)
        norm = spread * (2.0 * math.sqrt(d) + 2.0 * math.sqrt(tail))
        shift[i], ratio[i] = 2.0 * norm, 3.0
        # The noise of the sum of r x, in the norm of the inverse of what has eigenvalues >= norm.
        extra[i] = spread * (math.sqrt(d) + math.sqrt(2.0 * tail)) / math.sqrt(norm)
    private = bool(scale.any())
    low = np.where(scale > 0.0, shift / 2.0, shift)  # least and largest eigenvalue without data
    high = low * ratio
    base = np.sqrt(high) + extra  # coefficients have norm at most 1
    grams = np.zeros((runs, k, d, d)) + shift[:, None, None, None] * np.eye(d)
    sums = np.zeros((runs, k, d))
    weight = np.full((d, d), math.sqrt(0.5)) + (1.0 - math.sqrt(0.5)) * np.eye(d)
    shape = runs, k, d * (d + 1) // 2 + d
    noises = tree_noise(normals(1, rounds, shape), shape) if private else None
    upper = np.triu_indices(d)
    full = np.zeros((runs, k, d, d))
    noisy_grams, noisy_sums = grams, sums
    inverse = np.linalg.inv(grams)
    chosen = np.empty((rounds, runs), dtype=np.int64)
    index = np.arange(runs)
    for t in range(rounds):
        x = contexts[t]
        if private:
            inverse = np.linalg.inv(noisy_grams)
        turned = np.einsum("rkij,rj->rki", inverse, x)
        width = REWARD_NOISE * np.sqrt(
            2.0 * math.log(2.0 * k / FAILURE) + d * np.log(ratio + t * bound**2 / (d * low))
        )
        square = np.maximum(np.einsum("rki,ri->rk", turned, x), 0.0)
        scores = np.einsum("rki,rki->rk", turned, noisy_sums)
        scores += exploration * (width + base)[:, None] * np.sqrt(square)
        arms = scores.argmax(axis=1)
        chosen[t] = arms
        reward = rewards[t, index, arms]
        grams[index, arms] += x[:, :, None] * x[:, None, :]
        sums[index, arms] += reward[:, None] * x
        if noises is not None:
            noise = next(noises) * scale[:, None, None]
            full[:, :, upper[0], upper[1]] = noise[:, :, d:]
            full[:, :, upper[1], upper[0]] = noise[:, :, d:]
            noisy_grams = grams + full * weight
            noisy_sums = sums + noise[:, :, :d] * math.sqrt(0.5)
        else:
            own = turned[index, arms]
            factor = 1.0 + np.einsum("ri,ri->r", own, x)
            inverse[index, arms] -= own[:, :, None] * own[:, None, :] / factor[:, None, None]
    return chosen


def numpy_line(
    bench: Worlds, name: str, columns: tuple[str, ...], exploration: float = 1.0
) -> Contender:
    private = columns == PRIVATE

    def regrets() -> Regrets:
        seeds = list(range(SEEDS)) * len(columns)
        budgets = [BUDGETS[column] for column in columns for _ in range(SEEDS)]
        chosen = play(bench, seeds, budgets, exploration)
        found = np.array([bench.regret(chosen[:, i], seed) for i, seed in enumerate(seeds)])
        return dict(zip(columns, found.reshape(len(columns), SEEDS), strict=True))

    def prepare() -> Action:
        if private:
            return partial(play, bench, [0], [BUDGETS[columns[0]]])
        world = bench.worlds[0]  # the loop for one run: faster than the one for many
        return partial(PlainLinUCB(bench.arms, bench.dimension).run, world.contexts, world.rewards)

    kind = "simple" if private else "non-private"
    return Contender(name, kind, regrets, prepare if exploration == 1.0 else None)


def our_line(bench: Worlds, name: str, **options: Any) -> Contender:
    common: dict[str, Any] = {"horizon": bench.rounds, "reward_bound": bench.reward_bound}
    if name.startswith("LinUCB"):
        common |= {"context_bound": bench.context_bound, "reward_noise": REWARD_NOISE}
        kind = partial(
            dpoco.bandits.LinUCB, bench.arms, bench.dimension, context_bound=1.0, reward_bound=1.0
        )
    else:
        ball = dpoco.domains.LpBall(bench.dimension, p=1.0, radius=1.0)
        kind = partial(
            dpoco.bandits.HighDimensionalBandit,
            bench.arms,
            ball,
            context_bound=1.0,
            reward_bound=1.0,
        )
    build = Calibrated(partial(kind, **common, **options))

    def regrets() -> Regrets:
        return {
            column: np.array(
                [
                    bench.regret(build(column, seed).run(w.contexts, w.rewards).actions, seed)
                    for seed, w in enumerate(bench.worlds)
                ]
            )
            for column in BUDGETS
        }

    def prepare() -> Action:
        w = bench.worlds[0]
        return partial(build(PRIVATE[0], 0).run, w.contexts, w.rewards)

    return Contender(name, "ours", regrets, prepare)


def case(key: str, what: str, arms: int, d: int, rounds: int, **options: Any) -> Case:
    bench = Worlds(arms, d, rounds, **options)
    lines = [
        Contender("uniform play", "non-private", bench.uniform),
        numpy_line(bench, PLAIN, ("no privacy",)),
        numpy_line(bench, TREE, PRIVATE),
        numpy_line(bench, f"{TREE}, exploration 0.1", PRIVATE, 0.1),
        our_line(bench, "LinUCB, exploration 1", exploration=1.0),
        our_line(bench, "LinUCB"),
    ]
    if bench.cube:
        lines.append(our_line(bench, "HighDimensionalBandit"))
    title = f"{what}, T = {rounds:,}, K = {arms}, d = {d}"
    return Case(key, title, rounds, TREE, lines)


CASES: dict[str, Callable[[], Case]] = {
    "sphere": partial(case, "sphere", "contexts on the sphere", 2, 10, 20_000),
    "cube": partial(
        case, "cube", "contexts in a cube, sparse arms", 2, 20, 20_000, norm=np.inf, sparsity=5
    ),
}
