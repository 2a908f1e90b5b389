"""A model as an ONNX file predicts what the model predicts, and carries its guarantee."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import dpoco
from dpoco.datasets import Schema

onnx = pytest.importorskip("onnx", reason="onnx is not installed: exported models are not run")


def made(**changes) -> dpoco.Model:
    learner = dpoco.oco.NoisyNewton(
        dpoco.domains.LpBall(3, 2.0, 4.0),
        dpoco.losses.LogisticLoss(feature_bound=1.3),
        horizon=5000,
        budget=dpoco.Budget(4.0, 1e-6),
    )
    rng = np.random.default_rng(1)
    learner.run(rng.uniform(-1.0, 1.0, (3000, 3)), rng.integers(0, 2, 3000))
    schema = Schema(
        features=("age", "price"), ranges=((0.0, 100.0), (-1e6, 3e6)), intercept=True,
        task="classification", label="bought", label_range=None,
    )  # fmt: skip
    return dataclasses.replace(dpoco.Model.of_schema(learner, schema), **changes)


RECORDS = np.array(
    [[50.0, 1e6], [0.0, -1e6], [1e9, -1e9], [np.nan, 0.0], [3.0, np.inf], [33.3, 12345.6]]
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"intercept": False, "decision": (0.5, -2.0), "covariance": None},
        {"task": "regression", "label_range": (-5.0, 20.0)},
        {"task": "regression", "label_range": None, "decision": (3.0, -2.0, 1.0)},
        {"record_bounds": ((None, 0.5), (2.0, 0.9))},
        {"record_bounds": ((1.0, 0.7),)},
        {"record_bounds": ((3.0, 0.7),)},
        {"record_bounds": ((4000.0, 0.3),)},  # powers of it underflow
        {"record_bounds": ()},
    ],
)
def test_an_exported_model_predicts_what_the_model_predicts(changes):
    from onnx.reference import ReferenceEvaluator

    model = made(**changes)
    graph = onnx.load_from_string(model.to_onnx())
    (found,) = ReferenceEvaluator(graph).run(None, {"records": RECORDS})
    assert found.shape == (len(RECORDS),)
    assert np.allclose(found, model.predict(RECORDS), rtol=1e-12, atol=1e-15, equal_nan=True)
    kept = {each.key: each.value for each in graph.metadata_props}
    assert dpoco.Model.from_dict(json.loads(kept["model"])) == model
    assert "epsilon = 4" in kept["guarantee"]


def test_without_onnx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"dpoco\[onnx\]"):
        made().to_onnx()


def test_norms_of_large_exponents_do_not_underflow():
    from dpoco.learning.model import record_lengths

    rows = np.array([[0.0, 0.0], [0.4, -0.3], [1e-200, 0.0]])
    assert np.allclose(record_lengths(rows, 4000.0), [0.0, 0.4, 1e-200], rtol=1e-12)
    assert np.allclose(record_lengths(rows[:2], 3.0), np.linalg.norm(rows[:2], ord=3.0, axis=1))
