"""People who come back: what each calibration promises all their visits, and what it costs.

Usage: python examples/people.py [--epsilon E ...] [--runs R] [--output FILE] [--quick]

A thousand people visit a shop once a day for 20 days, at any time of the day. After each visit a
linear model of what they spend is released, the leader on noisy sums of gradients. The learners
take at most 10 records of a person, at least 1000 visits apart, and play others as empty ones.
Three budgets are compared: for a round, which is the wrong question; for a group of 10 records; and
for a person. All data are simulated; ``movie_ratings.py`` does the same with people who rate
movies. Needs ``pip install "dpoco[plot]"``.
"""

from __future__ import annotations

import argparse
import warnings

import matplotlib
import numpy as np

import dpoco
from dpoco.accounting import gaussian
from dpoco.evaluation import SeedTree
from dpoco.plotting import STYLE, new_figure

PEOPLE, DAYS, DIMENSION, DELTA = 1000, 20, 5, 1e-6


def visits(seed):
    """Return features, what was spent, and who it was, one visit a row."""
    rng = np.random.default_rng(seed)
    who = np.concatenate([rng.permutation(PEOPLE) for _ in range(DAYS)])
    features = rng.normal(size=(len(who), DIMENSION))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    taste = np.array([1.0, -0.8, 0.5, 0.0, 0.0]) + 0.1 * rng.normal(size=(PEOPLE, DIMENSION))
    spent = np.sum(features * taste[who], axis=1) + 0.1 * rng.normal(size=len(who))
    return features, np.clip(spent, -1.0, 1.0), who


def learners(build, rule, epsilon):
    """Return the parameters of the three budgets."""
    # A group of 10 records has 10 times the mu of one.
    single = gaussian.gaussian_mu(epsilon, DELTA) / rule.rounds
    group = dpoco.Budget(gaussian.gaussian_epsilon(single, DELTA), DELTA)
    asked = dpoco.Budget(epsilon, DELTA)
    return {
        "a round": build(asked).plan,
        "a group": build(group).plan,
        "a person": build(asked, participation=rule).plan,
    }


def compare(features, labels, who, rule, epsilons, runs):
    """Print what the three budgets promise a person and lose, and return it by name."""
    ball = dpoco.domains.LpBall(features.shape[1], p=2.0, radius=2.0)
    loss = dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
    common = {"horizon": len(who), "step_size": "predicted"}

    def build(budget, **more):
        return dpoco.oco.NoisyFTRL(ball, loss, budget=budget, **common, **more)

    free = build(None).run(features, labels).average_loss
    zero = float(np.mean(labels**2)) / 2.0
    print(f"{len(who)} records of {len(set(who))} people; used are at most {rule.rounds} of each, "
          f"at least {rule.separation} apart\n"
          f"loss without privacy {free:.4f}, of predicting zero {zero:.4f}")  # fmt: skip
    print(f"{'budget for':12}{'asked':>8}{'mu of a person':>16}{'epsilon':>9}{'loss':>9}")
    found: dict[str, list] = {}
    for epsilon in epsilons:
        for name, parameters in learners(build, rule, epsilon).items():
            kept = {"plan": parameters, "participation": rule}
            losses = []
            for run in range(runs):
                learner = build(None, source=SeedTree(0).child(name, run).source(), **kept)
                losses.append(learner.run(features, labels, persons=who).average_loss)
            promise = build(None, **kept).guarantee
            point = promise.epsilon_at(DELTA), np.median(losses)
            found.setdefault(name, []).append((epsilon, *point, min(losses), max(losses)))
            print(f"{name:12}{epsilon:8g}{promise.mu:16.3f}{point[0]:9.2f}{point[1]:9.4f}")
    budget = dpoco.Budget(epsilons[0], DELTA)
    print(f"\nfor each budget of a person as for this one:\n"
          f"{build(budget, participation=rule).guarantee}")  # fmt: skip
    return found, zero


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", default="people.png")
    parser.add_argument("--quick", action="store_true", help="epsilon 2 and 4, two runs")
    options = parser.parse_args(arguments)
    epsilons, runs = ([2.0, 4.0], 2) if options.quick else (options.epsilon, options.runs)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    found, zero = compare(*visits(0), dpoco.Participation(10, 1000), epsilons, runs)
    axes = new_figure((6.4, 4.4)).subplots()
    for name, points in found.items():
        asked, real, loss, low, high = np.transpose(points)
        spread = np.array([loss - low, high - loss])
        line, *_ = axes.errorbar(
            real, loss, yerr=spread, marker="o", capsize=3, label=f"budget for {name}"
        )
        beside = {"xytext": (-12, -12) if name == "a person" else (6, 5), "color": line.get_color()}
        for epsilon, x, y in zip(asked, real, loss, strict=True):
            axes.annotate(f"{epsilon:g}", (x, y), textcoords="offset points", **beside)
    axes.axhline(zero, color="k", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("epsilon that a person really has; at the points: epsilon asked for")
    axes.set_ylabel("average loss; line: predicting zero")
    axes.legend()
    axes.figure.savefig(options.output)
    print(f"\nwrote {options.output}")


if __name__ == "__main__":
    main()
