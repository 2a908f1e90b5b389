"""Batch selection: order does not matter, bad reports change nothing, claims hold."""

from __future__ import annotations

import itertools
import math

import local_cases as cases
import numpy as np
import pytest
from local_cases import FC, report

from dpoco.errors import BudgetExceeded
from dpoco.evaluation import total_variation
from dpoco.local import (
    ClientPool,
    DistributionLearner,
    Hypotheses,
    LocalClient,
    LocalHypothesisSelector,
    Report,
    ReportBatch,
    required_users,
)

KINDS = {
    "bit": {"channel": "bit"},
    "two bits": {"channel": "bit", "bits": 2},
    "hadamard": {"channel": "bit", "query": "hadamard"},
    "loss": {"channel": "bit", "query": "loss"},
    "response": {"channel": "subset", "subset_size": 1},
    "subset": {"channel": "subset", "subset_size": 2},
    "auto": {},
}


def build(kind="bit", **more):
    return LocalHypothesisSelector(FC, **{"epsilon": 1.0, "public_seed": 7, **KINDS[kind], **more})


def some_reports(selector, count, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for number in range(1, count + 1):
        spec = selector.round_spec(number)
        options = cases.answers(spec)
        found.append(report(spec, *options[rng.integers(len(options))]))
    return found


def state(selector):
    averaged = selector.prediction().weights.tolist()
    nonces = selector._nonces.all().tolist()
    return selector.posterior().tobytes(), selector.reports, averaged, nonces


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_and_average_by_hand(kind):
    selector = build(kind)
    logs, total = np.zeros(4), np.zeros(4)
    for item in some_reports(selector, 12):
        spec = selector.round_spec(item.round)
        total += np.exp(logs) / np.exp(logs).sum()
        place = cases.answers(spec).index(item.values)
        logs += np.log(cases.message_laws(spec, FC)[:, place])
        selector.update(item)
    np.testing.assert_allclose(selector.posterior(), np.exp(logs) / np.exp(logs).sum(), atol=1e-12)
    np.testing.assert_allclose(selector.prediction().weights, total / 12, atol=1e-12)
    assert selector.prediction().all() == pytest.approx(total / 12 @ FC, abs=1e-12)
    assert selector.map_index == np.argmax(logs)
    wanted = np.flatnonzero(selector.posterior() >= 0.3 / 4)
    np.testing.assert_array_equal(selector.confidence_set(0.3), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_questions_are_functions_of_the_arguments(kind):
    first, second = build(kind), build(kind)
    later = second.round_spec(40)
    second.update(some_reports(second, 5))
    assert first.round_spec(40) == later == second.round_spec(40)
    assert first.round_spec(3).round == 3
    if kind in ("bit", "auto"):  # they are those of the learner
        learner = DistributionLearner(Hypotheses(FC), epsilon=1.0, public_seed=7, **KINDS[kind])
        assert all(learner.round_spec() == first.round_spec(n) for n in range(1, 6))
    if kind != "response" and kind != "subset":
        other = build(kind, public_seed=8)
        assert any(other.round_spec(n) != first.round_spec(n) for n in range(1, 9))


def test_order_and_grouping_do_not_matter():
    reports = some_reports(build(), 40)
    together, backwards = build(), build()
    together.update(reports)
    for item in reversed(reports):
        backwards.update(item.to_bytes() and Report.from_bytes(item.to_bytes()))
    np.testing.assert_allclose(together.posterior(), backwards.posterior(), atol=1e-13)
    assert together.reports == backwards.reports == 40


def test_a_question_may_be_answered_by_several():
    selector = build()
    spec = selector.round_spec(1)
    batch = ReportBatch.from_reports([report(spec, b) for b in (0, 1, 1, 1)])
    selector.update(batch)
    assert selector.reports == 4
    single = build()
    for item in batch.split():
        single.update(item)
    assert state(single)[:3] == state(selector)[:3]


def test_bad_reports_change_nothing():
    selector = build()
    good = some_reports(selector, 6)
    selector.update(good[:3])
    before = state(selector)
    spec = selector.round_spec(5)
    foreign = report(build(public_seed=8).round_spec(5), 1)
    for bad in (
        good[0],  # duplicated
        [good[3], good[4], good[1]],
        [good[3], foreign],
        Report(5, spec.digest, b"12345678", "bit", (1, 0)),  # malformed
    ):
        with pytest.raises(ValueError, match=r"duplicated|foreign|malformed"):
            selector.update(bad)
        assert state(selector) == before
    with pytest.raises(TypeError):
        selector.update([good[3], 3])
    selector.update([])
    assert state(selector) == before
    selector.update(good[3:])  # what was refused in bad company is still welcome
    assert selector.reports == 6


def test_devices_work_out_their_questions_themselves():
    rng = np.random.default_rng(5)
    server = LocalHypothesisSelector(FC, epsilon=2.0, public_seed=11)
    for user in rng.permutation(200):
        own = LocalHypothesisSelector(FC, epsilon=2.0, public_seed=11)  # on the device
        device = LocalClient(own.hypotheses, epsilon_max=2.0)
        server.update(device.respond(own.round_spec(int(user) + 1), y=int(rng.choice(6, p=FC[2]))))
    assert server.reports == 200
    assert server.guarantee.epsilon == 2.0


def test_selection_from_a_pool():
    users = required_users(FC, epsilon=4.0, alpha=0.0, beta=1e-6)
    labels = np.random.default_rng(0).choice(6, p=FC[1], size=int(users))
    pool = ClientPool(Hypotheses(FC), int(users), 4.0)
    selector = LocalHypothesisSelector(FC, epsilon=4.0)
    selector.collect(pool, labels)
    assert selector.map_index == 1
    assert selector.confidence_set(1e-3).tolist() == [1]
    assert selector.reports == users
    assert total_variation(selector.prediction().all(), FC[1]) < 0.1
    assert (pool.reports == 1).all()
    with pytest.raises(BudgetExceeded):
        selector.collect(pool, labels)


def test_simulated_reports_void_the_guarantee():
    selector = build()
    assert selector.guarantee.epsilon == 1.0
    pool = ClientPool(Hypotheses(FC), 3, 1.0, simulation_seed=1)
    selector.collect(pool, [0, 1, None])
    learner = DistributionLearner(Hypotheses(FC), epsilon=1.0, channel="bit")
    learner._simulated = True
    assert repr(selector.guarantee) == repr(learner.guarantee)
    assert selector.guarantee_for(3).epsilon == learner.guarantee_for(3).epsilon


def test_the_stopping_rule_is_right_whenever_it_stops():
    alpha, beta, runs, wrong, stopped = 0.3, 0.2, 60, 0, 0
    for run in range(runs):
        truth = run % 4
        rng = np.random.default_rng(run)
        selector = build("response", epsilon=3.0, public_seed=run)
        pool = ClientPool(Hypotheses(FC), 400, 3.0, simulation_seed=run)
        for user in range(400):
            selector.collect(pool, [rng.choice(6, p=FC[truth])], [user])
            if selector.decided(alpha, beta):
                stopped += 1
                wrong += total_variation(FC[selector.map_index], FC[truth]) > alpha
                break
    assert stopped > 0.9 * runs
    assert wrong / runs <= beta + math.sqrt(math.log(1e6) / (2 * runs))
    assert build().decided(1.0, 0.05)
    assert not build().decided(0.3, 0.05)  # nobody has reported


def test_information_and_what_it_bounds():
    selector = build("two bits")
    reports = some_reports(selector, 9)
    selector.update(reports)
    selector.update(report(selector.round_spec(2), 1, 1))
    expected = np.zeros((4, 4))
    for number in [*range(1, 10), 2]:
        roots = np.sqrt(cases.message_laws(selector.round_spec(number), FC))
        expected -= np.log(roots @ roots.T)
    np.testing.assert_allclose(selector.information(), expected, atol=1e-12)
    far = 0.5 * np.abs(FC[:, None] - FC[None]).sum(axis=2)
    bound = np.where(far > 0.3, np.exp(-expected), 0.0).sum(axis=1).max()
    assert selector.error_bound(0.3) == pytest.approx(min(bound, 1.0))
    pairs = [(i, j) for i, j in itertools.combinations(range(4), 2)
             if far[i, j] > 0.3 and math.exp(-expected[i, j]) > 0.05 / 3]  # fmt: skip
    pairs.sort(key=lambda pair: expected[pair])
    assert [tuple(pair) for pair in selector.undecidable(0.3)] == pairs


def test_error_bound_is_one_exactly():
    # All answers to four questions, enumerated: how often another hypothesis is at least as likely.
    selector = build(epsilon=4.0)
    specs = [selector.round_spec(n) for n in range(1, 9)]
    for spec in specs:
        selector.update(report(spec, 1))
    laws = [cases.message_laws(spec, FC) for spec in specs]
    chances = np.zeros(4)
    for bits in itertools.product((0, 1), repeat=8):
        likely = np.prod([law[:, b] for law, b in zip(laws, bits, strict=True)], axis=0)
        for truth in range(4):
            rivals = np.delete(likely, truth)
            chances[truth] += likely[truth] * (rivals.max() >= likely[truth])
    union = np.where(np.eye(4, dtype=bool), 0.0, np.exp(-selector.information())).sum(axis=1)
    assert (chances <= union).all()
    assert chances.max() > 0.2  # it says something


def test_pairs_that_no_question_separates_are_found():
    twins = [[0.5, 0.25, 0.25], [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]
    for query, left in (("bisection", [[0, 1]]), ("scheffe", [])):
        selector = LocalHypothesisSelector(
            twins, epsilon=8.0, channel="bit", query=query, public_seed=1
        )
        for number in range(1, 201):
            selector._answered[number] = 100  # information depends on questions only
        assert selector.undecidable().tolist() == left
        assert selector.error_bound(0.06) < 0.01
    fresh = LocalHypothesisSelector(twins, epsilon=8.0)
    assert fresh.error_bound() == 1.0
    assert len(fresh.undecidable()) == 3


@pytest.mark.parametrize("kind", ["hadamard", "response"])
def test_expected_total_variation(kind):
    runs, users, found = 4, 200, []
    for run in range(runs):
        rng = np.random.default_rng(run)
        selector = build(kind, public_seed=run)
        pool = ClientPool(Hypotheses(FC), users, 1.0, simulation_seed=run)
        selector.collect(pool, rng.choice(6, p=FC[0], size=users))
        found.append(total_variation(selector.prediction().all(), FC[0]))
    bound = selector.expected_tv_bound()
    assert bound == selector.expected_tv_bound(users) < 1.0
    assert np.mean(found) <= bound
    assert selector.expected_tv_bound(4 * users) == pytest.approx(bound / 2)
    tanh, c = math.tanh(0.5), math.expm1(1) / (math.expm1(1) + 6)
    strength = {"hadamard": math.sqrt(6) / tanh, "response": 1 / c}[kind]
    assert bound == pytest.approx(strength * math.sqrt(math.log(4) / (2 * users)), rel=1e-9)
    assert build("bit").expected_tv_bound(10**9) == 1.0
    assert build(kind).expected_tv_bound() == 1.0  # nobody has reported


@pytest.mark.parametrize("matrix", [np.ones((1, 3)) / 3, np.ones((3, 1))])
def test_nothing_to_select(matrix):
    selector = LocalHypothesisSelector(matrix, epsilon=1.0, public_seed=1)
    pool = ClientPool(Hypotheses(matrix), 5, 1.0)
    selector.collect(pool, np.zeros(5, dtype=int))
    np.testing.assert_allclose(selector.posterior(), 1.0 / len(matrix), atol=1e-15)
    assert selector.decided(0.0, 0.05)
    assert selector.map_index == 0
    assert selector.undecidable().shape == (0, 2)
    assert selector.error_bound() == 0.0
    assert selector.expected_tv_bound() == 0.0
