"""Randomizers: exact privacy by enumeration, exact laws, and drawn reports that follow them."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from local_cases import HOSTILE, LEVELS, UNITS, exceeds
from tests.local.exact import at_most_exp, exact_audit

from dpoco import _core
from dpoco.local import BitRandomizer, SubsetRandomizer
from dpoco.local._randomizers import best_bits, best_subset_size
from dpoco.privacy.mechanisms.local_report import Bits, Subset
from dpoco.random import Source

# -- bits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "low", "high"),
    [
        (0.1, 4278607108526156, 4728592146214836),
        (1.0, 2422408970132807, 6584790284608185),
        (4.0, 162005376966170, 8845193877774822),
    ],
)
def test_bit_vectors(epsilon, low, high):
    randomizer = BitRandomizer(epsilon)
    assert (randomizer.low, randomizer.high) == (low, high)
    assert randomizer.threshold(1.0) == high
    assert randomizer.threshold(-1.0) == low


def test_labels_are_counted_by_31_bits():
    assert SubsetRandomizer(2**31 - 1, 1, 1.0).labels == 2**31 - 1
    with pytest.raises(ValueError, match=r"labels must be .* 2147483647"):
        SubsetRandomizer(2**31, 1, 1.0)
    with pytest.raises(ValueError, match="at least 2 labels"):
        best_subset_size(1, 1.0)
    assert [best_subset_size(m, 1e-12) for m in range(2, 9)] == [1, 1, 2, 2, 3, 3, 4]
    assert [best_bits(epsilon) for epsilon in (0.5, 1.0, 1.5, 2.0)] == [1] * 4
    assert len(BitRandomizer(1.0, 13).pmf([0.5] * 13)) == 2**13


@pytest.mark.parametrize("epsilon", [1e-17, 0.5, 20.0])
def test_the_kernel_is_told_what_is_drawn(epsilon):
    bits, subsets = BitRandomizer(epsilon, 3), SubsetRandomizer(7, 2, epsilon)
    assert bits.law == Bits(bits.low, bits.high, 3)
    assert subsets.law == Subset(7, 2, subsets._law.inside)
    chances = [subsets.probability((1, 2), label) for label in (1, 0, None)]
    assert chances[2] == Fraction(1, math.comb(7, 2))
    assert math.isclose(chances[0] / chances[1], 1.0 + subsets.gain, rel_tol=1e-12)
    assert (subsets.inside is None) == (subsets._law.inside == 0) == (epsilon < 1e-16)


def test_audits_try_all_sixty_fourths_and_what_no_query_says():
    randomizer = BitRandomizer(1.0)
    phis = np.array(randomizer.PROBES)
    assert set(phis[:129]) == {i / 64 for i in range(-64, 65)}
    assert set(phis[130:]) >= {math.inf, -math.inf, 2.0, -2.0}
    assert math.isnan(phis[129])
    ends = {randomizer.low, 2**52, randomizer.high}
    assert {randomizer.threshold(phi) for phi in phis[129:]} == ends


def test_threshold_vector():
    assert BitRandomizer(1.0).threshold(0.37) == 5273640170548441


@pytest.mark.parametrize("epsilon", LEVELS)
def test_thresholds_are_rounded_half_to_even_and_clamped(epsilon):
    randomizer = BitRandomizer(epsilon)
    gap = randomizer.high - 2**52
    phis = np.concatenate([np.linspace(-1, 1, 401), [0.5**i for i in range(60)], HOSTILE])
    many = randomizer.thresholds(phis)
    for phi, k in zip(phis.tolist(), many.tolist(), strict=True):
        clean = min(max(phi, -1.0), 1.0) if math.isfinite(phi) else 0.0
        expected = round(float(2**52) + clean * float(gap))  # Python rounds half to even
        assert randomizer.threshold(phi) == k == min(max(expected, randomizer.low), randomizer.high)
        assert randomizer.low <= k <= randomizer.high
    assert randomizer.low + randomizer.high == UNITS


@pytest.mark.parametrize("epsilon", LEVELS)
def test_bits_are_private_exactly(epsilon):
    """Every pair of values that labels can have, both outcomes."""
    randomizer = BitRandomizer(epsilon)
    laws = [randomizer.pmf(phi) for phi in [*np.linspace(-1, 1, 33), *HOSTILE]]
    assert all(sum(law.values()) == 1 for law in laws)
    for bit in ((0,), (1,)):
        chances = [law[bit] for law in laws]
        assert not exceeds(max(chances) / min(chances), epsilon)
    found = exact_audit(randomizer)
    assert found.passed
    assert found.epsilon <= epsilon
    assert found.epsilon >= epsilon * (1 - (1e-3 if epsilon > 29 else 1e-6)) - 1e-14


def test_bits_are_private_at_twenty_thousand_levels():
    """And lose less than 1e-13 of the contrast of the ideal law."""
    generator = np.random.default_rng(1)
    small = 10 ** generator.uniform(-16, 1.47, 10_000)
    levels = np.concatenate([generator.uniform(0, 30, 10_000), small])
    context = Context(prec=45)
    for epsilon in levels.tolist():
        law = _core.BitLaw(epsilon)
        power = Fraction(context.exp(Decimal(epsilon)))
        assert Fraction(law.high, law.low) <= power * (1 - Fraction(1, 10**43))
        assert abs(law.contrast - math.tanh(epsilon / 2)) < 3e-15


def test_a_missing_margin_or_wrong_threshold_is_found():
    class NoMargin(BitRandomizer):
        def __init__(self, epsilon):
            super().__init__(epsilon)
            self.high, self.low = self.high + 4, self.low - 4
            self.high += 2  # what an exp rounded upwards would add
            self.low -= 2

    class Unclamped(BitRandomizer):
        def threshold(self, phi):
            return 2**52 if not abs(phi) < 10 else round(2**52 + phi * (self.high - 2**52))

    class NotANumber(BitRandomizer):
        def threshold(self, phi):
            return 0 if math.isnan(phi) else super().threshold(phi)

    assert not at_most_exp(NoMargin(1.0).law.ratio, 1.0)
    assert not exact_audit(Unclamped(1.0)).passed
    assert exact_audit(NotANumber(1.0)).epsilon == math.inf
    # One unit too much is already too much where the ideal ratio is met exactly.
    assert at_most_exp(Fraction(1), 0.0) is False  # equality cannot be certified
    assert at_most_exp(Fraction(2718281828459045, 10**15), 1.0)
    assert not at_most_exp(Fraction(2718281828459046, 10**15), 1.0)


def test_the_margin_is_needed():
    """Without it, doubles break the promise at some levels: the test above can fail."""
    context, broken = Context(prec=45), 0
    for epsilon in np.linspace(0.01, 3.0, 3000).tolist():
        high = _core.BitLaw(epsilon).high + 4
        broken += Fraction(high, UNITS - high) > Fraction(context.exp(Decimal(epsilon)))
    assert broken > 50


@pytest.mark.parametrize("bits", [1, 2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 29.9])
def test_several_bits_share_epsilon(bits, epsilon):
    randomizer = BitRandomizer(epsilon, bits)
    assert exact_audit(randomizer).passed
    assert randomizer.high == BitRandomizer(epsilon / bits).high
    if bits <= 3:
        laws = [randomizer.pmf(phis) for phis in product((-1.0, 0.3, 1.0), repeat=bits)]
        for outcome in product((0, 1), repeat=bits):
            chances = [law[outcome] for law in laws]
            assert not exceeds(max(chances) / min(chances), epsilon)
        assert all(sum(law.values()) == 1 for law in laws)
    for k in (1, 5, 64):
        assert exact_audit(BitRandomizer(epsilon, k)).passed


@pytest.mark.parametrize("phi", [-1.0, -0.3, 0.0, 0.7, 1.0, math.nan])
def test_bits_follow_their_law(phi):
    randomizer, n = BitRandomizer(1.2), 400_000
    table = randomizer.thresholds(np.array([phi]))
    for seed in range(3):
        bits = randomizer.respond_many(table, np.zeros(n, dtype=np.int64), Source.seeded(seed))
        chance = float(randomizer.pmf(phi)[(1,)])
        deviation = math.sqrt(n * chance * (1 - chance))
        assert abs(bits.sum() - n * chance) < 5.3 * deviation  # 1.2e-7 each
        wrong = 0.5 * (1 + 1.05 * math.tanh(0.6) * (phi if phi == phi else 0.0))
        if abs(phi) == 1.0:  # a contrast wrong by 5 % is found
            assert abs(bits.sum() - n * wrong) > 8 * deviation


def test_bit_of_a_word():
    """One word a bit, its upper 53 bits, strictly below the threshold."""
    randomizer, phis = BitRandomizer(2.0, 3), [0.4, -0.9, 1.0]
    ours, words = Source.seeded(7), Source.seeded(7)
    for _ in range(50):
        expected = tuple(
            int(w >> 11 < randomizer.threshold(phi))
            for w, phi in zip(words.words(3).tolist(), phis, strict=True)
        )
        assert randomizer.respond(phis, ours) == expected


# -- coordinates -----------------------------------------------------------------------------------


def test_contrasts_below_the_digits_say_nothing():
    assert BitRandomizer(1.3).inverse_contrast == pytest.approx(1.0 / math.tanh(0.65), rel=1e-14)
    assert math.isinf(BitRandomizer(1e-16).inverse_contrast)


# -- arguments -------------------------------------------------------------------------------------


def test_what_cannot_be_audited_or_listed():
    with pytest.raises(TypeError, match="randomizer"):
        exact_audit(3)
    for call in (lambda: SubsetRandomizer(60, 30, 1.0).pmf(0), lambda: BitRandomizer(1.0, 30).pmf(
            [0.0] * 30)):  # fmt: skip
        with pytest.raises(ValueError, match="too many"):
            call()


def test_sizes_of_subsets_are_those_of_exact_arithmetic():
    rng = np.random.default_rng(0)
    with mpmath.workdps(50):
        for labels, epsilon in zip(
            rng.integers(2, 10**6, size=2000), rng.exponential(2.0, size=2000), strict=True
        ):
            size = int(mpmath.floor(int(labels) / (mpmath.exp(mpmath.mpf(epsilon)) + 1) + 0.5))
            assert best_subset_size(int(labels), epsilon) == min(max(size, 1), labels - 1)
    assert best_subset_size(7, 1e-9) == 3
    assert SubsetRandomizer(1000, None, 1.0).size == 269


def test_numbers_of_bits_are_those_of_exact_arithmetic():
    with mpmath.workdps(50):
        for epsilon in (*np.linspace(0.5, 30.0, 119), 3.05, 3.06):
            best = max(
                range(1, 65), key=lambda k: k * mpmath.tanh(mpmath.mpf(epsilon) / (2 * k)) ** 2
            )
            assert best_bits(float(epsilon)) == best
    for epsilon in (5e-324, 1e-300, 2.3e-16, 1e-15, 1e-6):
        assert best_bits(epsilon) == 1
    assert [best_bits(e) for e in (0.1, 1.0, 3.05, 3.06, 4.0)] == [1, 1, 1, 2, 2]
    assert BitRandomizer(4.0, "auto").bits == 2
    assert math.isfinite(BitRandomizer(30.0, "auto").contrast)
