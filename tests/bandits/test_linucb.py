"""LinUCB without noise is textbook LinUCB; with noise, its statistics have the declared law."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from tests.plans import linear_arms

import dpoco
from dpoco.accounting import continual_sum
from dpoco.bandits import LinUCB
from dpoco.random import Source

from .linucb_reference import Reference, packed

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

BUDGET = dpoco.Budget(1.0, 1e-5)


def world(arms, d, rounds, seed=0):
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(rounds, d)) / np.sqrt(d) * 1.3  # some are clipped
    rewards = contexts @ rng.normal(size=(d, arms)) + 0.1 * rng.normal(size=(rounds, arms))
    contexts[rounds // 5] = np.nan
    rewards[rounds // 4] = np.nan
    rewards[rounds // 3] = -np.inf
    return contexts, rewards


@pytest.mark.parametrize(
    ("arms", "d", "options"),
    [
        (3, 4, {}),
        (2, 1, {"exploration": 0.1}),
        (5, 7, {"batch": 7, "regularization": 0.3}),
        (4, 3, {"context_bound": 0.5, "reward_bound": 0.4, "parameter_bound": 3.0}),
        (1, 2, {}),
        (3, 4, {"half_life": 30.0}),
        (3, 4, {"half_life": 40.0, "batch": 7}),
        (3, 5, {"exploration": 0.0, "failure": 0.2, "reward_noise": 0.1}),
    ],
)
def test_without_noise_it_is_textbook_linucb(arms, d, options):
    contexts, rewards = world(arms, d, 250)
    learner = LinUCB(
        arms, d, horizon=250, budget=None, **{"context_bound": 1.0, "reward_bound": 1.0, **options}
    )
    reference = Reference(learner.plan)
    played = learner.run(contexts, rewards).actions
    for t in range(250):
        arm, scores = reference.play(contexts[t], rewards[t])
        if played[t] != arm:  # only between arms that are equal up to rounding
            assert scores[arm] - scores[played[t]] < 1e-10
            pytest.fail("a tie: choose another seed")
    shown = reference.shown
    for arm in range(arms):
        solution = np.linalg.solve(shown[0][arm] + reference.rho * np.eye(d), shown[1][arm])
        assert learner.coefficients[arm] == pytest.approx(solution, rel=1e-9, abs=1e-12)
    if arms > 1 and options.get("exploration") != 0.0:
        wrong = Reference(learner.plan, sign=-1.0)
        assert [wrong.play(x, r)[0] for x, r in zip(contexts, rewards, strict=True)] != list(played)


@pytest.mark.parametrize("method", ["blt", "blt_normalised", "tree", "toeplitz"])
def test_noise_of_the_released_statistics_has_the_declared_law(method):
    arms, d, rounds, batch = 120, 6, 24, 3
    learner = LinUCB(
        arms, d, horizon=rounds, budget=BUDGET, sum_method=method, batch=batch,
        source=Source.seeded(3), context_bound=1.0, reward_bound=1.0
    )  # fmt: skip
    p = linear_arms(learner.plan)
    assert p.pushes == 7
    zeros = np.zeros((1, d)), np.zeros((1, arms))
    n = arms * d * (d + 3) // 2
    for t in range(1, 22):
        learner.run(*zeros)
        noise = learner._engine.released()
        if t % batch:
            continue
        row = float(continual_sum.row_norm(method, t // batch, p.pushes))
        scaled = noise / (p.noise_scale * row)
        assert scipy.stats.kstest(scaled, "norm").pvalue > 1e-7
        low, high = scipy.stats.chi2.ppf([1e-8, 1.0 - 1e-8], n)
        assert low < np.sum(scaled**2) < high
        assert np.sum((1.2 * scaled) ** 2) > high
        assert np.sum((scaled / 1.2) ** 2) < low
        assert abs(np.corrcoef(scaled[:-1], scaled[1:])[0, 1]) < 6 / np.sqrt(n)
    assert len(np.unique(noise)) > 0.9 * n  # the grid of releases makes some of them equal


def test_estimates_are_a_function_of_the_released_statistics():
    contexts, rewards = world(3, 4, 300, seed=1)
    learner = LinUCB(
        3,
        4,
        horizon=301,
        budget=dpoco.Budget(8.0, 1e-5),
        source=Source.seeded(1),
        context_bound=1.0,
        reward_bound=1.0,
    )
    learner.run(contexts, rewards)
    p = linear_arms(learner.plan)
    shift = p.regularization + p.noise_margin
    rows, columns = np.triu_indices(4)
    for arm, part in enumerate(learner._engine.released().reshape(3, -1)):
        matrix = np.zeros((4, 4))
        matrix[rows, columns] = matrix[columns, rows] = part[:10] * np.where(
            rows == columns, 1.0, np.sqrt(0.5)
        )
        assert np.linalg.norm(matrix - matrix.T) == 0.0
        solution = np.linalg.solve(matrix + shift * np.eye(4), part[10:] / p.reward_weight)
        assert learner.coefficients[arm] == pytest.approx(solution, rel=1e-9)


def test_forgetful_estimates_are_a_function_of_the_released_statistics():
    """Damped sums of differences of releases, and of nothing else."""
    contexts, rewards = world(3, 4, 300, seed=1)
    learner = LinUCB(
        3, 4, horizon=301, budget=dpoco.Budget(8.0, 1e-5), source=Source.seeded(1),
        context_bound=1.0, reward_bound=1.0, half_life=50.0, batch=10,
    )  # fmt: skip
    p, damped, before = linear_arms(learner.plan), 0.0, 0.0
    for start in range(0, 300, 10):
        learner.run(contexts[start : start + 10], rewards[start : start + 10])
        released = np.array(learner._engine.released())
        damped = damped * 2.0 ** (-10 / 50) + released - before
        before = released
    rows, columns = np.triu_indices(4)
    shift = p.regularization + p.noise_margin
    for arm, part in enumerate(damped.reshape(3, -1)):
        matrix = np.zeros((4, 4))
        matrix[rows, columns] = matrix[columns, rows] = part[:10] * np.where(
            rows == columns, 1.0, np.sqrt(0.5)
        )
        solution = np.linalg.solve(matrix + shift * np.eye(4), part[10:] / p.reward_weight)
        assert learner.coefficients[arm] == pytest.approx(solution, rel=1e-7)


def test_forgetting_costs_no_privacy_and_is_an_option_of_the_plan():
    given = {"horizon": 20_000, "context_bound": 1.0, "reward_bound": 1.0}
    budget = dpoco.Budget(1.0, 1e-6)
    own = LinUCB(3, 4, budget=budget, half_life=600.0, **given)
    assert 0.999 < own.guarantee.epsilon <= 1.0
    bold = LinUCB(3, 4, budget=budget, half_life=600.0, exploration=1.0, **given)
    assert bold.plan.forecast.regret_bound == 2.0 * 20_000  # nothing better is proved
    for wrong in ({"half_life": 0.0}, {"half_life": 8.0, "batch": 9}, {"half_life": "auto"},
                  {"half_life": 600.0, "sum_method": "tree"}):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=r"half_life|sum_method"):
            LinUCB(3, 4, budget=budget, **given, **wrong)
    assert "half_life" not in LinUCB(3, 4, budget=budget, **given).plan.to_dict()["tuning"]


def test_what_a_record_adds():
    learner = LinUCB(
        3,
        4,
        horizon=9,
        budget=BUDGET,
        reward_weight=1.7,
        batch=1,
        context_bound=1.0,
        reward_bound=1.0,
    )
    x, r = np.array([0.1, -0.5, 0.2, 0.3]), 0.6
    leaf = learner._engine.leaf(1, x, r).reshape(3, -1)
    assert not leaf[0].any()
    assert not leaf[2].any()
    assert leaf[1] == pytest.approx(packed(x, r, 1.7), rel=1e-13)
    assert np.linalg.norm(leaf) <= np.linalg.norm(packed(x, r, 1.7))


def test_ties_go_to_the_lowest_arm():
    learner = LinUCB(4, 2, horizon=10, budget=None, context_bound=1.0, reward_bound=1.0)
    assert learner.decide([0.3, 0.4]) == 0
    learner.observe(0.0)
    assert learner.decide([0.0, 0.0]) == 0  # all scores are 0
    learner.observe(0.0)
    assert learner.decide([0.3, 0.4]) == 1  # arm 0 is better known and no better
