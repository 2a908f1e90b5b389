"""Planning that all batch baselines share: bounds of a record, grids, and the statement.

Proof: ``docs/privacy/batch_baselines.md``, ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dpoco._validation import choice, positive_int
from dpoco.accounting.budget import Budget
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import NUMERICS
from dpoco.accounting.leaf_bounds import DomainLike
from dpoco.accounting.release import plain_numerics
from dpoco.accounting.statement import state
from dpoco.accounting.truncation import (
    TAIL_MASS_PER_VARIATE,
    charged_gaussian_delta,
    charged_gaussian_mu,
    truncation_mass,
)
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.base import Mechanism
from dpoco.privacy.mechanisms.batch_fits import moved
from dpoco.privacy.mechanisms.gaussian_sum import EXACT_TAIL
from dpoco.privacy.neighbours import Neighbours

CALIBRATIONS = ("tight", "paper")
PAGE = "docs/privacy/batch_baselines.md"
_FINEST_BITS, _COARSEST_BITS = 28, 16
_FARTHEST = 2.0**49  # grids that a sum may reach; the compiled classes clamp at twice as many
# "auto" takes the grid if it makes the noise no more than this much larger.
_LARGEST_INFLATION = 0.01


class BatchDomain(DomainLike, Protocol):
    """What the batch baselines ask of a decision set, besides."""

    def radius_from_center(self) -> float:
        """Return how far a decision can be from the center, in l2."""


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


def batch_bounds(domain: BatchDomain, loss: Any) -> BatchBounds:
    """Return the bounds; `TypeError` unless the loss is generalised linear."""
    if not getattr(loss, "glm", False):
        raise TypeError(
            f"batch baselines take squared, logistic and Huber losses; got {type(loss).__name__}"
        )
    margin = loss.margin_bound(domain)
    bound, declared = float(loss.feature_bound), loss._l2
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


def phase_sizes(records: int, phases: int | None = None) -> list[int]:
    """Return floor(n / 2^i), i = 1, 2, ..., as far as they are positive; [1] for one record."""
    count = max(1, records.bit_length() - 1) if phases is None else phases
    return [max(1, records >> i) for i in range(1, count + 1)]


def checked_budget(budget: Any) -> Budget | None:
    """Return a budget that Gaussian noise can keep to, or None."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise TypeError(f"budget must be a dpoco.Budget or None; got {type(budget).__name__}")
    budget.require_delta()
    return budget


def gaussian_target(
    budget: Budget, calibration: str, variates: float, numerics: str = "float"
) -> float:
    """Return the mu that the budget allows: exactly, or by sqrt(2 ln(1/delta)) / epsilon.

    The latter is the published Gaussian mechanism (Han et al., Lemma 2.1); `CalibrationError`
    where its claim is false.
    """
    mass = truncation_mass(counted_variates(variates, numerics))
    if calibration == "tight":
        return charged_gaussian_mu(budget, mass)
    mu = budget.epsilon / math.sqrt(2.0 * math.log(1.0 / budget.delta))
    require_published(charged_gaussian_delta(budget.epsilon, mu, mass), budget)
    return mu


def require_published(exact: float, budget: Budget) -> None:
    """Raise `CalibrationError` if published constants miss the budget."""
    if not exact <= budget.delta:
        raise CalibrationError(
            f"the published constants miss delta = {budget.delta:.3g} at epsilon = "
            f"{budget.epsilon:.6g}: exact delta {exact:.3g}; use calibration='tight'"
        )


def batch_guarantee(
    mechanism: Mechanism,
    *,
    what: str,
    records: int,
    delta: float,
    calibration: str,
    seeded: bool,
    sensitivity: float,
    noise_scale: float,
    bound: str,
    claimed_epsilon: float,
    details: dict[str, float | str | None] | None = None,
    numerics: str = "float",
) -> Guarantee:
    """Return the guarantee of one fit.

    Parameters
    ----------
    mechanism : Mechanism
        What the fit enforces and draws.
    what : str
        The learner, in words.
    claimed_epsilon : float
        What the published constants would say of this noise at `delta`; NaN without any.
    bound : str
        What the enforced bounds are, in words.
    others
        As for `Guarantee`.

    Raises
    ------
    CalibrationError
        If the calibration is "paper" and its claim is false.
    """
    choice("calibration", calibration, ("tight", "paper"))
    published = None if math.isnan(claimed_epsilon) else claimed_epsilon
    result = state(
        mechanism,
        Neighbours(),
        released=what,
        horizon=1,
        delta=delta,
        calibration=calibration,
        reference=f"Han et al., section 5 (baselines), corrected; {PAGE}",
        seeded=seeded,
        unit="one record",
        sensitivity=sensitivity,
        sensitivity_norm="l2",
        noise_scale=noise_scale,
        claimed=(published, delta) if calibration == "paper" and published is not None else None,
        paper_epsilon=published,
        details={"records": float(records), **(details or {})},
        numerics=numerics,
    )
    result = replace(
        result,
        conditions=(
            bound,
            "the bounds, the number of records and all parameters are public and were fixed "
            "without looking at the data",
            "records differ in contents, not in number; one person's data in several records are "
            "protected per record",
            "the model is fitted once: another fit to the same data is another release, with a "
            "budget of its own",
            "only the fitted model is covered: not timing, memory or a fit that was interrupted",
            *result.conditions[-2:],
        ),
    )
    if result.claimed is not None:
        exact = result.delta_at(result.claimed[0])
        if not exact <= delta * (1.0 + 1e-9):
            raise CalibrationError(
                f"the published claim (epsilon = {result.claimed[0]:.6g}, delta = {delta:.3g}) is "
                f"false for this noise: exact delta {exact:.3g}"
            )
    return result


def clipping(loss: Any, domain: BatchDomain, derivative: float, lossless: float) -> str:
    """Return in words how records are bounded."""
    low, high = loss.label_range
    l2 = "" if loss._l2 is None else f" and ||x||_2 <= {loss._l2:g}"
    text = (
        f"enforced by clipping: features to ||x||_{domain.dual_exponent:g} <= "
        f"{loss.feature_bound:g}{l2}, labels to [{low:g}, {high:g}], derivatives in the margin to "
        f"+-{derivative:g}"
    )
    if derivative < lossless * (1.0 - 1e-9):
        text += f" (below the {lossless:g} at which nothing would be lost)"
    return text


def grid_of(noise_scale: float, largest: float, count: int = 1) -> float:
    """Return the finest grid that holds the sum of `count` vectors with entries up to `largest`.

    Raises
    ------
    CalibrationError
        If it would be too coarse for noise of this scale.
    """
    exponent = math.frexp(noise_scale)[1] - 1
    for bits in range(_FINEST_BITS, _COARSEST_BITS - 1, -1):
        grid = math.ldexp(1.0, exponent - bits)
        if not 2.0**-900 < grid < 2.0**900:
            break
        if count * (largest / grid + 2.0) <= _FARTHEST:
            return grid
    raise CalibrationError(
        f"no grid holds sums of {count} vectors of noise scale {noise_scale:.3g}; fewer records, "
        "more noise or numerics='float'"
    )


def exact_scale(
    movement: float, multiplier: float, largest: float, count: int, dimension: int
) -> float:
    """Return the least noise scale of the mean that is `multiplier` times what it has to hide.

    Raises
    ------
    CalibrationError
        If rounding needs more than a few percent of noise, or no grid will do.
    """
    scale = movement * multiplier / count
    for _ in range(8):
        # Times the count as the compiled class has it.
        needed = multiplier * moved(movement, grid_of(scale * count, largest, count), dimension)
        if needed <= scale * count:
            return scale
        scale = needed / count * (1.0 + 2.0**-50)
    raise CalibrationError(
        "rounding to a grid would need much more noise; use numerics='float' or a larger epsilon"
    )


def resolved(
    numerics: str, calibration: str, private: bool, releases: list[tuple[float, float, float, int]],
    dimension: int,
) -> str:  # fmt: skip
    """Return the arithmetic meant by `numerics`; "auto" takes a grid where it costs little noise.

    Parameters
    ----------
    numerics : {"auto", "float", "lattice"}
        As asked for.
    calibration : str
        Published constants have no place for rounding.
    private : bool
        Whether there is noise.
    releases : list of (float, float, float, int)
        Movement of a sum, noise multiplier, largest entry, number of vectors.
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
    if not private:
        return plain_numerics(numerics, "gaussian")
    if numerics == "float":
        return "float"
    try:
        for movement, multiplier, largest, count in releases:
            scale = exact_scale(movement, multiplier, largest, count, dimension)
            most = (1.0 + _LARGEST_INFLATION) * movement * multiplier / count
            if scale > most and numerics == "auto":
                return "float"
    except CalibrationError:
        if numerics == "lattice":
            raise
        return "float"
    return "lattice"


def counted_variates(count: float, numerics: str) -> float:
    """Return variates with truncated tails that cost as much as `count` ones of this arithmetic."""
    return count * (EXACT_TAIL / TAIL_MASS_PER_VARIATE) if numerics == "lattice" else count


def check_phases(records: int, phases: int) -> None:
    """Raise `ValueError` unless there can be so many phases of halved sizes."""
    n = positive_int("records", records)
    positive_int("phases", phases, maximum=max(1, n.bit_length() - 1))
