"""One decision, one answer: what the policies of all dialects share.

Other libraries let callers update any arm with any reward at any time. A private learner cannot:
its noise is accounted for one record a round, of the arm that was chosen in it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from dpoco._clipping import Flags, context_flags
from dpoco._validation import FloatArray, choice, float_array
from dpoco.accounting import Budget
from dpoco.adapters._arguments import further_options, own_arguments, seeded_source
from dpoco.bandits import HighDimensionalBandit, LinUCB
from dpoco.domains import LpBall
from dpoco.errors import RoundOrderError, StateError
from dpoco.learners import learner_named

_EXPERTS = ("prefix_hedge", "batch_share", "oblivious_tracker")
_EXPERTS_OWN = frozenset({"experts", "horizon", "budget", "loss_range", "on_violation", "source"})
_OWN = frozenset({
    "arms", "dimension", "domain", "horizon", "budget", "context_bound", "reward_bound",
    "on_violation", "source",
})  # fmt: skip


class Rounds:
    """Base: a learner that is not copied once it has started.

    A pickle of an unstarted one makes a fresh learner; a started one is saved through its learner.
    """

    _terms: dict[str, Any]
    learner: Any

    def _begun(self) -> bool:
        return bool(self.learner._is_started())

    def _check_fresh(self) -> None:
        if self._begun():
            raise StateError(
                "a started policy can neither be copied nor pickled, because the copy would "
                "share its noise; clone() makes a fresh one, learner.save() keeps its state, "
                "dpoco.load and bind() continue it"
            )

    def bind(self, learner: Any) -> None:
        """Go on with a learner that was saved and loaded, or unpickled and resumed.

        Raises
        ------
        StateError
            If this policy has started.
        ValueError, TypeError
            If the learner is of another kind or was made with other arguments.
        """
        self._check_fresh()
        if type(learner) is not type(self.learner):
            raise TypeError(
                f"the learner must be a {type(self.learner).__name__}; got {type(learner).__name__}"
            )
        learner._check_active()
        mine, given = self.learner.get_params(), learner.get_params()
        names = set(mine) - {"source", "plan"}
        if any(mine[name] != given[name] for name in names):
            raise ValueError("the learner was made with other arguments than this policy")
        self.learner = learner

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_fresh()
        return functools.partial(type(self), **self._terms), ()


class BanditRounds(Rounds):
    """A contextual bandit of this library, asked and answered in turn.

    Parameters
    ----------
    learner : {"linucb", "high_dimensional"}
        `LinUCB`, or `HighDimensionalBandit` on an l1 ball.
    arms, dimension, horizon, budget, context_bound, reward_bound
        Of the learner.
    radius : float
        Of the ball of an arm's coefficients: l2 for "linucb", l1 for "high_dimensional".
    unanswered : {"raise", "skip"}
        What happens to a round whose reward has not come when the next decision is asked for:
        for the same context the decision is repeated, for another one that is an error; or the
        round ends without a reward, whatever the context.
    options : mapping or None
        Further arguments of the learner.
    seed : int or None
        Reproducible noise, which voids the guarantee.
    """

    learner: LinUCB | HighDimensionalBandit

    def __init__(
        self,
        learner: str,
        arms: int,
        dimension: int,
        horizon: int,
        budget: Budget | None,
        context_bound: float,
        reward_bound: float,
        radius: float,
        unanswered: str,
        options: Mapping[str, Any] | None,
        seed: Any,
    ) -> None:
        self._terms = own_arguments(locals())
        choice("learner", learner, ("linucb", "high_dimensional"))
        choice("unanswered", unanswered, ("raise", "skip"))
        rest = further_options(options, _OWN)
        rest |= {"horizon": horizon, "budget": budget, "source": seeded_source(seed)}
        rest |= {"context_bound": context_bound, "reward_bound": reward_bound}
        if learner == "linucb":
            self.learner = LinUCB(arms, dimension, **{"parameter_bound": radius, **rest})
        else:
            self.learner = HighDimensionalBandit(arms, LpBall(dimension, 1.0, radius), **rest)
        self._skips = unanswered == "skip"
        self._waiting: tuple[bytes, int] | None = None

    def _begun(self) -> bool:
        return self._waiting is not None or super()._begun()

    def choose(self, context: Any) -> int:
        """Return the arm for a context; asked again, the same one, unless that skips.

        Raises
        ------
        RoundOrderError
            If another user's decision waits for its reward, unless ``unanswered="skip"``.
        """
        row = float_array("context", context, (self.learner.dimension,))
        if self._waiting is not None and self._skips:
            # Also for an equal context: how many rounds there are must not depend on the data.
            self.skip()
        if self._waiting is not None and self._waiting[0] != row.tobytes():
            raise RoundOrderError(
                "the last decision waits for its reward: update, or skip() the round; "
                'unanswered="skip" does this automatically'
            )
        arm = self.learner.decide(row)
        self._waiting = (row.tobytes(), arm)
        return arm

    def answer(self, arm: int, reward: Any, context: Any = None) -> None:
        """End the round with the reward of the arm that was chosen in it.

        Raises
        ------
        RoundOrderError
            If no decision waits, or for another arm or context than the decision's: nothing
            changed.
        """
        if self._waiting is None:
            raise RoundOrderError("an update without a decision: call the two in turn")
        waiting, chosen = self._waiting
        if arm != chosen:
            raise RoundOrderError(
                "an update for another arm than the one chosen in this round: only rewards of "
                "the policy's own decisions can be learned from"
            )
        if context is not None:
            row = float_array("context", context, (self.learner.dimension,))
            if row.tobytes() != waiting:
                raise RoundOrderError("an update for another context than that of the decision")
        self.learner.observe(reward)
        self._waiting = None

    def skip(self) -> None:
        """End a round whose reward never came; the noise advances as in any other."""
        if self._waiting is None:
            raise RoundOrderError("no decision waits for a reward")
        self.learner.skip()
        self._waiting = None

    def nonprivate_flags(self, contexts: FloatArray) -> Flags:
        """Return how contexts are read. **Not private**."""
        return context_flags(contexts, self.learner._context_norms(contexts))


class ExpertRounds(Rounds):
    """A learner of experts, asked and answered in turn; rewards of all arms come back.

    Parameters
    ----------
    learner : {"prefix_hedge", "batch_share", "oblivious_tracker"}
        Which learner.
    arms, horizon, budget
        Of the learner.
    reward_range : (float, float)
        Public range of the rewards.
    options : mapping or None
        Further arguments of the learner.
    seed : int or None
        Reproducible noise, which voids the guarantee.
    """

    def __init__(
        self,
        learner: str,
        arms: int,
        horizon: int,
        budget: Budget | None,
        reward_range: tuple[float, float],
        options: Mapping[str, Any] | None,
        seed: Any,
    ) -> None:
        self._terms = own_arguments(locals())
        choice("learner", learner, _EXPERTS)
        self.learner = learner_named(learner).load()(
            arms,
            horizon=horizon,
            budget=budget,
            loss_range=reward_range,
            source=seeded_source(seed),
            **further_options(options, _EXPERTS_OWN),
        )
        self._sum = float(reward_range[0]) + float(reward_range[1])

    def choose(self) -> int:
        """Return the round's arm; the same one until `answer`."""
        arm: int = self.learner.decide()
        return arm

    def answer(self, arm: int, rewards: Any) -> None:
        """End the round with the rewards of all arms, shape (K,).

        Raises
        ------
        RoundOrderError
            Without `choose`, or for another arm than the one chosen: nothing changed.
        """
        _, chosen = self.learner._check_turn()
        if arm != chosen:
            raise RoundOrderError("an update for another arm than the one chosen in this round")
        row = float_array("rewards of all arms", rewards, (self.learner.experts,))
        # Not finite: the lowest loss, as for the learner itself.
        self.learner.observe(self._sum - row)
