"""What the online Frank-Wolfe learners share: a start, and bounds on what a record adds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dpoco import _core, losses
from dpoco._record_learner import RecordLearner
from dpoco._validation import float_array

__all__ = ["LeafLearner"]


class LeafLearner(RecordLearner):
    """Base of the learners that move from a start towards vertices, by clipped gradient leaves."""

    _noise: ClassVar[str] = "fresh"

    def _set_up(
        self, arguments: dict[str, Any], parameters: Any, seeded: bool, claim: dict[str, Any]
    ) -> None:
        domain, start = arguments["domain"], arguments["start"]
        self._start = np.array(
            domain.center if start is None else float_array("start", start, (domain.dimension,))
        )
        if start is not None and not domain.contains(self._start):
            raise ValueError("start must lie in the domain")
        super()._set_up(arguments, parameters, seeded, claim)

    def _leaf_l2(self) -> float | None:
        """Return the bound in l_2 on features for GLM losses, else on the leaf itself."""
        loss = self._loss
        if isinstance(loss, losses.GlmLoss):
            return loss._l2
        bound: float | None = self._parameters.leaf_bound_l2
        return loss.gradient_bound_l2 if isinstance(loss, losses.LinearLoss) else bound

    def _clipper(self, order: float) -> _core.RecordClipper:
        """Return the bounds in l_order on features for GLM losses, else on the leaf itself."""
        loss, bound_l2 = self._loss, self._leaf_l2()
        bound: float = self._parameters.leaf_bound
        if isinstance(loss, losses.GlmLoss):
            bound = loss.feature_bound
        elif isinstance(loss, losses.LinearLoss):
            bound = loss.gradient_bound
        return _core.RecordClipper(
            self._domain.dimension, bound, order, np.inf if bound_l2 is None else bound_l2
        )

    def _saved_arguments(self) -> dict[str, Any]:
        arguments = super()._saved_arguments()
        if arguments["start"] is not None:
            # As it was at construction: the caller's array may have changed.
            arguments["start"] = self._start.tolist()
        return arguments

    @classmethod
    def _header_dimension(cls, header: dict[str, Any]) -> int:
        # A box has its dimension in its bounds, which are in the file already.
        return int(header["arguments"]["domain"].get("dimension", 1))
