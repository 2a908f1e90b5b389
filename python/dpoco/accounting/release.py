"""How much noise any mechanism needs that sees the data through one continual sum only.

What such noise proves is computed by `dpoco.privacy.mechanisms.gaussian_sum` and nothing here.

Proof: ``docs/privacy/continual_sum.md``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol

from dpoco._validation import choice, exponent
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import Method
from dpoco.accounting.generalized_gaussian import best_order
from dpoco.accounting.lattice import LARGEST_INFLATION, NUMERICS, noisy_on_lattice
from dpoco.accounting.truncation import charged_gaussian_mu
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.gaussian_sum import AnySummand, GaussianSum
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.neighbours import ONE, Neighbours

__all__ = ["DEFAULT_NUMERICS", "calibrate_noise", "noise_order", "numerics_of",
           "people_of", "sum_of", "with_noise"]  # fmt: skip

DEFAULT_NUMERICS: Final = "auto"


class Returning(Protocol):
    """What planning asks of a `dpoco.Participation`."""

    @property
    def separation(self) -> int: ...
    def largest(self, horizon: int) -> int: ...


def people_of(
    relation: str, participation: Returning | None, horizon: int, budget: Budget | None
) -> Neighbours:
    """Return the neighbours noise is planned for: all rounds that a person may have, or one."""
    if participation is None or budget is None:
        return Neighbours(relation)
    most = participation.largest(horizon)
    return Neighbours(relation, rounds=most, separation=participation.separation)


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


def sum_of(
    summand: AnySummand,
    method: Method,
    pushes: int,
    *,
    batch: int = 1,
    growth: str | None = None,
    order: float = 2.0,
) -> GaussianSum:
    """Return the sum of this method without noise; `with_noise` adds it."""
    factor = continual_sum.factorisation(method, max(pushes, 1))
    return GaussianSum(summand, factor, pushes=pushes, batch=batch, growth=growth, order=order)


def calibrate_noise(
    plain: GaussianSum, near: Neighbours, *, budget: Budget, numerics: str
) -> tuple[GaussianSum, float]:
    """Return a sum without noise with the least noise that meets `budget`, and its mu.

    `numerics` "auto" takes the lattice where it is proved and costs next to nothing in noise.
    """
    choice("numerics", numerics, ("auto", *NUMERICS))
    if numerics == "float":
        mu = charged_gaussian_mu(budget, plain.mass)
        return replace(plain, scale=plain.reach(near) / mu), mu
    exact: GaussianSum | None = None
    try:
        mu = charged_gaussian_mu(budget, plain.tails(exact=True))
        exact = noisy_on_lattice(plain, near, mu)
    except CalibrationError:
        if numerics == "lattice":
            raise
    if numerics == "auto":
        try:
            rounded = calibrate_noise(plain, near, budget=budget, numerics="float")
        except CalibrationError:
            if exact is None:
                raise
        else:
            if exact is None or not exact.scale <= (1.0 + LARGEST_INFLATION) * rounded[0].scale:
                return rounded
    assert exact is not None
    return exact, exact.reach(near) / exact.scale


def candidate_methods(
    sum_method: str | None,
    pushes: int | None,
    budget: Budget | None,
    near: Neighbours = ONE,
    batch: int = 1,
) -> tuple[Method, ...]:
    """Return the sums to compare, the usual one first: of so many pushes, or (None) of any.

    For people who come so often the usual one is that of `continual_sum.choose_method`, by the mean
    square of its noise.
    """
    n = continual_sum.resolve_horizon(pushes)
    if sum_method not in (None, "auto"):
        name = choice("sum_method", sum_method, continual_sum.METHODS)
        return (continual_sum.planned(name, n, near, batch),)
    if budget is None:
        return ("blt",)
    first: Method = "blt" if pushes is None else "blt_normalised"
    if near.rounds > 1:
        first = continual_sum.choose_method(pushes, near, batch, continual_sum.mean_error)
    short = pushes is not None and pushes <= continual_sum.TOEPLITZ_LIMIT
    return (first, "tree", *(("toeplitz",) if short else ()))


def with_noise(
    plain: GaussianSum,
    near: Neighbours,
    *,
    budget: Budget | None,
    numerics: str,
    noise: str = "gaussian",
) -> GaussianSum:
    """Return a sum with the least noise that meets `budget`; without noise for None."""
    choice("numerics", numerics, ("auto", *NUMERICS))
    if numerics == "lattice" and noise != "gaussian":
        raise ValueError("numerics 'lattice' is for Gaussian noise")
    moved = plain.summand.movement(near, plain.order)
    if moved > 0.0 and not 1e-100 <= moved <= 1e100:
        raise CalibrationError(
            f"bounds are so large or small that doubles cannot hold what follows: a record moves "
            f"a sum by {moved:.3g}, which must be in [1e-100, 1e100]"
        )
    if budget is None:
        return plain
    wanted = numerics if noise == "gaussian" else "float"
    return calibrate_noise(plain, near, budget=budget, numerics=wanted)[0]


def numerics_of(mechanism: GaussianSum) -> str:
    """Return the arithmetic of a sum: "lattice" or "float"."""
    return "lattice" if mechanism.grid > 0.0 else "float"
