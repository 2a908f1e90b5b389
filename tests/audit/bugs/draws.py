"""Bugs in where draws come from: seeds, streams, samplers."""

from __future__ import annotations

import functools
import secrets
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

import dpoco
from dpoco.published.sima_local import _below
from dpoco.random import Source
from dpoco.samplers import truncated_gaussian

from .checks import law
from .kit import Bug, Patch, other
from .protocol import keys, streams
from .state import ROW, SUM, as_it_is

# ---- keys and streams ----------------------------------------------------------------------------


@functools.cache
def the_keys() -> Any:
    return SimpleNamespace(key=lambda: Source()._claim()["key"])


def clock(right: Any) -> Any:
    return lambda size: int(time.time() // 3600).to_bytes(size, "little")


def constant(right: Any) -> Any:
    return lambda size: (42).to_bytes(size, "little")


def short(right: Any) -> Any:
    return lambda size: (int.from_bytes(right(4), "little") >> 1).to_bytes(size, "little")


def two_sums() -> list[Any]:
    source = Source.seeded(1)
    return [SUM(source).push(ROW) for _ in range(2)]


@functools.cache
def the_shared_source() -> Any:
    return SimpleNamespace(noises=two_sums)


@functools.cache
def the_children() -> Any:
    def noises() -> list[Any]:
        root = Source.seeded(1)
        children = [root.spawn() for _ in range(3)]
        return [each.uniform(8) for each in (root, *children)]

    return SimpleNamespace(noises=noises)


@functools.cache
def the_arms() -> Any:
    """A bandit written out: a sum an arm, all on one source."""

    def noises() -> list[Any]:
        source = Source.seeded(2)
        return [SUM(source).push(np.zeros(3)) for _ in range(3)]

    return SimpleNamespace(noises=noises)


def one_seed_for_all(subject: Any) -> Any:
    return other(
        subject, noises=lambda: [SUM(Source.seeded(2)).push(np.zeros(3)) for _ in range(3)]
    )


def same_stream(right: Any) -> Any:
    return lambda self: {**right(self), "stream": 1}


def same_key(right: Any) -> Any:
    return lambda self: Source._from_key(self._key, seeded=self._is_seeded)


# ---- draws ---------------------------------------------------------------------------------------


@functools.cache
def the_truncated() -> Any:
    """Half of the mass of the Gaussian is beyond the wall."""
    from scipy.special import ndtr

    def draw() -> Any:
        box = dpoco.domains.Box([0.0], [2.0])
        return truncated_gaussian(box, [0.0], 1.0, 20_000, Source.seeded(5))

    return SimpleNamespace(draw=draw, cdf=lambda x: (ndtr(x) - 0.5) / (ndtr(2.0) - 0.5))


def clamped(subject: Any) -> Any:
    def draw() -> Any:
        return np.clip(dpoco.noise.gaussian(Source.seeded(5), 20_000), 0.0, 2.0)

    return other(subject, draw=draw)


@functools.cache
def the_laplace() -> Any:
    def draw() -> Any:
        return dpoco.noise.laplace(Source.seeded(6), 20_000)

    def cdf(x: Any) -> Any:
        tail = 0.5 * np.exp(-np.abs(x))
        return np.where(x < 0.0, tail, 1.0 - tail)

    return SimpleNamespace(draw=draw, cdf=cdf)


def one_sided(subject: Any) -> Any:
    return other(subject, draw=lambda: np.abs(subject.draw()))


@functools.cache
def the_choice() -> Any:
    """A uniform choice among 3 * 2^62 places, as local devices make it."""
    n = 3 * 2**62

    def draw() -> Any:
        source = Source.seeded(7)
        return np.array([_below(n, source) / n for _ in range(4000)])

    return SimpleNamespace(n=n, draw=draw, cdf=lambda x: np.clip(x, 0.0, 1.0))


def modulo(subject: Any) -> Any:
    def draw() -> Any:
        return (Source.seeded(7).words(20_000) % np.uint64(subject.n)).astype(float) / subject.n

    return other(subject, draw=draw)


BUGS = [
    Bug("clock-seed", the_keys, as_it_is, (keys,), Patch(secrets, "token_bytes", clock)),
    Bug("constant-seed", the_keys, as_it_is, (keys,), Patch(secrets, "token_bytes", constant)),
    Bug("key-of-31-bits", the_keys, as_it_is, (keys,), Patch(secrets, "token_bytes", short)),
    Bug(
        "two-learners-on-one-stream", the_shared_source, as_it_is, (streams,),
        Patch(Source, "_claim", same_stream),
    ),
    Bug(
        "children-with-the-key-of-their-parent", the_children, as_it_is, (streams,),
        Patch(Source, "spawn", same_key),
    ),
    Bug("noise-shared-by-arms", the_arms, one_seed_for_all, (streams,)),
    Bug("clamped-instead-of-truncated", the_truncated, clamped, (law,)),
    Bug("one-sided-noise", the_laplace, one_sided, (law,)),
    Bug("modulo-bias", the_choice, modulo, (law,)),
]  # fmt: skip
