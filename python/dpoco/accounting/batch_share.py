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

from dataclasses import replace

from dpoco._validation import LARGEST_HORIZON, choice, positive_float, positive_int
from dpoco.accounting._experts.batch_share_planner import (
    ADVERSARIES,
    CALIBRATIONS,
    NOISES,
    BatchShareParameters,
    arithmetic,
    candidates,
    given,
    noise_scale,
    published,
    regret,
    stored,
)
from dpoco.accounting._experts.parameters import count_of, in_unit_interval
from dpoco.accounting._experts.statement import regret_rows
from dpoco.accounting._share_regret import Plan, plan
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.statement import state, stated_delta
from dpoco.privacy.mechanisms.base import Mechanism, Nothing, Open
from dpoco.privacy.mechanisms.batch_release import BatchRelease, movement
from dpoco.privacy.neighbours import Neighbours

__all__ = [
    "BatchShareParameters",
    "calibrate",
    "guarantee",
    "mechanism_of",
    "noise_scale",
    "regret",
]

_LAWS = {
    "knorm": "noise of density exp(-max|z|/scale)",
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
    "coordinate_rr": "randomised response on one coordinate",
    "none": "no noise",
}


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
    if horizon is not None:
        horizon = positive_int("horizon", horizon)
        if nominal_horizon is not None:
            raise ValueError("nominal_horizon is for horizon=None")
    moves = count_of("switches", switches)
    choice("calibration", calibration, CALIBRATIONS)
    choice("noise", noise, ("auto", *NOISES[:-1]))
    choice("adversary", adversary, ADVERSARIES)
    if learning_rate is not None:
        learning_rate = positive_float("learning_rate", learning_rate)
    if batch is not None:
        batch = positive_int("batch", batch)
    if share_rate is not None:
        share_rate = in_unit_interval("share_rate", share_rate)
    if noise == "coordinate_rr" and batch not in (None, 1):
        raise ValueError("noise 'coordinate_rr' needs batch 1")
    if calibration == "paper":
        if noise not in ("auto", "laplace") or batch not in (None, 1) or share_rate:
            raise ValueError("calibration 'paper' has Laplace noise, batch 1 and no sharing")
        return published(n, horizon, budget, moves, adversary, learning_rate, numerics)
    rounds = horizon
    if horizon is None and nominal_horizon is not None:
        rounds = positive_int("nominal_horizon", nominal_horizon)

    def schedule(law: str, scale: float) -> Plan:
        if rounds is None:
            return given(n, moves, law, batch, learning_rate, share_rate)
        return plan(
            n,
            rounds,
            moves,
            noise=law,
            scale=scale,
            adversary=adversary,
            batch=batch,
            learning_rate=learning_rate,
            share_rate=share_rate,
        )

    best: tuple[str, float, Plan] | None = None
    for law, scale in candidates(n, noise, budget, known=rounds is not None):
        found = schedule(law, scale)
        # Strictly better: the first candidate is purely private.
        if best is None or found.regret.bound(adversary) < best[2].regret.bound(adversary):
            best = (law, scale, found)
    assert best is not None
    law, scale, found = best
    return stored(
        n,
        horizon,
        moves,
        "tight",
        law,
        scale,
        found.learning_rate,
        found.batch,
        found.share_rate,
        0.0,
        adversary,
        arithmetic(numerics, n, law, scale, found.batch),
    )


def mechanism_of(experts: int, parameters: BatchShareParameters) -> Mechanism:
    """Return what the parameters describe.

    Raises
    ------
    ValueError
        If the parameters are for another number of experts.
    """
    p = parameters
    if p.experts != experts:
        raise ValueError(f"the parameters are for {p.experts} experts, not {experts}")
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
    what = f"the decisions among {experts} experts by weights on noisy sums of losses"
    what += f" ({_LAWS[p.noise]}, batches of {p.batch})"
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
    bound = None if bounds is None else bounds.bound(p.adversary)
    if isinstance(mechanism, Open):
        rounds = LARGEST_HORIZON if p.horizon is None else p.horizon
        return replace(Guarantee.none(rounds, what), regret_bound=bound, details=details)
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
    norm = {"knorm": "linf", "gaussian": "l2", "laplace": "l1"}.get(p.noise, "")
    return state(
        mechanism,
        Neighbours(),
        released=what,
        sums=p.noise != "coordinate_rr",
        numerics=p.numerics,
        horizon=p.horizon,
        delta=stated_delta(budget, p.horizon),
        calibration=p.calibration,
        reference="one noisy sum per record; docs/privacy/batch_share.md",
        seeded=seeded,
        sensitivity=movement(p.noise, experts) if norm else None,
        sensitivity_norm=norm,
        noise_scale=p.noise_scale,
        conditions=conditions,
        claimed=claimed,
        **regret_rows(bound, None if bound is None else p.adversary, p.experts, p.horizon, details),
    )
