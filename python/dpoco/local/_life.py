"""The life of a distribution learner: guarantee, state files, copies."""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar

from dpoco.accounting.guarantee import Guarantee
from dpoco.local import _learner_state as files
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._intake import OpenRounds
from dpoco.local._rules import Rule, Settings

__all__ = ["LearnerLife"]

Self = TypeVar("Self", bound="LearnerLife")


class LearnerLife:
    """Base of the distribution learner: all that is not learning.

    The server holds no noise: its copies share none, and are active at once.
    """

    _kind = "DistributionLearner"

    _arguments: dict[str, Any]
    _hypotheses: Hypotheses
    _settings: Settings
    _rule: Rule
    _rounds: OpenRounds
    _reports: int
    _simulated: bool
    _lock: threading.RLock

    def _build(self, arguments: dict[str, Any], seed: int) -> None:
        """Build the unstarted learner from its constructor's arguments."""
        raise NotImplementedError

    # -- privacy ----------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about one report."""
        return self.guarantee_for()

    def guarantee_for(self, reports_per_user: int = 1, delta: float | None = None) -> Guarantee:
        """Return the guarantee of a user who sends several reports.

        Parameters
        ----------
        reports_per_user : int, default 1
            How many reports she sends at most, over all rounds.
        delta : float, optional
            Where to state epsilon; by default where epsilons add up.
        """
        return files.guarantee_of(
            self._rule, self._settings, reports_per_user, delta, self._simulated
        )

    # -- life -------------------------------------------------------------------------------------

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments as they were given."""
        return dict(self._arguments)

    def clone(self: Self) -> Self:
        """Return a fresh learner with the same arguments (and public coins, if they were given)."""
        return type(self)(**self._arguments)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file; `dpoco.load` continues bit for bit.

        Weights and nonces only, besides public settings and the hypotheses: all of it is
        post-processing of private reports. A callable is not written: see `load`.
        """
        with self._lock:
            files.save(self, path)

    @classmethod
    def load(
        cls: type[Self], path: str | os.PathLike[str], hypotheses: Hypotheses | None = None
    ) -> Self:
        """Continue from a file written by `save`.

        Parameters
        ----------
        path : path-like
            The file.
        hypotheses : Hypotheses, optional
            Required if they are callables; otherwise, checked against the file.

        Raises
        ------
        StateError
            If the file is corrupt, or was written with other hypotheses.
        """
        return files.load(cls, path, hypotheses)

    @classmethod
    def _from_bytes(cls: type[Self], data: bytes) -> Self:
        return files.from_bytes(cls, data, None)

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            return files.unpickled, (files.to_bytes(self), self._hypotheses)

    def __copy__(self: Self) -> Self:
        return self.__deepcopy__({})

    def __deepcopy__(self: Self, memo: Any) -> Self:
        # No noise is shared: a copy reveals nothing that its reports have not.
        with self._lock:
            return files.from_bytes(type(self), files.to_bytes(self), self._hypotheses)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={value!r}"
            for name, value in self._arguments.items()
            if value is not None and name != "hypotheses"
        )
        return f"{self._kind}({self._hypotheses!r}, {shown})\n  {self.guarantee!r}"
