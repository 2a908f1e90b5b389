"""The batch baselines: descent with noise at every step, once a phase or on means; Frank-Wolfe."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from dpoco import _core, domains, losses
from dpoco import _literals as literals
from dpoco._validation import FloatArray
from dpoco.accounting import (
    Budget,
    localized_mirror_descent,
    noisy_frank_wolfe,
    noisy_sgd,
    phased_sgd,
    sufficient_statistics,
)
from dpoco.accounting.localized_mirror_descent import LocalizedMirrorDescentParameters
from dpoco.accounting.noisy_frank_wolfe import NoisyFrankWolfeParameters
from dpoco.accounting.noisy_sgd import NoisySGDParameters
from dpoco.accounting.phased_sgd import PhasedSGDParameters
from dpoco.accounting.release import DEFAULT_NUMERICS
from dpoco.accounting.sufficient_statistics import SufficientStatisticsParameters
from dpoco.frank_wolfe._batch_base import BatchLearner
from dpoco.mechanisms import clipper_of
from dpoco.privacy.mechanisms.batch_fits import (
    GaussianPhases,
    IteratePhase,
    SampledGaussian,
    SummedPhase,
)
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

_LONGEST_DESCENT = 10_000


class NoisySGD(BatchLearner):
    """Private stochastic gradient descent on a whole data set, with noise at every step.

    K times: draw a record uniformly with replacement, take its gradient, add Gaussian noise, make a
    step, project onto the domain. The average of all iterates is released. The budget suffices for
    K = n^2 steps because the draws are secret.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss or HuberLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    budget : Budget or None
        The target guarantee of one fit; None: no privacy. This and all following arguments are
        keyword-only.
    parameters : NoisySGDParameters, optional
        Parameters to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` if you pass one.
    records : int, optional
        Number of records n, if known beforehand. The guarantee is then known, too, and `fit` takes
        exactly this many. None (default): whatever `fit` is given; n counts as public.
    calibration : {"tight", "paper"}
        "tight" (default): numerical composition of the sampled Gaussian mechanism. "paper":
        sigma^2 = 8 L^2 ln(1/delta) / epsilon^2 with n^2 steps, which spends about 0.7 of epsilon.
    steps : int, optional
        K; default n^2, and for "tight" at most 10^7 or ten passes.
    step_scale : float, default 1.0
        Factor on the step size; it affects neither privacy nor noise.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of releases: exact integers with noise of exactly the right distribution, or
        doubles, whose rounding is not part of the guarantee. "auto" (default): integers if they
        cost next to nothing.
    start : array_like of shape (d,), optional
        Public first iterate; default the domain's centre.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness for draws and noise; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Time O(K d), O(K d log d) for projections that sort. Proof: ``docs/privacy/batch_baselines.md``
    (after Bassily, Feldman, Guzman and Talwar, as run by Han et al., section 5).

    Examples
    --------
    >>> import dpoco
    >>> stream = dpoco.datasets.linear_regression_stream(300, 2, seed=1)
    >>> model = dpoco.frank_wolfe.NoisySGD(
    ...     dpoco.domains.LpBall(2), dpoco.losses.SquaredLoss(1.0, 1.0), steps=10_000,
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-4)).fit(stream.features, stream.labels)
    >>> model.predict(stream.features[:5]).shape
    (5,)
    """

    parameters: NoisySGDParameters
    _method = "noisy_sgd"
    _accountant: ClassVar[ModuleType] = noisy_sgd

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.GlmLoss,
        *,
        budget: Budget | None,
        parameters: NoisySGDParameters | None = None,
        records: int | None = None,
        calibration: literals.PaperOrTight = "tight",
        steps: int | None = None,
        step_scale: float = 1.0,
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        start: Any = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(
            NoisySGD, domain=domain, loss=loss, budget=budget, parameters=parameters,
            records=records, calibration=calibration, steps=steps, step_scale=step_scale,
            numerics=numerics, start=start, on_violation=on_violation, source=source,
        )  # fmt: skip

    def _settings(self) -> dict[str, Any]:
        m: SampledGaussian = self._mechanism
        return {
            "records": m.records,
            "bound": m.bound,
            "steps": m.steps,
            "step_size": self.parameters.step_size,
            "noise_scale": m.scale,
            "grid": m.grid,
        }


class PhasedSGD(BatchLearner):
    """Private stochastic gradient descent in phases, with noise once per phase.

    Phase i walks once over n/2^i fresh records with step size 4^-i eta and releases its average
    iterate with noise; the next phase starts there. Every record is used once, in linear time.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set.
    loss : SquaredLoss, LogisticLoss or HuberLoss
        The family of losses and the public bounds of its data, enforced by clipping. Derivatives
        are clipped, not gradients: the loss stays convex and smooth, which the guarantee needs.
    budget : Budget or None
        The target guarantee of one fit; None: no privacy. This and all following arguments are
        keyword-only.
    parameters : PhasedSGDParameters, optional
        Parameters to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` if you pass one. Steps beyond 2 / smoothness are refused.
    records : int, optional
        Number of records n, if known beforehand. The guarantee is then known, too, and `fit` takes
        exactly this many. None (default): whatever `fit` is given; n counts as public.
    calibration : {"tight", "paper"}
        "tight" (default): exact Gaussian accounting. "paper": sigma_i = 4 L eta_i / rho with rho =
        epsilon / (2 sqrt(ln(1/delta))), about 2.8 times the noise.
    step_scale : float, default 1.0
        Factor on the step size. The noise is proportional to it.
    start : array_like of shape (d,), optional
        Public first iterate; default the domain's centre.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Time O(n d), O(n d log d) for projections that sort. Proof: ``docs/privacy/batch_baselines.md``
    (after Feldman, Koren and Talwar, "Private stochastic convex optimization: optimal rates in
    linear time").

    Examples
    --------
    >>> import dpoco
    >>> stream = dpoco.datasets.linear_regression_stream(2000, 3, seed=1)
    >>> learner = dpoco.frank_wolfe.PhasedSGD(
    ...     dpoco.domains.LpBall(3), dpoco.losses.SquaredLoss(1.0, 1.0), records=2000,
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-5))
    >>> round(learner.guarantee.epsilon, 6)
    1.0
    >>> learner.fit(stream.features, stream.labels).theta.shape
    (3,)
    """

    parameters: PhasedSGDParameters
    _method = "phased_sgd"
    _accountant: ClassVar[ModuleType] = phased_sgd

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.GlmLoss,
        *,
        budget: Budget | None,
        parameters: PhasedSGDParameters | None = None,
        records: int | None = None,
        calibration: literals.PaperOrTight = "tight",
        step_scale: float = 1.0,
        start: Any = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(
            PhasedSGD, domain=domain, loss=loss, budget=budget, parameters=parameters,
            records=records, calibration=calibration, step_scale=step_scale, start=start,
            on_violation=on_violation, source=source,
        )  # fmt: skip

    def _settings(self) -> dict[str, Any]:
        m: GaussianPhases = self._mechanism
        walks = [phase for phase in m.phases if isinstance(phase, IteratePhase)]
        return {
            "bound": min(walk.lipschitz for walk in walks),
            "smoothness": min(walk.smoothness for walk in walks),
            "radius": min(walk.radius for walk in walks),
            "phases": [(walk.records, walk.step, walk.scale) for walk in walks],
            "grids": [walk.grid for walk in walks],
        }


class LocalizedMirrorDescent(BatchLearner):
    """Private mirror descent in phases, each in a smaller ball around the previous model.

    Phase i takes `steps` mirror steps on the noisy mean gradient of n/2^i fresh records, with a
    regulariser that keeps it near its start. This is a baseline for reference. The published
    constants do not converge (Han et al. report so for every learning rate tried). The constants
    here are our own, and no rate is claimed for them.

    Parameters
    ----------
    domain : LpBall
        With 1 < p <= 2.
    loss : SquaredLoss, LogisticLoss or HuberLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    budget : Budget or None
        The target guarantee of one fit; None: no privacy. This and all following arguments are
        keyword-only.
    parameters : LocalizedMirrorDescentParameters, optional
        Parameters to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` if you pass one.
    records : int, optional
        Number of records n, if known beforehand. The guarantee is then known, too, and `fit` takes
        exactly this many. None (default): whatever `fit` is given; n counts as public.
    calibration : {"tight"}
        Exact Gaussian accounting, the only calibration.
    steps : int, default 100
        Mirror steps per phase. The noise grows with its square root and averages out again.
    step_scale : float, default 1.0
        Factor on the step size, which sets how far a phase may go.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of releases: exact integers with noise of exactly the right distribution, or
        doubles, whose rounding is not part of the guarantee. "auto" (default): integers if they
        cost next to nothing.
    start : array_like of shape (d,), optional
        Public first iterate; default the domain's centre.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments, including other domains.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Time O(n d steps). Proof: ``docs/privacy/batch_baselines.md`` (after Asi, Feldman, Koren and
    Talwar, "Private stochastic convex optimization: optimal rates in l1 geometry").

    Examples
    --------
    >>> import dpoco
    >>> stream = dpoco.datasets.linear_regression_stream(2000, 3, 1.5, seed=1)
    >>> model = dpoco.frank_wolfe.LocalizedMirrorDescent(
    ...     dpoco.domains.LpBall(3, 1.5), dpoco.losses.SquaredLoss(1.0, 1.0),
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-5)).fit(stream.features, stream.labels)
    >>> model.domain.contains(model.theta)
    True
    """

    parameters: LocalizedMirrorDescentParameters
    _method = "localized_mirror_descent"
    _accountant: ClassVar[ModuleType] = localized_mirror_descent

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.GlmLoss,
        *,
        budget: Budget | None,
        parameters: LocalizedMirrorDescentParameters | None = None,
        records: int | None = None,
        calibration: literals.Tight = "tight",
        steps: int = 100,
        step_scale: float = 1.0,
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        start: Any = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(
            LocalizedMirrorDescent, domain=domain, loss=loss, budget=budget, parameters=parameters,
            records=records, calibration=calibration, steps=steps, step_scale=step_scale,
            numerics=numerics, start=start, on_violation=on_violation, source=source,
        )  # fmt: skip

    def _settings(self) -> dict[str, Any]:
        p = self.parameters
        m: GaussianPhases = self._mechanism
        ball = self._domain
        assert isinstance(ball, domains.LpBall)
        tunings = p.regularisers(ball, self._loss)
        return {
            "bound": min(phase.bound for phase in m.phases if isinstance(phase, SummedPhase)),
            "phases": [
                (phase.records, *tuning, phase.scale)
                for phase, tuning in zip(m.phases, tunings, strict=True)
            ],
            "grids": [phase.grid for phase in m.phases],
            "p": ball.p,
            "radius": ball.radius,
            "steps": max(phase.releases for phase in m.phases),
        }


class NoisyFrankWolfe(BatchLearner):
    """Private stochastic Frank-Wolfe on a whole data set: a baseline for `TreeFrankWolfe`.

    Half of the records give the first gradient estimate. Each of about sqrt(n) steps then adds the
    mean change of the gradients of sqrt(n)/2 fresh records. Every record is used once, so the model
    costs only one Gaussian mechanism. This is not a stream: the data are all there at once, and one
    model is released.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set; any geometry.
    loss : SquaredLoss, LogisticLoss or HuberLoss
        The family of losses and the public bounds of its data, enforced by clipping.
    budget : Budget or None
        The target guarantee of one fit; None: no privacy. This and all following arguments are
        keyword-only.
    parameters : NoisyFrankWolfeParameters, optional
        Parameters to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` if you pass one.
    records : int, optional
        Number of records n, if known beforehand. The guarantee is then known, too, and `fit` takes
        exactly this many. None (default): whatever `fit` is given; n counts as public.
    calibration : {"tight", "paper"}
        "tight" (default): exact Gaussian accounting. "paper": sigma = s sqrt(2 ln(1/delta)) /
        epsilon, Lemma 2.1 of Han et al.; `CalibrationError` where that lemma is false.
    step_scale : float, optional
        Factor on the published step size ln(n) / (2 sqrt(n)). It does not affect privacy, but
        smaller steps need less noise. Default 0.1, without noise 1: with noise, published steps
        diverge at a budget of epsilon = 1.
    numerics : {"auto", "float", "lattice"}
        Arithmetic of releases: exact integers with noise of exactly the right distribution, or
        doubles, whose rounding is not part of the guarantee. "auto" (default): integers if they
        cost next to nothing.
    start : array_like of shape (d,), optional
        Public first decision; default the domain's centre.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Time O(n d). Proof: ``docs/privacy/batch_baselines.md`` (after Bassily, Guzman and Nandi, as run
    by Han et al., section 5).

    Examples
    --------
    >>> import dpoco
    >>> stream = dpoco.datasets.linear_regression_stream(2000, 3, 1.5, seed=1)
    >>> model = dpoco.frank_wolfe.NoisyFrankWolfe(
    ...     dpoco.domains.LpBall(3, 1.5, 2.0), dpoco.losses.SquaredLoss(1.0, 1.25),
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-5)).fit(stream.features, stream.labels)
    >>> model.theta.shape, model.guarantee.certified
    ((3,), True)
    """

    parameters: NoisyFrankWolfeParameters
    _method = "noisy_frank_wolfe"
    _accountant: ClassVar[ModuleType] = noisy_frank_wolfe

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.GlmLoss,
        *,
        budget: Budget | None,
        parameters: NoisyFrankWolfeParameters | None = None,
        records: int | None = None,
        calibration: literals.PaperOrTight = "tight",
        step_scale: float | None = None,
        numerics: literals.Numerics = DEFAULT_NUMERICS,
        start: Any = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(
            NoisyFrankWolfe, domain=domain, loss=loss, budget=budget, parameters=parameters,
            records=records, calibration=calibration, step_scale=step_scale, numerics=numerics,
            start=start, on_violation=on_violation, source=source,
        )  # fmt: skip

    def _settings(self) -> dict[str, Any]:
        p = self.parameters
        m: GaussianPhases = self._mechanism
        first, *rest = (phase for phase in m.phases if isinstance(phase, SummedPhase))
        later = rest[0] if rest else first
        return {
            "bound": first.bound,
            "first_batch": first.records,
            "first_scale": first.scale,
            "first_grid": first.grid,
            "steps": 1 + sum(phase.copies for phase in rest),
            "step_size": p.step_size,
            "difference_bound": p.difference_bound,
            "later_bound": later.bound if rest else np.inf,
            "batch": later.records,
            "later_scale": later.scale,
            "later_grid": later.grid,
        }


class SufficientStatistics(BatchLearner):
    """Ridge regression on the second moments of a whole data set, released once with noise.

    A squared loss needs only the sums of x x' and y x of n records. They get Gaussian noise once.
    The model is the least-squares solution in the domain; eigenvalues that the noise made negative
    are cut off, and a ridge is added at the edge of the noise's spectrum. For squared losses in a
    few dimensions this is usually far better than descent with noise at every step.

    Parameters
    ----------
    domain : LpBall, Box, Simplex or Polytope
        The decision set, of dimension d up to 4096.
    loss : SquaredLoss
        The public bounds of the data, enforced by clipping.
    budget : Budget or None
        The target guarantee of one fit; None: no privacy. This and all following arguments are
        keyword-only.
    parameters : SufficientStatisticsParameters, optional
        Parameters to use instead of calibration; the guarantee is computed from them. They must
        agree with `budget` if you pass one.
    records : int, optional
        Number of records n, if known beforehand. The guarantee is then known, too, and `fit` takes
        exactly this many. None (default): whatever `fit` is given; n counts as public.
    calibration : {"tight"}
        Exact Gaussian accounting.
    on_violation : {"clip", "raise"}
        "clip" (default): silently clip records beyond the bounds and count non-finite ones as zero.
        "raise": raise an error instead; only for trusted experiments, since the error depends on
        the data.
    source : Source, optional
        Source of randomness; None: the operating system.

    Raises
    ------
    ValueError, TypeError
        For bad arguments, and for losses that are not squared.
    CalibrationError
        If no noise scale meets the budget.
    BudgetExceeded
        If `parameters` give less than `budget` asks for.

    Notes
    -----
    Time O(n d^2 + d^3), memory O(d^2) beside the data. Noise does not grow with n: the excess risk
    falls as 1/n^2 once n exceeds d times the noise scale.
    Proof: ``docs/privacy/batch_baselines.md``.

    Examples
    --------
    >>> import dpoco
    >>> stream = dpoco.datasets.linear_regression_stream(20_000, 3, seed=1)
    >>> model = dpoco.frank_wolfe.SufficientStatistics(
    ...     dpoco.domains.LpBall(3), dpoco.losses.SquaredLoss(1.0, 1.0),
    ...     budget=dpoco.Budget(epsilon=1.0, delta=1e-6)).fit(stream.features, stream.labels)
    >>> model.theta.shape
    (3,)
    """

    parameters: SufficientStatisticsParameters
    _method = "sufficient_statistics"
    _accountant: ClassVar[ModuleType] = sufficient_statistics

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.GlmLoss,
        *,
        budget: Budget | None,
        parameters: SufficientStatisticsParameters | None = None,
        records: int | None = None,
        calibration: literals.Tight = "tight",
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        self._begin(
            SufficientStatistics, domain=domain, loss=loss, budget=budget, parameters=parameters,
            records=records, calibration=calibration, on_violation=on_violation, source=source,
        )  # fmt: skip

    def _clipper(self) -> _core.RecordClipper:
        return clipper_of(self._mechanism.summand)

    def _settings(self) -> dict[str, Any]:
        m: GaussianSum = self._mechanism
        moments = m.summand
        assert isinstance(moments, SecondMoments)
        if (m.order, m.grid, m.limit) != (2.0, 0.0, 0):
            raise ValueError("the compiled sum has Gaussian noise, in doubles")
        return {
            "records": m.batch * m.pushes,
            "size": moments.size,
            "label": moments.label,
            "weight": moments.weight,
            "noise_scale": m.scale,
        }

    def _model(self, released: FloatArray) -> FloatArray:
        """Return the minimiser of x'Ax - 2 b'x in the domain, with A of eigenvalues above 0."""
        d, m = self._domain.dimension, self._mechanism
        upper = np.triu_indices(d)
        matrix = np.zeros((d, d))
        matrix[upper] = released[:-d] * np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5))
        values, vectors = np.linalg.eigh(matrix, UPLO="U")
        # The spectral norm of the noise is about sqrt(2 d) scales.
        ridge = max(math.sqrt(2.0 * d) * m.scale, 1e-9 * m.batch * m.summand.features**2 / d)
        values = np.maximum(values, 0.0) + ridge
        linear = released[-d:] / m.summand.weight + ridge * self._start
        theta = vectors @ (vectors.T @ linear / values)
        found: FloatArray = np.array(self._domain.project(theta))
        if np.array_equal(found, theta):
            return found
        # Accelerated projected gradients, started afresh where momentum points uphill.
        momentum, time = found, 1.0
        for _ in range(_LONGEST_DESCENT):
            gradient = vectors @ (values * (vectors.T @ momentum)) - linear
            after = np.array(self._domain.project(momentum - gradient / values[-1]))
            if np.abs(after - momentum).max() <= 1e-14 * (1.0 + np.abs(after).max()):
                return after
            if (momentum - after) @ (after - found) > 0.0:
                time = 1.0
            later = 0.5 + math.sqrt(0.25 + time * time)
            momentum = after + (time - 1.0) / later * (after - found)
            found, time = after, later
        return found
