"""Losses of several mechanisms, of one among several, of groups of records, of real samplers.

Proofs: ``docs/privacy/composition.md``; tails: ``docs/privacy/noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import UP, FloatArray, Loss, Pure, Zcdp, check_epsilon, sum_up

__all__ = ["NOTHING", "Either", "Group", "Least", "Tailed", "Together", "either", "group",
           "least", "together", "with_tails"]  # fmt: skip


@dataclass(frozen=True)
class Unknown(Loss):
    """The loss of a mechanism about which nothing is known."""

    kind = "unknown"


NOTHING, UNKNOWN = Pure(0.0), Unknown()


@dataclass(frozen=True)
class Together(Loss):
    """Adaptive composition of parts that see the same record, all fixed in advance.

    Squares of mu, rho, pure epsilons and divergences add up. Delta is the least that any of these
    proves, or that the other parts prove at epsilon less all pure epsilons.
    """

    kind = "together"
    parts: tuple[Loss, ...]
    mu: float = field(init=False)
    rho: float = field(init=False)
    pure: float = field(init=False)

    def __post_init__(self) -> None:
        """Add up the known bounds of all parts."""
        object.__setattr__(self, "mu", math.hypot(*(p.mu for p in self.parts)) * UP)
        object.__setattr__(self, "rho", math.fsum(p.rho for p in self.parts) * UP)
        object.__setattr__(self, "pure", math.fsum(p.pure for p in self.parts) * UP)

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return the sum of the parts' bounds."""
        return np.asarray(np.sum([p.renyi(orders) for p in self.parts], axis=0) * UP)

    def delta(self, epsilon: float) -> float:
        """Return the least delta that any of the bounds proves."""
        found = super().delta(epsilon)
        if self.mu < math.inf:
            found = min(found, Gaussian(self.mu).delta(epsilon))
        # Theorem 1 of docs/privacy/composition.md, second part: pure parts shift epsilon and leave
        # the curve of the other parts unchanged. The difference is rounded down, which raises
        # delta.
        sure = math.fsum(p.pure for p in self.parts if p.pure < math.inf) * UP
        rest = [p for p in self.parts if p.pure == math.inf]
        if 0.0 < sure <= epsilon and rest:
            found = min(found, together(*rest).delta((epsilon - sure) * (2.0 - UP)))
        return found


@dataclass(frozen=True)
class _OneOf(Loss):
    """One of several losses: every bound, at every point, is the `_extreme` of the parts'."""

    _extreme: ClassVar[np.ufunc]
    parts: tuple[Loss, ...]
    mu: float = field(init=False)
    rho: float = field(init=False)
    pure: float = field(init=False)

    def __post_init__(self) -> None:
        """Take the extreme of each known bound."""
        for name in ("mu", "rho", "pure"):
            found = self._extreme.reduce([getattr(p, name) for p in self.parts])
            object.__setattr__(self, name, float(found))

    def renyi(self, orders: FloatArray) -> FloatArray:
        """Return one of the parts' bounds at each order."""
        return np.asarray(self._extreme.reduce([p.renyi(orders) for p in self.parts]))

    def delta(self, epsilon: float) -> float:
        """Return one of the parts' deltas."""
        return float(self._extreme.reduce([p.delta(epsilon) for p in self.parts]))


@dataclass(frozen=True)
class Either(_OneOf):
    """One record meets one of the parts: the bound at every epsilon is that of the worst part.

    The choice of the part must be fixed in advance, or the parts' curves must hold given any past.
    """

    kind = "either"
    _extreme = np.maximum


@dataclass(frozen=True)
class Least(_OneOf):
    """One mechanism with several known bounds: the least of them counts at every epsilon."""

    kind = "least"
    _extreme = np.minimum

    @property
    def bounds(self) -> tuple[Loss, ...]:
        """All known bounds: the parts."""
        return self.parts

    def delta_with_tails(self, epsilon: float, mass: float) -> float:
        """Return the least of the charged deltas."""
        return float(self._extreme.reduce([p.delta_with_tails(epsilon, mass) for p in self.parts]))


@dataclass(frozen=True)
class Tailed(Loss):
    """The loss of a law within total variation `mass` of one that has the loss `ideal`."""

    kind = "tailed"
    ideal: Loss
    mass: float = field()

    @property
    def bare(self) -> Loss:
        """The ideal loss."""
        return self.ideal

    def delta(self, epsilon: float) -> float:
        """Return delta with (1 + e^e) mass on top, at the best e <= epsilon."""
        check_epsilon(epsilon)
        return self.ideal.delta_with_tails(epsilon, self.mass)


@dataclass(frozen=True)
class Group(Loss):
    """A chain of `size` single changes, for each of which only a curve is known."""

    kind = "group"
    one: Loss
    size: int

    def __post_init__(self) -> None:
        """Refuse what is no chain."""
        self.require(size=2)

    def delta(self, epsilon: float) -> float:
        """Return delta of one change at epsilon / size, times the sum of e^(i epsilon / size)."""
        check_epsilon(epsilon)
        epsilon = min(epsilon, 700.0)  # larger powers of e would overflow
        share = epsilon / self.size * (2.0 - UP)
        terms = math.expm1(epsilon) / math.expm1(share) if share > 0.0 else float(self.size)
        return min(1.0, self.one.delta(share) * terms * UP)


def together(*parts: Loss) -> Loss:
    """Return the loss of parts that see the same record; all must be fixed in advance."""
    mass = _add_masses(p.mass for p in parts)
    bare = [p.bare for p in parts if p.bare != NOTHING]
    if not bare:
        return with_tails(NOTHING, mass)
    if len(bare) == 1:
        return with_tails(bare[0], mass)
    if all(isinstance(p, Gaussian) for p in bare):
        return with_tails(Gaussian(math.hypot(*(p.mu for p in bare)) * UP), mass)
    if all(isinstance(p, Pure) for p in bare):
        return with_tails(Pure(sum_up(*((1, p.pure, 1.0) for p in bare))), mass)
    return with_tails(Together(tuple(bare)), mass)


def either(*parts: Loss) -> Loss:
    """Return the loss of parts of which a record meets one; the tails of all are charged.

    The caller must know that the choice of the part was fixed in advance, or that every part's
    curve holds given any past. Gaussian parts are replaced by the one with the largest mu, and
    nested `Either` parts are flattened.
    """
    apart = [
        one for p in parts for one in (p.bare.parts if isinstance(p.bare, Either) else [p.bare])
    ]
    bells = [one for one in apart if isinstance(one, Gaussian)]
    others = [one for one in dict.fromkeys(apart) if one not in (*bells, NOTHING)]
    bare = (*others, *([max(bells, key=lambda one: one.mu)] if bells else [])) or (NOTHING,)
    ideal = bare[0] if len(bare) == 1 else Either(bare)
    return with_tails(ideal, _add_masses(p.mass for p in parts))


def group(loss: Loss, size: int) -> Loss:
    """Return the loss of changing `size` records: a chain of single changes, at fixed times.

    Tails are charged once: real and ideal laws are exchanged only at the two ends of the chain.
    """
    if size == 1:
        return loss
    bare, found = loss.bare, list[Loss]()
    if bare.mu < math.inf:
        found.append(Gaussian(size * bare.mu * UP))
    elif bare.rho < math.inf:
        found.append(Zcdp(size * size * bare.rho * UP))
    if bare.pure < math.inf:
        found.append(Pure(size * bare.pure * UP))
    if not found:
        found.append(Group(bare, size))
    return with_tails(least(*found), loss.mass)


def least(*known: Loss) -> Loss:
    """Return the loss with all known bounds of one mechanism: the least of them counts."""
    return known[0] if len(known) == 1 else Least(known) if known else UNKNOWN


def with_tails(loss: Loss, mass: float) -> Loss:
    """Return the loss of a law within total variation `mass` of the one that has `loss`."""
    if mass == 0.0:
        return loss
    return Tailed(loss.bare, min(1.0, _add_masses((loss.mass, mass))))


def _add_masses(masses: Iterable[float]) -> float:
    """Return the total variation of all together, rounded up if there are several."""
    found = [mass for mass in masses if mass > 0.0]
    return math.fsum(found) if len(found) < 2 else math.fsum(found) * UP
