"""Locally private reports: each one private by itself, and many of one user together.

Claim: r reports of one user, each (epsilon, delta)-private for any two values of her data whatever
was reported before, are together dominated by r randomised responses, and so

    delta_r(e) = 1 - (1 - delta)^r
                 + (1 - delta)^r sum_{i: (2i - r) epsilon > e} P_i (1 - e^(e - (2i - r) epsilon)),

P_i the binomial probabilities of r trials with chance 1 / (1 + e^-epsilon). At delta_r(r epsilon)
= 1 - (1 - delta)^r <= r delta this is never worse than adding up.

Proof: ``docs/privacy/local_randomizers.md``. Source: Kairouz, Oh and Viswanath, "The composition
theorem for differential privacy" (2015).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import LARGEST_HORIZON, choice, positive_int, real_float
from dpoco.accounting.guarantee import Guarantee

__all__ = [
    "LARGEST_REPORTS",
    "checked",
    "client_guarantee",
    "describe",
    "event",
    "local_guarantee",
    "profile_delta",
    "profile_epsilon",
    "pure_epsilon",
    "reports_delta",
    "reports_epsilon",
    "reports_profile",
    "summed_delta",
]

FloatArray = NDArray[np.float64]

LARGEST_REPORTS = 10**6
_FIELDS = {"kind", "epsilon", "delta", "reports"}
_SCOPES = {
    "label": "the context of every round is disclosed: only the label is protected",
    "label_and_context": "label and context are protected: the context never leaves the device",
}


def reports_delta(epsilon: float, *, each: float, each_delta: float = 0.0, reports: int) -> float:
    """Return delta of all reports of one user together.

    Parameters
    ----------
    epsilon : float
        At least 0.
    each, each_delta : float
        Privacy of one report: positive, and in [0, 1).
    reports : int
        r in [1, 10^6]. O(r).

    Returns
    -------
    float
        Rounded up: by a relative 1e-8 for a million reports, 1e-11 for one.
    """
    each, each_delta, reports = _arguments(each, each_delta, reports)
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0; got {epsilon!r}")
    lost = _lost(each_delta, reports)
    if epsilon >= reports * each:
        return lost
    log_chances, losses = _law(each, reports)
    # Of two numbers that nearly agree the difference has few digits: the losses are rounded up.
    losses = losses * (1.0 + 2.0**-50)
    above = losses > epsilon
    gaps = -np.expm1(epsilon - losses[above])
    total = float(np.sum(np.exp(log_chances[above]) * gaps))
    slack = 1.0 + 2e-14 * (reports + 1000)
    kept = 1.0 - lost * (1.0 - 2.0**-40)  # `lost` is rounded up
    return min(1.0, (lost + kept * total * slack) * (1.0 + 2.0**-50))


def _lost(each_delta: float, reports: int) -> float:
    """Return 1 - (1 - delta)^r, rounded up, and never above r delta rounded up."""
    if reports == 1 or each_delta == 0.0:
        return each_delta
    exact = -math.expm1(reports * math.log1p(-each_delta)) * (1.0 + 2.0**-45)
    return min(1.0, exact, summed_delta(each_delta, reports))


def summed_delta(each_delta: float, reports: int) -> float:
    """Return r delta, rounded up and at most 1."""
    total = reports * each_delta
    if Fraction(total) < reports * Fraction(each_delta):
        total = math.nextafter(total, math.inf)
    return min(1.0, total)


def reports_epsilon(delta: float, *, each: float, each_delta: float = 0.0, reports: int) -> float:
    """Return the smallest epsilon of all reports of one user together.

    Parameters
    ----------
    delta : float
        In [0, 1).
    each, each_delta, reports
        As for `reports_delta`.

    Returns
    -------
    float
        At most ``reports * each``; infinite if the reports lose more than `delta` outright.
    """
    each, each_delta, reports = _arguments(each, each_delta, reports)
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta must be in [0, 1); got {delta!r}")

    def reached(epsilon: float) -> bool:
        found = reports_delta(epsilon, each=each, each_delta=each_delta, reports=reports)
        return found <= delta

    low, high = 0.0, reports * each
    if not reached(high):
        return math.inf
    if delta == 0.0:
        return high
    if reached(low):
        return low
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _arguments(each: float, each_delta: float, reports: int) -> tuple[float, float, int]:
    each, each_delta = real_float("epsilon", each), real_float("delta", each_delta)
    if not each > 0.0:
        raise ValueError(f"epsilon must be positive; got {each!r}")
    if not 0.0 <= each_delta < 1.0:
        raise ValueError(f"delta must be in [0, 1); got {each_delta!r}")
    return each, each_delta, positive_int("reports", reports, maximum=LARGEST_REPORTS)


@lru_cache(maxsize=8)
def _law(each: float, reports: int) -> tuple[FloatArray, FloatArray]:
    """Return logarithms of the binomial probabilities of losses > 0, and the losses."""
    from scipy.special import gammaln

    i = np.arange(reports // 2 + 1, reports + 1, dtype=np.float64)
    choices = gammaln(reports + 1.0) - gammaln(i + 1.0) - gammaln(reports - i + 1.0)
    log_chance = -math.log1p(math.exp(-each))  # of a true answer; a false one: less `each`
    return choices + reports * log_chance - (reports - i) * each, (2.0 * i - reports) * each


def reports_profile(epsilon: float, delta: float = 0.0, reports: int = 1) -> dict[str, Any]:
    """Return the record of `reports` reports of one user, for ``Guarantee.profile``."""
    return checked(
        {"kind": "local_reports", "epsilon": epsilon, "delta": delta, "reports": reports}
    )


def checked(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated copy of a record."""
    if set(record) != _FIELDS:
        raise ValueError(f"a profile of kind 'local_reports' has the fields {sorted(_FIELDS)}")
    epsilon, delta, reports = _arguments(record["epsilon"], record["delta"], record["reports"])
    return {"kind": "local_reports", "epsilon": epsilon, "delta": delta, "reports": reports}


def profile_delta(record: Mapping[str, Any], epsilon: float) -> float:
    """Return delta at `epsilon` >= 0."""
    return reports_delta(epsilon, **_read(record))


def profile_epsilon(record: Mapping[str, Any], delta: float) -> float:
    """Return the smallest epsilon at `delta`."""
    return reports_epsilon(delta, **_read(record))


def pure_epsilon(record: Mapping[str, Any]) -> float:
    """Return the epsilon at delta = 0."""
    if record["delta"] > 0.0:
        return math.inf
    return float(record["reports"]) * float(record["epsilon"])


def describe(record: Mapping[str, Any]) -> str:
    """Return the profile in words."""
    delta = f", delta = {record['delta']:.3g}" if record["delta"] > 0.0 else ""
    each = f"epsilon = {record['epsilon']:.6g}{delta}"
    if record["reports"] == 1:
        return f"one report with {each}, dominated by randomised response"
    return f"{record['reports']} randomised responses with {each} each"


def event(record: Mapping[str, Any]) -> Any:
    """Raise: accountants of ``dp_accounting`` drop repetitions of randomised response."""
    raise ValueError("no dp_accounting event describes local reports; use delta_at and epsilon_at")


def _read(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "each": float(record["epsilon"]),
        "each_delta": float(record["delta"]),
        "reports": int(record["reports"]),
    }


def local_guarantee(
    *,
    epsilon: float,
    mechanism: str,
    delta: float = 0.0,
    reports_per_user: int = 1,
    stated_delta: float | None = None,
    protect: str = "label",
    horizon: int | None = None,
    simulated: bool = False,
    conditions: tuple[str, ...] = (),
    paper_epsilon: float | None = None,
    details: Mapping[str, float | str | None] | None = None,
) -> Guarantee:
    """Return the guarantee of reports that are private one by one.

    Parameters
    ----------
    epsilon, delta : float
        Privacy of one report; `delta` is 0 for the pure channels.
    mechanism : str
        What a report is, in words.
    reports_per_user : int, default 1
        How many reports one user sends at most.
    stated_delta : float, optional
        Where to state epsilon; by default ``reports_per_user * delta``, where epsilons add up.
    protect : {"label", "label_and_context"}
        What one report protects.
    horizon : int, optional
        Rounds covered.
    simulated : bool
        Whether any noise was reproducible: the guarantee is then not certified.
    conditions, paper_epsilon, details
        As in `Guarantee`.
    """
    choice("protect", protect, _SCOPES)
    reports = positive_int("reports_per_user", reports_per_user, maximum=LARGEST_REPORTS)
    added = summed_delta(delta, reports)
    at = added if stated_delta is None else real_float("delta", stated_delta)
    certain = at >= added  # epsilons add up
    total = reports * epsilon if certain else math.inf
    if at < 1.0:
        each = {"each": epsilon, "each_delta": delta, "reports": reports}
        total = min(total, reports_epsilon(at, **each))  # type: ignore[arg-type]
    return Guarantee(
        epsilon=total,
        delta=at,
        change="replace",
        view="server",
        unit="one report" if reports == 1 else f"{reports} reports of one user",
        horizon=LARGEST_HORIZON if horizon is None else horizon,
        mechanism=mechanism,
        sensitivity=None,
        sensitivity_norm="",
        mu=None,
        rho=None,
        noise_scale=0.0,
        noise_multiplier=None,
        column_norm=None,
        calibration="tight",
        certified=not simulated and math.isfinite(total),
        claimed=None,
        paper_epsilon=paper_epsilon,
        reference="likelihood ratios of the laws as sampled; docs/privacy/local_randomizers.md",
        conditions=conditions + _conditions(protect, reports, simulated),
        profile=reports_profile(epsilon, delta, reports),
        details=dict(details or {}),
    )


def _conditions(protect: str, reports: int, simulated: bool) -> tuple[str, ...]:
    count = "one report" if reports == 1 else f"{reports} reports"
    return (
        _SCOPES[protect],
        f"each user sends at most {count}: devices count, not the server",
        "all parameters and hypotheses were fixed without looking at the labels protected",
        "that a user takes part, and when, is visible; no amplification by shuffling is claimed",
        "only the reports are covered: not timing, memory or files of the device",
        "SIMULATED REPORTS: reproducible noise, or one process that saw all labels; void"
        if simulated
        else "the noise of a report comes from the operating system's entropy on the device",
    )


def client_guarantee(
    *, epsilon: float, delta: float, reports: int, protect: str, simulated: bool
) -> Guarantee:
    """Return the guarantee of one device: a total over all its reports.

    Parameters
    ----------
    epsilon, delta : float
        Budgets of all reports together, which the device's ledger enforces.
    reports : int
        How many reports it sends at most.
    protect, simulated
        As for `local_guarantee`.
    """
    count = "one report" if reports == 1 else f"at most {reports} reports"
    return local_guarantee(
        epsilon=epsilon,
        delta=delta,
        mechanism=f"{count} of one device, within a total that its ledger enforces",
        protect=protect,
        horizon=reports,
        simulated=simulated,
    )
