"""The published parameters and bounds of the lazy modes.

Sources: Agarwal et al., P-COMW, Theorem 4.2; Agarwal et al., CTRL, Theorems 9, 12 and 13.
``docs/privacy/oco_regret.md`` says what is wrong in print.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpoco.accounting._oco.gibbs_setting import GibbsSetting
from dpoco.accounting._oco.leader_costs import finish
from dpoco.accounting._oco.leader_setting import LeaderSetting
from dpoco.accounting._oco.parameters import (
    ContinuousMultiplicativeWeightsParameters,
    CoupledRegularizedLeaderParameters,
)
from dpoco.errors import CalibrationError


def published_gibbs_lazy_bound(
    *, horizon: int, dimension: int, lipschitz: float, diameter: float, switches: float,
    corrected: bool,
) -> float:  # fmt: skip
    """Return the regret bound of P-COMW's Theorem 4.2; the printed constant 16 lacks sqrt(2)."""
    t, whole = float(horizon), lipschitz * diameter
    constant = 16.0 * (math.sqrt(2.0) if corrected else 1.0)
    lazy = constant * math.log(t) * math.sqrt(dimension) * t / switches
    return whole * (math.sqrt(2.0 * t) + lazy + 13.0)


def published_leader_lazy_bound(
    *, horizon: int, dimension: int, lipschitz: float, smoothness: float, diameter: float,
    switches: float, generalized_linear: bool, corrected: bool,
) -> float:  # fmt: skip
    """Return the regret bound of CTRL's Theorem 9 or 12; the latter lacks a sqrt(n) in print."""
    t, whole = float(horizon), lipschitz * diameter
    noise = 12.0 * whole * math.sqrt(math.log(t))
    if not generalized_linear:
        lazy = dimension * (3.0 * smoothness * diameter**2 + noise)
    else:
        lazy = 3.0 * smoothness * diameter**2
        lazy += noise * (math.sqrt(dimension) if corrected else 1.0)
    return 2.0 * whole * math.sqrt(t) + t / switches * lazy + 14.0 * whole


def published_growing_bound(
    *, horizon: int, dimension: int, lipschitz: float, strong_convexity: float, diameter: float,
    switches: float, corrected: bool,
) -> float:  # fmt: skip
    """Return the regret bound of CTRL's Theorem 13; the second term lacks G^2 in print."""
    log = math.log(horizon)
    square = lipschitz**2 if corrected else 1.0
    lazy = 512.0 * square * dimension**2 * log * (1.0 + log) * horizon / switches**2
    main = 2.0 * lipschitz**2 * (1.0 + log)
    return (main + lazy) / strong_convexity + 14.0 * lipschitz * diameter


def published_gibbs_lazy(
    setting: GibbsSetting, limit: float
) -> ContinuousMultiplicativeWeightsParameters:
    q, t = setting.problem, float(setting.horizon)
    _require_published_limit(setting.horizon, limit)
    log = math.log(t)
    lam = max(
        q.lipschitz * math.sqrt(2.0 * t) / q.diameter,
        math.sqrt(512.0 * q.dimension) * q.lipschitz * log * t / (q.diameter * limit),
    )
    beta = lam * (limit / t) ** 2 / (256.0 * q.lipschitz**2 * log)
    g2 = q.lipschitz**2 * beta / lam
    width = 2.0 * g2 + math.sqrt(8.0 * g2 * math.log(t * t))
    p = setting.lazy("density_ratio", 1.0)
    return setting.finish(
        replace(p, inverse_temperature=beta, regularization=lam, clip_high=width, clip_low=width)
    )


def published_leader_lazy(
    setting: LeaderSetting, limit: float
) -> CoupledRegularizedLeaderParameters:
    q, t = setting.problem, float(setting.horizon)
    _require_published_limit(setting.horizon, limit)
    size = 1 if setting.rank <= 1 else q.dimension
    root = math.sqrt(size * math.log(t))
    sigma = 12.0 * q.lipschitz * t * root / limit
    eta = q.diameter / (2.0 * q.lipschitz * math.sqrt(t))
    if q.smoothness > 0.0:
        eta = min(eta, limit / (6.0 * q.smoothness * size * t))
    g = q.lipschitz / sigma
    width = eta * q.smoothness * size + 0.5 * (g * g + 4.0 * g * root)
    p = setting.bare("density_ratio", 1, 0.0, eta, sigma)
    return finish(replace(p, clip_high=width, clip_low=width))


def published_growing_lazy(
    setting: LeaderSetting, limit: float
) -> CoupledRegularizedLeaderParameters:
    q, t = setting.problem, float(setting.horizon)
    _require_published_limit(setting.horizon, limit)
    n, log = q.dimension, math.log(t)
    least = (4.0 * q.smoothness * n / q.strong_convexity + 16.0 * n * log) * log
    if limit < least:
        raise CalibrationError(f"the published theorem needs at least {least:.6g} switches")
    sigma = 16.0 * q.lipschitz * math.sqrt(n * t * log) / limit
    return setting.growing("density_ratio", sigma)


def _require_published_limit(horizon: int, limit: float) -> None:
    if horizon < 3 or limit > horizon:
        raise CalibrationError("the published lazy theorems need 3 <= max_switches <= horizon")
