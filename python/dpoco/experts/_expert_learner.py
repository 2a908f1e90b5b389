"""Shared parts of learners of experts: losses in, an index out."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core
from dpoco._clipping import Flags, admitted_losses, checked_range
from dpoco._validation import Fields, FloatArray, Named, float_array, positive_int
from dpoco.accounting import Guarantee
from dpoco.accounting.epoch_selector import LARGEST_EXPERTS
from dpoco.learning.calibrated import AnyPlan
from dpoco.learning.learner import BRIEF, Admit, OnlineLearner, Progress, empty_rows
from dpoco.learning.participation import Persons
from dpoco.learning.tickets import Ticket
from dpoco.trace import Trace


def _rescale(guarantee: Guarantee, width: float) -> Guarantee:
    """Return the guarantee with its regret, stated for losses in [0, 1], in units of the losses."""
    if width == 1.0:
        return guarantee
    bound = guarantee.regret_bound
    # These details are counts, not losses.
    counts = ("regret bound, rounds", "regret bound, shifts")
    details = {
        name: value * width
        if isinstance(value, float) and name.startswith("regret") and name not in counts
        else value
        for name, value in guarantee.details.items()
    }
    return replace(
        guarantee, regret_bound=None if bound is None else bound * width, details=details
    )


class ExpertTrace(Trace):
    """Losses and decisions of a run with experts. **Not private**: the losses are raw data.

    Comparisons read the array of losses that was passed to ``run``; do not change it.

    Attributes
    ----------
    losses : ndarray of float64, shape (T,)
        Loss of each round's decision, clipped to the declared range.
    switches : ndarray of int64
        Round indices (0-based, increasing) after which the decision changed.
    first_round : int
        Number of rounds that the learner had consumed before this run.
    """

    @property
    def decisions(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Released decisions, shape (T,), int64: the expert played in each round."""
        assert self._decisions is not None
        return self._decisions  # type: ignore[return-value]

    def comparator_losses(self, decision: Any) -> FloatArray:
        """Return the losses, shape (T,), of another choice of experts.

        Parameters
        ----------
        decision : int or array_like of int, shape (T,)
            One expert for all rounds, or one for each.

        Raises
        ------
        ValueError, TypeError
            For other shapes or types, or an expert that does not exist.
        """
        sequence = np.asarray(decision)
        if sequence.dtype.kind not in "iu":
            raise TypeError(f"decision must be integers; got {sequence.dtype}")
        if sequence.shape not in ((), (len(self),)):
            raise ValueError(f"decision must have shape () or ({len(self)},)")
        return self._loss_of(sequence)

    def regret(self, comparator: Any) -> FloatArray:
        """Return cumulative regret against a choice of experts.

        Parameters
        ----------
        comparator : int, array_like of int with shape (T,), or an object with ``decisions``
            For example the result of ``dpoco.evaluation.best_switching_sequence``: dynamic regret.

        Returns
        -------
        ndarray of float64, shape (T,)
        """
        for name in ("decisions", "decision"):
            comparator = getattr(comparator, name, comparator)
        return np.cumsum(self.losses - self.comparator_losses(comparator))

    @classmethod
    def of(
        cls,
        rows: FloatArray,
        own: FloatArray,
        decisions: NDArray[np.int64],
        first_round: int,
        loss_range: tuple[float, float],
        switches: NDArray[np.int64] | None = None,
        beyond: NDArray[np.bool_] | None = None,
    ) -> ExpertTrace:
        """Return the trace of a run on `rows` (T, N); `own` (T,) are losses scaled to [0, 1]."""
        low, high = loss_range
        losses = own if (low, high) == (0.0, 1.0) else low + (high - low) * own
        for array in (losses, decisions):
            array.flags.writeable = False

        def count_loss(sequence: Any) -> FloatArray:
            # Negative indices would wrap around without an error.
            experts = rows.shape[1]
            if np.any(sequence < 0) or np.any(sequence >= experts):
                raise ValueError(f"decision must be below the number of experts, {experts}")
            chosen = rows[np.arange(rows.shape[0]), sequence]
            return admitted_losses(chosen, low, high)

        if switches is None:
            # The decision after the last round was not played.
            switches = (decisions[1:] != decisions[:-1]).nonzero()[0]

        def read_flags(part: slice) -> Flags:
            missing = ~np.isfinite(rows[part])
            outside = (rows[part] < low) | (rows[part] > high)
            return {"missing": missing, "out_of_range": outside & ~missing}

        return cls(
            losses, switches, first_round, decisions, count_loss, read_flags, beyond  # type: ignore[arg-type]
        )  # fmt: skip


class ExpertLearner(OnlineLearner):
    """Base of the learners whose decision is the index of an expert.

    Subclasses take ``experts`` (the number N) first and ``loss_range``; their engine is a
    ``_core.ExpertLearner``.
    """

    _loss_range: tuple[float, float]
    _decoders: ClassVar[dict[str, Callable[[Any], Any]]] = {"loss_range": tuple}

    @classmethod
    def _problem(cls, arguments: Named) -> tuple[Any, ...]:
        checked_range(arguments["loss_range"])
        return (positive_int("experts", arguments["experts"], maximum=LARGEST_EXPERTS),)

    def _set_up(self, arguments: Fields, plan: AnyPlan, seeded: bool, claim: _core.Claim) -> None:
        self._experts = int(arguments["experts"])
        self._loss_range = low, high = checked_range(arguments["loss_range"])
        super()._set_up(arguments, plan, seeded, claim)
        # The engine maps losses to [0, 1], and privacy is stated for these. Only the regret has a
        # unit.
        self._guarantee = _rescale(self._guarantee, high - low)

    def _plain_parts(self) -> int:
        return 1

    def _entries(self) -> dict[str, float]:
        return {"weights and sums of the experts": 3.0 * self._experts}

    def _sizes(self) -> _core.Settings:
        """Return the settings that all engines of experts take."""
        low, high = self._loss_range
        return {"experts": self._experts, "rounds": self._horizon, "low": low, "high": high}

    @classmethod
    def _header_dimension(cls, header: Fields) -> int:
        return int(header["arguments"]["experts"])

    @property
    def experts(self) -> int:
        """Number of experts N; decisions are below it."""
        return self._experts

    def _decision(self) -> int:
        return int(self._engine.decision())

    @overload
    def decide(self, *, ticket: Literal[False] = False) -> int: ...

    @overload
    def decide(self, *, ticket: Literal[True]) -> tuple[int, Ticket]: ...

    @overload
    def decide(self, *, ticket: bool = False) -> int | tuple[int, Ticket]: ...

    @_core.direct_expert_decide
    def decide(self, *, ticket: bool = False) -> int | tuple[int, Ticket]:
        """Return this round's expert, in 0..N-1; it stays the same until `observe`.

        Parameters
        ----------
        ticket : bool, default False
            Return ``(decision, Ticket)``. The feedback may come later, out of order or never, with
            ``observe(losses, ticket=ticket)`` or `expire`. The decision stays the same until some
            feedback arrives. A ticket reserves a round of the horizon.

        Raises
        ------
        HorizonExceeded
            After `horizon` rounds, played or reserved by tickets.
        StateError
            If the learner is a suspended copy.
        """
        decision: int | tuple[int, Ticket] = super().decide(ticket=ticket)
        return decision

    @_core.direct_expert_observe
    def observe(
        self,
        losses: ArrayLike,
        *,
        person: int | str | bytes | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        """End the round with the losses of all experts.

        Parameters
        ----------
        losses : array_like of shape (N,)
            Losses in the declared range. Values outside are silently clipped, and non-finite ones
            count as the lowest loss.
        person : int, str or bytes
            The person behind the losses, if the learner enforces a participation. Losses beyond the
            limit silently count as zero.
        ticket : Ticket, optional
            Ticket of the earlier decision that the losses belong to. The round is still played at
            the learner's current decision, whatever the ticket's.

        Raises
        ------
        RoundOrderError
            If `decide` was not called in this round, or the ticket is not outstanding.
        StateError
            For a ticket of another learner, or a forged one; nothing changes.
        HorizonExceeded
            Past the horizon; nothing is drawn and nothing changes.
        ValueError, TypeError
            For a wrong shape or dtype; nothing changes. With ``on_violation="raise"`` also for
            losses out of range.
        """
        if ticket is not None:
            return self._arrive(ticket, losses, person=person)
        turn, _ = self._check_turn()
        row = float_array("losses", losses, (self._experts,))
        if self._raises:
            self._refuse_violations(row[None, :], turn)
        if not self._admits(turn, person):
            # The engine plays the round with the same number of draws, so that no release shows the
            # refusal.
            row = np.full_like(row, np.nan)
        self._engine.observe(turn, row)

    def _refuse_violations(self, rows: FloatArray, first: int) -> None:
        low, high = self._loss_range
        good = np.all((rows >= low) & (rows <= high), axis=1)
        if not good.all():
            row = first + int(np.argmin(good))
            raise ValueError(f"losses of round {row} are outside the declared range or not finite")

    def run(
        self,
        losses: Any,
        *,
        persons: Persons = None,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100_000,
    ) -> ExpertTrace:
        """Play many rounds in compiled code, with the interpreter lock released.

        Parameters
        ----------
        losses : array_like of shape (T, N)
            Losses of all experts, one row per round.
        persons : array_like of int, str or bytes with shape (T,)
            The persons behind the losses, if the learner enforces a participation.
        progress : callable, optional
            Called as ``progress(done, total)`` between chunks of rounds.
        checkpoint : path-like, optional
            State file that is rewritten atomically every `checkpoint_every` rounds and at the end.
        checkpoint_every : int, default 100000
            Rounds between checkpoints.

        Returns
        -------
        ExpertTrace
            Losses and decisions of these rounds; not private.

        Raises
        ------
        HorizonExceeded
            If fewer than T rounds are left; no round is played.
        ValueError, TypeError
            For a wrong shape or dtype; no round is played.

        Notes
        -----
        The decisions equal those of T calls of `decide` and `observe`, bit for bit. An interrupt
        (Ctrl-C) stops between rounds; `round` is then the number of rounds played.
        """
        plain = persons is None and progress is None and checkpoint is None
        if self._direct and plain:
            positive_int("checkpoint_every", checkpoint_every)
            with self._alone():
                self._check_active()
                # Compiled code plays a short run in one call; it returns None for a long one.
                brief = self._engine.run_briefly(losses, BRIEF)
            if brief is not None:
                lost, indices, switches, first_round = brief
                return ExpertTrace.of(
                    losses, lost, indices, first_round, self._loss_range, switches
                )
        rows = float_array("losses", losses, (None, self._experts))
        rounds = rows.shape[0]
        if self._raises:
            self._refuse_violations(rows, self.round)
        low, high = self._loss_range
        own = np.empty(rounds)
        decisions = np.empty(rounds, dtype=np.int64)

        def play(part: slice, admit: Admit) -> None:
            passed = admit()
            entering = rows[part] if passed is None else empty_rows(rows[part], passed)
            self._engine.run(entering, own[part], decisions[part])
            # The trace has the true losses of refused records.
            if passed is not None:
                left = part.start + np.flatnonzero(~passed)
                lost = admitted_losses(rows[left, decisions[left]], low, high)
                # The engine's entries are scaled to [0, 1].
                own[left] = (lost - low) / (high - low)

        first_round, beyond = self._run_parts(
            rounds, self._experts, persons, progress, checkpoint, checkpoint_every, play
        )
        return ExpertTrace.of(rows, own, decisions, first_round, self._loss_range, beyond=beyond)

    @property
    def nonprivate_violations(self) -> int:
        """Losses clipped or not finite so far. **Not private**: do not publish it.

        Losses beyond the limit of a participation count as not finite.
        """
        return int(self._engine.nonprivate_violations())
