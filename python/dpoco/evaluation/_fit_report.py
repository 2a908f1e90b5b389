"""What one-time fits reached, as a value that JSON carries."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

__all__ = ["FIT_SCHEMA", "FitReport"]

FIT_SCHEMA = "dpoco.fit-report/1"


@dataclass(frozen=True)
class FitReport:
    """Private fits to a whole data set against their comparators; not private itself.

    Every loss is the average over the records of the fit, clipped as a learner clips them: how a
    decision does on new records is not measured. Every field but `timing` is a function of the
    stream, the settings and the seed.

    Attributes
    ----------
    stream : dict
        Public facts: name, rounds (here records), dimension, names, source, scaling.
    settings : dict
        Every argument, echoed; ``seed`` is None for operating-system entropy.
    domain, loss, parameters, guarantee : dict
        As written by their ``to_dict``; ``from_dict`` of each restores them.
    guarantee_text : str
        The guarantee of one fit in words, with its conditions and proof.
    private, nonprivate : tuple of float
        Average loss of every fit, with and without noise.
    best_fixed : dict
        The best decision: ``average_loss``, ``total_loss``, the solution and its certificate.
    zero : dict
        ``average_loss`` and ``total_loss`` of predicting zero for every record.
    versions : dict
        Of this library, NumPy and Python.
    timing : dict
        Seconds.
    rows, nonprivate_records : dict
        As in `RunReport`.
    """

    stream: dict[str, Any]
    settings: dict[str, Any]
    domain: dict[str, Any]
    loss: dict[str, Any]
    parameters: dict[str, Any]
    guarantee: dict[str, Any]
    guarantee_text: str
    private: tuple[float, ...]
    nonprivate: tuple[float, ...]
    best_fixed: dict[str, Any]
    zero: dict[str, Any]
    versions: dict[str, str]
    timing: dict[str, Any]
    rows: dict[str, int] = field(default_factory=dict)
    nonprivate_records: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("private", "nonprivate"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            if not getattr(self, name):
                raise ValueError(f"{name} needs one entry a fit, at least one")

    @property
    def price_of_privacy(self) -> float:
        """Average loss of the private fits (median) minus that of the same without noise."""
        return statistics.median(self.private) - statistics.median(self.nonprivate)

    def summary(self) -> dict[str, Any]:
        """Return the main numbers: average losses of all players."""
        return {
            "records": self.stream["rounds"],
            "private": {
                "min": min(self.private),
                "median": statistics.median(self.private),
                "max": max(self.private),
            },
            "nonprivate_average_loss": statistics.median(self.nonprivate),
            "best_fixed_average_loss": self.best_fixed["average_loss"],
            "zero_average_loss": self.zero["average_loss"],
            "price_of_privacy": self.price_of_privacy,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly."""
        return {"schema": FIT_SCHEMA, "summary": self.summary(), **asdict(self)}

    def to_json(self) -> str:
        """Return the report as indented JSON text, without NaN or infinity."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FitReport:
        """Return the report written by `to_dict`.

        Raises
        ------
        ValueError
            If the record is not one, or of another version.
        """
        if not isinstance(record, Mapping) or record.get("schema") != FIT_SCHEMA:
            raise ValueError(f"not a report of schema {FIT_SCHEMA}")
        body = {k: v for k, v in record.items() if k not in ("schema", "summary")}
        for name in ("rows", "nonprivate_records"):  # earlier reports have none
            body.setdefault(name, {})
        if set(body) != {each.name for each in fields(cls)}:
            raise ValueError("the report misses fields, or has unknown ones")
        return cls(**body)

    def __repr__(self) -> str:
        return (
            f"<dpoco.evaluation.FitReport on {self.stream.get('name')!r}, "
            f"{self.stream.get('rounds')} records: not private, for evaluation only>"
        )
