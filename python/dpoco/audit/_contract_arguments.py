"""Checks of the contract: arguments, parameters, budgets, reports, replays."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import numpy as np

from dpoco.accounting import Budget
from dpoco.audit._contract import (
    BUDGET,
    EVERY,
    ROUNDS,
    STEPPED,
    Subject,
    arguments_of,
    check,
    refused,
    require,
)
from dpoco.audit.replay import replay_audit
from dpoco.domains import LpBall
from dpoco.errors import BudgetExceeded
from dpoco.losses import GlmLoss
from dpoco.random import Source

BAD = (ValueError, TypeError)


def _arguments(s: Subject) -> dict[str, Any]:
    """Return the arguments of the first learner, for constructors of its class."""
    first = s.first
    found = first.get_params() if hasattr(first, "get_params") else first._arguments
    return {name: value for name, value in found.items() if name != "source"}


def _built(s: Subject, kind: type | None = None, **changes: Any) -> Any:
    return (kind or s.kind)(**{**_arguments(s), **changes})


@check(*EVERY)
def bad_arguments_are_refused(s: Subject) -> None:
    """A constructor refuses, at once, what it does not know or cannot use."""
    names = arguments_of(s.kind)
    bad: dict[str, tuple[Any, ...]] = {
        "horizon": (0, -5, 1.5, True, "1", 10**13),
        "records": (0, -5, 1.5, True, "1"),
        "experts": (0, -1, 2.0, True, None, "2"),
        "arms": (0, -1, 2.0, True, None, "2"),
        "dimension": (0, -1, 2.0, True, None, "2"),
        "candidates": (0, -1, 2.0, True, None, "2"),
        "domain": ("ball", None, 3),
        "loss": ("squared", None, 3),
        "loss_range": ((0.0, 0.0), (1.0, 0.0), (0.0, np.inf), 3.0),
        "budget": (1.0, (1.0, 1e-5), "1"),
        "source": (np.random.default_rng(0), 7),
        "parameters": ({}, 3),
        "on_violation": ("ignore", None),
        "relation": ("add", None),
        "batch": (0, -1, 1.5, "many", 10**13),
        "start": ([np.nan] * 3, [0.0] * 7, "zero"),
    }
    refused("an unknown option", TypeError, _built, s, no_such_option=1)
    for name, parameter in names.items():
        for value in bad.get(name, _unfit(repr(parameter.annotation))):
            changes = {"parameters": None, name: value}
            refused(f"{name}={value!r}", BAD, _built, s, **changes)


def _unfit(annotation: str) -> tuple[Any, ...]:
    """Return what is no value of an option, by its annotation."""
    if "'str" in annotation:
        return "no such word", 3
    if "'bool" in annotation:
        return "no", 1
    if "'float" in annotation:
        return np.nan, "wide"
    return (1.5, "many") if "'int" in annotation else ()


def _restated(s: Subject) -> dict[str, Any]:
    """Return the arguments that parameters fix, too, with their values there."""
    p = s.first.parameters
    return {name: getattr(p, name) for name in arguments_of(s.kind) if hasattr(p, name)}


@check(*EVERY)
def parameters_may_be_restated(s: Subject) -> None:
    """Arguments beside ``parameters`` that say the same are fine; others raise `ValueError`."""
    s.applies("parameters" in arguments_of(s.kind))
    p = s.first.parameters
    fixed = _restated(s)
    for name, value in fixed.items():
        try:
            again = _built(s, **{"parameters": p, name: value})
        except ValueError as error:  # what only calibration takes is refused whatever it says
            require("leave it out" in str(error), f"{name}={value!r} restated: {error}")
            continue
        require(again.parameters == p, f"parameters changed by {name} being restated")
        if isinstance(value, bool):
            others: list[Any] = [not value]
        elif isinstance(value, (int, float)):
            others = [value + 1 if np.isfinite(value) else 0.5]
        elif isinstance(value, str):
            others = [word for word in _words(s.kind, name) if word not in (value, "auto")]
        else:
            others = []
        default = arguments_of(s.kind)[name].default  # which says nothing
        for other in (each for each in others if each != default):
            refused(
                f"{name}={other!r} beside parameters with {value!r}", ValueError,
                _built, s, **{"parameters": p, name: other},
            )  # fmt: skip


def _words(kind: type, name: str) -> list[str]:
    """Return the documented words of an option."""
    line = re.search(rf"^    {name} : (.*)", kind.__doc__ or "", re.MULTILINE)
    return re.findall(r'"(\w+)"', line[1]) if line else []


@check(*EVERY)
def budgets_are_kept(s: Subject) -> None:
    """Whoever plans the noise, a constructor certifies it and raises `BudgetExceeded` if too loud.

    Calibration that plans for twice epsilon (about half the noise) is refused, and so are
    parameters beside a smaller budget: call ``guarantee.require(budget)``.
    """
    s.applies("parameters" in arguments_of(s.kind))
    spent = s.first.guarantee
    s.applies(spent.private and spent.epsilon > 0.0)
    delta = max(spent.delta, 1e-9)
    half = Budget._derived(0.5 * spent.epsilon_at(delta), delta)
    refused(
        "parameters that exceed the budget beside them", BudgetExceeded,
        _built, s, parameters=s.first.parameters, budget=half,
    )  # fmt: skip
    silent = _built(s, budget=None, parameters=None, **_unlimited(s)).parameters
    refused(
        "parameters without noise beside a budget", BudgetExceeded,
        _built, s, parameters=silent, budget=half, **_unlimited(s),
    )  # fmt: skip
    planner = getattr(s.kind, "_accountant", None)
    if planner is None or _arguments(s).get("calibration", "tight") != "tight":
        return  # printed constants need not use up what they are given

    def careless(*given: Any, budget: Budget | None, **more: Any) -> Any:
        wider = None if budget is None else Budget._derived(2.0 * budget.epsilon, budget.delta)
        return planner.calibrate(*given, budget=wider, **more)

    accountant = SimpleNamespace(**{**vars(planner), "calibrate": careless})
    body = {"_accountant": accountant, "__doc__": s.kind.__doc__}
    kind = type(s.kind.__name__, (s.kind,), body)
    asked = Budget._derived(spent.epsilon_at(delta), delta)
    refused(
        "noise planned for twice the budget", BudgetExceeded,
        _built, s, kind, parameters=None, budget=asked,
    )  # fmt: skip


def _unlimited(s: Subject) -> dict[str, Any]:
    """Return options without those that only noise has a meaning for."""
    return {"coupling": "auto"} if "coupling" in arguments_of(s.kind) else {}


@check(*EVERY)
def no_budget_is_no_promise(s: Subject) -> None:
    """Without a budget no noise is added, and the guarantee says so."""
    s.applies(s.first.guarantee.epsilon != 0.0)
    free = _built(s, budget=None, parameters=None, **_unlimited(s))
    require(not free.guarantee.private, "a learner without a budget claims to be private")


@check(*STEPPED)
def one_dimension_is_enough(s: Subject) -> None:
    """The smallest problem is played as any other: one coordinate, expert, arm or candidate."""
    names, changes = arguments_of(s.kind), dict[str, Any]()
    domain = getattr(s.first, "domain", None)
    if isinstance(domain, LpBall):
        changes["domain"] = LpBall(1, domain.p, domain.radius)
    if "start" in names:
        changes["start"] = None
    for name in ("experts", "arms", "dimension", "candidates"):
        if name in names:
            changes[name] = 1
    s.applies(changes and s.runs and (domain is None or "domain" in changes))
    given = {**_arguments(s), **changes, "parameters": None, "budget": BUDGET}
    learner = s.kind(**given, source=Source.seeded(1))
    small = dataclasses.replace(s, stream=_narrow(s), first=learner)
    require(len(small.play(learner)) == ROUNDS, "rounds are missing")


def _narrow(s: Subject) -> tuple[Any, ...]:
    return tuple(part[(slice(None), *[slice(1)] * (part.ndim - 1))] for part in s.stream)


@check(*STEPPED)
def arguments_come_back(s: Subject) -> None:
    """`get_params` returns the constructor's arguments as given; they rebuild the learner."""
    learner = s.fresh()
    found = learner.get_params()
    require(set(found) == set(arguments_of(s.kind)), "get_params() has other names")
    require(found["horizon"] == ROUNDS, "get_params() has another horizon")
    source = found["source"]
    again = s.kind(**found)
    require(again.parameters == learner.parameters, "get_params() rebuild something else")
    require(again.get_params()["source"] is source, "get_params() has another source")
    require(type(learner.parameters).from_dict(learner.parameters.to_dict()) == learner.parameters,
            "parameters do not survive to_dict()")  # fmt: skip


@check(*EVERY)
def reports_show_no_data(s: Subject) -> None:
    """`repr` shows parameters and guarantee, and nothing that playing changes."""
    learner = s.fresh()
    before = repr(learner)
    require("epsilon" in before or not s.first.guarantee.private, "repr() states no epsilon")
    require("Source" not in before, "repr() shows the source")
    s.released(learner)
    require(repr(learner) == before, "repr() changes with the data")


@check(*EVERY)
def replays_move_no_more_than_stated(s: Subject) -> None:
    """A replaced record moves what the noise hides by no more than the guarantee states."""
    s.applies(getattr(s.first, "loss", None) is None or isinstance(s.first.loss, GlmLoss))
    silent, huge = s.first.guarantee.change == "zero_out", s.plays not in ("scores", "queries")
    parts = tuple(part.copy() for part in s.part(0, ROUNDS))
    replacements: list[Any] = []
    for t in (0, ROUNDS // 2):
        if huge:  # from far over the bounds to the other side of them, or to nothing
            for part in parts:
                part[t] *= 1e6
            replacements.append((t, *((0.0 if silent else -1.0) * part[t] for part in parts)))
        else:  # by less than the sensitivity
            replacements.append((t, parts[0][t] + 0.5))
    found = replay_audit(
        lambda source: s.fresh(source=source), parts if len(parts) > 1 else parts[0], replacements
    ).findings
    require(not found, "; ".join(map(str, found)))
