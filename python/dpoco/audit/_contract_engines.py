"""Checks of the contract: what compiled engines are built from, and what they are restored from."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import numpy as np

from dpoco import _core
from dpoco._state import pack, unpack
from dpoco.audit._contract import (
    EVERY,
    ROUNDS,
    STEPPED,
    Subject,
    check,
    fingerprint,
    refused,
    require,
)
from dpoco.audit._contract_copies import HALF, storable
from dpoco.errors import DpocoError, StateError
from dpoco.learners import learner_of
from dpoco.privacy.records import Description

# ---- descriptions --------------------------------------------------------------------------------

# Numbers of descriptions that no engine is told, and why: by kind, or by learner.
_PROMISE = "the caller's promise, or a consequence of losses in [0, 1]"
_OF_DOMAIN = "engines have it from the domain that they are given"
_SINGLE = "engines without batches: every record is a push of its own"
_ONE_SCALE = "engines with one scale for all selections, one for every record"
_FULL = "the full batches of the engine's own rounds; constructors compare them"
_LEAST = "the least of all phases is told, and refused below what the engine computes"
_ONCE = "a phase that the engine has, or releases, once"
UNREAD = {
    "second_moments.rounding": "an allowance of the proof for roundings",
    "loss_sums.width": "a consequence of losses in [0, 1], which engines clip to",
    "promised_scores.sensitivity": _PROMISE,
    "threshold_tests.sensitivity": _PROMISE,
    "threshold_tests.spread": _PROMISE,
    "smooth_losses.dimension": _OF_DOMAIN,
    "smooth_losses.rank": "engines have it from the loss that they are given",
    "gibbs_draw.half_width": _OF_DOMAIN,
    "ContinualSum.batch": _SINGLE,
    "LipschitzLearner.batch": _SINGLE,
    "PrefixHedge.batch": _SINGLE,
    "EpochSelector.parts.exponent": _ONE_SCALE,
    "EpochSelector.parts.rounds": _ONE_SCALE,
    "NoisyMax.exponent": _ONE_SCALE,
    "ShiftDetector.parts.parts.exponent": _ONE_SCALE,
    "ShiftDetector.parts.parts.rounds": _ONE_SCALE,
    "PolyhedralFrankWolfe.rounds": _FULL,
    "HighDimensionalBandit.parts.rounds": _FULL,
    "PolyhedralFrankWolfe.scores.slope": "1 of gradients, which no scalar multiplies",
    "sampled_gaussian.dimension": _OF_DOMAIN,
    "gaussian_phases.dimension": _OF_DOMAIN,
    "LocalizedMirrorDescent.phases.bound": _LEAST,
    "PhasedSGD.phases.lipschitz": _LEAST,
    "PhasedSGD.phases.radius": _LEAST,
    "PhasedSGD.phases.smoothness": _LEAST,
    "LocalizedMirrorDescent.phases.copies": _ONCE,
    "NoisyFrankWolfe.phases.copies": _ONCE,
    "NoisyFrankWolfe.phases.releases": _ONCE,
}


class _StandIn:
    """Stands for a compiled class, or for what it builds: notes the arguments, and nothing else."""

    def __init__(self, name: str, *given: Any) -> None:
        self.name, self.given = name, given

    def __call__(self, *given: Any, **named: Any) -> _StandIn:
        return _StandIn(self.name, *given, named)

    def __getattr__(self, name: str) -> _StandIn:
        if name.startswith("_"):
            raise AttributeError(name)
        return _StandIn(f"{self.name}.{name}")


def _noted(value: Any) -> Any:
    """Return a value that can be compared, of whatever an engine is given."""
    if isinstance(value, _StandIn):
        return value.name, _noted(value.given)
    if isinstance(value, dict):
        return {name: _noted(x) for name, x in value.items() if name not in ("key", "stream")}
    if isinstance(value, (list, tuple)):
        return [_noted(each) for each in value]
    if isinstance(value, np.ndarray):
        return value.tobytes()
    plain = isinstance(value, (bool, int, float, str, bytes, np.generic))
    return repr(value) if plain else type(value).__name__


def _settings(s: Subject, learner: Any, mechanism: Description) -> Any:
    """Return what the engine would be built from with that description; None: it is refused."""
    learner._mechanism = mechanism
    classes = [name for name, each in vars(_core).items() if isinstance(each, type)]
    try:
        with patch.dict(vars(_core), {name: _StandIn(name) for name in classes}):
            if s.plays == "batch":
                return _noted(learner._engine(*s.part(0, ROUNDS)))
            return _noted(learner._build_engine({"key": bytes(32), "stream": 1}))
    except (DpocoError, ValueError):
        return None


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield path, kind and value of all numbers of a description; equal members count once."""
    if isinstance(value, Description):
        for each in dataclasses.fields(value):
            own = f"{path}.{each.name}" if path else each.name
            for where, kind, found in _numbers(getattr(value, each.name), own):
                yield where, kind or f"{value.kind}.{each.name}", found
    elif isinstance(value, tuple):
        for at, each in enumerate(value):
            if each not in value[:at]:
                yield from _numbers(each, f"{path}.{at}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, "", value


def _changed(value: Any, path: list[str], number: Any) -> Any:
    """Return a description with another number at a path, unchecked; in all equal members."""
    if not path:
        return number
    first, *rest = path
    if isinstance(value, tuple):
        old = value[int(first)]
        return tuple(_changed(old, rest, number) if each == old else each for each in value)
    other = copy.copy(value)
    for name in set(vars(value)) - {each.name for each in dataclasses.fields(value)}:
        del vars(other)[name]  # what was computed from the fields
    object.__setattr__(other, first, _changed(getattr(value, first), rest, number))
    return other


def unread(s: Subject) -> set[tuple[str, str]]:
    """Return the numbers of a learner's description that no engine is told, for no good reason.

    Name of the learner, and path without indices.
    """
    learner = s.fresh()
    mechanism: Any = getattr(learner, "_mechanism", None)
    s.applies(isinstance(mechanism, Description))
    told, found, missed = _settings(s, learner, mechanism), learner_of(s.kind), set()
    require(told is not None, "the learner's own description is refused")
    name = s.kind.__name__ if found is None else found.class_name
    for path, kind, value in _numbers(mechanism):
        if isinstance(value, int):
            others: tuple[Any, ...] = (value + 1, 2 * value + 3)
        else:
            others = (1.5 * value + 0.25 * (value == 0.0) if math.isfinite(value) else 0.5,)
        changed = (_changed(mechanism, path.split("."), other) for other in others)
        plain = ".".join(part for part in path.split(".") if not part.isdigit())
        known = kind in UNREAD or f"{name}.{plain}" in UNREAD
        if not known and all(_settings(s, learner, each) == told for each in changed):
            missed.add((name, plain))
    return missed


@check(*EVERY)
def descriptions_reach_engines(s: Subject) -> None:
    """Another number in the description is another engine, or a refusal.

    The guarantee is computed from the description: what the engine does not read, it does not keep.
    """
    missed = sorted(path for _, path in unread(s))
    require(not missed, f"no engine is told {', '.join(missed)}")


# ---- states --------------------------------------------------------------------------------------


@check(*STEPPED)
def damaged_states_are_refused(s: Subject) -> None:
    """A state that was cut or changed, or of another size, raises `StateError`.

    What is changed behind an intact checksum may be noticed or not, but is played without harm.
    """
    storable(s)
    learner, read = s.fresh(), s.kind._from_bytes
    s.play(learner, 0, HALF)
    data, rng = learner._to_bytes(), np.random.default_rng(0)
    require(fingerprint(read(data)) == fingerprint(learner), "a state is read as another one")
    header, payload = unpack(data)
    bad = [data[:cut] for cut in (*range(0, len(data), 61), len(data) - 1)] + [data + b"\0"]
    for at in (*range(24), *rng.integers(len(data), size=30)):
        bad.append(data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :])
    bad += [pack(header, other) for other in (payload[:-8], payload + bytes(8), payload[8:], b"")]
    bad.append(pack({**header, "kind": "Unknown"}, payload))
    for spoiled in bad:
        refused("a damaged state", StateError, read, spoiled)
    for _ in range(30):
        words = bytearray(payload)
        for at in rng.integers(len(words), size=rng.integers(1, 4)):
            words[at] = rng.integers(256)
        with suppress(StateError):
            twin = read(pack(header, bytes(words)))
            if twin.round < ROUNDS:
                require(np.all(np.isfinite(s.step(twin, twin.round))), "a release is not finite")
