"""Expert advice: Hedge and its simple private forms next to the learners of `experts`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from expert_cases import TreeHedge, numba_hedge
from numpy.typing import NDArray
from side_measure import BUDGETS, PRIVATE, SEEDS, Action, Calibrated, Case, Contender, Regrets

import dpoco
from dpoco.accounting import continual_sum, gaussian, noisy_max, prefix_hedge
from dpoco.evaluation import best_switching_sequence

FloatArray = NDArray[np.float64]
Player = Callable[[FloatArray, "dpoco.Budget | None", int], FloatArray]

SWITCHES = 5
TREE = "tree Hedge, NumPy"
# Factors on the learning rate: "best step" is the best of them, chosen in hindsight for free.
FACTORS = (1.0, 0.3, 3.0, 10.0, 30.0)


class Game:
    """Losses of shape (T, N) per seed, or one table for all, and the best sequence of each."""

    def __init__(self, tables: list[FloatArray], switches: int) -> None:
        self.tables, self.switches = tables, switches
        self.rounds, self.experts = tables[0].shape
        self._best = [best_switching_sequence(table, switches).total_loss for table in tables]

    def table(self, seed: int) -> FloatArray:
        return self.tables[seed % len(self.tables)]

    def regret(self, own: FloatArray, seed: int) -> float:
        return (float(own.sum()) - self._best[seed % len(self.tables)]) / self.rounds


def draw(weights: FloatArray, generator: np.random.Generator) -> NDArray[np.int64]:
    """One index a row, with probabilities proportional to its weights."""
    bounds = np.cumsum(weights, axis=1)
    u = generator.random(len(weights)) * bounds[:, -1]
    indices: NDArray[np.int64] = (bounds < u[:, None]).sum(axis=1)
    return indices


def earlier_sums(losses: FloatArray) -> FloatArray:
    """Sums of the losses before each round."""
    sums = np.cumsum(losses, axis=0)
    sums -= losses
    return sums


def blind(losses: FloatArray, budget: dpoco.Budget | None, seed: int) -> FloatArray:
    rounds, n = losses.shape
    return losses[np.arange(rounds), np.random.default_rng(seed).integers(n, size=rounds)]


def hedge(losses: FloatArray, budget: dpoco.Budget | None, seed: int) -> FloatArray:
    """Hedge with the step that is optimal for its bound; all rounds at once."""
    rounds, n = losses.shape
    sums = earlier_sums(losses)
    sums -= sums.min(axis=1, keepdims=True)
    sums *= -math.sqrt(8.0 * math.log(n) / rounds)
    indices = draw(np.exp(sums, out=sums), np.random.default_rng(seed))
    return losses[np.arange(rounds), indices]


def fixed_share(losses: FloatArray, budget: dpoco.Budget | None, seed: int) -> FloatArray:
    """Herbster and Warmuth's tracker, for the number of switches it is told."""
    rounds, n = losses.shape
    bits = (SWITCHES + 1) * math.log(n) + SWITCHES * math.log(rounds / SWITCHES)
    factors = np.exp(-math.sqrt(8.0 * bits / rounds) * losses)
    share = SWITCHES / rounds
    weights = np.full((rounds, n), 1.0 / n)
    for now, after, factor in zip(weights[:-1], weights[1:], factors, strict=False):
        np.multiply(now, factor, after)
        after *= (1.0 - share) / after.sum()
        after += share / n
    indices = draw(weights, np.random.default_rng(seed))
    return losses[np.arange(rounds), indices]


def noisy_maximum(losses: FloatArray, budget: dpoco.Budget | None, seed: int) -> FloatArray:
    """Report noisy max of all losses so far, every round; the T - 1 reports are composed."""
    rounds = len(losses)
    assert budget is not None
    # A record moves N sums by [-1, 1] each: a range of 2, in Gumbel noise of this scale.
    scale = 2.0 / noisy_max.selection_budget(budget, "gumbel", rounds - 1)
    noise = np.random.default_rng(seed).gumbel(scale=scale, size=losses.shape)
    noise -= earlier_sums(losses)
    return losses[np.arange(rounds), noise.argmax(axis=1)]


class Tree:
    """Hedge on sums from a binary tree, with the learning rate of `PrefixHedge`."""

    def __init__(self, game: Game) -> None:
        self._game = game

    def law(self, column: str) -> tuple[float, float]:
        """Scale of a node, and the learning rate."""
        n, rounds, budget = self._game.experts, self._game.rounds, BUDGETS[column]
        assert budget is not None
        mu = gaussian.gaussian_mu(budget.epsilon, budget.delta)
        scale = continual_sum.noise_sigma("tree", rounds, math.sqrt(n), mu)  # rows in [0, 1]^n
        p = prefix_hedge.calibrate(n, horizon=rounds, budget=budget)
        return scale, p.tuning.learning_rate

    def _play(self, column: str, factor: float) -> FloatArray:
        game = self._game
        scale, eta = self.law(column)
        own = [
            TreeHedge(game.experts, scale=scale, eta=factor * eta, seed=seed).run(game.table(seed))
            for seed in range(SEEDS)
        ]
        return np.array([game.regret(losses, seed) for seed, (losses, _) in enumerate(own)])

    def proven(self) -> Regrets:
        return {column: self._play(column, 1.0) for column in PRIVATE}

    def hindsight(self) -> Regrets:
        out = {}
        for column in PRIVATE:
            rows = [self._play(column, factor) for factor in FACTORS]
            out[column] = min(rows, key=lambda row: float(row.mean()))
        return out

    def prepare(self) -> Action:
        scale, eta = self.law(PRIVATE[0])
        table = self._game.table(0)
        return partial(TreeHedge(self._game.experts, scale=scale, eta=eta).run, table)

    def prepare_numba(self) -> Action:
        scale, eta = self.law(PRIVATE[0])
        table = self._game.table(0)
        build = partial(
            numba_hedge.Hedge, self._game.experts, scale=scale, eta=eta, noise="generator"
        )
        build().run(table[:10])  # compiles
        return partial(build().run, table)

    def lines(self) -> list[Contender]:
        lines = [
            Contender(TREE, "simple", self.proven, self.prepare),
            Contender(f"{TREE}, best step", "simple", self.hindsight),
        ]
        if numba_hedge is not None:
            lines.append(Contender("tree Hedge, Numba", "simple", dict, self.prepare_numba))
        return lines


def line(game: Game, name: str, kind: str, player: Player, columns: tuple[str, ...]) -> Contender:
    def regrets() -> Regrets:
        return {
            column: np.array(
                [
                    game.regret(player(game.table(seed), BUDGETS[column], seed), seed)
                    for seed in range(SEEDS)
                ]
            )
            for column in columns
        }

    def prepare() -> Action:
        return partial(player, game.table(0), BUDGETS[columns[0]], 0)

    return Contender(name, kind, regrets, prepare)


def our_line(game: Game, kind: Any, **options: Any) -> Contender:
    build = Calibrated(partial(kind, game.experts, horizon=game.rounds, **options))

    def regrets() -> Regrets:
        return {
            column: np.array(
                [
                    game.regret(build(column, seed).run(game.table(seed)).losses, seed)
                    for seed in range(SEEDS)
                ]
            )
            for column in BUDGETS
        }

    def prepare() -> Action:
        return partial(build(PRIVATE[0], 0).run, game.table(0))

    return Contender(kind.__name__, "ours", regrets, prepare)


def contenders(game: Game) -> list[Contender]:
    experts = dpoco.experts
    free = ("no privacy",)
    lines = [
        line(game, "blind play", "non-private", blind, free),
        line(game, "Hedge, NumPy", "non-private", hedge, free),
        line(game, "fixed share, NumPy", "non-private", fixed_share, free),
        line(game, "noisy max every round, composed", "simple", noisy_maximum, PRIVATE),
        *Tree(game).lines(),
        our_line(game, experts.PrefixHedge),
        our_line(game, experts.EpochSelector),
        our_line(game, experts.ObliviousTracker, switches=game.switches),
        our_line(game, experts.ShiftDetector, expected_shifts=max(game.switches, 1)),
    ]
    if game.switches:
        lines.append(our_line(game, experts.WindowSelector, expected_shifts=game.switches))
    return lines


def case(key: str, what: str, tables: list[FloatArray], switches: int) -> Case:
    rounds, n = tables[0].shape
    title = f"{what}, T = {rounds:,}, N = {n}"
    return Case(key, title, rounds, TREE, contenders(Game(tables, switches)))


def world(switches: int, rounds: int = 20_000, n: int = 10) -> list[FloatArray]:
    kind = dpoco.environments.SwitchingStochastic
    return [kind(n, rounds, switches=switches, gap=0.4, seed=s).matrix() for s in range(SEEDS)]


CASES: dict[str, Callable[[], Case]] = {
    "stocks": lambda: case("stocks", "ten stocks", [dpoco.datasets.stock_losses()], 0),
    "pollsters": lambda: case("pollsters", "five pollsters", [dpoco.datasets.pollster_losses()], 0),
    "stationary": lambda: case("stationary", "one good expert", world(0), 0),
    "switching": lambda: case(
        "switching", f"the good expert changes {SWITCHES} times", world(SWITCHES), SWITCHES
    ),
}
