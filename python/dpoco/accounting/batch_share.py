"""Accounting of the batched share: exponential weights on noisy sums of batches.

Claim: every round enters the released sum of one batch only, and decisions are post-processing of
the sums. So all decisions together, over any number of rounds and against streams that react to
them, are as private as one release, whose change between neighbouring streams is at most 1 in
max-norm, N in l1 and, the common shift taken off, sqrt(N - (N mod 2) / N) in l2:

* "knorm", density exp(-max |z| / k): 1/k, purely; "laplace" of scale b: N/b, purely;
* "gaussian" of deviation s: mu = sqrt(N - (N mod 2) / N) / s, with N truncated tails;
* "coordinate_rr": the epsilon of the response, purely, also against the party that collects it.

As printed the algorithm adds Laplace noise of scale 1/epsilon and claims epsilon; N epsilon holds.

Proof: ``docs/privacy/batch_share.md``. Source: Asi, Raman and Saha, "Tracking the best
expert privately", algorithm 3, corrected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpoco._validation import (
    LARGEST_HORIZON,
    MissingHorizonError,
    choice,
    positive_float,
    positive_int,
    real_float,
    whole_number,
)
from dpoco.accounting._share_regret import Noise as Noise
from dpoco.accounting._share_regret import Schedule, ShareRegret, regret_of, search
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import LATTICE_NOISES, NUMERICS, batch_grid
from dpoco.accounting.noisy_max import raised_until
from dpoco.accounting.plan import Forecast, Plan
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.statement import expert_guarantee
from dpoco.accounting.truncation import charged_gaussian_mu, truncation_mass
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.base import Nothing
from dpoco.privacy.mechanisms.batch_release import BatchRelease, movement
from dpoco.privacy.records import Description, limits

__all__ = ["SharePlan", "ShareTuning", "calibrate", "find_noise", "guarantee", "make_plan",
           "noise_scale", "regret"]  # fmt: skip

ADVERSARIES = ("oblivious", "adaptive")
# In words, and the norm that a sum moves in.
LAWS = {
    "knorm": "noise of density exp(-max|z|/scale)",
    "gaussian": "Gaussian noise",
    "laplace": "Laplace noise",
    "coordinate_rr": "randomised response on one coordinate",
    "none": "no noise",
}
_LARGEST_RESPONSE = 700.0  # epsilon of one randomised response: e^-epsilon must be a double


@dataclass(frozen=True)
class ShareTuning(Description):
    """Public numbers of the batched share.

    Attributes
    ----------
    experts : int
        N, at most 2^32.
    horizon : int or None
        Rounds T; None for an endless stream.
    switches : int
        S of the sequences of experts that the regret bound compares with.
    adversary : {"oblivious", "adaptive"}
        Streams that the stated bound is for: fixed in advance, or any.
    batch : int
        Rounds B between two updates.
    learning_rate : float
        eta, per unit of loss.
    share_rate : float
        sigma, 0 or in [1e-100, 1 - 1/N].
    floor : float
        Least weight, 0 or in [1e-100, 1/N]: the published update, which keeps weights above it
        instead of sharing them.
    """

    kind = "share_tuning"
    experts: int
    horizon: int | None
    adversary: str
    batch: int
    learning_rate: float
    switches: int = limits(zero=True)
    share_rate: float = limits(zero=True)
    floor: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Also check that the fields fit each other."""
        super().__post_init__()
        self.check_choice("adversary", ADVERSARIES)
        n, share, floor = self.experts, self.share_rate, self.floor
        positive_int("experts", n, maximum=2**32)
        if share != 0.0 and not 1e-100 <= share <= 1.0 - 1.0 / n:
            raise ValueError(f"share_rate must be 0 or in [1e-100, 1 - 1/experts]; got {share!r}")
        if floor != 0.0 and (share != 0.0 or not 1e-100 <= floor <= 1.0 / n):
            raise ValueError(f"floor must be 0 or in [1e-100, 1/experts]; got {floor!r}")

    @property
    def releases(self) -> int | None:
        """Noisy sums that decisions depend on: none without a round after the first batch."""
        if self.experts == 1:
            return 0
        return None if self.horizon is None else (self.horizon - 1) // self.batch


SharePlan = Plan[BatchRelease | Nothing, ShareTuning, Forecast]


def find_noise(plan: SharePlan) -> Noise:
    """Return what is added to the sums, as the bounds on regret take it."""
    drawn, n = plan.mechanism.part(BatchRelease), plan.tuning.experts
    if drawn is None or drawn.scale == 0.0:
        return Noise("none", 0.0, n)
    return Noise("coordinate_rr" if drawn.law == "response" else drawn.law, drawn.scale, n)


def guarantee(
    plan: SharePlan, *, budget: Budget | float | None = None, seeded: bool = False
) -> Guarantee:
    """Return what any plan guarantees, computed from its mechanism; see `expert_guarantee`."""
    own, noise = plan.tuning, find_noise(plan)
    bounds = None if own.horizon is None else regret(plan, own.horizon)
    details: dict[str, float | str | None] = {
        "learning rate": own.learning_rate,
        "batch": float(own.batch),
        "share rate": own.share_rate,
    }
    if own.floor:
        details["least weight"] = own.floor
    if bounds is not None:
        details["regret bound, losses fixed in advance"] = bounds.oblivious
        details["regret bound, all losses"] = bounds.adaptive
        terms = bounds.terms_for(own.adversary)
        details.update({f"regret: {name}": value for name, value in terms.items()})
    conditions: tuple[str, ...] = (CLIPPED_LOSSES, "Each round enters one sum.")
    claimed = None
    if own.floor and noise.scale > 0.0:
        claimed = (1.0 / noise.scale, 0.0)
        conditions += (
            f"AS PRINTED the budget of {claimed[0]:.6g} would be spent {own.experts} times, since "
            f"every round releases {own.experts} losses, each with noise for one.",
        )
    return expert_guarantee(
        plan.mechanism,
        own.experts,
        own.horizon,
        None if bounds is None else bounds.bound(own.adversary),
        None if bounds is None or noise.law == "none" else own.adversary,
        budget=budget,
        seeded=seeded,
        details=details,
        released=f"the decisions among {own.experts} experts by weights on noisy sums of losses "
        f"({LAWS[noise.law]}, batches of {own.batch})",
        reference="one noisy sum per record; docs/privacy/batch_share.md",
        conditions=conditions,
        claimed=claimed,
        calibration="paper" if own.floor else "tight",
    )


def calibrate(
    experts: int,
    *,
    horizon: int | None,
    budget: Budget | None,
    switches: int = 0,
    noise: str = "auto",
    adversary: str = "oblivious",
    learning_rate: float | None = None,
    batch: int | None = None,
    share_rate: float | None = None,
    nominal_horizon: int | None = None,
    numerics: str = DEFAULT_NUMERICS,
) -> SharePlan:
    """Return the least noise that meets `budget`, and the schedule of the least regret bound.

    Parameters
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds T; None for an endless stream.
    budget : Budget or None
        None adds no noise and gives no guarantee. With delta = 0 purely private noise is used.
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
    if noise == "coordinate_rr" and batch not in (None, 1):
        raise ValueError("noise 'coordinate_rr' needs batch 1")
    # What is free is searched for below.
    given = ShareTuning(
        experts=n,
        horizon=None if horizon is None else positive_int("horizon", horizon),
        switches=whole_number("switches", switches, high=LARGEST_HORIZON),
        adversary=adversary,
        batch=1 if batch is None else positive_int("batch", batch),
        learning_rate=1.0
        if learning_rate is None
        else positive_float("learning_rate", learning_rate),
        share_rate=0.0 if share_rate is None else real_float("share_rate", share_rate),
        floor=0.0,
    )
    rounds = given.horizon
    if nominal_horizon is not None:
        rounds = positive_int("nominal_horizon", nominal_horizon)
    laws = _candidates(n, noise, budget, known=rounds is not None)
    if rounds is not None:
        free = (
            None if batch is None else given.batch,
            None if learning_rate is None else given.learning_rate,
            None if share_rate is None else given.share_rate,
        )
        plans = [(search(law, rounds, given.switches, adversary, *free), law) for law in laws]
        # The first law is purely private: another must be strictly better.
        (_, best), law = min(plans, key=lambda found: found[0][0])
        given = replace(given, **best._asdict())
    else:
        law = laws[0]
        moves = share_rate is None and given.switches and n > 1
        if (batch is None and law.law != "coordinate_rr") or learning_rate is None or moves:
            raise MissingHorizonError(
                "an endless stream (horizon=None) needs batch, learning_rate and, with switches, "
                "share_rate, or a nominal_horizon to choose them for"
            )
    return make_plan(given, law, numerics)


def make_plan(tuning: ShareTuning, noise: Noise, numerics: str) -> SharePlan:
    """Return the plan with this noise, in the arithmetic asked for.

    Raises
    ------
    ValueError
        If "lattice" is asked for with a noise that has none.
    CalibrationError
        If no grid suits noise and batch.
    """
    law, grid = {"coordinate_rr": "response", "none": "knorm"}.get(noise.law, noise.law), 0.0
    if numerics == "lattice" and noise.law not in ("none", *LATTICE_NOISES):
        raise ValueError("numerics 'lattice' is for noise 'gaussian' and 'laplace'")
    if numerics != "float" and noise.law in LATTICE_NOISES:
        try:
            grid = batch_grid(noise.experts, law, noise.scale, tuning.batch)
        except CalibrationError:
            if numerics == "lattice":
                raise
    drawn: BatchRelease | Nothing = Nothing("no decision depends on a sum")
    if tuning.releases != 0:
        drawn = BatchRelease(
            experts=tuning.experts, law=law, scale=noise.scale, batch=tuning.batch, grid=grid
        )
    made = Plan(drawn, tuning, Forecast(None, tuning.adversary))
    bounds = None if tuning.horizon is None else regret(made, tuning.horizon)
    if bounds is None:
        return made
    return replace(made, forecast=Forecast(bounds.bound(tuning.adversary), tuning.adversary))


def noise_scale(experts: int, noise: str, budget: Budget) -> float:
    """Return the least scale of `noise` that meets `budget`.

    Raises
    ------
    CalibrationError
        For Gaussian noise without delta, or with one that does not pay for truncated tails.
    """
    if choice("noise", noise, LAWS) == "none":
        raise ValueError("noise 'none' meets no budget")
    if noise == "gaussian":
        mu = charged_gaussian_mu(budget, truncation_mass(float(experts)))
        return max(movement("gaussian", experts), 1e-3) / mu
    if not 1e-90 <= budget.epsilon <= 1e90:
        raise CalibrationError("noise can be scaled for epsilon in [1e-90, 1e90] only")
    factor = movement(noise, experts)
    epsilon = min(budget.epsilon, _LARGEST_RESPONSE) if noise == "coordinate_rr" else budget.epsilon
    return raised_until(factor / epsilon, lambda scale: factor / scale <= epsilon)


def regret(plan: SharePlan, rounds: int) -> ShareRegret | None:
    """Return the regret bounds of a plan after `rounds` rounds; None for the paper's update.

    For an endless stream every `rounds` is covered; bounds hold for each of them.
    """
    own = plan.tuning
    if own.floor:
        return None
    schedule = Schedule(own.batch, own.learning_rate, own.share_rate)
    return regret_of(find_noise(plan), rounds, own.switches, schedule)


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
