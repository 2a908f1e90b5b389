"""Regret per round from 100 to ten million rounds and more, with the least price where known.

    python bench/long.py [--most 1e7] [--write]

Simulated streams in parts: a regression with ten features whose best decision is known, ten experts
with losses 0 or 1, of whom one is better by 0.1, and a bandit with five arms and ten features.
Every point is a learner that is made for its length; epsilon = 1, delta = 1/(10 T). ``--write``
draws docs/figures/long.svg and writes the table into docs/comparison.md. It needs two minutes of
one core, with ``--most 1e8`` about fifteen.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pages import in_style, read_rows, replace_table
from worlds import Packing

import dpoco

ROOT = Path(__file__).parents[1]
PAGE, FIGURE = ROOT / "docs" / "comparison.md", ROOT / "docs" / "figures" / "long.svg"
DIMENSION, EXPERTS, GAP, ARMS, ROWS = 10, 10, 0.1, 5, 65_536


def budgets(rounds: int) -> dict[str, Any]:
    return {"horizon": rounds, "budget": dpoco.Budget(1.0, 0.1 / rounds)}


def convex(rounds: int) -> dict[str, Any]:
    ball = dpoco.domains.LpBall(DIMENSION, p=2.0, radius=1.0)
    box = dpoco.domains.Box([-1.0] * DIMENSION, [1.0] * DIMENSION)
    squared = dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
    common = budgets(rounds)
    oco, frank_wolfe = dpoco.oco, dpoco.frank_wolfe
    return {
        "NoisyFTRL, quadratic statistics": oco.NoisyFTRL(
            ball, squared, statistics="quadratic", **common
        ),
        "NoisyFTRL, predicted step": oco.NoisyFTRL(ball, squared, step_size="predicted", **common),
        "TreeFrankWolfe": frank_wolfe.TreeFrankWolfe(ball, squared, **common),
        "PolyhedralFrankWolfe, on a box": frank_wolfe.PolyhedralFrankWolfe(box, squared, **common),
        "CoupledRegularizedLeader": oco.CoupledRegularizedLeader(ball, squared, **common),
        "ContinuousMultiplicativeWeights": oco.ContinuousMultiplicativeWeights(
            ball, squared, **common
        ),
    }


def experts(rounds: int) -> dict[str, Any]:
    common = budgets(rounds)
    pure = common | {"budget": dpoco.Budget(1.0, 0.0)}
    return {
        "EpochSelector": dpoco.experts.EpochSelector(EXPERTS, **pure),
        "PrefixHedge": dpoco.experts.PrefixHedge(EXPERTS, **common),
        "ShiftDetector": dpoco.experts.ShiftDetector(EXPERTS, **pure),
        "WindowSelector": dpoco.experts.WindowSelector(EXPERTS, **pure),
        "BatchShare": dpoco.experts.BatchShare(EXPERTS, **common),
        "ObliviousTracker": dpoco.experts.ObliviousTracker(EXPERTS, **common),
    }


def bandits(rounds: int) -> dict[str, Any]:
    ball = dpoco.domains.LpBall(DIMENSION, p=1.0, radius=1.0)
    return {
        "LinUCB": dpoco.bandits.LinUCB(
            ARMS, DIMENSION, **{"context_bound": 1.0, "reward_bound": 1.0, **budgets(rounds)}
        ),
        "HighDimensionalBandit": dpoco.bandits.HighDimensionalBandit(
            ARMS, ball, **{"context_bound": 1.0, "reward_bound": 1.0, **budgets(rounds)}
        ),
    }


def regression_regret(rounds: int, seed: int) -> dict[str, float]:
    """Loss above that of the parameter behind the records, per round."""
    learners = convex(rounds)
    total = dict.fromkeys(learners, 0.0)
    for part in dpoco.datasets.linear_regression_chunks(rounds, DIMENSION, seed=seed, rows=ROWS):
        least = float(np.sum((part.features @ part.target - part.labels) ** 2))
        for name, learner in learners.items():
            total[name] += float(learner.run(part.features, part.labels).losses.sum()) - least
    return {name: value / rounds for name, value in total.items()}


def make_losses(rounds: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    chance = np.where(np.arange(EXPERTS) == seed % EXPERTS, 0.5 - GAP, 0.5)
    for start in range(0, rounds, ROWS):
        count = min(ROWS, rounds - start)
        yield (rng.random((count, EXPERTS), dtype=np.float32) < chance).astype(np.float64)


def expert_regret(rounds: int, seed: int) -> dict[str, float]:
    """Expected loss of the experts played above that of the best one, per round."""
    learners = experts(rounds)
    wrong = dict.fromkeys(learners, 0)
    for losses in make_losses(rounds, seed):
        for name, learner in learners.items():
            wrong[name] += int(np.sum(learner.run(losses).decisions != seed % EXPERTS))
    return {name: GAP * count / rounds for name, count in wrong.items()}


def bandit_regret(rounds: int, seed: int) -> dict[str, float]:
    """Expected reward of the best arm above that of the arms played, per round.

    The mean reward of an arm is the product of a unit vector with features in the unit ball.
    """
    learners = bandits(rounds)
    total = dict.fromkeys(learners, 0.0)
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((DIMENSION, ARMS))
    arms /= np.linalg.norm(arms, axis=0)
    for start in range(0, rounds, ROWS):
        count = min(ROWS, rounds - start)
        # LinUCB's features lie in the unit ball, the other's in the cube, parameters in the dual.
        cube = rng.uniform(-1.0, 1.0, (count, DIMENSION))
        ball = cube / np.sqrt(DIMENSION)
        means = ball @ arms
        rewards = np.where(rng.random(means.shape) < 0.5 * (1.0 + means), 1.0, -1.0)
        for name, learner in learners.items():
            actions = learner.run(ball if name == "LinUCB" else cube, rewards).actions
            total[name] += float(np.sum(means.max(1) - means[np.arange(count), actions]))
    return {name: value / rounds for name, value in total.items()}


FAMILIES = {
    "regression, squared loss, d = 10": regression_regret,
    "one of 10 experts better by 0.1": expert_regret,
    "bandit, 5 arms, d = 10": bandit_regret,
}


def curves(play, lengths: list[int]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for rounds in lengths:
        runs = [play(rounds, seed) for seed in range(5 if rounds <= 10**6 else 1)]
        for name in runs[0]:
            found.setdefault(name, []).append(float(np.mean([run[name] for run in runs])))
        last = {name: f"{values[-1]:.3g}" for name, values in found.items()}
        print(f"{rounds:>11,}", last, flush=True)
    return found


def least_price(rounds: int) -> float:
    """Return the loss a round of every 1-private learner in some world of experts (`Packing`)."""
    world = Packing(EXPERTS, epsilon=1.0, seed=0)
    return world.regret_lower_bound(1.0) / rounds


def draw(found: dict[str, dict[str, list[float]]], lengths: list[int]) -> None:
    """Draw a panel for each family, one below the other, with their legends on the right."""
    from matplotlib.figure import Figure

    with in_style():
        figure = Figure(figsize=(7.6, 9.0), layout="constrained")
        for axes, (title, learners) in zip(figure.subplots(3, 1), found.items(), strict=True):
            for name, values in learners.items():
                least = name == "least of all"
                style = {"color": "#000000", "linestyle": "--"} if least else {"marker": "o"}
                axes.plot(
                    lengths[: len(values)], values, markersize=4,
                    label="least of all, epsilon = 1" if least else name, **style,
                )  # fmt: skip
            axes.set(xscale="log", yscale="log", title=title, ylabel="regret per round")
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set_xlabel("rounds")
        figure.savefig(FIGURE)


def read_table(page: str) -> tuple[dict[str, dict[str, list[float]]], list[int]]:
    """Return what `table_of` wrote into a page, to two digits."""
    head, *rows = read_rows(page, "long")
    found: dict[str, dict[str, list[float]]] = {}
    for title, name, *cells in rows:
        found.setdefault(title, {})[name] = [float(cell) for cell in cells if cell]
    return found, [round(float(cell)) for cell in head[2:]]


def make_table(found: dict[str, dict[str, list[float]]], lengths: list[int]) -> str:
    lines = [
        "Regret per round at epsilon = 1; to 1e6 rounds the mean of five streams, then one.\n",
        "| stream | learner | " + " | ".join(f"1e{len(str(n)) - 1}" for n in lengths) + " |",
        "|---|---|" + "--:|" * len(lengths),
    ]
    for title, learners in found.items():
        rows = dict(learners)
        if "experts" in title:
            rows["least of all"] = [least_price(rounds) for rounds in lengths]
        for name, values in rows.items():
            cells = " | ".join(f"{value:.2g}" for value in values)
            lines.append(f"| {title} | {name} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float, default=1e7)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--draw", action="store_true", help="only the figure, from the page")
    options = parser.parse_args()
    if options.draw:
        draw(*read_table(PAGE.read_text(encoding="utf-8")))
        return
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it
    lengths = [10**power for power in range(2, round(np.log10(options.most)) + 1)]
    found = {title: curves(play, lengths) for title, play in FAMILIES.items()}
    table = make_table(found, lengths)
    print(table)
    if options.write:
        draw(*read_table(f"<!-- begin long -->\n{table}<!-- end long -->"))
        PAGE.write_text(replace_table(PAGE.read_text(), "long", table), encoding="utf-8")


if __name__ == "__main__":
    main()
