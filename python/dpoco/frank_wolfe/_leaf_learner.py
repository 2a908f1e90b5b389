"""What the online Frank-Wolfe learners share: a start, and bounds on what a record adds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dpoco._record_learner import RecordLearner
from dpoco._validation import float_array

__all__ = ["LeafLearner", "given"]


def given(scope: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, whose local variables these are so far."""
    return {name: value for name, value in scope.items() if name != "self"}


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
