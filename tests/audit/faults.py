"""Faults that are planted in learners of any class: each changes one that was just made."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tests.descriptions import changed, number

from dpoco import Plan
from dpoco.audit._family import Learner, Make
from dpoco.random import Source

Fault = Callable[[Any, Any], None]  # of a learner, and the source that it was made with


def planted(make: Make, fault: Fault) -> Make:
    """Return a maker of learners with a fault."""

    def liar(source: Source) -> Learner:
        learner = make(source)
        fault(learner, source)
        return learner

    return liar


def shown(**factors: float) -> Fault:
    """Return: the learner shows other numbers than its engine was built from."""

    def fault(learner: Any, _: Any) -> None:
        plan = learner._plan
        learner._plan = changed(plan, **{key: f * number(plan, key) for key, f in factors.items()})
        learner._mechanism = learner._plan.mechanism

    return fault


def rebuilt(change: Callable[[Plan], Plan], *, seen: bool = False) -> Fault:
    """Return: the engine has another plan than the claim; with `seen`, the learner shows it."""

    def fault(learner: Any, source: Any) -> None:
        honest = learner._plan, learner._mechanism
        learner._plan = change(honest[0])
        learner._mechanism = learner._plan.mechanism
        learner._engine = learner._build_engine({"key": source._key, "stream": 1})
        if not seen:
            learner._plan, learner._mechanism = honest

    return fault


def other_engine(make: Make) -> Fault:
    """Return: the engine is that of another learner."""

    def fault(learner: Any, source: Any) -> None:
        learner._engine = make(source)._engine

    return fault


def derived(kind: Callable[[type], type]) -> Fault:
    """Return: the learner is one of a class that is made of its own."""
    made = functools.cache(kind)

    def fault(learner: Any, _: Any) -> None:
        learner.__class__ = made(type(learner))

    return fault


def counting(choose: Callable[[Any], bool]) -> Fault:
    """Return: one variate more is drawn for the records that `choose` picks."""

    def fault(learner: Any, _: Any) -> None:
        learner._engine = Counting(learner._engine, choose)

    return fault


class Counting:
    """An engine that draws one variate more for some records."""

    def __init__(self, engine: Any, choose: Callable[[Any], bool]) -> None:
        self._inner, self._choose, self._more = engine, choose, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("observe", "observe_gradient", "select", "test"):
            return found

        def heard(*arguments: Any) -> Any:
            record = arguments[0 if name in ("select", "test") else 1]
            self._more += int(self._choose(record))
            return found(*arguments)

        return heard

    def variates_drawn(self) -> list[int]:
        first, *rest = self._inner.variates_drawn()
        return [first + self._more, *rest]
