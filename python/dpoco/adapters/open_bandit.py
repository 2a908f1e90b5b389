"""Private bandits as policies of Open Bandit Pipeline: duck-typed, nothing is imported.

``select_action(context)`` and ``update_params(action, reward, context)`` are the two halves of one
round. The policy learns only from its own choices, one reward per round. An update for another
action, another context or out of turn raises `RoundOrderError` and changes nothing. For rewards
that come late or in batches, use tickets: ``select_batch`` and ``update_batch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco import _literals as literals
from dpoco._tickets import Ticket
from dpoco._validation import IntArray, float_array
from dpoco.accounting import Budget, Guarantee
from dpoco.adapters._rounds import BanditRounds
from dpoco.errors import HorizonExceeded, RoundOrderError, StateError
from dpoco.trace import RecordShares

__all__ = ["PolicyType", "PrivateHighDimensional", "PrivateLinUCB"]


class PolicyType(str):
    """The text ``contextual`` that also equals ``obp.policy.PolicyType.CONTEXTUAL``.

    Versions of the pipeline compare with one or with the other.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other)
        return getattr(other, "name", None) == self.upper()

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class _Policy:
    """Base of both policies."""

    policy_type = PolicyType("contextual")
    len_list = 1
    policy_name: str
    _learner: literals.ArmPolicy

    def __init__(
        self,
        dim: int,
        n_actions: int,
        *,
        horizon: int,
        budget: Budget | None,
        context_bound: float,
        reward_bound: float,
        radius: float = 1.0,
        unanswered: literals.Unanswered = "raise",
        options: dict[str, Any] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.dim, self.n_actions = dim, n_actions
        size = (n_actions, dim)
        self._rounds = BanditRounds(
            self._learner, *size, horizon, budget, context_bound, reward_bound, radius, unanswered,
            options, random_state,
        )  # fmt: skip

    @property
    def n_trial(self) -> int:
        """Number of completed rounds."""
        return self._rounds.learner.round

    @property
    def learner(self) -> Any:
        """The underlying learner. Its `save` keeps the state, which is as secret as the data."""
        return self._rounds.learner

    @property
    def guarantee(self) -> Guarantee:
        """The joint guarantee: it requires that only its own user sees an action."""
        return self._rounds.learner.guarantee

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """Published estimates of all actions, shape (n_actions, dim)."""
        return self._rounds.learner.coefficients

    def initialize(self) -> None:
        """Do nothing if the policy has not started.

        Raises
        ------
        StateError
            If it has started: starting over would spend the budget again, so make a new policy.
        """
        if self._rounds._begun():
            raise StateError("starting over would spend the budget again: make a new policy")

    def bind(self, learner: Any) -> None:
        """Continue with a learner that `dpoco.load` has restored.

        Raises
        ------
        StateError
            If this policy has started.
        ValueError, TypeError
            If the learner does not fit.
        """
        self._rounds.bind(learner)

    def select_action(self, context: Any) -> IntArray:
        """Return the action for this round's user, shape (1,); the same until the round ends.

        Parameters
        ----------
        context : array_like of shape (1, dim)

        Raises
        ------
        RoundOrderError
            If another user's action waits for its reward, unless ``unanswered="skip"``.
        HorizonExceeded
            After `horizon` rounds.
        """
        return np.array([self._rounds.choose(self._one(context))], dtype=np.int64)

    def update_params(self, action: Any, reward: Any, context: Any) -> None:
        """End the round with the reward of its selected action.

        Parameters
        ----------
        action : int
            The action that `select_action` returned.
        reward : float
            The reward, clipped; NaN if it never came.
        context : array_like of shape (1, dim)
            The context for which it was selected.

        Raises
        ------
        RoundOrderError
            For another action or context, or without a selection; nothing changes.
        """
        self._rounds.answer(_index(action), reward, self._one(context))

    def skip(self) -> None:
        """End a round whose reward never came; the noise advances as in any other round."""
        self._rounds.skip()

    def recommend(self, contexts: Any) -> IntArray:
        """Return what `select_action` would return for many users, shape (n, 1), without a round.

        This is post-processing of the current published estimates, for users whose rewards will not
        be learned from.

        Parameters
        ----------
        contexts : array_like of shape (n, dim)

        Raises
        ------
        RoundOrderError
            While an action waits for its reward.
        """
        return self._rounds.learner.recommend(contexts)[:, None]

    def select_batch(self, contexts: Any) -> tuple[IntArray, list[Ticket]]:
        """Return actions for many users, shape (n, 1), and a ticket for each future reward.

        Parameters
        ----------
        contexts : array_like of shape (n, dim)

        Raises
        ------
        RoundOrderError
            While an action of `select_action` waits for its reward.
        HorizonExceeded
            If there are not enough rounds left; tickets reserve theirs. No ticket is issued.
        """
        rows = float_array("contexts", contexts, (None, self.dim))
        learner = self._rounds.learner
        left = learner.horizon - learner.round - len(learner.outstanding)
        if rows.shape[0] > left:
            raise HorizonExceeded(f"rounds asked for: {rows.shape[0]}, left: {left}")
        issued = [learner.decide(row, ticket=True) for row in rows]
        actions = np.array([arm for arm, _ in issued], dtype=np.int64)
        return actions[:, None], [ticket for _, ticket in issued]

    def update_batch(self, tickets: Sequence[Ticket], rewards: Any) -> None:
        """Play the rounds of tickets with their rewards, in the given order.

        Which rewards come, when and in which order must not depend on the protected records: see
        ``docs/delayed.md``.

        Parameters
        ----------
        tickets : sequence of Ticket
            Tickets from `select_batch`, each at most once.
        rewards : array_like of shape (n,)
            Their rewards; NaN for one that never came.

        Raises
        ------
        RoundOrderError
            For a ticket that is not outstanding, or is given twice; no round is played.
        StateError
            For a ticket of another learner; the tickets before it have been played.
        """
        values = float_array("rewards", rewards, (len(tickets),))
        learner = self._rounds.learner
        numbers = [ticket.number for ticket in tickets]
        if len(set(numbers)) < len(numbers) or not set(numbers) <= set(learner.outstanding):
            raise RoundOrderError("each ticket must be outstanding, and be given once")
        for ticket, value in zip(tickets, values.tolist(), strict=True):
            learner.observe(value, ticket=ticket)

    def play(self, contexts: Any, rewards: Any) -> IntArray:
        """Play one round per row of a simulated world, and return the actions, shape (n, 1).

        The actions equal those of `select_action` and `update_params` in turn; this runs in
        compiled code.

        Parameters
        ----------
        contexts : array_like of shape (n, dim)
        rewards : array_like of shape (n, n_actions)
            Rewards of all actions; only those of the selected actions are read.

        Raises
        ------
        HorizonExceeded
            If there are not enough rounds left; none is played.
        RoundOrderError
            While an action waits for its reward.
        """
        actions: IntArray = self._rounds.learner.run(contexts, rewards).actions
        return actions[:, None]

    def nonprivate_records(self, contexts: Any) -> RecordShares:
        """Return how this policy reads contexts, for evaluation only. No round is played.

        **Not private**: it counts raw records, so do not publish it.

        Parameters
        ----------
        contexts : array_like of shape (n, dim)
        """
        rows = float_array("contexts", contexts, (None, self.dim))
        return RecordShares.of(self._rounds.nonprivate_flags(rows))

    def _one(self, context: Any) -> NDArray[np.float64]:
        row: NDArray[np.float64] = float_array("context", context, (1, self.dim))[0]
        return row

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.learner!r}>"


class PrivateLinUCB(_Policy):
    """`dpoco.bandits.LinUCB` as a contextual policy.

    Parameters
    ----------
    dim : int
        Length of a context.
    n_actions : int
        Number of actions.
    horizon : int
        Number of rounds; for a log that is replayed, its length. This and all following arguments
        are keyword-only.
    budget : Budget or None
        Budget of all rounds together; None: no privacy.
    context_bound : float
        Required. Contexts are clipped to this l2 norm, silently. Public: never take it from the
        data.
    reward_bound : float
        Required. Rewards are clipped to [-reward_bound, reward_bound]. Public, too.
    radius : float, default 1.0
        Largest l2 norm of an action's coefficients.
    unanswered : {"raise", "skip"}
        What selecting does while an action waits for its reward. "raise": for the same context it
        returns the same action, for another one it raises an error. "skip": for any context, it
        ends that round without a reward, which counts towards the horizon, and begins the next one.
        The pipeline's simulator updates only where the log agrees and needs "skip".
    options : dict, optional
        Further arguments of the learner, for example "exploration".
    random_state : int, optional
        Source of reproducible noise, for tests and simulation; it voids the guarantee.

    Examples
    --------
    >>> import dpoco
    >>> policy = dpoco.adapters.open_bandit.PrivateLinUCB(
    ...     3, 2, horizon=100_000, budget=dpoco.Budget(1.0, 1e-6),
    ...     context_bound=1.0, reward_bound=1.0)
    >>> context = [[0.6, 0.0, 0.8]]
    >>> (action,) = policy.select_action(context)
    >>> policy.update_params(action, 1.0, context)
    >>> policy.n_trial
    1
    """

    policy_name = "private_linucb"
    _learner = "linucb"


class PrivateHighDimensional(_Policy):
    """`dpoco.bandits.HighDimensionalBandit` on an l1 ball as a contextual policy.

    Parameters
    ----------
    dim : int
        Length of a context.
    n_actions : int
        Number of actions.
    horizon : int
        Number of rounds; for a log that is replayed, its length. This and all following arguments
        are keyword-only.
    budget : Budget or None
        Budget of all rounds together; None: no privacy.
    context_bound : float
        Required. Contexts are clipped to this maximum norm, silently. Public: never take it from
        the data.
    reward_bound : float
        Required. Rewards are clipped to [-reward_bound, reward_bound]; 1 for a logistic link, which
        clips them to [0, 1]. Public, too.
    radius : float, default 1.0
        Largest l1 norm of an action's coefficients.
    unanswered : {"raise", "skip"}
        As for `PrivateLinUCB`.
    options : dict, optional
        Further arguments of the learner, for example "link".
    random_state : int, optional
        Source of reproducible noise, for tests and simulation; it voids the guarantee.
    """

    policy_name = "private_high_dimensional"
    _learner = "high_dimensional"


def _index(action: Any) -> int:
    if isinstance(action, np.ndarray) and action.size == 1:
        action = action.reshape(())[()]
    if isinstance(action, (bool, np.bool_)) or not isinstance(action, (int, np.integer)):
        raise TypeError(f"action must be an int; got {type(action).__name__}")
    return int(action)
