"""The least proven regret of every learner of experts, side by side.

Every number is computed by the learners' own calibrators, for losses in [0, 1] and against the best
sequence of experts with at most S switches. Proofs: ``docs/privacy/prefix_hedge.md``,
``docs/privacy/tracker_accounting.md`` and ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
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
        bounds = astuple(entry)[3:]
        cells = " | ".join("-" if bound is None else f"{bound:.0f}" for bound in bounds)
        rounds = f"{entry.horizon:.0e}".replace("e+0", "e")
        lines.append(f"| {entry.experts} | {rounds} | {entry.switches} | {cells} |")
    return "\n".join(lines)


def _entry(experts: int, horizon: int, switches: int, budget: Budget) -> ExpertTableEntry:
    def bound(accountant: Any, budget: Budget | None = budget, **options: Any) -> float:
        found = accountant.calibrate(experts, horizon=horizon, budget=budget, **options)
        return float(found.regret_bound)

    compared: dict[str, Any] = {"switches": switches}
    return ExpertTableEntry(
        experts=experts,
        horizon=horizon,
        switches=switches,
        hedge=bound(prefix_hedge) if switches == 0 else None,
        tracker=bound(oblivious_tracker, **compared),
        share=bound(batch_share, **compared),
        share_pure=bound(batch_share, noise="knorm", **compared),
        share_adaptive=bound(batch_share, adversary="adaptive", **compared),
        nonprivate=bound(oblivious_tracker, None, **compared),
    )
