"""Class weights that are public constants: what is learned, and that no record counts for more."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.adapters.adapter_cases import BUDGET, dictionaries, records

from dpoco import Budget
from dpoco.adapters._linear import LinearProblem
from dpoco.audit.replay import replay_audit

pytest.importorskip("sklearn")
pytest.importorskip("river")

from sklearn.linear_model import LogisticRegression

from dpoco.adapters.river import PrivateClassifier
from dpoco.adapters.sklearn import PrivateOnlineClassifier

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

STATED = {"budget": BUDGET, "classes": (False, True), "feature_bound": 1.0}


def rare(rounds, seed=0):
    """Rows of the unit ball, and labels of a logistic law of which one in seven is True."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rounds, 3))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    margins = rows @ [3.0, -2.0, 0.0] - 3.0
    return rows, rng.random(rounds) < 1.0 / (1.0 + np.exp(-margins))


@pytest.mark.parametrize("weights", [{True: 9.0}, {True: 10.0, False: 0.5}])
def test_the_weighted_loss_is_minimised(weights):
    rows, labels = rare(20_000)
    exact = LogisticRegression(C=1e6, class_weight=weights).fit(rows, labels)
    for budget, near in ((None, 0.25), (Budget(16.0, 1e-6), 0.4)):
        model = PrivateOnlineClassifier(
            **{**STATED, "budget": budget}, class_weight=weights, random_state=1
        ).fit(rows, labels)
        assert np.abs(model.coef_ - exact.coef_).max() < near
        assert np.abs(model.intercept_ - exact.intercept_).max() < near
    assert np.mean(model.predict(rows)) > 2.0 * np.mean(labels)
    assert 15.99 < model.guarantee_.epsilon <= 16.0
    model.guarantee_.verify()


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.05, 1.0), (1.0, 0.3)])
@pytest.mark.parametrize("radius", [0.25, 4.0, 60.0])
def test_the_table_is_the_weighted_logistic_loss(weights, radius):
    problem = LinearProblem("logistic", "noisy_newton", 2, radius=radius, weights=(weights,))
    loss = problem.family()
    largest = loss.margin_bound(problem.domain())
    margins = np.linspace(-largest, largest, 2001)
    coded = problem.targets(np.array([0.0, 1.0]), np.zeros((2, 3)))[0]
    for label, sign, weight in zip(coded, (1.0, -1.0), weights, strict=True):
        slopes = np.interp(margins - label, loss._knots, loss.slopes)
        exact = sign * weight / (1.0 + np.exp(-sign * margins))
        assert np.abs(slopes - exact).max() < 6e-5 * weight + 1e-5
    assert loss.derivative_bound(largest) <= 1.0  # the largest weight's
    assert loss.curvature_bound(largest) <= 0.2502


def test_of_several_classes_each_is_weighed_against_the_mean_of_the_others():
    """A rare class is found, by a learner whose loss is that of scikit-learn's binary problem."""
    rng = np.random.default_rng(3)
    labels = rng.choice(3, size=20_000, p=[0.6, 0.34, 0.06])
    rows = rng.normal(size=(20_000, 3)) * 0.3 + 0.45 * np.eye(3)[labels]
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    weights = {0: 1.0, 1: 2.0, 2: 9.0}
    stated = {**STATED, "classes": (0, 1, 2), "random_state": 1}
    model = PrivateOnlineClassifier(**{**stated, "budget": None}, class_weight=weights)
    model.fit(rows, labels)
    pairs = [(1.0, 1.0 / 5.5), (1.0, 0.4), (1.5 / 9.0, 1.0)]
    assert np.allclose(model._model.problem.weights, pairs, rtol=1e-15)
    for place, (rest, own) in enumerate(pairs):
        exact = LogisticRegression(C=1e6, class_weight={False: rest, True: own})
        exact.fit(rows, labels == place)
        assert np.abs(model.coef_[place] - exact.coef_[0]).max() < 0.4
        assert abs(model.intercept_[place] - exact.intercept_[0]) < 0.4
    private = PrivateOnlineClassifier(**{**stated, "budget": Budget(8.0, 1e-6)})
    private.set_params(class_weight=weights).fit(rows, labels)
    assert 7.99 < private.guarantee_.epsilon <= 8.0
    private.guarantee_.verify()
    plain = PrivateOnlineClassifier(**{**stated, "budget": Budget(8.0, 1e-6)}).fit(rows, labels)
    found, missed = (np.mean(each.predict(rows[labels == 2]) == 2) for each in (private, plain))
    assert found > missed + 0.2


def test_learners_of_several_losses_share_no_noise_and_equal_ones_are_alike():
    problem = LinearProblem(
        "logistic", "noisy_ftrl", 2, outputs=4, weights=((1.0, 0.5), (0.2, 1.0)) * 2
    )
    terms = {"horizon": 40, "options": None, "seed": 1}
    learners = problem.make_all(budget=BUDGET, **terms)
    assert [each.loss for each in learners] == [problem.family(place) for place in range(4)]
    assert learners[0].loss == learners[2].loss != learners[1].loss
    rows = np.zeros((40, 3))
    for each, told in zip(learners, problem.targets(np.full(40, np.nan), rows), strict=True):
        each.run(rows, told)
    noise = [each.last_decision for each in learners]
    assert len({part.tobytes() for part in noise}) == 4
    together = sum(each.guarantee.noise_multiplier**-2 for each in learners)
    one = problem.make_all(budget=None, **terms)
    assert all(not each.guarantee.private for each in one)
    stated = LinearProblem("logistic", "noisy_ftrl", 2).make_all(budget=BUDGET, **terms)[0]
    assert together == pytest.approx(stated.guarantee.noise_multiplier**-2, rel=1e-6)


def test_no_record_moves_a_learner_by_more_than_the_noise_is_for():
    rows, labels = records(60)
    model = PrivateOnlineClassifier(
        **STATED, class_weight={False: 0.1, True: 1.0}, horizon=60, learner="noisy_newton"
    ).fit(rows, labels)
    problem, learner = model._model.problem, model.learner_
    told = problem.rows(rows)
    stream = told, problem.targets(labels.astype(float), told)[0]
    far = problem.rows(np.array([[40.0, 0.0, 0.0], [0.0, -40.0, 0.0]]))
    coded = problem.targets(np.array([0.0, 1.0]), far)[0]
    report = replay_audit(
        lambda source: type(learner)(
            learner.domain, learner.loss, horizon=60, budget=BUDGET, source=source
        ),
        stream,
        [(5, far[0], coded[1]), (5, far[1], coded[0]), (20, far[0], 1e9), (40, 0.0 * far[0], 0.0)],
    )
    assert report.passed
    assert 1.0 <= report.detectable < 4.0
    plain = PrivateOnlineClassifier(**STATED, horizon=60, learner="noisy_newton")
    stated = plain.fit(rows, labels).guarantee_
    assert stated.epsilon == pytest.approx(model.guarantee_.epsilon, rel=1e-9)


def test_weights_are_relative_and_kept():
    rows, labels = rare(2000)
    one, ten = (
        PrivateOnlineClassifier(
            **STATED, class_weight={False: 0.5 * most, True: most}, random_state=1
        ).fit(rows, labels)
        for most in (1.0, 1024.0)
    )
    assert np.array_equal(one.coef_, ten.coef_)
    kept = pickle.loads(pickle.dumps(one))
    assert np.array_equal(kept.predict_proba(rows), one.predict_proba(rows))
    shares = one.nonprivate_records(rows, labels).shares
    assert shares["label_out_of_range"] == 0.0
    river = PrivateClassifier(
        ("a", "b", "c"), horizon=2000, **STATED, class_weight={False: 0.5, True: 1.0}, seed=1
    )
    for row, label in zip(dictionaries(rows[:50]), labels.tolist(), strict=False):
        river.learn_one(row, label)
    again = river.clone()
    assert again._model.problem.weights == ((0.5, 1.0),)
    alike = PrivateOnlineClassifier(
        **STATED, class_weight={False: 0.5, True: 1.0}, random_state=1, horizon=2000
    ).partial_fit(rows[:50], labels[:50])
    assert np.allclose(list(river.weights.values()), alike.coef_[0], rtol=1e-9)
