"""Games: a learner, a stream, and the comparators of the learner.

Classification data become a bandit problem as in Beygelzimer and Langford, "The offset tree for
learning with partial labels" (2009): an arm is a class, and the learner only finds out whether the
chosen class is right.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._clipping import admitted_losses, checked_range
from dpoco._validation import FloatArray, float_array, whole_number
from dpoco.accounting import Budget
from dpoco.bandits import HighDimensionalBandit
from dpoco.datasets import Stream
from dpoco.domains import Domain
from dpoco.evaluation import _comparators as hindsight
from dpoco.oco import LipschitzLearner
from dpoco.random import Source
from dpoco.trace import Flags, average_over, counted_rounds

__all__ = ["Comparators", "Game", "game_of_arms", "game_of_experts",
           "game_of_functions", "game_of_records"]  # fmt: skip


@dataclass(frozen=True)
class Comparators:
    """The best decisions in hindsight: facts about the players, and losses of two, shape (T,).

    Attributes
    ----------
    fixed, constant : dict
        As ``best_fixed`` and ``best_constant`` of a report.
    fixed_losses, constant_losses : ndarray of float64, shape (T,)
        Their losses, round by round.
    others : tuple of dict
        Further players.
    """

    fixed: dict[str, Any]
    fixed_losses: FloatArray
    constant: dict[str, Any]
    constant_losses: FloatArray
    others: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class Game:
    """A learner on a stream.

    Attributes
    ----------
    learner : callable
        The class.
    problem : tuple
        Its first arguments.
    horizon : int
        Rounds (for a one-time fit: records) that the guarantee covers.
    options : dict
        Its further arguments.
    data : tuple of array_like
        Arguments of its ``run``, one row per round.
    comparators : callable
        Function of a slice of the rows and a learner that returns their `Comparators`.
    domain, loss, stream : dict
        Description of the rows in the report.
    nonprivate_flags : mapping of str to ndarray of bool
        Earlier changes to the stream.
    persons : sequence of int, str or bytes, or None
        The persons behind the rows, if the learner enforces a participation.
    chosen : str
        The reason for this learner, if it was chosen for the user.
    records : Stream, optional
        The labelled records, where it learns from such.
    described : dict, optional
        How the records were read, to be kept with the learner's state.
    counted : ndarray of bool, shape (T,)
        The rounds whose data are not missing: those that averages of losses are over.
    """

    learner: Callable[..., Any]
    problem: tuple[Any, ...]
    horizon: int
    options: dict[str, Any]
    data: tuple[Any, ...]
    comparators: Callable[[slice, Any], Comparators]
    domain: dict[str, Any]
    loss: dict[str, Any]
    stream: dict[str, Any]
    nonprivate_flags: Flags = field(default_factory=dict)
    persons: Sequence[Any] | None = None
    chosen: str = ""
    records: Stream | None = None
    described: dict[str, Any] | None = None
    counted: NDArray[np.bool_] = field(default_factory=lambda: np.ones(0, dtype=bool))
    _known: dict[Budget | None, Any] = field(default_factory=dict, repr=False)

    @property
    def fixes(self) -> tuple[str, ...]:
        """Names of the attributes that a learner must share with the one it continues."""
        arguments = list(inspect.signature(self.learner).parameters)
        return (*arguments[: len(self.problem)], "parameters")

    def build(self, budget: Budget | None, source: Source | None = None) -> Any:
        """Return an unstarted learner; it is calibrated once per budget."""
        arguments = inspect.signature(self.learner).parameters
        covered = "records" if "records" in arguments else "horizon"
        options = dict(self.options)
        if budget in self._known:
            # What calibration took is in the parameters, and need not be given twice.
            for name in getattr(self.learner, "_options", ()):
                if arguments[name].default is not inspect.Parameter.empty:
                    options.pop(name, None)
            options["parameters"] = self._known[budget]
        made = self.learner(
            *self.problem, **{covered: self.horizon}, budget=budget, source=source, **options
        )
        if "parameters" in arguments:
            self._known[budget] = made.plan
        return made


def totals(losses: FloatArray, counted: NDArray[np.bool_]) -> dict[str, float]:
    """Return what a report holds of the losses of a comparator, shape (T,)."""
    return {"average_loss": average_over(losses, counted), "total_loss": float(losses.sum())}


def _facts(name: str, about: str, given: Mapping[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": about, "scaling": "none", **(given or {}), **more}


def game_of_records(
    learner: Callable[..., Any],
    stream: Stream,
    domain: Domain,
    loss: hindsight.GlmLoss,
    *,
    horizon: int,
    **options: Any,
) -> Game:
    """Return the game of a learner of convex losses, or of a one-time fit, on a stream.

    It is compared with the best fixed decision and the best constant prediction.
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
        gap = fixed.gap * len(own) / max(1, int(np.count_nonzero(own)))
        return Comparators(
            {**asdict(fixed), **totals(best, own), "gap": gap, "decision": fixed.decision.tolist()},
            best,
            {**asdict(constant), **totals(flat, own)},
            flat,
        )

    return Game(
        learner, (domain, loss), horizon, options, (stream.features, stream.labels), comparators,
        domain.to_dict(), loss.to_dict(), stream.summary(), stream.nonprivate_flags,
        records=stream, counted=counted,
    )  # fmt: skip


def game_of_experts(
    learner: Callable[..., Any],
    losses: Any,
    *,
    horizon: int,
    stream: Mapping[str, Any] | None = None,
    **options: Any,
) -> Game:
    """Return the game of a learner of experts on losses, shape (T, N).

    It is compared with the best expert, and with one drawn anew each round, uniformly, in
    expectation.
    """
    rows = float_array("losses", losses, (None, None))
    if rows.size == 0:
        raise ValueError(f"losses must have rounds and experts; got shape {rows.shape}")
    experts = rows.shape[1]
    loss_range = checked_range(options.get("loss_range", (0.0, 1.0)))
    counted = counted_rounds(rows, experts=True)

    def comparators(part: slice, learner: Any) -> Comparators:
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
        learner, (experts,), horizon, options, (rows,), comparators,
        {"type": "experts", "experts": experts},
        {"type": "losses of experts", "loss_range": list(loss_range)},
        _facts("losses", "Losses of experts", stream, dimension=experts), counted=counted,
    )  # fmt: skip


def class_rewards(labels: Any, classes: int, *, first: int = 0) -> FloatArray:
    """Return the rewards of a classification problem whose arms are its classes.

    Parameters
    ----------
    labels : array_like of shape (T,)
        Codes of the classes: whole numbers from `first` on.
    classes : int
        Number of classes, which is public; at least 2.
    first : int, default 0
        Code of the first class.

    Returns
    -------
    ndarray of float64, shape (T, classes)
        1 for the arm of the right class and 0 for the others; 0 for all arms if the label is none
        of the classes, NaN if it is not finite.

    Raises
    ------
    ValueError, TypeError
        For bad arguments.
    """
    codes = float_array("labels", labels, (None,))
    count = whole_number("classes", classes, 2)
    start = whole_number("first", first, -(2**53))
    table: FloatArray = (codes[:, None] == np.arange(start, start + count)).astype(np.float64)
    table[~np.isfinite(codes)] = np.nan
    return table


def game_of_arms(
    learner: Callable[..., Any],
    contexts: Any,
    rewards: Any,
    *,
    horizon: int,
    reward_range: tuple[float, float] = (0.0, 1.0),
    domain: Domain | None = None,
    stream: Mapping[str, Any] | None = None,
    nonprivate_flags: Flags | None = None,
    **options: Any,
) -> Game:
    """Return the game of a contextual bandit on contexts, (T, d), and rewards of all arms, (T, K).

    Learners declare rewards in [-b, b]. The rewards are shifted so that their range is symmetric,
    and no noise is wasted. With a logistic link they are in [0, 1] as they are. The comparators are
    the linear policy that least squares fit, the best single arm, and a random one.
    """
    if (learner is HighDimensionalBandit) != isinstance(domain, Domain):
        raise TypeError("domain belongs to HighDimensionalBandit, which needs one")
    seen = float_array("contexts", contexts, (None, None))
    table = float_array("rewards", rewards, (None, None))
    if len(seen) != len(table):
        raise ValueError("contexts and rewards must have the same number of rounds")
    if table.size == 0 or seen.size == 0:
        raise ValueError("contexts and rewards must have rounds and columns")
    low, high = checked_range(reward_range, "reward_range")
    arms, dimension = table.shape[1], seen.shape[1]
    counted = counted_rounds(seen, table)
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
        # As learners read them: missing rewards count as 0, contexts that are not finite as zero.
        read = np.where(np.isfinite(table[part]), np.clip(table[part], *bounds), 0.0)
        there = np.isfinite(seen[part]).all(axis=1, keepdims=True)
        known = np.where(there, seen[part], 0.0)
        losses = top - read
        weights = np.asarray(np.linalg.lstsq(known, top - losses, rcond=None)[0], np.float64)
        fitted = losses[np.arange(len(losses)), np.argmax(known @ weights, axis=1)]
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
        learner, (arms, dimension if domain is None else domain), horizon, options, (seen, table),
        comparators, policies if domain is None else {**policies, "coefficients": domain.to_dict()},
        {"type": "largest reward - reward", "reward_range": [low, high]},
        _facts("contexts", "Contexts and rewards", stream, dimension=dimension, arms=arms),
        nonprivate_flags or {}, counted=counted,
    )  # fmt: skip


def game_of_functions(
    losses: Sequence[Callable[[FloatArray], Any]],
    domain: Domain,
    *,
    horizon: int,
    stream: Mapping[str, Any] | None = None,
    nonprivate_flags: Flags | None = None,
    **options: Any,
) -> Game:
    """Return the game of `dpoco.oco.LipschitzLearner` on functions from points to losses.

    It is compared with the best point of the learner's net, whose ``gap`` bounds how far its
    average loss is above that of the best decision, and with the middle of the domain.
    """
    rows = list(losses)
    if not rows:
        raise ValueError("losses must have rounds")
    missing = (nonprivate_flags or {}).get("missing", np.zeros((len(rows), 1), dtype=bool))
    counted = ~np.any(missing, axis=1)

    def comparators(part: slice, learner: Any) -> Comparators:
        points, middle = learner.points, np.asarray(domain.center, np.float64)[None, :]
        total = np.zeros(len(points))
        for loss in rows[part]:
            total += _finite(loss(points))
        best = int(np.argmin(total))
        own, still = (
            np.array([float(_finite(loss(place))[0]) for loss in rows[part]])
            for place in (points[best : best + 1], middle)
        )
        # No decision is farther from the net than half a cell's diagonal.
        spans = [np.unique(axis) for axis in learner.net.T]
        sides = [float(np.diff(axis).max()) if len(axis) > 1 else 0.0 for axis in spans]
        gap = learner.plan.lipschitz * 0.5 * float(np.linalg.norm(sides))
        return Comparators(
            {"name": "best net point", "decision": points[best].tolist(),
             **totals(own, counted[part]), "gap": gap},
            own,
            {"name": "middle of the domain", "decision": middle[0].tolist(),
             **totals(still, counted[part])},
            still,
        )  # fmt: skip

    return Game(
        LipschitzLearner, (domain,), horizon, options, (rows,), comparators, domain.to_dict(),
        {"type": "Lipschitz losses", "lipschitz": float(options["lipschitz"])},
        _facts("losses", "Lipschitz losses", stream, dimension=int(domain.dimension)),
        nonprivate_flags or {}, counted=counted,
    )  # fmt: skip


def _finite(values: Any) -> FloatArray:
    """Return losses, 0 where not finite, as the learner counts them."""
    array = np.asarray(values, np.float64)
    return np.where(np.isfinite(array), array, 0.0)
