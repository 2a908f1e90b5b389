"""The published parameters of P-COMW and CTRL, printed and repaired.

"paper": the parameter choices of Agarwal et al., P-COMW, Theorem 4.1, and Agarwal et al., CTRL,
Theorems 8 (smooth losses) and 11 (generalised linear losses), with the (epsilon, delta) that their
privacy theorems print (`dpoco.accounting.published`). They are reported, never certified: the
printed delta exceeds 1 for short horizons. "corrected": the same algorithm and style of proof,
every step repaired, and the free parameters chosen to minimise the printed regret bound. Lazy
modes: P-COMW, Theorem 4.2; CTRL, Theorems 9, 12 and 13. Exact accounting of all is up to the
mechanism, `dpoco.privacy.mechanisms.coupled_draws`.

Proof: ``docs/privacy/oco_regret.md``, section "Published parameters".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dpoco.accounting._coupled_parameters import (
    ContinuousMultiplicativeWeightsParameters,
    CoupledRegularizedLeaderParameters,
)
from dpoco.accounting._gibbs_setting import GibbsSetting, exact_normalizer
from dpoco.accounting._leader_setting import LeaderSetting, finish
from dpoco.accounting.budget import Budget
from dpoco.accounting.published import PublishedClaim, gibbs_claim, leader_claim
from dpoco.accounting.regret_bounds import published_leader_regret
from dpoco.errors import CalibrationError

__all__ = [
    "gibbs_published",
    "leader_published",
    "published_gibbs_lazy",
    "published_growing_lazy",
    "published_leader_lazy",
]


def gibbs_published(
    setting: GibbsSetting, budget: Budget, coupling: str, block: int | None
) -> ContinuousMultiplicativeWeightsParameters:
    """Return the "paper" or "corrected" parameters of P-COMW for a budget."""
    q, t = setting.problem, float(setting.horizon)
    _require_published(setting.relation, coupling, block, setting.horizon, budget)
    if not exact_normalizer(q):
        raise ValueError(
            f"calibration {setting.calibration!r} needs coupling 'density_ratio', whose "
            "normalising constant is known for linear losses on a ball, a box or R^d only"
        )
    n, scale = q.dimension, q.lipschitz / q.diameter
    if setting.calibration == "paper":
        epsilon, log = min(budget.epsilon, 1.0), math.log(t / budget.delta)
        shape = 1e3 * math.sqrt(n) * log
        slow, fast = t ** (1.0 / 3.0) / epsilon, t**0.375 / epsilon**0.75
        lam = scale * max(0.5 / math.sqrt(t), shape * slow, shape * fast)
        share = min((epsilon / t ** (1.0 / 3.0)) ** 2, (epsilon / math.sqrt(t)) ** 1.5)
        beta = lam / (1e5 * (q.lipschitz * log) ** 2) * share
    else:
        g = _largest(
            lambda x: (
                gibbs_claim(
                    horizon=setting.horizon, noise_to_signal=x, delta=budget.delta, corrected=True
                ).epsilon
            ),
            budget.epsilon,
        )
        lam = scale * math.sqrt(2.0 * (t + n * math.log(t) / g**2))
        beta = g**2 * lam / q.lipschitz**2
    claim = gibbs_claim(
        horizon=setting.horizon,
        noise_to_signal=q.lipschitz * math.sqrt(beta / lam),
        delta=budget.delta,
        corrected=setting.calibration == "corrected",
    )
    template = setting.build("scheduled", 1.0, 1, 1.0, 1.0)
    return setting.finish(
        replace(
            template,
            coupling="density_ratio",
            inverse_temperature=beta,
            regularization=lam,
            forced_switch=claim.forced_switch,
            clip_high=claim.log_ratio,
            clip_low=claim.log_ratio,
            max_switches=claim.cap,
        )
    )


def leader_published(
    setting: LeaderSetting, budget: Budget, coupling: str, block: int | None
) -> CoupledRegularizedLeaderParameters:
    """Return the "paper" or "corrected" parameters of CTRL for a budget."""
    _require_published(setting.relation, coupling, block, setting.horizon, budget)
    if setting.calibration == "paper":
        eta, sigma = _printed_leader(setting, budget)
    else:
        eta, sigma = _repaired_leader(setting, budget)
    claim = _leader_claim(setting, eta, sigma, budget.delta)
    p = setting.bare("density_ratio", 1, min(1.0, claim.forced_switch), eta, sigma)
    return finish(
        replace(
            p,
            clip_high=claim.log_ratio,
            clip_low=claim.log_ratio,
            max_switches=claim.cap,
            private=True,
        )
    )


def _printed_leader(setting: LeaderSetting, budget: Budget) -> tuple[float, float]:
    q, t = setting.problem, float(setting.horizon)
    epsilon, n = min(budget.epsilon, 1.0), q.dimension
    linear = setting.rank <= 1
    size = 1 if linear else n
    steps = [q.diameter / (2.0 * q.lipschitz * math.sqrt(t))]
    if q.smoothness > 0.0:
        log = math.sqrt(math.log(t / budget.delta))
        slow = 1e3 * t ** (5.0 / 12.0) * q.smoothness * math.sqrt(size) * log
        fast = 1e3 * t ** (1.0 / 3.0) * q.smoothness * size * log
        steps += [math.sqrt(epsilon) / slow, epsilon / fast]
    least = q.lipschitz * math.sqrt(t / size)
    private = 1e3 * q.lipschitz * t ** (1.0 / 3.0) / epsilon
    private *= math.sqrt(size * math.log(120.0 * t / budget.delta))
    return min(steps), max(least, private)


def _repaired_leader(setting: LeaderSetting, budget: Budget) -> tuple[float, float]:
    """Return (eta, sigma) of the least printed regret bound that the repaired theorem allows."""
    q = setting.problem

    def noise(eta: float) -> float:
        def spent(g: float) -> float:
            return _leader_claim(setting, eta, q.lipschitz / g, budget.delta).epsilon

        return q.lipschitz / _largest(spent, budget.epsilon)

    def bound(log_eta: float) -> float:
        try:
            sigma = noise(math.exp(log_eta))
        except CalibrationError:
            return math.inf
        return published_leader_regret(
            horizon=setting.horizon,
            dimension=q.dimension,
            lipschitz=q.lipschitz,
            diameter=q.diameter,
            step_size=math.exp(log_eta),
            noise_scale=sigma,
        ).total

    top = math.log(q.diameter / (2.0 * q.lipschitz * math.sqrt(setting.horizon)))
    if q.smoothness == 0.0:
        return math.exp(top), noise(math.exp(top))
    eta = math.exp(_golden(bound, top - 25.0, top))
    return eta, noise(eta)


def _leader_claim(setting: LeaderSetting, eta: float, sigma: float, delta: float) -> PublishedClaim:
    q = setting.problem
    return leader_claim(
        horizon=setting.horizon,
        dimension=q.dimension,
        lipschitz=q.lipschitz,
        smoothness=q.smoothness,
        step_size=eta,
        noise_scale=sigma,
        delta=delta,
        corrected=setting.calibration == "corrected",
        # The repaired proof exchanges three losses, beyond the lemma for generalised linear ones.
        generalized_linear=setting.rank <= 1 and setting.calibration == "paper",
    )


def _require_published(
    relation: str, coupling: str, block: int | None, horizon: int, budget: Budget
) -> None:
    if relation != "replace" or coupling not in ("auto", "density_ratio") or block not in (None, 1):
        raise ValueError(
            "the published calibrations have relation 'replace', coupling 'density_ratio', block 1"
        )
    if horizon < 12.0 * math.log(1.0 / budget.delta):
        raise CalibrationError(
            f"the published theorems need a horizon of at least 12 ln(1/delta) = "
            f"{12.0 * math.log(1.0 / budget.delta):.0f} rounds"
        )


def _largest(spent: Callable[[float], float], epsilon: float) -> float:
    """Return the largest noise-to-signal ratio whose epsilon is at most the target."""
    low, high = math.log(1e-30), math.log(10.0)
    if spent(math.exp(low)) > epsilon:
        raise CalibrationError("the repaired theorem admits no noise for this budget")
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if spent(math.exp(middle)) <= epsilon else (low, middle)
    return math.exp(low)


def _golden(value: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimiser of a unimodal function."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(45):
        # Ties are infeasible on both sides: smaller steps are feasible.
        if at_left < at_right or at_left == math.inf:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)
    return left if at_left <= at_right else right


def published_gibbs_lazy(
    setting: GibbsSetting, limit: float
) -> ContinuousMultiplicativeWeightsParameters:
    """Return the printed parameters of P-COMW for at most `limit` expected switches."""
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
    """Return the printed parameters of CTRL for at most `limit` expected switches."""
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
    """Return the printed parameters with growing noise, for strongly convex losses."""
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
