"""A plan whose mechanism is another learner's is refused, or certified as what the engine draws."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

import dpoco
from dpoco.accounting.plan import Plan
from dpoco.audit._contract import RUNNING, _standard_subject, quiet
from dpoco.learners import LEARNERS

NAMES = [each.name for each in LEARNERS if each.plays in RUNNING]


@cache
def first(name):
    with quiet():
        return _standard_subject(name).first


@pytest.mark.parametrize("name", NAMES)
def test_mechanisms_of_other_learners_are_refused(name):
    """Over a second: the first test makes all learners."""
    own = first(name)
    arguments = {key: value for key, value in own.get_params().items() if key != "source"}
    refused = 0
    for other in (first(each) for each in NAMES if each != name):
        if not isinstance(own.plan, Plan) or own.plan.mechanism == other.plan.mechanism:
            continue
        plan = replace(own.plan, mechanism=other.plan.mechanism)
        try:
            with quiet():
                made = type(own)(**{**arguments, "plan": plan})
        except (TypeError, ValueError, dpoco.BudgetExceeded):
            refused += 1
        else:
            assert made.guarantee.description == plan.mechanism
            assert made.guarantee.epsilon <= arguments["budget"].epsilon
    assert refused >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_does_not_let_unknown_words_pass(name):
    own = first(name)
    arguments = {key: value for key, value in own.get_params().items() if key != "source"}
    words = [key for key, value in arguments.items() if isinstance(value, str)]
    for word in words:
        with pytest.raises(ValueError, match="strange"), quiet():
            type(own)(**{**arguments, "plan": own.plan, word: "strange"})
