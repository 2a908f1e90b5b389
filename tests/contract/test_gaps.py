"""Gaps of every kind are missing values wherever records come in: none decides over an exception.

A record with a gap does what the same record with NaN does, and texts, dates and complex numbers
are of another type, which raises with gaps and without.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import dpoco
from dpoco import bandits, experts, local, losses, mechanisms, oco
from dpoco._validation import float_array, is_missing, number
from dpoco.domains import LpBall
from dpoco.random import Source

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
BUDGET = dpoco.Budget(10.0, 1e-6)
D = 3
GAPS = {
    "None": None, "NA": pandas.NA, "NaT": pandas.NaT, "NaN": float("nan"),
    "single NaN": np.float32("nan"), "decimal NaN": Decimal("NaN"),
    "signalling NaN": Decimal("sNaN"), "masked": np.ma.masked,
    "date NaT": np.datetime64("NaT", "s"), "span NaT": np.timedelta64("NaT", "s"),
}  # fmt: skip
WRONG = {
    "text": "0.5", "bytes": b"0.5", "complex": 0.5 + 0j, "date": pandas.Timestamp("2026-01-01"),
    "day": datetime.date(2026, 1, 1), "list": [0.5], "object": object(),
}  # fmt: skip
gaps = pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS)
wrong = pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)


def options():
    return {"horizon": 400, "budget": BUDGET, "source": Source.seeded(1)}


def sgd():
    return oco.NoisyFTRL(LpBall(D), losses.SquaredLoss(1.0, 1.0), **options())


def observed(record, label=0.5):
    learner = sgd()
    learner.decide()
    learner.observe(record, label)
    return learner.last_decision


def linear(record):
    learner = oco.NoisyFTRL(LpBall(D), losses.LinearLoss(1.0), **options())
    learner.decide()
    learner.observe(record)
    return learner.last_decision


def many(record, label=0.5):
    return sgd().run([record, record], [label, label]).losses


def ticketed(record):
    learner = sgd()
    _, ticket = learner.decide(ticket=True)
    learner.observe(record, 0.5, ticket=ticket)
    return learner.last_decision


def advice(record):
    learner = experts.PrefixHedge(D, loss_range=(0.0, 1.0), **options())
    learner.decide()
    learner.observe(record)
    return learner.weights


def advice_many(record):
    return experts.PrefixHedge(D, loss_range=(0.0, 1.0), **options()).run([record]).losses


def arms(record):
    learner = bandits.LinUCB(2, D, batch=1, **BOUNDED, **options())
    learner.decide(record)
    learner.observe(1.0)
    return learner.coefficients


def sums(record):
    return mechanisms.ContinualSum(D, bound=1.0, **options()).push(record)


def sums_many(record):
    return mechanisms.ContinualSum(D, bound=1.0, **options()).run([record, record])


def scores(record):
    return mechanisms.NoisyMax(D, sensitivity=1.0, **{**options(), "horizon": 1}).select(record)


BOUNDED = {"context_bound": 1.0, "reward_bound": 1.0}
INTAKES = (observed, linear, many, ticketed, advice, advice_many, arms, sums, sums_many, scores)
intakes = pytest.mark.parametrize("intake", INTAKES, ids=lambda each: each.__name__)


@intakes
@gaps
def test_a_gap_does_what_nan_does(intake, gap):
    want = intake([0.1, float("nan"), 0.2])
    for record in ([0.1, gap, 0.2], np.array([0.1, gap, 0.2], dtype=object)):
        assert np.array_equal(intake(record), want)


@intakes
@wrong
def test_a_wrong_type_raises_with_gaps_and_without(intake, value):
    for record in ([0.1, value, 0.2], [None, value, pandas.NA]):
        with pytest.raises((TypeError, ValueError)) as error:
            intake(record)
        assert "0.1" not in str(error.value)


@gaps
def test_labels_and_rewards(gap):
    nan = float("nan")
    assert np.array_equal(observed([0.1, 0.3, 0.2], gap), observed([0.1, 0.3, 0.2], nan))
    assert np.array_equal(many([0.1, 0.3, 0.2], gap), many([0.1, 0.3, 0.2], nan))
    found = []
    for reward in (gap, nan):
        learner = bandits.LinUCB(2, D, batch=1, **BOUNDED, **options())
        learner.decide([0.1, 0.3, 0.2])
        learner.observe(reward)
        _, ticket = learner.decide([0.1, 0.3, 0.2], ticket=True)
        learner.observe(reward, ticket=ticket)
        found.append(learner.coefficients)
    assert np.array_equal(*found)
    watches = [
        mechanisms.AboveThreshold(sensitivity=1.0, **{**options(), "budget": dpoco.Budget(1.0, 0)})
        for _ in range(2)
    ]
    assert watches[0].test(gap, threshold=5.0) == watches[1].test(nan, threshold=5.0)


def test_a_label_that_is_left_out_is_no_gap():
    learner = sgd()
    learner.decide()
    with pytest.raises(TypeError, match="label is required"):
        learner.observe([0.1, 0.2, 0.3])
    with pytest.raises(TypeError, match="features must"):
        learner.observe(None, 0.5)
    assert learner.round == 0


def frame(kind, gap):
    """Three columns of a dtype, whose entries are 0 and 1 but for one that may be a gap."""
    columns = {"a": [1, 0, 1], "b": [0, gap, 1], "c": [0, 0, 1]}
    if "bool" in str(kind):
        columns = {name: [None if v is None else bool(v) for v in c] for name, c in columns.items()}
    if "decimal" in str(kind):
        columns = {name: [v and Decimal(v) for v in c] for name, c in columns.items()}
    return pandas.DataFrame({name: pandas.Series(c, dtype=kind) for name, c in columns.items()})


KINDS = ("float64", "Float64", "Int64", "boolean", "float32", "object", "category",
         *map(pandas.ArrowDtype, (pyarrow.float64(), pyarrow.int8(), pyarrow.bool_(),
                                  pyarrow.decimal128(6, 2))))  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_frames_of_every_dtype(kind):
    wanted = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    assert np.array_equal(float_array("X", frame(kind, 1), (None, 3)), wanted)
    broken = frame(kind, None)
    wanted[1, 1] = np.nan
    assert np.array_equal(float_array("X", broken, (None, 3)), wanted, equal_nan=True)
    for row, want in zip(broken.itertuples(index=False), wanted, strict=True):
        assert np.array_equal(float_array("x", row, (3,)), want, equal_nan=True)
    column = float_array("y", broken["b"], (None,))
    assert np.array_equal(column, wanted[:, 1], equal_nan=True)


def test_masked_arrays_in_all_places():
    rows = np.ma.masked_array([[1, 2, 3], [4, 5, 6]], mask=[[0, 1, 0], [0, 0, 0]])
    want = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0]])
    for given in (rows, list(rows), tuple(rows), rows.astype(object), rows.astype(np.float32)):
        assert np.array_equal(float_array("rows", given, (2, 3)), want, equal_nan=True)
    assert np.array_equal(rows.data, [[1, 2, 3], [4, 5, 6]])  # is not written to
    doubles = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    assert np.array_equal(float_array("row", doubles, (2,)), [np.nan, 2.0], equal_nan=True)
    assert doubles.data[0] == 1.0


def test_numbers():
    assert number("x", Decimal("0.25")) == number("x", Fraction(1, 4)) == 0.25
    assert number("x", Decimal("-1e400")) == -np.inf
    assert number("x", np.array(Decimal(2))) == 2.0
    assert not any(map(is_missing, (0.0, 0, "", "nan", np.array([np.nan]), Decimal(0), [])))
    with pytest.raises(TypeError, match="a real number; got str"):
        number("x", "nan")


def test_devices_take_gaps_for_labels_that_do_not_exist():
    def likelihoods(x, y):
        return np.array([1.0, 2.0]) * float(y)

    hypotheses = local.Hypotheses(likelihoods, 2)
    for gap in GAPS.values():
        assert np.array_equal(hypotheses.column(None, gap), [0.0, 0.0])
