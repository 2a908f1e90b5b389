"""Results of evaluations and reruns as JSON-able values."""

from __future__ import annotations

import json
import math
import statistics
import types
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from dpoco._validation import Fields, FloatArray, IntArray, Named

__all__ = ["Report", "sample_rounds", "summarise"]

SCHEMA = "dpoco.run-report/1"
Self = TypeVar("Self", bound="Report")


class Report:
    """Base of the reports: frozen dataclasses with JSON-able fields.

    Subclasses set their `schema`. The record begins with it and may contain derived values, for
    example a ``summary``.
    """

    schema: ClassVar[str]
    _beside: ClassVar[tuple[str, ...]] = ()  # derived values of the record besides the fields

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary that `from_dict` restores exactly."""
        own: Fields = asdict(self)  # type: ignore[call-overload]
        plain: Fields = plain_values({**self._further_fields(), **own})
        return {"schema": self.schema, **plain}

    def to_json(self) -> str:
        """Return the report as indented JSON text, without NaN or infinity."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_dict(cls: type[Self], record: Named) -> Self:
        """Return the report written by `to_dict`.

        Raises
        ------
        ValueError
            If the record is not a report, or has another version.
        """
        # Another version may use the same fields with another meaning, so it is refused.
        if not isinstance(record, Mapping) or record.get("schema") != cls.schema:
            raise ValueError(f"not a report of schema {cls.schema}")
        body = {name: value for name, value in record.items() if name not in cls._beside}
        del body["schema"]
        try:
            restored: Self = _from_json(cls, body)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError("a report with malformed, missing or unknown fields") from error
        return restored

    def _further_fields(self) -> Fields:
        """Return the derived values of the record besides the fields."""
        return {name: getattr(self, name)() for name in self._beside}

    def _about(self) -> str:
        """Return the subject of the report for `repr`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<dpoco.evaluation.{name} {self._about()}: not private, for evaluation only>"


def plain_values(value: object) -> Any:
    """Return nested values in a JSON-able form, with infinity as text and NaN as None."""
    if isinstance(value, dict):
        return {name: plain_values(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _from_json(kind: Any, value: Any) -> Any:
    """Return a JSON value converted to the given type."""
    inner, origin = get_args(kind), get_origin(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        given = {
            name: _from_json(hints[name], each)
            for name, each in value.items()
            # Derived values follow from the others, so the constructor does not take them.
            if not isinstance(getattr(kind, name, None), property)
        }
        return kind(**given)  # type: ignore[operator]
    # All unions in reports are with None, which is their last member.
    if origin is types.UnionType:
        return None if value is None else _from_json(inner[0], value)
    if origin is tuple:
        return tuple(_from_json(inner[0], each) for each in value)
    if origin is dict:
        return {name: _from_json(inner[1], each) for name, each in value.items()}
    # `float` also reads the text for infinity, and converts a JSON 1 to 1.0.
    if kind is float:
        # The mean over no rounds, for example of a window without labels.
        return math.nan if value is None else float(value)
    return value


def sample_rounds(length: int) -> IntArray:
    """Return at most 400 of the rounds 1..length, in order, with the first and the last.

    Half of them are evenly spaced, which shows the end of a run, and half geometrically, which
    shows its beginning.
    """
    both = np.concatenate([np.linspace(1, length, 200), np.geomspace(1, length, 200)])
    return np.unique(both.round().astype(np.int64))


def summarise(values: Sequence[float]) -> dict[str, float]:
    """Return smallest, median and largest of the repetitions."""
    return {"min": min(values), "median": statistics.median(values), "max": max(values)}


@dataclass(frozen=True)
class PlayedRuns:
    """Repeated runs of one learner on one stream, with one entry per repetition.

    Attributes
    ----------
    average_losses : tuple of float
        Mean loss over the rounds whose data are not missing.
    regrets : tuple of float
        Total loss minus that of the best fixed decision.
    switches : tuple of int
        Number of rounds after which the decision changed.
    """

    average_losses: tuple[float, ...]
    regrets: tuple[float, ...]
    switches: tuple[int, ...]

    def __post_init__(self) -> None:
        sizes = {len(self.average_losses), len(self.regrets), len(self.switches)}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError("every measure needs one entry per repetition, at least one")

    @property
    def average_loss(self) -> float:
        """Median of the average losses."""
        return statistics.median(self.average_losses)

    @property
    def regret(self) -> float:
        """Median of the regrets."""
        return statistics.median(self.regrets)

    def summary(self) -> Fields:
        """Smallest, median and largest of each measure."""
        return {name: summarise(values) for name, values in asdict(self).items()}


@dataclass(frozen=True)
class Curves:
    """Cumulative losses at selected rounds, each of the same length.

    Attributes
    ----------
    rounds : tuple of int
        Rounds played so far, increasing; the last is the whole stream.
    private, private_low, private_high : tuple of float
        Median, smallest and largest over the repetitions.
    nonprivate, best_fixed, best_constant : tuple of float
        The same learner without noise, and the best decision and the best constant in hindsight.
    counted : tuple of int
        Number of rounds so far whose data are not missing, over which losses are averaged. Earlier
        reports lack it.
    """

    rounds: tuple[int, ...]
    private: tuple[float, ...]
    private_low: tuple[float, ...]
    private_high: tuple[float, ...]
    nonprivate: tuple[float, ...]
    best_fixed: tuple[float, ...]
    best_constant: tuple[float, ...]
    counted: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # In reports that were stored before rounds were counted, all rounds count.
        if not self.counted:
            object.__setattr__(self, "counted", self.rounds)
        if any(len(getattr(self, each.name)) != len(self.rounds) for each in fields(self)):
            raise ValueError("every curve must have one entry per round shown")

    @classmethod
    def of(
        cls,
        private: FloatArray,
        nonprivate: FloatArray,
        best_fixed: FloatArray,
        best_constant: FloatArray,
        counted: IntArray,
    ) -> Curves:
        """Return at most 400 rounds of cumulative losses, dense at the start.

        Losses of the private runs have shape (repeats, T), and the others (T,), like the numbers of
        counted rounds so far.
        """
        # A figure shows no more than some hundred points, and reports of 10^7 rounds stay small.
        rounds = sample_rounds(len(best_fixed))
        shown = private[:, rounds - 1]
        middle = (np.median(shown, axis=0), shown.min(axis=0), shown.max(axis=0))
        rest = (curve[rounds - 1] for curve in (nonprivate, best_fixed, best_constant, counted))
        return cls(*(tuple(curve.tolist()) for curve in (rounds, *middle, *rest)))


@dataclass(frozen=True, kw_only=True, repr=False)
class RunReport(Report):
    """A private learner and its comparators on one stream; not private.

    Every field except `timing` is a function of the stream, the settings and the seed.

    Attributes
    ----------
    stream : dict
        Public facts: name, rounds, dimension, names, source, scaling.
    settings : dict
        Every argument as passed; ``seed`` is None for operating-system entropy. A one-time fit has
        ``records`` in place of ``horizon``.
    domain, loss, parameters, guarantee : dict
        As written by their ``to_dict``; ``from_dict`` of each restores them.
    guarantee_text : str
        The guarantee in words, with its conditions and proof.
    noise : dict
        ``scale`` of one draw, ``released``: standard deviation of the coordinates of the worst
        released sum; the same with the published constants, and the ratios.
    private, nonprivate : PlayedRuns
        The learner with and without noise.
    best_fixed, best_constant : dict
        ``average_loss``, ``total_loss`` and the solution; ``gap`` is the certificate.
    curves : Curves
        Cumulative losses.
    versions : dict
        Versions of this library, NumPy and Python.
    timing : dict
        Seconds and rounds per second.
    first_round : int
        Number of rounds that the learner had played before (when continued from a checkpoint).
    rows : dict
        Numbers of rows of the stream: ``skipped`` as already played, ``played``, and
        ``beyond_horizon``, which were left out.
    nonprivate_records : dict
        How the played rows were read, as in `dpoco.RecordShares`. ``counted`` is the number of
        records without missing data, over which all losses are averaged. ``learned`` is the number
        of records from which the learner learned. Earlier reports lack this and `rows`.
    accuracy : dict
        Scores of every player on the counted records: ``error_rate`` and ``auc`` for yes-or-no
        labels, ``r2`` for the squared loss. For the private learner, they are medians over its
        runs.
    """

    schema: ClassVar[str] = SCHEMA
    _beside: ClassVar[tuple[str, ...]] = ("summary",)
    stream: Fields
    settings: Fields
    domain: Fields
    loss: Fields
    parameters: Fields
    guarantee: Fields
    guarantee_text: str
    best_fixed: Fields
    versions: dict[str, str]
    timing: Fields
    rows: dict[str, int] = field(default_factory=dict)
    nonprivate_records: Fields = field(default_factory=dict)
    noise: Fields
    private: PlayedRuns
    nonprivate: PlayedRuns
    best_constant: Fields
    curves: Curves
    first_round: int = 0
    accuracy: Fields = field(default_factory=dict)

    def _about(self) -> str:
        return f"on {self.stream.get('name')!r}, {self.stream.get('rounds')} rounds"

    @property
    def rounds(self) -> int:
        """Number of rounds played and evaluated."""
        return self.curves.rounds[-1]

    @property
    def price_of_privacy(self) -> float:
        """Median average loss of the private learner minus that of the learner without noise."""
        return self.private.average_loss - self.nonprivate.average_loss

    def summary(self) -> Fields:
        """Return the main numbers: losses, regrets and switches of every player."""
        return {
            "rounds": self.rounds,
            "private": self.private.summary(),
            "nonprivate": self.nonprivate.summary(),
            "best_fixed_average_loss": self.best_fixed["average_loss"],
            "best_constant_average_loss": self.best_constant["average_loss"],
            "price_of_privacy": self.price_of_privacy,
        }
