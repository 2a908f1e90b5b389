"""Claims, and what attacks on them found, as values that can be printed and stored."""

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

# Violations by more than this factor are too large to speak of power.
USEFUL = 4.0


def judge(violated: bool, powerful: bool) -> str:
    """Return one of "violated", "nothing found" and "no power".

    "nothing found" is only said of an audit that could have found something.
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
        What the report is of.
    epsilon, delta : float
        The claim.
    verdict : str
        From `judge`.
    power, found : str
        How the line goes on without power, and after nothing was found.
    """
    claim = f"epsilon = {epsilon:.4g}, delta = {delta:.3g}"
    words = {
        "violated": f"VIOLATED: {claim} is refuted",
        "nothing found": f"no violation of {claim} {found}",
        "no power": f"no power: no violation of {claim} {power}",
    }
    return f"{audit}: {words[verdict]}"


def bound_text(value: float, digits: int = 4, *, up: bool = False) -> str:
    """Return a bound in few digits, rounded to the side on which it still holds.

    Parameters
    ----------
    value : float
        The bound; a part in 1e9 of it is taken for rounding.
    digits : int, default 4
        At most so many.
    up : bool, default False
        Whether it is an upper bound, or the least violation that would have been found.
    """
    if not math.isfinite(value):
        return f"{value:g}"
    side, slack = (ROUND_CEILING, -1e-9) if up else (ROUND_FLOOR, 1e-9)
    # Without the slack 0.3, whose double is a little less, would be 0.2999.
    rounded = Context(digits, side).create_decimal_from_float(value + abs(value) * slack)
    return f"{float(rounded):.{digits}g}"


def confidence_text(confidence: float) -> str:
    """Return a confidence in nine digits, and one that these would make 1 by what it lacks."""
    text = f"{confidence:.9g}"
    return f"1 - {1.0 - confidence:.3g}" if text == "1" else text


class Findings:
    """Base of audit reports that have findings and a factor that they would have detected.

    Attributes
    ----------
    findings : tuple of str
        Violations, in words; empty if none was found.
    detectable : float
        Factor on what was measured from which on a violation would have been reported.
    """

    findings: tuple[str, ...]
    detectable: Any

    @property
    def violated(self) -> bool:
        """Whether the audit refuted the claim or one of its premises."""
        return bool(self.findings)

    @property
    def powerful(self) -> bool:
        """Whether the audit would have reported violations four times what was measured."""
        return bool(self.detectable <= USEFUL)

    @property
    def passed(self) -> bool:
        """Whether the audit found no violation although it could have found one."""
        return self.powerful and not self.violated


@dataclass(frozen=True)
class Claim:
    """A claimed (epsilon, delta), and the curve it is a point of.

    Attributes
    ----------
    epsilon, delta : float
        The claim.
    published : bool
        Whether it is a published claim that the library does not share.
    guarantee : Guarantee
        What the library states for the same noise.
    """

    epsilon: float
    delta: float
    published: bool
    guarantee: Guarantee = field(repr=False)

    @classmethod
    def of(cls, guarantee: Guarantee) -> Claim:
        """Return the stronger of what the library states and what the published argument does.

        A published claim is stronger if its epsilon, at its own delta, is below what exact
        accounting of the same noise gives.
        """
        if guarantee.claimed is not None:
            epsilon, delta = guarantee.claimed
            # A claim that differs by roundings alone is the library's own.
            if 0.0 <= delta < 1.0 and epsilon * (1.0 + 1e-6) < guarantee.epsilon_at(delta):
                return cls(epsilon, delta, True, guarantee)
        return cls(guarantee.epsilon, guarantee.delta, False, guarantee)

    def delta_at(self, epsilon: float) -> float:
        """Return the claimed delta(epsilon): of a published claim, all that follows from it.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float
            In [0, 1]. A bare pair (epsilon, delta) implies a whole curve, that of its
            worst mechanism
            (Kairouz, Oh and Viswanath, 2015).
        """
        if not self.published:
            return float(self.guarantee.delta_at(epsilon))
        if epsilon >= self.epsilon:
            return self.delta
        # The worst mechanism of that claim tells its bit with probability delta, and otherwise
        # responds at random.
        # Both exponents are at most 0, so that no claim overflows.
        told = -math.expm1(epsilon - self.epsilon) / (1.0 + math.exp(-self.epsilon))
        return self.delta + (1.0 - self.delta) * told

    def __str__(self) -> str:
        text = f"epsilon = {self.epsilon:.4g}, delta = {self.delta:.3g}"
        if not self.published:
            return f"{text}, and all of the privacy curve it is a point of"
        own = self.guarantee.epsilon_at(self.delta)
        return f"{text}, as published (stated here for the same noise: epsilon = {own:.4g})"


def epsilon_of_point(epsilon: float, at_least: float, delta: float) -> float:
    """Return the epsilon that a curve through a point asks for at another delta, at least 0.

    A mechanism with ``delta(epsilon) >= at_least`` is not (e, delta)-private for any smaller e: the
    inverse of `Claim.delta_at` of a published claim.

    Parameters
    ----------
    epsilon, at_least : float
        Where the curve was measured, and what delta is at least there.
    delta : float
        The other delta, of the claim.
    """
    if at_least <= delta:
        return 0.0  # that much is granted at any epsilon
    # A delta of 1 would divide by 0.
    rest = max(1.0 - at_least, 1e-300)
    value = (1.0 - delta) / rest * (1.0 + math.exp(min(epsilon, 600.0))) - 1.0
    return math.log(value)


@dataclass(frozen=True)
class Attack:
    """One attack on one claim.

    Attributes
    ----------
    name : {"replay", "likelihood", "black box"}
        Which audit.
    verdict : {"violated", "nothing found", "no power", "not applicable", "not available"}
        "nothing found" is said only of an attack that could have found something; "not applicable"
        of a replay of a learner that declares no bound on what a record moves.
    epsilon : float or None
        Lower bound on epsilon, at the claim's delta, from this attack, with the report's
        confidence; None if it measures no epsilon.
    detectable : float
        The smallest violation that would have been found, as a factor on what the attack measured
        or was claimed, see `power`; infinite: none.
    power : str
        The same in words.
    findings : tuple of str
        Violations, in words.
    text : str
        The audit's own report, or why there is none.
    points : tuple of (float, float)
        Epsilons, and what delta is at least there; empty for replay.
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
    """Findings of the exercises of one learner; computed from runs on public streams.

    Attributes
    ----------
    exercises, pairs : int
        Settings, and neighbouring streams that were replayed.
    scored : int
        Settings whose noise was scored against its declared law.
    findings : tuple of str
        Violations, in words.
    exercised, not_exercised : tuple of str
        What applies to the learner and was reached by a setting, and what was by none.
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
    """Outcome of all attacks on one learner; computed from runs on public streams.

    Attributes
    ----------
    name, learner : str
        Case and class.
    about : str
        What makes the pair of streams hard.
    claim : Claim
        What was put to the test.
    settings : dict
        Budget and size of the case, and whose parameters it has.
    attacks : tuple of Attack
        In the order in which they were run, those that are not available included.
    exercises : ExerciseReport
        What other settings of the same class found, reached and did not reach.
    claimed_curve : tuple of (float, float)
        Epsilons and claimed deltas.
    seed : int
        Of all runs.
    confidence : float
        Probability, for each attack, of not reporting a violation where there is none.
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
        """Whether any attack or exercise found a violation. False does not mean there is none."""
        return bool(self._refuted_by())

    def _refuted_by(self) -> list[str]:
        """Return the attacks that refuted the claim, and "exercises" if one of these did."""
        names = [attack.name for attack in self.attacks if attack.verdict == "violated"]
        return names + ["exercises"] * bool(self.exercises.findings)

    @property
    def powerful(self) -> bool:
        """Whether any attack could have found a relevant violation."""
        return any(attack.verdict in ("violated", "nothing found") for attack in self.attacks)

    @property
    def strongest(self) -> Attack | None:
        """The attack with the largest lower bound on epsilon; None if none has a positive one."""
        measured = [attack for attack in self.attacks if attack.epsilon]
        return max(measured, key=lambda attack: attack.epsilon or 0.0, default=None)

    @property
    def outcome(self) -> str:
        """The verdict: "refuted", "not refuted" or "no power", which is no evidence either way."""
        if self.violated:
            return "refuted"
        return "not refuted" if self.powerful else "no power"

    @property
    def detectable_epsilon(self) -> float | None:
        """The smallest epsilon of this pair, at the claim's delta, that would have been refuted.

        Of the attacks that measure losses or frequencies and had power; None if there is none.
        """
        return min(
            (
                attack.detectable * self.claim.epsilon
                for attack in self.attacks
                if attack.verdict == "nothing found" and attack.name != "replay"
            ),
            default=None,
        )

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

        The verdicts are in it as well, so that readers need not know how they follow.
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
    """Return what JSON can carry: records as dictionaries, infinite numbers as text."""
    if isinstance(value, Guarantee):
        return value.to_dict()
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return plain(value)


def _percentage(measured: float, claimed: float) -> str:
    """Return a measured epsilon as a share of the claimed one, in words where there is none."""
    if claimed <= 0.0 or not math.isfinite(claimed):
        return "more than all" if measured > claimed else "nothing"
    return f"{100.0 * measured / claimed:.3g} %"
