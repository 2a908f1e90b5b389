"""Accounting of the batched share: exponential weights on noisy sums of batches.

Claim: every round enters the released sum of one batch only, and decisions are post-processing of
the sums. So all decisions together, over any number of rounds and against streams that react to
them, are as private as one release, whose change between neighbouring streams is at most 1 in
max-norm, N in l1 and, the common shift taken off, sqrt(N - (N mod 2) / N) in l2:

* "knorm", density exp(-max |z| / k): 1/k, purely; "laplace" of scale b: N/b, purely;
* "gaussian" of deviation s: mu = sqrt(N - (N mod 2) / N) / s, with N truncated tails;
* "coordinate_rr": the epsilon of the response, purely, also towards whoever collects it.

As printed the algorithm adds Laplace noise of scale 1/epsilon and claims epsilon; N epsilon holds.

Proof: ``docs/privacy/batch_share.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately", algorithm 3, corrected.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dpoco._validation import choice, positive_int
from dpoco.accounting._share_parameters import (
    ADVERSARIES,
    CALIBRATIONS,
    LAWS,
    BatchShareParameters,
    noise_scale,
    regret,
)
from dpoco.accounting._share_regret import Noise, plan
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import LATTICE_NOISES, NUMERICS, batch_grid
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.statement import check_experts, state_experts
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Open
from dpoco.privacy.mechanisms.batch_release import BatchRelease, movement

__all__ = [
    "BatchShareParameters",
    "calibrate",
    "guarantee",
    "mechanism_of",
    "noise_scale",
    "regret",
]


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    calibration: str = "tight",
    switches: int = 0,
    noise: str = "auto",
    adversary: str = "oblivious",
    learning_rate: float | None = None,
    batch: int | None = None,
    share_rate: float | None = None,
    nominal_horizon: int | None = None,
    numerics: str = DEFAULT_NUMERICS,
) -> BatchShareParameters:
    """Return the least noise that meets `budget`, and the schedule of the least regret bound.

    Parameters
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds T; None for an endless stream.
    budget : Budget or None
        None adds no noise and promises nothing. With delta = 0 purely private noise is used.
    calibration : {"tight", "paper"}
        "paper": the printed parameters; the guarantee is N times the budget.
    switches : int
        S: the regret is measured against sequences of experts with at most S switches.
    noise : {"auto", "knorm", "gaussian", "laplace", "coordinate_rr"}
        "auto": "knorm", or "gaussian" where the budget has a delta and its bound is smaller.
    adversary : {"oblivious", "adaptive"}
        Which regret bound is minimised and stated: for streams fixed in advance, or for all.
    learning_rate : float, optional
        eta per unit of loss; None minimises the bound. So do the two below.
    batch : int, optional
        Rounds between two updates.
    share_rate : float, optional
        sigma, in [0, 1 - 1/N].
    nominal_horizon : int, optional
        Rounds to choose the schedule of an endless stream for.
    numerics : {"auto", "float", "lattice"}
        "lattice": sums and noise in exact integers, for "gaussian" and "laplace". "auto": that
        where it is possible, doubles elsewhere.

    Raises
    ------
    ValueError, TypeError
        For bad or contradictory arguments; for an endless stream without a nominal horizon if a
        batch, a learning rate or, with switches, a share rate is missing.
    CalibrationError
        If the noise cannot meet the budget.

    Notes
    -----
    Well below a second.
    """
    n = positive_int("experts", experts, maximum=2**32)
    if horizon is not None and nominal_horizon is not None:
        raise ValueError("nominal_horizon is for horizon=None")
    choice("noise", noise, ("auto", *(law for law in LAWS if law != "none")))
    choice("numerics", numerics, ("auto", *NUMERICS))
    choice("adversary", adversary, ADVERSARIES)
    published = choice("calibration", calibration, CALIBRATIONS) == "paper"
    if published and (noise not in ("auto", "laplace") or batch not in (None, 1) or share_rate):
        raise ValueError("calibration 'paper' has Laplace noise, batch 1 and no sharing")
    if noise == "coordinate_rr" and batch not in (None, 1):
        raise ValueError("noise 'coordinate_rr' needs batch 1")
    # What is free is searched for below.
    given = BatchShareParameters(
        experts=n,
        horizon=horizon,
        switches=switches,
        calibration="tight",
        learning_rate=1.0 if learning_rate is None else learning_rate,
        batch=1 if batch is None else batch,
        share_rate=0.0 if share_rate is None else share_rate,
        regret_scope=adversary,
    )
    if published:
        return _published(given, budget, learning_rate, numerics)
    rounds = given.horizon
    if nominal_horizon is not None:
        rounds = positive_int("nominal_horizon", nominal_horizon)
    laws = _candidates(n, noise, budget, known=rounds is not None)
    if rounds is not None:
        free = (batch, learning_rate, share_rate)
        plans = [(plan(law, rounds, given.switches, adversary, *free), law) for law in laws]
        # The first law is purely private: another must be strictly better.
        (_, best), law = min(plans, key=lambda found: found[0][0])
        given = replace(given, **best._asdict())
    else:
        law = laws[0]
        moves = share_rate is None and given.switches and n > 1
        if (batch is None and law.law != "coordinate_rr") or learning_rate is None or moves:
            raise ValueError(
                "an endless stream (horizon=None) needs batch, learning_rate and, with switches, "
                "share_rate, or a nominal_horizon to choose them for"
            )
    return _finished(replace(given, noise=law.law, noise_scale=law.scale), numerics)


def mechanism_of(experts: int, parameters: BatchShareParameters) -> Mechanism:
    """Return what the parameters describe.

    Raises
    ------
    ValueError
        If the parameters are for another number of experts.
    """
    p = parameters
    check_experts(experts, p)
    if not p.private:
        return Open("no noise is added")
    if p.releases == 0:
        return Nothing("no decision depends on a sum")
    law = "response" if p.noise == "coordinate_rr" else p.noise
    return BatchRelease(experts=experts, law=law, scale=p.noise_scale, batch=p.batch, grid=p.grid)


def guarantee(
    experts: int,
    parameters: BatchShareParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise and schedule.

    Parameters
    ----------
    experts : int
        N of the learner.
    parameters : BatchShareParameters
        Calibrated or the user's own; regret bound and terms are not trusted.
    budget : Budget, float or None
        The delta to state epsilon at, for Gaussian noise; None means 1 / (10 horizon).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError
        If the parameters are for another number of experts.
    """
    p, mechanism = parameters, mechanism_of(experts, parameters)
    bounds = None if p.horizon is None else regret(experts, p, p.horizon)
    words, norm = LAWS[p.noise]
    details: dict[str, float | str | None] = {
        "learning rate": p.learning_rate,
        "batch": float(p.batch),
        "share rate": p.share_rate,
    }
    if p.floor:
        details["least weight"] = p.floor
    if bounds is not None:
        details["regret bound, losses fixed in advance"] = bounds.oblivious
        details["regret bound, all losses"] = bounds.adaptive
        terms = bounds.terms_for(p.adversary)
        details.update({f"regret: {name}": value for name, value in terms.items()})
    conditions: tuple[str, ...] = (
        "losses are clipped to their declared range, enforced; each round enters one sum",
    )
    claimed = None
    if p.calibration == "paper" and not isinstance(mechanism, Nothing):
        claimed = (1.0 / p.noise_scale, 0.0)
        conditions += (
            f"AS PRINTED the budget of {claimed[0]:.6g} would be spent {experts} times: every "
            f"round releases {experts} losses, each with noise for one",
        )
    return state_experts(
        mechanism,
        p,
        released=(
            f"the decisions among {experts} experts by weights on noisy sums of losses "
            f"({words}, batches of {p.batch})"
        ),
        sums=p.noise != "coordinate_rr",
        numerics=p.numerics,
        reference="one noisy sum per record; docs/privacy/batch_share.md",
        budget=budget,
        seeded=seeded,
        sensitivity=movement(p.noise, experts) if norm else None,
        sensitivity_norm=norm,
        noise_scale=p.noise_scale,
        conditions=conditions,
        claimed=claimed,
        regret_bound=None if bounds is None else bounds.bound(p.adversary),
        regret_scope=None if bounds is None or not p.private else p.adversary,
        details=details,
    )


def _candidates(experts: int, noise: str, budget: Budget | None, *, known: bool) -> list[Noise]:
    """Return the laws to compare; the purely private one first."""

    def law(name: str) -> Noise:
        return Noise(name, noise_scale(experts, name, budget) if budget else 0.0, experts)

    if budget is None or noise != "auto":
        return [law("none" if budget is None else noise)]
    laws = [law("knorm")]
    if budget.delta > 0.0 and experts > 1:
        try:
            laws.append(law("gaussian"))
        except CalibrationError:  # delta does not pay for its tails
            return laws
    # Without a horizon there is no bound to compare by: the smaller variance.
    return laws if known else [min(laws, key=lambda each: each.variance)]


def _published(
    given: BatchShareParameters, budget: Budget | None, rate: float | None, numerics: str
) -> BatchShareParameters:
    """Return the printed parameters; S = 0, for which they say nothing, counts as 1."""
    n, horizon = given.experts, given.horizon
    if horizon is None or budget is None:
        raise ValueError("calibration 'paper' needs a horizon and a budget")
    moves = max(1, min(given.switches, horizon))
    logarithm = max(math.log(float(n) * horizon), math.log(2.0))
    printed = budget.epsilon * math.sqrt(moves / (horizon * logarithm))
    return _finished(
        replace(
            given,
            calibration="paper",
            noise="laplace",
            noise_scale=noise_scale(n, "knorm", budget),
            learning_rate=printed if rate is None else rate,
            floor=moves / (float(n) * horizon),
        ),
        numerics,
    )


def _finished(p: BatchShareParameters, numerics: str) -> BatchShareParameters:
    """Return the parameters in the arithmetic asked for, and with their bound on regret.

    Raises
    ------
    ValueError
        If "lattice" is asked for with a noise that has none.
    CalibrationError
        If no grid suits noise and batch.
    """
    if numerics == "lattice" or (numerics == "auto" and p.noise in LATTICE_NOISES):
        try:
            if p.noise in LATTICE_NOISES:
                batch_grid(p.experts, p.noise, p.noise_scale, p.batch)
            p = replace(p, numerics="lattice")
        except CalibrationError:
            if numerics == "lattice":
                raise
    bounds = None if p.horizon is None else regret(p.experts, p, p.horizon)
    if bounds is None:
        return p
    scope = p.adversary
    return replace(p, regret_bound=bounds.bound(scope), regret_terms=bounds.terms_for(scope))
