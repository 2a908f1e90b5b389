"""Private contexts: reports that protect label and context, and predictions on the device."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from local_cases import FA, bit_spec, coordinate_spec, fixed, refused, subset_spec

from dpoco.local import (
    DevicePredictor,
    HadamardQuery,
    Hypotheses,
    LocalClient,
    LossQuery,
    RoundSpec,
    ThresholdQuery,
)
from dpoco.local._bounds import loss_diameter
from dpoco.local._randomizers import _values, bit_randomizer


def test_only_coordinates_protect_contexts():
    client = LocalClient(fixed(FA), 10.0, protect="label_and_context")
    refused(client, bit_spec(FA), ValueError, x=None, y=1)
    refused(client, subset_spec(FA, 1), ValueError, x=None, y=1)
    client.respond(coordinate_spec(FA), None, 1)
    assert "Label and context are protected" in str(client.guarantee)
    assert "context of every round is disclosed" in str(LocalClient(fixed(FA), 1.0).guarantee)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 4.0, 29.9])
def test_private_contexts_are_protected_for_any_pair(epsilon):
    """Worst-case range: the extremes are reached, and no pair (x, y) goes beyond them."""
    k, mixing = 5, 0.02
    randomizer, half = bit_randomizer(epsilon, 1), loss_diameter(5, 0.02) / 2
    rng = np.random.default_rng(1)
    columns = [rng.dirichlet(np.full(k, 0.05)) for _ in range(300)] + [np.eye(k)[0]]
    columns += [np.zeros(k), np.full(k, 1e-320), np.array([1e308] * k), np.full(k, math.nan)]
    seen = []
    for j, column in itertools.product(range(k), columns):
        query = LossQuery(j, 0.0, half, mixing)
        seen.append(randomizer.threshold(query.phi(column, 0, 2)))
    assert min(seen) >= randomizer.low
    assert max(seen) <= randomizer.high
    extreme = np.eye(k)[0]
    for j, end in ((0, randomizer.low), (1, randomizer.high)):
        k_found = randomizer.threshold(LossQuery(j, 0.0, half, mixing).phi(extreme, 0, 2))
        assert abs(k_found - end) <= 2
    with mpmath.workdps(60):
        worst = max(Fraction(max(seen), min(seen)),
                    Fraction(2**53 - min(seen), 2**53 - max(seen)))  # fmt: skip
        assert mpmath.mpf(worst.numerator) / worst.denominator <= mpmath.exp(mpmath.mpf(epsilon))


def broken_likelihoods(x, y):
    if y == "crash":
        raise RuntimeError("the label is 'crash'")
    if y == "shape":
        return [1.0]
    if y == "text":
        return ["a", "b", "c"]
    return [1.0, 2.0, math.inf if y == "inf" else 0.5]


def test_failures_on_private_data_look_like_any_report():
    hypotheses = Hypotheses(broken_likelihoods, hypotheses=3)
    spec = RoundSpec(1, "coordinate", 1.0, 3, None, queries=(LossQuery(1, 0.0, 2.0, 0.1),))
    sizes = set()
    for protect in ("label", "label_and_context"):
        for y in ("fine", "crash", "shape", "text", "inf", None):
            client = LocalClient(hypotheses, 1.0, protect=protect)
            sizes.add(len(client.respond(spec, "context", y).to_bytes()))
            assert client.spent == 1.0
    assert len(sizes) == 1
    table = Hypotheses(np.stack([FA, FA[::-1]]))
    client = LocalClient(table, 1.0, protect="label_and_context")
    client.respond(coordinate_spec(FA), "no such context", 1)
    assert client.spent == 1.0


def test_device_predictions():
    weights = np.array([0.5, 0.3, 0.2])
    prediction = DevicePredictor(fixed(FA)).predict(weights)
    np.testing.assert_allclose(prediction.all(), weights @ FA, rtol=1e-14)
    mixed = DevicePredictor(fixed(FA)).predict(weights, mixing=0.25)
    np.testing.assert_allclose(mixed.all(), 0.75 * weights @ FA + 0.25 * FA.mean(axis=0),
                               rtol=1e-14)  # fmt: skip
    table = Hypotheses(np.stack([FA, FA[::-1]]))
    np.testing.assert_allclose(DevicePredictor(table).predict(weights, 1).all(),
                               weights @ FA[::-1], rtol=1e-14)  # fmt: skip
    density = Hypotheses(lambda x, y: [x, 2.0 * y, 1.0], hypotheses=3)
    assert DevicePredictor(density).predict(weights, 4.0).prob(3.0) == pytest.approx(4.0)
    sent = weights.astype(np.float32)
    assert DevicePredictor(fixed(FA)).predict(sent).all().sum() == pytest.approx(1.0, abs=1e-12)
    for bad in ([0.5, 0.5, 0.5], [1.5, -0.5, 0.0], [math.nan, 0.5, 0.5], [1.0, 0.0]):
        with pytest.raises(ValueError, match="weights"):
            DevicePredictor(fixed(FA)).predict(bad)


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        (LossQuery(1, 0.0, 2.0, 0.1), None),
        (LossQuery(1, 0.0, 2.0, 0.1), 4),
        (ThresholdQuery([1.0, 0.5, -1.0]), 4),
        (HadamardQuery(3), 4),
    ],
)
def test_no_label_is_evaluated_like_any(query, labels, monkeypatch):
    """The same work for no event: else its time would tell."""
    calls = []
    original = type(query).values_at

    def counted(self, columns, indices):
        calls.append(columns.shape)
        return original(self, columns, indices)

    monkeypatch.setattr(type(query), "values_at", counted)
    work = []
    for label, column in ((1, [0.2, 0.3, 0.5]), (None, [0.0] * 3), (99, [0.0] * 3)):
        calls.clear()
        value = query.phi(np.array(column), label, labels)
        work.append(list(calls))
        assert (value != 0.0) == (label == 1)
    assert work[0]
    assert all(own == work[0] for own in work)


def likelihoods(x, y):
    """As FA has them, with contexts that turn the labels; a label of text has none."""
    return FA[:, (int(y) + int(x or 0)) % 4]


LIKELIHOOD = Hypotheses(likelihoods, hypotheses=3)
TABLE = Hypotheses(np.stack([FA, FA[:, ::-1]]))
OWN = [0, 1, 1, 0, 1, 0]
CASES = {  # hypotheses, what spec is made of, context or contexts, protection, likelihoods of all
    "array": (fixed(FA), FA, None, "label", FA),
    "table": (TABLE, FA, 1, "label", FA[:, ::-1]),
    "callable": (Hypotheses(lambda x: FA[:, ::-1], hypotheses=3, labels=4), FA, 0, "label",
                 FA[:, ::-1]),
    "table, own contexts": (TABLE, FA, OWN, "label_and_context", FA),
    "table, no context": (TABLE, FA, None, "label_and_context", np.zeros((3, 4))),
    "likelihood": (LIKELIHOOD, None, 0, "label", FA),
    "likelihood, no context": (LIKELIHOOD, None, None, "label_and_context", FA),
    "one label": (fixed(np.ones((3, 1))), np.ones((3, 1)), None, "label", np.ones((3, 1))),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "family"),
    [(name, family) for name, case in CASES.items() for family in ("loss", "threshold", "hadamard")
     if family != "hadamard" or (case[1] is not None and case[1].shape[1] > 1)],
)  # fmt: skip
def test_any_number_of_labels_meet_the_values_each_has_alone(name, family):
    """The thresholds behind the bits, whether by tables, columns or one by one."""
    for count in [0, 1, 3, 6]:
        hypotheses, matrix, x, protect, all_of_it = CASES[name]
        labels, count_of = (
            [2, 0, None, 3, 99, 1][:count],
            None if matrix is None else matrix.shape[1],
        )
        query = {"loss": LossQuery(1, 0.0, 2.0, 0.1), "hadamard": HadamardQuery(1),
                 "threshold": ThresholdQuery([1.0, 0.5, -1.0])}[family]  # fmt: skip
        spec = RoundSpec(1, "bit", 1.0, 3, count_of, queries=(query,))
        own = x[:count] if isinstance(x, list) else x
        ((values, places),) = _values(spec, hypotheses, own, labels, protect)
        assert len(places) == count
        for at, y in enumerate(labels):
            inside = y is not None and (count_of is None or y < count_of)
            turned = all_of_it[:, ::-1] if isinstance(x, list) and x[at] else all_of_it
            column = turned[:, y % turned.shape[1]] if inside else np.zeros(3)
            silent = not inside or count_of == 1
            alone = 0.0 if silent else query.phi(np.ascontiguousarray(column), y, count_of)
            assert values[places[at]] == alone
