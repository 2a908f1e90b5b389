"""Learners and mechanisms that keep to a budget: every plan is certified before it is used."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType, NoneType
from typing import Any, ClassVar

from dpoco import _core
from dpoco._validation import (
    LARGEST_HORIZON,
    Fields,
    MissingHorizonError,
    Named,
    choice,
    require_memory,
)
from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.continual_sum import method_name
from dpoco.accounting.gaussian import unspent_note
from dpoco.accounting.plan import Plan
from dpoco.accounting.release import read_numerics
from dpoco.errors import (
    BudgetExceeded,
    CalibrationError,
    NoiseDominatesWarning,
    UnspentBudgetWarning,
)
from dpoco.learners import LEARNERS, find_learner
from dpoco.learning.participation import Participation, for_people
from dpoco.learning.state import Stateful, argument_names
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import CHANGES
from dpoco.privacy.records import Description
from dpoco.random import Source

AnyPlan = Plan[Any, Any, Any]


def endless_advice(constructed: type) -> str:
    """Return advice on what to pass instead of ``horizon=None``."""
    own = find_learner(constructed)
    others = [each for each in LEARNERS if own is not None and each.plays == own.plays]
    names = [f"dpoco.{each.path}" for each in others if each.endless]
    take = f"take {' or '.join(names)}" if names else "give a horizon that is long enough"
    return f"for a stream without end {take}"


@contextmanager
def explain_errors(constructed: type) -> Iterator[None]:
    """Turn errors of planning into errors that say what a caller of this constructor can do."""
    try:
        yield
    except MissingHorizonError as error:
        raise ValueError(f"{error}; {endless_advice(constructed)}") from None
    except ArithmeticError:
        raise CalibrationError(
            "bounds, horizon and budget are so large or small that doubles cannot hold what "
            "follows from them: state lengths, labels and losses in units near 1"
        ) from None


def calibrate(
    constructed: type,
    planner: Callable[..., Any],
    certify: Callable[..., Guarantee],
    people: Participation | None,
    budget: Budget | None,
) -> Any:
    """Return the plan that a constructor calibrates, for single rounds or for all of a person.

    Parameters
    ----------
    constructed : type
        The class, for messages.
    planner : callable
        Returns the plan of a ``budget`` for single rounds.
    certify : callable
        Returns the guarantee of a plan for single rounds.
    people : Participation or None
        How often one person may come.
    budget : Budget or None
        Budget for all rounds of a person, or for single rounds without `people`; None adds no
        noise.

    Raises
    ------
    CalibrationError
        If no noise meets the budget, or doubles cannot hold the numbers.
    ValueError
        If the planner needs a horizon.
    """
    with explain_errors(constructed):
        if people is None or budget is None:
            return planner(budget=budget)
        return for_people(planner, certify, people, budget)


def noise_note(numbers: str) -> str:
    """Return the text of a warning that noise dominates, with the computed numbers."""
    return (
        f"noise dominates: at this budget and horizon hardly any learning is expected ({numbers})"
    )


class Calibrated:
    """Base of objects that are built from a plan, calibrated or given, within a budget.

    No calibration is trusted: the guarantee is computed from the plan and compared with the budget.
    """

    _guarantee: Any
    _plan: Any

    @staticmethod
    def _check_common(arguments: Named) -> None:
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
        for name, known in (("on_violation", ("clip", "raise")), ("relation", CHANGES)):
            if name in arguments:
                choice(name, arguments[name], known)

    @classmethod
    def _check_fixed(cls, plan: Any, given: Named) -> None:
        """Raise unless the plan is for this class, and the arguments that it fixes agree with it.

        An argument with its default value, None or "auto" agrees with every plan.
        """
        if not isinstance(plan, Plan):
            raise TypeError(f"plan must be a dpoco.Plan; got {type(plan).__name__}")
        try:
            settled = cls._plan_arguments(plan)
        # The mechanism lacks a field.
        except AttributeError:
            raise TypeError(f"plan must be a plan for a {cls.__name__}") from None
        defaults = cls.__init__.__kwdefaults__ or {}
        for name, value in settled.items():
            own = given.get(name)
            silent = own is None or (isinstance(own, str) and own in ("auto", "predicted"))
            if not silent and own not in (defaults.get(name), value):
                raise ValueError(f"{name}={own!r} contradicts the plan, which has {value!r}")

    @classmethod
    def _plan_arguments(cls, plan: AnyPlan) -> Fields:
        """Return the values of the constructor's arguments that a plan determines.

        Raises
        ------
        TypeError
            If the plan is for another class.
        """
        raise NotImplementedError

    @staticmethod
    def _check_described(guarantee: Guarantee, mechanism: object) -> None:
        """Raise `BudgetExceeded` unless the guarantee describes the engine's mechanism."""
        # The epsilon was computed from the first description, and the engine reads the second.
        if guarantee.private and guarantee.description != mechanism:
            raise BudgetExceeded("the guarantee is of another mechanism than the engine's")

    def _warn(self, arguments: Named) -> None:
        """Warn the caller if delta or the noise is too large, or if budget is left over."""
        if arguments["budget"] is not None:
            # These stack levels point to the line that called the constructor.
            arguments["budget"].doubt(arguments.get("horizon"), stacklevel=4)
            self._warn_unspent(arguments, stacklevel=5)
        note = self._noise_note()
        if note is not None:
            warnings.warn(note, NoiseDominatesWarning, stacklevel=4)

    def _warn_unspent(self, arguments: Named, *, stacklevel: int) -> None:
        """Warn if calibration left part of the budget, since no smaller noise is proved."""
        budget, stated = arguments["budget"], self._guarantee
        if budget is None or arguments["plan"] is not None:
            return
        note = unspent_note(budget, stated.epsilon, stated.truncation_mass)
        if note is not None:
            warnings.warn(note, UnspentBudgetWarning, stacklevel=stacklevel)

    def _noise_note(self) -> str | None:
        """Return why hardly any learning is expected, from public numbers only; None if it is."""
        forecast = self._plan.forecast
        if not getattr(forecast, "noise_dominates", False):
            return None
        known = {
            name: getattr(forecast, name, None) for name in ("predicted_error", "regret_bound")
        }
        return noise_note(
            ", ".join(
                f"{name.replace('_', ' ')} {value:.3g}"
                for name, value in known.items()
                if value is not None
            )
        )


class Certified(Calibrated, Stateful):
    """Base of objects that release through an engine, with a plan and one guarantee."""

    # Parts of this class's plans besides the mechanism.
    _tuning: ClassVar[type[Description] | None] = None
    _forecast: ClassVar[type[Description] | None] = None
    # Makes and certifies plans, unless the class does so itself.
    _accountant: ClassVar[ModuleType]
    _horizon: int
    _mechanism: Mechanism
    _guarantee: Guarantee

    def _build(
        self,
        planner: partial[Any],
        budget: Budget | None,
        plan: AnyPlan | None,
        source: Source | None,
        others: Named | None = None,
    ) -> None:
        """Take the given plan or calibrate one, certify it, and build its engine.

        `planner` makes a plan for single rounds from a budget. It already has the constructor's
        arguments that it takes, by name; `others` are the remaining arguments.

        Raises
        ------
        ValueError, TypeError
            For bad arguments, and for a plan that contradicts them.
        CalibrationError
            If no noise meets the budget.
        BudgetExceeded
            If the plan, given or calibrated, spends more than the budget.
        MemoryError
            If the engine would not fit into memory.
        """
        given = {**planner.keywords, **(others or {})}
        given |= {"budget": budget, "plan": plan, "source": source}
        # Reports and states list arguments in the constructor's order.
        order = [*argument_names(type(self)), *given]
        given = {name: given[name] for name in dict.fromkeys(order) if name in given}
        self._problem(given)
        self._check_common(given)
        self._arguments = given
        if plan is not None:
            self._check_fixed(plan, given)
        else:
            people = given.get("participation")
            plan = calibrate(type(self), planner, self._certify, people, budget)
        source = Source() if source is None else source
        # No other object uses a claimed stream, even if the following lines fail.
        self._set_up(given, plan, source.is_seeded, source._claim())
        if budget is not None:
            # A calibrated plan is checked as well: a mistake of a planner must not become a
            # promise.
            self._guarantee.require(budget)
        self._warn(given)

    @classmethod
    def _read_plan(cls, record: Named) -> Any:
        """Return the plan of a state, whose tuning and forecast are of this class's types."""
        return Plan.from_dict(record, cls._tuning, cls._forecast)

    @classmethod
    def _plan_arguments(cls, plan: AnyPlan) -> Fields:
        """Return the arguments that a plan determines: the fields of its parts, by name."""
        total, own = plan.mechanism, plan.tuning
        if type(own) is not (cls._tuning or NoneType):
            raise TypeError(f"plan must be a plan for a {cls.__name__}")
        found = {**vars(total), **({} if own is None else vars(own))}
        if isinstance(total, GaussianSum):
            found["sum_method"] = method_name(total.factorisation)
            if total.scale > 0.0:
                # A plan without noise has no arithmetic that an argument could contradict.
                found["numerics"] = read_numerics(total)
        found |= cls._rename_fields(plan)
        return {name: found[name] for name in argument_names(cls) if name in found}

    @staticmethod
    def _rename_fields(plan: AnyPlan) -> Fields:
        """Return the arguments that a plan determines under other names, or in nested fields."""
        return {}

    @staticmethod
    def _plan_horizon(plan: AnyPlan) -> int:
        """Return the number of rounds that a plan is for."""
        horizon: int | None = plan.tuning.horizon
        return LARGEST_HORIZON if horizon is None else horizon

    def _certify(self, plan: AnyPlan, seeded: bool = False) -> Guarantee:
        """Return the guarantee of all that a plan's mechanism releases."""
        own, state = self._arguments, self._accountant.guarantee
        found: Guarantee = (
            state(
                *self._problem(own), plan, relation=own["relation"], budget=own["budget"],
                seeded=seeded,
            )
            if "relation" in own
            else state(plan, budget=own["budget"], seeded=seeded)
        )  # fmt: skip
        return found

    def _set_up(self, arguments: Fields, plan: AnyPlan, seeded: bool, claim: _core.Claim) -> None:
        """Certify a plan, and build the unstarted object from it; `claim` is its key and stream."""
        self._arguments, self._plan, self._is_seeded = arguments, plan, seeded
        self._horizon, self._mechanism = self._plan_horizon(plan), plan.mechanism
        self._guarantee = self._certify(plan, seeded)
        people: Participation | None = arguments.get("participation")
        if people is not None:
            # The guarantee for single rounds comes first; that for a person's rounds is composed
            # from it.
            people.check(self._horizon)
            self._guarantee = people.of(self._guarantee)
        self._declare(claim)
        self._check_described(self._guarantee, self._mechanism)
        # This check precedes the engine's allocation: the system kills a process that asks for too
        # much memory, without an error.
        require_memory(self._entries())
        self._engine = self._build_engine(claim)

    @classmethod
    def _problem(cls, arguments: Named) -> tuple[Any, ...]:
        """Check the problem's arguments, and return those that the accountant takes first."""
        return ()

    def _declare(self, claim: _core.Claim) -> None:
        """Store declarations about records and people, before the engine is built."""

    def _entries(self) -> dict[str, float]:
        """Return lower bounds on the doubles that the engine allocates, by purpose."""
        return {}

    @abstractmethod
    def _build_engine(self, claim: _core.Claim) -> Any:
        """Return a compiled engine in round 0 on the stream of `claim`."""

    @property
    def round(self) -> int:
        """Rounds consumed so far: completed `observe` calls, or releases; public."""
        return int(self._engine.round)

    @property
    def horizon(self) -> int:
        """Number of rounds that the guarantee covers; 10^12 without a horizon."""
        return self._horizon

    @property
    def plan(self) -> Any:
        """The plan from which the learner is built: mechanism, tuning and forecast.

        ``plan.mechanism`` describes all bounds and noise, and the guarantee follows from it;
        ``plan.forecast`` is None without a prediction. The plan depends on no data.
        """
        return self._plan

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all releases together, however much of the horizon is used.

        With a `participation` it covers all rounds of a person. The first ticket adds a condition.
        """
        return self._guarantee
