"""Losses made of functions of one variable: their table, who takes them, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.probes import probes

import dpoco
from dpoco import evaluation, losses
from dpoco.domains import LpBall
from dpoco.losses import GlmLoss
from dpoco.oco import NoisyFTRL, NoisyNewton

BALL, BUDGET = LpBall(3, 2.0, 2.0), dpoco.Budget(1.0, 1e-6)


def log_cosh(**options) -> GlmLoss:
    return GlmLoss.from_functions(
        lambda t: np.logaddexp(t, -t) - np.log(2.0), np.tanh, lambda t: 1.0 / np.cosh(t) ** 2,
        feature_bound=1.0, reach=8.0, **options,
    )  # fmt: skip


def logistic(**options) -> GlmLoss:
    """The logistic loss itself, as a function of the signed margin."""
    return GlmLoss.from_functions(
        lambda t: np.logaddexp(0.0, -t), lambda t: -1.0 / (1.0 + np.exp(t)),
        feature_bound=1.0, variable="margin", reach=16.0, pieces=8192, **options,
    )  # fmt: skip


def test_tables_are_what_the_functions_say():
    rng = np.random.default_rng(0)
    z, y = rng.uniform(-4, 4, 500), rng.uniform(-1, 1, 500)
    engine = log_cosh()._glm_engine
    assert engine.values(z, y) == pytest.approx(np.log(np.cosh(z - y)), abs=1e-4)
    assert engine.derivatives(z, y) == pytest.approx(np.tanh(z - y), abs=1e-5)
    assert probes.curvatures(engine, z, y) == pytest.approx(1.0 / np.cosh(z - y) ** 2, abs=1e-2)


def test_margins_of_labels_in_the_unit_interval_are_the_logistic_loss():
    rng = np.random.default_rng(1)
    z, y = rng.uniform(-6, 6, 500), rng.uniform(0, 1, 500)
    own, known = logistic()._glm_engine, losses.LogisticLoss(1.0)._glm_engine
    for name in ("values", "derivatives"):
        assert getattr(own, name)(z, y) == pytest.approx(getattr(known, name)(z, y), abs=2e-6)
    assert probes.curvatures(own, z, y) == pytest.approx(probes.curvatures(known, z, y), abs=1e-3)
    for margin in (0.0, 0.7, 3.0, 40.0):
        slope = losses.LogisticLoss(1.0).derivative_bound(margin)
        assert logistic().derivative_bound(margin) == pytest.approx(slope, abs=1e-6)


def test_value_slope_and_curvature_of_a_table_belong_together_exactly():
    """Between knots and beyond them, by central differences of a quadratic, which are exact."""
    rng = np.random.default_rng(2)
    slopes = np.sort(rng.normal(size=6))
    loss = GlmLoss(1.0, slopes=slopes, reach=2.5, at_zero=0.25, label_bound=1e-9)
    knots, step = np.linspace(-2.5, 2.5, 6), 1e-3
    z = np.concatenate([rng.uniform(-4, 4, 300), [0.0]])
    z = z[np.abs(z[:, None] - knots).min(axis=1) > 2 * step]
    zeros = np.zeros(z.shape)
    engine = loss._glm_engine
    ahead, behind = engine.values(z + step, zeros), engine.values(z - step, zeros)
    assert engine.derivatives(z, zeros) == pytest.approx((ahead - behind) / (2 * step), abs=1e-10)
    bends = (ahead - 2 * engine.values(z, zeros) + behind) / step**2
    assert probes.curvatures(engine, z, zeros) == pytest.approx(bends, abs=1e-6)
    assert engine.values(np.zeros(1), np.zeros(1))[0] == pytest.approx(0.25)
    assert np.isfinite(engine.derivatives(np.array([np.nan, np.inf]), np.zeros(2))).all()


@pytest.mark.parametrize("margin", [0.0, 0.4, 1.3, 2.0, 9.0])
@pytest.mark.parametrize("variable", ["residual", "margin"])
def test_bounds_hold_for_all_margins_and_labels_and_are_attained(margin, variable):
    slopes = np.sort(np.random.default_rng(3).normal(size=9))
    loss = GlmLoss(1.0, slopes=slopes, reach=2.0, variable=variable, label_bound=0.5)
    low, high = loss.label_range
    z, y = np.meshgrid(np.linspace(-margin, margin, 2001), np.linspace(low, high, 21))
    flat = np.ascontiguousarray(z.ravel()), np.ascontiguousarray(y.ravel())
    steepest = np.abs(loss._glm_engine.derivatives(*flat)).max()
    assert steepest == pytest.approx(loss.derivative_bound(margin), rel=1e-2)
    assert steepest <= loss.derivative_bound(margin) * (1 + 1e-12)
    assert probes.curvatures(loss._glm_engine, *flat).max() <= loss.curvature_bound(margin) * (
        1 + 1e-12
    )


def test_the_regret_of_the_centre_is_bounded_for_every_record():
    rng = np.random.default_rng(4)
    loss = GlmLoss(1.0, slopes=np.sort(rng.normal(size=9)), reach=3.0, label_bound=0.5)
    bound = loss.center_regret(BALL)
    x = rng.normal(size=(2000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    best = x * rng.uniform(-2, 2, size=(2000, 1))
    y = rng.uniform(-0.5, 0.5, 2000)
    at_center = loss.value(np.zeros(3), x, y)
    others = loss._glm_engine.values(np.einsum("ij,ij->i", best, x), y)
    assert np.max(at_center - others) <= bound


@pytest.mark.parametrize("kind", [NoisyNewton, NoisyFTRL])
def test_learners_clamp_slopes_whatever_the_table_says(kind):
    """The engine's leaf at adversarial records is never longer than what is charged."""
    loss = log_cosh(label_bound=1.0)
    learner = kind(BALL, loss, horizon=2_000, budget=BUDGET, source=dpoco.random.Source.seeded(0))
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2_000, 3)) * 10.0
    y = rng.normal(size=2_000) * 10.0
    trace = learner.run(x, y)
    assert np.isfinite(trace.losses).all()
    assert learner.round == 2_000
    slope = loss.derivative_bound(loss.margin_bound(BALL))
    assert learner.guarantee.description.summand.slope == pytest.approx(slope)
    assert learner.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)


def test_newton_steps_learn_with_an_own_loss_as_with_the_known_one():
    """Over a second: 40,000 rounds of two learners."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(20_000, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-x @ [3.0, -2.0, 1.0]))).astype(float)
    ball, average = LpBall(3, 2.0, 4.0), {}
    for name, loss in {
        "own": logistic(),
        "known": losses.LogisticLoss(1.0, slope_bound=1.0),
    }.items():
        learner = NoisyNewton(
            ball, loss, horizon=20_000, budget=BUDGET, source=dpoco.random.Source.seeded(1)
        )
        average[name] = float(np.mean(learner.run(x, y).losses))
    assert average["own"] == pytest.approx(average["known"], abs=5e-3)
    assert average["own"] < 0.66  # of log 2 = 0.693 without learning


def test_states_pickles_and_dictionaries_keep_the_table(tmp_path):
    loss = log_cosh()
    assert losses.from_dict(loss.to_dict()) == loss
    assert pickle.loads(pickle.dumps(loss)) == loss
    learner = NoisyNewton(
        BALL, loss, horizon=500, budget=BUDGET, source=dpoco.random.Source.seeded(2)
    )
    x, y = np.full((100, 3), 0.3), np.full(100, 0.5)
    learner.run(x, y)
    learner.save(tmp_path / "learner.state")
    again = dpoco.load(tmp_path / "learner.state")
    assert again.loss == loss
    assert np.array_equal(learner.run(x, y).decisions, again.run(x, y).decisions)


def test_the_best_decision_in_hindsight_and_the_choice_take_the_loss():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(400, 3)) / 3.0
    y = np.clip(x @ [0.5, -0.5, 0.2], -1, 1)
    best = evaluation.best_fixed_decision(BALL, log_cosh(), x, y)
    assert best.decision == pytest.approx([0.5, -0.5, 0.2], abs=0.05)
    constant = evaluation.best_constant_prediction(log_cosh(), np.array([0.2, 0.2, 0.8]))
    assert 0.2 < constant.prediction < 0.8
    names = [each.name for each in dpoco.choose((BALL, log_cosh()), horizon=1000, budget=BUDGET)]
    assert names[:1] == ["NoisyNewton"]
    assert set(names) == {"NoisyNewton", "NoisyFTRL"}
