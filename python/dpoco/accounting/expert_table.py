"""The least proven regret of every learner of experts, side by side.

Every number is computed by the learners' own calibrators, for losses in [0, 1] and against the best
sequence of experts with at most S switches. Proofs: ``docs/privacy/prefix_hedge.md``,
``docs/privacy/tracker_accounting.md`` and ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dpoco.accounting import batch_share, oblivious_tracker, prefix_hedge
from dpoco.accounting.budget import Budget

__all__ = ["ExpertTableEntry", "expert_table", "format_markdown"]


@dataclass(frozen=True, slots=True)
class ExpertTableEntry:
    """Bounds on the expected regret over the horizon at one budget.

    Attributes
    ----------
    experts, horizon, switches : int
        N, T and S.
    hedge : float or None
        `PrefixHedge`; None if S > 0.
    tracker : float
        `ObliviousTracker`.
    share, share_pure : float
        `BatchShare` with the better of its noises, and with the pure one.
    share_adaptive : float
        `BatchShare` against losses that react to the decisions, with the better noise.
    nonprivate : float
        Without privacy: the tracker's algorithm with the best learning rate.
    """

    experts: int
    horizon: int
    switches: int
    hedge: float | None
    tracker: float
    share: float
    share_pure: float
    share_adaptive: float
    nonprivate: float


def expert_table(
    cases: Iterable[tuple[int, int, int]] = (
        (10, 10**5, 0), (1000, 10**5, 0), (10, 10**4, 2), (2, 10**5, 5), (10, 10**5, 5),
        (100, 10**5, 5), (1000, 10**5, 5), (1000, 10**6, 5),
    ),
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
) -> list[ExpertTableEntry]:  # fmt: skip
    """Return the bounds for every triple of experts, horizon and switches."""
    return [_entry(*case, Budget._derived(epsilon, delta)) for case in cases]


def format_markdown(table: Sequence[ExpertTableEntry]) -> str:
    """Return the table as Markdown, one row per case."""
    lines = [
        "| N | T | S | prefix Hedge | tracker | batch share | the same, pure "
        "| the same, adaptive losses | no privacy |",
        "|---|" + "---|" * 8,
    ]
    for entry in table:
        bounds = (
            entry.hedge, entry.tracker, entry.share, entry.share_pure, entry.share_adaptive,
            entry.nonprivate,
        )  # fmt: skip
        cells = " | ".join("-" if bound is None else f"{bound:.0f}" for bound in bounds)
        rounds = f"{entry.horizon:.0e}".replace("e+0", "e")
        lines.append(f"| {entry.experts} | {rounds} | {entry.switches} | {cells} |")
    return "\n".join(lines)


def _entry(experts: int, horizon: int, switches: int, budget: Budget) -> ExpertTableEntry:
    options: dict[str, Any] = {"horizon": horizon, "budget": budget}
    compared = {**options, "switches": switches}
    hedge = None
    if switches == 0:
        hedge = prefix_hedge.calibrate(experts, **options).regret_bound
    share = batch_share.calibrate
    tracker = oblivious_tracker.calibrate
    free = tracker(experts, horizon=horizon, budget=None, switches=switches)
    return ExpertTableEntry(
        experts=experts,
        horizon=horizon,
        switches=switches,
        hedge=hedge,
        tracker=_bound(tracker(experts, **compared)),
        share=_bound(share(experts, **compared)),
        share_pure=_bound(share(experts, noise="knorm", **compared)),
        share_adaptive=_bound(share(experts, adversary="adaptive", **compared)),
        nonprivate=_bound(free),
    )


def _bound(parameters: Any) -> float:
    return float(parameters.regret_bound)
