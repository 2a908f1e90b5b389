"""Bounds on regret never exceed what any decisions have, and say where they say nothing.

The warning that noise dominates goes by predicted errors and not by bounds: what it separates is
measured here, on the easiest stream there is and on harder ones.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from dpoco.accounting import Budget, Guarantee
from dpoco.accounting.regret_bounds import stated_regret
from dpoco.domains import Box, LpBall, Simplex
from dpoco.errors import NoiseDominatesWarning
from dpoco.experts import BatchShare, EpochSelector, PrefixHedge
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.oco import CoupledRegularizedLeader, NoisyFTRL
from dpoco.random import Source

T = 3000


def test_what_is_stated_of_regret():
    assert stated_regret(3.0, 5.0) == {"regret_bound": 3.0, "details": {}}
    assert stated_regret(6.0, 5.0, 8.0)["regret_bound"] == 6.0
    stated = stated_regret(math.inf, 5.0, 8.0)
    assert stated == {"regret_bound": 8.0, "details": {"regret without learning": 5.0}}


@pytest.mark.parametrize(
    "loss",
    [
        LogisticLoss(1.5), LogisticLoss(2.0, feature_bound_l2=0.5), SquaredLoss(0.7, 0.4),
        SquaredLoss(1.0, 5.0, weight=0.5), HuberLoss(1.0, 2.0, threshold=0.3),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "domain",
    [LpBall(3, 2.0, 4.0), LpBall(3, 1.0), Box([0.0, -2.0, 1.0], [1.0, 0.5, 1.5]), Simplex(3)],
)
def test_the_regret_of_the_center_bounds_that_of_records_and_is_nearly_attained(loss, domain):
    rng = np.random.default_rng(0)
    corners = rng.normal(size=(1000, 3))
    points = np.array([domain.project(4.0 * corner) for corner in corners[:200]])
    q, signs = domain.dual_exponent, np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    records = np.concatenate([corners, signs, np.eye(3), -np.eye(3), points - domain.center])
    records = records[np.linalg.norm(records, axis=1) > 0.0]
    records *= loss.feature_bound / np.linalg.norm(records, ord=q, axis=1)[:, None]
    if loss.feature_bound_l2 is not None:
        length = np.linalg.norm(records, axis=1)[:, None]
        records *= np.minimum(1.0, loss.feature_bound_l2 / length)
    worst = 0.0
    for label in loss.label_range:
        labels = np.full(len(records), label)
        still = loss.value(domain.center, records, labels)
        least = np.min([loss.value(point, records, labels) for point in points], axis=0)
        worst = max(worst, float((still - least).max()))
    bound = loss.center_regret(domain)
    assert worst <= bound * (1.0 + 1e-12)
    if isinstance(domain, LpBall):  # elsewhere the farthest margin is no record's
        assert worst >= 0.85 * bound


def quiet(kind, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseDominatesWarning)
        return kind(*args, source=Source.seeded(1), **options)


def test_a_vacuous_bound_is_called_so():
    """Never moving costs log 2 a round at most; the leader's bound is more than twice that."""
    budget = Budget(1.0, 1e-5)
    learner = NoisyFTRL(LpBall(5, 2.0, 8.0), LogisticLoss(1.0), horizon=T, budget=budget)
    g = learner.guarantee
    assert g.regret_bound / T > 2.0 * math.log(2.0) > 2.0 * g.details["regret without learning"] / T
    assert "no useful bound (1.5" in str(g)
    assert "at most 0.6928" in str(g)
    assert str(Guarantee.from_dict(g.to_dict())) == str(g)
    rich = quiet(NoisyFTRL, LpBall(5), LinearLoss(1.0), horizon=T, budget=Budget(8.0, 1e-5))
    assert "no useful" not in str(rich.guarantee)
    assert "regret without learning" not in rich.guarantee.details


@pytest.mark.parametrize("kind", [PrefixHedge, EpochSelector, BatchShare])
def test_bounds_of_experts_stay_below_the_horizon(kind):
    options = {"switches": 2} if kind is BatchShare else {}
    g = quiet(
        kind, 4, horizon=64, budget=Budget(0.01, 1e-5), loss_range=(0.0, 10.0), **options
    ).guarantee
    assert g.regret_bound == 640.0
    assert g.details["regret without learning"] == pytest.approx(480.0)
    assert "no useful bound (10 a round" in str(g)


def test_a_learner_that_never_moves_says_so():
    with pytest.warns(NoiseDominatesWarning):
        learner = CoupledRegularizedLeader(
            LpBall(3), SquaredLoss(1.0, 1.0), horizon=20, budget=Budget(0.1, 1e-6)
        )
    assert learner.plan.mechanism.cap == 0
    assert "no useful bound" in str(learner.guarantee)


def gain(loss, d, radius, rounds, epsilon):
    """How far the leader gets from the centre's loss to the least, if all records are one."""
    learner = quiet(
        NoisyFTRL, LpBall(d, 2.0, radius), loss, horizon=rounds, budget=Budget(epsilon, 1e-6)
    )
    rows, best = np.zeros((rounds, d)), np.zeros(d)
    rows[:, 0], best[0] = 1.0, radius
    if isinstance(loss, LinearLoss):
        rows, args = -rows, ()
    else:
        args = (np.ones(rounds) if isinstance(loss, LogisticLoss) else np.full(rounds, radius),)
    own = float(learner.run(rows, *args).losses.mean())
    one = [value[:1] for value in args]
    still, least = (float(loss.value(u, rows[:1], *one)[0]) for u in (np.zeros(d), best))
    return learner.plan.forecast.noise_dominates, (still - own) / (still - least)


LOSSES = {
    "linear": (LinearLoss(1.0), 1.0), "squared": (SquaredLoss(1.0, 1.1), 1.0),
    "logistic": (LogisticLoss(1.0), 1.0), "logistic far": (LogisticLoss(1.0), 8.0),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_the_warning_separates_learning_from_none(name):
    """Where it is silent the easiest stream is learned, and where it is not hardly that."""
    loss, radius = LOSSES[name]
    warned = silent = 0
    for rounds in (300, T):
        for d in (5, 50):
            for epsilon in (0.01, 0.1, 1.0):
                dominates, reached = gain(loss, d, radius, rounds, epsilon)
                if dominates:
                    warned += 1
                    assert reached < 0.45, (rounds, d, epsilon)
                else:
                    silent += 1
                    assert reached > 0.15, (rounds, d, epsilon)
    assert warned >= 2
    assert silent >= 6
