"""The profile of a guarantee, plain numbers under the names of stored records, as a loss.

Proofs: the pages that the losses name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dpoco.privacy.losses.bounded_range import BoundedRange
from dpoco.privacy.losses.coupled_bits import CoupledBits
from dpoco.privacy.losses.decaying import Decaying
from dpoco.privacy.losses.flagged_draws import FlaggedDraws
from dpoco.privacy.losses.loss import Loss, Pure
from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.losses.sampled import Sampled
from dpoco.privacy.losses.tilted_draws import TiltedDraws

__all__ = ["checked", "describe", "event", "loss_of", "profile_of"]

# Kind of a stored profile: the loss, and what its fields are called in the record.
_LOSSES: dict[str, tuple[type[Loss], dict[str, str]]] = {
    "gaussian": (CoupledBits, {"mu": "draws"}),
    "pure": (Pure, {"epsilon": "pure"}),
    "bounded_range": (BoundedRange, {}),
    "selections": (Decaying, {}),
    "tracker": (FlaggedDraws, {}),
    "renyi": (TiltedDraws, {"relation": "change"}),
    "sampled_gaussian": (Sampled, {}),
    "local_reports": (Responses, {"epsilon": "each", "delta": "each_delta"}),
}


def loss_of(profile: Mapping[str, Any]) -> Loss:
    """Return the loss that `profile` describes; `ValueError` if it describes none."""
    kind = profile.get("kind") if isinstance(profile, Mapping) else None
    if kind not in _LOSSES:
        raise ValueError(f"profile must be a mapping of kind {sorted(_LOSSES)}")
    loss, names = _LOSSES[kind]
    stored = {own: old for old, own in names.items()}
    own = [each.name for each in fields(loss) if each.init]  # type: ignore[arg-type]
    wanted = sorted(stored.get(name, name) for name in own)
    if {*profile} != {"kind", *wanted}:
        raise ValueError(f"a profile of kind {kind!r} has the fields {wanted}, and no others")
    numbers = {name: profile[stored.get(name, name)] for name in own}
    if any(isinstance(value, bool) for value in numbers.values()):
        raise ValueError(f"a profile of kind {kind!r} holds numbers, not bools")
    try:
        return loss(**numbers)
    except TypeError as error:
        raise ValueError(f"a profile of kind {kind!r} holds other types") from error


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
    return profile_of(loss_of(profile))


def describe(profile: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    return str(loss_of(profile))


def event(profile: Mapping[str, Any]) -> Any:
    """Return the ``dp_accounting`` event of a profile; `ValueError` if there is none."""
    loss = loss_of(profile)
    from dpoco.accounting import events

    if loss.kind == "bounded_range":
        return events.zcdp_event(loss.rho)
    raise ValueError(
        f"no dp_accounting event describes a loss of kind {loss.kind!r}; use delta_at, epsilon_at"
    )
