"""Bandits beside their comparators: the rewards, the losses, the regret, the resume."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpoco
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.evaluation import RunReport, class_rewards, compare_private, game_of_arms

T, D = 3000, 3
GENERATOR = np.random.default_rng(4)
CONTEXTS = np.column_stack([GENERATOR.uniform(-1.0, 1.0, size=(T, D - 1)), np.ones(T)])
LABELS = (CONTEXTS[:, 0] > 0.3).astype(float)  # about a third are of class 1
REWARDS = class_rewards(LABELS, 2)
BUDGET = dpoco.Budget(4.0, 1e-5)


def play(learner=LinUCB, **options):
    budget, defaults = BUDGET, {"context_bound": 1.5, "exploration": 0.1}
    if learner is not LinUCB:
        budget = dpoco.Budget(22.0, 1e-5)  # for so few rounds
        defaults = {"domain": LpBall(D, 1.0, 1.0), "context_bound": 1.0}
    how = {name: options.pop(name) for name in ("repeats", "snapshot") if name in options}
    game = game_of_arms(learner, CONTEXTS, REWARDS, **{**defaults, **options})
    return compare_private(game, budget, seed=7, **how)


def test_classes_are_arms():
    table = class_rewards([1.0, 3.0, 2.0, np.nan, 7.0, 1.5], 3, first=1)
    assert np.isnan(table[3]).all()
    np.testing.assert_array_equal(
        table[[0, 1, 2, 4, 5]], [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    )


@pytest.mark.parametrize("arguments", [([0.0, 1.0], 1), ([0.0], 0), ([[0.0]], 2)])
def test_classes_that_are_none(arguments):
    with pytest.raises(ValueError, match=r"classes|labels"):
        class_rewards(*arguments)
    with pytest.raises(TypeError, match="first"):
        class_rewards([0.0], 2, first=1.5)


def test_losses_are_what_rewards_miss_and_the_learner_reads_its_own_arm_only():
    report = play()
    learner = LinUCB(
        2, D, horizon=T, budget=BUDGET, context_bound=1.5, exploration=0.1, reward_bound=0.5,
        source=dpoco.random.Source.seeded(7),
    )  # fmt: skip
    trace = learner.run(CONTEXTS, REWARDS - 0.5)
    right = REWARDS[np.arange(T), trace.actions]
    assert report.private.average_losses == (pytest.approx(1.0 - right.mean()),)
    assert report.private.switches == (np.count_nonzero(np.diff(trace.actions)),)
    assert (report.guarantee["change"], report.guarantee["view"]) == ("replace", "others")
    assert report.parameters["mechanism"]["summand"]["label"] == 0.5


def test_comparators_are_those_of_hindsight():
    report = play(repeats=2)
    trace = LinUCB(2, D, horizon=T, budget=None, context_bound=1.0, reward_bound=1.0).run(
        CONTEXTS, REWARDS
    )
    policy = trace.comparator_rewards(trace.best_linear)
    assert report.best_fixed["total_loss"] == pytest.approx(T - policy.sum())
    assert report.best_fixed["name"] == "least-squares linear policy"
    weights = np.array(report.best_fixed["decision"])
    assert np.array_equal(np.argmax(CONTEXTS @ weights.T, axis=1), trace.best_linear)
    assert report.best_constant["decision"] == 0
    assert report.best_constant["average_loss"] == pytest.approx(LABELS.mean())
    (random,) = report.others
    assert random["average_loss"] == pytest.approx(0.5)
    for runs in (report.private, report.nonprivate):
        for average, regret in zip(runs.average_losses, runs.regrets, strict=True):
            assert regret == pytest.approx(T * average - report.best_fixed["total_loss"])
    assert report.curves.private_high[-1] == pytest.approx(T * max(report.private.average_losses))


def test_a_context_with_a_gap_is_zero_for_comparators_too():
    contexts, empty = CONTEXTS[:300].copy(), CONTEXTS[:300].copy()
    contexts[::3, 0], empty[::3] = np.nan, 0.0
    given, zeroed = (
        compare_private(
            game_of_arms(LinUCB, rows, REWARDS[:300], context_bound=1.5), BUDGET, seed=7
        )
        for rows in (contexts, empty)
    )
    assert given.best_fixed == zeroed.best_fixed
    assert given.private == zeroed.private
    trace = LinUCB(2, D, horizon=300, budget=None, context_bound=1.0, reward_bound=1.0).run(
        contexts, REWARDS[:300]
    )
    lost = 300 - trace.comparator_rewards(trace.best_linear).sum()
    assert given.best_fixed["total_loss"] == pytest.approx(lost)


@pytest.mark.parametrize("learner", [LinUCB, HighDimensionalBandit])
def test_bandits_learn_which_class_is_right(learner):
    report = play(learner)
    assert report.nonprivate.average_loss < 0.5 * report.best_constant["average_loss"]
    assert report.private.average_loss < report.best_constant["average_loss"]
    assert RunReport.from_dict(json.loads(report.to_json())) == report


def test_reports_without_further_players_are_read():
    record = play().to_dict()
    del record["others"]
    assert RunReport.from_dict(record).others == ()


def test_a_range_of_rewards_is_used_whole_and_missing_ones_are_its_middle():
    wide = play(reward_range=(-3.0, 1.0))
    assert wide.parameters["mechanism"]["summand"]["label"] == 2.0
    # Rewards 0 and 1 of a range that ends at 1: the same losses, with more noise.
    assert wide.best_constant["average_loss"] == pytest.approx(LABELS.mean())
    table = REWARDS.copy()
    table[:100] = np.nan
    report = compare_private(
        game_of_arms(LinUCB, CONTEXTS, table, context_bound=1.5), BUDGET, seed=7
    )
    lost = 0.5 * 100 + LABELS[100:].sum()
    assert report.best_constant["total_loss"] == pytest.approx(lost)


def test_a_logistic_link_has_rewards_in_the_unit_interval():
    report = play(HighDimensionalBandit, link="logistic", domain=LpBall(D, 1.0, 4.0))
    assert report.parameters["tuning"]["link"] == "logistic"
    assert report.best_constant["average_loss"] == pytest.approx(LABELS.mean())
    with pytest.raises(ValueError, match="logistic"):
        play(HighDimensionalBandit, link="logistic", reward_range=(0.0, 2.0))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"domain": LpBall(D, 1.0, 1.0)}, TypeError, "domain"),
        ({"learner": HighDimensionalBandit, "domain": None}, TypeError, "domain"),
        ({"reward_range": (1.0, 1.0)}, ValueError, "reward_range"),
        ({"reward_range": 1.0}, TypeError, "reward_range"),
        ({"repeats": 0}, ValueError, "repeats"),
        ({"horizon": 0}, ValueError, "horizon"),
    ],
)
def test_bad_arguments(change, error, message):
    with pytest.raises(error, match=message):
        play(**change)
    with pytest.raises(ValueError, match="same number of rounds"):
        game_of_arms(LinUCB, CONTEXTS[:10], REWARDS[:12])
