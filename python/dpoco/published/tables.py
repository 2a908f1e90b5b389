"""The tables of ``dpoco table``: noise of published constants, and proven regret of learners.

The accountants compute every number.

* `noise_table`: how much noise exact accounting saves compared with the published constants of
  DP-TOFW. The smoothness constant and the leaf bound are common factors and cancel.
* `regret_table`: all Euclidean learners, for losses that are 1-Lipschitz on a ball of diameter 1.
  Bounds are in units of G D; a constant decision has 1/2.
* `expert_table`: all learners of experts, for losses in [0, 1], against the best sequence of
  experts with at most S switches.

Proofs: ``docs/privacy/tree_frank_wolfe.md``; ``docs/privacy/noisy_ftrl.md`` and
``docs/privacy/oco_regret.md``; ``docs/privacy/prefix_hedge.md``,
``docs/privacy/tracker_accounting.md`` and ``docs/privacy/batch_share.md``. Source of the compared
constants: Han et al., DP-TOFW, Theorem 3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from dpoco._validation import Fields
from dpoco.accounting.budget import Budget

__all__ = ["ExpertTableEntry", "NoiseTableEntry", "RegretTableEntry", "expert_table",
           "format_markdown", "noise_table", "regret_table", "text_table"]  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class RegretTableEntry:
    """Bounds on the expected regret per round, in units of G D, at one budget.

    Attributes
    ----------
    horizon, dimension : int
        Rounds T and dimension d.
    ftrl : float
        `NoisyFTRL`, linear losses.
    leader, leader_glm : float
        `CoupledRegularizedLeader`: losses with Hessians up to G/D, of any rank and of rank one.
    weights : float
        `ContinuousMultiplicativeWeights`, linear losses.
    published_leader, published_weights : float
        The same two with their published parameters, with the bound proved again for these.
    """

    horizon: int
    dimension: int
    ftrl: float
    leader: float
    leader_glm: float
    weights: float
    published_leader: float
    published_weights: float


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


def noise_table(
    horizons: Iterable[int] = (10**3, 10**4, 10**5, 10**6, 10**7),
    epsilons: Iterable[float] = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0),
) -> list[NoiseTableEntry]:
    """Return the comparison for every pair, with horizons in the outer loop."""
    epsilons = tuple(epsilons)
    return [_noise_entry(horizon, epsilon) for horizon in horizons for epsilon in epsilons]


def regret_table(
    cases: Iterable[tuple[int, int]] = (
        (10**4, 2), (10**4, 10), (10**5, 2), (10**5, 10), (10**6, 2), (10**6, 10), (10**6, 50),
        (10**7, 10), (10**7, 50),
    ),
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
) -> list[RegretTableEntry]:  # fmt: skip
    """Return the bounds for every pair of horizon and dimension."""
    return [_regret_entry(horizon, d, Budget._derived(epsilon, delta)) for horizon, d in cases]


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
    return [_expert_entry(*case, Budget._derived(epsilon, delta)) for case in cases]


_REGRET = "T|d|noisy FTRL|CTRL|CTRL, rank one|P-COMW|CTRL, published|P-COMW, published"
_EXPERTS = (
    "N|T|S|prefix Hedge|tracker|batch share|the same, pure|the same, adaptive losses|no privacy"
)


def format_markdown(
    table: Sequence[NoiseTableEntry] | Sequence[RegretTableEntry] | Sequence[ExpertTableEntry],
    digits: int | None = None,
) -> str:
    """Return a table as Markdown; the table of noise has cells "tree / blt / spent".

    The table of noise has one row per horizon. By default, `digits` are 3 for noise and 2 for
    regret per round; regret of experts is rounded to integers.
    """
    names, rows = ["rounds"], []
    noise: dict[int, dict[float, str]] = {}
    for entry in table:
        if isinstance(entry, NoiseTableEntry):
            values = (entry.tree_ratio, entry.blt_ratio, entry.spent_epsilon)
            cell = " / ".join(f"{value:.{digits or 3}g}" for value in values)
            noise.setdefault(entry.horizon, {})[entry.epsilon] = cell
        elif isinstance(entry, RegretTableEntry):
            names = _REGRET.split("|")
            horizon, dimension, *bounds = astuple(entry)
            cells = [f"{bound:.{digits or 2}g}" for bound in bounds]
            rows.append([_rounds_text(horizon), str(dimension), *cells])
        else:
            names = _EXPERTS.split("|")
            experts, horizon, switches, *bounds = astuple(entry)
            cells = ["-" if bound is None else f"{bound:.0f}" for bound in bounds]
            rows.append([str(experts), _rounds_text(horizon), str(switches), *cells])
    if noise:
        epsilons = list(dict.fromkeys(e for row in noise.values() for e in row))
        names += [f"epsilon = {epsilon:g}" for epsilon in epsilons]
        rows = [[str(n), *(row.get(e, "") for e in epsilons)] for n, row in noise.items()]
    # 1e+05 is written as 1e5, as in the pages that quote these tables.
    return text_table([names, *rows]).replace("e+0", "e")


def _rounds_text(horizon: int) -> str:
    """Return a horizon as a digit times a power of ten, such as 1e+05, or else all its digits."""
    text = f"{horizon:.0e}"
    return text if float(text) == horizon else str(horizon)


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


def _regret_entry(horizon: int, dimension: int, budget: Budget) -> RegretTableEntry:
    """Return the bounds of all Euclidean learners, per round, in units of G D.

    Losses are 1-Lipschitz on the ball of diameter 1, so G D is 1 and bounds need no unit.
    """
    from dpoco.accounting import (
        continuous_multiplicative_weights,
        coupled_regularized_leader,
        noisy_ftrl,
    )
    from dpoco.domains import LpBall
    from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss
    from dpoco.published import agarwal_ctrl, agarwal_lazy

    ball, linear = LpBall(dimension, 2.0, 0.5), LinearLoss(1.0)
    # G = 1 and D = 1, and Hessians up to G / D.
    smooth = CustomLoss(lipschitz=1.0, smoothness=1.0)
    # For records of this length, a logistic loss has the largest Hessian 1 = 1/4 * 2^2. Its slope,
    # at most 2 sigmoid(1), is divided out below.
    logistic = LogisticLoss(feature_bound=2.0)
    slope = float(logistic.lipschitz(ball))
    leader = coupled_regularized_leader.calibrate
    weights = continuous_multiplicative_weights.calibrate
    options: Fields = {"horizon": horizon, "budget": budget}
    printed_leader = agarwal_ctrl.coupled_regularized_leader(ball, smooth, **options)
    printed_weights = agarwal_lazy.continuous_multiplicative_weights(ball, linear, **options)
    return RegretTableEntry(
        horizon=horizon,
        dimension=dimension,
        ftrl=noisy_ftrl.calibrate(ball, linear, **options).forecast.regret_bound / horizon,
        leader=leader(ball, smooth, **options).forecast.regret_bound / horizon,
        leader_glm=leader(ball, logistic, **options).forecast.regret_bound / (slope * horizon),
        weights=weights(ball, linear, **options).forecast.regret_bound / horizon,
        published_leader=printed_leader.forecast.regret_bound / horizon,
        published_weights=printed_weights.forecast.regret_bound / horizon,
    )


def _expert_entry(experts: int, horizon: int, switches: int, budget: Budget) -> ExpertTableEntry:
    """Return the bounds of all learners of experts over the horizon."""
    from dpoco.accounting import batch_share, oblivious_tracker, prefix_hedge

    def bound(accountant: Any, budget: Budget | None = budget, **options: Any) -> float:
        """Return the proved bound of a calibrated learner."""
        found = accountant.calibrate(experts, horizon=horizon, budget=budget, **options)
        return float(found.forecast.regret_bound)

    compared: Fields = {"switches": switches}
    return ExpertTableEntry(
        experts=experts,
        horizon=horizon,
        switches=switches,
        hedge=bound(prefix_hedge) if switches == 0 else None,
        tracker=bound(oblivious_tracker, **compared),
        share=bound(batch_share, **compared),
        share_pure=bound(batch_share, noise="knorm", **compared),
        share_adaptive=bound(batch_share, adversary="adaptive", **compared),
        # calibrated without a budget, and so without noise
        nonprivate=bound(oblivious_tracker, None, **compared),
    )
