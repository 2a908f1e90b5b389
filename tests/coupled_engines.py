"""Compiled coupled learners from numbers one by one, also such as no description would have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from tests.descriptions import unchecked

from dpoco import _core
from dpoco.privacy.mechanisms import coupled_draws as kinds

Claim = Mapping[str, Any]

_LOSSES = kinds.SmoothLosses(1, 1.0, 1.0, 1)
_DRAWS = kinds.CoupledDraws(_LOSSES, kinds.TiltedMinimum(1.0, 1.0), kinds.Always(), 1, 1, None)
_TUNING = {"barrier_weight": 0.0, "strong_convexity": 0.0}
_GIBBS_TUNING = {
    "anchors": 0, "clip_error": 0.0, "chain": "automatic", "most_planes": 2000,
    "most_proposals": 2**64 - 1,
}  # fmt: skip


def _claim(own: Mapping[str, Any]) -> Claim:
    return {"key": own["key"], "stream": own["stream"]}


def _keep(own: Mapping[str, Any]) -> Any:
    name, forced, high = own["coupling"], own["forced_switch"], own.get("clip_high", 0.0)
    if name == "density_ratio":
        window = kinds.Window(0.5, 1.0, 1.0)
        return unchecked(window, forced=forced, high=high, low=own.get("clip_low", 0.0))
    if name == "anchored":
        return unchecked(kinds.Anchored(0.5, 1.0), forced=forced, width=high)
    if name == "dartboard":
        span = own.get("factor_range", 0.0)
        return unchecked(kinds.Dartboard(0.5, 1.0), forced=forced, span=span)
    if name == "scheduled":
        assert forced == 1.0
        return kinds.Always()
    return unchecked(kinds.Maximal(0.5), kind=name, forced=forced)


def _parts(
    domain: Any,
    losses: Mapping[str, Any],
    own: Mapping[str, Any],
    draw: Any,
    tuning: dict[str, Any],
) -> tuple[Any, ...]:
    """Return all that an engine takes but its claim, of settings that have no others."""
    flat = isinstance(domain, _core.Simplex) and not losses["unbounded"]
    bounds = unchecked(
        _LOSSES, dimension=domain.center().size - flat,
        lipschitz=own["lipschitz"], smoothness=own["smoothness"],
    )  # fmt: skip
    mechanism = unchecked(
        _DRAWS, losses=bounds, draw=draw, keep=_keep(own), rounds=own["rounds"],
        block=own["block"], cap=own["max_switches"],
    )  # fmt: skip
    tuning = {name: own.get(name, default) for name, default in tuning.items()}
    return domain, losses, mechanism, tuning


def leaders(
    domain: Any, losses: Any, own: Mapping[str, Any]
) -> Callable[[Claim], _core.CoupledRegularizedLeader]:
    """Return what makes leaders on any key and stream; noise grows where the step is infinite."""
    assert own.get("noise_growth", False) == math.isinf(own["step_size"])
    law = kinds.TiltedMinimum(1.0, 1.0)
    draw = unchecked(law, noise=own["noise_scale"], step=own["step_size"])
    parts = _parts(domain, losses, own, draw, _TUNING)
    return lambda claim: _core.CoupledRegularizedLeader(*parts, claim)


def leader(domain: Any, losses: Any, own: Mapping[str, Any]) -> _core.CoupledRegularizedLeader:
    """Return a leader on the stream of its settings."""
    return leaders(domain, losses, own)(_claim(own))


def all_weights(
    domain: Any, losses: Any, own: Mapping[str, Any]
) -> Callable[[Claim], _core.ContinuousMultiplicativeWeights]:
    """Return what makes continuous multiplicative weights on any key and stream."""
    exact = own.get("exact_only", True)
    draw = unchecked(
        kinds.GibbsDraw(1.0, 1.0, 1.0, 0.0), tolerance=0.0 if exact else own["sampler_tolerance"],
        inverse_temperature=own["inverse_temperature"], regularization=own["regularization"],
    )  # fmt: skip
    parts = _parts(domain, losses, own, draw, _GIBBS_TUNING)
    return lambda claim: _core.ContinuousMultiplicativeWeights(*parts, claim)


def weights(
    domain: Any, losses: Any, own: Mapping[str, Any]
) -> _core.ContinuousMultiplicativeWeights:
    """Return continuous multiplicative weights on the stream of their settings."""
    return all_weights(domain, losses, own)(_claim(own))
