"""Bugs of devices and randomizers: probabilities, nonces, silence, what is charged."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.local import local_cases as cases
from tests.local.exact import exact_audit
from tests.probes import probes

import dpoco
from dpoco.local import (
    BitRandomizer,
    LocalClient,
    SubsetRandomizer,
)
from dpoco.random import Source

from .checks import black_box
from .kit import Bug, other
from .protocol import charged_first, same_size, streams

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


@functools.cache
def the_bits() -> Any:
    return SimpleNamespace(randomizer=lambda: BitRandomizer(1.0, 3))


def whole_epsilon_each(subject: Any) -> Any:
    def randomizer() -> Any:
        found = BitRandomizer(1.0, 3)
        one = BitRandomizer(1.0, 1)
        found._law, found.low, found.high = one._law, one.low, one.high
        return found

    return other(subject, randomizer=randomizer)


# ---- devices -------------------------------------------------------------------------------------


class Silent(LocalClient):
    """Sends nothing about a label that no hypothesis allows."""

    def respond(self, spec: Any, x: Any = None, y: Any = None) -> Any:
        report = super().respond(spec, x, y)
        return report if y in range(4) else None


class DrawsFirst(LocalClient):
    """Draws the report, and charges then."""

    def respond(self, spec: Any, x: Any = None, y: Any = None) -> Any:
        self._source.words(1)
        return super().respond(spec, x, y)


class SameNoise(LocalClient):
    """Begins its source again for every report."""

    def respond(self, spec: Any, x: Any = None, y: Any = None) -> Any:
        self._source, _ = (Source.seeded(9), None)
        return super().respond(spec, x, y)


class SameNonce(LocalClient):
    """Signs every report with the same nonce."""

    def respond(self, spec: Any, x: Any = None, y: Any = None) -> Any:
        self._nonces = Source.seeded(9)
        return super().respond(spec, x, y)


def device(kind: Any, reports: int = 1) -> Any:
    return kind(cases.fixed(cases.FA), 1.0 * reports, reports, simulation_seed=5)


def client_subject(kind: Any) -> Any:
    def spec(round: int) -> Any:
        return cases.subset_spec(cases.FA, 2, round=round)

    def reports() -> Any:
        labels = (0, 3, None, -1, 4, 10**40, 2.0, "cat", float("nan"))
        found = (device(kind).respond(spec(1), None, label) for label in labels)
        return [None if each is None else each.to_bytes() for each in found]

    def drawn_beyond_budget() -> bool:
        client = device(kind)
        client.respond(spec(1), None, 0)
        before = probes.position(client._source._engine, 0)
        try:
            client.respond(spec(2), None, 1)
        except dpoco.BudgetExceeded:
            return bool(probes.position(client._source._engine, 0) != before)
        return True

    def words() -> Any:
        client = device(kind, 6)
        bits = cases.bit_spec(cases.FA, bits=40, epsilon=1.0)
        return [np.array(client.respond(bits, None, 2).values) for _ in range(6)]

    def nonces() -> Any:
        client = device(kind, 6)
        return [np.frombuffer(client.respond(spec(1), None, 2).nonce, np.uint8) for _ in range(6)]

    return SimpleNamespace(
        reports=reports, drawn_beyond_budget=drawn_beyond_budget, words=words, nonces=nonces
    )


@functools.cache
def the_client() -> Any:
    return client_subject(LocalClient)


@functools.cache
def the_reports() -> Any:
    return other(the_client(), noises=the_client().words)


@functools.cache
def the_nonces() -> Any:
    return other(the_client(), noises=the_client().nonces)


def of_kind(kind: Any, noises: str = "words") -> Any:
    def plant(subject: Any) -> Any:
        found = client_subject(kind)
        return other(found, noises=getattr(found, noises))

    return plant


BUGS = [
    Bug(
        "response-with-the-probability-of-two", the_response, binary_probability,
        (exact_ratio, black_box),
    ),
    Bug("whole-epsilon-for-every-bit", the_bits, whole_epsilon_each, (exact_ratio,)),
    Bug("printed-silence-about-odd-labels", the_client, of_kind(Silent), (same_size,)),
    Bug("device-that-charges-afterwards", the_client, of_kind(DrawsFirst), (charged_first,)),
    Bug("report-noise-reused", the_reports, of_kind(SameNoise), (streams,)),
    Bug("nonce-reused", the_nonces, of_kind(SameNonce, "nonces"), (streams,)),
]  # fmt: skip
