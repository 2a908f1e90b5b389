"""What the two learners with coupled decisions share: kept or drawn afresh, block by block."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core, domains, losses
from dpoco._learner import Progress
from dpoco._record_learner import RecordLearner
from dpoco._tickets import Ticket
from dpoco._validation import float_array
from dpoco.privacy.mechanisms.coupled_draws import Anchored, CoupledDraws, Window
from dpoco.trace import Flags, Trace

__all__ = ["CoupledLearner"]

FloatArray = NDArray[np.float64]


class CoupledLearner(RecordLearner):
    """Base of the learners whose decision is kept for many rounds by a private coupling."""

    _mechanism: CoupledDraws

    _noise: ClassVar[str] = "ideal_fresh"

    @classmethod
    def _check_restated(
        cls,
        arguments: Mapping[str, Any],
        parameters: Any,
        defaults: Mapping[str, Any],
        free: Collection[str] = (),
    ) -> None:
        if arguments["max_switches"] is not None:
            raise ValueError("max_switches is for calibration: leave it out beside parameters")
        # Calibration answers a budget that buys no learning with one constant decision, whatever
        # coupling and block were asked for.
        constant = parameters.private and parameters.max_switches == 0
        free = ("coupling", "block") if constant else ()
        super()._check_restated(arguments, parameters, defaults, free)

    @property
    def _width(self) -> int:
        # A fresh draw may pass over all records so far; signals are served between chunks.
        kept = isinstance(self._loss, losses.LogisticLoss | losses.HuberLoss)
        return max(super()._width, 2048) if kept else super()._width

    def _entries(self) -> dict[str, float]:
        if isinstance(self._loss, losses.LinearLoss):
            return super()._entries()
        return super()._entries() | {"second derivatives": float(self._domain.dimension) ** 2}

    def _rule_settings(self, claim: dict[str, Any]) -> dict[str, Any]:
        """Return what both engines are built from."""
        drawn, keep, window = self._mechanism, self._mechanism.keep, (0.0, 0.0)
        if isinstance(keep, Window):
            window = (keep.high, keep.low)
        elif isinstance(keep, Anchored):
            window = (keep.width, keep.width)
        return {
            "rounds": drawn.rounds,
            "lipschitz": drawn.losses.lipschitz,
            "smoothness": drawn.losses.smoothness,
            "block": drawn.block,
            "forced_switch": keep.forced,
            "max_switches": drawn.cap,
            "coupling": keep.kind,
            "clip_high": window[0],
            "clip_low": window[1],
            **claim,
        }

    def _loss_settings(self) -> dict[str, Any]:
        """Return what the compiled sum of losses is built from."""
        domain, loss = self._domain, self._loss
        settings: dict[str, Any] = {"unbounded": self._parameters.unbounded, "kind": "custom"}
        if isinstance(loss, losses.QuadraticLoss):
            settings.update(
                kind="quadratic",
                lipschitz=loss.lipschitz_bound,
                smoothness=loss.smoothness_bound,
                radius=math.inf if self._parameters.unbounded else domain.radius_from_center(),
            )
        elif isinstance(loss, losses.LinearLoss):
            bound, bound_l2 = loss.gradient_bound, loss.gradient_bound_l2
            settings.update(kind="linear", clipper=_clipper(domain, bound, bound_l2))
        elif isinstance(loss, losses.GlmLoss):
            clipper = _clipper(domain, loss.feature_bound, loss.feature_bound_l2)
            settings.update(kind="glm", clipper=clipper, glm=loss._glm_engine)
        return settings

    # -- rounds -----------------------------------------------------------------------------------

    def observe(self, record: Any, label: Any = None, *, ticket: Ticket | None = None) -> None:
        """End the round with its loss.

        Parameters
        ----------
        record : array_like of shape (d,) or (d, d), or a loss object
            Features for a generalised linear loss, the gradient for a `LinearLoss`, the matrix for
            a `QuadraticLoss`; for a `CustomLoss` an object with ``value(theta) -> float``,
            ``gradient(theta) -> (d,)`` and ``hessian(theta) -> (d, d)``, kept until the horizon.
        label : float or array_like of shape (d,), optional
            The label of a generalised linear loss; the vector of a `QuadraticLoss`.
        ticket : Ticket, optional
            The decision that the record belongs to, made earlier: the round played now is the
            learner's current one.

        Raises
        ------
        RoundOrderError
            If `decide` was not called in this round, or the ticket is not outstanding.
        StateError
            For a ticket of another learner, or a forged one: nothing changed.
        HorizonExceeded
            Past the horizon: nothing drawn, nothing changed.
        ValueError, TypeError
            Wrong shape or dtype: nothing changed. With ``on_violation="raise"`` also for records
            over the bounds.

        Notes
        -----
        Records over the bounds are clipped and non-finite ones count as zero, silently. An
        exception out of a custom loss while it decides over a fresh draw leaves the learner
        unusable: it may have used random numbers that must not be used again.
        """
        if ticket is not None:
            return self._arrive(ticket, record, label)
        if isinstance(self._loss, losses.QuadraticLoss):
            turn, _ = self._check_turn()
            d = self._domain.dimension
            matrix = float_array("matrix", record, (d, d))
            if label is None:
                raise TypeError("a quadratic loss needs a matrix and a vector")
            vector = float_array("vector", label, (d,))
            if self._raises:
                self._refuse_violations(matrix[None], vector[None])
            self._engine.observe_quadratic(turn, matrix, vector)
        else:
            super().observe(record, label)

    def _observe_custom(self, record: Any, turn: int, decision: FloatArray) -> None:
        if not all(hasattr(record, name) for name in ("value", "gradient", "hessian")):
            raise TypeError("a custom loss must have methods value, gradient and hessian")
        if self._raises:
            gradient = self._vector("gradient", record.gradient(decision))
            self._refuse_violations(gradient[None, :], None)
        self._engine.observe_custom(turn, record)

    def run(
        self,
        features: Any,
        labels: Any = None,
        *,
        record_decisions: bool = True,
        progress: Progress | None = None,
        checkpoint: Any = None,
        checkpoint_every: int = 100_000,
    ) -> Trace:
        """Play many rounds; see `RecordLearner.run`.

        Parameters
        ----------
        features : array_like of shape (T, d) or (T, d, d)
            One record a round; gradients for a `LinearLoss`, matrices for a `QuadraticLoss`.
        labels : array_like of shape (T,) or (T, d), optional
            Labels of generalised linear losses, vectors of a `QuadraticLoss`.
        record_decisions, progress, checkpoint, checkpoint_every
            As for the other learners.

        Returns
        -------
        Trace
            Losses and decisions of these rounds; not private.
        """
        options: dict[str, Any] = {
            "record_decisions": record_decisions,
            "progress": progress,
            "checkpoint": checkpoint,
            "checkpoint_every": checkpoint_every,
        }
        if not isinstance(self._loss, losses.QuadraticLoss):
            return super().run(features, labels, **options)
        return self._run_matrices(features, labels, **options)

    def _run_matrices(
        self,
        features: Any,
        labels: Any,
        *,
        record_decisions: bool,
        progress: Progress | None,
        checkpoint: Any,
        checkpoint_every: int,
    ) -> Trace:
        d = self._domain.dimension
        matrices = float_array("features", features, (None, d, d))
        rounds = matrices.shape[0]
        if labels is None:
            raise TypeError("labels are required by this loss")
        vectors = float_array("labels", labels, (rounds, d))
        self._check_rounds(rounds)
        if self._raises:
            self._refuse_violations(matrices, vectors)
        decisions = np.empty((rounds, d))
        changed = np.zeros(rounds, dtype=bool)
        with self._alone():
            self._check_rounds(rounds)
            first_round = self.round
            for part in self._chunks(rounds, d * d, progress, checkpoint, checkpoint_every):
                for t in range(part.start, part.stop):
                    decisions[t] = self._engine.decision()
                    before = self._engine.switches
                    self._engine.observe_quadratic(first_round + t, matrices[t], vectors[t])
                    changed[t] = self._engine.switches != before
        loss = self._loss
        assert isinstance(loss, losses.QuadraticLoss)
        factors = loss.scales(self._domain, matrices, vectors)
        out = np.zeros(rounds)
        for t in np.flatnonzero(factors).tolist():
            out[t] = factors[t] * loss.value(decisions[t], matrices[t], vectors[t])
        for array in (out, decisions):
            array.flags.writeable = False

        def loss_of(decision: FloatArray) -> FloatArray:
            return loss.batch_values(self._domain, decision, matrices, vectors)

        def flags_of(part: slice) -> Flags:
            return loss._flags(self._domain, matrices[part], vectors[part])

        kept = decisions if record_decisions else None
        return Trace(out, np.flatnonzero(changed), first_round, kept, loss_of, flags_of)

    # -- public quantities ------------------------------------------------------------------------

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        # A box has its dimension in its bounds, which are in the file already. A simplex keeps one
        # coordinate less than it has.
        return max(1, int(header["arguments"]["domain"].get("dimension", 1)) - 1)

    @property
    def switches(self) -> int:
        """Fresh draws so far, the first decision not counted; covered by the guarantee."""
        return int(self._engine.switches)


def _clipper(domain: domains.Domain, bound: float, bound_l2: float | None) -> _core.RecordClipper:
    limit = math.inf if bound_l2 is None else bound_l2
    return _core.RecordClipper(domain.dimension, bound, domain.dual_exponent, limit)
