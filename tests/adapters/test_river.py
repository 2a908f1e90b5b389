"""river's estimators: its own checks, the learner underneath, and what copies carry."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from adapter_cases import BOUNDS, BUDGET, NAMES, dictionaries, records

import dpoco
from dpoco import HorizonExceeded, StateError
from dpoco.accounting.ledger import Ledger

pytest.importorskip("river")
checks = pytest.importorskip("river.checks")
pytest.importorskip("sklearn")  # river's checks take their data from it
pandas = pytest.importorskip("pandas")

from river import compose, preprocessing  # noqa: E402

from dpoco.adapters.river import PrivateClassifier, PrivateRegressor, PublicScaler  # noqa: E402

# The others differ in the learner or loss, which river's checks do not see.
CASES = [
    (kind, next(kind._unit_test_params()))
    for kind in (PrivateClassifier, PrivateRegressor, PublicScaler)
]


def classifier(**arguments):
    given = {"horizon": 2000, "budget": BUDGET, "radius": 1.0, "feature_bound": 1.0, **arguments}
    return PrivateClassifier(NAMES, **given)


def learn(model, rows, labels):
    for x, y in zip(dictionaries(rows), labels, strict=True):
        model.learn_one(x, y)


@pytest.mark.parametrize(("kind", "params"), CASES)
def test_passes_all_of_rivers_checks(kind, params):
    model = kind(**params)
    assert model._unit_test_skips() == set()
    names = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, inside river
        for check in checks.yield_checks(model):
            check(model.clone())
            names.add(check.__name__)
    assert len(names) >= 15  # newer rivers have more
    assert {"check_pickling", "check_emerging_features"} <= names


@pytest.mark.parametrize("name", ["tree_frank_wolfe", "polyhedral_frank_wolfe", "noisy_ftrl",
                                  "coupled_regularized_leader"])  # fmt: skip
@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
def test_a_record_is_a_round_of_the_learner(name):
    rows, labels = records(60)
    one, many = (classifier(learner=name, seed=3, radius=2.0) for _ in range(2))
    problem = one._model.problem
    plain = problem.make(2000, BUDGET, None, dpoco.random.Source.seeded(3))
    for row, x, y in zip(rows, dictionaries(rows), labels, strict=True):
        theta = plain.decide()
        margin = float(row @ theta[:3] + theta[3])
        assert one.predict_proba_one(x)[True] == pytest.approx(1.0 / (1.0 + np.exp(-margin)))
        one.learn_one(x, y)
        plain.observe(np.append(row, 1.0), float(y))
    many.learn_many(pandas.DataFrame(rows, columns=NAMES), pandas.Series(labels))
    assert one.round == many.round == 60
    final = plain.decide()
    for model in (one, many):
        assert np.array([*model.weights.values(), model.intercept_value]).tolist() == final.tolist()


def test_predictions_play_no_round_and_go_on_past_the_horizon():
    rows, labels = records(50)
    model = classifier(horizon=50)
    x = dictionaries(rows)
    assert model.predict_proba_one(x[0]) == {False: 0.5, True: 0.5}
    for record, y in zip(x, labels, strict=True):
        before = pickle.dumps(model._model.learner)
        model.predict_one(record), model.predict_proba_one(record)
        assert pickle.dumps(model._model.learner) == before
        model.learn_one(record, y)
    last = model.predict_proba_one(x[0])
    with pytest.raises(HorizonExceeded):
        model.learn_one(x[0], True)
    assert model.predict_proba_one(x[0]) == last
    assert model.round == 50


def test_learn_many_is_all_or_nothing():
    rows, labels = records(60)
    model = classifier(horizon=50)
    with pytest.raises(HorizonExceeded):
        model.learn_many(pandas.DataFrame(rows, columns=NAMES), pandas.Series(labels))
    assert model.round == 0


def test_it_learns():
    rows, labels = records(20_000)
    model = classifier(horizon=20_000, radius=12.0)
    model.learn_many(pandas.DataFrame(rows, columns=NAMES), pandas.Series(labels))
    fresh, truth = records(500, seed=1)
    predicted = model.predict_many(pandas.DataFrame(fresh, columns=NAMES))
    assert (predicted.to_numpy() == truth).mean() > 0.85
    assert truth.mean() < 0.5  # always False: far from that
    regressor = PrivateRegressor(NAMES, horizon=20_000, budget=BUDGET, radius=2.0, **BOUNDS)
    target = rows @ [1.0, -1.0, 0.5] + 0.3
    regressor.learn_many(pandas.DataFrame(rows, columns=NAMES), pandas.Series(target))
    errors = [
        regressor.predict_one(x) - y
        for x, y in zip(dictionaries(rows[:2000]), target[:2000], strict=True)
    ]
    assert np.mean(np.square(errors)) < 0.3 * np.var(target)


def test_labels_of_other_classes_and_odd_values_are_empty_records():
    rows, labels = records(20)
    models = [classifier(seed=1, classes=("no", "yes")) for _ in range(2)]
    for model in models:
        learn(model, rows, np.where(labels, "yes", "no"))
    models[0].learn_one({"a": 0.5}, "secret")
    models[1].learn_one({"a": float("nan")}, "yes")
    for model in models:
        model.learn_one({"a": 0.1}, "no")
    assert models[0].weights == models[1].weights
    assert models[0].predict_one({"a": float("inf")}) in ("no", "yes")


def test_a_pickle_carries_what_was_published_and_nothing_else():
    rows, labels = records(40)
    model = classifier(horizon=40)
    learn(model, rows, labels)
    data = pickle.dumps(model)
    copied = pickle.loads(data)
    assert copied.weights == model.weights
    assert copied.guarantee == model.guarantee
    assert copied.predict_proba_one({"a": 0.2}) == model.predict_proba_one({"a": 0.2})
    for action in (lambda: copied.learn_one({"a": 0.1}, True), lambda: copied.learner_):
        with pytest.raises(StateError, match="holds what was published"):
            action()
    again = pickle.loads(pickle.dumps(copied))
    assert (again.weights, again.round) == (model.weights, 40)
    charged = classifier(horizon=40, ledger=Ledger(BUDGET))
    with pytest.raises(TypeError, match="ledger cannot be copied"):
        pickle.dumps(charged)
    learn(charged, rows, labels)
    again = pickle.loads(pickle.dumps(charged))
    assert again.weights == charged.weights
    assert isinstance(charged.ledger, Ledger)
    with pytest.raises(TypeError, match="ledger must be a Ledger"):
        again.clone()


def test_copies_are_refused_and_clones_have_noise_of_their_own():
    model = classifier(learner="noisy_ftrl")  # decides after every round
    assert copy.deepcopy(model).round == 0
    model.learn_one({"a": 0.2}, True)
    for attempt in (copy.deepcopy, lambda m: m.clone(include_attributes=True)):
        with pytest.raises(StateError, match="share its noise"):
            attempt(model)
    clones = [model.clone() for _ in range(2)]
    for fresh in clones:
        assert fresh.round == 0
        fresh.learn_one({"a": 0.2}, True)
    assert len({tuple(m.weights.values()) for m in [model, *clones]}) == 3


def test_goes_on_with_a_saved_learner(tmp_path):
    rows, labels = records(40)
    straight, first = (classifier(seed=5) for _ in range(2))
    learn(straight, rows, labels)
    learn(first, rows[:20], labels[:20])
    first.learner_.save(tmp_path / "state")
    again = pickle.loads(pickle.dumps(first))
    again.bind(dpoco.load(tmp_path / "state"))
    learn(again, rows[20:], labels[20:])
    assert again.weights == straight.weights
    with pytest.raises(StateError):
        first.bind(dpoco.load(tmp_path / "state"))
    with pytest.raises(ValueError, match="another domain or loss"):
        classifier(radius=3.0).bind(dpoco.load(tmp_path / "state"))
    with pytest.raises(TypeError, match="must be a NoisyFTRL"):
        classifier(learner="noisy_ftrl").bind(dpoco.load(tmp_path / "state"))


def test_guarantees():
    assert classifier().guarantee.epsilon <= BUDGET.epsilon
    assert classifier().guarantee.certified
    assert not classifier(seed=1).guarantee.certified
    assert classifier(budget=None).guarantee.epsilon == np.inf


def test_a_pipeline_of_fixed_steps_works_like_its_last_one():
    from river import compose

    model = compose.FuncTransformer(halved) | classifier(seed=2)
    bare = classifier(seed=2)
    for x, y in zip(dictionaries(records(20)[0]), records(20)[1], strict=True):
        model.learn_one(x, y)
        bare.learn_one(halved(x), y)
    assert model["PrivateClassifier"].weights == bare.weights


def halved(x):
    return {name: value / 2.0 for name, value in x.items()}


def test_labels_of_another_type_are_refused_before_anything_happens():
    rows, labels = records(10)
    model = classifier(classes=(0, 1))
    with pytest.raises(TypeError, match="a label must be a bool or a number, as classes are; got"):
        model.learn_one({"a": 0.1}, "1")
    with pytest.raises(TypeError, match="a record must be a mapping of names to numbers; got"):
        model.learn_one(np.array([0.1]), 1)
    table = pandas.DataFrame(rows, columns=NAMES)
    with pytest.raises(TypeError, match="got a text"):
        model.learn_many(table, pandas.Series([1] * 9 + ["secret"], dtype=object))
    assert model.round == 0
    model.learn_many(table, pandas.Series(labels))  # bools are 0 and 1
    model.learn_many(table, pandas.Series(np.where(labels, 1, -1)))  # -1 is a number, and private
    assert model.round == 20


def test_how_records_are_read():
    model = classifier(classes=(0, 1), feature_bound=0.5)
    good = {"a": 0.1, "b": 0.1, "c": 0.1}
    given = [good, {**good, "A": 2.0}, {"a": 0.1, "b": None, "k": 0.1}, {**good, "c": 7.0},
             {**good, "a": float("nan")}]  # fmt: skip
    read = model.nonprivate_records(given, [0, 1, -1, 1, None])
    assert read.records == 5
    assert read.shares == {
        "empty": 0.4, "clipped": 0.2, "label_missing": 0.2, "label_out_of_range": 0.0,
        "missing": 0.2, "missing_features": 0.2, "unlisted_features": 0.4, "unknown_label": 0.2,
    }  # fmt: skip
    assert read.columns == {
        "a": {"missing": 0.2, "missing_features": 0.0},
        "b": {"missing": 0.0, "missing_features": 0.2},
        "c": {"missing": 0.0, "missing_features": 0.2},
    }
    assert model.round == 0
    short = {"horizon": 10, "budget": BUDGET, "learner": "noisy_ftrl"}
    regressor = PrivateRegressor(NAMES, **short, feature_bound=1.0, label_bound=2.0)
    shares = regressor.nonprivate_records(given, [0.0, 2.0, -3.0, 2.5, 1.0]).shares
    assert (shares["label_out_of_range"], shares["empty"]) == (0.4, 0.2)
    assert "unknown_label" not in shares
    hashed = PrivateRegressor(4, **short, **BOUNDS).nonprivate_records(given, [0.0] * 5)
    assert set(hashed.columns) == set("0123")
    assert "missing_features" not in hashed.shares


def test_a_public_scaler_scales_what_it_names():
    scaler = PublicScaler({"a": (0, 100), "b": (-1, 1)})
    record = {"b": 9.0, "a": 75.0, "user": "u7"}
    scaled = {"b": np.sqrt(0.5), "a": 0.5 * np.sqrt(0.5), "user": "u7"}
    assert scaler.transform_one(record) == pytest.approx(scaled)
    assert scaler.transform_one({"b": None}) == {"b": None}
    table = pandas.DataFrame([record, {"b": 0.0, "user": "u8"}], index=[5, 7])
    many = scaler.transform_many(table)
    assert many.loc[5].to_dict() == pytest.approx(scaled)
    assert (many.loc[7, "b"], many.loc[7, "user"]) == (0.0, "u8")
    assert np.isnan(many.loc[7, "a"])
    with pytest.raises(ValueError, match="two columns of one name"):
        scaler.transform_many(pandas.DataFrame([[1.0, 2.0]], columns=["a", "a"]))
    for wrong in ({"a": (1, 0)}, {}, {"a": 1}, {"a": (0, 1, 2)}):
        with pytest.raises(ValueError, match=r"range|feature"):
            PublicScaler(wrong)


def test_budgets_bounds_steps_and_weights(recwarn):
    stated = {"horizon": 100, "epsilon": 4.0, "delta": 1e-6, "learner": "noisy_ftrl"}
    model = PrivateClassifier(NAMES, **stated, feature_bound=1.0, radius=1.0)
    assert model.clone().guarantee.epsilon_at(1e-6) == pytest.approx(4.0)
    with pytest.raises(ValueError, match="budget contains"):
        PrivateClassifier(NAMES, **stated, feature_bound=1.0, budget=BUDGET)
    with pytest.raises(TypeError, match="epsilon and delta must be given"):
        PrivateClassifier(NAMES, horizon=100, feature_bound=1.0)
    with pytest.raises(
        ValueError, match=r"search for the ranges of .* a tenth of 100 rounds is 10"
    ):
        PrivateClassifier(NAMES, **stated)
    with pytest.raises(TypeError, match=r"^label_bound must be given"):
        PrivateRegressor(NAMES, **stated, feature_bound=1.0)
    with pytest.raises(TypeError, match=r"^w is refused: .* past the bound"):
        model.learn_one({"a": 0.1}, True, w=2.0)
    record = dict.fromkeys(NAMES, 0.1)
    scaler, named = PublicScaler(dict.fromkeys(NAMES, (-1, 1))), compose.Select(*NAMES)
    recwarn.clear()
    for steps in ((scaler,), (named, scaler), (named + scaler,)):
        compose.Pipeline(*steps, model.clone()).learn_one(record, True)
    assert not recwarn
    learning = preprocessing.StandardScaler()
    for steps in ((learning,), (scaler, learning), (scaler + learning,), (named | learning,)):
        pipeline = compose.Pipeline(*steps, model.clone())
        with pytest.warns(UserWarning, match="^StandardScaler before a private"):
            pipeline.learn_one(record, True)
        recwarn.clear()
        pipeline.learn_one(record, True)
        assert not recwarn  # said once
