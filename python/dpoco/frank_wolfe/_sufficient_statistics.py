"""Ridge regression on the noisy second moments of a whole data set: a fit without a stream."""

from __future__ import annotations

import math
import threading
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dpoco import _core, domains, losses
from dpoco import _literals as literals
from dpoco._validation import Fields, FloatArray, float_array, positive_int
from dpoco.accounting import Budget, Guarantee, sufficient_statistics
from dpoco.accounting.sufficient_statistics import FitPlan
from dpoco.errors import BudgetExceeded, RoundOrderError
from dpoco.learning.calibrated import Calibrated, explain_errors
from dpoco.learning.learner import Progress
from dpoco.privacy.mechanisms.bounds import SecondMoments
from dpoco.privacy.mechanisms.gaussian_sum import GaussianSum
from dpoco.random import Source

Self = TypeVar("Self", bound="SufficientStatistics")

_LONGEST_DESCENT = 10_000
# Entries of the sum per compiled call; Ctrl-C is handled between calls.
_CHUNK_ENTRIES = 2**21

# Only one thread may start the single fit. A lock in each learner could not be pickled.
_STARTING = threading.Lock()


class SufficientStatistics(Calibrated):
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
    plan : Plan, optional
        Plan to use instead of calibration; the guarantee is computed from it. It must
        agree with `budget` if you pass one.
    records : int, optional
        Number of records n, if known beforehand. Then the guarantee is also known, and `fit` takes
        exactly this many. None (default): whatever `fit` is given; n counts as public.
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
        If `plan` gives less privacy than `budget` asks for.

    Notes
    -----
    Time O(n d^2 + d^3), memory O(d^2) next to the data. Noise does not grow with n: the excess risk
    falls as 1/n^2 once n exceeds d times the noise scale.
    Proof: ``docs/privacy/sufficient_statistics.md``.

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

    _plan: FitPlan | None = None
    _mechanism: Any = None
    _guarantee: Guarantee | None = None
    _theta: FloatArray | None = None
    _released: FloatArray | None = None
    _fitted: bool = False

    def __init__(
        self,
        domain: domains.Domain,
        loss: losses.MarginLoss,
        *,
        budget: Budget | None,
        plan: FitPlan | None = None,
        records: int | None = None,
        on_violation: literals.Violation = "clip",
        source: Source | None = None,
    ) -> None:
        if not isinstance(domain, domains.Domain):
            raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
        if not isinstance(loss, losses.MarginLoss):
            raise TypeError(
                "loss must be a squared, logistic or Huber loss of dpoco.losses; got "
                f"{type(loss).__name__}"
            )
        given: Fields = {
            "domain": domain, "loss": loss, "budget": budget, "plan": plan, "records": records,
            "on_violation": on_violation, "source": source,
        }  # fmt: skip
        self._check_common(given)
        self._domain: domains.Domain = domain
        self._loss: losses.MarginLoss = loss
        self._source: Source | None = source
        self._is_seeded = source is not None and source.is_seeded
        self._arguments = given
        if plan is not None:
            self._check_fixed(plan, given)
            self._settle(plan)
            return
        if records is not None:
            records = positive_int("records", records)
        if budget is not None:
            budget.require_delta()
            budget.doubt(records, stacklevel=2)
        # Bad options are refused now, even if the number of records is not yet known.
        self._calibrate(1000, None)
        if records is not None:
            self._settle(self._calibrate(records, budget), stacklevel=4)

    @staticmethod
    def _plan_arguments(plan: FitPlan) -> Fields:
        total = plan.mechanism
        if not isinstance(total, GaussianSum) or not isinstance(total.summand, SecondMoments):
            raise TypeError("plan must be a plan for SufficientStatistics")
        return {"records": total.batch}

    def _calibrate(self, records: int, budget: Budget | None) -> FitPlan:
        """Return the plan for this number of records."""
        problem: tuple[Any, Any] = self._domain, self._loss
        with explain_errors(type(self)):
            return sufficient_statistics.calibrate(*problem, records=records, budget=budget)

    def _certify(self, plan: FitPlan, seeded: bool = False) -> Guarantee:
        """Return the guarantee of a plan's mechanism."""
        problem: tuple[Any, Any] = self._domain, self._loss
        budget = self._arguments["budget"]
        return sufficient_statistics.guarantee(*problem, plan, budget=budget, seeded=seeded)

    def _settle(self, plan: FitPlan, stacklevel: int = 5) -> None:
        """Certify a plan, check it against the budget, and store it."""
        budget, guarantee = self._arguments["budget"], self._certify(plan, self._is_seeded)
        if budget is not None:
            guarantee.require(budget)
        self._check_described(guarantee, plan.mechanism)
        self._plan, self._mechanism, self._guarantee = plan, plan.mechanism, guarantee
        self._warn_unspent(self._arguments, stacklevel=stacklevel)

    def fit(self: Self, X: ArrayLike, y: ArrayLike, *, progress: Progress | None = None) -> Self:
        """Fit the model to a data set, once.

        Parameters
        ----------
        X : array_like of shape (n, d)
            One record per row. The number of rows n counts as public.
        y : array_like of shape (n,)
            Labels.
        progress : callable, optional
            Called as ``progress(done, total)``, in records, between chunks of work.

        Returns
        -------
        self
            The fitted learner: a released value, with `theta` and `predict`.

        Raises
        ------
        BudgetExceeded
            If the learner has been fitted already, since a second fit is a second release. `clone`
            makes another learner with its own budget.
        ValueError, TypeError
            For a wrong shape or dtype; nothing is drawn or released. With ``on_violation="raise"``
            also for records beyond the bounds.
        CalibrationError
            If no noise meets the budget for n records.

        Notes
        -----
        Records beyond the bounds are silently clipped, and non-finite ones count as zero. The
        interpreter lock is released. A fit that is interrupted (Ctrl-C) releases nothing and may be
        repeated. Time: see the class.
        """
        d = self._domain.dimension
        features = float_array("X", X, (None, d))
        labels = float_array("y", y, (features.shape[0],))
        if features.shape[0] < 1:
            raise ValueError("X must have at least one row")
        with _STARTING:
            if self._fitted:
                raise BudgetExceeded(
                    "the model has been fitted: a second fit is a second release; use clone()"
                )
            # The flag is set before the long run, so that a second thread cannot start another
            # release.
            self._fitted = True
        # Without `records` the plan depends on the size of this data set, and a failed fit must not
        # keep it.
        before = self._plan, self._guarantee, self._mechanism
        try:
            self._theta = self._run(features, labels, progress)
        except BaseException:
            self._plan, self._guarantee, self._mechanism = before
            # The fit failed, and nothing was released.
            self._fitted = False
            raise
        # A fitted model needs no randomness.
        self._source = None
        self._arguments = {**self._arguments, "source": None}
        return self

    def _run(
        self, features: FloatArray, labels: FloatArray, progress: Progress | None
    ) -> FloatArray:
        n, d = features.shape
        if self._plan is None:
            # The number of records is public, so that noise may depend on it.
            self._settle(self._calibrate(n, self._arguments["budget"]))
        elif self._mechanism.batch != n:
            raise ValueError(f"X must have {self._mechanism.batch} rows; got {n}")
        if self._arguments["on_violation"] == "raise":
            # This check precedes the engine, since an error that depends on data must not follow a
            # draw.
            row = self._loss._first_violation(self._domain, features, labels)
            if row is not None:
                raise ValueError(f"record {row} is outside the declared bounds or not finite")
        engine = self._engine()
        chunk = max(1, _CHUNK_ENTRIES // max(16, d * d))
        for first in range(0, n, chunk):
            part = slice(first, first + chunk)
            engine.add(features[part], labels[part])
            if progress is not None:
                progress(min(first + chunk, n), n)
        # Kept for `covariance`: it was released under the same guarantee as the model.
        self._released = engine.release()
        theta = self._model(self._released)
        theta.flags.writeable = False
        return theta

    def _engine(self) -> _core.SufficientStatistics:
        """Return an empty compiled sum on a stream of the source that no other object gets."""
        claim = (Source() if self._source is None else self._source)._claim()
        return _core.SufficientStatistics(self._loss._glm_engine, self._mechanism, claim)

    def _model(self, released: FloatArray) -> FloatArray:
        """Return the minimiser of x'Ax - 2 b'x in the domain, with A of eigenvalues above 0."""
        d = self._domain.dimension
        values, vectors = self._moments(released)
        linear = released[-d:] / self._mechanism.summand.weight + self._ridge * self._domain.center
        theta = vectors @ (vectors.T @ linear / values)
        found: FloatArray = np.array(self._domain.project(theta))
        # Then the minimiser over R^d lies in the domain.
        if np.array_equal(found, theta):
            return found
        # Accelerated projected gradient descent, restarted when the momentum points uphill.
        momentum, time = found, 1.0
        for _ in range(_LONGEST_DESCENT):
            # The step is 1 over the largest eigenvalue, the Lipschitz constant of this gradient.
            gradient = vectors @ (values * (vectors.T @ momentum)) - linear
            after = np.array(self._domain.project(momentum - gradient / values[-1]))
            if np.abs(after - momentum).max() <= 1e-14 * (1.0 + np.abs(after).max()):
                return after
            if (momentum - after) @ (after - found) > 0.0:
                time = 1.0
            # Nesterov's sequence.
            later = 0.5 + math.sqrt(0.25 + time * time)
            momentum = after + (time - 1.0) / later * (after - found)
            found, time = after, later
        return found

    @property
    def _ridge(self) -> float:
        """Ridge of the eigenvalues: the spectral norm of noise is about sqrt(2 d) scales."""
        d, m = self._domain.dimension, self._mechanism
        # The second term keeps moments without noise invertible.
        return float(max(math.sqrt(2.0 * d) * m.scale, 1e-9 * m.batch * m.summand.features**2 / d))

    def _moments(self, released: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return eigenvalues above 0 and eigenvectors of the released moments with their ridge."""
        d = self._domain.dimension
        upper = np.triu_indices(d)
        matrix = np.zeros((d, d))
        # Released off-diagonal entries are multiplied by sqrt(2), so that the norm of the released
        # vector is the Frobenius norm of the matrix.
        matrix[upper] = released[:-d] * np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5))
        values, vectors = np.linalg.eigh(matrix, UPLO="U")
        return np.maximum(values, 0.0) + self._ridge, vectors

    def clone(self: Self, *, source: Source | None = None) -> Self:
        """Return an unfitted learner with the same arguments; its fit is another release.

        Parameters
        ----------
        source : Source, optional
            Source of randomness of the new learner; None: the operating system.

        Notes
        -----
        Two fits to the same data compose: their budgets add up.
        """
        return type(self)(**{**self._arguments, "source": source})

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the margins ``<theta, x>`` of records, shape (T,): predictions of a regression.

        For a logistic loss these are log-odds. This is post-processing of `theta`, so it costs no
        privacy if X is not private.

        Parameters
        ----------
        X : array_like of shape (T, d)
            Records as they are, without clipping.
        """
        margins: FloatArray = float_array("X", X, (None, self._domain.dimension)) @ self.theta
        return margins

    @property
    def theta(self) -> FloatArray:
        """The fitted model, shape (d,), in the domain, read-only.

        Raises
        ------
        RoundOrderError
            Before `fit`.
        """
        if self._theta is None:
            raise RoundOrderError("fit() comes first")
        return self._theta

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the noise in `theta`, shape (d, d), in its squared units; publishable.

        It is computed from the release and the distribution of its noise, to first order (delta
        method): ``docs/privacy/sufficient_statistics.md``. It leaves out the variation between
        samples of records, and the bias of the ridge towards the domain's centre. It is the
        covariance before projection onto the domain, and too small if the noise is as large as the
        moments of the records. O(d^3).

        Raises
        ------
        RoundOrderError
            Before `fit`.
        """
        theta = self.theta
        assert self._released is not None
        values, vectors = self._moments(self._released)
        inverse = (vectors / values) @ vectors.T
        scale, weight = self._mechanism.scale, self._mechanism.summand.weight
        # This is the covariance of E theta - e, where E is symmetric with standard deviations s on
        # the diagonal and s / sqrt(2) off it.
        own = (1.0 / weight**2 + 0.5 * theta @ theta) * np.eye(len(theta))
        noise = scale**2 * (own + 0.5 * np.outer(theta, theta))
        return np.asarray(inverse @ noise @ inverse)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the single fit; known beforehand if the number of records is known."""
        if self._guarantee is None:
            raise RoundOrderError("fit() comes first, or the number of `records`")
        return self._guarantee

    @property
    def plan(self) -> Any:
        """The plan; known before the fit if the number of records is known."""
        if self._plan is None:
            raise RoundOrderError("fit() comes first, or the number of `records`")
        return self._plan

    @property
    def domain(self) -> domains.Domain:
        """The decision set."""
        return self._domain

    @property
    def loss(self) -> losses.MarginLoss:
        """The loss family with its public bounds."""
        return self._loss

    def __repr__(self) -> str:
        # The text has parameters and the guarantee, which do not depend on data.
        arguments = ", ".join(
            f"{name}={value!r}"
            for name, value in self._arguments.items()
            if name != "source" and (value is not None or name == "budget")
        )
        known = "" if self._guarantee is None else f"\n  {self._guarantee!r}"
        return f"{type(self).__name__}({arguments}){known}"
