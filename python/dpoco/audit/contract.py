"""The contract of learners and mechanisms: the rules that callers rely on, as runnable checks.

This module has the checks of arguments, budgets, reports, replays and descriptions.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpoco._validation import choice, choose_name
from dpoco.accounting import Budget
from dpoco.accounting.plan import Plan
from dpoco.audit import _contract_copies, _contract_rounds
from dpoco.audit._contract import (
    BAD,
    BUDGET,
    EVERY,
    ROUNDS,
    STEPPED,
    Check,
    InapplicableError,
    Subject,
    _standard_subject,
    _subject,
    check,
    constructor_parameters,
    equal,
    expect_error,
    require,
)
from dpoco.audit._family import Decision, Learner, LearnerPlan, Options, Record, Stream, quiet
from dpoco.audit._kinds import find_known_family
from dpoco.audit.replay import replay_audit
from dpoco.domains import LpBall
from dpoco.errors import BudgetExceeded
from dpoco.learners import LEARNERS, MONITORS, find_learner, learner_named
from dpoco.losses import MarginLoss
from dpoco.privacy.records import Description
from dpoco.random import Source

__all__ = ["check_learner", "contract_checks"]

_UNKNOWN = "unknown_field"  # of a description; no engine reads it
_SIZES = ("experts", "arms", "dimension", "candidates")


def _arguments(s: Subject) -> Options:
    """Return the arguments of the first learner, for constructors of its class."""
    first = s.first
    s.applies(hasattr(first, "get_params") or hasattr(first, "_arguments"))
    found = first.get_params() if hasattr(first, "get_params") else first._arguments
    return {name: value for name, value in found.items() if name != "source"}


def _build(s: Subject, kind: type | None = None, **changes: object) -> Learner:
    """Return a learner, of this class or another, with the first one's arguments and changes."""
    learner: Learner = (kind or s.kind)(**{**_arguments(s), **changes})
    return learner


@check(*EVERY)
def bad_arguments_are_refused(s: Subject) -> None:
    """A constructor refuses, at once, what it does not know or cannot use."""
    _, names = _arguments(s), constructor_parameters(s.kind)
    bad: dict[str, Record] = {
        "horizon": (0, -5, 1.5, True, "1", 10**13),
        "records": (0, -5, 1.5, True, "1"),
        **dict.fromkeys(_SIZES, (0, -1, 2.0, True, None, "2")),
        "domain": ("ball", None, 3),
        "loss": ("squared", None, 3),
        "loss_range": ((0.0, 0.0), (1.0, 0.0), (0.0, np.inf), 3.0),
        "budget": (1.0, (1.0, 1e-5), "1"),
        "source": (np.random.default_rng(0), 7),
        "plan": ({}, 3),
        "on_violation": ("ignore", None),
        "relation": ("add", None),
        "batch": (0, -1, 1.5, "many", 10**13),
        "start": ([np.nan] * 3, [0.0] * 7, "zero"),
    }
    expect_error("an unknown option", TypeError, _build, s, no_such_option=1)
    for name, parameter in names.items():
        for value in bad.get(name, _unfit(repr(parameter.annotation))):
            # With a plan, the check would only see that plan and argument disagree.
            changes = {"plan": None, name: value}
            expect_error(f"{name}={value!r}", BAD, _build, s, **changes)


def _unfit(annotation: str) -> Record:
    """Return values that are invalid for an option, by its annotation."""
    if "'str" in annotation:
        return "no such word", 3
    if "'bool" in annotation:
        return "no", 1
    if "'float" in annotation:
        return np.nan, "wide"
    return (1.5, "many") if "'int" in annotation else ()


@check(*EVERY)
def parameters_may_be_restated(s: Subject) -> None:
    """Arguments next to ``plan`` that say the same are fine; others raise `ValueError`."""
    s.applies("plan" in constructor_parameters(s.kind))
    p = s.first.plan
    for name, value in _settle(s.kind, p).items():
        try:
            again = _build(s, **{"plan": p, name: value})
        except ValueError as error:  # arguments of calibration only are always refused
            require("leave it out" in str(error), f"{name}={value!r} restated: {error}")
            continue
        require(again.plan == p, f"parameters changed by {name} being restated")
        if isinstance(value, bool):
            others: list[object] = [not value]
        elif isinstance(value, (int, float)):
            others = [value + 1 if np.isfinite(value) else 0.5]
        elif isinstance(value, str) and value != "none":  # "none" is no noise under any law
            others = [word for word in _words(s.kind, name) if word not in (value, "auto")]
        else:
            others = []
        default = constructor_parameters(s.kind)[name].default  # the default states nothing
        for other in (each for each in others if each != default):
            expect_error(
                f"{name}={other!r} next to parameters with {value!r}", ValueError,
                _build, s, **{"plan": p, name: other},
            )  # fmt: skip


def _settle(kind: Any, plan: object) -> Options:
    """Return the arguments of a constructor that a plan determines."""
    if isinstance(plan, Plan):
        fixed: Options = kind._plan_arguments(plan)
        return fixed
    return {
        name: getattr(plan, name) for name in constructor_parameters(kind) if hasattr(plan, name)
    }


def _words(kind: type, name: str) -> list[str]:
    """Return the documented values of an option."""
    line = re.search(rf"^{name} : (.*)", inspect.getdoc(kind) or "", re.MULTILINE)
    return re.findall(r'"(\w+)"', line[1]) if line else []


@check(*EVERY)
def budgets_are_kept(s: Subject) -> None:
    """A constructor certifies the noise of any plan, and raises `BudgetExceeded` if too small.

    Calibration that plans for twice epsilon (about half the noise) is refused, and so are
    parameters next to a smaller budget: call ``guarantee.require(budget)``.
    """
    s.applies("plan" in constructor_parameters(s.kind))
    spent = s.first.guarantee
    s.applies(spent.private and spent.epsilon > 0.0)
    # At delta = 0, Gaussian noise has no finite epsilon to halve.
    delta = max(spent.delta, 1e-9)
    # The public constructor would warn about a large delta.
    half = Budget._derived(0.5 * spent.epsilon_at(delta), delta)
    expect_error(
        "parameters that exceed the given budget", BudgetExceeded,
        _build, s, plan=s.first.plan, budget=half,
    )  # fmt: skip
    silent = _build(s, budget=None, plan=None, **_drop_limits(s)).plan
    expect_error(
        "parameters without noise next to a budget", BudgetExceeded,
        _build, s, plan=silent, budget=half, **_drop_limits(s),
    )  # fmt: skip
    if not hasattr(s.kind, "_build"):
        return

    def careless(self: Learner, calibrate: partial[LearnerPlan], *others: object) -> None:
        """Build like the class, but with a plan for twice the requested epsilon."""

        def plan(budget: Budget, **_: object) -> LearnerPlan:
            """Return the plan for another budget than the given one."""
            return calibrate(budget=Budget._derived(2.0 * budget.epsilon, budget.delta))

        s.kind._build(self, partial(plan, **calibrate.keywords), *others)

    # Like a user's derived class, this class must not bypass the certification of its base.
    kind = type(s.kind.__name__, (s.kind,), {"_build": careless, "__doc__": s.kind.__doc__})
    asked = Budget._derived(spent.epsilon_at(delta), delta)
    loud = _build(s, plan=None, budget=Budget._derived(2.0 * asked.epsilon, delta))
    if loud.guarantee.epsilon_at(delta) <= asked.epsilon:  # the options fix the noise
        return
    expect_error(
        "noise planned for twice the budget", BudgetExceeded,
        _build, s, kind, plan=None, budget=asked,
    )  # fmt: skip


def _drop_limits(s: Subject) -> Options:
    """Return the options without those that only have a meaning for noise."""
    return {"coupling": "auto"} if "coupling" in constructor_parameters(s.kind) else {}


@check(*EVERY)
def no_budget_is_no_promise(s: Subject) -> None:
    """Without a budget no noise is added, and the guarantee says so."""
    own = s.first.get_params() if hasattr(s.first, "get_params") else {}
    s.applies(s.first.guarantee.epsilon != 0.0 and own.get("budget", 1.0) is not None)
    s.applies(own.get("forced_switch") is None)  # forced switches state their cost
    free = _build(s, budget=None, plan=None, **_drop_limits(s))
    require(not free.guarantee.private, "a learner without a budget claims to be private")


@check(*STEPPED)
def one_dimension_is_enough(s: Subject) -> None:
    """The smallest problem is played as any other: one coordinate, expert, arm or candidate."""
    names, changes = constructor_parameters(s.kind), Options()
    domain = getattr(s.first, "domain", None)
    if isinstance(domain, LpBall):
        changes["domain"] = LpBall(1, domain.p, domain.radius)
    if "start" in names:
        changes["start"] = None
    for name in _SIZES:
        if name in names:
            changes[name] = 1
    s.applies(changes and s.runs and (domain is None or "domain" in changes))
    given = {**_arguments(s), **changes, "plan": None, "budget": BUDGET}
    try:
        learner = s.kind(**given, source=Source.seeded(1))
    except ValueError:  # other options need more of them
        return s.applies(False)
    small = dataclasses.replace(s, stream=_narrow(s), first=learner)
    require(len(small.play(learner)) == ROUNDS, "rounds are missing")


def _narrow(s: Subject) -> Record:
    """Return the stream with one entry in each dimension except that of rounds."""
    return tuple(part[(slice(None), *[slice(1)] * (part.ndim - 1))] for part in s.stream)


@check(*STEPPED, needs="get_params")
def arguments_come_back(s: Subject) -> None:
    """`get_params` returns the constructor's arguments as given; they rebuild the learner."""
    learner = s.fresh()
    found = learner.get_params()
    require(set(found) == set(constructor_parameters(s.kind)), "get_params() has other names")
    require(found["horizon"] == ROUNDS, "get_params() has another horizon")
    source = found["source"]
    again = s.kind(**found)
    require(again.plan == learner.plan, "get_params() rebuild something else")
    require(again.get_params()["source"] is source, "get_params() has another source")
    restored = s.kind._read_plan(learner.plan.to_dict())
    require(restored == learner.plan, "a plan does not survive to_dict()")


@check(*EVERY, "intervals")
def reports_show_no_data(s: Subject) -> None:
    """`repr` shows parameters and guarantee, and nothing that playing changes."""
    learner = s.fresh()
    before = repr(learner)
    silent = not s.first.guarantee.private or find_learner(s.kind) is None
    require("epsilon" in before or silent, "repr() states no epsilon")
    require("Source" not in before, "repr() shows the source")
    s.release_all(learner)
    require(repr(learner) == before, "repr() changes with the data")


@check(*EVERY, "intervals")
def replays_move_no_more_than_stated(s: Subject) -> None:
    """A replaced record moves what the noise hides by no more than the guarantee states."""
    s.applies(getattr(s.first, "loss", None) is None or isinstance(s.first.loss, MarginLoss))
    s.applies(s.first.guarantee.epsilon > 0.0)  # otherwise nothing is drawn
    if find_known_family(s.first) is None:
        # The library's own learners have a family unless they have no noise.
        s.applies(s.first.guarantee.private or find_learner(s.kind) is None)
        return _draws_hang_on_no_record(s)
    silent, huge = s.first.guarantee.change == "zero_out", s.plays not in ("scores", "queries")
    parts = tuple(part.copy() for part in s.part(0, ROUNDS))
    replacements: list[Record] = []
    for t in (0, ROUNDS // 2):
        if huge:  # from far beyond the bounds to the opposite side, or to nothing
            for part in parts:
                part[t] *= 1e6
            replacements.append((t, *((math.nan if silent else -1.0) * part[t] for part in parts)))
        else:  # by less than the sensitivity
            replacements.append((t, parts[0][t] + 0.5))
    found = replay_audit(
        lambda source: s.fresh(source=source), parts if len(parts) > 1 else parts[0], replacements
    ).findings
    require(not found, "; ".join(map(str, found)))


def _draws_hang_on_no_record(s: Subject) -> None:
    """Raise if a replaced record affects its round's decision or the number of draws."""
    at, ends = ROUNDS // 2, list[tuple[Decision, bytes]]()
    # Unchanged, far beyond its bound on the opposite side, and empty.
    for factor in (1.0, -1e6, 0.0):
        source, parts = Source.seeded(1), tuple(part.copy() for part in s.stream)
        for part in parts:
            part[at] *= factor
        released = dataclasses.replace(s, stream=parts).play(s.fresh(source=source), 0, at + 1)
        # The bytes of a source contain its position, and so the number of draws.
        ends.append((released, source.to_bytes()))
    before, drawn = zip(*ends, strict=True)
    require(all(equal(before[0], each) for each in before), "a decision depends on a later record")
    require(len(set(drawn)) == 1, "how much noise is drawn depends on a record")


# ---- descriptions --------------------------------------------------------------------------------


def _with_unknown_fields(value: Any) -> Iterator[Any]:
    """Yield copies of a description, each with an unknown field in one of its parts."""
    if isinstance(value, tuple):
        for at, part in enumerate(value):
            yield from (
                (*value[:at], each, *value[at + 1 :]) for each in _with_unknown_fields(part)
            )
    if not isinstance(value, Description):
        return
    known = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    kind: type = type(value)
    more = dataclasses.make_dataclass(
        kind.__name__, [(_UNKNOWN, int)], bases=(kind,), frozen=True, init=False
    )
    # Constructors and `replace` would refuse such a description.
    changes = [(kind, {name: each}) for name, part in known.items()
               for each in _with_unknown_fields(part)]  # fmt: skip
    for cls, changed in (*changes, (more, {_UNKNOWN: 1})):
        made: Any = object.__new__(cls)
        vars(made).update(known | changed)
        yield made


@check(*EVERY)
def descriptions_reach_engines(s: Subject) -> None:
    """An engine is built from the learner's description, and refuses fields that it does not know.

    The guarantee is computed from the description: what the engine does not read, it does not keep.
    """
    learner = s.fresh()
    mechanism = getattr(learner, "_mechanism", None)
    s.applies(isinstance(mechanism, Description))
    for other in _with_unknown_fields(mechanism):
        learner._mechanism = other
        try:
            if s.plays == "batch":
                learner._engine()
            else:
                learner._build_engine({"key": bytes(32), "stream": 1})
        except TypeError as error:
            require(f"{_UNKNOWN} is not enforced" in str(error), f"an engine says: {error}")
        else:
            raise AssertionError("an engine is built without reading all of its description")


# ---- all checks ----------------------------------------------------------------------------------

# All checks by name: the functions with the decorator ``@check``.
CHECKS: dict[str, Check] = {
    name: each
    for module in (vars(_contract_rounds), vars(_contract_copies), globals())
    for name, each in dict(module).items()
    if isinstance(each, Check)
}


def contract_checks(plays: str | None = None) -> tuple[str, ...]:
    """Return the names of all checks, or of the checks for learners that play `plays`.

    Parameters
    ----------
    plays : str, optional
        As in `dpoco.learners`.

    Returns
    -------
    tuple of str
        In the order in which `check_learner` runs them.

    Raises
    ------
    ValueError
        If `plays` is not one of these.
    """
    if plays is not None:
        # Without this check, a misspelt word would select no checks, and every learner would pass.
        choice("plays", plays, {each.plays for each in (*LEARNERS, *MONITORS)})
    return tuple(name for name, each in CHECKS.items() if plays is None or plays in each.plays)


def check_learner(
    learner: str | type | Callable[..., Learner],
    stream: Stream = None,
    *,
    checks: Iterable[str] | None = None,
) -> tuple[str, ...]:
    """Check that a learner obeys the contract on which journals, pools, adapters and users rely.

    Your own class only needs to be a `dpoco.evaluation.Learner`. Checks of methods that it does not
    have, such as ``run``, ``save`` and tickets, are skipped.

    Parameters
    ----------
    learner : str, type or callable
        A name of `dpoco.learners`; a class, for which a problem is made up from the names of its
        arguments; or a function that returns an unstarted learner. The function takes keyword
        arguments of the constructor (``horizon``, or ``records`` for a one-time fit, ``source``,
        and in some checks others). An example is ``functools.partial(MyLearner, domain, loss,
        budget=budget)``.
    stream : array_like, or tuple of array_like, optional
        At least 25 records, as ``run`` or ``fit`` takes them; lists of loss objects for custom
        losses. Default: random records with the shapes that the learner states.
    checks : iterable of str, optional
        Names of `contract_checks`. Default: all.

    Returns
    -------
    tuple of str
        Names of the checks that applied, all of which passed.

    Raises
    ------
    AssertionError
        At the first failing check, with its name, the finding, and the rule.
    ValueError, TypeError
        For an unknown name, or if the problem or the stream of the learner must be given.

    Notes
    -----
    It takes seconds. The checks call the learner in every order, with bad and hostile records, from
    threads and forked processes, and save files in a temporary folder. They cannot show that a
    guarantee holds; proofs and `audit_learner` are for that.

    Examples
    --------
    >>> import dpoco
    >>> len(dpoco.audit.check_learner("prefix-hedge")) > 30
    True
    """
    known = contract_checks()
    chosen = known if checks is None else tuple(checks)
    for name in chosen:
        choose_name("check", name, known)
    if isinstance(learner, str) and stream is None:
        subject = _standard_subject(learner_named(learner, (*EVERY, "intervals")).name)
    else:
        subject = _subject(learner, stream)
    passed = []
    for name in chosen:
        each = CHECKS[name]
        if not each.applies(subject):
            continue
        try:
            with quiet():
                each.run(subject)
        except InapplicableError:
            continue
        except Exception as error:
            found = str(error) if isinstance(error, AssertionError) else repr(error)
            raise AssertionError(
                f"{subject.kind.__name__} fails the check {name}: {found}\n{each.run.__doc__}"
            ) from error
        passed.append(name)
    return tuple(passed)
