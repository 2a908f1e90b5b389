"""Regret against the number of rounds at several epsilons: what privacy costs.

Usage: python bench/price.py [--write] [--seeds N]

With --write the figure and the table of docs/comparison.md are rewritten. Needs
``pip install "dpoco[bench]"``; about ten minutes of one core.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from compare import THREADS
from numpy.typing import NDArray
from pages import replaced

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "comparison.md"
FIGURE = ROOT / "docs" / "figures" / "price.png"

FloatArray = NDArray[np.float64]

ROUNDS = (1_000, 3_000, 10_000, 30_000, 100_000)
# None is no privacy. Okabe and Ito's colours; a shape each, so that colour is not needed.
STYLES = {
    0.1: ("#D55E00", "s"),
    1.0: ("#E69F00", "^"),
    8.0: ("#0072B2", "v"),
    None: ("#000000", "o"),
}
TOOL = "tool"  # the key of the non-private tool beside the epsilons


class Family(NamedTuple):
    """What is learned, and by whom.

    `regrets` plays (rounds, seed) and yields "now" or "before", an epsilon or `TOOL`, and the
    regret a round.
    """

    title: str
    learner: str
    before: str
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
        "now": dpoco.oco.NoisyNewton if logistic else ridge,
        "before": partial(dpoco.frank_wolfe.TreeFrankWolfe, batch=max(1, rounds // 1000)),
    }
    for when, kind in kinds.items():
        for epsilon in STYLES:
            learner = kind(
                problem.domain, loss, horizon=rounds, budget=budget(rounds, epsilon),
                source=dpoco.random.Source.seeded(1000 + seed),
            )  # fmt: skip
            losses = learner.run(*records, record_decisions=False).losses
            yield when, epsilon, float(losses.mean() - problem.best[0])
    found = []
    for step in side_convex.RIVER_STEPS:
        model = side_convex.river_model(problem, step)
        margins = side_convex.river_run(problem, model, *side_convex.river_records(problem, 0))
        found.append(float(problem.regret(margins[:, None])[0]))
    yield "now", TOOL, min(found)


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
            "now": partial(dpoco.experts.WindowSelector, expected_shifts=switches),
            "before": partial(dpoco.experts.ObliviousTracker, switches=switches),
        }
    else:
        kinds = {"now": dpoco.experts.EpochSelector, "before": dpoco.experts.PrefixHedge}
    for when, kind in kinds.items():
        for epsilon in STYLES:
            learner = kind(
                n, horizon=rounds, budget=budget(rounds, epsilon),
                source=dpoco.random.Source.seeded(1000 + seed),
            )  # fmt: skip
            yield when, epsilon, game.regret(learner.run(table).losses, 0)
    player = side_experts.fixed_share if switches else side_experts.hedge
    yield "now", TOOL, game.regret(player(table, None, seed), 0)


def bandit(rounds: int, seed: int) -> Iterator[tuple[str, Any, float]]:
    from bandit_cases import LinUCB as PlainLinUCB

    import dpoco

    arms, d, noise = 5, 10, 0.1
    world = dpoco.environments.LinearWorld(arms, d, rounds, reward_noise=noise, seed=seed)
    best = world.means.max(axis=1)

    def regret(actions: NDArray[np.int64]) -> float:
        return float((best - world.means[np.arange(rounds), actions]).mean())

    for when, exploration in (("now", 0.1), ("before", 1.0)):
        for epsilon in STYLES:
            learner = dpoco.bandits.LinUCB(
                arms, d, horizon=rounds, budget=budget(rounds, epsilon), context_bound=1.0,
                reward_bound=world.reward_bound, reward_noise=noise, exploration=exploration,
                source=dpoco.random.Source.seeded(1000 + seed),
            )  # fmt: skip
            yield when, epsilon, regret(learner.run(world.contexts, world.rewards).actions)
    yield "now", TOOL, regret(PlainLinUCB(arms, d).run(world.contexts, world.rewards))


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

# Mean and standard error by (learner, epsilon, rounds).
Measured = dict[tuple[str, Any, int], tuple[float, float]]


def measure(family: Family, seeds: int) -> Measured:
    """Play all learners in one world a seed."""
    found: dict[tuple[str, Any, int], list[float]] = {}
    for rounds in ROUNDS:
        for seed in range(seeds):
            for when, epsilon, value in family.regrets(rounds, seed):
                found.setdefault((when, epsilon, rounds), []).append(value)
    return {
        key: (float(np.mean(v)), float(np.std(v, ddof=1) / math.sqrt(len(v))))
        for key, v in found.items()
    }


def draw(results: list[Measured], path: Path) -> None:
    """Write the figure: a panel a family, the legend in the last one."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from PIL import Image

    figure = Figure(figsize=(11.0, 6.6), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    for ax, family, result in zip(axes, FAMILIES, results, strict=False):
        lines: list[tuple[str, Any, str, str, str]] = [("now", TOOL, "#888888", "", ":")]
        for epsilon, (colour, marker) in STYLES.items():
            lines += [("now", epsilon, colour, marker, "-"), ("before", epsilon, colour, "", "--")]
        for when, epsilon, colour, marker, style in lines:
            values = [result[when, epsilon, rounds] for rounds in ROUNDS]
            ax.plot(
                ROUNDS, [max(mean, 1e-4) for mean, _ in values], color=colour, marker=marker,
                linestyle=style, linewidth=1.6 if style == "-" else 1.0, markersize=4,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(8e-5, 1.0)
        ax.set_title(
            f"{family.title}\n{family.learner}; dashed: {family.before}\ndotted: {family.tool}",
            fontsize=8,
        )
        ax.grid(which="major", linewidth=0.4)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    for ax in (axes[0], axes[3]):
        ax.set_ylabel("regret per round (below 0.0001: drawn there)", fontsize=8)
    for ax in (*axes[3:5], axes[2]):
        ax.set_xlabel("rounds", fontsize=8)
    axes[5].axis("off")
    handles = [
        Line2D([], [], color=colour, marker=marker, label=label(epsilon))
        for epsilon, (colour, marker) in STYLES.items()
    ]
    handles += [
        Line2D([], [], color="#444444", label="what it offers today"),
        Line2D([], [], color="#444444", linestyle="--", label="what the library offered before"),
        Line2D([], [], color="#888888", linestyle=":", label="a non-private tool"),
    ]
    axes[5].legend(handles=handles, loc="center", frameon=False, fontsize=9)
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=100, format="png")
    Image.open(drawn).convert("RGB").quantize(64).save(path, optimize=True)


def label(epsilon: float | None) -> str:
    return "no privacy" if epsilon is None else f"epsilon = {epsilon:g}"


def markdown(results: list[Measured], seeds: int) -> str:
    """Regrets of the longest streams."""
    head = ["stream", "learner", *(label(epsilon) for epsilon in STYLES)]
    rows = [
        f"Regret per round at T = {ROUNDS[-1]:,}, mean ± standard error over {seeds} worlds.\n",
        "| " + " | ".join(head) + " |",
        "|---|---|" + "--:|" * len(STYLES),
    ]

    def cell(value: tuple[float, float]) -> str:
        return f"{value[0]:.4f} ± {value[1]:.4f}"

    for family, result in zip(FAMILIES, results, strict=True):
        for when, name in (("now", f"**{family.learner}**"), ("before", family.before)):
            cells = [cell(result[when, epsilon, ROUNDS[-1]]) for epsilon in STYLES]
            rows.append(f"| {family.title} | {name} | " + " | ".join(cells) + " |")
        tool = cell(result["now", TOOL, ROUNDS[-1]])
        rows.append(
            f"| {family.title} | {family.tool} | " + "- | " * (len(STYLES) - 1) + f"{tool} |"
        )
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Regret against rounds at several epsilons.")
    parser.add_argument("--write", action="store_true", help="update the page and its figure")
    parser.add_argument("--seeds", type=int, default=5, help="worlds; at least 2")
    options = parser.parse_args()
    for name in THREADS:
        os.environ[name] = "1"
    import dpoco

    # The shortest streams are too short for the least epsilon: the figure shows it.
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)
    results = [measure(family, options.seeds) for family in FAMILIES]
    text = markdown(results, options.seeds)
    print(text)
    if options.write:
        draw(results, FIGURE)
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "price", text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
