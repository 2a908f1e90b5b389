"""What the surrounding libraries print, log and raise contains no data."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys

import numpy as np
import pytest

import dpoco

pytest.importorskip("river")
pytest.importorskip("sklearn")

from adapter_cases import BOUNDS, BUDGET

from dpoco.adapters import river, sklearn

CANARY, WORD = 0.123456789, "XsecretX"
SIGNS = ("0.12345", "123456789", WORD)


def clean(text):
    assert not any(sign in text for sign in SIGNS), text


def test_messages_of_scikit_learns_estimators():
    def makers():
        for classes in ((0, 1), (0, 1, 2), "data"):
            yield sklearn.PrivateOnlineClassifier(
                budget=BUDGET, classes=classes, horizon=50, radius=1.0, feature_bound=1.0
            )
        yield sklearn.PrivateOnlineRegressor(budget=BUDGET, horizon=50, radius=1.0, **BOUNDS)

    rows = [[CANARY, 1.0], [2.0, CANARY]]
    wrong = [
        ([CANARY, 1.0], [0, 1]), (CANARY, [0, 1]), ([rows], [0, 1]), ([[WORD, 1.0]] * 2, [0, 1]),
        (np.array([[WORD, CANARY]] * 2, dtype=object), [0, 1]), (rows, [CANARY]), (rows, None),
        (rows, [[CANARY, 1.0]] * 2), (rows, [{WORD: 1}, [CANARY]]), (rows, [CANARY + 1j, 1.0]),
        ([[CANARY], [1.0, 2.0]], [0, 1]), (np.array(rows) + 1j, [0, 1]),
        (np.ma.masked_array(rows), [0, 1]), (rows, np.ma.masked_array([CANARY, 1.0])),
    ]  # fmt: skip
    raised = 0
    for estimator in makers():
        for X, y in wrong:
            try:
                estimator.fit(X, y)
            except Exception as error:
                raised += 1
                clean(f"{error!r} {error.__cause__!r}")
        for y in ([WORD, "other"], [CANARY, 2.0], [WORD, WORD]):
            try:
                estimator.fit(rows, y)
            except Exception as error:
                clean(f"{error!r} {error.__cause__!r}")
    assert raised >= 30


@pytest.mark.filterwarnings("ignore:fit.. starts a new")
def test_representations_of_scikit_learns_estimators(caplog):
    caplog.set_level(logging.DEBUG)
    for estimator in (
        sklearn.PrivateOnlineClassifier(
            budget=BUDGET, classes=(0, 1, 2), horizon=50, radius=1.0, feature_bound=1.0
        ),
        sklearn.PrivateOnlineRegressor(budget=BUDGET, horizon=50, radius=1.0, **BOUNDS),
    ):
        estimator.partial_fit([[CANARY, 0.0]] * 2, [0, 1])
        texts = (repr(estimator), str(estimator), estimator._repr_html_(), str(vars(estimator)))
        for text in (*texts, str(estimator.get_params()), repr(estimator.guarantee_)):
            clean(text)
        assert np.float64(CANARY).tobytes() not in pickle.dumps(estimator)
    assert not caplog.records


@pytest.mark.parametrize("learner", ["tree_frank_wolfe", "coupled_regularized_leader"])
def test_river_estimators(learner, caplog):
    from river import base
    from river.base import viz

    caplog.set_level(logging.DEBUG)
    model = river.PrivateClassifier(
        ("a", "b"), horizon=500, budget=BUDGET, learner=learner, feature_bound=1.0
    )
    before = repr(model)
    with base.base.log_method_calls():
        model.learn_one({"a": CANARY, WORD: 1.0}, True)
        model.predict_one({"a": CANARY, WORD: 1.0})
    for record in caplog.records:  # names of methods
        clean(record.getMessage())
    assert repr(model) == before
    for text in (
        before,
        str(model),
        str(viz.to_html(model)),
        str(vars(model)),
        model._memory_usage,
    ):
        clean(text)
    for x, y in (({"a": WORD}, True), ({"a": [CANARY]}, True), ({"a": {WORD: 1}}, True)):
        for call in (lambda x=x: model.predict_one(x), lambda x=x, y=y: model.learn_one(x, y)):
            with pytest.raises(TypeError) as error:
                call()
            clean(f"{error.value!r} {error.value.__cause__!r}")
    with pytest.raises(TypeError, match="got a text") as error:
        model.learn_one({"a": 0.1}, WORD)
    clean(str(error.value))
    model.learn_one({"a": 0.1}, CANARY)
    assert model.round == 2


def test_neither_noise_nor_records_are_in_a_pickle():
    options = {"learner": "coupled_regularized_leader", "horizon": 1000, "budget": BUDGET}
    options |= {"feature_bound": 1.0}
    ours = river.PrivateClassifier(("a", "b", "c"), seed=7, **options)
    ours.learn_one({"b": CANARY}, True)
    theirs = sklearn.PrivateOnlineClassifier(classes=(False, True), random_state=7, **options)
    theirs.partial_fit([[CANARY, 0.0, 0.0]], [True])
    for model in (ours, theirs):
        state, data = model.learner_._engine.state(), pickle.dumps(model)
        for secret in (dpoco.random.Source.seeded(7)._key, np.float64(CANARY).tobytes()):
            assert secret in state  # there is something to hide
            assert secret not in data


def test_policies():
    policy = river.PrivateContextualBandit(
        ("x", "y"), ("a", "b"), horizon=500, budget=BUDGET, context_bound=1.0, reward_bound=1.0
    )
    context = {"a": CANARY, "b": 0.5}
    before = repr(policy)
    arm = policy.pull(("x", "y"), context)
    bad = (
        lambda: policy.update(arm, {"a": WORD}, CANARY),
        lambda: policy.update(arm, context, WORD),
        lambda: policy.update(WORD, context, CANARY),
        lambda: policy.pull(("x", "y"), {"a": CANARY / 2.0}),
    )
    for call in bad:
        with pytest.raises((ValueError, TypeError, dpoco.DpocoError)) as error:
            call()
        clean(f"{error.value!r} {error.value.__cause__!r}")
    assert repr(policy) == before
    clean(before)


@pytest.mark.parametrize("library", ["river", "sklearn"])
def test_an_absent_library_names_the_extra(library):
    program = (
        f"import sys; sys.modules['{library}'] = None\n"
        "import dpoco\n"
        f"try: dpoco.adapters.{library}\n"
        "except ImportError as error: print(error.name, error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith(library)
    assert 'pip install "dpoco[adapters]"' in result.stdout


def test_names_of_the_package():
    assert {"river", "sklearn"} <= set(dir(dpoco.adapters))
    with pytest.raises(AttributeError, match="no attribute"):
        _ = dpoco.adapters.nothing
