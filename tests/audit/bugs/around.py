"""Bugs around the noise: keys, choices, horizons, counts, ledgers."""

from __future__ import annotations

import functools
import math
import secrets
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

import dpoco
from dpoco.accounting import gaussian
from dpoco.accounting.ledger import Ledger
from dpoco.errors import HorizonExceeded
from dpoco.mechanisms import ContinualSum
from dpoco.published.sima_local import _below
from dpoco.random import Source

from .checks import closed_form, contract, law
from .kit import Bug, Patch, other
from .protocol import charged_first, keys


def as_it_is(subject: Any) -> Any:
    """Plant: the patch alone."""
    return subject


# ---- keys and choices ----------------------------------------------------------------------------


@functools.cache
def the_keys() -> Any:
    return SimpleNamespace(key=lambda: Source()._claim()["key"])


def clock(right: Any) -> Any:
    return lambda size: int(time.time() // 3600).to_bytes(size, "little")


def constant(right: Any) -> Any:
    return lambda size: (42).to_bytes(size, "little")


def short(right: Any) -> Any:
    return lambda size: (int.from_bytes(right(4), "little") >> 1).to_bytes(size, "little")


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


# ---- horizons, counts, ledgers -------------------------------------------------------------------


@functools.cache
def the_wall() -> Any:
    options = {"budget": dpoco.Budget(1.0, 1e-6), "method": "blt", "bound": 1.0}
    return SimpleNamespace(kind=ContinualSum, options=options, rule="horizons_are_walls")


class Clamped(ContinualSum):
    """Runs on past the horizon with the noise of the last round."""

    last: Any = None
    beyond: Any = 0.0

    def push(self, value: Any) -> Any:
        try:
            self.last = super().push(value)
            return self.last
        except HorizonExceeded:
            self.beyond = self.beyond + np.asarray(value)
            return self.last + self.beyond


MU = 0.7


@functools.cache
def the_releases() -> Any:
    """Three Gaussian releases."""
    return SimpleNamespace(
        claim=lambda e: gaussian.gaussian_delta(e, gaussian.compose_gdp([MU] * 3)),
        closed_form=lambda e: gaussian.gaussian_delta(e, MU * math.sqrt(3.0)),
        epsilons=(0.5, 2.0, 4.0),
    )


@functools.cache
def the_ledger() -> Any:
    """Whether three learners are handed out, of which each would use up the budget."""

    def drawn() -> bool:
        ledger, source = Ledger(dpoco.Budget(1.0, 1e-6)), Source.seeded(1)
        try:
            for name in ("first", "second", "third"):
                ledger.open(lambda budget: budgeted(budget, source), name).push([1.0, 0.0])
        except dpoco.BudgetExceeded:
            return False
        return True

    return SimpleNamespace(drawn_beyond_budget=drawn)


def budgeted(budget: Any, source: Any) -> Any:
    return ContinualSum(2, horizon=9, budget=budget, method="tree", source=source, bound=1.0)


def handed_out_first(right: Any) -> Any:
    """A ledger that leaves the charge to those who have released something."""
    return lambda self, make, label, **options: make(self.budget)


BUGS = [
    Bug("clock-seed", the_keys, as_it_is, (keys,), Patch(secrets, "token_bytes", clock)),
    Bug("constant-seed", the_keys, as_it_is, (keys,), Patch(secrets, "token_bytes", constant)),
    Bug("key-of-31-bits", the_keys, as_it_is, (keys,), Patch(secrets, "token_bytes", short)),
    Bug("modulo-bias", the_choice, modulo, (law,)),
    Bug("clamped-horizon", the_wall, lambda subject: other(subject, kind=Clamped), (contract,)),
    Bug(
        "one-release-too-few", the_releases, as_it_is, (closed_form,),
        Patch(gaussian, "compose_gdp", lambda right: lambda mus: right(list(mus)[1:])),
    ),
    Bug(
        "ledger-that-charges-afterwards", the_ledger, as_it_is, (charged_first,),
        Patch(Ledger, "open", handed_out_first),
    ),
]  # fmt: skip
