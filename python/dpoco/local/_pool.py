"""Many users in one process: the same answers as of single devices, at the speed of arrays."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpoco._validation import choice, positive_float, positive_int
from dpoco.accounting.guarantee import Guarantee
from dpoco.accounting.local_reports import client_guarantee
from dpoco.local._answers import (
    PROTECTIONS,
    bit_randomizer,
    checked_spec,
    likelihoods,
    prepared,
    subset_randomizer,
)
from dpoco.local._client import checked_delta, checked_hypotheses, sources
from dpoco.local._hypotheses import Hypotheses
from dpoco.local._ledgers import Ledgers
from dpoco.local._prediction import label_index
from dpoco.local._queries import Query
from dpoco.local._specs import VECTOR_CHANNELS, ReportBatch, RoundSpec

__all__ = ["ClientPool"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class ClientPool:
    """The devices of many users, each with a budget of its own.

    For simulations, and for gateways that users trust with their labels: a pool sees them all.

    Parameters
    ----------
    hypotheses : Hypotheses
        The class the server learns over.
    users : int
        Number of users, 0 ... users - 1.
    epsilon_max, max_reports, protect, delta_max, simulation_seed
        Of each user, as for `LocalClient`.

    Notes
    -----
    Budgets are kept in memory, 40 bytes a user: they end with the pool.
    """

    def __init__(
        self,
        hypotheses: Hypotheses,
        users: int,
        epsilon_max: float,
        max_reports: int = 1,
        protect: str = "label",
        *,
        delta_max: float = 0.0,
        simulation_seed: int | None = None,
    ) -> None:
        self._hypotheses = checked_hypotheses(hypotheses)
        self._users = positive_int("users", users, maximum=2**31)
        self._epsilon_max = positive_float("epsilon_max", epsilon_max)
        self._max_reports = positive_int("max_reports", max_reports)
        self._protect = choice("protect", protect, PROTECTIONS)
        self._delta_max = checked_delta(delta_max)
        self._source, self._nonces = sources(simulation_seed)
        self._lock = threading.Lock()
        self._ledgers = Ledgers(self._users)

    def respond(
        self, spec: RoundSpec | bytes, x: Any, labels: Any, users: Any = None
    ) -> ReportBatch:
        """Return one private report of each user named, and charge their ledgers.

        Parameters
        ----------
        spec : RoundSpec or bytes
            The round to answer.
        x : object
            The context all share; with ``protect="label_and_context"`` a sequence of one context a
            user (or None for hypotheses without contexts).
        labels : sequence or integer array of shape (n,)
            One label a user; None, -1 or anything that is no label is "no event". Arrays must be
            of integers or objects.
        users : integer array of shape (n,), optional
            Who reports, each at most once; by default all users, in order.

        Returns
        -------
        ReportBatch
            Row i is the report of ``users[i]``.

        Raises
        ------
        ValueError, TypeError
            As `LocalClient.respond`, and for users unknown or named twice. Nothing changed.
        BudgetExceeded
            If one of the users has not enough budget left: nobody has reported.
        """
        with self._lock:
            self._ledgers.check_process()
            spec = checked_spec(spec, self._hypotheses, self._protect)
            members = self._members(users)
            count = self._users if members is None else members.size
            _check_labels(labels, spec.labels)
            if len(labels) != count:
                raise ValueError(f"there must be one label for each of {count} users")
            if self._protect == "label_and_context" and x is not None and len(x) != count:
                raise ValueError(f"there must be one context for each of {count} users")
            draw = self._prepared(spec, x, labels, count)
            self._ledgers.charge(
                members,
                spec.epsilon,
                spec.delta,
                epsilon_max=self._epsilon_max,
                delta_max=self._delta_max,
                max_reports=self._max_reports,
            )
            values = draw()
            nonces = self._nonces.words(count) if count else np.zeros(0, dtype=np.uint64)
        return ReportBatch(
            spec.round, spec.digest, spec.channel, nonces, values, self._source.is_seeded
        )

    @property
    def users(self) -> int:
        """Number of users."""
        return self._users

    @property
    def spent(self) -> FloatArray:
        """Epsilon of all reports so far, of each user, shape (users,)."""
        return self._ledgers.spent

    @property
    def reports(self) -> IntArray:
        """Number of reports so far, of each user, shape (users,)."""
        return self._ledgers.reports.copy()

    def can_answer(self, epsilon: float) -> NDArray[np.bool_]:
        """Return which users have budget for a report with `epsilon`, shape (users,)."""
        return self._ledgers.affordable(None, epsilon, self._epsilon_max, self._max_reports)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all reports of one user together."""
        return client_guarantee(
            epsilon=self._epsilon_max,
            delta=self._delta_max,
            reports=self._max_reports,
            protect=self._protect,
            simulated=self._source.is_seeded,
        )

    def _members(self, users: Any) -> IntArray | None:
        if users is None:
            return None
        try:
            members = np.asarray(users)
        except (TypeError, ValueError):  # the cause's text may quote the argument
            raise TypeError("users must be a sequence of ints") from None
        if members.ndim != 1 or (members.dtype.kind not in "iu" and members.size):
            raise TypeError("users must be a sequence of ints")
        members = members.astype(np.int64)
        if members.size and not 0 <= int(members.min()) <= int(members.max()) < self._users:
            raise ValueError(f"users must be in [0, {self._users})")
        if np.unique(members).size != members.size:
            raise ValueError("a user is named twice")
        return members

    def _prepared(self, spec: RoundSpec, x: Any, labels: Any, count: int) -> Any:
        """Return what draws all reports once they are paid for; fails for public reasons only."""
        if spec.channel in VECTOR_CHANNELS:
            contexts = x if self._protect == "label_and_context" and x is not None else [x] * count
            answers = [
                prepared(spec, self._hypotheses, own, y, self._protect)
                for own, y in zip(contexts, labels, strict=True)
            ]
            return lambda: np.array([answer(self._source) for answer in answers]).reshape(
                count, spec.width
            )
        if spec.channel == "subset":
            assert spec.labels is not None
            if self._hypotheses.kind != "array":
                self._hypotheses.matrix(x)
            subsets = subset_randomizer(spec.labels, spec.subset_size, spec.epsilon)
            own = indices(labels, spec.labels)
            return lambda: subsets.respond_many(own, self._source)
        randomizer = bit_randomizer(spec.epsilon, len(spec.queries))
        tables = self._tables(spec, x, labels, count)

        def draw() -> IntArray:
            bits = [
                randomizer.respond_many(randomizer.thresholds(phi), places, self._source)
                for phi, places in tables
            ]
            return np.stack(bits, axis=1)

        return draw

    def _tables(
        self, spec: RoundSpec, x: Any, labels: Any, count: int
    ) -> list[tuple[FloatArray, IntArray]]:
        """Return, for each query, a list of values and which of them each user has."""
        hypotheses, each = self._hypotheses, np.arange(count)
        private = self._protect == "label_and_context"
        if hypotheses.kind == "likelihood" or (private and x is not None):
            contexts = x if private and x is not None else [x] * count
            rows = np.zeros((hypotheses.count, count))
            for i, (own, y) in enumerate(zip(contexts, labels, strict=True)):
                rows[:, i] = likelihoods(hypotheses, own, y, self._protect)
            if spec.labels is None:
                known = np.array([y is not None for y in labels], dtype=bool)
                label = np.where(known, 0, -1)
            else:
                label = indices(labels, spec.labels)
            return [(_values_at(query, rows, label, spec.labels), each) for query in spec.queries]
        assert spec.labels is not None
        label = indices(labels, spec.labels)
        if count < spec.labels:  # fewer labels than a table would have
            rows = np.ascontiguousarray(hypotheses.columns(x, label).T)
            return [(_values_at(query, rows, label, spec.labels), each) for query in spec.queries]
        matrix = hypotheses.matrix(x)
        # The last entry is the value of no label.
        places = np.where(label < 0, spec.labels, label)
        return [(np.append(query.values(matrix), 0.0), places) for query in spec.queries]

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pool cannot be copied or pickled: copies would spend budgets twice")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()

    def __repr__(self) -> str:
        simulated = ", simulated" if self._source.is_seeded else ""
        return f"<ClientPool: {self._users} users, protects {self._protect}{simulated}>"


def indices(labels: Sequence[Any] | NDArray[Any], count: int) -> IntArray:
    """Return labels as integers in [0, count), -1 for whatever is none."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu" and labels.ndim == 1:
        inside = (labels >= 0) & (labels < count)
        # Of 64 signed bits first: -1 has no place among narrow or unsigned integers.
        out = np.full(labels.shape, -1, dtype=np.int64)
        out[inside] = labels[inside]
        return out
    found = (label_index(y, count) for y in labels)
    return np.array([-1 if index is None else index for index in found], dtype=np.int64)


def _check_labels(labels: Any, count: int | None) -> None:
    """Raise for an array that can hold no labels of a finite set: type and shape are public."""
    if count is None or not isinstance(labels, np.ndarray):
        return
    if labels.dtype.kind not in "iuO":
        raise TypeError(f"labels must be integers; got an array of {labels.dtype.name}")
    if labels.ndim != 1:
        raise ValueError(f"labels must have one dimension; got {labels.ndim}")


def _values_at(query: Query, rows: FloatArray, label: IntArray, labels: int | None) -> FloatArray:
    """Return the query's values at given labels; column i of `rows` belongs to ``label[i]``."""
    if labels == 1 or label.size == 0:
        return np.zeros(label.size)
    return np.where(label < 0, 0.0, query.values_at(rows, label))
