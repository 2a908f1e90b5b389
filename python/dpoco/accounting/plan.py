"""Plans: the input from which learners and mechanisms are built, fixed before there are data.

Privacy follows from the mechanism alone. A plan written by someone else is certified like a
calibrated one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dpoco._json import read_record
from dpoco._validation import Fields, Named, choice
from dpoco.errors import StateError
from dpoco.privacy.mechanisms import read_mechanism
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.records import Description, limits, read, to_record

__all__ = ["Forecast", "Plan"]

M = TypeVar("M", bound=Mechanism)
T = TypeVar("T", bound="Description | None")
F = TypeVar("F", bound="Description | None")
_PARTS = ("forecast", "mechanism", "tuning")
_FIELDS = frozenset((*_PARTS, "calibration"))
# A guarantee with calibration "tight" states no claim besides what it proves.
CALIBRATIONS = ("tight", "corrected", "paper")


@dataclass(frozen=True)
class Forecast(Description):
    """Forecast of a learner by its planner.

    Attributes
    ----------
    regret_bound : float or None
        Bound on the expected regret over the horizon; infinite or None if nothing is claimed.
    regret_scope : str
        Losses for which the bound holds.
    """

    kind = "forecast"
    regret_bound: float | None = limits(zero=True, infinite=True)
    regret_scope: str = limits()


@dataclass(frozen=True)
class Plan(Generic[M, T, F]):
    """A mechanism within a budget, the parameters of its post-processing, and a forecast.

    Attributes
    ----------
    mechanism : Mechanism
        The mechanism that the engine enforces and draws, with all its numbers. The engine is built
        from it, and the guarantee is computed from it.
    tuning : Description or None
        Parameters of post-processing only: steps, ridges, rounds to play. No guarantee depends on
        them.
    forecast : Description or None
        The regret bound that the planner minimised, and its terms. It is for information; the
        guarantee computes its own bound.
    calibration : {"tight", "corrected", "paper"}
        How the noise was found: as little as is proved to be enough, by the corrected theorem of a
        paper, or as printed. For the latter two, a guarantee states their claims.
    """

    mechanism: M
    tuning: T
    forecast: F
    calibration: str = "tight"

    def __post_init__(self) -> None:
        """Raise for other values of `calibration`."""
        choice("calibration", self.calibration, CALIBRATIONS)

    def to_dict(self) -> Fields:
        """Return a JSON-able dictionary that `from_dict` restores exactly."""
        parts = {name: to_record(getattr(self, name)) for name in _PARTS}
        # Plans from before this field existed are read as "tight" and written without the field.
        if self.calibration != "tight":
            parts["calibration"] = self.calibration
        return {"kind": "dpoco.plan", "version": 1, **parts}

    @classmethod
    def from_dict(
        cls,
        record: Named,
        tuning: type[Description] | None = None,
        forecast: type[Description] | None = None,
    ) -> Plan[Any, Any, Any]:
        """Return the plan written by `to_dict`.

        Parameters
        ----------
        record
            The dictionary.
        tuning, forecast
            Classes of these parts; None for plans without them.

        Raises
        ------
        StateError
            If it is anything else.
        """
        # Plans from before the field existed were all of this kind.
        if isinstance(record, Mapping):
            record = {"calibration": "tight", **record}
        body = read_record(record, kind="dpoco.plan", version=1, fields=_FIELDS)

        def part(name: str, kind: type[Description] | None) -> Description | None:
            if kind is not None:
                return read(body[name], (kind,))
            if body[name] is not None:
                raise StateError(f"a plan of this class has no {name}")
            return None

        try:
            own = part("tuning", tuning), part("forecast", forecast)
            mechanism = read_mechanism(body["mechanism"])
            return cls(mechanism, *own, body["calibration"])  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise StateError("malformed record of a plan") from error
