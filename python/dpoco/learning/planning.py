"""Planning of what is calibrated: the arguments of a constructor become a plan.

Calibration takes the arguments of the constructor that it names too, and a plan fixes those that it
has. Nothing here is believed: the guarantee is computed from the result and compared with the
budget.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

from dpoco._options import constructor_options
from dpoco._validation import MissingHorizonError
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.plan import Plan
from dpoco.accounting.truncation import unspent_note
from dpoco.errors import CalibrationError, NoiseDominatesWarning, UnspentBudgetWarning
from dpoco.learners import LEARNERS, learner_of
from dpoco.learning.participation import for_people


def endless_advice(constructed: type) -> str:
    """Return what to do instead of giving this constructor no horizon."""
    own = learner_of(constructed)
    others = [each for each in LEARNERS if own is not None and each.plays == own.plays]
    names = [f"dpoco.{each.path}" for each in others if each.endless]
    take = f"take {' or '.join(names)}" if names else "give a horizon that is long enough"
    return f"for a stream without end {take}"


@contextmanager
def explained(constructed: type) -> Iterator[None]:
    """Raise errors of planning that say what a caller of this constructor can do."""
    try:
        yield
    except MissingHorizonError as error:
        raise ValueError(f"{error}; {endless_advice(constructed)}") from None
    except ArithmeticError:
        raise CalibrationError(
            "bounds, horizon and budget are so large or small that doubles cannot hold what "
            "follows from them: state lengths, labels and losses in units near 1"
        ) from None


def noise_note(numbers: str) -> str:
    """Return the words of a warning that noise dominates, with what was computed."""
    return (
        f"noise dominates: at this budget and horizon hardly any learning is expected ({numbers})"
    )


class Planned:
    """Base of objects that are built from parameters, calibrated or given.

    Subclasses name their accountant: a module with ``calibrate``, which returns their parameters,
    and ``guarantee``.
    """

    _accountant: ClassVar[ModuleType]
    _guarantee: Any
    _plan: Any
    _plan_class: ClassVar[type]
    _options: ClassVar[tuple[str, ...]]  # arguments of the constructor that calibration takes
    _plans_people: ClassVar[bool]  # whether it takes a participation, too

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        calibrate = getattr(vars(cls).get("_accountant"), "calibrate", None)
        if calibrate is not None:
            signature = inspect.signature(calibrate)
            returned = getattr(cls._accountant, signature.return_annotation)
            if isinstance(returned, type):  # parameters; all other plans are of one class
                cls._plan_class = returned
            taken = signature.parameters
            own = (name for name in inspect.signature(cls.__init__).parameters if name in taken)
            cls._options = tuple(name for name in own if name != "participation")
            cls._plans_people = "participation" in taken

    @classmethod
    def _planned(cls, arguments: Mapping[str, Any], *problem: Any, **known: Any) -> Any:
        """Return the parameters that calibration makes of a constructor's arguments.

        `problem` are its first arguments, checked; `known` stand for what was given.
        """
        options = {name: arguments[name] for name in cls._options[len(problem) :]} | known
        with explained(cls):
            endless = "horizon" in options and options["horizon"] is None
            if endless and not constructor_options(cls)["horizon"].takes_none:
                raise MissingHorizonError
            return cls._calibrated(arguments.get("participation"), options, problem)

    @classmethod
    def _calibrated(
        cls, participation: Any, options: dict[str, Any], problem: tuple[Any, ...]
    ) -> Any:
        budget = options.get("budget")
        if participation is None or budget is None:
            return cls._accountant.calibrate(*problem, **options)
        if cls._plans_people:
            options["participation"] = participation
        return for_people(
            lambda single: cls._accountant.calibrate(*problem, **{**options, "budget": single}),
            lambda found: cls._state(problem, found, budget=budget),
            participation,
            budget,
        )

    @classmethod
    def _state(cls, problem: tuple[Any, ...], plan: Any, **said: Any) -> Guarantee:
        """Return the guarantee of a plan, or of parameters for a problem."""
        given = () if isinstance(plan, Plan) else problem
        guarantee: Guarantee = cls._accountant.guarantee(*given, plan, **said)
        return guarantee

    @classmethod
    def _check_given(cls, constructed: type, arguments: Mapping[str, Any]) -> Any:
        """Return the parameters that were given, if they agree with all that was given beside.

        `constructed` is the class whose constructor it was: its defaults say nothing.
        """
        parameters = arguments["plan"]
        if type(parameters) is not cls._plan_class:
            raise TypeError(f"plan must be a {cls._plan_class.__name__}")
        cls._check_restated(arguments, parameters, constructor_options(constructed))
        return parameters

    @classmethod
    def _restated(cls, arguments: Mapping[str, Any], parameters: Any) -> dict[str, Any]:
        """Return the arguments that `plan` fixes as well."""
        return {name: arguments[name] for name in cls._options if hasattr(parameters, name)}

    @classmethod
    def _check_restated(
        cls, arguments: Mapping[str, Any], parameters: Any, defaults: Mapping[str, Any]
    ) -> None:
        """Raise unless the arguments that `plan` fixes as well agree with them.

        One that is left at its default (of `defaults`, the constructor's options), None, "auto" or
        "predicted" says nothing.
        """
        for name, value in cls._restated(arguments, parameters).items():
            fixed = getattr(parameters, name)
            chosen = isinstance(value, str) and value in ("auto", "predicted")
            if value is not None and not chosen and value not in (defaults[name].default, fixed):
                raise ValueError(f"{name}={value!r} contradicts the plan, which has {fixed!r}")

    def _warn(self, arguments: Mapping[str, Any]) -> None:
        """Warn a caller of a delta or noise that is too large, and of budget left over."""
        if arguments["budget"] is not None:
            arguments["budget"].doubt(arguments.get("horizon"), stacklevel=4)
            self._warn_unspent(arguments, stacklevel=5)
        note = self._noise_note()
        if note is not None:
            warnings.warn(note, NoiseDominatesWarning, stacklevel=4)

    def _warn_unspent(self, arguments: Mapping[str, Any], *, stacklevel: int) -> None:
        """Warn if calibration left part of the budget, for which no smaller noise is proved."""
        budget, stated = arguments["budget"], self._guarantee
        if budget is None or arguments["plan"] is not None:
            return
        note = unspent_note(budget, stated.epsilon, stated.truncation_mass)
        if note is not None:
            warnings.warn(note, UnspentBudgetWarning, stacklevel=stacklevel)

    def _noise_note(self) -> str | None:
        """Return why hardly any learning is to be expected, from public numbers only; or None."""
        p = self._plan.forecast if isinstance(self._plan, Plan) else self._plan
        if not getattr(p, "noise_dominates", False):
            return None
        known = {name: getattr(p, name, None) for name in ("predicted_error", "regret_bound")}
        return noise_note(
            ", ".join(
                f"{name.replace('_', ' ')} {value:.3g}"
                for name, value in known.items()
                if value is not None
            )
        )
