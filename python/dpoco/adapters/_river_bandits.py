"""Bandit policies in river's dialect: experts, and contextual bandits.

river's own policies keep the mean reward of every arm and print it. These keep nothing of the kind:
their representation shows arguments and the guarantee, their ranking what was published.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from river import bandit
from river.base import Base

from dpoco.accounting import Budget, Guarantee
from dpoco.adapters._features import FeatureMap
from dpoco.adapters._linear import own_arguments
from dpoco.adapters._rounds import BanditRounds, ExpertRounds, Rounds
from dpoco.trace import RecordShares


class PrivatePolicy:
    """What the policies share: a public list of arms, and rounds in their order."""

    arms: Sequence[Hashable]
    _rounds: Rounds
    _n: int

    def _begin(self, arguments: dict[str, Any]) -> None:
        super().__init__()  # river's
        vars(self).update(own_arguments(arguments))
        self._index = {arm: index for index, arm in enumerate(self.arms)}
        if len(self._index) != len(self.arms) or len(self._index) < 2:
            raise ValueError("arms must be at least two, all different")

    @property
    def learner_(self) -> Any:
        """The learner underneath: its `save` keeps the state, which is as secret as the data."""
        return self._rounds.learner

    @property
    def guarantee(self) -> Guarantee:
        """What is promised; of contextual policies, jointly: an arm is for its own user's eyes."""
        return self._rounds.guarantee

    def bind(self, learner: Any) -> None:
        """Go on with a learner that `dpoco.load` has brought back; nobody else may."""
        self._rounds.bind(learner)

    def _pull(self, arm_ids: Any, *context: Any) -> Any:
        policy: Any = self  # river has a `pull` around this one, with pulls of its own
        return policy.pull(arm_ids, *context)

    def _check_arms(self, arm_ids: Any) -> None:
        if set(arm_ids) != set(self._index):
            raise ValueError("the learner chooses among all its arms: arm_ids must name them all")

    def _arm(self, arm_id: Any) -> int:
        if arm_id not in self._index:
            raise ValueError("arm_id is none of this policy's arms")
        return self._index[arm_id]

    def __repr__(self) -> str:
        # Never what was learned: river's own table shows mean rewards.
        arguments: str = Base.__repr__(self)
        return f"{arguments}\n  {self.guarantee!r}"


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
        self._begin(locals())
        self._rounds = ExpertRounds(
            learner, len(arms), horizon, budget, reward_range, options, seed
        )

    def pull(self, arm_ids: Any) -> Any:
        """Return the round's arm; the same one until `update`."""
        self._check_arms(arm_ids)
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


class PrivateBandit(PrivatePolicy, bandit.base.Policy):
    """A bandit without contexts, jointly differentially private: LinUCB on a constant context.

    Parameters
    ----------
    arms : sequence
        Public names of the arms, at least two.
    horizon : int
        Number of rounds. Keyword-only, as all that follow.
    budget : Budget or None
        Of all rounds together; None switches privacy off.
    reward_bound : float, default 1.0
        Rewards are clipped to [-reward_bound, reward_bound].
    options : dict, optional
        Further arguments of `dpoco.bandits.LinUCB`, "exploration" for example.
    seed : int, optional
        Reproducible noise: for tests and simulation, it voids the guarantee.

    Notes
    -----
    Only rewards of the arm that was pulled are learned, one a round; other updates raise
    `RoundOrderError`. Past the horizon `pull` raises `HorizonExceeded`.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.adapters.river import PrivateBandit
    >>> policy = PrivateBandit(("a", "b"), horizon=10_000, budget=dpoco.Budget(1.0, 1e-6))
    >>> arm = policy.pull(["a", "b"])
    >>> policy.update(arm, 1.0)
    """

    _rounds: BanditRounds

    def __init__(
        self,
        arms: Sequence[Any],
        *,
        horizon: int,
        budget: Budget | None,
        reward_bound: float = 1.0,
        options: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(locals())
        bounded = {"reward_bound": reward_bound, **(options or {})}
        self._rounds = BanditRounds(
            "linucb", len(arms), 1, horizon, budget, reward_bound, "raise", bounded, seed
        )

    def pull(self, arm_ids: Any) -> Any:
        """Return the round's arm; the same one until `update` or `skip`."""
        self._check_arms(arm_ids)
        return self.arms[self._rounds.choose([1.0])]

    def update(self, arm_id: Any, reward: Any) -> None:
        """End the round with the reward of the arm that was pulled."""
        self._rounds.answer(self._arm(arm_id), reward)
        self._n += 1

    def skip(self) -> None:
        """End a round whose reward never came; the noise advances as in any other."""
        self._rounds.skip()

    @property
    def ranking(self) -> list[Any]:
        """Arms by published mean reward, the largest first."""
        means = self._rounds.learner.coefficients[:, 0]
        return [self.arms[index] for index in np.argsort(-means, kind="stable")]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"arms": (0, 1), "horizon": 10_000, "budget": Budget(4.0, 1e-6)}


class PrivateContextualBandit(PrivatePolicy, bandit.base.ContextualPolicy):
    """A contextual bandit, jointly differentially private.

    Parameters
    ----------
    arms : sequence
        Public names of the arms, at least two.
    features : sequence of str, or int
        Public names of the contexts' features, or the number of entries names are hashed to.
    horizon : int
        Number of rounds. Keyword-only, as all that follow.
    budget : Budget or None
        Of all rounds together; None switches privacy off.
    learner : {"linucb", "high_dimensional"}
        `dpoco.bandits.LinUCB`, or `dpoco.bandits.HighDimensionalBandit` on an l1 ball.
    radius : float, default 1.0
        Of the ball of an arm's coefficients, in l2 for "linucb", in l1 for "high_dimensional".
    unanswered : {"raise", "skip"}
        What a `pull` does while a decision waits for its reward. "raise": for the same context it
        returns the same arm, for another one it raises. "skip": whatever the context, it ends that
        round without a reward, which counts towards the horizon, and begins the next one.
    options : dict, optional
        Further arguments of the learner, "reward_bound" for example.
    seed : int, optional
        Reproducible noise: for tests and simulation, it voids the guarantee.

    Notes
    -----
    An arm is computed from its user's own context: show it to this user only. Only rewards of the
    arm that was pulled, for the context it was pulled for, are learned; other updates raise
    `RoundOrderError`. ``river.bandit.evaluate_offline`` needs ``unanswered="skip"``.

    Examples
    --------
    >>> import dpoco
    >>> from dpoco.adapters.river import PrivateContextualBandit
    >>> policy = PrivateContextualBandit(
    ...     ("a", "b"), ("age", "income"), horizon=100_000, budget=dpoco.Budget(1.0, 1e-6))
    >>> x = {"age": 0.3, "income": 0.8}
    >>> arm = policy.pull(["a", "b"], x)
    >>> policy.update(arm, x, 1.0)
    """

    _rounds: BanditRounds

    def __init__(
        self,
        arms: Sequence[Any],
        features: Sequence[str] | int,
        *,
        horizon: int,
        budget: Budget | None,
        learner: str = "linucb",
        radius: float = 1.0,
        unanswered: str = "raise",
        options: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        self._begin(locals())
        self._features = FeatureMap(features)
        size = (len(arms), self._features.dimension)
        self._rounds = BanditRounds(
            learner, *size, horizon, budget, radius, unanswered, options, seed
        )

    def pull(self, arm_ids: Any, context: Mapping[Any, Any] | None = None) -> Any:
        """Return the arm for this round's user; asked again with the same context, the same one."""
        self._check_arms(arm_ids)
        return self.arms[self._rounds.choose(self._features.row(context or {}))]

    def update(self, arm_id: Any, context: Mapping[Any, Any] | None, reward: Any) -> None:
        """End the round with the reward of the arm that was pulled for this context."""
        row = self._features.row(context or {})
        self._rounds.answer(self._arm(arm_id), reward, row)
        self._n += 1

    def skip(self) -> None:
        """End a round whose reward never came; the noise advances as in any other."""
        self._rounds.skip()

    def nonprivate_records(self, contexts: Any) -> RecordShares:
        """Return how this policy reads contexts, for evaluation only; no round is played.

        **Not private**: it counts in raw records, and publishing it is a leak.

        Parameters
        ----------
        contexts : sequence of mappings, or pandas.DataFrame
        """
        return RecordShares.of(
            self._rounds.nonprivate_flags(self._features.rows(contexts)),
            self._features.nonprivate_flags(contexts),
            names=self._features.names,
        )

    @property
    def ranking(self) -> list[Any]:
        """Not defined: which arm is best depends on the context."""
        raise NotImplementedError("which arm is best depends on the context")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        for learner in ("linucb", "high_dimensional"):
            yield {
                "arms": (0, 1), "features": 4, "horizon": 10_000, "budget": Budget(4.0, 1e-6),
                "learner": learner,
            }  # fmt: skip
