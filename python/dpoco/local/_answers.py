"""The device's side of every channel: from a specification and a label to the integers sent."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import choice
from dpoco.errors import CalibrationError
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._randomizers import BitRandomizer, SubsetRandomizer
from dpoco.local._specs import VECTOR_CHANNELS, RoundSpec
from dpoco.random import Source

__all__ = ["PROTECTIONS", "checked_spec", "prepared"]

Answer = Callable[[Source], tuple[int, ...]]
FloatArray = NDArray[np.float64]

PROTECTIONS = ("label", "label_and_context")

# Modules with ``prepared(spec, hypotheses, x, y) -> Answer``, which must clamp every public number
# and fail, if at all, for reasons that do not depend on the label.
_VECTOR_DEVICES = {
    "vector": "dpoco.local._vector_device",
    "paper_exp3": "dpoco.local._paper_device",
    "paper_wma": "dpoco.local._paper_device",
}

# Built once for the few settings a device ever sees.
bit_randomizer = lru_cache(maxsize=64)(BitRandomizer)
subset_randomizer = lru_cache(maxsize=64)(SubsetRandomizer)


def checked_spec(spec: Any, hypotheses: Hypotheses, protect: str) -> RoundSpec:
    """Return the specification if this device may answer it; ``ValueError`` otherwise.

    Bytes are read. Nothing is taken on trust: an object that was tampered with is checked again.
    """
    if isinstance(spec, (bytes, bytearray, memoryview)):
        spec = RoundSpec.from_bytes(bytes(spec))
    if type(spec) is not RoundSpec:
        raise TypeError(f"spec must be a RoundSpec; got {type(spec).__name__}")
    spec.validate()
    if (spec.hypotheses, spec.labels) != (hypotheses.count, hypotheses.labels):
        raise ValueError("the round is about another class of hypotheses")
    # Where both sides have one: functions cannot be compared.
    known = any(spec.fingerprint) and hypotheses.array is not None
    if known and spec.fingerprint != hypotheses.fingerprint:
        raise ValueError("the round is about other hypotheses than the device's")
    if choice("protect", protect, PROTECTIONS) == "label_and_context" and (
        spec.channel != "coordinate"
    ):
        raise ValueError("only channel 'coordinate' protects contexts")
    return spec


def prepared(spec: RoundSpec, hypotheses: Hypotheses, x: Any, y: Any, protect: str) -> Answer:
    """Return what draws the report once it is paid for.

    All that can fail fails here, for public reasons: no randomness is drawn and nothing spent.
    """
    if spec.channel == "subset":
        assert spec.labels is not None
        if hypotheses.kind != "array":
            hypotheses.matrix(x)  # an unknown context is refused, as on other channels
        randomizer = subset_randomizer(spec.labels, spec.subset_size, spec.epsilon)
        return partial(randomizer.respond, y)
    if spec.channel in VECTOR_CHANNELS:
        module = importlib.import_module(_VECTOR_DEVICES[spec.channel])
        try:
            answer: Answer = module.prepared(spec, hypotheses, x, y)
        except (ArithmeticError, CalibrationError):
            raise ValueError("no noise fits the numbers of the round") from None
        return answer
    column = likelihoods(hypotheses, x, y, protect)
    phis = [query.phi(column, y, spec.labels) for query in spec.queries]
    return partial(bit_randomizer(spec.epsilon, len(phis)).respond, phis)


def likelihoods(hypotheses: Hypotheses, x: Any, y: Any, protect: str) -> FloatArray:
    """Return the K likelihoods of a label; zeros where the user's function fails on private data.

    A device that fell silent whenever its data are unusual would tell just that.
    """
    if protect == "label" and hypotheses.kind != "likelihood":
        return hypotheses.column(x, y)
    try:
        return hypotheses.column(x, y)
    except Exception:
        return np.zeros(hypotheses.count)
