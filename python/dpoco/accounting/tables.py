"""How much noise exact accounting saves over the published constants of DP-TOFW.

Every number is computed; the smoothness constant and the leaf bound are common factors and cancel.

Proof: ``docs/privacy/tree_frank_wolfe.md``. Source of the compared constants: Han et al., DP-TOFW,
Theorem 3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import choose_method, column_norm, max_error, worst_row_norm
from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu
from dpoco.accounting.published import published_sigma

__all__ = ["NoiseTableEntry", "format_markdown", "noise_table"]


@dataclass(frozen=True, slots=True)
class NoiseTableEntry:
    """One cell of the comparison, at delta = 1 / horizon.

    Attributes
    ----------
    horizon : int
        Rounds.
    epsilon : float
        Requested epsilon.
    tree_ratio : float
        Published noise scale over the exact one, both with a binary tree.
    blt_ratio : float
        Noise of the worst released sum, published tree over exact BLT.
    spent_epsilon : float
        Epsilon that the published noise really spends.
    """

    horizon: int
    epsilon: float
    tree_ratio: float
    blt_ratio: float
    spent_epsilon: float


def noise_table(
    horizons: Iterable[int] = (10**3, 10**4, 10**5, 10**6, 10**7),
    epsilons: Iterable[float] = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0),
) -> list[NoiseTableEntry]:
    """Return the comparison for every pair, horizons in the outer loop."""
    epsilons = tuple(epsilons)
    return [_entry(horizon, epsilon) for horizon in horizons for epsilon in epsilons]


def format_markdown(table: Sequence[NoiseTableEntry], digits: int = 3) -> str:
    """Return the table as Markdown, one row per horizon, cells "tree / blt / spent"."""
    epsilons = list(dict.fromkeys(entry.epsilon for entry in table))
    cells = {(entry.horizon, entry.epsilon): entry for entry in table}
    lines = [
        "| rounds | " + " | ".join(f"epsilon = {epsilon:g}" for epsilon in epsilons) + " |",
        "|---|" + "---|" * len(epsilons),
    ]
    for horizon in dict.fromkeys(entry.horizon for entry in table):
        row = []
        for epsilon in epsilons:
            e = cells.get((horizon, epsilon))
            values = () if e is None else (e.tree_ratio, e.blt_ratio, e.spent_epsilon)
            row.append(" / ".join(f"{value:.{digits}g}" for value in values))
        lines.append(f"| {horizon} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def _entry(horizon: int, epsilon: float) -> NoiseTableEntry:
    delta = 1.0 / horizon
    mu = gaussian_mu(epsilon, delta)
    published = published_sigma(
        Budget._derived(epsilon, delta), pushes=horizon, kappa=1.0, leaf_bound=1.0
    )
    tree = 2.0 * column_norm("tree", horizon) / mu
    blt_error = 2.0 * max_error(choose_method(horizon), horizon) / mu
    return NoiseTableEntry(
        horizon=horizon,
        epsilon=epsilon,
        tree_ratio=published / tree,
        blt_ratio=published * worst_row_norm("tree", horizon) / blt_error,
        spent_epsilon=gaussian_epsilon(mu * tree / published, delta),
    )
