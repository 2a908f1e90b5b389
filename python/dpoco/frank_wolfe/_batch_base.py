"""What the batch baselines share: one private fit to a data set."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

import numpy as np

from dpoco import _core, domains, losses
from dpoco._calibrated import Calibrated
from dpoco._clipping import record_clipper
from dpoco._learner import Progress
from dpoco._validation import FloatArray, float_array, positive_int
from dpoco.accounting import Budget, Guarantee
from dpoco.errors import BudgetExceeded, RoundOrderError
from dpoco.frank_wolfe._online import start_in
from dpoco.random import Source

Self = TypeVar("Self", bound="BatchLearner")

# Gradient entries per compiled call: signals are answered between two of them.
_CHUNK_ENTRIES = 2**21

# Only one thread may start the one fit; a lock of each learner could not be pickled with it.
_STARTING = threading.Lock()


class BatchLearner(Calibrated, ABC):
    """Base of the batch baselines: built once, fitted once, then their value is released.

    Subclasses also name their compiled method.
    """

    _method: ClassVar[str]

    _parameters: Any = None
    _mechanism: Any = None
    _guarantee: Guarantee | None = None
    _theta: FloatArray | None = None
    _fitted: bool = False

    def _begin(self, constructed: type, /, **arguments: Any) -> None:
        """Take a constructor's arguments, and calibrate if the number of records is known.

        `constructed` is the class whose constructor it is; `arguments` are all that it takes.
        """
        self._check(arguments)
        self._arguments = arguments
        parameters, records, budget = (arguments[k] for k in ("parameters", "records", "budget"))
        if parameters is not None:
            self._settle(self._check_given(constructed, arguments))
            return
        if records is not None:
            records = positive_int("records", records)
        if budget is not None:
            budget.require_delta()
            budget.doubt(records, stacklevel=3)
        # Bad options are refused now, even if the number of records is not yet known.
        self._plan(1000, None)
        if records is not None:
            self._settle(self._plan(records, budget))

    def _check(self, arguments: dict[str, Any]) -> None:
        """Check the arguments that all batch learners take, and keep the problem."""
        domain, loss = arguments["domain"], arguments["loss"]
        if not isinstance(domain, domains.Domain):
            raise TypeError(f"domain must be a dpoco domain; got {type(domain).__name__}")
        if not isinstance(loss, losses.GlmLoss):
            raise TypeError(
                "loss must be a squared, logistic or Huber loss of dpoco.losses; got "
                f"{type(loss).__name__}"
            )
        self._check_common(arguments)
        source = arguments["source"]
        self._start = start_in(domain, arguments.get("start"))
        self._domain: domains.Domain = domain
        self._loss: losses.GlmLoss = loss
        self._source: Source | None = source
        self._is_seeded = source is not None and source.is_seeded

    def _plan(self, records: int, budget: Budget | None) -> Any:
        """Return the parameters for so many records."""
        known = {"records": records, "budget": budget}
        return self._planned(self._arguments, self._domain, self._loss, **known)

    def _settle(self, parameters: Any) -> None:
        """Take parameters, once they are known to keep to the budget."""
        budget = self._arguments["budget"]
        guarantee = self._accountant.guarantee(
            self._domain, self._loss, parameters, budget=budget, seeded=self._is_seeded
        )
        if budget is not None:
            guarantee.require(budget)
        mechanism = self._accountant.mechanism_of(self._domain, self._loss, parameters)
        self._check_described(guarantee, mechanism)
        self._mechanism = mechanism
        self._parameters, self._guarantee = parameters, guarantee
        self._warn_unspent(self._arguments, stacklevel=5)

    @abstractmethod
    def _settings(self) -> dict[str, Any]:
        """Return what the compiled fit takes besides the data.

        What privacy rests on is the description's; the compiled class refuses a ``bound`` that the
        clipped records can exceed.
        """

    def fit(self: Self, X: Any, y: Any, *, progress: Progress | None = None) -> Self:
        """Fit the model to a data set, once.

        Parameters
        ----------
        X : array_like of shape (n, d)
            One record per row. The number of rows n counts as public.
        y : array_like of shape (n,)
            Labels.
        progress : callable, optional
            Called as ``progress(done, total)``, in gradients, between chunks of work.

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
            If n records do not allow the budget to be met.

        Notes
        -----
        Records beyond the bounds are silently clipped, and non-finite ones count as zero. The
        interpreter lock is released. A fit that is interrupted (Ctrl-C) releases nothing and may be
        repeated. Time: see the class. The method makes one copy of the data.
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
            self._fitted = True
        before = self._parameters, self._guarantee, self._mechanism
        try:
            self._theta = self._run(features, labels, progress)
        except BaseException:
            self._parameters, self._guarantee, self._mechanism = before
            self._fitted = False  # nothing was released
            raise
        self._source = None  # a fitted model holds no randomness
        self._arguments = {**self._arguments, "source": None}
        return self

    def _run(
        self, features: FloatArray, labels: FloatArray, progress: Progress | None
    ) -> FloatArray:
        n, d = features.shape
        if self._parameters is None:
            self._settle(self._plan(n, self._arguments["budget"]))
        elif self._parameters.records != n:
            raise ValueError(f"X must have {self._parameters.records} rows; got {n}")
        if self._arguments["on_violation"] == "raise":
            row = self._loss._first_violation(self._domain, features, labels)
            if row is not None:
                raise ValueError(f"record {row} is outside the declared bounds or not finite")
        engine = self._engine(features, labels)
        self._check_built(self._mechanism, engine)
        chunk = max(1, _CHUNK_ENTRIES // max(16, d))
        while engine.completed < engine.units:
            engine.advance(chunk)
            if progress is not None:
                progress(engine.completed, engine.units)
        theta = self._model(engine.result())
        theta.flags.writeable = False
        return theta

    def _model(self, released: FloatArray) -> FloatArray:
        """Return the model that follows from what the compiled fit releases: itself."""
        return released

    def _engine(self, features: FloatArray, labels: FloatArray) -> _core.BatchFit:
        """Return a compiled fit on a stream of the source that nothing else gets."""
        claim = (Source() if self._source is None else self._source)._claim()
        settings = {
            "method": self._method,
            "derivative_bound": self._parameters.derivative_bound,
            "start": np.array(self._start),
            **claim,
            **self._settings(),
        }
        problem = self._domain._engine, self._loss._glm_engine, self._clipper()
        return _core.BatchFit(*problem, features, labels, settings)

    def _clipper(self) -> _core.RecordClipper:
        """Return what enforces the bounds on features."""
        loss = self._loss
        return record_clipper(self._domain, loss.feature_bound, loss.feature_bound_l2)

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

    def predict(self, X: Any) -> FloatArray:
        """Return the margins ``<theta, x>`` of records, shape (T,): predictions of a regression.

        For a logistic loss these are log-odds. This is post-processing of `theta`: it costs no
        privacy for any X that is not itself private.

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
    def guarantee(self) -> Guarantee:
        """The guarantee of the single fit; known before it if the number of records is known."""
        if self._guarantee is None:
            raise RoundOrderError("fit() comes first, or the number of `records`")
        return self._guarantee

    @property
    def parameters(self) -> Any:
        """Everything that calibration fixed; known before the fit if the number of records is."""
        if self._parameters is None:
            raise RoundOrderError("fit() comes first, or the number of `records`")
        return self._parameters

    @property
    def domain(self) -> domains.Domain:
        """The decision set."""
        return self._domain

    @property
    def loss(self) -> losses.GlmLoss:
        """The loss family with its public bounds."""
        return self._loss

    def __repr__(self) -> str:
        # Parameters and guarantee only: nothing that depends on data.
        arguments = ", ".join(
            f"{name}={value!r}"
            for name, value in self._arguments.items()
            if name != "source" and (value is not None or name == "budget")
        )
        known = "" if self._guarantee is None else f"\n  {self._guarantee!r}"
        return f"{type(self).__name__}({arguments}){known}"
