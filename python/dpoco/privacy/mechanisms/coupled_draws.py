"""Decisions that are kept, or drawn afresh, by stay-or-switch bits.

After every block of rounds the engine keeps its decision or draws a fresh one from a law of all
losses so far: the minimiser of their randomly tilted sum, or a point of a Gibbs law. Claim: all
decisions and bits together have the losses of `dpoco.privacy.losses.coupled_bits` and
`dpoco.privacy.losses.tilted_draws`, also for losses that react to the decisions.

Proofs: ``docs/privacy/couplings.md``, ``docs/privacy/gibbs_draws.md``,
``docs/privacy/objective_perturbation.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpoco.privacy.losses.combined import NOTHING, group, least, with_tails
from dpoco.privacy.losses.coupled_bits import LEAST_FACTOR, CoupledBits
from dpoco.privacy.losses.loss import Loss
from dpoco.privacy.losses.tilted_draws import ReturningDraws, TiltedDraws
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.mechanisms.participation import most_rounds
from dpoco.privacy.neighbours import Neighbours
from dpoco.privacy.records import Description, limits

__all__ = ["Always", "Anchored", "CoupledDraws", "Dartboard", "GibbsDraw", "Maximal",
           "SmoothLosses", "TiltedMinimum", "Window"]  # fmt: skip


@dataclass(frozen=True)
class SmoothLosses(Description):
    """Convex losses on R^dimension or a part of it, which the engine scales into these bounds.

    Attributes
    ----------
    dimension : int
        n, dimension of the set of decisions.
    lipschitz : float
        G in l2 (loss/length), wherever decisions can be.
    smoothness : float
        beta_s, largest eigenvalue of a Hessian (loss/length^2); infinite if unknown.
    rank : int
        Largest rank of one loss's Hessian; 0 exactly for linear losses.
    enforced : bool
        Whether the engine enforces the bounds; otherwise they are a promise.
    """

    kind = "smooth_losses"
    dimension: int
    lipschitz: float
    smoothness: float = limits(zero=True, infinite=True)
    rank: int = limits(zero=True)
    enforced: bool = True

    def __post_init__(self) -> None:
        """Refuse ranks that contradict dimension or smoothness."""
        super().__post_init__()
        if self.rank > self.dimension or (self.rank == 0) != (self.smoothness == 0.0):
            raise ValueError("rank must be in [0, dimension], and 0 exactly if smoothness is 0")


@dataclass(frozen=True)
class Always(Description):
    """A fresh draw after every block."""

    kind = "scheduled"
    forced = 1.0  # probability of a forced switch

    def log_floor(self, draw: TiltedMinimum | GibbsDraw) -> float:
        """Return minus the log of the smallest acceptance factor of one round."""
        return 0.0


@dataclass(frozen=True)
class _Coin(Description):
    """A forced switch with probability `forced`; otherwise acceptance factors of the rounds."""

    forced: float = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse numbers that are no probability."""
        super().__post_init__()
        if self.forced > 1.0:
            raise ValueError(f"forced of {self.kind} must be in [0, 1]; got {self.forced!r}")


@dataclass(frozen=True)
class Window(_Coin):
    """Log density ratios of successive laws, lowered by `high`, clamped to [-high - low, 0]."""

    kind = "density_ratio"
    high: float = limits(zero=True)
    low: float = limits(zero=True)

    def log_floor(self, draw: TiltedMinimum | GibbsDraw) -> float:
        """Return minus the log of the smallest acceptance factor of one round."""
        return self.high + self.low


@dataclass(frozen=True)
class Dartboard(_Coin):
    """exp(-inverse temperature (l - min l)), with l - min l clamped to [0, span] (loss)."""

    kind = "dartboard"
    span: float = limits()

    def log_floor(self, draw: TiltedMinimum | GibbsDraw) -> float:
        """Return minus the log of the smallest acceptance factor of one round."""
        return draw.inverse_temperature * self.span if isinstance(draw, GibbsDraw) else math.inf


@dataclass(frozen=True)
class Anchored(_Coin):
    """Losses centred at released points, lowered by at most `width`, clamped to [-2 width, 0]."""

    kind = "anchored"
    width: float = limits()

    def log_floor(self, draw: TiltedMinimum | GibbsDraw) -> float:
        """Return minus the log of the smallest acceptance factor of one round."""
        return self.width + self.width


@dataclass(frozen=True)
class Maximal(_Coin):
    """A maximal coupling, with the fewest switches that the laws allow; nothing is proved."""

    kind = "maximal"


@dataclass(frozen=True)
class TiltedMinimum(Description):
    """The minimiser of the losses, ||x - c||^2 / (2 step) and a random linear term.

    Attributes
    ----------
    noise : float
        Standard deviation of a coordinate of the linear term (loss/length).
    step : float
        eta (length^2/loss). If infinite, the convexity of the losses regularises and the variance
        of the noise grows with the rounds; nothing is proved for this.
    """

    kind = "tilted_minimum"
    noise: float
    step: float = limits(infinite=True)

    def curvature(self, losses: SmoothLosses) -> float:
        """Return b, step times smoothness."""
        return self.step * losses.smoothness if losses.smoothness > 0.0 else 0.0

    def distance(self, losses: SmoothLosses, near: Neighbours) -> float:
        """Return the distance of the linear terms of two neighbours, in standard deviations."""
        return near.sides * losses.lipschitz / self.noise

    def shift(self, losses: SmoothLosses, near: Neighbours, window: Window, rounds: int) -> float:
        """Return the largest change of the log acceptance factor of one later round."""
        # See the Lemma of docs/privacy/objective_perturbation.md, "How acceptance factors move".
        b = self.curvature(losses)
        # log((1 + b)^2 / (1 + 2b)) = log(1 + b^2 / (1 + 2b)).
        bent = losses.rank * math.log1p(b * (b / (1.0 + 2.0 * b)))
        return near.sides * losses.lipschitz * losses.lipschitz / self.noise**2 + bent


@dataclass(frozen=True)
class GibbsDraw(Description):
    """A draw of density exp(-inverse_temperature (losses + regularization ||x - c||^2 / 2)).

    Attributes
    ----------
    inverse_temperature, regularization : float
        beta (1/loss) and lam (loss/length^2).
    half_width : float
        Half the side of a cube around c inside the body (length); infinite if that is R^n, 0 if
        unknown.
    tolerance : float
        Assumed total variation between one draw and its law; 0 for exact samplers.
    """

    kind = "gibbs_draw"
    inverse_temperature: float
    regularization: float
    half_width: float = limits(zero=True, infinite=True)
    tolerance: float = limits(zero=True)

    def distance(self, losses: SmoothLosses, near: Neighbours) -> float:
        """Return the mu of one draw."""
        apart = near.sides * losses.lipschitz
        return apart * math.sqrt(self.inverse_temperature / self.regularization)

    def shift(self, losses: SmoothLosses, near: Neighbours, window: Window, rounds: int) -> float:
        """Return how far the log acceptance factor of one later round moves."""
        g, apart = losses.lipschitz, near.sides * losses.lipschitz
        # Rounding may move a log normaliser by as much under either stream, so it counts twice
        # (docs/privacy/gibbs_draws.md, "How acceptance factors move").
        own = self.inverse_temperature * apart * g / self.regularization
        return own + 2.0 * self.normalizer_error(losses, window, rounds)

    def normalizer_error(self, losses: SmoothLosses, window: Window, rounds: int) -> float:
        """Return the largest rounding error of a log density ratio within the clips.

        On a body the ratio contains the difference of two log masses. The error of each is at most
        24 units of 2^-53 times 2 n + 81 + g^2 T^2 / 2 + the log mass at the centre; their means are
        also rounded. Derivation: ``docs/privacy/gibbs_draws.md``, "Rounding".
        """
        n, root = losses.dimension, math.sqrt(self.inverse_temperature * self.regularization)
        far = losses.lipschitz * math.sqrt(self.inverse_temperature / self.regularization) * rounds
        units = (n / 8.0 + 24.0) / rounds * far**2 + 4.0 * (window.high + window.low)
        if self.half_width < math.inf:
            # The least double keeps the logarithm finite if the mass of a small body underflows.
            central = max(math.erf(self.half_width * root / math.sqrt(2.0)), 5e-324)
            size = 0.5 * far**2 - n * math.log(central)
            units += 52.0 * (2.0 * n + 81.0 + size) + 8.0 * far**2
        return 2.0**-53 * units


@dataclass(frozen=True)
class CoupledDraws(Mechanism):
    """One decision per round, and one bit after every block of rounds except the last.

    Attributes
    ----------
    losses : SmoothLosses
        Contribution of a round to the sum.
    draw : TiltedMinimum or GibbsDraw
        The law of a fresh decision.
    keep : Always, Window, Dartboard, Anchored or Maximal
        Rule that keeps a decision after a block, with probability (1 - forced) times the factors of
        its rounds.
    rounds, block : int
        Horizon T, and rounds per bit.
    cap : int or None
        Number of fresh draws after which the decision never changes; None: as many as bits.
    """

    kind = "coupled_draws"
    noise = "ideal_fresh"
    proofs = ("couplings", "gibbs_draws", "objective_perturbation")
    losses: SmoothLosses
    draw: TiltedMinimum | GibbsDraw
    keep: Always | Window | Dartboard | Anchored | Maximal
    rounds: int
    block: int
    cap: int | None = limits(zero=True)

    def __post_init__(self) -> None:
        """Refuse what no proof is about."""
        super().__post_init__()
        if self.block > self.rounds:
            raise ValueError("block of coupled_draws must be at most rounds")
        if isinstance(self.draw, TiltedMinimum):
            if self.losses.smoothness == math.inf:
                raise ValueError("a tilted minimum needs losses of bounded smoothness")
            if isinstance(self.keep, Dartboard | Anchored):
                raise ValueError(f"no proof is about tilted minima and {self.keep.kind}")
        elif isinstance(self.keep, Window):
            # The ratio of successive normalisers is computed, and its rounding bounded, only for
            # linear losses on a known body (docs/privacy/gibbs_draws.md, "Rounding").
            known = self.losses.rank == 0 and self.draw.half_width > 0.0
            if self.keep.forced > 0.0 and not known:
                raise ValueError("a window on Gibbs laws needs linear losses and a known body")

    @property
    def decisions(self) -> int:
        """Stay-or-switch decisions over the horizon."""
        return -(-self.rounds // self.block) - 1

    @property
    def drawn(self) -> int:
        """Largest number of draws that depend on data."""
        return self.decisions if self.cap is None else min(self.cap, self.decisions)

    @property
    def promised(self) -> bool:
        """Whether the bounds of the losses, or the tolerance of the draws, are a promise."""
        return not self.losses.enforced or getattr(self.draw, "tolerance", 0.0) > 0.0

    @property
    def longest(self) -> int | None:
        """The horizon."""
        return self.rounds

    def loss(self, near: Neighbours) -> Loss | None:
        """Return the loss of all decisions and bits; None if a stay would reveal the losses."""
        keep, draw, drawn = self.keep, self.draw, self.drawn
        if near.view == "server":  # who holds the losses
            return None
        if drawn == 0:
            return NOTHING
        growing = isinstance(draw, TiltedMinimum) and draw.step == math.inf
        # Without forced switches, a switch may be impossible under one of the streams, so its
        # log-ratio has no bound.
        if isinstance(keep, Maximal) or keep.forced == 0.0 or growing:
            return None
        later, each = 0, 0.0
        # The factors of all other rules depend only on their round's record and on releases, so
        # later factors are equal under both streams (docs/privacy/couplings.md).
        if isinstance(keep, Window):
            later = max(self.decisions - 1, 0)
            each = draw.shift(self.losses, near, keep, self.rounds)
        own, k = keep.log_floor(draw), near.rounds
        moved = draw.distance(self.losses, near)
        b = draw.curvature(self.losses) if isinstance(draw, TiltedMinimum) else 0.0

        def numbers(changes: int, log_floor: float) -> tuple[dict[str, Any], dict[str, Any]]:
            """Return the numbers of the bits, and of the draws, for so many changed records."""
            bits = {"forced_switch": keep.forced, "later_bits": later,
                    "factor_floor": max(math.exp(-log_floor), LEAST_FACTOR),
                    "shift": changes * self.block * each}  # fmt: skip
            draws = {"cap": drawn, "sensitivity_ratio": changes * moved, "b": changes * b,
                     "dimension": self.losses.dimension, "rank": changes * self.losses.rank,
                     "change": near.change}  # fmt: skip
            return bits, draws

        bits, draws = numbers(1, own + (self.block - 1) * each)
        # Gibbs draws and minima of linear losses are mu-GDP, so the exact profile holds. For minima
        # with curvature only divergences are known (docs/privacy/objective_perturbation.md,
        # "Composition").
        ideal: Loss = CoupledBits(**bits, draws=moved * math.sqrt(drawn))
        if b > 0.0:
            ideal = TiltedDraws(**bits, **draws)
        known = group(ideal, k)
        # For mu-GDP the chain has nothing to gain from a second bound. Otherwise Theorem 8 of
        # docs/privacy/participation.md and the chain both hold, and either may be smaller.
        if k > 1 and ideal.mu == math.inf:
            bits, draws = numbers(k, own)
            together = most_rounds(k, near.separation, self.block)
            person = ReturningDraws(**bits, **draws, rounds=k, together=together, block=self.block)
            known = least(person, *known.bounds)
        # The first draw does not depend on data, so it may be inexact and `drawn` does not count
        # it.
        inexact = draw.tolerance if isinstance(draw, GibbsDraw) else 0.0
        return with_tails(known, min(1.0, drawn * inexact))
