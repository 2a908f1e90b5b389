"""The papers' tables of rates, as numbers: at stated sizes, with constants, next to our bounds.

The papers compare orders of growth without constants and logarithms. Here every rate has the
constant 1, so it is no bound of any learner. Next to it are the proved bounds of the paper's
parameters, as printed and corrected, and of this library's defaults. All numbers are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dpoco.accounting import (
    Budget,
    batch_share,
    continuous_multiplicative_weights,
    coupled_regularized_leader,
    noisy_ftrl,
    oblivious_tracker,
    prefix_hedge,
    shift_detector,
)
from dpoco.domains import LpBall
from dpoco.errors import CalibrationError
from dpoco.losses import CustomLoss, LinearLoss
from dpoco.published import agarwal_ctrl, agarwal_lazy, asi_tracking
from dpoco.published.tables import text_table

HORIZON, DIMENSION, DELTA = 10**6, 10, 1e-6
EXPONENTS = (0.0, 1.0 / 12.0, 1.0 / 6.0, 1.0 / 4.0, 1.0 / 3.0)  # of 1/epsilon in T
SWITCHES = (1.0, 5.0 / 6.0, 2.0 / 3.0, 1.0 / 2.0)  # exponents of the number of switches in T
EXPERTS, SHIFTS, ROUNDS = 10, 5, 10**5
# Losses that are 1-Lipschitz on a ball of diameter 1: bounds are in units of G D.
_BALL = LpBall(DIMENSION, 2.0, 0.5)
_SMOOTH, _LINEAR = CustomLoss(lipschitz=1.0, smoothness=1.0), LinearLoss(1.0)

Cells = tuple[tuple[str, ...], ...]


def private_regret(horizon: int = HORIZON, exponents: Sequence[float] = EXPONENTS) -> Cells:
    """Return regret a round by regimes of epsilon: Table 1 of both papers on lazy learners."""
    head = (
        "epsilon", "Kairouz et al. 2021", "Asi et al. 2023", "CTRL 2023", "P-COMW",
        "CTRL printed", "corrected", "ours", "P-COMW printed", "corrected", "ours", "noisy FTRL",
    )  # fmt: skip
    t, d, rows = float(horizon), float(DIMENSION), []
    for exponent in exponents:
        epsilon = t**-exponent
        slow, fast = math.cbrt(t) / epsilon, t**0.375 / epsilon**0.75
        rates = (
            d**0.25 * math.sqrt(t / epsilon),
            math.sqrt(d * t) + d * slow,
            math.sqrt(t) + d * slow,
            math.sqrt(t) + math.sqrt(d) * (slow + fast),
        )
        given: dict[str, Any] = {"horizon": horizon, "budget": Budget._derived(epsilon, DELTA)}
        bounds = (
            _proved_regret(agarwal_ctrl.coupled_regularized_leader, _BALL, _SMOOTH, **given),
            _proved_regret(
                agarwal_ctrl.coupled_regularized_leader, _BALL, _SMOOTH, corrected=True, **given
            ),
            _proved_regret(coupled_regularized_leader.calibrate, _BALL, _SMOOTH, **given),
            _proved_regret(agarwal_lazy.continuous_multiplicative_weights, _BALL, _LINEAR, **given),
            _proved_regret(
                agarwal_lazy.continuous_multiplicative_weights, _BALL, _LINEAR, corrected=True,
                **given,
            ),
            _proved_regret(continuous_multiplicative_weights.calibrate, _BALL, _LINEAR, **given),
            _proved_regret(noisy_ftrl.calibrate, _BALL, _LINEAR, **given),
        )  # fmt: skip
        rows.append((f"{epsilon:.3g}", *(_format(each / t) for each in (*rates, *bounds))))
    return (head, *rows)


def lazy_regret(horizon: int = HORIZON, exponents: Sequence[float] = SWITCHES) -> Cells:
    """Return regret a round by numbers of expected switches: Table 2 of both papers."""
    head = (
        "switches", "Anava et al. 2015", "CTRL 2023", "P-COMW", "CTRL printed", "ours",
        "P-COMW printed", "ours",
    )  # fmt: skip
    t, d, rows = float(horizon), float(DIMENSION), []
    for exponent in exponents:
        limit = t**exponent
        rates = (
            math.sqrt(d * t) + d * t / limit,
            math.sqrt(t) + d * t / limit,
            math.sqrt(t) + math.sqrt(d) * t / limit,
        )
        given: dict[str, Any] = {"horizon": horizon, "max_switches": limit}
        own = {**given, "budget": None}
        bounds = (
            _proved_regret(agarwal_ctrl.lazy_coupled_regularized_leader, _BALL, _SMOOTH, **given),
            _proved_regret(coupled_regularized_leader.calibrate, _BALL, _SMOOTH, **own),
            _proved_regret(
                agarwal_lazy.lazy_continuous_multiplicative_weights, _BALL, _LINEAR, **given
            ),
            _proved_regret(continuous_multiplicative_weights.calibrate, _BALL, _LINEAR, **own),
        )
        rows.append((f"{limit:.0f}", *(_format(each / t) for each in (*rates, *bounds))))
    return (head, *rows)


def dynamic_regret(horizon: int = ROUNDS, epsilon: float = 1.0) -> Cells:
    """Return regret a round against sequences of experts: Table 1 of the paper on tracking."""
    n, s, t = EXPERTS, SHIFTS, float(horizon)
    budget = Budget._derived(epsilon, DELTA)
    pure, log = Budget._derived(epsilon, 0.0), math.log(EXPERTS)
    learning, private = math.sqrt(s * t * log), s * log / epsilon
    given: dict[str, Any] = {"horizon": horizon, "budget": budget}
    detector = asi_tracking.shift_detector(
        n, horizon=horizon, budget=pure, corrected=True, expected_shifts=s
    )
    rows = (
        (
            "distributions that shift", s, learning + private, detector.forecast.regret_bound,
            _proved_regret(
                shift_detector.calibrate, n, horizon=horizon, budget=pure, expected_shifts=s
            ),
        ),
        (
            "fixed losses (Corollary 4.1.1)", s,
            learning + s * math.cbrt(t) * log / math.cbrt(epsilon) ** 2,
            _proved_regret(asi_tracking.oblivious_tracker, n, switches=s, **given),
            _proved_regret(oblivious_tracker.calibrate, n, switches=s, **given),
        ),
        (
            "fixed losses (Proposition 1)", 0,
            math.sqrt(t * log) + math.cbrt(t) * log / math.cbrt(epsilon) ** 2,
            _proved_regret(asi_tracking.oblivious_tracker, n, switches=0, **given),
            _proved_regret(prefix_hedge.calibrate, n, **given),
        ),
        (
            "losses that react", s, math.sqrt(s * t) * log**1.5 / epsilon + private, math.inf,
            _proved_regret(batch_share.calibrate, n, switches=s, adversary="adaptive", **given),
        ),
    )  # fmt: skip
    head = ("losses", "switches", "rate", "the paper's learner, corrected", "ours")
    return (
        head,
        *((name, str(moves), *(_format(v / t) for v in bounds)) for name, moves, *bounds in rows),
    )


def comparisons() -> str:
    """Return all tables in Markdown."""
    return "\n\n".join(
        text_table(cells) for cells in (private_regret(), lazy_regret(), dynamic_regret())
    )


def _proved_regret(plan: Callable[..., Any], *problem: Any, **options: Any) -> float:
    """Return the proved regret of a plan; infinite where the paper has none."""
    try:
        found = plan(*problem, **options)
        found = getattr(found, "forecast", found).regret_bound
    except CalibrationError:
        return math.inf
    return math.inf if found is None else float(found)


def _format(value: float) -> str:
    return "-" if value == math.inf else f"{value:.2g}"
