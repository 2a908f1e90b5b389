"""Rounds on the server: which are open, and which reports came."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.errors import StateError
from dpoco.local._hedge import Hedge
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._posterior import Posterior
from dpoco.local._settings import Settings
from dpoco.local._specs import RoundSpec

__all__ = ["Nonces", "OpenRound", "reopened", "stored_rounds"]

Words = NDArray[np.uint64]
Arrays = Mapping[str, NDArray[Any]]


class Nonces:
    """Nonces that have come: none comes twice.

    Kept in sorted parts, as many as binary digits of their number: each is moved O(log n) times.
    """

    def __init__(self, parts: Iterable[Words] = ()) -> None:
        self._parts = list(parts)  # arrays are replaced, never changed

    def __len__(self) -> int:
        return sum(part.size for part in self._parts)

    def copy(self) -> Nonces:
        """Return another one with the same nonces."""
        return Nonces(self._parts)

    def add(self, nonces: Words) -> None:
        """Remember nonces; ``ValueError``, and nothing changes, if one comes twice."""
        new = np.sort(nonces)
        if (new[1:] == new[:-1]).any():
            raise ValueError("duplicated report: a nonce occurs twice")
        for seen in self._parts:
            small, large = (new, seen) if new.size <= seen.size else (seen, new)
            at = np.minimum(np.searchsorted(large, small), large.size - 1)
            if (large[at] == small).any():
                raise ValueError("duplicated report: its nonce has been seen")
        while self._parts and new.size >= self._parts[-1].size:
            new = np.sort(np.concatenate([self._parts.pop(), new]), kind="stable")
        self._parts.append(new)

    def all(self) -> Words:
        """Return all nonces, sorted."""
        return np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *self._parts]))


@dataclass
class OpenRound:
    """A round that takes reports, with the hypotheses in its context and, of a table, that."""

    spec: RoundSpec
    matrix: NDArray[np.float64] | None
    context: int | None
    nonces: Nonces = field(default_factory=Nonces)


def stored_rounds(
    found: Iterable[OpenRound], hypotheses: Hypotheses
) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    """Return the records of open rounds, and their arrays."""
    arrays: dict[str, NDArray[Any]] = {}
    records = []
    for index, opened in enumerate(found):
        spec = base64.b64encode(opened.spec.to_bytes()).decode()
        records.append({"spec": spec, "context": opened.context})
        arrays[f"nonces.{index}"] = opened.nonces.all()
        if hypotheses.kind == "callable" and opened.matrix is not None:
            arrays[f"matrix.{index}"] = opened.matrix  # the context itself may be anything
    return records, arrays


def reopened(
    body: Mapping[str, Any],
    arrays: Arrays,
    hypotheses: Hypotheses,
    settings: Settings,
    rule: Posterior | Hedge,
) -> dict[int, OpenRound]:
    """Return the open rounds of a state by number, or raise for impossible ones."""
    if body.get("blocks"):
        raise StateError("the state has rounds that were opened together: no longer supported")
    found: list[OpenRound] = []
    for index, record in enumerate(body["rounds"]):
        spec = RoundSpec.from_bytes(base64.b64decode(record["spec"], validate=True))
        context, matrix = record["context"], None
        if settings.protect == "label":
            if hypotheses.kind == "callable":
                given = arrays[f"matrix.{index}"]
                matrix = Hypotheses(given, hypotheses.count, hypotheses.labels).matrix()
            else:
                matrix = hypotheses.matrix(context)
        asked = (spec.hypotheses, spec.labels, spec.fingerprint, spec.epsilon)
        own = (settings.hypotheses, settings.labels, settings.fingerprint, settings.epsilon)
        if asked != own or not rule.accepts(spec, matrix):
            raise StateError("state is corrupt: a round is not of this learner")
        nonces = arrays[f"nonces.{index}"]
        if nonces.dtype != np.uint64 or nonces.ndim != 1:
            raise StateError("state is corrupt: impossible nonces")
        found.append(OpenRound(spec, matrix, context))
        if nonces.size:
            found[-1].nonces.add(nonces)
    numbers = [opened.spec.round for opened in found]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise StateError("state is corrupt: a round comes twice")
    last = body["round"]
    if numbers and not (last - settings.open_rounds < numbers[0] and numbers[-1] <= last):
        raise StateError("state is corrupt: impossible counts")
    return {opened.spec.round: opened for opened in found}
