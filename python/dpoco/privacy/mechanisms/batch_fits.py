"""One fit to n records: sampled steps, or phases that see each record once.

Proof: ``docs/privacy/batch_baselines.md``; grids: ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco.privacy.losses.combined import either, group, with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss
from dpoco.privacy.losses.sampled import LARGEST_STEPS, Sampled
from dpoco.privacy.mechanisms.base import Mechanism, central
from dpoco.privacy.mechanisms.gaussian_sum import EXACT_TAIL, TAIL
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["GaussianPhases", "IteratePhase", "SampledGaussian", "SummedPhase", "moved"]

# Rounding of the vectors' entries, of norms' conversions and of these functions, relative.
_ROUNDING = 2.0**-46


@dataclass(frozen=True)
class SampledGaussian(Mechanism):
    """Steps that each release one record's vector, drawn uniformly with replacement, with noise.

    Attributes
    ----------
    records, steps : int
        n; each of K steps draws one of them.
    dimension : int
        Entries of a vector.
    bound : float
        Largest l2 norm of a record's vector, enforced by clipping [gradient].
    scale : float
        Standard deviation of the noise [gradient]; 0 is no noise.
    grid : float
        Of exact integers [gradient]; 0 for doubles, whose rounding no proof covers.
    """

    kind = "sampled_gaussian"
    longest = 1  # a fit is released once
    proofs = ("batch_baselines", "lattice")
    records: int
    steps: int
    dimension: int
    bound: float
    scale: float = limits(zero=True)
    grid: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse counts that no curve is for, and grids that are no powers of two."""
        super().__post_init__()
        _check_grid(self.grid)
        if self.steps > LARGEST_STEPS:
            raise ValueError(f"steps of {self.kind} must be at most {LARGEST_STEPS}")

    @property
    def movement(self) -> float:
        """How far apart two records' vectors can be, as they are released, in l2."""
        return moved(2.0 * self.bound, self.grid, self.dimension)

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of all steps together, for `near.rounds` replaced records.

        A step draws one of them k times as often as a single one: at most 1 in floor(n / k).
        """
        _check_replaced(near)
        if self.scale == 0.0:
            return None
        mass = float(self.steps) * self.dimension * (EXACT_TAIL if self.grid > 0.0 else TAIL)
        crowd = max(1, self.records // near.rounds)
        return with_tails(Sampled(crowd, self.scale / self.movement, self.steps), mass)


@dataclass(frozen=True)
class SummedPhase(Description):
    """Means of `records` vectors, released several times with fresh noise.

    Attributes
    ----------
    records : int
        Of this phase, which no other phase sees.
    bound : float
        Largest l2 norm of a record's vector, enforced by clipping [gradient].
    scale : float
        Standard deviation of the noise of a mean [gradient]; 0 is no noise.
    grid : float
        Of exact integers, of the sum; 0 for doubles, whose rounding no proof covers.
    releases : int
        Means that are released.
    copies : int
        Phases like this one, each with records of its own.
    """

    kind = "summed_phase"
    records: int
    bound: float
    scale: float = limits(zero=True)
    grid: float = limits(zero=True)
    releases: int = limits()
    copies: int = limits()

    def __post_init__(self) -> None:
        """Refuse grids that are no powers of two."""
        super().__post_init__()
        _check_grid(self.grid)

    def mu(self, dimension: int) -> float:
        """Return the Gaussian parameter of all releases of the phase together."""
        mean = moved(2.0 * self.bound, self.grid, dimension) / self.records
        return math.sqrt(self.releases) * mean / self.scale


@dataclass(frozen=True)
class IteratePhase(Description):
    """The average iterate of one pass of projected gradient steps, released once.

    Attributes
    ----------
    records : int
        Of this phase, which no other phase sees.
    lipschitz : float
        Largest l2 norm of a gradient, enforced by clipping [gradient].
    smoothness : float
        Of the clipped losses; steps of at most 2 / smoothness do not expand,
        and there is no guarantee for others.
    step : float
        Step size.
    radius : float
        Largest l2 norm of a decision.
    projection : {"clip", "search"}
        How exact projections are: clipping and scaling, or sorting, adding up and iterating.
    scale : float
        Standard deviation of the noise [decision]; 0 is no noise.
    """

    kind = "iterate_phase"
    releases = copies = 1  # of the average; every phase has a step size of its own
    grid = 0.0  # doubles
    records: int
    lipschitz: float
    smoothness: float
    step: float
    radius: float
    projection: str
    scale: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse unknown words."""
        super().__post_init__()
        self.check_choice("projection", ("clip", "search"))

    def movement(self, dimension: int) -> float:
        """Return how far a record may move the average, rounding included, in l2."""
        return 2.0 * self.lipschitz * self.step + self.rounding(dimension)

    def rounding(self, dimension: int) -> float:
        """Return how far rounding may part two averages.

        Each step of both walks is off by some units of the last place of its largest point, and so
        are their sums.
        """
        d = float(dimension)
        units = 4.0 * d + 64.0
        if self.projection == "search":
            units = max(4.0 * d**1.5 + 64.0, 2.0**12)
        farthest = self.radius + self.step * self.lipschitz
        return 2.0 * self.records * units * 2.0**-52 * farthest

    def mu(self, dimension: int) -> float:
        """Return the Gaussian parameter of the release.

        Raises
        ------
        ValueError
            For steps that may expand: then nothing is known.
        """
        if self.step * self.smoothness > 2.0 * (1.0 + 2.0**-50):
            raise ValueError(
                f"step sizes beyond 2 / smoothness = {2.0 / self.smoothness:.6g} may expand: "
                "no guarantee"
            )
        return self.movement(dimension) / self.scale


@dataclass(frozen=True)
class GaussianPhases(Mechanism):
    """Releases with Gaussian noise in phases, each on records of its own: the worst phase counts.

    Which phase a record is in is fixed by its place (``docs/privacy/composition.md``, Theorem 2).
    """

    kind = "gaussian_phases"
    longest = 1  # a fit is released once
    proofs = ("batch_baselines", "composition", "lattice")
    dimension: int
    phases: tuple[SummedPhase | IteratePhase, ...]

    def __post_init__(self) -> None:
        """Refuse a fit of no phase."""
        super().__post_init__()
        if not self.phases:
            raise ValueError(f"phases of {self.kind} must not be empty")

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of the worst phase, in which all of a person's replaced records may be.

        The tails of all phases count.
        """
        _check_replaced(near)
        if not all(phase.scale > 0.0 for phase in self.phases):
            return None
        drawn = (
            float(p.releases) * p.copies * self.dimension * (EXACT_TAIL if p.grid > 0.0 else TAIL)
            for p in self.phases
        )
        worst = either(*(Gaussian(phase.mu(self.dimension)) for phase in self.phases))
        return group(with_tails(Gaussian(worst.mu), math.fsum(drawn)), near.rounds)


def _check_replaced(near: Neighbours) -> None:
    central(near)
    if near.change != "replace":
        raise ValueError("the guarantee of a fit is proved for replaced records")


def _check_grid(grid: float) -> None:
    if grid > 0.0 and math.frexp(grid)[0] != 0.5:
        raise ValueError("a grid is a power of two")


def moved(movement: float, grid: float, dimension: int) -> float:
    """Return D + sqrt(d) g, D the movement of the sum: vectors are rounded entry by entry."""
    if grid == 0.0:
        return movement
    return (movement + math.sqrt(dimension) * grid) * (1.0 + _ROUNDING)
