"""Regret against the number of rounds at several epsilons: what privacy costs.

Usage: python bench/price.py [--write] [--seeds N]

With --write the figure and the table of docs/comparison.md are rewritten. Needs
``pip install "dpoco[bench]"``; about ten minutes of one core.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from compare import THREADS
from numpy.typing import NDArray
from pages import in_style, read_rows, replace_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "comparison.md"
FIGURE = ROOT / "docs" / "figures" / "price.svg"

FloatArray = NDArray[np.float64]

ROUNDS = 100_000
EPSILONS = (0.1, 1.0, 8.0, None)  # None is no privacy
TOOL = "tool"  # the key of the non-private tool next to the epsilons


class Family(NamedTuple):
    """Problem and learner.

    `regrets` plays (rounds, seed) and yields "own" or "other", an epsilon or `TOOL`, and the
    regret a round.
    """

    title: str
    learner: str
    other: str
    tool: str
    regrets: Callable[[int, int], Iterator[tuple[str, Any, float]]]


def budget(rounds: int, epsilon: float | None) -> Any:
    import dpoco

    return None if epsilon is None else dpoco.Budget(epsilon, 1.0 / (10 * rounds))


def convex(logistic: bool, rounds: int, seed: int) -> Iterator[tuple[str, Any, float]]:
    import side_convex
    from newton_targets import logistic_world
    from regret_targets import regression

    import dpoco

    d = 10
    if logistic:
        records, radius = logistic_world(rounds, d, seed), 8.0
        loss: Any = dpoco.losses.LogisticLoss(math.sqrt(d / 3.0))
    else:
        records, radius = regression(rounds, d, seed, "lin"), 1.0
        loss = dpoco.losses.SquaredLoss(1.0, 1.0)
    names, task = tuple(map(str, range(d))), "classification" if logistic else "regression"
    stream = dpoco.datasets.Stream("simulated", *records, names, task)
    problem = side_convex.Problem(loss, radius, [stream], 1.0)
    ridge = partial(dpoco.oco.NoisyFTRL, statistics="quadratic")
    kinds: dict[str, Callable[..., Any]] = {
        "own": dpoco.oco.NoisyNewton if logistic else ridge,
        "other": partial(dpoco.frank_wolfe.TreeFrankWolfe, batch=max(1, rounds // 1000)),
    }
    for who, kind in kinds.items():
        for epsilon in EPSILONS:
            learner = kind(
                problem.domain, loss, horizon=rounds, budget=budget(rounds, epsilon),
                source=dpoco.random.Source.seeded(1000 + seed),
            )  # fmt: skip
            losses = learner.run(*records, record_decisions=False).losses
            yield who, epsilon, float(losses.mean() - problem.best[0])
    found = []
    for step in side_convex.RIVER_STEPS:
        model = side_convex.river_model(problem, step)
        margins = side_convex.river_run(problem, model, *side_convex.river_records(problem, 0))
        found.append(float(problem.regret(margins[:, None])[0]))
    yield "own", TOOL, min(found)


def experts(switches: int, rounds: int, seed: int) -> Iterator[tuple[str, Any, float]]:
    import side_experts

    import dpoco

    n = 10
    table = dpoco.environments.SwitchingStochastic(
        n, rounds, switches=switches, gap=0.4, seed=seed
    ).matrix()
    game = side_experts.Game([table], switches)
    kinds: dict[str, Callable[..., Any]]
    if switches:
        kinds = {
            "own": partial(dpoco.experts.WindowSelector, expected_shifts=switches),
            "other": partial(dpoco.experts.ObliviousTracker, switches=switches),
        }
    else:
        kinds = {"own": dpoco.experts.EpochSelector, "other": dpoco.experts.PrefixHedge}
    for who, kind in kinds.items():
        for epsilon in EPSILONS:
            learner = kind(
                n, horizon=rounds, budget=budget(rounds, epsilon),
                source=dpoco.random.Source.seeded(1000 + seed),
            )  # fmt: skip
            yield who, epsilon, game.regret(learner.run(table).losses, 0)
    player = side_experts.fixed_share if switches else side_experts.hedge
    yield "own", TOOL, game.regret(player(table, None, seed), 0)


def bandit(rounds: int, seed: int) -> Iterator[tuple[str, Any, float]]:
    from bandit_cases import LinUCB as PlainLinUCB

    import dpoco

    arms, d, noise = 5, 10, 0.1
    world = dpoco.environments.LinearWorld(arms, d, rounds, reward_noise=noise, seed=seed)
    best = world.means.max(axis=1)

    def regret(actions: NDArray[np.int64]) -> float:
        return float((best - world.means[np.arange(rounds), actions]).mean())

    for who, exploration in (("own", 0.1), ("other", 1.0)):
        for epsilon in EPSILONS:
            learner = dpoco.bandits.LinUCB(
                arms, d, horizon=rounds, budget=budget(rounds, epsilon), context_bound=1.0,
                reward_bound=world.reward_bound, reward_noise=noise, exploration=exploration,
                source=dpoco.random.Source.seeded(1000 + seed),
            )  # fmt: skip
            yield who, epsilon, regret(learner.run(world.contexts, world.rewards).actions)
    yield "own", TOOL, regret(PlainLinUCB(arms, d).run(world.contexts, world.rewards))


FAMILIES = (
    Family("logistic loss, d = 10", "NoisyNewton", "TreeFrankWolfe",
           "river, best of three steps", partial(convex, True)),
    Family("squared loss, d = 10", "NoisyFTRL, quadratic statistics", "TreeFrankWolfe",
           "river, best of three steps", partial(convex, False)),
    Family("one good expert of 10", "EpochSelector", "PrefixHedge",
           "Hedge, NumPy", partial(experts, 0)),
    Family("the good expert of 10 changes 5 times", "WindowSelector", "ObliviousTracker",
           "fixed share, NumPy", partial(experts, 5)),
    Family("linear bandit, 5 arms, d = 10", "LinUCB", "LinUCB, exploration 1",
           "LinUCB, NumPy", bandit),
)  # fmt: skip

# Mean and standard error by (learner, epsilon).
Measured = dict[tuple[str, Any], tuple[float, float]]


def measure(family: Family, seeds: int) -> Measured:
    """Play all learners in one world a seed."""
    found: dict[tuple[str, Any], list[float]] = {}
    for seed in range(seeds):
        for who, epsilon, value in family.regrets(ROUNDS, seed):
            found.setdefault((who, epsilon), []).append(value)
    return {
        key: (float(np.mean(v)), float(np.std(v, ddof=1) / math.sqrt(len(v))))
        for key, v in found.items()
    }


def draw(page: str, path: Path) -> None:
    """Write the figure of the table on a page: a panel for each family."""
    from matplotlib.figure import Figure

    head, *rows = read_rows(page, "price")
    columns = head[2:]
    with in_style():
        figure = Figure(figsize=(7.6, 8.6), layout="constrained")
        axes = figure.subplots(3, 2).ravel()
        for number, (ax, family) in enumerate(zip(axes, FAMILIES, strict=False)):
            for title, name, *cells in rows:
                if title != family.title:
                    continue
                means = [float(cell.split()[0]) for cell in cells if cell != "-"]
                values = [max(mean, 1e-4) for mean in means]
                own = name.strip("*") == family.learner
                if len(values) == 1:
                    ax.axhline(values[0], color="#999999", linestyle=":", label=name)
                else:  # the first colour and line of the style are the recommended learner's
                    ax.plot(
                        columns, values, "o" if own else "s", markersize=4, label=name.strip("*"),
                        linestyle="-" if own else "--", color="C0" if own else "C1",
                    )  # fmt: skip
            ax.set_yscale("log")
            ax.set_ylim(8e-5, 1.0)
            ax.set_title(textwrap.fill(family.title, 40))
            ax.set_xticks(range(len(columns)), [name.replace(" = ", "\n") for name in columns])
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22))
            if number % 2 == 0:
                ax.set_ylabel("regret per round")
        axes[5].axis("off")
        figure.savefig(path)


def label(epsilon: float | None) -> str:
    return "no privacy" if epsilon is None else f"epsilon = {epsilon:g}"


def markdown(results: list[Measured], seeds: int) -> str:
    """Regrets of the longest streams."""
    head = ["stream", "learner", *(label(epsilon) for epsilon in EPSILONS)]
    rows = [
        f"Regret per round at T = {ROUNDS:,}, mean ± standard error over {seeds} worlds.\n",
        "| " + " | ".join(head) + " |",
        "|---|---|" + "--:|" * len(EPSILONS),
    ]

    def cell(value: tuple[float, float]) -> str:
        return f"{value[0]:.4f} ± {value[1]:.4f}"

    for family, result in zip(FAMILIES, results, strict=True):
        for who, name in (("own", f"**{family.learner}**"), ("other", family.other)):
            cells = [cell(result[who, epsilon]) for epsilon in EPSILONS]
            rows.append(f"| {family.title} | {name} | " + " | ".join(cells) + " |")
        tool = cell(result["own", TOOL])
        rows.append(
            f"| {family.title} | {family.tool} | " + "- | " * (len(EPSILONS) - 1) + f"{tool} |"
        )
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Regret against rounds at several epsilons.")
    parser.add_argument("--write", action="store_true", help="update the page and its figure")
    parser.add_argument("--draw", action="store_true", help="only the figure, from the page")
    parser.add_argument("--seeds", type=int, default=5, help="worlds; at least 2")
    options = parser.parse_args()
    for name in THREADS:
        os.environ[name] = "1"
    import dpoco

    if options.draw:
        draw(PAGE.read_text(encoding="utf-8"), FIGURE)
        return 0
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
    results = [measure(family, options.seeds) for family in FAMILIES]
    text = markdown(results, options.seeds)
    print(text)
    if options.write:
        page = replace_table(PAGE.read_text(encoding="utf-8"), "price", text)
        draw(page, FIGURE)
        PAGE.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
