"""What a comparison measured, as a value that JSON carries."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

SCHEMA = "dpoco.run-report/1"


@dataclass(frozen=True)
class PlayedRuns:
    """Repeated runs of one learner on one stream; one entry per repetition.

    Attributes
    ----------
    average_losses : tuple of float
        Mean loss per round.
    regrets : tuple of float
        Total loss minus that of the best fixed decision.
    switches : tuple of int
        Rounds after which the decision changed.
    """

    average_losses: tuple[float, ...]
    regrets: tuple[float, ...]
    switches: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = {len(self.average_losses), len(self.regrets), len(self.switches)}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError("every measure needs one entry per repetition, at least one")
        for each in fields(self):
            object.__setattr__(self, each.name, tuple(getattr(self, each.name)))

    @property
    def average_loss(self) -> float:
        """Median of the average losses."""
        return statistics.median(self.average_losses)

    @property
    def regret(self) -> float:
        """Median of the regrets."""
        return statistics.median(self.regrets)

    def summary(self) -> dict[str, Any]:
        """Smallest, median and largest of each measure."""
        return {
            name: {
                "min": min(values),
                "median": statistics.median(values),
                "max": max(values),
            }
            for name, values in asdict(self).items()
        }


@dataclass(frozen=True)
class Curves:
    """Cumulative losses at chosen rounds, each of the same length.

    Attributes
    ----------
    rounds : tuple of int
        Rounds played so far, increasing; the last is the whole stream.
    private, private_low, private_high : tuple of float
        Median, smallest and largest over the repetitions.
    nonprivate, best_fixed, best_constant : tuple of float
        The same learner without noise, the best decision and the best constant in hindsight.
    """

    rounds: tuple[int, ...]
    private: tuple[float, ...]
    private_low: tuple[float, ...]
    private_high: tuple[float, ...]
    nonprivate: tuple[float, ...]
    best_fixed: tuple[float, ...]
    best_constant: tuple[float, ...]

    def __post_init__(self) -> None:
        for each in fields(self):
            values = tuple(getattr(self, each.name))
            if len(values) != len(self.rounds):
                raise ValueError(f"{each.name} must have one entry per round shown")
            object.__setattr__(self, each.name, values)


@dataclass(frozen=True)
class RunReport:
    """A private learner against its comparators on one stream; not private itself.

    Every field but `timing` is a function of the stream, the settings and the seed.

    Attributes
    ----------
    stream : dict
        Public facts: name, rounds, dimension, names, source, scaling.
    settings : dict
        Every argument, echoed; ``seed`` is None for operating-system entropy.
    domain, loss, parameters, guarantee : dict
        As written by their ``to_dict``; ``from_dict`` of each restores them.
    guarantee_text : str
        The guarantee in words, with its conditions and proof.
    noise : dict
        ``scale`` of one draw, ``released`` standard deviation of the worst released sum's
        coordinates, the same with the published constants, and the ratios.
    private, nonprivate : PlayedRuns
        The learner with and without noise.
    best_fixed, best_constant : dict
        ``average_loss``, ``total_loss`` and the solution; ``gap`` is the certificate.
    curves : Curves
        Cumulative losses.
    versions : dict
        Of this library, NumPy and Python.
    timing : dict
        Seconds and rounds per second.
    first_round : int
        Rounds the learner had consumed before (when continued from a checkpoint).
    others : tuple of dict
        Further players: ``name``, ``average_loss`` and ``total_loss``.
    rows : dict
        How many rows of the stream were ``skipped`` as already played, ``played``, and left out as
        ``beyond_horizon``.
    nonprivate_records : dict
        How the rows that were played were read, as of `dpoco.RecordShares`. Earlier reports lack
        this and `rows`.

    Notes
    -----
    Losses of bandits are the largest declared reward minus the reward; `best_fixed` and
    `best_constant` of every report but those on records have a ``name``.
    """

    stream: dict[str, Any]
    settings: dict[str, Any]
    domain: dict[str, Any]
    loss: dict[str, Any]
    parameters: dict[str, Any]
    guarantee: dict[str, Any]
    guarantee_text: str
    noise: dict[str, Any]
    private: PlayedRuns
    nonprivate: PlayedRuns
    best_fixed: dict[str, Any]
    best_constant: dict[str, Any]
    curves: Curves
    versions: dict[str, str]
    timing: dict[str, Any]
    first_round: int = 0
    others: tuple[dict[str, Any], ...] = ()
    rows: dict[str, int] = field(default_factory=dict)
    nonprivate_records: dict[str, Any] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """Rounds played and evaluated."""
        return self.curves.rounds[-1]

    @property
    def price_of_privacy(self) -> float:
        """Average loss of the private learner (median) minus that of the same without noise."""
        return self.private.average_loss - self.nonprivate.average_loss

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry and `from_dict` restores exactly.

        It also holds ``summary``: the numbers a reader wants first, derived from the rest.
        """
        return {"schema": SCHEMA, "summary": self.summary(), **asdict(self)}

    def summary(self) -> dict[str, Any]:
        """Return the main numbers: losses, regrets and switches of every player."""
        return {
            "rounds": self.rounds,
            "private": self.private.summary(),
            "nonprivate": self.nonprivate.summary(),
            "best_fixed_average_loss": self.best_fixed["average_loss"],
            "best_constant_average_loss": self.best_constant["average_loss"],
            "price_of_privacy": self.price_of_privacy,
        }

    def to_json(self) -> str:
        """Return the report as indented JSON text, without NaN or infinity."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> RunReport:
        """Return the report written by `to_dict`.

        Raises
        ------
        ValueError
            If the record is not one, or of another version.
        """
        if not isinstance(record, Mapping) or record.get("schema") != SCHEMA:
            raise ValueError(f"not a report of schema {SCHEMA}")
        body = {k: v for k, v in record.items() if k not in ("schema", "summary")}
        body["others"] = tuple(body.get("others", ()))  # earlier reports have none
        for name in ("rows", "nonprivate_records"):
            body.setdefault(name, {})
        if set(body) != {each.name for each in fields(cls)}:
            raise ValueError("the report misses fields, or has unknown ones")
        try:
            for name in ("private", "nonprivate"):
                body[name] = PlayedRuns(**body[name])
            body["curves"] = Curves(**body["curves"])
        except TypeError as error:
            raise ValueError("malformed report") from error
        return cls(**body)

    def __repr__(self) -> str:
        return (
            f"<dpoco.evaluation.RunReport on {self.stream.get('name')!r}, {self.rounds} rounds: "
            "not private, for evaluation only>"
        )
