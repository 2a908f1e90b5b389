"""Exact epsilons of randomizers from the integers they sample with, and laws that break them."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import mpmath
import pytest
from tests.local.exact import ExactReport, exact_audit

from dpoco.local import BitRandomizer, SubsetRandomizer

LEVELS = [1e-15, 1e-6, 0.1, 1.0, 4.0, 29.9, 30.0]


@pytest.mark.parametrize("epsilon", LEVELS)
def test_promises_are_kept(epsilon):
    made = [
        *(BitRandomizer(epsilon, bits) for bits in (1, 2, 5)),
        *(SubsetRandomizer(labels, d, epsilon) for labels in (2, 5, 7) for d in range(1, labels)),
        SubsetRandomizer(5000, None, epsilon),
    ]
    for each in made:
        report = exact_audit(each)
        assert report.passed, str(report)
        assert report.epsilon <= epsilon
        assert report.delta == 0.0
        assert "is kept" in str(report)
        assert "would have been reported" in str(report)


def test_epsilons_are_exact_and_rounded_upwards():
    with mpmath.workdps(60):
        for each in (BitRandomizer(1.0), BitRandomizer(0.3, 3), SubsetRandomizer(6, 2, 2.0)):
            report = exact_audit(each)
            truth = mpmath.log(mpmath.mpf(report.ratio.numerator) / report.ratio.denominator)
            assert truth <= report.epsilon <= float(truth) + 2 * math.ulp(report.epsilon)
    assert exact_audit(BitRandomizer(1.0)).ratio == Fraction(6584790284608185, 2422408970132807)
    assert exact_audit(SubsetRandomizer(5, 2, 1e-17)).ratio == 1
    assert exact_audit(SubsetRandomizer(5, 2, 1e-17)).epsilon == 0.0
    report = exact_audit(SubsetRandomizer(5, 2, 1.0))
    assert (report.inputs, report.reports) == (7, 10)
    assert exact_audit(SubsetRandomizer(5000, 3, 1.0)).reports == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.claimed = 2.0
    assert isinstance(report, ExactReport)


def test_one_unit_too_many_is_found():
    class Rounded(BitRandomizer):
        """Whose probabilities are rounded to nearest, without a margin: too far by units."""

        def threshold(self, phi):
            k = super().threshold(phi)
            return k + (5 if k > 2**52 else -5 if k < 2**52 else 0)

    report = exact_audit(Rounded(1.0))
    assert not report.passed
    assert report.ratio > 1
    assert 0.0 < report.delta < 1e-14
    assert report.epsilon >= 1.0
    assert "VIOLATED" in str(report)
    assert "would need delta" in str(report)


def test_reports_that_are_not_drawn_from_the_table_are_found():
    class Elsewhere(BitRandomizer):
        """Whose table is right, and whose bits are drawn with a larger contrast."""

        def respond(self, phis, source):
            words = source.words(self.bits).tolist()
            return tuple(int(word >> 11 < self.high + 2**48) for word in words)

    report = exact_audit(Elsewhere(1.0))
    assert not report.passed
    assert any("not drawn" in text for text in report.findings)


def test_laws_that_do_not_add_up_or_exclude_reports_are_found():
    class Leaking(SubsetRandomizer):
        def probability(self, report, label):
            return super().probability(report, label) * Fraction(2**60 + 1, 2**60)

    assert any("add up" in text for text in exact_audit(Leaking(5, 2, 1.0)).findings)

    class Silent(BitRandomizer):
        def threshold(self, phi):
            return 0 if math.isnan(phi) else super().threshold(phi)

    report = exact_audit(Silent(1.0))
    assert report.epsilon == math.inf
    assert not report.passed

    class Biased(SubsetRandomizer):
        """Gives one report away: its largest ratio is not where the structure has it."""

        def pmf(self, label):
            law = super().pmf(label)
            first, *_, last = law
            if label == 0:
                moved = law[last] / 2
                law[first], law[last] = law[first] + moved, law[last] - moved
            return law

    report = exact_audit(Biased(5, 2, 1.0))
    assert any("structure" in text for text in report.findings)


def test_what_is_no_randomizer_is_refused():
    with pytest.raises(TypeError, match="no randomizer"):
        exact_audit(object())
