"""The least proven regret per round of every Euclidean learner, side by side.

Every number is computed by the learners' own calibrators, for losses that are 1-Lipschitz on a ball
of diameter 1: bounds are in units of G D, and the decision that never moves has 1/2. Proofs:
``docs/privacy/noisy_ftrl.md`` and ``docs/privacy/oco_regret.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from dpoco.accounting import continuous_multiplicative_weights, coupled_regularized_leader
from dpoco.accounting.budget import Budget

__all__ = ["RegretTableEntry", "format_markdown", "regret_table"]


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
        The same two with their published parameters, the bound proven anew at these.
    """

    horizon: int
    dimension: int
    ftrl: float
    leader: float
    leader_glm: float
    weights: float
    published_leader: float
    published_weights: float


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
    return [_entry(horizon, d, Budget._derived(epsilon, delta)) for horizon, d in cases]


def format_markdown(table: Sequence[RegretTableEntry], digits: int = 2) -> str:
    """Return the table as Markdown, one row per case."""
    lines = [
        "| T | d | noisy FTRL | CTRL | CTRL, rank one | P-COMW | CTRL, published "
        "| P-COMW, published |",
        "|---|" + "---|" * 7,
    ]
    for entry in table:
        _, _, *bounds = astuple(entry)
        cells = " | ".join(f"{bound:.{digits}g}" for bound in bounds)
        lines.append(f"| {entry.horizon:.0e} | {entry.dimension} | {cells} |".replace("e+0", "e"))
    return "\n".join(lines)


def _entry(horizon: int, dimension: int, budget: Budget) -> RegretTableEntry:
    from dpoco.accounting import noisy_ftrl
    from dpoco.domains import LpBall
    from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss

    ball, linear = LpBall(dimension, 2.0, 0.5), LinearLoss(1.0)
    smooth = CustomLoss(lipschitz=1.0, smoothness=1.0)
    # Records this long give a logistic loss its largest Hessian 1 = 1/4 * 2^2; its slope, at most
    # 2 sigmoid(1), is divided out below.
    logistic = LogisticLoss(feature_bound=2.0)
    slope = float(logistic.lipschitz(ball))
    leader = coupled_regularized_leader.calibrate
    weights = continuous_multiplicative_weights.calibrate
    options: dict[str, Any] = {"horizon": horizon, "budget": budget}
    printed = {**options, "calibration": "paper"}
    return RegretTableEntry(
        horizon=horizon,
        dimension=dimension,
        ftrl=noisy_ftrl.calibrate(ball, linear, **options).regret_bound / horizon,
        leader=leader(ball, smooth, **options).regret_bound / horizon,
        leader_glm=leader(ball, logistic, **options).regret_bound / (slope * horizon),
        weights=weights(ball, linear, **options).regret_bound / horizon,
        published_leader=leader(ball, smooth, **printed).regret_bound / horizon,
        published_weights=weights(ball, linear, **printed).regret_bound / horizon,
    )
