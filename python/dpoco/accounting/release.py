"""How much noise any mechanism needs that sees the data through one continual sum only.

What such noise proves is computed by `dpoco.privacy.mechanisms.gaussian_sum` and nothing here.

Proof: ``docs/privacy/continual_sum.md``.

On a lattice vectors are rounded to multiples of a power of two, sums are integers of 64 bits, noise
is the ideal Gaussian rounded to the lattice, with no error in any probability.

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
# Laws of the noise with which the sum of one batch of losses is released on a lattice.
LATTICE_NOISES = ("gaussian", "laplace")
# "auto" takes the lattice if it makes the noise no more than this much larger.
LARGEST_INFLATION = 0.01


def grids(noise_scale: float) -> Iterator[float]:
    """Yield the spacings that suit noise of this scale, the finest first."""
    exponent = math.frexp(noise_scale)[1] - 1
    for bits in range(FINEST_BITS, COARSEST_BITS - 1, -1):
        grid = math.ldexp(1.0, exponent - bits)
        # The kernel's `grid_bits` refuses smaller ones.
        if grid > 2.0**-900:
            yield grid


def batch_grid(experts: int, noise: str, noise_scale: float, batch: int) -> float:
    """Return the spacing on which the sum of a batch of losses in [0, 1] is released exactly.

    Losses are rounded to multiples of it, among them 0 and 1, so that the sensitivity is that of
    real numbers. With Gaussian noise sums are centred: it is at most 2^-16, and all losses of a
    batch together are fewer than 2^53 multiples of it, for the mean to be rounded once.

    Parameters
    ----------
    experts : int
        Entries N of the sum.
    noise : {"gaussian", "laplace"}
        The law.
    noise_scale : float
        Its deviation or scale, positive.
    batch : int
        Losses in each entry.

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
    """Return a sum with noise of `scale` on the finest lattice on which nothing overflows.

    Entries of what one push adds are kept within `limit` grids, which hold one person's rounds, and
    all that is up to `room`.

    Raises
    ------
    CalibrationError
        If only a lattice too coarse for the noise is safe.
    """
    pushes = max(plain.pushes, 1)
    reach = max(plain.longest_batch * plain.summand.movement(near), room)
    for grid in grids(scale):
        # The margin and one more unit hold what rounding adds to an entry: a bounded vector never
        # exceeds the limit, so that the clamp changes none (docs/privacy/lattice.md, "Overflow").
        entry = reach * (1.0 + 2.0**-20) / grid
        if entry <= LARGEST_LIMIT - 1.0 and (math.ceil(entry) + 1) * pushes <= LARGEST_SUM:
            return replace(plain, scale=float(scale), grid=grid, limit=math.ceil(entry) + 1)
    raise CalibrationError(
        f"no lattice is fine enough for {pushes} sums; shorten the horizon or use numerics='float'"
    )


def noisy_on_lattice(
    plain: GaussianSum, near: Neighbours, mu: float, room: float = 0.0
) -> GaussianSum:
    """Return a sum on a lattice that is mu-GDP, with the least noise but for 1e-9.

    What one push adds has `room` (`on_lattice`).

    Raises
    ------
    CalibrationError
        If there is none: rounding costs more than mu.
    """
    scale = plain.reach(near) / mu
    for _ in range(500):
        found = on_lattice(plain, near, scale, room)
        # A larger scale may have a coarser grid, which costs more again: this repeats until both
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
    """The part of a `dpoco.Participation` that planning uses."""

    @property
    def separation(self) -> int: ...
    def largest(self, horizon: int) -> int: ...


def planned_neighbours(
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
    # Called for its errors only: it refuses orders for which no claim is proved.
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
            # Doubles are planned as well: only their noise says what the lattice costs.
            rounded = calibrate_noise(plain, near, budget=budget, numerics="float")
        except CalibrationError:
            if exact is None:
                raise
        else:
            if exact is None or not exact.scale <= (1.0 + LARGEST_INFLATION) * rounded[0].scale:
                return rounded
    assert exact is not None
    # The search ends at a scale slightly above what mu needs, so that slightly less is spent.
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
        return (continual_sum.plan_method(name, n, near, batch),)
    if budget is None:
        return ("blt",)
    # Levels gain nothing where the horizon is unknown: draws would hardly shrink before 10^9
    # rounds.
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


def read_numerics(mechanism: GaussianSum) -> str:
    """Return the arithmetic of a sum: "lattice" or "float"."""
    return "lattice" if mechanism.grid > 0.0 else "float"
