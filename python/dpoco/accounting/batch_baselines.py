"""Accounting of the batch baselines: one fit to n records, one release.

Claims, for replacing one record, with derivatives in the margin clipped to c and features to X in
l2, L = c X:

* `NoisyFrankWolfe`, `PhasedSGD`, `LocalizedMirrorDescent`: every record lies in one batch or phase,
  so that one mu covers all of them;
* `SufficientStatistics`: all records are in one sum, whose distance is that of second moments;
* `NoisySGD`: the sampled Gaussian mechanism, K times, with distance 2 L
  (`dpoco.privacy.losses.sampled`).

Here is what all share: bounds of a record, grids, and the statement.

Proof: ``docs/privacy/batch_baselines.md``, ``docs/privacy/lattice.md``. Source: the baselines of
Han et al., section 5, corrected.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dpoco._validation import choice, positive_float
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import LARGEST_INFLATION, NUMERICS, grids
from dpoco.accounting.parameters import Parameters, one_of
from dpoco.accounting.release import plain_numerics
from dpoco.accounting.statement import check_claim, require_published, state, stated_delta
from dpoco.accounting.truncation import (
    TAIL_MASS_PER_VARIATE,
    charged_gaussian_delta,
    charged_gaussian_mu,
    truncation_mass,
)
from dpoco.domains import Domain
from dpoco.errors import CalibrationError
from dpoco.losses import check_undamped
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.mechanisms.batch_fits import moved
from dpoco.privacy.mechanisms.gaussian_sum import EXACT_TAIL
from dpoco.privacy.neighbours import Neighbours

__all__ = ["BatchBounds", "BatchParameters", "batch_bounds", "guarantee", "mechanism_of"]

CALIBRATIONS = ("tight", "paper")
_FARTHEST = 2.0**49  # grids that a sum may reach; the compiled classes clamp at twice as many


@dataclass(frozen=True)
class BatchBounds:
    """Bounds on a clipped record of a generalised linear loss over a domain.

    Attributes
    ----------
    derivative : float
        c: |dl/dz| never exceeds it, so clipping to it changes nothing.
    curvature : float
        Largest second derivative in the margin.
    feature : float
        Bound on the features in the dual norm.
    feature_l2 : float
        Bound on them in l2, declared or implied.
    reach : float
        Largest difference of a record's margins between two decisions.
    """

    derivative: float
    curvature: float
    feature: float
    feature_l2: float
    reach: float

    @property
    def smoothness_l2(self) -> float:
        """Lipschitz constant of the gradient, in l2."""
        return self.curvature * self.feature_l2**2


def batch_bounds(domain: Domain, loss: Any) -> BatchBounds:
    """Return the bounds; `TypeError` unless the loss is generalised linear."""
    if not getattr(loss, "glm", False):
        raise TypeError(
            f"batch baselines take squared, logistic and Huber losses; got {type(loss).__name__}"
        )
    check_undamped(loss)
    margin = loss.margin_bound(domain)
    bound, declared = float(loss.feature_bound), loss.feature_bound_l2
    l2 = bound * math.pow(domain.dimension, max(0.0, 0.5 - 1.0 / domain.dual_exponent))
    reach = bound * domain.diameter()
    if declared is not None:
        l2 = min(l2, float(declared))
        reach = min(reach, float(declared) * domain.diameter(2.0))
    return BatchBounds(
        derivative=loss.derivative_bound(margin),
        curvature=loss.curvature_bound(margin),
        feature=bound,
        feature_l2=l2,
        reach=min(reach, 2.0 * margin),
    )


@dataclass(frozen=True, kw_only=True)
class BatchParameters(Parameters, ABC):
    """Base of the parameters of all batch baselines.

    Attributes
    ----------
    records : int
        n.
    derivative_bound : float
        Enforced bound on a record's derivative in the margin.
    calibration : {"tight", "paper"}
        How the noise was found.
    """

    version = 2
    method: ClassVar[str]  # in words
    reference: ClassVar[str] = (
        "Han et al., section 5 (baselines), corrected; docs/privacy/batch_baselines.md"
    )
    clips_derivatives: ClassVar[bool] = True
    noise: ClassVar[str]  # the field that is 0 without privacy
    records: int
    derivative_bound: float
    calibration: str = one_of(*CALIBRATIONS, default="tight")

    def __post_init__(self) -> None:
        """Check that the fields fit each other, too."""
        super().__post_init__()
        if self.private:
            positive_float(self.noise, getattr(self, self.noise))
        if getattr(self, "numerics", "float") == "lattice" and self.calibration != "tight":
            raise ValueError("numerics 'lattice' is for calibration 'tight'")

    @property
    def private(self) -> bool:
        """Whether any noise is added."""
        return bool(getattr(self, self.noise) > 0.0)

    @abstractmethod
    def mechanism(self, domain: Domain, loss: Any) -> Mechanism:
        """Return that through which data reach the model."""

    @abstractmethod
    def stated(
        self, domain: Domain, found: BatchBounds, mechanism: Any, delta: float
    ) -> dict[str, Any]:
        """Return what the guarantee says besides: fields of `Guarantee`.

        ``released`` are words in addition to `method`; ``paper_epsilon`` is what the published
        constants would say of this noise at `delta`.
        """


def mechanism_of(domain: Domain, loss: Any, parameters: BatchParameters) -> Mechanism:
    """Return that through which data reach the model."""
    return parameters.mechanism(domain, loss)


def guarantee(
    domain: Domain,
    loss: Any,
    parameters: BatchParameters,
    *,
    budget: Budget | float | None = None,
    seeded: bool = False,
) -> Guarantee:
    """Return what any parameters guarantee, recomputed from noise scales and enforced bounds.

    Parameters
    ----------
    domain, loss
        The problem.
    parameters : BatchParameters
        Of one of the learners, calibrated or the user's own.
    budget : Budget, float or None
        The delta to state epsilon at (a budget's delta); None means 1 / (10 n).
    seeded : bool
        Whether the noise is reproducible, which voids the guarantee.

    Raises
    ------
    ValueError, TypeError
        If the parameters contradict the domain or the loss; for `PhasedSGD` also if steps could be
        large enough to expand.
    CalibrationError
        If the parameters say "paper" and the published claim is false for them.
    """
    if not isinstance(parameters, BatchParameters):
        raise TypeError(f"not parameters of a batch baseline: {type(parameters).__name__}")
    p = parameters
    found, what = batch_bounds(domain, loss), f"the model of {p.method}"
    if not p.private:
        return Guarantee.none(1, what, unit="one record")
    delta, mechanism = stated_delta(budget, p.records), p.mechanism(domain, loss)
    stated = p.stated(domain, found, mechanism, delta)
    stated["released"] = f"{what} (dimension {domain.dimension}{stated['released']})"
    stated["details"] = {"records": float(p.records), **stated["details"]}
    bound = stated.pop("bound", "")
    paper = stated.get("paper_epsilon")
    derivative = p.derivative_bound if p.clips_derivatives else None
    result = state(
        mechanism,
        Neighbours(),
        horizon=1,
        delta=delta,
        calibration=p.calibration,
        reference=p.reference,
        seeded=seeded,
        unit="one record",
        conditions=(f"{_clipping(loss, domain, derivative, found.derivative)}{bound}.",),
        claimed=(paper, delta) if p.calibration == "paper" and paper is not None else None,
        **stated,
    )
    return check_claim(result)


def checked_budget(budget: Any) -> Budget | None:
    """Return a budget that Gaussian noise can keep to, or None."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a dpoco.Budget or None; got {type(budget).__name__}")
    budget.require_delta()
    return budget


def gaussian_target(
    budget: Budget, calibration: str, variates: float, exact: bool = False
) -> float:
    """Return the mu that the budget allows: exactly, or by sqrt(2 ln(1/delta)) / epsilon.

    The latter is the published Gaussian mechanism (Han et al., Lemma 2.1); `CalibrationError`
    where its claim is false.
    """
    mass = truncation_mass(counted_variates(variates, exact))
    if calibration == "tight":
        return charged_gaussian_mu(budget, mass)
    mu = budget.epsilon / math.sqrt(2.0 * math.log(1.0 / budget.delta))
    require_published(charged_gaussian_delta(budget.epsilon, mu, mass), budget)
    return mu


def counted_variates(count: float, exact: bool) -> float:
    """Return variates with truncated tails that cost as much as `count` draws, `exact` or not."""
    return count * (EXACT_TAIL / TAIL_MASS_PER_VARIATE) if exact else count


def grid_of(noise_scale: float, largest: float, count: int = 1) -> float:
    """Return the finest grid that holds the sum of `count` vectors with entries up to `largest`.

    Raises
    ------
    CalibrationError
        If it would be too coarse for noise of this scale.
    """
    for grid in grids(noise_scale):
        if grid < 2.0**900 and count * (largest / grid + 2.0) <= _FARTHEST:
            return grid
    raise CalibrationError(
        f"no grid holds sums of {count} vectors of noise scale {noise_scale:.3g}; fewer records, "
        "more noise or numerics='float'"
    )


class Release(NamedTuple):
    """A mean of `size` vectors of length `bound`, with noise `multiplier` times what it hides."""

    bound: float
    multiplier: float
    size: int = 1


def exact_scale(release: Release, dimension: int) -> float:
    """Return the least noise scale of the mean on a grid.

    Raises
    ------
    CalibrationError
        If rounding needs more than a few percent of noise, or no grid will do.
    """
    bound, multiplier, count = release
    scale = 2.0 * bound * multiplier / count
    for _ in range(8):
        # Times the count as the compiled class has it.
        grid = grid_of(scale * count, bound, count)
        needed = multiplier * moved(2.0 * bound, grid, dimension)
        if needed <= scale * count:
            return scale
        scale = needed / count * (1.0 + 2.0**-50)
    raise CalibrationError(
        "rounding to a grid would need much more noise; use numerics='float' or a larger epsilon"
    )


def resolved(
    numerics: str, calibration: str, releases: list[Release] | None, dimension: int
) -> str:
    """Return the arithmetic meant by `numerics`; "auto" takes a grid where it costs little noise.

    Parameters
    ----------
    numerics : {"auto", "float", "lattice"}
        As asked for.
    calibration : str
        Published constants have no place for rounding.
    releases : list of Release or None
        None without noise.
    dimension : int
        Entries of a vector.

    Raises
    ------
    ValueError
        For "lattice" with published constants.
    CalibrationError
        For "lattice" where no grid will do.
    """
    choice("numerics", numerics, ("auto", *NUMERICS))
    if calibration != "tight":
        if numerics == "lattice":
            raise ValueError("numerics 'lattice' is for calibration 'tight'")
        return "float"
    if releases is None:
        return plain_numerics(numerics, "gaussian")
    if numerics == "float":
        return "float"
    try:
        for each in releases:
            most = (1.0 + LARGEST_INFLATION) * 2.0 * each.bound * each.multiplier / each.size
            if exact_scale(each, dimension) > most and numerics == "auto":
                return "float"
    except CalibrationError:
        if numerics == "lattice":
            raise
        return "float"
    return "lattice"


def _clipping(loss: Any, domain: Domain, derivative: float | None, lossless: float) -> str:
    """Return in words how records are bounded."""
    (low, high), declared = loss.label_range, loss.feature_bound_l2
    l2 = "" if declared is None else f" and ||x||_2 <= {declared:g}"
    text = (
        f"The program clips features to ||x||_{domain.dual_exponent:g} <= "
        f"{loss.feature_bound:g}{l2}, labels to [{low:g}, {high:g}]"
    )
    if derivative is None:
        return text
    text += f", derivatives in the margin to +-{derivative:g}"
    if derivative < lossless * (1.0 - 1e-9):
        text += f" (below the {lossless:g} at which nothing would be lost)"
    return text
