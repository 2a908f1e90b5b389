"""What the online Frank-Wolfe learners share: a start, and bounds on what a record adds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dpoco._record_learner import RecordLearner
from dpoco._validation import FloatArray, float_array
from dpoco.domains import Domain

__all__ = ["LeafLearner", "given", "start_in"]


def given(scope: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, whose local variables these are so far."""
    return {name: value for name, value in scope.items() if name != "self"}


def start_in(domain: Domain, start: Any) -> FloatArray:
    """Return a copy of a public first decision, by default the centre, or raise."""
    if start is None:
        return np.array(domain.center)
    point = np.array(float_array("start", start, (domain.dimension,)))
    if not domain.contains(point):
        raise ValueError("start must lie in the domain")
    return point


class LeafLearner(RecordLearner):
    """Base of the learners that move from a start towards vertices, by clipped gradient leaves."""

    _noise: ClassVar[str] = "fresh"

    def _set_up(
        self, arguments: dict[str, Any], parameters: Any, seeded: bool, claim: dict[str, Any]
    ) -> None:
        self._start = start_in(arguments["domain"], arguments["start"])
        super()._set_up(arguments, parameters, seeded, claim)

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
