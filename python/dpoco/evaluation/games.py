"""Games: a learner of records, a stream, and the comparators for the learner."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpoco._clipping import Flags
from dpoco._validation import Fields, FloatArray, positive_int
from dpoco.accounting import Budget, Guarantee
from dpoco.datasets import Stream
from dpoco.domains import Domain
from dpoco.evaluation import _comparators as hindsight
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
    """

    fixed: Fields
    fixed_losses: FloatArray
    constant: Fields
    constant_losses: FloatArray


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
        Takes a slice of the rows, and returns their `Comparators`.
    domain, loss, stream : dict
        Description of the rows in the report.
    records : Stream
        The labelled records.
    nonprivate_flags : mapping of str to ndarray of bool
        Earlier changes to the stream.
    persons : sequence of int, str or bytes, or None
        The persons behind the rows, if the learner enforces a participation.
    chosen : str
        Reason for this learner, if it was chosen for the user.
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
    comparators: Callable[[slice], Comparators]
    domain: Fields
    loss: Fields
    stream: Fields
    records: Stream
    nonprivate_flags: Flags = field(default_factory=dict)
    persons: Sequence[Any] | None = None
    chosen: str = ""
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
    covered = len(stream) if horizon is None else positive_int("horizon", horizon)

    def comparators(part: slice) -> Comparators:
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
        learner, (domain, loss), covered, options, (stream.features, stream.labels),
        comparators, domain.to_dict(), loss.to_dict(), stream.summary(), stream,
        stream.nonprivate_flags, persons, counted=counted,
    )  # fmt: skip
