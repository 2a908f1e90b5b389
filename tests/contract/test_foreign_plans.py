"""A guarantee follows from the mechanism of a plan, whoever made it and whatever else it says.

A plan whose mechanism is another learner's is refused, or certified as what the engine draws.
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import cache
from types import NoneType

import pytest
from tests.contract.test_releases import LISTED, VARIANTS, moved, named_subject

from dpoco.accounting import Guarantee
from dpoco.accounting.gaussian import gaussian_mu
from dpoco.accounting.plan import Plan
from dpoco.audit._contract import RUNNING, _standard_subject, quiet
from dpoco.errors import BudgetExceeded, DpocoError
from dpoco.learners import LEARNERS
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description

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
        except (TypeError, ValueError, BudgetExceeded):
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


def planned(name):
    """Return a learner, and what builds it again from another plan."""
    own = named_subject(name).first
    given = {key: value for key, value in own._arguments.items() if key != "source"}
    settled = {"numerics": "auto", "learning_rate": None}  # by the plan
    given |= {key: settled[key] for key in settled.keys() & given.keys()}
    return own, lambda **changes: type(own)(**{**given, **changes})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*LISTED, *VARIANTS])
def test_neither_tuning_nor_forecast_moves_a_guarantee(name):
    own, build = planned(name)
    honest = build(plan=own._plan, budget=None).guarantee  # which refuses no epsilon
    held = {part: getattr(own._plan, part, None) for part in ("tuning", "forecast")}
    for part, value in held.items():
        names = [each.name for each in fields(value) if each.init] if value is not None else []
        for key, other in ((n, o) for n in names for o in moved(getattr(value, n))):
            try:
                lie = replace(own._plan, **{part: replace(value, **{key: other})})
                made = build(plan=lie, budget=None)
            except (TypeError, ValueError, DpocoError):
                continue
            assert made.guarantee.loss == honest.loss, (key, other)
            assert part == "tuning" or key == "regret_scope" or made.guarantee == honest


@pytest.mark.parametrize("name", [*LISTED, *VARIANTS])
def test_records_of_plans_and_guarantees_keep_every_bit(name):
    own, _ = planned(name)
    plan, stated = own._plan, own.guarantee
    record = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    kinds = (type(plan.tuning), type(plan.forecast)) if isinstance(plan, Plan) else ()
    assert type(plan).from_dict(record, *(each for each in kinds if each is not NoneType)) == plan
    assert Guarantee.from_json(stated.to_json()) == stated
    stated.verify()
    if stated.private:
        assert stated.description == own._mechanism
        near = Neighbours(stated.change, stated.view)
        assert stated.description.loss(near).epsilon(stated.delta) == stated.epsilon


def louder(value):
    """Return a description of half the noise, in doubles: grids are for their own scales."""
    if isinstance(value, tuple):
        return tuple(map(louder, value))
    if not isinstance(value, Description):
        return value
    changes = {each.name: louder(getattr(value, each.name)) for each in fields(value) if each.init}
    for scale in changes.keys() & {"scale", "threshold_scale", "query_scale"}:
        changes[scale] *= 0.5
    if "learning_rate" in changes:  # of a mechanism that draws paths of experts
        changes["learning_rate"] *= 2.0
    changes |= {key: type(changes[key])() for key in changes.keys() & {"grid", "limit"}}
    return replace(value, **changes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*LISTED, *VARIANTS])
def test_half_the_noise_is_half_the_privacy(name):
    own, build = planned(name)
    stated, plan = own.guarantee, own._plan
    total = plan.mechanism if isinstance(plan, Plan) else plan
    budget = own._arguments["budget"]
    if not stated.private or stated.epsilon == 0.0 or budget is None or louder(total) == total:
        return
    weak = replace(plan, mechanism=louder(total)) if isinstance(plan, Plan) else louder(plan)
    with pytest.raises(BudgetExceeded):
        build(plan=weak)
    spent = build(plan=weak, budget=None).guarantee
    if isinstance(total, GaussianSum):
        near = Neighbours(stated.change, stated.view)
        by_hand = total.column(near) * total.summand.movement(near, total.order)
        by_hand *= total.summand.inflation(total.order) / total.scale
        assert by_hand * (1 - 1e-13) <= stated.mu <= by_hand * (1 + 1e-4)  # a lattice rounds
        assert stated.mu == pytest.approx(gaussian_mu(budget.epsilon, budget.delta), rel=1e-6)
        assert spent.mu == pytest.approx(2.0 * by_hand, rel=1e-6)
    else:
        assert spent.epsilon_at(stated.delta) > 1.4 * stated.epsilon
