"""One draw from a Gibbs law: how private it is and how close successive laws are.

The law has density proportional to exp(-beta (F(x) + lambda/2 |x - c|^2)) on a convex body, F being
the sum of the losses so far. Claims, for G-Lipschitz convex losses and gradient differences of norm
at most Delta (2G when a record is replaced, G when it is zeroed):

* a draw is mu-GDP with mu = Delta sqrt(beta/lambda), and so are the two laws of successive rounds
  with G in place of Delta;
* the log density ratio of successive laws moves by at most beta Delta G / lambda at every point
  when one past record changes.

On all of R^d both need losses that are Lipschitz there: linear ones and such, not quadratics.

Proof: ``docs/privacy/gibbs_draws.md``. Sources: Gopi, Lee and Liu, "Private convex optimization via
exponential mechanism" (2022), proved anew; Agarwal, Kale, Singh and Thakurta, "Improved
differentially private and lazy online convex optimization", corrected.
"""

from __future__ import annotations

import math

from dpoco._validation import positive_float, real_float
from dpoco.accounting.gaussian import gaussian_epsilon

__all__ = ["anchor_width", "clip_width", "draw_mu", "ratio_shift"]


def draw_mu(sensitivity: float, inverse_temperature: float, regularization: float) -> float:
    """Return the mu of one draw, sensitivity * sqrt(inverse_temperature / regularization).

    Parameters
    ----------
    sensitivity : float
        l2 norm of the largest difference between the gradients of the exchanged losses, at
        least 0, in loss/length.
    inverse_temperature : float
        beta, positive, in 1/loss.
    regularization : float
        lambda, positive, in loss/length^2.
    """
    delta, beta, lam = _checked(sensitivity, inverse_temperature, regularization)
    return delta * math.sqrt(beta / lam)


def ratio_shift(
    sensitivity: float,
    lipschitz: float,
    inverse_temperature: float,
    regularization: float,
    *,
    normalizer_error: float = 0.0,
) -> float:
    """Return how far the log acceptance factor of one later round moves.

    Parameters
    ----------
    sensitivity, inverse_temperature, regularization : float
        As in `draw_mu`.
    lipschitz : float
        l2 Lipschitz constant G of a loss, at least 0, in loss/length.
    normalizer_error : float
        Bound on the error of the logarithm of the ratio of normalising constants, at least 0.

    Returns
    -------
    float
        beta Delta G / lambda + 2 normalizer_error; attained, without error, by linear losses.
    """
    delta, beta, lam = _checked(sensitivity, inverse_temperature, regularization)
    if not real_float("lipschitz", lipschitz) >= 0.0:
        raise ValueError(f"lipschitz must be at least 0; got {lipschitz!r}")
    if not real_float("normalizer_error", normalizer_error) >= 0.0:
        raise ValueError(f"normalizer_error must be at least 0; got {normalizer_error!r}")
    return beta * delta * lipschitz / lam + 2.0 * normalizer_error


def clip_width(g: float, error: float) -> float:
    """Return the smallest a >= 0 with ``gaussian_delta(a, g) <= error``.

    Clipping the log density ratio of two successive laws at a then costs at most `error` in total
    variation per round, divided by e^a.

    Parameters
    ----------
    g : float
        mu between successive laws, lipschitz * sqrt(inverse_temperature / regularization),
        at least 0.
    error : float
        Strictly between 0 and 1.
    """
    return gaussian_epsilon(g, error)


def anchor_width(g: float, error: float, *, anchors: int, mean_age: float, horizon: int) -> float:
    """Return the width of the acceptance window when the loss is centred at released points.

    It is x g + z g / sqrt(anchors) + g^2 mean_age, where (g/x) e^(-x^2/2) = error and
    z = sqrt(2 log(2 horizon^3)): the deviation of the loss at the current decision, that of its
    mean over the anchors, and the drift of the law since they were drawn.

    Parameters
    ----------
    g : float
        As in `clip_width`, positive.
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


def _checked(
    sensitivity: float, inverse_temperature: float, regularization: float
) -> tuple[float, float, float]:
    delta = real_float("sensitivity", sensitivity)
    if not delta >= 0.0:
        raise ValueError(f"sensitivity must be at least 0; got {sensitivity!r}")
    return (
        delta,
        positive_float("inverse_temperature", inverse_temperature),
        positive_float("regularization", regularization),
    )
