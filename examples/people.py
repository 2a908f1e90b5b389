"""People who come back: what each calibration promises all their visits, and what it costs.

Usage: python examples/people.py [--epsilon E ...] [--runs R] [--output FILE] [--quick]
                                 [--movielens] [--rounds K] [--separation B]

A thousand people visit a shop once a day for 20 days, at any time of the day. After each visit a
linear model of what they spend is released, the leader on noisy sums of gradients. The learners
take at most 10 records of a person, at least 1000 visits apart, and play others as empty ones.
Three budgets are compared: for a round, which is the wrong question; for a group of 10 records; and
for a person. These data are simulated. With --movielens they are 100,000 ratings of movies by 943
people, whom river knows how to download (``river.datasets.MovieLens100K().download()``); people
rate many movies in one evening, so records may follow each other. Needs
``pip install "dpoco[plot]"``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import dpoco
from dpoco.accounting import gaussian
from dpoco.evaluation import SeedTree

PEOPLE, DAYS, DIMENSION, DELTA = 1000, 20, 5, 1e-6
GENRES = (
    "action", "adventure", "animation", "childrens", "comedy", "crime", "documentary", "drama",
    "fantasy", "filmnoir", "horror", "musical", "mystery", "romance", "scifi", "thriller", "war",
    "western",
)  # fmt: skip


def visits(seed):
    """Return features, what was spent, and who it was, one visit a row."""
    rng = np.random.default_rng(seed)
    who = np.concatenate([rng.permutation(PEOPLE) for _ in range(DAYS)])
    features = rng.normal(size=(len(who), DIMENSION))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    taste = np.array([1.0, -0.8, 0.5, 0.0, 0.0]) + 0.1 * rng.normal(size=(PEOPLE, DIMENSION))
    spent = np.sum(features * taste[who], axis=1) + 0.1 * rng.normal(size=len(who))
    return features, np.clip(spent, -1.0, 1.0), who


def ratings():
    """Return the same of MovieLens: genres, age and sex of who rates; the rating in [-1, 1]."""
    from river.datasets import MovieLens100K

    data = MovieLens100K()
    if not data.is_downloaded:
        raise SystemExit("first run: python -c 'from river.datasets import MovieLens100K as M; "
                         "M().download()'")  # fmt: skip
    rows, stars, who = [], [], []
    for record, rating in data:
        genres = {"".join(filter(str.isalpha, name)) for name in record["genres"].split(",")}
        about = min(record["age"], 100.0) / 100.0, record["gender"] == "F", 1.0
        rows.append([*(genre in genres for genre in GENRES), *about])
        stars.append((rating - 3.0) / 2.0)
        who.append(record["user"])
    features = np.array(rows, dtype=float)
    return features / np.linalg.norm(features, axis=1, keepdims=True), np.array(stars), who


def builder(dimension, horizon):
    def build(budget, source=None, **more):
        ball = dpoco.domains.LpBall(dimension, p=2.0, radius=2.0)
        loss = dpoco.losses.SquaredLoss(feature_bound=1.0, label_bound=1.0)
        return dpoco.oco.NoisyFTRL(
            ball,
            loss,
            horizon=horizon,
            budget=budget,
            step_size="predicted",
            source=source,
            **more,
        )

    return build


def learners(build, rule, epsilon):
    """Return the parameters of the three budgets."""
    # A group of 10 records has 10 times the mu of one.
    single = gaussian.gaussian_mu(epsilon, DELTA) / rule.rounds
    group = dpoco.Budget(gaussian.gaussian_epsilon(single, DELTA), DELTA)
    asked = dpoco.Budget(epsilon, DELTA)
    return {
        "a round": build(asked).parameters,
        "a group": build(group).parameters,
        "a person": build(asked, participation=rule).parameters,
    }


def draw(drawn, zero, output):
    """Draw losses against what a person really has; points say what was asked for."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    names = {
        "a round": "budget for a round: a person has far more",
        "a group": "budget for a group: a person has less, at the price of noise",
        "a person": "budget for a person: what was asked for",
    }
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    for name, points in drawn.items():
        asked, real, loss, low, high = np.transpose(points)
        spread = np.array([loss - low, high - loss])
        line = axes.errorbar(real, loss, yerr=spread, marker="o", capsize=3, label=names[name])[0]
        beside = {"xytext": (-12, -12) if name == "a person" else (6, 5), "color": line.get_color()}
        for epsilon, x, y in zip(asked, real, loss, strict=True):
            axes.annotate(f"{epsilon:g}", (x, y), textcoords="offset points", **beside)
    axes.axhline(zero, color="k", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_xlabel("epsilon that a person really has; at the points: epsilon asked for")
    axes.set_ylabel("average loss; line: predicting zero")
    axes.legend()
    figure.savefig(output, dpi=80)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", default="people.png")
    parser.add_argument("--quick", action="store_true", help="epsilon 2 and 4, two runs")
    parser.add_argument("--movielens", action="store_true", help="ratings instead of visits")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--separation", type=int, help="default 1000, of ratings 1")
    options = parser.parse_args(arguments)
    epsilons, runs = ([2.0, 4.0], 2) if options.quick else (options.epsilon, options.runs)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    features, labels, who = ratings() if options.movielens else visits(0)
    apart = options.separation or (1 if options.movielens else 1000)
    rule = dpoco.Participation(options.rounds, apart)
    build = builder(features.shape[1], len(who))

    def average(parameters, name):
        found = []
        for run in range(runs):
            source = SeedTree(0).child(name, run).source()
            learner = build(None, source, parameters=parameters, participation=rule)
            found.append(learner.run(features, labels, persons=who).average_loss)
        return np.array(found)

    free = build(None).run(features, labels).average_loss
    zero = float(np.mean(labels**2)) / 2.0
    print(f"{len(who)} records of {len(set(who))} people; used are at most {rule.rounds} of each, "
          f"at least {apart} apart\n"
          f"loss without privacy {free:.4f}, of predicting zero {zero:.4f}")  # fmt: skip
    print(f"{'budget for':12}{'asked':>8}{'mu of a person':>16}{'epsilon':>9}{'loss':>9}")
    drawn: dict[str, list] = {}
    for epsilon in epsilons:
        for name, parameters in learners(build, rule, epsilon).items():
            promise = build(None, parameters=parameters, participation=rule).guarantee
            losses = average(parameters, name)
            real, loss = promise.epsilon_at(DELTA), np.median(losses)
            drawn.setdefault(name, []).append((epsilon, real, loss, losses.min(), losses.max()))
            print(f"{name:12}{epsilon:8g}{promise.mu:16.3f}{real:9.2f}{loss:9.4f}")
    budget = dpoco.Budget(epsilons[0], DELTA)
    print(f"\nfor each budget of a person as for this one:\n"
          f"{build(budget, participation=rule).guarantee}")  # fmt: skip
    draw(drawn, zero, options.output)
    print(f"\nwrote {options.output}")


if __name__ == "__main__":
    main()
