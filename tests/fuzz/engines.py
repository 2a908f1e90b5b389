"""Compiled methods with wrong arrays: whatever is raised, memory stays safe.

The Python layer checks arguments first, so any exception will do here.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.mutations import odd, odd_array, require
from tests.fuzz.subjects import ONLINE, SERVERS, Online, snapshots

__all__ = ["subjects"]

_KEPT_OUT = ("restore",)  # an object that failed to restore is dropped by whoever restores
_SIZES = (0, 1, 2, 3, 4, 5, 8, 24)
_ARGUMENT = re.compile(r"(\w+): ([^,()\[\]]*(?:\[[^()]*?\])?)(?=, \w+:|\))")


def subjects() -> dict[str, Callable[[random.Random], None]]:
    """Return a function for each engine."""
    return {name: functools.partial(_one, online) for name, online in ONLINE.items()} | {
        name: functools.partial(_one_rule, name)
        for name in SERVERS
        if name.startswith("DistributionLearner")
    }


def _one(online: Online, rng: random.Random) -> None:
    _poke(online.kind._from_bytes(rng.choice(online.states))._engine, rng)


def _one_rule(name: str, rng: random.Random) -> None:
    from dpoco.local import DistributionLearner

    rule = DistributionLearner._from_bytes(snapshots(name)[0])._rule
    for value in vars(rule).values():
        if type(value).__module__ == "dpoco._core":
            _poke(value, rng)


def _poke(engine: Any, rng: random.Random) -> None:
    names = [name for name in dir(engine) if not name.startswith("_") and name not in _KEPT_OUT]
    for _ in range(6):
        try:
            method = getattr(engine, rng.choice(names))
            if callable(method):
                method(*(_value(rng, kind) for kind in _kinds(method.__doc__ or "")))
        except Exception as error:  # MemoryError, too: who asks for 2^40 entries is told so
            require(not isinstance(error, SystemError), "an error without an exception")
    if hasattr(engine, "state"):
        engine.state()


@functools.cache
def _kinds(text: str) -> tuple[str, ...]:
    """Return the types of a compiled method's arguments, from its signature."""
    head = text.split("->")[0]
    return tuple(kind for name, kind in _ARGUMENT.findall(head) if name != "self")


def _value(rng: random.Random, kind: str) -> Any:
    if "NDArray" in kind or (kind == "object" and rng.random() < 0.7):
        shape = tuple(rng.choice(_SIZES) for _ in range(rng.choice((1, 1, 2, 2, 3))))
        dtype = re.search(r"float64|u?int\d+", kind)
        array = np.zeros(shape, dtype=dtype[0] if dtype else "float64")
        if rng.random() < 0.5:
            array += rng.choice((0, 1, 2))
        return odd_array(rng, array) if rng.random() < 0.3 else array
    if "SupportsFloat" in kind:
        return rng.choice((0.0, 0.5, 1.0, -1.0, float("nan"), float("inf"), 1e300, "x"))
    if "SupportsInt" in kind:
        return rng.choice((0, 1, 2, 3, 5, 12, 23, 24, 2**64 - 1, -1, None))
    if kind == "object":
        return None
    return odd(rng, 1)
