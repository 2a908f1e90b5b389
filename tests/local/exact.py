"""Exact audit of local randomizers: all probabilities as fractions, all reports listed.

A client's randomizer samples with integers, so its law is a table of fractions. The audit builds
this table for every input from the integers that the randomizer uses, and compares it with the
promise, without statistics or tolerance. ``docs/privacy/replay_and_likelihood.md`` says what it
proves and what it does not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from dpoco.local import BitRandomizer, SubsetRandomizer
from dpoco.random import Source

_DIGITS = 120
_CELLS = 200_000  # largest number of cells of a listed table
_DRAWS = 64  # draws of a randomizer on a tape
# Each bit compares the upper 53 bits of a word with a threshold.
_UNITS = 2**53


@dataclass(frozen=True)
class ExactReport:
    """Outcome of an exact audit; a function of the randomizer alone, not of any data.

    Attributes
    ----------
    randomizer : str
        Description of the audited randomizer.
    claimed : float
        The promised epsilon.
    epsilon : float
        The true epsilon: the logarithm of the largest ratio of two probabilities of one report,
        rounded up; infinite if a report is possible for some inputs only.
    ratio : Fraction or None
        This ratio, exactly; None if it is infinite.
    delta : float
        Largest excess of one distribution over e^claimed times another, rounded up. It is 0 if the
        promise is kept, and NaN if it is not kept and the distributions were not listed.
    inputs, reports : int
        Inputs and reports of the listed table. 0 reports means that there are too many, and that
        the ratio was computed from the structure of the law.
    findings : tuple of str
        Violations, in words; empty if none was found.
    """

    randomizer: str
    claimed: float
    epsilon: float
    ratio: Fraction | None
    delta: float
    inputs: int
    reports: int
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the promise is kept, which the audit decides exactly."""
        return not self.findings

    def __str__(self) -> str:
        verdict = "kept" if self.passed else "VIOLATED"
        listed = (
            f"all {self.reports} reports listed for {self.inputs} inputs"
            if self.reports
            else "not listed: by the structure of the law"
        )
        lines = [
            f"Exact audit of {self.randomizer}: epsilon = {self.claimed:.6g} is {verdict}",
            f"  epsilon as sampled {self.epsilon:.17g}; {listed}",
        ]
        if self.ratio is not None:
            lines.append(f"  largest ratio {self.ratio.numerator} / {self.ratio.denominator}")
        if self.delta > 0.0:
            lines.append(f"  with that epsilon it would need delta = {self.delta:.6g}")
        lines.append(
            f"  in {_DIGITS} digits: an excess of the ratio by a factor of 1 + 1e-{_DIGITS - 2} "
            "would have been reported; that reports are drawn by that law is checked of bits only"
        )
        return "\n".join(lines + [f"  - {text}" for text in self.findings])


def exact_audit(randomizer: BitRandomizer | SubsetRandomizer) -> ExactReport:
    """Return the exact epsilon of a local randomizer, from the integers with which it samples.

    Parameters
    ----------
    randomizer : BitRandomizer or SubsetRandomizer

    Returns
    -------
    ExactReport

    Raises
    ------
    TypeError
        For anything else.

    Notes
    -----
    Inputs are all labels, no label, and one outside the domain. For bits they are all possible
    values of a query on 129 points of [-1, 1], and hostile values. O(inputs times reports)
    fractions, at most 200 000. Beyond that, the largest ratio is computed from the structure of the
    law.
    """
    if not isinstance(randomizer, (BitRandomizer, SubsetRandomizer)):
        raise TypeError(f"{type(randomizer).__name__} is no randomizer with a finite law")
    claimed, exact = randomizer.epsilon, _largest(randomizer)
    report = functools.partial(ExactReport, repr(randomizer), claimed)
    if exact == math.inf:
        found = "a report is impossible for some inputs only: no ratio is finite"
        return report(math.inf, None, math.nan, 0, 0, (found,))
    assert isinstance(exact, Fraction)
    holds = at_most_exp(exact, claimed)
    # The bits of one report are independent, so their ratios multiply and one bit is listed.
    laws, power = list(_laws(randomizer)), getattr(randomizer, "bits", 1)
    findings: list[str] = []
    # If no ratio exceeds e^claimed, there is no excess.
    delta, reports = (0.0 if holds else math.nan), 0
    if laws:
        reports = len(laws[0])
        if any(sum(law.values()) != 1 for law in laws):
            findings.append("the probabilities of an input do not add up to 1")
        columns = ([law[each] for law in laws] for each in laws[0])
        listed = max(max(column) / min(column) for column in columns) ** power
        if listed != exact:
            findings.append("the listed law has another largest ratio than its structure")
        if power == 1 and not holds:
            delta = _excess(laws, claimed)
    if isinstance(randomizer, BitRandomizer) and not _draws_by_table(randomizer):
        findings.append("reports are not drawn with the tabled probabilities")
    if not holds:
        findings.append(f"the largest ratio is above e^{claimed:.6g}")
    return report(
        epsilon=_upwards(exact),
        ratio=exact,
        delta=delta,
        inputs=len(laws),
        reports=reports,
        findings=tuple(findings),
    )


Law = dict[tuple[int, ...], Fraction]


def _largest(randomizer: BitRandomizer | SubsetRandomizer) -> Fraction | float:
    """Return the largest ratio, computed from the structure of the law.

    Infinite if some report is possible for some inputs only.
    """
    if isinstance(randomizer, BitRandomizer):  # bits are independent
        reached = [randomizer.threshold(phi) for phi in BitRandomizer.PROBES]
        least, most = min(*reached, randomizer.low), max(*reached, randomizer.high)
        if least <= 0 or most >= _UNITS:
            return math.inf
        # Either answer of a bit may have the larger ratio.
        worst = max(Fraction(most, least), Fraction(_UNITS - least, _UNITS - most))
        return Fraction(worst**randomizer.bits)
    # The user's label in the report, outside of it, and none.
    report = tuple(range(randomizer.size))
    chances = [randomizer.probability(report, label) for label in (0, randomizer.size, None)]
    return Fraction(max(chances) / min(chances))


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Return whether ``ratio <= e^epsilon``, decided with 120 digits and never wrongly true.

    A ratio that equals e^epsilon up to 1e-118 counts as larger. So the error may be a false alarm
    but never a missed violation.
    """
    return ratio <= _power(epsilon)


def _power(epsilon: float) -> Fraction:
    """Return e^epsilon, rounded down by more than half a unit of the last digit."""
    # `Decimal.exp` rounds to nearest. The factor below makes the result too small, which is the
    # strict side.
    power = Fraction(Context(prec=_DIGITS).exp(Decimal(epsilon)))
    return power * (1 - Fraction(1, 10 ** (_DIGITS - 2)))


def _laws(randomizer: BitRandomizer | SubsetRandomizer) -> Iterator[Law]:
    """Yield the laws of all inputs; for independent bits, the laws of one bit.

    Laws of subsets are not listed if they have more than 200,000 entries together.
    """
    if isinstance(randomizer, BitRandomizer):
        for k in sorted({randomizer.threshold(phi) for phi in BitRandomizer.PROBES}):
            one = Fraction(k, _UNITS)
            yield {(0,): 1 - one, (1,): one}
    else:
        labels = randomizer.labels
        if math.comb(labels, randomizer.size) * (labels + 2) <= _CELLS:
            for label in (*range(labels), None, labels):
                yield randomizer.pmf(label)


def _excess(laws: list[Law], epsilon: float) -> float:
    """Return the largest hockey-stick divergence of two laws at epsilon, rounded up.

    NaN if there are too many pairs to compare.
    """
    factor = _power(epsilon)
    distinct = [dict(pairs) for pairs in {tuple(law.items()) for law in laws}]
    if len(distinct) ** 2 * len(laws[0]) > _CELLS * 10:
        return math.nan
    excess = max(
        sum((max(p - factor * other[z], Fraction(0)) for z, p in law.items()), Fraction(0))
        for law in distinct
        for other in distinct
    )
    # `float` rounds to nearest, and so down in half of all cases.
    value = float(excess)
    return value if Fraction(value) >= excess else math.nextafter(value, math.inf)


def _draws_by_table(randomizer: BitRandomizer) -> bool:
    """Return whether bits are ``[U < k]`` for the tape's upper 53 bits U and the tabled k.

    It draws 64 bits at each of five inputs, including both ends and a hostile one. A threshold that
    is wrong by one unit of 2^-53 would not show; only the table is exact.
    """
    for seed, phi in enumerate((-1.0, 0.0, 0.3, 1.0, math.nan)):
        ours, theirs = Source.seeded(seed), Source.seeded(seed)
        k = randomizer.threshold(phi)
        for _ in range(_DRAWS // randomizer.bits + 1):
            words = ours.words(randomizer.bits).tolist()
            expected = tuple(int(word >> 11 < k) for word in words)
            if tuple(randomizer.respond([phi] * randomizer.bits, theirs)) != expected:
                return False
    return True


def _upwards(ratio: Fraction) -> float:
    """Return ln of a ratio, as a double that is not smaller.

    `ExactReport.epsilon` promises never to be below the true value.
    """
    if ratio == 1:
        return 0.0
    context = Context(prec=_DIGITS)
    logarithm = context.ln(context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))
    # Quotient and logarithm have rounding errors in the last digits.
    exact = Fraction(logarithm) + Fraction(1, 10 ** (_DIGITS - 10))
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)
