"""The step size of the least predicted regret of the leader on noisy sums.

No bound: the regularisation, stability and linear noise terms of the proved bound (a), and the
second-order cost of noise that is independent of the records and does not meet the boundary. It
uses public constants only, and no decision's privacy depends on the step.

Derivation: ``docs/privacy/noisy_ftrl.md``, "A predicted step".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco.accounting._oco.ftrl_regret import Problem, Schedule, fixed_stream_step, noise_deviations
from dpoco.domains import Domain
from dpoco.losses import GlmLoss

__all__ = ["predicted_step_size"]

FloatArray = NDArray[np.float64]
_DEPTH, _POINTS = 1e-4, 4001  # steps from this part of the largest candidate, 0.23 % apart


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
