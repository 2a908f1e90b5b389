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

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from dpoco._validation import LARGEST_HORIZON, MissingHorizonError, choice, positive_int
from dpoco.accounting._share_regret import Noise, Schedule, ShareRegret, plan, regret_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.conditions import CLIPPED_LOSSES
from dpoco.accounting.lattice import LATTICE_NOISES, NUMERICS, batch_grid
from dpoco.accounting.noisy_max import raised_until
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.regret_bounds import uniform_is_as_good
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.statement import expert_guarantee, expert_mechanism
from dpoco.accounting.truncation import charged_gaussian_mu, truncation_mass
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.base import Mechanism, Nothing
from dpoco.privacy.mechanisms.batch_release import BatchRelease, movement

__all__ = ["BatchShareParameters", "calibrate", "guarantee", "mechanism_of",
           "noise_scale", "regret", "with_numerics"]  # fmt: skip

guarantee, mechanism_of = expert_guarantee, expert_mechanism
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


@dataclass(frozen=True, kw_only=True)
class BatchShareParameters(Parameters):
    """Parameters of the batched share.

    Attributes
    ----------
    experts : int
        N.
    horizon : int or None
        Rounds T; None for an endless stream.
    switches : int
        S of the sequences of experts that the regret bound compares with.
    calibration : {"tight", "paper"}
        "paper": the published update, with weights kept above `floor` instead of shared.
    noise : {"knorm", "gaussian", "laplace", "coordinate_rr", "none"}
        What is added to the sum of a batch of losses; "coordinate_rr": randomised response on one
        coordinate instead; "none": no privacy.
    noise_scale : float
        "knorm": k in the density exp(-max |z| / k); standard deviation of "gaussian"; scale of
        "laplace"; 1 / epsilon of "coordinate_rr"; 0 for "none".
    learning_rate : float
        eta, per unit of loss.
    batch : int
        Rounds B between two updates.
    share_rate : float
        sigma, in [0, 1 - 1/N].
    floor : float
        Least weight, in [0, 1/N]; 0 but for the paper's update.
    regret_bound : float or None
        Bound on the expected regret against at most S switches, in losses of [0, 1]. Derived, as is
        everything below; None for no claim.
    regret_terms : dict of str to float
        Terms that add up to it.
    regret_scope : {"oblivious", "adaptive"}
        Streams it holds for: fixed in advance, or any.
    numerics : {"float", "lattice"}
        Arithmetic of sums and noise: doubles, whose rounding is not part of the guarantee, or exact
        integers, for "gaussian" and "laplace".
    """

    kind: ClassVar[str] = "dpoco.batch_share_parameters"
    version: ClassVar[int] = 2

    experts: int = at_least(1, 2**32)
    horizon: int | None
    switches: int = at_least(0, LARGEST_HORIZON)
    calibration: str = one_of("tight", "paper", default="tight")
    noise: str = one_of(*LAWS, default="none")
    noise_scale: float = at_least(0.0, default=0.0)
    learning_rate: float
    batch: int
    share_rate: float = at_least(0.0, 1.0)
    floor: float = at_least(0.0, 1.0, default=0.0)
    regret_bound: float | None = at_least(0.0, infinite=True, default=None)
    regret_terms: dict[str, float] = field(default_factory=dict)
    regret_scope: str = one_of(*ADVERSARIES)
    numerics: str = one_of(*NUMERICS, default="float")

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        n, share, floor = self.experts, self.share_rate, self.floor
        if (self.noise_scale == 0.0) != (self.noise == "none"):
            raise ValueError("noise_scale must be 0 for noise 'none', and for no other")
        response = self.noise == "coordinate_rr"
        if response and (self.batch != 1 or self.noise_scale < 1.0 / _LARGEST_RESPONSE):
            raise ValueError("noise 'coordinate_rr' needs batch 1 and noise_scale >= 1/700")
        if share != 0.0 and not 1e-100 <= share <= 1.0 - 1.0 / n:
            raise ValueError(f"share_rate must be 0 or in [1e-100, 1 - 1/experts]; got {share!r}")
        if floor != 0.0 and not 1e-100 <= floor <= 1.0 / n:
            raise ValueError(f"floor must be 0 or in [1e-100, 1/experts]; got {floor!r}")
        if self.calibration == "tight" and floor != 0.0:
            raise ValueError("a floor belongs to calibration 'paper'")
        if self.calibration == "paper" and (self.noise, self.batch, share) != ("laplace", 1, 0.0):
            raise ValueError("calibration 'paper' has Laplace noise, batch 1 and no sharing")
        try:
            _ = self.grid
        except CalibrationError as error:
            raise ValueError(str(error)) from None

    @property
    def grid(self) -> float:
        """Spacing of the lattice that losses, sums and noise lie on; 0 for doubles."""
        if self.numerics == "float" or not self.private:
            return 0.0
        if self.noise not in LATTICE_NOISES:
            raise ValueError("numerics 'lattice' is for noise 'gaussian' and 'laplace'")
        return batch_grid(self.experts, self.noise, self.noise_scale, self.batch)

    @property
    def private(self) -> bool:
        """Whether the sums are released with any noise."""
        return self.noise != "none"

    @property
    def noise_dominates(self) -> bool:
        """Whether noise makes the regret bound no better than that of uniform draws."""
        return self.private and uniform_is_as_good(self.experts, self.horizon, self.regret_bound)

    @property
    def adversary(self) -> str:
        """The streams that `regret_bound` holds for: `regret_scope`."""
        return self.regret_scope

    @property
    def releases(self) -> int | None:
        """Noisy sums that decisions depend on: none without a round after the first batch."""
        if self.experts == 1:
            return 0
        return None if self.horizon is None else (self.horizon - 1) // self.batch

    def mechanism(self) -> Mechanism:
        """Return what is released: a noisy sum a batch."""
        if self.releases == 0:
            return Nothing("no decision depends on a sum")
        law = {"coordinate_rr": "response", "none": "knorm"}.get(self.noise, self.noise)
        return BatchRelease(
            experts=self.experts,
            law=law,
            scale=self.noise_scale,
            batch=self.batch,
            grid=self.grid,
        )

    def stated(self, mechanism: Mechanism) -> dict[str, Any]:
        """Return further fields of the guarantee."""
        n, bounds = self.experts, None
        if self.horizon is not None:
            bounds = regret(n, self, self.horizon)
        words = LAWS[self.noise]
        details: dict[str, float | str | None] = {
            "learning rate": self.learning_rate,
            "batch": float(self.batch),
            "share rate": self.share_rate,
        }
        if self.floor:
            details["least weight"] = self.floor
        if bounds is not None:
            details["regret bound, losses fixed in advance"] = bounds.oblivious
            details["regret bound, all losses"] = bounds.adaptive
            terms = bounds.terms_for(self.adversary)
            details.update({f"regret: {name}": value for name, value in terms.items()})
        conditions: tuple[str, ...] = (CLIPPED_LOSSES, "Each round enters one sum.")
        claimed = None
        if self.calibration == "paper" and not isinstance(mechanism, Nothing):
            claimed = (1.0 / self.noise_scale, 0.0)
            conditions += (
                f"AS PRINTED the budget of {claimed[0]:.6g} would be spent {n} times, since every "
                f"round releases {n} losses, each with noise for one.",
            )
        return {
            "released": f"the decisions among {n} experts by weights on noisy sums of losses "
            f"({words}, batches of {self.batch})",
            "reference": "one noisy sum per record; docs/privacy/batch_share.md",
            "conditions": conditions,
            "claimed": claimed,
            "regret_bound": None if bounds is None else bounds.bound(self.adversary),
            "regret_scope": None if bounds is None or not self.private else self.adversary,
            "details": details,
        }


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
) -> BatchShareParameters:
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
    given = BatchShareParameters(
        experts=n,
        horizon=horizon,
        switches=switches,
        learning_rate=1.0 if learning_rate is None else learning_rate,
        batch=1 if batch is None else batch,
        share_rate=0.0 if share_rate is None else share_rate,
        regret_scope=adversary,
    )
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
            raise MissingHorizonError(
                "an endless stream (horizon=None) needs batch, learning_rate and, with switches, "
                "share_rate, or a nominal_horizon to choose them for"
            )
    return with_numerics(replace(given, noise=law.law, noise_scale=law.scale), numerics)


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


def regret(experts: int, parameters: BatchShareParameters, rounds: int) -> ShareRegret | None:
    """Return the regret bounds of `plan` after `rounds` rounds; None for the paper's update.

    For an endless stream every `rounds` is covered; bounds hold for each of them.
    """
    p = parameters
    if p.calibration == "paper":
        return None
    schedule = Schedule(p.batch, p.learning_rate, p.share_rate)
    return regret_of(Noise(p.noise, p.noise_scale, experts), rounds, p.switches, schedule)


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


def with_numerics(p: BatchShareParameters, numerics: str) -> BatchShareParameters:
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
