"""Experts in river's dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from river import bandit

from dpoco.accounting import Budget
from dpoco.adapters._river_policy import PrivatePolicy
from dpoco.adapters._rounds import ExpertRounds

__all__ = ["PrivateExperts"]


class PrivateExperts(PrivatePolicy, bandit.base.Policy):
    """A choice among arms whose rewards are all seen afterwards: prediction with expert advice.

    Parameters
    ----------
    arms : sequence
        Public names of the arms, at least two.
    horizon : int
        Number of rounds. Keyword-only, as all that follow.
    budget : Budget or None
        Of all rounds together; None switches privacy off.
    learner : {"prefix_hedge", "batch_share", "oblivious_tracker"}
        A learner of ``dpoco.experts``.
    reward_range : (float, float), default (0, 1)
        Public range of the rewards, enforced by clipping.
    options : dict, optional
        Further arguments of the learner, "switches" for example.
    seed : int, optional
        Reproducible noise: for tests and simulation, it voids the guarantee.

    Notes
    -----
    `update` takes the rewards of *all* arms, so ``river.bandit.evaluate``, which hands out that of
    one arm, is for the other policies.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.adapters.river import PrivateExperts
    >>> policy = PrivateExperts(("a", "b"), horizon=10_000, budget=dpoco.Budget(1.0, 1e-6))
    >>> arm = policy.pull(["a", "b"])
    >>> policy.update(arm, {"a": 0.2, "b": 0.9})
    """

    _rounds: ExpertRounds

    def __init__(
        self,
        arms: Sequence[Any],
        *,
        horizon: int,
        budget: Budget | None,
        learner: str = "prefix_hedge",
        reward_range: tuple[float, float] = (0.0, 1.0),
        options: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        arguments = dict(locals())
        bandit.base.Policy.__init__(self)
        self._begin(arguments)
        self._rounds = ExpertRounds(
            learner,
            len(arms),
            horizon=horizon,
            budget=budget,
            reward_range=reward_range,
            options=options,
            seed=seed,
        )

    def pull(self, arm_ids: Any) -> Any:
        """Return the round's arm; the same one until `update`."""
        self._check_arms(arm_ids)
        return self._pull(arm_ids)

    def _pull(self, arm_ids: Any) -> Any:
        return self.arms[self._rounds.choose()]

    def update(self, arm_id: Any, rewards: Mapping[Any, Any] | Sequence[Any]) -> None:
        """End the round with the rewards of all arms.

        Parameters
        ----------
        arm_id
            The arm that was pulled.
        rewards : mapping of arms to numbers, or sequence
            Of all arms; a sequence is in the order of `arms`.

        Raises
        ------
        RoundOrderError
            Without a `pull`, or for another arm.
        ValueError, TypeError
            If it is not one number an arm: nothing changed.
        """
        values: Any = rewards
        if isinstance(rewards, Mapping):
            if set(rewards) != set(self._index):
                raise ValueError("rewards must be those of all arms")
            values = [rewards[arm] for arm in self.arms]
        self._rounds.answer(self._arm(arm_id), values)
        self._n += 1

    @property
    def ranking(self) -> list[Any]:
        """Arms by published weight, the largest first; for "prefix_hedge"."""
        weights = getattr(self._rounds.learner, "weights", None)
        if weights is None:
            raise NotImplementedError("this learner publishes no weights")
        return [self.arms[index] for index in np.argsort(-weights, kind="stable")]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"arms": (0, 1), "horizon": 10_000, "budget": Budget(4.0, 1e-6)}
