"""Bugs around the noise: states, horizons, copies, messages, ledgers."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.errors import HorizonExceeded
from dpoco.learning.state import Stateful
from dpoco.mechanisms import ContinualSum
from dpoco.random import Source

from .checks import contract
from .kit import Bug, Patch, maker, other
from .protocol import charged_first

T = 8
SUM = maker(ContinualSum, 3, horizon=T, budget=dpoco.Budget(1.0, 1e-6), method="tree", bound=1.0)
ROW = np.array([0.6, 0.0, 0.0])


def as_it_is(subject: Any) -> Any:
    """Plant: the patch alone."""
    return subject


def the_sum(rule: str) -> Any:
    """A sum that keeps a rule of the contract."""
    options = {"budget": dpoco.Budget(1.0, 1e-6), "method": "blt", "bound": 1.0}
    return SimpleNamespace(kind=ContinualSum, options=options, rule=rule)


def the_wall() -> Any:
    return the_sum("horizons_are_walls")


def under(rule: str, name: str, plant: Any, patch: Patch | None = None) -> Bug:
    """Return a bug that a rule of the contract notices."""
    return Bug(name, functools.partial(the_sum, rule), plant, (contract,), patch)


def of_kind(kind: Any) -> Any:
    return lambda subject: other(subject, kind=kind)


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


def restored_with(change: Any) -> Any:
    """Patch: what is read from a state has other words in its engine."""

    def patched(right: Any) -> Any:
        def read(cls: Any, data: bytes) -> Any:
            learner = right(data)
            words = np.frombuffer(learner._engine.state(), dtype="<u8").copy()
            change(words)
            learner._engine.restore(words.tobytes())
            return learner

        return classmethod(read)

    return Patch(ContinualSum, "_from_bytes", patched)


def take_a_new_key(words: Any) -> None:
    words[-11:-7] = np.random.default_rng(4).integers(2**63, size=4)


def begin_the_stream_again(words: Any) -> None:
    words[-6:] = 0


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
        return f"{super().__repr__()}, total={self.total}"


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
    under("horizons_are_walls", "clamped-horizon", of_kind(Clamped)),
    under("horizons_are_walls", "one-round-too-many", of_kind(OneMore)),
    under(
        "saved_states_go_on", "restart-with-a-fresh-key", as_it_is, restored_with(take_a_new_key)
    ),
    under(
        "saved_states_go_on", "restart-without-a-counter", as_it_is,
        restored_with(begin_the_stream_again),
    ),
    under(
        "pickles_wait_for_resume", "unpickled-copies-go-on", as_it_is,
        Patch(Stateful, "_check_active", lambda right: lambda self: None),
    ),
    under(
        "copies_share_no_noise", "deep-copies-share-noise", as_it_is,
        Patch(Stateful, "__deepcopy__", copied_with_noise),
    ),
    under(
        "copies_share_no_noise", "clones-share-noise", as_it_is,
        Patch(Stateful, "clone", cloned_with_noise),
    ),
    under("malformed_records_are_refused", "exception-with-data", of_kind(Talkative)),
    under("missing_values_are_silent", "exception-for-data", of_kind(Strict)),
    under("reports_show_no_data", "repr-with-data", of_kind(Showing)),
    Bug(
        "ledger-that-charges-afterwards", the_ledger, as_it_is, (charged_first,),
        Patch(Ledger, "open", handed_out_first),
    ),
]  # fmt: skip
