"""One monitor, many machines: the same bits from Ray, from Spark and from one process.

Usage: python examples/many_machines.py [--engine processes|ray|spark] [--records N] [--quick]

Visits of a site are counted by the hour, privately for each visitor. Workers add up the visits of
their visitors in exact integers; the coordinator, which alone holds the noise, merges their tallies
and releases the hours. All visits of one visitor must come to one worker, in order, because a
worker limits its own visitors only: here by the visitor's number, in Spark by ``repartition``.
Ray needs ``pip install ray``, Spark ``pip install pyspark`` and Java.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import dpoco
from dpoco.random import Source
from dpoco.statistics import Count, Histogram, Mean, Monitor, Tally

HOURS = 24
COLUMNS = ("hour", "user", "seconds", "country")


def make_monitor():
    """Return the coordinator's monitor; its seed is for the comparison only."""
    return Monitor(
        {
            "visits": Count(),
            "seconds": Mean(0.0, 600.0),
            "lengths": Histogram(tuple(range(0, 600, 60)), column="seconds"),
        },
        every=None,
        releases=HOURS,
        budget=dpoco.Budget(epsilon=1.0, delta=1e-6),
        participation=dpoco.Participation(rounds=3, separation=2),
        records_per_interval=4,
        by={"country": ["DE", "FR"]},
        source=Source.seeded(1),
    )


def draw_visits(records):
    """Return visits in the order of time, as columns."""
    rng = np.random.default_rng(0)
    return {
        "hour": np.sort(rng.integers(0, HOURS, records)),
        "user": rng.integers(0, max(1, records // 20), records),
        "seconds": rng.exponential(120.0, records),
        "country": rng.choice(np.array(["DE", "FR", "US"]), records),
    }


def tally_hours(partition, visits):
    """Return the tallies of a worker's visits, hour by hour."""
    tallies = []
    for hour in range(HOURS):
        own = {name: column[visits["hour"] == hour] for name, column in visits.items()}
        partition.add_many(own, person="user")
        tallies.append(partition.tally(hour))
    return tallies


def split_visits(visits, parts):
    """Return the visits of each worker: all of a visitor at one of them."""
    worker = visits["user"] % parts
    return [{name: c[worker == k] for name, c in visits.items()} for k in range(parts)]


def by_processes(monitor, visits, parts):
    """Return the tallies of processes of this machine."""
    with ProcessPoolExecutor(parts) as pool:
        partitions = [monitor.partition() for _ in range(parts)]
        return list(pool.map(tally_hours, partitions, split_visits(visits, parts)))


def by_ray(monitor, visits, parts):
    """Return the tallies of Ray's tasks."""
    import ray

    ray.init(num_cpus=parts, include_dashboard=False, log_to_driver=False)
    try:
        task = ray.remote(tally_hours)
        split = split_visits(visits, parts)
        return ray.get([task.remote(monitor.partition(), own) for own in split])
    finally:
        ray.shutdown()


def by_spark(monitor, visits, parts):
    """Return the tallies of Spark's partitions."""
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import SparkSession

    partition = monitor.partition()  # a copy goes to every worker

    def tally_batches(batches):
        table = pa.Table.from_batches(batches)
        own = {name: table[name].to_numpy() for name in COLUMNS}
        for tally in tally_hours(partition, own):
            yield tally.to_arrow()

    spark = (
        SparkSession.builder.master(f"local[{parts}]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", parts)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        frame = pd.DataFrame(visits).assign(place=range(len(visits["user"])))
        tallies = (
            spark.createDataFrame(frame)
            .repartition(parts, "user")  # all visits of a visitor are at one worker
            .sortWithinPartitions("place")  # in the order in which they came
            .mapInArrow(tally_batches, "interval long, cells array<long>, records long")
            .toArrow()
        )
    finally:
        spark.stop()
    return [Tally.from_arrow(tallies)]


ENGINES = {"processes": by_processes, "ray": by_ray, "spark": by_spark}


def main(arguments=None):
    """Count visits on one machine and on many, and compare the releases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=ENGINES, default="processes")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="5,000 records")
    options = parser.parse_args(arguments)
    visits = draw_visits(5_000 if options.quick else options.records)
    alone, together = make_monitor(), make_monitor()
    equal = 0
    tallies = ENGINES[options.engine](together, visits, options.parts)
    for hour in range(HOURS):
        now = visits["hour"] == hour
        alone.add_many({name: column[now] for name, column in visits.items()}, person="user")
        for tally in (each for part in tallies for each in part if each.interval == hour):
            together.merge(tally)
        one, other = alone.release(), together.release()
        equal += np.array_equal(one.vectors["interval"], other.vectors["interval"])
    print(f"{options.engine}: {equal} of {HOURS} hours have the same bits as on one machine")
    print(other)


if __name__ == "__main__":
    main()
