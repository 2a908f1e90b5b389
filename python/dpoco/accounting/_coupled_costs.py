"""What couplings cost in regret: clips, caps on switches, aged anchors, distances of laws.

P-COMW: successive laws have TV <= 2 Phi(g/2) - 1 with g = G sqrt(beta/lam). CTRL: TV <= sqrt(KL/2)
with KL <= g^2/2 + r (ln(1 + b) - b/(1 + b)), g = G/sigma, b = eta beta_s.

Proofs: ``docs/privacy/oco_regret.md``; ``docs/privacy/couplings.md``, section "Caps"; widths:
``docs/privacy/gibbs_draws.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco._validation import positive_float, real_float
from dpoco.accounting._coupled_parameters import CoupledParameters
from dpoco.accounting.regret_bounds import RegretBound


@dataclass(frozen=True, slots=True)
class Allowance:
    """Total variations the calibration aims at.

    Attributes
    ----------
    closeness : float
        Between the law of a decision and the ideal one, in every round; costs at most G D / 2.
    tail : float
        Probability of reaching the cap; costs at most G D.
    """

    closeness: float
    tail: float


def allowance(horizon: int, diameter: float, spread: float | None) -> Allowance:
    """Return the targets; `spread` is the root mean square reach of draws over R^n, else None."""
    if spread is None:
        return Allowance(0.5 / horizon, min(0.5, 1.0 / horizon))
    closeness = min(0.5 / horizon, (diameter / (4.0 * float(horizon) ** 1.5 * spread)) ** 2)
    return Allowance(max(closeness, 1e-250), max(min(0.5, 4.0 * closeness), 1e-250))


def clip_penalty(p: CoupledParameters, error: float, spread: float | None) -> float:
    """Return what clipping that moves a law by `error` a round costs in regret.

    Every decision resamples with probability p at least, which forgets all errors.
    """
    memory = (p.horizon - 1) / 2.0
    if p.forced_switch > 0.0:
        memory = min(memory, p.block / p.forced_switch)
    if p.block == 1:
        error *= 1.0 - p.forced_switch
    return _penalty(p, min(1.0, memory * error), spread)


def cap_penalty(
    p: CoupledParameters, hazard: float, mean: float | None, spread: float | None
) -> float:
    """Return what freezing the decision after the last allowed switch costs in regret."""
    from scipy.special import betainc

    if p.max_switches is None or p.max_switches >= p.decisions:
        return 0.0
    b = float(p.max_switches)
    tail = float(betainc(b + 1.0, p.decisions - b, hazard))
    if mean is not None and b > mean:
        excess = b - mean
        tail = min(tail, math.exp(-0.5 * excess**2 / (mean + excess / 3.0)))
    if p.coupling == "anchored":
        tail += 0.5 / p.horizon
    return _penalty(p, min(1.0, tail), spread)


def age_quantile(anchors: int, block: int, forced: float, tail: float) -> float:
    """Return an age in rounds that the mean age of the anchors exceeds with probability <= tail.

    Switches are at least as frequent as forced ones, so the ages are dominated by sums of
    geometric gaps, a gap by 1 plus an exponential of rate -ln(1 - p): a Chernoff bound.
    """
    weights = [1.0] + [(anchors - j + 1.0) / anchors for j in range(1, anchors + 1)]
    total = math.fsum(weights)
    if forced >= 1.0:
        return block * total
    goal = -math.log(tail)
    best = math.inf
    for k in range(1, 40):
        s = k / 40.0
        log_moment = -math.fsum(math.log1p(-s * w) for w in weights)
        best = min(best, (log_moment + goal) / s)
    return block * (total + best / -math.log1p(-forced))


def anchor_width(g: float, error: float, *, anchors: int, mean_age: float, horizon: int) -> float:
    """Return the width of the acceptance window when the loss is centred at released points.

    It is x g + z g / sqrt(anchors) + g^2 mean_age, where (g/x) e^(-x^2/2) = error and
    z = sqrt(2 log(2 horizon^3)): the deviation of the loss at the current decision, that of its
    mean over the anchors, and the drift of the law since they were drawn.

    Parameters
    ----------
    g : float
        mu between successive laws, lipschitz * sqrt(inverse_temperature / regularization),
        positive.
    error : float
        Clipping error per round, strictly between 0 and 1.
    anchors : int
        Number of released points averaged over, at least 1.
    mean_age : float
        Their mean age in rounds, at least 0.
    horizon : int
        Number of rounds, at least 1.

    Notes
    -----
    Concerns utility only: the acceptance factors are clamped to the window whatever it is.
    """
    g, error = positive_float("g", g), real_float("error", error)
    if not 0.0 < error < 1.0:
        raise ValueError(f"error must be strictly between 0 and 1; got {error!r}")
    if anchors < 1 or horizon < 1:
        raise ValueError("anchors and horizon must be at least 1")
    if not real_float("mean_age", mean_age) >= 0.0:
        raise ValueError(f"mean_age must be at least 0; got {mean_age!r}")
    deviation = math.sqrt(2.0 * math.log(2.0 * float(horizon) ** 3))
    return (
        g * _gaussian_window(math.log(g) - math.log(error))
        + deviation * g / math.sqrt(anchors)
        + g * g * mean_age
    )


def _gaussian_window(log_ratio: float) -> float:
    """Return the x > 0 with x^2 / 2 + log x = log_ratio."""
    from scipy.special import lambertw

    # x^2 e^(x^2) = e^(2 log_ratio); for large ratios W(e^y) solves w + log w = y.
    y = 2.0 * log_ratio
    if y < 300.0:
        return math.sqrt(float(lambertw(math.exp(y)).real))
    w = y - math.log(y)
    for _ in range(50):
        w -= (w + math.log(w) - y) / (1.0 + 1.0 / w)
    return math.sqrt(w)


def switch_cap(decisions: int, hazard: float, tail: float) -> int:
    """Return the smallest B with P(Binomial(decisions, hazard) > B) <= tail.

    Parameters
    ----------
    decisions : int
        Number of stay-or-switch decisions, at least 0.
    hazard : float
        Upper bound on the probability of a switch given the history, in [0, 1].
    tail : float
        In (0, 1).
    """
    from scipy.special import betainc

    if decisions < 0:
        raise ValueError(f"decisions must be at least 0; got {decisions}")
    if not 0.0 <= real_float("hazard", hazard) <= 1.0:
        raise ValueError(f"hazard must be in [0, 1]; got {hazard!r}")
    _check_tail(tail)
    low, high = -1, decisions
    while high - low > 1:
        middle = (low + high) // 2
        # P(X > B) = I_hazard(B + 1, decisions - B).
        if float(betainc(middle + 1.0, float(decisions - middle), hazard)) <= tail:
            high = middle
        else:
            low = middle
    return high


def bernstein_cap(mean: float, tail: float) -> int:
    """Return a B with P(N > B) <= tail for every sum N of independent bits of at most this mean.

    B is the ceiling of M + L/3 + sqrt(L^2/9 + 2 M L), L = log(1/tail) (Bernstein's inequality; the
    variance of a sum of independent bits is at most its mean M).

    Parameters
    ----------
    mean : float
        Upper bound on the expected number of switches, at least 0.
    tail : float
        In (0, 1).
    """
    if not real_float("mean", mean) >= 0.0:
        raise ValueError(f"mean must be at least 0; got {mean!r}")
    _check_tail(tail)
    log_tail = -math.log(tail)
    spread = math.sqrt(log_tail**2 / 9.0 + 2.0 * mean * log_tail)
    return math.ceil(mean + log_tail / 3.0 + spread)


def gibbs_distance(noise_to_signal: float) -> float:
    """Return 2 Phi(g/2) - 1, a bound on the total variation between successive laws of P-COMW."""
    return math.erf(noise_to_signal / math.sqrt(8.0))


def leader_distance(noise_to_signal: float, b: float, rank: int) -> float:
    """Return a bound on the total variation between successive laws of CTRL."""
    if b == 0.0 or rank == 0:
        return gibbs_distance(noise_to_signal)
    return min(1.0, 0.5 * math.sqrt(noise_to_signal**2 + 2.0 * rank * curving(b)))


def curving(b: float) -> float:
    """Return ln(1 + b) - b/(1 + b), without cancellation for small b."""
    if b < 1e-4:
        return b * b * (0.5 - b * (2.0 / 3.0))
    return math.log1p(b) - b / (1.0 + b)


def constant_bound(p: CoupledParameters, spread: float) -> RegretBound:
    """Return the bound of a decision that never looks at data, `spread` off the centre."""
    terms = {
        "constant": p.lipschitz * p.radius * p.horizon,
        "spread": p.lipschitz * spread * p.horizon,
    }
    return RegretBound(math.fsum(terms.values()), terms)


def _penalty(p: CoupledParameters, variation: float, spread: float | None) -> float:
    """Return the regret that laws at this total variation from the ideal ones cost."""
    if spread is None:
        return p.lipschitz * p.diameter * p.horizon * variation
    return 2.0 * p.lipschitz * spread * math.pow(p.horizon, 1.5) * math.sqrt(variation)


def _check_tail(tail: float) -> None:
    if not 0.0 < real_float("tail", tail) < 1.0:
        raise ValueError(f"tail must be strictly between 0 and 1; got {tail!r}")
