"""How journals and pools play and store each family of learners and mechanisms.

A family converts a caller's batch into the arrays that its learner reads (``parts``), converts
these into one row of doubles per round, of which digests are made (``rows``), and plays many rounds
at once (``play``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpoco._validation import FloatArray, float_array
from dpoco.errors import HorizonExceeded
from dpoco.learners import find_learner
from dpoco.learning.state import REPLACED_CLAIM, Stateful, unpack

Parts = tuple[FloatArray, ...]
# Arrays of a batch, as callers pass them.
Arrays = tuple[ArrayLike, ...]
# One release per round: (n,) int64 or (n, d) float64.
Releases = NDArray[Any]


class Family:
    """Learners whose decisions precede their records; base of the other families.

    Attributes
    ----------
    answers : bool
        Whether a release follows its record, as those of mechanisms do, instead of preceding it.
    contextual : bool
        Whether a decision needs the first part of its round's record, as those of bandits do.
    """

    answers = False
    contextual = False

    def parts(self, learner: Any, batch: Arrays) -> Parts:
        """Return the arrays of the records, with rounds along the first axis; raises for bad ones.

        Parameters
        ----------
        learner : learner or mechanism
            The learner, which has the widths of the arrays.
        batch : tuple of array_like
            Arrays as a caller passes them: see `dpoco.journal.Stream.process`.

        Raises
        ------
        ValueError, TypeError
            For another shape, dtype or number of arrays; the learner does not change.
        """
        raise NotImplementedError

    def rows(self, parts: Parts, releases: Releases | None) -> Parts:
        """Return the rows to digest: one or two matrices (n, w), with one row per round.

        Parameters
        ----------
        parts : tuple of ndarray
            As `parts` returns them.
        releases : ndarray or None
            Releases of these rounds, for learners that see only a part of a record; None if not
            known yet.
        """
        return tuple(part.reshape(part.shape[0], math.prod(part.shape[1:])) for part in parts)

    def play(self, learner: Any, parts: Parts, people: bytes) -> Releases:
        """Play all rounds and return their releases, (n,) int64 or (n, d) float64.

        Parameters
        ----------
        learner : learner or mechanism
            The learner, which advances by these rounds.
        parts : tuple of ndarray
            Records of n rounds. If they do not all fit into the horizon, no round is played.
        people : bytes
            Digests of their persons, 16 bytes each; empty without a participation.
        """
        decisions: Releases = learner.run(*parts, persons=people).decisions
        return decisions

    def upcoming(self, learner: Any) -> Releases | None:
        """Return the current round's release as an array of length 1, if releases precede records.

        None past the horizon.
        """
        if self.answers or self.contextual or learner.round >= learner.horizon:
            return None
        decision = learner.decide()
        kind = np.int64 if isinstance(decision, int) else np.float64
        return np.asarray(decision, dtype=kind)[None]

    def present(self, release: Any) -> Any:
        """Return one release as the learner returns it: a number, or a read-only vector."""
        return release if isinstance(release, np.ndarray) else int(release)

    def record(self, learner: Any, record: Arrays) -> tuple[Any, ...]:
        """Return the record of one round as a batch of length 1."""
        return tuple([part] for part in record)

    def arrival(self, learner: Any, record: Arrays) -> Parts:
        """Return the record of a ticket as a batch of length 1; raises for a bad one."""
        return self.parts(learner, self.record(learner, record))

    def state(self, learner: Any) -> bytes:
        """Return the state that rounds change, without the people who have come, in bytes."""
        state: bytes = learner._engine.state()
        return state


class Vectors(Family):
    """Learners of generalised linear, linear and quadratic losses."""

    def parts(self, learner: Any, batch: Arrays) -> Parts:
        """Return the records of a batch, as the learner's rounds take them."""
        d, labelled, quadratic = learner.domain.dimension, *_labels(learner)
        _expect(batch, 2 if labelled else 1)
        if quadratic:
            matrices = float_array("features", batch[0], (None, d, d))
            return matrices, float_array("labels", batch[1], (matrices.shape[0], d))
        features = float_array("features", batch[0], (None, d))
        if not labelled:
            return (features,)
        return features, float_array("labels", batch[1], (features.shape[0],))

    def record(self, learner: Any, record: Arrays) -> tuple[Any, ...]:
        """Return the batch of one round; a label of None is dropped if the loss takes no labels."""
        unlabelled = record[-1:] and record[-1] is None and not _labels(learner)[0]
        return super().record(learner, record[:-1] if unlabelled else record)


class Experts(Family):
    """Learners whose decision is the index of an expert."""

    def parts(self, learner: Any, batch: Arrays) -> Parts:
        """Return the records of a batch, as the learner's rounds take them."""
        _expect(batch, 1)
        return (float_array("losses", batch[0], (None, learner.experts)),)


class Nets(Family):
    """The learner of Lipschitz losses: arrays of losses on its net, or functions of points."""

    def parts(self, learner: Any, batch: Arrays) -> Parts:
        """Return the records of a batch, as the learner's rounds take them."""
        _expect(batch, 1)
        return (learner.on_net(batch[0]),)


class Bandits(Family):
    """Contexts in, arms out, and the rewards of these arms: (n, d), and (n, K) or (n,).

    The learner sees, and digests contain, only the reward of the chosen arm.
    """

    contextual = True

    def parts(self, learner: Any, batch: Arrays) -> Parts:
        """Return the records of a batch, as the learner's rounds take them."""
        _expect(batch, 2)
        contexts = float_array("contexts", batch[0], (None, learner.dimension))
        return contexts, float_array("rewards", batch[1], (contexts.shape[0], learner.arms))

    def rows(self, parts: Parts, releases: Releases | None) -> Parts:
        """Return the rows to digest."""
        contexts, rewards = parts
        assert releases is not None
        return contexts, rewards[np.arange(rewards.shape[0]), releases][:, None]

    def arrival(self, learner: Any, record: Arrays) -> Parts:
        """Return the record of a ticket as a batch of length 1."""
        # A missing record says that the reward never came.
        _expect(record or (math.nan,), 1)
        return (float_array("reward", record or (math.nan,), (1,)),)


class Sums(Family):
    """Running sums: vectors in, sums out."""

    answers = True

    def parts(self, learner: Any, batch: Arrays) -> Parts:
        """Return the records of a batch, as the learner's rounds take them."""
        _expect(batch, 1)
        return (float_array("values", batch[0], (None, learner.plan.mechanism.summand.size)),)

    def play(self, learner: Any, parts: Parts, people: bytes) -> Releases:
        """Play the rounds, and return what they release."""
        sums: FloatArray = learner.run(*parts)
        return sums


class Answers(Family):
    """Mechanisms that answer one question at a time with a number."""

    answers = True

    def __init__(self, width: Callable[[Any], int | None]) -> None:
        self._width = width

    def present(self, release: Any) -> Any:
        """Return one release as the learner returns it."""
        return bool(release) if self is _QUERIES else int(release)

    def parts(self, learner: Any, batch: Arrays) -> Parts:
        """Return the records of a batch, as the learner's rounds take them."""
        width = self._width(learner)
        if width is not None:
            _expect(batch, 1)
            return (float_array("scores", batch[0], (None, width)),)
        values = float_array("values", batch[0] if batch else None, (None,))
        thresholds: Any = batch[1] if len(batch) > 1 else np.zeros_like(values)
        return values, float_array("thresholds", thresholds, values.shape)

    def play(self, learner: Any, parts: Parts, people: bytes) -> Releases:
        """Play the rounds, and return what they release."""
        rounds = parts[0].shape[0]
        left = learner.horizon - learner.round
        # Either all rounds are played or none, as in the learner's ``run``.
        if rounds > left:
            raise HorizonExceeded(f"rounds asked for: {rounds}, left: {left}")
        ask = learner.select if len(parts) == 1 else learner.test
        # The rounds are played one by one, since the last alarm may end the stream.
        return np.array([ask(*record) for record in zip(*parts, strict=True)], dtype=np.int64)


class Intervals(Family):
    """Monitors, whose rounds have any number of records: a journal has its own calls for them."""

    answers = True

    def parts(self, learner: Any, batch: Arrays) -> Parts:
        """Raise `TypeError`: a round of a monitor is an interval, not a record."""
        raise TypeError("a monitor counts records: see Journal.open_monitor")

    def state(self, learner: Any) -> bytes:
        """Return the state of the running interval: sums, people and views."""
        state: bytes = learner._payload()
        return state


_SCORES = Answers(lambda learner: int(learner.plan.tuning.candidates))
_QUERIES = Answers(lambda learner: None)
_FAMILIES: dict[str, Family] = {
    "records": Vectors(),
    "surface": Nets(),
    "experts": Experts(),
    "arms": Bandits(),
    "sums": Sums(),
    "scores": _SCORES,
    "queries": _QUERIES,
    "intervals": Intervals(),
}


def learner_family(learner: object) -> Family:
    """Return the family of a learner or mechanism.

    Raises
    ------
    TypeError
        If a journal cannot hold it: a learner of another package, a server of local reports (which
        draws no noise), or a learner of custom losses, whose records cannot be compared.
    """
    if not isinstance(learner, Stateful):
        raise TypeError(f"a journal holds dpoco's learners; got {type(learner).__name__}")
    from dpoco.losses import CustomLoss

    if isinstance(getattr(learner, "loss", None), CustomLoss):
        raise TypeError("custom losses cannot be replayed: a journal needs records in arrays")
    known = find_learner(type(learner))
    if known is None or known.plays not in _FAMILIES:
        raise TypeError(f"a journal cannot hold a {type(learner).__name__}: it draws no noise")
    return _FAMILIES[known.plays]


def _labels(learner: Any) -> tuple[bool, bool]:
    """Return whether a learner's loss takes labels, and whether these are vectors."""
    from dpoco.losses import QuadraticLoss

    quadratic = isinstance(learner.loss, QuadraticLoss)
    return learner.loss.glm or quadratic, quadratic


def _expect(batch: Arrays, arrays: int) -> None:
    """Raise `TypeError` unless the batch has this number of arrays."""
    if len(batch) != arrays:
        raise TypeError(f"expected {arrays} arrays of records; got {len(batch)}")


def stored_header(learner: Stateful) -> str:
    """Return the stored description of a learner: its state's header, without tickets."""
    header, _ = unpack(learner._to_bytes())
    header["object"].pop("tickets", None)
    # Equal learners must have equal texts, because a journal stores each header once.
    return json.dumps(header, sort_keys=True)


def continue_learner(prototype: Any, payload: bytes) -> Any:
    """Return a learner like the prototype, continued from the state of a compiled learner.

    Nothing is calibrated or certified again.

    Raises
    ------
    StateError
        If the payload is the state of another learner.
    """
    learner = prototype._sibling(REPLACED_CLAIM)
    learner._go_on(payload)
    return learner
