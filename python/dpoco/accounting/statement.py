"""Guarantees from a mechanism's loss, in one place for all learners.

Claim of `state_delayed`: let the arrivals of feedback, their times and their order be the same on
neighbouring streams, given equal releases so far. Then everything released is as private as without
delay, for replacing one record where it arrives. Source: post-processing, and every learner's own
proof, which covers records that react to all earlier releases. Proof:
``docs/privacy/delayed_feedback.md``.

Locally private reports, one or several per user: ``docs/privacy/local_randomizers.md``.

Every accountant has a function ``guarantee``, with these options:

plan : Plan
    Calibrated, or the user's own. Its forecast is not trusted.
relation : {"replace", "zero_out"}
    Change of one record between neighbouring streams.
budget : Budget, float or None
    Delta at which epsilon is stated (a budget's delta; pure privacy is stated at 0 in any case);
    None means 1 / (10 horizon).
seeded : bool
    Whether the noise is reproducible, which voids the guarantee.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpoco._validation import LARGEST_HORIZON, Fields, choice
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES, DELAYED, UNPROVED
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.regret_bounds import REGRET_SCOPES, stated_regret, without_regret
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.mechanisms.local_report import LocalReport
from dpoco.privacy.neighbours import Neighbours

__all__ = ["check_claim", "client_guarantee", "expert_guarantee", "local_guarantee",
           "state_delayed", "stated_delta"]  # fmt: skip

_LATE = "no bound is proved, because the proofs are for feedback that comes at once"


def stated_delta(budget: Budget | float | None, horizon: int | None) -> float:
    """Return the delta at which epsilon is stated: the budget's, or 1 / (10 horizon).

    Parameters
    ----------
    budget : Budget, float or None
        A float is the delta itself.
    horizon : int or None
        Rounds; None is an endless stream of at most 10^12 rounds.
    """
    if isinstance(budget, Budget):
        return budget.delta
    # A tenth of 1 / T, because delta = 1/T would allow publishing the data of a random round in
    # full.
    rounds = LARGEST_HORIZON if horizon is None else horizon
    return 1.0 / (10.0 * rounds) if budget is None else float(budget)


def expert_guarantee(
    mechanism: Mechanism,
    experts: int,
    horizon: int | None,
    bound: float | None,
    scope: str | None,
    *,
    budget: Budget | float | None,
    seeded: bool,
    details: Fields,
    **said: Any,
) -> Guarantee:
    """Return the guarantee of any plan of a learner of experts, for losses in [0, 1].

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that is enforced and drawn.
    experts, horizon
        N and T; None is an endless stream.
    bound : float or None
        The proved regret bound, or None if there is none. (Uniform draws have regret at most T (1 -
        1/N), and the regret never exceeds T.)
    scope : str or None
        Of `REGRET_SCOPES`: the losses that it holds for.
    budget, seeded
        As of every accountant, see above.
    details : dict
        Additional rows of the report.
    **said
        Additional fields of the guarantee, which replace those set here.

    Returns
    -------
    Guarantee
        Guarantee for replacing the losses of one round, which the learner clips.
    """
    # Every round has losses, which are data, so there is no empty round to compare with.
    near = Neighbours()
    rows: Fields = {}
    if scope is not None:
        rows["regret bound holds for"] = REGRET_SCOPES[scope]
    # A learner without privacy states its bound unchanged, so that a comparison shows the cost of
    # noise.
    if bound is not None and horizon is not None and mechanism.loss(near) is not None:
        stated = stated_regret(bound, horizon * (1.0 - 1.0 / experts), float(horizon))
        bound = stated["regret_bound"]
        rows |= stated["details"]
    return Guarantee.about(
        mechanism,
        near,
        horizon=horizon,
        seeded=seeded,
        regret_bound=bound,
        details={**rows, **details},
        **{"conditions": (CLIPPED_LOSSES,), "delta": stated_delta(budget, horizon), **said},
    )


def state_delayed(immediate: Guarantee, seen: str = "released decisions") -> Guarantee:
    """Return the guarantee if decisions wait for their feedback.

    Parameters
    ----------
    immediate : Guarantee
        Guarantee if every decision is followed by its feedback.
    seen : str
        The only information on the data that arrivals may depend on, in words.

    Returns
    -------
    Guarantee
        The same privacy under one more condition. It has no regret bound, because the bound is
        proved for immediate feedback.
    """
    late = DELAYED.format(seen=seen)
    # Engines count rounds by arrivals, but regret bounds are proved for the round of a decision.
    details = without_regret(immediate.details)
    if immediate.regret_bound is not None or UNPROVED in immediate.details:
        details[UNPROVED] = immediate.details.get(UNPROVED, _LATE)
    conditions = (*immediate.conditions, *((late,) if immediate.private else ()))
    return replace(immediate, conditions=conditions, regret_bound=None, details=details)


def check_claim(result: Guarantee) -> Guarantee:
    """Return the guarantee if its published claim, if any, is true, or raise `CalibrationError`.

    The slack covers the rounding of a composition's own epsilon for a single release.

    Parameters
    ----------
    result : Guarantee
        Its `claimed` is compared with its curve.

    Raises
    ------
    CalibrationError
        If the claim states more privacy than this noise provides.
    """
    if result.claimed is not None:
        epsilon, delta = result.claimed
        exact = result.delta_at(epsilon)
        # Reports print the claim next to the proved statement, so a false claim must be refused
        # here. Written with "not", so that a claim of NaN is refused.
        if not exact <= delta * (1.0 + 1e-9):
            raise CalibrationError(
                f"the published claim (epsilon = {epsilon:.6g}, delta = {delta:.3g}) is false "
                f"for this noise: exact delta {exact:.3g}"
            )
    return result


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
        The mechanism of the user's device.
    released : str
        Description of a report, in words.
    delta : float
        Delta at which epsilon is stated; at 0, epsilons add up.
    protect : {"label", "label_and_context"}
        What one report protects.
    horizon : int, optional
        Number of rounds covered.
    simulated : bool
        Whether any noise was reproducible. Then the guarantee is not certified.

    Returns
    -------
    Guarantee
        With view "server": it also holds against the party that collects the reports.

    Raises
    ------
    ValueError
        For an unknown value of `protect`.
    """
    choice("protect", protect, _SCOPES)
    # Noise is added on the device, so the server that collects reports counts as an attacker.
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
    """Return the guarantee of one device for all its reports.

    Parameters
    ----------
    epsilon : float
        Budget of all reports together, which the device's ledger enforces.
    reports : int
        Largest number of reports.
    protect, simulated
        See `local_guarantee`.

    Returns
    -------
    Guarantee
        For one report of `epsilon`. The ledger enforces the total, however it is divided.
    """
    # The device's ledger adds epsilons, so the total is enough: reports may have different
    # epsilons.
    count = "one report" if reports == 1 else f"at most {reports} reports"
    return local_guarantee(
        LocalReport(epsilon, 1, ()),
        released=f"{count} of one device, within a total that its ledger enforces",
        protect=protect,
        horizon=reports,
        simulated=simulated,
    )
