"""Guarantee of any mechanism that sees the data through one continual sum only.

Claim: let each round add one vector g with ||g||_q <= C to a continual sum whose sums alone reach
the rest of the mechanism. Everything the mechanism ever releases is together mu-GDP with
mu = sqrt(kappa) D column_norm / sigma, where

* Gaussian noise: D = 2 min(C d^max(0, 1/2 - 1/q), C_2) in l2, C_2 a bound in l2, and kappa = 1;
* generalized Gaussian noise of order r: D = 2 C in l_q and kappa = kappa(r).

Emptying one round instead of replacing it halves D.

Proof: ``docs/privacy/continual_sum.md``. Source: Denisov, McMahan, Rush, Smith and Thakurta (2022)
for adaptive streams with Gaussian noise; the page proves it for both noises.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpoco._validation import choice, exponent, positive_float
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.generalized_gaussian import best_order, smoothness_constant
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.lattice import (
    LARGEST_INFLATION,
    MASS_PER_VARIATE,
    NUMERICS,
    charged_reach,
    noise_scale_for,
)
from dpoco.accounting.truncation import (
    TAIL_MASS_PER_VARIATE,
    charged_gaussian_epsilon,
    charged_gaussian_mu,
    truncation_mass,
)
from dpoco.errors import CalibrationError
from dpoco.privacy.neighbours import CHANGES

__all__ = [
    "DEFAULT_NUMERICS",
    "Sensitivity",
    "calibrate_noise",
    "check_numerics",
    "check_scale",
    "gdp_guarantee",
    "noise_in_words",
    "noise_order",
    "norm_name",
    "plain_numerics",
    "sensitivity_of",
    "spent_on_noise",
]

DEFAULT_NUMERICS = "auto"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far apart neighbouring streams can be in one vector.

    Attributes
    ----------
    value : float
        Largest norm of the difference.
    norm : str
        That norm: "l2", "l3", "linf".
    inflation : float
        sqrt(kappa): mu = inflation * value * column_norm / noise_scale.
    """

    value: float
    norm: str
    inflation: float


def noise_order(noise: str, norm_order: float | None, q: float, dimension: int) -> float:
    """Return the order of the noise norm: 2 for Gaussian, else given or the best in [2, q].

    Raises
    ------
    ValueError
        If the order carries no privacy claim, or contradicts `noise`.
    """
    choice("noise", noise, continual_sum.NOISES)
    if noise == "gaussian":
        if norm_order is not None and norm_order != 2.0:
            raise ValueError(f"noise 'gaussian' has norm_order 2; got {norm_order!r}")
        return 2.0
    order = best_order(q, dimension) if norm_order is None else exponent("norm_order", norm_order)
    smoothness_constant(order, q, dimension)
    if order > max(2.0, q):
        raise ValueError(f"norm_order must be in [2, {max(2.0, q):g}]; got {order!r}")
    return order


def sensitivity_of(
    *,
    noise: str,
    order: float,
    q: float,
    dimension: int,
    bound: float,
    bound_l2: float = math.inf,
    relation: str = "replace",
) -> Sensitivity:
    """Return the sensitivity of vectors with ||g||_q <= bound and ||g||_2 <= bound_l2."""
    sides = 2.0 if choice("relation", relation, CHANGES) == "replace" else 1.0
    if noise == "gaussian":
        inflated = bound * math.pow(dimension, max(0.0, 0.5 - 1.0 / q))
        return Sensitivity(sides * min(inflated, bound_l2), "l2", 1.0)
    kappa = smoothness_constant(order, q, dimension)
    return Sensitivity(sides * bound, norm_name(q), math.sqrt(kappa))


def check_numerics(numerics: str, noise: str, calibration: str = "tight") -> None:
    """Raise unless the arithmetic is known and there is a proof for it with this noise."""
    choice("numerics", numerics, NUMERICS)
    if numerics == "lattice" and (noise != "gaussian" or calibration != "tight"):
        raise ValueError("numerics 'lattice' is for Gaussian noise and calibration 'tight'")


def plain_numerics(numerics: str, noise: str) -> str:
    """Return the arithmetic meant without a budget: there is no noise to be exact about."""
    choice("numerics", numerics, ("auto", *NUMERICS))
    if numerics == "lattice":
        check_numerics(numerics, noise)
    return "float" if numerics == "auto" else numerics


def calibrate_noise(
    reach: Sensitivity,
    *,
    budget: Budget,
    method: str,
    pushes: int,
    dimension: int,
    noise: str,
    numerics: str,
    batch: int = 1,
) -> tuple[str, float, float]:
    """Return the arithmetic, the least noise scale that meets `budget`, and its mu.

    `numerics` "auto" takes the lattice where it is proved and costs next to nothing in noise.
    """
    choice("numerics", numerics, ("auto", *NUMERICS))
    if numerics == "lattice":
        check_numerics(numerics, noise)
    if numerics == "float" or noise != "gaussian":
        mu = charged_gaussian_mu(budget, _mass(method, pushes, dimension, noise, "float"))
        column = continual_sum.column_norm(method, pushes)
        return "float", reach.inflation * reach.value * column / mu, mu
    refused, scale, mu = None, math.inf, 0.0
    try:
        mu = charged_gaussian_mu(budget, _mass(method, pushes, dimension, noise, "lattice"))
        scale = noise_scale_for(method, pushes, dimension, reach.value, mu, batch)
    except CalibrationError as error:
        if numerics == "lattice":
            raise
        refused = error
    # With fewer tails to pay for, mu is no smaller than in doubles: this compares the scales.
    least = (1.0 + LARGEST_INFLATION) * reach.value * continual_sum.column_norm(method, pushes)
    if numerics == "auto" and not (refused is None and scale * mu <= least):
        try:
            plain = calibrate_noise(
                reach, budget=budget, method=method, pushes=pushes, dimension=dimension,
                noise=noise, numerics="float",
            )  # fmt: skip
        except CalibrationError:
            if refused is not None:
                raise
        else:
            if not scale <= (1.0 + LARGEST_INFLATION) * plain[1]:
                return plain
    mu = charged_reach(method, pushes, dimension, reach.value, scale, batch) / scale
    return "lattice", scale, mu


def spent_on_noise(
    reach: Sensitivity,
    *,
    method: str,
    pushes: int,
    dimension: int,
    noise: str,
    noise_scale: float,
    numerics: str,
    batch: int = 1,
) -> tuple[float, float]:
    """Return mu of all sums together, and the total variation that is charged to delta."""
    moved = _moved(reach, method, pushes, dimension, noise_scale, numerics, batch)
    return moved / noise_scale, _mass(method, pushes, dimension, noise, numerics)


def _moved(
    reach: Sensitivity,
    method: str,
    pushes: int,
    dimension: int,
    noise_scale: float,
    numerics: str,
    batch: int,
) -> float:
    """Return how far apart all rows of C g of neighbouring streams can be."""
    if numerics == "lattice":
        return charged_reach(method, pushes, dimension, reach.value, noise_scale, batch)
    return reach.inflation * reach.value * continual_sum.column_norm(method, pushes)


def _mass(method: str, pushes: int, dimension: int, noise: str, numerics: str) -> float:
    """Return the total variation between the real and the ideal noise, over all pushes."""
    count = continual_sum.variates(method, pushes, dimension, noise)
    if numerics == "lattice":  # a draw and at most five buffers
        return truncation_mass(count * (6.0 * MASS_PER_VARIATE / TAIL_MASS_PER_VARIATE))
    return truncation_mass(count)


def norm_name(q: float) -> str:
    """Return "l2", "l3", "linf", ..."""
    return "linf" if q == math.inf else f"l{q:g}"


def gdp_guarantee(
    reach: Sensitivity,
    *,
    mechanism: str,
    method: str,
    noise: str,
    noise_scale: float,
    dimension: int,
    pushes: int,
    horizon: int,
    relation: str,
    calibration: str,
    delta: float,
    reference: str,
    conditions: tuple[str, ...],
    seeded: bool,
    claimed: tuple[float, float] | None = None,
    paper_epsilon: float | None = None,
    numerics: str = "float",
    batch: int = 1,
) -> Guarantee:
    """Return the guarantee of a mechanism that sees the data through one continual sum only."""
    column = continual_sum.column_norm(method, pushes)
    check_numerics(numerics, noise, calibration)
    moved = _moved(reach, method, pushes, dimension, noise_scale, numerics, batch)
    multiplier = noise_scale / moved
    mass = _mass(method, pushes, dimension, noise, numerics)
    mu = 1.0 / multiplier
    epsilon = charged_gaussian_epsilon(mu, delta, mass)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        change=relation,
        unit="one round",
        horizon=horizon,
        mechanism=mechanism,
        sensitivity=reach.value,
        sensitivity_norm=reach.norm,
        mu=mu,
        rho=0.5 * mu * mu,
        noise_scale=noise_scale,
        noise_multiplier=multiplier,
        column_norm=column,
        calibration=calibration,
        certified=not seeded and math.isfinite(epsilon),
        claimed=claimed,
        paper_epsilon=paper_epsilon,
        reference=reference,
        conditions=conditions + common_conditions(mass, seeded, numerics=numerics),
        truncation_mass=mass,
        numerics=numerics,
    )


def common_conditions(
    mass: float, seeded: bool, *, sums: bool = True, numerics: str | None = "float"
) -> tuple[str, ...]:
    """Return the conditions all guarantees share; `sums`: of sums with added noise."""
    source = (
        "SEEDED SOURCE: the noise is reproducible; void outside tests"
        if seeded
        else "the noise key comes from the operating system's entropy and stays secret"
    )
    tails = (
        f"truncated tails of the samplers (total variation {mass:.2g}) are charged to delta"
        if mass > 0.0
        else "the noise has its full tails"
    )
    rounded = (
        ": sums with added noise are rounded to a coarse grid that hides it from known attacks, "
        "without proof"
        if sums
        else ""
    )
    arithmetic = (
        f"{tails}; that sums and noise are computed in double precision is not accounted for"
        + rounded
    )
    if numerics == "lattice":
        held = (
            f"what the arithmetic cannot hold (total variation {mass:.2g}) in delta"
            if mass > 0.0
            else "there is nothing that the arithmetic cannot hold"
        )
        arithmetic = (
            "numerics 'lattice': sums are exact integers, and noise is integers of exactly the "
            "law the proof is for (an ideal Gaussian rounded, or discrete Laplace); rounding of "
            f"the data is in epsilon, and {held}; assumed: ideal random bits, IEEE 754, "
            "and the tested error bounds of elementary functions"
        )
    return (
        "the bounds, the horizon and all parameters were fixed without looking at the data",
        "the stream may react to everything released; one person's data in several rounds are "
        "protected per round",
        "a saved state is continued on one stream only, and is itself kept secret",
        "only released values are covered: not traces, diagnostics, timing or memory",
        source,
        arithmetic,
    )


def noise_in_words(noise: str, order: float) -> str:
    """Return "Gaussian noise" or "generalized Gaussian noise of order r"."""
    return "Gaussian noise" if noise == "gaussian" else f"generalized Gaussian noise, r = {order:g}"


def check_scale(noise_scale: float, mu: float) -> None:
    """Raise unless the scale is 0 (then mu is infinite) or both are positive and finite."""
    if noise_scale == 0.0:
        if mu != math.inf:
            raise ValueError("mu must be infinite when noise_scale is 0")
        return
    positive_float("noise_scale", noise_scale)
    positive_float("mu", mu)
