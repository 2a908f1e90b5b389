"""Parameters of the lazy modes: a bound on the expected number of switches instead of privacy.

Claims, for streams fixed in advance: the coupling "maximal" leaves every decision's law as it is
and switches with probability TV(mu_t, mu_(t+1)), where

* P-COMW: TV <= 2 Phi(g/2) - 1, g = G sqrt(beta/lam);
* CTRL: TV <= sqrt(KL/2), KL <= g^2/2 + r (ln(1 + b) - b/(1 + b)), g = G/sigma, b = eta beta_s;
* CTRL with growing noise, for losses of strong convexity lm: KL_t as in `growing_switches`.

Other couplings switch more often: "density_ratio" at most with probability 1 - e^(-2a) a round,
"dartboard" at most beta (G R T + regret) times, "scheduled" at block ends.

Proof: ``docs/privacy/oco_regret.md``. Sources: Agarwal et al., P-COMW, Theorem 4.2; Agarwal et al.,
CTRL, Theorems 9, 12 and 13 (Algorithm 2), corrected; their parameters are the calibrations "paper"
and "corrected".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpoco.accounting._coupled_costs import curving
from dpoco.accounting._coupled_parameters import (
    ContinuousMultiplicativeWeightsParameters,
    CoupledRegularizedLeaderParameters,
)
from dpoco.accounting._coupled_statement import admissible
from dpoco.accounting._gibbs_setting import GibbsSetting, exact_normalizer
from dpoco.accounting._leader_setting import LeaderSetting
from dpoco.accounting.oco_published import (
    published_gibbs_lazy,
    published_growing_lazy,
    published_leader_lazy,
)
from dpoco.errors import CalibrationError

__all__ = ["gibbs_lazy", "leader_lazy"]


def gibbs_lazy(
    setting: GibbsSetting, limit: float, coupling: str, block: int | None
) -> ContinuousMultiplicativeWeightsParameters:
    """Return the P-COMW parameters of the least bound with at most `limit` expected switches."""
    q = setting.problem
    if setting.horizon == 1:
        return setting.quiet(1)
    normalized = exact_normalizer(q) or (q.family == "quadratic" and q.unbounded)
    if setting.calibration != "tight":
        if not normalized or coupling not in ("auto", "density_ratio") or block not in (None, 1):
            raise ValueError(
                "the published lazy parameters have coupling 'density_ratio', block 1, and need "
                "a known normalising constant"
            )
        return published_gibbs_lazy(setting, limit)
    allowed = ["scheduled"]
    if block in (None, 1):
        allowed += ["maximal", "density_ratio"] if normalized else []
        allowed += [] if q.unbounded else ["dartboard"]
    found = []
    names = admissible(coupling, allowed, "lazy learning on this domain, loss and block")
    for name in names:
        if name in ("density_ratio", "dartboard") and "maximal" in names and len(names) > 1:
            continue  # "maximal" switches less often at the same laws
        if name == "scheduled":
            m = _block_for(setting.horizon, limit, block)
            found.append(setting.quiet(m))
            continue

        def at(log_g: float, name: str = name) -> ContinuousMultiplicativeWeightsParameters:
            return setting.lazy(name, math.exp(log_g))

        p = _largest(at, limit)
        if p is not None:
            found.append(p)
    if not found:
        raise CalibrationError(f"coupling {coupling!r} cannot keep {limit:g} expected switches")
    return min(found, key=lambda p: p.regret_bound)


def leader_lazy(
    setting: LeaderSetting, limit: float, coupling: str, block: int | None
) -> CoupledRegularizedLeaderParameters:
    """Return the CTRL parameters of the least bound with at most `limit` expected switches."""
    q = setting.problem
    if setting.horizon == 1:
        return setting.quiet(1)
    growing = q.strong_convexity > 0.0 and not q.unbounded
    if setting.calibration != "tight":
        if coupling not in ("auto", "density_ratio") or block not in (None, 1):
            raise ValueError("the published lazy parameters have 'density_ratio' and block 1")
        return (
            published_growing_lazy(setting, limit)
            if growing
            else published_leader_lazy(setting, limit)
        )
    allowed = ["scheduled"] + (["maximal", "density_ratio"] if block in (None, 1) else [])
    found = []
    names = admissible(coupling, allowed, "lazy learning with this block")
    for name in names:
        if name == "density_ratio" and len(names) > 1:
            continue  # "maximal" switches less often at the same laws
        if name == "scheduled":
            found.append(setting.quiet(_block_for(setting.horizon, limit, block)))
            continue
        p = _best_leader(setting, name, limit)
        if p is not None:
            found.append(p)
        if growing and name == "maximal":
            p = _best_growing(setting, limit)
            if p is not None:
                found.append(p)
    if not found:
        raise CalibrationError(f"coupling {coupling!r} cannot keep {limit:g} expected switches")
    return min(found, key=lambda p: p.regret_bound)


def _block_for(horizon: int, limit: float, block: int | None) -> int:
    """Return the shortest block with at most `limit` block ends before the last."""
    least = -(-horizon // (math.floor(min(limit, horizon)) + 1))
    if block is None:
        return least
    if block < least:
        raise CalibrationError(f"blocks of {block} rounds switch more than {limit:g} times")
    return block


def _largest(
    at: Callable[[float], ContinuousMultiplicativeWeightsParameters], limit: float
) -> ContinuousMultiplicativeWeightsParameters | None:
    """Return the parameters of the largest noise-to-signal ratio within the switch bound."""
    low, high = math.log(1e-12), math.log(10.0)
    best = None
    for _ in range(60):
        middle = 0.5 * (low + high)
        p = at(middle)
        if p.expected_switches <= limit:
            low, best = middle, p
        else:
            high = middle
    return best


def _best_leader(
    setting: LeaderSetting, name: str, limit: float
) -> CoupledRegularizedLeaderParameters | None:
    """Search the step size; for each, the least noise that keeps the switches."""
    q = setting.problem
    share = min(1.0, limit / (setting.horizon - 1))
    top = math.log(q.radius / (q.lipschitz * math.sqrt(setting.horizon))) + 0.01
    grid = np.linspace(top - 12.0, top, 25)
    best, at = None, top
    for _ in range(3):
        for log_eta in grid:
            eta = math.exp(float(log_eta))
            noise = _leader_noise(setting, name, eta, share)
            if noise is None:
                continue
            p = setting.lazy(name, eta, noise)
            if best is None or p.regret_bound < best.regret_bound:
                best, at = p, float(log_eta)
        gap = float(grid[1] - grid[0])
        grid = np.linspace(at - gap, at + gap, 7)
    return best


def _leader_noise(setting: LeaderSetting, name: str, eta: float, share: float) -> float | None:
    """Return the largest G/sigma at which a round switches with probability `share` at most."""
    from scipy.optimize import brentq
    from scipy.special import ndtri

    b = eta * setting.problem.smoothness
    if name == "maximal":
        if b == 0.0:
            return min(10.0, 2.0 * float(ndtri(0.5 * (1.0 + share))))
        square = 4.0 * share * share - 2.0 * setting.rank * curving(b)
        return math.sqrt(square) * (1.0 - 1e-12) if square > 1e-24 else None
    width = 50.0 if share == 1.0 else -math.log1p(-share)

    def excess(log_g: float) -> float:
        high, low = setting.lazy_widths(eta, math.exp(log_g))
        # Laws may be so close that their window is empty.
        return math.log(max(high + low, 1e-300) / width)

    if excess(math.log(1e-12)) > 0.0:
        return None
    if excess(math.log(10.0)) < 0.0:
        return 10.0
    root = float(brentq(excess, math.log(1e-12), math.log(10.0), xtol=1e-4))
    while excess(root) > 0.0:
        root -= 1e-4
    return math.exp(root)


def _best_growing(
    setting: LeaderSetting, limit: float
) -> CoupledRegularizedLeaderParameters | None:
    """Return the least growing noise that keeps the switches."""
    q = setting.problem
    low, high = math.log(1e-9), math.log(1e6)
    best = None
    for _ in range(40):
        middle = 0.5 * (low + high)
        p = setting.growing("maximal", q.lipschitz * math.exp(middle))
        if p.expected_switches <= limit:
            high, best = middle, p
        else:
            low = middle
    return best
