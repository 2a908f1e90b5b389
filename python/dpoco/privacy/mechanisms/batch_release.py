"""Sums of batches of losses, each released once with separate noise.

Claim: every round enters the released sum of one batch only, so all releases together, over any
number of rounds and for losses that react to them, are as private as one, whose change between
neighbouring streams is at most 1 in max-norm, N in l1 and, the common shift taken off,
sqrt(N - (N mod 2) / N) in l2:

* "knorm", density exp(-max |z| / k): 1/k, purely; "laplace" of scale b: N/b, purely;
* "gaussian" of deviation s: mu = sqrt(N - (N mod 2) / N) / s, with N truncated tails.

Proof: ``docs/privacy/batch_share.md``; grids: ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco.privacy.losses.combined import group, with_tails
from dpoco.privacy.losses.gaussian import Gaussian
from dpoco.privacy.losses.loss import Loss, Pure, sum_up
from dpoco.privacy.mechanisms.base import Mechanism, central
from dpoco.privacy.mechanisms.gaussian_sum import EXACT_TAIL, TAIL
from dpoco.privacy.mechanisms.lattice import grid_bits
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import limits

__all__ = ["BatchRelease", "movement"]

# The subtracted mean is rounded along the common shift, orthogonal to the change, so the effect is
# of second order.
_MEAN = 1.0 + 1e-9


@dataclass(frozen=True)
class BatchRelease(Mechanism):
    """Noisy sums of `batch` rounds of losses in [0, 1]; an emptied round counts as replaced.

    Attributes
    ----------
    experts : int
        N, entries of a sum; at least 2.
    law : {"knorm", "laplace", "gaussian"}
        Noise that is added to a sum.
    scale : float
        k, b or s, in units of the losses; 0 for no noise.
    batch : int
        Rounds in a sum.
    grid : float
        Spacing of the lattice of losses, sums and noise, which are then exact integers; 0 for
        doubles, whose rounding no proof covers.
    """

    kind = "batch_release"
    noise = "fresh"
    one_round = True
    reacting = True
    proofs = ("batch_share", "participation", "lattice")
    experts: int
    law: str
    scale: float = limits(zero=True)
    batch: int = limits()
    grid: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse laws, counts and grids that no proof is about."""
        super().__post_init__()
        self.check_choice("law", ("knorm", "laplace", "gaussian"))
        if self.experts < 2:
            raise ValueError(f"{self.kind} is about 2 experts at least")
        if self.grid > 0.0:
            self._check_grid()

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of the releases that a person's rounds enter; None without noise.

        The separation limits how many rounds of a person are in one sum; squares add up.
        """
        central(near)
        if self.scale == 0.0:
            return None
        moved = movement(self.law, self.experts)
        if self.law == "gaussian":
            tail = EXACT_TAIL if self.grid > 0.0 else TAIL
            mass = min(1.0, near.rounds * self.experts * tail)
            # Squares are convex, so the worst case is full batches of a person's rounds, and one
            # more batch for the rest (docs/privacy/participation.md, Theorem 2).
            crowd = min(near.rounds, -(-self.batch // near.separation))
            full, rest = divmod(near.rounds, crowd)
            many = math.sqrt(full * crowd * crowd + rest * rest)
            return with_tails(Gaussian(moved * many / self.scale), mass)
        # Pure epsilons of separate batches add up like moves within one batch, so it does not
        # matter how a person's rounds are spread.
        return group(Pure(sum_up((1, moved, self.scale))), near.rounds)

    def _check_grid(self) -> None:
        """Refuse grids that do not hold 0, 1, the noise and, centred, the mean of all losses."""
        grid_bits(self.grid, self.scale)
        units = self.batch / self.grid
        if not self.grid <= 1.0 or not units < 2.0**51:
            raise ValueError(f"a grid of {self.grid!r} is not for this sum")
        # The mean of a sum must be added up exactly, below 2^53 grids, and its rounding must be
        # less than `_MEAN` allows (docs/privacy/lattice.md, "One sum of a batch of losses").
        centred = self.grid <= 2.0**-16 and self.experts * units <= 2.0**53
        if self.law not in ("laplace", "gaussian") or (self.law == "gaussian" and not centred):
            raise ValueError(f"a grid of {self.grid!r} is not for this sum")


def movement(law: str, experts: int) -> float:
    """Return the largest change of a sum by a vector in [-1, 1]^N, in the norm of the law.

    For Gaussian noise the vector is centred.
    """
    if law == "gaussian":
        return math.sqrt(experts - (experts % 2) / experts) * _MEAN
    return float(experts) if law == "laplace" else 1.0
