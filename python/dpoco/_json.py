"""JSON that says one thing: what is there twice, or is no JSON, is refused."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from dpoco.errors import StateError

Record = dict[str, Any]  # what an object of JSON becomes


def plain_float(value: float) -> float | str:
    """Return a finite float, of Python, and an infinite one as text, which JSON can carry."""
    return float(value) if math.isfinite(value) else repr(float(value))


def plain(value: Any) -> Any:
    """Return a value as JSON can carry it: sequences as lists, infinite floats as text."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return plain_float(value) if isinstance(value, float) else value


def of_json(text: str | bytes) -> Any:
    """Return what a JSON text holds; `StateError` if it is none, or if a name is there twice."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise StateError("not a JSON text") from error


def _once(pairs: list[tuple[str, Any]]) -> Record:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
