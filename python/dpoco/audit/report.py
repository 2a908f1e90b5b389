"""Claims, and the results of attacks on them, as values that can be printed and stored."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

from dpoco._json import plain
from dpoco.accounting import Guarantee
from dpoco.audit._family import Options

Point = tuple[float, float]

# If only violations by more than this factor are detectable, there is no useful power.
USEFUL = 4.0


def judge(violated: bool, powerful: bool) -> str:
    """Return one of "violated", "nothing found" and "no power".

    "nothing found" is only returned for an audit that could have found something.
    """
    if violated:
        return "violated"
    return "nothing found" if powerful else "no power"


def headline(
    audit: str,
    epsilon: float,
    delta: float,
    verdict: str,
    *,
    power: str = "could have shown",
    found: str = "found",
) -> str:
    """Return the first line of a report of a claim.

    Parameters
    ----------
    audit : str
        Subject of the report.
    epsilon, delta : float
        The claim.
    verdict : str
        Result of `judge`.
    power, found : str
        Continuation of the line without power, and after nothing was found.
    """
    claim = f"epsilon = {epsilon:.4g}, delta = {delta:.3g}"
    words = {
        "violated": f"VIOLATED: {claim} is refuted",
        "nothing found": f"no violation of {claim} {found}",
        "no power": f"no power: no violation of {claim} {power}",
    }
    return f"{audit}: {words[verdict]}"


def bound_text(value: float, digits: int = 4, *, up: bool = False) -> str:
    """Return a bound with few digits, rounded so that it remains valid.

    Parameters
    ----------
    value : float
        The bound; a relative 1e-9 of it counts as rounding error.
    digits : int, default 4
        Largest number of digits.
    up : bool, default False
        Whether it is an upper bound, or the least violation that would have been found.
    """
    if not math.isfinite(value):
        return f"{value:g}"
    side, slack = (ROUND_CEILING, -1e-9) if up else (ROUND_FLOOR, 1e-9)
    # Without the slack, 0.3 would become 0.2999, because its double is a little smaller.
    rounded = Context(digits, side).create_decimal_from_float(value + abs(value) * slack)
    return f"{float(rounded):.{digits}g}"


def confidence_text(confidence: float) -> str:
    """Return a confidence with nine digits, or its distance from 1 if that would print 1."""
    text = f"{confidence:.9g}"
    return f"1 - {1.0 - confidence:.3g}" if text == "1" else text


class Findings:
    """Base of audit reports with findings and a detectable factor.

    Attributes
    ----------
    findings : tuple of str
        Violations, in words; empty if none was found.
    detectable : float
        Factor on the measured values above which a violation would have been reported.
    """

    findings: tuple[str, ...]
    detectable: Any

    @property
    def violated(self) -> bool:
        """Whether the audit refuted the claim or one of its premises."""
        return bool(self.findings)

    @property
    def powerful(self) -> bool:
        """Whether the audit would have reported violations of four times the measured values."""
        return bool(self.detectable <= USEFUL)

    @property
    def passed(self) -> bool:
        """Whether the audit found no violation although it could have found one."""
        return self.powerful and not self.violated


@dataclass(frozen=True)
class Claim:
    """A claimed (epsilon, delta), and the curve to which it belongs.

    Attributes
    ----------
    epsilon, delta : float
        The claim.
    published : bool
        Whether it is a published claim that differs from the library's.
    guarantee : Guarantee
        The library's statement for the same noise.
    """

    epsilon: float
    delta: float
    published: bool
    guarantee: Guarantee = field(repr=False)

    @classmethod
    def of(cls, guarantee: Guarantee) -> Claim:
        """Return the stronger of the library's statement and the published claim.

        A published claim is stronger if its epsilon, at its own delta, is below that of exact
        accounting for the same noise.
        """
        if guarantee.claimed is not None:
            epsilon, delta = guarantee.claimed
            # A claim that only differs by rounding errors is the library's own.
            if 0.0 <= delta < 1.0 and epsilon * (1.0 + 1e-6) < guarantee.epsilon_at(delta):
                return cls(epsilon, delta, True, guarantee)
        return cls(guarantee.epsilon, guarantee.delta, False, guarantee)

    def delta_at(self, epsilon: float) -> float:
        """Return the claimed delta(epsilon); for a published claim, the curve that it implies.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float
            In [0, 1]. A pair (epsilon, delta) implies the whole curve of its worst mechanism
            (Kairouz, Oh and Viswanath, 2015).
        """
        if not self.published:
            return float(self.guarantee.delta_at(epsilon))
        if epsilon >= self.epsilon:
            return self.delta
        # The worst mechanism of this claim reveals its bit with probability delta, and otherwise
        # uses randomised response. Both exponents are at most 0, so no claim overflows.
        told = -math.expm1(epsilon - self.epsilon) / (1.0 + math.exp(-self.epsilon))
        return self.delta + (1.0 - self.delta) * told

    def __str__(self) -> str:
        text = f"epsilon = {self.epsilon:.4g}, delta = {self.delta:.3g}"
        if not self.published:
            return f"{text}, and all of the privacy curve it is a point of"
        own = self.guarantee.epsilon_at(self.delta)
        return f"{text}, as published (stated here for the same noise: epsilon = {own:.4g})"


def epsilon_of_point(epsilon: float, at_least: float, delta: float) -> float:
    """Return the least epsilon >= 0, at another delta, of a curve through a point.

    A mechanism with ``delta(epsilon) >= at_least`` is not (e, delta)-private for any smaller e.
    This is the inverse of `Claim.delta_at` for a published claim.

    Parameters
    ----------
    epsilon, at_least : float
        Epsilon of the measurement, and a lower bound on delta there.
    delta : float
        The claim's delta.
    """
    if at_least <= delta:
        return 0.0  # this delta is allowed at any epsilon
    # A lower bound of 1 would cause a division by 0.
    rest = max(1.0 - at_least, 1e-300)
    value = (1.0 - delta) / rest * (1.0 + math.exp(min(epsilon, 600.0))) - 1.0
    return math.log(value)


@dataclass(frozen=True)
class Attack:
    """One attack on one claim.

    Attributes
    ----------
    name : {"replay", "likelihood", "black box"}
        The audit.
    verdict : {"violated", "nothing found", "no power", "not applicable", "not available"}
        "nothing found" is only used for an attack that could have found something; "not applicable"
        for a replay of a learner that declares no bound on the effect of a record.
    epsilon : float or None
        Lower bound on epsilon from this attack, at the claim's delta, with the report's confidence;
        None if it measures no epsilon.
    detectable : float
        The smallest violation that would have been found, as a factor on the measured or claimed
        value, see `power`; infinite if there is none.
    power : str
        The same in words.
    findings : tuple of str
        Violations, in words.
    text : str
        The audit's own report, or the reason why there is none.
    points : tuple of (float, float)
        Epsilons, and lower bounds on delta there; empty for replay.
    """

    name: str
    verdict: str
    epsilon: float | None
    detectable: float
    power: str
    findings: tuple[str, ...] = ()
    text: str = ""
    points: tuple[Point, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class ExerciseReport:
    """Findings of the exercises of one learner, computed from runs on public streams.

    Attributes
    ----------
    exercises, pairs : int
        Number of settings, and of neighbouring streams that were replayed.
    scored : int
        Number of settings whose noise was scored against its declared law.
    findings : tuple of str
        Violations, in words.
    exercised, not_exercised : tuple of str
        Facts that apply to the learner and were reached by a setting, and those that were not.
    """

    exercises: int
    pairs: int
    scored: int
    findings: tuple[str, ...]
    exercised: tuple[str, ...]
    not_exercised: tuple[str, ...]

    def __str__(self) -> str:
        if not self.exercises:
            return "exercises: none were given, so that none of them was played"
        verdict = "violated" if self.findings else "no violation found"
        lines = [
            f"exercises: {verdict} in {self.exercises} settings, {self.pairs} neighbouring pairs",
            f"  noise scored by its law in {self.scored} of the settings",
            f"  exercised: {', '.join(self.exercised) or 'nothing'}",
            f"  not exercised: {', '.join(self.not_exercised) or 'nothing of the list'}",
        ]
        return "\n".join(lines + [f"  - {text}" for text in self.findings])


@dataclass(frozen=True)
class AuditReport:
    """Outcome of all attacks on one learner, computed from runs on public streams.

    Attributes
    ----------
    name, learner : str
        Name of the case, and class.
    about : str
        What makes the pair of streams hard.
    claim : Claim
        The tested claim.
    settings : dict
        Budget and size of the case, and the source of its parameters.
    attacks : tuple of Attack
        In the order in which they were run, including those that are not available.
    exercises : ExerciseReport
        Findings of other settings of the same class, and the facts they reached or did not reach.
    claimed_curve : tuple of (float, float)
        Epsilons and claimed deltas.
    seed : int
        Seed of all runs.
    confidence : float
        Probability, for each attack, of not reporting a violation if there is none.
    """

    name: str
    learner: str
    about: str
    claim: Claim
    settings: Options = field(hash=False)
    attacks: tuple[Attack, ...]
    exercises: ExerciseReport
    claimed_curve: tuple[Point, ...] = field(repr=False)
    seed: int
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether an attack or exercise found a violation. False does not mean there is none."""
        return bool(self._refuted_by())

    def _refuted_by(self) -> list[str]:
        """Return the attacks that refuted the claim, and "exercises" if one of them did."""
        names = [attack.name for attack in self.attacks if attack.verdict == "violated"]
        return names + ["exercises"] * bool(self.exercises.findings)

    @property
    def powerful(self) -> bool:
        """Whether any attack could have found a relevant violation."""
        return any(attack.verdict in ("violated", "nothing found") for attack in self.attacks)

    @property
    def strongest(self) -> Attack | None:
        """The attack with the largest positive lower bound on epsilon, or None."""
        measured = [attack for attack in self.attacks if attack.epsilon]
        return max(measured, key=lambda attack: attack.epsilon or 0.0, default=None)

    @property
    def outcome(self) -> str:
        """The verdict: "refuted", "not refuted", or "no power", which is no evidence either way."""
        if self.violated:
            return "refuted"
        return "not refuted" if self.powerful else "no power"

    @property
    def detectable_epsilon(self) -> float | None:
        """Smallest epsilon of this pair, at the claim's delta, that would have been refuted.

        It covers attacks that measure losses or frequencies and had power; None if there is none.
        """
        able = (a for a in self.attacks if a.verdict == "nothing found" and a.name != "replay")
        return min((attack.detectable * self.claim.epsilon for attack in able), default=None)

    @property
    def verdict(self) -> str:
        """One line that never claims more than was observed."""
        if self.violated:
            return f"VIOLATED: the claim is refuted ({', '.join(self._refuted_by())})"
        if not self.powerful:
            return "no power: no violation of the claim to speak of could have shown"
        weak = [a.name for a in self.attacks if a.verdict in ("no power", "not applicable")]
        least = self.detectable_epsilon
        found = "no violation found on this pair of streams, with power " + (
            "against movements of a record only"
            if least is None
            else f"down to epsilon {bound_text(least, up=True)}"
        )
        return found + (f" (without power: {', '.join(weak)})" if weak else "")

    def __str__(self) -> str:
        size = ", ".join(
            f"{name} {value:g}" if isinstance(value, (int, float)) else f"{name} {value}"
            for name, value in self.settings.items()
            if name not in ("epsilon", "delta")
        )
        lines = [
            f"Audit of {self.learner}: {self.verdict}",
            f"  claim: {self.claim}",
            f"  case: {size}",
            f"  streams: {self.about}",
        ]
        best = self.strongest
        if best is None or best.epsilon is None:
            lines.append("  strongest attack: none measured an epsilon above 0")
        else:
            lines.append(
                f"  strongest attack: {best.name}, epsilon is at least {bound_text(best.epsilon)} "
                f"at delta = {self.claim.delta:.3g}, "
                f"{_percentage(best.epsilon, self.claim.epsilon)} of the claim, at confidence "
                f"{confidence_text(self.confidence)}"
            )
        for attack in self.attacks:
            lines += ["", f"{attack.name}: {attack.verdict}", f"  {attack.power}"]
            if attack.verdict != "not available":
                lines += [f"  | {line}" for line in attack.text.splitlines()]
            lines += [f"  - {finding}" for finding in attack.findings]
        lines += ["", str(self.exercises)]
        return "\n".join(lines)

    def to_dict(self) -> Options:
        """Return a JSON-able dictionary.

        It includes the verdicts, so that readers need not know how they are computed.
        """
        best = self.strongest
        names = ("verdict", "outcome", "detectable_epsilon", "violated", "powerful")
        return {
            "kind": "dpoco.audit",
            "version": 2,
            **_plain(self),
            **{name: getattr(self, name) for name in names},
            "strongest": None if best is None else best.name,
        }

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)


def _plain(value: Any) -> Any:
    """Return a JSON-able value: records become dictionaries, and infinite numbers texts."""
    if isinstance(value, Guarantee):
        return value.to_dict()
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return plain(value)


def _percentage(measured: float, claimed: float) -> str:
    """Return a measured epsilon as a share of the claimed one, or in words if there is none."""
    if claimed <= 0.0 or not math.isfinite(claimed):
        return "more than all" if measured > claimed else "nothing"
    return f"{100.0 * measured / claimed:.3g} %"
