"""Fit the regret that `dpoco.choose` predicts to simulated worlds.

Usage: python bench/predict.py [--write] [--family NAME] [--seeds N]

Every candidate plays worlds of several horizons, dimensions, ranges and signals at four budgets.
Two laws are fitted to its regret a round: without noise exp(<a, x>), and what noise adds,
c u / (1 + u) with u = exp(<b, x>); x holds logarithms of public numbers. Printed last is how the
first of `dpoco.choose` does in these worlds; tests/test_choose.py has others. --write replaces
python/dpoco/predicted_regret.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

import dpoco
from dpoco.environments import LinearWorld, SwitchingStochastic, play_bandit
from dpoco.evaluation import best_fixed_decision, best_switching_sequence
from dpoco.learning import choice as _choice

TABLE = Path(dpoco.__file__).with_name("predicted_regret.json")
BUDGETS = (0.1, 1.0, 8.0, None)
LEAST = 1e-6  # smaller shares of the largest regret are fitted as this


def make_budget(epsilon, rounds):
    return None if epsilon is None else dpoco.Budget(epsilon, 0.1 / rounds)


def make_records(loss, rounds, dimension, reach, signal, shape, generator, *, even):
    """Return domain, loss and a stream; directions and labels are `even` or decay and are noisy."""
    spectrum, noise = np.geomspace(1.0, 1.0 if even else 0.1, dimension), 0.05 if even else 0.2
    if shape == "ball":
        domain = dpoco.domains.LpBall(dimension, 2.0, reach)
        turn, _ = np.linalg.qr(generator.normal(size=(dimension, dimension)))
        rows = (generator.normal(size=(rounds, dimension)) * spectrum) @ turn.T
        rows *= 0.85 / math.sqrt(np.mean(np.sum(rows**2, axis=1)))
        rows *= np.minimum(1.0, 1.0 / np.linalg.norm(rows, axis=1))[:, None]
        target = generator.normal(size=dimension)
        target *= signal * reach / np.linalg.norm(target)
    else:  # coefficients in an l1 ball, entries within [-1, 1]
        domain = dpoco.domains.LpBall(dimension, 1.0, reach)
        rows = np.clip(generator.normal(size=(rounds, dimension)) * 0.5, -1.0, 1.0)
        target = np.zeros(dimension)
        chosen = generator.choice(dimension, min(5, dimension), replace=False)
        target[chosen] = generator.choice([-1.0, 1.0], len(chosen)) * signal * reach / len(chosen)
    margins = rows @ target
    if loss == "linear":
        slope = -target / np.linalg.norm(target)
        slope /= 1.0 if shape == "ball" else np.abs(slope).max()
        return domain, dpoco.losses.LinearLoss(1.0), (0.6 * rows + 0.4 * signal * slope,)
    if loss == "logistic":
        labels = (generator.random(rounds) < 1.0 / (1.0 + np.exp(-margins))).astype(float)
        return domain, dpoco.losses.LogisticLoss(1.0), (rows, labels)
    # Labels are in [-1, 1], so `reach` is the largest margin in units of the largest label.
    margins /= max(1.0, reach)
    labels = np.clip(margins + noise * generator.normal(size=rounds), -1.0, 1.0)
    if loss == "squared":
        return domain, dpoco.losses.SquaredLoss(1.0, label_bound=1.0), (rows, labels)
    return domain, dpoco.losses.HuberLoss(1.0, label_bound=1.0, threshold=0.5), (rows, labels)


def record_worlds(seeds):
    sizes = [
        *itertools.product(("ball",), (1_000, 10_000, 100_000), (2, 8, 32)),
        *itertools.product(("l1",), (1_000, 10_000, 50_000), (4, 32, 200)),
    ]
    signals = ((0.3, 1.0), (1.0, 0.3), (1.0, 1.0), (8.0, 0.3), (8.0, 1.0))
    for loss, (shape, rounds, dimension), (reach, signal), seed in itertools.product(
        ("linear", "squared", "logistic", "huber"), sizes, signals, range(seeds)
    ):
        if loss == "linear" and reach != 1.0:
            continue  # regret is in units of the largest
        generator = np.random.default_rng([seed, rounds, dimension])
        world = (loss, rounds, dimension, reach, signal, shape)
        domain, family, stream = make_records(*world, generator, even=seed % 2 == 1)
        best = best_fixed_decision(domain, family, *stream, tolerance=1e-5).average_loss

        def regret(learner, stream=stream, best=best):
            return learner.run(*stream).average_loss - best

        yield (domain, family), rounds, regret, {}, world


def expert_worlds(seeds):
    for rounds, experts, switches, gap, told, seed in itertools.product(
        (1_000, 10_000, 100_000), (2, 10, 100), (0, 5, 50), (0.1, 0.4), (0, 1), range(seeds)
    ):
        world = SwitchingStochastic(experts, rounds, switches=switches, gap=gap, seed=seed)
        matrix = world.matrix()
        best = best_switching_sequence(matrix, switches=switches).total_loss / rounds

        def regret(learner, matrix=matrix, best=best):
            return learner.run(matrix).average_loss - best

        adversary = "shifting" if switches else "stationary"
        more = {"switches": switches, "adversary": adversary, "gap": told * gap}
        yield experts, rounds, regret, more, (rounds, experts, switches, gap, told)


def arm_worlds(seeds):
    for rounds, arms, dimension, seed in itertools.product(
        (1_000, 10_000, 50_000), (3, 8), (4, 16, 64), range(seeds)
    ):  # fmt: skip

        def regret(learner, size=(arms, dimension, rounds), seed=seed):
            world = LinearWorld(*size, sparsity=4, seed=seed)
            rewards = play_bandit(learner, world).rewards
            return float(np.mean(world.means.max(axis=1) - rewards))

        yield (arms, dimension), rounds, regret, {"continuous": True}, (rounds, arms, dimension)


WORLDS = {"records": record_worlds, "experts": expert_worlds, "arms": arm_worlds}


def measure(worlds):
    """Play all candidates; return rows of (law, public numbers, -ln mu, share, world)."""
    rows = []
    for number, (problem, rounds, regret, more, cell) in enumerate(worlds):
        for epsilon in BUDGETS:
            budget = make_budget(epsilon, rounds)
            for candidate in _choice.candidates(problem, rounds, budget, **more):
                if more.get("gap") and not candidate.law.endswith("/gap"):
                    continue  # played where no one knows the gap
                try:
                    learner = candidate.make(
                        horizon=rounds,
                        budget=budget,
                        source=dpoco.random.Source.seeded(1),
                        **candidate.units,
                    )
                except dpoco.CalibrationError:
                    continue
                share = max(regret(learner) / candidate.largest, LEAST)
                known = (candidate.law, candidate.numbers, candidate.log_noise)
                rows.append((*known, share, (number, epsilon)))
        print(*cell, *(f"{row[0].split('/')[-1]} {row[3]:.3g}" for row in rows[-3:]), flush=True)
    return rows


def fit(rows):
    """Return the coefficients of one candidate."""
    idle = [row for row in rows if row[2] is None]
    noisy = [row for row in rows if row[2] is not None]
    x = np.array([row[1] for row in idle])
    a = np.linalg.lstsq(x, np.log([row[3] for row in idle]), rcond=None)[0]
    x = np.array([[*row[1], row[2]] for row in noisy])
    y = np.log([row[3] for row in noisy])
    base = np.exp(x[:, :-1] @ a)

    def miss(w):
        missed = np.log(base + _choice.saturate(x @ w[:-1], math.exp(w[-1]))) - y
        return np.r_[missed, 1e-3 * w]  # a number that never varies has no weight

    start = np.r_[np.zeros(x.shape[1]), 0.0]
    start[1], start[-2] = -0.7, 1.0
    found = least_squares(
        miss, start, loss="soft_l1", bounds=(-60.0, np.r_[np.full(x.shape[1], 60.0), 0.0])
    )
    return {
        "idle": [round(v, 4) for v in a.tolist()],
        "noise": [round(v, 4) for v in found.x[:-1].tolist()],
        "cap": round(math.exp(found.x[-1]), 4),
    }, float(np.std(miss(found.x)[: len(y)]))


def say_how_the_first_does(rows, laws):
    worlds = defaultdict(list)
    for law, numbers, log_noise, share, world in rows:
        told = sum(_choice.shares(laws[law], numbers, log_noise))
        worlds[world].append((told, share))
    contested = [sorted(each) for each in worlds.values() if len(each) > 1]
    best = [min(share for _, share in each) for each in contested]
    first = [each[0][1] for each in contested]
    costs = [max(f, 1e-3) / max(b, 1e-3) for f, b in zip(first, best, strict=True)]
    ratios = [share / told for (told, share), *_ in contested]
    print(
        f"the first is the best in {np.mean(np.equal(first, best)):.0%} of {len(best)} worlds, and "
        f"has at most {np.percentile(costs, 95):.2f} times the best one's regret in 95 %; measured "
        f"over predicted regret in 90 %: {np.round(np.percentile(ratios, (5, 95)), 2)}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--family", choices=WORLDS)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    for family, worlds in WORLDS.items():
        if given.family in (None, family):
            played, by_law = measure(worlds(given.seeds)), defaultdict(list)
            for row in played:
                by_law[row[0]].append(row)
            for law, rows in sorted(by_law.items()):
                table[law], spread = fit(rows)
                print(f"{law:50} {len(rows):5} runs, spread {spread:.2f}: {table[law]}")
            say_how_the_first_does(played, table)
    if given.write:
        lines = ",\n".join(f'"{key}": {json.dumps(table[key])}' for key in sorted(table))
        TABLE.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
