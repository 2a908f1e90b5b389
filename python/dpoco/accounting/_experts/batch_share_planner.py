"""Everything calibration fixes for the batched share, as one stored value, and its noise.

The value carries no claim of its own: ``dpoco.accounting.batch_share.guarantee`` recomputes privacy
and regret from the noise and the schedule.

Proof: ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting._experts.parameters import (
    StoredParameters,
    at_least_zero,
    check_terms,
    count_of,
    in_unit_interval,
    uniform_is_as_good,
)
from dpoco.accounting._share_regret import Plan, ShareRegret, regret_of, variance
from dpoco.accounting.budget import Budget
from dpoco.accounting.lattice import LATTICE_NOISES, NUMERICS, batch_grid
from dpoco.accounting.truncation import charged_gaussian_mu, truncation_mass
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.batch_release import movement

__all__ = [
    "ADVERSARIES",
    "CALIBRATIONS",
    "LARGEST_RESPONSE",
    "NOISES",
    "BatchShareParameters",
    "arithmetic",
    "candidates",
    "given",
    "noise_scale",
    "published",
    "regret",
    "stored",
]

CALIBRATIONS = ("tight", "paper")
NOISES = ("knorm", "gaussian", "laplace", "coordinate_rr", "none")
ADVERSARIES = ("oblivious", "adaptive")
LARGEST_RESPONSE = 700.0  # epsilon of one randomised response: e^-epsilon must be a double


@dataclass(frozen=True)
class BatchShareParameters(StoredParameters):
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
        The terms it is the sum of.
    regret_scope : {"oblivious", "adaptive"}
        Streams it holds for: fixed in advance, or any.
    numerics : {"float", "lattice"}
        Arithmetic of sums and noise: doubles, whose rounding the guarantee leaves out, or exact
        integers, for "gaussian" and "laplace".
    """

    _kind: ClassVar[str] = "dpoco.batch_share_parameters"
    _version: ClassVar[int] = 2
    _added: ClassVar[dict[str, Any] | None] = {"numerics": "float"}

    experts: int
    horizon: int | None
    switches: int
    calibration: str
    noise: str
    noise_scale: float
    learning_rate: float
    batch: int
    share_rate: float
    floor: float
    regret_bound: float | None
    regret_terms: dict[str, float]
    regret_scope: str
    numerics: str = "float"

    def __post_init__(self) -> None:
        """Validate; derived quantities are only checked for form."""
        experts = positive_int("experts", self.experts, maximum=2**32)
        for name, allowed in (
            ("calibration", CALIBRATIONS),
            ("noise", NOISES),
            ("regret_scope", ADVERSARIES),
        ):
            choice(name, getattr(self, name), allowed)
        if self.horizon is not None:
            object.__setattr__(self, "horizon", positive_int("horizon", self.horizon))
        object.__setattr__(self, "switches", count_of("switches", self.switches))
        object.__setattr__(self, "batch", positive_int("batch", self.batch))
        rate = positive_float("learning_rate", self.learning_rate)
        object.__setattr__(self, "learning_rate", rate)
        if self.noise == "none":
            if self.noise_scale != 0.0:
                raise ValueError("noise_scale must be 0 for noise 'none'")
            object.__setattr__(self, "noise_scale", 0.0)
        else:
            scale = positive_float("noise_scale", self.noise_scale)
            object.__setattr__(self, "noise_scale", scale)
        if self.noise == "coordinate_rr" and (
            self.batch != 1 or self.noise_scale < 1.0 / LARGEST_RESPONSE
        ):
            raise ValueError("noise 'coordinate_rr' needs batch 1 and noise_scale >= 1/700")
        share = in_unit_interval("share_rate", self.share_rate)
        if share != 0.0 and not 1e-100 <= share <= 1.0 - 1.0 / experts:
            raise ValueError(f"share_rate must be 0 or in [1e-100, 1 - 1/experts]; got {share!r}")
        object.__setattr__(self, "share_rate", share)
        floor = in_unit_interval("floor", self.floor)
        if floor != 0.0 and not 1e-100 <= floor <= 1.0 / experts:
            raise ValueError(f"floor must be 0 or in [1e-100, 1/experts]; got {floor!r}")
        object.__setattr__(self, "floor", floor)
        if self.calibration == "tight" and floor != 0.0:
            raise ValueError("a floor belongs to calibration 'paper'")
        if self.calibration == "paper" and (
            self.noise != "laplace" or self.batch != 1 or share != 0.0
        ):
            raise ValueError("calibration 'paper' has Laplace noise, batch 1 and no sharing")
        bound = self.regret_bound
        if bound is not None and bound != math.inf:
            object.__setattr__(self, "regret_bound", at_least_zero("regret_bound", bound))
        elif bound is not None:
            object.__setattr__(self, "regret_bound", math.inf)
        object.__setattr__(self, "regret_terms", check_terms("regret_terms", self.regret_terms))
        choice("numerics", self.numerics, NUMERICS)
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


def noise_scale(experts: int, noise: str, budget: Budget) -> float:
    """Return the least scale of `noise` that meets `budget`.

    Raises
    ------
    CalibrationError
        For Gaussian noise without delta, or with one that does not pay for truncated tails.
    """
    if choice("noise", noise, NOISES) == "none":
        raise ValueError("noise 'none' meets no budget")
    if noise == "gaussian":
        mu = charged_gaussian_mu(budget, truncation_mass(float(experts)))
        return max(movement("gaussian", experts), 1e-3) / mu
    if not 1e-90 <= budget.epsilon <= 1e90:
        raise CalibrationError("noise can be scaled for epsilon in [1e-90, 1e90] only")
    factor = movement(noise, experts)
    epsilon = min(budget.epsilon, LARGEST_RESPONSE) if noise == "coordinate_rr" else budget.epsilon
    scale = factor / epsilon
    while factor / scale > epsilon:  # a rounding away
        scale = math.nextafter(scale, math.inf)
    return scale


def regret(experts: int, parameters: BatchShareParameters, rounds: int) -> ShareRegret | None:
    """Return the regret bounds of `parameters` after `rounds` rounds; None for the paper's update.

    For an endless stream every `rounds` is covered; bounds hold for each of them.
    """
    p = parameters
    if p.calibration == "paper":
        return None
    return regret_of(
        experts,
        rounds,
        p.switches,
        noise=p.noise,
        scale=p.noise_scale,
        batch=p.batch,
        learning_rate=p.learning_rate,
        share_rate=p.share_rate,
    )


def candidates(
    experts: int, noise: str, budget: Budget | None, *, known: bool
) -> list[tuple[str, float]]:
    """Return the laws to compare with their scales; the purely private one first."""
    if budget is None:
        return [("none", 0.0)]
    if noise != "auto":
        return [(noise, noise_scale(experts, noise, budget))]
    laws = [("knorm", noise_scale(experts, "knorm", budget))]
    if budget.delta > 0.0 and experts > 1:
        try:
            laws.append(("gaussian", noise_scale(experts, "gaussian", budget)))
        except CalibrationError:  # delta does not pay for its tails
            return laws
    if not known:  # no horizon, no bound: the smaller variance
        laws.sort(key=lambda item: variance(item[0], item[1], experts))
    return laws if known else laws[:1]


def arithmetic(numerics: str, experts: int, noise: str, scale: float, batch: int) -> str:
    """Return the arithmetic that `numerics` means: "auto" takes the lattice where there is one.

    Raises
    ------
    ValueError
        If "lattice" is asked for with a noise that has none.
    CalibrationError
        If no grid suits noise and batch.
    """
    choice("numerics", numerics, ("auto", *NUMERICS))
    if numerics == "float" or noise == "none":
        return "float" if numerics == "auto" else numerics
    if noise not in LATTICE_NOISES:
        if numerics == "lattice":
            raise ValueError("numerics 'lattice' is for noise 'gaussian' and 'laplace'")
        return "float"
    try:
        batch_grid(experts, noise, scale, batch)
    except CalibrationError:
        if numerics == "lattice":
            raise
        return "float"
    return "lattice"


def given(
    experts: int,
    switches: int,
    noise: str,
    batch: int | None,
    learning_rate: float | None,
    share_rate: float | None,
) -> Plan:
    """Return the schedule of an endless stream, which nothing is planned for."""
    if noise == "coordinate_rr":
        batch = 1
    if share_rate is None and (switches == 0 or experts == 1):
        share_rate = 0.0
    if batch is None or learning_rate is None or share_rate is None:
        raise ValueError(
            "an endless stream (horizon=None) needs batch, learning_rate and, with switches, "
            "share_rate, or a nominal_horizon to choose them for"
        )
    return Plan(batch, learning_rate, share_rate, ShareRegret({}, math.inf, math.inf))


def published(
    experts: int,
    horizon: int | None,
    budget: Budget | None,
    switches: int,
    adversary: str,
    learning_rate: float | None,
    numerics: str = "float",
) -> BatchShareParameters:
    """Return the printed parameters; S = 0, for which they say nothing, counts as 1."""
    if horizon is None or budget is None:
        raise ValueError("calibration 'paper' needs a horizon and a budget")
    moves = max(1, min(switches, horizon))
    logarithm = max(math.log(float(experts) * horizon), math.log(2.0))
    printed = budget.epsilon * math.sqrt(moves / (horizon * logarithm))
    scale = noise_scale(experts, "knorm", budget)
    return stored(
        experts,
        horizon,
        switches,
        "paper",
        "laplace",
        scale,
        printed if learning_rate is None else learning_rate,
        1,
        0.0,
        moves / (float(experts) * horizon),
        adversary,
        arithmetic(numerics, experts, "laplace", scale, 1),
    )


def stored(
    experts: int,
    horizon: int | None,
    switches: int,
    calibration: str,
    noise: str,
    scale: float,
    learning_rate: float,
    batch: int,
    share_rate: float,
    floor: float,
    adversary: str,
    numerics: str = "float",
) -> BatchShareParameters:
    found = BatchShareParameters(
        experts=experts,
        horizon=horizon,
        switches=switches,
        calibration=calibration,
        noise=noise,
        noise_scale=scale,
        learning_rate=learning_rate,
        batch=batch,
        share_rate=share_rate,
        floor=floor,
        regret_bound=None,
        regret_terms={},
        regret_scope=adversary,
        numerics=numerics,
    )
    bounds = None if horizon is None else regret(experts, found, horizon)
    if bounds is None:
        return found
    return replace(
        found, regret_bound=bounds.bound(adversary), regret_terms=bounds.terms_for(adversary)
    )
