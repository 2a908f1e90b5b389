"""Situations from public reports about frames, scikit-learn, river, bandits and accounting.

Each test is a row of the reports that are tried here: what somebody wanted, or what broke
elsewhere, with the value that is right.
"""

from __future__ import annotations

import math
import warnings
from decimal import Decimal

import numpy as np
import pytest

import dpoco
from dpoco import bandits, losses, mechanisms
from dpoco.accounting import gaussian
from dpoco.accounting.ledger import Ledger
from dpoco.domains import LpBall
from dpoco.random import Source

# ruff: noqa: E402
pandas = pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("river")

import joblib
import river.compose
import river.preprocessing
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  # names the next import
from sklearn.impute import SimpleImputer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from dpoco.adapters.river import (
    PrivateBandit,
    PrivateClassifier,
    PrivateContextualBandit,
    PrivateExperts,
)
from dpoco.adapters.river import PublicScaler as RiverScaler
from dpoco.adapters.sklearn import PrivateOnlineClassifier, PublicScaler

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")
BUDGET = dpoco.Budget(1.0, 1e-6)
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (120, 3))
Y = X[:, 0] > 0.0


def classifier(**given):
    terms = {
        "epsilon": 1.0, "delta": 1e-6, "classes": (False, True), "feature_bound": 1.0,
        "learner": "noisy_ftrl",
    }  # fmt: skip
    return PrivateOnlineClassifier(**{**terms, **given})


def river_classifier(**given):
    return PrivateClassifier(
        ("a", "b"), **{"horizon": 90, "budget": BUDGET, "feature_bound": 1.0, "seed": 1, **given}
    )


# -- bounds -------------------------------------------------------------------------------------


BOUNDS = {
    "ContinualSum": (
        lambda **b: mechanisms.ContinualSum(2, horizon=9, budget=None, **b), ("bound",),
    ),
    "LinUCB": (
        lambda **b: bandits.LinUCB(2, 3, horizon=9, budget=None, **b),
        ("context_bound", "reward_bound"),
    ),
    "HighDimensionalBandit": (
        lambda **b: bandits.HighDimensionalBandit(2, LpBall(3, 1.0), horizon=9, budget=None, **b),
        ("context_bound", "reward_bound"),
    ),
    "NoisyMax": (lambda **b: mechanisms.NoisyMax(3, budget=None, **b), ("sensitivity",)),
    "AboveThreshold": (
        lambda **b: mechanisms.AboveThreshold(horizon=9, budget=None, **b), ("sensitivity",),
    ),
    "PrivateBandit": (lambda **b: PrivateBandit((0, 1), horizon=9, budget=None, **b),
                      ("reward_bound",)),
    "PrivateContextualBandit": (
        lambda **b: PrivateContextualBandit((0, 1), ("a",), horizon=9, budget=None, **b),
        ("context_bound", "reward_bound"),
    ),
    "LinearLoss": (losses.LinearLoss, ("gradient_bound",)),
    "LogisticLoss": (losses.LogisticLoss, ("feature_bound",)),
    "SquaredLoss": (losses.SquaredLoss, ("feature_bound", "label_bound")),
    "HuberLoss": (losses.HuberLoss, ("feature_bound", "label_bound")),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_that_decide_over_utility_have_no_default(name):
    make, bounds = BOUNDS[name]
    whole = dict.fromkeys(bounds, 2.0)
    make(**whole)
    for left_out in bounds:
        with pytest.raises(TypeError, match=left_out):
            make(**{bound: 2.0 for bound in bounds if bound != left_out})


def test_experts_of_river_are_told_the_range_of_their_rewards():
    with pytest.raises(TypeError, match="reward_range"):
        PrivateExperts((0, 1), horizon=9, budget=None)
    policy = PrivateExperts((0, 1), horizon=9, budget=None, reward_range=(0.0, 50.0))
    for _ in range(5):
        policy.update(policy.pull((0, 1)), {0: 10.0, 1: 40.0})
    assert policy.ranking == [1, 0]


def test_a_logistic_link_needs_no_bound_on_rewards():
    learner = bandits.HighDimensionalBandit(
        2, LpBall(3, 1.0), horizon=9, budget=None, context_bound=1.0, link="logistic"
    )
    assert learner.plan.tuning.reward_bound == 1.0


def test_daily_totals_are_summed():
    """365 days of 40: not 380, which a bound of 1 makes of them."""
    total = mechanisms.ContinualSum(1, horizon=365, budget=None, bound=40.0)
    assert total.run(np.full((365, 1), 40.0))[-1, 0] == pytest.approx(14600.0)


def test_revenue_is_a_reward():
    policy = bandits.LinUCB(
        2, 1, horizon=400, budget=None, context_bound=1.0, reward_bound=50.0, parameter_bound=50.0,
        source=Source.seeded(1),
    )  # fmt: skip
    trace = policy.run(np.ones((400, 1)), np.tile([10.0, 40.0], (400, 1)))
    assert np.mean(trace.actions[200:] == 1) > 0.9


# -- gaps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Float64", "Int64", "object"])
def test_a_gap_in_a_frame_is_a_gap(kind):
    """Of three rows, the one with a gap is an empty record, as with NaN."""
    plain = pandas.DataFrame({"a": [1.0, np.nan, 0.0], "b": [0.0, 1.0, 1.0]})
    frame = (
        plain.astype(kind) if kind != "object" else plain.astype(object).where(plain.notna(), None)
    )
    assert frame["a"].isna().sum() == 1
    found = []
    for table in (plain, frame):
        model = classifier(horizon=60, random_state=1)
        model.partial_fit(table, [True, False, True]).partial_fit(table, [1, None, pandas.NA])
        assert model.learner_.round == 6
        again = classifier(random_state=1).fit(table, [True, False, True])
        scaled = PublicScaler(ranges=[(0, 1), (0, 1)]).transform(table)
        assert np.array_equal(np.isnan(scaled).any(axis=1), [False, True, False])
        found.append((model.coef_, again.coef_, model.predict(table), model.predict_proba(table)))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def test_gaps_reach_learners_and_sums_as_nan():
    frame = pandas.DataFrame({"a": [0.1, 0.2], "b": [0.3, 0.4]}).astype("Float64")
    frame.loc[1, "a"] = pandas.NA
    learner = dpoco.oco.NoisyFTRL(
        LpBall(2), losses.SquaredLoss(1.0, 1.0), horizon=60, budget=BUDGET, source=Source.seeded(1)
    )
    trace = learner.run(frame, pandas.array([0.5, pandas.NA], dtype="Float64"))
    assert trace.nonprivate_records.shares["empty"] == 0.5
    total = mechanisms.ContinualSum(2, horizon=9, budget=None, bound=1.0)
    assert np.array_equal(total.run(frame), [[0.1, 0.3], [0.1, 0.3]])


@pytest.mark.parametrize("gap", [pandas.NA, pandas.NaT, np.nan, Decimal("NaN"), np.ma.masked])
def test_rivers_records_with_gaps_are_empty(gap):
    with_gap, with_nan = river_classifier(), river_classifier()
    for model, value in ((with_gap, gap), (with_nan, float("nan"))):
        model.learn_one({"a": 0.5, "b": Decimal("0.25")}, True)
        model.learn_one({"a": value, "b": 0.5}, False)
        model.learn_one({"a": 0.1, "b": 0.5}, value)
        assert model.round == 3
        model.predict_one({"a": value, "b": 0.5})
    assert with_gap.weights == with_nan.weights
    pipeline = RiverScaler({"a": (0, 1), "b": (0, 1)}) | river_classifier()
    pipeline.learn_one({"a": gap, "b": 0.5}, True)
    policy = PrivateContextualBandit(
        (0, 1), ("a", "b"), horizon=900, budget=dpoco.Budget(8.0, 1e-6), context_bound=1.0,
        reward_bound=1.0,
    )  # fmt: skip
    context = {"a": gap, "b": 0.5}
    policy.update(policy.pull((0, 1), context), context, gap)
    assert policy.learner_.round == 1


def test_a_text_among_numbers_raises_whatever_the_other_rows_hold():
    for column in (["0.5", 0.5], ["0.5", None], ["0.5", pandas.NA], [None, "0.5"]):
        with pytest.raises(TypeError):
            classifier(horizon=60).partial_fit(pandas.DataFrame({"a": column}), [True, False])


# -- searches -----------------------------------------------------------------------------------

GRID = {"radius": [1.0, 4.0, 16.0]}


def said(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [each for each in caught if issubclass(each.category, dpoco.RepeatedFitsWarning)]


SEARCHES = {  # what is said, and what is fitted, or called with the data
    "GridSearchCV fits PrivateOnlineClassifier 16 times": (
        GridSearchCV, {"param_grid": GRID, "cv": 5},
    ),
    "GridSearchCV fits PrivateOnlineClassifier 6 times": (
        GridSearchCV, {"param_grid": GRID, "cv": 2, "refit": False},
    ),
    "RandomizedSearchCV fits PrivateOnlineClassifier 5 times": (
        RandomizedSearchCV, {"param_distributions": GRID, "cv": 2, "n_iter": 2},
    ),
    "HalvingGridSearchCV fits PrivateOnlineClassifier at least 7 times": (
        HalvingGridSearchCV, {"param_grid": GRID, "cv": 2, "min_resources": 40},
    ),
    "cross_val_score fits PrivateOnlineClassifier 4 times": (cross_val_score, {"cv": 4}),
    "cross_val_predict fits PrivateOnlineClassifier 3 times": (cross_val_predict, {"cv": 3}),
    "GridSearchCV in cross_val_score fits PrivateOnlineClassifier 14 times": (
        lambda model, *data, cv: cross_val_score(GridSearchCV(model, GRID, cv=2), *data, cv=cv),
        {"cv": 2},
    ),
    "BaggingClassifier fits PrivateOnlineClassifier 3 times": (
        BaggingClassifier, {"n_estimators": 3},
    ),
    "CalibratedClassifierCV fits PrivateOnlineClassifier at least 2 times": (
        CalibratedClassifierCV, {"cv": 2},
    ),
}  # fmt: skip


def search(model, kind, options):
    if isinstance(kind, type):
        return kind(model, **options).fit(X, Y)
    return kind(model, X, Y, **options)


@pytest.mark.parametrize("text", SEARCHES)
def test_a_search_is_warned_of_once_with_what_it_costs(text):
    """Some twenty fits: over a second."""
    (warning,) = said(lambda: search(classifier(), *SEARCHES[text]))
    message = str(warning.message)
    assert message.startswith(f"{text}, ")
    assert warning.filename == __file__
    fits = int("".join(each for each in text.partition(" times")[0].split()[-1]))
    together = gaussian.gaussian_epsilon(gaussian.gaussian_mu(1.0, 1e-6) * math.sqrt(fits), 1e-6)
    assert f"epsilon {fits} at delta {fits * 1e-6:.4g} if they are added up" in message
    assert f"epsilon {together:.4g} at delta 1e-06 if they are composed" in message


def test_every_search_is_warned_of_and_single_fits_are_not():
    model = classifier()
    assert len(said(lambda: [cross_val_score(model, X, Y, cv=2) for _ in range(3)])) == 3
    assert not said(lambda: clone(model).fit(X, Y))
    assert not said(lambda: make_pipeline(PublicScaler((-1, 1)), clone(model)).fit(X, Y))
    assert not said(lambda: FixedThresholdClassifier(clone(model)).fit(X, Y))
    assert not said(
        lambda: cross_val_score(classifier(epsilon=None, delta=None, budget=None), X, Y)
    )
    assert (
        len(said(lambda: cross_val_score(make_pipeline(PublicScaler((-1, 1)), model), X, Y))) == 1
    )


@pytest.mark.filterwarnings("error")
def test_a_ledger_adds_the_fits_up_and_stays_in_its_process():
    ledger = Ledger(dpoco.Budget(5.0, 1e-5))
    model = classifier(ledger=ledger)
    cross_val_score(model, X, Y, cv=2, error_score="raise")
    assert len(ledger.entries) == 2
    for search in (
        lambda: cross_val_score(model, X, Y, cv=2, n_jobs=2),
        lambda: GridSearchCV(model, GRID, cv=2, n_jobs=2).fit(X, Y),
    ):
        with pytest.raises(ValueError, match="a ledger stays in its process: fit with n_jobs=1"):
            search()
    assert len(ledger.entries) == 2


def test_fits_that_run_elsewhere_are_warned_of_where_they_are_asked_for():
    with joblib.parallel_config(backend="threading", n_jobs=2):
        (warning,) = said(lambda: cross_val_score(classifier(), X, Y, cv=3))
        assert "cross_val_score fits PrivateOnlineClassifier 3 times" in str(warning.message)
        ledger = Ledger(dpoco.Budget(5.0, 1e-5))
        cross_val_score(classifier(ledger=ledger), X, Y, cv=3, error_score="raise")
        assert len(ledger.entries) == 3


@pytest.mark.parametrize("change", ["attribute", "set_params"])
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_a_parameter_that_was_changed_after_the_start_is_refused(change, call):
    model = classifier(horizon=500, options={"step_size": 0.5}).partial_fit(X, Y)
    before = model.coef_.copy()
    for name, value in (("epsilon", 2.0), ("radius", 3.0), ("options", {"step_size": 0.1})):
        kept = getattr(model, name)
        model.set_params(**{name: value}) if change == "set_params" else setattr(model, name, value)
        with pytest.raises(ValueError, match=f"^{name} was changed after the start") as error:
            getattr(model, call)(X, Y)
        assert "\n" not in str(error.value)
        setattr(model, name, kept)
    assert np.array_equal(model.coef_, before)
    model.options["step_size"] = 0.2  # in place
    with pytest.raises(ValueError, match="options was changed"):
        model.partial_fit(X, Y)


def test_rivers_parameters_stay_as_well():
    model = river_classifier()
    model.learn_one({"a": 0.5}, True)
    model.horizon = 10_000
    with pytest.raises(ValueError, match="horizon was changed after the start"):
        model.learn_one({"a": 0.5}, True)
    assert model.round == 1


PUBLIC = (
    OneHotEncoder(categories=[["low", "high"]], handle_unknown="ignore"),
    OrdinalEncoder(categories=[["low", "high"]]),
    SimpleImputer(strategy="constant", fill_value="low"),
)
LEARNING = (
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(categories=[["low", "high"]], min_frequency=2, handle_unknown="ignore"),
    OrdinalEncoder(),
    SimpleImputer(strategy="most_frequent"),
)


@pytest.mark.parametrize("step", [*PUBLIC, *LEARNING], ids=repr)
def test_only_steps_that_learn_are_warned_of(step):
    frame = pandas.DataFrame({"fan": ["low", "high"] * 60, "x": X[:, 0]})
    encoders = [step] if not isinstance(step, SimpleImputer) else [step, PUBLIC[0]]
    model = make_pipeline(
        make_column_transformer(
            (make_pipeline(*encoders), ["fan"]), (PublicScaler((-1, 1)), ["x"])
        ),
        classifier(),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(frame, Y)
    texts = [str(each.message) for each in caught if "private estimator" in str(each.message)]
    assert bool(texts) == (step in LEARNING)
    assert all(type(step).__name__ in text for text in texts)


def test_rivers_encoders_with_listed_categories_are_no_steps_that_learn(recwarn):
    try:
        listed = river.preprocessing.OneHotEncoder(categories={"fan": {"low", "high"}})
    except TypeError:
        pytest.skip("encoders of this version of river have no categories")
    model = PrivateClassifier(("fan_low",), horizon=90, budget=BUDGET, feature_bound=1.0)
    river.compose.Pipeline(listed, model).learn_one({"fan": "low"}, True)
    assert not [each for each in recwarn if "private estimator" in str(each.message)]
    free = river.preprocessing.OneHotEncoder()
    model = PrivateClassifier(("fan_low",), horizon=90, budget=BUDGET, feature_bound=1.0)
    with pytest.warns(UserWarning, match="OneHotEncoder before a private estimator"):
        river.compose.Pipeline(free, model).learn_one({"fan": "low"}, True)


# -- what was right, and stays so -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean", "category"])
def test_labels_of_nullable_types(kind):
    labels = pandas.Series([0, 1, 1] * 20).astype(kind)
    model = classifier(classes=(0, 1), random_state=1).fit(X[:60], labels)
    plain = classifier(classes=(0, 1), random_state=1).fit(X[:60], [0, 1, 1] * 20)
    assert np.array_equal(model.coef_, plain.coef_)


def test_rewards_of_any_size_are_clipped_or_skipped():
    learner = bandits.LinUCB(2, 3, horizon=900, budget=BUDGET, context_bound=1.0, reward_bound=1.0)
    for reward in (-5.0, 1e300, math.inf, math.nan, None):
        learner.decide([0.1, 0.2, 0.3])
        learner.observe(reward)
    assert learner.round == 5
    assert np.isfinite(learner.coefficients).all()


@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 10.0])
def test_calibrated_noise_never_overshoots_its_budget(epsilon):
    total = mechanisms.ContinualSum(1, horizon=100, budget=dpoco.Budget(epsilon, 1e-9), bound=1.0)
    assert epsilon * 0.999 < total.guarantee.epsilon <= epsilon


def test_counters_without_an_end_have_their_deviation():
    total = mechanisms.ContinualSum(1, horizon=None, budget=BUDGET, bound=1.0)
    assert 35.0 < total.standard_deviation(365) < total.standard_deviation(10**9) < 80.0


def test_an_interval_around_a_private_count_is_one_line():
    total = mechanisms.ContinualSum(1, horizon=100, budget=BUDGET, bound=1.0)
    released = total.run(np.ones((100, 1)))[-1, 0]
    assert abs(released - 100.0) < 6.0 * total.standard_deviation(100)
