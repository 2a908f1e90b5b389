"""What one charge costs in every currency: Gaussian, Renyi, pure, and (epsilon, delta).

Claim: a charge that consists of independent parts, part i used n_i times, is mu-GDP with mu^2 the
sum of n_i mu_i^2, has the sum of n_i D_i as Renyi divergence of every order, and is pure with the
sum of n_i epsilon_i; a purely epsilon-private part is mu-GDP with mu = 2 Phi^-1(1 / (1 + e^-eps)).
Protecting a replaced instead of an emptied round doubles mu and epsilon, quadruples rho, and turns
(epsilon, delta) into (2 epsilon, (1 + e^epsilon) delta).

Proof: ``docs/privacy/ledger.md``. Sources: Dong, Roth and Su (2022) for mu; Bun and Steinke (2016),
Prop. 27, for rho; Dwork and Roth (2014) for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpoco._validation import positive_int, real_float
from dpoco.accounting import _profiles
from dpoco.accounting.guarantee import Guarantee
from dpoco.errors import StateError
from dpoco.privacy.losses import loss as losses

__all__ = ["Cost", "Part", "cost_of_guarantee", "pure_mu", "pure_renyi"]


@dataclass(frozen=True)
class Part:
    """One mechanism, used `count` times; infinite where nothing is known in a currency.

    Attributes
    ----------
    count : int
        How often it is used.
    mu, rho, pure : float
        Gaussian, zCDP and pure parameters of one use.
    profile : dict or None
        Profile of ``Guarantee.profile``, for its Renyi divergences.
    """

    count: int = 1
    mu: float = math.inf
    rho: float = math.inf
    pure: float = math.inf
    profile: dict[str, Any] | None = None

    def gaussian(self) -> float:
        """Return the smallest mu known of one use."""
        return min(self.mu, pure_mu(self.pure))

    def renyi(self, order: float) -> float:
        """Return the smallest bound known on the Renyi divergence of one use."""
        known = [0.5 * order * self.mu * self.mu, order * self.rho, pure_renyi(self.pure, order)]
        if self.profile is not None:
            known.append(_profile_renyi(self.profile, order))
        return min(known)

    def doubled(self) -> Part:
        """Return the part for neighbours that are two steps apart; the profile is given up."""
        return Part(self.count, 2.0 * self.mu, 4.0 * self.rho, 2.0 * self.pure)


@dataclass(frozen=True)
class Cost:
    """What one charge costs.

    Attributes
    ----------
    parts : tuple of Part
        Independent parts with ideal noise.
    mass : float
        Total variation between the real and the ideal law.
    epsilon, delta : float
        A point of the whole charge's curve, truncated tails included; infinite if none is stated.
    """

    parts: tuple[Part, ...]
    mass: float = 0.0
    epsilon: float = math.inf
    delta: float = 0.0

    def gaussian_square(self) -> float:
        """Return the smallest known mu^2."""
        # Not count * (mu * mu): a tiny mu must not vanish in its square.
        return math.fsum(part.count * mu * mu for part in self.parts for mu in [part.gaussian()])

    def renyi(self, order: float) -> float:
        """Return the smallest bound known on the Renyi divergence."""
        return math.fsum(part.count * part.renyi(order) for part in self.parts)

    def pure(self) -> float:
        """Return the pure epsilon of the real mechanism; infinite with truncated tails."""
        if self.mass > 0.0:
            return math.inf
        return math.fsum(part.count * part.pure for part in self.parts)

    def doubled(self) -> Cost:
        """Return the cost for neighbours that are two steps apart."""
        delta = self.delta
        if delta > 0.0:
            delta = delta * (1.0 + math.exp(self.epsilon)) if self.epsilon < 700.0 else 1.0
        parts = tuple(part.doubled() for part in self.parts)
        return replace(self, parts=parts, epsilon=2.0 * self.epsilon, delta=min(1.0, delta))

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary that JSON can carry, of a cost without profiles."""
        numbers = [
            {n: getattr(p, n) for n in ("count", "mu", "rho", "pure") if getattr(p, n) != math.inf}
            for p in self.parts
        ]
        return {"parts": numbers}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Cost:
        """Return the cost written by `to_dict`; `StateError` if it is not one."""
        try:
            parts = []
            for row in record["parts"]:
                numbers = {n: real_float(n, v) for n, v in row.items() if n != "count"}
                if any(value < 0.0 for value in numbers.values()):
                    raise ValueError("negative cost")
                mu, rho, pure = (numbers.pop(n, math.inf) for n in ("mu", "rho", "pure"))
                if numbers:
                    raise ValueError("unknown currency")
                parts.append(Part(positive_int("count", row["count"]), mu, rho, pure))
            return cls(tuple(parts))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError("malformed cost record") from error


def pure_mu(epsilon: float) -> float:
    """Return the smallest mu such that every `epsilon`-private mechanism is mu-GDP, rounded up."""
    from scipy.special import ndtri

    if epsilon > 600.0:
        # Phi(-x) <= e^(-x^2 / 2) / 2, which is e^-eps / 2 <= 1 / (1 + e^eps) at x = sqrt(2 eps).
        return 2.0 * math.sqrt(2.0 * epsilon) * (1.0 + 1e-14)
    # -Phi^-1(1 / (1 + e^eps)): the small probability keeps its digits.
    return -2.0 * float(ndtri(1.0 / (1.0 + math.exp(epsilon)))) * (1.0 + 1e-14) + 1e-15


def pure_renyi(epsilon: float, order: float) -> float:
    """Return the largest Renyi divergence of `epsilon`-private mechanisms, rounded up."""
    if epsilon == math.inf:
        return math.inf
    return float(losses.pure_renyi(epsilon, np.array([order]))[0])


def cost_of_guarantee(guarantee: Guarantee) -> Cost:
    """Return the cost of everything a guarantee covers."""
    profile = guarantee.profile
    mu = math.inf if guarantee.mu is None else guarantee.mu
    rho = math.inf if guarantee.rho is None else guarantee.rho
    pure = math.inf
    if profile is not None:
        loss = _profiles.loss_of(profile)
        pure, mu = loss.pure, min(mu, loss.mu)
    if guarantee.delta == 0.0 and guarantee.truncation_mass == 0.0:
        pure = min(pure, guarantee.epsilon)
    part = Part(1, mu, rho, pure, profile)
    return Cost((part,), guarantee.truncation_mass, guarantee.epsilon, guarantee.delta)


def _profile_renyi(profile: Mapping[str, Any], order: float) -> float:
    """Return a Renyi divergence of order `order` of the profile; infinite if none is known."""
    kind, at = profile["kind"], np.array([order])
    if kind == "selections":
        return order * _profiles.loss_of(profile).rho
    return float(_profiles.loss_of(profile).renyi(at)[0])
