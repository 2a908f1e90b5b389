"""Plain dictionaries for saved values: checked on the way in, exact on the way out."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from dpoco.errors import StateError

# What a record of version 1 means. Its "joint" did not say what changes: the dearer is charged.
_RELATIONS = {
    "replace": {"change": "replace", "view": "everyone"},
    "zero_out": {"change": "zero_out", "view": "everyone"},
    "local": {"change": "replace", "view": "server"},
    "joint": {"change": "zero_out", "view": "others"},
}


def plain_float(value: float) -> float | str:
    """Return a finite float, of Python, and an infinite one as text, which JSON can carry."""
    return float(value) if math.isfinite(value) else repr(float(value))


def of_json(text: str | bytes) -> Any:
    """Return what a JSON text holds; `StateError` if it is none, or if a name is there twice."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise StateError("not a JSON text") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refused(constant: str) -> NoReturn:
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
    if record.get("version") != version or type(record["version"]) is not int:
        raise StateError(f"a {kind} record of version {version} is needed")
    body = {key: value for key, value in record.items() if key not in ("kind", "version")}
    missing, unknown = fields - body.keys(), body.keys() - fields
    if missing or unknown:
        raise StateError(f"{kind} record: {len(missing)} fields missing, {len(unknown)} unknown")
    return body


def check_types(body: Mapping[str, Any], types: Mapping[str, tuple[type, ...]]) -> None:
    """Raise `StateError` unless each field named is exactly of one of its types."""
    for name, allowed in types.items():
        if type(body[name]) not in allowed:
            raise StateError(f"malformed record: {name} is of another type")


def of_version_1(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record whose one relation said both what changes and who looks, as two."""
    word = record.get("relation")
    if (
        record.get("version") != 1
        or record["version"] is True
        or word not in tuple(_RELATIONS)
        or "change" in record
    ):
        return dict(record)
    rest = {name: value for name, value in record.items() if name != "relation"}
    return {**rest, **_RELATIONS[word], "version": 2}
