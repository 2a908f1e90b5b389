"""Games: a learner, a stream, and comparators for the learner.

Classification data become a bandit problem as in Beygelzimer and Langford, "The offset tree for
learning with partial labels" (2009): an arm is a class, and the learner only finds out whether the
chosen class is right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._clipping import Flags, admitted_losses, checked_range
from dpoco._validation import Fields, FloatArray, Named, float_array, positive_int, whole_number
from dpoco.accounting import Budget, Guarantee
from dpoco.datasets import Stream
from dpoco.domains import Domain
from dpoco.evaluation import _comparators as hindsight
from dpoco.learners import LEARNERS
from dpoco.losses import MarginLoss
from dpoco.random import Source
from dpoco.ranges import RangeFinder
from dpoco.trace import average_over, counted_rounds

Maker = Callable[..., Any]  # the class of a learner


@dataclass(frozen=True)
class Comparators:
    """The best decisions in hindsight: facts about all players, and losses of two, shape (T,).

    Attributes
    ----------
    fixed, constant : dict
        In the form of ``best_fixed`` and ``best_constant`` of a report.
    fixed_losses, constant_losses : ndarray of float64, shape (T,)
        Their losses, round by round.
    others : tuple of dict
        Further players.
    """

    fixed: Fields
    fixed_losses: FloatArray
    constant: Fields
    constant_losses: FloatArray
    others: tuple[Fields, ...] = ()


@dataclass(frozen=True, eq=False)
class Game:
    """A learner on a stream.

    Attributes
    ----------
    learner : callable
        Class of the learner.
    problem : tuple
        Its first arguments.
    horizon : int
        Rounds (for a one-time fit: records) that the guarantee covers.
    options : dict
        Its further arguments.
    data : tuple of array_like
        Arguments of its ``run``, one row per round.
    comparators : callable
        Takes a slice of the rows and a learner, and returns their `Comparators`.
    domain, loss, stream : dict
        Description of the rows in the report.
    nonprivate_flags : mapping of str to ndarray of bool
        Earlier changes to the stream.
    persons : sequence of int, str or bytes, or None
        The persons behind the rows, if the learner enforces a participation.
    chosen : str
        Reason for this learner, if it was chosen for the user.
    records : Stream, optional
        The labelled records, if the learner uses such records.
    described : dict, optional
        How the records were read, stored with the learner's state.
    counted : ndarray of bool, shape (T,)
        Rounds whose data are not missing, over which losses are averaged.
    search : Guarantee, optional
        Guarantee of a search for ranges in earlier rounds of the same stream.
    finder : RangeFinder, optional
        This search, if it is complete and the learner has not started.
    """

    learner: Maker
    problem: tuple[Any, ...]
    horizon: int
    options: Fields
    data: tuple[Any, ...]
    comparators: Callable[[slice, Any], Comparators]
    domain: Fields
    loss: Fields
    stream: Fields
    nonprivate_flags: Flags = field(default_factory=dict)
    persons: Sequence[Any] | None = None
    chosen: str = ""
    records: Stream | None = None
    described: Fields | None = None
    counted: NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, dtype=bool))
    search: Guarantee | None = None
    finder: RangeFinder | None = None
    _known: dict[Budget | None, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def fixes(self) -> tuple[str, ...]:
        """Names of the attributes that a learner must share with the one it continues."""
        # The problem is given by position; its names are the first parameters of the constructor.
        arguments = list(inspect.signature(self.learner).parameters)
        return (*arguments[: len(self.problem)], "plan")

    def build(self, budget: Budget | None, source: Source | None = None) -> Any:
        """Return an unstarted learner; it is calibrated once per budget."""
        arguments = inspect.signature(self.learner).parameters
        covered = "records" if "records" in arguments else "horizon"
        options = dict(self.options)
        # A plan depends on the budget and not on noise, so runs at one budget share it.
        if budget in self._known:
            options["plan"] = self._known[budget]
        made = self.learner(
            *self.problem, **{covered: self.horizon}, budget=budget, source=source, **options
        )
        if "plan" in arguments:
            # A search for parameters takes seconds, and repeated runs need the same plan.
            self._known[budget] = made.plan
        if self.finder is not None:
            self.finder.hand_over(made)
        return made


def totals(losses: FloatArray, counted: NDArray[np.bool_]) -> dict[str, float]:
    """Return a comparator's fields of a report from its losses, shape (T,)."""
    return {"average_loss": average_over(losses, counted), "total_loss": float(losses.sum())}


def _facts(name: str, about: str, given: Named | None, **more: object) -> Fields:
    """Return a stream's facts for a report; the caller's facts replace the usual ones."""
    return {"name": name, "description": about, "scaling": "none", **(given or {}), **more}


def _check_horizon(horizon: int | None, rows: int) -> int:
    """Return the number of rounds that the guarantee covers; by default, the stream's length."""
    return rows if horizon is None else positive_int("horizon", horizon)


def game_of_records(
    learner: Maker,
    stream: Stream,
    domain: Domain,
    loss: MarginLoss,
    *,
    horizon: int | None = None,
    persons: Sequence[Any] | None = None,
    **options: object,
) -> Game:
    """Return the game of a learner of convex losses, or of a one-time fit, on a stream.

    Parameters
    ----------
    learner : class
        A learner of records, or a one-time fit, of `dpoco.oco` or `dpoco.frank_wolfe`.
    stream : Stream
        Rows past the horizon are left out.
    domain, loss
        The problem; a generalised linear loss.
    horizon : int, optional
        Rounds (for a one-time fit: records) that the guarantee covers; for a learner to be
        continued, its own horizon. Default: the stream's length.
    persons : array_like of int, str or bytes with shape (T,), optional
        The persons behind the rows, if the learner enforces a participation.
    **options
        Further arguments of the learner: participation, noise, sum_method, batch, ...

    Returns
    -------
    Game
        For `compare_private`. Its comparators are the best fixed decision
        and the best constant prediction.

    Raises
    ------
    TypeError
        For a loss that is not a generalised linear one.
    """
    if not loss.glm:
        raise TypeError("a comparison on records needs a generalised linear loss")
    counted = counted_rounds(stream.features, stream.labels)

    def comparators(part: slice, learner: Any) -> Comparators:
        features, labels = stream.features[part], stream.labels[part]
        fixed = hindsight.best_fixed_decision(domain, loss, features, labels)
        present = hindsight.present_labels(features, labels)
        constant = hindsight.best_constant_prediction(loss, present)
        own = counted[part]
        best = loss.batch_values(domain, fixed.decision, features, labels)
        flat = hindsight.constant_losses(loss, constant.prediction, present)
        # The solver's gap is for the mean over all rounds, but averages are over the counted ones.
        gap = fixed.gap * len(own) / max(1, int(np.count_nonzero(own)))
        return Comparators(
            {**asdict(fixed), **totals(best, own), "gap": gap, "decision": fixed.decision.tolist()},
            best,
            {**asdict(constant), **totals(flat, own)},
            flat,
        )

    return Game(
        learner, (domain, loss), _check_horizon(horizon, len(stream)), options,
        (stream.features, stream.labels), comparators, domain.to_dict(), loss.to_dict(),
        stream.summary(), stream.nonprivate_flags, persons, records=stream, counted=counted,
    )  # fmt: skip


def game_of_experts(
    learner: Maker,
    losses: ArrayLike,
    *,
    horizon: int | None = None,
    persons: Sequence[Any] | None = None,
    stream: Named | None = None,
    **options: object,
) -> Game:
    """Return the game of a learner of experts.

    Parameters
    ----------
    learner : class
        A class of `dpoco.experts`.
    losses : array_like of shape (T, N)
        Losses of all experts; rounds past the horizon are left out.
    horizon, persons, **options
        As for `game_of_records`.
    stream : dict, optional
        Public facts about the stream for the report: ``name``, ``description``, ``scaling``.

    Returns
    -------
    Game
        Its comparators are the best expert, ``best_fixed`` of a report, and a uniformly random one,
        in expectation, ``best_constant``.

    Raises
    ------
    ValueError, TypeError
        For losses of another shape.
    """
    rows = float_array("losses", losses, (None, None))
    if rows.size == 0:
        raise ValueError(f"losses must have rounds and experts; got shape {rows.shape}")
    experts = rows.shape[1]
    loss_range = checked_range(options.get("loss_range", (0.0, 1.0)))
    counted = counted_rounds(rows, experts=True)

    def comparators(part: slice, learner: Any) -> Comparators:
        # As read by learners: a comparator with raw losses could not be beaten.
        read = admitted_losses(rows[part], *loss_range)
        best = hindsight.best_expert(read, loss_range=loss_range)
        mean, own, counts = read.mean(axis=1), read[:, best.decision], counted[part]
        return Comparators(
            {"name": "best expert", **asdict(best), **totals(own, counts), "gap": 0.0,
             "iterations": 0},
            own,
            {"name": "uniformly random expert", **totals(mean, counts)},
            mean,
        )  # fmt: skip

    return Game(
        learner, (experts,), _check_horizon(horizon, len(rows)), options, (rows,), comparators,
        {"type": "experts", "experts": experts},
        {"type": "losses of experts", "loss_range": list(loss_range)},
        _facts("losses", "Losses of experts", stream, dimension=experts), persons=persons,
        counted=counted,
    )  # fmt: skip


def class_rewards(labels: ArrayLike, classes: int, *, first: int = 0) -> FloatArray:
    """Return the rewards of a classification problem whose arms are its classes.

    Parameters
    ----------
    labels : array_like of shape (T,)
        Codes of the classes: whole numbers, starting at `first`.
    classes : int
        Number of classes, which is public; at least 2.
    first : int, default 0
        Code of the first class.

    Returns
    -------
    ndarray of float64, shape (T, classes)
        1 for the arm of the right class and 0 for the others. 0 for all arms if the label is not
        one of the classes, and NaN if it is not finite.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    codes = float_array("labels", labels, (None,))
    count = whole_number("classes", classes, 2)
    start = whole_number("first", first, -(2**53))
    table: FloatArray = (codes[:, None] == np.arange(start, start + count)).astype(np.float64)
    # A missing label is not a wrong answer of every arm; NaN is a reward that never came.
    table[~np.isfinite(codes)] = np.nan
    return table


def game_of_arms(
    learner: Maker,
    contexts: ArrayLike,
    rewards: ArrayLike,
    *,
    horizon: int | None = None,
    persons: Sequence[Any] | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    domain: Domain | None = None,
    stream: Named | None = None,
    nonprivate_flags: Flags | None = None,
    **options: object,
) -> Game:
    """Return the game of a contextual bandit.

    A learner sees only the reward of the arm that it chose; the comparators see all rewards.

    Parameters
    ----------
    learner : class
        A class of `dpoco.bandits`.
    contexts : array_like of shape (T, d)
        One context per round; rounds after the horizon are left out.
    rewards : array_like of shape (T, K)
        Rewards of all arms, for example from `class_rewards`.
    horizon, persons
        As for `game_of_records`.
    reward_range : tuple of two floats, default (0, 1)
        Public range of the rewards, declared to the learner. Values outside are clipped, and a
        missing one counts as the middle of the range (0 with a logistic link).
    domain : Domain, optional
        Set of the coefficients of an arm, for a learner that takes one instead of a dimension.
    stream : dict, optional
        Public facts about the stream for the report: ``name``, ``description``, ``scaling``.
    nonprivate_flags : mapping of str to ndarray of bool, optional
        Earlier changes to the stream, of shape (T,) or (T, columns), for the report's
        ``nonprivate_records``, as in `dpoco.datasets.Stream`.
    **options
        Further arguments of the learner. ``context_bound`` is required; ``reward_bound`` is set.

    Returns
    -------
    Game
        Losses are the largest reward of the range minus the reward. The comparators are the linear
        policy from least squares in hindsight, ``best_fixed`` of a report; the best single arm,
        ``best_constant``; and a uniformly random arm, in expectation. The best linear policy is
        hard to find, so regret against the fitted one may be negative.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.

    Notes
    -----
    Learners declare rewards in [-b, b]. The rewards are shifted so that their range is symmetric
    and no noise is wasted. With a logistic link they are in [0, 1] without a shift.
    """
    if ("domain" in inspect.signature(learner).parameters) != isinstance(domain, Domain):
        raise TypeError("domain is for bandits that take one for dimension, and they need it")
    seen = float_array("contexts", contexts, (None, None))
    table = float_array("rewards", rewards, (None, None))
    if len(seen) != len(table):
        raise ValueError("contexts and rewards must have the same number of rounds")
    if table.size == 0 or seen.size == 0:
        raise ValueError("contexts and rewards must have rounds and columns")
    low, high = checked_range(reward_range, "reward_range")
    arms, dimension = table.shape[1], seen.shape[1]
    counted = counted_rounds(seen, table)
    # Half the range is the bound on rewards, to which noise is proportional.
    top = (high - low) / 2.0
    bounds = (-top, top)
    if options.get("link") == "logistic":
        if (low, high) != (0.0, 1.0):
            raise ValueError("rewards of a logistic link must have the range (0, 1)")
        top, bounds = 1.0, (0.0, 1.0)
    else:
        table = table - (low + top)
        options["reward_bound"] = top

    def comparators(part: slice, learner: Any) -> Comparators:
        # As read by learners: missing rewards count as 0, and contexts that are not finite as zero.
        read = np.where(np.isfinite(table[part]), np.clip(table[part], *bounds), 0.0)
        there = np.isfinite(seen[part]).all(axis=1, keepdims=True)
        known = np.where(there, seen[part], 0.0)
        losses = top - read
        # It uses the rewards of all arms at once: the policy is a comparator with data that no
        # bandit has.
        weights = np.asarray(np.linalg.lstsq(known, top - losses, rcond=None)[0], np.float64)
        fitted = losses[np.arange(len(losses)), np.argmax(known @ weights, axis=1)]
        # Ties go to the first arm, so that a report depends on the stream alone.
        arm = int(np.argmin(losses.sum(axis=0)))
        counts = counted[part]
        policy = {"name": "least-squares linear policy", "decision": weights.T.tolist()}
        return Comparators(
            {**policy, **totals(fitted, counts)},
            fitted,
            {"name": "best single arm", "decision": arm,
             **totals(losses[:, arm], counts)},
            losses[:, arm],
            ({"name": "uniformly random arm", **totals(losses.mean(axis=1), counts)},),
        )  # fmt: skip

    policies = {"type": "policies", "arms": arms, "dimension": dimension}
    return Game(
        learner, (arms, dimension if domain is None else domain),
        _check_horizon(horizon, len(seen)), options, (seen, table), comparators,
        policies if domain is None else {**policies, "coefficients": domain.to_dict()},
        {"type": "largest reward - reward", "reward_range": [low, high]},
        _facts("contexts", "Contexts and rewards", stream, dimension=dimension, arms=arms),
        nonprivate_flags or {}, persons, counted=counted,
    )  # fmt: skip


def game_of_functions(
    losses: Sequence[Callable[[FloatArray], Any]],
    domain: Domain,
    *,
    horizon: int | None = None,
    persons: Sequence[Any] | None = None,
    stream: Named | None = None,
    nonprivate_flags: Flags | None = None,
    **options: Any,
) -> Game:
    """Return the game of the learner of Lipschitz losses, of `dpoco.oco`.

    Parameters
    ----------
    losses : sequence of callable
        One loss per round, a function from points, shape (N, d), to their losses, shape (N,).
        Rounds past the horizon are left out.
    domain
        The learner's domain, of one or two dimensions.
    horizon, persons
        As for `game_of_records`.
    stream, nonprivate_flags
        As for `game_of_arms`.
    **options
        Further arguments of the learner; ``lipschitz`` is required.

    Returns
    -------
    Game
        Its comparators are the best point of the learner's net, ``best_fixed`` of a report, whose
        ``gap`` bounds how far its average loss is above that of the best decision, for losses that
        satisfy ``lipschitz``; and the middle of the domain, ``best_constant``.

    Raises
    ------
    ValueError
        Without losses.
    """
    rows = list(losses)
    if not rows:
        raise ValueError("losses must have rounds")
    (learner,) = (each for each in LEARNERS if each.plays == "surface")
    missing = (nonprivate_flags or {}).get("missing", np.zeros((len(rows), 1), dtype=bool))
    counted = ~np.any(np.reshape(missing, (len(rows), -1)), axis=1)

    def comparators(part: slice, learner: Any) -> Comparators:
        points, middle = learner.points, np.asarray(domain.center, np.float64)[None, :]
        # One loss at a time, because a table of all rounds and points would need T times N numbers.
        total = np.zeros(len(points))
        for loss in rows[part]:
            total += _finite(loss(points))
        best = int(np.argmin(total))
        own, still = (
            np.array([float(_finite(loss(place))[0]) for loss in rows[part]])
            for place in (points[best : best + 1], middle)
        )
        # The distance of any decision from the net is at most half a cell's diagonal.
        spans = [np.unique(axis) for axis in learner.net.T]
        sides = [float(np.diff(axis).max()) if len(axis) > 1 else 0.0 for axis in spans]
        gap = learner.plan.mechanism.summand.lipschitz * 0.5 * float(np.linalg.norm(sides))
        return Comparators(
            {"name": "best net point", "decision": points[best].tolist(),
             **totals(own, counted[part]), "gap": gap},
            own,
            {"name": "middle of the domain", "decision": middle[0].tolist(),
             **totals(still, counted[part])},
            still,
        )  # fmt: skip

    return Game(
        learner.load(), (domain,), _check_horizon(horizon, len(rows)), options, (rows,),
        comparators, domain.to_dict(),
        {"type": "Lipschitz losses", "lipschitz": float(options["lipschitz"])},
        _facts("losses", "Lipschitz losses", stream, dimension=int(domain.dimension)),
        nonprivate_flags or {}, persons, counted=counted,
    )  # fmt: skip


def _finite(values: ArrayLike) -> FloatArray:
    """Return losses, with 0 in place of values that are not finite, as counted by the learner."""
    array = np.asarray(values, np.float64)
    return np.where(np.isfinite(array), array, 0.0)
