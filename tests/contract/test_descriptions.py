"""Engines tell what they hold: all of it is what their descriptions say, and nearly all of that."""

from __future__ import annotations

from dataclasses import field, fields, make_dataclass

import pytest
from tests.descriptions import unchecked

from dpoco import _core
from dpoco.audit._contract import _standard_subject
from dpoco.audit._family import quiet
from dpoco.audit.contract import _note, _StandIn
from dpoco.learners import LEARNERS
from dpoco.privacy.records import Description

READS = [each.name for each in LEARNERS if each.plays not in ("reports", "pairs", "intervals")]


def build(learner, claim):
    """The engine of a learner, or of a fit, that reads its description."""
    if not hasattr(learner, "fit"):
        return learner._build_engine(claim)
    return _core.SufficientStatistics(learner.loss._glm_engine, learner._mechanism, claim)


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
        learner = _standard_subject(name).first
    whole, claim = learner._mechanism, {"key": bytes(32), "stream": 1}
    found = list(descriptions(whole))
    assert found
    for path, part in found:
        learner._mechanism = with_part(whole, path, with_field(part))
        with pytest.raises(TypeError, match="hint is not enforced"):
            build(learner, claim)
        if path:
            learner._mechanism = with_part(whole, path, None)
            with pytest.raises(TypeError, match=r"dataclass|must be"):
                build(learner, claim)
    learner._mechanism = whole
    build(learner, claim)
    for more in ({"hint": 1}, {"key": "0" * 32}, {"stream": -1}):
        with pytest.raises((TypeError, OverflowError)):
            build(learner, claim | more)


def test_an_engine_that_gets_another_named_setting_is_another():
    engine = _StandIn("Engine")
    assert _note(engine(1, own=2)) == _note(engine(1, own=2)) != _note(engine(1, own=3))
