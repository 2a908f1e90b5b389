"""JSON with one meaning: repeated names and texts that are not JSON are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from dpoco.errors import StateError


def plain_float(value: float) -> float | str:
    """Return a finite number as a Python float, and an infinite one as text, for JSON."""
    return float(value) if math.isfinite(value) else repr(float(value))


def plain(value: object) -> Any:
    """Return a JSON-able value: sequences become lists, infinite floats become texts."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return plain_float(value) if isinstance(value, float) else value


def of_json(text: str | bytes, parse_int: Callable[[str], float] = int) -> Any:
    """Return the value of a JSON text; `StateError` if it is not JSON or repeats a name."""
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_constant=_refuse, parse_int=parse_int
        )
    except (ValueError, RecursionError) as error:
        raise StateError("not a JSON text") from error


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object, or raise if it repeats a name: parsers may keep either value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refuse(constant: str) -> NoReturn:
    """Raise for NaN and infinities, which Python's parser would accept."""
    raise ValueError(f"{constant} is not JSON")


def read_record(
    record: Mapping[str, Any], *, kind: str, version: int, fields: frozenset[str]
) -> dict[str, Any]:
    """Return the fields of a record written by ``to_dict``.

    Raises
    ------
    StateError
        If the record is of another kind or version, or has missing or unknown fields.
    """
    if not isinstance(record, Mapping):
        raise StateError(f"a {kind} record must be a mapping; got {type(record).__name__}")
    if record.get("kind") != kind:
        raise StateError(f"not a {kind} record")
    # True == 1 and 1.0 == 1, but neither was written.
    if record.get("version") != version or type(record["version"]) is not int:
        raise StateError(f"a {kind} record of version {version} is needed")
    body = {key: value for key, value in record.items() if key not in ("kind", "version")}
    missing, unknown = fields - body.keys(), body.keys() - fields
    if missing or unknown:
        raise StateError(f"{kind} record: {len(missing)} fields missing, {len(unknown)} unknown")
    return body


def check_types(body: Mapping[str, Any], types: Mapping[str, tuple[type, ...]]) -> None:
    """Raise `StateError` unless each named field has exactly one of its types."""
    for name, allowed in types.items():
        # Types are compared exactly: a bool is an int in Python.
        if type(body[name]) not in allowed:
            raise StateError(f"malformed record: {name} is of another type")
