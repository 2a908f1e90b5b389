"""Many rounds at once: the same rounds, reports and states as one by one, bit for bit."""

from __future__ import annotations

import os

import numpy as np
import pytest

import dpoco
from dpoco.errors import HorizonExceeded, RoundOrderError
from dpoco.local import (
    DistributionLearner,
    Hypotheses,
    LocalClient,
    Report,
    RoundReports,
    RoundSpec,
)
from dpoco.local import _rounds as many_module

MATRIX = np.random.default_rng(0).dirichlet(np.full(300, 0.3), size=7)
FAMILIES = ["bisection", "scheffe", "mean_test"]


def server(**more):
    given = {"epsilon": 1.0, "channel": "bit", "public_seed": 11, "open_rounds": 50}
    return DistributionLearner(Hypotheses(MATRIX), **{**given, **more})


def answers(specs, rng, count=None):
    """Random reports to some rounds of a block, in any order."""
    count = len(specs) if count is None else count
    rounds = specs.first + rng.integers(0, len(specs), count)
    return RoundReports(
        rounds,
        specs.digests[rounds - specs.first],
        "bit",
        rng.integers(0, 2**63, count, dtype=np.uint64),
        rng.integers(0, 2, (count, specs[0].width)),
    )


def singles(reports):
    return [
        Report(int(t), int(d).to_bytes(8, "little"), int(n).to_bytes(8, "little"), "bit", tuple(v))
        for t, d, n, v in zip(
            reports.rounds, reports.digests, reports.nonces, reports.values.tolist(), strict=True
        )
    ]


@pytest.mark.parametrize("query", FAMILIES)
@pytest.mark.parametrize("bits", [1, 3])
def test_the_same_as_one_by_one(query, bits, monkeypatch):
    monkeypatch.setattr(many_module, "_ROWS", 16)  # several chunks of digests
    together, alone = (server(query=query, bits=bits, horizon=100) for _ in range(2))
    together.round_spec()
    alone.round_spec()
    specs = together.round_specs(40)
    assert len(specs) == 40
    assert together.round == 41
    expected = [alone.round_spec() for _ in range(40)]
    assert list(specs) == expected
    assert specs[-1] == expected[-1]
    assert specs[3:5] == expected[3:5]
    digests = [int(word).to_bytes(8, "little") for word in specs.digests]
    assert digests == [spec.digest for spec in expected]
    reports = answers(specs, np.random.default_rng(1), 300)
    together.update(specs, reports)
    for report in singles(reports):
        alone.update(expected[report.round - specs.first], report)
    np.testing.assert_array_equal(together._rule.log_likelihoods, alone._rule.log_likelihoods)
    assert together.reports == alone.reports == 300
    assert together.mixing == alone.mixing


def test_devices_answer_them():
    learner = server()
    specs = learner.round_specs(50)
    device = LocalClient(Hypotheses(MATRIX), 1e3, 100)
    reports = [device.respond(spec.to_bytes(), None, i) for i, spec in enumerate(specs)]
    learner.update(specs, reports[:30])
    learner.update(specs, RoundReports.from_reports(reports[30:40]))
    for spec, report in zip(specs[40:], reports[40:], strict=True):
        learner.update(spec, report)
    assert learner.reports == 50
    assert np.ptp(learner.weights) > 0.0
    assert learner.guarantee.certified
    learner.update(specs, [])
    with pytest.raises(ValueError, match="duplicated"):
        learner.update(specs[3], reports[3])
    with pytest.raises(ValueError, match="duplicated"):
        learner.update(specs, reports[45:46])


def test_information_is_tracked():
    together, alone = (server(track_information=True) for _ in range(2))
    specs = together.round_specs(20)
    reports = answers(specs, np.random.default_rng(2))
    together.update(specs, reports)
    expected = [alone.round_spec() for _ in range(20)]
    for report in singles(reports):
        alone.update(expected[report.round - 1], report)
    np.testing.assert_allclose(together.information(), alone.information(), rtol=1e-12)
    assert together.information().max() > 0.0


def changed(reports, **change):
    fields = ("rounds", "digests", "channel", "nonces", "values", "simulated")
    return RoundReports(**{name: getattr(reports, name) for name in fields} | change)


def test_bad_reports_change_nothing():
    learner = server()
    specs = learner.round_specs(20)
    good = answers(specs, np.random.default_rng(3), 30)
    learner.update(specs, good)
    before = learner._rule.state()["engine"].tobytes()
    fresh = answers(specs, np.random.default_rng(4), 30)
    twice = fresh.nonces.copy()
    at = np.flatnonzero(fresh.rounds == fresh.rounds[0])
    if at.size < 2:
        fresh.rounds[1], fresh.digests[1] = fresh.rounds[0], fresh.digests[0]
        at = np.array([0, 1])
    twice[at[1]] = twice[at[0]]
    seen = fresh.nonces.copy()
    seen[np.flatnonzero(fresh.rounds == good.rounds[0])[:1]] = good.nonces[0]
    cases = [
        (changed(fresh, digests=fresh.digests ^ np.uint64(1)), ValueError, "foreign"),
        (changed(fresh, rounds=fresh.rounds + 20), ValueError, "foreign"),
        (changed(fresh, rounds=fresh.rounds - 20), ValueError, "foreign"),
        (changed(fresh, nonces=twice), ValueError, "duplicated"),
        (changed(fresh, values=np.zeros((30, 2), dtype=int)), ValueError, "malformed"),
        (good, ValueError, "duplicated"),
    ]
    if (seen != fresh.nonces).any():
        cases.append((changed(fresh, nonces=seen), ValueError, "duplicated"))
    for reports, error, match in cases:
        with pytest.raises(error, match=match):
            learner.update(specs, reports)
    with pytest.raises(TypeError, match="RoundSpecs"):
        learner.update(list(specs), fresh)
    with pytest.raises(ValueError, match="foreign"):
        learner.update(server(public_seed=12).round_specs(20), fresh)
    other = server(public_seed=12).round_spec()
    with pytest.raises(ValueError, match="foreign"):
        learner.update(other, Report(1, other.digest, os.urandom(8), "bit", (1,)))
    with pytest.raises(ValueError, match="foreign"):
        learner.update(specs[2], Report(2, specs[1].digest, os.urandom(8), "bit", (1,)))
    with pytest.raises(ValueError, match=r"bit|range"):
        changed(fresh, values=fresh.values + 1)
    with pytest.raises(ValueError, match="one round and one digest"):
        changed(fresh, rounds=fresh.rounds[1:])
    assert learner._rule.state()["engine"].tobytes() == before
    assert learner.reports == 30
    learner.update(specs, fresh)
    # The same nonce in another round is no duplicate.
    moved = changed(good, rounds=np.full(30, 7), digests=np.full(30, specs.digests[6]))
    learner.update(specs, changed(moved, nonces=good.nonces + np.uint64(1)))


def test_rounds_close():
    learner = server(open_rounds=10, horizon=30)
    first = learner.round_specs(6)
    second = learner.round_specs(6)  # rounds 1 and 2 are closed
    rng = np.random.default_rng(0)
    late = answers(first, rng, 20)
    with pytest.raises(RoundOrderError, match="late"):
        learner.update(first, late)
    with pytest.raises(RoundOrderError, match="late"):
        learner.update(first[1], singles(late)[0])
    kept = np.flatnonzero(late.rounds > 2)
    learner.update(
        first,
        RoundReports(late.rounds[kept], late.digests[kept], "bit", late.nonces[kept],
                     late.values[kept]),
    )  # fmt: skip
    learner.update(second, answers(second, rng))
    spec = learner.round_spec()
    learner.update(spec, Report(13, spec.digest, os.urandom(8), "bit", (1,)))
    for _ in range(10):
        learner.round_spec()
    for specs in (first, second):
        with pytest.raises(RoundOrderError, match="late"):
            learner.update(specs, answers(specs, rng))
    with pytest.raises(HorizonExceeded):
        learner.round_specs(8)
    assert learner.round == 23
    with pytest.raises(ValueError, match="open_rounds"):
        learner.round_specs(11)
    with pytest.raises(RoundOrderError, match="opened"):
        learner.update(server().round_specs(40), late)


def test_only_where_questions_are_public_coins_alone():
    table = Hypotheses(np.stack([MATRIX, MATRIX]))
    for hypotheses, given in (
        (Hypotheses(MATRIX), {}),  # auto chooses
        (Hypotheses(MATRIX), {"channel": "bit", "interactive": True}),
        (Hypotheses(MATRIX), {"channel": "bit", "query": "hadamard"}),
        (Hypotheses(MATRIX), {"learner": "hedge"}),
        (table, {"channel": "bit"}),
    ):
        learner = DistributionLearner(hypotheses, epsilon=1.0, open_rounds=9, **given)
        with pytest.raises(ValueError, match="round_specs needs"):
            learner.round_specs(3)
        assert learner.round == 0


def test_states_go_on(tmp_path):
    learner = server()
    specs = learner.round_specs(30)
    rng = np.random.default_rng(5)
    first, second = answers(specs, rng, 40), answers(specs, rng, 40)
    learner.round_spec()
    learner.update(specs, first)
    learner.save(tmp_path / "state")
    loaded = dpoco.load(tmp_path / "state")
    with pytest.raises(ValueError, match="duplicated"):
        loaded.update(specs, changed(second, nonces=first.nonces, rounds=first.rounds,
                                          digests=first.digests))  # fmt: skip
    for own in (learner, loaded):
        own.update(specs, second)
    np.testing.assert_array_equal(loaded.weights, learner.weights)
    assert (loaded.round, loaded.reports) == (learner.round, learner.reports) == (31, 80)


def test_one_hypothesis_and_one_label():
    for matrix in (np.full((1, 4), 0.25), np.ones((3, 1))):
        learner = DistributionLearner(
            Hypotheses(matrix), epsilon=1.0, channel="bit", open_rounds=5, public_seed=0
        )
        specs = learner.round_specs(5)
        assert all(type(spec) is RoundSpec for spec in specs)
        learner.update(specs, answers(specs, np.random.default_rng(0)))
        np.testing.assert_allclose(learner.weights, 1 / len(matrix))
