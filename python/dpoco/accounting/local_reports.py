"""The guarantee of locally private reports, and of many of one user together.

Proof: ``docs/privacy/local_randomizers.md``.
"""

from __future__ import annotations

from dpoco._validation import choice
from dpoco.accounting.guarantee import Guarantee
from dpoco.privacy.mechanisms.local_report import LocalReport
from dpoco.privacy.neighbours import Neighbours

__all__ = ["client_guarantee", "local_guarantee"]

_SCOPES = {
    "label": "Only the label is protected: the context of every round is disclosed.",
    "label_and_context": "Label and context are protected: the context never leaves the device.",
}


def local_guarantee(
    mechanism: LocalReport,
    *,
    released: str,
    delta: float = 0.0,
    protect: str = "label",
    horizon: int | None = None,
    simulated: bool = False,
) -> Guarantee:
    """Return the guarantee of all reports of one user.

    Parameters
    ----------
    mechanism : LocalReport
        What her device draws.
    released : str
        What a report is, in words.
    delta : float
        Where to state epsilon; at 0, epsilons add up.
    protect : {"label", "label_and_context"}
        What one report protects.
    horizon : int, optional
        Number of rounds covered.
    simulated : bool
        Whether any noise was reproducible: the guarantee is then not certified.
    """
    choice("protect", protect, _SCOPES)
    return Guarantee.about(
        mechanism,
        Neighbours(view="server"),
        released=released,
        horizon=horizon,
        delta=delta,
        reference="likelihood ratios of the laws as sampled; docs/privacy/local_randomizers.md",
        seeded=simulated,
        conditions=(_SCOPES[protect],),
    )


def client_guarantee(*, epsilon: float, reports: int, protect: str, simulated: bool) -> Guarantee:
    """Return the guarantee of one device: a total over all its reports.

    Parameters
    ----------
    epsilon : float
        Budget of all reports together, which the device's ledger enforces.
    reports : int
        How many reports it sends at most.
    protect, simulated
        As for `local_guarantee`.
    """
    count = "one report" if reports == 1 else f"at most {reports} reports"
    return local_guarantee(
        LocalReport(epsilon, 1, ()),
        released=f"{count} of one device, within a total that its ledger enforces",
        protect=protect,
        horizon=reports,
        simulated=simulated,
    )
