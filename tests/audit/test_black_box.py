"""Black-box audits: exact intervals, wrong scales found, right ones not, and no praise."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from bench.worlds import Packing
from tests.audit.packing import packing_audit

from dpoco.audit import (
    black_box_audit,
    epsilon_lower_bound,
    learn_event,
    learner_runs,
)
from dpoco.audit._events import Counts
from dpoco.audit.report import bound_text, confidence_text

# Scores of ten experts: one better by a replaced round's largest effect, or worse by it.
SCORES = np.array([0.0] + [1.0] * 9)
NEIGHBOUR = 1.0 - SCORES


def noisy_argmin(scale):
    """Least of the scores plus Laplace noise; the mechanism of the papers at scale 2 / epsilon."""

    def run(scores, count, source):
        generator = np.random.default_rng(source.words(4))
        parts = []
        for size in [200_000] * (count // 200_000) + [count % 200_000]:
            noise = generator.laplace(scale=scale, size=(size, len(scores)))
            parts.append((scores + noise).argmin(axis=1))
        return np.concatenate(parts)

    return run


def test_a_wrong_scale_is_found_and_the_right_one_is_not():
    settings = {"epsilon": 1.0, "trials": 2_000_000, "confidence": 0.999}
    wrong = black_box_audit(noisy_argmin(1.0), SCORES, NEIGHBOUR, **settings)
    # P(J = 0) is 0.25734 against 0.03680, a ratio of exp(1.945).
    assert 1.8 < wrong.measured < 1.945
    assert wrong.violated
    assert wrong.hits / wrong.trials == pytest.approx(0.25734, abs=0.003)
    assert wrong.neighbour_hits / wrong.trials == pytest.approx(0.03680, abs=0.002)
    right = black_box_audit(noisy_argmin(2.0), SCORES, NEIGHBOUR, **settings)
    assert not right.violated
    assert 0.8 < right.measured <= 1.0
    assert 1.0 < right.detectable < 1.1


def test_reports_never_praise():
    right = black_box_audit(noisy_argmin(2.0), SCORES, NEIGHBOUR, epsilon=1.0, trials=100_000)
    text = str(right)
    assert "no violation of epsilon = 1, delta = 0 found" in text
    least = bound_text(right.detectable, up=True)
    assert f"a true epsilon of {least} or more would have been found" in text
    assert "epsilon is at least" in text
    few = black_box_audit(noisy_argmin(0.01), SCORES, NEIGHBOUR, epsilon=1.0, trials=20)
    assert not few.violated
    assert math.isinf(few.detectable)
    assert "no power" in str(few)
    assert "no violation" not in str(few).replace(
        "no violation of epsilon = 1, delta = 0 could", ""
    )
    for report in (right, few):
        assert not hasattr(report, "passed")
        assert "pass" not in str(report)
    wrong = black_box_audit(noisy_argmin(0.1), SCORES, NEIGHBOUR, epsilon=1.0, trials=20_000)
    assert "VIOLATED" in str(wrong)


def test_what_is_called_detectable_is_detected():
    report = black_box_audit(
        noisy_argmin(2.0), SCORES, NEIGHBOUR, epsilon=1.0, trials=20_000, confidence=0.99
    )
    rare = report.neighbour_hits / report.trials
    assert report.detectable < 1.3
    found = share_found(rare * math.exp(report.detectable), rare, report.trials, confidence=0.99)
    assert found > 0.93  # 0.98 as computed: eleven standard deviations
    found = share_found(rare * math.e, rare, report.trials, confidence=0.99)
    assert found < 0.02  # and a mechanism that keeps its promise is hardly ever accused


def share_found(probable, rare, trials, confidence, delta=0.0, looks=1000):
    """How often a fresh look at such probabilities refutes epsilon = 1; both counts are random."""
    hits = np.random.default_rng(0).binomial(trials, (probable, rare), (looks, 2))
    bounds = (
        epsilon_lower_bound(int(a), trials, int(b), trials, delta=delta, confidence=confidence)
        for a, b in hits
    )
    return np.mean([bound > 1.0 for bound in bounds])


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize(("hits", "trials"), [(0, 500), (1, 2000), (40, 2000), (1000, 20_000)])
def test_what_is_called_detectable_is_detected_at_any_count(hits, trials, delta):
    """The other stream's count varies, too; and an event that was not seen may still happen."""
    detectable = Counts(hits, trials, hits, trials).detectable(1.0, delta, 0.01)
    rare = max(hits, 1) / trials
    probable = rare * math.exp(detectable) + delta
    # At least 0.9 by construction; six standard deviations.
    assert share_found(probable, rare, trials, 0.99, delta) > 0.9 - 6.0 * 0.3 / math.sqrt(1000)
    if hits >= 40:  # and not by far too much
        less = rare * math.exp(1.0 + 0.5 * (detectable - 1.0)) + delta
        assert share_found(less, rare, trials, 0.99, delta) < 0.6


def tail_probability(hits, trials, p):
    """P(at least `hits`)."""
    return mpmath.betainc(hits, trials - hits + 1, 0, p, regularized=True)


def test_bounds_are_clopper_pearsons():
    hits, trials, other, others = 300, 1000, 20, 900
    bound = epsilon_lower_bound(hits, trials, other, others, delta=0.01, confidence=1 - 4e-4)
    level = mpmath.log(1e-4)
    low = mpmath.findroot(
        lambda p: mpmath.log(tail_probability(hits, trials, p)) - level, (0.2, 0.3),
        solver="anderson",
    )  # fmt: skip
    high = 1 - mpmath.findroot(
        lambda p: mpmath.log(tail_probability(others - other, others, p)) - level, (0.92, 0.98),
        solver="anderson",
    )  # fmt: skip
    assert bound == pytest.approx(float(mpmath.log((low - 0.01) / high)), rel=1e-9)
    # In both directions, and for the complement.
    flipped = epsilon_lower_bound(other, others, hits, trials, delta=0.01, confidence=1 - 4e-4)
    complement = epsilon_lower_bound(
        trials - hits, trials, others - other, others, delta=0.01, confidence=1 - 4e-4
    )
    assert flipped == pytest.approx(bound, rel=1e-9)
    assert complement == pytest.approx(bound, rel=1e-9)


def test_bounds_of_extreme_counts():
    n = 1000
    assert epsilon_lower_bound(0, n, 0, n) == 0.0
    assert epsilon_lower_bound(n, n, n, n) == 0.0
    # (1 - x)^n = tail: the limits of all or nothing are known in closed form.
    limit = 1.0 - (0.25e-6) ** (1 / n)
    largest = epsilon_lower_bound(n, n, 0, n)
    assert largest == pytest.approx(math.log((1 - limit) / limit), rel=1e-6)
    assert epsilon_lower_bound(n, n, 0, n, delta=0.5) < largest
    assert epsilon_lower_bound(n // 2, n, 0, n, delta=0.9) == 0.0
    assert epsilon_lower_bound(n, n, 0, n, confidence=0.9) > largest


def test_intervals_err_as_rarely_as_they_say():
    # Equal coins, so any positive bound is an error; at confidence 0.6 there must be some.
    generator = np.random.default_rng(0)
    hits = generator.binomial(40, 0.5, (4000, 2))
    errors = np.mean([epsilon_lower_bound(a, 40, b, 40, confidence=0.6) > 0.0 for a, b in hits])
    assert 0.0 < errors < 0.4


def test_given_events_are_tested_on_fresh_runs():
    def first(outcomes):
        return outcomes == 0

    def even(outcomes):
        return outcomes % 2 == 0

    settings = {"epsilon": 1.0, "trials": 200_000}
    both = black_box_audit(noisy_argmin(1.0), SCORES, NEIGHBOUR, events=[even, first], **settings)
    assert both.event == "first"
    assert both.violated
    weak = black_box_audit(noisy_argmin(1.0), SCORES, NEIGHBOUR, events=even, **settings)
    assert weak.event == "even"
    assert not weak.violated

    def run(stream, count, source):  # outcomes all different: nothing repeats in the test half
        return np.random.default_rng(source.words(4)).random((count, 2))

    overfit = black_box_audit(run, 0, 1, epsilon=0.1, trials=2000)
    assert overfit.measured == 0.0
    assert not overfit.violated


class NoisyLeader:
    """Follows the leader of noisy sums, with fresh Laplace noise each round."""

    def __init__(self, experts, scale, source):
        self.totals = np.zeros(experts)
        self.scale = scale
        self.generator = np.random.default_rng(source.words(4))

    def decide(self):
        noise = self.generator.laplace(size=len(self.totals)) * self.scale
        return int((self.totals + noise).argmin())

    def observe(self, losses):
        self.totals += losses


def test_learners_are_audited_by_their_transcripts():
    stream = np.array([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    neighbour = stream.copy()
    neighbour[0] = [1.0, 0.0]

    def audit(scale, epsilon):
        run = learner_runs(lambda source: NoisyLeader(2, scale, source))
        return black_box_audit(run, stream, neighbour, epsilon=epsilon, trials=6000)

    # The sums are used twice after the changed round: twice 2 / scale is spent, and hence 0.1.
    careful, careless = audit(40.0, 0.1), audit(0.5, 0.5)
    assert not careful.violated
    assert careless.violated
    assert "outcomes" in careless.event


def test_the_packing_audit_flags_a_leader_and_not_a_blind_player():
    world = Packing(1000, epsilon=0.25)
    report = packing_audit(lambda source: NoisyLeader(1000, 0.0, source), world, 0.25, 30)
    assert report.bound == pytest.approx(12.66, abs=0.005)
    assert report.regret <= 1.0
    assert report.violated
    assert report.measured > 0.5
    assert "VIOLATED" in str(report)
    # A good player for the claim: noise of scale 2 * 13 / 0.25 on every use.
    fair = packing_audit(lambda source: NoisyLeader(1000, 104.0, source), world, 0.25, 30)
    assert not fair.violated
    assert fair.measured < 0.25
    assert 0.0 < fair.detectable < fair.bound
    assert "no violation of epsilon = 0.25" in str(fair)
    most = bound_text(fair.detectable)
    assert f"a mean regret up to {most} would have been reported" in str(fair)
    assert not hasattr(fair, "passed")


def test_the_packing_audit_says_when_it_has_no_power():
    world = Packing(64, epsilon=1.0)
    report = packing_audit(lambda source: NoisyLeader(64, 0.0, source), world, 1.0, 2)
    assert report.detectable < 0.0
    assert "no power" in str(report)
    more = packing_audit(lambda source: NoisyLeader(64, 0.0, source), world, 1.0, 200)
    assert more.violated
    # Delta weakens the bound; what it does not cover is still refuted.
    granted = packing_audit(
        lambda source: NoisyLeader(64, 0.0, source), world, 1.0, 200, delta=0.05
    )
    assert granted.bound < more.bound
    assert granted.violated


def test_a_dtype_is_no_outcome():
    """Whole numbers of one stream may come as integers, and those of the other as doubles."""

    def coin(stream, count, source):
        bits = source.uniform(count) < 0.5
        return bits.astype(np.int64 if stream == 0 else np.float64)

    report = black_box_audit(coin, 0, 1, epsilon=0.5, trials=2000)
    assert report.measured == 0.0
    event = learn_event(np.arange(4) % 2, np.zeros(4))
    assert event(np.array([0, 1])).tolist() == event(np.array([0.0, 1.0])).tolist()
    whole = learn_event(np.array([1, 1, 1, 0]), np.array([0, 0, 0, 1]))
    assert whole(np.array([0, 1])).tolist() == whole(np.array([0.0, 1.0])).tolist()
    assert whole(np.array([np.nan])).shape == (1,)


def test_the_word_for_learned_events_may_be_given_alone():
    settings = {"epsilon": 1.0, "trials": 20_000}
    alone, default = (
        black_box_audit(noisy_argmin(0.5), SCORES, NEIGHBOUR, events=events, **settings)
        for events in ("learned", None)
    )
    assert alone == default
    with pytest.raises(ValueError, match="or 'learned'"):
        black_box_audit(noisy_argmin(0.5), SCORES, NEIGHBOUR, events="known", **settings)


def test_bounds_are_rounded_to_the_side_on_which_they_hold():
    for value, down, up in (
        (1.00018, "1", "1.001"), (0.99882, "0.9988", "0.9989"), (0.3, "0.3", "0.3"),
        (0.0, "0", "0"), (1.23456e-7, "1.234e-07", "1.235e-07"), (math.inf, "inf", "inf"),
        (123456.0, "1.234e+05", "1.235e+05"),
    ):  # fmt: skip
        assert (bound_text(value), bound_text(value, up=True)) == (down, up)
    assert confidence_text(1.0 - 1e-6) == "0.999999"
    assert confidence_text(1.0 - 1e-12) == "1 - 1e-12"
    settings = {"epsilon": 1.0, "trials": 400, "confidence": 1.0 - 1e-12}
    assert "at confidence 1 - 1e-12" in str(
        black_box_audit(noisy_argmin(0.5), SCORES, NEIGHBOUR, **settings)
    )
