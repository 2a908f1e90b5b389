"""What every mechanism shares: how it is built, and the guarantee of its releases."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from dpoco._calibrated import Calibrated
from dpoco._state import Stateful
from dpoco._validation import LARGEST_HORIZON, require_memory
from dpoco.accounting import Guarantee
from dpoco.privacy.mechanisms.base import Mechanism as Description
from dpoco.random import Source

__all__ = ["Mechanism"]


class Mechanism(Calibrated, Stateful):
    """Base of the mechanisms: parameters, calibrated or given, and one guarantee.

    Their accountants take everything by name.
    """

    _mechanism: Description
    _guarantee: Guarantee
    _shown: ClassVar[tuple[str, ...]]  # parameters in the report

    def _begin(self, constructed: type, /, **arguments: Any) -> None:
        """Check a constructor's arguments, calibrate unless they bring parameters, and build.

        `constructed` is the class whose constructor it is; `arguments` are all that it takes.
        """
        self._check_common(arguments)
        budget, source = arguments["budget"], arguments["source"]
        if arguments["parameters"] is None:
            parameters = self._calibrated(arguments)
        else:
            parameters = self._check_given(constructed, arguments)
        origin = Source() if source is None else source
        self._set_up(arguments, parameters, origin.is_seeded, origin._claim())
        if budget is not None:
            self._guarantee.require(budget)
            budget.doubt(arguments.get("horizon"), stacklevel=3)

    def _set_up(
        self, arguments: dict[str, Any], parameters: Any, seeded: bool, claim: dict[str, Any]
    ) -> None:
        self._arguments = arguments
        self._parameters = parameters
        self._is_seeded = seeded
        self._mechanism = self._accountant.mechanism_of(parameters)
        self._guarantee = self._accountant.guarantee(
            parameters, budget=arguments["budget"], seeded=seeded
        )
        self._guarantee = self._of_people(arguments, self._guarantee, self.horizon)
        self._check_described(self._guarantee, self._mechanism)
        require_memory(self._entries())
        self._engine = self._build_engine(claim)
        self._check_built(self._mechanism, self._engine)

    def _entries(self) -> dict[str, float]:
        """Return how many doubles the engine has, at least, by what has them."""
        return {}

    @abstractmethod
    def _build_engine(self, claim: dict[str, Any]) -> Any:
        """Return a compiled mechanism in round 0 on the stream of `claim`."""

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all releases up to the horizon together."""
        return self._guarantee

    @property
    def horizon(self) -> int:
        """Largest number of releases; 10^12 for a mechanism without a horizon."""
        declared: int | None = self._parameters.horizon
        return LARGEST_HORIZON if declared is None else declared

    @property
    def round(self) -> int:
        """Releases made so far."""
        return int(self._engine.round)

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        return 1  # nothing is allocated before the caller brings scores or queries

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self._parameters, name)!r}" for name in self._shown)
        return f"{type(self).__name__}({shown})\n  {self._guarantee!r}"
