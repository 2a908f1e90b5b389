"""People who come back, in river and in scikit-learn: the same rounds as the learner's own."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from adapter_cases import BOUNDS

import dpoco
from dpoco.accounting import Ledger
from dpoco.adapters import river, sklearn

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

ROUNDS, RULE = 60, dpoco.Participation(3, 4)
BUDGET = dpoco.Budget(2.0, 1e-6)
RNG = np.random.default_rng(5)
X, PEOPLE = RNG.uniform(-0.5, 0.5, (ROUNDS, 2)), RNG.integers(0, 6, ROUNDS)
Y = X[:, 0] > X[:, 1]


def in_river(kind=river.PrivateClassifier, features=("a", "b"), **changes):
    terms = {"horizon": ROUNDS, "budget": BUDGET, "participation": RULE, "person": "who", "seed": 2}
    return kind(features, **{**terms, "feature_bound": 1.0, **changes})


def records(rounds=ROUNDS):
    rows = zip(X[:rounds].tolist(), PEOPLE.tolist(), strict=False)
    return [{"a": a, "who": who, "b": b} for (a, b), who in rows]


def plain():
    """Return the learner underneath, after all rounds."""
    fresh = in_river()._model
    learner = fresh.learner
    learner.run(fresh.problem.rows(X), Y.astype(float), persons=PEOPLE)
    return learner


def test_both_play_the_rounds_of_the_learner():
    expected = plain()
    assert expected.guarantee.person == (3, 4)
    one, many = in_river(), in_river()
    for record, label in zip(records(), Y.tolist(), strict=True):
        one.learn_one(record, label)
    frame = pytest.importorskip("pandas").DataFrame(records())
    many.learn_many(frame, Y.tolist())
    fitted = sklearn.PrivateOnlineClassifier(
        budget=BUDGET, classes=(False, True), horizon=ROUNDS, participation=RULE, random_state=2,
        feature_bound=1.0,
    )  # fmt: skip
    fitted.partial_fit(X[:20], Y[:20], persons=PEOPLE[:20])
    fitted.partial_fit(X[20:], Y[20:], persons=PEOPLE[20:])
    for model in (one, many, fitted):
        assert model.learner_._payload() == expected._payload()
    assert one.guarantee == expected.guarantee
    assert one.predict_one({"a": 0.1, "who": 3}) == one.predict_one({"a": 0.1})
    assert one.nonprivate_records(records(), Y).shares["unlisted_features"] == 0.0
    assert b"\x8c\x03who" not in pickle.dumps(one._model)  # the name of the column


def test_the_person_is_no_feature_where_names_are_hashed():
    named = [{**each, "who": f"visitor {each['who']}"} for each in records()]
    with_name, without = in_river(features=8), in_river(features=8, participation=None, person=None)
    rows = with_name._features.rows(named)
    bare = [{"a": each["a"], "b": each["b"]} for each in named]
    assert np.array_equal(rows, without._features.rows(bare))
    assert with_name.predict_one(named[0]) == with_name.predict_one(bare[0])


@pytest.mark.parametrize("changes", [{"person": None}, {"participation": None},
    {"participation": dpoco.Participation(3, 4, enforced=False)}])  # fmt: skip
def test_river_needs_a_person_exactly_where_it_is_enforced(changes):
    with pytest.raises(ValueError, match="person and an enforced participation"):
        in_river(**changes)
    with pytest.raises(ValueError, match="one of the features"):
        in_river(person="a")


def test_records_of_nobody_are_refused_and_play_no_round():
    model = in_river(river.PrivateRegressor, **BOUNDS)
    with pytest.raises(ValueError, match="does not name its person"):
        model.learn_one({"a": 1.0, "b": 2.0}, 0.5)
    assert model.round == 0
    ledger = Ledger(BUDGET)
    fitted = sklearn.PrivateOnlineRegressor(
        budget=BUDGET, participation=RULE, ledger=ledger, radius=1.0, **BOUNDS
    )
    for persons in (None, PEOPLE[:5]):
        with pytest.raises((TypeError, ValueError), match="persons must"):
            fitted.fit(X, X[:, 0], persons=persons)
    assert not ledger.entries
    fitted.fit(X, X[:, 0], persons=PEOPLE)
    assert fitted.guarantee_.person == (3, 4)
    with pytest.raises(TypeError, match="persons would be ignored"):
        sklearn.PrivateOnlineRegressor(budget=BUDGET, **BOUNDS).fit(X, X[:, 0], persons=PEOPLE)


def test_a_learner_with_another_rule_is_not_bound():
    with pytest.raises(ValueError, match="another participation"):
        in_river(participation=dpoco.Participation(1)).bind(in_river().learner_)


def test_of_several_classes_every_learner_keeps_to_the_rule():
    labels = np.argmax(np.hstack([X, -X[:, :1]]), axis=1)
    model = in_river(classes=(0, 1, 2))
    for record, label in zip(records(), labels.tolist(), strict=True):
        model.learn_one(record, label)
    assert model.guarantee.person == (3, 4)
    assert model.guarantee.epsilon_at(1e-6) == pytest.approx(2.0, rel=1e-6)
    assert model.guarantee.certified is False  # for want of real noise
    for place, learner in enumerate(in_river(classes=(0, 1, 2)).learner_):
        learner.run(model._model.problem.rows(X), labels == place, persons=PEOPLE)
        assert learner._payload() == model.learner_[place]._payload()


def test_policies_refuse_to_enforce():
    with pytest.raises(ValueError, match="enforced=False"):
        river.PrivateExperts(
            ("x", "y"),
            horizon=9,
            budget=BUDGET,
            reward_range=(0, 1),
            options={"participation": RULE},
        )
