"""Mechanism descriptions: what engines enforce and draw, one file a kind."""

from __future__ import annotations

from typing import Any

from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Open, Parts
from dpoco.privacy.mechanisms.batch_fits import GaussianPhases, SampledGaussian
from dpoco.privacy.records import read

__all__ = ["KINDS", "read_mechanism"]

KINDS: tuple[type[Mechanism], ...] = (Nothing, Open, SampledGaussian, GaussianPhases)


def read_mechanism(record: Any) -> Mechanism:
    """Return the mechanism that `dpoco.privacy.records.written` wrote.

    Raises
    ------
    TypeError, ValueError
        If it is anything else.
    """
    if isinstance(record, dict) and record.get("kind") == Parts.kind:
        if set(record) != {"kind", "how", "parts", "lemma"} or type(record["parts"]) is not list:
            raise ValueError("parts have the fields how, parts and lemma, and no others")
        parts = tuple(read_mechanism(part) for part in record["parts"])
        return Parts(record["how"], parts, record["lemma"])
    return read(record, KINDS)
