"""scikit-learn's estimators: its own checks, public classes and horizons, copies and ledgers."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from adapter_cases import BOUNDS, BUDGET, NAMES, records

import dpoco
from dpoco import Budget, BudgetExceeded, HorizonExceeded, StateError
from dpoco.accounting.ledger import Ledger

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from dpoco.adapters.sklearn import (
    PrivateOnlineClassifier,
    PrivateOnlineRegressor,
    PublicScaler,
    expected_failed_checks,
)

OF_DATA = {"budget": BUDGET, "classes": "data", "feature_bound": 1.0, "radius": 1.0}
# Each option and learner in one of them: `LinearProblem.make` alone knows which learner there is.
ESTIMATORS = [
    PrivateOnlineClassifier(**OF_DATA),
    PrivateOnlineClassifier(**OF_DATA, learner="tree_frank_wolfe", random_state=1, horizon=1000),
    PrivateOnlineRegressor(budget=BUDGET, **BOUNDS, radius=1.0, loss="huber", horizon=1000),
    PrivateOnlineRegressor(budget=None, **BOUNDS, learner="noisy_ftrl", fit_intercept=False),
]


def classifier(**arguments):
    given = {"budget": BUDGET, "classes": (False, True), "radius": 1.0, "feature_bound": 1.0}
    return PrivateOnlineClassifier(**{**given, **arguments})


@pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning", "ignore:fit.. starts a new")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_passes_scikit_learns_checks(estimator):
    expected = expected_failed_checks(estimator)
    results = check_estimator(
        estimator, expected_failed_checks=expected, on_fail=None, on_skip=None
    )
    by_status = {}
    for result in results:
        by_status.setdefault(result["status"], {})[result["check_name"]] = result["exception"]
    assert not by_status.get("failed")
    assert set(by_status.get("xfail", {})) == set(expected)  # nothing is excused in vain
    assert len(by_status["passed"]) >= 40


@pytest.mark.parametrize("name", ["tree_frank_wolfe", "coupled_regularized_leader"])
def test_rows_are_rounds_of_one_learner(name):
    rows, labels = records(60)
    whole, parts = (
        classifier(learner=name, horizon=500, random_state=3, radius=2.0) for _ in range(2)
    )
    whole.fit(rows, labels)
    for start in range(0, 60, 20):
        parts.partial_fit(rows[start : start + 20], labels[start : start + 20])
    plain = whole._model.problem.make(500, BUDGET, None, dpoco.random.Source.seeded(3))
    for row, label in zip(rows, labels, strict=True):
        plain.decide()
        plain.observe(np.append(row, 1.0), float(label))
    for model in (whole, parts):
        assert [*model.coef_[0], *model.intercept_] == plain.decide().tolist()
        assert model.learner_.round == 60
    assert whole.coef_.shape == (1, 3)
    margins = rows @ whole.coef_[0] + whole.intercept_[0]
    assert np.allclose(whole.decision_function(rows), margins)
    assert (whole.predict(rows) == (margins > 0.0)).all()
    assert np.allclose(whole.predict_proba(rows)[:, 1], 1.0 / (1.0 + np.exp(-margins)))


def test_predictions_play_no_round():
    rows, labels = records(50)
    model = classifier(horizon=50).fit(rows, labels)
    state = pickle.dumps(model.learner_)
    model.predict(rows), model.predict_proba(rows), model.score(rows, labels)
    assert pickle.dumps(model.learner_) == state
    one_by_one = [model.decision_function(row[None, :])[0] for row in rows]
    assert model.decision_function(rows).tolist() == one_by_one


def test_it_learns():
    rows, labels = records(20_000)
    fresh, truth = records(500, seed=1)
    assert classifier(radius=12.0).fit(rows, labels).score(fresh, truth) > 0.85
    texts = np.where(labels, "yes", "no")
    model = classifier(radius=12.0, classes=["yes", "no"]).fit(rows, texts)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(fresh, np.where(truth, "yes", "no")) > 0.85
    target = rows @ [1.0, -1.0, 0.5] + 0.3
    regressor = PrivateOnlineRegressor(budget=BUDGET, **BOUNDS, radius=2.0).fit(rows, target)
    assert regressor.score(rows, target) > 0.7
    assert regressor.intercept_ > 0.1


def test_classes_are_public():
    rows, labels = records(30)
    with pytest.raises(ValueError, match="which labels occur depends on the data"):
        classifier(classes=None).fit(rows, labels)
    with pytest.raises(ValueError, match="first call of partial_fit"):
        classifier(classes=None).partial_fit(rows, labels)
    with pytest.raises(ValueError, match="first call of partial_fit"):
        classifier(classes="data").partial_fit(rows, labels)
    model = classifier(classes=None, horizon=100).partial_fit(rows, labels, classes=[False, True])
    model.partial_fit(rows, labels).partial_fit(rows[:1], labels[:1], classes=[True, False])
    with pytest.raises(ValueError, match="those of the first call"):
        model.partial_fit(rows, labels, classes=[0, 7])
    for bad in (["a"], ["a", "a"], ["a", "b", "a"], "ab", 2):
        with pytest.raises(ValueError, match="classes must be two different labels"):
            classifier(classes=None).partial_fit(rows, labels, classes=bad)
    with pytest.raises(ValueError, match="without trailing zero"):  # one, to an array
        classifier(classes=("a", "a\0", "b")).fit(rows, ["a"] * 30)
    # Only one of them in the data, or none: nobody can tell.
    assert classifier(classes=("a", "b")).fit(rows, ["a"] * 30).classes_.tolist() == ["a", "b"]
    other = [classifier(random_state=1).fit(rows, y) for y in ([7] * 30, [np.nan] * 30)]
    assert other[0].coef_.tolist() == other[1].coef_.tolist()


def test_rows_that_are_not_finite_are_empty_records():
    rows, labels = records(30)
    bad = rows.copy()
    bad[7, 1], bad[11, 2], bad[12, 0] = np.nan, np.inf, 1e308
    models = [classifier(random_state=1).fit(x, labels) for x in (bad, np.where(
        np.isfinite(bad).all(axis=1)[:, None], bad, np.nan))]  # fmt: skip
    assert models[0].coef_.tolist() == models[1].coef_.tolist()
    assert np.isfinite(models[0].predict_proba(bad)).all()
    targets = np.where(labels, np.inf, 0.5)
    regressor = PrivateOnlineRegressor(budget=BUDGET, **BOUNDS, learner="noisy_ftrl").fit(
        rows, targets
    )
    assert np.isfinite(regressor.predict(bad)).all()


def test_horizons():
    rows, labels = records(50)
    model = classifier().fit(rows, labels)
    assert model.guarantee_.horizon == 50
    with pytest.raises(HorizonExceeded):
        model.partial_fit(rows[:1], labels[:1])
    assert model.learner_.round == 50
    small = classifier(horizon=49)
    with pytest.raises(HorizonExceeded, match="50 records"):
        small.fit(rows, labels)
    with pytest.raises(NotFittedError):
        small.predict(rows)
    part = classifier(horizon=60).partial_fit(rows, labels)
    with pytest.raises(HorizonExceeded):
        part.partial_fit(rows, labels)
    assert part.learner_.round == 50
    assert classifier().partial_fit(rows, labels).learner_.round == 50  # unknown: up to 1e9
    with pytest.raises((ValueError, TypeError)):
        classifier(learner="polyhedral_frank_wolfe").partial_fit(rows, labels)


def test_rows_past_the_horizon_charge_nothing():
    rows, labels = records(50)
    ledger = Ledger(BUDGET)
    model = classifier(horizon=49, ledger=ledger)
    with pytest.raises(HorizonExceeded):
        model.partial_fit(rows, labels)
    assert not ledger.entries
    model.partial_fit(rows[:49], labels[:49])
    assert len(ledger.entries) == 1


def test_arguments_of_pandas_stay_the_same():
    pandas = pytest.importorskip("pandas")
    rows, labels = records(20)
    words = np.where(labels, "yes", "no")
    model = classifier(classes=pandas.Index(["no", "yes"]), horizon=99)
    for _ in range(2):
        model.partial_fit(rows, words)
    assert model.learner_.round == 40
    model.set_params(classes=pandas.Index(["no", "maybe"]))
    with pytest.raises(ValueError, match="classes was changed"):
        model.partial_fit(rows, words)
    prior = pandas.Series(np.zeros(rows.shape[1])), 0.0
    regressor = PrivateOnlineRegressor(
        budget=BUDGET, **BOUNDS, learner="noisy_ftrl", prior=prior, horizon=99
    )
    for _ in range(2):
        regressor.partial_fit(rows, labels.astype(float))
    assert regressor.learner_.round == 40


def test_every_fit_spends_the_budget_again():
    rows, labels = records(50)
    model = classifier().fit(rows, labels)
    with pytest.warns(UserWarning, match="spend both budgets"):
        model.fit(rows, labels)
    ledger = Ledger(Budget(6.5, 1e-5), currency="gaussian")
    model = classifier(ledger=ledger)
    for copied in (model, clone(model), model):
        try:
            copied.fit(rows, labels)
        except BudgetExceeded:
            break
    else:
        pytest.fail("three times epsilon = 4 is more than 6.5")
    assert len(ledger.entries) == 2
    assert model.ledger is clone(model).ledger is ledger
    with pytest.raises(BudgetExceeded):
        cross_val_score(classifier(ledger=ledger), rows, labels, cv=3, error_score="raise")
    assert len(ledger.entries) == 2
    with pytest.raises(TypeError, match="ledger must be a Ledger"):
        classifier(ledger=6.5).fit(rows, labels)


@pytest.mark.filterwarnings("ignore:fit.. starts a new")
def test_a_fit_that_fails_changes_nothing():
    rows, labels = records(50)
    model = classifier(horizon=50).fit(rows, labels)
    before = model.predict_proba(rows).tolist()
    for change in ({"feature_bound": -1.0}, {"horizon": 10}, {"learner": "hedge"},
                   {"options": {"source": None}}, {"random_state": 0.5}, {"budget": 1.0},
                   {"classes": (1, 1)}, {"radius": "wide"}, {"horizon": "long"}):  # fmt: skip
        old = model.get_params()
        model.set_params(**change)
        with pytest.raises((ValueError, TypeError, HorizonExceeded)):
            model.fit(rows, labels)
        model.set_params(**old)
        assert model.predict_proba(rows).tolist() == before


def test_copies(tmp_path):
    rows, labels = records(40)
    model = classifier(horizon=100, random_state=5).partial_fit(rows, labels)
    with pytest.raises(StateError, match="share its noise"):
        copy.deepcopy(model)
    assert copy.deepcopy(classifier()).get_params() == classifier().get_params()
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba(rows).tolist() == model.predict_proba(rows).tolist()
    assert again.guarantee_ == model.guarantee_
    with pytest.raises(StateError, match="holds what was published"):
        again.partial_fit(rows, labels)
    model.learner_.save(tmp_path / "state")
    model.partial_fit(rows, labels)
    again.bind(dpoco.load(tmp_path / "state")).partial_fit(rows, labels)
    assert again.coef_.tolist() == model.coef_.tolist()
    fresh = classifier(horizon=100).bind(dpoco.load(tmp_path / "state"))
    assert fresh.partial_fit(rows, labels).coef_.tolist() == model.coef_.tolist()
    endless = classifier().partial_fit(rows, labels)
    endless.learner_.save(tmp_path / "endless")
    assert classifier().bind(dpoco.load(tmp_path / "endless")).coef_.tolist() == (
        endless.coef_.tolist())  # fmt: skip
    for other in (dpoco.experts.PrefixHedge(2, horizon=2000, budget=BUDGET), None):
        with pytest.raises(TypeError, match="learner"):
            classifier().bind(other)
    with pytest.raises(StateError):
        model.bind(dpoco.load(tmp_path / "state"))
    with pytest.raises(ValueError, match="another domain or loss"):
        classifier(radius=3.0).bind(dpoco.load(tmp_path / "state"))


def test_pickles_of_estimators_with_a_ledger():
    rows, labels = records(40)
    model = classifier(ledger=Ledger(BUDGET))
    with pytest.raises(TypeError, match="ledger cannot be copied"):
        pickle.dumps(model)
    again = pickle.loads(pickle.dumps(model.fit(rows, labels)))
    assert again.predict_proba(rows).tolist() == model.predict_proba(rows).tolist()
    assert isinstance(model.ledger, Ledger)
    # A copy spends nothing until it is told where.
    with pytest.raises(TypeError, match="ledger must be a Ledger"):
        again.fit(rows, labels)
    with pytest.raises(TypeError, match="ledger must be a Ledger"):
        clone(again).fit(rows, labels)


def test_an_interrupted_call_says_what_was_learned(monkeypatch):
    sparse = pytest.importorskip("scipy.sparse")
    monkeypatch.setattr("dpoco.adapters.sklearn._DENSE_CELLS", 30)  # ten rows at a time
    rows, labels = records(40)
    model = classifier(horizon=99).partial_fit(rows[:5], labels[:5])
    run, calls = model.learner_.run, []

    def interrupt(*arguments, **more):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run(*arguments, **more)

    monkeypatch.setattr(model.learner_, "run", interrupt)
    parts = sparse.csr_array(rows)
    with pytest.warns(UserWarning, match=r"when 20 of its 40"), pytest.raises(KeyboardInterrupt):
        model.partial_fit(parts, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing was learned of these
        with pytest.raises(HorizonExceeded):
            model.partial_fit(sparse.vstack([parts, parts, parts]), np.tile(labels, 3))
        model.partial_fit(parts[20:], labels[20:])
    assert model.learner_.round == 45


def test_a_call_that_is_interrupted_when_all_was_learned_says_so(monkeypatch):
    rows, labels = records(10)
    model = classifier(horizon=99).partial_fit(rows[:5], labels[:5])

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "_publish", interrupt)
    with pytest.warns(UserWarning, match=r"when 5 of its 5"), pytest.raises(KeyboardInterrupt):
        model.partial_fit(rows[5:], labels[5:])
    assert model.learner_.round == 10


def test_names_of_columns():
    pandas = pytest.importorskip("pandas")
    rows, labels = records(30)
    model = classifier(horizon=100).partial_fit(pandas.DataFrame(rows, columns=NAMES), labels)
    assert model.feature_names_in_.tolist() == list(NAMES)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pandas.DataFrame(rows, columns=("a", "b", "z")))


def test_columns_of_texts_are_named():
    pandas = pytest.importorskip("pandas")
    rows, labels = records(30)
    frame = pandas.DataFrame(rows, columns=NAMES)
    frame["note"] = "private"
    with pytest.raises(TypeError, match=r"see the columns note$"):
        classifier().fit(frame, labels)


def test_labels_of_another_type_are_refused_before_anything_is_spent():
    rows, labels = records(2000)
    numbers = labels.astype(int)
    ledger = Ledger(dpoco.Budget(9.0, 1e-5))
    options = {"classes": (0, 1), "radius": 12.0, "ledger": ledger, "random_state": 1}
    mixed = np.array([*numbers[:-1], "1"], dtype=object)
    for wrong in (np.where(labels, "1", "0"), mixed, labels.astype("S1")):
        with pytest.raises(TypeError, match="a label must be a bool or a number"):
            classifier(**options).fit(rows, wrong)
        with pytest.raises(TypeError, match="a label must be a bool or a number"):
            classifier(**options, horizon=2000).partial_fit(rows, wrong)
    with pytest.raises(TypeError, match="a label must be a number, as classes are; got a bool"):
        classifier(classes=(-1, 1)).fit(rows, labels)
    with pytest.raises(TypeError, match="classes must be of one type"):
        classifier(classes=(0, "1")).fit(rows, labels)
    assert not ledger.entries
    options["ledger"] = None
    same = [numbers, labels, numbers.astype(float), numbers.astype(np.int8), numbers.astype(object)]
    models = [classifier(**options).fit(rows, y) for y in same]
    assert len({tuple(model.coef_[0]) for model in models}) == 1
    signs = classifier(**options).fit(rows, 2 * numbers - 1)  # -1 is a number, and private
    read = signs.nonprivate_records(rows, 2 * numbers - 1).shares
    assert read["label_missing"] == 0.0
    assert read["unknown_label"] == read["empty"] == pytest.approx(1.0 - labels.mean())


def test_how_rows_are_read():
    pandas = pytest.importorskip("pandas")
    rows = [[0.1, 0.2, 0.3], [9.0, 0.0, 0.0], [np.nan, 0.0, 0.0], [0.1, 0.1, 0.1]]
    table = pandas.DataFrame(rows, columns=["age", "income", "visits"])
    regressor = PrivateOnlineRegressor(budget=None, feature_bound=1.0, label_bound=2.0).fit(
        table, [0.0] * 4
    )
    read = regressor.nonprivate_records(table, [0.0, 5.0, np.nan, -2.0])
    assert (read.records, read.columns["age"]) == (4, {"missing": 0.25})
    assert read.shares == {
        "empty": 0.25, "clipped": 0.25, "label_missing": 0.25, "label_out_of_range": 0.25,
        "missing": 0.25,
    }  # fmt: skip
    plain = PrivateOnlineRegressor(budget=None, **BOUNDS)
    with pytest.raises(NotFittedError):
        plain.nonprivate_records(rows, [0.0] * 4)
    by_number = plain.fit(rows, [0.0] * 4).nonprivate_records(rows, [0.0] * 4)
    assert set(by_number.columns) == {"0", "1", "2"}


@pytest.mark.parametrize("norm", ["l2", "max"])
def test_a_public_scaler_passes_the_checks_and_learns_nothing(norm):
    check_estimator(PublicScaler((-3.0, 3.0), norm=norm), on_skip=None)
    scaler = PublicScaler([(0, 100), (-1, 1)], norm=norm)
    size = np.sqrt(2.0) if norm == "l2" else 1.0
    rows = np.array([[75.0, 0.0], [-50.0, 9.0], [np.nan, -1.0]])
    scaled = np.array([[0.5, 0.0], [-1.0, 1.0], [np.nan, -1.0]]) / size
    np.testing.assert_allclose(scaler.transform(rows), scaled)
    np.testing.assert_allclose(scaler.fit(1e9 * rows).transform(rows), scaled)
    for wrong in ([1, 2, 3], [(1, 0)] * 2, "ab", [], [(0, np.inf)] * 2, [(0, 1)] * 3):
        with pytest.raises(ValueError, match="range"):
            PublicScaler(wrong).transform(rows)
    with pytest.raises(ValueError, match="norm must be one of"):
        PublicScaler((0, 1), norm="l1").fit(rows)


def test_the_budget_is_stated_once():
    rows, labels = records(300)
    model = classifier().set_params(budget="epsilon, delta", epsilon=4.0, delta=1e-6)
    same = classifier(random_state=1).fit(rows, labels)
    assert clone(model).set_params(random_state=1).fit(rows, labels).coef_.tolist() == (
        same.coef_.tolist()
    )
    for given, named in (({"epsilon": 1.0}, "delta"), ({"delta": 0.1}, "epsilon"), ({}, "and")):
        with pytest.raises(TypeError, match=f"{named}.* must be given"):
            clone(model).set_params(**{"epsilon": None, "delta": None, **given}).fit(rows, labels)
    for both in ({"epsilon": 1.0}, {"delta": 1e-6}, {"epsilon": 1.0, "delta": 1e-6}):
        with pytest.raises(ValueError, match="budget contains"):
            classifier(**both).fit(rows, labels)


def test_bounds_are_asked_for_and_radii_are_usual_ones():
    """At the usual radius a scaled regression is learned; at the old default it was not."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.0, 100.0, (20_000, 10))
    target = 3.0 * rows[:, 0] + rng.normal(0.0, 10.0, 20_000)
    scaler, stated = PublicScaler((0, 100)), {"epsilon": 1.0, "delta": 1e-6, "random_state": 1}
    with pytest.raises(TypeError, match=r"^label_bound must be given: .* PublicScaler"):
        PrivateOnlineRegressor(**stated, feature_bound=1).fit(rows, target)
    with pytest.raises(ValueError, match="search for the ranges of 11 columns"):
        PrivateOnlineRegressor(**stated).fit(rows[:9000], target[:9000])
    stated |= {"feature_bound": 1.0, "label_bound": 400.0}
    usual, old = (
        make_pipeline(scaler, PrivateOnlineRegressor(**stated, **radius)).fit(rows, target)
        for radius in ({}, {"radius": 1.0})
    )
    assert usual.score(rows, target) > 0.85
    assert old.score(rows, target) < 0.0
    assert usual[-1].learner_.domain.radius == pytest.approx(np.sqrt(10.0) * 400.0)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_steps_that_learn_are_warned_of(recwarn):
    rows, labels = records(200)
    model, scaler = classifier(), PublicScaler((-1.0, 1.0))
    union, columns = make_union, make_column_transformer
    for steps in ((StandardScaler(),), (scaler, MinMaxScaler()), (union(scaler, MinMaxScaler()),),
                  (columns((StandardScaler(), [0, 1]), remainder="passthrough"),),
                  (make_pipeline(StandardScaler(), scaler),)):  # fmt: skip
        with pytest.warns(UserWarning, match="Scaler before a private estimator") as caught:
            make_pipeline(*steps, clone(model)).fit(rows, labels)
        assert "PublicScaler" not in str(caught[0].message).partition(" before")[0]
    with pytest.warns(UserWarning, match="StandardScaler"):  # in a search, inside another one
        cross_val_score(make_pipeline(StandardScaler(), make_pipeline(scaler, model)), rows, labels,
                        cv=2)  # fmt: skip
    recwarn.clear()
    for steps in ((scaler,), ("passthrough", Normalizer(), PolynomialFeatures(1)),
                  (union(scaler, Normalizer()),)):  # fmt: skip
        make_pipeline(*steps, clone(model)).fit(rows, labels)
    clone(model).fit(StandardScaler().fit_transform(rows), labels)  # which nobody sees
    assert not [each for each in recwarn if "private estimator" in str(each.message)]


def test_weights_are_refused_with_the_reason():
    rows, labels = records(20)
    weights = np.ones(20)
    for learns in (classifier().fit, classifier().partial_fit):
        with pytest.raises(TypeError, match=r"^sample_weight is refused: .* past the bound"):
            learns(rows, labels, sample_weight=weights)
        with pytest.raises(TypeError, match="unexpected argument 'person'"):
            learns(rows, labels, person=weights)


def test_sparse_rows_are_learned_as_dense_ones(monkeypatch):
    from scipy import sparse

    rng = np.random.default_rng(8)
    X = rng.uniform(-0.4, 0.4, (300, 4)) * (rng.random((300, 4)) < 0.3)
    y = X[:, 0] > 0.0
    model = classifier(budget=Budget(45.0, 1e-6), random_state=3)
    fitted = [clone(model).fit(rows, y) for rows in (X, sparse.csr_array(X))]
    assert np.array_equal(fitted[0].coef_, fitted[1].coef_)
    odds = [fitted[0].predict_proba(rows) for rows in (X, sparse.coo_array(X))]
    assert np.array_equal(*odds)
    monkeypatch.setattr("dpoco.adapters.sklearn._DENSE_CELLS", 40)  # ten rows at a time
    parts = clone(model).fit(sparse.csr_array(X), y)
    assert np.array_equal(parts.coef_, fitted[0].coef_)
    assert np.array_equal(parts.predict_proba(sparse.csr_array(X)), odds[0])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        model.fit(sparse.coo_array(X[:, 0]), y)
    grows = clone(model).set_params(horizon=305, participation=dpoco.Participation(3))
    names = [f"p{n}" for n in range(300)]
    grows.partial_fit(sparse.csr_array(X), y, persons=names)
    for rows, persons in ((300, names), (5, ["a", "b", "c", "d", 5.5])):
        with pytest.raises((HorizonExceeded, TypeError, ValueError)):
            grows.partial_fit(sparse.csr_array(X[:rows]), y[:rows], persons=persons)
        assert grows.learner_.round == 300
