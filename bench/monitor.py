"""What a monitor costs: records a second, a live `add`, a release, and memory.

``python bench/monitor.py [--records 2000000] [--repeats 15]`` prints processor time, the least of
several repetitions, which a busy machine disturbs least; and in the same run an empty method of
Python, a bare call of compiled code, and the noise of as many cells.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import dpoco
from dpoco.statistics import Categories, Count, Histogram, Last, Mean, Monitor

BUDGET = dpoco.Budget(1.0, 1e-6)
STATISTICS = {
    "n": Count(),
    "x": Mean(0.0, 1.0),
    "h": Histogram(tuple(np.linspace(0.0, 1.0, 19)), column="x"),
}


def make(statistics=None, every=None, **options):
    """Return a monitor of 8,760 intervals."""
    own = {"releases": 8760, "budget": BUDGET, **options}
    return Monitor(statistics or STATISTICS, every=every, **own)


def least(function, repeats):
    """Return the least processor time of a call, seconds."""
    times = []
    gc.collect()
    gc.disable()
    for _ in range(repeats):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    gc.enable()
    return min(times)


def measure_arrays(records, repeats):
    """Print records a second from arrays, without people and with."""
    rng = np.random.default_rng(1)
    values = rng.random(records)
    alone = make()
    seconds = least(lambda: alone.add_many({"x": values}), repeats)
    print(f"arrays, count + mean + 20 bins: {records / seconds / 1e6:.1f} million records a second")
    rule = dpoco.Participation(10, separation=2)
    people = make(
        by={"g": list(range(9))}, participation=rule, records_per_interval=2000, releases=200
    )
    groups, names = rng.integers(0, 10, records), rng.integers(0, records // 10, records)
    table = {"x": values, "g": groups}
    seconds = least(lambda: people.add_many(table, person=names), repeats)
    print(f"  with people, in 10 groups: {records / seconds / 1e6:.1f} million records a second")


class Empty:
    """A method that does nothing, with the arguments of `Monitor.add`."""

    def add(self, record, *, time=None, person=None):
        """Return what `add` mostly does."""
        return []


def measure_calls(repeats):
    """Print the time of a live record, and what calls cost here."""
    calls, record, now = 3000, {"x": 0.3}, datetime.datetime(2026, 1, 1, 0, 30)

    def each(method, *arguments, **named):
        def loop():
            for _ in range(calls):
                method(*arguments, **named)

        return 1e6 * least(loop, 10 * repeats) / calls

    plain, timed = make(), make(every="1h", start="2026-01-01")
    timed.add(record, time=now)
    grouped = make(by={"g": ["u", "v"]})
    people = make(participation=dpoco.Participation(10, separation=2), records_per_interval=20)
    print(
        f"live add: {each(plain.add, record):.2f} us; timed {each(timed.add, record, time=now):.2f}"
    )
    print(f"  grouped {each(grouped.add, {'x': 0.3, 'g': 'v'}):.2f} us")
    print(f"  of a person {each(people.add, record, person='one'):.2f} us")
    print(f"  an empty method of Python: {each(Empty().add, record):.2f} us")
    print(f"  a bare call of compiled code: {each(plain._engine.check_process):.2f} us")


def measure_release(repeats):
    """Print what a release of 10^4 cells costs, in units of its noise."""
    for views in (["interval"], ["total"], ["interval", "total", Last(24)]):
        monitor = make({"c": Categories([f"v{i}" for i in range(9_999)])}, views=views)
        size = monitor._mechanism.summand.size
        push = partial(monitor._engine.push, np.zeros(size))
        # Alternating blocks of calls, so that both meet the same machine.
        blocks = [(least(monitor.release, 40), least(push, 40)) for _ in range(repeats)]
        whole, noise = (min(each) for each in zip(*blocks, strict=True))
        kind = monitor.plan().total.factorisation.kind
        print(f"release of {size:,} cells, {len(views)} views ({kind}): {1e3 * whole:.2f} ms, "
              f"{whole / noise:.2f} times its noise")  # fmt: skip


def measure_memory():
    """Print the size of the state after few and after many intervals."""
    monitor, sizes = make(views=["interval", Last(24)]), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        for intervals in (30, 3000):
            while monitor.round < intervals:
                monitor.release()
            monitor.save(path)
            sizes.append(path.stat().st_size)
    print(f"state after 30 and 3,000 intervals: {sizes[0]:,} and {sizes[1]:,} bytes")


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    measure_arrays(options.records, options.repeats)
    measure_calls(options.repeats)
    measure_release(options.repeats)
    measure_memory()


if __name__ == "__main__":
    main()
