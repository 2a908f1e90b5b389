"""Rounds a second of several processes that hand their tallies to one monitor, or one learner.

``python bench/machines.py [--records 1000000000] [--processes 2]`` counts simulated records (count,
mean and a histogram of 20 bins) hour by hour, and prints the rate with and without making them.
``--learner ridge`` and ``newton`` learn from that many instead: the squared loss by its statistics,
or the logistic loss by gradients and curvatures, in 5 dimensions. With ``--of N`` the learner is
planned for N rounds, of which as many are played as `--records` says, and the time of N is stated
as extrapolated.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import dpoco
from dpoco.scale import Batches
from dpoco.statistics import Count, Histogram, Mean, Monitor

HOURS, BLOCK, DIMENSION = 24, 1_000_000, 5
TRUTH = np.array([0.5, -0.3, 0.1, 0.0, 0.2])


def count_records(partition, records, seed):
    """Return the tallies of simulated records, and the seconds that counting and making took."""
    rng, tallies, counting, making = np.random.default_rng(seed), [], 0.0, 0.0
    for hour in range(HOURS):
        left = records // HOURS + (hour < records % HOURS)
        while left:
            began = time.perf_counter()
            values = rng.random(min(left, BLOCK))
            made = time.perf_counter()
            partition.add_many({"x": values})
            making, counting = making + made - began, counting + time.perf_counter() - made
            left -= len(values)
        tallies.append(partition.tally(hour))
    return tallies, counting, making


def tally_rounds(partition, batch, records, seed):
    """Return the tally of simulated records of a batch, and the seconds that adding up took."""
    rng, tally, adding = np.random.default_rng(seed), None, 0.0
    for start in range(0, records, BLOCK // 8):
        size = min(BLOCK // 8, records - start)
        rows = rng.uniform(-0.4, 0.4, (size, DIMENSION))
        labels = ((rows @ TRUTH) > rng.uniform(-0.3, 0.3, size)).astype(np.float64)
        began = time.perf_counter()
        own = partition.tally(batch, rows, labels)
        tally = own if tally is None else tally.merge(own)
        adding += time.perf_counter() - began
    return tally, adding


def learn(name, records, planned, processes):
    """Play a learner from the tallies of processes, and print how fast."""
    domain, budget = dpoco.domains.LpBall(DIMENSION, 2.0), dpoco.Budget(1.0, 1e-10)
    if name == "ridge":
        loss = dpoco.losses.SquaredLoss(1.0, 1.0)
        learner = dpoco.oco.NoisyFTRL(
            domain, loss, horizon=planned, budget=budget, statistics="quadratic"
        )
    else:
        loss = dpoco.losses.LogisticLoss(1.0)
        learner = dpoco.oco.NoisyNewton(domain, loss, horizon=planned, budget=budget)
    batches, ended, adding = Batches(learner), 0, 0.0
    partition = batches.partition()
    began = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        while learner.round < records:
            batch = batches.begin()
            parts = [
                batch.rounds * (k + 1) // processes - batch.rounds * k // processes
                for k in range(processes)
            ]
            busy = [
                pool.submit(tally_rounds, partition, batch, part, [batch.round, k])
                for k, part in enumerate(parts)
                if part
            ]
            done = [each.result() for each in busy]
            batches.end([tally for tally, _ in done])
            adding += max(seconds for _, seconds in done)
            ended += 1
    seconds, rounds = time.perf_counter() - began, learner.round
    print(
        f"{name}: {rounds:,} rounds in {ended} batches in {seconds:.1f} s by {processes} "
        f"processes, {rounds / seconds / 1e6:.2f} million a second with making the records, "
        f"{rounds / adding / 1e6:.2f} without; decision {np.round(learner.last_decision, 3)}"
    )
    if planned > rounds:
        print(
            f"extrapolated, not measured: {planned:,} rounds in {seconds * planned / rounds:.0f} s"
        )


def main():
    """Count, merge and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--learner", choices=("ridge", "newton"))
    parser.add_argument("--of", type=int, help="rounds that a learner is planned for")
    options = parser.parse_args()
    if options.learner:
        planned = options.of or options.records
        learn(options.learner, options.records, planned, options.processes)
        return
    monitor = Monitor(
        {
            "n": Count(),
            "x": Mean(0.0, 1.0),
            "h": Histogram(tuple(np.linspace(0.0, 1.0, 19)), column="x"),
        },
        every=None,
        releases=HOURS,
        budget=dpoco.Budget(1.0, 1e-6),
    )
    parts = [options.records // options.processes] * options.processes
    parts[0] += options.records - sum(parts)
    began = time.perf_counter()
    with ProcessPoolExecutor(options.processes) as pool:
        partitions = [monitor.partition() for _ in parts]
        done = list(pool.map(count_records, partitions, parts, range(len(parts))))
    total = 0.0
    for hour in range(HOURS):
        for tallies, _, _ in done:
            monitor.merge(tallies[hour])
        total += monitor.release().value("n")
    seconds = time.perf_counter() - began
    counting, making = (max(each[k] for each in done) for k in (1, 2))
    print(
        f"{options.records:,} records in {seconds:.1f} s by {options.processes} processes: "
        f"{options.records / seconds / 1e6:.1f} million a second; counting alone "
        f"{options.records / counting / 1e6:.1f} million a second, making them {making:.1f} s; "
        f"count {total:,.0f} with the noise of {HOURS} hours"
    )


if __name__ == "__main__":
    main()
