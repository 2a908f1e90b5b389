"""Descriptions as no planner makes them, for tests of what engines refuse by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from dpoco import _core
from dpoco.privacy.records import Description


def unchecked(description: Any, **changes: Any) -> Any:
    """Return a description with other fields or properties, checked by nobody."""
    names = {each.name for each in fields(description)}
    derived = {name: changes[name] for name in changes if name not in names}
    kind = type(type(description).__name__, (type(description),), derived)
    made = object.__new__(kind)
    for name in names:
        object.__setattr__(made, name, changes.get(name, getattr(description, name)))
    return made


def parts(description: Any) -> Iterator[Any]:
    """Yield a description and all inside it."""
    if isinstance(description, tuple):
        for each in description:
            yield from parts(each)
    if isinstance(description, Description):
        yield description
        for each in fields(description):
            yield from parts(getattr(description, each.name))


def number(plan: Any, name: str) -> Any:
    """Return what a plan calls `name`: in its mechanism, or else in its tuning."""
    for part in (*parts(plan.mechanism), *parts(plan.tuning)):
        if name in {each.name for each in fields(part)}:
            return getattr(part, name)
    raise KeyError(name)


def changed(plan: Any, **changes: Any) -> Any:
    """Return a plan with other values of what it calls so: in its mechanism, or else its tuning."""

    def put(value: Any, names: set[str]) -> Any:
        if isinstance(value, tuple):
            return tuple(put(each, names) for each in value)
        if not isinstance(value, Description):
            return value
        known = {each.name for each in fields(value)}
        own = {name: changes[name] for name in known & names}
        inner = {name: put(getattr(value, name), names) for name in known - set(own)}
        left.difference_update(own)
        return replace(value, **inner, **own)

    left = set(changes)
    mechanism = put(plan.mechanism, set(changes))
    made = replace(plan, mechanism=mechanism, tuning=put(plan.tuning, set(left)))
    if left:
        raise KeyError(*left)
    return made


def tuned(plan: Any, **changes: Any) -> Any:
    """Return a plan with other values in its tuning only."""
    return replace(plan, tuning=replace(plan.tuning, **changes))


class ToldError(Exception):
    """Carries what an engine would be built from now."""


def told(monkeypatch: pytest.MonkeyPatch, engine: str, make: Callable[[], Any]) -> tuple[Any, ...]:
    """Return what a compiled class is built from, without building it."""

    def stop(*arguments: Any) -> None:
        raise ToldError(arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_core, engine, stop)
        with pytest.raises(ToldError) as caught:
            make()
    arguments: tuple[Any, ...] = caught.value.args[0]
    return arguments
