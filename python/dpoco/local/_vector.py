"""All losses at once with additive noise on a lattice: for comparison with one bit about one loss.

Below about ``epsilon coth(epsilon / 2) = 2 sqrt(2 K)`` one bit about one loss drawn at random has
less noise than any of these channels, and it is pure. Proofs and figures:
``docs/privacy/local_vector_channels.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import noise as additive
from dpoco._discrete_noise import LARGEST, SMALLEST
from dpoco._validation import choice, float_array, real_float
from dpoco.accounting import local_vector
from dpoco.local._lattice import diameters, lattice_step, on_lattice
from dpoco.local._losses import loss_diameter, losses
from dpoco.local._prediction import label_index
from dpoco.local._randomizers import checked_epsilon
from dpoco.random import Source

__all__ = ["NOISES", "VectorRandomizer"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NOISES = ("laplace", "composed", "gaussian", "paper")
_LARGE_SCALE = 6.0


class VectorRandomizer:
    """The centred, mixed log-losses of a label plus independent integer noise.

    Parameters
    ----------
    matrix : array of shape (K, M)
        The public hypotheses of the round's context.
    epsilon : float
        In (0, 30].
    mixing : float
        lam of the losses, in (0, 1].
    delta : float, default 0
        In [0, 1); above 0 for "composed", "gaussian" and "paper".
    noise : {"auto", "laplace", "composed", "gaussian", "paper"}, default "auto"
        "laplace" is pure, of scale l1 / epsilon; "composed" is Laplace under composition over
        coordinates; "gaussian" the discrete Gaussian on losses less their mean over hypotheses;
        "paper" Laplace with the published scale; "auto" the smallest standard deviation of
        the first three that delta allows.
    index : int, optional
        Only the loss of this hypothesis, with pure Laplace noise.
    float_noise : bool, default False
        Real-valued noise in double precision, for simulation only: its low digits leak. Needs a
        seeded source.

    Attributes
    ----------
    noise : str
        The noise in use.
    delta : float
        Of a report: 0 for "laplace".
    step : float
        Real value of one lattice step, a power of two.
    scale : Fraction
        Scale of the noise in lattice steps, exactly as sampled; 0 where all labels look alike.
    table : int array of shape (K, M) or (1, M)
        What is sent about each label before noise, in lattice steps; zeros for no label.
    l1, l2 : int, float
        Diameters of its columns with the zero column.
    reach : float
        Largest absolute value sent about any label before noise.

    Notes
    -----
    O(K M^2) to build for up to 4096 labels, else O(K M); O(K) a report.
    """

    def __init__(
        self,
        matrix: Any,
        epsilon: float,
        mixing: float,
        *,
        delta: float = 0.0,
        noise: str = "auto",
        index: int | None = None,
        float_noise: bool = False,
    ) -> None:
        values = float_array("matrix", matrix, (None, None))
        self.epsilon = checked_epsilon(epsilon)
        given = real_float("delta", delta)
        if not 0.0 <= given < 1.0:
            raise ValueError(f"delta must be in [0, 1); got {given!r}")
        choice("noise", noise, ("auto", *NOISES))
        if noise in NOISES[1:] and given == 0.0:
            raise ValueError(f"noise={noise!r} needs a positive delta")
        if index is not None and (noise not in ("auto", "laplace") or given > 0.0):
            raise ValueError("a single loss takes pure Laplace noise")
        self.float_noise = bool(float_noise)
        reach = max(loss_diameter(values.shape[0], mixing), 1e-12)
        self.step = lattice_step(0.5 * reach)
        plain = losses(values, mixing)
        if index is not None:
            if not 0 <= index < values.shape[0]:
                raise ValueError(f"index must be in [0, {values.shape[0]})")
            plain = plain[index : index + 1]
        names = (noise,) if noise != "auto" else NOISES[: 1 if given == 0.0 else 3]
        built = [_Design(name, plain, reach, self.step, self.epsilon, given) for name in names]
        best = min(built, key=lambda design: design.deviation)
        self.noise, self.table, self.scale = best.name, best.table, best.scale
        self.l1, self.l2 = best.l1, best.l2
        self.delta = given if self.noise != "laplace" else 0.0
        self.standard_deviation = best.deviation * self.step
        self.reach = float(np.abs(self.table).max()) * self.step

    @property
    def law(self) -> str:
        """``"laplace"`` or ``"gaussian"``: the law of the noise."""
        return "gaussian" if self.noise == "gaussian" else "laplace"

    def vector(self, label: Any) -> IntArray:
        """Return what is sent about a label before noise; zeros for what is no label."""
        index = label_index(label, self.table.shape[1])
        if index is None:
            return np.zeros(self.table.shape[0], dtype=np.int64)
        return self.table[:, index]

    def respond(self, label: Any, source: Source) -> tuple[int, ...] | tuple[float, ...]:
        """Return the report on `label`, in lattice steps."""
        centre = self.vector(label)
        if self.float_noise:
            if not source.is_seeded:
                raise ValueError("float_noise is for simulation: it needs a seeded source")
            draw = additive.gaussian if self.law == "gaussian" else additive.laplace
            if self.scale == 0:
                return tuple(centre.astype(np.float64).tolist())
            return tuple((centre + draw(source, centre.size, scale=float(self.scale))).tolist())
        return noisy(centre, self.law, self.scale, source)

    def log_probability(self, report: Any, label: Any) -> float:
        """Return the logarithm of the probability of a report, in double precision."""
        gaps = np.abs(np.asarray(report, dtype=np.int64) - self.vector(label)).astype(np.float64)
        scale = float(self.scale)
        if scale == 0.0:
            return 0.0 if not gaps.any() else -math.inf
        if self.law == "laplace":
            each = math.log(math.tanh(0.5 / scale)) - gaps / scale
        else:
            each = -0.5 * (gaps / scale) ** 2 - math.log(_gaussian_total(scale))
        return float(each.sum())

    def largest_log_ratio(self) -> Fraction:
        """Return the largest log-ratio of two probabilities of one report, exactly.

        Infinite, hence a ``ValueError``, for Gaussian noise.
        """
        if self.law == "gaussian":
            raise ValueError("Gaussian noise has no largest ratio")
        return Fraction(0) if self.scale == 0 else self.l1 / self.scale

    def __repr__(self) -> str:
        kind = "float, for simulation" if self.float_noise else "integer"
        return (
            f"VectorRandomizer(losses={self.table.shape[0]}, epsilon={self.epsilon:g}, "
            f"delta={self.delta:g}, noise={self.noise!r}, {kind})"
        )


def _gaussian_total(scale: float) -> float:
    """Return the sum of ``exp(-n^2 / 2 s^2)`` over all integers n.

    By Poisson summation it is in ``sqrt(2 pi) s [1, 1 + 2.1 exp(-2 pi^2 s^2)]``: from scale 6 on
    nothing else is left in double precision. O(1).
    """
    if scale >= _LARGE_SCALE:
        return math.sqrt(2.0 * math.pi) * scale
    n = np.arange(1.0, math.ceil(40.0 * scale) + 2.0)
    return 1.0 + 2.0 * float(np.exp(-0.5 * (n / scale) ** 2).sum())


class _Design:
    """One noise for one table, and what it costs."""

    def __init__(
        self, name: str, plain: FloatArray, reach: float, step: float, epsilon: float, delta: float
    ) -> None:
        self.name = name
        bound = 0.5 * reach
        if name == "gaussian":  # a common part of all losses says nothing about hypotheses
            total = np.zeros(plain.shape[1])
            for row in plain:
                total += row
            plain, bound = plain - total / plain.shape[0], reach
        self.table = on_lattice(np.clip(plain, -bound, bound), step)
        self.table.flags.writeable = False
        self.l1, self.l2, ranges = diameters(self.table)
        self.scale = self._scale(epsilon, delta, ranges)
        if self.scale and not SMALLEST <= self.scale <= LARGEST:
            raise ValueError("epsilon is too small for this channel")
        factor = 1.0 if name == "gaussian" else math.sqrt(2.0)
        self.deviation = factor * float(self.scale)

    def _scale(self, epsilon: float, delta: float, ranges: IntArray) -> Fraction:
        if self.l1 == 0:
            return Fraction(0)
        if self.name == "laplace":
            return Fraction(self.l1) / Fraction(within(epsilon))
        epsilon = within(epsilon)
        if self.name == "gaussian":
            return Fraction(
                local_vector.discrete_gaussian_scale(epsilon, delta, self.l2, float(self.l1))
            )
        if self.name == "paper":
            factor = local_vector.printed_scale_factor(len(ranges), epsilon, delta)
            return Fraction(math.nextafter(factor * int(ranges.max()), math.inf))
        widths = tuple(int(width) for width in ranges)
        composed = local_vector.composed_laplace_scale(epsilon, delta, widths)
        return Fraction(composed)


def within(epsilon: float) -> float:
    """Return the epsilon that noise is scaled to: less by 2^-50 of it.

    Laplace noise attains it, while a ledger takes ten reports of 0.1 to be 1.
    """
    return epsilon * (1.0 - 2.0**-50)


def noisy(centre: IntArray, law: str, scale: Fraction, source: Source) -> tuple[int, ...]:
    """Return ``centre`` plus noise of the law; clipped to 64 bits, which noise never reaches."""
    if scale == 0:
        return tuple(centre.tolist())
    draw = additive.discrete_gaussian if law == "gaussian" else additive.discrete_laplace
    return tuple((centre + draw(source, centre.size, scale=scale)).tolist())
