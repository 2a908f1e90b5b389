"""Packing audit: a learner that loses too little cannot be private.

In `dpoco.environments.Packing` every private learner must lose, by group privacy. So a regret well
below that bound refutes a claimed guarantee, without any look into the learner, and without a pair
of streams that someone had to think of. Proofs: ``docs/privacy/black_box.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpoco._validation import positive_float, positive_int, real_in
from dpoco.audit.report import headline, judge
from dpoco.environments import Packing, play
from dpoco.random import Source


@dataclass(frozen=True)
class PackingReport:
    """Outcome of a packing audit.

    Attributes
    ----------
    epsilon, delta : float
        The claim that was tested.
    regret : float
        Mean regret over the runs.
    bound : float
        Least expected loss of every learner with that guarantee.
    detectable : float
        Any learner whose mean regret is at or below this value is reported; below 0: none is.
    measured : float
        Lower confidence bound on the true epsilon (at this delta): the largest epsilon whose bound
        the regret refutes, at most 1e4.
    runs : int
        Games played, each in a new world.
    confidence : float
        Probability of not reporting a violation where there is none.
    """

    epsilon: float
    delta: float
    regret: float
    bound: float
    detectable: float
    measured: float
    runs: int
    confidence: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted. False does not mean that the claim holds."""
        return self.regret <= self.detectable

    def __str__(self) -> str:
        verdict = judge(self.violated, self.detectable >= 0.0)
        power = (
            "no regret is small enough to be reported; play more runs or a larger world"
            if self.detectable < 0.0
            else f"a mean regret up to {self.detectable:.4g} would have been reported"
        )
        return "\n".join(
            [
                headline("Packing audit", self.epsilon, self.delta, verdict),
                f"  mean regret {self.regret:.4g} in {self.runs} runs; "
                f"the claim implies at least {self.bound:.4g}",
                f"  {power}",
                f"  epsilon is at least {self.measured:.4g}, at confidence {self.confidence:.9g}",
            ]
        )


def packing_audit(
    make_learner: Callable[[Source], Any],
    environment: Packing,
    epsilon: float,
    runs: int,
    *,
    delta: float = 0.0,
    confidence: float = 1.0 - 1e-6,
    seed: int = 0,
) -> PackingReport:
    """Test a claimed guarantee by the regret in a world where every private learner must lose.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``: an unstarted learner for the world's experts and horizon, with
        ``decide()`` and ``observe(losses)``.
    environment : Packing
        The world; it is reset to a new seed for every run.
    epsilon, delta : float
        The claim; delta is 0 by default.
    runs : int
        Number of games.
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1), of not reporting a violation where there is none.
    seed : int, default 0
        Seed of learners and worlds.

    Returns
    -------
    PackingReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    Regrets lie in [0, R], R = ``environment.largest_regret``. Chernoff's bound for the mean of n
    independent variables in an interval: a mean of at most ``R x`` has probability at most
    ``exp(-n KL(x, b / R))`` if the expectation is at least ``b > R x``, with KL the relative
    entropy of two coins. A claim is refuted when that is at most 1 - confidence.
    """
    claimed = positive_float("epsilon", epsilon)
    count = positive_int("runs", runs)
    level = real_in("confidence", confidence, "(0, 1)")
    bound = environment.regret_lower_bound(claimed, delta)
    root = Source.seeded(seed)
    total = 0.0
    for index in range(count):
        environment.reset(seed + index)
        total += float(play(make_learner(root), environment).losses.sum())
    largest = environment.largest_regret
    needed = -math.log1p(-level) / count
    measured = total / count / largest
    return PackingReport(
        epsilon=claimed,
        delta=float(delta),
        regret=total / count,
        bound=bound,
        detectable=largest * _largest_refuting(bound / largest, needed),
        measured=_largest_refuted(environment, float(delta), measured, needed),
        runs=count,
        confidence=level,
    )


def _refutes(share: float, bound: float, needed: float) -> bool:
    """Whether a share of the largest regret refutes a bound: by the relative entropy of coins."""
    from scipy.special import rel_entr

    coins = [share, 1.0 - share], [bound, 1.0 - bound]
    return share < bound and float(rel_entr(*coins).sum()) >= needed


def _largest_refuting(bound: float, needed: float) -> float:
    """Return the largest share of the largest regret that refutes a bound; -1 if none does."""
    return _last(lambda share: _refutes(share, bound, needed), 0.0, bound, -1.0)


def _largest_refuted(environment: Packing, delta: float, share: float, needed: float) -> float:
    """Return the largest epsilon whose bound the measured share refutes; 0 if none."""
    largest = environment.largest_regret

    def refuted(epsilon: float) -> bool:
        return _refutes(share, environment.regret_lower_bound(epsilon, delta) / largest, needed)

    return _last(refuted, 1e-9, 1e4, 0.0)


def _last(holds: Callable[[float], bool], low: float, high: float, none: float) -> float:
    """Return where a condition holds for the last time; `none` if it does not at `low`."""
    if not holds(low):
        return none
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
