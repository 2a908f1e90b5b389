"""Audit by regret: in a packing world every private learner must lose.

This follows from group privacy. So a regret well below the bound refutes a claimed guarantee,
without any look into the learner, and without a pair of streams that someone had to think of.
Proofs: ``docs/privacy/black_box.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.worlds import Packing

from dpoco._validation import positive_float, positive_int, real_in
from dpoco.audit._events import bisect_last
from dpoco.audit._family import Make
from dpoco.audit.report import bound_text, confidence_text, headline, judge
from dpoco.environments import play
from dpoco.random import Source


@dataclass(frozen=True)
class PackingReport:
    """Outcome of a packing audit.

    Attributes
    ----------
    epsilon, delta : float
        The tested claim.
    regret : float
        Mean regret over the runs.
    bound : float
        Least expected loss of every learner with this guarantee.
    detectable : float
        A learner is reported if its mean regret is at most this value; negative if none would be.
    measured : float
        Lower confidence bound on the true epsilon (at this delta): the largest epsilon, at most
        1e4, whose bound the regret refutes.
    runs : int
        Number of games, each in a new environment.
    confidence : float
        Probability of not reporting a violation if there is none.

    Notes
    -----
    There is no event and no pair of streams. By group privacy, the environments are so close to
    each other that every learner with the claimed guarantee confuses some of them, and loses there.
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
            else f"a mean regret up to {bound_text(self.detectable)} would have been reported"
        )
        return "\n".join(
            [
                headline("Packing audit", self.epsilon, self.delta, verdict),
                f"  mean regret {self.regret:.4g} in {self.runs} runs; "
                f"the claim implies at least {bound_text(self.bound)}",
                f"  {power}",
                f"  epsilon is at least {bound_text(self.measured)}, at confidence "
                f"{confidence_text(self.confidence)}",
            ]
        )


def packing_audit(
    make_learner: Make,
    environment: Packing,
    epsilon: float,
    runs: int,
    *,
    delta: float = 0.0,
    confidence: float = 1.0 - 1e-6,
    seed: int = 0,
) -> PackingReport:
    """Test a claimed guarantee by the regret in an environment where private learners must lose.

    Parameters
    ----------
    make_learner : callable
        ``Source -> learner``: an unstarted learner for the environment's experts and horizon, with
        ``decide()`` and ``observe(losses)``.
    environment : Packing
        The environment. It is reset to a new seed for every run.
    epsilon, delta : float
        The claim; delta is 0 by default.
    runs : int
        Number of games.
    confidence : float, default 1 - 1e-6
        Probability, in (0, 1), of not reporting a violation if there is none.
    seed : int, default 0
        Seed of learners and environments.

    Returns
    -------
    PackingReport

    Raises
    ------
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    Regrets are in [0, R], R = ``environment.largest_regret``. By Chernoff's bound for the mean of n
    independent variables in an interval, a mean of at most ``R x`` has probability at most ``exp(-n
    KL(x, b / R))`` if the expectation is at least ``b > R x``, with KL the relative entropy of two
    coins. A claim is refuted if this is at most 1 - confidence.
    """
    claimed = positive_float("epsilon", epsilon)
    count = positive_int("runs", runs)
    level = real_in("confidence", confidence, "(0, 1)")
    bound = environment.regret_lower_bound(claimed, delta)
    root = Source.seeded(seed)
    total = 0.0
    for index in range(count):
        # Each run has a new environment, because the bound is on the mean over environments.
        environment.reset(seed + index)
        total += float(play(make_learner(root), environment).losses.sum())
    largest = environment.largest_regret
    # Chernoff's exponent for one run; n times this value is ln(1 / (1 - confidence)).
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
    """Return whether a share of the largest regret refutes a bound, by the relative entropy.

    Parameters
    ----------
    share, bound : float
        Mean regret and bound, as shares of the largest regret.
    needed : float
        Relative entropy at which so small a mean has probability 1 - confidence.
    """
    from scipy.special import rel_entr

    coins = [share, 1.0 - share], [bound, 1.0 - bound]
    return share < bound and float(rel_entr(*coins).sum()) >= needed


def _largest_refuting(bound: float, needed: float) -> float:
    """Return the largest share of the largest regret that refutes a bound; -1 if there is none."""

    def refutes(share: float) -> bool:
        """Return whether a mean regret of this share refutes the bound."""
        return _refutes(share, bound, needed)

    return bisect_last(refutes, 0.0, bound) if refutes(0.0) else -1.0


def _largest_refuted(environment: Packing, delta: float, share: float, needed: float) -> float:
    """Return the largest epsilon whose bound the measured share refutes; 0 if there is none."""
    largest = environment.largest_regret

    def refutes(epsilon: float) -> bool:
        """Return whether the share refutes this epsilon, at the audit's delta."""
        return _refutes(share, environment.regret_lower_bound(epsilon, delta) / largest, needed)

    return bisect_last(refutes, 1e-9, 1e4) if refutes(1e-9) else 0.0
