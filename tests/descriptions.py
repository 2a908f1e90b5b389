"""Descriptions as no planner makes them, for tests of what engines refuse by themselves."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def unchecked(description: Any, **changes: Any) -> Any:
    """Return a description with other fields or properties, checked by nobody."""
    names = {each.name for each in fields(description)}
    derived = {name: changes[name] for name in changes if name not in names}
    kind = type(type(description).__name__, (type(description),), derived)
    made = object.__new__(kind)
    for name in names:
        object.__setattr__(made, name, changes.get(name, getattr(description, name)))
    return made
