"""Calibration and guarantees of the batch baselines against closed forms."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import dpoco
from dpoco.accounting import batch_baselines as accountant
from dpoco.accounting import (
    localized_mirror_descent,
    noisy_frank_wolfe,
    noisy_sgd,
    phased_sgd,
    sufficient_statistics,
)
from dpoco.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import CustomLoss, HuberLoss, LogisticLoss, SquaredLoss

BUDGET = dpoco.Budget(1.0, 1e-5)
MU = 0.268051  # of this budget
METHODS = {
    "NoisyFrankWolfe": noisy_frank_wolfe,
    "NoisySGD": noisy_sgd,
    "PhasedSGD": phased_sgd,
    "LocalizedMirrorDescent": localized_mirror_descent,
    "SufficientStatistics": sufficient_statistics,
}
BALL, LOSS = LpBall(5, 1.5, 2.0), SquaredLoss(1.0, 1.25)


def calibrated(method, domain=BALL, loss=LOSS, records=1000, budget=BUDGET, **options):
    if method == "NoisySGD":
        options = {"steps": 1000, **options}
    return METHODS[method].calibrate(domain, loss, records=records, budget=budget, **options)


def test_noisy_frank_wolfe_by_hand():
    p = calibrated("NoisyFrankWolfe", step_scale=1.0)
    assert (p.first_batch, p.batch, p.steps) == (500, 15, 31)
    eta = math.log(1000) / (2 * math.sqrt(1000))
    c, x2 = 2 * (2.0 + 1.25), 5 ** (0.5 - 1 / 3)
    assert p.derivative_bound == pytest.approx(c)
    assert p.step_size == pytest.approx(eta)
    assert p.mu == pytest.approx(MU, abs=1e-6)
    assert p.first_scale == pytest.approx(2 * c * x2 / 500 / p.mu)
    # 2 beta eta (2 r) / b, inflated to l2
    assert p.later_scale == pytest.approx(2 * 2 * eta * 4.0 * x2 / 15 / p.mu)
    # An odd number of records: no more than half of them, rounded down.
    assert calibrated("NoisyFrankWolfe", records=1001).first_batch == 500
    used = p.first_batch + (p.steps - 1) * p.batch
    assert used <= 1000


def test_second_moments_by_hand():
    p = calibrated("SufficientStatistics")
    length, label, far = 5 ** (0.5 - 1 / 3), 1.25, BALL.max_norm(2.0)
    k = 2 * 5 / 6 * (label / (far * length)) ** 2
    u = (math.sqrt(k * k + 16 * k) - k) / 4
    assert p.weight == pytest.approx(math.sqrt(u) * length / label)
    moved = math.sqrt(2) * length**2 * (1 + u / 2)
    assert p.noise_scale == pytest.approx(moved / MU, rel=1e-5)
    found = sufficient_statistics.guarantee(BALL, LOSS, p, budget=BUDGET)
    assert found.mu == pytest.approx(moved / p.noise_scale, rel=1e-12)
    assert found.epsilon <= 1.0
    assert "derivatives" not in str(found)
    for apart in (1, 10**6):  # places in a data set are no times
        assert found.for_person(3, apart).mu == pytest.approx(3 * found.mu, rel=1e-9)
    # The worst pair of records has one label, and features at an angle of cosine -u/2.
    x, z = length * np.eye(5)[0], length * np.array([-u / 2, math.sqrt(1 - u * u / 4), 0, 0, 0])
    matrices, vectors = np.outer(x, x) - np.outer(z, z), p.weight * label * (x - z)
    assert math.hypot(*matrices.ravel(), *vectors) == pytest.approx(moved, rel=1e-12)


def test_phased_sgd_by_hand():
    p = calibrated("PhasedSGD")
    d2, x2 = 4.0 * 1.0, 5 ** (0.5 - 1 / 3)
    lipschitz = 6.5 * x2
    assert p.phases == 9
    assert p.noise_multiplier == pytest.approx(1 / MU, rel=1e-5)
    assert p.step_size == pytest.approx(
        BALL.diameter(2.0) / lipschitz * min(4 / math.sqrt(1000), MU / math.sqrt(5)), rel=1e-5
    )
    assert BALL.diameter(2.0) >= d2
    assert p.largest_step == pytest.approx(2 / (2 * x2**2))
    # The published constants are 2.8 times or so the noise that is needed.
    paper = calibrated("PhasedSGD", calibration="paper")
    rho = 1.0 / (2 * math.sqrt(math.log(1e5)))
    assert paper.noise_multiplier == pytest.approx(2 / rho)
    assert 2.8 < paper.noise_multiplier / p.noise_multiplier < 4.0
    found = accountant.guarantee(BALL, LOSS, paper, budget=BUDGET)
    assert found.claimed == pytest.approx((1.0, 1e-5))
    assert found.epsilon == pytest.approx(gaussian_epsilon(rho / 2, 1e-5), rel=1e-6)


def test_mirror_descent_by_hand():
    p = calibrated("LocalizedMirrorDescent", steps=50)
    assert p.noise_multiplier == pytest.approx(math.sqrt(50) / MU, rel=1e-5)
    found = accountant.guarantee(BALL, LOSS, p, budget=BUDGET)
    assert found.mu == pytest.approx(MU, rel=1e-5)
    assert found.rho == pytest.approx(MU**2 / 2, rel=1e-5)


def test_noisy_sgd_by_hand():
    x2 = 5 ** (0.5 - 1 / 3)
    p = calibrated("NoisySGD", calibration="paper", steps=None, budget=dpoco.Budget(1.0, 1e-3))
    assert p.steps == 10**6
    assert p.noise_scale == pytest.approx(math.sqrt(8 * math.log(1e3)) * 6.5 * x2)
    root = max(math.sqrt(1000), math.sqrt(5 * math.log(1e3)))
    assert p.step_size == pytest.approx(BALL.radius_from_center() / (6.5 * x2 * 1000 * root))
    found = accountant.guarantee(BALL, LOSS, p, budget=1e-3)
    assert found.claimed == pytest.approx((1.0, 1e-3))
    assert 0.7 < found.epsilon < 0.8
    tight = calibrated("NoisySGD", steps=None, budget=dpoco.Budget(1.0, 1e-3))
    assert tight.noise_scale < 0.85 * p.noise_scale


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [BUDGET, dpoco.Budget(0.3, 1e-7), dpoco.Budget(8.0, 1e-3)])
def test_a_calibrated_guarantee_is_the_budget(method, budget):
    p = calibrated(method, budget=budget)
    found = accountant.guarantee(BALL, LOSS, p, budget=budget)
    assert found.epsilon == pytest.approx(budget.epsilon, rel=1e-3)
    assert found.epsilon <= budget.epsilon * (1 + 1e-8)
    assert found.delta == budget.delta
    assert found.certified
    assert (found.change, found.unit, found.horizon) == ("replace", "one record", 1)
    assert not accountant.guarantee(BALL, LOSS, p, budget=budget, seeded=True).certified
    text = str(found)
    assert "one record" in text
    before = text.split("Conditions:")[0]  # which speak of the rounding of numbers
    assert "round" not in before.replace("rounded to", "").replace("is one round", "")
    assert "round" not in repr(found)
    assert "round" not in repr(accountant.guarantee(BALL, LOSS, calibrated(method, budget=None)))
    assert "batch_baselines.md" in text


@pytest.mark.parametrize("method", METHODS)
def test_guarantees_are_recomputed_from_noise_and_bounds(method):
    p = calibrated(method)
    name = {
        "NoisyFrankWolfe": "first_scale", "NoisySGD": "noise_scale",
        "SufficientStatistics": "noise_scale",
    }.get(method, "noise_multiplier")  # fmt: skip
    less = dataclasses.replace(p, **{name: getattr(p, name) / 2})
    assert accountant.guarantee(BALL, LOSS, less, budget=BUDGET).epsilon > 1.9
    with pytest.raises(dpoco.BudgetExceeded):
        accountant.guarantee(BALL, LOSS, less, budget=BUDGET).require(BUDGET)
    # Clipping harder needs less noise; a larger domain or longer features do not go unnoticed.
    if method in ("NoisyFrankWolfe", "NoisySGD"):
        wider = accountant.guarantee(BALL, SquaredLoss(2.0, 1.25), p, budget=BUDGET)
        assert wider.epsilon > 1.9
        harder = dataclasses.replace(p, derivative_bound=p.derivative_bound / 2)
        eased = accountant.guarantee(BALL, LOSS, harder, budget=BUDGET)
        assert eased.epsilon < 0.6 or method == "NoisyFrankWolfe"
        assert any("below the 6.5" in text for text in eased.conditions)


def test_either_release_of_frank_wolfe_may_be_the_weak_one():
    p = calibrated("NoisyFrankWolfe")
    for name in ("first_scale", "later_scale"):
        less = dataclasses.replace(p, **{name: getattr(p, name) / 3})
        found = accountant.guarantee(BALL, LOSS, less, budget=BUDGET)
        assert found.mu == pytest.approx(3 * MU, rel=1e-5)
    more = dataclasses.replace(p, difference_bound=2 * p.difference_bound)
    assert accountant.guarantee(BALL, LOSS, more).mu == pytest.approx(2 * MU, rel=1e-5)


def test_steps_that_may_expand_carry_no_guarantee():
    p = calibrated("PhasedSGD")
    wild = dataclasses.replace(p, step_size=1e3, largest_step=10 * p.largest_step)
    with pytest.raises(ValueError, match="expand"):
        accountant.guarantee(BALL, LOSS, wild)
    capped = dataclasses.replace(p, step_size=1e3)
    assert max(capped.step_sizes) == p.largest_step
    assert accountant.guarantee(BALL, LOSS, capped, budget=BUDGET).epsilon <= 1.0 + 1e-8


@pytest.mark.filterwarnings("ignore::dpoco.LargeDeltaWarning")
def test_published_claims_that_are_false_are_refused():
    # The published Gaussian mechanism is not valid for every epsilon.
    big = dpoco.Budget(7.0, 1e-2)
    assert gaussian_delta(7.0, 7.0 / math.sqrt(2 * math.log(1e2))) > 1e-2
    with pytest.raises(dpoco.CalibrationError, match="published"):
        calibrated("NoisyFrankWolfe", budget=big, calibration="paper")
    with pytest.raises(dpoco.CalibrationError, match="published"):
        calibrated("NoisySGD", budget=dpoco.Budget(30.0, 1e-2), calibration="paper", records=2,
                   steps=4)  # fmt: skip
    p = dataclasses.replace(
        calibrated("NoisyFrankWolfe", budget=dpoco.Budget(6.0, 1e-2), calibration="paper"),
        first_scale=1e-4,
    )
    with pytest.raises(dpoco.CalibrationError, match="false"):
        accountant.guarantee(BALL, LOSS, p, budget=1e-2)
    with pytest.raises(ValueError, match="calibration"):
        calibrated("LocalizedMirrorDescent", calibration="paper")


@pytest.mark.parametrize("method", METHODS)
def test_records_survive_json(method):
    for budget in (BUDGET, None):
        p = calibrated(method, budget=budget)
        stored = json.loads(json.dumps(p.to_dict()))
        assert type(p).from_dict(stored) == p
        with pytest.raises(dpoco.StateError):
            type(p).from_dict({**stored, "records": -1})
        assert p.private == (budget is not None)
    assert not accountant.guarantee(BALL, LOSS, p).private


def test_bad_arguments():
    assert gaussian_mu(1.0, 1e-5) == pytest.approx(MU, abs=1e-6)
    for method in METHODS:
        with pytest.raises(TypeError, match="batch baselines take"):
            calibrated(method, loss=CustomLoss(1.0, 1.0))
    with pytest.raises(TypeError, match="parameters"):
        accountant.guarantee(BALL, LOSS, {})
    for domain in (LpBall(3, 1.0), LpBall(3, 3.0), Simplex(3), Box([0.0], [1.0])):
        with pytest.raises(ValueError, match="1 < p <= 2"):
            calibrated("LocalizedMirrorDescent", domain=domain)
    with pytest.raises(dpoco.CalibrationError, match="delta > 0"):
        calibrated("NoisyFrankWolfe", budget=dpoco.Budget(1.0, 0.0))


@pytest.mark.parametrize("loss", [SquaredLoss(1.0, 1.0), LogisticLoss(2.0), HuberLoss(1.0, 1.0)])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 4.0, math.inf])
def test_bounds_hold_by_search(loss, p):
    from dpoco.accounting.batch_baselines import batch_bounds

    domain, rng = LpBall(4, p, 1.5), np.random.default_rng(1)
    found = batch_bounds(domain, loss)
    reached = np.zeros(3)
    for _ in range(3000):
        x = domain.__class__(4, domain.dual_exponent, loss.feature_bound).minimize_linear(
            rng.normal(size=4)
        )
        a, b = (domain.minimize_linear(s * x + 0.1 * rng.normal(size=4)) for s in (1.0, -1.0))
        y = rng.uniform(*loss.label_range)
        ga, gb = loss.gradient(a, x, y), loss.gradient(b, x, y)
        lipschitz = found.derivative * found.feature_l2
        gap = np.linalg.norm(ga - gb) / max(np.linalg.norm(a - b), 1e-12)
        values = [np.linalg.norm(ga) / lipschitz, gap / found.smoothness_l2,
                  abs((a - b) @ x) / found.reach]  # fmt: skip
        assert max(values) <= 1 + 1e-9
        reached = np.maximum(reached, values)
    assert reached[2] > 0.8
