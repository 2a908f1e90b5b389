"""The kinds of privacy profiles a guarantee can carry: plain numbers, read by one module a kind.

A module of a kind has ``checked(record) -> dict`` (validated, or ``ValueError``), ``profile_delta
(record, epsilon)``, ``profile_epsilon(record, delta)``, ``pure_epsilon(record)`` (infinite if there
is none), ``describe(record)`` and ``event(record)`` (of ``dp_accounting``, or ``ValueError``).

Proofs: the module's docstring names its page under ``docs/privacy``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

__all__ = ["checked", "kind_of", "pure_epsilon"]

_KINDS = {
    "gaussian": "dpoco.accounting._coupling.profile",
    "local_reports": "dpoco.accounting.local_reports",
    "renyi": "dpoco.accounting._coupling.profile",
    "pure": "dpoco.accounting.pure",
    "bounded_range": "dpoco.accounting.bounded_range",
    "selections": "dpoco.accounting.selections",
    "tracker": "dpoco.accounting._experts.tracker_profile",
    "sampled_gaussian": "dpoco.accounting.sampled_gaussian",
}


def kind_of(profile: Mapping[str, Any]) -> Any:
    """Return the module that reads `profile`."""
    return importlib.import_module(_KINDS[profile["kind"]])


def checked(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of `profile`; `ValueError` if it describes none."""
    if not isinstance(profile, Mapping) or profile.get("kind") not in _KINDS:
        raise ValueError(f"profile must be a mapping of kind {sorted(_KINDS)}")
    result: dict[str, Any] = kind_of(profile).checked(profile)
    return result


def pure_epsilon(profile: Mapping[str, Any]) -> float:
    """Return the epsilon at delta = 0; infinite if there is none."""
    return float(kind_of(profile).pure_epsilon(profile))
