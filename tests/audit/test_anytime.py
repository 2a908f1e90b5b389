"""Anytime-valid audits: rare false alarms under any stopping, power, and no praise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpoco.audit import AnytimeAudit, epsilon_lower_bound
from dpoco.audit.anytime import log_e_values
from dpoco.audit.report import bound_text


def occurs(bits):
    return bits == 1


def add_counts(audit, both, ours, theirs, neither):
    """Add pairs in which the event occurred in both runs, in one of them, or in neither."""
    counts = (both, ours, theirs, neither)
    audit.update(np.repeat([1, 1, 0, 0], counts), np.repeat([1, 0, 1, 0], counts))


def pairs(generator, p, q, count):
    return generator.random(count) < p, generator.random(count) < q


def test_expected_wealth_never_grows_under_the_claim():
    # Exactly, over all outcomes of a few pairs, at the edge of the claim and inside it.
    for epsilon, delta, q in [(0.0, 0.0, 0.3), (1.0, 0.0, 0.2), (0.5, 0.1, 0.05), (3.0, 0.01, 0.0)]:
        for share in (1.0, 0.7):
            p = share * (math.exp(epsilon) * q + delta)
            chances = np.array([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)])
            n = 4
            mean = 0.0
            grid = np.stack(np.meshgrid(*[np.arange(n + 1)] * 4), axis=-1).reshape(-1, 4)
            counts = grid[grid.sum(axis=1) == n]
            wealth = np.exp(log_e_values(counts, np.array([epsilon]), delta)[0, :, 0])
            for row, value in zip(counts, wealth, strict=True):
                ways = math.factorial(n) / math.prod(math.factorial(int(k)) for k in row)
                mean += ways * float(np.prod(chances**row)) * value
            assert mean <= 1.0 + 1e-12
            if share == 1.0:
                assert mean == pytest.approx(1.0)


@pytest.mark.parametrize("complement", [False, True])
def test_an_adversary_that_stops_at_will_rarely_raises_a_false_alarm(complement):
    # At the edge of the claim: p = e q. Stops as soon as the bound exceeds the truth, of 25 looks.
    generator = np.random.default_rng(1)
    q = 0.15
    error, runs, alarms = 0.3, 80, 0
    for _ in range(runs):
        audit = AnytimeAudit(epsilon=1.0, events=occurs, confidence=1.0 - error)
        size = 5
        for _ in range(25):
            ours, theirs = pairs(generator, math.e * q, q, size)
            audit.update(*((~ours, ~theirs) if complement else (ours, theirs)))
            size = int(size * 1.15) + 1
            if audit.violated:
                alarms += 1
                assert audit.epsilon >= 1.0
                break
    # Binomial with probability at most 0.3: six standard deviations.
    assert alarms <= runs * error + 6.0 * math.sqrt(runs * error * (1 - error))
    assert alarms > 0  # at so small a confidence there must be some


def test_a_clopper_pearson_bound_does_not_survive_such_an_adversary():
    generator = np.random.default_rng(2)
    q, error, fooled, mine = 0.15, 0.2, 0, 0
    for _ in range(60):
        ours, theirs = pairs(generator, math.e * q, q, 3000)
        audit = AnytimeAudit(epsilon=1.0, events=occurs, confidence=1.0 - error)
        wrong = False
        for n in range(100, 3001, 100):
            audit.update(ours[n - 100 : n], theirs[n - 100 : n])
            counts = int(ours[:n].sum()), n, int(theirs[:n].sum()), n
            wrong |= epsilon_lower_bound(*counts, confidence=1.0 - error) > 1.0
        fooled += wrong
        mine += audit.violated
    assert fooled > mine


def test_many_events_cost_a_union_and_nothing_more():
    # 50 events without a difference: none may be accused, however many there are.
    generator = np.random.default_rng(3)
    events = [lambda rows, k=k: rows[:, k] == 1 for k in range(50)]
    alarms = 0
    for _ in range(30):
        audit = AnytimeAudit(epsilon=0.0, events=events, confidence=0.8)
        for _ in range(4):
            audit.update(*generator.integers(2, size=(2, 200, 50)))
        alarms += audit.violated
    assert alarms <= 30 * 0.2 + 6.0 * 2.2
    # What one event shows is found among them, too.
    rows = generator.integers(2, size=(2, 20_000, 50))
    rows[0, :, 7] = generator.random(20_000) < 0.9
    audit = AnytimeAudit(epsilon=0.3, events=events)
    audit.update(*rows)
    assert audit.violated
    assert audit.report().events == 50
    assert "50 event(s) together" in str(audit.report())


def test_the_bound_is_near_the_truth_and_near_that_of_one_look():
    generator = np.random.default_rng(4)
    p, q, n = 0.25734, 0.03680, 200_000
    audit = AnytimeAudit(epsilon=1.0, events=occurs)
    ours, theirs = pairs(generator, p, q, n)
    for part in np.array_split(np.arange(n), 10):
        before = audit.epsilon
        audit.update(ours[part], theirs[part])
        assert audit.epsilon >= before
    single = epsilon_lower_bound(int(ours.sum()), n, int(theirs.sum()), n)
    truth = math.log(p / q)
    assert audit.violated
    assert audit.epsilon < truth
    assert audit.epsilon == pytest.approx(single, abs=0.05)
    assert truth - audit.epsilon < 2.0 * (truth - single)


def test_directions_complement_and_delta():
    for counts in ([100, 5000, 200, 4700], [100, 200, 5000, 4700], [4700, 200, 5000, 100]):
        audit = AnytimeAudit(epsilon=1.0, events=occurs)
        add_counts(audit, *counts)
        assert audit.violated
        assert audit.epsilon > 1.0
    for delta, violated in ((0.3, True), (0.6, False)):
        audit = AnytimeAudit(epsilon=0.0, delta=delta, events=occurs)
        add_counts(audit, 0, 500, 0, 500)
        assert audit.violated is violated


def test_only_counts_matter_and_no_order():
    generator = np.random.default_rng(5)
    ours, theirs = pairs(generator, 0.6, 0.2, 3000)
    one, other = (AnytimeAudit(epsilon=1.0, events=occurs) for _ in range(2))
    one.update(ours[:1000], theirs[:1000])
    one.update(ours[1000:], theirs[1000:])
    order = generator.permutation(3000)
    a, b = ours[order], theirs[order]
    cells = [a & b, a & ~b, ~a & b, ~a & ~b]
    add_counts(other, *(int(each.sum()) for each in cells))
    assert one.report() == other.report()
    assert one.pairs == 3000


def test_what_is_called_detectable_is_detected_and_nothing_is_praised():
    generator = np.random.default_rng(6)
    q, n = 0.1, 4000
    audit = AnytimeAudit(epsilon=1.0, events=occurs, confidence=0.999)
    audit.update(*pairs(generator, math.e * q, q, n))
    report = audit.report()
    assert not report.violated
    assert 1.0 < report.detectable < 1.6
    rare = min(report.hits, report.neighbour_hits) / n
    found = 0
    for _ in range(100):
        again = AnytimeAudit(epsilon=1.0, events=occurs, confidence=0.999)
        again.update(*pairs(generator, rare * math.exp(report.detectable), rare, n))
        found += again.violated
    assert found >= 75  # at least 90 expected: five standard deviations
    text = str(report)
    assert "no violation of epsilon = 1, delta = 0 found so far" in text
    least = bound_text(report.detectable, up=True)
    assert f"a true epsilon of {least} or more would have been found" in text
    few = AnytimeAudit(epsilon=1.0, events=occurs)
    assert "no power" in str(few.report())
    few.update([1] * 5, [0] * 5)
    assert "no power" in str(few.report())
    for each in (report, few.report()):
        assert not hasattr(each, "passed")
        assert "pass" not in str(each)
    wrong = AnytimeAudit(epsilon=1.0, events=occurs)
    wrong.update(*pairs(generator, 0.9, 0.05, 4000))
    assert "VIOLATED" in str(wrong.report())
    assert wrong.report().measured > 1.0


def test_bad_arguments_are_named_and_add_nothing():
    audit = AnytimeAudit(epsilon=1.0, events=[occurs])
    for call, error, message in [
        (lambda: AnytimeAudit(epsilon=-1.0, events=occurs), ValueError, "epsilon must"),
        (lambda: AnytimeAudit(epsilon=1.0, events=[]), ValueError, "not be empty"),
        (lambda: AnytimeAudit(epsilon=1.0, events=["a"]), TypeError, "callables"),
        (lambda: AnytimeAudit(epsilon=1.0, events=occurs, delta=1.0), ValueError, "delta must"),
        (lambda: AnytimeAudit(epsilon=1.0, events=occurs, confidence=1), ValueError, "confidence"),
        (lambda: audit.update([1, 0], [1]), ValueError, "as many rows"),
        (lambda: audit.update(1, 1), ValueError, "as many rows"),
        (lambda: audit.update(np.ones((3, 2)), np.ones((3, 2))), ValueError, "one bool for each"),
    ]:
        with pytest.raises(error, match=message):
            call()
    assert audit.pairs == 0
    assert audit.epsilon == 0.0
