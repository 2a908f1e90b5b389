"""A plain NumPy coupled regularised leader: densities from scratch, no incremental linear algebra.

It reads the same Gaussians and uniforms as the compiled engine of the same key and stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _core, random

FloatArray = NDArray[np.float64]
UNIFORM, GAUSSIAN = 1, 2


@dataclass(frozen=True)
class Loss:
    """A convex function of a decision x in R^d."""

    value: Callable[[FloatArray], float]
    gradient: Callable[[FloatArray], FloatArray]
    hessian: Callable[[FloatArray], FloatArray]


def softplus_loss(v: FloatArray, y: float) -> Loss:
    def sigmoid(z: float) -> float:
        return 1.0 / (1.0 + math.exp(-z))

    return Loss(
        lambda x: float(np.logaddexp(0.0, v @ x) - y * (v @ x)),
        lambda x: (sigmoid(v @ x) - y) * v,
        lambda x: sigmoid(v @ x) * sigmoid(-(v @ x)) * np.outer(v, v),
    )


def huber_loss(v: FloatArray, y: float) -> Loss:
    def value(x: FloatArray) -> float:
        r = abs(v @ x - y)
        return float(0.5 * r * r if r <= 1.0 else r - 0.5)

    return Loss(
        value,
        lambda x: np.clip(v @ x - y, -1.0, 1.0) * v,
        lambda x: float(abs(v @ x - y) <= 1.0) * np.outer(v, v),
    )


def squared_loss(v: FloatArray, y: float) -> Loss:
    return Loss(
        lambda x: float((v @ x - y) ** 2),
        lambda x: 2.0 * (v @ x - y) * v,
        lambda x: 2.0 * np.outer(v, v),
    )


def quadratic_loss(a: FloatArray, b: FloatArray) -> Loss:
    return Loss(
        lambda x: float(0.5 * x @ a @ x - b @ x), lambda x: a @ x - b, lambda x: np.array(a)
    )


def linear_loss(g: FloatArray) -> Loss:
    zero = np.zeros((g.size, g.size))
    return Loss(lambda x: float(g @ x), lambda x: np.array(g), lambda x: zero)


@dataclass
class Set:
    """Decisions x = centre + basis u; the barrier and the projection are functions of u."""

    centre: FloatArray
    basis: FloatArray
    barrier: Callable[[FloatArray], tuple[float, FloatArray, FloatArray]] | None
    project: Callable[[FloatArray], FloatArray]


def _barrier_of_rows(rows: FloatArray, bounds: FloatArray) -> Callable[[FloatArray], Any]:
    def barrier(u: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        slack = bounds - rows @ u
        if slack.min() <= 0.0:
            return math.inf, u, np.eye(u.size)
        scaled = rows / slack[:, None]
        return float(-np.log(slack / bounds).sum()), scaled.sum(axis=0), scaled.T @ scaled

    return barrier


def space(d: int) -> Set:
    return Set(np.zeros(d), np.eye(d), None, lambda u: u)


def ball(d: int, radius: float, p: float = 2.0) -> Set:
    def barrier(u: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        t = u / radius
        room = 1.0 - (np.abs(t) ** p).sum()
        if room <= 0.0:
            return math.inf, u, np.eye(d)
        slope = p * np.sign(t) * np.abs(t) ** (p - 1.0) / (radius * room)
        bend = np.diag(p * (p - 1.0) * np.abs(t) ** (p - 2.0)) / (radius**2 * room)
        return -math.log(room), slope, np.outer(slope, slope) + bend

    def project(u: FloatArray) -> FloatArray:
        length = float(np.linalg.norm(u, ord=p))
        if length > radius and p != 2.0:
            raise NotImplementedError
        return u if length <= radius else u * (radius / length)

    return Set(np.zeros(d), np.eye(d), barrier, project)


def box(lower: FloatArray, upper: FloatArray) -> Set:
    half = (upper - lower) / 2.0
    d = half.size
    rows = np.vstack([np.eye(d), -np.eye(d)])
    barrier = _barrier_of_rows(rows, np.concatenate([half, half]))
    return Set((lower + upper) / 2.0, np.eye(d), barrier, lambda u: np.clip(u, -half, half))


def simplex(d: int, scale: float) -> Set:
    """The basis is that of the reflection swapping (1, ..., 1)/sqrt(d) and the last unit vector."""
    centre = np.full(d, scale / d)
    h = np.full(d, 1.0 / math.sqrt(d))
    h[-1] -= 1.0
    basis = (np.eye(d) - 2.0 * np.outer(h, h) / (h @ h))[:, :-1]

    def project(u: FloatArray) -> FloatArray:
        x = centre + basis @ u
        order = np.sort(x)[::-1]
        excess = (np.cumsum(order) - scale) / np.arange(1, d + 1)
        shift = excess[np.flatnonzero(order > excess)[-1]]
        return basis.T @ (np.maximum(x - shift, 0.0) - centre)

    return Set(centre, basis, _barrier_of_rows(-basis, centre), project)


@dataclass
class Settings:
    """As those of the engine; `clip_high` and `clip_low` may be functions of the round."""

    horizon: int
    block: int = 1
    forced_switch: float = 0.05
    max_switches: float = math.inf
    coupling: str = "density_ratio"
    step_size: float = 0.5
    noise_scale: float = 2.0
    noise_growth: bool = False
    barrier_weight: float = 0.0
    clip_high: float | Callable[[int], float] = 0.1
    clip_low: float | Callable[[int], float] = 0.1


def engine_settings(own: Settings) -> dict[str, Any]:
    """Return the compiled engine's settings without its claim."""
    clips = {
        name: value if isinstance(value, float) else 0.0
        for name, value in (("clip_high", own.clip_high), ("clip_low", own.clip_low))
    }
    cap = None if math.isinf(own.max_switches) else int(own.max_switches)
    settings = {
        "rounds": own.horizon,
        "block": own.block,
        "forced_switch": own.forced_switch,
        "max_switches": cap,
        "coupling": own.coupling,
        "step_size": own.step_size,
        "noise_scale": own.noise_scale,
        "noise_growth": own.noise_growth,
        "barrier_weight": own.barrier_weight,
        # As large as the widest losses of the tests; without growth the first says nothing here.
        "lipschitz": 1.0 if own.noise_growth else math.inf,
        "smoothness": 10.0 if own.noise_growth else 200.0,
        "strong_convexity": 1.0,
    }
    return settings | clips


def claim(seed: int) -> dict[str, Any]:
    """Return key and stream of a seeded source."""
    return random.Source.seeded(seed)._claim()


@dataclass
class Reference:
    """Plays a stream round by round; `point` is u (y for linear losses)."""

    domain: Set
    settings: Settings
    claim: dict[str, Any]
    linear: bool = False
    losses: list[Loss] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._source = _core.Source(self.claim["key"], self.claim["stream"])
        self._n = self.domain.basis.shape[1]
        self._in_block: list[float] = []
        self.round = 0
        self.switches = 0
        self.log_ratio = 0.0
        self.point = np.zeros(self._n)
        self._draw()

    # ---- the law ---------------------------------------------------------------------------------

    def variance(self, t: int) -> float:
        """Return the noise's variance per coordinate behind round t's decision."""
        own = self.settings
        return own.noise_scale**2 * ((t - 1) if own.noise_growth else 1)

    def parts(self, u: FloatArray, count: int) -> tuple[float, FloatArray, FloatArray]:
        """Return value, gradient and Hessian of J after `count` losses."""
        inverse = 0.0 if math.isinf(self.settings.step_size) else 1.0 / self.settings.step_size
        value = 0.5 * inverse * float(u @ u)
        slope = inverse * u
        bend = inverse * np.eye(self._n)
        q = self.domain.basis
        x = self.domain.centre + q @ u
        for each in self.losses[:count]:
            value += each.value(x)
            slope = slope + q.T @ each.gradient(x)
            bend = bend + q.T @ each.hessian(x) @ q
        if self.settings.barrier_weight > 0.0 and self.domain.barrier is not None:
            own, own_slope, own_bend = self.domain.barrier(u)
            w = self.settings.barrier_weight
            value, slope, bend = value + w * own, slope + w * own_slope, bend + w * own_bend
        return value, slope, bend

    def log_density(self, u: FloatArray, t: int) -> float:
        """Return ln of round t's law at u."""
        v = self.variance(t)
        if self.linear:
            residual = u - self._sum(t - 1)
            log_det = 0.0
        else:
            _, residual, bend = self.parts(u, t - 1)
            log_det = float(np.linalg.slogdet(bend)[1])
        constant = 0.5 * self._n * math.log(2.0 * math.pi * v)
        return -float(residual @ residual) / (2.0 * v) - constant + log_det

    def _sum(self, count: int) -> FloatArray:
        total = np.zeros(self._n)
        for each in self.losses[:count]:
            total = total + self.domain.basis.T @ each.gradient(self.domain.centre)
        return total

    def solve(self, z: FloatArray) -> FloatArray:
        """Return the minimiser of J + <z, .> under all losses so far."""
        own = self.settings.barrier_weight
        u = np.zeros(self._n)
        degrees = [10.0**k for k in range(7, -1, -1)] if own > 0.0 else [1.0]
        try:
            for degree in degrees:
                self.settings.barrier_weight = own * degree
                for _ in range(40 if degree == 1.0 else 6):
                    moved = self._newton(u, z)
                    done = np.abs(moved - u).max() <= 1e-15 * (1.0 + np.abs(u).max())
                    u = moved
                    if done:
                        break
        finally:
            self.settings.barrier_weight = own
        return u

    def _newton(self, u: FloatArray, z: FloatArray) -> FloatArray:
        count = len(self.losses)
        value, slope, bend = self.parts(u, count)
        value += float(z @ u)
        slope = slope + z
        step = -np.linalg.solve(bend, slope)
        t = 1.0
        small = float(-slope @ step) < 1e-6 * max(1.0, self.settings.barrier_weight)
        while t > 1e-12:
            after = self.parts(u + t * step, count)[0] + float(z @ (u + t * step))
            if math.isfinite(after) and (small or after <= value + 1e-4 * t * float(slope @ step)):
                return u + t * step
            t /= 2.0
        return u

    # ---- the rounds ------------------------------------------------------------------------------

    def _uniform(self) -> float:
        out = np.empty(1)
        self._source.fill(UNIFORM, out)
        return float(out[0])

    def _draw(self) -> None:
        v = self.variance(self.round + 1)
        z = np.zeros(self._n)
        if v > 0.0:
            self._source.fill(GAUSSIAN, z)
            z *= math.sqrt(v)
        elif self.settings.noise_growth:
            self.point = z  # no losses yet, no noise: the centre
            return
        self.point = self._sum(len(self.losses)) + z if self.linear else self.solve(z)

    def decision(self, grid: float) -> FloatArray:
        """Return what is released on that grid."""
        rounded = self.point if grid == 0.0 else np.round(self.point / grid) * grid
        u = self.domain.project(-self.settings.step_size * rounded if self.linear else rounded)
        return self.domain.centre + self.domain.basis @ u

    def _clip(self, name: str) -> float:
        value = getattr(self.settings, name)
        return float(value(self.round + 1)) if callable(value) else float(value)

    def _open(self) -> bool:
        own = self.settings
        end = (self.round // own.block + 1) * own.block
        return end < own.horizon and self.switches < own.max_switches

    def observe(self, loss: Loss) -> bool:
        """Play a round; returns whether it switched."""
        own = self.settings
        open_ = self._open()
        first = own.noise_growth and self.round < own.block
        factor = 0.0
        self.losses.append(loss)
        self.log_ratio = 0.0
        if open_ and own.coupling != "scheduled" and not first:
            t = self.round + 1
            self.log_ratio = self.log_density(self.point, t + 1) - self.log_density(self.point, t)
            factor = min(self.log_ratio, 0.0)
            if own.coupling == "density_ratio":
                high, low = self._clip("clip_high"), self._clip("clip_low")
                factor = min(max(self.log_ratio - high, -high - low), 0.0)
        self.round += 1
        self._in_block.append(factor)
        if not open_ or self.round % own.block:
            return False
        log_stay, self._in_block = sum(self._in_block), []
        if own.forced_switch < 1.0 and not first:
            stay = math.log1p(-own.forced_switch) + log_stay
            if math.log(self._uniform()) < stay:
                return False
        self.switches += 1
        self._draw()
        while own.coupling == "maximal" and not first:
            t = self.round
            excess = self.log_density(self.point, t + 1) - self.log_density(self.point, t)
            if self._uniform() > math.exp(-excess):
                break
            self._draw()
        return True
