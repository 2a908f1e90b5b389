"""Regret of the leader on noisy sums: public constants, bounds, and the step size that is best.

Claim, with A = G^2 times the sum of the squared block lengths, s_k the standard deviation of the
noise after block k, K blocks, and w the Gaussian width of the centred domain:

(a) linear losses fixed in advance, s_k non-decreasing: E Reg <= R^2/(2 eta) + eta A/2 + N with
    N = eta n s^2/2 if eta n s <= w, else w s - w^2/(2 eta n), s = s_{K-1};
(b) convex losses, chosen adaptively: E Reg <= R^2/(2 eta) + eta A/2 + eta G sum_t E||noise_t||,
    where for quadratic statistics the noise is that of the gradient, anywhere in the domain.

The rounding of released sums to a grid adds eta G (T - m) times half the grid's diagonal to both.

The predicted step is no bound: it counts the regularisation, stability and linear noise terms of
(a), and the second-order cost of noise that is independent of the records and does not meet the
boundary. It uses public constants only, and no decision's privacy depends on the step.

Proof: ``docs/privacy/noisy_ftrl.md``; derivation of the step: "A predicted step" there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpoco.accounting import continual_sum
from dpoco.accounting.generalized_gaussian import expected_norm_bound
from dpoco.domains import Box, Domain, LpBall, Polytope, Simplex
from dpoco.losses import GlmLoss

__all__ = [
    "Problem",
    "Regret",
    "Schedule",
    "best_step_size",
    "fixed_stream_step",
    "noise_deviations",
    "predicted_step_size",
    "problem_of",
    "regret_of",
]

# Methods whose noise grows with every round, exactly: rows of a Toeplitz factor.
GROWING = ("blt", "toeplitz")
_DEPTH, _POINTS = 1e-4, 4001  # steps from this part of the largest candidate, 0.23 % apart


@dataclass(frozen=True, slots=True)
class Problem:
    """Euclidean constants of a domain and a loss.

    Attributes
    ----------
    coordinates, dimension : int
        d, and n of the set of decisions.
    lipschitz : float
        G: every gradient in the domain has l2 norm at most G while the data keep their bounds.
    radius, diameter, reach : float
        Largest l2 distance from the centre, within the domain, and from the origin.
    width : float
        w >= E max <xi, x - c> over the domain, xi standard normal.
    linear : bool
        Whether the losses are linear.
    """

    coordinates: int
    dimension: int
    lipschitz: float
    radius: float
    diameter: float
    reach: float
    width: float
    linear: bool


@dataclass(frozen=True, slots=True)
class Regret:
    """A bound on expected regret (loss), its terms, and the streams it holds for."""

    total: float
    terms: dict[str, float]
    scope: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the noise of a run looks like, whatever the step size."""

    horizon: int
    batch: int
    method: str
    noise_scale: float
    # For the quadratic statistics: l2 norm of a gradient's noise per unit of a coordinate's.
    amplification: float | None = None

    @property
    def squares(self) -> float:
        """Sum of the squared block lengths, an incomplete last one included."""
        whole, rest = divmod(self.horizon, self.batch)
        return float(whole) * float(self.batch) ** 2 + float(rest) ** 2

    @property
    def noisy_blocks(self) -> int:
        """Blocks whose decision has seen a sum: all but the first."""
        return -(-self.horizon // self.batch) - 1

    @property
    def noisy_rounds(self) -> int:
        """Rounds whose decision has seen a sum."""
        return self.horizon - self.batch


def problem_of(domain: Domain, loss: Any, lipschitz: float) -> Problem:
    """Return the constants of a domain for losses with the given l2 Lipschitz bound."""
    n, radius = domain.intrinsic_dimension, float(domain.radius_from_center())
    return Problem(
        coordinates=domain.dimension,
        dimension=n,
        lipschitz=lipschitz,
        radius=radius,
        diameter=float(domain.diameter(2.0)),
        reach=float(domain.max_norm(2.0)),
        width=min(_width(domain), radius * math.sqrt(n)),
        linear=hasattr(loss, "gradient_bound"),
    )


def _width(domain: Domain) -> float:
    if isinstance(domain, Simplex):
        # <xi, x - c> = scale (max_i xi_i - mean xi), and E max_i xi_i <= sqrt(2 ln d).
        return domain.scale * math.sqrt(2.0 * math.log(domain.dimension))
    if isinstance(domain, Box):
        return math.sqrt(0.5 / math.pi) * float((domain.upper - domain.lower).sum())
    if isinstance(domain, LpBall):
        size = expected_norm_bound(2.0, domain.dual_exponent, domain.dimension)
        return domain.radius * size
    if isinstance(domain, Polytope):
        lower, upper = domain.bounding_box
        return math.sqrt(0.5 / math.pi) * float((upper - lower).sum())
    raise TypeError(
        f"domain must be an LpBall, Box, Simplex or Polytope; got {type(domain).__name__}"
    )


def regret_of(problem: Problem, run: Schedule, step_size: float) -> Regret:
    """Return the least proved bound for a step size eta > 0."""
    bounds = [_any_stream(problem, run, step_size)]
    if _growing_and_linear(problem, run):
        bounds.append(_fixed_stream(problem, run, step_size))
    never_more = problem.lipschitz * problem.diameter * run.horizon
    bounds.append(Regret(never_more, {"trivial": never_more}, "adaptive"))
    return min(bounds, key=lambda bound: bound.total)


def best_step_size(problem: Problem, run: Schedule) -> float:
    """Return the step size of the least bound; 1 if the domain is a single point."""
    if problem.radius == 0.0:
        return 1.0
    r, stability = problem.radius, problem.lipschitz**2 * run.squares
    candidates = [r / math.sqrt(stability + 2.0 * _linear_noise(problem, run))]
    s, _ = noise_deviations(run)
    if _growing_and_linear(problem, run) and s > 0.0:
        n, w = problem.dimension, problem.width
        flat = stability + 2.0 * _rounding(problem, run)
        turn = w / (n * s)
        candidates.append(min(turn, r / math.sqrt(flat + n * s * s)))
        candidates.append(max(turn, math.sqrt(max(0.0, r * r - w * w / n) / flat)))
    return min(candidates, key=lambda eta: regret_of(problem, run, eta).total)


def fixed_stream_step(problem: Problem, run: Schedule) -> float:
    """Return R / sqrt(A + n s^2), the step of bound (a) while noise does not fill the domain."""
    if problem.radius == 0.0:
        return 1.0
    last, _ = noise_deviations(run)
    squares = problem.lipschitz**2 * run.squares + problem.dimension * last**2
    return problem.radius / math.sqrt(squares)


def noise_deviations(run: Schedule) -> tuple[float, float]:
    """Return the noise of a coordinate behind the last decision, and its root mean square."""
    pushes, last = run.horizon // run.batch, run.noisy_blocks
    if last == 0 or run.noise_scale == 0.0:
        return 0.0, 0.0
    row = float(continual_sum.row_norm(run.method, last, pushes))
    # Over the sums behind decisions; the method's mean square is over all of them.
    mean = continual_sum.root_mean_square_row(run.method, pushes) * math.sqrt(pushes / last)
    return run.noise_scale * row, run.noise_scale * mean


def _growing_and_linear(problem: Problem, run: Schedule) -> bool:
    return problem.linear and run.method in GROWING and run.amplification is None


def _rounding(problem: Problem, run: Schedule) -> float:
    """Return the factor of eta in the rounding term: G times the rounded decisions' errors."""
    half = 0.5 * continual_sum.release_grid(run.noise_scale)
    if run.amplification is None:
        half *= math.sqrt(problem.coordinates)
    else:
        half *= run.amplification
    return problem.lipschitz * run.noisy_rounds * half


def _linear_noise(problem: Problem, run: Schedule) -> float:
    """Return the factor of eta in bound (b): G sum_t E||noise_t||, rounding included."""
    _, mean = noise_deviations(run)
    if mean == 0.0:
        return 0.0
    size = math.sqrt(problem.dimension) if run.amplification is None else run.amplification
    # Cauchy-Schwarz over the sums behind decisions.
    noise = problem.lipschitz * run.batch * run.noisy_blocks * mean * size
    return noise + _rounding(problem, run)


def _any_stream(problem: Problem, run: Schedule, eta: float) -> Regret:
    rounding = _rounding(problem, run)
    terms = _common(problem, run, eta)
    terms["noise"] = eta * max(0.0, _linear_noise(problem, run) - rounding)
    terms["rounding"] = eta * rounding
    return Regret(math.fsum(terms.values()), terms, "adaptive")


def _fixed_stream(problem: Problem, run: Schedule, eta: float) -> Regret:
    n, w, s = problem.dimension, problem.width, noise_deviations(run)[0]
    terms = _common(problem, run, eta)
    terms["noise"] = 0.5 * eta * n * s * s if eta * n * s <= w else w * s - 0.5 * w * w / (eta * n)
    terms["rounding"] = eta * _rounding(problem, run)
    return Regret(math.fsum(terms.values()), terms, "oblivious")


def _common(problem: Problem, run: Schedule, eta: float) -> dict[str, float]:
    return {
        "regularization": 0.5 * problem.radius**2 / eta,
        "stability": 0.5 * eta * problem.lipschitz**2 * run.squares,
    }


def predicted_step_size(domain: Domain, loss: Any, problem: Problem, run: Schedule) -> float:
    """Return the step size of the least predicted regret; 1 if the domain is a single point.

    Parameters
    ----------
    domain, loss
        The domain and the loss.
    problem : Problem
        Their Euclidean constants.
    run : Schedule
        Gradient statistics only.

    Notes
    -----
    With s_k the noise's standard deviation and s its root mean square over the rounds, the
    prediction is R^2/(2 eta) + eta (A + n s_K^2)/2 + T' min(beta kappa (eta s)^2/2, G chi eta s):
    T' rounds whose decisions carry noise, of which a loss of smoothness beta and slope G sees the
    share kappa = 1 and chi = sqrt(2/pi), one direction, if it is a generalised linear one, and all
    n otherwise.
    """
    largest = fixed_stream_step(problem, run)
    last, mean = noise_deviations(run)
    if problem.radius == 0.0 or mean == 0.0:
        return largest
    n, slope = problem.dimension, problem.lipschitz
    if isinstance(loss, GlmLoss):
        margin = loss.margin_bound(domain)
        steepest = loss.derivative_bound(margin)
        smoothness = loss.curvature_bound(margin) * (slope / steepest) ** 2
        seen, chi = 1.0, math.sqrt(2.0 / math.pi)
    else:
        # |v|_p^2 <= d^(2/p - 1) |v|_2^2 for p < 2.
        wider = domain.dimension ** max(0.0, 2.0 / domain.p - 1.0)
        smoothness, seen, chi = float(loss.smoothness(domain)) * wider, float(n), math.sqrt(n)
    eta = largest * np.geomspace(_DEPTH, 1.0, _POINTS)
    curved = 0.5 * smoothness * seen * np.square(eta * mean)
    predicted = (
        0.5 * problem.radius**2 / eta
        + 0.5 * eta * (slope**2 * run.squares + n * last**2)
        + run.noisy_rounds * np.minimum(curved, slope * chi * mean * eta)
    )
    return float(eta[int(np.argmin(predicted))])
