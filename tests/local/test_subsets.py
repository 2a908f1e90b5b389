"""Subset selection: exact privacy by enumeration, exact laws, and reports that follow them."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import combinations

import mpmath
import numpy as np
import pytest
from local_cases import FA, LEVELS, UNITS, exceeds
from tests.local.exact import exact_audit
from tests.probes import probes

from dpoco.local import BitRandomizer, ClientPool, Hypotheses, SubsetRandomizer
from dpoco.privacy.mechanisms.local_report import at_most_exp
from dpoco.random import Source


@pytest.mark.parametrize("epsilon", LEVELS)
@pytest.mark.parametrize("labels", [2, 3, 5, 8])
def test_subsets_are_private_exactly(epsilon, labels):
    """The whole law of every label, and of none, for all sizes."""
    for size in range(1, labels):
        randomizer = SubsetRandomizer(labels, size, epsilon)
        laws = [randomizer.pmf(y) for y in [*range(labels), None, -1, labels]]
        reports = list(combinations(range(labels), size))
        for law in laws:
            assert list(law) == reports
            assert sum(law.values()) == 1
        largest = max(max(law[z] for law in laws) / min(law[z] for law in laws) for z in reports)
        assert not exceeds(largest, epsilon)
        found = exact_audit(randomizer)
        assert found.passed
        assert found.ratio == largest
        if epsilon >= 0.1:  # at 30, the rarest outcome has a few hundred units, less four
            assert found.epsilon > epsilon * (1 - 1e-9) - (0.1 if epsilon > 29 else 0.0)


def test_without_the_rule_for_tiny_epsilon_the_law_is_not_private():
    """The margin makes the own label rarer than others by more than e^epsilon: it is found."""

    class Unamended(SubsetRandomizer):
        def __init__(self, labels, size, epsilon):
            super().__init__(labels, size, epsilon)
            share = size / (size + (labels - size) * math.exp(-epsilon))
            self.inside = math.floor(UNITS * share) - 4

    assert SubsetRandomizer(5, 2, 1e-17).inside is None
    assert not exact_audit(Unamended(5, 2, 1e-17)).passed
    assert exact_audit(SubsetRandomizer(5, 2, 1e-17)).ratio == 1
    for labels, size in ((2, 1), (5, 2), (7, 6), (10**6, 3)):
        for exponent in range(-20, 0):
            epsilon = 10.0**exponent
            law = SubsetRandomizer(labels, size, epsilon).law
            assert law.ratio == 1 or at_most_exp(law.ratio, epsilon)


def test_subset_thresholds():
    generator = np.random.default_rng(3)
    for _ in range(500):
        labels = int(generator.integers(2, 5000))
        size = int(generator.integers(1, labels))
        epsilon = float(generator.uniform(1e-3, 30))
        randomizer = SubsetRandomizer(labels, size, epsilon)
        with mpmath.workdps(40):
            ideal = (
                UNITS
                * mpmath.mpf(size)
                / (size + (labels - size) * mpmath.exp(-mpmath.mpf(epsilon)))
            )
            spread = 2.0 * epsilon * ideal * (UNITS - ideal) / UNITS**2
            assert 0 < ideal - randomizer.inside < 9 + spread
        assert at_most_exp(randomizer.law.ratio, epsilon)
        if epsilon < 15:
            assert randomizer.gain == pytest.approx(math.expm1(epsilon), rel=1e-5)


@pytest.mark.parametrize(
    ("epsilon", "reports", "budget", "labels"),
    [(9.3, 7, 65.1, 11208), (11.3, 23, 259.9, 64657), (19.452, 15, 291.78, 280476360)],
)
def test_reports_that_the_ledger_admits_keep_to_the_budget(epsilon, reports, budget, labels):
    """Their doubles add up to more than the budget, by up to 2^-52 of it."""
    over = Fraction(epsilon) * reports / Fraction(budget) - 1
    assert 0 < over <= Fraction(1, 2**52)
    users = ClientPool(Hypotheses(np.eye(2)), 1, epsilon_max=budget, max_reports=reports)._ledgers
    for _ in range(reports):
        users.charge(None, epsilon, budget, reports)
    for size in (1, 2):
        law = SubsetRandomizer(labels, size, epsilon).law
        assert at_most_exp(law.ratio**reports, budget)
        bits = BitRandomizer(epsilon, size).law
        assert at_most_exp(bits.ratio**reports, budget)


def test_log_ratios_stay_below_epsilon_by_what_the_ledger_gives_away():
    generator = np.random.default_rng(5)
    for _ in range(400):
        epsilon = float(generator.uniform(1e-3, 30))
        # The probability of the own label is near 1/2, where a unit changes the log-ratio least.
        labels = int(min(2**31 - 1, max(2, math.exp(epsilon) * generator.uniform(0.5, 2))))
        with localcontext(Context(prec=60)):
            most = (Decimal(epsilon) * (1 - Decimal(2) ** -52)).exp()
            for law in (SubsetRandomizer(labels, 1, epsilon).law, BitRandomizer(epsilon).law):
                ratio = law.ratio
                assert Decimal(ratio.numerator) <= most * Decimal(ratio.denominator)


@pytest.mark.parametrize(
    ("labels", "size", "epsilon"), [(5, 2, 0.7), (10, 1, 1.0), (4, 3, 2.0), (6, 3, 1e-16)]
)
@pytest.mark.parametrize("label", [0, 2, -1])
def test_subsets_follow_their_law(labels, size, epsilon, label):
    randomizer, n = SubsetRandomizer(labels, size, epsilon), 100_000
    law = randomizer.pmf(label)
    codes = {sum(1 << y for y in report): i for i, report in enumerate(law)}
    chances = np.array([float(p) for p in law.values()])
    for seed in range(3):
        own = np.full(n, label, dtype=np.int64)
        drawn = randomizer.respond_many(own, Source.seeded(seed))
        assert (np.diff(drawn) > 0).all()
        counts = np.bincount([codes[c] for c in (1 << drawn).sum(axis=1).tolist()],
                             minlength=len(law))  # fmt: skip
        assert chi_square(counts, n * chances) > 1e-7
        if epsilon > 0.5 and label >= 0:
            wrong = SubsetRandomizer(labels, size, 1.1 * epsilon).pmf(label)
            assert chi_square(counts, n * np.array([float(p) for p in wrong.values()])) < 1e-4


def chi_square(counts, expected):
    from scipy.special import chdtrc

    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(chdtrc(len(counts) - 1, statistic))


@pytest.mark.parametrize(("labels", "size"), [(300, 40), (5000, 33), (70, 69), (33, 32), (400, 7)])
def test_large_subsets(labels, size):
    """Both ways of choosing: other labels are equally likely, the own one as likely as it is."""
    randomizer, n, own = SubsetRandomizer(labels, size, 1.0), 4000, labels // 3
    drawn = randomizer.respond_many(np.full(n, own, dtype=np.int64), Source.seeded(9))
    assert drawn.shape == (n, size)
    assert (np.diff(drawn) > 0).all()
    assert 0 <= drawn.min() <= drawn.max() < labels
    counts = np.bincount(drawn.ravel(), minlength=labels)
    inside = randomizer.inside / UNITS
    assert abs(counts[own] - n * inside) < 5.5 * math.sqrt(n * inside * (1 - inside)) + 1e-9
    others = np.delete(counts, own)
    share = (size - inside) / (labels - 1)
    # Largest of at most 5000 counts; 7 deviations: false alarm below 1e-8.
    assert np.abs(others - n * share).max() < 7.5 * math.sqrt(n * share * (1 - share)) + 4


def test_number_of_words_does_not_depend_on_the_label():
    randomizer = SubsetRandomizer(50, 7, 1.0)
    for label in (None, -1, 0, 49, 50, "x"):
        for seed in range(40):  # includes the label or not
            source = Source.seeded(seed)
            randomizer.respond(label, source)
            assert probes.position(source._engine, 0) == 8


def test_likelihoods_are_the_law_up_to_a_factor():
    randomizer = SubsetRandomizer(4, 2, 1.5)
    reports = list(combinations(range(4), 2))
    laws = [randomizer.pmf(y) for y in range(4)]
    exact = np.array([[sum(f * float(laws[y][z]) for y, f in enumerate(row)) for z in reports]
                      for row in FA])  # fmt: skip
    found = np.array([1.0 + randomizer.gain * FA[:, list(z)].sum(axis=1) for z in reports]).T
    np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), exact, rtol=1e-12)
