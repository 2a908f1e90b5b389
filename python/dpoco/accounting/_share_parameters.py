"""Everything calibration fixes for the batched share, as one stored value, and its least noise.

The value carries no claim of its own: ``dpoco.accounting.batch_share.guarantee`` recomputes privacy
and regret from the noise and the schedule.

Proof: ``docs/privacy/batch_share.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from dpoco._validation import LARGEST_HORIZON, choice
from dpoco.accounting._search import raised_until
from dpoco.accounting._share_regret import Noise, Schedule, ShareRegret, regret_of
from dpoco.accounting.budget import Budget
from dpoco.accounting.lattice import LATTICE_NOISES, NUMERICS, batch_grid
from dpoco.accounting.parameters import Parameters, at_least, one_of
from dpoco.accounting.regret_bounds import uniform_is_as_good
from dpoco.accounting.truncation import charged_gaussian_mu, truncation_mass
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.batch_release import movement

CALIBRATIONS = ("tight", "paper")
ADVERSARIES = ("oblivious", "adaptive")
# In words, and the norm that a sum moves in.
LAWS = {
    "knorm": ("noise of density exp(-max|z|/scale)", "linf"),
    "gaussian": ("Gaussian noise", "l2"),
    "laplace": ("Laplace noise", "l1"),
    "coordinate_rr": ("randomised response on one coordinate", ""),
    "none": ("no noise", ""),
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
        The terms it is the sum of.
    regret_scope : {"oblivious", "adaptive"}
        Streams it holds for: fixed in advance, or any.
    numerics : {"float", "lattice"}
        Arithmetic of sums and noise: doubles, whose rounding the guarantee leaves out, or exact
        integers, for "gaussian" and "laplace".
    """

    kind: ClassVar[str] = "dpoco.batch_share_parameters"
    version: ClassVar[int] = 2
    added: ClassVar[dict[str, str]] = {"numerics": "float"}

    experts: int = at_least(1, 2**32)
    horizon: int | None
    switches: int = at_least(0, LARGEST_HORIZON)
    calibration: str = one_of(*CALIBRATIONS)
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
    """Return the regret bounds of `parameters` after `rounds` rounds; None for the paper's update.

    For an endless stream every `rounds` is covered; bounds hold for each of them.
    """
    p = parameters
    if p.calibration == "paper":
        return None
    schedule = Schedule(p.batch, p.learning_rate, p.share_rate)
    return regret_of(Noise(p.noise, p.noise_scale, experts), rounds, p.switches, schedule)
