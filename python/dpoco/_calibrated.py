"""Learners and mechanisms that are calibrated: the constructor is the one table of their options.

What an option is called, its type and its default are in the constructor's signature, its values
and its meaning in the docstring. Calibration takes the arguments that it names, too; parameters fix
those that they have as well; commands make their options of the same table.
"""

from __future__ import annotations

import inspect
import re
import warnings
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, ClassVar

from dpoco import _core
from dpoco._participation import Participation, for_people
from dpoco._state import Stateful
from dpoco._validation import LARGEST_HORIZON, choice, require_memory
from dpoco.accounting import Budget, Guarantee
from dpoco.errors import BudgetExceeded, NoiseDominatesWarning
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Open
from dpoco.random import Source

_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float}


@dataclass(frozen=True)
class Option:
    """One argument of a constructor.

    Attributes
    ----------
    name : str
        The argument.
    kinds : tuple of str
        Names of its types: "str", "int", "float", "bool", "None", or a class.
    default : object
        ``inspect.Parameter.empty`` where it must be given.
    choices : tuple of str
        The texts it may be, empty if any or none.
    meaning : str
        What the docstring says.
    """

    name: str
    kinds: tuple[str, ...]
    default: Any
    choices: tuple[str, ...]
    meaning: str

    @property
    def flag_type(self) -> type:
        """The type of a command's flag: what is not one of bool, int and float alone is a text."""
        kinds = {kind for kind in self.kinds if kind != "None" and not kind.startswith("tuple")}
        return _TYPES.get(kinds.pop(), str) if len(kinds) == 1 else str

    @property
    def help(self) -> str:
        """The help of a command's flag: what it may be, and the first sentence of its meaning."""
        first = re.split(r"(?<=\w\w[.])\s", self.meaning)[0]
        return f"{', '.join(self.choices)}. {first}" if self.choices else first

    def read(self, value: Any) -> Any:
        """Return the value of a flag: a text that may be a number, too, if it is one.

        Raises
        ------
        ValueError
            For a text that the option cannot be.
        """
        if not isinstance(value, str):
            return value
        if "bool" in self.kinds and value in ("true", "false"):
            return value == "true"
        for name in ("int", "float"):
            if name in self.kinds:
                try:
                    return _TYPES[name](value)
                except ValueError:
                    continue
        if "str" not in self.kinds:
            raise ValueError(f"{self.name} must be {self.flag_type.__name__}; got {value!r}")
        return value


def documented(item: Any) -> dict[str, tuple[str, str]]:
    """Return what a docstring says of every parameter: the values it takes, and what it means."""
    sections = re.split(r"\n(\w[\w ]*)\n-+\n", inspect.getdoc(item) or "")
    said = dict(zip(sections[1::2], sections[2::2], strict=True)).get("Parameters", "")
    entries = re.findall(
        r"^(\w[\w, ]*?)(?: : (.*))?\n((?:[ ]{4}.*(?:\n|$)|\n)+)", f"{said}\n", re.M
    )
    return {
        name: (values, " ".join(text.split()))
        for names, values, text in entries
        for name in names.split(", ")
    }


@cache
def options_of(constructed: type) -> dict[str, Option]:
    """Return the table of a class: every argument of its constructor, in order."""
    about = documented(constructed)
    found = {}
    for name, parameter in inspect.signature(constructed).parameters.items():
        values, meaning = about.get(name, ("", ""))
        kinds = tuple(str(parameter.annotation).split(" | "))
        choices = tuple(re.findall(r'"([^"]*)"', values)) if "{" in values else ()
        found[name] = Option(name, kinds, parameter.default, choices, meaning)
    return found


def _check_held(what: str, said: Any, held: Any) -> None:
    if isinstance(said, Open | Nothing):
        return
    if isinstance(held, dict):
        for name, value in held.items():
            own = getattr(said, name)
            # A sum that is never released has an engine, too.
            _check_held(name, max(own, 1) if name == "pushes" else own, value)
    elif isinstance(held, tuple) and isinstance(said, tuple) and len(held) == len(said):
        for one, other in zip(said, held, strict=True):
            _check_held(what, one, other)
    elif said != held:
        raise BudgetExceeded(f"the engine holds another {what} than its description")


class Calibrated:
    """Base of what is built from parameters, calibrated or given, that keep to a budget.

    Subclasses name their accountant: a module with ``calibrate``, which returns their parameters,
    and ``guarantee``.
    """

    _accountant: ClassVar[ModuleType]
    _parameters_class: ClassVar[type]
    _options: ClassVar[tuple[str, ...]]  # arguments of the constructor that calibration takes
    _plans_people: ClassVar[bool]  # whether it takes a participation, too

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        calibrate = getattr(vars(cls).get("_accountant"), "calibrate", None)
        if calibrate is not None:
            signature = inspect.signature(calibrate)
            cls._parameters_class = getattr(cls._accountant, signature.return_annotation)
            taken = signature.parameters
            own = (name for name in inspect.signature(cls).parameters if name in taken)
            cls._options = tuple(name for name in own if name != "participation")
            cls._plans_people = "participation" in taken

    @staticmethod
    def _check_common(arguments: Mapping[str, Any]) -> None:
        """Check the arguments that all constructors take."""
        budget, source = arguments["budget"], arguments["source"]
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be a dpoco.Budget or None; got {type(budget).__name__}")
        if source is not None and not isinstance(source, Source):
            raise TypeError(f"source must be a dpoco.random.Source; got {type(source).__name__}")
        participation = arguments.get("participation")
        if participation is not None and not isinstance(participation, Participation):
            given = type(participation).__name__
            raise TypeError(f"participation must be a dpoco.Participation or None; got {given}")
        if "on_violation" in arguments:
            choice("on_violation", arguments["on_violation"], ("clip", "raise"))

    @staticmethod
    def _check_described(guarantee: Guarantee, mechanism: Any) -> None:
        """Raise `BudgetExceeded` unless the guarantee is of what the engine is built from."""
        if guarantee.private and guarantee.description != mechanism:
            raise BudgetExceeded("the guarantee is of another mechanism than the engine's")

    @staticmethod
    def _check_built(mechanism: Any, engine: Any) -> None:
        """Raise `BudgetExceeded` unless all that the engine holds is what its description says."""
        _check_held("mechanism", mechanism, _core.described(engine))

    @classmethod
    def _calibrated(cls, arguments: Mapping[str, Any], *problem: Any, **known: Any) -> Any:
        """Return the parameters that calibration makes of a constructor's arguments.

        `problem` are its first arguments, checked; `known` stand for what was given.
        """
        options = {name: arguments[name] for name in cls._options[len(problem) :]} | known
        participation, budget = arguments.get("participation"), options.get("budget")
        if participation is None or budget is None:
            return cls._accountant.calibrate(*problem, **options)
        if cls._plans_people:
            options["participation"] = participation
        return for_people(
            lambda single: cls._accountant.calibrate(*problem, **{**options, "budget": single}),
            lambda found: cls._accountant.guarantee(*problem, found, budget=budget),
            participation,
            budget,
        )

    @classmethod
    def _check_given(cls, constructed: type, arguments: Mapping[str, Any]) -> Any:
        """Return the parameters that were given, if they agree with all that was given beside.

        `constructed` is the class whose constructor it was: its defaults say nothing.
        """
        parameters = arguments["parameters"]
        if type(parameters) is not cls._parameters_class:
            raise TypeError(f"parameters must be {cls._parameters_class.__name__}")
        cls._check_restated(arguments, parameters, inspect.signature(constructed).parameters)
        return parameters

    @classmethod
    def _check_restated(
        cls,
        arguments: Mapping[str, Any],
        parameters: Any,
        defaults: Mapping[str, Any],
        free: Collection[str] = (),
    ) -> None:
        """Raise unless arguments that `parameters` fix, too, agree with them, but for `free`.

        One that is left at its default (of `defaults`, a signature's parameters), None, "auto" or
        "predicted" says nothing.
        """
        for name in cls._options:
            if name in free or not hasattr(parameters, name):
                continue
            value, fixed = arguments[name], getattr(parameters, name)
            chosen = isinstance(value, str) and value in ("auto", "predicted")
            if value is not None and not chosen and value not in (defaults[name].default, fixed):
                raise ValueError(f"{name}={value!r} contradicts parameters, which have {fixed!r}")


class Certified(Calibrated, Stateful):
    """Base of what releases by an engine: parameters, calibrated or given, and one guarantee.

    Accountants take what `_problem` returns first.
    """

    _horizon: int
    _mechanism: Mechanism
    _guarantee: Guarantee

    def _begin(self, constructed: type, /, **arguments: Any) -> None:
        """Check a constructor's arguments, calibrate unless they bring parameters, and build.

        `constructed` is the class whose constructor it is; `arguments` are all that it takes.
        """
        problem = self._problem(arguments)
        budget, source = arguments["budget"], arguments["source"]
        given = arguments["parameters"] is not None
        self._check_common(arguments)
        if given:
            parameters = self._check_given(constructed, arguments)
        else:
            parameters = self._calibrated(arguments, *problem)
        origin = Source() if source is None else source
        self._set_up(arguments, parameters, origin.is_seeded, origin._claim())
        # Published constants state what they spend, over the budget or not.
        if budget is not None and (given or arguments.get("calibration") != "paper"):
            self._guarantee.require(budget)
        if budget is not None:
            budget.doubt(arguments.get("horizon"), stacklevel=3)
        note = self._noise_note()
        if note is not None:
            warnings.warn(note, NoiseDominatesWarning, stacklevel=3)

    def _noise_note(self) -> str | None:
        """Return why hardly any learning is to be expected, from public numbers only; or None."""
        p = self._parameters
        if not p.noise_dominates:
            return None
        found = (name for name in ("predicted_error", "regret_bound") if hasattr(p, name))
        numbers = ", ".join(f"{name.replace('_', ' ')} {getattr(p, name):.3g}" for name in found)
        return (
            "noise dominates: at this budget and horizon hardly any learning is expected "
            f"({numbers})"
        )

    def _set_up(
        self, arguments: dict[str, Any], parameters: Any, seeded: bool, claim: dict[str, Any]
    ) -> None:
        problem = self._problem(arguments)
        self._arguments = arguments
        self._parameters = parameters
        self._is_seeded = seeded
        self._horizon = LARGEST_HORIZON if parameters.horizon is None else parameters.horizon
        self._mechanism = self._accountant.mechanism_of(*problem, parameters)
        self._guarantee = self._accountant.guarantee(
            *problem, parameters, budget=arguments["budget"], seeded=seeded
        )
        people: Participation | None = arguments.get("participation")
        if people is not None:
            people.check(self._horizon)
            self._guarantee = people.of(self._guarantee)
        self._declare(claim)
        self._check_described(self._guarantee, self._mechanism)
        require_memory(self._entries())
        self._engine = self._build_engine(claim)
        self._check_built(self._mechanism, self._engine)

    @classmethod
    def _problem(cls, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return what the accountant takes before anything else, by type and shape checked."""
        return ()

    def _declare(self, claim: dict[str, Any]) -> None:
        """Take what is declared about records and people, before the engine is built."""

    def _entries(self) -> dict[str, float]:
        """Return how many doubles the engine has, at least, by what has them."""
        return {}

    @abstractmethod
    def _build_engine(self, claim: dict[str, Any]) -> Any:
        """Return a compiled engine in round 0 on the stream of `claim`."""

    @property
    def round(self) -> int:
        """Rounds consumed so far: completed `observe` calls, or releases."""
        return int(self._engine.round)

    @property
    def horizon(self) -> int:
        """Number of rounds the guarantee covers; 10^12 where there is no horizon."""
        return self._horizon

    @property
    def parameters(self) -> Any:
        """Everything calibration fixed: what describes the mechanism, and what follows from it."""
        return self._parameters

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all releases together, whatever part of the horizon is used."""
        return self._guarantee
