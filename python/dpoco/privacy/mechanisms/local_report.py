"""Reports of devices that trust no one: bits of randomised response, random subsets of labels.

Every probability that a device draws with is an integer over N = 2^53 (times a binomial coefficient
for subsets), so that "no two inputs make a report more than e^epsilon times as likely" is a
statement about integers: for k bits, each 1 with a probability in [l, h] / N,

    max(h / l, (N - l) / (N - h))^k <= e^epsilon,

and for subsets of d of M labels, which hold the own label with probability p / N, the ratio of any
two of p M / (N d), 1 and (N - p) M / (N (M - d)), for a label inside, none at all, and one outside.

Proof: ``docs/privacy/local_randomizers.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from dpoco.privacy.losses.responses import Responses
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["Bits", "LocalReport", "Subset", "at_most_exp"]

_UNITS = 2**53
_MOST_BITS = 2**12  # the ratio of one report is an exact fraction with some 16 digits a bit
_DIGITS = 120


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Return whether ``ratio <= e^epsilon``, decided with 120 digits; never wrongly true."""
    # A double converts exactly to Decimal and Fraction, so only the exponential is rounded.
    power = Fraction(Context(prec=_DIGITS).exp(Decimal(epsilon)))  # to half a unit of the last
    return ratio <= power * (1 - Fraction(1, 10 ** (_DIGITS - 2)))


@dataclass(frozen=True)
class Bits(Description):
    """`count` independent bits, each 1 with a probability in [`low`, `high`] / 2^53."""

    kind = "bits"
    low: int
    high: int
    count: int

    def __post_init__(self) -> None:
        """Refuse bits with a value of probability 0, and too many."""
        super().__post_init__()
        if not self.low <= self.high < _UNITS:
            raise ValueError(f"bits need 0 < low <= high < 2^53; got {self.low} and {self.high}")
        if self.count > _MOST_BITS:
            raise ValueError(f"a report has at most {_MOST_BITS} bits; got {self.count}")

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of two probabilities of one report."""
        ones, zeros = Fraction(self.high, self.low), Fraction(_UNITS - self.low, _UNITS - self.high)
        return max(ones, zeros) ** self.count


@dataclass(frozen=True)
class Subset(Description):
    """A uniform subset of `size` of `labels` labels, given whether it holds the user's own label.

    It holds it with probability `inside` / 2^53; 0 stands for a uniform subset for any label.
    """

    kind = "subset"
    labels: int
    size: int
    inside: int = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse subsets of all labels, and probabilities that make a report impossible."""
        super().__post_init__()
        if not (self.size < self.labels and self.inside < _UNITS):
            raise ValueError("a subset leaves a label out, and the own one may be")

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of two probabilities of one report."""
        if self.inside == 0:
            return Fraction(1)
        share = Fraction(self.size, self.labels)
        own = Fraction(self.inside, _UNITS)
        chances = (own / share, Fraction(1), (1 - own) / (1 - share))
        return max(chances) / min(chances)


@dataclass(frozen=True)
class LocalReport(Mechanism):
    """Reports of one user, each drawn on the user's device by one of some laws.

    Attributes
    ----------
    epsilon : float
        Bound on the epsilon of every law. Without laws, epsilon of all reports together: a ledger
        on the device charges each report's epsilon before the report is drawn.
    reports : int
        Number of reports of one user, each drawn independently of all reports before.
    laws : tuple of Bits and Subset
        Laws that the server may ask for, any of them in any round.
    """

    kind = "local_report"
    noise = "fresh"
    one_round = True
    proofs = ("local_randomizers",)
    epsilon: float
    reports: int
    laws: tuple[Bits | Subset, ...]

    def __post_init__(self) -> None:
        """Refuse laws that exceed epsilon, in exact arithmetic."""
        super().__post_init__()
        for law in self.laws:
            # A ratio of exactly 1 is private at any epsilon, also where e^epsilon rounds to 1.
            if law.ratio > 1 and not at_most_exp(law.ratio, self.epsilon):
                raise ValueError(f"{law.kind} of {self.kind} exceed epsilon = {self.epsilon!r}")
        if not self.laws and self.reports > 1:
            raise ValueError("without laws, epsilon is of all reports together: reports is 1")

    def loss(self, near: Neighbours) -> Responses:
        """Return the loss of all reports of one user, for every observer."""
        return Responses(self.epsilon, self.reports * near.rounds)
