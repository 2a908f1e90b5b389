"""What every mechanism shares: how it is built, and the guarantee of its releases."""

from __future__ import annotations

from abc import abstractmethod
from inspect import signature
from types import ModuleType
from typing import Any, ClassVar

from dpoco._memory import require_memory
from dpoco._state import Stateful
from dpoco.accounting import Budget, Guarantee
from dpoco.privacy.mechanisms.base import Mechanism as Description
from dpoco.random import Source

__all__ = ["Mechanism"]


class Mechanism(Stateful):
    """Base of the mechanisms: parameters, calibrated or given, and one guarantee.

    Subclasses name their accountant (a module with ``guarantee`` and ``calibrate``, which takes the
    budget and what `_restated` lists by name) and their parameters' class.
    """

    _accountant: ClassVar[ModuleType]
    _parameters_class: ClassVar[type]

    _mechanism: Description
    _guarantee: Guarantee

    def _begin(self, constructed: type, arguments: dict[str, Any]) -> None:
        """Check a constructor's arguments, calibrate unless they bring parameters, and build.

        `constructed` is the class whose constructor it is.
        """
        budget, source = arguments["budget"], arguments["source"]
        parameters = arguments["parameters"]
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be a dpoco.Budget or None; got {type(budget).__name__}")
        if source is not None and not isinstance(source, Source):
            raise TypeError(f"source must be a dpoco.random.Source; got {type(source).__name__}")
        if parameters is None:
            parameters = self._calibrated(arguments)
        elif not isinstance(parameters, self._parameters_class):
            raise TypeError(f"parameters must be {self._parameters_class.__name__}")
        else:
            self._check_restated(arguments, parameters, signature(constructed).parameters)
        origin = Source() if source is None else source
        self._set_up(arguments, parameters, origin.is_seeded, origin._claim())
        if budget is not None:
            self._guarantee.require(budget)
            budget.doubt(arguments.get("horizon"), stacklevel=3)

    def _calibrated(self, arguments: dict[str, Any]) -> Any:
        """Return the parameters that meet the budget."""
        options = {name: arguments[name] for name in ("budget", *self._restated)}
        return self._accountant.calibrate(**options)

    def _set_up(
        self, arguments: dict[str, Any], parameters: Any, seeded: bool, claim: dict[str, Any]
    ) -> None:
        self._arguments = arguments
        self._parameters = parameters
        self._is_seeded = seeded
        if hasattr(self._accountant, "mechanism_of"):
            self._mechanism = self._accountant.mechanism_of(parameters)
        self._guarantee = self._accountant.guarantee(
            parameters, budget=arguments["budget"], seeded=seeded
        )
        require_memory(self._entries())
        self._engine = self._build_engine(claim)

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
    def round(self) -> int:
        """Releases made so far."""
        return int(self._engine.round)
