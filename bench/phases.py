"""Regret of ResidualPhases and of LinUCB, where the former is at home and where it is not.

Usage: python bench/phases.py [--write] [--seeds N]

With --write the tables of docs/residual_phases.md are written again. About three minutes of one
core with five seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from compare import THREADS
from numpy.typing import NDArray
from pages import replace_table

FloatArray = NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "residual_phases.md"
ROUNDS = 100_000


class World(NamedTuple):
    """Contexts, mean and actual rewards of all arms, and what is public of them."""

    contexts: FloatArray
    means: FloatArray
    rewards: FloatArray
    bound: float  # on rewards
    noise: float  # on how far they are from their means


def directions(rng: np.random.Generator, rows: int, d: int) -> FloatArray:
    found = rng.normal(size=(rows, d))
    return np.asarray(found / np.linalg.norm(found, axis=1)[:, None])


def clip(contexts: FloatArray) -> FloatArray:
    """Contexts within the unit ball."""
    return np.asarray(contexts * np.minimum(1.0, 1.0 / np.linalg.norm(contexts, axis=1))[:, None])


def of_means(rng: np.random.Generator, contexts: FloatArray, means: FloatArray) -> World:
    noise = rng.uniform(-0.1, 0.1, means.shape)
    return World(contexts, means, means + noise, 1.1, 0.1)


def sphere(arms: int, d: int, seed: int, rounds: int = ROUNDS) -> World:
    rng = np.random.default_rng(seed)
    contexts = directions(rng, rounds, d)
    return of_means(rng, contexts, contexts @ directions(rng, arms, d).T)


def anisotropic(arms: int, d: int, seed: int) -> World:
    """Normal contexts with a spectrum from 1 to .1."""
    rng = np.random.default_rng(seed)
    spread = np.geomspace(1.0, 0.1, d)
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    rows = rng.normal(size=(ROUNDS, d)) * spread * (0.7 / np.linalg.norm(spread))
    contexts = clip(rows @ turn.T)
    return of_means(rng, contexts, contexts @ directions(rng, arms, d).T)


def clicks(arms: int, d: int, level: float, seed: int) -> World:
    """Rewards of 0 and 1 whose chances are linear in the context, which has a constant entry."""
    rng = np.random.default_rng(seed)
    constant = 0.6
    contexts = np.full((ROUNDS, d), constant)
    contexts[:, :-1] = 0.8 * directions(rng, ROUNDS, d - 1)
    theta = np.full((arms, d), level / constant)
    theta[:, :-1] = 0.9 * min(level, 1.0 - level) / 0.8 * directions(rng, arms, d - 1)
    means = contexts @ theta.T
    rewards = (rng.random(means.shape) < means).astype(float)
    return World(contexts, means, rewards, 1.0, 1.0)


def logistic_clicks(arms: int, d: int, low: float, seed: int) -> World:
    """Rewards of `low` and `low` + 1; the chance of the higher is logistic, without a constant."""
    rng = np.random.default_rng(seed)
    contexts = directions(rng, ROUNDS, d)
    chances = 1.0 / (1.0 + np.exp(-4.0 * contexts @ directions(rng, arms, d).T))
    rewards = (rng.random(chances.shape) < chances).astype(float) + low
    return World(contexts, chances + low, rewards, 1.0 + low, 1.0 + low)


def offsets(arms: int, d: int, seed: int) -> World:
    """A constant entry of .866 on which the arms differ most."""
    rng = np.random.default_rng(seed)
    contexts = np.full((ROUNDS, d), 0.866)
    contexts[:, :-1] = 0.5 * directions(rng, ROUNDS, d - 1)
    return of_means(rng, contexts, contexts @ directions(rng, arms, d).T)


def one_hot(arms: int, d: int, seed: int) -> World:
    """One of d categories of uneven frequency."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, d + 1)
    contexts = np.eye(d)[rng.choice(d, ROUNDS, p=weights / weights.sum())]
    return of_means(rng, contexts, contexts @ directions(rng, arms, d).T)


def one_hot_clicks(arms: int, d: int, seed: int) -> World:
    """The same with rewards of 0 and 1."""
    contexts = one_hot(1, d, seed).contexts
    rng = np.random.default_rng([seed, 1])
    means = contexts @ rng.uniform(0.05, 0.45, (arms, d)).T
    return World(contexts, means, (rng.random(means.shape) < means).astype(float), 1.0, 1.0)


def mixture(arms: int, categories: int, d: int, seed: int) -> World:
    """A category, one-hot and of uneven frequency, and entries whose mean depends on it."""
    rng = np.random.default_rng(seed)
    weights, free = 1.0 / np.arange(1, categories + 1), d - categories
    own = rng.choice(categories, ROUNDS, p=weights / weights.sum())
    contexts = np.zeros((ROUNDS, d))
    contexts[np.arange(ROUNDS), own] = 0.7
    centres = 0.3 * rng.normal(size=(categories, free)) / np.sqrt(free)
    contexts[:, categories:] = centres[own]
    contexts[:, categories:] += 0.5 * rng.normal(size=(ROUNDS, free)) / np.sqrt(free)
    contexts = clip(contexts)
    return of_means(rng, contexts, contexts @ directions(rng, arms, d).T)


def two_categories(arms: int, sizes: tuple[int, int], seed: int) -> World:
    """Two features of categories, each one-hot and of uneven frequency."""
    rng = np.random.default_rng(seed)
    shares = [1.0 / np.arange(1, n + 1) for n in sizes]
    rows = [np.eye(len(p))[rng.choice(len(p), ROUNDS, p=p / p.sum())] for p in shares]
    contexts = np.hstack(rows) / np.sqrt(2.0)
    return of_means(rng, contexts, contexts @ directions(rng, arms, sum(sizes)).T)


def binary(arms: int, d: int, seed: int) -> World:
    """Features of 0 and 1, independent, with shares from .05 to .6."""
    rng = np.random.default_rng(seed)
    present = rng.random((ROUNDS, d)) < rng.uniform(0.05, 0.6, d)
    contexts = present / np.sqrt(d)
    return of_means(rng, contexts, contexts @ directions(rng, arms, d).T)


def reversed_arms(arms: int, d: int, seed: int) -> World:
    """All coefficients change their sign at half of the horizon."""
    world = sphere(arms, d, seed)
    sign = np.where(np.arange(ROUNDS) < ROUNDS // 2, 1.0, -1.0)[:, None]
    moved = world.rewards - world.means
    return world._replace(means=sign * world.means, rewards=sign * world.means + moved)


def labels(name: str, seed: int) -> World:
    """A classification as a two-armed bandit: 1 for the right label. Shuffled but for seed 0."""
    import dpoco

    stream = dpoco.datasets.load(name)
    features, label = np.asarray(stream.features), np.asarray(stream.labels).astype(int)
    order = np.random.default_rng(seed).permutation(len(label)) if seed else np.arange(len(label))
    rewards = np.eye(2)[label[order]]
    return World(clip(features[order]), rewards, rewards, 1.0, 1.0)


HOME: dict[str, tuple[Callable[[int], World], dict[str, Any]]] = {
    "sphere, K = 5, d = 10": (partial(sphere, 5, 10), {}),
    "... with a half-life": (partial(sphere, 5, 10), {"half_life": 0.3 * ROUNDS}),
    "... T = 1e4": (partial(sphere, 5, 10, rounds=10_000), {}),
    "sphere, 2, 10": (partial(sphere, 2, 10), {}),
    "sphere, 10, 20": (partial(sphere, 10, 20), {}),
    "spectrum from 1 to .1, 5, 10": (partial(anisotropic, 5, 10), {}),
    "0/1 rewards of mean .25, 3, 6": (partial(clicks, 3, 6, 0.25), {"intercept": 0.6}),
    "0/1 rewards of mean .5, 3, 6": (partial(clicks, 3, 6, 0.5), {"intercept": 0.6}),
    "0/1 rewards, logistic, 3, 6": (partial(logistic_clicks, 3, 6, 0.0), {}),
    "... given as -1/2 and 1/2": (partial(logistic_clicks, 3, 6, -0.5), {}),
    "0/1 rewards, logistic, 5, 10": (partial(logistic_clicks, 5, 10, 0.0), {}),
    "... given as -1/2 and 1/2, 5, 10": (partial(logistic_clicks, 5, 10, -0.5), {}),
    "arms with offsets, 5, 10": (partial(offsets, 5, 10), {"intercept": 0.866}),
    "5 categories and 5 others, 5, 10": (partial(mixture, 5, 5, 10), {"one_hot": 5}),
    "10 categories, 5, 10": (partial(one_hot, 5, 10), {"one_hot": 10}),
}
AWAY: dict[str, tuple[Callable[[int], World], dict[str, Any]]] = {
    "arms with offsets, constant not told": (partial(offsets, 5, 10), {}),
    "the same of 10 categories": (partial(one_hot, 5, 10), {}),
    "0/1 rewards, 8 categories (told), 4, 8": (partial(one_hot_clicks, 4, 8), {"one_hot": 8}),
    "two features of 5 categories, 5, 10": (partial(two_categories, 5, (5, 5)), {}),
    "10 features of 0 and 1, 5, 10": (partial(binary, 5, 10), {}),
    "arms reversed at T/2, 5, 10": (partial(reversed_arms, 5, 10), {}),
    "... with a half-life": (partial(reversed_arms, 5, 10), {"half_life": 0.3 * ROUNDS}),
    "`parameter_bound` 0.5, truth 1": (partial(sphere, 5, 10), {"parameter_bound": 0.5}),
    "shuttle, T = 49,097": (partial(labels, "shuttle"), {}),
    "phishing, T = 1,250": (partial(labels, "phishing"), {}),
}


# Whose worlds differ so widely that there are three times as many.
WIDE = (
    "10 categories, 5, 10",
    "the same of 10 categories",
    "0/1 rewards, 8 categories (told), 4, 8",
)


def regrets(world: World, seed: int, options: dict[str, Any]) -> tuple[float, ...]:
    """Regret of LinUCB, and of ResidualPhases: noise unknown, told; nothing told, any law."""
    import dpoco

    rounds, arms = world.means.shape
    terms = {
        "horizon": rounds, "budget": dpoco.Budget(1.0, 0.1 / rounds), "context_bound": 1.0,
        "reward_bound": world.bound,
    }  # fmt: skip
    best = world.means.max(axis=1)

    def play(kind: Any, **own: Any) -> float:
        learner = kind(
            arms, world.contexts.shape[1], source=dpoco.random.Source.seeded(seed), **terms, **own
        )
        actions = learner.run(world.contexts, world.rewards).actions
        return float((best - world.means[np.arange(rounds), actions]).sum())

    untold = {x: options[x] for x in ("parameter_bound", "half_life") if x in options}
    own = dict(untold)
    if "half_life" in own:  # LinUCB's is that at which a record counts half, about a third here
        own["half_life"] /= 3.0
    return (
        play(dpoco.bandits.LinUCB, reward_noise=world.noise, **own),
        play(dpoco.bandits.ResidualPhases, **options),
        play(dpoco.bandits.ResidualPhases, reward_noise=world.noise, **options),
        play(dpoco.bandits.ResidualPhases, context_law="any", **untold),
    )


def table(worlds: dict[str, tuple[Callable[[int], World], dict[str, Any]]], seeds: int) -> str:
    rows = [
        "| world | uniform play | `LinUCB` | noise unknown | noise told | any law |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for title, (make, options) in worlds.items():
        found, blind = [], []
        for seed in range(seeds * (3 if title in WIDE else 1)):
            world = make(seed)
            blind.append(float((world.means.max(axis=1) - world.means.mean(axis=1)).sum()))
            found.append(regrets(world, seed, options))
        cells = [
            f"{np.median(own):,.0f} [{min(own):,.0f}, {max(own):,.0f}]"
            for own in zip(*found, strict=True)
        ]
        rows.append(f"| {title} | {np.median(blind):,.0f} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help="replace the tables of the page")
    parser.add_argument("--seeds", type=int, default=5, help="worlds of a kind")
    options = parser.parse_args(arguments)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    warnings.simplefilter("ignore")
    text = PAGE.read_text()
    for key, worlds in (("home", HOME), ("away", AWAY)):
        text = replace_table(text, key, table(worlds, options.seeds))
    if options.write:
        PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
