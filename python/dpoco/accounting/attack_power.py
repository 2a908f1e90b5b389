"""The power of an attacker under a guarantee: guesses, tests, odds, groups.

Claim: let delta(e) be the curve of a guarantee and P, Q the laws of the releases on neighbouring
streams. Then

* an attacker for whom the first stream has probability pi <= 1/2 guesses right with probability at
  most 1 - pi + pi delta(log((1 - pi) / pi)); for pi > 1/2, replace pi by 1 - pi;
* a test with false-alarm probability a has power at most
  min(delta(e) + exp(e) a, 1 - exp(-e) (1 - delta(e) - a)), for every e >= 0;
* the odds of the true stream rise by a factor above 2 exp(e) with probability at most 2 delta(e);
  if delta(e) = 0, they never rise by more than exp(e);
* for k changed units the curve is that of k mu, k^2 rho or k epsilon, and the releases are (k e,
  delta(e) (exp(k e) - 1) / (exp(e) - 1))-private for every e > 0.

Proof: ``docs/privacy/explanations.md``. Sources: Kairouz, Oh and Viswanath (2015) and Dong, Roth
and Su (2022) for tests; Bun and Steinke (2016) for groups under zCDP.
"""

from __future__ import annotations

import math

import numpy as np

from dpoco._validation import positive_int, real_float
from dpoco.accounting._terms import Terms
from dpoco.privacy.losses.combined import group, with_tails
from dpoco.privacy.losses.loss import UP, sum_up

__all__ = ["group_epsilon", "guessing_probability", "posterior", "test_power"]

# Points of the curve to evaluate. The bounds hold at each point; more points make them tighter.
_SHARES = np.concatenate([[0.0, 1.0], np.geomspace(1e-3, 4.0, 96)])


def guessing_probability(guarantee: Terms, prior: float = 0.5) -> float:
    """Return a bound on the probability of guessing which of two neighbouring streams was used.

    Parameters
    ----------
    guarantee : Guarantee
        Its curve is used.
    prior : float
        Probability of one of the streams before the releases are seen, in (0, 1).

    Returns
    -------
    float
        Between max(prior, 1 - prior), which needs no releases, and 1: (1 + delta(0)) / 2 at 0.5.
    """
    p = _probability("prior", prior)
    # The streams may be exchanged: the bound is stated for the less likely one.
    p = min(p, 1.0 - p)
    return min(1.0, 1.0 - p + p * guarantee.delta_at(math.log1p(-p) - math.log(p)))


def test_power(guarantee: Terms, false_alarm: float) -> float:
    """Return a bound on the power of every test between two neighbouring streams.

    Parameters
    ----------
    guarantee : Guarantee
        Its curve is used, at 98 points.
    false_alarm : float
        Probability that the test rejects the true stream, in (0, 1).

    Returns
    -------
    float
        Between `false_alarm` and 1; 1 without privacy. At most a few percent above the best bound
        that the curve proves.
    """
    a = _probability("false_alarm", false_alarm)
    if not guarantee.private:
        return 1.0
    best = 1.0
    for epsilon in _epsilons(guarantee):
        delta = guarantee.delta_at(epsilon)
        # Two bounds: for the test, and for its complement with the streams exchanged.
        grown = math.exp(epsilon) * a if epsilon < 700.0 else math.inf
        best = min(best, delta + grown, 1.0 - math.exp(-epsilon) * (1.0 - delta - a))
    return best


test_power.__test__ = False  # type: ignore[attr-defined]  # no test, whatever its name


def posterior(prior: float, factor: float) -> float:
    """Return the probability whose odds are the odds of `prior` times `factor`.

    Parameters
    ----------
    prior : float
        In (0, 1).
    factor : float
        At least 0; may be infinite.
    """
    p = _probability("prior", prior)
    if factor == math.inf:  # the quotient below would be NaN
        return 1.0
    return p * factor / (1.0 - p + p * factor)


def group_epsilon(guarantee: Terms, units: int, delta: float | None = None) -> float:
    """Return the smallest epsilon proved for streams that differ in up to `units` units.

    Parameters
    ----------
    guarantee : Guarantee
        For one unit.
    units : int
        k, at least 1.
    delta : float, optional
        In [0, 1); by default the guarantee's own.

    Returns
    -------
    float
        The least of three bounds: k times the pure epsilon, the epsilon of k mu or k^2 rho, and
        that of k steps from one point of the curve. Infinite if no bound is known.
    """
    k = positive_int("units", units)
    target = guarantee.delta if delta is None else real_float("delta", delta)
    if not 0.0 <= target < 1.0:
        return math.inf
    if not guarantee.private or k == 1:
        return guarantee.epsilon_at(target)
    # Rounded up, because k epsilon rounded to nearest would be too small in about half of all
    # cases.
    found = [sum_up((k, guarantee.epsilon_at(0.0), 1.0))]
    if target > 0.0:
        for each in guarantee.stated:
            if min(each.mu, each.rho) < math.inf:
                # The distance between real and ideal noise holds on every stream, so tails count
                # once, not k times (docs/privacy/explanations.md, "Groups").
                found.append(with_tails(group(each, k), guarantee.loss.mass).epsilon(target))
        for epsilon in _epsilons(guarantee):
            if epsilon > 0.0 and _in_steps(guarantee.delta_at(epsilon), epsilon, k) <= target:
                found.append(sum_up((k, epsilon, 1.0)))
    return min(found)


def _in_steps(delta: float, epsilon: float, k: int) -> float:
    """Return delta (1 + e^epsilon + ... + e^((k - 1) epsilon))."""
    if delta == 0.0:
        return 0.0
    if k * epsilon > 700.0:  # would soon overflow
        return math.inf
    return delta * math.expm1(k * epsilon) / math.expm1(epsilon) * UP


def _epsilons(guarantee: Terms) -> list[float]:
    """Return the epsilons to evaluate: 0, and 0.001 to 4 times the guarantee's epsilon."""
    scale = guarantee.epsilon if guarantee.epsilon > 0.0 else 1.0
    return [float(epsilon) for epsilon in scale * _SHARES]


def _probability(name: str, value: float) -> float:
    """Return `value` as a float in (0, 1), or raise naming the argument."""
    number = real_float(name, value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must be strictly between 0 and 1; got {number!r}")
    return number
