"""The privacy budget a caller is willing to spend.

A mechanism M is (epsilon, delta)-differentially private when, for all neighbouring streams S, S'
and all sets O of outputs, P(M(S) in O) <= e^epsilon P(M(S') in O) + delta.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from dpoco._validation import Named, real_in
from dpoco.errors import CalibrationError, LargeDeltaWarning, StateError

__all__ = ["Budget"]

# A larger delta is a likely slip: of a thousand people, one may be published in full.
_LARGE = 1e-3


@dataclass(frozen=True, slots=True)
class Budget:
    """An (epsilon, delta) budget for everything that one learner ever releases.

    Parameters
    ----------
    epsilon : float
        Largest log-likelihood ratio, positive and finite.
    delta : float
        Probability of exceeding this ratio, in [0, 1). A good choice is at most one tenth of the
        reciprocal of the number of rounds. 0 asks for pure differential privacy, which learners
        with exponential, Laplace or cube noise can give; other learners raise `CalibrationError`.

    Raises
    ------
    TypeError, ValueError
        If a value is not a real number or out of range.

    Warns
    -----
    LargeDeltaWarning
        If delta exceeds 1/1000. Learners and mechanisms also issue the warning if delta exceeds one
        over their horizon T: publishing the data of one of T rounds in full costs a delta of 1/T.

    Examples
    --------
    >>> from dpoco import Budget
    >>> Budget(epsilon=1.0, delta=1e-6)
    Budget(epsilon=1.0, delta=1e-06)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Validate the ranges, and doubt what is rarely meant."""
        self._check()
        if self.delta > _LARGE:
            swapped = "; did you swap epsilon and delta?" if self.epsilon < self.delta else ""
            warnings.warn(
                f"delta = {self.delta:g} is a large chance of revealing everything; choose it "
                f"below one over the number of rounds{swapped}",
                LargeDeltaWarning,
                stacklevel=3,
            )

    @classmethod
    def _over(cls, epsilon: float, delta: float | None, rounds: int) -> Budget:
        """Return a budget; delta None is a tenth of one over `rounds`, and no cause for doubt."""
        # Over few rounds that default exceeds 1/1000, without having been chosen.
        return (
            cls._derived(epsilon, 1.0 / (10.0 * rounds)) if delta is None else cls(epsilon, delta)
        )

    def _check(self) -> None:
        """Raise for numbers out of range, and keep plain floats."""
        object.__setattr__(self, "epsilon", real_in("epsilon", self.epsilon, "(0, inf)"))
        object.__setattr__(self, "delta", real_in("delta", self.delta, "[0, 1)"))

    def doubt(self, horizon: int | None, *, stacklevel: int) -> None:
        """Warn if delta exceeds one over `horizon`, unless this budget has already warned.

        Parameters
        ----------
        horizon : int or None
            Rounds; None, an endless stream, has nothing to compare with.
        stacklevel : int
            Of the warning, counted from the caller.
        """
        # Above `_LARGE` the constructor has warned.
        if horizon is not None and 1.0 / horizon < self.delta <= _LARGE:
            warnings.warn(
                f"delta = {self.delta:g} exceeds one over the horizon of {horizon}: this would "
                "allow publishing the data of a random round",
                LargeDeltaWarning,
                stacklevel=stacklevel + 1,
            )

    def require_delta(self) -> None:
        """Raise `CalibrationError` for delta = 0, in mechanisms that need a positive delta."""
        if self.delta == 0.0:
            raise CalibrationError("this mechanism is never purely private: it needs delta > 0")

    def to_dict(self) -> dict[str, float]:
        """Return the budget as a dictionary of plain floats, which `from_dict` restores exactly."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    @classmethod
    def from_dict(cls, record: Named) -> Budget:
        """Return the budget written by `to_dict`; `StateError` if it is not one."""
        if not isinstance(record, Mapping) or set(record) != {"epsilon", "delta"}:
            raise StateError("a budget record has exactly the fields epsilon and delta")
        # Reading a file is no occasion to warn again.
        return cls._derived(record["epsilon"], record["delta"])

    @classmethod
    def _derived(cls, epsilon: float, delta: float) -> Budget:
        """Return a budget that comes of another one, which was doubted when it was made."""
        budget = object.__new__(cls)
        object.__setattr__(budget, "epsilon", epsilon)
        object.__setattr__(budget, "delta", delta)
        budget._check()
        return budget
