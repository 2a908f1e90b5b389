"""Shared parts of learners of generalised linear, linear and custom losses: records, rounds."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco import _core, domains, losses
from dpoco._clipping import Flags
from dpoco._validation import Fields, FloatArray, Named, float_array, number, positive_int
from dpoco.learning.calibrated import AnyPlan
from dpoco.learning.learner import BRIEF, Admit, OnlineLearner, Progress, empty_rows
from dpoco.learning.participation import Persons
from dpoco.learning.tickets import Ticket
from dpoco.trace import Trace

# Returns whether a record is admitted. Called when no other check can refuse the record.
Asks = Callable[[], bool]


class _Log:
    """Losses and decisions of a run that is played in parts.

    Parameters
    ----------
    rounds : int
        Number of rounds.
    dimension : int or None
        Length of the decisions to keep; None keeps no decisions.
    """

    def __init__(self, rounds: int, dimension: int | None) -> None:
        self.losses = np.empty(rounds)
        self.decisions = None if dimension is None else np.empty((rounds, dimension))
        # Number of kept decisions, each of which differs from the one before.
        self._kept = 0
        # Rounds with a decision that differs from the one before.
        self._fresh = np.ones(rounds + 1, dtype=np.uint8)
        # A change after round t gives round t + 1 a fresh decision; the first round always has one.
        self.changed = self._fresh[1:]

    def room(self, part: slice) -> FloatArray | None:
        """Return the array for the decisions of the next rounds."""
        if self.decisions is None:
            return None
        return self.decisions[self._kept : self._kept + part.stop - part.start]

    def keep(self, part: slice) -> None:
        """Keep the first decision of each run of equal decisions in these rounds."""
        played = self.room(part)
        if played is None:
            return
        (new,) = self._fresh[part].nonzero()
        # The changed decisions move to the front, and the next part overwrites the rest of the
        # array.
        if len(new) < len(played):
            played[: len(new)] = played[new]
        self._kept += len(new)

    def trace(
        self,
        first_round: int,
        record_decisions: bool,
        loss_of: Callable[[FloatArray], FloatArray],
        flags_of: Callable[[slice], Flags],
        beyond: NDArray[np.bool_],
    ) -> Trace:
        """Return the trace of the run.

        Parameters
        ----------
        first_round : int
            Rounds that the learner had consumed before.
        record_decisions : bool
            Whether the trace has the decisions.
        loss_of, flags_of : callable
            Losses of another decision on the records, and flags of how records were read.
        beyond : ndarray of bool, shape (T,)
            Records that a participation did not admit.
        """
        decisions = None
        if self.decisions is not None and record_decisions:
            decisions = self.decisions[: self._kept]
            if 2 * self._kept <= len(self.losses):
                # The copy is at most half as long, and frees the whole array.
                decisions = decisions.copy()
            decisions.setflags(write=False)
        self.losses.setflags(write=False)
        switches = self.changed.nonzero()[0]
        return Trace(self.losses, switches, first_round, decisions, loss_of, flags_of, beyond)


class RecordLearner(OnlineLearner):
    """Base of the learners whose decisions are vectors and whose rounds are records.

    Subclasses build an engine with ``decision``, ``observe``, ``observe_gradient`` and ``run``. A
    subclass that differentiates custom losses at two decisions also needs ``previous_decision`` and
    ``observe_gradients``.
    """

    # The inherited method, with its type for vectors.
    decide: _core.VectorDecide
    _domain: domains.Domain
    _loss: losses.Loss
    # Rounds per decision.
    _batch: int = 1
    # Frank-Wolfe learners sum weighted gradients at this decision and at the one before
    # (docs/privacy/polyhedral_frank_wolfe.md, "Algorithm").
    # Whether custom losses are differentiated at both decisions.
    _looks_back: ClassVar[bool] = True

    @property
    def _width(self) -> int:
        """Entries that a round touches, by which the length of a chunk is chosen."""
        return self._domain.dimension

    @classmethod
    def _problem(cls, arguments: Named) -> tuple[domains.Domain, losses.Loss]:
        """Return domain and loss, or raise `TypeError` for other objects."""
        domain, loss = arguments["domain"], arguments["loss"]
        if not isinstance(domain, domains.Domain):
            raise TypeError(
                "domain must be one of dpoco.domains, such as LpBall(5, 2.0); got "
                f"{type(domain).__name__}"
            )
        if not isinstance(loss, losses.Loss):
            raise TypeError(
                "loss must be one of dpoco.losses, such as SquaredLoss(1.0, 1.0); "
                f"got {type(loss).__name__}"
            )
        return domain, loss

    def _set_up(self, arguments: Fields, plan: AnyPlan, seeded: bool, claim: _core.Claim) -> None:
        """Build the unstarted learner of a plan, as `Certified._set_up`."""
        self._domain, self._loss = arguments["domain"], arguments["loss"]
        planned = plan.mechanism
        self._batch = getattr(getattr(planned, "scores", planned), "batch", 1)
        super()._set_up(arguments, plan, seeded, claim)

    def _entries(self) -> dict[str, float]:
        return {"decisions and gradients": 4.0 * self._domain.dimension}

    @property
    def domain(self) -> domains.Domain:
        """The decision set."""
        return self._domain

    @property
    def loss(self) -> losses.Loss:
        """The loss family with its public bounds."""
        return self._loss

    @property
    def last_decision(self) -> FloatArray:
        """Decision after the rounds so far, shape (d,); also available past the horizon.

        It costs no privacy, since it is post-processing of releases that the guarantee covers.
        """
        self._check_active()
        return self._decision()

    def _decision(self) -> FloatArray:
        decision: FloatArray = self._engine.decision()
        return decision

    def _plain_parts(self) -> int:
        if self._loss.glm:
            return 2
        return 1 if isinstance(self._loss, losses.LinearLoss) else 0

    @_core.direct_record_observe
    def observe(
        self,
        record: Any,
        label: Any = ...,
        *,
        person: int | str | bytes | None = None,
        ticket: Ticket | None = None,
    ) -> None:
        """End the round with its loss.

        Parameters
        ----------
        record : array_like of shape (d,), or a loss object
            Features for a generalised linear loss, or the gradient for a `LinearLoss`. For a
            `CustomLoss`: a row of its records, or an object with ``gradient(theta) -> (d,)``, which
            is called at this decision and at the previous one.
        label : float or None, optional
            Required by generalised linear losses. None, NaN and pandas's NA mark a missing label;
            such a record counts as zero.
        person : int, str or bytes
            The person behind the record, if the learner enforces a participation. A record beyond
            the limit silently counts as zero.
        ticket : Ticket, optional
            Ticket of the earlier decision that the record belongs to. The round is still played at
            the learner's current decision, and custom losses are asked for gradients there.

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
            records beyond the bounds.

        Notes
        -----
        Records beyond the bounds are silently clipped. Non-finite ones, and those where a value is
        missing, count as zero.
        """
        if ticket is not None:
            return self._arrive(ticket, record, label, person=person)
        turn, decision = self._check_turn()
        if self._loss.glm:
            features = self._vector("features", record)
            if label is ...:
                raise TypeError("label is required by this loss")
            target = number("label", label)
            if self._raises:
                self._refuse_violations(features[None, :], np.array([target]))
            # The learner plays an empty record with the same number of draws, so that no release
            # shows the refusal.
            if not self._admits(turn, person):
                features = np.full_like(features, np.nan)
            self._engine.observe(turn, features, target)
        else:
            if label is not ... and label is not None:
                raise TypeError("this loss takes no label")
            if isinstance(self._loss, losses.LinearLoss):
                gradient = self._vector("gradient", record)
                if self._raises:
                    self._refuse_violations(gradient[None, :], None)
                if not self._admits(turn, person):
                    gradient = np.full_like(gradient, np.nan)
                self._engine.observe_gradient(turn, gradient)
            else:
                assert isinstance(self._loss, losses.CustomLoss)
                loss_object = self._loss.of_record(record)
                self._observe_custom(
                    loss_object, turn, decision, lambda: self._admits(turn, person)
                )

    def _vector(self, name: str, value: Any) -> FloatArray:
        """Return a vector of the domain's dimension, or raise."""
        return float_array(name, value, (self._domain.dimension,))

    def _observe_custom(self, record: Any, turn: int, decision: FloatArray, asks: Asks) -> None:
        """End a round with a loss object, after all calls of its functions, which may raise."""
        gradient: Callable[[FloatArray], Any] | None = getattr(record, "gradient", None)
        if gradient is None:
            raise TypeError("a custom loss must have a method gradient(theta)")
        found = [self._vector("gradient", gradient(decision))]
        if self._looks_back:
            # The first batch has no earlier decision, and the weight of its gradient is zero.
            before = turn >= self._batch
            last = gradient(self._engine.previous_decision()) if before else found[0]
            found.append(self._vector("gradient", last))
        if self._raises:
            # All gradients of the round are checked before `asks`, which counts the record.
            self._refuse_violations(np.stack(found), None)
        if not asks():
            found = [np.full_like(each, np.nan) for each in found]
        engine = self._engine
        (engine.observe_gradients if self._looks_back else engine.observe_gradient)(turn, *found)

    def _refuse_violations(self, records: FloatArray, labels: FloatArray | None) -> None:
        """Raise `ValueError` for a record beyond the bounds; only for trusted data."""
        row = self._loss._first_violation(self._domain, records, labels)
        if row is not None:
            raise ValueError(f"record {row} is outside the declared bounds or not finite")

    def run(
        self,
        features: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        persons: Persons = None,
        record_decisions: bool = True,
        progress: Progress | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 100_000,
    ) -> Trace:
        """Play many rounds in compiled code, with the interpreter lock released.

        Parameters
        ----------
        features : array_like of shape (T, d) or (T, d, d)
            One record per round: gradients for a `LinearLoss`, matrices for a `QuadraticLoss`, rows
            of shape (T, k) for a `CustomLoss` with functions, whose rounds are played in Python.
        labels : array_like of shape (T,) or (T, d), optional
            Labels of generalised linear losses, vectors of a `QuadraticLoss`.
        persons : array_like of int, str or bytes with shape (T,)
            The persons behind the records, if the learner enforces a participation.
        record_decisions : bool, default True
            Keep the T x d decisions in the trace.
        progress : callable, optional
            Called as ``progress(done, total)`` between chunks of rounds.
        checkpoint : path-like, optional
            State file that is rewritten atomically every `checkpoint_every` rounds and at the end.
        checkpoint_every : int, default 100000
            Rounds between checkpoints.

        Returns
        -------
        Trace
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
        if self._direct and persons is None and progress is None and checkpoint is None:
            positive_int("checkpoint_every", checkpoint_every)
            trace = self._run_briefly(features, labels, bool(record_decisions))
            if trace is not None:
                return trace
        # All records are checked before any round is played.
        rows, targets = self._arrays(features, labels)
        rounds = rows.shape[0]
        if self._raises:
            self._refuse_violations(rows, targets)
        # The losses of refused records are computed from the decisions below.
        keeps = record_decisions or self._limiter is not None
        log = _Log(rounds, self._domain.dimension if keeps else None)

        def play(part: slice, admit: Admit) -> None:
            """Play the rounds of a part, and log the losses, including those of refused records."""
            records, label = rows[part], None if targets is None else targets[part]
            played, lost = log.room(part), log.losses[part]
            passed = admit()
            entering = records if passed is None else empty_rows(records, passed)
            self._play(entering, label, lost, played, log.changed[part])
            # The log has the true losses of refused records.
            if passed is not None and played is not None:
                absent = ~passed
                label = None if label is None else label[absent]
                lost[absent] = self._losses(records[absent], label, played[absent])
            log.keep(part)

        first_round, beyond = self._run_parts(
            rounds, self._width, persons, progress, checkpoint, checkpoint_every, play
        )
        return log.trace(
            first_round, record_decisions, partial(self._losses, rows, targets),
            partial(self._flags, rows, targets), beyond,
        )  # fmt: skip

    def _run_briefly(self, features: Any, labels: Any, record_decisions: bool) -> Trace | None:
        """Return the trace of a short run whose arrays compiled code reads; None if it cannot."""
        with self._alone():
            self._check_active()
            found = self._engine.run_briefly(
                features, labels, self._direct == 2, record_decisions, BRIEF
            )
        if found is None:
            return None
        losses_, decisions, switches, first_round = found
        return Trace(
            losses_, switches, first_round, decisions, partial(self._losses, features, labels),
            partial(self._flags, features, labels),
        )  # fmt: skip

    def _losses(
        self, rows: FloatArray, targets: FloatArray | None, decision: FloatArray
    ) -> FloatArray:
        """Return the losses of decisions on records, shape (T,)."""
        return self._loss.batch_values(self._domain, decision, rows, targets)

    def _flags(self, rows: FloatArray, targets: FloatArray | None, part: slice) -> Flags:
        """Return how some of the records are read."""
        labels = None if targets is None else targets[part]
        custom = isinstance(self._loss, losses.CustomLoss)
        flags = {} if custom else self._loss._flags(self._domain, rows[part], labels)
        return {**flags, "missing": ~np.isfinite(rows[part])} if rows.ndim == 2 else flags

    def _arrays(
        self, features: ArrayLike, labels: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the records of a run, and their labels, or raise."""
        if labels is not None and not self._loss.glm:
            raise TypeError("this loss takes no labels")
        if isinstance(self._loss, losses.CustomLoss):
            if self._raises:
                raise TypeError("run() cannot check custom losses beforehand: use observe()")
            return self._loss.rows(features), None
        rows = float_array("features", features, (None, self._domain.dimension))
        if not self._loss.glm:
            return rows, None
        if labels is None:
            raise TypeError("labels are required by this loss")
        return rows, float_array("labels", labels, (rows.shape[0],))

    def _play(
        self, rows: FloatArray, targets: FloatArray | None, out: FloatArray,
        decisions: FloatArray | None, changed: NDArray[np.uint8],
    ) -> None:  # fmt: skip
        """Play rounds, and write their losses, their decisions and where the decision changes.

        Parameters
        ----------
        rows, targets : ndarray
            Records and labels of n rounds; NaN for refused records.
        out : ndarray, shape (n,)
            Output: losses.
        decisions : ndarray, shape (n, d), or None
            Output: the first decision of each run of equal decisions, at the front of the array;
            for losses in Python, all decisions.
        changed : ndarray of uint8, shape (n,)
            Output: whether the decision changes after a round.
        """
        if not isinstance(self._loss, losses.CustomLoss):
            self._engine.run(rows, targets, out, decisions, changed)
            return
        # The array has one more row than rounds, to see whether the last round changes the
        # decision.
        played = np.empty((len(rows) + 1, self._domain.dimension))
        played[0] = self._decision()
        for t, row in enumerate(rows):
            own = self._loss.of_record(row)
            # The caller has already asked which records of the part are admitted.
            self._observe_custom(own, self.round, played[t], lambda: True)
            played[t + 1] = self._decision()
        changed[:] = np.any(played[1:] != played[:-1], axis=1)
        out[:] = self._loss.batch_values(self._domain, played[:-1], rows, None)
        if decisions is not None:
            decisions[:] = played[:-1]
