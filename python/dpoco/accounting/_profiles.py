"""The profile of a guarantee, plain numbers under the names of stored records, as a loss.

Proofs: the pages that the losses name.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dpoco.privacy.losses.loss import Loss, Pure
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.losses.sampled import Sampled

__all__ = ["checked", "describe", "event", "loss_of", "profile_of"]

# Kind of a stored profile: the loss, and what its fields are called in the record.
_LOSSES: dict[str, tuple[type[Loss], dict[str, str]]] = {
    "pure": (Pure, {"epsilon": "pure"}),
    "sampled_gaussian": (Sampled, {}),
    "local_reports": (Responses, {"epsilon": "each", "delta": "each_delta"}),
}
_KINDS = {
    "gaussian": "dpoco.accounting._coupling.profile",
    "renyi": "dpoco.accounting._coupling.profile",
    "bounded_range": "dpoco.accounting.bounded_range",
    "selections": "dpoco.accounting.selections",
    "tracker": "dpoco.accounting._experts.tracker_profile",
}


class _Older(Loss):
    """A loss that a module of functions still computes."""

    def __init__(self, profile: Mapping[str, Any]) -> None:
        self.profile = dict(profile)
        self.module: Any = importlib.import_module(_KINDS[profile["kind"]])
        self.pure = float(self.module.pure_epsilon(profile))

    def delta(self, epsilon: float) -> float:
        return float(self.module.profile_delta(self.profile, epsilon))

    def epsilon(self, delta: float) -> float:
        return float(self.module.profile_epsilon(self.profile, delta) if delta else self.pure)


def loss_of(profile: Mapping[str, Any]) -> Loss:
    """Return the loss that `profile` describes; `ValueError` if it describes none."""
    kind = profile.get("kind") if isinstance(profile, Mapping) else None
    if kind in _KINDS:
        return _Older(profile)
    if kind not in _LOSSES:
        raise ValueError(f"profile must be a mapping of kind {sorted({*_LOSSES, *_KINDS})}")
    loss, names = _LOSSES[kind]
    stored = {own: old for old, own in names.items()}
    own = [each.name for each in fields(loss) if each.init]  # type: ignore[arg-type]
    numbers = {name: profile.get(stored.get(name, name)) for name in own}
    if len(profile) != len(own) + 1 or None in numbers.values():
        wanted = sorted(stored.get(name, name) for name in own)
        raise ValueError(f"a profile of kind {kind!r} has the fields {wanted}, and no others")
    if any(isinstance(value, bool) for value in numbers.values()):
        raise ValueError(f"a profile of kind {kind!r} holds numbers, not bools")
    return loss(**numbers)


def near(one: Loss, other: Loss, close: float) -> bool:
    """Return whether two losses have the same parameters, to a relative `close`."""
    pairs = zip(one.to_dict().values(), other.to_dict().values(), strict=False)
    return type(one) is type(other) and all(
        math.isclose(a, b, rel_tol=close) if isinstance(a, float) else a == b for a, b in pairs
    )


def profile_of(loss: Loss) -> dict[str, Any]:
    """Return the record of a loss, for ``Guarantee.profile``."""
    for kind, (cls, names) in _LOSSES.items():
        if type(loss) is cls:
            stored = {new: old for old, new in names.items()}
            numbers = {stored.get(n, n): v for n, v in loss.to_dict().items()}
            return {**numbers, "kind": kind}
    raise ValueError(f"no record stands for a loss of kind {loss.kind!r}")


def checked(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of `profile`; `ValueError` if it describes none."""
    loss = loss_of(profile)
    if isinstance(loss, _Older):
        return dict(loss.module.checked(profile))
    return profile_of(loss)


def describe(profile: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    loss = loss_of(profile)
    return str(loss.module.describe(profile) if isinstance(loss, _Older) else loss)


def event(profile: Mapping[str, Any]) -> Any:
    """Return the ``dp_accounting`` event of a profile; `ValueError` if there is none."""
    loss = loss_of(profile)
    if isinstance(loss, _Older):
        return loss.module.event(profile)
    from dpoco.accounting import events

    if loss.kind == "bounded_range":
        return events.zcdp_event(loss.rho)
    raise ValueError(
        f"no dp_accounting event describes a loss of kind {loss.kind!r}; use delta_at, epsilon_at"
    )
