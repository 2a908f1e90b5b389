"""The composed profile of draws and bits as plain numbers that a guarantee can carry.

Two kinds. "gaussian": draws that are together mu-GDP. "renyi": at most `cap` draws of
``objective_perturbation``; with b = 0 these are Gaussian and accounted as such.

Proof: ``docs/privacy/couplings.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpoco.accounting.coupling import coupled_delta, coupled_epsilon
from dpoco.accounting.events import gaussian_event
from dpoco.accounting.objective_perturbation import (
    coupled_delta_renyi,
    coupled_epsilon_renyi,
    draw_renyi,
)

__all__ = [
    "checked",
    "describe",
    "event",
    "gaussian_parameter",
    "profile_delta",
    "profile_epsilon",
    "pure_epsilon",
]

_BITS = ("forced_switch", "factor_floor", "later_bits", "shift")
_DRAWS = ("sensitivity_ratio", "b", "dimension", "rank", "relation")
_FIELDS = {
    "gaussian": ("mu", *_BITS),
    "renyi": ("cap", *_DRAWS, *_BITS),
}
_INTEGERS = frozenset({"cap", "dimension", "rank", "later_bits"})


def checked(coupling: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of the parameters; `ValueError` if they describe no profile."""
    names = _FIELDS[coupling["kind"]]
    if set(coupling) != {"kind", *names}:
        raise ValueError(f"a profile of kind {coupling['kind']} must have the fields {list(names)}")
    clean: dict[str, Any] = {"kind": coupling["kind"]}
    for name in names:
        value = coupling[name]
        if name == "relation":
            clean[name] = value
        elif name in _INTEGERS:
            if isinstance(value, bool) or not float(value).is_integer():
                raise ValueError(f"coupling: {name} must be an integer")
            clean[name] = int(value)
        else:
            clean[name] = float(value)
    # Both raise on values out of range; the second may take the route that needs no relation.
    if clean["kind"] == "renyi":
        draw_renyi(2.0, *(clean[name] for name in _DRAWS))
    profile_delta(clean, 1.0)
    return clean


def gaussian_parameter(coupling: Mapping[str, Any]) -> float | None:
    """Return the mu of all draws together if each is Gaussian, otherwise None."""
    if coupling["kind"] == "gaussian":
        return float(coupling["mu"])
    if coupling["b"] == 0.0 or coupling["rank"] == 0:
        return float(coupling["sensitivity_ratio"]) * math.sqrt(coupling["cap"])
    return None


def profile_delta(coupling: Mapping[str, Any], epsilon: float) -> float:
    """Return delta(epsilon) for epsilon >= 0."""
    mu = gaussian_parameter(coupling)
    if mu is None:
        return coupled_delta_renyi(epsilon, **_arguments(coupling))
    return coupled_delta(epsilon, mu=mu, **{name: coupling[name] for name in _BITS})


def profile_epsilon(coupling: Mapping[str, Any], delta: float) -> float:
    """Return the smallest epsilon >= 0 known at `delta` in (0, 1)."""
    mu = gaussian_parameter(coupling)
    if mu is None:
        return coupled_epsilon_renyi(delta, **_arguments(coupling))
    return coupled_epsilon(delta, mu=mu, **{name: coupling[name] for name in _BITS})


def pure_epsilon(coupling: Mapping[str, Any]) -> float:
    """Return the epsilon at delta = 0: there is none."""
    return math.inf


def event(coupling: Mapping[str, Any]) -> Any:
    """Return the event of draws composed with bits, which exists if no bit is random.

    Raises
    ------
    ValueError
        If a bit is random or the draws are known by Renyi divergences only: the events of that
        package have no such release, and its randomized response loses repetitions.
    """
    mu = gaussian_parameter(coupling)
    if mu is None or mu == 0.0 or coupling["forced_switch"] != 1.0:
        raise ValueError(
            "no dp_accounting event describes draws composed with random stay-or-switch bits; "
            "use delta_at and epsilon_at"
        )
    return gaussian_event(mu)


def describe(coupling: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    mu = gaussian_parameter(coupling)
    if mu is not None:
        draws = f"draws of mu = {mu:.6g} (GDP) together"
    else:
        draws = (
            f"at most {coupling['cap']} draws of divergence alpha (Delta/sigma)^2/2 + V_alpha, "
            f"Delta/sigma = {coupling['sensitivity_ratio']:.6g}, b = {coupling['b']:.6g}"
        )
    if coupling["forced_switch"] == 1.0:
        return draws
    later = coupling["later_bits"] if coupling["shift"] > 0.0 else 0
    return f"{draws}, the bit of the changed block and {later} later bits"


def _arguments(coupling: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in coupling.items() if name != "kind"}
