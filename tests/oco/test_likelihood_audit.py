"""The law of everything the coupled learners release, against what their guarantee claims.

Transcripts of the compiled engines are scored by an independent computation of their exact
likelihood under the stream they saw and under its neighbour (first loss replaced).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oco import likelihood_cases as cases
from tests.plans import coupled, recoupled

from dpoco.accounting import continuous_multiplicative_weights, coupled_regularized_leader
from dpoco.accounting._certificate import read_loss
from dpoco.oco import (
    ContinuousMultiplicativeWeights,
    CoupledRegularizedLeader,
)


@pytest.mark.parametrize("world", [0, 1])
@pytest.mark.parametrize("name", cases.CASES)
def test_the_exact_likelihood_ratio_obeys_the_guarantee(name, world):
    case, played, found = cases.scored(name, world)
    # The factors that the compiled engine decided by are those of the independent computation.
    own = found.own.factors
    if isinstance(case.learner, CoupledRegularizedLeader):
        raw = np.zeros_like(own)
        law, p = case.law(case.streams[world]), coupled(case.learner.plan)
        for t in range(p.horizon if p.coupling != "scheduled" else 0):
            k = min(t // p.block, played.points.shape[1] - 1)
            raw[:, t] = law.log_ratio(t, played.points[:, k])
        wanted = played.factors != 0.0
        np.testing.assert_allclose(played.factors[wanted], raw[wanted], rtol=1e-7, atol=1e-9)
        assert wanted.any() or p.coupling == "scheduled"
    else:
        np.testing.assert_allclose(played.factors, own, rtol=1e-7, atol=1e-9)
    # Neighbours' likelihoods integrate to one over the transcripts of either.
    one = cases.ref.mean_of(np.exp(-found.total))
    assert abs(one.mean - 1.0) <= cases.SIGMAS * one.error
    assert one.error < 0.1
    guarantee = case.learner.guarantee
    assert cases.findings(found, guarantee.profile, guarantee.delta_at) == []
    if case.rule().coupling in ("dartboard", "anchored", "scheduled"):
        assert np.abs(found.later_bits).max() < 1e-12  # these bits cost nothing
    else:
        assert np.abs(found.later_bits).max() > 0.01
    # The audit exercises the claim: a real fraction of it is used up.
    assert found.total.std() > 0.2
    assert 0.05 < played.switched.mean() <= 1.0


def claimed(case, **changes):
    """The guarantee the same learner would have with other parameters."""
    leads = isinstance(case.learner, CoupledRegularizedLeader)
    accountant = coupled_regularized_leader if leads else continuous_multiplicative_weights
    plan = recoupled(case.learner.plan, **changes)
    return accountant.guarantee(cases.INTERVAL, case.learner.loss, plan)


WRONG_NOISE = {
    "weights, density ratio": {"inverse_temperature": 9.0 / 4.0},
    "weights, scheduled": {"inverse_temperature": 9.0 / 4.0},
    "weights, anchored": {"inverse_temperature": 9.0 / 4.0},
    "leader, density ratio": {"noise_scale": 14.0},
    "leader, logistic, scheduled": {"noise_scale": 8.0},
}


@pytest.mark.parametrize("name", WRONG_NOISE)
def test_half_the_claimed_noise_is_caught(name):
    over = []
    for world in (0, 1):
        case, _, found = cases.scored(name, world)
        lie = claimed(case, **WRONG_NOISE[name])
        over += cases.findings(found, lie.profile, lie.delta_at)
    assert any(each.startswith("draws") for each in over)


@pytest.mark.parametrize("name", ["weights, density ratio", "leader, density ratio"])
def test_ignored_shift_of_later_bits_is_caught(name):
    case, _, found = cases.scored(name, 0)
    profile = {**case.learner.guarantee.profile, "shift": 0.0}
    over = cases.findings(found, profile, lambda e: read_loss(profile).delta(e))
    assert any(each.startswith("later bits") for each in over)


@pytest.mark.parametrize(
    "name",
    [
        "weights, density ratio",
        "weights, dartboard",
        "leader, density ratio",
        "leader, logistic",
    ],
)
def test_a_wrong_floor_of_the_factors_is_caught(name):
    over = []
    for world in (0, 1):
        case, _, found = cases.scored(name, world)
        true = case.learner.guarantee.profile
        profile = {**true, "factor_floor": math.exp(0.1 * math.log(true["factor_floor"]))}
        over += cases.findings(found, profile, lambda e, own=profile: read_loss(own).delta(e))
    assert any(each.startswith("changed bit") for each in over)


def test_a_wrong_law_of_the_draws_is_caught():
    """The martingale identity fails if the engine draws from another law than it is scored by."""
    case, played, _ = cases.scored("weights, scheduled", 0)
    hotter = recoupled(case.learner.plan, inverse_temperature=18.0)
    learner = case.learner
    twin = cases.Case(
        ContinuousMultiplicativeWeights(
            cases.INTERVAL, learner.loss, horizon=learner.horizon, budget=None, plan=hotter
        ),
        case.streams,
    )
    own, other = (
        cases.ref.likelihood(played, twin.law(case.streams[w]), case.rule()) for w in (0, 1)
    )
    one = cases.ref.mean_of(np.exp((other.draws - own.draws).sum(axis=1)))
    assert abs(one.mean - 1.0) > cases.SIGMAS * one.error


# ---- where the accountant is tight ---------------------------------------------------------------

TIGHT = {
    "weights on the line": lambda: cases.weights_case(
        "scheduled", horizon=25, unbounded=True, inverse_temperature=4.0, regularization=400.0
    ),
    "weights in the plane": lambda: cases.weights_case(
        "scheduled", horizon=25, unbounded=True, d=2, block=2, inverse_temperature=9.0,
        regularization=400.0,
    ),
    "leader": lambda: cases.leader_case("scheduled", horizon=25, noise_scale=10.0),
}  # fmt: skip


@pytest.mark.parametrize("world", [0, 1])
@pytest.mark.parametrize("name", TIGHT)
def test_scheduled_gaussian_draws_use_the_guarantee_up(name, world):
    case = TIGHT[name]()
    _, found = cases.ratio(case, world, runs=4000)
    guarantee = case.learner.guarantee
    m = guarantee.mu
    assert m == pytest.approx(guarantee.profile["mu"])
    mean = cases.ref.mean_of(found.total)
    assert abs(mean.mean - 0.5 * m * m) <= cases.SIGMAS * mean.error
    assert found.total.var() == pytest.approx(m * m, rel=cases.SIGMAS * math.sqrt(2.0 / 4000))
    for epsilon in cases.EPSILONS:
        real = cases.ref.delta_of(found.total, epsilon)
        claim = guarantee.delta_at(epsilon)
        assert abs(real.mean - claim) <= cases.SIGMAS * real.error
