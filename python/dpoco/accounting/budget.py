"""The privacy budget a caller is willing to spend.

A mechanism M is (epsilon, delta)-differentially private when, for all neighbouring streams S, S'
and all sets O of outputs, P(M(S) in O) <= e^epsilon P(M(S') in O) + delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpoco._validation import real_float
from dpoco.errors import CalibrationError, StateError

__all__ = ["Budget"]


@dataclass(frozen=True, slots=True)
class Budget:
    """An (epsilon, delta) budget for everything one learner ever releases.

    Parameters
    ----------
    epsilon : float
        Largest log-likelihood ratio, positive and finite.
    delta : float
        Probability budget for exceeding it, in [0, 1). A good choice is at most one tenth of the
        reciprocal of the number of rounds. 0 asks for pure differential privacy, which learners
        with exponential, Laplace or cube noise can give; the others raise `CalibrationError`.

    Raises
    ------
    TypeError, ValueError
        If a value is not a real number or out of range.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Validate the ranges."""
        epsilon = real_float("epsilon", self.epsilon)
        delta = real_float("delta", self.delta)
        if not epsilon > 0.0:
            raise ValueError(f"epsilon must be positive; got {epsilon!r}")
        if not 0.0 <= delta < 1.0:
            raise ValueError(f"delta must be in [0, 1); got {delta!r}")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)

    def require_delta(self) -> None:
        """Raise `CalibrationError` for delta = 0, in mechanisms that cannot do without."""
        if self.delta == 0.0:
            raise CalibrationError("this mechanism is never purely private: it needs delta > 0")

    def to_dict(self) -> dict[str, float]:
        """Return the budget as a dictionary of plain floats."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Budget:
        """Return the budget written by `to_dict`; `StateError` if it is not one."""
        if not isinstance(record, Mapping) or set(record) != {"epsilon", "delta"}:
            raise StateError("a budget record has exactly the fields epsilon and delta")
        return cls(epsilon=record["epsilon"], delta=record["delta"])
