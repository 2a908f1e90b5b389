"""Bugs of devices and randomizers: probabilities, silence."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.local import local_cases as cases
from tests.local.exact import exact_audit

from dpoco.local import (
    LocalClient,
    SubsetRandomizer,
)
from dpoco.random import Source

from .checks import black_box
from .kit import Bug, other
from .protocol import same_size

UNITS = 2**53


def exact_ratio(subject: Any) -> bool:
    """`tests.local.exact.exact_audit`: the largest likelihood ratio, in exact arithmetic."""
    return not exact_audit(subject.randomizer()).passed


@functools.cache
def the_response() -> Any:
    def run(label: Any, count: int, source: Source) -> Any:
        labels = np.full(count, label, dtype=np.int64)
        return SubsetRandomizer(6, 1, 1.0).respond_many(labels, source)[:, 0]

    return SimpleNamespace(
        randomizer=lambda: SubsetRandomizer(6, 1, 1.0), run=run, stream=0, neighbour=1,
        epsilon=1.0, runs=20_000,
    )  # fmt: skip


def binary_probability(subject: Any) -> Any:
    """Plant: e / (e + 1) for the own label, as if there were two labels."""
    truth = math.e / (math.e + 1.0)

    def randomizer() -> Any:
        found = SubsetRandomizer(6, 1, 1.0)
        found.inside = int(truth * UNITS)
        return found

    def run(label: Any, count: int, source: Source) -> Any:
        u, v = source.uniform(count), source.uniform(count)
        others = np.array([y for y in range(6) if y != label])
        return np.where(u <= truth, label, others[np.minimum((5 * v).astype(int), 4)])

    return other(subject, randomizer=randomizer, run=run)


# ---- devices -------------------------------------------------------------------------------------


class Silent(LocalClient):
    """Sends nothing about a label that no hypothesis allows."""

    def respond(self, spec: Any, x: Any = None, y: Any = None) -> Any:
        report = super().respond(spec, x, y)
        return report if y in range(4) else None


def client_subject(kind: Any) -> Any:
    spec = cases.subset_spec(cases.FA, 2, round=1)

    def reports() -> Any:
        labels = (0, 3, None, -1, 4, 10**40, 2.0, "cat", float("nan"))
        devices = [kind(cases.fixed(cases.FA), 1.0, 1, simulation_seed=5) for _ in labels]
        found = (one.respond(spec, None, y) for one, y in zip(devices, labels, strict=True))
        return [None if each is None else each.to_bytes() for each in found]

    return SimpleNamespace(reports=reports)


@functools.cache
def the_client() -> Any:
    return client_subject(LocalClient)


BUGS = [
    Bug(
        "response-with-the-probability-of-two", the_response, binary_probability,
        (exact_ratio, black_box),
    ),
    Bug(
        "printed-silence-about-odd-labels", the_client, lambda _: client_subject(Silent),
        (same_size,),
    ),
]  # fmt: skip
