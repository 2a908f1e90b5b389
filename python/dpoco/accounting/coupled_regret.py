"""Regret cost of coupled draws: clipping, caps on switches, aged anchors, growing noise.

Successive laws satisfy TV <= 2 Phi(g/2) - 1 (P-COMW, g = G sqrt(beta/lam)), or TV <= sqrt(KL/2)
with KL <= g^2/2 + r (ln(1 + b) - b/(1 + b)) (CTRL, g = G/sigma, b = eta beta_s).

Proofs: ``docs/privacy/oco_regret.md``; ``docs/privacy/couplings.md``, section "Caps"; widths:
``docs/privacy/gibbs_draws.md`` and ``docs/privacy/objective_perturbation.md``. Growing noise:
Agarwal et al., CTRL, Algorithm 2 and Theorems 13 and 28, corrected.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from dpoco._validation import Fields, FloatArray
from dpoco.accounting.coupled_runs import CoupledForecast, CoupledRun, TiltedRun
from dpoco.accounting.gaussian import gaussian_epsilon
from dpoco.accounting.regret_bounds import RegretBound, stated_regret
from dpoco.privacy.losses import tilted_draws
from dpoco.privacy.losses.gaussian import gaussian_delta
from dpoco.privacy.mechanisms.coupled_draws import Anchored, Maximal, Window
from dpoco.privacy.neighbours import Neighbours

__all__ = ["forecast"]

# Sums over rounds are exact up to this many terms; the rest is bounded in blocks with this ratio.
_EXACT_TERMS, _RATIO = 4096, 1e-3
# A published delta is vacuous if it is this many times the theorem's own, or at least 1.
_VACUOUS_FACTOR = 10.0


def assess(run: CoupledRun) -> tuple[RegretBound, float]:
    """Return the regret bound and a bound on the expected number of switches.

    Both hold for streams fixed in advance. The regret is in units of loss over the horizon.
    """
    q, m = run.problem, run.mechanism
    # A decision that ignores the data is the centre plus the spread of one draw.
    if m.cap == 0:
        terms = {
            "constant": q.lipschitz * q.radius * m.rounds,
            "spread": q.lipschitz * run.still_distance * m.rounds,
        }
        return RegretBound(math.fsum(terms.values()), terms), 0.0
    if isinstance(run, TiltedRun) and run.grows:
        return growing_regret(run), growing_switches(run)
    clip, chance = 0.0, hazard(run)
    switches = m.decisions * chance
    if isinstance(m.keep, Window):
        clip = clip_penalty(run, clip_error(run))
    elif isinstance(m.keep, Anchored):
        # Half of the allowance for each side of the window, and the anchors' deviation.
        clip = q.lipschitz * q.diameter * (0.5 + 1.0 / m.rounds)
        switches += 0.5  # too wide windows force switches with probability <= 1/(2 T) in total
    limits = [float(x) for x in (run.mean_switches, m.cap) if x is not None]
    return run.regret(clip, cap_penalty(run, chance)), min([switches, *limits])


def forecast(run: CoupledRun) -> CoupledForecast:
    """Return the forecast of a run: regret, switches, and whether noise dominates."""
    bound, switches = assess(run)
    still = run.mechanism.rounds > 1 and run.mechanism.cap == 0
    return CoupledForecast(still, bound.total, switches)


def describe(run: CoupledRun, moved: float) -> tuple[Fields, list[str]]:
    """Return a guarantee's fields on regret and draws, and its conditions on them.

    Parameters
    ----------
    run : GibbsRun or TiltedRun
        Coupled decisions on a problem.
    moved : float
        Distance between the draws of neighbouring streams.

    Returns
    -------
    fields : dict
        Fields of the guarantee: regret and details.
    conditions : list of str
        Conditions of the regret bound, and properties of the draws.
    """
    q, m = run.problem, run.mechanism
    rounds = m.rounds * q.lipschitz
    largest = math.inf if q.unbounded else rounds * q.diameter
    regret, switches = assess(run)
    said = stated_regret(regret.total, rounds * q.radius, largest)
    high, low = find_window(run)
    said["details"] |= {
        "coupling": m.keep.kind,
        "block": m.block,
        "forced_switch": m.keep.forced,
        "max_switches": m.cap,
        "clip_high": high,
        "clip_low": low,
        "lipschitz": m.losses.lipschitz,
        "expected_switches": switches,
        **run.draw_details(moved),
        **{f"regret_{name}": value for name, value in regret.terms.items()},
    }
    over = ", against the best point of the domain, of decisions in R^d" if q.unbounded else ""
    conditions = [
        f"The regret bound is for streams fixed in advance (oblivious), in expectation{over}.",
        *run.draw_conditions(),
    ]
    return said, conditions


def describe_claim(
    run: CoupledRun, calibration: str, near: Neighbours, delta: float
) -> tuple[Fields, list[str]]:
    """Return a guarantee's two fields on the published privacy theorem, and its conditions.

    Parameters
    ----------
    run : GibbsRun or TiltedRun
        Private decisions.
    calibration : {"tight", "corrected", "paper"}
        How the plan was found. For "tight", nothing is claimed.
    near : Neighbours
        The neighbouring streams of the guarantee.
    delta : float
        The theorem's delta.
    """
    fields: Fields = {"claimed": None, "paper_epsilon": None}
    said, claim = list[str](), None
    # The printed theorems only cover replaced records.
    if near.change == "replace" and run.mechanism.decisions > 0:
        paper = run.claim(delta, False)
        if run.mechanism.cap != 0:  # a constant decision cannot be compared
            fields["paper_epsilon"] = paper.epsilon
        if calibration != "tight":
            claim = paper if calibration == "paper" else run.claim(delta, True)
            fields["claimed"] = claim.epsilon, claim.delta
    if calibration == "paper":
        said.append("The claim of calibration 'paper' is as printed, and is not certified.")
        if claim is not None and not claim.delta < min(1.0, _VACUOUS_FACTOR * delta):
            said.append(f"The printed claim is vacuous: its total delta is {claim.delta:.3g}.")
    return fields, said


def find_window(run: CoupledRun) -> tuple[float, float]:
    """Return the shift of log acceptance factors, and the width of their window below it."""
    keep = run.mechanism.keep
    if isinstance(keep, Window):
        return keep.high, keep.low
    return (keep.width, keep.width) if isinstance(keep, Anchored) else (0.0, 0.0)


def hazard(run: CoupledRun) -> float:
    """Return a bound on the probability of a switch given any history, in [0, 1]."""
    keep = run.mechanism.keep
    if isinstance(keep, Maximal):
        return law_distance(*run.ratios)
    return min(1.0, keep.forced - (1.0 - keep.forced) * math.expm1(-run.log_stay))


def clip_penalty(run: CoupledRun, error: float) -> float:
    """Return the regret caused by clipping that moves a law by `error` in each round.

    Every decision resamples with probability at least p, which forgets all errors.
    """
    m = run.mechanism
    # The mean of min(t - 1, block / p) over the rounds is at most either bound.
    memory = (m.rounds - 1) / 2.0
    if m.keep.forced > 0.0:
        memory = min(memory, m.block / m.keep.forced)
    if m.block == 1:
        error *= 1.0 - m.keep.forced
    return _penalty(run, min(1.0, memory * error))


def cap_penalty(run: CoupledRun, chance: float) -> float:
    """Return the regret caused by freezing the decision when the switches reach the cap.

    `chance` bounds the probability of a switch given any history. The result is 0 if the cap allows
    a switch at every decision.
    """
    from scipy.special import betainc

    m = run.mechanism
    if m.cap is None or m.cap >= m.decisions:
        return 0.0
    b, mean = float(m.cap), run.mean_switches
    # Given any history, a switch has at most this probability, so a binomial law dominates their
    # number.
    tail = float(betainc(b + 1.0, m.decisions - b, chance))
    if mean is not None and b > mean:
        excess = b - mean
        tail = min(tail, math.exp(-0.5 * excess**2 / (mean + excess / 3.0)))
    if isinstance(m.keep, Anchored):
        tail += 0.5 / m.rounds
    return _penalty(run, min(1.0, tail))


def _penalty(run: CoupledRun, variation: float) -> float:
    """Return the regret caused by laws at this total variation from the ideal ones."""
    q, rounds = run.problem, run.mechanism.rounds
    if not q.unbounded:
        return q.lipschitz * q.diameter * rounds * variation
    # Over R^n the range of losses is unbounded. We use Cauchy-Schwarz with second moments
    # (docs/privacy/oco_regret.md, "In R^n").
    return 2.0 * q.lipschitz * run.mean_distance * math.pow(rounds, 1.5) * math.sqrt(variation)


def law_distance(g: float, b: float = 0.0, rank: int = 0) -> float:
    """Return a bound on the total variation between successive laws.

    Parameters
    ----------
    g, b : float
        Signal to noise, and step size times smoothness.
    rank : int
        Rank of one loss's Hessian.
    """
    # The laws are g-GDP, so their total variation is at most that of two normal laws.
    if b == 0.0 or rank == 0:
        return math.erf(g / math.sqrt(8.0))
    return min(1.0, 0.5 * math.sqrt(g**2 + 2.0 * rank * curving(b)))


def curving(b: float) -> float:
    """Return ln(1 + b) - b/(1 + b), without cancellation for small b."""
    # The series alternates, so it is an upper bound if it is cut off after an added term.
    if b < 1e-4:
        return b * b * (0.5 - b * (2.0 / 3.0 - 0.75 * b))
    return math.log1p(b) - b / (1.0 + b)


def clip_widths(g: float, b: float, dimension: int, rank: int, error: float) -> tuple[float, float]:
    """Return the widths (high, low) at which clipping the log density ratio costs `error`.

    The hockey-stick divergence of order e^high of the next law from the current one, and that of
    order e^low of the current law from the next one, are at most `error`, which is in (0, 1). This
    affects utility only: the acceptance factors are always clamped to the window.
    """
    from scipy.special import chdtri, ndtri

    if b == 0.0 or rank == 0:
        width = gaussian_epsilon(g, error)
        return width, width
    added, removed = _curves(g, b, rank)
    high, low = _best_epsilon(added, error, math.inf), _best_epsilon(removed, error, 1.0 / b)
    if rank == 1:
        quantile = -float(ndtri(0.5 * error))
    else:
        quantile = math.sqrt(float(chdtri(float(dimension), error)))
    # Both values are valid for the lower width, because under the current law the log ratio is also
    # a linear form of the noise (docs/privacy/objective_perturbation.md, "Widths of the acceptance
    # window").
    return high, min(low, 0.5 * g * g + g * quantile)


def clip_error(run: CoupledRun) -> float:
    """Return the total variation by which clipping moves the law of a decision in one round."""
    from scipy.special import chdtrc, ndtr

    (g, b, rank), (above, below) = run.ratios, find_window(run)
    if b == 0.0:
        high, low = gaussian_delta(above, g), gaussian_delta(below, g)
    else:
        added, removed = _curves(g, b, rank)
        # P(g^2/2 + g q > below), q of the law |N(0, 1)| (rank 1) or chi_n.
        quantile = max(0.0, below / g - 0.5 * g)
        wide = chdtrc(float(run.problem.dimension), quantile**2)
        tail = 2.0 * ndtr(-quantile) if rank == 1 else wide
        high = tilted_draws.best_delta(added, above, math.inf)
        low = min(tilted_draws.best_delta(removed, below, 1.0 / b), float(tail))
    return math.exp(-above) * max(high, math.exp(-below) * low)


def _curves(g: float, b: float, rank: int) -> tuple[tilted_draws.Curve, tilted_draws.Curve]:
    """Return the Renyi divergences, by order, of the next law from the current one and back."""
    return (
        lambda order: 0.5 * g * g * order + rank * tilted_draws.addition(order, b),
        lambda order: 0.5 * g * g * order + rank * tilted_draws.removal(order, b),
    )


def _best_epsilon(curve: tilted_draws.Curve, delta: float, largest: float) -> float:
    """Return the smallest epsilon >= 0 that divergences prove at `delta`; may be infinite."""
    log_delta = math.log(delta)

    def bound(t: FloatArray) -> FloatArray:
        return curve(1.0 + t) - np.log1p(1.0 / t) - (log_delta + np.log1p(t)) / t

    return max(0.0, tilted_draws.least_over_orders(curve, bound, largest))


def age_quantile(anchors: int, block: int, forced: float, tail: float) -> float:
    """Return an age, in rounds, that the anchors' mean age exceeds with probability <= tail.

    Switches are at least as frequent as forced ones, so the ages are dominated by sums of geometric
    gaps. A gap is dominated by 1 plus an exponential variable with rate -ln(1 - p), which gives a
    Chernoff bound.

    Parameters
    ----------
    anchors : int
        Number K of released points.
    block : int
        Rounds between two decisions.
    forced : float
        p, in (0, 1].
    tail : float
        Probability, in (0, 1).
    """
    weights = [1.0] + [(anchors - j + 1.0) / anchors for j in range(1, anchors + 1)]
    total = math.fsum(weights)
    if forced >= 1.0:
        return block * total
    goal = -math.log(tail)
    best = math.inf
    for k in range(1, 40):
        s = k / 40.0
        # Any s in (0, 1) gives a valid Chernoff bound.
        log_moment = -math.fsum(math.log1p(-s * w) for w in weights)
        best = min(best, (log_moment + goal) / s)
    return block * (total + best / -math.log1p(-forced))


def anchor_width(g: float, error: float, *, anchors: int, mean_age: float, horizon: int) -> float:
    """Return the width of the acceptance window for losses centred at released points.

    It is x g + z g / sqrt(anchors) + g^2 mean_age, with (g/x) e^(-x^2/2) = error and z = sqrt(2
    log(2 horizon^3)). The terms are the deviation of the loss at the current decision, the
    deviation of its mean over the anchors, and the drift of the law since they were drawn,
    `mean_age` rounds ago. The width affects utility only, as in `clip_widths`.
    """
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


def switch_cap(decisions: int, chance: float, tail: float) -> int:
    """Return the smallest B with P(Binomial(decisions, chance) > B) <= tail."""
    from scipy.special import betainc

    # P(X > B) = I_chance(B + 1, decisions - B).
    return bisect_left(
        range(decisions), True, key=lambda b: betainc(b + 1.0, float(decisions - b), chance) <= tail
    )


def bernstein_cap(mean: float, tail: float) -> int:
    """Return a B with P(N > B) <= tail for every sum N of independent bits of at most this mean.

    B is the ceiling of M + L/3 + sqrt(L^2/9 + 2 M L), L = log(1/tail) (Bernstein's inequality; the
    variance of a sum of independent bits is at most its mean M).
    """
    log_tail = -math.log(tail)
    spread = math.sqrt(log_tail**2 / 9.0 + 2.0 * mean * log_tail)
    return math.ceil(mean + log_tail / 3.0 + spread)


def growing_switches(run: TiltedRun) -> float:
    """Return a bound on the expected number of switches with growing noise.

    "maximal": 1 + sum over 2 <= t < T of min(1, sqrt(KL_t/2)), kappa = t/(t - 1),
    h = beta_s/((t - 1) lm), KL_t = G^2/(2 sigma^2 (t - 1)) + (n/2)(kappa - 1 - ln kappa)
    + r max(0, ln(1 + h) - kappa h/(1 + h)). "density_ratio": 1 + sum of 1 - e^(-high - low).
    """
    rounds = run.mechanism.rounds
    # The law of round 1 is a point, so round 1 always switches.
    if rounds <= 2:
        return float(rounds - 1)
    return 1.0 + _monotone_sum(lambda t: _growing_hazard(run, t), 2, rounds - 1)


def growing_regret(run: TiltedRun) -> RegretBound:
    """Return the regret bound for growing noise and losses with strong convexity lm.

    sum (G + sigma sqrt(n) q_t)^2/(2 lm t) + (n sigma^2/lm) sum over t >= 2 of q_t/sqrt(t - 1)
    + 2 G D, with q_t = sqrt(t) - sqrt(t - 1).
    """
    q, rounds = run.problem, run.mechanism.rounds
    lm, size = run.tuning.strong_convexity, run.draw.noise * math.sqrt(q.dimension)

    def growth(t: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (np.sqrt(t) + np.sqrt(t - 1.0)))

    terms = {
        "stability": _monotone_sum(
            lambda t: (q.lipschitz + size * growth(t)) ** 2 / (2.0 * lm * t), 1, rounds
        ),
        "noise": _monotone_sum(lambda t: size**2 / lm * growth(t) / np.sqrt(t - 1.0), 2, rounds),
        "barrier": 2.0 * q.lipschitz * q.diameter,
        # Windows with closeness 2/T^2 per round add a TV of 3 (2/T^2) t in round t; summed over all
        # rounds.
        "clip": 6.0 * q.lipschitz * q.diameter if isinstance(run.mechanism.keep, Window) else 0.0,
    }
    return RegretBound(math.fsum(terms.values()), terms)


def _growing_hazard(run: TiltedRun, t: FloatArray) -> FloatArray:
    """Return bounds on the probability of a switch after rounds t >= 2, with the shape of t."""
    if isinstance(run.mechanism.keep, Window):
        return np.asarray(-np.expm1(-2.0 * _growing_log_ratio(run, t)))
    q, x = run.problem, t - 1.0
    h = q.smoothness / (x * run.tuning.strong_convexity)
    divergence = q.lipschitz**2 / (2.0 * run.draw.noise**2 * x)
    # u - ln(1 + u) with u = 1/x cancels for large x, where we use a series.
    u = 1.0 / x
    excess = np.where(u < 1e-4, u * u * (0.5 - u / 3.0), u - np.log1p(u))
    divergence = divergence + 0.5 * q.dimension * excess
    curved = np.log1p(h) - (1.0 + u) * h / (1.0 + h)
    small = h * h * (0.5 - (2.0 / 3.0) * h) - u * h / (1.0 + h)
    curved = np.where(h < 1e-4, small + 0.75 * h**4, curved)
    return np.asarray(
        np.minimum(1.0, np.sqrt(0.5 * (divergence + q.rank * np.maximum(0.0, curved))))
    )


def _growing_log_ratio(run: TiltedRun, t: FloatArray) -> FloatArray:
    """Return ln Phi of the laws before rounds t and t + 1, t >= 2 (printed with t for t - 1)."""
    q, x = run.problem, t - 1.0
    n, log = q.dimension, math.log(run.mechanism.rounds)
    g = q.lipschitz / run.draw.noise
    return np.asarray(
        q.smoothness * n / (run.tuning.strong_convexity * x)
        + 4.0 * n * log / x
        + 0.5 * n * np.log1p(1.0 / x)
        + 0.5 * g * g / x
        + 2.0 * g * np.sqrt(n * log * (x + 1.0)) / x
    )


def _monotone_sum(value: Callable[[FloatArray], FloatArray], first: int, last: int) -> float:
    """Return an upper bound on the sum of a decreasing function over first <= t <= last.

    Exact for the first 4096 terms. Later terms are bounded in blocks of ratio 1.001 by the value of
    their first term.
    """
    if last < first:
        return 0.0
    split = min(last, first + _EXACT_TERMS - 1)
    total = float(value(np.arange(first, split + 1, dtype=np.float64)).sum())
    if split < last:
        count = math.ceil(math.log(last / split) / _RATIO) + 1
        edges = np.unique(np.rint(np.geomspace(split + 1, last + 1, count)))
        total += float((value(edges[:-1]) * np.diff(edges)).sum())
    return total
