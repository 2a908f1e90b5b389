"""What all attacks on one learner found, as a value that can be printed and stored."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from dpoco.accounting._records import plain_float
from dpoco.audit._claim import Claim

__all__ = ["Attack", "AuditReport"]

Point = tuple[float, float]


@dataclass(frozen=True)
class Attack:
    """One attack on one claim.

    Attributes
    ----------
    name : {"replay", "likelihood", "black box"}
        Which audit.
    verdict : {"violated", "nothing found", "no power", "not available"}
        "nothing found" is only said of an attack that could have found something.
    epsilon : float or None
        What epsilon is at least, at the claim's delta, by this attack, with the report's
        confidence; None where it measures no epsilon.
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

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can carry."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "epsilon": None if self.epsilon is None else plain_float(self.epsilon),
            "detectable": plain_float(self.detectable),
            "power": self.power,
            "findings": list(self.findings),
            "text": self.text,
            "points": [list(point) for point in self.points],
        }


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
        Budget, size and calibration of the case.
    attacks : tuple of Attack
        In the order in which they were run, those that are not available included.
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
    settings: dict[str, Any] = field(hash=False)
    attacks: tuple[Attack, ...]
    claimed_curve: tuple[Point, ...] = field(repr=False)
    seed: int
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether any attack refuted the claim. False does not say that it holds."""
        return any(attack.verdict == "violated" for attack in self.attacks)

    @property
    def powerful(self) -> bool:
        """Whether any attack could have found a violation worth the name."""
        return any(attack.verdict in ("violated", "nothing found") for attack in self.attacks)

    @property
    def strongest(self) -> Attack | None:
        """The attack with the largest lower bound on epsilon; None if none has a positive one."""
        measured = [attack for attack in self.attacks if attack.epsilon]
        return max(measured, key=lambda attack: attack.epsilon or 0.0, default=None)

    @property
    def verdict(self) -> str:
        """One line that never says more than was seen."""
        if self.violated:
            names = [attack.name for attack in self.attacks if attack.verdict == "violated"]
            return f"VIOLATED: the claim is refuted ({', '.join(names)})"
        if not self.powerful:
            return "no power: no violation of the claim to speak of could have shown"
        weak = [attack.name for attack in self.attacks if attack.verdict == "no power"]
        found = "no violation found on this pair of streams; what could have been found is below"
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
                f"  strongest attack: {best.name}, epsilon is at least {best.epsilon:.4g} at delta "
                f"= {self.claim.delta:.3g}, {_share(best.epsilon, self.claim.epsilon)} of the "
                f"claim, at confidence {self.confidence:.9g}"
            )
        for attack in self.attacks:
            lines += ["", f"{attack.name}: {attack.verdict}", f"  {attack.power}"]
            if attack.verdict != "not available":
                lines += [f"  | {line}" for line in attack.text.splitlines()]
            lines += [f"  - {finding}" for finding in attack.findings]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can carry."""
        best = self.strongest
        return {
            "kind": "dpoco.audit",
            "version": 1,
            "name": self.name,
            "learner": self.learner,
            "about": self.about,
            "verdict": self.verdict,
            "violated": self.violated,
            "powerful": self.powerful,
            "strongest": None if best is None else best.name,
            "claim": self.claim.to_dict(),
            "settings": self.settings,
            "attacks": [attack.to_dict() for attack in self.attacks],
            "claimed_curve": [list(point) for point in self.claimed_curve],
            "seed": self.seed,
            "confidence": self.confidence,
        }

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)


def _share(measured: float, claimed: float) -> str:
    if claimed <= 0.0 or not math.isfinite(claimed):
        return "more than all" if measured > claimed else "nothing"
    return f"{100.0 * measured / claimed:.3g} %"
