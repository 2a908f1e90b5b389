"""Playing learners against environments, round by round: experts, bandits, delays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpoco._validation import Fields, FloatArray, IntArray, float_array, positive_int
from dpoco.bandits import BanditTrace
from dpoco.environments._base import Environment, Oblivious
from dpoco.environments._contextual import ContextualWorld
from dpoco.experts import ExpertTrace
from dpoco.learning.families import Releases
from dpoco.learning.learner import OnlineLearner
from dpoco.learning.participation import Persons
from dpoco.learning.tickets import Ticket


def play(
    learner: Any, environment: Environment, *, rounds: int | None = None, persons: Persons = None
) -> ExpertTrace:
    """Play a learner against an environment.

    In each round the environment computes its losses, and the learner decides. The environment only
    learns the decision, and the learner only the losses.

    Parameters
    ----------
    learner : object with ``decide()`` and ``observe(losses)``
        A learner of `dpoco.experts`, or your own: `decide` returns an expert in 0..N-1, `observe`
        ends the round with the losses of all, shape (N,).
    environment : Environment
        Environment, played from its current round on.
    rounds : int, optional
        Number of rounds to play; None: all remaining rounds, and at least one.
    persons : array_like of int, str or bytes, optional
        The persons behind the rounds, one per round, if the learner enforces a participation.

    Returns
    -------
    ExpertTrace
        Losses and decisions; not private. It contains the losses of all experts: T N doubles.

    Raises
    ------
    ValueError
        If learner and environment differ in the number of experts, or if too few rounds are left.
    """
    count = _rounds_left(environment, rounds)
    experts = getattr(learner, "experts", environment.experts)
    if experts != environment.experts:
        raise ValueError(f"the learner has {experts} experts, the world {environment.experts}")
    named = _person_arguments(learner, persons, count)
    first_round = int(getattr(learner, "round", 0))
    start = environment.round
    # The losses of an environment that is fixed in advance already exist, so they are not copied.
    known = environment.matrix()[start:] if isinstance(environment, Oblivious) else None
    rows = np.empty((count, environment.experts)) if known is None else known[:count]
    decisions = np.empty(count, dtype=np.int64)
    for t in range(count):
        losses = environment.losses()
        if known is None:
            rows[t] = losses
        # The losses were drawn before, because they must not depend on the decision.
        decisions[t] = decision = learner.decide()
        environment.observe(decision)
        learner.observe(losses, **named[t])
    own = rows[np.arange(count), decisions]
    return ExpertTrace.of(rows, own, decisions, first_round, (0.0, 1.0))


def _rounds_left(world: Environment | ContextualWorld, rounds: int | None) -> int:
    """Return the number of rounds to play; `ValueError` if the environment has fewer left."""
    left = world.horizon - world.round
    if left == 0:
        raise ValueError("rounds must be left in the world, which has none: reset() it")
    return positive_int("rounds", left if rounds is None else rounds, maximum=left)


def _person_arguments(learner: Any, persons: Any, rounds: int) -> list[Fields]:
    """Return `observe`'s arguments for each round's person; checked before anything is played."""
    # Foreign learners check the name themselves, at the end of its round.
    if isinstance(learner, OnlineLearner):
        learner._digests(persons, rounds)
    return [{}] * rounds if persons is None else [{"person": each} for each in persons]


def play_bandit(
    learner: Any, world: ContextualWorld, *, rounds: int | None = None, persons: Persons = None
) -> BanditTrace:
    """Play a learner against a contextual environment, round by round.

    Parameters
    ----------
    learner : object with ``decide(context)`` and ``observe(reward)``
        A learner of `dpoco.bandits` (whose ``run`` is faster), or your own: `decide` returns an arm
        for the context, `observe` ends the round with the arm's reward.
    world : ContextualWorld
        Environment, played from its current round on.
    rounds : int, optional
        Number of rounds to play; None: all remaining rounds, and at least one.
    persons : array_like of int, str or bytes, optional
        The persons behind the rounds, one per round, if the learner enforces a participation.

    Returns
    -------
    BanditTrace
        Actions and rewards; not private.

    Raises
    ------
    ValueError
        If learner and environment differ in arms or dimension, or if too few rounds are left.
    """
    count = _rounds_left(world, rounds)
    for name in ("arms", "dimension"):
        if getattr(learner, name, getattr(world, name)) != getattr(world, name):
            raise ValueError(f"learner and world differ in {name}")
    named = _person_arguments(learner, persons, count)
    first_round = int(getattr(learner, "round", 0))
    part = slice(world.round, world.round + count)
    actions = np.empty(count, dtype=np.int64)
    rewards = np.empty(count)
    for t in range(count):
        # Only the reward of the arm is revealed; the others are for evaluation.
        actions[t] = action = learner.decide(world.context())
        rewards[t] = reward = world.reward(action)
        learner.observe(reward, **named[t])
    for array in (actions, rewards):
        array.flags.writeable = False
    return BanditTrace(actions, rewards, first_round, world.contexts[part], world.rewards[part])


@dataclass(frozen=True, eq=False)
class DelayedRun:
    """Log of T decisions with delayed feedback. **Not private**: it has raw values.

    Attributes
    ----------
    decisions : ndarray, shape (T,) of int64 or (T, d) of float64
        In the order of the tickets.
    values : ndarray of float64, shape (T,)
        Loss of each decision on its own record; for bandits, the reward.
    arrivals : ndarray of int64
        Decisions whose feedback arrived, in the order of arrival.
    outstanding : int
        Largest number of tickets that waited at the same time.
    """

    decisions: Releases
    values: FloatArray
    arrivals: IntArray
    outstanding: int


def play_delayed(
    learner: Any, records: tuple[Any, ...], delays: ArrayLike, *, persons: Persons = None
) -> DelayedRun:
    """Let a learner decide T times, with feedback that comes later.

    In step t the learner decides and issues ticket t. Then all feedback that is due in step t
    arrives, earlier tickets first. After the last step the remaining feedback arrives in the same
    order. Without delay these are the decisions of ``run``, bit for bit.

    Parameters
    ----------
    learner : learner with tickets
        Learner with at least T rounds left. `losses.CustomLoss` is not supported.
    records : tuple of array_like
        In the form for the learner's ``run``, with T rows each: ``(features, labels)``,
        ``(gradients,)``, ``(losses,)``; for a bandit ``(contexts, rewards)`` with the rewards of
        all arms.
    delays : int or array_like of int, shape (T,)
        Steps between each decision and its feedback. -1 means that the feedback never comes and the
        ticket expires after the last step. The delays are fixed in advance, as the guarantee
        requires.
    persons : array_like of int, str or bytes, optional
        The persons behind the rounds, one per round, if the learner enforces a participation.

    Returns
    -------
    DelayedRun
        Decisions and their losses or rewards; not private.

    Raises
    ------
    HorizonExceeded
        If fewer rounds are left.
    ValueError, TypeError
        Wrong shape or dtype.

    Notes
    -----
    O(T) in addition to the learner's own work and the outstanding tickets.
    """
    rows = [float_array("records", part, (None, *np.shape(part)[1:])) for part in records]
    steps = int(rows[0].shape[0]) if rows else 0
    if any(part.shape[0] != steps for part in rows):
        raise ValueError("records must have one row for each decision")
    waits = _check_delays(delays, steps)
    named = _person_arguments(learner, persons, steps)
    contextual = hasattr(learner, "arms")
    decisions: list[Any] = []
    values = np.empty(steps)
    arrivals: list[int] = []
    due: dict[int, list[int]] = {}
    tickets: dict[int, Ticket] = {}
    most = 0

    def arrive(step: int) -> None:
        """Give the learner all feedback that is due in this step, earlier tickets first."""
        for t in due.pop(step, ()):
            record = (rows[1][t, decisions[t]],) if contextual else tuple(r[t] for r in rows)
            learner.observe(*record, ticket=tickets.pop(t), **named[t])
            arrivals.append(t)

    for t in range(steps):
        given = (rows[0][t],) if contextual else ()
        decision, tickets[t] = learner.decide(*given, ticket=True)
        decisions.append(decision)
        # Evaluate the decision on its own record immediately; only the learner has the delay.
        values[t] = _value(learner, [part[t : t + 1] for part in rows], decision)
        most = max(most, len(tickets))
        if waits[t] >= 0:
            due.setdefault(t + int(waits[t]), []).append(t)
        arrive(t)
    # These arrive after the last decision.
    for step in sorted(due):
        arrive(step)
    for ticket in tickets.values():
        # Their feedback never comes, so their rounds of the horizon become free.
        learner.expire(ticket)
    return DelayedRun(np.array(decisions), values, np.array(arrivals, dtype=np.int64), most)


def _check_delays(delays: ArrayLike, steps: int) -> IntArray:
    """Return the delay of each decision, shape (T,), or raise."""
    waits = np.asarray(delays)
    if waits.dtype.kind not in "iu" or waits.shape not in ((), (steps,)):
        raise TypeError(f"delays must be an int or {steps} ints; got {waits.dtype} {waits.shape}")
    # A number above 2^63 would become -1, which means that feedback never comes.
    if waits.size and not -1 <= int(waits.min()) <= int(waits.max()) < 2**63:
        raise ValueError("delays must be at least 0, or -1 for never")
    return np.broadcast_to(waits.astype(np.int64), (steps,))


def _value(learner: Any, rows: list[FloatArray], decision: ArrayLike) -> float:
    """Return the value of a decision on its record, shapes (1, ...)."""
    if isinstance(decision, int):  # an expert's loss, or an arm's reward
        return float(rows[-1][0, decision])
    # Losses are known on a net, and decisions are its points up to their last digits.
    if hasattr(learner, "points"):
        nearest = int(np.argmin(np.sum((learner.points - decision) ** 2, axis=1)))
        return float(rows[0][0, nearest])
    labels = rows[1] if len(rows) > 1 else None
    return float(learner.loss.batch_values(learner.domain, decision, rows[0], labels)[0])
