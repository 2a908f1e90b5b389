"""Ranges that the estimators find by themselves: one guarantee, no record in both parts."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import dpoco
from dpoco.adapters.river import PrivateClassifier, PrivateRegressor
from dpoco.adapters.sklearn import PrivateOnlineClassifier, PrivateOnlineRegressor

MIDDLE, SPREAD = np.array([5.0, 1e6, 1.6e9]), np.array([1.0, 1e3, 1e5])
STATED = {"epsilon": 1.0, "delta": 1e-6, "learner": "noisy_newton"}
N, SEARCH = 8000, 615


def records(n=N, seed=0):
    z = np.random.default_rng(seed).normal(size=(n, 3))
    return MIDDLE + SPREAD * z, z @ [1.0, -1.0, 0.5] > 0.0


def classifier(**options):
    plain = {"classes": (False, True), "ranges": "private", "random_state": 1}
    return PrivateOnlineClassifier(**{**STATED, **plain, **options})


def test_columns_in_any_units_are_learned_under_one_guarantee():
    X, y = records()
    model = classifier().fit(X, y)
    assert model.score(X, y) > 0.75
    assert np.abs((np.array(model.ranges_.middle) - MIDDLE) / SPREAD).max() < 1.0
    guarantee = model.guarantee_
    assert guarantee.horizon == N
    assert guarantee.epsilon <= 1.0
    assert guarantee.description.lemma == "ranges"
    assert [part.kind for part in guarantee.description.parts] == ["range_search", "gaussian_sum"]
    guarantee.verify()
    margins = model.decision_function(X[:9])
    scaled = model.ranges_.scale(X[:9])
    assert margins == pytest.approx(scaled @ model.coef_[0] + model.intercept_[0])


def test_no_record_is_in_both_parts():
    X, y = records()
    model = classifier().fit(X, y)
    first = N - model.learner_.horizon
    assert first == model._model._finder.horizon
    # Records behind the search do not change the ranges; those of the search change nothing else.
    other = X.copy()
    other[first:] *= 3.0
    assert classifier().fit(other, y).ranges_ == model.ranges_
    labels = y.copy()
    labels[:first] ^= True
    assert np.array_equal(classifier().fit(X, labels).coef_, model.coef_)
    again = classifier().fit(X[::-1].copy()[::-1], y)
    swapped = X.copy()
    half = model._model._finder.plan.mechanism.first
    swapped[:half], swapped[half:first] = X[:half][::-1], X[half:first][::-1]
    assert classifier().fit(swapped, y).ranges_ == again.ranges_
    assert np.array_equal(classifier().fit(swapped, y).coef_, model.coef_)


def test_during_the_search_the_centre_is_played():
    X, y = records(seed=3)
    odd = np.full_like(X, math.nan)
    for rows in (X, odd, odd + math.inf):
        model = classifier(horizon=N).partial_fit(rows[:300], y[:300])
        assert not model.coef_.any()
        assert model.ranges_ is None
        assert not model.decision_function(X[:5]).any()


def test_rows_may_come_one_by_one_or_in_parts():
    X, y = records()
    whole = classifier().fit(X, y)
    parts = classifier(horizon=N)
    for start, stop in ((0, 1), (1, 700), (700, 701), (701, N)):
        parts.partial_fit(X[start:stop], y[start:stop])
    assert np.array_equal(parts.coef_, whole.coef_)
    with pytest.raises(dpoco.HorizonExceeded):
        parts.partial_fit(X[:1], y[:1])
    early = classifier(horizon=N).partial_fit(X[:9], y[:9])
    before = early._model.published.round
    with pytest.raises(dpoco.HorizonExceeded, match="left: 7991"):
        early.partial_fit(X, y)
    assert early._model.published.round == before


def test_river_records_have_missing_names():
    X, y = records()
    frame = pd.DataFrame(X, columns=list("abc"))
    plain = {**STATED, "horizon": N, "ranges": "private", "seed": 1}
    model, one = (PrivateClassifier(list("abc"), **plain) for _ in range(2))
    model.learn_many(frame, y)
    for record, label in zip(frame[:1500].to_dict("records"), y, strict=False):
        one.learn_one(record, bool(label))
    one.learn_many(frame[1500:], y[1500:])
    assert one.weights == model.weights
    assert one.ranges_ == model.ranges_
    assert one.round == N
    # A name that is missing is absent, and not zero.
    holes = PrivateClassifier(list("abc"), **plain)
    rng = np.random.default_rng(0)
    for record, label in zip(frame[:900].to_dict("records"), y, strict=False):
        holes.learn_one({k: v for k, v in record.items() if rng.random() < 0.8}, bool(label))
    assert holes.ranges_ is not None
    assert abs(holes.ranges_.middle[2] - MIDDLE[2]) < SPREAD[2]


def test_records_without_their_labels_are_refused_before_the_search():
    model = PrivateClassifier(
        ("a", "b", "c"), horizon=N, classes=(False, True), ranges="private", seed=1, **STATED
    )
    X, y = records(5)
    with pytest.raises(ValueError, match="labels must be those of 5 records; got 4"):
        model.learn_many(pd.DataFrame(X, columns=list("abc")), y[:4])
    assert model.round == 0


def test_the_range_of_labels_is_found_with_the_others():
    X, _ = records()
    targets = 1e4 + 50.0 * ((X - MIDDLE) / SPREAD) @ [1.0, -1.0, 0.5]
    model = PrivateOnlineRegressor(
        epsilon=1.0, delta=1e-6, ranges="private", random_state=0, learner="noisy_ftrl"
    )
    model.fit(X, targets)
    assert len(model.ranges_.middle) == 4
    assert abs(model.ranges_.middle[-1] - 1e4) < 100.0
    assert model.score(X, targets) > 0.3
    other = PrivateRegressor(
        ["a"], horizon=N, **STATED | {"learner": "noisy_ftrl"}, ranges="private", label_bound=3.0
    )
    assert other._model._finder.plan.mechanism.counts.summand.size == 1


def test_it_is_the_default_and_says_so():
    X, y = records()
    with pytest.warns(UserWarning, match="no feature_bound: the first .* rounds are for a private"):
        model = classifier(ranges=None).fit(X, y)
    assert np.array_equal(model.coef_, classifier().fit(X, y).coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier(ranges=None, feature_bound=1.0)._terms(None)


def test_refusals_name_public_sizes_and_ways_out():
    X, y = records(2000)
    with pytest.raises(ValueError, match="a tenth of 2,000 rounds is 200: state the ranges"):
        classifier().fit(X, y)
    with pytest.raises(ValueError, match="leave feature_bound out"):
        classifier(feature_bound=1.0).fit(X, y)
    with pytest.raises(ValueError, match="ranges must be one of"):
        classifier(ranges="public").fit(X, y)
    with pytest.raises(ValueError, match=r"drift=True needs learner='auto'"):
        classifier(drift=True).fit(X, y)


def test_pickles_predict_and_go_on_with_the_learner(tmp_path):
    X, y = records()
    whole = classifier().fit(X, y)
    part = classifier(horizon=N).partial_fit(X[:3000], y[:3000])
    part.learner_.save(tmp_path / "learner")
    copied = pickle.loads(pickle.dumps(part))
    assert np.array_equal(copied.decision_function(X), part.decision_function(X))
    assert copied.guarantee_ == part.guarantee_
    copied.bind(dpoco.load(tmp_path / "learner"))
    copied.partial_fit(X[3000:], y[3000:])
    assert np.array_equal(copied.coef_, whole.coef_)
    assert copied.guarantee_ == whole.guarantee_
    assert copied._model.published.round == N
    with pytest.raises(ValueError, match="with the estimator that found them"):
        classifier(horizon=N).bind(dpoco.load(tmp_path / "learner"))
    early = classifier(horizon=N).partial_fit(X[:9], y[:9])
    with pytest.raises(dpoco.StateError, match="copied"):
        copy.deepcopy(early)
    with pytest.raises(dpoco.StateError, match="with the estimator that found them"):
        pickle.loads(pickle.dumps(early)).bind(dpoco.load(tmp_path / "learner"))


def test_people_are_limited_in_both_parts():
    """Takes a second: two searches for the noise of people."""
    rule = dpoco.Participation(rounds=2)
    X, y = records(4000)
    model = classifier(participation=rule, horizon=100_000, epsilon=2.0)
    with pytest.raises(TypeError, match="persons"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, persons=np.arange(4000) // 2)
    guarantee = model.guarantee_
    assert guarantee.person == (2, 1)
    assert 1.99 < guarantee.epsilon <= 2.0
    guarantee.verify()
    shares = [part.loss(dpoco.privacy.neighbours.Neighbours(rounds=2)).bare.mu ** 2
              for part in guarantee.description.parts]  # fmt: skip
    assert shares[0] / sum(shares) == pytest.approx(0.1, rel=1e-3)


def test_several_classes_share_the_budget_behind_the_search():
    X, y = records()
    labels = np.where(X[:, 0] > 6.0, 2, y.astype(int))
    model = classifier(classes=(0, 1, 2), epsilon=4.0).fit(X, labels)
    assert model.score(X, labels) > 0.5
    assert 3.99 < model.guarantee_.epsilon <= 4.0
    model.guarantee_.verify()


def test_without_privacy_there_is_no_noise():
    X, y = records()
    stated = {"epsilon": None, "delta": None, "budget": None}
    model = classifier(**stated).fit(X, y)
    assert not model.guarantee_.private
    assert model.score(X, y) > 0.9


def test_drift_takes_a_learner_that_forgets():
    plain = {"epsilon": 1.0, "delta": 1e-6, "feature_bound": 1.0, "label_bound": 1.0}
    own = PrivateRegressor(["a", "b"], horizon=50_000, **plain, drift=True)
    assert own.learner_.get_params()["half_life"] == "auto"
    huber = PrivateRegressor(["a", "b"], horizon=50_000, loss="huber", **plain, drift=True)
    assert huber.learner_.get_params()["half_life"] == 1500.0
    other = PrivateRegressor(["a", "b"], horizon=50_000, **plain)
    assert other.learner_.get_params()["half_life"] is None


@pytest.mark.parametrize("classes", [(False, True), (0, 1, 2)])
def test_who_had_the_only_round_in_the_search_has_none_behind_it(classes):
    """Takes seconds: three fits, with searches for the noise of people."""
    rule = dpoco.Participation(rounds=1)
    X, y = records(4000)
    names = np.arange(4000)
    names[3000::2] = names[:500]

    def fit(rows):
        model = classifier(classes=classes, participation=rule, horizon=100_000, epsilon=2.0)
        return model.partial_fit(rows, y + 0, persons=names)

    model = fit(X)
    assert model._model._finder.horizon < 3000
    # A record that has a part of its own in the search and behind it is charged for one part.
    assert model.guarantee_.person == (1, 1)
    other = X.copy()
    other[3000::2] = np.nan
    assert np.array_equal(fit(other).coef_, model.coef_)
    other[3001::2] = np.nan
    assert not np.array_equal(fit(other).coef_, model.coef_)


def test_a_learner_that_was_saved_before_the_search_ended_knows_nobody(tmp_path):
    rule = dpoco.Participation(rounds=1)
    X, y = records(4000)
    model = classifier(participation=rule, horizon=100_000, epsilon=2.0)
    model.partial_fit(X[:1], y[:1], persons=[0])
    model.learner_.save(tmp_path / "early")
    model.partial_fit(X[1:], y[1:], persons=np.arange(1, 4000))
    model.learner_.save(tmp_path / "late")
    copied = pickle.loads(pickle.dumps(model))
    with pytest.raises(dpoco.StateError, match="before the search"):
        copied.bind(dpoco.load(tmp_path / "early"))
    copied.bind(dpoco.load(tmp_path / "late"))
    assert copied.learner_.round == model.learner_.round
