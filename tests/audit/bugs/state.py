"""Bugs around the noise: states, horizons, copies, messages, ledgers."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.errors import HorizonExceeded
from dpoco.learning.state import Stateful
from dpoco.mechanisms import ContinualSum
from dpoco.random import Source

from .kit import Bug, Patch, maker, other
from .protocol import charged_first, copies, horizon, messages, once, resume

T = 8
SUM = maker(ContinualSum, 3, horizon=T, budget=dpoco.Budget(1.0, 1e-6), method="tree", bound=1.0)
ROW = np.array([0.6, 0.0, 0.0])


def as_it_is(subject: Any) -> Any:
    """Plant: the patch alone."""
    return subject


@functools.cache
def the_sum() -> Any:
    def start() -> Any:
        p = SUM.honest().plan
        return ContinualSum(3, horizon=T, budget=None, plan=p, source=Source.seeded(3), bound=1.0)

    def reloaded(learner: Any) -> Any:
        return loaded(saved(learner))

    def saved(learner: Any) -> Any:
        return learner._to_bytes()

    def loaded(data: Any) -> Any:
        return ContinualSum._from_bytes(data)

    def odd_values(canary: float) -> list[Any]:
        return [
            np.full(3, canary), np.full(4, canary), canary, [canary, math.nan, 0.0],
            np.array([canary, math.inf, 1.0]), [canary, 1j, 0.0], [[canary] * 3], [str(canary)] * 3,
        ]  # fmt: skip

    def allowed(value: Any) -> bool:
        return np.shape(value) == (3,) and np.asarray(value).dtype == np.float64

    return SimpleNamespace(
        start=start, step=lambda learner: learner.push(ROW), rounds=T, restored=reloaded,
        saved=saved, loaded=loaded, odd_values=odd_values, allowed=allowed,
        give=lambda learner, value: learner.push(value),
    )  # fmt: skip


def of_kind(kind: Any) -> Any:
    def plant(subject: Any) -> Any:
        return other(subject, start=lambda: SUM(Source.seeded(3), kind))

    return plant


# ---- horizons ------------------------------------------------------------------------------------


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


class OneMore(ContinualSum):
    """Builds an engine for a round more than was accounted for."""

    def _build_engine(self, claim: dict[str, Any]) -> Any:
        from dataclasses import replace

        honest = self._mechanism
        self._mechanism = replace(honest, pushes=honest.pushes + 1)
        try:
            return super()._build_engine(claim)
        finally:
            self._mechanism = honest


# ---- restarts ------------------------------------------------------------------------------------


def with_fresh_key(subject: Any) -> Any:
    """Plant: the state holds sums, and a restart takes a new key."""

    def restored(learner: Any) -> Any:
        sums = np.frombuffer(learner._engine.state(), dtype="<u8").copy()
        fresh = ContinualSum._from_bytes(learner._to_bytes())
        words = np.frombuffer(fresh._engine.state(), dtype="<u8").copy()
        assert np.array_equal(sums, words)
        words[-11:-7] = np.random.default_rng(4).integers(2**63, size=4)  # the key
        fresh._engine.restore(words.tobytes())
        return fresh

    return other(subject, restored=restored, loaded=lambda data: restored(subject.loaded(data)))


def without_position(subject: Any) -> Any:
    """Plant: a restart knows the sum, and begins its stream again."""

    def restored(learner: Any) -> Any:
        fresh, total = subject.start(), learner.round * ROW
        return SimpleNamespace(push=lambda value: fresh.push(value) + total)

    return other(subject, restored=restored)


def copied_with_noise(right: Any) -> Any:
    def wrong(self: Any, memo: Any = None) -> Any:
        return type(self)._from_bytes(self._to_bytes())

    return wrong


def cloned_with_noise(right: Any) -> Any:
    def wrong(self: Any) -> Any:
        arguments = dict(self._arguments)
        if self._is_seeded:
            arguments["source"] = Source.seeded(3)
        return type(self)(**arguments)

    return wrong


# ---- messages and ledgers ------------------------------------------------------------------------


class Talkative(ContinualSum):
    """Says what it was given."""

    def push(self, value: Any) -> Any:
        try:
            return super().push(value)
        except (TypeError, ValueError):
            raise ValueError(f"cannot add {value!r}") from None


class Strict(ContinualSum):
    """Refuses records that are not finite, which tells that there was one."""

    def push(self, value: Any) -> Any:
        if not np.isfinite(np.asarray(value, dtype=float)).all():
            raise ValueError("value must be finite")
        return super().push(value)


class Showing(ContinualSum):
    """Shows the sum, without noise, to whoever prints it."""

    total: Any = 0.0

    def push(self, value: Any) -> Any:
        if np.shape(value) == (3,):
            self.total = self.total + np.nan_to_num(np.asarray(value, dtype=float))
        return super().push(value)

    def __repr__(self) -> str:
        return f"ContinualSum(total={self.total})"


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
    Bug("clamped-horizon", the_sum, of_kind(Clamped), (horizon,)),
    Bug("one-round-too-many", the_sum, of_kind(OneMore), (horizon,)),
    Bug("restart-with-a-fresh-key", the_sum, with_fresh_key, (resume, once)),
    Bug("restart-without-a-counter", the_sum, without_position, (resume,)),
    Bug(
        "unpickled-copies-go-on", the_sum, as_it_is, (copies,),
        Patch(Stateful, "_check_active", lambda right: lambda self: None),
    ),
    Bug(
        "deep-copies-share-noise", the_sum, as_it_is, (copies,),
        Patch(Stateful, "__deepcopy__", copied_with_noise),
    ),
    Bug(
        "clones-share-noise", the_sum, as_it_is, (copies,),
        Patch(Stateful, "clone", cloned_with_noise),
    ),
    Bug("exception-with-data", the_sum, of_kind(Talkative), (messages,)),
    Bug("exception-for-data", the_sum, of_kind(Strict), (messages,)),
    Bug("repr-with-data", the_sum, of_kind(Showing), (messages,)),
    Bug(
        "ledger-that-charges-afterwards", the_ledger, as_it_is, (charged_first,),
        Patch(Ledger, "open", handed_out_first),
    ),
]  # fmt: skip
