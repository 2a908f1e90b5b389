"""Engines refuse descriptions with a part of another type, and claims that are none."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.descriptions import unchecked

from dpoco import _core
from dpoco.audit._contract import _standard_subject
from dpoco.audit._family import quiet
from dpoco.learners import LEARNERS
from dpoco.privacy.records import Description

READS = [each.name for each in LEARNERS if each.plays not in ("reports", "pairs", "intervals")]


def build(learner, claim):
    """The engine of a learner, or of a fit, that reads its description."""
    if not hasattr(learner, "fit"):
        return learner._build_engine(claim)
    return _core.SufficientStatistics(learner.loss._glm_engine, learner._mechanism, claim)


def descriptions(value, path=()):
    """The fields that lead to every description inside one."""
    if isinstance(value, Description):
        yield path
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


@pytest.mark.parametrize("name", READS)
def test_engines_refuse_parts_and_claims_of_other_types(name):
    with quiet():
        learner = _standard_subject(name).first
    whole, claim = learner._mechanism, {"key": bytes(32), "stream": 1}
    for path in filter(None, descriptions(whole)):
        learner._mechanism = with_part(whole, path, None)
        with pytest.raises(TypeError, match=r"dataclass|must be"):
            build(learner, claim)
    learner._mechanism = whole
    build(learner, claim)
    for more in ({"hint": 1}, {"key": "0" * 32}, {"stream": -1}):
        with pytest.raises((TypeError, OverflowError)):
            build(learner, claim | more)
