"""Several targets under one budget, coefficients to start from, and a ledger for river."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.adapters.adapter_cases import BOUNDS, BUDGET, records

import dpoco
from dpoco.accounting.ledger import Ledger

pytest.importorskip("sklearn")
pytest.importorskip("river")

from sklearn.base import clone

from dpoco.adapters.river import PrivateClassifier, PrivateRegressor
from dpoco.adapters.sklearn import PrivateOnlineRegressor

RULES = np.array([[1.0, -1.0, 0.5], [0.0, 0.5, -0.5], [-0.6, 0.0, 0.0]])
OFFSETS = np.array([0.1, 0.0, -0.2])


def targets(rows):
    return rows @ RULES.T + OFFSETS


def test_several_targets_share_one_budget():
    rows, _ = records(20_000)
    model = PrivateOnlineRegressor(budget=BUDGET, **BOUNDS, random_state=1)
    model.fit(rows, targets(rows))
    assert model.guarantee_.epsilon <= BUDGET.epsilon
    assert model.guarantee_.epsilon > 0.9999 * BUDGET.epsilon
    assert "3 learners, one for each output" in model.guarantee_.mechanism
    model.guarantee_.verify()
    composed = dpoco.Guarantee.composed(
        *[learner.guarantee for learner in model.learner_], delta=BUDGET.delta
    )
    assert composed.epsilon == model.guarantee_.epsilon
    assert model.coef_.shape == (3, 3)
    assert model.intercept_.shape == (3,)
    assert np.abs(model.coef_ - RULES).max() < 0.2
    assert model.predict(rows[:4]).shape == (4, 3)
    assert model.score(rows, targets(rows)) > 0.9
    assert len({learner._payload() for learner in model.learner_}) == 3
    kept = pickle.loads(pickle.dumps(model))
    assert np.array_equal(kept.predict(rows[:4]), model.predict(rows[:4]))


def test_a_learner_of_a_target_learns_what_it_would_learn_alone():
    rows, _ = records(400)
    shares = PrivateOnlineRegressor(budget=None, **BOUNDS).fit(rows, targets(rows))
    for column in range(3):
        alone = PrivateOnlineRegressor(budget=None, **BOUNDS).fit(rows, targets(rows)[:, column])
        assert np.allclose(shares.coef_[column], alone.coef_, rtol=1e-12)


def test_the_number_of_targets_is_fixed_by_the_first_call(tmp_path):
    rows, _ = records(100)
    model = PrivateOnlineRegressor(budget=BUDGET, **BOUNDS, horizon=1000)
    model.partial_fit(rows, targets(rows))
    for wrong in (targets(rows)[:, 0], targets(rows)[:, :2]):
        with pytest.raises(ValueError, match="the first call had 3"):
            model.partial_fit(rows, wrong)
    assert [learner.round for learner in model.learner_] == [100] * 3
    broken = targets(rows)
    broken[:, 1] = np.nan  # empty records of one learner
    model.partial_fit(rows, broken)
    assert [learner.round for learner in model.learner_] == [200] * 3
    for number, learner in enumerate(model.learner_):
        learner.save(tmp_path / str(number))
    again = clone(model)
    again.bind([dpoco.load(tmp_path / str(number)) for number in range(3)])
    assert np.array_equal(again.coef_, model.coef_)
    with pytest.raises(ValueError, match="as many"):
        clone(model).partial_fit(rows, targets(rows)[:5])


def test_ranges_of_several_targets_are_searched_with_those_of_features():
    rows, _ = records(20_000)
    far = 1000.0 + 50.0 * targets(rows)
    model = PrivateOnlineRegressor(budget=BUDGET, ranges="private", random_state=1)
    model.fit(7.0 * rows, far)
    assert len(model.ranges_.middle) == 6
    assert np.abs(model.predict(7.0 * rows).mean(axis=0) - far.mean(axis=0)).max() < 25.0
    assert model.guarantee_.epsilon <= BUDGET.epsilon


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_prior_is_where_learning_starts(outputs):
    rows, _ = records(10_000)
    told = targets(rows)[:, :outputs]
    told = told[:, 0] if outputs == 1 else told
    rules, offsets = RULES[:outputs], OFFSETS[:outputs]
    known = (rules[0], offsets[0]) if outputs == 1 else (rules, offsets)
    budget = dpoco.Budget(1.0, 1e-6)  # too little to learn much
    model = PrivateOnlineRegressor(
        budget=budget, feature_bound=1.0, label_bound=0.01, prior=known, random_state=1
    )
    model.fit(rows, told)
    cold = clone(model).set_params(prior=None, label_bound=1.0).fit(rows, told)
    wrong = np.abs(model.predict(rows) - told).max()
    assert wrong < 0.2 * np.abs(cold.predict(rows) - told).max()
    shown = model.coef_ @ rows[0] + model.intercept_
    assert np.allclose(shown, model.predict(rows[:1])[0], rtol=1e-12)
    kept = pickle.loads(pickle.dumps(model))
    assert np.array_equal(kept.predict(rows), model.predict(rows))


def test_a_prior_changes_no_guarantee_and_no_bit_of_the_learner():
    """What is learned is the learner of the remaining targets, which are clipped like any."""
    rows, _ = records(300)
    told, prior = targets(rows)[:, 0], (RULES[1], 0.25)
    model = PrivateOnlineRegressor(budget=BUDGET, **BOUNDS, prior=prior, random_state=1)
    model.fit(rows, told)
    plain = PrivateOnlineRegressor(budget=BUDGET, **BOUNDS, random_state=1)
    plain.fit(rows, told - rows @ RULES[1] - 0.25)
    assert np.allclose(model.coef_, plain.coef_ + RULES[1], rtol=1e-9)
    assert model.guarantee_.epsilon == plain.guarantee_.epsilon
    assert model.guarantee_.description == plain.guarantee_.description
    shares = model.nonprivate_records(rows, told + np.where(np.arange(300) == 0, 9.0, 0.0))
    assert shares.shares["label_out_of_range"] == pytest.approx(1 / 300)


def test_a_ledger_pays_for_every_river_estimator_that_learns():
    ledger = Ledger(dpoco.Budget(1.2, 1e-6))
    stated = {"horizon": 10_000, "epsilon": 1.0, "delta": 1e-6, "feature_bound": 1.0}
    model = PrivateClassifier(("a",), **stated, ledger=ledger)
    assert len(ledger.entries) == 0  # made, and nothing learned
    model.learn_one({"a": 0.5}, True)
    model.learn_one({"a": 0.5}, True)
    assert [entry.label for entry in ledger.entries] == ["PrivateClassifier of 10000 rounds"]
    fresh = model.clone()
    assert fresh.ledger is ledger
    assert fresh.predict_one({"a": 0.1}) is False
    with pytest.raises(dpoco.BudgetExceeded):
        fresh.learn_one({"a": 0.5}, True)
    assert fresh.round == 0
    # What could still learn takes its ledger along; what was published needs none.
    with pytest.raises(TypeError, match="ledger cannot be copied"):
        pickle.dumps(fresh)
    copied = pickle.loads(pickle.dumps(model))
    assert copied.predict_proba_one({"a": 0.1}) == model.predict_proba_one({"a": 0.1})
    with pytest.raises(dpoco.StateError, match="holds what was published"):
        copied.learn_one({"a": 0.5}, True)
    assert len(ledger.entries) == 1
    other = model.clone({"ledger": None})
    other.learn_one({"a": 0.5}, True)
    with pytest.raises(TypeError, match="ledger"):
        PrivateRegressor(("a",), **stated, label_bound=1.0, ledger=1.0)


def test_a_restored_river_learner_is_not_charged_again(tmp_path):
    stated = {"horizon": 10_000, "epsilon": 1.0, "delta": 1e-6, "feature_bound": 1.0}
    ledger = Ledger(dpoco.Budget(1.2, 1e-6))
    model = PrivateRegressor(("a",), **stated, label_bound=1.0, ledger=ledger)
    model.learn_one({"a": 0.5}, 0.25)
    model.learner_.save(tmp_path / "state")
    again = model.clone()
    again.bind(dpoco.load(tmp_path / "state"))
    again.learn_one({"a": 0.5}, 0.25)
    assert again.round == 2
    assert len(ledger.entries) == 1
