"""What the two learners with coupled decisions share: kept or drawn afresh, block by block."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpoco import _core, domains, losses
from dpoco._record_learner import RecordLearner
from dpoco._tickets import Ticket
from dpoco._validation import float_array
from dpoco.privacy.mechanisms.coupled_draws import Anchored, CoupledDraws, GibbsDraw, Window

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
        if isinstance(self._loss, losses.QuadraticLoss):
            return self._domain.dimension**2
        # A fresh draw may pass over all records so far; signals are served between chunks.
        kept = isinstance(self._loss, losses.LogisticLoss | losses.HuberLoss)
        return max(super()._width, 2048) if kept else super()._width

    def _entries(self) -> dict[str, float]:
        if isinstance(self._loss, losses.LinearLoss):
            return super()._entries()
        return super()._entries() | {"second derivatives": float(self._domain.dimension) ** 2}

    def _rule_settings(self, claim: dict[str, Any]) -> dict[str, Any]:
        """Return what both engines are built from."""
        drawn, keep = self._mechanism, self._mechanism.keep
        width = keep.width if isinstance(keep, Anchored) else 0.0
        return {
            "rounds": drawn.rounds,
            "lipschitz": drawn.losses.lipschitz,
            "smoothness": drawn.losses.smoothness,
            "block": drawn.block,
            "forced_switch": keep.forced,
            "max_switches": drawn.cap,
            "coupling": keep.kind,
            "clip_high": keep.high if isinstance(keep, Window) else width,
            "clip_low": keep.low if isinstance(keep, Window) else width,
            **claim,
        }

    def _loss_settings(self) -> dict[str, Any]:
        """Return what the compiled sum of losses is built from."""
        domain, loss, draw = self._domain, self._loss, self._mechanism.draw
        # Tilted minima are charged alike on R^d and in a domain.
        unbounded = self._parameters.unbounded
        if isinstance(draw, GibbsDraw):
            unbounded = draw.half_width == math.inf
        settings: dict[str, Any] = {"unbounded": unbounded, "kind": "custom"}
        if isinstance(loss, losses.QuadraticLoss):
            settings.update(
                kind="quadratic",
                lipschitz=loss.lipschitz_bound,
                smoothness=loss.smoothness_bound,
                radius=math.inf if unbounded else domain.radius_from_center(),
            )
        elif isinstance(loss, losses.LinearLoss):
            bound, bound_l2 = loss.gradient_bound, loss.gradient_bound_l2
            settings.update(kind="linear", clipper=_clipper(domain, bound, bound_l2))
        elif isinstance(loss, losses.GlmLoss):
            clipper = _clipper(domain, loss.feature_bound, loss.feature_bound_l2)
            settings.update(kind="glm", clipper=clipper, glm=loss._glm_engine)
        return settings

    # -- rounds -----------------------------------------------------------------------------------

    def observe(
        self,
        record: Any,
        label: Any = None,
        *,
        person: int | str | bytes | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        """End the round with its loss.

        Parameters
        ----------
        record : array_like of shape (d,) or (d, d), or a loss object
            Features for a generalised linear loss, the gradient for a `LinearLoss`, the matrix for
            a `QuadraticLoss`; for a `CustomLoss` an object with ``value(theta) -> float``,
            ``gradient(theta) -> (d,)`` and ``hessian(theta) -> (d, d)``, kept until the horizon.
        label : float or array_like of shape (d,), optional
            The label of a generalised linear loss; the vector of a `QuadraticLoss`.
        person : int, str or bytes
            Whose record it is, where a participation is enforced: one too many counts as zero,
            silently; a custom loss cannot.
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
            return self._arrive(ticket, record, label, person=person)
        if isinstance(self._loss, losses.QuadraticLoss):
            turn, _ = self._check_turn()
            d = self._domain.dimension
            matrix = float_array("matrix", record, (d, d))
            if label is None:
                raise TypeError("a quadratic loss needs a matrix and a vector")
            vector = float_array("vector", label, (d,))
            if self._raises:
                self._refuse_violations(matrix[None], vector[None])
            if not self._admits(turn, person):
                matrix = np.full_like(matrix, np.nan)
            self._engine.observe_quadratic(turn, matrix, vector)
        else:
            super().observe(record, label, person=person)

    def _observe_custom(self, record: Any, turn: int, decision: FloatArray, person: Any) -> None:
        if not all(hasattr(record, name) for name in ("value", "gradient", "hessian")):
            raise TypeError("a custom loss must have methods value, gradient and hessian")
        if self._raises:
            gradient = self._vector("gradient", record.gradient(decision))
            self._refuse_violations(gradient[None, :], None)
        self._digests(person, None)
        self._engine.observe_custom(turn, record)

    def _arrays(self, features: Any, labels: Any) -> tuple[FloatArray, FloatArray | None]:
        if not isinstance(self._loss, losses.QuadraticLoss):
            return super()._arrays(features, labels)
        if labels is None:
            raise TypeError("labels are required by this loss")
        d = self._domain.dimension
        matrices = float_array("features", features, (None, d, d))
        return matrices, float_array("labels", labels, (matrices.shape[0], d))

    def _play(
        self, rows: FloatArray, targets: FloatArray | None, out: FloatArray,
        decisions: FloatArray | None, changed: NDArray[np.uint8],
    ) -> None:  # fmt: skip
        if not isinstance(self._loss, losses.QuadraticLoss):
            return super()._play(rows, targets, out, decisions, changed)
        assert targets is not None
        first = self.round
        factors = self._loss.scales(self._domain, rows, targets)
        for t, (matrix, vector) in enumerate(zip(rows, targets, strict=True)):
            decision, before = self._engine.decision(), self._engine.switches
            self._engine.observe_quadratic(first + t, matrix, vector)
            changed[t] = self._engine.switches != before
            out[t] = factors[t] * self._loss.value(decision, matrix, vector) if factors[t] else 0.0
            if decisions is not None:
                decisions[t] = decision

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
