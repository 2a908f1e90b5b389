"""Records whose numbers say less than their description are refused, and honest ones are read."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from check import check
from tests.plans import changed

import dpoco
from dpoco.accounting.pools import pool_guarantee
from dpoco.accounting.ranges import behind_ranges
from dpoco.errors import BudgetExceeded, StateError
from dpoco.privacy.mechanisms.base import Nothing
from dpoco.privacy.mechanisms.tracker_draws import TrackerDraws
from dpoco.privacy.neighbours import Neighbours

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
BUDGET = dpoco.Budget(1.0, 1e-6)
BALL = dpoco.domains.LpBall(3)


@functools.cache
def ftrl(**options):
    return dpoco.oco.NoisyFTRL(
        BALL, dpoco.losses.LinearLoss(1.0), horizon=100, budget=BUDGET, **options
    )


@functools.cache
def share():
    return dpoco.experts.BatchShare(10, horizon=1000, switches=2, budget=dpoco.Budget(1.0, 0.0))


@functools.cache
def tracker():
    budget = dpoco.Budget(4.0, 1e-6)
    return dpoco.experts.ObliviousTracker(5, horizon=20_000, switches=1, budget=budget)


@functools.cache
def statistics(**options):
    return dpoco.frank_wolfe.SufficientStatistics(
        BALL, dpoco.losses.SquaredLoss(1.3, 1.0), records=50, budget=BUDGET, **options
    )


MADE = [ftrl, share, tracker, statistics]


def edited(make, **edits):
    return dpoco.Guarantee.from_dict({**make().guarantee.to_dict(), **edits})


@pytest.mark.parametrize("make", MADE)
def test_an_honest_record_is_read_and_verified(make):
    read = edited(make)
    assert read == make().guarantee
    read.verify()


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("rho", [1e-9, 5.1e-5])
def test_an_added_rho_is_refused(make, rho):
    with pytest.raises(StateError):
        edited(make, rho=rho)
    with pytest.raises(StateError):
        edited(make, rho=rho, horizon=10**12)


def test_nine_digits_less_are_refused():
    honest = ftrl().guarantee
    mu = honest.mu * (1.0 - 1e-9)
    more = {"mu": mu, "rho": 0.5 * mu * mu, "noise_multiplier": 1.0 / mu}
    with pytest.raises(StateError):
        edited(ftrl, **more)
    tails = ftrl(numerics="float").guarantee
    with pytest.raises(StateError):
        dpoco.Guarantee.from_dict(
            {**tails.to_dict(), "truncation_mass": tails.truncation_mass * (1.0 - 1e-9)}
        )


@pytest.mark.parametrize("make", MADE)
def test_no_central_mechanism_hides_data_from_who_collects_them(make):
    with pytest.raises((StateError, ValueError)):
        edited(make, view="server").verify()


def test_the_arithmetic_is_that_of_the_description():
    record = ftrl(numerics="float").guarantee.to_dict()
    with pytest.raises(StateError):
        dpoco.Guarantee.from_dict({**record, "numerics": "lattice"})


@functools.cache
def linucb():
    return dpoco.bandits.LinUCB(
        3, 4, horizon=100, budget=BUDGET, context_bound=1.0, reward_bound=1.0
    )


@functools.cache
def arms():
    return dpoco.bandits.HighDimensionalBandit(
        3,
        dpoco.domains.LpBall(20, 1.0),
        horizon=100,
        budget=BUDGET,
        context_bound=1.0,
        reward_bound=1.0,
    )


@functools.cache
def promised():
    """Losses whose bounds nobody enforces."""
    loss = dpoco.losses.CustomLoss(1.0, 1.0)
    return dpoco.oco.CoupledRegularizedLeader(BALL, loss, horizon=100, budget=BUDGET)


@pytest.mark.parametrize("make", [linucb, arms])
def test_what_is_proved_for_others_is_not_for_everyone(make):
    assert edited(make) == make().guarantee
    with pytest.raises(StateError):
        edited(make, view="everyone")


@pytest.mark.parametrize("make", [ftrl, statistics, tracker, linucb, arms])
def test_a_horizon_beyond_the_description_is_refused(make):
    horizon = make().guarantee.horizon
    assert edited(make, horizon=1).horizon == 1
    with pytest.raises(StateError, match="contradicts"):
        edited(make, horizon=3 * make()._mechanism.longest)
    assert horizon <= make()._mechanism.longest


def test_parts_that_see_the_same_rounds_end_with_the_longest():
    """Neither verifier believes more rounds, also of such parts behind a search for ranges."""
    long = dpoco.mechanisms.ContinualSum(3, horizon=400, budget=BUDGET, bound=1.0).guarantee
    both = dpoco.Guarantee.composed(ftrl().guarantee, long)
    endless = dpoco.Guarantee.composed(both, share().guarantee)
    search = dpoco.ranges.RangeFinder(3, budget=BUDGET, horizon=10**4).guarantee
    behind = behind_ranges(search, both, budget=BUDGET)
    for own, most in ((both, 401), (endless, None), (behind, search.horizon + 401)):
        assert own.description.longest == most
        assert own.horizon <= (most or math.inf)
        for horizon in (own.horizon, 10**9):
            record = {**own.to_dict(), "horizon": horizon}
            if horizon == own.horizon or most is None:
                dpoco.Guarantee.from_dict(record).verify()
                assert check.check(json.loads(json.dumps(record)))[0] == "proved"
                continue
            with pytest.raises(StateError, match="contradicts"):
                dpoco.Guarantee.from_dict(record)
            assert check.check(json.loads(json.dumps(record)))[0] == "not proved"


@functools.cache
def leader(**options):
    loss = dpoco.losses.LogisticLoss(1.0)
    options = {"horizon": 1000, "budget": BUDGET, **options}
    return dpoco.oco.CoupledRegularizedLeader(BALL, loss, **options).guarantee


def told(*makers):
    return dpoco.Guarantee.composed(*(make() for make in makers))


@functools.cache
def search():
    return dpoco.ranges.RangeFinder(3, budget=BUDGET, horizon=10**4).guarantee


def paths():
    draws = TrackerDraws(3, "at_most", 0.002, 0.011, 5, 1000, None, 3)
    said = {"horizon": 100, "delta": 1e-6, "reference": "", "seeded": False}
    return dpoco.Guarantee.about(draws, Neighbours(), released="paths", **said)


def behind(learner):
    return behind_ranges(search(), learner, budget=BUDGET)


COMPOSED = {
    # Of some parts several bounds are known, and no number says all of them.
    "selections and a sum": lambda: dpoco.Guarantee.composed(
        dpoco.mechanisms.NoisyMax(
            5, horizon=30, noise="laplace", sensitivity=1.0, budget=dpoco.Budget(9.0, 0.0)
        ).guarantee,
        dpoco.Guarantee.gaussian(
            sensitivity=1.0, noise_scale=9.0, delta=1e-6, horizon=30, unit="one record"
        ),
    ),
    "ranges and people": lambda: behind(leader()).for_person(3, 2),
    "ranges and bits": lambda: behind(leader()),
    "ranges and nothing": lambda: behind(leader(horizon=1)),
    "bits and a sum": lambda: told(leader, lambda: ftrl().guarantee),
    "pure and ranges": lambda: told(search, lambda: share().guarantee),
    "paths of people": lambda: told(lambda: ftrl().guarantee, paths).for_person(2, 2),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_are_read_and_proved(name):
    """By both verifiers, with the bounds of parts in records of records."""
    own = COMPOSED[name]()
    read = dpoco.Guarantee.from_json(own.to_json())
    assert read == own
    read.verify()
    result, said = check.check(json.loads(own.to_json()))
    assert result in ("proved", "only if"), said
    record = {**own.to_dict(), "epsilon": own.epsilon * 0.99}
    assert check.check(json.loads(json.dumps(record)))[0] == "not proved"


def test_a_promise_is_never_certified():
    assert promised()._mechanism.promised
    assert not promised().guarantee.certified
    assert edited(promised) == promised().guarantee
    with pytest.raises(StateError, match="contradicts"):
        edited(promised, certified=True)
    for make in (*MADE, linucb):
        assert not make()._mechanism.promised
        assert make().guarantee.certified


def test_without_noise_there_is_no_curve():
    learner = dpoco.oco.NoisyFTRL(BALL, dpoco.losses.LinearLoss(1.0), horizon=100, budget=None)
    record = replace(learner.guarantee, description=learner._mechanism).to_dict()
    assert dpoco.Guarantee.from_dict(record).epsilon == np.inf
    with pytest.raises(StateError):
        dpoco.Guarantee.from_dict({**record, "mu": 1e-3, "rho": 5e-7})


def test_counts_that_no_double_holds_are_refused():
    record = ftrl().guarantee.to_dict()
    record["description"]["batch"] = 10**400
    with pytest.raises(StateError):
        dpoco.Guarantee.from_dict(record)


@pytest.mark.parametrize("keys", [1, 5])
@pytest.mark.parametrize("noise", ["fresh", "hidden"])
def test_statements_of_pools_are_read_again(keys, noise):
    one = ftrl().guarantee if noise == "fresh" else tracker().guarantee
    pool = pool_guarantee(one, keys=keys, noise=noise)
    read = dpoco.Guarantee.from_json(pool.to_json())
    assert read == pool
    read.verify()


def planted(make, plan=None, **functions):
    """Build a learner that certifies by other functions."""
    kind = type(make())
    body = {"__doc__": kind.__doc__, **functions}
    liar = type(kind.__name__, (kind,), body)
    problem = {"domain": BALL, "loss": make().loss, "budget": BUDGET}
    counts = {"horizon": 100} if make is ftrl else {"records": 50}
    return liar(**problem, **counts, plan=plan or make().plan)


@pytest.mark.parametrize("make", [statistics, ftrl])
def test_a_guarantee_of_another_plan_is_no_guarantee_of_the_engine(make):
    honest, plan = type(make())._certify, make().plan

    def planned(self, given, seeded=False):
        return honest(self, plan, seeded)

    with pytest.raises(BudgetExceeded, match="another mechanism"):
        planted(make, changed(plan, scale=0.8 * plan.mechanism.scale), _certify=planned)

    def bare(self, given, seeded=False):
        return replace(honest(self, given, seeded), description=None)

    with pytest.raises(BudgetExceeded, match="another mechanism"):
        planted(make, _certify=bare)
    assert planted(make).guarantee == make().guarantee


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_numbers_of_a_user_are_taken_as_doubles(dtype):
    honest = statistics().plan
    moments = honest.mechanism.summand
    given = changed(honest, summand=replace(moments, weight=dtype(moments.weight)))
    assert type(given.mechanism.summand.weight) is float
    learner = dpoco.frank_wolfe.SufficientStatistics(
        BALL, dpoco.losses.SquaredLoss(1.3, 1.0), records=50, budget=None, plan=given
    )
    assert learner._mechanism == given.mechanism
    assert learner.guarantee.description == learner._mechanism


def test_nothing_is_not_local_either():
    with pytest.raises(ValueError, match="server"):
        Nothing("no round").loss(Neighbours(view="server"))
