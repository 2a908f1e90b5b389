"""Tables of proven regret: the learners of convex losses, and those of experts.

    python bench/regret_tables.py [--epsilon 1] [--delta 1e-6]

The pages docs/oco.md and docs/experts.md show them. The accountants compute every number. The first
table is for losses that are 1-Lipschitz on a ball of diameter 1: bounds are per round in units of
G D, and the decision that never moves has 1/2. The second one is for losses in [0, 1], against the
best sequence of experts with at most S switches.

Proofs: docs/privacy/noisy_ftrl.md and oco_regret.md; prefix_hedge.md, tracker_accounting.md and
batch_share.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from dpoco.accounting import (
    Budget,
    batch_share,
    continuous_multiplicative_weights,
    coupled_regularized_leader,
    noisy_ftrl,
    oblivious_tracker,
    prefix_hedge,
)
from dpoco.domains import LpBall
from dpoco.losses import CustomLoss, LinearLoss, LogisticLoss
from dpoco.published import agarwal_ctrl, agarwal_lazy
from dpoco.published.tables import text_table


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
    return [regret_entry(horizon, d, Budget(epsilon, delta)) for horizon, d in cases]


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
    return [expert_entry(*case, Budget(epsilon, delta)) for case in cases]


_REGRET = "T|d|noisy FTRL|CTRL|CTRL, rank one|P-COMW|CTRL, published|P-COMW, published"
_EXPERTS = (
    "N|T|S|prefix Hedge|tracker|batch share|the same, pure|the same, adaptive losses|no privacy"
)


def format_regret(table: Sequence[RegretTableEntry]) -> str:
    """Return a table of regret per round as Markdown, to two digits."""
    rows = []
    for entry in table:
        horizon, dimension, *bounds = astuple(entry)
        rows.append([rounds_text(horizon), str(dimension), *(f"{each:.2g}" for each in bounds)])
    return text_table([_REGRET.split("|"), *rows]).replace("e+0", "e")


def format_experts(table: Sequence[ExpertTableEntry]) -> str:
    """Return a table of the regret over the horizon as Markdown, in whole losses."""
    rows = []
    for entry in table:
        experts, horizon, switches, *bounds = astuple(entry)
        cells = ["-" if bound is None else f"{bound:.0f}" for bound in bounds]
        rows.append([str(experts), rounds_text(horizon), str(switches), *cells])
    return text_table([_EXPERTS.split("|"), *rows]).replace("e+0", "e")


def rounds_text(horizon: int) -> str:
    """Return a horizon as a power of ten times a digit, such as 1e+05, or else all its digits."""
    text = f"{horizon:.0e}"
    return text if float(text) == horizon else str(horizon)


def regret_entry(horizon: int, dimension: int, budget: Budget) -> RegretTableEntry:
    """Return the bounds of all Euclidean learners, per round, in units of G D.

    Losses are 1-Lipschitz on the ball of diameter 1, so that G D is 1 and bounds need no unit.
    """
    ball, linear = LpBall(dimension, 2.0, 0.5), LinearLoss(1.0)
    # G = 1 and D = 1, and Hessians up to G / D.
    smooth = CustomLoss(lipschitz=1.0, smoothness=1.0)
    # Records this long give a logistic loss its largest Hessian 1 = 1/4 * 2^2; its slope, at most
    # 2 sigmoid(1), is divided out below.
    logistic = LogisticLoss(feature_bound=2.0)
    slope = float(logistic.lipschitz(ball))
    leader = coupled_regularized_leader.calibrate
    weights = continuous_multiplicative_weights.calibrate
    options: dict[str, Any] = {"horizon": horizon, "budget": budget}
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


def expert_entry(experts: int, horizon: int, switches: int, budget: Budget) -> ExpertTableEntry:
    """Return the bounds of all learners of experts over the horizon."""

    def bound(accountant: Any, budget: Budget | None = budget, **options: Any) -> float:
        """Return the proved bound of a calibrated learner."""
        found = accountant.calibrate(experts, horizon=horizon, budget=budget, **options)
        return float(found.forecast.regret_bound)

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
        # None: calibrated without a budget, hence without noise.
        nonprivate=bound(oblivious_tracker, None, **compared),
    )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    options = parser.parse_args()
    print(format_regret(regret_table(epsilon=options.epsilon, delta=options.delta)))
    print()
    print(format_experts(expert_table(epsilon=options.epsilon, delta=options.delta)))


if __name__ == "__main__":
    main()
