"""Crafted state files of learners: with checksums that fit, and contents that cannot be."""

from __future__ import annotations

import base64
import copy
import dataclasses
import io
import pickle

import local_cases as cases
import numpy as np
import pytest
from local_cases import FA, FC, build, play

import dpoco
from dpoco.errors import StateError
from dpoco.learning.state import pack, unpack
from dpoco.local import (
    DistributionLearner,
    Hypotheses,
    LocalHypothesisSelector,
    LossQuery,
    RoundSpec,
    ThresholdQuery,
)


def taken_apart(learner):
    header, payload = unpack(learner._to_bytes())
    with np.load(io.BytesIO(payload)) as stored:
        return header, {name: stored[name] for name in stored.files}


def refused(header, arrays, hypotheses=None):
    payload = io.BytesIO()
    np.savez(payload, **arrays)
    with pytest.raises(StateError):
        DistributionLearner._from_bytes(pack(header, payload.getvalue()), hypotheses)


def with_spec(header, change):
    record = header["object"]["rounds"][0]
    spec = change(RoundSpec.from_bytes(base64.b64decode(record["spec"])))
    text = base64.b64encode(spec.to_bytes()).decode()
    rounds = [{**record, "spec": text}, *header["object"]["rounds"][1:]]
    return {**header, "object": {**header["object"], "rounds": rounds}}


SELECTORS = {
    "selector, bit": {"channel": "bit"},
    "selector, subset": {"channel": "subset", "subset_size": 2},
    "selector, auto": {},
}


def made(kind):
    """A server with reports, and functions that give it more and say all that they change."""
    if kind not in SELECTORS:
        learner = play(build(kind, open_rounds=3), 5)
        return learner, learner.round_spec()
    selector = LocalHypothesisSelector(FC, epsilon=1.0, public_seed=7, **SELECTORS[kind])
    for number in (1, 2, 5):
        spec = selector.round_spec(number)
        take(selector, spec, cases.report(spec, *cases.answers(spec)[0]))
    return selector, spec


def take(server, spec, report):
    return server.update(report) if isinstance(server, LocalHypothesisSelector) else server.update(
        spec, report
    )  # fmt: skip


@pytest.mark.parametrize("kind", [*cases.KINDS, *SELECTORS])
def test_files_pickles_and_copies_go_on_bit_for_bit(kind, tmp_path):
    server, spec = made(kind)
    seen, late = (cases.report(spec, *cases.answers(spec)[0]) for _ in range(2))
    take(server, spec, seen)
    server.save(tmp_path / "state")
    twins = [
        dpoco.load(tmp_path / "state"),
        type(server).load(tmp_path / "state", Hypotheses(FC)),
        pickle.loads(pickle.dumps(server)),
        copy.deepcopy(server),
        copy.copy(server),
    ]
    for twin in twins:
        assert twin._to_bytes() == server._to_bytes()
        assert twin.get_params()["epsilon"] == 1.0
        with pytest.raises(ValueError, match="duplicated"):
            take(twin, spec, seen)
    take(server, spec, late)
    expected = server._to_bytes()
    for twin in twins:
        take(twin, spec, late)
        assert twin._to_bytes() == expected
        if kind in SELECTORS:
            np.testing.assert_array_equal(twin.information(), server.information())


@pytest.mark.parametrize("kind", ["auto", "selector, auto"])
def test_damage_is_refused(kind, tmp_path):
    server, _ = made(kind)
    data, rng = server._to_bytes(), np.random.default_rng(0)

    def loads(contents):
        (tmp_path / "state").write_bytes(contents)
        return dpoco.load(tmp_path / "state")

    for _ in range(50):
        broken = bytearray(data)
        broken[rng.integers(len(broken))] ^= 1 << int(rng.integers(8))
        with pytest.raises(StateError):
            loads(broken)
    header, payload = unpack(data)
    for change in (
        {"public_seed": -1}, {"arguments": {}}, {"hypotheses": {"fingerprint": "00" * 16}},
        {"simulated": 0},
        *([{"rounds": 3}, {"round": -1}, {"reports": -2}] if kind == "auto" else []),
    ):  # fmt: skip
        body = {**header, "object": {**header["object"], **change}}
        with pytest.raises(StateError):
            loads(pack(body, payload))
    with pytest.raises(StateError):
        loads(pack(header, payload[:-7]))
    other = LocalHypothesisSelector if kind == "auto" else DistributionLearner
    with pytest.raises(StateError, match="not of a"):
        other._from_bytes(data)


def test_selectors_with_impossible_counts():
    selector = LocalHypothesisSelector(FC, epsilon=1.0)
    again = LocalHypothesisSelector._from_bytes(selector._to_bytes())
    assert again.public_seed == selector.public_seed
    selector.reports, selector._answered = 5, {1: 5}  # and no nonces
    with pytest.raises(StateError, match="impossible"):
        LocalHypothesisSelector._from_bytes(selector._to_bytes())


# Arguments as states of earlier versions have them, and as they are called now.
EARLIER = [
    ({"temperature": 0.5, "query": "adaptive", "interactive": True, "channel": "bit"},
     {"learning_rate": 0.5, "interactive": True, "channel": "bit"}),
    ({"learner": "hedge", "eta": 0.01, "sampling": "adaptive", "interactive": True,
      "query": "loss", "channel": "bit"},
     {"learner": "hedge", "learning_rate": 0.01, "interactive": True}),
]  # fmt: skip


@pytest.mark.parametrize(("earlier", "given"), EARLIER, ids=str)
def test_states_of_earlier_versions_are_read(earlier, given):
    learner = DistributionLearner(Hypotheses(FC), epsilon=1.0, public_seed=3, **given)
    learner.round_spec()
    header, payload = unpack(learner._to_bytes())
    arguments = header["object"]["arguments"]
    del arguments["learning_rate"]
    arguments |= {"channel": "auto", "temperature": 0.75, "eta": None, "sampling": "uniform",
                  "sensitivity": "round", "noise": None, "delta": None,
                  "max_message_bits": 4096, **earlier}  # fmt: skip
    again = DistributionLearner._from_bytes(pack(header, payload))
    assert again.settings == learner.settings
    assert again._to_bytes() == DistributionLearner._from_bytes(again._to_bytes())._to_bytes()
    assert again.round_spec() == learner.round_spec()


@pytest.mark.parametrize(
    "former",
    [{"learner": "paper_exp3"}, {"noise": "laplace"}, {"delta": 1e-6}, {"max_message_bits": 64}],
    ids=str,
)
def test_states_of_former_learners_are_not_read(former):
    header, payload = unpack(build("hedge", horizon=9)._to_bytes())
    arguments = header["object"]["arguments"]
    del arguments["learning_rate"]
    arguments |= {"temperature": 0.75, "eta": None, "sampling": "uniform", "sensitivity": "round",
                  "noise": None, **former}  # fmt: skip
    with pytest.raises(StateError, match=r"refused|no longer"):
        DistributionLearner._from_bytes(pack(header, payload))


def test_states_with_rounds_that_were_opened_together_are_not_read():
    header, payload = unpack(build("bit")._to_bytes())
    header["object"]["blocks"] = [[1, 5]]
    with pytest.raises(StateError, match="no longer"):
        DistributionLearner._from_bytes(pack(header, payload))


def test_callables_under_private_contexts_are_saved():
    hypotheses = Hypotheses(lambda x: np.roll(FC, x, axis=1), 4, 6)
    learner = play(
        DistributionLearner(
            hypotheses, epsilon=1.0, learner="hedge", protect="label_and_context", open_rounds=3
        ),
        5,
    )
    again = DistributionLearner._from_bytes(learner._to_bytes(), hypotheses)
    assert again._to_bytes() == learner._to_bytes()


@pytest.mark.parametrize("kind", ["bit", "hedge", "auto"])
def test_impossible_counts(kind):
    header, arrays = taken_apart(play(build(kind, open_rounds=3, horizon=100), 5))
    body = header["object"]
    for change in (
        {"round": 4.0}, {"round": True}, {"round": 4}, {"round": 101}, {"round": 9},
        {"reports": 3}, {"reports": "10"}, {"reports": 10.0}, {"simulated": "no"},
        {"simulated": 0}, {"rounds": [body["rounds"][0]] * 2},
        {"rounds": body["rounds"][::-1]}, {"blocks": [[1, 3]]}, {"blocks": 3},
    ):  # fmt: skip
        refused({**header, "object": {**body, **change}}, arrays)
    if kind != "hedge":  # which may have skipped reports
        refused({**header, "object": {**body, "reports": 11}}, arrays)


def test_impossible_nonces():
    header, arrays = taken_apart(play(build("bit", open_rounds=3), 5))
    name = "nonces.0"
    for nonces in (
        np.array([1.0, 2.0]), np.array([[1, 2]], dtype=np.uint64), np.array([5, 6]),
        np.array([7, 7], dtype=np.uint64), np.arange(99, dtype=np.uint64),
    ):  # fmt: skip
        refused(header, {**arrays, name: nonces})


def test_foreign_rounds():
    header, arrays = taken_apart(play(build("bit", open_rounds=3), 5))
    other = ThresholdQuery([1.0, 2.0, 3.0, -4.0])
    for change in (
        lambda s: dataclasses.replace(s, queries=(other,)),
        lambda s: dataclasses.replace(s, queries=(*s.queries, other)),
        lambda s: dataclasses.replace(s, epsilon=2.0),
        lambda s: dataclasses.replace(s, fingerprint=bytes(15) + b"1"),
        lambda s: dataclasses.replace(s, round=5),
    ):
        refused(with_spec(header, change), arrays)


def test_rounds_of_another_size():
    """Also where questions follow weights and cannot be asked again."""
    for given in ({"channel": "bit", "interactive": True}, {"interactive": True}):
        learner = DistributionLearner(Hypotheses(FC), epsilon=1.0, public_seed=3, **given)
        while learner.round_spec().channel != "bit":
            pass
        header, arrays = taken_apart(learner)
        refused(with_spec(header, lambda s: dataclasses.replace(s, queries=s.queries * 2)), arrays)
        refused(
            with_spec(header, lambda s: dataclasses.replace(
                s, queries=(), channel="subset", subset_size=5)), arrays,
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["hedge", "private", "hedge sampling"])
def test_loss_questions_of_another_scale(kind):
    header, arrays = taken_apart(play(build(kind, open_rounds=3), 5))
    for change in (
        {"half_range": 1e300}, {"half_range": float("nan")}, {"half_range": 0.0},
        {"midpoint": 1e9}, {"mixing": 2.0}, {"mixing": float("nan")},
    ):  # fmt: skip

        def crafted(spec, change=change):
            names = ("index", "midpoint", "half_range", "mixing")
            own = {name: getattr(spec.query, name) for name in names}
            return dataclasses.replace(spec, queries=(LossQuery(**(own | change)),))

        refused(with_spec(header, crafted), arrays)


def test_impossible_chances():
    header, arrays = taken_apart(play(build("hedge", open_rounds=3), 5))
    for name, value in (
        ("rule.shares", np.array([0.25, 0.25, 1e-9])), ("rule.shares", np.array([0.25] * 2)),
        ("rule.shares", np.array([0.25, 0.25, np.nan])), ("rule.rounds", np.array([7, 8, 9])),
        ("rule.cost", np.array([np.inf])), ("rule.cost", np.array([np.nan])),
    ):  # fmt: skip
        refused(header, {**arrays, name: value})


def test_arrays_of_contexts_belong_to_callables():
    header, arrays = taken_apart(play(build("bit", open_rounds=3), 5))
    payload = io.BytesIO()
    np.savez(payload, **arrays, **{"matrix.0": np.roll(FC, 1, axis=1)})
    learner = DistributionLearner._from_bytes(pack(header, payload.getvalue()))
    assert all(opened.matrix is learner.hypotheses.matrix() for opened in learner._open.values())
    asked = []
    hypotheses = Hypotheses(lambda x: asked.append(x) or FA, 3, 4)
    learner = DistributionLearner(hypotheses, epsilon=1.0, public_seed=1)
    learner.round_spec(5)
    header, arrays = taken_apart(learner)
    del arrays["matrix.0"]
    refused(header, arrays, hypotheses)
    assert asked == [5]
