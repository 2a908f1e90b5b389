"""Logs of contextual bandits, from files the user names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import float_array, positive_int

__all__ = ["LoggedBandit", "load_logged_bandit"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LoggedBandit:
    """What another policy did: events in order of arrival. Raw data, **not private**.

    Attributes
    ----------
    contexts : ndarray of float64, shape (n, d)
        One context an event.
    actions : ndarray of int64, shape (n,)
        Arms that were chosen, in 0..K-1.
    rewards : ndarray of float64, shape (n,)
        Rewards of those arms; NaN where one never came.
    propensities : ndarray of float64, shape (n,), or None
        Probabilities in [1e-100, 1] with which the logging policy chose those arms.
    arms : int
        Number of arms K.
    context_names : tuple of str
        Names of the d columns.

    Raises
    ------
    ValueError, TypeError
        If shapes disagree, or actions or propensities are out of range.
    """

    contexts: FloatArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray | None
    arms: int
    context_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Validate and freeze."""
        arms = positive_int("arms", self.arms)
        contexts = float_array("contexts", self.contexts, (None, None))
        n = contexts.shape[0]
        actions = np.asarray(self.actions)
        if actions.dtype.kind not in "iu" or actions.shape != (n,):
            raise ValueError(f"actions must be integers of shape ({n},)")
        if n and not (actions.min() >= 0 and actions.max() < arms):
            raise ValueError(f"actions must be in 0..{arms - 1}")
        values: dict[str, Any] = {
            "contexts": contexts,
            "actions": np.ascontiguousarray(actions, dtype=np.int64),
            "rewards": float_array("rewards", self.rewards, (n,)),
        }
        if self.propensities is not None:
            known = float_array("propensities", self.propensities, (n,))
            if not np.all((known >= 1e-100) & (known <= 1.0)):
                raise ValueError("propensities must be in [1e-100, 1]")
            values["propensities"] = known
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return int(self.rewards.shape[0])

    def __repr__(self) -> str:
        return f"<dpoco.LoggedBandit of {len(self)} events, {self.arms} arms: raw data>"


def load_logged_bandit(
    path: str | os.PathLike[str],
    *,
    action: str,
    reward: str,
    propensity: str | None = None,
    context: Sequence[str] | None = None,
    arms: int | None = None,
    header: bool | None = None,
) -> LoggedBandit:
    """Read a log from a table whose rows are events, in order of arrival.

    Parameters
    ----------
    path : path-like
        ``.csv``, ``.csv.gz``, ``.parquet`` or ``.npz``, as for `dpoco.datasets.load_file`.
    action, reward : str
        Names of the columns of the arm that was chosen (an integer from 0) and of its reward.
    propensity : str, optional
        Name of the column of the probability with which it was chosen.
    context : sequence of str, optional
        Names of the context's columns, in order; default all other columns.
    arms : int, optional
        Number of arms K; default one more than the largest action in the file.
    header : bool, optional
        As for `dpoco.datasets.load_file`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        As `dpoco.datasets.load_file`, and if actions or propensities are out of range. Messages
        name columns, never values.
    """
    from dpoco.datasets import load_file

    special = [action] if propensity is None else [action, propensity]
    if len({reward, *special}) != len(special) + 1:
        raise ValueError("action, reward and propensity must be different columns")
    wanted = None if context is None else [*context, *special]
    stream = load_file(path, label=reward, features=wanted, header=header, task="regression")
    names = list(stream.feature_names)
    for name in special:
        if name not in names:
            raise ValueError(f"{stream.name} has no column {name!r}")
    if len(set(names)) != len(names):
        raise ValueError("a column is named twice")
    others = [name for name in names if name not in special]
    if not others:
        raise ValueError(f"{stream.name} has no context column")
    chosen = stream.features[:, names.index(action)]
    if not np.all((chosen == np.floor(chosen)) & (chosen >= 0.0) & (chosen < 2.0**31)):
        raise ValueError(f"column {action!r} must hold integers from 0")
    actions = chosen.astype(np.int64)
    return LoggedBandit(
        contexts=np.ascontiguousarray(stream.features[:, [names.index(name) for name in others]]),
        actions=actions,
        rewards=stream.labels,
        propensities=(
            None if propensity is None else stream.features[:, names.index(propensity)].copy()
        ),
        arms=int(actions.max()) + 1 if arms is None else arms,
        context_names=tuple(others),
    )
