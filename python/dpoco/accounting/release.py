"""Calibration of noise for mechanisms that use the data only through one continual sum.

`dpoco.privacy.mechanisms.gaussian_sum` computes what this noise proves.

Proof: ``docs/privacy/continual_sum.md``.

On a lattice, vectors are rounded to multiples of a power of two, sums are 64-bit integers, and the
noise is the ideal Gaussian rounded to the lattice, without error in any probability.

Proof: ``docs/privacy/lattice.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from dpoco._validation import choice, exponent
from dpoco.accounting import continual_sum
from dpoco.accounting.budget import Budget
from dpoco.accounting.continual_sum import Method
from dpoco.accounting.gaussian import best_order, charged_gaussian_mu
from dpoco.errors import CalibrationError
from dpoco.privacy.mechanisms.gaussian_sum import AnySummand, GaussianSum
from dpoco.privacy.mechanisms.lattice import COARSEST_BITS, FINEST_BITS, LARGEST_LIMIT, LARGEST_SUM
from dpoco.privacy.mechanisms.norms import smoothness_constant
from dpoco.privacy.neighbours import ONE, Neighbours

__all__ = ["DEFAULT_NUMERICS", "LATTICE_NOISES", "NUMERICS", "batch_grid", "calibrate_noise",
           "noise_order", "noisy_on_lattice", "on_lattice", "plain_sum", "planned_neighbours",
           "read_numerics", "with_noise"]  # fmt: skip

NUMERICS = ("float", "lattice")
# Noise laws with which the sum of one batch of losses can be released on a lattice.
LATTICE_NOISES = ("gaussian", "laplace")
# "auto" uses the lattice if it increases the noise by at most this share.
LARGEST_INFLATION = 0.01


def grids(noise_scale: float) -> Iterator[float]:
    """Yield the spacings that suit noise of this scale, the finest first."""
    exponent = math.frexp(noise_scale)[1] - 1
    for bits in range(FINEST_BITS, COARSEST_BITS - 1, -1):
        grid = math.ldexp(1.0, exponent - bits)
        # The kernel's `grid_bits` refuses smaller spacings.
        if grid > 2.0**-900:
            yield grid


def batch_grid(experts: int, noise: str, noise_scale: float, batch: int) -> float:
    """Return the spacing on which the sum of a batch of losses in [0, 1] is released exactly.

    Losses are rounded to its multiples, which include 0 and 1, so that the sensitivity is that of
    real numbers. For Gaussian noise, sums are centred. The spacing is then at most 2^-16, and all
    losses of a batch sum to fewer than 2^53 multiples of it, so that the mean is rounded once.

    Parameters
    ----------
    experts : int
        Number N of entries of the sum.
    noise : {"gaussian", "laplace"}
        Law of the noise.
    noise_scale : float
        Standard deviation or scale of the noise, positive.
    batch : int
        Number of losses in each entry.

    Raises
    ------
    CalibrationError
        If no grid is fine enough for the noise and coarse enough for the sum.
    """
    gaussian = noise == "gaussian"
    for grid in grids(noise_scale):
        units = batch / grid
        held = units < 2.0**51 and (not gaussian or experts * units <= 2.0**53)
        if held and grid <= (2.0**-16 if gaussian else 1.0):
            return grid
    raise CalibrationError(
        f"no lattice suits sums of {batch} losses with noise of scale {noise_scale:.3g}; "
        "use numerics='float'"
    )


def on_lattice(
    plain: GaussianSum, near: Neighbours, scale: float, room: float = 0.0
) -> GaussianSum:
    """Return a sum with noise of `scale` on the finest lattice without overflow.

    The entries that one push adds are limited to `limit` grids, which is enough for the rounds of
    one person and for all values up to `room`.

    Raises
    ------
    CalibrationError
        If only a lattice that is too coarse for the noise avoids overflow.
    """
    pushes = max(plain.pushes, 1)
    reach = max(plain.longest_batch * plain.summand.movement(near), room)
    for grid in grids(scale):
        # The margin and one more unit cover what rounding adds to an entry. So a bounded vector
        # never exceeds the limit, and the clamp does not change it (docs/privacy/lattice.md,
        # "Overflow").
        entry = reach * (1.0 + 2.0**-20) / grid
        if entry <= LARGEST_LIMIT - 1.0 and (math.ceil(entry) + 1) * pushes <= LARGEST_SUM:
            return replace(plain, scale=float(scale), grid=grid, limit=math.ceil(entry) + 1)
    raise CalibrationError(
        f"no lattice is fine enough for {pushes} sums; shorten the horizon or use numerics='float'"
    )


def noisy_on_lattice(
    plain: GaussianSum, near: Neighbours, mu: float, room: float = 0.0
) -> GaussianSum:
    """Return a sum on a lattice that is mu-GDP, with the least noise up to 1e-9.

    For `room` see `on_lattice`.

    Raises
    ------
    CalibrationError
        If there is none, because rounding costs more than mu.
    """
    scale = plain.reach(near) / mu
    for _ in range(500):
        found = on_lattice(plain, near, scale, room)
        # A larger scale may have a coarser grid, which costs more again, so we iterate until both
        # agree.
        needed = found.reach(near) / mu
        if needed <= scale:
            return found
        scale = needed * (1.0 + 2.0**-50)
        if scale > 2.0**900:
            break
    raise CalibrationError(
        f"rounding to a lattice costs more than mu = {mu:.3g} over {plain.pushes} sums of "
        f"dimension {plain.summand.size}; use numerics='float'"
    )


DEFAULT_NUMERICS: Final = "auto"


class Returning(Protocol):
    """The part of `dpoco.Participation` that planning needs."""

    @property
    def separation(self) -> int: ...
    def largest(self, horizon: int) -> int: ...


def planned_neighbours(
    relation: str, participation: Returning | None, horizon: int, budget: Budget | None
) -> Neighbours:
    """Return the neighbours to plan noise for: all rounds that a person may have, or one."""
    if participation is None or budget is None:
        return Neighbours(relation)
    most = participation.largest(horizon)
    return Neighbours(relation, rounds=most, separation=participation.separation)


def noise_order(noise: str, norm_order: float | None, q: float, dimension: int) -> float:
    """Return the order of the noise norm: 2 for Gaussian, else as given or the best in [2, q].

    Raises
    ------
    ValueError
        If there is no privacy claim for the order, or if it contradicts `noise`.
    """
    choice("noise", noise, continual_sum.NOISES)
    if noise == "gaussian":
        if norm_order is not None and norm_order != 2.0:
            raise ValueError(f"noise 'gaussian' has norm_order 2; got {norm_order!r}")
        return 2.0
    order = best_order(q, dimension) if norm_order is None else exponent("norm_order", norm_order)
    # Only called to raise an error for orders without a proved claim.
    smoothness_constant(order, q, dimension)
    if order > max(2.0, q):
        raise ValueError(f"norm_order must be in [2, {max(2.0, q):g}]; got {order!r}")
    return order


def plain_sum(
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
    """Return the sum with the least noise that meets `budget`, and its mu.

    With `numerics` "auto" it is on a lattice if that is proved and hardly increases the noise.
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
            # We also plan in doubles, to compare their noise with that on the lattice.
            rounded = calibrate_noise(plain, near, budget=budget, numerics="float")
        except CalibrationError:
            if exact is None:
                raise
        else:
            if exact is None or not exact.scale <= (1.0 + LARGEST_INFLATION) * rounded[0].scale:
                return rounded
    assert exact is not None
    # The search ends at a scale slightly above the one that mu needs, so slightly less is spent.
    return exact, exact.reach(near) / exact.scale


def candidate_methods(
    sum_method: str | None,
    pushes: int | None,
    budget: Budget | None,
    near: Neighbours = ONE,
    batch: int = 1,
) -> tuple[Method, ...]:
    """Return the sums to compare, the usual one first; `pushes` None is an unknown number.

    If people return, the usual sum is that of `continual_sum.choose_method`, by the mean square of
    its noise.
    """
    n = continual_sum.resolve_horizon(pushes)
    if sum_method not in (None, "auto"):
        name = choice("sum_method", sum_method, continual_sum.METHODS)
        return (continual_sum.plan_method(name, n, near, batch),)
    if budget is None:
        return ("blt",)
    # For an unknown horizon, levels do not help: draws would hardly shrink before 10^9 rounds.
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
    """Return a sum with the least noise that meets `budget`; None adds no noise."""
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


def read_numerics(mechanism: GaussianSum) -> str:
    """Return the arithmetic of a sum: "lattice" or "float"."""
    return "lattice" if mechanism.grid > 0.0 else "float"
