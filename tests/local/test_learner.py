"""The learner's life: rounds, reports that must not count, states."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from local_cases import FA, FC, KINDS, build, play, report, some_values

import dpoco
from dpoco.errors import HorizonExceeded, RoundOrderError, StateError
from dpoco.local import (
    DevicePredictor,
    DistributionLearner,
    Hypotheses,
    LocalClient,
    LocalHypothesisSelector,
    Report,
    ReportBatch,
)


def state(learner):
    """All that a report may change."""
    return (
        learner.weights.tobytes(),
        learner.round,
        learner.reports,
        {name: value.tobytes() for name, value in learner._rule.state().items()},
        [len(opened.nonces) for opened in learner._open.values()],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_deterministic_given_reports(kind):
    first, second = play(build(kind), 12), play(build(kind), 12)
    assert state(first) == state(second)
    assert np.ptp(first.weights) > 0.0
    assert first.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (first.round, first.reports) == (12, 24)


def test_clone_is_fresh():
    learner = play(build("bit"), 5)
    fresh = learner.clone()
    assert (fresh.round, fresh.reports) == (0, 0)
    assert fresh.get_params() == learner.get_params()
    assert fresh.public_seed == 7
    entropy = DistributionLearner(Hypotheses(FC), epsilon=1.0)
    assert entropy.clone().public_seed != entropy.public_seed


@pytest.mark.parametrize("kind", ["bit", "two bits", "subset", "hedge"])
def test_reports_that_must_not_count(kind):
    learner = play(build(kind), 3)
    old = learner.round_spec()
    spec = learner.round_spec()
    rng = np.random.default_rng(0)
    good = [report(spec, *some_values(spec, rng)) for _ in range(3)]
    learner.update(spec, good[:2])
    values = good[0].values
    nonce = b"12345678"

    def forged(**changes):
        fields = {
            "round": spec.round, "digest": spec.digest, "nonce": nonce, "channel": spec.channel,
            "values": values,
        }  # fmt: skip
        return Report(**{**fields, **changes})

    other = build(kind, public_seed=8)
    for _ in range(spec.round):
        foreign = other.round_spec()
    # Where the coins ask the same question, it is the same public round.
    foreign_cases = [(foreign, good[2], ValueError, "foreign")] * (foreign != spec)
    batch = ReportBatch.from_reports(good[2:])
    twice = ReportBatch(
        batch.round, batch.digest, batch.channel, np.repeat(batch.nonces, 2),
        np.repeat(batch.values, 2, axis=0),
    )  # fmt: skip
    refused = [
        (spec, good[0], ValueError, "duplicated"),
        (spec, [good[2], good[1]], ValueError, "duplicated"),
        (spec, [good[2], good[2]], ValueError, "duplicated"),
        (spec, twice, ValueError, "duplicated"),
        (old, report(old, *values), RoundOrderError, "late"),
        (spec, forged(digest=b"\0" * 8), ValueError, "foreign"),
        (spec, forged(round=spec.round + 1), ValueError, "foreign|round"),
        (spec, forged(values=(*values, 1)), ValueError, "malformed"),
        (spec, forged(values=()), ValueError, "malformed"),
        (spec, [good[2], report(old, *values)], ValueError, "foreign"),
        (spec, [good[2], 3], TypeError, "report"),
        (spec, "no", TypeError, "report"),
        (spec, 7, TypeError, "report"),
        ("spec", good[2], TypeError, "RoundSpec"),
        *foreign_cases,
    ]
    if kind == "subset":
        for bad in ((1, 1), (2, 1), (0, 6)):
            refused.append((spec, forged(values=bad), ValueError, "malformed"))
    before = state(learner)
    for asked, reports, error, text in refused:
        with pytest.raises(error, match=text):
            learner.update(asked, reports)
        assert state(learner) == before
    learner.update(spec, good[2])
    assert state(learner) != before
    learner.update(spec, [])
    assert learner.reports == 9


class Interrupted:
    """A rule whose calls of `apply` are interrupted when they have learned."""

    def __init__(self, rule):
        self._rule = rule

    def __getattr__(self, name):
        return getattr(self._rule, name)

    def apply(self, *given):
        self._rule.apply(*given)
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", ["bit", "subset", "hedge", "selector"])
def test_an_interrupted_update_takes_no_report_twice(kind, tmp_path):
    known = Hypotheses(FC)
    if kind == "selector":
        learner = LocalHypothesisSelector(known, epsilon=1.0, public_seed=7)
        spec, given = learner.round_spec(1), ()
    else:
        learner = play(build(kind), 3)
        spec = learner.round_spec()
        given = (spec,)
    rng = np.random.default_rng(0)
    reports = [report(spec, *some_values(spec, rng)) for _ in range(4)]
    expected = copy.deepcopy(learner)
    rule, learner._rule = learner._rule, Interrupted(learner._rule)
    with pytest.raises(KeyboardInterrupt):
        learner.update(*given, reports)
    learner._rule = rule
    assert learner.reports == expected.reports
    learner.save(tmp_path / "server")
    for each in (learner, type(learner).load(tmp_path / "server", known)):
        each.update(*given, reports)
        after = copy.deepcopy(expected)
        after.update(*given, reports)
        assert each._to_bytes() == after._to_bytes()


def test_several_open_rounds():
    learner = build("bit", open_rounds=3)
    specs = [learner.round_spec() for _ in range(5)]
    for spec in specs[:2]:
        with pytest.raises(RoundOrderError, match="late"):
            learner.update(spec, report(spec, 1))
    for spec in reversed(specs[2:]):
        learner.update(spec, report(spec, 1))
    assert learner.reports == 3
    # Rounds need no reports at all.
    ahead = build("bit", open_rounds=3)
    specs = [ahead.round_spec() for _ in range(7)]
    learner.round_spec()
    assert learner.round == 6
    with pytest.raises(RoundOrderError, match="not been opened"):
        learner.update(specs[-1], report(specs[-1], 1))


def test_nonces_of_many_batches():
    learner = build("hedge")
    spec = learner.round_spec()
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 40, size=60)
    nonces = rng.permutation(int(sizes.sum())).astype(np.uint64)
    start = 0
    for size in sizes:
        part = nonces[start : start + size]
        values = rng.integers(0, 2, size=(size, 1))
        learner.update(spec, ReportBatch(spec.round, spec.digest, spec.channel, part, values))
        start += size
        for seen in (nonces[0], part[-1]):
            again = np.array([10**9, seen], dtype=np.uint64)
            batch = ReportBatch(
                spec.round, spec.digest, spec.channel, again, np.ones((2, 1), dtype=np.int64)
            )
            with pytest.raises(ValueError, match="duplicated"):
                learner.update(spec, batch)
    assert learner.reports == sizes.sum()
    assert len(learner._open[spec.round].nonces._parts) <= 12


def test_horizon():
    learner = build("bit", horizon=3)
    for _ in range(3):
        learner.round_spec()
    with pytest.raises(HorizonExceeded):
        learner.round_spec()
    assert learner.round == 3
    assert learner.mixing == pytest.approx(1 / 3)
    endless = build("bit")
    assert endless.mixing == 0.5
    spec = endless.round_spec()
    assert endless.mixing == 0.5
    endless.update(spec, report(spec, 1))
    assert endless.mixing == pytest.approx(1 / 3)


def test_contexts():
    table = np.stack([FA, FA[[1, 0, 2]]])
    learner = DistributionLearner(Hypotheses(table), epsilon=4.0, public_seed=0, open_rounds=2)
    with pytest.raises(ValueError, match="context"):
        learner.round_spec(2)
    with pytest.raises(TypeError):
        learner.round_spec()
    assert learner.round == 0
    spec, other = learner.round_spec(1), learner.round_spec(0)
    # Prepared for one context, applied after another one was asked about.
    answer = (1,) if spec.channel == "bit" else tuple(range(spec.width))
    learner.update(spec, report(spec, *answer))
    single = DistributionLearner(Hypotheses(table), epsilon=4.0, public_seed=0)
    again = single.round_spec(1)
    single.update(again, report(again, *answer))
    np.testing.assert_array_equal(single.weights, learner.weights)
    assert other.round == 2
    np.testing.assert_allclose(
        learner.predict(1).all()[:2] + learner.predict(1).all()[2:][::-1], [0.5, 0.5], atol=1e-12
    )


def test_callables_need_their_hypotheses_to_load(tmp_path):
    hypotheses = Hypotheses(lambda x: FA[:, np.roll(np.arange(4), x)], 3, 4)
    learner = DistributionLearner(hypotheses, epsilon=2.0, public_seed=1)
    for x in range(5):
        spec = learner.round_spec(x)
        answer = (1,) if spec.channel == "bit" else tuple(range(spec.width))
        learner.update(spec, report(spec, *answer))
    learner.save(tmp_path / "state")
    with pytest.raises(StateError, match="callable"):
        dpoco.load(tmp_path / "state")
    loaded = DistributionLearner.load(tmp_path / "state", hypotheses)
    for own in (learner, loaded):
        own.update(spec, report(spec, *answer))
    np.testing.assert_array_equal(loaded.weights, learner.weights)
    with pytest.raises(StateError, match="other hypotheses"):
        DistributionLearner.load(tmp_path / "state", Hypotheses(lambda x: FC, 4, 6))


def test_private_contexts():
    def likelihood(x, y):
        return np.exp(-((y - np.arange(3) * x) ** 2))

    hypotheses = Hypotheses(likelihood, 3)
    build_private = {"learner": "hedge", "protect": "label_and_context", "mixing": 0.2}
    learner = DistributionLearner(hypotheses, epsilon=8.0, public_seed=2, **build_private)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="private"):
        learner.round_spec(1.0)
    for seed in range(1500):
        x = rng.uniform(1, 2)
        device = LocalClient(hypotheses, 8.0, protect="label_and_context", simulation_seed=seed)
        spec = learner.round_spec()
        learner.update(spec, device.respond(spec, x, rng.normal(x, 0.7)))
    assert learner.weights.argmax() == 1
    assert learner.weights[1] > 0.8
    prediction = DevicePredictor(hypotheses).predict(learner.weights, 1.5, learner.mixing)
    assert prediction.prob(1.5) > prediction.prob(3.0)
    with pytest.raises(ValueError, match="DevicePredictor"):
        learner.predict(1.5)
    with pytest.raises(ValueError, match="label_and_context"):
        DistributionLearner(Hypotheses(FC), epsilon=1.0, protect="label_and_context")
