"""Regret of the shift detector on losses whose law changes a few times.

Claim: let the losses of all rounds be independent, with a law that changes at most S times, and let
beta < 1 bound the probability that an instance raises an alarm before it has seen a change. Then
the expected regret over T rounds, against the best sequence of experts that switches at most S
times, is at most

    I G(T/I) + P (B theta + phi) + b_1 B (I + S (1 + log I)) + A + 1
        + X (phi(M) + theta + b_1 (1 + log I)),

A = S + (S + 1) beta / (1 - beta) alarms, I = A + 1 instances and P = I + S pieces in expectation,
G(n) the bias allowed in the first n rounds of an instance, phi = phi(T/P) what a window is allowed
for chance, B = 1 (dyadic windows: blocks per window, phi for all of them together), X the windows
of M rounds, the longest that is tested, that long pieces need besides; and the errors of rounding.

Proof: ``docs/privacy/shift_detector.md``, section "Regret".
"""

from __future__ import annotations

import math

from dpoco.accounting._experts.detector_parameters import ShiftDetectorParameters
from dpoco.accounting.epoch_selector import regret_terms

__all__ = ["false_alarm_probability", "regret_of"]


def false_alarm_probability(p: ShiftDetectorParameters, rounds: int) -> float:
    """Return a bound on the probability of a false alarm in one instance of up to `rounds` rounds.

    Computed from the threshold and the allowances in use; 1 if nothing is known.
    """
    threshold = p.threshold * p.threshold_scale
    if p.log_selection is None or not threshold >= 0.0:
        return 1.0
    offsets, slopes = p.window_lines()
    if p.windows == "dyadic":
        crossings = math.fsum(
            rounds / 2.0**k * math.exp(-0.5 * a * a / 2.0**k) for k, a in enumerate(offsets)
        )
    else:
        crossings = rounds * math.fsum(
            math.exp(-2.0 * a * s) for a, s in zip(offsets, slopes, strict=True)
        )
    selections = rounds.bit_length() - 1  # at local rounds 2, 4, 8, ...
    events = 1.0 if p.selection_scale == 0.0 else 2.0  # chance, and noise
    wrong = events * selections * math.exp(-p.log_selection)
    return min(1.0, p.experts * (crossings + wrong) + _noise_exceeds(p, rounds, threshold))


def _noise_exceeds(p: ShiftDetectorParameters, rounds: int, threshold: float) -> float:
    """Return the probability that query noise exceeds threshold and threshold noise, ever."""
    b1, b2 = p.threshold_noise_scale, p.query_noise_scale
    if b2 == 0.0 and (b1 == 0.0 or p.noise == "exponential"):
        return 0.0
    if p.noise == "exponential":
        return min(1.0, rounds * math.exp(-threshold / b2))
    if b1 == 0.0 or b2 == 0.0:
        return 1.0
    # Either a query's noise exceeds x or the threshold's lies below -y, x + y = threshold.
    y = (threshold - b2 * math.log(rounds * b1 / b2)) / (1.0 + b2 / b1)
    y = min(max(y, 0.0), threshold)
    tails = rounds * math.exp(-(threshold - y) / b2) + math.exp(-y / b1)
    return min(1.0, 0.5 * tails)


def regret_of(
    p: ShiftDetectorParameters, rounds: int, shifts: int
) -> tuple[float, dict[str, float]]:
    """Return the bound on the expected regret, infinite if there is no claim, and its terms."""
    if p.experts == 1:
        return 0.0, {}
    if not p.detects:
        if shifts > 0:
            return math.inf, {}
        terms = regret_terms(p.experts, rounds, p.selection_scale, p.selection)
        return min(float(rounds), math.fsum(terms.values())), terms
    beta = false_alarm_probability(p, rounds)
    if beta >= 1.0:
        return math.inf, {}
    changes = min(shifts, rounds - 1)
    alarms = changes + (changes + 1) * beta / (1.0 - beta)
    instances = alarms + 1.0
    pieces = instances + changes
    blocks, chance = _chance(p, rounds, rounds / pieces)
    more, longest = _long_windows(p, rounds)
    laplace = p.noise == "laplace"
    largest_noise = 1.0 + math.log(instances)  # of all instances, in units of its scale
    noise = instances * (0.5 if laplace else 1.0) + changes * largest_noise
    tests = pieces * blocks + more
    terms = {
        "bias of selections": instances * _bias_sum(p, rounds / instances),
        "windows": pieces * chance + more * longest,
        "threshold": tests * p.threshold * p.threshold_scale,
        "threshold noise": p.threshold_noise_scale * (blocks * noise + more * largest_noise),
        "alarms": alarms + 1.0,
        "rounding": p.rounding() * (6.0 * rounds + 2.0 * tests),
    }
    if laplace:
        largest = tests * math.log(rounds) + 0.5
        terms["query noise"] = p.query_noise_scale * largest
    return min(float(rounds), math.fsum(terms.values())), terms


def _chance(p: ShiftDetectorParameters, rounds: int, length: float) -> tuple[int, float]:
    """Return the tests that cover a piece, and what they allow for chance in all."""
    if p.windows == "dyadic":
        # At most two blocks of each length; the sum of the square roots is geometric.
        lengths = min(rounds.bit_length(), p.nominal_horizon.bit_length())
        length = min(length, 2.0 ** (lengths - 1))
        root = p.threshold_scale * math.sqrt(2.0 * p.log_windows * length)
        return 2 * lengths, 2.0 / (1.0 - math.sqrt(0.5)) * root
    return 1, _allowed(p, length)


def _long_windows(p: ShiftDetectorParameters, rounds: int) -> tuple[int, float]:
    """Return how many tests of the longest windows come on top, and what each allows for chance.

    Pieces of w rounds together hold at most T/M windows of the largest length M. Each piece has one
    for rounds that are left over; blocks: two of them are among those of each length.
    """
    if p.windows == "dyadic":
        longest = 1 << (p.nominal_horizon.bit_length() - 1)
        level = p.threshold_scale * math.sqrt(2.0 * p.log_windows * longest)
        return max(0, rounds // longest - 2), level
    return (rounds // p.reach() if rounds > p.reach() else 0), _allowed(p, float(p.reach()))


def _allowed(p: ShiftDetectorParameters, length: float) -> float:
    """Return what a window is allowed for chance by the lowest of the tangents."""
    offsets, slopes = p.window_lines()
    return min(a + s * length for a, s in zip(offsets, slopes, strict=True))


def _bias_sum(p: ShiftDetectorParameters, length: float) -> float:
    """Return G(n), what is allowed in the first n rounds of an instance; linear in between."""
    total = min(length, 1.0) * p.bias(0)
    m = 1
    while 2 * m <= length:
        total += min(2.0 * m, length - 2 * m + 1) * p.bias(m)
        m *= 2
    # The last partial step: rounds 2m, ... of an epoch that has begun, but not reached 2m.
    if length > 1.0 and 2 * m - 1 < length < 2 * m:
        total += (length - (2 * m - 1)) * p.bias(m)
    return total
