"""The guarantee of locally private reports, and of many of one user together.

Proof: ``docs/privacy/local_randomizers.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpoco._validation import LARGEST_HORIZON, choice, positive_int, real_float
from dpoco.accounting.guarantee import Guarantee
from dpoco.privacy.losses.responses import LARGEST_REPORTS, Responses, summed_delta

__all__ = ["client_guarantee", "local_guarantee"]

_SCOPES = {
    "label": "the context of every round is disclosed: only the label is protected",
    "label_and_context": "label and context are protected: the context never leaves the device",
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
    loss = Responses(real_float("epsilon", epsilon), real_float("delta", delta), reports)
    total = reports * epsilon if at >= added else math.inf  # epsilons add up
    if at < 1.0:
        total = min(total, loss.epsilon(at))
    return Guarantee(
        epsilon=total,
        delta=at,
        change="replace",
        view="server",
        unit="one report" if reports == 1 else f"{reports} reports of one user",
        horizon=LARGEST_HORIZON if horizon is None else horizon,
        mechanism=mechanism,
        certified=not simulated and math.isfinite(total),
        paper_epsilon=paper_epsilon,
        reference="likelihood ratios of the laws as sampled; docs/privacy/local_randomizers.md",
        conditions=conditions + _conditions(protect, reports, simulated),
        details=dict(details or {}),
        loss=loss,
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
