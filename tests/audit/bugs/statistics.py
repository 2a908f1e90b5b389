"""Bugs in statistics of intervals: records that count twice, and the noise of totals."""

from __future__ import annotations

import functools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import dpoco
from dpoco.audit._family import renew
from dpoco.statistics import Count, Mean, Monitor

from .checks import likelihood, replay
from .kit import Bug, other

T, RECORDS = 6, 3
RULE = dpoco.Participation(2, separation=2, enforced=False)


@functools.cache
def honest() -> Monitor:
    return Monitor(
        {"n": Count(), "x": Mean(-1.0, 1.0)}, every=None, releases=T, views=["total"],
        budget=dpoco.Budget(1.0, 1e-3), participation=RULE, records_per_interval=RECORDS,
        by={"group": range(20)},
    )  # fmt: skip


def make(source: Any) -> Any:
    return renew(honest(), source)


@functools.cache
def the_monitor() -> Any:
    stream = np.zeros((T, RECORDS, 3))  # whether there is a record, its number and its group
    stream[[0, 2]] = [1.0, 1.0, 3.0]  # a person's intervals
    # As few runs as an audit takes: each has hundreds of variates.
    neighbour = 0.0 * stream
    return SimpleNamespace(
        make=make, stream=stream, neighbour=neighbour, pairs=[(0, neighbour[0])], trials=136
    )


class Twice(Monitor):
    """Counts every record in the interval that it came in, and once more."""

    def add(self, record: Any, **options: Any) -> Any:
        super().add(record, **options)
        return super().add(record, **options)


def counted_twice(subject: Any) -> Any:
    def wrong(source: Any) -> Any:
        monitor = make(source)
        monitor.__class__ = Twice
        return monitor

    return other(subject, make=wrong)


def with_noise(share: float) -> Any:
    def wrong(source: Any) -> Any:
        monitor = make(source)
        total = monitor._mechanism
        monitor._mechanism = replace(total, scale=share * total.scale)
        monitor._build(source._claim())
        monitor._mechanism = total
        return monitor

    return lambda subject: other(subject, make=wrong)


BUGS = [
    Bug("record-counted-twice", the_monitor, counted_twice, (replay,)),
    Bug("eight-tenths-of-the-noise", the_monitor, with_noise(0.8), (likelihood,)),
]
