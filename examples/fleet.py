"""A fleet of machines, one private learner each: warnings that survive a crash.

Usage: python examples/fleet.py [--machines M] [--days D] [--output FILE] [--quick]

Each machine of a simulated fleet reports load, heat and vibration, and whether it failed within the
hour; machines fail for different reasons. The machine's model, which predicts its next hour, is
read by the customers of all machines, so no hour of anybody's production may show in it. A pool
plays the learners of all machines, a day in one batch, and a journal stores a day before it is
published. In the middle the program dies after a day was stored, is started again and gets the
same day: the models are the same. Needs ``pip install "dpoco[plot]"``.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import matplotlib
import numpy as np

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.plotting import STYLE, new_figure

HOURS, DELTA = 24, 1e-6
BUDGETS = {"epsilon = 1": 1.0, "epsilon = 4": 4.0, "without privacy": None}


def reports(machines, days, seed):
    """Return keys, records of norm <= 1, and failures, in order of days."""
    rng = np.random.default_rng(seed)
    keys = np.tile(np.arange(machines), days * HOURS)
    records = rng.uniform(-1.0, 1.0, size=(len(keys), 3))
    cause = np.eye(3)[np.arange(machines) % 3]  # load, heat or vibration
    chance = 1.0 / (1.0 + np.exp(2.0 - 6.0 * np.sum(records * cause[keys], axis=1)))
    failed = (rng.random(len(keys)) < chance).astype(float)
    return keys, np.column_stack([records, np.ones(len(keys))]) / 2.0, failed


def learner(epsilon, hours, source=None):
    """Return the template of a machine's learner."""
    return dpoco.oco.NoisyNewton(
        dpoco.domains.LpBall(4, p=2.0, radius=10.0),
        dpoco.losses.LogisticLoss(feature_bound=1.0),
        horizon=hours,
        budget=None if epsilon is None else dpoco.Budget(epsilon, DELTA),
        source=source,
    )


def make_losses(decisions, records, failed):
    """Logistic loss of each hour's prediction, made before it."""
    margins = np.sum(decisions * records, axis=1)
    return np.logaddexp(0.0, margins) - failed * margins


def play(folder, epsilon, keys, records, failed, days):
    """Return the losses of all hours; the program is restarted in the middle."""
    rows = len(keys) // days
    ledger = None if epsilon is None else Ledger(dpoco.Budget(epsilon, DELTA))
    path = folder / "fleet.db"
    template = learner(epsilon, days * HOURS, dpoco.random.Source.seeded(1))
    decisions, made = [], int(keys.max()) + 1
    for first, last in ((0, days // 2), (days // 2 - 1, days)):  # a day is sent twice
        fresh = first == 0
        with dpoco.journal.Journal(path, **({"ledger": ledger} if fresh else {})) as journal:
            start = template if fresh else None
            pool = dpoco.scale.KeyedPool(start, journal=journal, max_keys=made)
            for day in range(first, last):
                part = slice(day * rows, (day + 1) * rows)
                sent = pool.process(keys[part], records[part], failed[part], batch=day)
                if day < len(decisions):
                    assert np.array_equal(sent, decisions[day])  # no second release
                else:
                    decisions.append(sent)
            promise = pool.guarantee
    return make_losses(np.concatenate(decisions), records, failed), promise


@matplotlib.rc_context(STYLE)
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=30)
    parser.add_argument("--days", type=int, default=120)
    parser.add_argument("--output", default="fleet.png")
    parser.add_argument("--quick", action="store_true", help="six machines, 40 days")
    options = parser.parse_args(arguments)
    machines, days = (6, 40) if options.quick else (options.machines, options.days)
    warnings.simplefilter("ignore", dpoco.NoiseDominatesWarning)  # the figure shows it

    keys, records, failed = reports(machines, days, seed=0)
    found = {}
    for name, epsilon in BUDGETS.items():
        with tempfile.TemporaryDirectory() as folder:
            losses, promise = play(Path(folder), epsilon, keys, records, failed, days)
        found[f"own models, {name}"] = losses
        if epsilon == 1.0:
            stated = promise  # of a seeded run: see its conditions
    whole = learner(1.0, len(keys), dpoco.random.Source.seeded(2)).run(records, failed)
    found["one model for all, epsilon = 1"] = make_losses(whole.decisions, records, failed)
    rate = np.clip(failed.mean(), 1e-3, 1.0 - 1e-3)
    found["the rate of failures"] = -np.log(np.where(failed == 1.0, rate, 1.0 - rate))

    axes = new_figure((6.4, 4.4)).subplots()
    parts = np.array_split(np.arange(len(keys)), 8)
    print(f"{'average loss':34}   first eighth  last eighth")
    for name, losses in found.items():
        means = [float(losses[part].mean()) for part in parts]
        print(f"{name:34}{means[0]:15.3f}{means[-1]:13.3f}")
        axes.plot(np.arange(1, 9) * days / 8, means, marker="o", label=name)
    axes.set(xlabel="days", ylabel="average loss of an eighth", title=f"{machines} machines")
    axes.figure.legend(loc="outside lower center", ncols=2)
    print(f"\n{stated}\nwrote {options.output}")
    axes.figure.savefig(options.output)


if __name__ == "__main__":
    main()
