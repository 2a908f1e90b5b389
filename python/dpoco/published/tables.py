"""The table of ``dpoco table``: how much noise exact accounting saves over published constants.

The accountants compute every number. The constants are those of DP-TOFW (Han et
al., Theorem 3.1); the smoothness constant and the leaf bound are common factors and cancel.

Proof: ``docs/privacy/tree_frank_wolfe.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpoco.accounting.budget import Budget

__all__ = ["NoiseTableEntry", "format_markdown", "noise_table", "text_table"]


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
        Published noise scale divided by the exact one, both with a binary tree.
    blt_ratio : float
        Noise of the worst released sum: published tree divided by exact BLT.
    spent_epsilon : float
        Epsilon that the published noise actually spends.
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
    """Return the comparison for every pair, with horizons in the outer loop."""
    epsilons = tuple(epsilons)
    return [_noise_entry(horizon, epsilon) for horizon in horizons for epsilon in epsilons]


def format_markdown(table: Sequence[NoiseTableEntry], digits: int = 3) -> str:
    """Return a table of noise as Markdown: a row per horizon, cells "tree / blt / spent"."""
    noise: dict[int, dict[float, str]] = {}
    for entry in table:
        values = (entry.tree_ratio, entry.blt_ratio, entry.spent_epsilon)
        cell = " / ".join(f"{value:.{digits}g}" for value in values)
        noise.setdefault(entry.horizon, {})[entry.epsilon] = cell
    epsilons = list(dict.fromkeys(e for row in noise.values() for e in row))
    head = ["rounds", *(f"epsilon = {epsilon:g}" for epsilon in epsilons)]
    rows = [[str(n), *(row.get(e, "") for e in epsilons)] for n, row in noise.items()]
    return text_table([head, *rows])


def text_table(cells: Sequence[Sequence[str]]) -> str:
    """Return rows of texts, the head first, as a Markdown table."""
    # A name with a bar would be split into two cells.
    plain = [[cell.replace("|", r"\|") for cell in row] for row in cells]
    head, *body = (f"| {' | '.join(row)} |" for row in plain)
    return "\n".join([head, "|" + "---|" * len(cells[0]), *body])


def _noise_entry(horizon: int, epsilon: float) -> NoiseTableEntry:
    """Return the ratios for one horizon and epsilon, at delta = 1 / horizon."""
    from dpoco.accounting.claims import published_sigma
    from dpoco.accounting.continual_sum import choose_method, column_norm, max_error, worst_row_norm
    from dpoco.accounting.gaussian import gaussian_epsilon, gaussian_mu

    delta = 1.0 / horizon
    # The exact noise for this budget, with which both sums are compared.
    mu = gaussian_mu(epsilon, delta)
    published = published_sigma(
        Budget._derived(epsilon, delta), pushes=horizon, kappa=1.0, leaf_bound=1.0
    )
    # Replacing a leaf of norm 1 moves it by up to 2.
    tree = 2.0 * column_norm("tree", horizon) / mu
    blt_error = 2.0 * max_error(choose_method(horizon), horizon) / mu
    return NoiseTableEntry(
        horizon=horizon,
        epsilon=epsilon,
        tree_ratio=published / tree,
        blt_ratio=published * worst_row_norm("tree", horizon) / blt_error,
        spent_epsilon=gaussian_epsilon(mu * tree / published, delta),
    )
