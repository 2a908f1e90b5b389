"""Engines tell what they hold: all of it is what their descriptions say, and nearly all of that."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field, fields, make_dataclass

import pytest
from tests.descriptions import unchecked

import dpoco
from dpoco import _core
from dpoco.audit._contract import _first, _listed
from dpoco.audit._family import quiet
from dpoco.learners import LEARNERS
from dpoco.learning.calibrated import Calibrated
from dpoco.privacy.mechanisms.base import Nothing, Open
from dpoco.privacy.records import Description

from .variants import VARIANTS

# Engines that read their description need not repeat it.
READS = (
    "continual-sum", "noisy-ftrl", "noisy-newton", "prefix-hedge", "lipschitz", "linucb",
    "tree-frank-wolfe", "polyhedral-frank-wolfe", "high-dimensional-bandit", "ctrl", "comw",
    "residual-phases",
)  # fmt: skip
BUILT = [each.name for each in LEARNERS if each.plays not in ("reports", "pairs")]
BUILT = [name for name in BUILT if name not in READS]
READING = (  # variants of these
    "sum", "ftrl", "newton", "hedge", "lipschitz", "linucb", "tree", "polyhedral", "bandit", "ctrl",
    "comw", "phases",
)  # fmt: skip
SUBJECTS = [*BUILT, *(name for name in VARIANTS if not name.startswith(READING))]

# Fields that nothing compiled has, and why.
NOT_HELD = {
    "second_moments": {"rounding"},  # a factor of the proof, for products in doubles
    "net_differences": {"sides", "lipschitz", "enforced"},  # the engine has their product: limits
    "selections": {"scores", "rounds", "exponent"},  # of sums of losses: constants of the learner
    "vertex_scores": {"product"},  # the domain's own
    "threshold_tests": {"sensitivity", "spread"},  # constants of the statistic, or promised
    "parts": {"how", "lemma", "forced"},  # forced rounds are those of arms
    "tracker_draws": {"horizon", "prior", "share_rate"},  # at most S switches: levels of paths
    "batch_release": {"scale"},  # of a response: one over the epsilon that is held
    "smooth_losses": {"rank", "enforced"},  # the sum of losses knows its own
    "gibbs_draw": {"half_width"},  # the body's own
    # Of a single expert or point there is nothing to sum; without noise, nothing to correlate.
    "gaussian_sum": {"summand", "factorisation", "order"},
}


def built(name):
    with quiet():
        learner = _listed(name).first if name in BUILT else _first(VARIANTS[name][0])
    if not hasattr(learner, "fit"):
        return learner._mechanism, learner._engine
    return learner._mechanism, learner._engine()


def compare(said, held, missing):
    """Collect the fields that were not held, by kind."""
    if isinstance(held, dict):
        if isinstance(said, Open | Nothing):
            return
        for name, value in held.items():
            own = getattr(said, name)
            compare(max(own, 1) if name == "pushes" else own, value, missing)
        names = {each.name for each in fields(said) if each.init}
        missing[said.kind] |= names - held.keys()
    elif isinstance(held, tuple):
        for one, other in zip(said, held, strict=True):
            compare(one, other, missing)
    else:
        assert said == held
        assert not isinstance(held, Description)


@pytest.mark.parametrize("name", SUBJECTS)
def test_an_engine_holds_what_its_description_says(name):
    mechanism, engine = built(name)
    missing = defaultdict(set)
    compare(mechanism, _core.described(engine), missing)
    for kind, names in missing.items():
        assert names <= NOT_HELD.get(kind, set()), kind


@pytest.mark.parametrize("name", BUILT)
def test_another_engine_is_refused(name, monkeypatch):
    """An engine built with other numbers than the description's, one at a time."""
    mechanism, engine = built(name)
    held = _core.described(engine)

    def numbers(value, path=()):
        if isinstance(value, dict):
            for key, each in value.items():
                yield from numbers(each, (*path, key))
        elif isinstance(value, tuple):
            for i, each in enumerate(value):
                yield from numbers(each, (*path, i))
        elif isinstance(value, (int, float, str)):
            yield path, value

    def put(value, path, new):
        if not path:
            return new
        if isinstance(value, dict):
            return {**value, path[0]: put(value[path[0]], path[1:], new)}
        changed = list(value)
        changed[path[0]] = put(value[path[0]], path[1:], new)
        return tuple(changed)

    for path, value in numbers(held):
        other = value + "?" if isinstance(value, str) else value + 1
        if other == value:
            other = 1.0  # of an infinite one
        wrong = put(held, path, other)
        monkeypatch.setattr(_core, "described", lambda _, wrong=wrong: wrong)
        with pytest.raises(dpoco.BudgetExceeded, match="engine holds another"):
            Calibrated._check_built(mechanism, engine)


def test_only_engines_are_described():
    with pytest.raises(TypeError):
        _core.described(object())


def descriptions(value, path=()):
    """Every description inside one, with the fields that lead there."""
    if isinstance(value, Description):
        yield path, value
        for each in fields(value):
            if each.init:
                yield from descriptions(getattr(value, each.name), (*path, each.name))
    elif isinstance(value, tuple):
        for i, each in enumerate(value):
            yield from descriptions(each, (*path, i))


def with_part(value, path, part):
    """The description with another part at a path, checked by nobody."""
    if not path:
        return part
    first, *rest = path
    if isinstance(value, tuple):
        return tuple(with_part(x, rest, part) if i == first else x for i, x in enumerate(value))
    return unchecked(value, **{first: with_part(getattr(value, first), rest, part)})


def with_field(value):
    """The description with a field that no engine has read so far."""
    last = [("hint", int, field(default=1))]
    more = make_dataclass("More", last, bases=(type(value),), init=False, frozen=True)
    made = object.__new__(more)
    for name in (each.name for each in fields(value) if each.init):
        object.__setattr__(made, name, getattr(value, name))
    object.__setattr__(made, "hint", 1)
    return made


@pytest.mark.parametrize("name", READS)
def test_engines_read_every_field_or_refuse(name):
    with quiet():
        learner = _listed(name).first
    whole, claim = learner._mechanism, {"key": bytes(32), "stream": 1}
    found = list(descriptions(whole))
    assert len(found) > 1
    for path, part in found:
        learner._mechanism = with_part(whole, path, with_field(part))
        with pytest.raises(TypeError, match="hint is not enforced"):
            learner._build_engine(claim)
        if path:
            learner._mechanism = with_part(whole, path, None)
            with pytest.raises(TypeError, match=r"dataclass|must be"):
                learner._build_engine(claim)
    learner._mechanism = whole
    learner._build_engine(claim)
    for more in ({"hint": 1}, {"key": "0" * 32}, {"stream": -1}):
        with pytest.raises((TypeError, OverflowError)):
            learner._build_engine(claim | more)
