"""Plain dictionaries for saved values: checked on the way in, exact on the way out."""

from __future__ import annotations

from collections.abc import Mapping

from dpoco._json import of_json, plain_float
from dpoco._validation import Fields, Named
from dpoco.errors import StateError

__all__ = ["check_types", "of_json", "of_version_1", "plain_float", "read_record"]

# What a record of version 1 means. Its "joint" did not say what changes: the dearer is charged.
_RELATIONS = {
    "replace": {"change": "replace", "view": "everyone"},
    "zero_out": {"change": "zero_out", "view": "everyone"},
    "local": {"change": "replace", "view": "server"},
    "joint": {"change": "zero_out", "view": "others"},
}


def read_record(record: Named, *, kind: str, version: int, fields: frozenset[str]) -> Fields:
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


def check_types(body: Named, types: Mapping[str, tuple[type, ...]]) -> None:
    """Raise `StateError` unless each field named is exactly of one of its types."""
    for name, allowed in types.items():
        if type(body[name]) not in allowed:
            raise StateError(f"malformed record: {name} is of another type")


def of_version_1(record: Named) -> Fields:
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
