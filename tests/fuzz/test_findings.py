"""What fuzzing has found: each was a crash, a hang, an absurd allocation or a wrong exception."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from tests.oco import conftest as _problems

import dpoco
from dpoco.accounting.ledger import Ledger
from dpoco.experts import PrefixHedge
from dpoco.learning import state as _state
from dpoco.local import DistributionLearner, Hypotheses, LocalHypothesisSelector
from dpoco.local._server import read_arrays
from dpoco.losses import LogisticLoss
from dpoco.oco import ContinuousMultiplicativeWeights
from dpoco.random import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpoco.NoiseDominatesWarning")


def test_records_nested_without_end():
    for read in (dpoco.Guarantee.from_json, Ledger.from_json):
        with pytest.raises(dpoco.StateError):
            read("[" * 200_000)


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": "5"}, {"horizon": []}, {"horizon": True}, {"claimed": []}, {"claimed": [1.0]},
        {"claimed": [0.5, "x"]}, {"details": {"a": {}}}, {"details": {"a": 10**400}},
        {"details": [["a", 1.0]]}, {"epsilon": 10**400}, {"conditions": "abc"},
        {"conditions": [1]}, {"mechanism": None}, {"certified": "no"}, {"unit": 3},
    ],
)  # fmt: skip
def test_guarantees_of_other_types(change):
    learner = PrefixHedge(3, horizon=9, budget=dpoco.Budget(1.0, 1e-5))
    record = {**json.loads(learner.guarantee.to_json()), **change}
    with pytest.raises(dpoco.StateError):
        dpoco.Guarantee.from_json(json.dumps(record))


def test_what_cannot_be_called_is_refused_before_a_round_is_played():
    learner = PrefixHedge(3, horizon=9, budget=None)
    with pytest.raises(TypeError, match="progress must be callable; got int"):
        learner.run(np.zeros((4, 3)), progress=5)
    assert learner.round == 0


def archive(way, **entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", way) as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return out.getvalue()


def npy(shape, content):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return out.getvalue() + content


def test_arrays_of_a_state_are_no_larger_than_it():
    stored, packed = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    assert read_arrays(archive(stored, a=npy((2,), bytes(16))))["a"].tolist() == [0.0, 0.0]
    for payload in (
        archive(packed, a=npy((2**20,), bytes(2**23))),
        archive(stored, a=npy((2**60,), bytes(16))),
        archive(stored, a=npy((2**60, 2**60), bytes(16))),
        archive(stored, a=npy((-2,), bytes(16))),
    ):
        with pytest.raises(dpoco.StateError):
            read_arrays(payload)
    hypotheses = Hypotheses(np.array([[0.5, 0.5], [0.9, 0.1]]))
    for server in (
        DistributionLearner(hypotheses, epsilon=1.0),
        LocalHypothesisSelector(hypotheses, epsilon=1.0),
    ):
        data = server.__reduce__()[1][0]
        header, _ = _state.unpack(data)
        bomb = archive(packed, hypotheses=npy((2**20,), bytes(2**23)))
        with pytest.raises(dpoco.StateError, match="compressed"):
            type(server)._from_bytes(_state.pack(header, bomb))


def weights_state():
    learner = ContinuousMultiplicativeWeights(
        _problems.DOMAINS["ball"], LogisticLoss(1.0), horizon=24, budget=None,
        plan=_problems.parameters("weights dartboard ball logistic"),
        source=Source.seeded(1),
    )  # fmt: skip
    rng = np.random.default_rng(1)
    learner.run(rng.normal(size=(12, 3)), rng.normal(size=12))
    return _state.unpack(learner._to_bytes())


@pytest.mark.parametrize("value", [-1.6e177, 1e3, 2.0])
def test_records_of_a_state_keep_to_the_declared_bounds(value):
    header, payload = weights_state()
    words = np.frombuffer(payload, dtype="<f8").copy()
    # The rows follow their number, their count of entries and their multiplicities.
    lengths = np.frombuffer(payload, dtype="<u8")
    at = next(
        i for i in range(len(words) - 14)
        if lengths[i] == 12 and lengths[i + 1] == 12 and lengths[i + 14] == 60
    )  # fmt: skip
    words[at + 15] = value
    with pytest.raises(dpoco.StateError, match="beyond the declared bounds"):
        ContinuousMultiplicativeWeights._from_bytes(_state.pack(header, words.tobytes()))


def test_a_number_of_rows_is_believed_only_if_they_are_there():
    header, payload = weights_state()
    words = np.frombuffer(payload, dtype="<u8").copy()
    at = next(i for i in range(len(words) - 1) if words[i] == 12 and words[i + 1] == 12)
    words[at - 1 : at + 2] = 2**58  # rounds, rows, multiplicities
    with pytest.raises(dpoco.StateError):
        ContinuousMultiplicativeWeights._from_bytes(_state.pack(header, words.tobytes()))
