"""Shared parts of contextual bandits: contexts, arms, rewards and their traces."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core
from dpoco._clipping import Flags, context_flags
from dpoco._validation import (
    Fields,
    FloatArray,
    IntArray,
    Named,
    float_array,
    import_package,
    number,
)
from dpoco.errors import HorizonExceeded, RoundOrderError
from dpoco.learning.calibrated import AnyPlan
from dpoco.learning.learner import Admit, OnlineLearner, Progress, empty_rows
from dpoco.learning.participation import Persons
from dpoco.learning.tickets import Ticket
from dpoco.trace import NO_STREAM, ReadRecords

# Bounds with which `choose` compares bandits.
UNITS = {"context_bound": 1.0, "reward_bound": 1.0}


def _norms(contexts: FloatArray, bound: float, exponent: float) -> FloatArray:
    """Return the norms of contexts relative to their bound, shape (T,)."""
    # An overflowing norm is beyond the bound.
    with np.errstate(all="ignore"):
        scaled: FloatArray = contexts / bound
        return np.asarray(np.linalg.norm(scaled, exponent, axis=1))


def read_rewards(rewards: FloatArray, bounds: tuple[float, float]) -> FloatArray:
    """Return rewards as learners read them: clipped to their range, 0 where missing."""
    return np.where(np.isfinite(rewards), np.clip(rewards, *bounds), 0.0)


@dataclass(frozen=True, eq=False)
class BanditTrace(ReadRecords):
    """Actions and rewards of a run. **Not private**: it contains every user's action.

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
    # Rewards of all arms, without clipping.
    _table: FloatArray = field(repr=False)
    _reward_range: tuple[float, float] = field(default=(-np.inf, np.inf), repr=False)
    # Bound on contexts, and the exponent of its norm.
    _bound: tuple[float, float] | None = field(default=None, repr=False)
    _beyond: NDArray[np.bool_] | None = field(default=None, repr=False)

    def _flags(self, part: slice) -> Flags:
        if not self._contexts.shape[1]:
            raise ValueError(NO_STREAM)
        low, high = self._reward_range
        table = self._table[part]
        known = np.isfinite(table)
        inside = (table >= low) & (table <= high)
        contexts = self._contexts[part]
        norms = None if self._bound is None else _norms(contexts, *self._bound)
        return {
            **context_flags(contexts, norms),
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
    def decisions(self) -> IntArray:
        """The actions, under the name that all traces use for decisions."""
        return self.actions

    @property
    def losses(self) -> FloatArray:
        """The largest declared reward minus each reward, shape (T,); infinite without a range."""
        return np.asarray(self._reward_range[1] - self.rewards, np.float64)

    @property
    def switches(self) -> IntArray:
        """Rounds of the run, counted from 0, after which the arm changed."""
        return np.flatnonzero(np.diff(self.actions))

    @property
    def average_reward(self) -> float:
        """Mean reward of all rounds, a missing one counted as 0; NaN for an empty run."""
        return float(self.rewards.mean()) if len(self) else float("nan")

    @property
    def best_arm(self) -> int:
        """The arm with the largest sum of rewards, the lowest index on ties."""
        return int(np.argmax(read_rewards(self._table, self._reward_range).sum(axis=0)))

    @property
    def best_linear(self) -> IntArray:
        """Actions, shape (T,), of a linear policy fitted in hindsight to the rewards of all arms.

        Fits least squares for every arm and takes the arm with the largest prediction.
        """
        # Learners read a context that is not finite as zero.
        present = np.isfinite(self._contexts).all(axis=1, keepdims=True)
        contexts = np.where(present, self._contexts, 0.0)
        weights = np.linalg.lstsq(
            contexts, read_rewards(self._table, self._reward_range), rcond=None
        )[0]
        actions: IntArray = np.argmax(contexts @ weights, axis=1).astype(np.int64)
        return actions

    def comparator_rewards(self, actions: ArrayLike) -> FloatArray:
        """Return the rewards, shape (T,), of other actions.

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
        return read_rewards(self._table[np.arange(len(self)), chosen], self._reward_range)

    def regret(self, comparator: Any = "arm") -> FloatArray:
        """Return cumulative regret: the comparator's rewards minus those of the run.

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

    def pseudo_regret(self, means: ArrayLike) -> FloatArray:
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
        pd = import_package("pandas", "to_frame", "files")

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


class BanditLearner(OnlineLearner):
    """Base of the bandits: `decide` for a context and `observe` its reward alternate.

    Their engine is a ``_core.BanditLearner``.
    """

    # Arrival times must not depend on actions, since a user's action depends on the user's record.
    _seen = "published estimates"
    # Order of the norm in which contexts are bounded.
    _norm: ClassVar[float]
    # True if no round forces an arm.
    _takes_masks: ClassVar[bool] = False
    _arms: int
    _dimension: int

    def _set_up(self, arguments: Fields, plan: AnyPlan, seeded: bool, claim: _core.Claim) -> None:
        self._arms, self._dimension = self._sizes(arguments, plan)
        super()._set_up(arguments, plan, seeded, claim)

    @staticmethod
    def _sizes(arguments: Named, plan: AnyPlan) -> tuple[int, int]:
        """Return the number of arms and the dimension of contexts in a plan."""
        raise NotImplementedError

    def _plain_parts(self) -> int:
        return 1

    def _reward_range(self) -> tuple[float, float]:
        """Return the range that rewards are clipped to."""
        raise NotImplementedError

    def _context_bound(self) -> float:
        """Return the norm that contexts are clipped to."""
        raise NotImplementedError

    def _context_norms(self, rows: FloatArray) -> FloatArray:
        """Return the norms of contexts relative to their bound, shape (T,)."""
        return _norms(rows, self._context_bound(), self._norm)

    @property
    def arms(self) -> int:
        """Number of arms K; actions are below it."""
        return self._arms

    @property
    def dimension(self) -> int:
        """Length d of a context."""
        return self._dimension

    @overload  # type: ignore[override]
    def decide(self, context: ArrayLike, *, ticket: Literal[False] = False) -> int: ...

    @overload
    def decide(
        self, context: ArrayLike, *, ticket: Literal[True], allowed: ArrayLike | None = None
    ) -> tuple[int, Ticket]: ...

    @overload
    def decide(
        self, context: ArrayLike, *, ticket: bool, allowed: ArrayLike | None = None
    ) -> int | tuple[int, Ticket]: ...

    @_core.direct_bandit_decide
    def decide(
        self, context: ArrayLike, *, ticket: bool = False, allowed: ArrayLike | None = None
    ) -> int | tuple[int, Ticket]:
        """Return the arm for the round's user, in 0..K-1; it stays the same until `observe`.

        Parameters
        ----------
        context : array_like of shape (d,)
            The user's context. It is clipped to its bound; a non-finite one counts as zero. Nothing
            is drawn, and the learner's state changes only once the reward is observed.
        ticket : bool, default False
            Return ``(arm, Ticket)``. The reward may come later, out of order or never, with
            ``observe(reward, ticket=ticket)``, `skip` or `expire`. Any number of users may wait for
            their rewards. A ticket contains its user's context and reserves a round of the horizon.
        allowed : array_like of bool, shape (K,), optional
            Arms that are available to this user, at least one. Only for bandits that force no arm,
            and with a ticket. The mask is protected like the context. Bounds on regret are for
            rounds in which all arms are allowed.

        Raises
        ------
        RoundOrderError
            If this round's decision was already asked for with another context, since a round has
            one user (with a ticket: if it was already asked for without one).
        HorizonExceeded
            After `horizon` rounds, played or reserved by tickets.
        StateError
            If the learner is a suspended copy.
        ValueError, TypeError
            For a wrong shape or dtype; nothing changes. With ``on_violation="raise"`` also for a
            context beyond its bound.
        """
        if ticket:
            return self._issue_for(context, self._read_allowed(allowed))
        if allowed is not None:
            raise ValueError("allowed is for decisions with a ticket: ticket=True")
        self._check_alone()
        turn = self._engine.round
        if turn != self._asked[0]:
            self._check_active()
            if turn >= self._horizon:
                raise HorizonExceeded(f"the horizon of {self._horizon} rounds is used up")
        row = float_array("context", context, (self._dimension,))
        if self._raises:
            self._refuse_contexts(row[None, :], turn)
        # The engine refuses another context in the same round, since a round has one user.
        arm = int(self._engine.decide(turn, row))
        self._asked = (turn, arm)
        return arm

    def _read_allowed(self, allowed: ArrayLike | None) -> NDArray[np.bool_] | None:
        """Return which arms are allowed, shape (K,); None for all of them."""
        if allowed is None:
            return None
        if not self._takes_masks:
            raise ValueError(
                f"allowed: {type(self).__name__} forces arms in rounds that must not depend on "
                "who comes; only bandits that force none take masks"
            )
        # The mask is copied, since compiled code reads contiguous memory, and the caller may change
        # the array. An error of compiled code about the layout would quote the context.
        mask = np.array(allowed)
        if mask.shape != (self._arms,) or mask.dtype != np.bool_:
            raise ValueError(f"allowed must be {self._arms} bools")
        return mask

    def _issue_for(
        self, context: ArrayLike, mask: NDArray[np.bool_] | None = None
    ) -> tuple[int, Ticket]:
        """Return an arm for another user, and a ticket for it."""
        self._enter_process()
        # The ticket keeps a copy of the context until the reward comes, since the caller may change
        # the array.
        row = float_array("context", context, (self._dimension,)).copy()
        row.flags.writeable = False
        if self._raises:
            self._refuse_contexts(row[None, :], self.round)
        book = self._open_book()
        with book.lock:
            turn = self._check_room(len(book))
            if self._asked[0] == turn:
                raise RoundOrderError("a decision waits for its reward: observe() or skip() first")
            # Forced pulls that wait for their rewards are counted. Otherwise the same arm would be
            # forced again and again.
            arm = due = int(self._engine.due(book.count_promised(self._arms)))
            if due < 0:
                chosen = np.empty(1, dtype=np.int64)
                # The round's state does not change, since tickets for other users are issued in the
                # same round.
                self._engine.recommend(row[None, :], chosen, mask)
                arm = int(chosen[0])
            return arm, book.issue(turn, arm, row, due)

    def _play_arrival(
        self, turn: int, ticket: Ticket, record: tuple[Any, ...], person: Persons
    ) -> None:
        """Play round `turn`; the context and the arm are the ticket's."""
        (reward,) = record
        value = math.nan if reward is None else number("reward", reward)
        if self._raises and reward is not None:
            self._refuse_rewards(np.array([[value]]), turn)
        # All checks come before the engine changes.
        who = self._digests(person, None)
        taken = self._engine.takes_arrival(turn, ticket.decision, ticket.due)
        # A record without a round does not count for its person.
        if taken and not self._admits(turn, who):
            value = math.nan
        self._engine.observe_arrival(turn, ticket.decision, ticket.due, ticket.context, value)

    @_core.direct_bandit_observe
    def observe(
        self, reward: Any, *, person: int | str | bytes | None = None, ticket: Ticket | None = None
    ) -> None:
        """End the round with the reward of the chosen arm.

        Parameters
        ----------
        reward : float
            The reward, clipped to its range. NaN: the reward never came; see `skip`.
        person : int, str or bytes
            The round's user, if the learner enforces a participation. A round beyond the limit
            silently counts as one whose reward never came.
        ticket : Ticket, optional
            Ticket of the earlier decision that the reward belongs to. A bandit with forced rounds
            plays no round, and learns nothing, if the schedule has no room for it; this is public.

        Raises
        ------
        RoundOrderError
            If `decide` was not called in this round, or the ticket is not outstanding.
        StateError
            For a ticket of another learner, or a forged one; nothing changes.
        HorizonExceeded
            Past the horizon; nothing is drawn and nothing changes.
        TypeError
            If it is not a number; nothing changes.
        ValueError
            With ``on_violation="raise"``, for a reward that is out of range or not finite.
        """
        if ticket is not None:
            return self._arrive(ticket, number("reward", reward), person=person)
        turn, _ = self._check_turn()
        value = number("reward", reward)
        if self._raises:
            self._refuse_rewards(np.array([[value]]), turn)
        self._engine.observe(turn, value if self._admits(turn, person) else math.nan)

    def skip(
        self, *, person: int | str | bytes | None = None, ticket: Ticket | None = None
    ) -> None:
        """End a round whose reward never came; the record counts as zero for every arm.

        The noise advances as in any other round, so no observer can see that the reward is missing.

        Parameters
        ----------
        person : int, str or bytes
            The round's user, if the learner enforces a participation; the round counts.
        ticket : Ticket, optional
            Ticket of the earlier decision whose reward never came.
        """
        if ticket is not None:
            return self._arrive(ticket, None, person=person)
        turn, _ = self._check_turn()
        # The person's counter counts the round, whether or not a reward would have been admitted.
        self._admits(turn, person)
        self._engine.observe(turn, math.nan)

    def recommend(self, contexts: ArrayLike) -> IntArray:
        """Return the learner's choice for each context, without starting a round.

        Parameters
        ----------
        contexts : array_like of shape (n, d)

        Returns
        -------
        ndarray of int64, shape (n,)
            Arms. Each is a function of the published estimates and of its context. Show it only
            to the user of that context.

        Raises
        ------
        RoundOrderError
            While a decision waits for its reward.
        """
        self._check_active()
        rows = float_array("contexts", contexts, (None, self._dimension))
        chosen = np.empty(rows.shape[0], dtype=np.int64)
        with self._alone():
            self._engine.recommend(rows, chosen)
        return chosen

    def run(
        self,
        contexts: ArrayLike,
        rewards: ArrayLike,
        *,
        persons: Persons = None,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100_000,
    ) -> BanditTrace:
        """Play many rounds of a simulated world in compiled code, interpreter lock released.

        Parameters
        ----------
        contexts : array_like of shape (T, d)
            One context per round.
        rewards : array_like of shape (T, K)
            Rewards of all arms; the learner reads only the reward of its action.
        persons : array_like of int, str or bytes with shape (T,)
            The rounds' users, if the learner enforces a participation.
        progress : callable, optional
            Called as ``progress(done, total)`` between chunks of rounds.
        checkpoint : path-like, optional
            State file that is rewritten atomically every `checkpoint_every` rounds and at the end.
        checkpoint_every : int, default 100000
            Rounds between checkpoints.

        Returns
        -------
        BanditTrace
            Actions and rewards of these rounds; not private.

        Raises
        ------
        HorizonExceeded
            If fewer than T rounds are left; no round is played.
        RoundOrderError
            While a decision waits for its reward.
        ValueError, TypeError
            For a wrong shape or dtype; no round is played.

        Notes
        -----
        The actions equal those of T calls of `decide` and `observe`, bit for bit. An interrupt
        (Ctrl-C) stops between rounds; `round` is then the number of rounds played.
        """
        rows = float_array("contexts", contexts, (None, self._dimension))
        rounds = rows.shape[0]
        table = float_array("rewards", rewards, (rounds, self._arms))
        if self._raises:
            self._refuse_contexts(rows, self.round)
            self._refuse_rewards(table, self.round)
        own = np.empty(rounds)
        actions = np.empty(rounds, dtype=np.int64)

        def play(part: slice, admit: Admit) -> None:
            passed = admit()
            entering = table[part] if passed is None else empty_rows(table[part], passed)
            self._engine.run(rows[part], entering, actions[part], own[part])
            # The trace has the true rewards of refused records.
            if passed is not None:
                left = part.start + np.flatnonzero(~passed)
                own[left] = read_rewards(table[left, actions[left]], self._reward_range())

        width = self._dimension + self._arms
        first_round, beyond = self._run_parts(
            rounds, width, persons, progress, checkpoint, checkpoint_every, play
        )
        for array in (actions, own):
            array.flags.writeable = False
        bound = self._context_bound(), self._norm
        return BanditTrace(
            actions, own, first_round, rows, table, self._reward_range(), bound, beyond
        )

    def _replay(
        self, contexts: FloatArray, actions: IntArray, rewards: FloatArray
    ) -> tuple[int, IntArray]:
        """Play a log: return the events read and the arms chosen in them (-1: not read)."""
        if self._limiter is not None:
            raise ValueError("a log does not say whose events it has: no participation is enforced")
        self._check_active()
        if self._raises:
            self._refuse_contexts(contexts, 0, "event")
            self._refuse_rewards(rewards[:, None], 0, "event")
        chosen = np.full(actions.shape[0], -1, dtype=np.int64)
        with self._alone():
            read = self._engine.replay(contexts, actions, rewards, chosen)
        return int(read), chosen

    def _refuse_contexts(self, rows: FloatArray, first: int, unit: str = "round") -> None:
        good = self._context_norms(rows) <= 1.0  # false for NaN, too
        if not good.all():
            row = first + int(np.argmin(good))
            raise ValueError(f"the context of {unit} {row} is out of its bound or not finite")

    def _refuse_rewards(self, table: FloatArray, first: int, unit: str = "round") -> None:
        low, high = self._reward_range()
        good = np.all((table >= low) & (table <= high), axis=1)
        if not good.all():
            row = first + int(np.argmin(good))
            raise ValueError(f"rewards of {unit} {row} are out of their range or not finite")

    @property
    def coefficients(self) -> FloatArray:
        """Estimates of all arms, shape (K, d), read-only.

        They are computed from releases, so the guarantee covers them, and you may publish them.
        """
        self._check_active()
        self._check_alone()
        flat: FloatArray = self._engine.coefficients()
        return flat.reshape(self._arms, self._dimension)

    @property
    def nonprivate_violations(self) -> int:
        """Contexts and rewards clipped or missing so far. **Not private**: publishing it leaks.

        Rewards beyond the limit of a participation count as missing.
        """
        return int(self._engine.nonprivate_violations())
