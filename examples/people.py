"""People who come back: what each calibration promises all their visits, and what it costs.

Usage: python examples/people.py [--epsilon E ...] [--runs R] [--output FILE] [--quick]

A thousand people visit a shop once a day for 20 days, at any time of the day. After each visit a
linear model of what they spend is released, the leader on noisy sums of gradients. The learners
take at most 10 records of a person, at least 1000 visits apart, and play others as empty ones.
Three budgets are compared: for a round, which is the wrong question; for a group of 10 records; and
for a person. All data are simulated. Needs ``pip install "dpoco[plot]"``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import dpoco
from dpoco.accounting import gaussian
from dpoco.evaluation import SeedTree

PEOPLE, DAYS, DIMENSION, DELTA = 1000, 20, 5, 1e-6
RULE = dpoco.Participation(rounds=10, separation=1000)


def visits(seed):
    """Return features, what was spent, and who it was, one visit a row."""
    rng = np.random.default_rng(seed)
    who = np.concatenate([rng.permutation(PEOPLE) for _ in range(DAYS)])
    features = rng.normal(size=(len(who), DIMENSION))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    taste = np.array([1.0, -0.8, 0.5, 0.0, 0.0]) + 0.1 * rng.normal(size=(PEOPLE, DIMENSION))
    spent = np.sum(features * taste[who], axis=1) + 0.1 * rng.normal(size=len(who))
    return features, np.clip(spent, -1.0, 1.0), who


def build(budget, source=None, **more):
    ball = dpoco.domains.LpBall(DIMENSION, p=2.0, radius=2.0)
    loss = dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
    return dpoco.oco.NoisyFTRL(
        ball,
        loss,
        horizon=PEOPLE * DAYS,
        budget=budget,
        step_size="predicted",
        source=source,
        **more,
    )


def learners(epsilon):
    """Return the parameters of the three budgets."""
    # A group of 10 records has 10 times the mu of one.
    single = gaussian.gaussian_mu(epsilon, DELTA) / RULE.rounds
    group = dpoco.Budget(gaussian.gaussian_epsilon(single, DELTA), DELTA)
    asked = dpoco.Budget(epsilon, DELTA)
    return {
        "a round": build(asked).parameters,
        "a group": build(group).parameters,
        "a person": build(asked, participation=RULE).parameters,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", default="people.png")
    parser.add_argument("--quick", action="store_true", help="epsilon 2 and 4, two runs")
    options = parser.parse_args(arguments)
    epsilons, runs = ([2.0, 4.0], 2) if options.quick else (options.epsilon, options.runs)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    from matplotlib.figure import Figure

    features, spent, who = visits(0)

    def average(parameters, name):
        found = []
        for run in range(runs):
            source = SeedTree(0).child(name, run).source()
            learner = build(None, source, parameters=parameters, participation=RULE)
            found.append(learner.run(features, spent, persons=who).average_loss)
        return np.array(found)

    free = build(None).run(features, spent).average_loss
    zero = float(np.mean(spent**2)) / 2.0
    print(f"{len(who)} visits of {PEOPLE} people; loss without privacy {free:.4f}, "
          f"of predicting zero {zero:.4f}")  # fmt: skip
    print(f"{'budget for':12}{'asked':>8}{'mu of a person':>16}{'epsilon':>9}{'loss':>9}")
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    drawn: dict[str, list] = {}
    for epsilon in epsilons:
        for name, parameters in learners(epsilon).items():
            promise = build(None, parameters=parameters, participation=RULE).guarantee
            losses = average(parameters, name)
            real, loss = promise.epsilon_at(DELTA), np.median(losses)
            drawn.setdefault(name, []).append((real, loss, losses.min(), losses.max()))
            print(f"{name:12}{epsilon:8g}{promise.mu:16.3f}{real:9.2f}{loss:9.4f}")
    budget = dpoco.Budget(epsilons[0], DELTA)
    print(f"\nfor each budget of a person as for this one:\n"
          f"{build(budget, participation=RULE).guarantee}")  # fmt: skip
    for name, points in drawn.items():
        real, loss, low, high = np.transpose(points)
        spends = ", ".join(f"{value:.2g}" for value in real)
        axes.plot(epsilons, loss, marker="o", label=f"budget for {name}: {spends}")
        axes.fill_between(epsilons, low, high, alpha=0.2)
    axes.axhline(zero, color="k", linewidth=0.8)
    axes.set_xlabel("epsilon asked for; legend: what a person really has")
    axes.set_ylabel("average loss; line: predicting zero")
    axes.legend()
    figure.savefig(options.output, dpi=80)
    print(f"\nwrote {options.output}")


if __name__ == "__main__":
    main()
