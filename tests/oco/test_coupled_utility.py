"""What the coupled learners are for: little regret, and few switches without privacy."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import scipy
from tests.plans import coupled as coupled_numbers

import dpoco
from dpoco.domains import LpBall
from dpoco.losses import HuberLoss, LinearLoss, LogisticLoss
from dpoco.oco import ContinuousMultiplicativeWeights, CoupledRegularizedLeader
from dpoco.random import Source

KINDS = {"weights": ContinuousMultiplicativeWeights, "leader": CoupledRegularizedLeader}
T, D = 800, 2
BALL = LpBall(D, 2.0, 1.0)
GENEROUS = dpoco.Budget.from_dict({"epsilon": 30.0, "delta": 1e-2})  # without a warning
COUPLINGS = [
    ("weights", "density_ratio"),
    ("weights", "dartboard"),
    ("weights", "anchored"),
    ("weights", "scheduled"),
    ("leader", "density_ratio"),
    ("leader", "scheduled"),
]


@functools.cache
def calibrated(kind, loss, budget, **options):
    return KINDS[kind](BALL, loss, horizon=T, budget=budget, **options).plan


def engines(kind, loss, runs, *, budget=GENEROUS, seed=0, **options):
    """One calibration, many runs with noise of their own."""
    p = calibrated(kind, loss, budget, **options)
    learner = KINDS[kind](BALL, loss, horizon=T, budget=None, plan=p)
    tape = Source.seeded(seed)
    return learner, (learner._build_engine(tape._claim()) for _ in range(runs))


def play(engine, rows, labels=None):
    """Return the losses of all rounds."""
    losses = np.empty(len(rows))
    engine.run(rows, labels, losses, None, np.empty(len(rows), np.uint8))
    return losses


def streams(name):
    """Fixed in advance: a leaning one, one that turns round, and noise."""
    rng = np.random.default_rng(7)
    unit = rng.normal(size=(T, D))
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    if name == "turning":
        unit = np.tile([1.0, 0.0], (T, 1))
        unit[T // 2 :] *= -0.9
    elif name == "alternating":
        unit = np.tile([1.0, 0.0], (T, 1)) * (-1.0) ** np.arange(T)[:, None]
    elif name == "leaning":
        unit = 0.5 * unit + [0.5, 0.0]
    return unit


def best(loss, rows, labels):
    """Least total loss of a fixed decision in the ball."""
    if labels is None:
        return -float(np.linalg.norm(rows.sum(axis=0)))

    def total(x):
        return float(loss.batch_values(BALL, np.asarray(x), rows, labels).sum())

    found = scipy.optimize.minimize(
        total,
        np.zeros(D),
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda x: 1.0 - 1e-9 - x @ x},
    )
    return min(total(np.zeros(D)), float(found.fun))


# Each two of a learner, a loss and a stream meet.
PLAYED = [
    (kind, loss, name)
    for i, kind in enumerate(KINDS)
    for j, loss in enumerate((LinearLoss(1.0), LogisticLoss(1.0), HuberLoss(1.0, 1.0)))
    for k, name in enumerate(("noise", "turning", "alternating", "leaning"))
    if (i + j + k) % 2 == 0
]


@pytest.mark.parametrize(("kind", "loss", "name"), PLAYED)
def test_mean_regret_is_below_the_proven_bound(kind, loss, name):
    rows = streams(name)
    labels = None
    if not isinstance(loss, LinearLoss):
        labels = np.where(rows[:, 0] > 0.0, 1.0, 0.0)
    learner, many = engines(kind, loss, 40 if labels is None else 8)
    totals = np.array([play(each, rows, labels).sum() for each in many])
    regret = totals - best(loss, rows, labels)
    error = regret.std() / math.sqrt(len(regret))
    bound = learner.plan.forecast.regret_bound
    assert bound < T  # says something
    assert regret.mean() + 5.0 * error <= bound


@pytest.mark.parametrize(("kind", "coupling"), COUPLINGS)
def test_an_easy_stream_is_learnt(kind, coupling):
    """The gradient is always the same: 0 at the centre, -T at best, T for an argmax."""
    learner, many = engines(kind, LinearLoss(1.0), 10, coupling=coupling)
    rows = np.tile([0.6, -0.8], (T, 1))
    engine_list = list(many)
    totals = np.array([play(each, rows).sum() for each in engine_list])
    assert totals.mean() < -0.5 * T
    assert totals.mean() + T <= learner.plan.forecast.regret_bound
    for each in engine_list:
        x = each.decision()
        assert x[0] < 0.0 < x[1]
    assert all(each.switches <= learner.plan.mechanism.cap for each in engine_list)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [LogisticLoss(1.0), HuberLoss(1.0, 1.0)])
def test_an_easy_regression_is_learnt(kind, loss):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(T, D))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    truth = np.array([0.8, -0.6])
    labels = np.clip(rows @ truth, -1.0, 1.0)
    if isinstance(loss, LogisticLoss):
        labels = (labels > 0.0).astype(float)
    _, many = engines(kind, loss, 6)
    centre = float(loss.batch_values(BALL, np.zeros(D), rows, labels).sum())
    ideal = best(loss, rows, labels)
    for each in many:
        total = play(each, rows, labels).sum()
        assert total < centre - 0.3 * (centre - ideal)
        assert each.decision() @ truth > 0.5


# ---- few switches without privacy ----------------------------------------------------------------

LAZY = [
    ("weights", "maximal", LinearLoss(1.0)),
    ("weights", "density_ratio", LinearLoss(1.0)),
    ("weights", "dartboard", LinearLoss(1.0)),
    ("leader", "maximal", LinearLoss(1.0)),
    ("leader", "maximal", LogisticLoss(1.0)),
    ("leader", "density_ratio", LogisticLoss(1.0)),
]


@pytest.mark.parametrize("name", ["leaning", "alternating"])
@pytest.mark.parametrize(("kind", "coupling", "loss"), LAZY)
def test_lazy_learners_keep_to_their_expected_switches(kind, coupling, loss, name):
    allowed = 80
    learner, many = engines(
        kind, loss, 40, budget=None, coupling=coupling, max_switches=allowed, seed=3
    )
    rows = streams(name)
    labels = None if isinstance(loss, LinearLoss) else np.ones(T)
    switches, regrets = [], []
    ideal = best(loss, rows, labels)
    for each in many:
        regrets.append(play(each, rows, labels).sum() - ideal)
        switches.append(each.switches)
    error = np.std(switches) / math.sqrt(len(switches))
    p = coupled_numbers(learner.plan)
    assert p.coupling == coupling
    assert p.max_switches is None
    assert p.expected_switches <= allowed * (1.0 + 1e-9)
    assert np.mean(switches) <= p.expected_switches + 5.0 * error
    assert np.mean(switches) > 0.02 * allowed
    assert np.mean(regrets) + 5.0 * np.std(regrets) / math.sqrt(len(regrets)) <= p.regret_bound
    assert not learner.guarantee.private
