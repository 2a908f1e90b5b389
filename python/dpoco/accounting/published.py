"""What published theorems claim, printed and repaired: for comparison with exact accounting.

DP-TOFW: Theorem 3.1 of Han et al. claims (epsilon, delta)-privacy of the tree Frank-Wolfe learner
for noise scale

    sigma_+ = sqrt(8) L sqrt(kappa) sqrt(ln(L / delta)) (beta D + L_f) / epsilon,

L = ceil(log2 n) + 1. Its composition argument uses, per node, a closed form that is not valid for
every epsilon; `dpoco.accounting.tree_frank_wolfe` checks each use of it by exact accounting.

P-COMW and CTRL (Agarwal et al.): the privacy theorems, as printed and with every step repaired, and
the parameters that go with them. "paper": those of P-COMW, Theorem 4.1, and CTRL, Theorems 8
(smooth losses) and 11 (generalised linear losses); claims are reported, never certified, and the
printed delta exceeds 1 for short horizons. "corrected": the same algorithm and style of proof, and
the free parameters that minimise the printed regret bound. Lazy modes: P-COMW, Theorem 4.2; CTRL,
Theorems 9, 12 and 13.

Proofs: ``docs/privacy/tree_frank_wolfe.md``; ``docs/privacy/oco_regret.md``, section "Published
parameters", which says what is wrong in print.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpoco._validation import positive_float, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import Method, worst_row_norm
from dpoco.accounting.euclidean import EuclideanProblem
from dpoco.errors import CalibrationError

__all__ = [
    "PublishedClaim",
    "gibbs_claim",
    "gibbs_lazy_parameters",
    "gibbs_parameters",
    "growing_lazy_scale",
    "largest_fitting",
    "leader_claim",
    "leader_lazy_parameters",
    "leader_parameters",
    "published_epsilon",
    "published_levels",
    "published_sigma",
    "tree_equivalent_scale",
]


def published_levels(pushes: int) -> int:
    """Return ceil(log2 n) + 1, the number of nodes the paper charges a round with."""
    return (positive_int("pushes", pushes) - 1).bit_length() + 1


def published_sigma(budget: Budget, *, pushes: int, kappa: float, leaf_bound: float) -> float:
    """Return sigma_+ of Theorem 3.1.

    Parameters
    ----------
    budget : Budget
        What the theorem claims.
    pushes : int
        Number of leaves n.
    kappa : float
        Smoothness constant of the noise norm relative to the dual norm.
    leaf_bound : float
        beta D + L in the dual norm.
    """
    return _sigma_epsilon(pushes, kappa, leaf_bound, budget.delta) / budget.epsilon


def published_epsilon(
    sigma: float, delta: float, *, pushes: int, kappa: float, leaf_bound: float
) -> float:
    """Return the epsilon Theorem 3.1 claims for noise scale `sigma`; arguments as above."""
    return _sigma_epsilon(pushes, kappa, leaf_bound, delta) / positive_float("sigma", sigma)


def tree_equivalent_scale(sigma: float, method: Method, pushes: int) -> float:
    """Return the scale at which a binary tree's noisiest sum is as noisy as that of `method`.

    It is `sigma` itself for the tree.
    """
    return sigma * worst_row_norm(method, pushes) / worst_row_norm("tree", pushes)


def _sigma_epsilon(pushes: int, kappa: float, leaf_bound: float, delta: float) -> float:
    levels = published_levels(pushes)
    root = math.sqrt(8.0 * positive_float("kappa", kappa) * math.log(levels / delta))
    return levels * root * positive_float("leaf_bound", leaf_bound)


@dataclass(frozen=True, slots=True)
class PublishedClaim:
    """What a published privacy theorem says about some parameters.

    Attributes
    ----------
    log_ratio : float
        ln Phi, scale of the acceptance factor.
    forced_switch : float
        p of the theorem.
    cap : int
        floor(3 p~ T), p~ = p + 1 - Phi^-2.
    epsilon, delta : float
        The claim, delta in total.
    """

    log_ratio: float
    forced_switch: float
    cap: int
    epsilon: float
    delta: float


def gibbs_claim(horizon: int, g: float, delta: float, corrected: bool) -> PublishedClaim:
    """Return the privacy theorem of P-COMW.

    Parameters
    ----------
    horizon : int
        T.
    g : float
        Signal to noise, G sqrt(beta/lam).
    delta : float
        The theorem's delta.
    corrected : bool
        Whether every step of the proof is repaired, or the theorem taken as printed.
    """
    t, g2 = float(horizon), g**2
    half = 18.0 * g2 + math.sqrt(72.0 * g2 * math.log(2.0 / _small(t, delta)))
    log_ratio = 2.0 * half
    p = min(1.0, max(t ** (-1.0 / 3.0), (g2 / log_ratio) ** (2.0 / 3.0)))
    printed = 7.0 * t ** (2.0 / 3.0) * log_ratio**2 + 12.0 * t * log_ratio**3
    printed += 11.0 * t * g2 ** (2.0 / 3.0) * log_ratio ** (4.0 / 3.0)
    return _claim(t, log_ratio, p, 2.0 * g2, None if corrected else printed, delta)


def leader_claim(
    horizon: int, g: float, b: float, dimension: int, delta: float, corrected: bool
) -> PublishedClaim:
    """Return the privacy theorem of CTRL.

    Parameters
    ----------
    horizon : int
        T.
    g, b : float
        G/sigma and eta beta_s.
    dimension : int
        n, or 1 for the closeness lemma of generalised linear losses; the paper proves it for one
        added loss only, where three are exchanged.
    delta, corrected
        As in `gibbs_claim`.
    """
    t = float(horizon)
    root = math.sqrt(2.0 * dimension * math.log(2.0 / _small(t, delta)))
    log_ratio = 2.0 * (2.0 * b * dimension + 4.5 * g * g + 3.0 * g * root)
    shift = 2.0 * g * g + 2.0 * b * b * dimension
    printed = 7.0 * log_ratio**2 * t ** (2.0 / 3.0) + 2.0 * log_ratio**3 * t
    printed += shift**2 * t ** (5.0 / 3.0)
    return _claim(t, log_ratio, t ** (-1.0 / 3.0), shift, None if corrected else printed, delta)


def _small(t: float, delta: float) -> float:
    return delta / (60.0 * t * t)


def _claim(
    t: float, log_ratio: float, p: float, shift: float, printed: float | None, delta: float
) -> PublishedClaim:
    hazard = p - math.expm1(-2.0 * log_ratio)
    cap = math.floor(3.0 * hazard * t)
    if printed is None:
        composed = (2.0 * log_ratio / p) ** 2 + cap * log_ratio**2 + (t - 1.0) * (shift / p) ** 2
        total = 0.5 * delta + cap * _small(t, delta)
    else:
        composed = printed
        total = delta + 3.0 * t * math.exp(t * math.expm1(-2.0 * log_ratio))
    epsilon = 1.5 * composed + math.sqrt(6.0 * composed * math.log(2.0 / delta))
    return PublishedClaim(log_ratio, p, cap, epsilon, total)


def gibbs_parameters(
    problem: EuclideanProblem, horizon: int, budget: Budget, corrected: bool
) -> tuple[float, float]:
    """Return (beta, lam) of P-COMW for a budget.

    Raises
    ------
    CalibrationError
        If the theorem admits no noise.
    """
    q, t, n = problem, float(horizon), problem.dimension
    _require_long(horizon, budget.delta)
    scale = q.lipschitz / q.diameter
    if corrected:

        def spent(g: float) -> float:
            return gibbs_claim(horizon, g, budget.delta, True).epsilon

        g = _largest_ratio(spent, budget.epsilon)
        lam = scale * math.sqrt(2.0 * (t + n * math.log(t) / g**2))
        return g**2 * lam / q.lipschitz**2, lam
    epsilon, log = min(budget.epsilon, 1.0), math.log(t / budget.delta)
    shape = 1e3 * math.sqrt(n) * log
    slow, fast = t ** (1.0 / 3.0) / epsilon, t**0.375 / epsilon**0.75
    lam = scale * max(0.5 / math.sqrt(t), shape * slow, shape * fast)
    share = min((epsilon / t ** (1.0 / 3.0)) ** 2, (epsilon / math.sqrt(t)) ** 1.5)
    return lam / (1e5 * (q.lipschitz * log) ** 2) * share, lam


def leader_parameters(
    problem: EuclideanProblem, horizon: int, budget: Budget, corrected: bool
) -> tuple[float, float]:
    """Return (eta, sigma) of CTRL for a budget; raise as `gibbs_parameters` does."""
    q, t, n = problem, float(horizon), problem.dimension
    _require_long(horizon, budget.delta)
    if corrected:
        return _repaired_leader(q, horizon, budget)
    epsilon, size = min(budget.epsilon, 1.0), 1 if q.rank <= 1 else n
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


def _repaired_leader(q: EuclideanProblem, horizon: int, budget: Budget) -> tuple[float, float]:
    """Return (eta, sigma) of the least printed regret bound that the repaired theorem allows."""

    def noise(eta: float) -> float:
        def spent(g: float) -> float:
            ratio = q.lipschitz / (q.lipschitz / g)  # of the sigma that is returned
            claim = leader_claim(
                horizon, ratio, eta * q.smoothness, q.dimension, budget.delta, True
            )
            return claim.epsilon

        return q.lipschitz / _largest_ratio(spent, budget.epsilon)

    def bound(log_eta: float) -> float:
        try:
            sigma = noise(math.exp(log_eta))
        except CalibrationError:
            return math.inf
        eta, whole = math.exp(log_eta), q.lipschitz * q.diameter
        steps = (0.5 * q.diameter**2 / eta, 2.0 * q.lipschitz**2 * eta * horizon)
        return math.fsum((*steps, sigma * math.sqrt(q.dimension) * q.diameter, 2.0 * whole))

    top = math.log(q.diameter / (2.0 * q.lipschitz * math.sqrt(horizon)))
    eta = math.exp(_golden(bound, top - 25.0, top) if q.smoothness > 0.0 else top)
    return eta, noise(eta)


def gibbs_lazy_parameters(
    problem: EuclideanProblem, horizon: int, limit: float
) -> tuple[float, float, float]:
    """Return (beta, lam, window) of P-COMW for at most `limit` expected switches.

    Raises
    ------
    CalibrationError
        If the theorem needs more switches, or a longer horizon.
    """
    q, t = problem, float(horizon)
    _require_limit(horizon, limit)
    log = math.log(t)
    lam = max(
        q.lipschitz * math.sqrt(2.0 * t) / q.diameter,
        math.sqrt(512.0 * q.dimension) * q.lipschitz * log * t / (q.diameter * limit),
    )
    beta = lam * (limit / t) ** 2 / (256.0 * q.lipschitz**2 * log)
    g2 = q.lipschitz**2 * beta / lam
    return beta, lam, 2.0 * g2 + math.sqrt(8.0 * g2 * math.log(t * t))


def leader_lazy_parameters(
    problem: EuclideanProblem, horizon: int, limit: float
) -> tuple[float, float, float]:
    """Return (eta, sigma, window) of CTRL; raise as `gibbs_lazy_parameters` does."""
    q, t = problem, float(horizon)
    _require_limit(horizon, limit)
    size = 1 if q.rank <= 1 else q.dimension
    root = math.sqrt(size * math.log(t))
    sigma = 12.0 * q.lipschitz * t * root / limit
    eta = q.diameter / (2.0 * q.lipschitz * math.sqrt(t))
    if q.smoothness > 0.0:
        eta = min(eta, limit / (6.0 * q.smoothness * size * t))
    g = q.lipschitz / sigma
    return eta, sigma, eta * q.smoothness * size + 0.5 * (g * g + 4.0 * g * root)


def growing_lazy_scale(problem: EuclideanProblem, horizon: int, limit: float) -> float:
    """Return sigma of CTRL with growing noise; raise as `gibbs_lazy_parameters` does."""
    q, n, log = problem, problem.dimension, math.log(horizon)
    _require_limit(horizon, limit)
    least = (4.0 * q.smoothness * n / q.strong_convexity + 16.0 * n * log) * log
    if limit < least:
        raise CalibrationError(f"the published theorem needs at least {least:.6g} switches")
    return 16.0 * q.lipschitz * math.sqrt(n * float(horizon) * log) / limit


def _require_long(horizon: int, delta: float) -> None:
    least = 12.0 * math.log(1.0 / delta)
    if horizon < least:
        raise CalibrationError(
            f"the published theorems need a horizon of at least 12 ln(1/delta) = {least:.0f} rounds"
        )


def _require_limit(horizon: int, limit: float) -> None:
    if horizon < 3 or limit > horizon:
        raise CalibrationError("the published lazy theorems need 3 <= max_switches <= horizon")


def largest_fitting(
    fits: Callable[[float], bool], low: float, high: float, steps: int
) -> float | None:
    """Return by bisection the largest number tried that fits, or None."""
    best = None
    for _ in range(steps):
        middle = 0.5 * (low + high)
        if fits(middle):
            low = best = middle
        else:
            high = middle
    return best


def _largest_ratio(spent: Callable[[float], float], epsilon: float) -> float:
    """Return the largest noise-to-signal ratio whose epsilon is at most the target."""
    low, high = math.log(1e-30), math.log(10.0)
    found = largest_fitting(lambda log_g: spent(math.exp(log_g)) <= epsilon, low, high, 100)
    if found is None:
        raise CalibrationError("the repaired theorem admits no noise for this budget")
    return math.exp(found)


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
