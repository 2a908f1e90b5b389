"""Engines read all that they are told, and are told all that they read."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.descriptions import told, unchecked

from dpoco import Budget, _core, bandits, learners, oco
from dpoco.audit import contract_checks
from dpoco.audit._contract import _standard_subject
from dpoco.domains import LpBall
from dpoco.losses import CustomLoss, LinearLoss, QuadraticLoss, SquaredLoss
from dpoco.privacy.mechanisms.selections import PromisedScores, Selections
from dpoco.random import Source

BALL, CROSS, SQUARED = LpBall(2, 2.0), LpBall(2, 1.0), SquaredLoss(1.0, 1.0)
SOME = {"horizon": 200, "budget": Budget(2.0, 1e-6)}

# Beside the contract's learners, whose coupled leader has a generalised linear loss.
LEADERS = {
    f"ctrl, {name}": functools.partial(oco.CoupledRegularizedLeader, BALL, loss, **SOME)
    for name, loss in {
        "linear": LinearLoss(1.0),
        "quadratic": QuadraticLoss(3.0, 1.0),
        "custom": CustomLoss(lipschitz=2.0, smoothness=1.0),
    }.items()
}
LEARNERS = [*(each.name for each in learners.LEARNERS if contract_checks(each.plays)), *LEADERS]


def made(name: str) -> Any:
    """Return a learner; a fit, whose engine is built last, is played."""
    if name in LEADERS:
        return LEADERS[name](source=Source.seeded(1))
    subject = _standard_subject(name)
    learner = subject.fresh()
    if subject.plays == "batch":
        subject.release_all(learner)
    return learner


def built_from(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[type, list[Any]]:
    """Return the compiled class of a learner and what it is built from."""
    learner = made(name)
    compiled = _core.SufficientStatistics if hasattr(learner, "fit") else type(learner._engine)
    return compiled, [*told(monkeypatch, compiled.__name__, lambda: made(name))]


def descriptions(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where the dicts among the arguments are, however deep."""
    if isinstance(value, dict):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items:
        if isinstance(each, (dict, list)):
            yield from descriptions(each, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Callable[[Any], Any]) -> Any:
    if not path:
        return new(value)
    copy = value.copy()
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("name", LEARNERS)
def test_every_field_is_read_and_no_other_is_taken(name, monkeypatch):
    engine, arguments = built_from(name, monkeypatch)
    engine(*arguments)
    found = list(descriptions(arguments))
    assert found
    for path in found:
        more = replaced(arguments, path, lambda old: {**old, "bound_l2": 1.0})
        with pytest.raises(TypeError, match="field bound_l2 is not enforced by this engine"):
            engine(*more)
        fields: Any = arguments
        for step in path:
            fields = fields[step]
        for field in fields:
            less = replaced(
                arguments, path, lambda old, gone=field: {k: old[k] for k in old if k != gone}
            )
            with pytest.raises(TypeError, match=f"field {field} is missing"):
                engine(*less)
            wrong = replaced(arguments, (*path, field), lambda _: object())
            with pytest.raises(TypeError, match=f"field {field} is of the wrong type|a dict or"):
                engine(*wrong)


@pytest.mark.parametrize("name", LEARNERS)
def test_frozen_descriptions_are_read_like_dicts(name, monkeypatch):
    engine, arguments = built_from(name, monkeypatch)
    described = arguments
    for path in sorted(descriptions(arguments), key=len, reverse=True):
        described = replaced(described, path, frozen)
    a, b = engine(*arguments), engine(*described)
    if name.endswith("custom"):  # has no state
        assert np.array_equal(a.decision(), b.decision())
    elif engine is _core.SufficientStatistics:
        for each in (a, b):
            records = arguments[1].batch
            each.add(np.zeros((records, 3)), np.zeros(records))
        assert np.array_equal(a.release(), b.release())
    else:
        assert a.state() == b.state()


def frozen(fields: dict[str, Any]) -> Any:
    return dataclasses.make_dataclass("Description", list(fields), frozen=True)(**fields)


def test_messages_hold_no_values():
    scores, claim = PromisedScores(1.0, one_way=False), {"key": bytes(32), "stream": 1}
    good = Selections(law="gumbel", scores=scores, scale=1.0, rounds=1, exponent=0.0)
    with pytest.raises(TypeError) as caught:
        _core.NoisyMax(unchecked(good, scale="a secret"), 3, 1, True, claim)
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="unknown law") as refused:
        _core.NoisyMax(unchecked(good, law="a secret"), 3, 1, True, claim)
    assert "secret" not in str(refused.value)
    with pytest.raises(TypeError, match="a dict or a dataclass"):
        _core.NoisyMax(["a secret"], 3, 1, True, claim)


def halved(description: Any) -> Any:
    """Return a description whose enforced bounds on records are half as large."""
    half = {n: 0.5 * getattr(description, n) for n in ("features", "label", "leaf", "slope")
            if hasattr(description, n)}  # fmt: skip
    inner = {n: halved(getattr(description, n)) for n in ("summand", "scores")
             if hasattr(description, n)}  # fmt: skip
    if hasattr(description, "parts"):
        inner["parts"] = tuple(map(halved, description.parts))
    return dataclasses.replace(description, **half, **inner)


# Contexts are bounded by what the plan says.
HALF = {bandits.HighDimensionalBandit: {"context_bound": 0.5}}
BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}
HALVED = {
    "quadratic": (oco.NoisyFTRL, (BALL, SQUARED), {"statistics": "quadratic"}),
    "gradient": (oco.NoisyFTRL, (BALL, SQUARED), {}),
    "polyhedral": (bandits.HighDimensionalBandit, (2, CROSS), BOUNDED),
    "tree": (bandits.HighDimensionalBandit, (2, CROSS), {**BOUNDED, "arm_learner": "tree"}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
@pytest.mark.parametrize("name", HALVED)
def test_engines_clip_to_the_bounds_of_their_description(name, monkeypatch):
    kind, problem, options = HALVED[name]
    first = kind(*problem, **options, **SOME)
    half = dataclasses.replace(first.plan, mechanism=halved(first.plan.mechanism))
    monkeypatch.setattr(kind, "_certify", lambda *_, **__: first.guarantee)
    monkeypatch.setattr(kind, "_check_described", staticmethod(lambda *_: None))
    stated = {name: given for name, given in options.items() if name != "context_bound"}
    second = kind(*problem, **{**stated, **SOME, "plan": half, **HALF.get(kind, {})})
    edge = np.array([[1.0, 0.0]])
    if name in ("quadratic", "gradient"):
        at = -edge[0]  # where slopes are largest
        large, small = (each._engine.leaf(at, at, 9.0 * edge[0], 9.0) for each in (first, second))
        assert np.abs(large).max() > 0.0
        assert small == pytest.approx(0.25 * large)
        return
    large, small = (each._engine.leaf(1, 9.0 * edge[0], 9.0) for each in (first, second))
    assert 0.0 < np.abs(small).max() <= 0.5 * np.abs(large).max()
