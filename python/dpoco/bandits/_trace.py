"""What happened over many rounds of a bandit, for evaluation: not a private object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpoco._clipping import context_flags
from dpoco._validation import FloatArray, IntArray, float_array, imported
from dpoco.trace import NO_STREAM, Flags, ReadRecords


@dataclass(frozen=True, eq=False)
class BanditTrace(ReadRecords):
    """Actions and rewards of a run. **Not private**: it is a log of everybody's actions.

    Comparisons read the arrays that were passed to ``run``; do not change them.

    Attributes
    ----------
    actions : ndarray of int64, shape (T,)
        Arm of each round.
    rewards : ndarray of float64, shape (T,)
        Reward of each round, clipped to the declared range; 0 if it was missing.
    first_round : int
        Number of rounds that the learner had consumed before this run.
    """

    actions: IntArray
    rewards: FloatArray
    first_round: int
    _contexts: FloatArray = field(repr=False)
    _table: FloatArray = field(repr=False)  # rewards of all arms, as given
    _reward_range: tuple[float, float] = field(default=(-np.inf, np.inf), repr=False)
    _norms: FloatArray | None = field(default=None, repr=False)  # in units of the contexts' bound

    def _read(self, rewards: FloatArray) -> FloatArray:
        """Return rewards as learners read them."""
        low, high = self._reward_range
        return np.where(np.isfinite(rewards), np.clip(rewards, low, high), 0.0)

    def _flags(self, part: slice) -> Flags:
        if not self._contexts.shape[1]:
            raise ValueError(NO_STREAM)
        low, high = self._reward_range
        table = self._table[part]
        known = np.isfinite(table)
        inside = (table >= low) & (table <= high)
        norms = None if self._norms is None else self._norms[part]
        return {
            **context_flags(self._contexts[part], norms),
            "reward_missing": ~np.all(known, axis=1),
            "reward_out_of_range": np.any(known & ~inside, axis=1),
        }

    def __len__(self) -> int:
        return int(self.actions.shape[0])

    @property
    def rounds(self) -> int:
        """Number of rounds T."""
        return len(self)

    @property
    def average_reward(self) -> float:
        """Mean reward per round; NaN for an empty run."""
        return float(self.rewards.mean()) if len(self) else float("nan")

    @property
    def best_arm(self) -> int:
        """The arm with the largest sum of rewards, the lowest index on ties."""
        return int(np.argmax(self._read(self._table).sum(axis=0)))

    @property
    def best_linear(self) -> IntArray:
        """Actions, shape (T,), of a linear policy fitted in hindsight to the rewards of all arms.

        Fits least squares for every arm and takes the arm with the largest prediction.
        """
        # As learners read them: a context that is not finite counts as zero.
        present = np.isfinite(self._contexts).all(axis=1, keepdims=True)
        contexts = np.where(present, self._contexts, 0.0)
        weights = np.linalg.lstsq(contexts, self._read(self._table), rcond=None)[0]
        actions: IntArray = np.argmax(contexts @ weights, axis=1).astype(np.int64)
        return actions

    def comparator_rewards(self, actions: Any) -> FloatArray:
        """Return the rewards, shape (T,), that other actions would have had.

        Parameters
        ----------
        actions : int or array_like of int, shape (T,)
            One arm for all rounds, or one for each.

        Raises
        ------
        ValueError, TypeError
            For other shapes or types, or an arm that does not exist.
        """
        chosen = np.asarray(actions)
        if chosen.dtype.kind not in "iu":
            raise TypeError(f"actions must be integers; got {chosen.dtype}")
        if chosen.shape not in ((), (len(self),)):
            raise ValueError(f"actions must have shape () or ({len(self)},)")
        arms = self._table.shape[1]
        if np.any(chosen < 0) or np.any(chosen >= arms):
            raise ValueError(f"actions must be below the number of arms, {arms}")
        return self._read(self._table[np.arange(len(self)), chosen])

    def regret(self, comparator: Any = "arm") -> FloatArray:
        """Return cumulative regret: the comparator's rewards minus the run's own.

        Parameters
        ----------
        comparator : "arm", "linear", int or array_like of int with shape (T,)
            The best single arm, the linear policy of `best_linear`, or actions.

        Returns
        -------
        ndarray of float64, shape (T,)
        """
        if isinstance(comparator, str):
            if comparator not in ("arm", "linear"):
                raise ValueError("comparator must be 'arm', 'linear' or actions")
            comparator = self.best_arm if comparator == "arm" else self.best_linear
        return np.cumsum(self.comparator_rewards(comparator) - self.rewards)

    def pseudo_regret(self, means: Any) -> FloatArray:
        """Return cumulative regret in expected rewards, against the best arm of every round.

        Parameters
        ----------
        means : array_like of shape (T, K)
            Expected rewards of all arms, for example `dpoco.environments.LinearWorld.means`.

        Returns
        -------
        ndarray of float64, shape (T,)
        """
        table = float_array("means", means, self._table.shape)
        return np.cumsum(table.max(axis=1) - table[np.arange(len(self)), self.actions])

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per round (needs pandas)."""
        pd = imported("pandas", "to_frame", "files")

        first = self.first_round + 1
        return pd.DataFrame(
            {
                "round": np.arange(first, first + len(self)),
                "action": self.actions,
                "reward": self.rewards,
            }
        )

    def __repr__(self) -> str:
        return f"<dpoco.BanditTrace of {len(self)} rounds: not private, for evaluation only>"
