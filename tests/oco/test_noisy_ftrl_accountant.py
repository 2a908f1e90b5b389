"""The noisy leader's accounting: sensitivities, guarantees, regret bounds, stored parameters."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import scipy
from tests.plans import changed

import dpoco
from dpoco.accounting import continual_sum
from dpoco.accounting.noisy_ftrl import best_vector_scale, calibrate, guarantee
from dpoco.accounting.noisy_ftrl_regret import LeaderTuning, make_run
from dpoco.domains import Box, LpBall, Simplex
from dpoco.losses import CustomLoss, HuberLoss, LinearLoss, LogisticLoss, SquaredLoss
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.neighbours import Neighbours

BUDGET = dpoco.Budget(1.0, 1e-6)
DOMAINS = [LpBall(4), LpBall(4, 1.0), LpBall(4, 1.5, 3.0), LpBall(4, np.inf), LpBall(1),
           Box([0, -1, 2, 0], [1, 1, 5, 0.5]), Simplex(4, 2.0)]  # fmt: skip


def quadratic_sensitivity(length, label, scale, relation):
    moments = SecondMoments(2, 2.0, length, math.inf, label, float(scale))
    return moments.movement(Neighbours(relation))


def run(domain, *, horizon=10, method="blt", noise_scale=0.0):
    """Return a run of linear losses of slope 1."""
    of = {"horizon": horizon, "batch": 1, "method": method, "noise_scale": noise_scale}
    return dataclasses.replace(make_run(domain, LinearLoss(1.0), **of), lipschitz=1.0)


def test_linear_losses_in_the_ball_cost_half_a_thousandth_of_the_range():
    p = calibrate(LpBall(10), LinearLoss(1.0), horizon=10**6, budget=BUDGET)
    share = p.forecast.regret_bound / (p.forecast.loss_range * 10**6)
    assert 5.0e-4 < share < 6e-4  # CTRL's bound is 2.2e-3
    # R sqrt(G^2 T + d s^2) with s = Delta col row / mu, up to the rounding of released sums.
    deviation = 2.0 * continual_sum.max_error("blt", 10**6) / 0.23670438
    ideal = math.sqrt(1e6 + 10 * deviation**2)
    assert ideal < p.forecast.regret_bound < 1.01 * ideal
    assert p.forecast.regret_scope == "oblivious"
    stated = guarantee(LpBall(10), LinearLoss(1.0), p)
    terms = [value for name, value in stated.details.items() if name.startswith("regret: ")]
    assert p.forecast.regret_bound == pytest.approx(math.fsum(terms))


@pytest.mark.parametrize("relation", ["replace", "zero_out"])
def test_quadratic_sensitivity_by_search(relation):
    for vector_scale in [0.1, 0.8, 2.0, 3.7]:
        length, label = 1.3, 0.7
        bound = quadratic_sensitivity(length, label, vector_scale, relation)

        def statistic(x, y, vector_scale=vector_scale):
            return np.concatenate([np.outer(x, x).ravel(), vector_scale * y * x])

        rng = np.random.default_rng(0)
        largest = 0.0
        for cosine in np.linspace(-1, 1, 401):
            a = length * np.array([1.0, 0.0])
            b = length * np.array([cosine, math.sqrt(1 - cosine**2)])
            other = np.zeros(6) if relation == "zero_out" else statistic(b, -label)
            largest = max(largest, float(np.linalg.norm(statistic(a, label) - other)))
        for _ in range(2000):
            a, b = rng.normal(size=(2, 2))
            a *= length * rng.uniform() / np.linalg.norm(a)
            b *= length * rng.uniform() / np.linalg.norm(b)
            other = statistic(b, rng.uniform(-label, label)) * (relation == "replace")
            change = np.linalg.norm(statistic(a, rng.uniform(-label, label)) - other)
            assert change <= bound * (1 + 1e-12)
        assert largest == pytest.approx(bound, rel=1e-4)
        assert largest <= bound * (1 + 1e-12)


@pytest.mark.parametrize("relation", ["replace", "zero_out"])
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("label", [0.01, 1.0, 30.0])
def test_the_vector_scale_gives_the_least_gradient_noise(domain, relation, label):
    loss, d = SquaredLoss(1.0, label), domain.dimension
    length = float(min(1.0 * d ** max(0.0, 0.5 - 1 / domain.dual_exponent), np.inf))
    reach = domain.max_norm(2.0)

    def mean_square(scale):
        sensitivity = quadratic_sensitivity(length, label, scale, relation)
        return sensitivity**2 * (reach**2 * (d + 1) / 2 + d / scale**2)

    best = best_vector_scale(domain, loss, relation)
    others = best * np.geomspace(0.01, 100, 201)
    assert mean_square(best) <= min(map(mean_square, others)) * (1 + 1e-12)


def test_the_mean_square_of_a_gradients_noise():
    # What the previous test minimises: unit noise in packed coordinates, seen at a unit vector.
    rng, d = np.random.default_rng(0), 4
    upper = np.triu_indices(d)
    x = rng.normal(size=d)
    x /= np.linalg.norm(x)
    squares = []
    for _ in range(20_000):
        noise = np.zeros((d, d))
        noise[upper] = rng.normal(size=10) * np.where(upper[0] == upper[1], 1, math.sqrt(0.5))
        squares.append(np.sum(((noise + np.triu(noise, 1).T) @ x) ** 2))
    error = np.std(squares) / math.sqrt(len(squares))
    assert abs(np.mean(squares) - (d + 1) / 2) < 5 * error


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("relation", ["replace", "zero_out"])
def test_guarantees_spend_the_budget_exactly(domain, relation):
    for loss, statistics in itertools.product(
        [
            LinearLoss(2.0, gradient_bound_l2=1.5),
            LinearLoss(1.0),
            LogisticLoss(1.0),
            SquaredLoss(1.0, 2.0),
            HuberLoss(1.0, 1.0, feature_bound_l2=0.5),
            CustomLoss(2.0, 1.0, leaf_bound_l2=1.0),
        ],
        ["gradient", "quadratic"],
    ):
        if statistics == "quadratic" and not isinstance(loss, SquaredLoss):
            continue
        p = calibrate(
            domain, loss, horizon=1000, budget=BUDGET, relation=relation, statistics=statistics,
            numerics="float",
        )  # fmt: skip
        g = guarantee(domain, loss, p, relation=relation, budget=BUDGET)
        g.require(BUDGET)
        assert g.epsilon == pytest.approx(1.0)
        assert g.certified
        if statistics == "gradient":
            sides = 2.0 if relation == "replace" else 1.0
            largest = p.forecast.loss_range / domain.diameter(2.0)
            assert g.sensitivity == pytest.approx(sides * largest)
        assert g.regret_bound == pytest.approx(p.forecast.regret_bound)
        assert "Regret" in str(g)


def test_plans_of_other_problems_are_refused():
    domain, loss = LpBall(3), LinearLoss(1.0)
    p = calibrate(domain, loss, horizon=1000, budget=BUDGET, numerics="float")
    none = calibrate(domain, loss, horizon=1000, budget=None)
    assert not guarantee(domain, loss, none).private
    assert guarantee(domain, loss, none).regret_bound == pytest.approx(math.sqrt(1000))
    vector = p.mechanism.summand
    for wrong, message in (
        (changed(p, summand=dataclasses.replace(vector, bound=2.0)), "bounds"),
        (changed(p, pushes=999, factorisation=continual_sum.factorisation("blt", 999)), "rounds"),
        (dataclasses.replace(p, tuning=LeaderTuning(1000, None)), "step_size"),
        (dataclasses.replace(p, tuning=LeaderTuning(1000, 1.0, 9.0)), "half_life"),
    ):
        with pytest.raises(ValueError, match=message):
            guarantee(domain, loss, wrong)
    quadratic = calibrate(
        domain, SquaredLoss(1.0, 1.0), horizon=1000, budget=BUDGET, statistics="quadratic"
    )
    with pytest.raises(ValueError, match="SquaredLoss"):
        guarantee(domain, loss, quadratic)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("loss", [LinearLoss(1.0), SquaredLoss(1.0, 1.0)])
def test_the_step_size_minimises_the_bound(domain, loss):
    for epsilon, batch in itertools.product([0.1, 30.0], [1, 7]):
        for method in ("blt", "tree"):
            options = dict(
                horizon=3000, budget=dpoco.Budget(epsilon, 1e-6), batch=batch, sum_method=method
            )
            p = calibrate(domain, loss, **options)
            for factor in [1e-3, 0.1, 0.5, 0.9, 0.99, 1.01, 1.1, 2.0, 10.0, 1e3]:
                other = calibrate(domain, loss, **options, step_size=p.tuning.step_size * factor)
                assert p.forecast.regret_bound <= other.forecast.regret_bound * (1 + 1e-12)


@pytest.mark.parametrize("horizon", [10**4, 10**7, None])
def test_what_is_claimed_of_regression_on_statistics(horizon):
    """G D T, or the bound for records of one law, here written out for R = B = Y = 1, d = 10."""
    loss, domain = SquaredLoss(1.0, 1.0, weight=0.5), LpBall(10)
    p = calibrate(domain, loss, horizon=horizon, budget=BUDGET, statistics="quadratic")
    total, pushes = p.mechanism, p.mechanism.pushes
    row = continual_sum.row_norm(total.factorisation, pushes, pushes)
    s, d, h, rounds = total.scale * row, 10, 0.05, p.tuning.horizon
    spread = math.sqrt(2.0 * math.log(4.0 * pushes * rounds))
    dense = 8.0 / h * math.log(2 * d * pushes * rounds)
    start = 1.25 * max(5 * total.batch, 4.0 * spread * s / h, dense)
    noise = d * s**2 / total.summand.weight**2 + (s * (3.0 * math.sqrt(2 * d) + 2.0 * spread)) ** 2
    records = 4.0 * math.log(rounds / start + math.e)
    bound = 2.0 * 2.0 * (start + 2.0) + 76.0 * 0.5 / h**2 * (records + noise / start)
    scope = "adaptive" if horizon == 10**4 else "stochastic"
    assert p.forecast.regret_scope == scope
    assert p.forecast.regret_bound == pytest.approx(min(bound, 4.0 * rounds), rel=1e-12)
    assert (bound < 0.5 * 4.0 * rounds) == (scope == "stochastic")
    stated = guarantee(domain, loss, p, budget=BUDGET)
    assert stated.regret_bound == p.forecast.regret_bound
    assert ("nothing is claimed" in str(stated)) == (scope == "stochastic")


def test_the_gaussian_width_is_an_upper_bound_and_close():
    draws = np.random.default_rng(0).normal(size=(100_000, 4))
    for domain in DOMAINS:
        xi = draws[:, : domain.dimension]
        if isinstance(domain, Simplex):
            reached = 2.0 * (xi.max(axis=1) - xi.mean(axis=1))
        elif isinstance(domain, Box):
            reached = np.abs(xi) @ (0.5 * (domain.upper - domain.lower))
        else:
            reached = domain.radius * np.linalg.norm(xi, ord=domain.dual_exponent, axis=1)
        width = run(domain).width
        error = 5 * reached.std() / math.sqrt(len(xi))
        assert reached.mean() - error <= width <= 1.7 * reached.mean()


def test_bound_a_needs_noise_that_grows():
    for method in ("blt", "toeplitz"):
        rows = continual_sum.row_norm(method, np.arange(1, 4001), 4000)
        assert (np.diff(rows) > 0).all()
    for method, scope in (("blt", "oblivious"), ("tree", "adaptive")):
        found = run(LpBall(3), horizon=10**6, method=method, noise_scale=20.0)
        assert found.regret(found.best_step()).scope == scope


@pytest.mark.parametrize("noise_scale", [0.0, 0.3, 2.0, 10.0, 60.0])
@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_the_worst_fixed_stream_of_signs_keeps_to_bound_a(noise_scale, factor):
    """On [-1, 1] with losses +-x the worst stream is found exactly, by dynamic programming."""
    horizon = 400
    found = run(LpBall(1), horizon=horizon, noise_scale=noise_scale)
    eta = factor * found.best_step()
    deviations = np.zeros(horizon)
    deviations[1:] = noise_scale * continual_sum.row_norm("blt", np.arange(1, horizon), horizon)
    sums = np.arange(-horizon, horizon + 1)
    still = np.abs(sums).astype(float)  # minus the comparator's loss
    value = still
    for deviation in deviations[::-1]:
        mean = mean_projection(-eta * sums, eta * deviation)
        later = np.full((2, sums.size), -np.inf)
        later[0, :-1] = mean[:-1] + value[1:]
        later[1, 1:] = -mean[1:] + value[:-1]
        value = later.max(axis=0)
    worst = value[horizon]
    bound = found.regret(eta)
    assert worst <= bound.total * (1 + 1e-12)
    assert worst >= 0.35 * bound.total  # the bound is not idle


def mean_projection(center, deviation):
    """E clip(center + deviation xi, -1, 1) for standard normal xi."""
    if deviation == 0.0:
        return np.clip(center, -1.0, 1.0)
    low, high = (-1.0 - center) / deviation, (1.0 - center) / deviation
    below, above = scipy.special.ndtr(low), scipy.special.ndtr(-high)
    drift = deviation * (np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)) / math.sqrt(2.0 * math.pi)
    return center * (1.0 - above - below) + drift + above - below


def test_bound_b_sums_the_noise_of_every_decision():
    for method in continual_sum.METHODS:
        for horizon, batch in ((50, 1), (50, 7), (49, 7), (8, 8), (9, 8)):
            found = make_run(
                LpBall(3), SquaredLoss(1.0, 1.0),
                horizon=horizon, batch=batch, method=method, noise_scale=5.0,
            )  # fmt: skip
            found = dataclasses.replace(found, lipschitz=2.0)
            pushes = horizon // batch
            blocks = [min(batch, horizon - k * batch) for k in range(-(-horizon // batch))]
            rows = continual_sum.row_norm(method, np.arange(1, pushes + 1), pushes)
            noise = 0.1 * 2.0 * 5.0 * math.sqrt(3) * np.dot(blocks[1:], rows[: len(blocks) - 1])
            terms = found.regret(0.1).terms
            if "trivial" not in terms:
                assert noise <= terms["noise"] * (1 + 1e-12)
                assert terms["noise"] <= 1.5 * noise + 0.1 * 2 * 5 * 2 * batch
                assert terms["stability"] == pytest.approx(0.05 * 4 * np.dot(blocks, blocks))


def test_auto_prefers_normalised_sums_and_takes_what_is_clearly_better():
    for horizon in (1, 2, 5, 100, 10**6):
        longest = {"toeplitz": 4096, "banded": 10_000}
        methods = [m for m in continual_sum.METHODS if horizon <= longest.get(m, horizon)]
        bounds = {
            m: calibrate(
                LpBall(3), LinearLoss(1.0), horizon=horizon, budget=BUDGET, sum_method=m
            ).forecast.regret_bound
            for m in methods
        }
        chosen = calibrate(LpBall(3), LinearLoss(1.0), horizon=horizon, budget=BUDGET)
        best = chosen.forecast.regret_bound
        assert best <= min(bounds.values()) / 0.99
        usual = chosen.mechanism.factorisation.kind == "blt_normalised"
        assert usual or best < 0.99 * bounds["blt_normalised"]
