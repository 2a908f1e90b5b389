"""Regret against a truth that moves: without forgetting, with a half-life, and chosen.

Usage: python bench/drift.py [--write] [--seeds N] [--dimension D] [--only TABLE]

Of squared losses with `NoisyFTRL`, of logistic ones with `NoisyNewton`, of arms with `LinUCB` and
`ResidualPhases`. With --write the tables of docs/drift.md and their figure are written again. About
five minutes of one core.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from compare import THREADS
from numpy.typing import NDArray
from pages import in_style, replace_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "drift.md"
FIGURE = ROOT / "docs" / "figures" / "drift.svg"
ROUNDS, DIMENSION, RADIUS = 100_000, 10, 2.0
EPSILONS = (0.1, 1.0, 8.0)
WORLDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("nothing changes", "constant", {}),
    ("labels are noise", "noise", {}),
    ("features of unequal variance", "anisotropic", {}),
    ("half of the features fade", "fading", {}),
    ("the truth turns by 90° in T/2", "turning", {"period": ROUNDS // 2}),
    ("... in T/8", "turning", {"period": ROUNDS // 8}),
    ("it jumps every T/4", "jumping", {"period": ROUNDS // 4}),
    ("it swings, period T/5", "season", {"period": ROUNDS // 5}),
    ("it changes its sign once", "flip", {}),
)
LOGISTIC_WORLDS = tuple(
    each for each in WORLDS if each[1] not in ("anisotropic", "fading")
)  # of labels whose margins are up to LENGTH
ARMS, FEATURES, REWARD_NOISE = 3, 5, 0.3
BANDIT_SHARES, PHASES_SHARES = (0.3, 0.1, 0.03, 0.01), (1.0, 0.3, 0.1, 0.03)
LENGTH, NEWTON_SHARES = 6.0, (0.1, 0.03, 0.01)
FIXED = (0.3, 0.1, 0.03, 0.01)  # half-lives, in horizons


def learner(epsilon: float | None, **options: Any) -> Any:
    import dpoco

    budget = None if epsilon is None else dpoco.Budget(epsilon=epsilon, delta=1e-6)
    return dpoco.oco.NoisyFTRL(
        dpoco.domains.LpBall(DIMENSION, 2.0, RADIUS),
        dpoco.losses.SquaredLoss(1.0, 1.0),
        horizon=ROUNDS,
        budget=budget,
        statistics="quadratic",
        **options,
    )


def world(kind: str, options: dict[str, Any], seed: int) -> Any:
    import dpoco

    return dpoco.environments.DriftingRegression(kind, ROUNDS, DIMENSION, seed=seed, **options)


def losses(own: Any, stream: Any) -> NDArray[np.float64]:
    return np.asarray(own.run(stream.features, stream.labels).losses)


def rows(epsilon: float, seeds: int) -> list[str]:
    """Medians over worlds: today's leader, the best fixed half-life in hindsight, the choice."""
    import dpoco

    found = []
    for number, (title, kind, options) in enumerate(WORLDS):
        regrets: dict[str, list[float]] = {"never": [], "best": [], "chosen": []}
        for seed in range(seeds):
            stream = world(kind, options, 1000 * number + seed)

            def regret(stream: Any = stream, seed: int = seed, **own: Any) -> float:
                made = learner(epsilon, source=dpoco.random.Source.seeded(seed), **own)
                return float(stream.regret(losses(made, stream)))

            never = regret()
            regrets["never"].append(never)
            fixed = [regret(half_life=share * ROUNDS) for share in FIXED]
            regrets["best"].append(min(never, *fixed))
            regrets["chosen"].append(regret(half_life="auto"))
        cells = [f"{np.median(each):.4f}" for each in regrets.values()]
        found.append(f"| {title} | {cells[0]} | {cells[1]} | **{cells[2]}** |")
    return found


def markdown(seeds: int) -> str:
    parts = []
    for epsilon in EPSILONS:
        parts += [
            f"epsilon = {epsilon:g}:\n",
            "| stream | never forgets | best fixed half-life | chosen |",
            "|---|--:|--:|--:|",
            *rows(epsilon, seeds),
            "",
        ]
    return "\n".join(parts)


def newton_rows(epsilon: float, seeds: int) -> list[str]:
    """Medians over worlds with logistic labels: Newton steps as they are, and with half-lives."""
    import dpoco

    found = []
    for number, (title, kind, options) in enumerate(LOGISTIC_WORLDS):
        regrets: list[list[float]] = []
        for seed in range(seeds):
            stream = world(kind, options, 1000 * number + seed)
            margins = LENGTH * np.einsum("td,td->t", stream.features, stream.truth)
            drawn = np.random.default_rng(seed).random(ROUNDS)
            labels = (drawn < 1.0 / (1.0 + np.exp(-margins))).astype(float)
            best = np.logaddexp(0.0, margins) - labels * margins
            regrets.append([])
            for share in (None, *NEWTON_SHARES):
                own = dpoco.oco.NoisyNewton(
                    dpoco.domains.LpBall(DIMENSION, 2.0, 8.0),
                    dpoco.losses.LogisticLoss(1.0),
                    horizon=ROUNDS,
                    budget=dpoco.Budget(epsilon=epsilon, delta=1e-6),
                    half_life=None if share is None else share * ROUNDS,
                    source=dpoco.random.Source.seeded(seed),
                )
                lost = own.run(stream.features, labels).losses
                regrets[-1].append(float((lost - best).mean()))
        cells = " | ".join(f"{each:.4f}" for each in np.median(regrets, axis=0))
        found.append(f"| {title} | {cells} |")
    return found


def newton_markdown(seeds: int) -> str:
    parts = []
    for epsilon in (0.1, 1.0, 8.0):
        heads = " | ".join(f"{share:g} T" for share in NEWTON_SHARES)
        parts += [
            f"epsilon = {epsilon:g}:\n",
            f"| stream | never forgets | {heads} |",
            "|---|" + "--:|" * (1 + len(NEWTON_SHARES)),
            *newton_rows(epsilon, seeds),
            "",
        ]
    return "\n".join(parts)


def turning_arms(turn: float | None, seed: int) -> tuple[NDArray[np.float64], ...]:
    """Contexts on the sphere, mean rewards of all arms, and rewards."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(ROUNDS, FEATURES))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    angles = np.zeros(ROUNDS) if turn is None else 0.5 * np.pi * np.arange(ROUNDS) / (turn * ROUNDS)
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    means = np.empty((ROUNDS, ARMS))
    for arm in range(ARMS):
        plane = np.linalg.qr(rng.normal(size=(FEATURES, 2)))[0].T
        means[:, arm] = np.einsum("td,td->t", rows, along @ plane)
    return rows, means, np.clip(means + REWARD_NOISE * rng.normal(size=means.shape), -1.0, 1.0)


def reversed_arms(seed: int) -> tuple[NDArray[np.float64], ...]:
    """The same; all coefficients change their sign at half of the horizon."""
    rows, means, rewards = turning_arms(None, seed)
    sign = np.where(np.arange(ROUNDS) < ROUNDS // 2, 1.0, -1.0)[:, None]
    return rows, sign * means, sign * rewards


ARM_WORLDS: tuple[tuple[str, Callable[[int], tuple[NDArray[np.float64], ...]]], ...] = (
    ("nothing changes", partial(turning_arms, None)),
    ("all turn by 90° in T/2", partial(turning_arms, 0.5)),
    ("... in T/8", partial(turning_arms, 0.125)),
    ("all are reversed at T/2", reversed_arms),
)


def linucb_markdown(seeds: int) -> str:
    import dpoco

    kind = partial(dpoco.bandits.LinUCB, reward_noise=REWARD_NOISE)
    return bandit_markdown(kind, BANDIT_SHARES, seeds)


def phases_markdown(seeds: int) -> str:
    import dpoco

    return bandit_markdown(dpoco.bandits.ResidualPhases, PHASES_SHARES, seeds)


def bandit_markdown(kind: Callable[..., Any], shares: tuple[float, ...], seeds: int) -> str:
    """Medians over worlds of arms: a bandit as it is, and with half-lives in horizons."""
    import dpoco

    parts = []
    for epsilon in (1.0, 8.0):
        heads = " | ".join(f"{share:g} T" for share in shares)
        parts += [f"epsilon = {epsilon:g}:\n", f"| arms | never forgets | {heads} |"]
        parts.append("|---|" + "--:|" * (1 + len(shares)))
        for number, (title, make) in enumerate(ARM_WORLDS):
            regrets: list[list[float]] = []
            for seed in range(seeds):
                rows, means, rewards = make(100 * number + seed)
                regrets.append([])
                for share in (None, *shares):
                    own = kind(
                        ARMS,
                        FEATURES,
                        horizon=ROUNDS,
                        budget=dpoco.Budget(epsilon=epsilon, delta=1e-6),
                        context_bound=1.0,
                        reward_bound=1.0,
                        half_life=None if share is None else share * ROUNDS,
                        source=dpoco.random.Source.seeded(seed),
                    )
                    lost = own.run(rows, rewards).pseudo_regret(means)
                    regrets[-1].append(float(lost[-1]) / ROUNDS)
            cells = " | ".join(f"{each:.4f}" for each in np.median(regrets, axis=0))
            parts.append(f"| {title} | {cells} |")
        parts.append("")
    return "\n".join(parts)


def draw() -> None:
    from matplotlib.figure import Figure

    stream = world("turning", {"period": ROUNDS // 4}, 5)
    best = np.square(np.einsum("td,td->t", stream.features, stream.truth) - stream.labels)
    with in_style():
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        _draw_lines(figure.subplots(), stream, best)
        figure.savefig(FIGURE)


def _draw_lines(ax: Any, stream: Any, best: NDArray[np.float64]) -> None:
    import dpoco

    lines: tuple[tuple[str, str, float | None, dict[str, Any]], ...] = (
        ("never forgets", "#D55E00", 1.0, {}),
        ("half-life 3,000", "#0072B2", 1.0, {"half_life": 3000.0}),
        ("chosen by itself", "#009E73", 1.0, {"half_life": "auto"}),
        ("chosen, without privacy", "#000000", None, {"half_life": "auto"}),
    )
    window = 2000
    for name, colour, epsilon, options in lines:
        source = dpoco.random.Source.seeded(1)
        excess = losses(learner(epsilon, source=source, **options), stream) - best
        means = excess.reshape(-1, window).mean(axis=1)
        at = (np.arange(len(means)) + 0.5) * window
        style = ":" if epsilon is None else "-"
        ax.plot(at, means, color=colour, linestyle=style, label=name)
    ax.set_xlabel("round")
    ax.set_ylabel("regret a round")
    ax.set_ylim(0.0, 0.25)
    ax.set_title("A truth that turns by 90 degrees in 25,000 rounds, epsilon = 1")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


TABLES = {
    "newton drift": newton_markdown,
    "bandit drift": linucb_markdown,
    "phases drift": phases_markdown,
    "drift": markdown,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Regret against a truth that moves.")
    parser.add_argument("--write", action="store_true", help="update the page and its figure")
    parser.add_argument("--seeds", type=int, default=5, help="worlds of every kind")
    parser.add_argument("--only", choices=tuple(TABLES), help="one table")
    parser.add_argument("--draw", action="store_true", help="the figure only")
    parser.add_argument("--dimension", type=int, default=DIMENSION, help="features")
    options = parser.parse_args()
    globals()["DIMENSION"] = options.dimension
    for name in THREADS:
        os.environ[name] = "1"
    import dpoco

    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
    if options.draw:
        draw()
        return 0
    for key, make in TABLES.items():
        if options.only not in (None, key):
            continue
        text = make(options.seeds)
        print(text, flush=True)
        if options.write:
            PAGE.write_text(replace_table(PAGE.read_text(encoding="utf-8"), key, text), "utf-8")
    if options.write and options.only is None:
        draw()
    return 0


if __name__ == "__main__":
    sys.exit(main())
