"""Rounds counted a second by several processes that hand their tallies to one monitor.

``python bench/machines.py [--records 1000000000] [--processes 2]`` counts simulated records (count,
mean and a histogram of 20 bins) hour by hour, and prints the rate with and without making them.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import dpoco
from dpoco.statistics import Count, Histogram, Mean, Monitor

HOURS, BLOCK = 24, 1_000_000


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


def main():
    """Count, merge and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000_000)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
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
