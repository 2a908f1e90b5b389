"""What enforcing a participation costs: time a round next to the same run without, and memory.

Usage: python bench/people.py [--people N] [--rounds T] [--repeats R]
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

import dpoco
from dpoco.learning.participation import Limiter, Participation


def seconds(learner, *records, **more) -> float:
    start = time.process_time()
    learner.run(*records, record_decisions=True, **more)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", type=int, default=10**7)
    parser.add_argument("--rounds", type=int, default=10**6)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    rule = Participation(rounds=10, separation=100, max_persons=max(given.people, 10**7))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    limiter = Limiter(rule, 10**12)
    for start in range(0, given.people, 10**5):
        part = np.arange(start, min(start + 10**5, given.people))
        limiter.admit(start, limiter.digests(part, len(part)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{given.people:,} people: {grown / 1024:.0f} MB")

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(given.rounds, 10)) / 10.0
    names = rng.integers(0, given.people, given.rounds)
    domain = dpoco.domains.LpBall(dimension=10, p=2.0, radius=1.0)
    loss = dpoco.losses.LinearLoss(gradient_bound=1.0)
    plain = dpoco.oco.NoisyFTRL(domain, loss, horizon=given.rounds, budget=dpoco.Budget(4.0, 1e-8))
    with_people = dpoco.oco.NoisyFTRL(
        domain, loss, horizon=given.rounds, budget=None,
        plan=plain.plan, participation=rule,
    )  # fmt: skip
    best = {"plain": np.inf, "people": np.inf}
    for _ in range(given.repeats):  # interleaved
        best["plain"] = min(best["plain"], seconds(plain.clone(), rows))
        best["people"] = min(best["people"], seconds(with_people.clone(), rows, persons=names))
    extra = (best["people"] - best["plain"]) / given.rounds * 1e9
    print(f"a round: {extra:.0f} ns beyond {best['plain'] / given.rounds * 1e9:.0f} ns")


if __name__ == "__main__":
    main()
