"""Samplers: Gibbs laws of convex losses, truncated Gaussians, and coordinate Gibbs chains.

`GibbsLaw` has density proportional to exp(-beta (F(x) + lam ||x - c||^2 / 2)) on a domain, with F a
sum of losses. `ExactSampler` draws from the law itself, `ProximalSampler` has a proved distance to
it, and `HitAndRun` and `MetropolisLangevin` only converge to it: ``docs/samplers.md``. A Gaussian
restricted to a domain is the Gibbs law of linear losses. Draws are exact up to rounding: elementary
variates have both tails (``dpoco.noise``), so nothing depends on how many a draw takes. Methods,
expected numbers of trials and tests: ``docs/privacy/samplers.md``,
``docs/privacy/gibbs_sampling.md``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core
from dpoco._validation import (
    Fields,
    FloatArray,
    float_array,
    positive_float,
    positive_int,
    real_float,
    real_in,
)
from dpoco.accounting.coupled_runs import euclidean_problem
from dpoco.domains import Box, Domain
from dpoco.errors import StateError
from dpoco.losses import CustomLoss, Loss, MarginLoss, QuadraticLoss
from dpoco.random import Source, checked_source

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "ExactSampler",
    "GibbsLaw",
    "HitAndRun",
    "MetropolisLangevin",
    "ProximalSampler",
    "coordinate_gibbs",
    "log_mass",
    "truncated_gaussian",
    "truncated_normal",
]

_LARGEST_SIZE = 2**40


def _domain(domain: Domain) -> Domain:
    """Return the value if it is a domain, or raise `TypeError`."""
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
    return domain


def _finite(name: str, value: Any, shape: tuple[int | None, ...]) -> FloatArray:
    """Return a finite array of a shape, or raise."""
    array = float_array(name, value, shape)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array


def truncated_gaussian(
    domain: Domain, mean: ArrayLike, scale: float, size: int, source: Source
) -> FloatArray:
    """Draw exactly from N(mean, scale^2 I) conditioned on a domain.

    Parameters
    ----------
    domain : Domain
        A box, a Euclidean ball, an l_inf ball or a simplex, with an interior. On a simplex, the law
        is that of the Gaussian restricted to the hyperplane of constant sum; a mean outside of the
        hyperplane is projected to it.
    mean : array_like, shape (d,)
        Finite; may be far outside of the domain.
    scale : float
        Standard deviation of each coordinate, in [1e-100, 1e100].
    size : int
        Number of draws, at least 1.
    source : Source
        Source of the randomness.

    Returns
    -------
    ndarray of float64, shape (size, d)

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range, and for domains without exact draws (l_p
        balls with other p) or without an interior.

    Notes
    -----
    O(d) per trial. The expected number of trials per draw is bounded for any mean and scale: below
    2.1 per coordinate of a box, below 4 for a ball, of the order of sqrt(d) for a simplex. Box:
    Robert (1995). Ball: rejection for the coordinate along the mean, which has a log-concave law,
    followed by the rest. Simplex: independent truncated normals conditioned on their sum.
    """
    center = _finite("mean", mean, (_domain(domain).dimension,))
    deviation = positive_float("scale", scale)
    out = np.empty((positive_int("size", size, maximum=_LARGEST_SIZE), domain.dimension))
    stream = checked_source(source)
    with stream._drawing() as engine:
        _core.fill_truncated_gaussian(engine, domain._engine, center, deviation, out)
    if isinstance(domain, Box):  # the shift to the box's centre may round beyond a wall
        np.clip(out, domain.lower, domain.upper, out=out)
    return out


def log_mass(domain: Domain, mean: ArrayLike, scale: float) -> float:
    """Logarithm of the probability that N(mean, scale^2 I) is in a box or a Euclidean ball.

    Parameters
    ----------
    domain : Domain
        A box, a Euclidean ball or an l_inf ball.
    mean : array_like, shape (d,)
        Finite; may be far outside of the domain, where the mass underflows but not its log.
    scale : float
        Standard deviation of each coordinate, in [1e-100, 1e100].

    Returns
    -------
    float
        At most 0; the error is below 2^-53 * 24 (d + ||mean||^2 / (2 scale^2) - log mass at the
        centre).

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range, and for other domains.

    Notes
    -----
    Box: a sum over coordinates, O(d). Ball: the noncentral chi-square distribution by a series of
    positive terms, O(d + r + sqrt(r m)) of them for radius r and distance m of the mean in units of
    the scale, and by a quadrature of some hundred points when r m exceeds 20000.
    """
    center = _finite("mean", mean, (_domain(domain).dimension,))
    return _core.log_gaussian_mass(domain._engine, center, positive_float("scale", scale))


def truncated_normal(
    mean: float, scale: float, lower: float, upper: float, size: int, source: Source
) -> FloatArray:
    """Draw exactly from N(mean, scale^2) conditioned on an interval.

    Parameters
    ----------
    mean : float
        Finite; may be far outside of the interval.
    scale : float
        Standard deviation, in [1e-100, 1e100].
    lower, upper : float
        Ends, ``lower < upper``; either may be infinite.
    size : int
        Number of draws, at least 1.
    source : Source
        Source of the randomness.

    Returns
    -------
    ndarray of float64, shape (size,)

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range.

    Notes
    -----
    Rejection after Robert (1995); each attempt is accepted with probability at least 0.49.
    """
    center = real_float("mean", mean)
    deviation = positive_float("scale", scale)
    low, high = (real_in(n, v, "[-inf, inf]") for n, v in (("lower", lower), ("upper", upper)))
    if not low < high:
        raise ValueError("lower must be below upper")
    out = np.empty(positive_int("size", size, maximum=_LARGEST_SIZE))
    stream = checked_source(source)
    with stream._drawing() as engine:
        _core.fill_truncated_normal(engine, center, deviation, low, high, out)
    return out


def coordinate_gibbs(
    precision: Any,
    mean: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    *,
    size: int,
    source: Source,
    sweeps: int = 1,
    start: Any = None,
) -> FloatArray:
    """Run a coordinate Gibbs chain on N(mean, precision^-1) conditioned on a box.

    Parameters
    ----------
    precision : array_like, shape (d, d)
        Symmetric and positive definite.
    mean : array_like, shape (d,)
        Finite.
    lower, upper : array_like, shape (d,)
        Walls of the box, ``lower < upper``; entries may be infinite.
    size : int
        Number of states to return, at least 1.
    source : Source
        Source of the randomness.
    sweeps : int, default 1
        Sweeps over all coordinates before each returned state.
    start : array_like, shape (d,), optional
        Finite starting point, clamped to the box; None for the mean, clamped.

    Returns
    -------
    ndarray of float64, shape (size, d)
        Successive states. They are dependent, and the truncated Gaussian is exactly invariant.

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range, or a precision that is not positive definite.

    Notes
    -----
    Every coordinate is drawn in turn from its conditional law, an exact truncated normal. O(d^2)
    per sweep. It is a chain and not an exact sampler: the distance of its law from the target is
    not bounded here.
    """
    center = _finite("mean", mean, (None,))
    d = center.shape[0]
    if d == 0:
        raise ValueError("mean must not be empty")
    matrix = _finite("precision", precision, (d, d))
    # The two halves may differ by rounding. The chain's law is invariant only if both are bitwise
    # equal, so the chain uses their mean.
    if not np.allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12 * float(np.abs(matrix).max())):
        raise ValueError("precision must be symmetric")
    try:
        # Raises unless the matrix is positive definite; the factor is not used.
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        raise ValueError("precision must be positive definite") from None
    low = float_array("lower", lower, (d,))
    high = float_array("upper", upper, (d,))
    if not (low < high).all():
        raise ValueError("lower must be below upper in every coordinate")
    first = center if start is None else _finite("start", start, (d,))
    out = np.empty((positive_int("size", size, maximum=_LARGEST_SIZE), d))
    # All arguments are checked before the first variate, so that an error does not advance the
    # source.
    count = positive_int("sweeps", sweeps)
    stream = checked_source(source)
    symmetric = np.ascontiguousarray(0.5 * (matrix + matrix.T))
    with stream._drawing() as engine:
        _core.fill_coordinate_gibbs(engine, symmetric, center, low, high, first, count, out)
    return out


class GibbsLaw:
    """A law with density proportional to exp(-beta (F(x) + lam ||x - c||^2 / 2)) on a domain.

    F is a sum of convex losses, one per record, and c the domain's centre.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        With an interior. On a simplex, the density is that on its hyperplane.
    loss : SquaredLoss, LogisticLoss, HuberLoss, LinearLoss, QuadraticLoss or CustomLoss
        Records beyond its bounds are clipped, as in a learner.
    records : array_like of shape (T, d), of shape (T, d, d), or a list of loss objects
        Features, gradients, matrices of a `QuadraticLoss`; or, for a `CustomLoss` without
        functions, objects with ``value(x)`` and ``gradient(x)``, which may be any subgradient at a
        kink.
    labels : array_like of shape (T,) or (T, d), optional
        Labels of a generalised linear loss, vectors of a `QuadraticLoss`.
    inverse_temperature : float, default 1
        beta > 0 (1/loss).
    regularization : float
        lam > 0 (loss/length^2), so that the law is strongly log-concave.

    Raises
    ------
    TypeError, ValueError
        For arguments of another type, shape or range.
    """

    def __init__(
        self,
        domain: Domain,
        loss: Loss,
        records: Any,
        labels: ArrayLike | None = None,
        *,
        inverse_temperature: float = 1.0,
        regularization: float,
    ) -> None:
        problem = euclidean_problem(_domain(domain), loss)
        self.domain, self.loss = domain, loss
        self.inverse_temperature = positive_float("inverse_temperature", inverse_temperature)
        self.regularization = positive_float("regularization", regularization)
        d = domain.dimension
        self._records: Any
        self._labels: FloatArray | None = None
        if isinstance(loss, CustomLoss):
            rows = records if loss.values is None else loss.rows(records)
            self._records = [loss.of_record(each) for each in rows]
        elif isinstance(loss, QuadraticLoss):
            self._records = float_array("records", records, (None, d, d))
            self._labels = float_array("labels", labels, (len(self._records), d))
        else:
            self._records = float_array("records", records, (None, d))
            if isinstance(loss, MarginLoss):
                self._labels = float_array("labels", labels, (len(self._records),))
        if labels is not None and self._labels is None:
            raise TypeError("this loss takes no labels")
        # A sum of T losses is at most T times as steep, for any records.
        self._lipschitz = problem.lipschitz * len(self._records)  # only for `ProximalSampler`

    def _sampler(self, **options: Any) -> _core.GibbsSampler:
        made = _core.GibbsSampler(
            self.domain._engine, self.loss._sum_settings(self.domain, False),
            self.inverse_temperature, self.regularization, **options,
        )  # fmt: skip
        if isinstance(self.loss, CustomLoss):
            for each in self._records:
                made.observe_loss(each)
        elif isinstance(self.loss, QuadraticLoss):
            assert self._labels is not None
            for matrix, vector in zip(self._records, self._labels, strict=True):
                made.observe_matrix(matrix, vector)
        elif self._labels is not None:
            made.observe_records(self._records, self._labels)
        else:
            made.observe_vectors(self._records)
        return made


class ExactSampler:
    """Independent draws from a Gibbs law, exact in real arithmetic.

    It uses truncated Gaussians for linear losses, adaptive rejection in one dimension, and
    otherwise rejection under a tangent or, if the losses have kinks, under a combination of
    tangents.

    Parameters
    ----------
    law : GibbsLaw
    source : Source
        Source of the randomness; the sampler takes it over.

    Notes
    -----
    The expected number of proposals is bounded by T, the losses' bounds and the dimension, but
    grows quickly with them: ``docs/privacy/gibbs_sampling.md``. In many dimensions use a chain.
    """

    _options: ClassVar[Fields] = {}  # for the compiled sampler: which chain it runs, if any
    # Every sampler has a different one, because the state of one chain means nothing to another.
    _magic: ClassVar[bytes] = b"dpoco exact 1\0"

    def __init__(self, law: GibbsLaw, source: Source) -> None:
        self._begin(law, source, {})

    def _begin(self, law: GibbsLaw, source: Source, options: Fields) -> None:
        if not isinstance(law, GibbsLaw):
            raise TypeError(f"law must be a GibbsLaw; got {type(law).__name__}")
        # Each sampler has one engine, which stores the state of its chain.
        self.law, self._source = law, checked_source(source)
        self._engine = law._sampler(**self._options, **options)

    @property
    def distance(self) -> float | None:
        """Proved bound on the total variation between a draw and the law; None if there is none."""
        return 0.0  # in real arithmetic, without rounding errors

    def draw(self, size: int = 1) -> FloatArray:
        """Return independent draws, shape (size, d)."""
        out = np.empty(
            (positive_int("size", size, maximum=_LARGEST_SIZE), self.law.domain.dimension)
        )
        with self._source._drawing() as engine:
            self._engine.fill(engine, out)
        return out

    def to_bytes(self) -> bytes:
        """Return the source and the state of the chain, which are secret. See `from_bytes`."""
        position, size = self._engine.state()
        numbers = struct.pack(f"<Qd{len(position)}d", len(position), size, *position)
        return self._magic + numbers + self._source.to_bytes()

    @classmethod
    def from_bytes(cls, state: bytes, law: GibbsLaw, **options: Any) -> Self:
        """Continue a sampler of the same law and options, bit for bit.

        Do not use the original any more, because both would draw the same values.

        Raises
        ------
        StateError
            If `state` is not the result of `to_bytes`.
        """
        # Magic, length of the position, step size, position; then the source, to the end.
        head, rest = state[: len(cls._magic)], state[len(cls._magic) :]
        try:
            count, size = struct.unpack_from("<Qd", rest)
            # The count may be damaged, so the format is limited to the length of the data.
            position = list(struct.unpack_from(f"<{min(count, len(rest))}d", rest, 16))
        except struct.error:
            raise StateError("not the state of a sampler") from None
        if head != cls._magic or not np.isfinite([size, *position]).all():
            raise StateError("not the state of a sampler")
        made = cls(law, Source.from_bytes(rest[16 + 8 * count :]), **options)
        made._engine.set_state(position, size)
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeError("a sampler holds a source: use to_bytes and from_bytes")


class _Chain(ExactSampler):
    """A Markov chain, for draws that start again each time or for successive states."""

    def __init__(self, law: GibbsLaw, source: Source, *, tolerance: float = 1e-6) -> None:
        self.tolerance = real_float("tolerance", tolerance)
        self._begin(law, source, {"tolerance": self.tolerance, "exact_only": False})

    @property
    def steps(self) -> int:
        """Number of steps of one draw: a function of public numbers."""
        return self._engine.chain_steps()

    @property
    def distance(self) -> float | None:
        """None: the chain converges to the law, but no distance is proved."""
        return None

    def walk(self, size: int, steps: int = 1) -> FloatArray:
        """Return successive states, `steps` apart, shape (size, d), continuing the last walk.

        The states are dependent; their law approaches the target with every step.
        """
        count = positive_int("size", size, maximum=_LARGEST_SIZE)
        out = np.empty((count, self.law.domain.dimension))
        apart = positive_int("steps", steps)
        with self._source._drawing() as engine:
            self._engine.walk(engine, apart, out)
        return out


class HitAndRun(_Chain):
    """Hit-and-run: a random direction in whitened coordinates, an exact draw on the chord.

    Values and subgradients are sufficient. The law is invariant. `steps` is more than enough for a
    Gaussian law; for other laws the distance after them is not proved (`distance` is None).

    Parameters
    ----------
    law : GibbsLaw
    source : Source
        Source of the randomness; the sampler takes it over.
    tolerance : float, default 1e-6
        In (0, 1): the desired total variation, which determines `steps`.
    """

    _options: ClassVar[Fields] = {"chain": "hit_and_run"}
    _magic: ClassVar[bytes] = b"dpoco hit-and-run 1\0"


class MetropolisLangevin(_Chain):
    """Metropolis-adjusted Langevin (MALA) in whitened coordinates, kept within the set.

    Steps out of the set are refused. 300 steps of warm-up set the step size, which is then frozen,
    so the law is invariant. It is for differentiable losses; with kinks the law remains invariant
    and acceptance falls. The distance after `steps` is not proved (`distance` is None).

    Parameters
    ----------
    law : GibbsLaw
    source : Source
        Source of the randomness; the sampler takes it over.
    tolerance : float, default 1e-6
        In (0, 1): the desired total variation, which determines `steps`.
    """

    _options: ClassVar[Fields] = {"chain": "langevin"}
    _magic: ClassVar[bytes] = b"dpoco langevin 1\0"


class ProximalSampler(_Chain):
    """The proximal sampler, whose distance to the law is proved, even with kinks and walls.

    A step adds a normal variate and draws exactly from the law given the sum. A draw is within
    total variation `tolerance` of the law after `steps`, about 8 n (g T)^2 (1 + lam R / (G T))
    log(...) with g T = G T sqrt(beta/lam), for losses that are convex and G-Lipschitz: enforced by
    clipping, or declared (`CustomLoss`).

    Parameters
    ----------
    law : GibbsLaw
    source : Source
        Source of the randomness; the sampler takes it over.
    tolerance : float, default 1e-6
        In (0, 1): the proved bound on the total variation between a draw and the law.

    Notes
    -----
    At most 3.5 evaluations of the losses per step on average. Proof:
    ``docs/privacy/gibbs_sampling.md``.
    """

    _options: ClassVar[Fields] = {"chain": "proximal"}
    _magic: ClassVar[bytes] = b"dpoco proximal 1\0"

    def _begin(self, law: GibbsLaw, source: Source, options: Fields) -> None:
        # Without losses, the law is that of the start.
        lipschitz = law._lipschitz or 1e-100
        super()._begin(law, source, {**options, "lipschitz": lipschitz})

    @property
    def distance(self) -> float | None:
        """Proved bound on the total variation between a draw and the law: `tolerance`."""
        return self.tolerance
