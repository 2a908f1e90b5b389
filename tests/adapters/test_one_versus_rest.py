"""More than two classes: a learner for each, which share one budget, and what holds of all."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from adapter_cases import BUDGET

import dpoco
from dpoco import Budget, BudgetExceeded, CalibrationError, HorizonExceeded, StateError
from dpoco.accounting.ledger import Ledger
from dpoco.adapters._linear import LinearModel, LinearProblem
from dpoco.random import Source

pytest.importorskip("sklearn")

from sklearn.base import clone

from dpoco.adapters.sklearn import PrivateOnlineClassifier

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")

CLASSES = ("blue", "green", "red")


def stream(rounds, classes, dimension=4, seed=0):
    """Rows in the unit ball, and labels 0, 1, ... of a linear rule with noise."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rounds, dimension))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    scores = 8.0 * rows @ rng.normal(size=(dimension, classes))
    return rows, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def classifier(**arguments):
    given = {"budget": BUDGET, "classes": CLASSES, "feature_bound": 1.0, "radius": 4.0}
    return PrivateOnlineClassifier(**{**given, **arguments})


def delta_of(mu, epsilon):
    """Delta of mu-GDP at epsilon, with 50 digits."""
    with mpmath.workdps(50):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        rest = mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)
        return mpmath.ncdf(-e / m + m / 2) - rest


@pytest.mark.parametrize(
    ("name", "classes", "epsilon"),
    [("noisy_newton", 3, 0.2), ("noisy_newton", 8, 6.0), ("tree_frank_wolfe", 8, 0.2),
     ("tree_frank_wolfe", 3, 1.0), ("noisy_ftrl", 3, 6.0), ("noisy_ftrl", 8, 1.0)],
)  # fmt: skip
def test_the_budget_is_that_of_all_learners_together(name, classes, epsilon):
    budget = Budget(epsilon, 1e-6)
    problem = LinearProblem("logistic", name, 4, outputs=classes)
    learners = problem.make_all(budget=budget, horizon=1000, options=None, seed=None)
    own = [each.guarantee.mu for each in learners]
    assert len(own) == classes
    spent = delta_of(math.sqrt(sum(mu * mu for mu in own)), epsilon)
    assert 0.999 * budget.delta < spent <= budget.delta  # noise's tails add next to nothing
    assert delta_of(math.sqrt(sum(mu * mu for mu in own)) * 1.001, epsilon) > budget.delta
    whole = problem.make(1000, budget, None, None).guarantee
    assert delta_of(math.sqrt(classes) * whole.mu, epsilon) > 5.0 * budget.delta
    terms = {"horizon": 1000, "options": None, "seed": None, "participation": None}
    stated = LinearModel(problem, {**terms, "budget": budget}).published.guarantee
    assert stated.certified
    assert stated.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert stated.epsilon <= epsilon
    assert stated.mu == pytest.approx(own[0] * math.sqrt(classes), rel=1e-9)
    assert stated.reference.startswith("docs/privacy/one_versus_rest.md; ")
    assert f"by each of {classes} learners" in stated.mechanism
    stated.verify()


@pytest.mark.parametrize("name", ["polyhedral_frank_wolfe", "coupled_regularized_leader"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_losses_that_are_no_gaussians_are_composed_by_their_certificates(name, delta):
    model = classifier(learner=name, horizon=500, budget=Budget(1.0, delta))
    rows, labels = stream(50, 3)
    if name == "coupled_regularized_leader" and delta == 0.0:
        with pytest.raises(CalibrationError, match="never purely private"):
            model.fit(rows, np.array(CLASSES)[labels])
        return
    model.fit(rows, np.array(CLASSES)[labels])
    parts = [each.guarantee for each in model.learner_]
    again = dpoco.Guarantee.composed(*parts, delta=delta)
    assert model.guarantee_.epsilon == again.epsilon <= 1.0
    assert model.guarantee_.epsilon > 0.95
    if delta == 0.0:
        assert sum(each.epsilon for each in parts) == pytest.approx(1.0, rel=1e-9)
    model.guarantee_.require(Budget(1.0, delta))
    assert dpoco.Guarantee.from_json(model.guarantee_.to_json()).epsilon == again.epsilon


def test_every_learner_plays_one_class_against_the_others_with_noise_of_its_own():
    rows, labels = stream(200, 3)
    model = classifier(learner="noisy_ftrl", horizon=500, random_state=3)
    model.fit(rows, np.array(CLASSES)[labels])
    first, source = model.learner_[0], Source.seeded(3)
    for place, learner in enumerate(model.learner_):
        alone = type(first)(**{**first.get_params(), "source": source})
        alone.run(np.hstack([rows, np.ones((200, 1))]), labels == place)
        assert learner._payload() == alone._payload()
        assert learner.round == 200
        assert [*model.coef_[place], model.intercept_[place]] == alone.last_decision.tolist()
    for seed in (None, 3):
        fresh = clone(model).set_params(random_state=seed).partial_fit(rows[:1] * np.nan, ["?"])
        states = [each._payload() for each in fresh.learner_]
        assert len(set(states)) == 3  # nothing was learned: keys and streams are all that differ
        key = Source.seeded(3)._key
        assert [key in state for state in states] == [seed == 3] * 3


def distance(problem, learners, trials):
    """Return by how many standard deviations of noise a record moves all learners' releases.

    The sums of the first gradients are normal, so this estimates the mu of their test: with the
    variance (2 + mu^2 / 4) / trials.
    """
    row = np.eye(1, problem.dimension)
    scores = np.empty((2, trials))
    told = problem.targets(np.zeros(1), problem.rows(row))
    for world, sign in enumerate((1.0, -1.0)):
        rows = problem.rows(sign * row)
        for trial in range(trials):
            source, found = Source.seeded(2 * trial + world + 1), 0.0
            for learner, targets in zip(learners, told, strict=True):
                played = learner._sibling(source._claim())
                played.decide()
                played.observe(rows[0], targets[0])
                found += played.decide()[0] * (1.0 if targets[0] else -1.0)
            scores[world, trial] = found
    spread = math.sqrt(scores.var(axis=1).mean())
    return (scores[0].mean() - scores[1].mean()) / spread


def test_learners_that_have_the_whole_budget_each_are_refuted():
    """Over a second: thousands of runs of eight learners, in two worlds.

    At the decision 0 a record moves each learner by half of what is accounted for: all together by
    mu / 2 of the budget, and by sqrt(8) mu / 2 > mu if each had all of it.
    """
    budget, trials = Budget(4.0, 1e-6), 1500
    problem = LinearProblem("logistic", "noisy_ftrl", 2, radius=1e6, intercept=False, outputs=8)
    terms = {"horizon": 2, "options": {"step_size": 1.0}, "seed": 1}
    right = problem.make_all(budget=budget, **terms)
    mu = dpoco.accounting.gaussian.gaussian_mu(4.0, 1e-6)
    error = math.sqrt(2.5 / trials)
    assert distance(problem, right, trials) == pytest.approx(0.5 * mu, abs=5.0 * error)
    wrong = replace(problem, outputs=1).make_all(budget=budget, **terms) * 8
    assert distance(problem, wrong, trials) > mu + 5.0 * error


@pytest.mark.parametrize("classes", [3, 8])
def test_it_learns(classes):
    rows, labels = stream(20_000, classes, dimension=6, seed=classes)
    ledger = Ledger(Budget(2.0, 1e-5), currency="gaussian")
    model = classifier(classes=range(classes), budget=Budget(2.0, 1e-6), radius=None, ledger=ledger)
    model.fit(rows[:15_000], labels[:15_000])
    assert len(ledger.entries) == 1  # of all learners together
    with pytest.raises(BudgetExceeded):
        clone(model).fit(rows[:9], labels[:9])
    majority = np.bincount(labels).max() / len(labels)
    right = (model.predict(rows[15_000:]) == labels[15_000:]).mean()
    # Hoeffding's bound of a mean of 5,000 at one in a million: 0.037.
    assert right > majority + 0.15 + 0.037
    odds = model.predict_proba(rows[15_000:])
    taken = odds[np.arange(5000), labels[15_000:]]
    assert -np.log(taken).mean() < math.log(classes)


def test_shapes_classes_and_ties():
    rows, labels = stream(60, 3)
    model = classifier(horizon=500).partial_fit(rows, np.array(CLASSES)[labels])
    margins = model.decision_function(rows)
    assert margins.shape == (60, 3)
    assert np.allclose(margins, rows @ model.coef_.T + model.intercept_)
    odds = model.predict_proba(rows)
    own = 1.0 / (1.0 + np.exp(-margins))
    assert np.allclose(odds, own / own.sum(axis=1, keepdims=True))
    assert model.predict(rows).tolist() == model.classes_[margins.argmax(axis=1)].tolist()
    assert margins.tolist() == [model.decision_function(row[None])[0].tolist() for row in rows]
    # Labels outside are empty records, of all learners alike.
    models = [clone(model).set_params(random_state=1) for _ in range(2)]
    for each, outside in zip(models, ("pink", None), strict=True):
        each.fit(rows, np.where(labels == 1, outside, np.array(CLASSES)[labels]).tolist())
    assert models[0].coef_.tolist() == models[1].coef_.tolist()
    shares = model.nonprivate_records(rows, ["pink"] * 20 + ["red"] * 40).shares
    assert shares["unknown_label"] == pytest.approx(1 / 3)
    for most in (np.finfo(float).max, 1e4):
        assert np.isfinite(model.predict_proba(np.full((1, 4), most))).all()
    with pytest.raises(TypeError, match="a label must be a text"):
        model.partial_fit(rows, labels)
    with pytest.raises(HorizonExceeded):
        model.partial_fit(np.tile(rows, (10, 1)), np.tile(np.array(CLASSES)[labels], 10))
    assert [each.round for each in model.learner_] == [60] * 3
    data = classifier(classes="data").fit(rows, labels)
    assert data.classes_.tolist() == [0, 1, 2]


def test_copies_and_restarts(tmp_path):
    rows, labels = stream(80, 3)
    names = np.array(CLASSES)[labels]
    model = classifier(horizon=500, random_state=5).partial_fit(rows[:40], names[:40])
    copied = pickle.loads(pickle.dumps(model))
    assert copied.predict_proba(rows).tolist() == model.predict_proba(rows).tolist()
    assert copied.guarantee_ == model.guarantee_
    with pytest.raises(StateError, match="bind"):
        copied.partial_fit(rows, names)
    for place, learner in enumerate(model.learner_):
        learner.save(tmp_path / f"{place}")

    def loaded(*places):
        return [dpoco.load(tmp_path / f"{place}") for place in places]

    with pytest.raises(StateError, match="started to learn"):
        clone(model).partial_fit(rows, names).bind(loaded(0, 1, 2))
    for wrong, said in (((0, 1), "3 learners, in the order"), ((0, 1, 1), "share their noise")):
        with pytest.raises(ValueError, match=said):
            clone(model).bind(loaded(*wrong))
    ahead = loaded(0, 1, 2)
    ahead[0].run(np.zeros((1, 5)), np.zeros(1))
    with pytest.raises(ValueError, match="in different rounds"):
        clone(model).bind(ahead)
    again = copied.bind(loaded(0, 1, 2)).partial_fit(rows[40:], names[40:])
    other = clone(model).bind(tuple(loaded(0, 1, 2))).partial_fit(rows[40:], names[40:])
    model.partial_fit(rows[40:], names[40:])
    assert again.coef_.tolist() == other.coef_.tolist() == model.coef_.tolist()
    model.learner_[0].run(np.zeros((1, 5)), np.zeros(1))  # as a call that was interrupted
    with pytest.raises(StateError, match="was interrupted"):
        model.partial_fit(rows, names)
    assert model.predict(rows).shape == (80,)


def test_river_plays_the_same_rounds():
    river = pytest.importorskip("dpoco.adapters.river")
    rows, labels = stream(60, 3)
    terms = {"horizon": 60, "budget": BUDGET, "feature_bound": 1.0, "radius": 4.0}
    names = ("a", "b", "c", "d")
    fitted = classifier(horizon=60, random_state=7).fit(rows, np.array(CLASSES)[labels])
    one = river.PrivateClassifier(names, classes=CLASSES, seed=7, **terms)
    assert set(one.predict_proba_one({}).values()) == {1 / 3}
    assert one.predict_one({}) == "blue"  # the first on a tie
    for row, label in zip(rows.tolist(), labels, strict=True):
        one.learn_one(dict(zip(names, row, strict=True)), CLASSES[label])
    assert [each._payload() for each in one.learner_] == [
        each._payload() for each in fitted.learner_
    ]
    x = dict(zip(names, rows[0].tolist(), strict=True))
    assert list(one.predict_proba_one(x).values()) == fitted.predict_proba(rows[:1])[0].tolist()
    assert one.predict_one(x) == fitted.predict(rows[:1])[0]
    assert list(one.weights["red"].values()) == fitted.coef_[2].tolist()
    assert list(one.intercept_value.values()) == fitted.intercept_.tolist()
    table = pytest.importorskip("pandas").DataFrame(rows, columns=names)
    assert one.predict_many(table).tolist() == fitted.predict(rows).tolist()
    assert one.predict_proba_many(table).to_numpy().tolist() == fitted.predict_proba(rows).tolist()
    many = one.clone()
    many.learn_many(table, np.array(CLASSES)[labels])
    assert many.weights == one.weights
    assert one.round == 60
    with pytest.raises(HorizonExceeded):
        one.learn_one(x, "red")
    assert one._multiclass
    assert one.guarantee == fitted.guarantee_
