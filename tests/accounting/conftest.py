"""Small stand-ins for domains and losses, so that accounting is tested on its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import pytest


@dataclass(frozen=True)
class Ball:
    dimension: int
    p: float = 2.0
    radius: float = 1.0

    @property
    def dual_exponent(self):
        if self.p == 1.0:
            return math.inf
        return 1.0 if self.p == math.inf else self.p / (self.p - 1.0)

    def diameter(self, order=None):
        assert order in (None, self.p)
        return 2.0 * self.radius

    def max_norm(self, order=None):
        assert order in (None, self.p)
        return self.radius


@dataclass(frozen=True)
class Squared:
    feature_bound: float = 1.0
    label_bound: float = 1.0
    feature_bound_l2: float | None = None
    glm = True

    def leaf_scalar_bound(self, margin, step_scale=1.0):
        return 2.0 * (max(1.0, 2.0 * step_scale - 1.0) * margin + self.label_bound)

    def lipschitz(self, domain):
        margin = self.feature_bound * domain.max_norm()
        return 2.0 * (margin + self.label_bound) * self.feature_bound

    def smoothness(self, domain):
        return 2.0 * self.feature_bound**2


@dataclass(frozen=True)
class Linear:
    gradient_bound: float = 1.0
    gradient_bound_l2: float | None = None
    glm = False

    def lipschitz(self, domain):
        return self.gradient_bound

    def smoothness(self, domain):
        return 0.0


@dataclass(frozen=True)
class Custom:
    lipschitz_bound: float
    smoothness_bound: float
    leaf_bound: float | None = None
    leaf_bound_l2: float | None = None
    glm = False

    def lipschitz(self, domain):
        return self.lipschitz_bound

    def smoothness(self, domain):
        return self.smoothness_bound


@pytest.fixture(scope="session")
def fakes():
    return SimpleNamespace(Ball=Ball, Squared=Squared, Linear=Linear, Custom=Custom)


@pytest.fixture(params=["stand-ins", "library"])
def kit(request, fakes):
    """Domains and losses: the small stand-ins, and the library's own."""
    if request.param == "stand-ins":
        return SimpleNamespace(
            ball=lambda d, p=2.0, r=1.0: fakes.Ball(d, p, r),
            squared=lambda y=1.0, r2=None, r=1.0: fakes.Squared(r, y, r2),
            linear=fakes.Linear,
            custom=fakes.Custom,
        )
    from dpoco import domains, losses

    return SimpleNamespace(
        ball=lambda d, p=2.0, r=1.0: domains.LpBall(d, p=p, radius=r),
        squared=lambda y=1.0, r2=None, r=1.0: losses.SquaredLoss(
            feature_bound=r, label_bound=y, feature_bound_l2=r2
        ),
        linear=lambda b=1.0, b2=None: losses.LinearLoss(b, gradient_bound_l2=b2),
        custom=lambda lip, smooth, c=None, c2=None: losses.CustomLoss(
            lip, smooth, leaf_bound=c, leaf_bound_l2=c2
        ),
    )
