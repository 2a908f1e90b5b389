"""How often the 95 % intervals of a monitor's releases cover the numbers without noise.

``python bench/interval_coverage.py [--releases 10000]``: a monitor with every kind of statistic in
four groups releases the same records again and again, each time with fresh noise. Printed is the
share of intervals that cover, of all numbers of a statistic. Means, shares and quantiles of groups
that noise hides are shown by themselves: they are covered more often, see
docs/privacy/statistics.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict

import numpy as np

import dpoco
from dpoco.statistics import Categories, Count, Histogram, Mean, Monitor, Quantiles, Share, Sum

EDGES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
STATISTICS = {
    "count": Count(),
    "sum": Sum(-4.0, 20.0, column="x"),
    "mean": Mean(0.0, 16.0, column="x"),
    "share": Share(column="yes"),
    "histogram": Histogram(EDGES, column="x"),
    "categories": Categories(("u", "v"), column="c"),
    "quantiles": Quantiles((0.03, 0.5, 0.97), EDGES, column="x"),
}
SIZES = {"a": 4000, "b": 1200, "c": 60}  # and none in the group of all others


def make_records():
    """Return the records of an interval, as columns."""
    rng = np.random.default_rng(3)
    groups = np.repeat(list(SIZES), list(SIZES.values()))
    n = len(groups)
    return {
        "x": np.round(rng.gamma(2.0, 2.5, n), 6),
        "yes": rng.random(n) < 0.3,
        "c": rng.choice(["u", "v", "w"], n),
        "g": groups,
    }


def make_monitor(releases, budget):
    """Return a monitor; without a budget its numbers are exact."""
    return Monitor(
        STATISTICS, every=None, releases=releases, budget=budget, by={"g": list(SIZES)}
    )  # fmt: skip


def main():
    """Release, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=10_000)
    options = parser.parse_args()
    records = make_records()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a budget nothing is protected
        exact = make_monitor(1, None)
    exact.add_many(records)
    truth = [cell.value for cell in exact.release().cells()]
    monitor = make_monitor(options.releases, dpoco.Budget(1.0, 1e-6))
    noise = monitor.plan().rows[0].deviation
    small = [group for group in (*SIZES, "other") if SIZES.get(group, 0) < 30.0 * noise]
    covered, asked = defaultdict(int), defaultdict(int)
    for _ in range(options.releases):
        monitor.add_many(records)
        for cell, value in zip(monitor.release().cells(0.95), truth, strict=True):
            if value is not None:
                hidden = cell.statistic in ("mean", "share", "quantiles") and cell.group in small
                covered[cell.statistic, hidden] += cell.low <= value <= cell.high
                asked[cell.statistic, hidden] += 1
    print(f"{options.releases:,} releases; noise of a count {noise:.1f}")
    for (name, hidden), n in asked.items():
        share = covered[name, hidden] / n
        fine = 0.945 <= share <= (1.0 if hidden else 0.955)
        label = f"{name}, near empty" if hidden else name
        print(f"{label:22} {share:.4f} of {n:,}{'' if fine else '  outside'}")


if __name__ == "__main__":
    main()
